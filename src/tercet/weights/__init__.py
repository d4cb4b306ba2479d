"""The value all term-pair models share, and its parts."""

from tercet.weights.base import Explanation, Pairs, Part
from tercet.weights.hashed import Hashed
from tercet.weights.lowrank import LowRank
from tercet.weights.mapped import Mapped
from tercet.weights.plain import Dense, Diagonal, Identity, Sparse
from tercet.weights.value import PARTS, ScoringDevice, Weights, scoring_by

__all__ = [
    "PARTS",
    "Dense",
    "Diagonal",
    "Explanation",
    "Hashed",
    "Identity",
    "LowRank",
    "Mapped",
    "Pairs",
    "Part",
    "ScoringDevice",
    "Sparse",
    "Weights",
    "scoring_by",
]
