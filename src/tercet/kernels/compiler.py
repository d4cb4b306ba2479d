"""How kernels are compiled, and where the machine code is kept between runs.

Numba notices an edit in the file of a cached function, but not one in a helper that lives in another file. The
cache folder is therefore named after a fingerprint of the whole room: any edit gives a new folder, so cached code is
never stale. What is in it, and when it is not taken, is for ``code_cache.py`` to say. Folders of other fingerprints are
removed when nobody has used them for a month.

Numba names what it compiles, the closures inside ``np.argsort`` among them, after a counter that begins at 1 in each
process. Cached code of one process that is linked with what another compiles could then have two functions of one name,
of which the linker takes either. So the counter begins elsewhere in each process.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config as _config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.registry import CPUDispatcher

from tercet.kernels.code_cache import CodeFiles, UntrustedFolderError, trouble_with

config: Any = _config  # its settings are set from the environment, out of a type checker's sight
log = logging.getLogger(__name__)

FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "little"))

# Lets sums be reordered for SIMD and multiply-adds be fused, but keeps NaN and infinity checks honest.
FAST_MATH = {"reassoc", "contract", "nsz"}
IN_ORDER = {"contract"}  # for sums whose order is promised

UNUSED_SECONDS = 30 * 86_400.0  # after which the code of other versions is removed
_MARK_SECONDS = 86_400.0  # a folder is marked as used once a day
_OURS = re.compile(r"(?:tercet-)?[0-9a-f]{16}")  # names of cache folders


def fingerprint(folder: Path) -> str:
    """A short digest of all sources in a folder, of Numba's version, and of how it checks indices and optimises."""
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK} {int(config.OPT)}".encode())
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def own_fingerprint() -> str:
    """That of this room."""
    return fingerprint(Path(__file__).parent)


@cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: below NUMBA_CACHE_DIR if that is set, else in the user's cache.

    Where others can write to the first, the second is taken, and that is said. Nothing is made here: reading needs no
    folder, and one that cannot be written to is noticed when it is.
    """
    own = _own_cache_folder()
    if not config.CACHE_DIR:
        return own
    named = Path(config.CACHE_DIR) / f"tercet-{own_fingerprint()}"
    trouble = trouble_with(named)
    if trouble is None:
        return named
    tell(f"compiled kernels are not taken from {named}: {trouble}. They are kept in {own} instead", at_any_rate=True)
    return own


def _own_cache_folder() -> Path:
    from platformdirs import user_cache_path

    home = user_cache_path("tercet", appauthor=False)
    # Where nobody knows a home, a path stays "~/…", which must not become a folder here.
    return (home if home.is_absolute() else Path(os.devnull)) / own_fingerprint()


# -- one function ---------------------------------------------------------------------------------------------------


def kernel(function: Callable[..., Any], fast_math: Iterable[str] = FAST_MATH) -> Any:
    """Compile a function over arrays on first call; cached on disk, releases the GIL, no Python objects."""
    return _compiled(function, fast_math)


def kernel_in_order(function: Callable[..., Any]) -> Any:
    """Like `kernel`, but sums are taken in the order in which they are written."""
    return _compiled(function, IN_ORDER)


def helper(function: Callable[..., Any], fast_math: Iterable[str] = FAST_MATH) -> Any:
    """Like `kernel` for a function that only kernels call, which saves half the time it takes to compile."""
    compiled = _compiled(function, fast_math, no_cpython_wrapper=True)
    if isinstance(compiled, CPUDispatcher):
        compiled.__class__ = Helper
    return compiled


def helper_in_order(function: Callable[..., Any]) -> Any:
    """Like `helper`, but sums are taken in the order in which they are written."""
    return helper(function, IN_ORDER)


class Helper(CPUDispatcher):
    """What `helper` gives: Python cannot call it, and a call says so instead of ending the process."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} is a helper, which only kernels call; @kernel makes it one")


def _compiled(function: Callable[..., Any], fast_math: Iterable[str], **options: bool) -> Any:
    jit: Any = numba.njit  # whose stubs do not know all options
    compiled: Any = jit(nogil=True, fastmath=set(fast_math), error_model="numpy", no_cfunc_wrapper=True, **options)(
        function
    )
    if hasattr(compiled, "_cache"):  # not where Numba is switched off
        compiled._cache = KernelCache(function)
    return compiled


# -- the cache ------------------------------------------------------------------------------------------------------


class KernelLocator(_CacheLocator):
    """Says that code is kept in `cache_folder`, whose name stands for the sources."""

    def __init__(self, py_file: str, first_line: int) -> None:
        self._py_file = py_file  # Numba names it when it warns of code that cannot be kept
        self._first_line = first_line

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> KernelLocator:
        return cls(py_file, py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return own_fingerprint()

    def ensure_cache_path(self) -> None:
        """Made by `CodeFiles`, for this user alone."""

    def get_disambiguator(self) -> str:
        return str(self._first_line)


class KernelCacheImpl(CompileResultCacheImpl):
    """Numba's way to keep what it compiled, in our place."""

    _locator_classes: Any = [KernelLocator]  # noqa: RUF012 (a list in Numba, too)


class KernelCache(FunctionCache):
    """The compiled signatures of a kernel on disk. Says when something is compiled, and when it cannot be kept."""

    _impl_class = KernelCacheImpl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file: Any = CodeFiles(Path(self.cache_path), self._impl.filename_base)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            code = super().load_overload(sig, target_context)
        except Exception:  # whatever another version of a library makes of it: it is compiled again
            code = None
        if code is None:
            _tell_of_compiling()
        else:
            _mark_as_used()
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        if not keeping_fails():
            try:
                super().save_overload(sig, data)
            except OSError as error:  # a full disk, a folder of others …: what was compiled is there all the same
                _tell_of_failing(error)
                return
            _remove_unused()


class _Told:
    """What was said or done once in this process."""

    compiling = failing = marked = removed = False


def tell(message: str, at_any_rate: bool = False) -> None:
    """Say something to who waits: by logging where that is listened to, else on a terminal, or wherever errors go."""
    log.info(message)
    if not log.isEnabledFor(logging.INFO) and sys.stderr is not None and (at_any_rate or sys.stderr.isatty()):
        print(f"tercet: {message}", file=sys.stderr, flush=True)


def _tell_of_compiling() -> None:
    if not _Told.compiling:
        _Told.compiling = True
        tell("compiling kernels, once on this machine …")


def _tell_of_failing(error: OSError) -> None:
    _Told.failing = True
    reason = error.strerror or error
    tell(
        f"compiled kernels cannot be kept in {cache_folder()} ({reason}), so every run compiles them again; "
        "NUMBA_CACHE_DIR names another folder",
        at_any_rate=isinstance(error, UntrustedFolderError),
    )


def keeping_fails() -> bool:
    """Whether this process found that it cannot keep what it compiles."""
    return _Told.failing


def _mark_as_used() -> None:
    """Let others see that this version's code is in use; they look at the time of the folder."""
    if not _Told.marked:
        _Told.marked = True
        with suppress(OSError):  # read-only, or another user's
            if time.time() - cache_folder().stat().st_mtime > _MARK_SECONDS:
                os.utime(cache_folder())


def _remove_unused() -> None:
    """Remove the code of other versions that nobody used for long: once in a process that compiled something."""
    if _Told.removed:
        return
    _Told.removed = True
    own = cache_folder()
    with suppress(OSError):
        for folder in own.parent.iterdir():
            if folder != own and _OURS.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
                _remove_if_unused(folder)


def _remove_if_unused(folder: Path) -> None:
    with suppress(OSError):  # another's
        if time.time() - folder.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
