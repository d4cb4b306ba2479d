"""Judgements from clicks: clicks over expected clicks, with a prior by query."""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from tercet.data.clicks import ClickLog, click_preferences, examination_guess
from tercet.data.lines import write_atomically
from tercet.data.trec import checked_judgements, write_qrels
from tercet.errors import InputError

PRIOR: Final = 1.0  # weight of a query's mean, in expected clicks, and of the log's mean for a query
GRADES_FROM: Final = (0.5, 1.0, 2.0)  # clicks over expected clicks where grades 1, 2 and 3 begin
LAST_SHARE: Final = 0.1  # share of a log to hold out by time


class ClickJudgement(NamedTuple):
    """Judgement of a document for a query by clicks.

    Attributes
    ----------
    n_clicks, expected : clicks, and clicks of a document of mean attraction at the same ranks
    value : clicks over expected clicks with the prior; 1 is the mean of the log
    grade : 0 to 3, the number of `GRADES_FROM` up to the value
    """

    n_clicks: int
    expected: float
    value: float
    grade: int


def judgements_of_clicks(
    log: ClickLog, examination: Sequence[float] | None = None, *, prior: float = PRIOR
) -> dict[str, dict[str, ClickJudgement]]:
    """Judge each shown document of a query: ``(clicks + prior * mean of the query) / (expected + prior)``.

    Expected clicks at a rank are in proportion to the chance that people look at the rank. All expected clicks of the
    log sum to its clicks. The mean of a query is its clicks over its expected clicks, with the same prior at 1.

    Parameters
    ----------
    log : the clicks
    examination : chance that people look at each rank, the last chance also for ranks below; by default the guess
    prior : weight of the query's mean in expected clicks

    Examples
    --------
    >>> from tercet.data import Impression
    >>> judged = judgements_of_clicks(ClickLog((Impression("tea", ("a", "b"), ("b",)),) * 20))
    >>> {doc_id: judgement.grade for doc_id, judgement in judged["tea"].items()}
    {'a': 0, 'b': 3}
    """
    if not prior > 0:
        raise InputError(f"prior must be above 0; got {prior}")
    n_shown = max((len(impression.shown) for impression in log.impressions), default=0)
    chances = [examination_guess(rank) for rank in range(1, n_shown + 1)]
    if examination is not None:
        chances = [examination[min(rank, len(examination) - 1)] for rank in range(n_shown)]
    looks: dict[str, dict[str, float]] = {}
    clicks: Counter[tuple[str, str]] = Counter()
    for query, shown, clicked in log.impressions:
        looked = looks.setdefault(query, defaultdict(float))
        for doc_id, chance in zip(shown, chances, strict=False):
            looked[doc_id] += chance
        clicks.update((query, doc_id) for doc_id in clicked)
    if not clicks:
        raise InputError("nothing was clicked, so clicks judge nothing")
    attraction = clicks.total() / sum(sum(looked.values()) for looked in looks.values())
    judged: dict[str, dict[str, ClickJudgement]] = {}
    for query, looked in looks.items():
        n_clicks = sum(clicks[query, doc_id] for doc_id in looked)
        mean = (n_clicks + prior) / (attraction * sum(looked.values()) + prior)
        judged[query] = {}
        for doc_id, look in looked.items():
            n, expected = clicks[query, doc_id], attraction * look
            value = (n + prior * mean) / (expected + prior)
            judged[query][doc_id] = ClickJudgement(n, expected, value, bisect_right(GRADES_FROM, value))
    return judged


class PastClicks(NamedTuple):
    """Clicks on a document for a query: evidence for memory, and the number of clicks."""

    query: str
    doc_id: str
    evidence: float
    n_clicks: int


def past_clicks(
    log: ClickLog, examination: Sequence[float] | None = None, *, min_sessions: int = 2, prior: float = PRIOR
) -> list[PastClicks]:
    """Evidence that documents answered past queries: ``(clicks - expected) / (expected + prior)``.

    Expected clicks are those of a document of mean attraction at the same ranks. An old click counts less: a click
    from the middle of the log half, one from the beginning a quarter, if times put the log in order. A document that
    was shown and passed over has negative evidence, never below -1.

    Parameters
    ----------
    log : the clicks
    examination : chance that people look at each rank; by default the guess
    min_sessions : sessions that asked the query; queries of fewer are left out, as they may name a person. Without
        sessions, each list counts as one
    prior : expected clicks to add

    Examples
    --------
    >>> from tercet.data import Impression
    >>> log = ClickLog((Impression("tea", ("a", "b"), ("b",)),) * 20)
    >>> [(one.doc_id, round(one.evidence, 2), one.n_clicks) for one in past_clicks(log)]
    [('a', -0.92, 0), ('b', 1.4, 20)]
    """
    n_lists, n_shown = len(log.impressions), max((len(one.shown) for one in log.impressions), default=0)
    chances = [examination_guess(rank) for rank in range(1, n_shown + 1)]
    if examination is not None:
        chances = [examination[min(rank, len(examination) - 1)] for rank in range(n_shown)]
    sessions: dict[str, set[str | int]] = defaultdict(set)
    looks: dict[tuple[str, str], float] = defaultdict(float)
    weights: dict[tuple[str, str], float] = defaultdict(float)
    times: Counter[tuple[str, str]] = Counter()
    for number, (query, shown, clicked) in enumerate(log.impressions):
        sessions[query].add(log.sessions[number] if log.sessions else number)
        weight = 0.25 ** (1 - (number + 1) / n_lists) if log.is_timed else 1.0
        for doc_id, chance in zip(shown, chances, strict=False):
            looks[query, doc_id] += weight * chance
        for doc_id in clicked:
            weights[query, doc_id] += weight
            times[query, doc_id] += 1
    attraction = sum(weights.values()) / max(sum(looks.values()), 1e-12)
    return [
        PastClicks(query, doc_id, (weights[query, doc_id] - expected) / (expected + prior), times[query, doc_id])
        for (query, doc_id), look in looks.items()
        if len(sessions[query]) >= min_sessions
        for expected in [attraction * look]
    ]


class HeldOutByTime(NamedTuple):
    """Share of the preferences in the last tenth of a log that judgements of the rest order correctly.

    Attributes
    ----------
    judged, shown : share that the judgements, and the shown order, have right
    n_preferences : number of preferences between judged documents
    """

    judged: float
    shown: float
    n_preferences: int


def held_out_by_time(log: ClickLog, examination: Sequence[float] | None = None) -> HeldOutByTime | None:
    """Judge by the first nine tenths of a log, and measure on the last; None if the last has no preference."""
    since = round(len(log.impressions) * (1 - LAST_SHARE))
    first = log.subset(range(since))
    if not any(impression.clicked for impression in first.impressions):
        return None
    judged = judgements_of_clicks(first, examination)
    rows = []  # right, right as shown, and weight of each preference
    for query, shown, clicked in log.impressions[since:]:
        of_query = judged.get(query, {})
        for better, worse, weight in click_preferences(shown, clicked, "all", most=np.inf, examination=examination):
            if better in of_query and worse in of_query:
                ahead = np.sign(of_query[better].value - of_query[worse].value)
                rows.append(((ahead + 1) / 2, shown.index(better) < shown.index(worse), weight))
    if not rows:
        return None
    right, as_shown, weights = np.array(rows, dtype=np.float64).T
    return HeldOutByTime(float(right @ weights / weights.sum()), float(as_shown @ weights / weights.sum()), len(rows))


def write_click_judgements(
    path: str | PathLike[str], judged: Mapping[str, Mapping[str, ClickJudgement]]
) -> Path | None:
    """Write grades: a table (query, doc, grade) for a name in ``.csv``, BEIR's TSV for ``.tsv``, else TREC's qrels.

    Blanks separate the columns of TREC's qrels. If a query has a blank, queries are numbered. A second table gets their
    texts, and its path is returned.
    """
    grades = {query: {doc_id: one.grade for doc_id, one in docs.items()} for query, docs in judged.items()}
    name = fspath(path).removesuffix(".gz")
    if name.endswith(".csv"):
        with write_atomically(path) as stream:
            table = csv.writer(stream, lineterminator="\n")
            table.writerow(("query", "doc", "grade"))
            table.writerows(checked_judgements(path, grades, blanks=True))
    elif name.endswith(".tsv") or not any(query.split() != [query] for query in grades):
        write_qrels(path, grades)
    else:
        texts = Path(f"{name}.queries.tsv")
        write_qrels(path, {f"q{number}": docs for number, docs in enumerate(grades.values(), start=1)})
        with write_atomically(texts) as stream:
            stream.write("query_id\ttext\n")
            for number, query in enumerate(grades, start=1):
                stream.write(f"q{number}\t{' '.join(query.split())}\n")
        return texts
    return None
