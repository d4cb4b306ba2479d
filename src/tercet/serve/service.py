"""The service without HTTP: an index, a journal, a learner, and bounded queues for those who ask."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal, TypeVar

from tercet.data.clicks import Impression, impression_problem
from tercet.data.values import timestamp
from tercet.errors import BundleError, EngineError, FormatError, InputError, JournalError, TercetError
from tercet.fitting.text_model import TextModel
from tercet.measure.duels import ATTRIBUTE, Assignment
from tercet.search import BaseIndex, Index
from tercet.search.filtering import where_of
from tercet.search.folder import model_name
from tercet.search.promotions import Evidence, Promotion
from tercet.serve import answers
from tercet.serve.allowances import Buckets
from tercet.serve.answers import Baseline, Deadline
from tercet.serve.bounds import QUERY_TERMS, LearningBounds, Limits
from tercet.serve.collection import collection
from tercet.serve.generations import Generation, IndexSource
from tercet.serve.impressions import ImpressionLog
from tercet.serve.interleaving import Interleaver
from tercet.serve.journal import Clicked, Entry, Preferred, Renewed, Trust, Withdrawn
from tercet.serve.journal_file import Journal
from tercet.serve.learner import Learner, Version
from tercet.serve.metrics import Metrics, resident_bytes
from tercet.serve.problems import HttpProblem, limit_problem
from tercet.serve.queues import Queue
from tercet.serve.replay import text_model

T = TypeVar("T")

_log = logging.getLogger(__name__)

_CANNOT_SERVE = (TercetError, OSError, ValueError, MemoryError, TimeoutError)  # what a bad index or model raises
_COUNT_SECONDS = 2.0  # between looks at what of the log is settled
_PROMOTE_AGAIN_SECONDS = 60.0  # after which a promotion that failed is tried again
_TIDY_SECONDS = 3600.0  # between looks for impressions that are past their time
_BAKED = (
    "what came before is part of the model. Prefer the other way round; or take the promotion of that model back, and "
    "the entry after that"
)
_CHANGES_WAITING = 16  # changes of documents that may wait for another
_APPLY_WAIT_SECONDS = 0.5  # how long an acknowledgement waits for the learner, so that most can say "applied"


class Service:
    """All that requests share. `close` applies what was acknowledged and lets the journal go.

    Parameters
    ----------
    index : the base, which must have a text model
    journal : where its journal is
    name : of what is searched, for those who see the page
    impressions : where lists and clicks are logged, or None; closed with the service
    source : where the index came from; it is looked at, and what is new there is served without a restart
    look_seconds : between these looks; 0 looks only when `look_soon` asks for it
    interleaver : has lists shared with another model, or None; closed with the service
    """

    def __init__(
        self,
        index: BaseIndex,
        journal: str | PathLike[str],
        limits: Limits | None = None,
        bounds: LearningBounds | None = None,
        name: str = "",
        impressions: ImpressionLog | None = None,
        source: IndexSource | None = None,
        look_seconds: float = 2.0,
        interleaver: Interleaver | None = None,
    ) -> None:
        self.limits, self.name = limits or Limits(), name
        self.impressions, self.interleaver = impressions, interleaver
        self.refused: str | None = None
        self._bounds, self._source, self._look_seconds = bounds, source, look_seconds
        self._seen = None if source is None else source.opened_at
        if interleaver is not None and interleaver.promotes:
            if not isinstance(index, Index):
                raise InputError("another engine keeps the documents, and has no promotions; leave out promotes")
            if source is not None and not source.own_model:
                raise InputError("a model of its own is served in the place of the index's, so none can be promoted")
        self.journal = Journal(journal, self.limits.journal_bytes)
        self._withdrawn: set[int] = set()
        self._renewed: set[str] = set()  # promotions and bakes that made allowances whole
        self._collection: tuple[Generation, dict[str, Any]] | None = None
        for entry in self.journal.entries[self.journal.n_archived :]:
            self._note(entry)
        self.metrics = Metrics()
        with ExitStack() as begun:
            begun.callback(self.journal.close)
            self.serving = Generation.of(index, self.journal.entries, bounds)
            begun.callback(lambda: self.learner.close())
            if interleaver is not None:
                candidate = interleaver.read_candidate()
                interleaver.take(interleaver.rival_of(self.serving, self.journal.entries, bounds, candidate))
            begun.pop_all()  # all went well: from here on `close` ends them
        self.reads = Queue("reader", self.limits.workers, self.limits.waiting)
        self.writes = Queue("writer", 1, self.limits.waiting)
        self.changes = Queue("documents", 1, _CHANGES_WAITING)
        per_minute, burst = self.limits.writes_per_minute, self.limits.write_burst
        self._by_client, self._by_address = Buckets(per_minute, burst), Buckets(10 * per_minute, 10 * burst)
        self._n_told = len(self.journal)
        self._telling = threading.Lock()  # held while an entry is told to the learner, and while that is replaced
        self._renewing = threading.Lock()  # held by a thread that makes the next generation
        self.when_asked: Callable[[], None] | None = None  # called by the watcher where `look_soon` asked for a look
        self._look, self._closing, self._promote_at = threading.Event(), False, 0.0
        self._watcher = threading.Thread(target=self._watch, name="tercet-watcher", daemon=True)
        self._watcher.start()
        self._clicks_by_client = Buckets(per_minute, burst)
        self._clicks_by_address = Buckets(10 * per_minute, 10 * burst)
        self._settle()  # also what was promoted or baked while nothing was served

    def close(self) -> None:
        self._closing = True
        self._look.set()
        self._watcher.join()
        self.reads.close()
        self.writes.close()
        self.changes.close()
        self.learner.close()
        if self.interleaver is not None:
            self.interleaver.close()
        self.journal.close()
        if self.impressions is not None:
            self.impressions.close()

    @property
    def index(self) -> BaseIndex:
        return self.serving.index

    @property
    def baseline(self) -> Baseline:
        return self.serving.baseline

    @property
    def learner(self) -> Learner:
        return self.serving.learner

    @property
    def version(self) -> Version:
        return self.serving.version

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests: not while it ends, nor while as many wait as may."""
        return not self._closing and not self.reads.is_full

    def change(self, limits: Limits, look_seconds: float, keep_days: int) -> None:
        """Go on by other limits, but for workers and the size of the journal, which stay, and by other times."""
        kept = {"workers": self.limits.workers, "journal_bytes": self.limits.journal_bytes}
        self.limits, self._look_seconds = replace(limits, **kept), look_seconds
        for queue in (self.reads, self.writes):
            queue.allow(limits.waiting)
        for times, kinds in (
            (1, (self._by_client, self._clicks_by_client)),
            (10, (self._by_address, self._clicks_by_address)),
        ):
            for buckets in kinds:
                buckets.change(times * limits.writes_per_minute, times * limits.write_burst)
        if self.impressions is not None:
            self.impressions.keep_days = keep_days

    # -- from one generation to the next ------------------------------------------------------------------------

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
                self._settle()
            except _CANNOT_SERVE as error:
                self.refused = f"{type(error).__name__}; the service's log says more"  # anybody may ask for this
                _log.warning("what is new at %s is refused, and the old goes on: %s", self._source.folder, error)
                return False
        _log.warning("now serving index %s, model %s", self.serving.index_label, self.serving.model_label)
        return True

    def _serve(self, index: BaseIndex) -> None:
        """Make the next generation and have readers move to it; the one before is ended when it is."""
        with self._telling:
            entries = self.journal.entries[: self._n_told]
        before = self.serving
        made = Generation.of(index, entries, self._bounds, before)
        try:
            made.catch_up(self.journal.entries[len(entries) : self._n_told])
            with self._telling:
                self._catch_up(made)
                self.serving, self.refused = made, None  # the swap: one reference
        except BaseException:
            made.learner.close()
            raise
        before.learner.close()
        self._share(None)

    def _catch_up(self, generation: Generation) -> None:
        """Have a generation learn what was told since it was made; held by `_telling`, so that nothing more comes."""
        generation.catch_up(self.journal.entries[generation.version.number : self._n_told])

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
            return self._share(model)

    def _share(self, model: TextModel | None) -> bool:
        """Share lists of what is served now with a model, or with the one of before; whether others are compared now.

        One that does not fit is refused, and the rival of before goes on where it can.
        """
        if self.interleaver is None:
            return False
        contest = self.interleaver.contest
        with self._telling:
            entries = self.journal.entries[: self._n_told]
        try:
            rival = self.interleaver.rival_of(self.serving, entries, self._bounds, model)
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

    def _watch(self) -> None:
        tidied = time.monotonic()
        while not self._closing:
            looks = self._look_seconds if self._source is not None else 0
            self._look.wait(looks or (_TIDY_SECONDS if self.interleaver is None else _COUNT_SECONDS))
            asked = self._look.is_set()
            self._look.clear()
            if self._closing:
                return
            if asked and self.when_asked is not None:
                try:
                    self.when_asked()
                except Exception:
                    _log.exception("what was asked for failed, and everything goes on as before")
            if self.impressions is not None and (asked or time.monotonic() - tidied > _TIDY_SECONDS):
                self.impressions.tidy()
                tidied = time.monotonic()
            try:
                if asked or self._look_seconds:
                    self.look(anew=asked)
                    self.look_at_candidate(anew=asked)
                self.judge()
            except Exception:
                # A defect, or an index that breaks what reads it. The old one goes on.
                _log.exception("the source could not be looked at")
                self.refused = "a defect; the service's log says more"

    # -- reading ------------------------------------------------------------------------------------------------

    async def read(self, deadline: Deadline, job: Callable[[Version, Generation], T], always: bool = False) -> T:
        """Do a job on the generation, and the version of it, that is current when a thread takes it up."""

        def run() -> T:
            if deadline.passed and not always:
                raise HttpProblem(503, "the deadline passed before a worker was free; try again soon", "deadline", 1.0)
            generation = self.serving
            return job(generation.version, generation)

        return await self.reads.run(run)

    async def search(
        self,
        query: str,
        k: int,
        deadline: Deadline,
        everything: bool = False,
        client: str = "local",
        filters: Sequence[str] = (),
        is_vouched: bool = False,
    ) -> dict[str, Any]:
        """Both lists for a query; ``is_vouched`` where somebody we trust says that this is the client's name."""
        self.check_query(query)
        address = None if is_vouched else client.partition("/")[0]

        def find(version: Version, generation: Generation) -> dict[str, Any]:
            where = where_of(filters, generation.index.has_column)
            shared = self.interleaver
            draft = None if shared is None else shared.draft(generation, client, query, address)
            mixed = None if draft is None else draft.mixed
            answer = answers.search(version, generation.baseline, query, k, deadline, everything, where, mixed)
            answer["index"] = generation.index_label
            assignment = None if draft is None else draft.assignment
            return answer | {"query_id": self._log_list(client, answer, assignment)}

        return await self.read(deadline, find, always=True)

    def _log_list(self, client: str, answer: dict[str, Any], assignment: Assignment | None) -> str | None:
        """Log what is shown; None where nothing is logged, or nothing was found."""
        if self.impressions is None or not answer["learned"]:
            return None
        attributes = {name: answer[name] for name in ("version", "index", "k", "partial")}
        if answer["where"]:
            attributes["where"] = answer["where"]
        if assignment is not None:
            attributes[ATTRIBUTE] = assignment.to_meta()
        return self.impressions.search(client, answer["query"], [hit["id"] for hit in answer["learned"]], attributes)

    async def click(self, client: str, query_id: str, doc_id: str) -> dict[str, Any]:
        """Log a click on a list that was shown."""
        log = self.impressions
        if log is None:
            raise HttpProblem(409, "this service logs no impressions, so clicks have no place", "not-logged")
        self._admit(client, self._clicks_by_client, self._clicks_by_address, "clicks")
        try:
            rank = await self.writes.run(lambda: log.click(client, query_id, doc_id))
        except KeyError as error:
            raise HttpProblem(404, f"no list {query_id!r} was shown, or long ago", "unknown-list") from error
        except ValueError as error:
            detail = f"document {doc_id[:80]!r} was not in the list {query_id!r}"
            raise HttpProblem(422, detail, "not-shown") from error
        except JournalError as error:
            raise HttpProblem(507, str(error), "impressions") from error
        return {"query_id": query_id, "doc": doc_id, "rank": rank}

    async def collection(self, deadline: Deadline) -> dict[str, Any]:
        if self._collection is None or self._collection[0] is not self.serving:
            self._collection = await self.read(
                deadline, lambda _, now: (now, collection(now.index, self.name, now.baseline.name))
            )
        return self._collection[1]

    def check_query(self, query: str) -> None:
        n_terms = len(answers.words_of(self.version, query))
        if n_terms > QUERY_TERMS:
            raise limit_problem("query", n_terms, QUERY_TERMS, "words")

    def check_documents(self, doc_ids: Sequence[str], generation: Generation | None = None) -> None:
        index = (generation or self.serving).index
        for doc_id in doc_ids:
            if doc_id not in index:
                raise HttpProblem(404, f"there is no document {doc_id[:80]!r} in the index", "unknown-document")

    def history(self, limit: int, *, active_only: bool = False) -> list[dict[str, Any]]:
        """Entries of the journal, latest first."""
        history: list[dict[str, Any]] = []
        entries = self.journal.entries  # which grows meanwhile, at its end
        for i in range(len(entries) - 1, self.journal.n_archived - 1, -1):
            entry = entries[i]
            active = entry.number not in self._withdrawn
            if active_only and not self._can_go(entry):
                continue
            history.append(_history_entry(entry, active))
            if len(history) == limit:
                break
        return history

    def gauges(self) -> dict[str, tuple[str, float]]:
        version = self.version  # before the journal is looked at, which is never behind it
        log = self.impressions
        logged = (
            {}
            if log is None
            else {
                "tercet_impressions_logged": ("Lists in the impressions log since the start.", log.n_searches),
                "tercet_clicks_logged": ("Clicks in the impressions log since the start.", log.n_clicks),
                "tercet_impressions_lost": ("Lists and clicks that could not be logged.", log.n_lost),
            }
        )
        shared = {} if self.interleaver is None else self.interleaver.gauges()
        return (
            logged
            | shared
            | {
                "tercet_queue_length": ("Requests that wait for a worker.", self.reads.length + self.writes.length),
                "tercet_version": ("Number of the version that is served.", version.number),
                "tercet_learner_up": ("1, or 0 when it stopped.", float(self.learner.failure is None)),
                "tercet_learner_backlog": (
                    "Entries that the learner has not applied.",
                    len(self.journal) - version.number,
                ),
                "tercet_journal_entries": ("Entries of the journal.", len(self.journal)),
                "tercet_journal_bytes": ("Size of the journal.", self.journal.n_bytes),
                "tercet_overlay_pairs": ("Pairs of words learned online.", version.overlay.nnz),
                "tercet_documents": ("Documents of the index.", len(self.index)),
                "tercet_refused": (
                    "1 where what is new on disk is not served, else 0.",
                    float(self.refused is not None),
                ),
                "process_resident_memory_bytes": ("Memory in RAM.", resident_bytes()),
            }
        )

    # -- changing -----------------------------------------------------------------------------------------------

    def admit(self, client: str) -> None:
        """Take a token for a change from a client and from its address."""
        self._admit(client, self._by_client, self._by_address, "changes")

    def _admit(self, client: str, by_client: Buckets, by_address: Buckets, what: str) -> None:
        address = client.partition("/")[0]
        for buckets, name, who in ((by_client, client, "client"), (by_address, address, "address")):
            wait = buckets.take(name)
            if wait:
                raise HttpProblem(429, f"too many {what} by this {who}; try again later", "rate", wait)

    async def add_documents(self, docs: Sequence[tuple[str, str, dict[str, Any]]], replacing: bool) -> dict[str, Any]:
        """Add documents, all or none, to the index and to what is served; in the place of others, or beside them."""

        def add(index: Index) -> None:
            there = next((doc_id for doc_id, _, _ in docs if doc_id in index), None)
            if replacing:
                index.replace(docs)
            elif there is not None:
                detail = f"document {there[:80]!r} is in the index already; replace takes its place"
                raise HttpProblem(409, detail, "document-there")
            else:
                index.add(docs)

        return await self.changes.run(lambda: self._change(add, len(docs)))

    async def remove_document(self, doc_id: str) -> dict[str, Any]:
        def remove(index: Index) -> None:
            if doc_id not in index:
                raise HttpProblem(404, f"there is no document {doc_id[:80]!r} in the index", "unknown-document")
            index.remove([doc_id])

        return await self.changes.run(lambda: self._change(remove, 1))

    def _change(self, change: Callable[[Index], None], n_changed: int) -> dict[str, Any]:
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

    def promote(self, model: TextModel, evidence: Evidence) -> Promotion:
        """Make a model the index's own by a rule, serve it, and make every allowance whole again; call it in a thread.

        Raises `InputError` where another one is the index's own by now than the one that is served, or where a model
        of its own is served.
        """
        with self._renewing:
            if self._source is not None and not self._source.own_model:
                raise InputError("a model of its own is served in the place of the index's, so none can be promoted")
            served = text_model(self.index)
            index = self.index.latest(own_model=False) if isinstance(self.index, Index) else self.index
            entry = index.promote(model, "rule", evidence, over=model_name(served))
            self._serve(index)
            self._settle()
            return entry

    async def prefer(
        self, client: str, query: str, better: str, worse: str, trust: Trust = "visitor"
    ) -> dict[str, Any]:
        if better == worse:
            detail = f"better and worse are the same document {better[:80]!r}; they must differ"
            raise HttpProblem(422, detail, "invalid")
        await self.writes.run(lambda: self._check_learnable(query, (better, worse)))  # it may ask another engine
        return await self._teach(
            lambda number: Preferred(number, timestamp(), client, query, better, worse, trust), query, [better], worse
        )

    async def clicks(
        self, client: str, query: str, shown: Sequence[str], clicked: Sequence[str], trust: Trust = "visitor"
    ) -> dict[str, Any]:
        problem = impression_problem(Impression(query, tuple(shown), tuple(clicked)))
        if problem is not None:
            raise HttpProblem(422, problem, "invalid")
        await self.writes.run(lambda: self._check_learnable(query, shown))
        lists = (tuple(shown), tuple(clicked))
        return await self._teach(
            lambda number: Clicked(number, timestamp(), client, query, *lists, trust), query, clicked
        )

    async def _teach(
        self, make: Callable[[int], Entry], query: str, better: Sequence[str], worse: str | None = None
    ) -> dict[str, Any]:
        """Have a vote learned, and say what it changed where that can be seen in time."""
        before = self.version
        told, after = await self._append(make)
        effect = None
        if after is not None:
            outcomes = after.outcomes[told["entry"]]
            with suppress(HttpProblem, EngineError):  # too busy to look, or the engine is away: the vote is kept
                effect = await self.writes.run(lambda: answers.effect(before, after, query, better, worse, outcomes))
        return told | {"effect": effect}

    async def renew(self, reason: Literal["bake", "promote"]) -> dict[str, Any]:
        """Make every allowance whole again, since what was taught has become part of a model."""
        return (await self._append(partial(_renewal, reason=reason)))[0]

    def _settle(self) -> None:
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
                if not self._has_renewed(name):
                    self._journal(partial(_renewal, reason=reason, of=name))
            self.journal.compact(n_baked)
        except (JournalError, FormatError) as error:
            _log.warning("allowances and the journal stay as they are until the next start: %s", error)

    def _has_renewed(self, name: str) -> bool:
        if name not in self._renewed and self.journal.n_archived:
            archived = self.journal.entries[: self.journal.n_archived]
            self._renewed.update(entry.of for entry in archived if isinstance(entry, Renewed))
        return name in self._renewed

    def _check_learnable(self, query: str, doc_ids: Sequence[str]) -> None:
        self.check_query(query)
        self.check_documents(doc_ids)
        if not self.learner.query_row(query).nnz:
            detail = "the model knows no word of the query, so there is nothing to learn"
            raise HttpProblem(422, detail, "unknown-words")

    async def undo(self, client: str, numbers: Sequence[int] | None) -> dict[str, Any]:
        return await self._withdraw(client, "undo", lambda: self._own(client, numbers))

    def _own(self, client: str, numbers: Sequence[int] | None) -> list[int]:
        n_baked = self.version.n_baked
        mine = [e.number for e in self.journal.entries[n_baked:] if e.client == client and self._can_go(e)]
        if numbers is None:
            if not mine:
                detail = "there is no entry of this client to take back"
                detail += f" after entry {n_baked}; {_BAKED}" if n_baked else ""
                raise HttpProblem(409, detail, "nothing-to-undo")
            return mine[-1:]
        for number in numbers:
            self._known(number)
            if number not in mine:
                raise HttpProblem(409, f"entry {number} is not an active one of this client", "not-yours")
        return sorted(set(numbers))

    async def revoke(self, client: str, numbers: Sequence[int] | None, whose: str | None) -> dict[str, Any]:
        if (numbers is None) == (whose is None):
            raise HttpProblem(422, "name either entries or a client", "invalid")

        def targets() -> list[int]:
            if numbers is None:
                taught = self.journal.entries[self.version.n_baked :]
                return [e.number for e in taught if e.client == whose and self._can_go(e)]
            return [number for number in sorted(set(numbers)) if self._can_go(self._known(number))]

        return await self._withdraw(client, "revoke", targets)

    def _known(self, number: int) -> Entry:
        if not 1 <= number <= len(self.journal):
            raise HttpProblem(404, f"there is no entry {number}; the last one is {len(self.journal)}", "unknown-entry")
        if number <= self.version.n_baked:
            raise HttpProblem(409, f"entry {number} cannot be taken back; {_BAKED}", "baked")
        return self.journal.entries[number - 1]

    def _can_go(self, entry: Entry) -> bool:
        is_gone = entry.number in self._withdrawn or entry.number in self.version.inactive
        return isinstance(entry, (Preferred, Clicked)) and entry.number > self.version.n_baked and not is_gone

    async def _withdraw(self, client: str, reason: str, targets: Callable[[], list[int]]) -> dict[str, Any]:
        gone: list[int] = []

        def make(number: int) -> Withdrawn:
            gone.extend(targets())  # looked up while nobody else can write
            if not gone:
                raise HttpProblem(409, "none of these entries is active", "nothing-to-undo")
            return Withdrawn(number, timestamp(), client, reason, tuple(gone))

        return (await self._append(make))[0] | {"withdrawn": gone}

    async def _append(self, make: Callable[[int], Entry]) -> tuple[dict[str, Any], Version | None]:
        """Journal an entry, have it learned, and say so when it is on disk; with the first version that has it."""
        if self.learner.failure is not None:
            raise HttpProblem(503, "nothing is learned until a restart; reading goes on", "learner-stopped", 60.0)

        def write() -> tuple[Entry, Future[Version]]:
            try:
                return self._journal(make)
            except JournalError as error:
                raise HttpProblem(507, str(error), "journal") from error

        entry, applied = await self.writes.run(write)
        await asyncio.wait([asyncio.wrap_future(applied)], timeout=_APPLY_WAIT_SECONDS)
        version = self.version
        told = {"entry": entry.number, "version": version.name, "applied": version.number >= entry.number}
        return told, applied.result() if applied.done() and not applied.cancelled() else None

    def _journal(self, make: Callable[[int], Entry]) -> tuple[Entry, Future[Version]]:
        """Write an entry to the journal and tell the learner; the future gives the first version that has it."""
        applied: list[Future[Version]] = []

        def then(entry: Entry) -> None:
            self._note(entry)
            with self._telling:
                self._n_told = entry.number
                applied.append(self.learner.tell(entry))
                if self.interleaver is not None:
                    self.interleaver.tell(entry)

        return self.journal.append(make, then), applied[0]

    def _note(self, entry: Entry) -> None:
        if isinstance(entry, Withdrawn):
            self._withdrawn.update(entry.entries)
        elif isinstance(entry, Renewed):
            self._renewed.add(entry.of)


def _renewal(number: int, reason: Literal["bake", "promote"], of: str = "") -> Renewed:
    return Renewed(number, timestamp(), "local", reason, of)


def _history_entry(entry: Entry, active: bool) -> dict[str, Any]:
    members = dict.fromkeys(("query", "better", "worse", "shown", "clicked", "trust", "reason", "of", "entries"))
    meta = entry.to_meta()
    number = meta.pop("number")
    return {"version": f"v{number}", "entry": number, "active": active} | members | meta
