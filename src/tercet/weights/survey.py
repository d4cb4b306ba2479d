"""Number of entries of a sparse W."""

from __future__ import annotations

import numpy as np

from tercet._lazy import sparse
from tercet.weights.value import Weights


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
