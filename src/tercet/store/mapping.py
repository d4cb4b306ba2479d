"""Files mapped into memory, and their pages given back.

Python's own `mmap` keeps every mapped file open, so that a process with the usual limit of 1,024 open files could map
no more than that. The system needs the file only while it maps it, and so does this.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
import weakref
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt


def map_file(file: BinaryIO, size: int) -> npt.NDArray[np.uint8]:
    """The bytes of an open file, read when they are looked at; the file may be closed, unlinked or replaced meanwhile.

    It must not be cut short: to look at bytes that are gone ends the process.
    """
    if sys.platform == "win32":  # has no such limit
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    return np.asarray(_Mapping(file.fileno(), size))


def forget_pages(array: npt.NDArray[Any]) -> None:
    """Give the memory of a mapped array's file back; what is looked at later is read from the file again.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     mapped = np.memmap(file.name, dtype=np.int64, shape=(4,), mode="w+")
    ...     forget_pages(mapped)
    ...     mapped.tolist()
    [0, 0, 0, 0]
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, _Mapping):
        base.forget()


def is_mapped(array: npt.NDArray[Any]) -> bool:
    """Return True if an array lies in a mapped file, such as a `numpy.memmap`; a copy of it does not.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     mapped = np.memmap(file.name, dtype=np.int64, shape=(4,), mode="w+")
    ...     is_mapped(mapped[1:3]), is_mapped(mapped[[1, 2]])
    (True, False)
    """
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, _Mapping | mmap.mmap)


class _Mapping:
    """Memory that is a file; NumPy keeps it as the base of the arrays that lie in it, and with the last it goes."""

    def __init__(self, descriptor: int, size: int) -> None:
        libc = _libc()
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address == ctypes.c_void_p(-1).value:
            error = ctypes.get_errno()
            raise OSError(error, f"cannot be mapped: {os.strerror(error)}")
        self._address, self._size = address, size
        # Not at the end of the process, when an array may outlive what Python tidies up.
        weakref.finalize(self, libc.munmap, address, size).atexit = False
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, True)}

    def forget(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            _libc().madvise(self._address, self._size, mmap.MADV_DONTNEED)


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    address, length, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.argtypes = (address, length, number, number, number, ctypes.c_long)
    libc.mmap.restype = address
    libc.munmap.argtypes = (address, length)
    libc.madvise.argtypes = (address, length, number)
    return libc
