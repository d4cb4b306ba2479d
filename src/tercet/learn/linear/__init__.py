"""Linear rankers of feature vectors: ``fit(X, y, qid=qid)``, ``predict(X)``, ``coef_``."""

from tercet.learn.linear.base import LinearRanker
from tercet.learn.linear.fenchel import FenchelRanker
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.mean import MeanRanker
from tercet.learn.linear.path import L1Path, l1_path
from tercet.learn.linear.proximal import ProximalRanker

LINEAR_RANKERS: dict[str, type[LinearRanker]] = {
    cls.__name__: cls for cls in (FTRLRanker, FenchelRanker, ProximalRanker, MeanRanker)
}

__all__ = [
    "LINEAR_RANKERS",
    "FTRLRanker",
    "FenchelRanker",
    "L1Path",
    "LinearRanker",
    "MeanRanker",
    "ProximalRanker",
    "l1_path",
]
