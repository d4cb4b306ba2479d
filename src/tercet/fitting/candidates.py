"""Learners by name, and the settings of them that are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tercet.errors import InputError
from tercet.learn import DiagonalRanker, LowRankRanker, SparseRanker, TermPairRanker
from tercet.learn.features import FeatureRanker
from tercet.learn.linear import (
    AdaRankRanker,
    FenchelRanker,
    FTRLRanker,
    ListNetRanker,
    NonconvexRanker,
    ProximalRanker,
    RankSVMRanker,
    RSRanker,
)
from tercet.learn.rls import RankRLS

# What is tried, each with the same preferences, and chosen between on validation; found as docs/recipe.md says.
FOR_JUDGEMENTS: Final[tuple[dict[str, Any], ...]] = ({"start": "lsi", "identity_weight": 5.0, "n_components": 200},)
FOR_LABELS: Final[tuple[dict[str, Any], ...]] = (
    {"start": "random", "identity_weight": 1.0, "n_components": 100, "tied": True, "scale_documents": True},
    {"start": "lsi", "identity_weight": 5.0, "n_components": 200},
)
BLENDS = (-0.25, 0.0, 0.5, 1.0, 2.0, 4.0)  # more of the identity, as multiples of the identity weight
MIN_STEPS, MAX_STEPS, STEPS_PER_JUDGEMENT = 100_000, 500_000, 20


def n_steps_for(n_judgements: int) -> int:
    """How many preferences are drawn from so many judgements."""
    return int(np.clip(n_judgements * STEPS_PER_JUDGEMENT, MIN_STEPS, MAX_STEPS))


def fitting_candidate(candidate: Mapping[str, Any], shape: tuple[int, int], *, shared: bool = True) -> dict[str, Any]:
    """A candidate for documents of this shape: one that starts from more directions than there are starts at random.

    Where queries and documents do not share a vocabulary there is no identity to start from.
    """
    if not shared:
        return {"n_components": candidate["n_components"], "diagonal": None}
    if candidate["start"] == "lsi" and min(shape) <= candidate["n_components"]:
        return {**candidate, "start": "random"}
    return dict(candidate)


def low_rank(candidate: Mapping[str, Any], seed: int, verbose: bool | None = None) -> LowRankRanker:
    """The ranker of a candidate."""
    return LowRankRanker(schedule="linear", rate=0.1, random_state=seed, verbose=verbose, **candidate)


# -- by name ----------------------------------------------------------------------------------------------------------

TERM_PAIR_RANKERS: Final[dict[str, type[TermPairRanker]]] = {
    "low-rank": LowRankRanker,
    "sparse": SparseRanker,
    "diagonal": DiagonalRanker,
}
FEATURE_RANKERS: Final[dict[str, Callable[[], FeatureRanker]]] = {
    "ftrl": FTRLRanker,
    "listnet-ftrl": lambda: FTRLRanker(loss="listnet"),
    "proximal": ProximalRanker,
    "fenchel": FenchelRanker,
    "listnet": ListNetRanker,
    "adarank": AdaRankRanker,
    "ranksvm": RankSVMRanker,
    "rsrank": RSRanker,
    "nonconvex": NonconvexRanker,
    "rankrls": RankRLS,
    "rankrls-gaussian": lambda: RankRLS(kernel="gaussian"),
}


def term_pair_ranker(name: str, shape: tuple[int, int], seed: int, *, shared: bool = True) -> TermPairRanker:
    """A term-pair ranker by name for documents of this shape; "low-rank" learns as ``tc.fit`` does from judgements."""
    if name not in TERM_PAIR_RANKERS:
        raise InputError(f"ranker is {name!r}; expected a term-pair ranker, or one of {', '.join(TERM_PAIR_RANKERS)}")
    if name == "low-rank":
        [candidate] = FOR_JUDGEMENTS
        return low_rank(fitting_candidate(candidate, shape, shared=shared), seed)
    return TERM_PAIR_RANKERS[name](random_state=seed)
