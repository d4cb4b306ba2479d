"""Folders that a service watches, and whether they changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.store import MANIFEST_NAME, Verify

Marks: TypeAlias = tuple[tuple[int, int, int] | None, ...]  # of files: time of the last write, size and inode


class IndexSource:
    """Folder of an index and perhaps of another model, and whether they changed.

    Parameters
    ----------
    folder : of the index
    model : folder of a model that scores in the place of the index's own
    read_model : reads that
    verify : "open" checks every byte of an index when it is opened, "never" does not; what is new later always is
    open_index : opens a folder with a model and ``verify``; `tercet.engines.open_index` also opens an index in another
        engine
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None,
        read_model: Callable[[], TextModel] | None = None,
        verify: Verify = "open",
        open_index: Callable[[Path, TextModel | None, Verify], BaseIndex] = Index.open,
    ) -> None:
        self.folder, self._read_model, self._verify, self._open_index = Path(folder), read_model, verify, open_index
        self._manifests = [Path(one) / MANIFEST_NAME for one in (folder, model) if one is not None]
        self._model_marks: tuple[int, int, int] | None = None
        self.opened_at: Marks = ()

    def marks(self) -> Marks:
        """Return what changes when a writer commits; costs a look at a file or two."""
        return marks_of(self._manifests)

    def open(self) -> BaseIndex:
        """Read the index as it is now."""
        marks = self.marks()  # before it is read, so that no later commit is missed
        model = None if self._read_model is None else self._read_model()
        index = self._open_index(self.folder, model, self._verify)
        self.opened_at, self._model_marks = marks, marks[-1]
        return index

    @property
    def own_model(self) -> bool:
        """True where the index's own model is served, so that promotions count."""
        return self._read_model is None

    def latest(self, current: BaseIndex) -> BaseIndex:
        """Return the index as it is now, with open segments shared; whatever is wrong with it is raised."""
        if isinstance(current, Index) and (self.own_model or self.marks()[-1] == self._model_marks):
            return current.latest(self.own_model)
        return self.open()


def marks_of(paths: Sequence[Path]) -> Marks:
    """Return what changes when any of some files is written again."""
    return tuple(_mark(path) for path in paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
