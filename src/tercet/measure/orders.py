"""How well scores order the rows of each query, by pairs: the disagreement error of RankRLS, the concordance index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.errors import InputError
from tercet.kernels.orders import disagreement, pair_counts
from tercet.measure.letor import checked_ids, checked_scores


@dataclass(frozen=True, slots=True, eq=False)
class Orders:
    """Pairs of rows of each query by how scores and grades order them; made by `compare_orders`.

    Attributes
    ----------
    qids : the queries with two rows or more, in the order of their first rows
    counts : (n_queries, 5) pairs in all, in opposite order, of equal grade, of equal score, of both
    alone : how many queries were left out because they have one row only

    Examples
    --------
    >>> from tercet.measure import compare_orders
    >>> compare_orders([0.9, 0.1, 0.5], [1, 0, 1], ["q", "q", "q"]).concordance.tolist()
    [1.0]
    """

    qids: tuple[str, ...]
    counts: NDArray[np.int64]
    alone: int = 0

    @property
    def disagreement(self) -> NDArray[np.float64]:
        """The disagreement error of each query (n_queries,), from 0 to 1: ``½ |sign(y_i - y_j) - sign(f_i - f_j)|``.

        The mean over pairs i ≠ j (Tsivtsivadze et al. 2008, equation 1). A pair that is tied in one of the two, and not
        in the other, counts a half; one that is tied in both counts as right.
        """
        return disagreement(self.counts)

    @property
    def concordance(self) -> NDArray[np.float64]:
        """The concordance index of each query (n_queries,): the share of pairs of different grades in the right order.

        A tie of scores counts a half. NaN for a query whose grades are all the same.
        """
        n_pairs, opposite, tied_grades, tied_scores, tied_both = self.counts.T
        different = n_pairs - tied_grades
        right = different - opposite - 0.5 * (tied_scores - tied_both)
        return np.divide(right, different, out=np.full(len(right), np.nan), where=different > 0)

    @property
    def mean_disagreement(self) -> float:
        """The mean of the disagreement error over queries."""
        return float(self.disagreement.mean())

    @property
    def mean_concordance(self) -> float:
        """The mean of the concordance index over queries that have one; NaN when none has."""
        indices = self.concordance
        return float(indices[~np.isnan(indices)].mean()) if not np.isnan(indices).all() else float("nan")


def compare_orders(scores: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Orders:
    """Compare the order of scores with that of grades within each query.

    Parameters
    ----------
    scores : (n_rows,) higher is better
    y : (n_rows,) grades, any finite numbers
    qid : (n_rows,) query ids, strings or integers, in any order; None when all rows are of one query

    Notes
    -----
    Two methods are compared by ``paired_test(a.disagreement, b.disagreement, "wilcoxon")``, queries being the trials.
    Costs O(n log n) for queries of n rows.

    Examples
    --------
    >>> orders = compare_orders([0.1, 0.3, 0.2, 0.2], [0, 1, 2, 1], [7, 7, 7, 8])
    >>> orders.disagreement.round(3).tolist(), orders.concordance.round(3).tolist(), orders.alone
    ([0.333], [0.667], 1)
    """
    values = checked_scores(scores).astype(np.float64)
    grades = _checked_grades(y, len(values))
    ids = np.zeros(len(values), dtype=np.int64) if qid is None else checked_ids(qid, len(values))
    queries, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    number = np.empty(len(queries), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(queries))
    counts = pair_counts(values, grades, number[inverse], len(queries))
    names = [str(name) for name in queries[np.argsort(first)].tolist()]
    kept = counts[:, 0] > 0
    if not kept.any():
        raise InputError(f"no query has two rows or more, so there are no pairs to compare ({len(queries)} queries)")
    qids = tuple(name for name, keep in zip(names, kept, strict=True) if keep)
    return Orders(qids, counts[kept], int((~kept).sum()))


def _checked_grades(y: Any, n_rows: int) -> NDArray[np.float64]:
    try:
        grades = np.asarray(y)
    except ValueError:
        raise InputError("Grades must be real numbers, one per score. Got rows of different lengths.") from None
    if grades.shape != (n_rows,) or grades.dtype.kind not in "iufb":
        raise InputError(
            f"Grades must be real numbers, one per score, shape {(n_rows,)}. "
            f"Got shape {grades.shape}, dtype {grades.dtype}."
        )
    grades = grades.astype(np.float64)
    if not np.isfinite(grades).all():
        row = int((~np.isfinite(grades)).argmax())
        raise InputError(f"The grade of row {row} is {grades[row]}; grades must be finite.")
    return grades
