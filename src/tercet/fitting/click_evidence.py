"""Preferences and evidence for memory from the columns of a click log."""

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

PRIOR: Final = 1.0  # expected clicks without evidence
LAST_SHARE: Final = 0.1  # share of a log to hold out by time

Numbers = NDArray[np.float64]


def end_of(log: ClickLog) -> int:
    """Number of the first list in the last tenth of a log."""
    return round(len(log.impressions) * (1 - LAST_SHARE))


def look_chances(rank: Rows, examination: Sequence[float] | None) -> Numbers:
    """Chance of a look at each rank from 0, by default the guess; ranks beyond ``examination`` have its last chance."""
    if examination is None:
        examination = [examination_guess(number) for number in range(1, int(rank.max(initial=0)) + 2)]
    return np.asarray(examination, dtype=np.float64)[np.minimum(rank, len(examination) - 1)]


# -- preferences ------------------------------------------------------------------------------------------------------


def preferred_rows(columns: ClickColumns, examination: Sequence[float] | None) -> tuple[Rows, Rows, Numbers]:
    """Pair each clicked document with each document without a click in its list: two rows and a weight.

    The weight of a pair is the chance of a look at the worse document: these weights favor neither order of two equally
    good documents. Pairs with documents above a click alone would all contradict the shown order, and a model would
    unlearn matching. A list keeps its heaviest `MOST_PREFERENCES` pairs, as in `click_preferences`.

    Parameters
    ----------
    columns : columns of whole lists
    examination : chance of a look at each rank; None is the guess
    """
    passed = np.flatnonzero(~columns.clicked)
    n_passed = np.bincount(columns.impression[passed], minlength=columns.list_query.size)
    n_clicked = np.bincount(columns.impression, columns.clicked, columns.list_query.size)
    is_long = n_passed * n_clicked > MOST_PREFERENCES
    better = np.flatnonzero(columns.clicked & ~is_long[columns.impression])
    n_worse = n_passed[columns.impression[better]]
    first = (np.cumsum(n_passed) - n_passed)[columns.impression[better]]
    worse = passed[np.repeat(first - np.cumsum(n_worse) + n_worse, n_worse) + np.arange(n_worse.sum())]
    better = np.repeat(better, n_worse)
    pairs = []
    for number in np.flatnonzero(is_long):
        begin, end = np.searchsorted(columns.impression, [number, number + 1])
        rows = np.arange(begin, end)
        clicked = rows[columns.clicked[begin:end]]
        pairs += click_preferences(rows.tolist(), clicked.tolist(), "all", most=inf, examination=examination)
    better = np.append(better, np.array([row for row, _, _ in pairs], dtype=np.int64))
    worse = np.append(worse, np.array([row for _, row, _ in pairs], dtype=np.int64))
    return better, worse, look_chances(columns.rank[worse], examination)


# -- evidence for memory ----------------------------------------------------------------------------------------------


def past_clicks(
    log: ClickLog, examination: Sequence[float] | None = None, *, n_lists: int | None = None, min_sessions: int = 2
) -> tuple[Numbers, NDArray[np.int32]]:
    """Evidence of documents for past queries, ``(clicks - expected) / (expected + 1)``, and clicks, by pair.

    Expected clicks are the clicks of a document of mean attraction at the same ranks. In a timed log an old click
    counts less:
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
    columns = log.columns.take(log.columns.impression < n_lists)
    weight = 0.25 ** (1 - (columns.impression + 1) / n_lists) if log.is_timed else 1.0
    n_pairs = columns.pair_query.size
    clicks = np.bincount(columns.pair, weight * columns.clicked, n_pairs)
    looks = np.bincount(columns.pair, weight * look_chances(columns.rank, examination), n_pairs)
    expected = clicks.sum() / max(looks.sum(), 1e-12) * looks  # in proportion to the looks, with the sum of the clicks
    evidence: Numbers = (clicks - expected) / (expected + PRIOR)
    session = numbered(log.sessions)[1] if log.sessions else np.arange(len(log.impressions))
    lists = columns.list_query[:n_lists], session[:n_lists]
    asked = sparse.csr_array((np.ones(n_lists), lists), shape=(len(columns.queries), len(log.impressions)))
    evidence[np.diff(asked.indptr)[columns.pair_query] < min_sessions] = 0
    return evidence, np.bincount(columns.pair[columns.clicked], minlength=evidence.size).astype(np.int32)
