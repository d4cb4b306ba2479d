"""Checking the matrices that come in."""

from __future__ import annotations

from typing import Any

import numpy as np

from tercet._lazy import sparse
from tercet.errors import InputError


def check_matrix(matrix: Any, name: str) -> sparse.csr_array:
    """A canonical CSR float32 copy or view of a two-dimensional matrix, every value finite."""
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
    finite = np.isfinite(csr.data)
    if not finite.all():
        entry = int((~finite).argmax())
        row = int(np.searchsorted(csr.indptr, entry, side="right") - 1)
        raise InputError(f"{name}[{row}, {csr.indices[entry]}] is {csr.data[entry]}; every value must be finite")
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr
