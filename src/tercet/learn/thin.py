"""Keeping only the largest entries of any W, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError
from tercet.kernels.sparse_rows import N_SIZES, SIZE_SHIFT
from tercet.weights import Weights

_BLOCK_BYTES = 64 * 2**20


def largest_entries(weights: Weights, density: float) -> sparse.csr_array:
    """The share ``density`` of W's entries that are largest in size, as CSR; the others are zero.

    W is looked at twice, a block of rows at a time, and never held as a whole: once to count how many entries have
    which size, once to take those above the threshold. Of equal sizes at the threshold, the first by row and column
    are taken. A part with a per-document scale counts at typical document length.
    """
    if not 0 < density <= 1:
        raise InputError(f"density must lie above 0 and be at most 1; got {density}")
    n, m = weights.shape
    wanted = max(1, round(density * n * m))
    counts = np.zeros(N_SIZES, dtype=np.int64)
    for _, block in _blocks(weights):
        counts += np.bincount(_bins(block).ravel(), minlength=N_SIZES)
    counts[0] -= counts[0]  # zeros, and what is too small to tell from them, are never kept
    above = np.cumsum(counts[::-1])[::-1]  # entries in this bin or a higher one
    wanted = min(wanted, int(above[0]))
    if wanted == 0:
        return sparse.csr_array((n, m), dtype=np.float32)
    edge = int(np.flatnonzero(above >= wanted)[-1])
    short = wanted - int(above[edge] - counts[edge])  # to take from the bin at the edge
    rows, columns, values, on_edge = [], [], [], []
    for start, block in _blocks(weights):
        bins = _bins(block)
        i, j = np.nonzero(bins >= edge)
        rows.append((i + start).astype(np.int32))
        columns.append(j.astype(np.int32))
        values.append(block[i, j])
        on_edge.append(bins[i, j] == edge)
    row, column, value, edges = (np.concatenate(parts) for parts in (rows, columns, values, on_edge))
    candidates = np.flatnonzero(edges)
    order = np.argsort(-np.abs(value[candidates]), kind="stable")
    keep = ~edges
    keep[candidates[order[:short]]] = True
    return sparse.csr_array((value[keep], (row[keep], column[keep])), shape=(n, m))


def _blocks(weights: Weights) -> Iterator[tuple[int, NDArray[np.float32]]]:
    n, m = weights.shape
    height = max(1, _BLOCK_BYTES // (8 * m))
    for start in range(0, n, height):
        yield start, weights.rows(np.arange(start, min(start + height, n))).astype(np.float32)


def _bins(block: NDArray[np.float32]) -> NDArray[np.int64]:
    return (np.abs(block).view(np.uint32) >> SIZE_SHIFT).astype(np.int64)
