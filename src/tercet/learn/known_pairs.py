"""Pairs of words that never have a weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.learn.matrices import check_matrix, check_texts


def check_never(never: Any, Q: Any, D: Any) -> sparse.csr_array | None:
    """Pairs that never have a weight, as a matrix between the words of Q and of D, checked."""
    if never is None:
        return None
    queries = check_texts(Q, "Q")
    shape = queries.shape[1], (queries if D is None else check_texts(D, "D")).shape[1]
    pairs = check_matrix(never, "never")
    if pairs.shape != shape:
        raise InputError(f"never has shape {pairs.shape}; expected {shape}, a row for each query word")
    if not pairs.data.all():
        pairs = pairs.copy()
        pairs.eliminate_zeros()  # a zero that is stored says of no pair that it is never learned
    return pairs


def without_pairs(W: sparse.csr_array, never: sparse.csr_array | None) -> sparse.csr_array:
    """W, columns sorted, without weights where there is never one."""
    if never is not None:
        W = sparse.csr_array(W - W.multiply(never != 0), dtype=np.float32)
        W.eliminate_zeros()
    W.sort_indices()
    return W


def pairs_matrix(
    rows: NDArray[np.int32], columns: NDArray[np.int32], shape: tuple[int, int], where: str
) -> sparse.csr_array:
    """Pairs of words as a matrix of ones."""
    for numbers, most in ((rows, shape[0]), (columns, shape[1])):
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < most):
            raise DamagedBundleError(f"{where}: a pair that is never learned lies outside of W")
    pairs = sparse.csr_array((np.ones(rows.size, dtype=np.float32), (rows, columns)), shape=shape)
    pairs.sum_duplicates()
    return pairs
