"""Keeping only the largest entries of any W, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.errors import InputError
from tercet.kernels.sparse_rows import N_SIZES, SIZE_SHIFT
from tercet.weights import Weights

_BLOCK_BYTES = 24 * 2**20  # below what the C library returns to the system at once, so that blocks share their memory
_ROWS_LOOKED_AT = 128  # for a first guess of the threshold
_MORE = 1.5  # entries that are kept for each that is wanted, before they are sorted out


def largest_entries(weights: Weights, density: float) -> sparse.csr_array:
    """The share ``density`` of W's entries that are largest in size, as CSR; the others are zero.

    W is looked at a block of rows at a time and never held as a whole: of the entries seen so far only those are kept
    that may be among the largest, at most half as many again as are wanted. What is far too small by a guess from a
    few rows is passed over at once; a guess that was too high is found out, and W is looked at again without it. Of
    equal sizes at the threshold, the first by row and column are taken. A part with a per-document scale counts at
    typical document length.
    """
    if not is_number(density, least=0, most=1) or density == 0:
        raise InputError(f"density must lie above 0 and be at most 1; got {density!r}")
    n, m = weights.shape
    wanted = max(1, round(density * n * m))
    guess = _guessed_edge(weights, density)
    largest = _look_through(weights, wanted, guess)
    if guess > 1 and largest.counts.sum() < wanted:
        largest = _look_through(weights, wanted, 1)
    row, column, value = largest.columns()
    wanted = min(wanted, int(largest.counts.sum()))
    if wanted == 0:
        return sparse.csr_array((n, m), dtype=np.float32)
    edge = _edge(largest.counts, wanted)
    short = wanted - int(largest.counts[edge + 1 :].sum())  # to take from the bin at the edge
    bins = _bins(value)
    candidates = np.flatnonzero(bins == edge)
    order = np.argsort(-np.abs(value[candidates]), kind="stable")
    keep = bins > edge
    keep[candidates[order[:short]]] = True
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[keep], minlength=n))])
    starts = starts.astype(np.int32 if starts[-1] <= np.iinfo(np.int32).max else np.int64)
    return sparse.csr_array((value[keep], column[keep], starts), shape=(n, m))


@dataclass(eq=False)
class _Largest:
    """Entries that may be among the largest, by row and column, and how many there were of each size."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(N_SIZES, dtype=np.int64))
    pieces: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]] = field(default_factory=list)
    size: int = 0

    def add(self, start: int, block: NDArray[np.float32], edge: int) -> None:
        """Those of a block of rows from ``start`` on that lie in this bin or above."""
        places = np.flatnonzero(np.abs(block) >= _least_of(edge))
        row, column = np.divmod(places, block.shape[1])
        value = block.ravel()[places]
        self.counts += np.bincount(_bins(value), minlength=N_SIZES)
        self.pieces.append(((row + start).astype(np.int32), column.astype(np.int32), value))
        self.size += value.size

    def drop_below(self, edge: int) -> None:
        row, column, value = self.columns()
        keep = np.abs(value) >= _least_of(edge)
        self.pieces = [(row[keep], column[keep], value[keep])]
        self.size = int(np.count_nonzero(keep))

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        row, column, value = (np.concatenate(parts) for parts in zip(*self.pieces, strict=True))
        return row, column, value


def _look_through(weights: Weights, wanted: int, edge: int) -> _Largest:
    """All of W, but for entries below the bin ``edge``, and below one that so many lie in or above."""
    largest = _Largest()
    for start, block in _blocks(weights, np.arange(weights.shape[0])):
        largest.add(start, block, edge)
        edge = max(edge, _edge(largest.counts, wanted))
        if largest.size > _MORE * wanted:
            largest.drop_below(edge)
    return largest


def _guessed_edge(weights: Weights, density: float) -> int:
    """A bin that about half as many again as are wanted lie in or above, by evenly spaced rows; 1 for few rows."""
    n, m = weights.shape
    if n < 4 * _ROWS_LOOKED_AT:
        return 1
    rows = np.linspace(0, n - 1, _ROWS_LOOKED_AT).astype(np.int64)
    counts = np.zeros(N_SIZES, dtype=np.int64)
    for _, block in _blocks(weights, rows):
        counts += np.bincount(_bins(block).ravel(), minlength=N_SIZES)
    counts[0] = 0
    return _edge(counts, round(_MORE * density * rows.size * m))


def _edge(counts: NDArray[np.int64], wanted: int) -> int:
    """The highest bin such that so many entries lie in it or above; the lowest but zero's where there are fewer."""
    enough = np.flatnonzero(np.cumsum(counts[::-1])[::-1] >= wanted)
    return max(1, int(enough[-1])) if enough.size else 1


def _blocks(weights: Weights, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    height = max(1, _BLOCK_BYTES // (8 * weights.shape[1]))
    for start in range(0, rows.size, height):
        yield start, weights.rows(rows[start : start + height]).astype(np.float32)


def _bins(block: NDArray[np.float32]) -> NDArray[np.int64]:
    return (np.abs(block).view(np.uint32) >> SIZE_SHIFT).astype(np.int64)


def _least_of(edge: int) -> np.float32:
    """The smallest size in a bin. Zeros, and what is too small to tell from them, are in bin 0 and never kept."""
    return np.float32(np.uint32(edge << SIZE_SHIFT).view(np.float32))
