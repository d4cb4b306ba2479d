"""Checking the matrices that come in, and the shape kernels want them in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError

KernelRows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]


def check_matrix(matrix: Any, name: str) -> sparse.csr_array:
    """A canonical CSR float32 copy or view of a two-dimensional matrix, every value finite."""
    if matrix is None:
        raise InputError(f"{name} is None; expected a matrix with one text per row")
    try:
        found = sparse.csr_array(matrix, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a matrix of numbers; got {type(matrix).__name__}: {error}") from None
    if found.ndim != 2 or 0 in found.shape:
        raise InputError(f"{name} must have rows and columns; got shape {found.shape}")
    if found.shape[1] > np.iinfo(np.int32).max:
        raise InputError(f"{name} has {found.shape[1]} columns; at most {np.iinfo(np.int32).max} are supported")
    finite = np.isfinite(found.data)
    if not finite.all():
        at = int((~finite).argmax())
        row = int(np.searchsorted(found.indptr, at, side="right") - 1)
        raise InputError(f"{name}[{row}, {found.indices[at]}] is {found.data[at]}; every value must be finite")
    if not found.has_canonical_format:
        found = found.copy()
        found.sum_duplicates()
    return found


def kernel_rows(matrix: sparse.csr_array) -> KernelRows:
    """(indptr int64, indices int32, data float32), one signature for every kernel."""
    return (
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int32),
        np.ascontiguousarray(matrix.data, dtype=np.float32),
    )


def by_document_frequency(D: sparse.csr_array) -> NDArray[np.int32]:
    """Columns from the most to the least frequent, ties by column: frequent words share cache lines."""
    frequency = np.bincount(D.indices, minlength=D.shape[1])
    return np.argsort(-frequency, kind="stable").astype(np.int32)


def reorder_columns(D: sparse.csr_array, order: NDArray[np.int32]) -> sparse.csr_array:
    """D with column ``order[j]`` at place j, indices sorted."""
    place = np.empty(order.size, dtype=np.int32)
    place[order] = np.arange(order.size, dtype=np.int32)
    moved = sparse.csr_array((D.data.copy(), place[D.indices], D.indptr), shape=D.shape)
    moved.sort_indices()
    return moved


@dataclass(frozen=True, eq=False)
class Problem:
    """Q and D as a kernel reads them, with scratch for the difference of two documents and its overlap with a query."""

    Q: KernelRows
    D: KernelRows
    scratch: tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]

    @classmethod
    def of(cls, Q: sparse.csr_array, D: sparse.csr_array) -> Problem:
        room = 2 * int(np.diff(D.indptr).max(initial=0))
        ints, floats = (np.empty((2, room), dtype=kind) for kind in (np.int32, np.float32))
        return cls(kernel_rows(Q), kernel_rows(D), (ints[0], floats[0], ints[1], floats[1]))


def fingerprint(*matrices: sparse.csr_array) -> str:
    """A digest of the matrices' content."""
    digest = hashlib.sha256()
    for matrix in matrices:
        digest.update(repr(matrix.shape).encode())
        for array in (matrix.indptr, matrix.indices, matrix.data):
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
