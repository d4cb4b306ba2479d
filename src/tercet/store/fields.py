"""The ground of the codec: fields and arrays of a bundle, nothing missing, unknown, of another type or unsound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args, overload

import numpy as np
import numpy.typing as npt

from tercet.errors import DamagedBundleError

T = TypeVar("T")

_REQUIRED: Any = object()


class Fields:
    """Takes the fields of a stored dict one by one and refuses whatever was not asked for.

    Parameters
    ----------
    mapping : the stored dict; anything else is refused
    where : what the messages call it, such as ``"model/: meta"``

    Examples
    --------
    >>> fields = Fields({"rate": 200.0, "epochs": 1}, "model/: meta")
    >>> fields.take("rate", float), fields.take("epochs", int), fields.take("name", str, default="")
    (200.0, 1, '')
    >>> fields.done()
    """

    def __init__(self, mapping: object, where: str) -> None:
        if not isinstance(mapping, Mapping):
            raise DamagedBundleError(f"{where} is {described(mapping)}; expected a mapping")
        self._mapping: Mapping[Any, Any] = mapping
        self._taken: set[str] = set()
        self.where = where

    @overload
    def take(self, name: str, types: type[T], default: T = ...) -> T: ...

    @overload
    def take(self, name: str, types: Any, default: Any = ...) -> Any: ...

    def take(self, name: str, types: Any, default: Any = _REQUIRED) -> Any:
        """Return the value of a field, or `default` when one is given and the field is absent.

        Parameters
        ----------
        name : the key
        types : a type, a tuple of types or a union such as ``int | None``. A bool is no int, and an int is
            also a float, as in type hints.
        default : returned, unchecked, for an absent field

        Raises
        ------
        DamagedBundleError
            When the field is missing without a default, or of another type.
        """
        self._taken.add(name)
        if name not in self._mapping:
            if default is _REQUIRED:
                raise DamagedBundleError(f"{self.where} has no {name!r}; expected {_names(_flat(types))}")
            return default
        value = self._mapping[name]
        allowed = _flat(types)
        if not _is_one_of(value, allowed):
            raise DamagedBundleError(f"{self.where}[{name!r}] is {described(value)}; expected {_names(allowed)}")
        return value

    def done(self) -> None:
        """Raise DamagedBundleError, naming them, when fields are left that nobody took."""
        unknown = sorted((key for key in self._mapping if key not in self._taken), key=str)
        if unknown:
            shown = ", ".join(shortened(key) for key in unknown[:10]) + (", …" if len(unknown) > 10 else "")
            raise DamagedBundleError(f"{self.where} has unknown fields: {shown}")


def take_array(
    arrays: Mapping[str, npt.NDArray[Any]],
    name: str,
    dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...],
    shape: int | tuple[int | None, ...],
    *,
    where: str = "bundle",
    finite: bool = True,
) -> npt.NDArray[Any]:
    """Return one array of a bundle after checking what it is; nothing is copied.

    Parameters
    ----------
    arrays : a bundle's arrays
    name : which of them
    dtype : the type it must have, or a tuple of types of which it must have one
    shape : the number of dimensions, or the shape, with None for a length that may be anything
    where : what the messages call the bundle, such as its path
    finite : look at every float; False leaves a mapped array where it is

    Raises
    ------
    DamagedBundleError
        When it is missing, of another type or shape, or has floats that are not finite.

    Examples
    --------
    >>> take_array({"w": np.zeros((3, 2))}, "w", np.float64, (None, 2)).shape
    (3, 2)
    """
    if name not in arrays:
        raise DamagedBundleError(f"{where} has no array {name!r}")
    array = arrays[name]
    if not isinstance(array, np.ndarray):
        raise DamagedBundleError(f"{where}: {name!r} is of type {type(array).__name__}; expected an array")
    allowed = [np.dtype(kind) for kind in (dtype if isinstance(dtype, tuple) else (dtype,))]
    if array.dtype not in allowed:
        expected = " or ".join(kind.name for kind in allowed)
        raise DamagedBundleError(f"{where}: array {name!r} is of type {array.dtype}; expected {expected}")
    if isinstance(shape, int):
        if array.ndim != shape:
            raise DamagedBundleError(
                f"{where}: array {name!r} has {array.ndim} dimensions; expected {shape} dimensions"
            )
    elif len(shape) != array.ndim or any(
        want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
    ):
        expected = "(" + ", ".join("any" if want is None else str(want) for want in shape) + ")"
        raise DamagedBundleError(f"{where}: array {name!r} has shape {array.shape}; expected {expected}")
    if finite and array.dtype.kind == "f" and not _all_finite(array):
        raise DamagedBundleError(f"{where}: array {name!r} has values that are not finite")
    return array


def _all_finite(array: npt.NDArray[Any]) -> bool:
    # NaN passes through min and max, so two numbers tell, and no mask as long as the array is made.
    if array.size == 0:
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(array.min()) and np.isfinite(array.max()))


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


def _flat(types: Any) -> tuple[type, ...]:
    if isinstance(types, tuple):
        return tuple(flat for kind in types for flat in _flat(kind))
    if types is None:
        return (type(None),)
    return get_args(types) or (types,)


def _is_one_of(value: Any, allowed: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in allowed
    if isinstance(value, int) and float in allowed:
        return True
    return isinstance(value, allowed)


def _names(allowed: tuple[type, ...]) -> str:
    return " or ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)


def described(value: Any) -> str:
    """A value and its type, as messages have them."""
    return "None" if value is None else f"{shortened(value)} ({type(value).__name__})"


def shortened(value: Any) -> str:
    """Return the repr of a value, cut to what fits a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
