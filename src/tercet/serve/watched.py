"""Folder of an index or a candidate that a service watches."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tercet.store import MANIFEST_NAME

T = TypeVar("T")


class Watched(Generic[T]):
    """Folder with a manifest, and a flag for commits since the last look; ``read`` opens the folder."""

    def __init__(self, folder: str | os.PathLike[str], read: Callable[[], T]) -> None:
        self.folder, self._read = Path(folder), read
        self._seen: tuple[int, int, int] | None = None

    @property
    def has_news(self) -> bool:
        return self._mark() != self._seen

    def note(self) -> None:
        """Mark the current state of the folder as seen."""
        self._seen = self._mark()

    def open(self) -> T:
        self.note()  # before reading, so that no later commit is missed
        return self._read()

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.folder / MANIFEST_NAME)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
