"""Learning W from preferences: one file per method, one training loop."""

from tercet.learn.base import TermPairRanker
from tercet.learn.checkpoint import Checkpoint
from tercet.learn.cosine import CosineRanker
from tercet.learn.dense import DenseRanker
from tercet.learn.diagonal import DiagonalRanker
from tercet.learn.grouped import GroupSparseRanker
from tercet.learn.loop import DivergedError, Event
from tercet.learn.lowrank import LowRankRanker
from tercet.learn.sources import ArraySource, HardSource, SampledSource, Source
from tercet.learn.sparse import SparseRanker

RANKERS: dict[str, type[TermPairRanker]] = {
    cls.__name__: cls
    for cls in (CosineRanker, DiagonalRanker, DenseRanker, SparseRanker, GroupSparseRanker, LowRankRanker)
}

__all__ = [
    "RANKERS",
    "ArraySource",
    "Checkpoint",
    "CosineRanker",
    "DenseRanker",
    "DiagonalRanker",
    "DivergedError",
    "Event",
    "GroupSparseRanker",
    "HardSource",
    "LowRankRanker",
    "SampledSource",
    "Source",
    "SparseRanker",
    "TermPairRanker",
]
