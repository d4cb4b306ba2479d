"""Tar archives, read from first to last and never extracted.

What an archive says of itself is not believed: a header may be as long as it likes in the format, a member may be a
link or have a name that climbs out of the folder it is unpacked in, and sizes may be anything.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Generator, Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from tercet.data import limits
from tercet.data.lines import PACKING_DAMAGE, READ_AT_ONCE, FilePath, damage_message, open_bytes
from tercet.errors import FormatError

_BLOCK = tarfile.BLOCKSIZE
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
# Blocks that say more of the next member, or of all.
_HEADERS = (*_PAX, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
# Links, devices, folders and pipes have no content, whatever size they say.
_EMPTY = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)
_PAX_RECORD = re.compile(rb"(\d{1,8}) ([^=]+)=")


class Member(NamedTuple):
    """What an archive says of one of its members."""

    name: str
    size: int
    is_folder: bool


def archive_members(path: FilePath) -> Generator[tuple[Member, BinaryIO | None], None, None]:
    """Members of a tar archive, packed or not, in their order, each with its content; None for what is no file.

    The content must be read before the next member is asked for. A member whose name is absolute or climbs out of its
    folder, a sparse one, and a header longer than `limits.LONGEST_TAR_HEADER` are a `FormatError`.
    """
    with open_bytes(path) as stream:
        yield from _members(stream, path)
        while stream.read(1 << 20):  # the gzip checksum is only compared at the very end
            pass


def _members(stream: BinaryIO, path: FilePath) -> Iterator[tuple[Member, BinaryIO | None]]:
    said: dict[str, str] = {}  # of the next member, by the headers before it
    is_first = True
    while True:
        block = stream.read(_BLOCK)
        if not block and not is_first:
            return  # without the blocks that end an archive, as some writers leave it
        if not block.strip(b"\0") and len(block) == _BLOCK:
            second = stream.read(_BLOCK) if is_first else block  # an archive without members is two such blocks
            if not second.strip(b"\0") and len(second) == _BLOCK:
                return
        header = _header(block, path)
        is_first = False
        if header.type in _HEADERS:
            said |= _more(header, stream, path)
            continue
        name, size = said.get("path", header.name), _size(said.get("size"), header.size, path)
        said = {}
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise _broken(path, f"{name!r} is stored with holes, which is not read")
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise FormatError(path, None, f"the member {name!r} climbs out of the archive, so none of it is read")
        content = _Content(stream, 0 if header.type in _EMPTY else size, path)
        member = Member(name, size, header.type == tarfile.DIRTYPE)
        yield member, io.BufferedReader(content, READ_AT_ONCE) if header.type in _FILES else None
        content.skip()


def _header(block: bytes, path: FilePath) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError as error:
        raise _broken(path, str(error)) from error


def _size(said: str | None, size: int, path: FilePath) -> int:
    if said is not None and not re.fullmatch(r"[0-9]{1,18}", said):
        raise _broken(path, f"a member has the size {said[:40]!r}")
    size = size if said is None else int(said)
    if size < 0:
        raise _broken(path, f"a member has the size {size}")
    return size


def _more(header: tarfile.TarInfo, stream: BinaryIO, path: FilePath) -> dict[str, str]:
    """What a block says of the next member: its path and size, where those do not fit the header."""
    size = _size(None, header.size, path)
    if size > limits.LONGEST_TAR_HEADER:
        most = f"{limits.LONGEST_TAR_HEADER:,}"
        raise FormatError(path, None, f"a header of the tar archive has {size:,} bytes; {most} are more than any needs")
    content = _Content(stream, size, path)
    text = content.readall()
    content.skip()
    if header.type == tarfile.GNUTYPE_LONGNAME:
        return {"path": text.partition(b"\0")[0].decode("utf-8", "surrogateescape")}
    if header.type not in _PAX:
        return {}
    said, at = {}, 0
    while at < len(text) and text[at]:
        record = _PAX_RECORD.match(text, at)
        end = at + int(record[1]) if record else 0
        if record is None or not record.end() < end <= len(text) or text[end - 1 : end] != b"\n":
            raise _broken(path, "a header cannot be taken apart")
        if record[2] in (b"path", b"size"):
            said[record[2].decode()] = text[record.end() : end - 1].decode("utf-8", "surrogateescape")
        at = end
    return said


def _broken(path: FilePath, what: str) -> FormatError:
    return FormatError(path, None, f"the tar archive is broken ({what}); fetch it again")


class _Content(io.RawIOBase):
    """The bytes of one member."""

    def __init__(self, stream: BinaryIO, size: int, path: FilePath) -> None:
        self._stream, self._left, self._path = stream, size, path
        self._padding = -size % _BLOCK

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._take(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)

    def _take(self, count: int) -> bytes:
        try:
            data = self._stream.read(count)
        except PACKING_DAMAGE as error:
            raise FormatError(self._path, None, damage_message(error), "packing") from error
        if count and not data:
            raise _broken(self._path, "unexpected end of data")
        return data

    def skip(self) -> None:
        """Go to the next member."""
        self._left += self._padding
        self._padding = 0
        while self._left:
            self._left -= len(self._take(min(self._left, 1 << 20)))
