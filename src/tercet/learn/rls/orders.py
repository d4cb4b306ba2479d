"""Pairs of rows by how scores and grades order them, which penalties are chosen by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.orders import count_pairs


def pair_counts(
    scores: NDArray[np.float64], y: NDArray[np.float64], query: NDArray[np.int64], n_queries: int
) -> NDArray[np.int64]:
    """Of each query: pairs, those in opposite order, of equal grade, of equal score, of both (n_queries, 5).

    ``query`` has the number of each row's query, from 0 up.
    """
    order = np.lexsort((scores, y, query))
    starts = np.searchsorted(query[order], np.arange(n_queries + 1))
    counts = np.empty((n_queries, 5), dtype=np.int64)
    count_pairs(y[order], scores[order], starts, counts)
    return counts


def disagreement(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The disagreement error of each query that has pairs: equation 1, ties in one of the two count a half."""
    n_pairs, opposite, tied_grades, tied_scores, tied_both = counts[counts[:, 0] > 0].T
    return (opposite + 0.5 * (tied_grades + tied_scores - 2 * tied_both)) / n_pairs
