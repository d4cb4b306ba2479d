"""From texts to vectors: tokenizing, weighting, fields, and correlated words."""

from tercet.text.analyzer import TOKENIZERS, Analyzer
from tercet.text.correlated import CorrelatedWords
from tercet.text.fielded import FieldedVectorizer
from tercet.text.vectorizer import Vectorizer
from tercet.text.vectors import Vectors, vectorize

__all__ = [
    "TOKENIZERS",
    "Analyzer",
    "CorrelatedWords",
    "FieldedVectorizer",
    "Vectorizer",
    "Vectors",
    "vectorize",
]
