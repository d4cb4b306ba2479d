"""Keeping only the largest entries of any W, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.errors import InputError
from tercet.kernels.sparse_rows import N_SIZES, SIZE_SHIFT
from tercet.weights import Weights

_BLOCK_BYTES = 64 * 2**20


def largest_entries(weights: Weights, density: float) -> sparse.csr_array:
    """The share ``density`` of W's entries that are largest in size, as CSR; the others are zero.

    W is looked at once, a block of rows at a time, and never held as a whole: of the entries seen so far only those are
    kept that may be among the largest, at most half as many again as are wanted. Of equal sizes at the threshold, the
    first by row and column are taken. A part with a per-document scale counts at typical document length.
    """
    if not is_number(density, least=0, most=1) or density == 0:
        raise InputError(f"density must lie above 0 and be at most 1; got {density!r}")
    n, m = weights.shape
    wanted = max(1, round(density * n * m))
    counts = np.zeros(N_SIZES, dtype=np.int64)  # entries seen so far, by their size
    rows: list[NDArray[Any]] = []
    columns: list[NDArray[Any]] = []
    values: list[NDArray[Any]] = []
    for start, block in _blocks(weights):
        bins = _bins(block)
        counts += np.bincount(bins.ravel(), minlength=N_SIZES)
        counts[0] = 0  # zeros, and what is too small to tell from them, are never kept
        edge = _edge(counts, wanted)
        i, j = np.nonzero(bins >= edge)
        rows.append((i + start).astype(np.int32))
        columns.append(j.astype(np.int32))
        values.append(block[i, j])
        if sum(map(len, values)) > 1.5 * wanted:
            row, column, value = (np.concatenate(parts) for parts in (rows, columns, values))
            keep = _bins(value) >= edge
            rows, columns, values = [row[keep]], [column[keep]], [value[keep]]
    row, column, value = (np.concatenate(parts) for parts in (rows, columns, values))
    wanted = min(wanted, int(counts.sum()))
    if wanted == 0:
        return sparse.csr_array((n, m), dtype=np.float32)
    edge = _edge(counts, wanted)
    short = wanted - int(counts[edge + 1 :].sum())  # to take from the bin at the edge
    bins = _bins(value)
    candidates = np.flatnonzero(bins == edge)
    order = np.argsort(-np.abs(value[candidates]), kind="stable")
    keep = bins > edge
    keep[candidates[order[:short]]] = True
    return sparse.csr_array((value[keep], (row[keep], column[keep])), shape=(n, m))


def _edge(counts: NDArray[np.int64], wanted: int) -> int:
    """The highest bin such that so many entries lie in it or above; the lowest but zero's where there are fewer."""
    enough = np.flatnonzero(np.cumsum(counts[::-1])[::-1] >= wanted)
    return max(1, int(enough[-1])) if enough.size else 1


def _blocks(weights: Weights) -> Iterator[tuple[int, NDArray[np.float32]]]:
    n, m = weights.shape
    height = max(1, _BLOCK_BYTES // (8 * m))
    for start in range(0, n, height):
        yield start, weights.rows(np.arange(start, min(start + height, n))).astype(np.float32)


def _bins(block: NDArray[np.float32]) -> NDArray[np.int64]:
    return (np.abs(block).view(np.uint32) >> SIZE_SHIFT).astype(np.int64)
