"""Files mapped into memory, and their pages given back."""

from __future__ import annotations

import mmap
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt


def map_file(file: BinaryIO, size: int) -> npt.NDArray[np.uint8]:
    """Map the bytes of an open file; the file may be closed, unlinked or replaced meanwhile.

    A file must not be cut short while it is mapped: a look at the missing bytes ends the process.
    """
    return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)


def forget_pages(array: npt.NDArray[Any]) -> None:
    """Give the memory of a mapped array's file back; later looks read the file again.

    Examples
    --------
    >>> array = np.arange(3)  # in memory, so nothing changes
    >>> forget_pages(array)
    >>> array.tolist()
    [0, 1, 2]
    """
    mapping = _mapping_of(array)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def is_mapped(array: npt.NDArray[Any]) -> bool:
    """Return True if an array lies in a mapped file, such as a `numpy.memmap`; a copy of such an array does not.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     mapped = np.memmap(file.name, dtype=np.int64, shape=(4,), mode="w+")
    ...     is_mapped(mapped[1:3]), is_mapped(mapped[[1, 2]])
    (True, False)
    """
    return _mapping_of(array) is not None


def _mapping_of(array: npt.NDArray[Any]) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, mmap.mmap) else None
