"""Keeping only the largest entries of any W, block by block."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.errors import InputError
from tercet.weights import Diagonal, Identity, LowRank, Sparse, Weights

# A positive float32 sorts like its bit pattern; the upper bits put sizes into bins an 1/256th apart.
SIZE_SHIFT = 15
N_SIZES = 1 << (32 - SIZE_SHIFT)
_BLOCK_BYTES = 24 * 2**20  # below the mmap threshold of the C library, so that blocks reuse memory
_ROWS_LOOKED_AT = 128  # sampled rows for a first guess of the threshold
_MORE = 1.5  # entries collected per requested entry, before the exact selection


def largest_entries(weights: Weights, density: float) -> sparse.csr_array:
    """Return the share ``density`` of W's entries with the largest sizes, as CSR.

    W is read a block of rows at a time, never as a whole. Candidates for the largest entries are kept, up to one and a
    half times the wanted number. A threshold guessed from a few rows skips small entries; if the guess was too high, W
    is read again without a guess. In a low-rank W, pairs of words with short factors are skipped: ``|u'v| <= |u| |v|``.
    Ties at the threshold go to the first by row and column. A part with a per-document scale counts at typical document
    length.
    """
    if not is_number(density, least=0, most=1) or density == 0:
        raise InputError(f"density must lie above 0 and be at most 1; got {density!r}")
    n, m = weights.shape
    n_entries = max(1, round(density * n * m))
    guess = _guessed_edge(weights, density)
    largest = _look_through(weights, n_entries, guess)
    if guess > 1 and largest.counts.sum() < n_entries:
        largest = _look_through(weights, n_entries, 1)
    W = largest.by_row(n, m)
    n_entries = min(n_entries, int(largest.counts.sum()))
    if n_entries == 0:
        return sparse.csr_array((n, m), dtype=np.float32)
    edge = edge_bin(largest.counts, n_entries)
    short = n_entries - int(largest.counts[edge + 1 :].sum())  # number to take from the bin at the edge
    bins = size_bins(W.data)
    candidates = np.flatnonzero(bins == edge)
    order = np.argsort(-np.abs(W.data[candidates]), kind="stable")
    keep = bins > edge
    keep[candidates[order[:short]]] = True
    starts = np.concatenate([[0], np.cumsum(keep)])[W.indptr].astype(W.indptr.dtype)
    return sparse.csr_array((W.data[keep], W.indices[keep], starts), shape=(n, m))


@dataclass(eq=False)
class _Largest:
    """Candidates for the largest entries, by the position of their row in ``order``, and the number of entries of each
    size.
    """

    order: NDArray[np.int64]
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(N_SIZES, dtype=np.int64))
    pieces: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]] = field(default_factory=list)
    size: int = 0

    def add(self, start: int, columns: NDArray[np.int64], block: NDArray[np.float32], least: np.float32) -> None:
        """Add the entries of a block of at least a size, for rows from position ``start`` on."""
        positions = np.flatnonzero(np.abs(block) >= least)
        position, column = np.divmod(positions, block.shape[1])
        value = block.ravel()[positions]
        self.counts += np.bincount(size_bins(value), minlength=N_SIZES)
        self.pieces.append(((position + start).astype(np.int32), columns[column].astype(np.int32), value))
        self.size += value.size

    def drop_below(self, least: np.float32) -> None:
        position, column, value = self._columns()
        keep = np.abs(value) >= least
        self.pieces = [(position[keep], column[keep], value[keep])]
        self.size = int(np.count_nonzero(keep))

    def by_row(self, n: int, m: int) -> sparse.csr_array:
        """As CSR, rows and columns rising."""
        position, column, value = self._columns()
        starts = np.concatenate([[0], np.cumsum(np.bincount(position, minlength=n))])
        starts = starts.astype(np.int32 if value.size <= np.iinfo(np.int32).max else np.int64)
        W = sparse.csr_array((value, column, starts), shape=(n, m))
        return W if (self.order[1:] > self.order[:-1]).all() else W[np.argsort(self.order)]

    def _columns(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        position, column, value = (np.concatenate(parts) for parts in zip(*self.pieces, strict=True))
        return position, column, value


class _Limits:
    """Upper bounds of the entries of W for pairs of words, of low-rank parts; entries of sparse parts are exempt.

    order : rows, by falling bound
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        latent = [part for part in weights.parts if isinstance(part, LowRank)]
        self.sparse = [part for part in weights.parts if isinstance(part, Identity | Diagonal | Sparse)]
        self.are_known = bool(latent) and len(latent) + len(self.sparse) == len(weights.parts)
        self.order = np.arange(weights.shape[0])
        if self.are_known:
            lengths = [[np.linalg.norm(F, axis=1) for F in (part.query_factors, part.doc_factors)] for part in latent]
            # More than rounding to single precision can add.
            self.of_rows = np.array(
                [u * (abs(part.scale) * 1.0001) for part, (u, _) in zip(latent, lengths, strict=True)]
            )
            self.of_columns = np.array([v for _, v in lengths], dtype=np.float64)
            self.order = np.argsort(-self.of_rows.sum(axis=0), kind="stable")

    def columns(self, rows: NDArray[np.int64], least: np.float32) -> NDArray[np.int64]:
        """Return the columns that can have an entry of a size in some of the rows, rising."""
        if not self.are_known:
            return np.arange(self.weights.shape[1])
        may_reach = self.of_rows[:, rows].max(axis=1) @ self.of_columns >= least
        for part in self.sparse:
            stored = rows if not isinstance(part, Sparse) else part.weights[rows].indices
            may_reach[stored] = True
        return np.flatnonzero(may_reach)


def _look_through(weights: Weights, wanted: int, edge: int) -> _Largest:
    """Read all of W, except entries below the bin ``edge`` and below the rising threshold of the wanted number."""
    limits = _Limits(weights)
    largest = _Largest(limits.order)
    height = _height(weights)
    for start in range(0, limits.order.size, height):
        rows = limits.order[start : start + height]
        columns = limits.columns(rows, least_of_bin(edge))
        if columns.size == weights.shape[1]:
            block = weights.rows(rows)
        else:
            block = weights.parts[0].block(rows, columns)
            for part in weights.parts[1:]:
                block += part.block(rows, columns)
        largest.add(start, columns, block.astype(np.float32), least_of_bin(edge))
        edge = max(edge, edge_bin(largest.counts, wanted))
        if largest.size > _MORE * wanted:
            largest.drop_below(least_of_bin(edge))
    return largest


def _guessed_edge(weights: Weights, density: float) -> int:
    """A bin that about half as many again as are wanted lie in or above, by evenly spaced rows; 1 for few rows."""
    n, m = weights.shape
    if n < 4 * _ROWS_LOOKED_AT:
        return 1
    rows = np.linspace(0, n - 1, _ROWS_LOOKED_AT).astype(np.int64)
    counts = np.zeros(N_SIZES, dtype=np.int64)
    height = _height(weights)
    for start in range(0, rows.size, height):
        block = weights.rows(rows[start : start + height]).astype(np.float32)
        counts += np.bincount(size_bins(block).ravel(), minlength=N_SIZES)
    counts[0] = 0
    return edge_bin(counts, round(_MORE * density * rows.size * m))


def edge_bin(counts: NDArray[np.int64], wanted: int) -> int:
    """Return the highest bin with ``wanted`` entries in this bin or above; the lowest nonzero bin for fewer entries."""
    enough = np.flatnonzero(np.cumsum(counts[::-1])[::-1] >= wanted)
    return max(1, int(enough[-1])) if enough.size else 1


def _height(weights: Weights) -> int:
    """Return the number of rows of a block."""
    return max(1, _BLOCK_BYTES // (8 * weights.shape[1]))


def size_bins(block: NDArray[np.float32]) -> NDArray[np.int64]:
    return (np.abs(block).view(np.uint32) >> SIZE_SHIFT).astype(np.int64)


def least_of_bin(edge: int) -> np.float32:
    """Return the smallest size in a bin. Zeros and tiny entries are in bin 0 and never kept."""
    return np.float32(np.uint32(edge << SIZE_SHIFT).view(np.float32))
