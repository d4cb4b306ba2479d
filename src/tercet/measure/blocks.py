"""Measures of blocks of scores: a row per query, a column per document, ties in column order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from tercet.errors import InputError
from tercet.measure.formulas import Standing, compute, find_standing
from tercet.measure.names import Measure, parse_measures


def measure_block(
    scores: ArrayLike,
    grades: ArrayLike | sp.spmatrix | sp.sparray,
    measures: str | Measure | Iterable[str | Measure],
    n_relevant: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Measure a block of rankings given as scores, (n_q, n_measures).

    Parameters
    ----------
    scores : (n_q, n_d) scores, higher is better; equal scores rank in column order
    grades : (n_q, n_d) integers, dense or sparse; 1 or more is relevant, 0 and below are not
    measures : names as in ``"nDCG@10"``, or one name
    n_relevant : (n_q,) how many relevant documents there are, when the block does not hold them all. Those
        outside count as grade 1 and as never retrieved.
    exclude : (n_q,) column to leave out of each query's ranking (the query itself, when documents are
        queries), -1 for none

    Notes
    -----
    Costs O(n_q n_d log r) for r relevant documents per query; rankings are not sorted. A query without a
    relevant document gets 0 in every measure.

    Examples
    --------
    >>> measure_block([[3.0, 2.0, 1.0]], [[0, 1, 1]], ["P@2", "RR", "RankLoss"])
    array([[0.5, 0.5, 1. ]])
    """
    parsed = parse_measures(measures)
    return compute(standing_of_block(scores, grades, n_relevant, exclude), parsed)


def standing_of_block(
    scores: ArrayLike,
    grades: ArrayLike | sp.spmatrix | sp.sparray,
    n_relevant: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
) -> Standing:
    """What `measure_block` measures."""
    block = _check_scores(scores)
    query, column, grade = _positive_grades(grades, block.shape)
    left_out = _check_exclude(exclude, block.shape)
    unseen = None
    if n_relevant is not None:
        # Counted after the excluded column is gone, as the caller's number leaves it out too.
        present = np.bincount(query[column != left_out[query]], minlength=len(block))
        outside = _check_n_relevant(n_relevant, present)
        unseen_query = np.repeat(np.arange(len(block)), outside)
        unseen = (unseen_query, np.ones_like(unseen_query))
    return find_standing(block.ravel(), _row_starts(block.shape), left_out, query, column, grade, unseen)


def average_precision_by_class(
    score_block: ArrayLike,
    query_labels: ArrayLike,
    doc_labels: ArrayLike,
    exclude: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Average precision of each query when documents of its own class are the relevant ones, (n_q,).

    Parameters
    ----------
    score_block : (n_q, n_d) scores; equal scores rank in column order
    query_labels, doc_labels : (n_q,) and (n_d,) classes, integers or strings
    exclude : (n_q,) column to leave out of each query's ranking, -1 for none

    Notes
    -----
    A query whose class has no other document gets 0. 7,532 × 7,532 scores with 20 classes take about two
    seconds on one core; hand in blocks of rows where the whole would not fit in memory.

    Examples
    --------
    >>> average_precision_by_class([[0.9, 0.5, 0.4]], ["a"], ["a", "b", "a"], exclude=[0])
    array([0.5])
    """
    block = _check_scores(score_block)
    n_queries = len(block)
    left_out = _check_exclude(exclude, block.shape)
    query_class, doc_class = _shared_classes(query_labels, doc_labels, block.shape)
    by_class = np.argsort(doc_class, kind="stable").astype(np.int32)  # columns stay ascending in a class
    first = np.searchsorted(doc_class[by_class], query_class, side="left")
    size = np.searchsorted(doc_class[by_class], query_class, side="right") - first
    query = np.repeat(np.arange(n_queries), size)
    within = np.arange(len(query)) - np.repeat(np.cumsum(size) - size, size)
    column = by_class[np.repeat(first, size) + within]
    standing = find_standing(block.ravel(), _row_starts(block.shape), left_out, query, column, np.ones_like(query))
    return compute(standing, [Measure("AP")])[:, 0]


def _check_scores(scores: ArrayLike) -> NDArray[np.floating]:
    block = np.asarray(scores)
    if block.ndim != 2:
        raise InputError(f"Scores must be a (queries, documents) array. Got shape {block.shape}.")
    if not (np.issubdtype(block.dtype, np.number) or block.dtype == bool) or np.iscomplexobj(block):
        raise InputError(f"Scores must be real numbers. Got dtype {block.dtype}.")
    block = np.ascontiguousarray(block, dtype=np.float32 if block.dtype == np.float32 else np.float64)
    if np.isnan(block.min(initial=0)):  # one NaN makes the minimum NaN
        row, column = np.argwhere(np.isnan(block))[0]
        raise InputError(f"The score of query {row} and document {column} is NaN; scores must be numbers.")
    return block


def _positive_grades(
    grades: ArrayLike | sp.spmatrix | sp.sparray, shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Query, column and grade of every document graded above 0, sorted by query and column."""
    values: Any = sp.csr_array(grades, copy=True) if sp.issparse(grades) else np.asarray(grades)
    if values.shape != shape:
        raise InputError(f"Grades must have the shape of the scores, {shape}. Got {values.shape}.")
    if not (np.issubdtype(values.dtype, np.integer) or values.dtype == bool):
        raise InputError(f"Grades must be integers. Got dtype {values.dtype}.")
    if sp.issparse(values):
        values.sum_duplicates()  # sorts the columns as well
        query = np.repeat(np.arange(shape[0]), np.diff(values.indptr))
        positive = values.data > 0
        column, grade = values.indices[positive], values.data[positive]
        return query[positive], column.astype(np.int32), grade.astype(np.int64)
    query, column = np.nonzero(values > 0)
    return query, column.astype(np.int32), values[query, column].astype(np.int64)


def _check_exclude(exclude: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.int64]:
    if exclude is None:
        return np.full(shape[0], -1)
    columns = np.asarray(exclude)
    if columns.shape != shape[:1] or not np.issubdtype(columns.dtype, np.integer):
        raise InputError(
            f"'exclude' must hold one integer column per query, shape {shape[:1]}. "
            f"Got shape {columns.shape}, dtype {columns.dtype}."
        )
    wrong = np.flatnonzero((columns < -1) | (columns >= shape[1]))
    if wrong.size:
        raise InputError(
            f"'exclude' must be a column below {shape[1]}, or -1 for none. "
            f"Got {columns[wrong[0]]} for query {wrong[0]}."
        )
    return columns.astype(np.int64)


def _check_n_relevant(n_relevant: ArrayLike, present: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many relevant documents of each query are outside the block."""
    counts = np.asarray(n_relevant)
    if counts.shape != present.shape or not np.issubdtype(counts.dtype, np.integer):
        raise InputError(
            f"'n_relevant' must hold one integer per query, shape {present.shape}. "
            f"Got shape {counts.shape}, dtype {counts.dtype}."
        )
    too_few = np.flatnonzero(counts < present)
    if too_few.size:
        row = too_few[0]
        raise InputError(f"'n_relevant' of query {row} is {counts[row]}, but its row of grades has {present[row]}.")
    return counts.astype(np.int64) - present


def _shared_classes(
    query_labels: ArrayLike, doc_labels: ArrayLike, shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both label arrays as class numbers that mean the same."""
    of_queries, of_docs = np.asarray(query_labels), np.asarray(doc_labels)
    if (of_queries.shape, of_docs.shape) != (shape[:1], shape[1:]):
        raise InputError(
            f"Labels must be one per row and per column of the scores, shapes {shape[:1]} and {shape[1:]}. "
            f"Got {of_queries.shape} and {of_docs.shape}."
        )
    if (of_queries.dtype.kind in "US") != (of_docs.dtype.kind in "US"):
        # Joining them would turn 1 into "1" and quietly match.
        raise InputError(
            f"Query and document labels must be of one kind. Got dtypes {of_queries.dtype} and {of_docs.dtype}."
        )
    _, numbers = np.unique(np.concatenate([of_queries, of_docs]), return_inverse=True)
    return numbers[: shape[0]], numbers[shape[0] :]


def _row_starts(shape: tuple[int, ...]) -> NDArray[np.int64]:
    return np.arange(shape[0] + 1) * shape[1]
