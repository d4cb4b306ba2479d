"""The one digest of values and arrays: the same content gives the same, in every process and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.store.canonical import canonical_bytes

_AT_ONCE = 2**20  # numbers that are brought into another type


def digest_of(*values: Any, arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> str:
    """SHA-256 of JSON values, then of arrays by name with their types and shapes, in hexadecimal.

    Parameters
    ----------
    values : what JSON can hold; tuples count as lists. A NumPy array or a CSR matrix counts by its content
    arrays : more arrays, in the order of their names

    Notes
    -----
    One pass over the arrays at the speed of SHA-256; those that are not contiguous are copied.

    Examples
    --------
    >>> digest_of("array", 3)[:8], digest_of({"n": 2}, arrays={"x": np.zeros(2)})[:8]
    ('e4ea7de6', 'c9da07c1')
    """
    digest = hashlib.sha256()
    for value in values:
        if hasattr(value, "indptr"):
            digest.update(canonical_bytes(value.shape))
            for array, dtype in ((value.indptr, np.int64), (value.indices, np.int32), (value.data, value.data.dtype)):
                _add_numbers(digest, "", array, np.dtype(dtype))
        elif isinstance(value, np.ndarray):
            _add_array(digest, "", value)
        else:
            digest.update(canonical_bytes(value))
    for name, array in sorted((arrays or {}).items()):
        _add_array(digest, name, array)
    return digest.hexdigest()


def state_digest(value: Any) -> str:
    """The digest of what ``value.to_state()`` gives, which is all that is saved of it."""
    meta, arrays = value.to_state()
    return digest_of(meta, arrays=arrays)


def _add_array(digest: Any, name: str, array: npt.NDArray[Any]) -> None:
    if array.dtype.kind in "UO":  # texts
        digest.update(canonical_bytes(array.tolist()))
        return
    _add_numbers(digest, name, np.ascontiguousarray(array), array.dtype)


def _add_numbers(digest: Any, name: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    digest.update(f"{name} {dtype.str} {array.shape} ".encode())
    flat = array.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):  # an array may be mapped, and larger than memory
        digest.update(np.ascontiguousarray(flat[start : start + _AT_ONCE], dtype=dtype).data)
