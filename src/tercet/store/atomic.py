"""Atomic writes of files, safe from kills and power cuts."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tercet.errors import BundleError

if sys.platform != "win32":
    import fcntl

TEMPORARY_NAME: Final = re.compile(r"\.tercet-[0-9a-f]{16}\.tmp")
LOCK_PATIENCE_SECONDS: Final = 60.0

_LOCK_POLL_SECONDS: Final = 0.01
# Errors of file systems without locks on folders; NFS raises EBADF.
_NO_LOCKS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


@contextlib.contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing; readers find either the old content or all of the new.

    The bytes go to a temporary file in the same folder, which is synced and renamed over `path`; then the folder is
    synced.
    An error removes the temporary file; a kill leaves a file with a name of `TEMPORARY_NAME`.

    Raises
    ------
    OSError
        From the operating system. Until the rename, the old content is untouched.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_atomically(Path(folder) / "greeting.txt") as file:
    ...         _ = file.write(b"hello")
    ...     (Path(folder) / "greeting.txt").read_bytes()
    b'hello'
    """
    path = Path(path)
    temporary = path.with_name(f".tercet-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        # Report the first error; an error of the cleanup is suppressed.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def write_file_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes as a whole or not at all, by `open_atomically`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file_atomically(f"{folder}/a.txt", b"whole")
    ...     pathlib.Path(folder, "a.txt").read_bytes()
    b'whole'
    """
    with open_atomically(path) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, on platforms with this ability."""
    if sys.platform == "win32":  # Windows has no sync for folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def lock_folder(folder: Path, patience: float | None = None) -> Iterator[None]:
    """Let a single writer, of all threads and processes, work in a folder.

    The lock ends with its process and leaves no file behind. Some file systems and platforms have no such locks.

    Parameters
    ----------
    folder : an existing folder
    patience : seconds to wait for another writer; None for `LOCK_PATIENCE_SECONDS`

    Raises
    ------
    BundleError
        When another writer holds the lock for longer.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, lock_folder(pathlib.Path(folder)):
    ...     print("nobody else writes here now")
    nobody else writes here now
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _wait_for_lock(descriptor, folder, LOCK_PATIENCE_SECONDS if patience is None else patience)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; False if another process has the lock, True without locks."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _wait_for_lock(descriptor: int, folder: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not try_lock(descriptor):
        if time.monotonic() >= deadline:
            raise BundleError(
                f"{folder} is being written by another process, and still was after {patience:.0f} seconds; nothing "
                "was written"
            )
        time.sleep(_LOCK_POLL_SECONDS)
