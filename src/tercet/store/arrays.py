"""The arrays file of a bundle, in the safetensors format.

The safetensors library checks no checksum, maps no array, and copies all arrays to write them. This module writes
array
by array, and reads or maps a file once, hashes it, and cuts it into arrays without another copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tercet.errors import DamagedBundleError, InputError, MemoryLimitError
from tercet.store.fields import shortened
from tercet.store.mapping import map_file
from tercet.store.schema import Bounds

# Check of the bytes of a mapped file: all bytes when the file is opened, or never.
Verify: TypeAlias = Literal["open", "never"]

# Limits of a bundle, checked before memory is allocated for the declared sizes.
MAX_ARRAYS: Final = 4096
MAX_ARRAY_BYTES: Final = 2**40
MAX_DIMENSIONS: Final = 32

# Names of types in NumPy and the manifest -> names in safetensors, which writes later types first.
DTYPE_CODES: Final = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
}

_RESERVED_NAME: Final = "__metadata__"  # of the safetensors format


def check_verify(verify: object) -> None:
    """Refuse all but the known times of checking.

    Examples
    --------
    >>> check_verify("open")
    >>> check_verify("later")
    Traceback (most recent call last):
        ...
    tercet.errors.InputError: verify is 'later'; expected "open" or "never"
    """
    if verify not in get_args(Verify):
        raise InputError(f"verify is {verify!r}; expected " + " or ".join(f'"{word}"' for word in get_args(Verify)))


@dataclass(frozen=True)
class ArraySpec:
    """Type and shape of one array, declared in a manifest."""

    dtype: str
    shape: tuple[Annotated[int, Bounds(least=0)], ...]

    @property
    def nbytes(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    def problem(self) -> str | None:
        """Return an error message, or None; the one rule for writing and reading."""
        if self.dtype not in DTYPE_CODES:
            return f"is of type {self.dtype!r}; expected one of {', '.join(DTYPE_CODES)}"
        if len(self.shape) > MAX_DIMENSIONS:
            return f"has {len(self.shape)} dimensions; at most {MAX_DIMENSIONS} are allowed"
        # Check all lengths: a zero length must not hide an impossible length.
        extent = np.dtype(self.dtype).itemsize * math.prod(max(length, 1) for length in self.shape)
        if extent > MAX_ARRAY_BYTES:
            return f"has shape {shortened(self.shape)}; at most {MAX_ARRAY_BYTES} bytes are allowed"
        return None


def storable_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays as written: C-contiguous, little-endian. Other arrays are copied.

    Raises
    ------
    InputError
        For a name or an array that cannot be stored.
    """
    if len(arrays) > MAX_ARRAYS:
        raise InputError(f"there are {len(arrays)} arrays; a bundle holds at most {MAX_ARRAYS}")
    storable = {}
    for name, array in arrays.items():
        if not isinstance(name, str) or name in ("", _RESERVED_NAME):
            raise InputError(f"{name!r} cannot name an array; expected a non-empty string")
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise InputError(f"array {name!r} is of type {type(array).__name__}; expected a numpy.ndarray")
        problem = spec_of(array).problem()
        if problem is not None:
            raise InputError(f"array {name!r} {problem}")
        storable[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return storable


def spec_of(array: npt.NDArray[Any]) -> ArraySpec:
    """Return the spec of an array in memory."""
    return ArraySpec(array.dtype.name, array.shape)


def arrays_file(arrays: Mapping[str, npt.NDArray[Any]]) -> list[memoryview]:
    """Return the bytes of an arrays file, header and arrays."""
    head, starts = _layout({name: spec_of(array) for name, array in arrays.items()})
    return [memoryview(head), *(arrays[name].reshape(-1).view(np.uint8).data for name in starts)]


def _layout(specs: Mapping[str, ArraySpec]) -> tuple[bytes, dict[str, int]]:
    """Return the header, with the bits of the safetensors library, and the first byte of each array in their order."""
    rank = {name: number for number, name in enumerate(DTYPE_CODES)}
    header: dict[str, Any] = {}
    starts: dict[str, int] = {}
    stop = 0
    for name in sorted(specs, key=lambda name: (-rank[specs[name].dtype], name)):
        spec, start = specs[name], stop
        stop = start + spec.nbytes
        header[name] = {"dtype": DTYPE_CODES[spec.dtype], "shape": spec.shape, "data_offsets": [start, stop]}
        starts[name] = start
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)
    head = len(encoded).to_bytes(8, "little") + encoded
    return head, {name: len(head) + start for name, start in starts.items()}


def read_arrays(
    path: Path,
    specs: Mapping[str, ArraySpec],
    size: int,
    sha256: str,
    *,
    mapped: bool = False,
    verify: Verify = "open",
) -> dict[str, Any]:
    """Read the arrays file of a manifest; the arrays share one block of memory.

    Memory is taken after a check of the file's real size.

    Parameters
    ----------
    specs, size, sha256 : of the manifest
    mapped : leave the arrays in the file. The file must not be cut short while it is mapped; unlinking or replacing
        does no harm
    verify : of a mapped file: "open" hashes every byte, "never" checks only the header

    Raises
    ------
    DamagedBundleError
        When a byte of the file differs from the manifest.
    OSError
        From the operating system.
    """
    head, starts = _layout(specs)
    checked = not mapped or verify == "open"
    with open_regular_file(path) as file:
        real_size = os.fstat(file.fileno()).st_size
        if real_size != size:
            raise DamagedBundleError(f"{path} has {real_size} bytes; its manifest says {size}")
        if size != len(head) + sum(spec.nbytes for spec in specs.values()):
            raise DamagedBundleError(f"{path} has {size} bytes, which does not fit its header and arrays")
        content = map_file(file, size) if mapped else _read_whole(file, size, path)
        if checked:
            digest = hashlib.file_digest(file, "sha256") if mapped else hashlib.sha256(content.data)
            if digest.hexdigest() != sha256:
                raise DamagedBundleError(f"{path} has other bytes than its manifest says; its SHA-256 differs")
    if content[: len(head)].tobytes() != head:
        raise DamagedBundleError(f"{path} has another header than its manifest says")
    arrays = {name: _array_at(content, starts[name], spec) for name, spec in specs.items()}
    for name, array in arrays.items():
        # NumPy assumes bytes of a bool array to be 0 or 1.
        if checked and array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise DamagedBundleError(f"{path}: array {name!r} has bools that are neither 0 nor 1")
        array.flags.writeable = False
    return arrays


@contextlib.contextmanager
def open_regular_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading; refuse pipes and devices, which could block for ever."""
    with open(path, "rb", opener=_open_without_blocking) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DamagedBundleError(f"{path} is not a regular file")
        yield file


def _open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read_whole(file: io.BufferedReader, size: int, path: Path) -> npt.NDArray[np.uint8]:
    try:
        content = np.empty(size, dtype=np.uint8)
    except MemoryError as error:
        raise MemoryLimitError(f"{path} needs {size} bytes of memory for its arrays") from error
    file.readinto(content.data)  # the hash detects a file truncated meanwhile
    return content


def _array_at(content: npt.NDArray[np.uint8], offset: int, spec: ArraySpec) -> npt.NDArray[Any]:
    native = np.dtype(spec.dtype)
    array = content[offset : offset + spec.nbytes].view(native.newbyteorder("<"))
    return array.astype(native, copy=False).reshape(spec.shape)
