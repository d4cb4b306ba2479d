"""Prominent rows and columns of W, found a block of rows at a time, and the number of entries of a sparse W."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.weights.base import row_blocks, sizes_between_words
from tercet.weights.value import Weights

_MOST_ENTRIES = 2 * 10**8  # that are looked at for the strongest rows
_ROWS_OF_A_COLUMN = 2  # query words shown for the sake of the same document word


def is_sparse(weights: Weights) -> bool:
    """Return True if all parts are sparse."""
    return all(part.is_sparse for part in weights.parts)


def n_entries(weights: Weights) -> int:
    """Number of entries other than zero, of weights whose parts are all sparse."""
    return int(_as_csr(weights).nnz)


def _as_csr(weights: Weights) -> sparse.csr_array:
    """W without zeros, of weights whose parts are all sparse."""
    W = sparse.csr_array(weights.shape, dtype=np.float32) if weights.sparse is None else weights.sparse
    if weights.identity or weights.diagonal is not None:
        diagonal = np.full(W.shape[0], weights.identity) + (0.0 if weights.diagonal is None else weights.diagonal)
        W = sparse.csr_array(W + sparse.diags_array(diagonal), dtype=np.float32)
    W.eliminate_zeros()
    return W


def choose_rows(weights: Weights, shared: bool, n: int) -> NDArray[np.int64]:
    """Return the query terms with the largest weight on another term, at most two with the largest on the same term.

    Rows are taken by an upper bound of their entries, until no later row can exceed the chosen rows.
    """
    limits = _row_limits(weights, shared)
    order = np.argsort(-limits, kind="stable")
    order = order[limits[order] > 0]
    candidates: list[tuple[float, int, int]] = []
    chosen: list[tuple[float, int, int]] = []
    for block in row_blocks(min(order.size, max(n, _MOST_ENTRIES // weights.shape[1])), weights.shape[1]):
        if len(chosen) == n and -chosen[-1][0] >= limits[order[block.start]]:
            break
        terms = order[block]
        size = sizes_between_words(weights.rows(terms), terms, shared)
        column = size.argmax(axis=1)
        largest = size[np.arange(terms.size), column]
        candidates += zip((-largest).tolist(), terms.tolist(), column.tolist(), strict=True)
        times: Counter[int] = Counter()
        chosen = []
        for strength, term, j in sorted(candidates):
            if len(chosen) < n and strength < 0 and times[j] < _ROWS_OF_A_COLUMN:
                times[j] += 1
                chosen.append((strength, term, j))
    return np.array([term for _, term, _ in chosen], dtype=np.int64)


def _row_limits(weights: Weights, shared: bool) -> NDArray[np.float64]:
    """For each query term, a size that none of its weights on other terms exceeds."""
    return np.sum([part.row_limits(shared) for part in weights.parts], axis=0)


def choose_columns(rows: NDArray[np.float64], terms: NDArray[np.int64], shared: bool, n: int) -> NDArray[np.int64]:
    """Return each row's strongest column, then each row's second strongest, and so on up to n columns."""
    size = sizes_between_words(rows, terms, shared)
    n_best = min(n, size.shape[1])
    best = np.argsort(-size, axis=1, kind="stable")[:, :n_best]  # (n_rows, n_best)
    best_size = np.take_along_axis(size, best, axis=1)
    choice = np.broadcast_to(np.arange(n_best), best.shape)
    order = np.lexsort((best.ravel(), -best_size.ravel(), choice.ravel()))
    candidates = best.ravel()[order][best_size.ravel()[order] > 0]
    _, first = np.unique(candidates, return_index=True)
    return candidates[np.sort(first)[:n]]
