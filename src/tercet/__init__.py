"""Tercet learns to rank from preferences: a query, a better document, a worse one.

>>> import tercet as tc
>>> docs = {"a": "cheap flights to rome", "b": "roman history"}
>>> round(tc.Vectoriser().fit(docs.values()).transform_docs(["rome"]).nnz)
1
"""

import logging

from tercet.data.preferences import Preferences
from tercet.learn import (
    Checkpoint,
    CorrelatedRanker,
    CosineRanker,
    DenseRanker,
    DiagonalRanker,
    GroupSparseRanker,
    HardSource,
    HashedRanker,
    LowRankRanker,
    LSIRanker,
    MultiTaskRanker,
    PrunedRanker,
    QueryExpansion,
    RM3Expansion,
    SampledSource,
    SparseRanker,
    WarpSource,
)
from tercet.learn.linear import (
    AdaRankRanker,
    FenchelRanker,
    FTRLRanker,
    ListNetRanker,
    NonconvexRanker,
    ProximalRanker,
    RankSVMRanker,
    RSRanker,
    l1_path,
)
from tercet.loading import load
from tercet.measure import HeldOutQueries, blend, evaluate
from tercet.model import TextModel
from tercet.pictures import picture
from tercet.recipe import fit, fit_labelled
from tercet.text import Analyser, CorrelatedWords, Vectoriser
from tercet.weights import Explanation, Weights

__version__ = "0.1.0"

__all__ = [
    "AdaRankRanker",
    "Analyser",
    "Checkpoint",
    "CorrelatedRanker",
    "CorrelatedWords",
    "CosineRanker",
    "DenseRanker",
    "DiagonalRanker",
    "Explanation",
    "FTRLRanker",
    "FenchelRanker",
    "GroupSparseRanker",
    "HardSource",
    "HashedRanker",
    "HeldOutQueries",
    "LSIRanker",
    "ListNetRanker",
    "LowRankRanker",
    "MultiTaskRanker",
    "NonconvexRanker",
    "Preferences",
    "ProximalRanker",
    "PrunedRanker",
    "QueryExpansion",
    "RM3Expansion",
    "RSRanker",
    "RankSVMRanker",
    "SampledSource",
    "SparseRanker",
    "TextModel",
    "Vectoriser",
    "WarpSource",
    "Weights",
    "blend",
    "evaluate",
    "fit",
    "fit_labelled",
    "l1_path",
    "load",
    "picture",
]

logging.getLogger("tercet").addHandler(logging.NullHandler())
