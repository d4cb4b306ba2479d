"""Linear rankers of feature vectors: ``fit(X, y, qid=qid)``, ``predict(X)``, ``coef_``."""

from tercet.learn.linear.adarank import AdaRankRanker
from tercet.learn.linear.base import LinearRanker
from tercet.learn.linear.fenchel import FenchelRanker
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.listnet import ListNetRanker
from tercet.learn.linear.mean import MeanRanker
from tercet.learn.linear.nonconvex import NonconvexRanker
from tercet.learn.linear.path import L1Path, l1_path
from tercet.learn.linear.proximal import ProximalRanker
from tercet.learn.linear.rsrank import RSRanker
from tercet.learn.linear.svm import RankSVMRanker

LINEAR_RANKERS: dict[str, type[LinearRanker]] = {
    cls.__name__: cls
    for cls in (
        FTRLRanker,
        FenchelRanker,
        ProximalRanker,
        NonconvexRanker,
        RSRanker,
        ListNetRanker,
        AdaRankRanker,
        RankSVMRanker,
        MeanRanker,
    )
}

__all__ = [
    "LINEAR_RANKERS",
    "AdaRankRanker",
    "FTRLRanker",
    "FenchelRanker",
    "L1Path",
    "LinearRanker",
    "ListNetRanker",
    "MeanRanker",
    "NonconvexRanker",
    "ProximalRanker",
    "RSRanker",
    "RankSVMRanker",
    "l1_path",
]
