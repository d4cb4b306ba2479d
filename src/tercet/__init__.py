"""Tercet learns to rank from preferences: a query, a better document, a worse one.

The guides use the names of this module. Packages have the rest: ``tercet.data`` (readers and writers), ``tercet.text``,
``tercet.weights``, ``tercet.learn`` (rankers and sources; ``tercet.learn.linear`` and ``tercet.learn.rls`` for feature
vectors), ``tercet.scale``, ``tercet.measure``, ``tercet.report``, ``tercet.fitting``, ``tercet.search``,
``tercet.engines``, ``tercet.serve``, ``tercet.simulate``. Each package loads on first use.

>>> import tercet as tc
>>> docs = {"a": "cheap flights to rome", "b": "roman history"}
>>> round(tc.Vectorizer().fit(docs.values()).transform_docs(["rome"]).nnz)
1
"""

import logging
from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.data import Documents as Documents
    from tercet.data import Preferences as Preferences
    from tercet.data import as_documents as as_documents
    from tercet.data import query_folds as query_folds
    from tercet.data import read_letor as read_letor
    from tercet.data import read_table as read_table
    from tercet.fitting import FitOptions as FitOptions
    from tercet.fitting import TextModel as TextModel
    from tercet.fitting import fit as fit
    from tercet.fitting import fit_labeled as fit_labeled
    from tercet.fitting import fit_letor as fit_letor
    from tercet.fitting import fit_linked as fit_linked
    from tercet.fitting import fit_parallel as fit_parallel
    from tercet.learn import Checkpoint as Checkpoint
    from tercet.learn import CosineRanker as CosineRanker
    from tercet.learn import DenseRanker as DenseRanker
    from tercet.learn import DiagonalRanker as DiagonalRanker
    from tercet.learn import HashedRanker as HashedRanker
    from tercet.learn import LowRankRanker as LowRankRanker
    from tercet.learn import LSIRanker as LSIRanker
    from tercet.learn import PrunedRanker as PrunedRanker
    from tercet.learn import SparseRanker as SparseRanker
    from tercet.learn.linear import FenchelRanker as FenchelRanker
    from tercet.learn.linear import FTRLRanker as FTRLRanker
    from tercet.learn.linear import MeanRanker as MeanRanker
    from tercet.learn.linear import ProximalRanker as ProximalRanker
    from tercet.learn.rls import RankRLS as RankRLS
    from tercet.learn.rls import RLSRegressor as RLSRegressor
    from tercet.loading import load as load
    from tercet.measure import HeldOutQueries as HeldOutQueries
    from tercet.measure import compare as compare
    from tercet.measure import evaluate as evaluate
    from tercet.measure import measure_rows as measure_rows
    from tercet.measure import scorer as scorer
    from tercet.scale import Cluster as Cluster
    from tercet.search import Index as Index
    from tercet.search import rerank as rerank
    from tercet.text import Analyzer as Analyzer
    from tercet.text import Vectorizer as Vectorizer
    from tercet.weights import Weights as Weights
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.data": ("Documents", "Preferences", "as_documents", "query_folds", "read_letor", "read_table"),
            "tercet.fitting": (
                "FitOptions",
                "TextModel",
                "fit",
                "fit_labeled",
                "fit_letor",
                "fit_linked",
                "fit_parallel",
            ),
            "tercet.learn": (
                "Checkpoint",
                "CosineRanker",
                "DenseRanker",
                "DiagonalRanker",
                "HashedRanker",
                "LSIRanker",
                "LowRankRanker",
                "PrunedRanker",
                "SparseRanker",
            ),
            "tercet.learn.linear": ("FTRLRanker", "FenchelRanker", "MeanRanker", "ProximalRanker"),
            "tercet.learn.rls": ("RLSRegressor", "RankRLS"),
            "tercet.loading": ("load",),
            "tercet.measure": ("HeldOutQueries", "compare", "evaluate", "measure_rows", "scorer"),
            "tercet.scale": ("Cluster",),
            "tercet.search": ("Index", "rerank"),
            "tercet.text": ("Analyzer", "Vectorizer"),
            "tercet.weights": ("Weights",),
        },
        packages=(
            "adapters",
            "data",
            "engines",
            "errors",
            "fitting",
            "learn",
            "measure",
            "report",
            "scale",
            "search",
            "serve",
            "simulate",
            "store",
            "text",
            "weights",
        ),
    )

__version__ = "0.1.0"

logging.getLogger("tercet").addHandler(logging.NullHandler())
