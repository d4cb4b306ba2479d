"""Formulas of the measures, from the ranks and grades of the relevant documents of every query.

Blocks of scores, rows of LETOR files and runs of ids share these formulas. Equal scores rank in column order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet.errors import InputError
from tercet.kernels.ranking import rank_chosen
from tercet.measure.names import Measure, parse_measures

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
    query: NDArray[np.int64],
    column: NDArray[np.int32],
    grade: NDArray[np.int64],
    unseen: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> Standing:
    """Rank the documents (query, column, grade), sorted by query and column, among each query's scores.

    `unseen` are queries and grades of unranked relevant documents.
    """
    starts = np.searchsorted(query, np.arange(len(row_starts)))
    order = np.lexsort((-scores[row_starts[query] + column], query))  # stable, so ties keep column order
    rank, at_least = np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    rank_chosen(scores, row_starts, starts, column[order], column, rank, at_least)
    relevant_query, relevant_grade = query, grade
    if unseen is not None:
        relevant_query = np.concatenate([query, unseen[0]])
        relevant_grade = np.concatenate([grade, unseen[1]])
    return Standing(np.diff(row_starts), query, grade[order], rank, at_least, relevant_query, relevant_grade)


def standing_of_block(scores: ArrayLike, grades: ArrayLike | sparse.sparray) -> Standing:
    """Rank the relevant documents in a block of scores."""
    block, relevant = real_scores(scores, 2), sparse.csr_array(grades)
    if relevant.shape != block.shape or not (np.issubdtype(relevant.dtype, np.integer) or relevant.dtype == bool):
        raise InputError(
            f"Grades must be integers in the shape of the scores, {block.shape}. Got {relevant.shape}, "
            f"dtype {relevant.dtype}."
        )
    if sparse.issparse(grades):
        relevant = relevant.copy()
        relevant.sum_duplicates()  # sorts the columns as well
    query = np.repeat(np.arange(block.shape[0]), np.diff(relevant.indptr))
    is_relevant = relevant.data > 0
    column, grade = relevant.indices[is_relevant].astype(np.int32), relevant.data[is_relevant].astype(np.int64)
    return find_standing(block.ravel(), np.arange(len(block) + 1) * block.shape[1], query[is_relevant], column, grade)


def measure_block(
    scores: ArrayLike, grades: ArrayLike | sparse.sparray, measures: str | Measure | Iterable[str | Measure]
) -> NDArray[np.float64]:
    """Measure a block of rankings given as scores, (n_q, n_measures).

    Parameters
    ----------
    scores : (n_q, n_d) scores, higher is better; equal scores rank in column order
    grades : (n_q, n_d) integers, dense or sparse; 1 or more is relevant, 0 and below are not
    measures : names as in ``"nDCG@10"``, or a single name

    Notes
    -----
    Costs O(n_q n_d log r) for r relevant documents per query; rankings are not sorted. A query without a
    relevant document gets 0 in every measure.

    Examples
    --------
    >>> measure_block([[3.0, 2.0, 1.0]], [[0, 1, 1]], ["P@2", "RR", "RankLoss"])
    array([[0.5, 0.5, 1. ]])
    """
    return compute(standing_of_block(scores, grades), parse_measures(measures))


def real_scores(scores: ArrayLike, ndim: int) -> NDArray[Any]:
    """Check scores: real numbers without NaN, (n_rows,) or (queries, documents)."""
    try:
        values = np.asarray(scores)
    except ValueError:
        raise InputError("Scores must be real numbers. Got rows of different lengths.") from None
    if values.ndim != ndim or values.dtype.kind not in "iufb":
        shape = "one per row" if ndim == 1 else "(queries, documents)"
        raise InputError(f"Scores must be real numbers, {shape}. Got shape {values.shape}, dtype {values.dtype}.")
    # Rows have a single type, to compile ranking once.
    single = ndim == 2 and values.dtype == np.float32
    values = np.ascontiguousarray(values, dtype=np.float32 if single else np.float64)
    if np.isnan(values.min(initial=0)):  # one NaN makes the minimum NaN
        where = " and document ".join(map(str, np.argwhere(np.isnan(values))[0]))
        raise InputError(f"The score of {'row' if ndim == 1 else 'query'} {where} is NaN; scores must be numbers.")
    return values


def compute(standing: Standing, measures: Sequence[Measure]) -> NDArray[np.float64]:
    """Every measure of every query, (n_q, n_measures)."""
    values = np.zeros((len(standing.n_ranked), len(measures)))
    for column, measure in enumerate(measures):
        if measure.name not in _FORMULAS:
            raise InputError(f"{measure} is measured on preferences, and not on rankings; name another measure.")
        values[:, column] = _FORMULAS[measure.name](standing, measure)
    return values


def _average_precision(at: Standing, measure: Measure) -> NDArray[np.float64]:
    query, rank = _relevant_shown(at, measure)
    precision = (_position(query) + 1) / (rank + 1)
    return _divide(_sum(at, query, precision), _n_relevant(at, measure))


def _ndcg(at: Standing, measure: Measure) -> NDArray[np.float64]:
    within = _within(at.rank, measure)
    gain = _sum(at, at.query[within], _discounted(at.grade[within], at.rank[within], measure))
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
    # `at_least` never falls down a ranking, so a single ascending key suffices. The last equal key ends a tie.
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
