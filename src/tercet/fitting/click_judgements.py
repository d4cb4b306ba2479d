"""Preferences, judgements and evidence for memory from the columns of a click log."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.clicks import (
    MOST_PREFERENCES,
    ClickColumns,
    ClickLog,
    Rows,
    click_preferences,
    examination_guess,
    numbered,
)
from tercet.errors import InputError

PRIOR: Final = 1.0  # weight of a query's mean, in expected clicks, and of the log's mean for a query
GRADES_FROM: Final = (0.5, 1.0, 2.0)  # clicks over expected clicks where grades 1, 2 and 3 begin
LAST_SHARE: Final = 0.1  # share of a log to hold out by time

Numbers = NDArray[np.float64]


def end_of(log: ClickLog) -> int:
    """Number of the first list in the last tenth of a log."""
    return round(len(log.impressions) * (1 - LAST_SHARE))


def look_chances(rank: Rows, examination: Sequence[float] | None) -> Numbers:
    """Chance of a look at each rank, counted from 0; None is the guess. Ranks below the last follow the last."""
    if examination is None:
        examination = [examination_guess(number) for number in range(1, int(rank.max(initial=0)) + 2)]
    return np.asarray(examination, dtype=np.float64)[np.minimum(rank, len(examination) - 1)]


# -- preferences ------------------------------------------------------------------------------------------------------


def preferred_rows(shown: ClickColumns, examination: Sequence[float] | None) -> tuple[Rows, Rows, Numbers]:
    """Rows of clicked documents, rows of documents without a click in the same lists, and the weight of each pair.

    Preferences over documents above a click all contradict the shown order: a model of such preferences alone unlearns
    matching. Over all documents without a click, weighted by the chance of a look, neither order of two equally good
    documents is favored. A list keeps the heaviest `MOST_PREFERENCES` pairs, as in `click_preferences`.

    Parameters
    ----------
    shown : whole lists
    examination : chance of a look at each rank; None is the guess
    """
    passed = np.flatnonzero(~shown.clicked)
    n_passed = np.bincount(shown.impression[passed], minlength=shown.list_query.size)
    n_clicked = np.bincount(shown.impression, shown.clicked, shown.list_query.size)
    is_long = n_passed * n_clicked > MOST_PREFERENCES
    better = np.flatnonzero(shown.clicked & ~is_long[shown.impression])
    n_worse = n_passed[shown.impression[better]]
    first = (np.cumsum(n_passed) - n_passed)[shown.impression[better]]
    worse = passed[np.repeat(first - np.cumsum(n_worse) + n_worse, n_worse) + np.arange(n_worse.sum())]
    better = np.repeat(better, n_worse)
    pairs = []
    for number in np.flatnonzero(is_long):
        begin, end = np.searchsorted(shown.impression, [number, number + 1])
        rows = np.arange(begin, end)
        clicked = rows[shown.clicked[begin:end]]
        pairs += click_preferences(rows.tolist(), clicked.tolist(), "all", most=inf, examination=examination)
    better = np.append(better, np.array([row for row, _, _ in pairs], dtype=np.int64))
    worse = np.append(worse, np.array([row for _, row, _ in pairs], dtype=np.int64))
    return better, worse, look_chances(shown.rank[worse], examination)


# -- evidence for memory ----------------------------------------------------------------------------------------------


def _clicks_and_expected(
    shown: ClickColumns, examination: Sequence[float] | None, weight: Numbers | float = 1.0
) -> tuple[Numbers, Numbers]:
    """Clicks on each pair, and clicks on a document of mean attraction at the same ranks, weighted by row.

    Expected clicks at a rank are in proportion to the chance of a look. All expected clicks sum to the clicks.
    """
    n_pairs = shown.pair_query.size
    clicks: Numbers = np.bincount(shown.pair, weight * shown.clicked, n_pairs).astype(np.float64)
    looks = np.bincount(shown.pair, weight * look_chances(shown.rank, examination), n_pairs)
    return clicks, clicks.sum() / max(looks.sum(), 1e-12) * looks


def past_clicks(
    log: ClickLog, examination: Sequence[float] | None = None, *, n_lists: int | None = None, min_sessions: int = 2
) -> tuple[Numbers, NDArray[np.int32]]:
    """Evidence of documents for past queries, ``(clicks - expected) / (expected + 1)``, and clicks, by pair.

    Expected clicks belong to a document of mean attraction at the same ranks. In a timed log an old click counts less:
    half in the middle of the log, a quarter at the beginning. A document shown and passed over has negative evidence,
    never below -1.

    Parameters
    ----------
    log : the clicks
    examination : chance of a look at each rank; by default the guess
    n_lists : number of first lists to take evidence from; by default all
    min_sessions : fewest sessions of a query with evidence, as a query of a single session may name a person. Without
        sessions, each list counts as a session

    Examples
    --------
    >>> from tercet.data import Impression
    >>> evidence, n_clicks = past_clicks(ClickLog((Impression("tea", ("a", "b"), ("b",)),) * 20))
    >>> evidence.round(2).tolist(), n_clicks.tolist()
    ([-0.92, 1.4], [0, 20])
    """
    n_lists = len(log.impressions) if n_lists is None else n_lists
    shown = log.columns.take(log.columns.impression < n_lists)
    weight = 0.25 ** (1 - (shown.impression + 1) / n_lists) if log.is_timed else 1.0
    clicks, expected = _clicks_and_expected(shown, examination, weight)
    evidence = (clicks - expected) / (expected + PRIOR)
    session = numbered(log.sessions)[1] if log.sessions else np.arange(len(log.impressions))
    lists = shown.list_query[:n_lists], session[:n_lists]
    asked = sparse.csr_array((np.ones(n_lists), lists), shape=(len(shown.queries), len(log.impressions)))
    evidence[np.diff(asked.indptr)[shown.pair_query] < min_sessions] = 0
    return evidence, np.bincount(shown.pair[shown.clicked], minlength=evidence.size).astype(np.int32)


# -- judgements -------------------------------------------------------------------------------------------------------


def clicks_over_expected(
    shown: ClickColumns, examination: Sequence[float] | None = None, *, prior: float = PRIOR
) -> Numbers:
    """Clicks over expected clicks of each pair: ``(clicks + prior * mean of the query) / (expected + prior)``.

    The mean of a query is its clicks over its expected clicks, with the same prior at 1. The mean of the log is 1.
    """
    clicks, expected = _clicks_and_expected(shown, examination)
    of_query = [np.bincount(shown.pair_query, sums, len(shown.queries)) + prior for sums in (clicks, expected)]
    return (clicks + prior * (of_query[0] / of_query[1])[shown.pair_query]) / (expected + prior)


def judgements_of_clicks(log: ClickLog, examination: Sequence[float] | None = None) -> dict[str, dict[str, int]]:
    """Judge each shown document of a query from 0 to 3, the number of `GRADES_FROM` up to `clicks_over_expected`.

    Examples
    --------
    >>> from tercet.data import Impression
    >>> judgements_of_clicks(ClickLog((Impression("tea", ("a", "b"), ("b",)),) * 20))
    {'tea': {'a': 0, 'b': 3}}
    """
    shown = log.columns
    if not shown.clicked.any():
        raise InputError("nothing was clicked, so clicks judge nothing")
    grades = np.searchsorted(GRADES_FROM, clicks_over_expected(shown, examination), side="right")
    qrels: dict[str, dict[str, int]] = {query: {} for query in shown.queries}
    for query, doc, grade in zip(shown.pair_query.tolist(), shown.pair_doc.tolist(), grades.tolist(), strict=True):
        qrels[shown.queries[query]][shown.docs[doc]] = grade
    return qrels
