"""Formulas of the measures, from the ranks and grades of the relevant documents of every query.

Arrays of scores and runs of ids share these formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError
from tercet.kernels.ranking import rank_chosen
from tercet.measure.names import Measure

LARGEST_EXPONENTIAL_GRADE = 1000  # leaves room for sums below the largest float64


@dataclass(frozen=True, slots=True)
class Standing:
    """Ranks of documents with a positive grade, by query, best first.

    `relevant_*` also hold unranked documents, in any order. `rank` counts from 0; `at_least` is the number of ranked
    documents with at least the score of the document, the document included.
    """

    n_ranked: NDArray[np.int64]  # (n_q,)
    query: NDArray[np.int64]  # (n_shown,)
    grade: NDArray[np.int64]  # (n_shown,)
    rank: NDArray[np.int64]  # (n_shown,)
    at_least: NDArray[np.int64]  # (n_shown,)
    relevant_query: NDArray[np.int64]  # (n_relevant,)
    relevant_grade: NDArray[np.int64]  # (n_relevant,)


def find_standing(
    scores: NDArray[np.floating],
    row_starts: NDArray[np.int64],
    exclude: NDArray[np.int64],
    query: NDArray[np.int64],
    column: NDArray[np.int32],
    grade: NDArray[np.int64],
    unseen: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> Standing:
    """Rank the documents (query, column, grade), sorted by query and column, among each query's scores.

    `unseen` are queries and grades of unranked relevant documents. An excluded column is dropped from the relevant
    documents too.
    """
    n_queries = len(row_starts) - 1
    kept = column != exclude[query]
    if not kept.all():
        query, column, grade = query[kept], column[kept], grade[kept]
    starts = np.searchsorted(query, np.arange(n_queries + 1))
    order = np.lexsort((-scores[row_starts[query] + column], query))  # stable, so ties keep column order
    rank, at_least = np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    rank_chosen(scores, row_starts, exclude, starts, column[order], column, rank, at_least)
    relevant_query, relevant_grade = query, grade
    if unseen is not None:
        relevant_query = np.concatenate([query, unseen[0]])
        relevant_grade = np.concatenate([grade, unseen[1]])
    n_ranked = np.diff(row_starts) - (exclude >= 0)
    return Standing(n_ranked, query, grade[order], rank, at_least, relevant_query, relevant_grade)


def compute(standing: Standing, measures: Sequence[Measure]) -> NDArray[np.float64]:
    """Every measure of every query, (n_q, n_measures)."""
    values = np.zeros((len(standing.n_ranked), len(measures)))
    for column, measure in enumerate(measures):
        if measure.name not in _FORMULAS:
            raise InputError(f"{measure} is measured on preferences, and not on rankings; name another measure.")
        values[:, column] = _FORMULAS[measure.name](standing, measure)
    return values


def has_relevant(standing: Standing, measures: Sequence[Measure]) -> NDArray[np.bool_]:
    """Mask of the queries with a relevant document for every measure, (n_q,)."""
    has_some = np.ones(len(standing.n_ranked), bool)
    for level in {measure.rel for measure in measures}:
        has_some &= np.isin(np.arange(len(has_some)), standing.relevant_query[standing.relevant_grade >= level])
    return has_some


def _average_precision(at: Standing, measure: Measure) -> NDArray[np.float64]:
    query, rank = _relevant_shown(at, measure)
    precision = (_position(query) + 1) / (rank + 1)
    return _divide(_sum(at, query, precision), _n_relevant(at, measure))


def _ndcg(at: Standing, measure: Measure) -> NDArray[np.float64]:
    shown = _within(at.rank, measure)
    gain = _sum(at, at.query[shown], _discounted(at.grade[shown], at.rank[shown], measure))
    ideal_order = np.lexsort((-at.relevant_grade, at.relevant_query))
    query, grade = at.relevant_query[ideal_order], at.relevant_grade[ideal_order]
    rank = _position(query)
    top = _within(rank, measure)
    return _divide(gain, _sum(at, query[top], _discounted(grade[top], rank[top], measure)))


def _discounted(grade: NDArray[np.int64], rank: NDArray[np.int64], measure: Measure) -> NDArray[np.float64]:
    """Terms of grades at ranks, from 0, in the sum of nDCG."""
    if measure.dcg == "log2":
        return grade / np.log2(rank + 2)
    largest = int(grade.max(initial=0))
    if largest > LARGEST_EXPONENTIAL_GRADE:
        raise InputError(
            f"Grade {largest} is too large for {measure}, whose gains are 2**grade - 1; "
            f"at most {LARGEST_EXPONENTIAL_GRADE} is possible."
        )
    gain = np.exp2(grade) - 1
    return gain / np.log2(rank + 2 if measure.dcg == "exp-log2" else np.maximum(rank + 1, 2))


def dcg(grades: NDArray[np.int64], measure: Measure) -> NDArray[np.float64]:
    """Discounted cumulative gain of each row of ranked grades, (n_q, k) to (n_q,).

    Examples
    --------
    >>> from tercet.measure import parse_measure
    >>> dcg(np.array([[2, 0, 1], [0, 0, 0]]), parse_measure("nDCG@10")).tolist()
    [2.5, 0.0]
    """
    rank = np.broadcast_to(np.arange(grades.shape[1]), grades.shape)
    sums: NDArray[np.float64] = _discounted(grades, rank, measure).sum(axis=1)
    return sums


def _precision(at: Standing, measure: Measure) -> NDArray[np.float64]:
    assert measure.cutoff is not None
    return _sum(at, _relevant_shown(at, measure)[0]) / measure.cutoff


def _recall(at: Standing, measure: Measure) -> NDArray[np.float64]:
    return _divide(_sum(at, _relevant_shown(at, measure)[0]), _n_relevant(at, measure))


def _reciprocal_rank(at: Standing, measure: Measure) -> NDArray[np.float64]:
    query, rank = _relevant_shown(at, measure)
    first = _position(query) == 0
    return _sum(at, query[first], 1 / (rank[first] + 1))


def _success(at: Standing, measure: Measure) -> NDArray[np.float64]:
    return np.minimum(_sum(at, _relevant_shown(at, measure)[0]), 1.0)


def _rank_loss(at: Standing, measure: Measure) -> NDArray[np.float64]:
    relevant = at.grade >= measure.rel
    query, at_least = at.query[relevant], at.at_least[relevant]
    # One ascending key, as at_least never falls down a ranking; the last equal key is the end of a tie.
    key = query * (at_least.max(initial=0) + 1) + at_least
    n_relevant_at_least = np.searchsorted(key, key, side="right") - np.searchsorted(query, query)
    wrong = at_least - n_relevant_at_least
    n_shown = _sum(at, query)
    n_relevant = _n_relevant(at, measure)
    n_irrelevant = at.n_ranked - n_shown
    # An unranked relevant document counts below all ranked documents.
    n_wrong = _sum(at, query, wrong) + (n_relevant - n_shown) * n_irrelevant
    loss = _divide(n_wrong, n_relevant * n_irrelevant)
    loss[(at.n_ranked == 0) & (n_relevant > 0)] = 1.0
    return loss


_FORMULAS = {
    "AP": _average_precision,
    "nDCG": _ndcg,
    "P": _precision,
    "R": _recall,
    "RR": _reciprocal_rank,
    "Success": _success,
    "RankLoss": _rank_loss,
}


def _relevant_shown(at: Standing, measure: Measure) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Queries and ranks of the relevant documents above the cutoff, best first in each query."""
    chosen = (at.grade >= measure.rel) & _within(at.rank, measure)
    return at.query[chosen], at.rank[chosen]


def _within(rank: NDArray[np.int64], measure: Measure) -> NDArray[np.bool_]:
    return np.ones(len(rank), bool) if measure.cutoff is None else rank < measure.cutoff


def _n_relevant(at: Standing, measure: Measure) -> NDArray[np.float64]:
    return _sum(at, at.relevant_query[at.relevant_grade >= measure.rel])


def _sum(at: Standing, query: NDArray[np.int64], values: NDArray[np.number] | None = None) -> NDArray[np.float64]:
    """Sum of the values, or their number, per query."""
    return np.bincount(query, values, minlength=len(at.n_ranked)).astype(np.float64)


def _position(query: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of earlier entries with the same query; `query` is sorted."""
    return np.arange(len(query)) - np.searchsorted(query, query)


def _divide(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide, with 0 for a zero denominator."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
