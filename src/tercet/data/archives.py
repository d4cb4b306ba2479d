"""Tar archives, read from first to last and never extracted."""

from __future__ import annotations

import tarfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, Self, cast

from tercet.data import limits
from tercet.data.lines import PACKING_DAMAGE, FilePath, damage_message, open_bytes
from tercet.errors import FormatError

# Types of header blocks with the name or other properties of the next member, or of all members.
_HEADERS: Final = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class ArchiveMember(NamedTuple):
    """Header of a member of an archive."""

    name: str
    size: int
    is_folder: bool


class _Header(tarfile.TarInfo):
    """Refuses long headers, which hostile archives have."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type in _HEADERS and header.size > limits.LONGEST_TAR_HEADER:
            raise tarfile.TarError(f"a header of {header.size:,} bytes; {limits.LONGEST_TAR_HEADER:,} are the most")
        return header


class Content:
    """Bytes of a member; damage of the archive is a `FormatError`."""

    def __init__(self, stream: Any, path: FilePath) -> None:
        self._stream, self._path = stream, path

    def read(self, size: int = -1) -> bytes:
        with _told(self._path):
            return cast(bytes, self._stream.read(size))


@contextmanager
def _told(path: FilePath) -> Iterator[None]:
    try:
        yield
    except PACKING_DAMAGE as error:
        raise FormatError(path, None, damage_message(error), "packing") from error
    except (tarfile.TarError, OverflowError, RecursionError) as error:
        raise FormatError(path, None, f"the tar archive is broken ({error}); fetch it again") from error


def archive_members(path: FilePath) -> Generator[tuple[ArchiveMember, Content | None], None, None]:
    """Yield the members of a tar archive, packed or not, each with its content; None for links, folders and devices.

    Read the content before asking for the next member. A member with an absolute name, or with a name that climbs out
    of the archive, and a sparse member are a `FormatError`.
    """
    with (
        _told(path),
        open_bytes(path) as stream,
        tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive,
    ):
        for header in archive:
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every header in memory
            name = header.name
            if name.startswith("/") or ".." in PurePosixPath(name).parts:
                raise FormatError(path, None, f"the member {name!r} climbs out of the archive, so none of it is read")
            if header.issparse():
                raise FormatError(path, None, f"{name!r} is stored with holes, which is not read")
            content = Content(archive.extractfile(header), path) if header.isfile() else None
            yield ArchiveMember(name, header.size, header.isdir()), content
        while stream.read(1 << 20):  # the gzip checksum is only compared at the very end
            pass
