"""How kernels are compiled, and where the machine code is kept between runs.

Numba notices an edit in the file of a cached function, but not one in a helper that lives in another file. The
cache folder is therefore named after a fingerprint of the whole room: any edit gives a new folder, so cached code is
never stale. Processes that compile at the same time write to it one after the other: left to itself, Numba may give
the code of two signatures the same file, and a later process would run one for the other.

Numba names what it compiles, the closures inside ``np.argsort`` among them, after a counter that begins at 1 in each
process. Cached code of one process that is linked with what another compiles could then have two functions of one name,
of which the linker takes either. So the counter begins elsewhere in each process.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config as _config
from numba.core.bytecode import FunctionIdentity

if sys.platform != "win32":
    import fcntl

config: Any = _config  # its settings are set from the environment, out of a type checker's sight

FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "little"))

# Lets sums be reordered for SIMD and multiply-adds be fused, but keeps NaN and infinity checks honest.
FAST_MATH = {"reassoc", "contract", "nsz"}
IN_ORDER = {"contract"}  # for sums whose order is promised


def fingerprint(folder: Path) -> str:
    """A short digest of all sources in a folder, of Numba's version and of whether indices are checked."""
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK}".encode())
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR if set, else the user's cache, else a private folder."""
    name = fingerprint(Path(__file__).parent)
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / f"tercet-{name}"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tercet" / name
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except OSError:
        # A read-only home: code is compiled again in each process, in a folder nobody else can write to.
        return Path(tempfile.mkdtemp(prefix="tercet-kernels-"))


def kernel(function: Callable[..., Any], fast_math: Iterable[str] = FAST_MATH) -> Any:
    """Compile a function over arrays on first call; cached on disk, releases the GIL, no Python objects."""
    previous = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())  # read once, when the dispatcher is made; other Numba users keep theirs
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, fastmath=set(fast_math), error_model="numpy")(function)
    finally:
        config.CACHE_DIR = previous
    _save_one_at_a_time(compiled._cache)
    return compiled


def _save_one_at_a_time(kept: Any) -> None:
    """Let only one process at a time add to a cache folder."""
    save = kept.save_overload

    def save_alone(signature: Any, data: Any) -> None:
        folder = Path(kept.cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            save(signature, data)

    kept.save_overload = save_alone


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def kernel_in_order(function: Callable[..., Any]) -> Any:
    """Like `kernel`, but sums are taken in the order in which they are written."""
    return kernel(function, IN_ORDER)


@contextmanager
def announce_compilation(kernels: tuple[Any, ...], say: Callable[[str], None]) -> Iterator[None]:
    """Say "compiling once" when the first call of a kernel is still not done after a moment.

    A kernel found in the cache loads faster than that and nothing is said.
    """
    if all(k.signatures for k in kernels):
        yield
        return
    timer = threading.Timer(0.7, say, args=("compiling once …",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
