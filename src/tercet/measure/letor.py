"""Measures of LETOR-shaped scores: one per row, rows of a query together, ties in row order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.data.letor import gathered, whole_grades
from tercet.errors import InputError
from tercet.measure.evaluation import Evaluation, NoRelevant, values_of
from tercet.measure.formulas import find_standing
from tercet.measure.names import Measure, parse_measures


def measure_rows(
    scores: ArrayLike,
    y: ArrayLike,
    qid: ArrayLike,
    measures: str | Measure | Iterable[str | Measure] = ("nDCG(dcg='exp-log2')@10", "AP"),
    no_relevant: NoRelevant = "zero",
) -> Evaluation:
    """Measure every query's ranking by score; of equal scores the earlier row is first.

    Parameters
    ----------
    scores : (n_rows,) higher is better
    y : (n_rows,) grades, whole numbers; 1 or more is relevant unless a measure says otherwise, as in
        ``"AP(rel=2)"``
    qid : (n_rows,) query ids, strings or integers; rows of a query need not stand together
    measures : names as in ``"nDCG(dcg='letor')@10"``, or one name
    no_relevant : what a query without a relevant document counts: ``"zero"``, as in ir_measures and in LETOR's
        script, or nothing, ``"leave-out"``, as `evaluate` explains

    Returns
    -------
    Evaluation, its queries in the order of their first rows.

    Notes
    -----
    Costs O(n log r) for n rows and r relevant ones per query; rankings are not sorted.

    Examples
    --------
    >>> result = measure_rows([0.2, 0.7, 0.1], [2, 0, 1], [7, 7, 7], ["AP", "AP(rel=2)", "nDCG(dcg='letor')@3"])
    >>> print(result)
    measure               mean  s.e.  95% interval
    AP                  0.5833     -             -
    AP(rel=2)           0.5000     -             -
    nDCG(dcg='letor')@3 0.9077     -             -
    1 query
    """
    parsed = parse_measures(measures)
    values = checked_scores(scores)
    grades, ids = whole_grades(y, len(values)), checked_ids(qid, len(values))
    begins = np.concatenate([[True], ids[1:] != ids[:-1]])
    if len(set(ids[begins].tolist())) < begins.sum():
        order = gathered(ids)
        values, grades, ids = values[order], grades[order], ids[order]
        begins = np.concatenate([[True], ids[1:] != ids[:-1]])
    starts = np.flatnonzero(begins)
    row_starts = np.append(starts, len(values))
    relevant = np.flatnonzero(grades > 0)
    query = np.searchsorted(starts, relevant, side="right") - 1
    column = (relevant - starts[query]).astype(np.int32)
    nothing = np.full(len(starts), -1)
    standing = find_standing(values, row_starts, nothing, query, column, grades[relevant])
    measured, kept = values_of(standing, parsed, no_relevant)
    names = tuple(str(name) for name in ids[starts[kept]].tolist())
    return Evaluation(parsed, names, measured, irrelevant=int((~kept).sum()))


def checked_scores(scores: ArrayLike) -> NDArray[np.floating]:
    """One real number per row, none of them NaN."""
    try:
        values = np.asarray(scores)
    except ValueError:
        raise InputError("Scores must be real numbers, one per row. Got rows of different lengths.") from None
    if values.ndim != 1 or values.dtype.kind not in "iufb":
        raise InputError(f"Scores must be real numbers, one per row. Got shape {values.shape}, dtype {values.dtype}.")
    if not len(values):
        raise InputError("There are no rows to measure.")
    values = np.ascontiguousarray(values, dtype=np.float32 if values.dtype == np.float32 else np.float64)
    if np.isnan(values.min()):  # one NaN makes the minimum NaN
        raise InputError(f"The score of row {np.isnan(values).argmax()} is NaN; scores must be numbers.")
    return values


def checked_ids(qid: ArrayLike, n_rows: int) -> NDArray[np.generic]:
    """One string or integer per row."""
    ids = np.asarray(qid)
    if ids.shape != (n_rows,) or ids.dtype.kind not in "iuU":
        raise InputError(
            f"Query ids must be strings or integers, one per score, shape {(n_rows,)}. "
            f"Got shape {ids.shape}, dtype {ids.dtype}."
        )
    return ids
