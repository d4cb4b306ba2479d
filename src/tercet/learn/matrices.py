"""Matrices for kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.matrix import BLOCK_ENTRIES
from tercet.kernels.rows import CsrRows, Scratch
from tercet.store.digest import digest_of


def kernel_rows(matrix: sparse.csr_array) -> CsrRows:
    """Convert a matrix for kernels: indptr int64, indices int32, data float32, one signature for every kernel."""
    return CsrRows(
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int32),
        np.ascontiguousarray(matrix.data, dtype=np.float32),
    )


def column_counts(texts: sparse.csr_array) -> NDArray[np.int64]:
    """Return the number of rows with an entry in each column."""
    counts = np.zeros(texts.shape[1], dtype=np.int64)
    for start in range(0, texts.nnz, BLOCK_ENTRIES):  # `bincount` takes a copy
        counts += np.bincount(texts.indices[start : start + BLOCK_ENTRIES], minlength=texts.shape[1])
    return counts


def by_document_frequency(D: sparse.csr_array) -> NDArray[np.int32]:
    """Columns from the most to the least frequent, ties by column: frequent words share cache lines."""
    return np.argsort(-column_counts(D), kind="stable").astype(np.int32)


def reorder_columns(D: sparse.csr_array, order: NDArray[np.int32]) -> sparse.csr_array:
    """D with column ``order[j]`` at place j, indices sorted."""
    position = np.empty(order.size, dtype=np.int32)
    position[order] = np.arange(order.size, dtype=np.int32)
    moved = sparse.csr_array((D.data.copy(), position[D.indices], D.indptr), shape=D.shape)
    moved.sort_indices()
    return moved


@dataclass(frozen=True, eq=False)
class KernelInput:
    """Q and D for a kernel, with scratch for the difference of two documents and its overlap with a query.

    ``latent`` (n_docs, n_components) has the latent vectors of D for a learner with constant V.
    """

    Q: CsrRows
    D: CsrRows
    scratch: Scratch
    latent: NDArray[np.float32] | None = field(default=None, kw_only=True)

    @classmethod
    def from_matrices(cls, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return cls.from_rows(kernel_rows(Q), kernel_rows(D))

    @classmethod
    def from_rows(cls, Q: CsrRows, D: CsrRows) -> KernelInput:
        buffers = 2 * int(np.diff(D.indptr).max(initial=0))
        ints, floats = (np.empty((2, buffers), dtype=kind) for kind in (np.int32, np.float32))
        return cls(Q, D, Scratch(ints[0], floats[0], ints[1], floats[1]))


def fingerprint(*matrices: sparse.csr_array) -> str:
    """A digest of the matrices' content."""
    return digest_of(*matrices)
