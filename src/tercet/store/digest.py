"""Digests of values and arrays, equal for equal content in every process and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.store.canonical import canonical_bytes

_AT_ONCE = 2**20  # numbers converted at once


def digest_of(*values: Any, arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> str:
    """Return the SHA-256 of JSON values, then of arrays by name with their types and shapes, in hexadecimal.

    Parameters
    ----------
    values : JSON values; tuples count as lists. A NumPy array or a CSR matrix counts by its content
    arrays : more arrays, in the order of their names
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
    """Return the digest of ``value.to_state()``."""
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
