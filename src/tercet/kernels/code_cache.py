"""Compiled code on disk: who may have written it, whether it is whole, and of what it is.

Numba keeps code as pickles, so whoever can write them runs code as the user who reads them. A folder is therefore taken
only if it belongs to this user or to root and nobody else can write to it. It is opened once and its files are read
through it, so that nothing can be put in its place meanwhile. Files are sealed by a SHA-256: what a power cut or a disk
made of one is noticed, and the code compiled again.

Each signature of a kernel is a file, named after what it is of, and written under another name first. Two processes
that compile the same write the same, one after the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from numba.core.serialize import dumps

_MAGIC: Final = b"tercet code 1\n"
_SEAL_BYTES: Final = 32
_ROOT: Final = 0
_HAS_OWNERS: Final = sys.platform != "win32"  # where a user's folders are closed to others by the system itself
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class UntrustedFolderError(PermissionError):
    """Somebody else may have written what is in a folder; never escapes, the code is then compiled."""


def trouble_with(folder: Path) -> str | None:
    """Why no code may be taken from a folder, or None; one that is not there can be made."""
    try:
        with _opened(folder):
            return None
    except UntrustedFolderError as error:
        return str(error.strerror)
    except OSError:
        return None


def _problem(status: os.stat_result) -> str | None:
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"it belongs to another user, {status.st_uid}"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return f"others can write to it, its mode is {stat.S_IMODE(status.st_mode):o}"
    return None


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """A folder that can be trusted, to read its files through; None where the platform cannot."""
    if not _HAS_OWNERS:
        yield None
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        problem = _problem(os.fstat(descriptor))
        if problem is not None:
            raise UntrustedFolderError(1, problem, str(folder))
        yield descriptor
    finally:
        os.close(descriptor)


class CodeFiles:
    """The compiled signatures of one kernel; stands in for Numba's `IndexDataCacheFile`.

    Parameters
    ----------
    folder : made when something is kept, for this user alone
    name : of the kernel, with its line and the version of Python
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._kernel = folder, name

    def load(self, key: Any) -> Any:
        """The code of a signature, or None where there is none that is whole and can be trusted."""
        try:
            with _opened(self._folder) as descriptor:
                data = self._read(self._name(key), descriptor)
        except OSError:  # not there, or closed to us
            return None
        payload = data[len(_MAGIC) + _SEAL_BYTES :]
        if data[: len(_MAGIC) + _SEAL_BYTES] != _MAGIC + hashlib.sha256(payload).digest():
            return None
        stored_key, code = pickle.loads(payload)
        return code if stored_key == key else None

    def save(self, key: Any, code: Any) -> None:
        """Keep the code of a signature.

        Raises
        ------
        OSError
            When that fails; what was there before is untouched.
        """
        payload = dumps((key, code))
        if not self._folder.is_dir():
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self._folder.mkdir(mode=0o700)
        with _opened(self._folder) as descriptor:
            name = self._name(key)
            temporary = f"{name}.tmp.{secrets.token_hex(8)}"
            try:
                self._write(temporary, _MAGIC + hashlib.sha256(payload).digest() + payload, descriptor)
                os.replace(self._at(temporary, descriptor), self._at(name, descriptor), **_both(descriptor))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(self._at(temporary, descriptor), **_one(descriptor))
                raise

    def flush(self) -> None:
        """Nothing: a file that is not whole is not taken, and replaced by the next that is kept."""

    def _name(self, key: Any) -> str:
        signature, target, hashes = key
        digest = hashlib.sha256(repr((str(signature), target, hashes)).encode()).hexdigest()
        return f"{self._kernel}.{digest[:16]}.nbc"

    def _at(self, name: str, descriptor: int | None) -> str:
        return str(self._folder / name) if descriptor is None else name

    def _read(self, name: str, descriptor: int | None) -> bytes:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        with open(os.open(self._at(name, descriptor), flags, **_one(descriptor)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or (_HAS_OWNERS and _problem(status) is not None):
                raise UntrustedFolderError(1, "is not a file that only this user can write", name)
            return file.read()

    def _write(self, name: str, data: bytes, descriptor: int | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(self._at(name, descriptor), flags, 0o600, **_one(descriptor)), "wb") as file:
            file.write(data)


def _one(descriptor: int | None) -> dict[str, Any]:
    return {} if descriptor is None else {"dir_fd": descriptor}


def _both(descriptor: int | None) -> dict[str, Any]:
    return {} if descriptor is None else {"src_dir_fd": descriptor, "dst_dir_fd": descriptor}
