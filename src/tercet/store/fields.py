"""Checks of the arrays of a bundle; values in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.errors import DamagedBundleError


def take_array(
    arrays: Mapping[str, npt.NDArray[Any]],
    name: str,
    dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...],
    shape: int | tuple[int | None, ...],
    *,
    where: str = "bundle",
    finite: bool = True,
) -> npt.NDArray[Any]:
    """Return one array of a bundle after a check; nothing is copied.

    Parameters
    ----------
    arrays : a bundle's arrays
    name : name of the array
    dtype : the type, or a tuple of allowed types
    shape : the number of dimensions, or the shape, with None for any length
    where : name of the bundle in messages, such as its path
    finite : look at every float; False leaves a mapped array on disk

    Raises
    ------
    DamagedBundleError
        When the array is missing, of another type or shape, or has floats that are not finite.

    Examples
    --------
    >>> take_array({"w": np.zeros((3, 2))}, "w", np.float64, (None, 2)).shape
    (3, 2)
    """
    problem = array_problem(arrays, name, dtype, shape, finite=finite)
    if problem is not None:
        raise DamagedBundleError(where + problem)
    return arrays[name]


def array_problem(
    arrays: Mapping[str, npt.NDArray[Any]],
    name: str,
    dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...],
    shape: int | tuple[int | None, ...],
    *,
    finite: bool = True,
) -> str | None:
    """Return an error message about an array, to follow the name of its bundle, or None; see `take_array`."""
    if name not in arrays:
        return f" has no array {name!r}"
    array = arrays[name]
    if not isinstance(array, np.ndarray):
        return f": {name!r} is of type {type(array).__name__}; expected an array"
    allowed = [np.dtype(kind) for kind in (dtype if isinstance(dtype, tuple) else (dtype,))]
    if array.dtype not in allowed:
        expected = " or ".join(kind.name for kind in allowed)
        return f": array {name!r} is of type {array.dtype}; expected {expected}"
    if isinstance(shape, int):
        if array.ndim != shape:
            return f": array {name!r} has {array.ndim} dimensions; expected {shape} dimensions"
    elif len(shape) != array.ndim or any(
        want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
    ):
        expected = "(" + ", ".join("any" if want is None else str(want) for want in shape) + ")"
        return f": array {name!r} has shape {array.shape}; expected {expected}"
    if finite and array.dtype.kind == "f" and not _all_finite(array):
        return f": array {name!r} has values that are not finite"
    return None


def _all_finite(array: npt.NDArray[Any]) -> bool:
    # min and max propagate NaN: two numbers suffice, without a mask as long as the array.
    if array.size == 0:
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def csr_problem(
    indptr: npt.NDArray[Any], indices: npt.NDArray[Any], n_columns: int, *, ascending: bool = False
) -> str | None:
    """Return an error message about the rows of a CSR matrix, or None; kernels index without checks.

    Parameters
    ----------
    indptr, indices : row pointers and columns
    n_columns : bound of the columns
    ascending : each column of a row once, in ascending order
    """
    if indptr.size < 1 or indptr[0] != 0 or indptr[-1] != indices.size or (np.diff(indptr) < 0).any():
        return f"has row pointers that do not rise from 0 to {indices.size}"
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < n_columns):
        return f"has columns that are not from 0 to {n_columns - 1}"
    if ascending and indices.size > 1:
        rising = indices[1:] > indices[:-1]
        starts = indptr[1:-1]
        rising[starts[(starts > 0) & (starts < indices.size)] - 1] = True  # indices of different rows are not compared
        if not rising.all():
            return "has a row whose columns are not in ascending order"
    return None


def described(value: Any) -> str:
    """Return a value and its type, for messages."""
    return "None" if value is None else f"{shortened(value)} ({type(value).__name__})"


def shortened(value: Any) -> str:
    """Return the shortened repr of a value."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
