"""The arrays file of a bundle, in the safetensors format.

The library writes it. Reading is done here because every byte is to be hashed on its way into the array it
belongs to: one pass, one copy, no second look at a file that another process may have replaced meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from tercet.errors import DamagedBundleError, InputError, MemoryLimitError
from tercet.store.block_sums import BlockSums, MappedBlocks, Verify
from tercet.store.canonical import MAX_MANIFEST_BYTES, parse_json
from tercet.store.codec import decode
from tercet.store.fields import shortened
from tercet.store.mapping import map_file
from tercet.store.schema import Bounds

# What a bundle may hold at most; checked before any memory is taken for what a file declares.
MAX_ARRAYS: Final = 4096
MAX_ARRAY_BYTES: Final = 2**40
MAX_DIMENSIONS: Final = 32
# The header of an arrays file repeats the manifest's names and shapes, and adds two offsets to each.
MAX_HEADER_BYTES: Final = 2 * MAX_MANIFEST_BYTES

# What NumPy and the manifest call a type, and what safetensors calls it.
DTYPE_CODES: Final = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}

_RESERVED_NAME: Final = "__metadata__"  # of the safetensors format
_BLOCK_BYTES: Final = 4 * 2**20


@dataclass(frozen=True)
class ArraySpec:
    """Type and shape of one array, as a manifest declares them."""

    dtype: str
    shape: tuple[Annotated[int, Bounds(least=0)], ...]

    @property
    def nbytes(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    def problem(self) -> str | None:
        """Say what is wrong with it, or None; the one rule for writing and reading."""
        if self.dtype not in DTYPE_CODES:
            return f"is of type {self.dtype!r}; expected one of {', '.join(DTYPE_CODES)}"
        if len(self.shape) > MAX_DIMENSIONS:
            return f"has {len(self.shape)} dimensions; at most {MAX_DIMENSIONS} are allowed"
        # A zero length must not hide another length that no array can have.
        extent = np.dtype(self.dtype).itemsize * math.prod(max(length, 1) for length in self.shape)
        if extent > MAX_ARRAY_BYTES:
            return f"has shape {shortened(self.shape)}; at most {MAX_ARRAY_BYTES} bytes are allowed"
        return None


def storable_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays as they are written: C-contiguous, little-endian. Copies only those that are not.

    Raises
    ------
    InputError
        When a name or an array cannot be stored; the message names it.
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


def encode_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the safetensors file of arrays that `storable_arrays` gave. Needs memory for one more copy."""
    return safetensors.numpy.save(dict(arrays))


def read_arrays(path: Path, specs: Mapping[str, ArraySpec], size: int, sha256: str) -> dict[str, Any]:
    """Read the arrays file that a manifest describes, in one pass.

    Memory is taken only after the declared sizes have been found to add up to the real size of the file.

    Raises
    ------
    DamagedBundleError
        When the file is not, to the byte, what the manifest says.
    OSError
        As the operating system gives it.
    """
    with open_regular_file(path) as file:
        reader = _HashingReader(file)
        order, _ = _read_header(file, reader, path, specs, size)
        data_size = sum(spec.nbytes for spec in specs.values())
        try:
            arrays = {name: _read_array(reader, specs[name]) for name in order}
        except MemoryError as error:
            raise MemoryLimitError(f"{path} needs {data_size} bytes of memory for its arrays") from error
        if reader.digest.hexdigest() != sha256:
            raise DamagedBundleError(f"{path} has other bytes than its manifest says; its SHA-256 differs")
    _check_bools(arrays, path)
    for array in arrays.values():
        array.flags.writeable = False
    return {name: arrays[name] for name in specs}


def map_arrays(
    path: Path,
    specs: Mapping[str, ArraySpec],
    size: int,
    sha256: str,
    verify: Verify = "open",
    sums: BlockSums | None = None,
) -> tuple[dict[str, Any], MappedBlocks | None]:
    """Like `read_arrays`, but leave the arrays in the file and map them: memory is taken for what is looked at.

    With `verify` "open" every byte is read once to be hashed, into a buffer of a few megabytes. With "touch" the blocks
    that are given check what is looked at; a file without checksums by block is read once instead. With "never" only
    the header is read. The file must not be cut short while it is mapped; that it is unlinked or replaced by another
    does no harm.
    """
    lazily = verify == "touch" and sums is not None
    with open_regular_file(path) as file:
        reader = _HashingReader(file)
        order, offset = _read_header(file, reader, path, specs, size)
        if verify != "never" and not lazily:
            buffer = memoryview(bytearray(min(_BLOCK_BYTES, size)))
            while count := file.readinto(buffer):  # type: ignore[attr-defined]
                reader.digest.update(buffer[:count])
            if reader.digest.hexdigest() != sha256:
                raise DamagedBundleError(f"{path} has other bytes than its manifest says; its SHA-256 differs")
        mapped = map_file(file, size)
    positions = {}
    for name in order:
        positions[name] = (offset, specs[name].nbytes)
        offset += specs[name].nbytes
    blocks = None
    if lazily:
        assert sums is not None
        blocks = MappedBlocks(path, mapped, sums.sums(size, str(path)), sums.size, positions)
        blocks.touch(*(name for name, spec in specs.items() if not _is_left_in_place(spec, positions[name][0])))
    arrays = {name: _mapped_array(mapped, positions[name][0], specs[name]) for name in specs}
    if verify != "never":
        _check_bools(arrays, path)
    return arrays, blocks


def _is_left_in_place(spec: ArraySpec, offset: int) -> bool:
    """Whether nothing looks at an array before its user does: bools are looked at, what is not aligned is copied."""
    return spec.dtype != "bool" and sys.byteorder == "little" and offset % np.dtype(spec.dtype).itemsize == 0


def _mapped_array(mapped: npt.NDArray[np.uint8], offset: int, spec: ArraySpec) -> npt.NDArray[Any]:
    native = np.dtype(spec.dtype)
    array: npt.NDArray[Any]
    if spec.nbytes:
        array = mapped[offset : offset + spec.nbytes].view(native.newbyteorder("<"))
        # Kernels want aligned numbers in the machine's order; what the library writes is, so this copies nothing.
        array = np.require(array.astype(native, copy=False), requirements="A").reshape(spec.shape)
    else:
        array = np.empty(spec.shape, dtype=native)
    array.flags.writeable = False
    return array


def _check_bools(arrays: Mapping[str, npt.NDArray[Any]], path: Path) -> None:
    for name, array in arrays.items():
        # NumPy takes for granted that a bool is 0 or 1.
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise DamagedBundleError(f"{path}: array {name!r} has bools that are neither 0 nor 1")


def _read_header(
    file: BinaryIO, reader: _HashingReader, path: Path, specs: Mapping[str, ArraySpec], size: int
) -> tuple[list[str], int]:
    """The names in the order of their bytes, and where the first begins."""
    real_size = os.fstat(file.fileno()).st_size
    if real_size != size:
        raise DamagedBundleError(f"{path} has {real_size} bytes; its manifest says {size}")
    data_size = sum(spec.nbytes for spec in specs.values())
    header_size = int.from_bytes(reader.read(8), "little")
    if header_size > MAX_HEADER_BYTES or 8 + header_size + data_size != size:
        raise DamagedBundleError(
            f"{path} declares a header of {header_size} bytes, which does not fit "
            f"{data_size} bytes of arrays in a file of {size}"
        )
    return _check_header(reader.read(header_size), specs, path), 8 + header_size


@contextlib.contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; refuse pipes and devices, which could block for ever."""
    with open(path, "rb", opener=_open_without_blocking) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DamagedBundleError(f"{path} is not a regular file")
        yield file


def _open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class _HashingReader:
    """Reads a file from front to back and hashes what it reads while it is still in the processor's cache."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data

    def fill(self, buffer: memoryview) -> None:
        # A file cut short meanwhile leaves other bytes here, and so another hash.
        for start in range(0, len(buffer), _BLOCK_BYTES):
            block = buffer[start : start + _BLOCK_BYTES]
            count = self._file.readinto(block)  # type: ignore[attr-defined]
            self.digest.update(block[:count])


def _read_array(reader: _HashingReader, spec: ArraySpec) -> npt.NDArray[Any]:
    native = np.dtype(spec.dtype)
    array = np.empty(spec.shape, dtype=native.newbyteorder("<"))
    reader.fill(array.reshape(-1).view(np.uint8).data)
    return array.astype(native, copy=False)


@dataclass(frozen=True)
class _HeaderEntry:
    """An array, as safetensors describes it."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def _check_header(data: bytes, specs: Mapping[str, ArraySpec], path: Path) -> list[str]:
    """Return the names in the order of their bytes, after checking that header and manifest say the same."""
    where = f"{path}: header"
    header = parse_json(data, where)
    if not isinstance(header, dict) or header.keys() != specs.keys():
        raise DamagedBundleError(f"{where} has {shortened(header)}; its manifest has {shortened(list(specs))}")
    starts = {}
    for name, spec in specs.items():
        entry = decode(_HeaderEntry, header[name], where=f"{where}[{name!r}]")
        if (entry.dtype, entry.shape) != (DTYPE_CODES[spec.dtype], spec.shape):
            raise DamagedBundleError(
                f"{path}: array {name!r} is {shortened(entry.dtype)} of shape {shortened(list(entry.shape))}; "
                f"its manifest says {spec.dtype} of shape {list(spec.shape)}"
            )
        start, end = entry.data_offsets
        if end - start != spec.nbytes:
            raise DamagedBundleError(f"{path}: array {name!r} has {spec.nbytes} bytes, not those from {start} to {end}")
        starts[name] = start
    # Empty arrays share their start with the array after them.
    order = sorted(specs, key=lambda name: (starts[name], specs[name].nbytes))
    expected = 0
    for name in order:
        if starts[name] != expected:
            raise DamagedBundleError(f"{path}: array {name!r} starts at {starts[name]}; expected {expected}")
        expected += specs[name].nbytes
    return order
