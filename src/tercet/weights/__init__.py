"""The value all term-pair models share, and its parts."""

from tercet.weights.explanation import Explanation
from tercet.weights.hashed import Hashed
from tercet.weights.lowrank import LowRank
from tercet.weights.mapped import Mapped
from tercet.weights.part import Pairs, Part
from tercet.weights.parts import Dense, Diagonal, Identity, Sparse
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
