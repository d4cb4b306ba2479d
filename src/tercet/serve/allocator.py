"""How the C library gives memory out and back, so that a service that lives long takes what it needs and little more.

glibc puts arrays between others once it has freed larger ones, and what is freed there stays with the process as long
as anything around it is in use. A service replaces large arrays with each version and each generation, so this adds up
to as much as is in use. Other C libraries are left as they are.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any, Final

_APART_BYTES: Final = 1 << 20  # from this size on an array has pages of its own, which a search should not wait for
_SPARE_BYTES: Final = 4 << 20  # free memory at the end of a heap that is kept for what comes next

# Of <malloc.h>, and what a user sets them by, which is not changed.
_TRIM_THRESHOLD: Final = (-1, "MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold")
_MMAP_THRESHOLD: Final = (-3, "MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold")


def keep_large_arrays_apart() -> None:
    """Have large arrays go back to the system the moment they are freed; holds for the whole process, from now on."""
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    for (number, variable, tunable), value in ((_MMAP_THRESHOLD, _APART_BYTES), (_TRIM_THRESHOLD, _SPARE_BYTES)):
        if variable not in os.environ and tunable not in tunables:
            mallopt(number, value)


def return_free_memory() -> None:
    """Give whole free pages back to the system; takes about a millisecond."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _of_glibc(name: str) -> Any:
    """A function of glibc, or None where there is another C library."""
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        return None
    function = getattr(ctypes.CDLL(None), name)
    function.argtypes = {"mallopt": (ctypes.c_int, ctypes.c_int), "malloc_trim": (ctypes.c_size_t,)}[name]
    return function
