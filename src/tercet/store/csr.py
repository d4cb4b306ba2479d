"""Sparse rows as three arrays: how kernels read them, and whether they are sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def csr_problem(
    indptr: npt.NDArray[Any], indices: npt.NDArray[Any], n_columns: int, *, ascending: bool = False
) -> str | None:
    """Say what is wrong with the rows of a CSR matrix, or None; kernels index by them without looking.

    Parameters
    ----------
    indptr, indices : where rows begin and end, and columns
    n_columns : columns are below it
    ascending : each column of a row once, in ascending order
    """
    if indptr.size < 1 or indptr[0] != 0 or indptr[-1] != indices.size or (np.diff(indptr) < 0).any():
        return f"has row pointers that do not rise from 0 to {indices.size}"
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < n_columns):
        return f"has columns that are not from 0 to {n_columns - 1}"
    if ascending and indices.size > 1:
        rising = indices[1:] > indices[:-1]
        starts = indptr[1:-1]
        rising[starts[(starts > 0) & (starts < indices.size)] - 1] = True  # between two rows anything may be
        if not rising.all():
            return "has a row whose columns are not in ascending order"
    return None
