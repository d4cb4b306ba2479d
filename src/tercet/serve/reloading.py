"""From one index to the next: what is new on disk, and what wins, reaches readers without a restart."""

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

_CANNOT_SERVE: Final = (TercetError, OSError, ValueError, MemoryError, TimeoutError)  # of a bad index or model
_COUNT_SECONDS: Final = 2.0  # between looks at what of the log is settled
_PROMOTE_AGAIN_SECONDS: Final = 60.0  # after which a promotion that failed is tried again
_TIDY_SECONDS: Final = 3600.0  # between looks for impressions that are past their time


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

        Raises `InputError` where another one is the index's own by now than the one that is served.
        """
        with self._renewing:
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
