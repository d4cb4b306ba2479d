"""Checking the matrices that come in."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from tercet.errors import InputError


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
