"""Compilation of kernels by Numba, and the cache of machine code between runs; see `compiler` for the decorators.

Numba notices an edit in the file of a cached function, but not an edit in a helper of another file. The name of the
cache folder therefore contains a fingerprint of every file of this package: any edit gives a new folder, so cached code
is never stale.

Numba's cache is pickle, so whoever can write to the folder runs code as the user who reads it. A folder of another
user, or a folder that others can write to, is not used.

Numba names the functions it compiles, the closures inside ``np.argsort`` among them, after a counter that begins at 1
in each process. Cached code of one process, linked with code that another process compiles, could then have two
functions of one name, and the linker takes either. So the counter begins elsewhere in each process.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config as _config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import typeof_impl

from tercet.kernels.deferred import Deferred

config: Any = _config  # Any: attributes are set at run time, from the environment
log = logging.getLogger(__name__)

FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "little"))

KEPT_FOLDERS = 8  # newest cache folders of other versions to keep
_ROOT = 0


def fingerprint(folder: Path) -> str:
    """Digest of all sources in a folder, of Numba's version, and of its settings for index checks and optimization."""
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK} {int(config.OPT)}".encode())
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def own_fingerprint() -> str:
    """Fingerprint of this package."""
    return fingerprint(Path(__file__).parent)


@cache
def cache_folder() -> Path:
    """Folder of compiled kernels, below NUMBA_CACHE_DIR if that is set, else in the user's cache."""
    from platformdirs import user_cache_path

    parent = Path(config.CACHE_DIR).absolute() if config.CACHE_DIR else user_cache_path("tercet", appauthor=False)
    if not parent.is_absolute():  # a user without a home: "~/.cache" must not become a folder here
        parent = Path(os.devnull)
    return parent / f"tercet-{own_fingerprint()}"


def cache_problem(folder: Path) -> str | None:
    """Return why code from a cache folder is not trusted, or None; a missing folder has no problem."""
    try:
        status = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return "not a folder"
    if sys.platform == "win32":  # Windows protects a user's profile
        return None
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"it belongs to another user ({status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to it (mode {stat.S_IMODE(status.st_mode):o})"
    return None


# -- one function ---------------------------------------------------------------------------------------------------


class Helper(CPUDispatcher):
    """Result of `helper`: a call from Python raises an error instead of ending the process."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} is a helper, which only kernels call; @kernel makes it one")


def compiled(function: Callable[..., Any], fast_math: Iterable[str], options: dict[str, bool]) -> Any:
    """Return a function that Numba compiles for each type of arguments: cached, without the GIL and Python objects.

    ``options`` are those of a helper, else empty.
    """
    jit: Any = numba.njit  # Any: Numba's stubs lack options
    dispatcher: Any = jit(nogil=True, fastmath=set(fast_math), error_model="numpy", no_cfunc_wrapper=True, **options)(
        function
    )
    if hasattr(dispatcher, "_cache"):  # not where Numba is switched off
        dispatcher._cache = KernelCache(function)
        if options:
            dispatcher.__class__ = Helper
    return dispatcher


@typeof_impl.register(Deferred)
def _type_of(value: Deferred, context: Any) -> Any:
    """Type a kernel that another kernel names by the function that Numba makes of it."""
    function, typing_context = value.compiled, cpu_target.typing_context
    typing_context.refresh()  # register new intrinsics
    return typing_context.resolve_value_type(function)


# -- the cache ------------------------------------------------------------------------------------------------------


class KernelLocator(_CacheLocator):
    """Numba's interface for the location of cached code: `cache_folder`, named by a digest of the sources."""

    def __init__(self, py_file: str, first_line: int) -> None:
        self._py_file = py_file  # named in Numba's warnings about code without a cache
        self._first_line = first_line

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> KernelLocator:
        return cls(py_file, py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return own_fingerprint()

    def ensure_cache_path(self) -> None:
        make_cache_folder(cache_folder())

    def get_disambiguator(self) -> str:
        return str(self._first_line)


class KernelCacheImpl(CompileResultCacheImpl):
    """Numba's serialization of compiled code, in our folder."""

    _locator_classes: Any = [KernelLocator]  # noqa: RUF012 (a list in Numba, too)


class SignatureFiles(IndexDataCacheFile):
    """One file per compiled signature, named by a digest of the signature and the CPU.

    Numba numbers the files and keeps the numbers in an index. Two processes that compile two signatures of one kernel
    at the same time can then take the same number, and the index names the wrong code.
    """

    def load(self, key: Any) -> Any:
        stored_key, code = self._load_data(self._name(key))
        return code if stored_key == key else None

    def save(self, key: Any, data: Any) -> None:
        self._save_data(self._name(key), (key, data))

    def _name(self, key: Any) -> str:
        signature, target, hashes = key
        digest = hashlib.sha256(repr((str(signature), target, hashes)).encode()).hexdigest()
        return self._data_name(int(digest[:16], 16))


class KernelCache(FunctionCache):
    """Numba's cache of one kernel. A file that cannot be read or written costs a compilation, nothing else."""

    _impl_class = KernelCacheImpl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = SignatureFiles(self.cache_path, self._impl.filename_base, own_fingerprint())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        code = None
        if cache_problem(cache_folder()) is None:
            with suppress(Exception):  # no file, a damaged file, or a file of another version of a library
                code = super().load_overload(sig, target_context)
        if code is None:
            say_once("compiling kernels, once on this machine …")
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        folder = cache_folder()
        problem = cache_problem(folder)
        if problem is None:
            try:
                super().save_overload(sig, data)
            except OSError as error:
                problem = error.strerror or str(error)
        if problem is not None:
            say_once(
                f"compiled kernels are not cached in {folder}: {problem}. Every run compiles them again. "
                "Set NUMBA_CACHE_DIR to a folder of your own",
                logging.WARNING,
            )


def make_cache_folder(folder: Path) -> None:
    """Make the cache folder for this user alone, and remove the oldest folders of other versions."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):  # another process was faster
        folder.mkdir(mode=0o700)
    others = [path for path in folder.parent.glob(f"tercet-{'[0-9a-f]' * 16}") if path != folder]
    with suppress(OSError):  # removed by another process
        for path in sorted(others, key=lambda path: path.stat().st_mtime)[:-KEPT_FOLDERS]:
            shutil.rmtree(path, ignore_errors=True)


@cache
def say_once(message: str, level: int = logging.INFO) -> None:
    """Log a message; without a log for it, print a warning on standard error, and any message on a terminal."""
    log.log(level, message)
    if log.isEnabledFor(logging.INFO) or sys.stderr is None:
        return
    if level >= logging.WARNING or sys.stderr.isatty():
        print(f"tercet: {message}", file=sys.stderr, flush=True)
