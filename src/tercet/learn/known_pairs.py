"""What is known of W before it is learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.learn.matrices import check_matrix, check_texts, reorder_columns


class KnownPairs(NamedTuple):
    """What is known of W before it is learned: weights to start from, and pairs that never have one."""

    start: sparse.csr_array | None
    never: sparse.csr_array | None

    @classmethod
    def of(cls, start: Any, never: Any, Q: Any, D: Any) -> KnownPairs:
        """Both as matrices between the words of Q and of D, checked."""
        if start is None and never is None:
            return cls(None, None)
        queries = check_texts(Q, "Q")
        shape = queries.shape[1], (queries if D is None else check_texts(D, "D")).shape[1]
        matrices = []
        for pairs, name in ((start, "start"), (never, "never")):
            matrix = None if pairs is None else check_matrix(pairs, name)
            if matrix is not None and matrix.shape != shape:
                raise InputError(f"{name} has shape {matrix.shape}; expected {shape}, a row for each query word")
            matrices.append(matrix)
        if matrices[1] is not None and not matrices[1].data.all():
            matrices[1] = matrices[1].copy()
            matrices[1].eliminate_zeros()  # a zero that is stored says of no pair that it is never learned
        return cls(*matrices)

    def in_order(self, order: NDArray[np.int32]) -> KnownPairs:
        """The same with columns in that order."""
        return KnownPairs(*(None if pairs is None else reorder_columns(pairs, order) for pairs in self))

    def applied_to(self, W: sparse.csr_array) -> sparse.csr_array:
        """W with the known weights added, and none where there is never one."""
        if self.start is not None:
            W = sparse.csr_array(W + self.start, dtype=np.float32)
        if self.never is not None:
            W = sparse.csr_array(W - W.multiply(self.never != 0), dtype=np.float32)
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
