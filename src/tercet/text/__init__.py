"""Words to vectors: how a text is split into words, how words are weighted, and which words go together."""

from tercet.text.analyser import TOKENIZERS, Analyser
from tercet.text.correlated import CorrelatedWords
from tercet.text.fielded import FieldedVectoriser
from tercet.text.vectoriser import Vectoriser
from tercet.text.vectors import Vectors, vectorise

__all__ = [
    "TOKENIZERS",
    "Analyser",
    "CorrelatedWords",
    "FieldedVectoriser",
    "Vectoriser",
    "Vectors",
    "vectorise",
]
