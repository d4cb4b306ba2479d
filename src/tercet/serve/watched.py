"""A folder that a service watches: of the index, or of a candidate."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tercet.store import MANIFEST_NAME

T = TypeVar("T")


class Watched(Generic[T]):
    """Folder with a manifest, and whether a writer has committed since it was looked at.

    Parameters
    ----------
    folder : of an index or a model
    read : reads it
    """

    def __init__(self, folder: str | os.PathLike[str], read: Callable[[], T]) -> None:
        self.folder, self._read = Path(folder), read
        self._seen: tuple[int, int, int] | None = None

    @property
    def has_news(self) -> bool:
        return self._mark() != self._seen

    def note(self) -> None:
        """Take the folder as it is now for known."""
        self._seen = self._mark()

    def open(self) -> T:
        self.note()  # before it is read, so that no later commit is missed
        return self._read()

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.folder / MANIFEST_NAME)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
