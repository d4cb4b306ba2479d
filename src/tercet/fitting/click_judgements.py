"""Preferences, judgements and evidence for memory from the columns of a click log."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from os import PathLike, fspath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tercet.data.click_columns import ClickColumns, Rows, numbered
from tercet.data.clicks import MOST_PREFERENCES, ClickLog, click_preferences, examination_guess
from tercet.data.lines import write_atomically
from tercet.data.trec import checked_judgements, write_qrels
from tercet.errors import InputError

PRIOR: Final = 1.0  # weight of a query's mean, in expected clicks, and of the log's mean for a query
GRADES_FROM: Final = (0.5, 1.0, 2.0)  # clicks over expected clicks where grades 1, 2 and 3 begin
LAST_SHARE: Final = 0.1  # share of a log to hold out by time

Numbers = NDArray[np.float64]


def end_of(log: ClickLog) -> int:
    """Number of the list where the last tenth of a log begins."""
    return round(len(log.impressions) * (1 - LAST_SHARE))


def look_chances(rank: Rows, examination: Sequence[float] | None) -> Numbers:
    """Chance that people look at each rank, counted from 0; None is the guess. Ranks below the last follow the last."""
    if examination is None:
        examination = [examination_guess(number) for number in range(1, int(rank.max(initial=0)) + 2)]
    return np.asarray(examination, dtype=np.float64)[np.minimum(rank, len(examination) - 1)]


# -- preferences ------------------------------------------------------------------------------------------------------


def preferred_rows(shown: ClickColumns, examination: Sequence[float] | None) -> tuple[Rows, Rows, Numbers]:
    """Rows of clicked documents, rows of documents without a click in the same lists, and the weight of each pair.

    Preferences over documents above a click all contradict the shown order, so a model that is learned from them alone
    unlearns matching. Over all documents without a click, weighted by the chance of a look, neither order of two
    equally good documents is favored. A list with more than `MOST_PREFERENCES` pairs keeps those that weigh most, as
    `click_preferences` does.

    Parameters
    ----------
    shown : whole lists
    examination : chance that people look at each rank; None is the guess
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

    Expected clicks at a rank are in proportion to the chance that people look at the rank. All expected clicks sum to
    the clicks.
    """
    n_pairs = shown.pair_query.size
    clicks: Numbers = np.bincount(shown.pair, weight * shown.clicked, n_pairs).astype(np.float64)
    looks = np.bincount(shown.pair, weight * look_chances(shown.rank, examination), n_pairs)
    return clicks, clicks.sum() / max(looks.sum(), 1e-12) * looks


def past_clicks(
    log: ClickLog, examination: Sequence[float] | None = None, *, n_lists: int | None = None, min_sessions: int = 2
) -> tuple[Numbers, NDArray[np.int32]]:
    """Evidence that documents answered past queries, ``(clicks - expected) / (expected + 1)``, and clicks, by pair.

    Expected clicks are those of a document of mean attraction at the same ranks. An old click counts less: a click
    from the middle of the log half, one from the beginning a quarter, if times put the log in order. A document that
    was shown and passed over has negative evidence, never below -1.

    Parameters
    ----------
    log : the clicks
    examination : chance that people look at each rank; by default the guess
    n_lists : number of first lists to take evidence from; by default all
    min_sessions : sessions that asked the query; queries of fewer have no evidence, as they may name a person. Without
        sessions, each list counts as one

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
    width = len(log.impressions)  # at most as many sessions
    asked = np.unique((shown.list_query * width + session)[:n_lists]) // width
    evidence[np.bincount(asked, minlength=len(shown.queries))[shown.pair_query] < min_sessions] = 0
    return evidence, np.bincount(shown.pair[shown.clicked], minlength=evidence.size).astype(np.int32)


# -- judgements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClickJudgements:
    """Judgements of pairs, a query and a document each, by clicks.

    Attributes
    ----------
    query, doc : names of each pair, (n_pairs,)
    value : clicks over expected clicks with the prior; 1 is the mean of the log
    grade : 0 to 3, the number of `GRADES_FROM` up to the value
    """

    query: list[str]
    doc: list[str]
    value: Numbers
    grade: Rows

    def qrels(self) -> dict[str, dict[str, int]]:
        """Grades by query and document."""
        qrels: dict[str, dict[str, int]] = {}
        for query, doc_id, grade in zip(self.query, self.doc, self.grade.tolist(), strict=True):
            qrels.setdefault(query, {})[doc_id] = grade
        return qrels


def judgements_of_clicks(
    log: ClickLog, examination: Sequence[float] | None = None, *, prior: float = PRIOR
) -> ClickJudgements:
    """Judge each shown document of a query: ``(clicks + prior * mean of the query) / (expected + prior)``.

    The mean of a query is its clicks over its expected clicks, with the same prior at 1.

    Parameters
    ----------
    log : the clicks
    examination : chance that people look at each rank, the last chance also for ranks below; by default the guess
    prior : weight of the query's mean in expected clicks

    Examples
    --------
    >>> from tercet.data import Impression
    >>> judgements_of_clicks(ClickLog((Impression("tea", ("a", "b"), ("b",)),) * 20)).qrels()
    {'tea': {'a': 0, 'b': 3}}
    """
    if not prior > 0:
        raise InputError(f"prior must be above 0; got {prior}")
    shown = log.columns
    if not shown.clicked.any():
        raise InputError("nothing was clicked, so clicks judge nothing")
    queries, docs = np.array(shown.queries, dtype=object), np.array(shown.docs, dtype=object)
    value = _values(shown, examination, prior)
    grade = np.searchsorted(GRADES_FROM, value, side="right")
    return ClickJudgements(queries[shown.pair_query].tolist(), docs[shown.pair_doc].tolist(), value, grade)


def _values(shown: ClickColumns, examination: Sequence[float] | None, prior: float) -> Numbers:
    """Clicks over expected clicks by pair; the mean of the query for a pair that was not shown."""
    clicks, expected = _clicks_and_expected(shown, examination)
    of_query = [np.bincount(shown.pair_query, sums, len(shown.queries)) + prior for sums in (clicks, expected)]
    mean = (of_query[0] / of_query[1])[shown.pair_query]
    return (clicks + prior * mean) / (expected + prior)


def held_out_by_time(log: ClickLog, examination: Sequence[float] | None = None) -> tuple[float, float, int] | None:
    """Judge by the first nine tenths of a log, and measure on the preferences of the last.

    Returns
    -------
    Share of the preferences that the judgements have right, share that the shown order has right, and the number of
    preferences between judged documents; None if there is no such preference.
    """
    shown = log.columns
    is_first = shown.impression < end_of(log)
    first, last = shown.take(is_first), shown.take(~is_first)
    better, worse, weight = preferred_rows(last, examination)
    was_shown = np.bincount(first.pair, minlength=shown.pair_query.size) > 0
    is_judged = was_shown[last.pair[better]] & was_shown[last.pair[worse]]
    if not first.clicked.any() or not is_judged.any():
        return None
    better, worse, weight = better[is_judged], worse[is_judged], weight[is_judged]
    value = _values(first, examination, PRIOR)
    right = (np.sign(value[last.pair[better]] - value[last.pair[worse]]) + 1) / 2
    as_shown = last.rank[better] < last.rank[worse]
    return float(right @ weight / weight.sum()), float(as_shown @ weight / weight.sum()), better.size


def write_click_judgements(path: str | PathLike[str], qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write grades: a table (query, doc, grade) for a name in ``.csv``, BEIR's TSV for ``.tsv``, else TREC's qrels."""
    name = fspath(path).removesuffix(".gz")
    if name.endswith(".csv"):
        with write_atomically(path) as stream:
            table = csv.writer(stream, lineterminator="\n")
            table.writerow(("query", "doc", "grade"))
            table.writerows(checked_judgements(path, qrels, blanks=True))
        return
    with_blank = next((query for query in qrels if query.split() != [query]), None)
    if with_blank is not None and not name.endswith(".tsv"):
        raise InputError(
            f"{path}: query {with_blank!r} has a blank, which separates columns of TREC's qrels; use .csv or .tsv"
        )
    write_qrels(path, qrels)
