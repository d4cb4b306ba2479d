"""Agreement of two orders of the rows of a query, by pairs, in O(n log n)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.compiler import array_helper, kernel


@array_helper
def count_inversions(values, spare):
    """Pairs of which the earlier value is greater; sorts ``values`` (n,) in place, ``spare`` (n,) is overwritten."""
    n, inversions, width = values.size, 0, 1
    while width < n:
        for left in range(0, n, 2 * width):
            middle, end = min(left + width, n), min(left + 2 * width, n)
            i, j = left, middle
            for k in range(left, end):
                if i < middle and (j >= end or values[i] <= values[j]):
                    spare[k] = values[i]
                    i += 1
                else:
                    spare[k] = values[j]
                    j += 1
                    inversions += middle - i
        values[:] = spare
        width *= 2
    return inversions


@kernel
def count_pairs(y, scores, starts, counts):
    """Compare the order of scores with the order of grades in every query.

    y, scores (n,), rows of a query together, by rising grade, then by rising score; starts (n_queries + 1,);
    counts (n_queries, 5) receives pairs in all, in opposite order, equal in grade, equal in score, equal in both
    """
    spare = np.empty(scores.size)
    for q in range(starts.size - 1):
        first, last = starts[q], starts[q + 1]
        n = last - first
        counts[q, 0] = n * (n - 1) // 2
        counts[q, 2:] = 0
        same, both = 0, 0  # numbers of rows equal to the previous row
        for i in range(first + 1, last):
            same = same + 1 if y[i] == y[i - 1] else 0
            both = both + 1 if same > 0 and scores[i] == scores[i - 1] else 0
            counts[q, 2] += same
            counts[q, 4] += both
        ordered = scores[first:last].copy()
        counts[q, 1] = count_inversions(ordered, spare[first:last])
        same = 0
        for i in range(1, n):
            same = same + 1 if ordered[i] == ordered[i - 1] else 0
            counts[q, 3] += same


def pair_counts(
    scores: NDArray[np.float64], y: NDArray[np.float64], query: NDArray[np.int64], n_queries: int
) -> NDArray[np.int64]:
    """Count pairs of each query: all, in opposite order, of equal grade, of equal score, of both (n_queries, 5).

    ``query`` has the number of each row's query, from 0 up.
    """
    order = np.lexsort((scores, y, query))
    starts = np.searchsorted(query[order], np.arange(n_queries + 1))
    counts = np.empty((n_queries, 5), dtype=np.int64)
    count_pairs(y[order], scores[order], starts, counts)
    return counts


def disagreement(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the disagreement error of each query with pairs (Tsivtsivadze et al. 2008, equation 1), from
    `pair_counts`.

    Ties in grade or score, but not in both, count a half.
    """
    n_pairs, opposite, tied_grades, tied_scores, tied_both = counts[counts[:, 0] > 0].T
    return (opposite + 0.5 * (tied_grades + tied_scores - 2 * tied_both)) / n_pairs
