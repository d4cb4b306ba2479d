"""Live reload: new documents, new models and promotions reach readers without a restart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tercet.errors import BundleError, InputError, TercetError
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.search.folder import model_name
from tercet.search.promotions import Evidence, Promotion
from tercet.serve.impressions import ImpressionLog
from tercet.serve.interleaving import Interleaver
from tercet.serve.problems import HttpProblem
from tercet.serve.served import Served
from tercet.serve.teacher import Published, Teacher
from tercet.serve.watched import Watched

_log = logging.getLogger(__name__)

_CANNOT_SERVE: Final = (TercetError, OSError, ValueError, MemoryError, TimeoutError)  # raised by a bad index or model
_COUNT_SECONDS: Final = 2.0  # between counts of settled lists
_PROMOTE_AGAIN_SECONDS: Final = 60.0  # after a failed promotion
_TIDY_SECONDS: Final = 3600.0  # between removals of old impressions


class Reloader:
    """Thread that watches the folders of the index and the candidate, and promotes winners.

    Parameters
    ----------
    teacher : publishes versions
    source : folder of the index, or None
    look_seconds : between looks at the folders; 0 looks only after `look_soon`
    impressions : log to remove old files from, or None
    interleaver : comparison with a candidate, or None

    Attributes
    ----------
    refused : reason why the index on disk is not served, or None
    """

    def __init__(
        self,
        teacher: Teacher,
        source: Watched[BaseIndex] | None = None,
        look_seconds: float = 2.0,
        impressions: ImpressionLog | None = None,
        interleaver: Interleaver | None = None,
    ) -> None:
        if interleaver is not None and interleaver.promotes and not isinstance(teacher.now.served.base, Index):
            raise InputError("another engine keeps the documents, and has no promotions; leave out promotes")
        self.refused: str | None = None
        self.is_closing = False
        self._teacher, self._source = teacher, source
        self._look_seconds, self._impressions, self._interleaver = look_seconds, impressions, interleaver
        self._renewing = threading.Lock()  # held while an index or model is replaced
        self._look, self._promote_at = threading.Event(), 0.0
        self._watcher = threading.Thread(target=self._watch, name="tercet-watcher", daemon=True)
        self._watcher.start()

    def close(self) -> None:
        """Stop the thread."""
        self.is_closing = True
        self._look.set()
        self._watcher.join()

    def look_soon(self) -> None:
        """Look at the folders now, even if no file changed. Safe in a signal handler."""
        self._look.set()

    def look(self, anew: bool = False) -> bool:
        """Serve a new index on disk. Return True if the index is new and can be served.

        ``anew`` also opens a folder without changed files.
        """
        if self._source is None:
            return False
        with self._renewing:
            if not (anew or self._source.has_news):
                return False
            self._source.note()
            try:
                base = self._teacher.now.served.base
                index = base.latest() if isinstance(base, Index) else self._source.open()
                if index.digest == base.digest and index.model is base.model:
                    self.refused = None
                    return False
                now = self._serve(index)
            except _CANNOT_SERVE as error:
                self.refused = f"{type(error).__name__}; the service's log says more"  # readable by everybody
                _log.warning("the new index in %s is refused, the old one stays: %s", self._source.folder, error)
                return False
        _log.warning("now serving index %s, model %s", now.served.index_label, now.served.model_label)
        return True

    def _serve(self, index: BaseIndex) -> Published:
        """Publish another index; a candidate that does not fit is refused."""
        served = Served.from_index(index)
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
        """Interleave with the candidate in its folder; return True if the comparison changed."""
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
            _log.warning("%s", shared.description(now))
            return True

    def judge(self) -> Promotion | None:
        """Count settled lists, and promote the rival if it won and promotion is on."""
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
        """Promote a model by rule, and serve it; call this in a thread.

        Raises `InputError` if the promoted model on disk is not the served one.
        """
        with self._renewing:
            base = self._teacher.now.served.base
            index = base.latest(own_model=False) if isinstance(base, Index) else base
            entry = index.promote(model, "rule", evidence, over=model_name(base.given_model))
            self._serve(index)
            return entry

    def change_documents(self, change: Callable[[Index], None], n_changed: int) -> dict[str, Any]:
        """Change the documents on disk, and serve the change; call this in a thread."""
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
            except Exception:  # a defect; the old index stays
                _log.exception("the folders could not be read")
                self.refused = "a defect; the service's log says more"
