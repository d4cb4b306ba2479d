"""The value all term-pair models share, and its parts."""

from tercet.weights.explanation import Explanation
from tercet.weights.hashed import Hashed
from tercet.weights.mapped import Mapped
from tercet.weights.parts import Dense, Diagonal, Identity, LowRank, Pairs, Part, Sparse
from tercet.weights.value import Weights

__all__ = [
    "Dense",
    "Diagonal",
    "Explanation",
    "Hashed",
    "Identity",
    "LowRank",
    "Mapped",
    "Pairs",
    "Part",
    "Sparse",
    "Weights",
]
