"""Measures of blocks of scores: a row per query, a column per document, ties in column order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet.errors import InputError
from tercet.measure.formulas import Standing, compute, find_standing
from tercet.measure.names import Measure, parse_measures


def measure_block(
    scores: ArrayLike,
    grades: ArrayLike | sparse.spmatrix | sparse.sparray,
    measures: str | Measure | Iterable[str | Measure],
    exclude: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Measure a block of rankings given as scores, (n_q, n_measures).

    Parameters
    ----------
    scores : (n_q, n_d) scores, higher is better; equal scores rank in column order
    grades : (n_q, n_d) integers, dense or sparse; 1 or more is relevant, 0 and below are not
    measures : names as in ``"nDCG@10"``, or a single name
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
    return compute(standing_of_block(scores, grades, exclude), parsed)


def standing_of_block(
    scores: ArrayLike,
    grades: ArrayLike | sparse.spmatrix | sparse.sparray,
    exclude: ArrayLike | None = None,
) -> Standing:
    """Ranks of the relevant documents in a block of scores."""
    block = _check_scores(scores)
    query, column, grade = _positive_grades(grades, block.shape)
    left_out = _check_exclude(exclude, block.shape)
    row_starts = np.arange(block.shape[0] + 1) * block.shape[1]
    return find_standing(block.ravel(), row_starts, left_out, query, column, grade)


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
    grades: ArrayLike | sparse.spmatrix | sparse.sparray, shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Query, column and grade of every document graded above 0, sorted by query and column."""
    values: Any = sparse.csr_array(grades, copy=True) if sparse.issparse(grades) else np.asarray(grades)
    if values.shape != shape:
        raise InputError(f"Grades must have the shape of the scores, {shape}. Got {values.shape}.")
    if not (np.issubdtype(values.dtype, np.integer) or values.dtype == bool):
        raise InputError(f"Grades must be integers. Got dtype {values.dtype}.")
    if sparse.issparse(values):
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
