"""Tar archives read in place: nothing is sought, nothing written, and what is broken is named."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO

from tercet.data.lines import FilePath, open_bytes
from tercet.errors import FormatError

_DRAIN_CHUNK = 1 << 20


def archive_members(path: FilePath) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Members of a tar archive, gzipped or not, in their order, each with its content; None for what is no file.

    The content must be read before the next member is asked for.
    """
    with open_bytes(path) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    yield member, archive.extractfile(member) if member.isfile() else None
        except tarfile.TarError as error:
            raise FormatError(path, None, f"the tar archive is broken ({error}); fetch it again") from error
        while stream.read(_DRAIN_CHUNK):  # the gzip checksum is only compared at the very end
            pass
