"""Latent spaces of two languages: starts from translations, and learning from the starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain, Trial, choose
from tercet.data.sampling import JudgementSampler
from tercet.learn import HardSource, LowRankRanker, MultiTaskRanker, SampledSource
from tercet.learn.lsi import common_directions, directions_of
from tercet.learn.starts import for_cosine
from tercet.measure.held_out import HeldOut
from tercet.weights import LowRank, Weights

CL_LSI, RIDGE_MAP, BOTH = "CL-LSI", "ridge map", "both"  # names of starts in the report
WIDTHS: Final = (25, 50, 100, 200, 400)
# Rates for latent vectors of length 1; a step on the cosine counts by the inverse square of the length.
FOR_TRANSLATIONS: Final = {"margin": 0.1, "rate": 0.02}
FOR_JUDGEMENTS: Final = {"margin": 0.5, "rate": 0.1}
_HARD, _DEPTH = 0.8, 30  # share of worse documents from the top of the current ranking, and the depth of this top
_MOST_RANKED = 300_000_000  # scores of the ranking for hard negatives; a sample of more translations is learned from
_N_VALIDATIONS = 5  # while learning

RIDGE_PENALTIES = np.geomspace(1e-3, 10.0, 9)  # over the mean eigenvalue

Rows = NDArray[np.int64]


def mapped_to(
    A: NDArray[np.float32],
    B: NDArray[np.float32],
    queries: sparse.csr_array,
    docs: sparse.csr_array,
    translations: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Return ``B M``: M maps latent vectors of documents to latent vectors of translations by ridge regression."""
    X = _unit_rows(queries[translations[:, 0]].astype(np.float64) @ A.astype(np.float64))
    Y = _unit_rows(docs[translations[:, 1]].astype(np.float64) @ B.astype(np.float64))
    return (B @ ridge_map(Y, X)).astype(np.float32)


def ridge_map(X: NDArray[np.float64], Y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the M of least ``|XM - Y|² + l2 |M|²``, with the l2 of least squared error when each row is left out.

    Penalties are multiples of the mean eigenvalue of X'X.
    """
    from sklearn.linear_model import RidgeCV  # few fits need the map, and the import is slow

    mean = float(np.square(X).sum()) / X.shape[1] or 1.0
    return np.atleast_2d(RidgeCV(RIDGE_PENALTIES * mean, fit_intercept=False).fit(X, Y).coef_).T


def _unit_rows(latent: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(latent, axis=1, keepdims=True)
    return np.divide(latent, length, out=np.zeros_like(latent), where=length > 0)


def best_starts(
    Q: sparse.csr_array,
    D: sparse.csr_array,
    translations: Rows,
    validation: HeldOut,
    seed: int,
    widths: Sequence[int] | None = None,
) -> tuple[str, dict[str, Weights]]:
    """Return the name of the best start, and each start at its best width.

    The best start is both spaces side by side, unless a single space is better by more than a standard error: two
    spaces rarely fail alike.
    """
    widths = WIDTHS if widths is None else widths
    widest = min(max(widths), len(translations) - 1)
    higher = validation.measure.higher_is_better
    query_rows, doc_rows = Q[translations[:, 0]], D[translations[:, 1]]
    joint = common_directions(query_rows, doc_rows, widest, seed)
    A, B = (directions_of(texts, side, widest, seed) for texts, side in ((Q, "queries"), (D, "docs")))
    trials: dict[str, list[Trial]] = {CL_LSI: [], RIDGE_MAP: []}
    for width in [*(width for width in widths if width < widest), widest]:
        apart = A[:, :width], mapped_to(A[:, :width], B[:, :width], Q, D, translations)
        for name, (U, V) in ((CL_LSI, joint), (RIDGE_MAP, apart)):
            weights = _latent_space(U[:, :width], V[:, :width])
            trials[name].append(Trial({}, validation.values(weights), result=weights))
    starts = {name: tried[choose(tried, higher_is_better=higher)].result for name, tried in trials.items()}
    starts[BOTH] = side_by_side(starts[CL_LSI], starts[RIDGE_MAP], query_rows, doc_rows)
    values = {name: validation.values(weights) for name, weights in starts.items()}
    gains = {name: Gain.between(values[BOTH], values[name], higher_is_better=higher) for name in starts}
    clear = [name for name, gain in gains.items() if gain.is_clear]
    return max([BOTH, *clear], key=lambda name: gains[name].mean), starts


def side_by_side(one: Weights, other: Weights, Q: sparse.csr_array, D: sparse.csr_array) -> Weights:
    """Join two latent spaces, with equal mean lengths of the latent vectors of Q and of D in both spaces.

    The cosine of the joined space is about the mean of the two cosines, and, unlike the mean, a start for learning.
    """
    U, V = (
        np.hstack([F / np.float32(np.sqrt(_mean_square(X @ F))) for F in factors])
        for X, factors in zip((Q, D), zip(_factors(one), _factors(other), strict=True), strict=True)
    )
    return _latent_space(U, V)


def _latent_space(U: NDArray[np.float32], V: NDArray[np.float32]) -> Weights:
    """Weights with cosines of latent vectors as scores."""
    U, V = np.ascontiguousarray(U), np.ascontiguousarray(V)
    return Weights([LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True)])


def _factors(weights: Weights) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    [part] = weights.parts
    assert isinstance(part, LowRank)
    return part.query_factors, part.doc_factors


def _mean_square(latent: NDArray[np.float32]) -> float:
    """Mean square of the lengths of latent vectors."""
    return float(np.square(latent).sum(axis=1).mean()) or 1.0


def learn(
    start: Weights,
    Q: sparse.csr_array,
    D: sparse.csr_array,
    translations: Rows,
    validation: HeldOut,
    steps: int,
    seed: int,
    *,
    sampler: JudgementSampler | None = None,
    verbose: bool | None = None,
) -> tuple[Weights, dict[str, Any]]:
    """Learn from judgements, or without a ``sampler`` from translations; return the best weights and the settings.

    Translations are learned in both directions in turn, half of the steps each.
    """
    U, V = for_cosine(_factors(start))  # as the ranker begins
    square = (_mean_square(Q[translations[:, 0]] @ U) + _mean_square(D[translations[:, 1]] @ V)) / 2
    how = FOR_TRANSLATIONS if sampler is None else FOR_JUDGEMENTS
    setting = {"n_components": U.shape[1], "margin": how["margin"], "rate": how["rate"] * square}
    more: dict[str, Any] = {"schedule": "linear", "validate_every": max(1, steps // _N_VALIDATIONS)}
    more |= {"random_state": seed, "verbose": verbose}
    ranker: LowRankRanker | MultiTaskRanker
    if sampler is not None:
        ranker = LowRankRanker(**setting, **more)
        ranker.fit(Q, SampledSource(sampler, steps, random_state=seed), D, validation, start=start)
    else:
        half = -(-steps // 2)
        there, back = (
            _hard_source(translations, Q, D, half, seed),
            _hard_source(translations[:, ::-1], D, Q, half, seed),
        )
        ranker = MultiTaskRanker(**setting, **more)
        ranker.fit(Q, there, D, validation, reverse=back, start=start)
    return ranker.weights_, setting | {"steps": ranker.n_steps_}


def _hard_source(pairs: Rows, texts: sparse.csr_array, others: sparse.csr_array, n: int, seed: int) -> HardSource:
    """Draw n preferences for translations, against texts ranked above by the current weights."""
    n_docs = others.shape[0]
    pairs = np.random.default_rng(seed).permutation(pairs)[: max(1000, _MOST_RANKED // n_docs)]
    known = JudgementSampler(pairs[:, 0], pairs[:, 1], np.ones(len(pairs), dtype=np.int64), n_docs=n_docs)
    return HardSource(known, texts, others, n, random_state=seed, depth=_DEPTH, hard=_HARD, refresh_every=-(-n // 2))
