"""Learning W from preferences: one file per method, one training loop."""

from tercet.learn.base import NotNegative, Positive, TermPairRanker
from tercet.learn.correlated import CorrelatedRanker
from tercet.learn.cosine import CosineRanker
from tercet.learn.dense import DenseRanker
from tercet.learn.diagonal import DiagonalRanker
from tercet.learn.hashed import HashedRanker
from tercet.learn.loop import Checkpoint, DivergedError, Event
from tercet.learn.lowrank import LowRankRanker
from tercet.learn.lsi import LSIRanker
from tercet.learn.multitask import MultiTaskRanker
from tercet.learn.pruned import PrunedRanker
from tercet.learn.sources import ArraySource, HardSource, SampledSource, Source
from tercet.learn.sparse import SparseRanker

RANKERS: dict[str, type[TermPairRanker]] = {
    cls.__name__: cls
    for cls in (
        CosineRanker,
        DiagonalRanker,
        DenseRanker,
        SparseRanker,
        LowRankRanker,
        MultiTaskRanker,
        LSIRanker,
        PrunedRanker,
        HashedRanker,
        CorrelatedRanker,
    )
}

__all__ = [
    "RANKERS",
    "ArraySource",
    "Checkpoint",
    "CorrelatedRanker",
    "CosineRanker",
    "DenseRanker",
    "DiagonalRanker",
    "DivergedError",
    "Event",
    "HardSource",
    "HashedRanker",
    "LSIRanker",
    "LowRankRanker",
    "MultiTaskRanker",
    "NotNegative",
    "Positive",
    "PrunedRanker",
    "SampledSource",
    "Source",
    "SparseRanker",
    "TermPairRanker",
]
