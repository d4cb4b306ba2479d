"""From one generation to the next: what is new on disk, what wins and what is taught reaches those who read."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

from tercet.data.values import timestamp
from tercet.errors import BundleError, FormatError, InputError, JournalError, TercetError
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.search.folder import model_name
from tercet.search.promotions import Evidence, Promotion
from tercet.serve.allocator import return_free_memory
from tercet.serve.bounds import SNAPSHOT_EVERY, LearningBounds
from tercet.serve.generations import Generation, IndexSource
from tercet.serve.impressions import ImpressionLog
from tercet.serve.interleaving import Interleaver, RejectedCandidate
from tercet.serve.journal import Entry, Renewed
from tercet.serve.journal_file import Journal
from tercet.serve.learner import Learner, Version
from tercet.serve.problems import HttpProblem
from tercet.serve.snapshots import Snapshots

_log = logging.getLogger(__name__)

_CANNOT_SERVE = (TercetError, OSError, ValueError, MemoryError, TimeoutError)  # what a bad index or model raises
_COUNT_SECONDS = 2.0  # between looks at what of the log is settled
_PROMOTE_AGAIN_SECONDS = 60.0  # after which a promotion that failed is tried again
_TIDY_SECONDS = 3600.0  # between looks for impressions that are past their time


class Reloader:
    """Has the generation that is served, and puts the next one in its place.

    Every entry of the journal is written here, so that whatever is served learns it. `close` applies what was
    acknowledged; the journal is closed by whoever opened it.

    Parameters
    ----------
    index : the base, which must have a text model
    journal : what was taught so far, and is from now on
    bounds : how far it is learned
    source : where the index came from; it is looked at, and what is new there is served
    look_seconds : between these looks; 0 looks only when `look_soon` asks for it
    impressions : tidied now and then, or None
    interleaver : has lists shared with another model, or None
    snapshot_every : entries between two snapshots of what is learned; 0 for none
    """

    def __init__(
        self,
        index: BaseIndex,
        journal: Journal,
        bounds: LearningBounds | None = None,
        source: IndexSource | None = None,
        look_seconds: float = 2.0,
        impressions: ImpressionLog | None = None,
        interleaver: Interleaver | None = None,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> None:
        if interleaver is not None and interleaver.promotes:
            if not isinstance(index, Index):
                raise InputError("another engine keeps the documents, and has no promotions; leave out promotes")
            if source is not None and not source.own_model:
                raise InputError("a model of its own is served in the place of the index's, so none can be promoted")
        self.journal, self.interleaver, self.look_seconds = journal, interleaver, look_seconds
        self.refused: str | None = None
        self.is_closing = False
        self.when_asked: Callable[[], None] | None = None  # called by the watcher where `look_soon` asked for a look
        self._bounds, self._source, self._impressions = bounds, source, impressions
        self._snapshots = Snapshots(journal, snapshot_every)
        self._seen = None if source is None else source.opened_at
        with ExitStack() as begun:
            self.serving = Generation.of(index, journal.entries, bounds, None, self._snapshots)
            begun.callback(lambda: self.learner.close())
            if interleaver is not None:
                try:
                    candidate = interleaver.read_candidate()
                except RejectedCandidate as error:  # the next one may be better: a restart must not fail for it
                    candidate = None
                    interleaver.refuse(error)
                rival = interleaver.rival_of(self.serving, journal.entries, bounds, candidate, self._snapshots)
                interleaver.take(rival)
            begun.pop_all()  # all went well: from here on `close` ends them
        self._n_reported = len(journal)
        self._telling = threading.Lock()  # held while an entry is told to the learner, and while that is replaced
        self._renewing = threading.Lock()  # held by a thread that makes the next generation
        self._look, self._promote_at = threading.Event(), 0.0
        self._watcher = threading.Thread(target=self._watch, name="tercet-watcher", daemon=True)
        self._watcher.start()
        self.settle()  # also what was promoted or baked while nothing was served

    def stop(self) -> None:
        """Look for nothing new any more."""
        self.is_closing = True
        self._look.set()
        self._watcher.join()

    def close(self) -> None:
        """Have all learned that was recorded, and end."""
        self.stop()
        self.learner.close(at_end=True)
        if self.interleaver is not None:
            self.interleaver.close()

    @property
    def index(self) -> BaseIndex:
        return self.serving.index

    @property
    def learner(self) -> Learner:
        return self.serving.learner

    @property
    def version(self) -> Version:
        return self.serving.version

    def look_soon(self) -> None:
        """Have the source looked at now, also where nothing seems to have changed; may be called by a signal."""
        self._look.set()

    def look(self, anew: bool = False) -> bool:
        """Serve what is new at the source; whether there was anything. What cannot be served is refused, and told.

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
                index = self._source.latest(self.index)
                if index.digest == self.index.digest and index.model is self.index.model:
                    self.refused = None
                    return False
                self._serve(index)
                self.settle()
            except _CANNOT_SERVE as error:
                self.refused = f"{type(error).__name__}; the service's log says more"  # anybody may ask for this
                _log.warning("what is new at %s is refused, and the old goes on: %s", self._source.folder, error)
                return False
        _log.warning("now serving index %s, model %s", self.serving.index_label, self.serving.model_label)
        return True

    def _serve(self, index: BaseIndex) -> None:
        """Make the next generation and have readers move to it; the one before is ended when it is."""
        with self._telling:
            entries = self.journal.entries[: self._n_reported]
        before = self.serving
        made = Generation.of(index, entries, self._bounds, before, self._snapshots)
        try:
            self._catch_up(made)  # with most, while entries still come
            with self._telling:
                self._catch_up(made)
                self.serving, self.refused = made, None  # the swap: one reference
        except BaseException:
            made.learner.close()
            raise
        before.learner.close()
        del before  # so that only those who still read it have it
        self._share(None)
        return_free_memory()

    def _catch_up(self, generation: Generation) -> None:
        """Have a generation learn what was told since it was made; who holds `_telling` has it learn all.

        What it has is what its version says: the learner that it went on from may have had more than it was made of.
        """
        generation.catch_up(self.journal.entries[generation.version.number : self._n_reported])

    def look_at_candidate(self, anew: bool = False) -> bool:
        """Share lists with the candidate that is in its folder now; whether that is another than before."""
        if self.interleaver is None or not (anew or self.interleaver.has_news):
            return False
        with self._renewing:
            try:
                model = self.interleaver.read_candidate()
            except _CANNOT_SERVE as error:
                self.interleaver.refuse(error)
                return False
            is_other = self._share(model)
            return_free_memory()
            return is_other

    def _share(self, model: TextModel | None) -> bool:
        """Share lists of what is served now with a model, or with the one of before; whether others are compared now.

        One that does not fit is refused, and the rival of before goes on where it can.
        """
        if self.interleaver is None:
            return False
        contest = self.interleaver.contest
        with self._telling:
            entries = self.journal.entries[: self._n_reported]
        try:
            rival = self.interleaver.rival_of(self.serving, entries, self._bounds, model, self._snapshots)
            with self._telling:
                if rival is not None and rival.generation is not None:
                    self._catch_up(rival.generation)
                before = self.interleaver.take(rival)
        except _CANNOT_SERVE as error:
            self.interleaver.refuse(error, self.serving)
            return False
        if before is not None:
            before.close()
        if self.interleaver.contest == contest:
            return False
        _log.warning("%s", self.interleaver.said)
        return True

    def judge(self) -> Promotion | None:
        """Count what is settled in the log, and promote the challenger where it won and that is the rule."""
        if self.interleaver is None:
            return None
        self.interleaver.count()
        won = self.interleaver.won()
        if won is None or time.monotonic() < self._promote_at:
            return None
        try:
            entry = self.promote(*won)
        except _CANNOT_SERVE as error:
            self._promote_at = time.monotonic() + _PROMOTE_AGAIN_SECONDS
            self.interleaver.refuse(error)
            return None
        _log.warning("promotion %s", entry)
        return entry

    def promote(self, model: TextModel, evidence: Evidence) -> Promotion:
        """Make a model the index's own by a rule, serve it, and make every allowance whole again; call it in a thread.

        Raises `InputError` where another one is the index's own by now than the one that is served, or where a model
        of its own is served.
        """
        with self._renewing:
            if self._source is not None and not self._source.own_model:
                raise InputError("a model of its own is served in the place of the index's, so none can be promoted")
            index = self.index.latest(own_model=False) if isinstance(self.index, Index) else self.index
            entry = index.promote(model, "rule", evidence, over=model_name(self.index.given_model))
            self._serve(index)
            self.settle()
            return entry

    def change_documents(self, change: Callable[[Index], None], n_changed: int) -> dict[str, Any]:
        """Change the documents where the index is kept, and serve what it is then."""
        with self._renewing:
            if not isinstance(self.index, Index):
                raise HttpProblem(409, "another engine keeps the documents; change them there", "engine")
            try:
                index = self.index.latest(own_model=False)
                change(index)
            except BundleError as error:
                _log.warning("documents cannot be changed: %s", error)
                raise HttpProblem(507, "the index cannot be written; the service's log says why", "index") from error
            self._serve(index)
            now = self.serving
            facts = {"documents": len(now.index), "index": now.index_label, "version": now.version.name}
            return {"changed": n_changed} | facts

    def settle(self) -> None:
        """What is due once when a model is taken up: whole allowances where it was promoted or has entries baked in,
        and a journal without these entries."""
        is_own = self._source is None or self._source.own_model
        due: list[tuple[Literal["bake", "promote"], str]] = []
        if is_own:
            due += [("promote", promotion.name) for promotion in self.index.promotions[-1:]]
        n_baked = self.version.n_baked
        due += [("bake", baked.name) for baked in self.version.model.baked if baked.entry == n_baked]
        try:
            for reason, name in due:
                # A model is taken up after the entries that it has, and so its allowances were renewed after them.
                if not self.journal.has_renewed(name, after=n_baked):
                    self.record(partial(renewal, reason=reason, of=name))
            self.journal.compact(n_baked)
        except (JournalError, FormatError) as error:
            _log.warning("the model is served; of what is due with it, the rest waits for the next start: %s", error)

    def record(self, make: Callable[[int], Entry]) -> tuple[Entry, Future[Version], Future[Version] | None]:
        """Write an entry to the journal and tell the learner; the future gives the first version that has it.

        The second one gives that of the model with which lists are shared, where it learns.
        """
        applied: list[Future[Version]] = []
        siblings: Future[Version] | None = None

        def then(entry: Entry) -> None:
            nonlocal siblings
            with self._telling:
                self._n_reported = entry.number
                applied.append(self.learner.tell(entry))
                if self.interleaver is not None:
                    siblings = self.interleaver.tell(entry)

        return self.journal.append(make, then), applied[0], siblings

    def _watch(self) -> None:
        tidied = time.monotonic()
        while not self.is_closing:
            looks = self.look_seconds if self._source is not None else 0
            self._look.wait(looks or (_TIDY_SECONDS if self.interleaver is None else _COUNT_SECONDS))
            asked = self._look.is_set()
            self._look.clear()
            if self.is_closing:
                return
            if asked and self.when_asked is not None:
                try:
                    self.when_asked()
                except Exception:
                    _log.exception("what was asked for failed, and everything goes on as before")
            if self._impressions is not None and (asked or time.monotonic() - tidied > _TIDY_SECONDS):
                self._impressions.tidy()
                tidied = time.monotonic()
            try:
                if asked or self.look_seconds:
                    self.look(anew=asked)
                    self.look_at_candidate(anew=asked)
                self.judge()
            except Exception:
                # A defect, or an index that breaks what reads it. The old one goes on.
                _log.exception("the source could not be looked at")
                self.refused = "a defect; the service's log says more"


def renewal(number: int, reason: Literal["bake", "promote"], of: str = "") -> Renewed:
    return Renewed(number, timestamp(), "local", reason, of)
