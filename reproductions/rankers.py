"""Rankers by the name of their class, as plans name them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from scipy import sparse

from reproductions.rivals import AdaRankRanker, ListNetRanker, PathMeanRanker, QueryExpansion, RankSVMRanker
from tercet.data import Preferences
from tercet.learn import RANKERS, CorrelatedRanker, MultiTaskRanker
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.rls import RLS_RANKERS
from tercet.text import CorrelatedWords

WITH_BASIS = tuple(RLS_RANKERS)  # rows can be basis vectors, and every l2 comes from one decomposition
_RIVALS = (QueryExpansion, CorrelatedWords, CorrelatedRanker, MultiTaskRanker)
_RIVALS_OF_ROWS = (AdaRankRanker, ListNetRanker, PathMeanRanker, RankSVMRanker)
_ALL: dict[str, type[Any]] = {
    **RANKERS,
    **LINEAR_RANKERS,
    **RLS_RANKERS,
    **{cls.__name__: cls for cls in (*_RIVALS, *_RIVALS_OF_ROWS)},
}


def make_ranker(name: str, parameters: dict[str, Any], seed: int = 0) -> Any:
    """Make a silent ranker with this seed; "none" stands for None.

    A ranker, or a map of words, as a parameter is a table with ``ranker`` and parameters.
    """
    cls = _ALL[name]
    accepted = inspect.signature(cls).parameters
    made: dict[str, Any] = {
        key: value for key, value in {"random_state": seed, "verbose": False}.items() if key in accepted
    }
    for key, value in parameters.items():
        if isinstance(value, dict) and "ranker" in value:
            value = make_ranker(value["ranker"], {k: part for k, part in value.items() if k != "ranker"}, seed)
        made[key] = None if isinstance(value, str) and value == "none" else value
    return cls(**made)


def warm_up(name: str) -> None:
    """Compile the kernels of a ranker of words before it is timed."""
    if name not in RANKERS or "rate" not in inspect.signature(RANKERS[name]).parameters:
        return
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    prefs = Preferences([0], [1], [2])
    more = {"second": (X, prefs)} if RANKERS[name] is MultiTaskRanker else {}
    make_ranker(name, {}).fit(X, prefs, X, **more)


def n_used(ranker: Any) -> int | None:
    """Count the features of a fitted ranker of rows; None without feature weights."""
    return int(np.count_nonzero(ranker.coef_)) if hasattr(ranker, "coef_") else None
