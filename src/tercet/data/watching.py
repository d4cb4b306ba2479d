"""Tell how far files have been read, for whoever shows it; readers know nothing of bars."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike
from typing import Any, TypeAlias, cast

Path: TypeAlias = str | PathLike[str]
# Takes a file, how many of its bytes (packed ones, where it is packed) were read, and how many there are.
Watcher: TypeAlias = Callable[[Path, int, int], None]
READ_AT_ONCE = 1 << 17

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_reading(watcher: Watcher | None) -> Iterator[None]:
    """Tell `watcher` how far every file that is opened within the block has been read; None tells nobody.

    It is called about every 128 kB with the file, the bytes read and the size of the file, and a last time, with the
    size twice, when the file is closed. A watched file costs a call for each 128 kB, and any other nothing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "ids.txt")
    ...     _ = file.write_text("007\\n")
    ...     with watch_reading(lambda path, done, size: print(path.name, done, size)):
    ...         with watched(open(file, "rb"), file) as stream:
    ...             _ = stream.read()
    ids.txt 4 4
    ids.txt 4 4
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class _WatchedFile(io.RawIOBase):
    """A file that tells how far it was read."""

    def __init__(self, raw: io.FileIO, path: Path, watcher: Watcher) -> None:
        self._raw, self._path, self._watcher = raw, path, watcher
        self._size, self._done = os.fstat(raw.fileno()).st_size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._done = self._raw.seek(offset, whence)
        return self._done

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any) -> int:
        n_read = self._raw.readinto(buffer)
        if n_read:
            self._done += n_read
            self._watcher(self._path, self._done, max(self._size, self._done))
        return n_read

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
            size = max(self._size, self._done)
            self._watcher(self._path, size, size)
        super().close()


def watched(stream: io.BufferedReader, path: Path) -> io.BufferedReader:
    """The same stream, telling the watcher there is, if any, how far it is read."""
    watcher = _watcher.get()
    if watcher is None:
        return stream
    return io.BufferedReader(_WatchedFile(cast(io.FileIO, stream.detach()), path, watcher), READ_AT_ONCE)
