"""The size of a weights value, counted as the papers count it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tercet.weights import Dense, Diagonal, Identity, Sparse, Weights


def n_nonzero(weights: Weights) -> int:
    """How many entries of W are not zero; a low-rank W has all of them."""
    n, m = weights.shape
    if len(weights.parts) == 1 and isinstance(weights.parts[0], Dense):
        return int(np.count_nonzero(weights.parts[0].weights))
    if not all(isinstance(part, (Identity, Diagonal, Sparse)) for part in weights.parts):
        return n * m
    W = sparse.csr_array((n, m), dtype=np.float32) if weights.sparse is None else weights.sparse
    if weights.identity or weights.diagonal is not None:
        on_diagonal = np.full(n, weights.identity) + (0.0 if weights.diagonal is None else weights.diagonal)
        W = W + sparse.diags_array(on_diagonal, format="csr")
    return int(W.count_nonzero())


def megabytes(n_entries: float, n_rows: int) -> float:
    """A compressed sparse row matrix in double precision: value and column of each entry, a pointer for each row.

    In units of 2**20 bytes.
    """
    return (16 * n_entries + 8 * (n_rows + 1)) / 2**20


def entries_of_megabytes(memory: float, n_rows: int) -> float:
    """The inverse of `megabytes`."""
    return (memory * 2**20 - 8 * (n_rows + 1)) / 16


def measure_size(weights: Weights) -> dict[str, float]:
    """Non-zeros, the share of W they are, and megabytes."""
    n, m = weights.shape
    entries = n_nonzero(weights)
    return {"density": entries / (n * m), "memory": megabytes(entries, n)}
