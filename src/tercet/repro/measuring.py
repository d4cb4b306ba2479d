"""What is measured of a weights value on test rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import Preferences
from tercet.measure import average_precision_of_classes
from tercet.weights import Dense, Diagonal, Identity, Sparse, Weights

_CHUNK = 4096


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


def wrong_preferences(weights: Weights, X: sparse.csr_array, prefs: Preferences) -> NDArray[np.bool_]:
    """Which preferences are not ranked right; a tie is not."""
    margins = np.empty(len(prefs))
    for start in range(0, len(prefs), _CHUNK):
        part = prefs[start : start + _CHUNK]
        Q = X[part.query]
        margins[start : start + _CHUNK] = weights.score_rows(Q, X[part.better]) - weights.score_rows(Q, X[part.worse])
    return margins <= 0


def measure_model(weights: Weights, X: sparse.csr_array, y: NDArray[Any], prefs: Preferences) -> dict[str, Any]:
    """Average precision of each row as a query, which preferences are wrong, and their means. Takes seconds."""
    precision = average_precision_of_classes(weights, X, y)
    wrong = wrong_preferences(weights, X, prefs)
    return {
        "map": float(precision.mean()),
        "error": float(wrong.mean()),
        "average_precision": precision.tolist(),
        "wrong": np.flatnonzero(wrong).tolist(),
        "n_preferences": len(prefs),
    }


def measure_size(weights: Weights) -> dict[str, float]:
    """Non-zeros, the share of W they are, and megabytes."""
    n, m = weights.shape
    entries = n_nonzero(weights)
    return {"density": entries / (n * m), "memory": megabytes(entries, n)}
