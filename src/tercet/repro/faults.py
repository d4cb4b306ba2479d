"""What plans of both kinds are checked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def unknown(where: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Names that are not known."""
    listed = list(known)
    for name in names:
        if name not in listed:
            yield f"{where}: {name!r} is unknown; known: {', '.join(listed)}"


def repeated(what: str, names: list[str]) -> Iterator[str]:
    """A name that is there twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"{what}: the key {twice[0]!r} is there twice"


def unfit_for_files(names: Iterable[str]) -> Iterator[str]:
    """Keys that cannot name files."""
    for name in names:
        if not _FILE_NAME.fullmatch(name):
            yield f"the key {name!r} names files; letters, digits, '-', '_' and '.' are allowed, not '.' first"
