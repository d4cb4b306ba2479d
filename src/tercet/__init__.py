"""Tercet learns to rank from preferences: a query, a better document, a worse one.

>>> import tercet as tc
>>> docs = {"a": "cheap flights to rome", "b": "roman history"}
>>> round(tc.Vectoriser().fit(docs.values()).transform_docs(["rome"]).nnz)
1
"""

import logging

from tercet.data import LetorStream, query_folds, read_letor
from tercet.data.preferences import Preferences
from tercet.fitting.click_log import learn_from_clicks
from tercet.fitting.feature_model import FeatureModel
from tercet.fitting.model import TextModel
from tercet.fitting.recipe import fit, fit_labelled, fit_linked
from tercet.fitting.row_streams import fit_letor_stream
from tercet.fitting.rows import fit_letor, fit_letor_folds
from tercet.fitting.stored import fit_vectors
from tercet.learn import (
    Checkpoint,
    CorrelatedRanker,
    CosineRanker,
    DenseRanker,
    DiagonalRanker,
    GroupSparseRanker,
    HashedRanker,
    LowRankRanker,
    LSIRanker,
    MultiTaskRanker,
    PrunedRanker,
    QueryExpansion,
    RM3Expansion,
    SampledSource,
    SparseRanker,
    StreamSource,
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
from tercet.learn.rls import RankRLS, RLSGrid, RLSPath, RLSRegressor, choose_rls
from tercet.loading import load
from tercet.measure import HeldOutQueries, blend, compare, compare_orders, evaluate
from tercet.pictures import picture
from tercet.scale import Cluster
from tercet.search import Hit, Index, QdrantIndex
from tercet.text import Analyser, CorrelatedWords, Vectoriser, Vectors, vectorise
from tercet.weights import Explanation, Weights

__version__ = "0.1.0"

__all__ = [
    "AdaRankRanker",
    "Analyser",
    "Checkpoint",
    "Cluster",
    "CorrelatedRanker",
    "CorrelatedWords",
    "CosineRanker",
    "DenseRanker",
    "DiagonalRanker",
    "Explanation",
    "FTRLRanker",
    "FeatureModel",
    "FenchelRanker",
    "GroupSparseRanker",
    "HashedRanker",
    "HeldOutQueries",
    "Hit",
    "Index",
    "LSIRanker",
    "LetorStream",
    "ListNetRanker",
    "LowRankRanker",
    "MultiTaskRanker",
    "NonconvexRanker",
    "Preferences",
    "ProximalRanker",
    "PrunedRanker",
    "QdrantIndex",
    "QueryExpansion",
    "RLSGrid",
    "RLSPath",
    "RLSRegressor",
    "RM3Expansion",
    "RSRanker",
    "RankRLS",
    "RankSVMRanker",
    "SampledSource",
    "SparseRanker",
    "StreamSource",
    "TextModel",
    "Vectoriser",
    "Vectors",
    "Weights",
    "blend",
    "choose_rls",
    "compare",
    "compare_orders",
    "evaluate",
    "fit",
    "fit_labelled",
    "fit_letor",
    "fit_letor_folds",
    "fit_letor_stream",
    "fit_linked",
    "fit_vectors",
    "l1_path",
    "learn_from_clicks",
    "load",
    "picture",
    "query_folds",
    "read_letor",
    "vectorise",
]

logging.getLogger("tercet").addHandler(logging.NullHandler())
