"""Checks of input matrices, and iteration over blocks of rows for matrices mapped from a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tercet._lazy import sparse
from tercet.errors import InputError
from tercet.store import is_mapped

BLOCK_ENTRIES: Final = 2**20  # about, in a block of rows


def check_matrix(matrix: Any, name: str) -> sparse.csr_array:
    """Return a canonical CSR float32 copy or view of a two-dimensional matrix, every value finite.

    A canonical matrix is not copied: mapped arrays stay in their file.
    """
    if matrix is None:
        raise InputError(f"{name} is None; expected a matrix with one text per row")
    try:
        csr = sparse.csr_array(matrix, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a matrix of numbers; got {type(matrix).__name__}: {error}") from None
    if csr.ndim != 2 or 0 in csr.shape:
        raise InputError(f"{name} must have rows and columns; got shape {csr.shape}")
    if csr.shape[1] > np.iinfo(np.int32).max:
        raise InputError(f"{name} has {csr.shape[1]} columns; at most {np.iinfo(np.int32).max} are supported")
    for start in range(0, csr.nnz, BLOCK_ENTRIES):
        values, columns = (array[start : min(start + BLOCK_ENTRIES, csr.nnz)] for array in (csr.data, csr.indices))
        finite = np.isfinite(values)
        if not finite.all():
            entry = start + int((~finite).argmax())
            row = int(np.searchsorted(csr.indptr, csr.indptr.dtype.type(entry), side="right") - 1)
            raise InputError(f"{name}[{row}, {csr.indices[entry]}] is {csr.data[entry]}; every value must be finite")
        if columns.min() < 0 or columns.max() >= csr.shape[1]:
            raise InputError(f"{name} has an entry that is in none of its {csr.shape[1]} columns")
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def row_slices(matrix: sparse.csr_array, n_entries: int | None = None) -> Iterator[slice]:
    """Yield slices of consecutive rows, each with at most `n_entries` entries (a million), or with a single row."""
    indptr, n, most = matrix.indptr, matrix.shape[0], n_entries or BLOCK_ENTRIES
    start = 0
    while start < n:
        # The type of the row pointers: another type would copy all row pointers.
        last = indptr.dtype.type(min(int(indptr[start]) + most, int(indptr[-1])))
        stop = min(n, max(int(np.searchsorted(indptr, last, side="right")) - 1, start + 1))
        yield slice(start, stop)
        start = stop


def row_blocks(matrix: sparse.csr_array) -> Iterator[sparse.csr_array]:
    """Yield all rows in order: a matrix in memory as a whole, a mapped matrix in blocks."""
    if not is_mapped(matrix.data):
        yield matrix
        return
    for rows in row_slices(matrix):
        yield matrix[rows]
