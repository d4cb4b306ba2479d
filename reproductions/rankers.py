"""Rankers by the name of their class, as plans name them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from scipy import sparse

from reproductions.rivals import CorrelatedLowRank, QueryExpansion
from reproductions.rivals_of_rows import LINEAR_RIVALS
from tercet.data import Preferences
from tercet.learn import RANKERS, CorrelatedRanker, MultiTaskRanker
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.rls import RLS_RANKERS

OF_WORDS: dict[str, type[Any]] = {
    **RANKERS,
    "QueryExpansion": QueryExpansion,
    "CorrelatedLowRank": CorrelatedLowRank,
}
OF_ROWS: dict[str, type[Any]] = {**LINEAR_RANKERS, **RLS_RANKERS, **LINEAR_RIVALS}
WITH_BASIS = tuple(RLS_RANKERS)  # rows can be basis vectors, and every l2 comes from one decomposition
IN_PASSES = ("FTRLRanker",)  # more epochs continue a fit of fewer


def accepted_parameters(cls: type[Any]) -> list[str]:
    return list(inspect.signature(cls).parameters)


def make_ranker(name: str, parameters: dict[str, Any], seed: int = 0) -> Any:
    """Make a silent ranker with this seed; "none" stands for None.

    A ranker as a parameter is a table with ``ranker`` and parameters.
    """
    cls = OF_ROWS[name] if name in OF_ROWS else OF_WORDS[name]
    usual = {"random_state": seed, "verbose": False}
    accepted = accepted_parameters(cls)
    made: dict[str, Any] = {key: value for key, value in usual.items() if key in accepted}
    for key, value in parameters.items():
        if isinstance(value, dict) and "ranker" in value:
            value = make_ranker(value["ranker"], {k: part for k, part in value.items() if k != "ranker"}, seed)
        made[key] = None if isinstance(value, str) and value == "none" else value
    return cls(**made)


def learns_by_steps(name: str) -> bool:
    """True if a ranker of words validates and calls callbacks during learning.

    Examples
    --------
    >>> learns_by_steps("LowRankRanker"), learns_by_steps("CosineRanker")
    (True, False)
    """
    cls = OF_WORDS.get(name)
    return cls is not None and (cls is CorrelatedRanker or "rate" in accepted_parameters(cls))


def warm_up(name: str) -> None:
    """Compile the kernels of a ranker of words before it is timed."""
    if name not in RANKERS or "rate" not in accepted_parameters(RANKERS[name]):
        return
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    prefs = Preferences([0], [1], [2])
    more = {"second": (X, prefs)} if RANKERS[name] is MultiTaskRanker else {}
    make_ranker(name, {}).fit(X, prefs, X, **more)


def n_used(ranker: Any) -> int | None:
    """Count the features of a fitted ranker of rows; None without feature weights."""
    return int(np.count_nonzero(ranker.coef_)) if hasattr(ranker, "coef_") else None
