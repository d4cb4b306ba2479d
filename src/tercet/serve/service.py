"""The service without HTTP: an index, a store of what was taught, and threads for those who ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final, TypeVar
from weakref import ref

from tercet.data.taught import Action, Pair
from tercet.errors import StoreError
from tercet.measure.duels import ATTRIBUTE
from tercet.search import BaseIndex, Index
from tercet.search.filtering import where_of
from tercet.serve import answers
from tercet.serve.collection import collection
from tercet.serve.impressions import ImpressionLog
from tercet.serve.interleaving import Interleaver, RejectedCandidate
from tercet.serve.metrics import Metrics
from tercet.serve.problems import HttpProblem, limit_problem
from tercet.serve.reloading import Reloader
from tercet.serve.requests import SearchQuery
from tercet.serve.served import Served
from tercet.serve.taught import NotActiveError, TaughtStore
from tercet.serve.teacher import MOST_PAIRS, Published, Teacher
from tercet.serve.watched import Watched

T = TypeVar("T")

QUERY_TERMS: Final = 64  # tokens of a query
_QUICK_SECONDS: Final = 0.002  # processor time of a search, below which the event loop itself searches
_QUICK_RESULTS: Final = 20
_SEARCHES_AVERAGED: Final = 16
_PUBLISHED_SECONDS: Final = 2.0  # how long an answer waits for the version that has its action


@dataclass(frozen=True)
class Limits:
    """Work that the service takes on.

    Attributes
    ----------
    workers : searches at a time
    waiting : requests that may wait for a worker; one more is answered by 503
    strangers_per_minute : requests of one address without a token; a sixth of that at once
    """

    workers: int = 2
    waiting: int = 256
    strangers_per_minute: float = 600.0


class Threads:
    """Threads, and a bound on jobs that wait for one."""

    def __init__(self, name: str, workers: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"tercet-{name}")
        self._most, self.n_jobs = workers + waiting, 0

    @property
    def is_full(self) -> bool:
        return self.n_jobs >= self._most

    async def run(self, job: Callable[[], T]) -> T:
        """Have a job done by a thread; raise a 503 problem where too many wait. Call this from one event loop only."""
        if self.is_full:
            raise HttpProblem(503, f"{self._most} requests are being worked on or wait; try again soon", "busy", 1.0)
        self.n_jobs += 1
        done = asyncio.get_running_loop().run_in_executor(self._pool, job)
        done.add_done_callback(self._end)
        return await done

    def _end(self, _: object) -> None:
        self.n_jobs -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class Service:
    """Everything that requests share.

    Parameters
    ----------
    index : documents and a text model
    taught : path of the store of what was taught
    limits : work that the service takes on
    name : of the collection, on the page
    shown_fields : stored fields in lists; None for those that hold a price
    impressions : where lists and clicks are logged, or None; closed with the service
    source : where the index came from; it is looked at, and what is new there is served without a restart
    look_seconds : between these looks; 0 looks only when `look_soon` asks for it
    interleaver : has lists shared with another model, or None; closed with the service
    """

    def __init__(
        self,
        index: BaseIndex,
        taught: str | PathLike[str],
        limits: Limits | None = None,
        name: str = "",
        shown_fields: Sequence[str] | None = None,
        impressions: ImpressionLog | None = None,
        source: Watched[BaseIndex] | None = None,
        look_seconds: float = 2.0,
        interleaver: Interleaver | None = None,
    ) -> None:
        self.limits, self.name, self.impressions, self.interleaver = limits or Limits(), name, impressions, interleaver
        self._shown_fields, self._search_seconds = shown_fields, _QUICK_SECONDS
        self._collection: tuple[ref[BaseIndex], dict[str, Any]] | None = None
        self.metrics, self.is_closing = Metrics(), False
        self.store = TaughtStore(taught)
        try:
            served = Served.of(index)
            self.teacher = Teacher(self.store, served, self._first_rival(served))
            self.reloader = Reloader(self.teacher, source, look_seconds, impressions, interleaver)
        except BaseException:
            if hasattr(self, "teacher"):
                self.teacher.close()
            self.store.close()
            raise
        self.reads = Threads("reader", self.limits.workers, self.limits.waiting)
        self.writes = Threads("writer", 1, self.limits.waiting)

    def _first_rival(self, served: Served) -> Served | None:
        if self.interleaver is None:
            return None
        try:
            return self.interleaver.rival_of(served, self.interleaver.read_candidate())
        except RejectedCandidate as error:  # the next one may be better: a restart must not fail for it
            self.interleaver.refuse(error)
            return None

    def close(self) -> None:
        self.is_closing = True
        self.reloader.close()
        self.reads.close()
        self.writes.close()
        self.teacher.close()
        self.store.close()
        for log in (self.interleaver, self.impressions):
            if log is not None:
                log.close()

    @property
    def now(self) -> Published:
        return self.teacher.now

    @property
    def served(self) -> Served:
        return self.teacher.now.served

    @property
    def is_ready(self) -> bool:
        """True while requests are taken: before the end, and while another one may wait."""
        return not self.is_closing and not self.reads.is_full

    # -- reading ------------------------------------------------------------------------------------------------

    async def read(self, job: Callable[[Served], T]) -> T:
        """Run a job in a thread, on the version served when the job starts."""
        return await self.reads.run(lambda: job(self.served))

    async def search(self, asked: SearchQuery, client: str, address: str | None = None) -> dict[str, Any]:
        """Answer a search. ``address`` is the address of a client without a token, whose name anybody may claim."""
        check_query(self.served, asked.q)

        def find() -> dict[str, Any]:
            began, started, now = time.thread_time(), time.perf_counter(), self.now
            where = where_of(asked.filter, now.served.index.has_column)
            shared = self.interleaver
            draft = None if shared is None else shared.draft(now, client, asked.q, address)
            answer = answers.search(
                now.served,
                asked.q,
                asked.k,
                everything=asked.all,
                compare=asked.compare,
                where=where,
                mixed=None if draft is None else draft.mixed,
                shown_fields=self._shown_fields,
            )
            answer["query_id"], answer["took_ms"] = None, round(1000 * (time.perf_counter() - started), 3)
            if asked.log and self.impressions is not None and answer["learned"]:
                attributes = {name: answer[name] for name in ("version", "index", "k")}
                if answer["where"]:
                    attributes["where"] = answer["where"]
                if draft is not None and draft.assignment is not None:
                    attributes[ATTRIBUTE] = draft.assignment.to_meta()
                ids = [hit["id"] for hit in answer["learned"]]
                answer["query_id"] = self.impressions.search(client, asked.q, ids, attributes)
            self._search_seconds += (time.thread_time() - began - self._search_seconds) / _SEARCHES_AVERAGED
            return answer

        if not self._is_quick(asked):
            return await self.reads.run(find)
        return find()

    def _is_quick(self, asked: SearchQuery) -> bool:
        """Return True for a search that takes less than it costs to hand the search to a thread and back."""
        is_plain = not (asked.compare or asked.filter) and asked.k <= _QUICK_RESULTS
        return is_plain and self._search_seconds < _QUICK_SECONDS and isinstance(self.served.base, Index)

    async def click(self, client: str, query_id: str, doc_id: str) -> dict[str, Any]:
        """Log a click on a list that was shown."""
        log = self.impressions
        if log is None:
            raise HttpProblem(409, "this service logs no impressions, so clicks have no place", "not-logged")
        try:
            rank = await self.writes.run(lambda: log.click(client, query_id, doc_id))
        except KeyError as error:
            raise HttpProblem(404, f"no list {query_id!r} was shown, or long ago", "unknown-list") from error
        except ValueError as error:
            detail = f"document {doc_id[:80]!r} was not in the list {query_id!r}"
            raise HttpProblem(422, detail, "not-shown") from error
        except StoreError as error:
            raise HttpProblem(507, str(error), "impressions") from error
        return {"query_id": query_id, "doc": doc_id, "rank": rank}

    async def collection(self) -> dict[str, Any]:
        """Return name and size of the collection, and queries to begin with."""

        def told(served: Served) -> dict[str, Any]:
            about = self._collection
            if about is None or about[0]() is not served.base:
                about = ref(served.base), collection(served.base, self.name, served.baseline.name)
                self._collection = about
            return about[1]

        return await self.read(told)

    def gauges(self) -> dict[str, tuple[str, float]]:
        """Return the state of the service for Prometheus."""
        now, log = self.now, self.impressions
        served = now.served
        gauges: dict[str, tuple[str, float]] = {}
        if log is not None:
            gauges = {
                "tercet_impressions_logged": ("Lists in the impressions log since the start.", log.n_searches),
                "tercet_clicks_logged": ("Clicks in the impressions log since the start.", log.n_clicks),
                "tercet_impressions_lost": ("Lists and clicks that could not be logged.", log.n_lost),
            }
        return gauges | {
            "tercet_queue_length": ("Requests in work or waiting.", self.reads.n_jobs + self.writes.n_jobs),
            "tercet_version": ("Number of the version that is served.", served.revision),
            "tercet_revision": ("Number of the last change of what was taught.", self.store.revision),
            "tercet_learner_backlog": ("Changes that the version lacks.", self.store.revision - served.revision),
            "tercet_actions": ("Actions that were taught.", self.store.n_actions),
            "tercet_learner_up": ("1, or 0 where what is taught is not learned.", float(self.teacher.failure is None)),
            "tercet_overlay_pairs": ("Pairs of words that were taught.", served.n_pairs),
            "tercet_documents": ("Documents of the index.", len(served.index)),
            "tercet_refused": ("1 where what is new on disk is not served.", float(self.reloader.refused is not None)),
        }

    # -- teaching -----------------------------------------------------------------------------------------------

    async def teach(self, token: str, kind: str, query: str, pairs: Sequence[Pair]) -> dict[str, Any]:
        """Keep an action, and answer when a version has it, or soon after."""
        before = self.served
        check_query(before, query)

        def write() -> tuple[Action, Future[Published]]:
            _check_teachable(self.served, query, pairs)
            action = self.store.add(token, kind, query, pairs)
            return action, self.teacher.learn(action.revision)

        action, learned = await self._written(write)
        after = await _soon(learned)
        change = None
        if after is not None:
            with suppress(HttpProblem):  # too busy to look: the action is kept
                change = await self.writes.run(lambda: answers.effect(before, after.served, query, pairs))
        return {"action": action.number, "effect": change} | self._told(action.revision)

    async def undo(self, token: str, numbers: Sequence[int] | None) -> dict[str, Any]:
        """Undo actions, and answer when a version is without them, or soon after."""

        def write() -> tuple[list[Action], Future[Published]]:
            wanted = numbers
            in_model = self._in_model()
            for number in wanted or ():
                if number <= in_model:
                    detail = f"action {number} is part of the model; fit the model again without it"
                    raise HttpProblem(409, detail, "in-model")
            try:
                undone = self.store.undo(token, wanted, after=in_model)
            except NotActiveError as error:
                detail = f"action {error.number} is not an active one" if error.number else "there is nothing to undo"
                raise HttpProblem(409, detail, "nothing-to-undo") from error
            return undone, self.teacher.learn(undone[-1].revision)

        undone, learned = await self._written(write)
        await _soon(learned)
        return {"undone": [action.number for action in undone]} | self._told(undone[-1].revision)

    async def _written(self, write: Callable[[], T]) -> T:
        try:
            return await self.writes.run(write)
        except StoreError as error:
            raise HttpProblem(507, str(error), "store") from error

    def _told(self, revision: int) -> dict[str, Any]:
        served = self.served
        return {"revision": revision, "version": served.version, "served": served.revision >= revision}

    def _in_model(self) -> int:
        """Return the number of the last action that is part of the model."""
        taught = self.served.model.taught
        return max((rows.number for rows in taught if rows.store == self.store.id), default=0)

    def history(self, limit: int) -> dict[str, Any]:
        """Return the latest actions, latest first."""
        in_model = self._in_model()
        names = ("time", "token", "kind", "query", "pairs", "undone", "undone_by")
        listed = [
            {"action": action.number, "in_model": action.number <= in_model}
            | {name: getattr(action, name) for name in names}
            for action in reversed(self.store.latest(limit).actions)
        ]
        return {"version": self.served.version, "total": self.store.n_actions, "actions": listed}

    # -- documents ----------------------------------------------------------------------------------------------

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

        return await self.writes.run(lambda: self.reloader.change_documents(add, len(docs)))

    async def remove_document(self, doc_id: str) -> dict[str, Any]:
        def remove(index: Index) -> None:
            check_documents(index, [doc_id])
            index.remove([doc_id])

        return await self.writes.run(lambda: self.reloader.change_documents(remove, 1))


async def _soon(learned: Future[Published]) -> Published | None:
    """Return the version that has an action, or None where that takes longer."""
    [*done], _ = await asyncio.wait([asyncio.wrap_future(learned)], timeout=_PUBLISHED_SECONDS)
    failed = not done or done[0].cancelled() or done[0].exception() is not None
    return None if failed else done[0].result()


def check_query(served: Served, query: str) -> None:
    """Raise a problem for a query of too many words."""
    n_terms = 0 if len(query) <= QUERY_TERMS else len(answers.words_of(served, query))
    if n_terms > QUERY_TERMS:
        raise limit_problem("query", n_terms, QUERY_TERMS, "words")


def check_documents(index: BaseIndex, doc_ids: Sequence[str]) -> None:
    """Raise a problem for a document that the index lacks."""
    lacking = next((doc_id for doc_id in doc_ids if doc_id not in index), None)
    if lacking is not None:
        raise HttpProblem(404, f"there is no document {lacking[:80]!r} in the index", "unknown-document")


def _check_teachable(served: Served, query: str, pairs: Sequence[Pair]) -> None:
    for better, worse in pairs:
        if better == worse:
            detail = f"better and worse are the same document {better[:80]!r}; they must differ"
            raise HttpProblem(422, detail, "invalid")
        check_documents(served.index, (better, worse))
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise HttpProblem(422, "the query has half a surrogate pair", "invalid") from error
    if not served.model.queries([query]).nnz:
        raise HttpProblem(422, "the model knows no word of the query, so there is nothing to learn", "unknown-words")
    if served.n_pairs >= MOST_PAIRS:
        detail = f"{served.n_pairs:,} pairs of words are taught, and {MOST_PAIRS:,} are the most; fit a model from them"
        raise HttpProblem(507, detail, "limit", name="pairs", limit=MOST_PAIRS, value=served.n_pairs)
