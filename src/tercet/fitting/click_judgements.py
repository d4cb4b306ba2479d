"""Judgements from clicks: clicks over expected clicks, with a prior by query."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from tercet.data.clicks import ClickLog, click_preferences, examination_guess
from tercet.data.lines import write_atomically
from tercet.data.trec import checked_judgements, write_qrels
from tercet.errors import InputError

PRIOR: Final = 1.0  # expected clicks that a query's mean counts as, and the log's for a query
GRADES_FROM: Final = (0.5, 1.0, 2.0)  # clicks over expected clicks where grades 1, 2 and 3 begin
LAST_SHARE: Final = 0.1  # of a log, held out by time


@dataclass(frozen=True)
class ClickJudgement:
    """What clicks say of a document for a query.

    Attributes
    ----------
    n_clicks, expected : clicks, and those of a document of mean attraction that was shown at the same ranks
    value : clicks over expected clicks with the prior; 1 is as good as the mean of the log
    grade : 0 to 3, the number of `GRADES_FROM` that value has reached
    """

    n_clicks: int
    expected: float
    value: float
    grade: int


def judgements_of_clicks(
    log: ClickLog, examination: Sequence[float] | None = None, *, prior: float = PRIOR
) -> dict[str, dict[str, ClickJudgement]]:
    """Judge each document that was shown for a query: ``(clicks + prior * mean of the query) / (expected + prior)``.

    A document at rank r is expected to be clicked in proportion to the chance that r is looked at, so that all expected
    clicks of the log come to its clicks. The mean of a query is its clicks over its expected clicks, with the same
    prior at 1.

    Parameters
    ----------
    log : the clicks
    examination : the chance that each rank is looked at, the last for those below, too; by default the guess
    prior : how many expected clicks the mean of the query counts as

    Examples
    --------
    >>> from tercet.data import Impression
    >>> judged = judgements_of_clicks(ClickLog((Impression("tea", ("a", "b"), ("b",)),) * 20))
    >>> {doc_id: judgement.grade for doc_id, judgement in judged["tea"].items()}
    {'a': 0, 'b': 3}
    """
    if not prior > 0:
        raise InputError(f"prior must be above 0; got {prior}")
    looks: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    clicks: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for query, shown, clicked in log.impressions:
        for rank, doc_id in enumerate(shown, start=1):
            last = rank if examination is None else min(rank, len(examination))
            looks[query][doc_id] += examination_guess(rank) if examination is None else examination[last - 1]
        for doc_id in clicked:
            clicks[query][doc_id] += 1
    n_clicks = sum(sum(of_query.values()) for of_query in clicks.values())
    if not n_clicks:
        raise InputError("nothing was clicked, so clicks judge nothing")
    attraction = n_clicks / sum(sum(of_query.values()) for of_query in looks.values())
    judged: dict[str, dict[str, ClickJudgement]] = {}
    for query, of_query in looks.items():
        total = attraction * sum(of_query.values())
        mean = (sum(clicks[query].values()) + prior) / (total + prior)
        judged[query] = {}
        for doc_id, looked in of_query.items():
            expected = attraction * looked
            value = (clicks[query][doc_id] + prior * mean) / (expected + prior)
            grade = sum(value >= start for start in GRADES_FROM)
            judged[query][doc_id] = ClickJudgement(clicks[query][doc_id], expected, value, grade)
    return judged


@dataclass(frozen=True)
class HeldOutByTime:
    """How far judgements of the first nine tenths of a log order what the last tenth prefers.

    Attributes
    ----------
    judged, shown : share of its preferences that the judgements, and the order in which it was shown, have right
    n_preferences : how many there are between documents that were judged
    """

    judged: float
    shown: float
    n_preferences: int


def held_out_by_time(log: ClickLog, examination: Sequence[float] | None = None) -> HeldOutByTime | None:
    """Judge by the first nine tenths of a log, and measure on the last; None where it has no such preference."""
    since = round(len(log.impressions) * (1 - LAST_SHARE))
    first = log.subset(range(since))
    if not any(impression.clicked for impression in first.impressions):
        return None
    judged = judgements_of_clicks(first, examination)
    total = right = by_rank = 0.0
    count = 0
    for query, shown, clicked in log.impressions[since:]:
        of_query = judged.get(query, {})
        ranks = {doc_id: rank for rank, doc_id in enumerate(shown)}
        weighed = click_preferences(shown, clicked, "all", most=float("inf"), examination=examination)
        for better, worse, weight in weighed:
            if better in of_query and worse in of_query:
                ahead, behind = of_query[better].value, of_query[worse].value
                right += weight * (ahead > behind) + weight / 2 * (ahead == behind)
                by_rank += weight * (ranks[better] < ranks[worse])
                total += weight
                count += 1
    return HeldOutByTime(right / total, by_rank / total, count) if count else None


def write_click_judgements(
    path: str | PathLike[str], judged: Mapping[str, Mapping[str, ClickJudgement]]
) -> Path | None:
    """Write grades: a table (query, doc, grade) for a name in ``.csv``, BEIR's TSV for ``.tsv``, else TREC's qrels.

    TREC's columns are separated by blanks. Where a query has one, queries are numbered, and their texts go into a table
    beside it, whose path is returned.
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
