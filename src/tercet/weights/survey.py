"""Going over all of W, a block of rows at a time: how large its entries are, and which rows and columns stand out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.weights.base import row_blocks, sizes_between_words
from tercet.weights.value import Weights

_MOST_ENTRIES = 10**8  # of a W that is not sparse; beyond that, rows are sampled
_ROWS_OF_A_COLUMN = 2  # query words shown for the sake of the same document word
# A positive float32 sorts like its bit pattern; sign, exponent and eight bits more put sizes into bins 1/256th apart.
_SHIFT = 15
_N_SIZES = 1 << 16
_BINS_PER_DOUBLING = 2


@dataclass(frozen=True, eq=False)
class Scan:
    """What one look at the rows gives.

    terms (n,) which query terms; sizes (2, n_sizes) entries by sign and size; live (n,) entries of each row.
    """

    terms: NDArray[np.int64]
    sizes: NDArray[np.int64]
    live: NDArray[np.int64]


def is_sparse(weights: Weights) -> bool:
    """Whether all of W's entries are stored one by one, or lie on its diagonal, or come from such through word maps."""
    return all(part.is_sparse for part in weights.parts)


def scan_rows(weights: Weights, floor: float = 0.0) -> Scan:
    """Count the entries by size, and in each row those that are not zero and reach ``floor``.

    Of a W that is not sparse and has more than 10⁸ entries, evenly spaced rows are looked at.
    """
    n, m = weights.shape
    terms = np.arange(n)
    if is_sparse(weights):
        W = _as_csr(weights)
        row = np.repeat(terms, np.diff(W.indptr))[np.abs(W.data) >= floor]
        return Scan(terms, _count_sizes(W.data), np.bincount(row, minlength=n))
    if n * m > _MOST_ENTRIES:
        terms = np.unique(np.linspace(0, n - 1, max(1, _MOST_ENTRIES // m)).astype(np.int64))
    sizes = np.zeros((2, _N_SIZES), dtype=np.int64)
    live = np.zeros(terms.size, dtype=np.int64)
    for block in row_blocks(terms.size, m):
        entries = weights.rows(terms[block]).astype(np.float32)
        sizes += _count_sizes(entries.ravel())
        live[block] = np.count_nonzero(np.abs(entries) >= floor if floor else entries, axis=1)
    return Scan(terms, sizes, live)


def _as_csr(weights: Weights) -> sparse.csr_array:
    """W without zeros, of weights whose parts are all sparse."""
    W = sparse.csr_array(weights.shape, dtype=np.float32) if weights.sparse is None else weights.sparse
    if weights.identity or weights.diagonal is not None:
        diagonal = np.full(W.shape[0], weights.identity) + (0.0 if weights.diagonal is None else weights.diagonal)
        W = sparse.csr_array(W + sparse.diags_array(diagonal), dtype=np.float32)
    W.eliminate_zeros()
    return W


def _count_sizes(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """How many values have which sign and size (2, _N_SIZES); zeros are not counted."""
    bins = (values.view(np.uint32) >> _SHIFT).astype(np.int64)
    counts = np.bincount(bins, minlength=2 * _N_SIZES).reshape(2, _N_SIZES)
    counts[:, 0] = 0
    return counts


def _lower_limits(bins: NDArray[np.int64]) -> NDArray[np.float64]:
    """The smallest size in each bin."""
    return (bins << _SHIFT).astype(np.uint32).view(np.float32).astype(np.float64)


def histogram(sizes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Limits of sizes, evenly spaced on a log scale, and the positive and negative entries between them."""
    filled = np.flatnonzero(sizes.any(axis=0))
    if not filled.size:
        return np.array([1.0, 2.0]), np.zeros(1, np.int64), np.zeros(1, np.int64)
    bins = np.floor(_BINS_PER_DOUBLING * np.log2(_lower_limits(filled))).astype(np.int64)
    first, n_bins = bins[0], bins[-1] - bins[0] + 1
    positive, negative = (
        np.bincount(bins - first, of_sign[filled], minlength=n_bins).astype(np.int64) for of_sign in sizes
    )
    return 2.0 ** (np.arange(first, first + n_bins + 1) / _BINS_PER_DOUBLING), positive, negative


def size_of_largest(sizes: NDArray[np.int64], n: float) -> float:
    """The size that about ``n`` entries reach, at least one."""
    reached = np.cumsum(sizes.sum(axis=0)[::-1])[::-1]
    enough = np.flatnonzero(reached >= max(1.0, n))
    return float(_lower_limits(enough[-1:])[0])


def choose_rows(weights: Weights, shared: bool, n: int) -> NDArray[np.int64]:
    """The query terms with the largest weight on another term, at most two with the largest on the same one.

    Rows are taken by the largest entry they could have, until no row to come can have a larger one than those chosen.
    """
    limits = _row_limits(weights, shared)
    order = np.argsort(-limits, kind="stable")
    order = order[limits[order] > 0]
    candidates: list[tuple[float, int, int]] = []
    chosen: list[tuple[float, int, int]] = []
    for block in row_blocks(min(order.size, max(n, 2 * _MOST_ENTRIES // weights.shape[1])), weights.shape[1]):
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
    """Each row's strongest column, then each row's second strongest, and so on until there are n."""
    size = sizes_between_words(rows, terms, shared)
    n_best = min(n, size.shape[1])
    best = np.argsort(-size, axis=1, kind="stable")[:, :n_best]  # (n_rows, n_best)
    best_size = np.take_along_axis(size, best, axis=1)
    choice = np.broadcast_to(np.arange(n_best), best.shape)
    order = np.lexsort((best.ravel(), -best_size.ravel(), choice.ravel()))
    candidates = best.ravel()[order][best_size.ravel()[order] > 0]
    _, first = np.unique(candidates, return_index=True)
    return candidates[np.sort(first)[:n]]
