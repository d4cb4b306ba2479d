"""What is served, replaced as a whole: an index with its model, baseline and learner; and where that comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy import sparse

from tercet.data.values import timestamp
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.search.folder import model_fingerprint
from tercet.serve.answers import Baseline
from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Entry
from tercet.serve.learner import Kept, Learner, Version
from tercet.serve.replay import text_model
from tercet.serve.snapshots import Snapshots
from tercet.store import MANIFEST_NAME, Verify
from tercet.store.digest import digest_of

Marks: TypeAlias = tuple[tuple[int, int, int] | None, ...]  # of files: when they were written, their size and inode

_LABEL_CHARS = 12
_CATCH_UP_SECONDS = 30.0


@dataclass(frozen=True, eq=False)
class Generation:
    """An index and all that goes with it. Whoever reads takes one and keeps to it; only its learner goes on.

    Attributes
    ----------
    index, baseline, learner : what is searched, what it is shown against, and what it learns by
    index_label : by which answers, health and metrics name the index; the same bytes have the same
    fingerprint : of the model without words that came with documents later; its beginning is the ``model_label``
    loaded : when it was taken up, in UTC
    """

    index: BaseIndex
    baseline: Baseline
    learner: Learner
    index_label: str
    fingerprint: str
    loaded: str

    @classmethod
    def of(
        cls,
        index: BaseIndex,
        entries: Sequence[Entry],
        bounds: LearningBounds | None,
        before: Generation | None = None,
        snapshots: Snapshots | None = None,
    ) -> Generation:
        """Make ready to serve an index: replay the journal over it, and search once."""
        model = text_model(index)
        same_model = before is not None and before.index.model is model
        fingerprint = before.fingerprint if before and same_model else model_fingerprint(index.given_model)
        baseline = Baseline(index)
        words = model.doc_vectoriser.added.words  # part of the index, and perhaps not of the model it was opened with
        kept = None if snapshots is None else Kept(snapshots, digest_of(fingerprint, words) if words else fingerprint)
        learner = Learner(index, entries, bounds, None if before is None else before.learner, kept)
        index_label = index.digest[:_LABEL_CHARS] or "memory"
        made = cls(index, baseline, learner, index_label, fingerprint, timestamp())
        try:
            made.warm_up()
        except BaseException:
            learner.close()
            raise
        return made

    @property
    def model_label(self) -> str:
        return self.fingerprint[:_LABEL_CHARS]

    @property
    def version(self) -> Version:
        return self.learner.current

    def warm_up(self) -> None:
        """Search once, so that the first to ask does not wait for kernels to load, and what cannot search is found."""
        n_words = self.version.model.weights.shape[0]
        if n_words == 0:
            return  # nothing can be found
        # A row, not a text: a word as the model spells it may itself be stemmed to one that it does not know.
        one_word = sparse.csr_array((np.ones(1, np.float32), [0], [0, 1]), shape=(1, n_words))
        for index in (self.version.index, self.baseline.index):
            index.search_row(one_word, 1)
            index.search_row(one_word, 1, max_terms=1)

    def catch_up(self, entries: Sequence[Entry]) -> None:
        """Have entries learned that came since it was made; returns when they are."""
        applied = [self.learner.tell(entry) for entry in entries]
        if applied:
            applied[-1].result(timeout=_CATCH_UP_SECONDS)


class IndexSource:
    """Where an index and perhaps another model are, and whether they changed.

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
        """What changes when a writer commits; costs a look at a file or two."""
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
        """Whether the index's own model is served, so that promotions count."""
        return self._read_model is None

    def latest(self, current: BaseIndex) -> BaseIndex:
        """The index as it is now, with what is open of it already; whatever is wrong with it is raised."""
        model_marks = self.marks()[-1]
        if isinstance(current, Index) and (self.own_model or model_marks == self._model_marks):
            return current.latest(self.own_model)
        return self.open()


def is_same_model(model: TextModel, served: Generation) -> bool:
    """Whether a generation has this very model, or one that scores as it does."""
    return served.index.given_model is model or model_fingerprint(model)[:_LABEL_CHARS] == served.model_label


def marks_of(paths: Sequence[Path]) -> Marks:
    """What changes when any of some files is written again."""
    return tuple(_mark(path) for path in paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
