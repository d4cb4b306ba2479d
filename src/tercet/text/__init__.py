"""Words to vectors: how a text is split into words, and how words are weighted."""

from tercet.text.analyser import Analyser
from tercet.text.vectoriser import Vectoriser

__all__ = ["Analyser", "Vectoriser"]
