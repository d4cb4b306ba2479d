"""A file that others append to: complete lines as they come, from any place on."""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO, Self

from tercet.data.lines import FilePath, Unpacked, line_text, open_bytes, raw_line
from tercet.data.preference_files import START, StreamPosition
from tercet.errors import FormatError

REPLACED = "replaced"  # the kind of a FormatError: the file is not the one that was read before, or lost some of it
_HEAD, _TAIL = 1 << 16, 1 << 12


class GrowingFile:
    r"""Reads complete lines; half a line at the end waits for its rest.

    Parameters
    ----------
    path : a text file; a gzipped one cannot grow, and the last line of one need not be ended
    position : where to begin

    Attributes
    ----------
    position : behind the last line that was read

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log")
    ...     _ = path.write_text("one\ntw")
    ...     with GrowingFile(path) as file, open(path, "a") as log:
    ...         first = file.read(10)
    ...         _ = log.write("o\n")
    ...         log.flush()
    ...         second = file.read(10)
    >>> first, second
    ([(1, 'one')], [(2, 'two')])
    """

    def __init__(self, path: FilePath, position: StreamPosition = START) -> None:
        self.path, self.position = path, position
        self._open: ExitStack | None = None
        self._stream: BinaryIO | None = None
        self._inode = 0
        self.is_packed = False
        self._enter()

    def _enter(self) -> None:
        if os.path.exists(self.path) and not (os.path.isfile(self.path) or os.path.isdir(self.path)):
            raise FormatError(self.path, None, "this is a pipe or a device; a file is needed, to go on in it later")
        with ExitStack() as opened:  # closed again should anything be wrong
            self._stream = opened.enter_context(open_bytes(self.path))
            self.is_packed = isinstance(getattr(self._stream, "raw", None), Unpacked)
            status = os.fstat(self._stream.fileno())
            self._inode = status.st_ino
            if not self.is_packed and status.st_size < self.position.at:
                raise self._cut_off(status.st_size)
            self._stream.seek(self.position.at)
            self._open = opened.pop_all()

    def read(self, limit: int) -> list[tuple[int, str]]:
        """At most so many lines, with their numbers, of those that are complete now."""
        assert self._stream is not None
        lines: list[tuple[int, str]] = []
        offset, line = self.position
        while len(lines) < limit:
            raw = raw_line(self._stream, self.path, line + 1)
            if not raw.endswith(b"\n") and not (self.is_packed and raw):
                self._stream.seek(offset)
                break
            lines.append((line + 1, line_text(raw, self.path, line + 1, offset)))
            offset, line = offset + len(raw), line + 1
        if not lines and not self.is_packed:
            size = self._size()
            if size < offset:
                raise self._cut_off(size)
        self.position = StreamPosition(offset, line)  # only now: where a line is wrong, none of them is handed out
        return lines

    @property
    def n_waiting(self) -> int:
        """Bytes of the line that is not complete."""
        return 0 if self.is_packed else max(0, self._size() - self.position.at)

    @property
    def waiting(self) -> str | None:
        """What is left for later, in words."""
        n_bytes = self.n_waiting
        return f"the last line has no end yet; its {n_bytes:,} bytes wait for the rest" if n_bytes else None

    def _size(self) -> int:
        assert self._stream is not None
        return os.fstat(self._stream.fileno()).st_size

    def _cut_off(self, size: int) -> FormatError:
        return FormatError(
            self.path,
            None,
            f"the file has {size} bytes, and {self.position.at} were read before: it was cut off or written anew, and "
            "what it has lost cannot be known. To go on at its first line, say that it is a new log: new_log=True. "
            "Logs that are renamed, not cut off, need no word",
            kind=REPLACED,
        )

    def is_replaced(self) -> bool:
        """Whether the path names another file by now, as after a rotation; a missing one may still come."""
        try:
            return os.stat(self.path).st_ino != self._inode
        except FileNotFoundError:
            return False

    def begin_again(self) -> None:
        """Go on at the beginning of the file that the path names now."""
        self.close()
        self.position = START
        self._enter()

    def digest(self) -> str:
        """A digest of what stands before the place: its beginning and its end.

        It is of the file that is read, also when the path names another one by now, or none.
        """
        assert self._stream is not None
        digest = _digest_before(self._stream, self.position)
        self._stream.seek(self.position.at)
        return digest

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = self._stream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _digest_before(stream: BinaryIO, position: StreamPosition) -> str:
    """A digest of the first 64 kB and the last 4 kB before a place, by which a file that has grown is known."""
    digest = hashlib.sha256(f"{position.at} {position.within}".encode())
    is_packed = isinstance(getattr(stream, "raw", None), Unpacked)
    end = position.at if is_packed else os.fstat(stream.fileno()).st_size
    for start, length in ((0, _HEAD), (max(0, position.at - _TAIL), _TAIL)):
        stream.seek(min(start, end))  # no system seeks to where no file can reach
        digest.update(stream.read(min(length, position.at)))
    return digest.hexdigest()


def check_before(path: FilePath, position: StreamPosition, digest: str) -> None:
    """Raise a FormatError where a file is not one that had this digest at that place and has grown since."""
    with open_bytes(path) as stream:
        is_same = _digest_before(stream, position) == digest
    if not is_same:
        raise FormatError(
            path,
            None,
            f"this is not the file that was read before up to line {position.within:,}: it was replaced or changed. "
            "Give that one, or say that this is a new log, which is read from its first line: new_log=True",
            kind=REPLACED,
        )
