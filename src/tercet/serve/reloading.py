"""From one index to the next: what is new on disk, and what wins, reaches readers without a restart."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tercet.errors import BundleError, InputError, TercetError
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.search.folder import model_name
from tercet.search.promotions import Evidence, Promotion
from tercet.serve.problems import HttpProblem
from tercet.serve.served import Served
from tercet.serve.teacher import Published, Teacher
from tercet.store import MANIFEST_NAME, Verify

if TYPE_CHECKING:
    from tercet.serve.impressions import ImpressionLog
    from tercet.serve.interleaving import Interleaver

_log = logging.getLogger(__name__)

_CANNOT_SERVE: Final = (TercetError, OSError, ValueError, MemoryError, TimeoutError)  # of a bad index or model
_COUNT_SECONDS: Final = 2.0  # between looks at what of the log is settled
_PROMOTE_AGAIN_SECONDS: Final = 60.0  # after which a promotion that failed is tried again
_TIDY_SECONDS: Final = 3600.0  # between looks for impressions that are past their time

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


class Reloader:
    """Watches the source of the index, the candidate and the standing of their duel.

    Parameters
    ----------
    teacher : publishes what is new
    source : where the index came from; None where nothing new can come
    look_seconds : between looks; 0 looks only when `look_soon` asks for it
    impressions : tidied now and then, or None
    interleaver : has lists shared with another model, or None

    Attributes
    ----------
    refused : why what is new on disk is not served; None where all is served
    """

    def __init__(
        self,
        teacher: Teacher,
        source: IndexSource | None = None,
        look_seconds: float = 2.0,
        impressions: ImpressionLog | None = None,
        interleaver: Interleaver | None = None,
    ) -> None:
        own_model = source is None or source.own_model
        if interleaver is not None and interleaver.promotes:
            if not isinstance(teacher.now.served.base, Index):
                raise InputError("another engine keeps the documents, and has no promotions; leave out promotes")
            if not own_model:
                raise InputError("a model of its own is served in the place of the index's, so none can be promoted")
        self.refused: str | None = None
        self.is_closing = False
        self._teacher, self._source, self._own_model = teacher, source, own_model
        self._look_seconds, self._impressions, self._interleaver = look_seconds, impressions, interleaver
        self._seen = None if source is None else source.opened_at
        self._renewing = threading.Lock()  # held by a thread that serves something else
        self._look, self._promote_at = threading.Event(), 0.0
        self._watcher = threading.Thread(target=self._watch, name="tercet-watcher", daemon=True)
        self._watcher.start()

    def close(self) -> None:
        """Look for nothing new any more."""
        self.is_closing = True
        self._look.set()
        self._watcher.join()

    def look_soon(self) -> None:
        """Have the source looked at now, also where nothing seems to have changed; may be called by a signal."""
        self._look.set()

    def look(self, anew: bool = False) -> bool:
        """Serve what is new at the source and return True, or False where there is nothing new or it is refused.

        ``anew`` also looks where no file seems to have changed.
        """
        if self._source is None:
            return False
        with self._renewing:
            marks = self._source.marks()
            if marks == self._seen and not anew:
                return False
            self._seen = marks
            try:
                base = self._teacher.now.served.base
                index = self._source.latest(base)
                if index.digest == base.digest and index.model is base.model:
                    self.refused = None
                    return False
                now = self._serve(index)
            except _CANNOT_SERVE as error:
                self.refused = f"{type(error).__name__}; the service's log says more"  # anybody may ask for this
                _log.warning("what is new at %s is refused, and the old goes on: %s", self._source.folder, error)
                return False
        _log.warning("now serving index %s, model %s", now.served.index_label, now.served.model_label)
        return True

    def _serve(self, index: BaseIndex) -> Published:
        """Publish another index; a candidate that does not fit is refused, and lists are not shared."""
        served = Served.of(index)
        rival = None
        if self._interleaver is not None:
            try:
                rival = self._interleaver.rival_of(served)
            except _CANNOT_SERVE as error:
                self._interleaver.refuse(error)
        now = self._teacher.serve(served, rival)
        self.refused = None
        return now

    def look_at_candidate(self, anew: bool = False) -> bool:
        """Share lists with the candidate that is in its folder now; return True where that is another than before."""
        shared = self._interleaver
        if shared is None or not (anew or shared.has_news):
            return False
        with self._renewing:
            before = shared.contest(self._teacher.now)
            try:
                model, served = shared.read_candidate(), self._teacher.now.served
                now = self._teacher.serve(served, shared.rival_of(served, model))
            except _CANNOT_SERVE as error:
                shared.refuse(error)
                return False
            if shared.contest(now) == before:
                return False
            _log.warning("%s", shared.said(now))
            return True

    def judge(self) -> Promotion | None:
        """Count what is settled in the log, and promote the challenger where it won and that is the rule."""
        shared = self._interleaver
        if shared is None:
            return None
        shared.count()
        won = shared.won(self._teacher.now)
        if won is None or time.monotonic() < self._promote_at:
            return None
        try:
            entry = self.promote(*won)
        except _CANNOT_SERVE as error:
            self._promote_at = time.monotonic() + _PROMOTE_AGAIN_SECONDS
            shared.refuse(error)
            return None
        _log.warning("promotion %s", entry)
        return entry

    def promote(self, model: TextModel, evidence: Evidence) -> Promotion:
        """Make a model the index's own by a rule, and serve it; call this in a thread.

        Raises `InputError` where another one is the index's own by now than the one that is served, or where a model
        of its own is served.
        """
        with self._renewing:
            if not self._own_model:
                raise InputError("a model of its own is served in the place of the index's, so none can be promoted")
            base = self._teacher.now.served.base
            index = base.latest(own_model=False) if isinstance(base, Index) else base
            entry = index.promote(model, "rule", evidence, over=model_name(base.given_model))
            self._serve(index)
            return entry

    def change_documents(self, change: Callable[[Index], None], n_changed: int) -> dict[str, Any]:
        """Change the documents on disk, and serve them; call this in a thread."""
        with self._renewing:
            base = self._teacher.now.served.base
            if not isinstance(base, Index):
                raise HttpProblem(409, "another engine keeps the documents; change them there", "engine")
            try:
                index = base.latest(own_model=False)
                change(index)
            except BundleError as error:
                _log.warning("documents cannot be changed: %s", error)
                raise HttpProblem(507, "the index cannot be written; the service's log says why", "index") from error
            now = self._serve(index).served
            return {
                "changed": n_changed,
                "documents": len(now.index),
                "index": now.index_label,
                "version": now.version,
            }

    def _watch(self) -> None:
        tidied = time.monotonic()
        while not self.is_closing:
            looks = self._look_seconds if self._source is not None else 0
            self._look.wait(looks or (_TIDY_SECONDS if self._interleaver is None else _COUNT_SECONDS))
            asked = self._look.is_set()
            self._look.clear()
            if self.is_closing:
                return
            try:
                if self._impressions is not None and (asked or time.monotonic() - tidied > _TIDY_SECONDS):
                    self._impressions.tidy()
                    tidied = time.monotonic()
                if asked or self._look_seconds:
                    self.look(anew=asked)
                    self.look_at_candidate(anew=asked)
                self.judge()
            except Exception:
                # A defect, or an index that breaks what reads it. The old one goes on.
                _log.exception("the source could not be looked at")
                self.refused = "a defect; the service's log says more"
