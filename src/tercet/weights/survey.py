"""Going over all of W, a block of rows at a time: how large its entries are, and which rows and columns stand out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.ndimage import maximum_filter1d

from tercet.weights.hashed import Hashed
from tercet.weights.lowrank import LowRank
from tercet.weights.mapped import Mapped
from tercet.weights.part import Part
from tercet.weights.parts import Dense, Diagonal, Identity, Sparse
from tercet.weights.value import Weights

_BLOCK_BYTES = 64 * 2**20
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
    return all(
        part.is_thin if isinstance(part, Mapped) else isinstance(part, (Identity, Diagonal, Sparse))
        for part in weights.parts
    )


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
    for block in _blocks(terms.size, m):
        entries = weights.rows(terms[block]).astype(np.float32)
        sizes += _count_sizes(entries.ravel())
        live[block] = np.count_nonzero(np.abs(entries) >= floor if floor else entries, axis=1)
    return Scan(terms, sizes, live)


def _blocks(n: int, m: int) -> Iterator[slice]:
    """Rows to look at together."""
    height = max(1, _BLOCK_BYTES // (8 * max(1, m)))
    return (slice(start, min(start + height, n)) for start in range(0, n, height))


def _as_csr(weights: Weights) -> sparse.csr_array:
    """W without zeros, of weights whose parts are all sparse."""
    W = sparse.csr_array(weights.shape, dtype=np.float32) if weights.sparse is None else weights.sparse
    if weights.identity or weights.diagonal is not None:
        own = np.full(W.shape[0], weights.identity) + (0.0 if weights.diagonal is None else weights.diagonal)
        W = sparse.csr_array(W + sparse.diags_array(own), dtype=np.float32)
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
    found = np.flatnonzero(sizes.any(axis=0))
    if not found.size:
        return np.array([1.0, 2.0]), np.zeros(1, np.int64), np.zeros(1, np.int64)
    place = np.floor(_BINS_PER_DOUBLING * np.log2(_lower_limits(found))).astype(np.int64)
    first, n_bins = place[0], place[-1] - place[0] + 1
    positive, negative = (
        np.bincount(place - first, of_sign[found], minlength=n_bins).astype(np.int64) for of_sign in sizes
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
    found: list[tuple[float, int, int]] = []
    chosen: list[tuple[float, int, int]] = []
    for block in _blocks(min(order.size, max(n, 2 * _MOST_ENTRIES // weights.shape[1])), weights.shape[1]):
        if len(chosen) == n and -chosen[-1][0] >= limits[order[block.start]]:
            break
        terms = order[block]
        size = _sizes_between_words(weights.rows(terms), terms, shared)
        column = size.argmax(axis=1)
        largest = size[np.arange(terms.size), column]
        found += zip((-largest).tolist(), terms.tolist(), column.tolist(), strict=True)
        times: Counter[int] = Counter()
        chosen = []
        for strength, term, j in sorted(found):
            if len(chosen) < n and strength < 0 and times[j] < _ROWS_OF_A_COLUMN:
                times[j] += 1
                chosen.append((strength, term, j))
    return np.array([term for _, term, _ in chosen], dtype=np.int64)


def _row_limits(weights: Weights, shared: bool) -> NDArray[np.float64]:
    """For each query term, a size that none of its weights on other terms exceeds."""
    return np.sum([_limits_of_part(part, shared) for part in weights.parts], axis=0)


def _limits_of_part(part: Part, shared: bool) -> NDArray[np.float64]:
    n, m = part.shape
    limits = np.zeros(n)
    if isinstance(part, (Identity, Diagonal)):
        if not shared:
            limits += 1.0 if isinstance(part, Identity) else np.abs(part.weights)
    elif isinstance(part, Sparse):
        row = np.repeat(np.arange(n), np.diff(part.weights.indptr))
        elsewhere = row != part.weights.indices if shared else np.ones(row.size, dtype=bool)
        np.maximum.at(limits, row[elsewhere], np.abs(part.weights.data[elsewhere]))
    elif isinstance(part, Dense):
        for block in _blocks(n, m):
            terms = np.arange(block.start, block.stop)
            limits[block] = _sizes_between_words(part.weights[block], terms, shared).max(axis=1)
    elif isinstance(part, LowRank):
        longest = np.linalg.norm(part.doc_factors, axis=1).max()
        limits = np.linalg.norm(part.query_factors, axis=1) * np.float64(longest)
    elif isinstance(part, Hashed):
        # A row is a stretch of the table, so its largest entry is that of a window over the table.
        width = min(m, part.table.size)
        largest = maximum_filter1d(np.abs(part.table), width, mode="wrap")
        limits = largest[(part.starts(np.arange(n)) + width // 2) % part.table.size].astype(np.float64)
    elif isinstance(part, Mapped):
        if isinstance(part.innermost, LowRank):
            return _limits_of_part(part.plain(), shared)
        # Two different words may be replaced by one, so the inner part's own diagonal counts.
        limits = abs(part.A.T) @ _limits_of_part(part.part, False) * np.float64(abs(part.B).sum(axis=0).max())
    else:
        limits[:] = np.inf  # looked at one by one
    return limits * abs(part.scale)


def _sizes_between_words(rows: NDArray[Any], terms: NDArray[np.int64], shared: bool) -> NDArray[Any]:
    """Sizes of the entries; those of a word with itself are 0."""
    size = np.abs(rows)
    if shared:
        size[np.arange(terms.size), terms] = 0
    return size


def choose_columns(rows: NDArray[np.float64], terms: NDArray[np.int64], shared: bool, n: int) -> NDArray[np.int64]:
    """Each row's strongest column, then each row's second strongest, and so on until there are n."""
    size = _sizes_between_words(rows, terms, shared)
    n_best = min(n, size.shape[1])
    best = np.argsort(-size, axis=1, kind="stable")[:, :n_best]  # (n_rows, n_best)
    best_size = np.take_along_axis(size, best, axis=1)
    choice = np.broadcast_to(np.arange(n_best), best.shape)
    order = np.lexsort((best.ravel(), -best_size.ravel(), choice.ravel()))
    candidates = best.ravel()[order][best_size.ravel()[order] > 0]
    _, first = np.unique(candidates, return_index=True)
    return candidates[np.sort(first)[:n]]
