"""Service without HTTP: an index, a store of taught actions, and threads for requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final, TypeVar

from tercet.data.taught import Action, Pair
from tercet.errors import StoreError
from tercet.measure.duels import ATTRIBUTE
from tercet.search import BaseIndex, Index
from tercet.search.filtering import where_of
from tercet.serve import answers
from tercet.serve.impressions import ImpressionLog
from tercet.serve.interleaving import Interleaver, RejectedCandidate
from tercet.serve.metrics import Metrics
from tercet.serve.problems import HttpProblem, limit_problem
from tercet.serve.reloading import Reloader
from tercet.serve.requests import SearchQuery
from tercet.serve.served import Served, query_rows
from tercet.serve.taught import NotActiveError, TaughtStore
from tercet.serve.teacher import MOST_PAIRS, Published, Teacher
from tercet.serve.watched import Watched

T = TypeVar("T")

QUERY_TERMS: Final = 64  # tokens of a query
_QUICK_SECONDS: Final = 0.002  # processor time of a search, below which the event loop searches itself
_QUICK_RESULTS: Final = 20
_SEARCHES_AVERAGED: Final = 16
_PUBLISHED_SECONDS: Final = 2.0  # time to wait for the version with an action


@dataclass(frozen=True)
class Limits:
    """Limits of load.

    Attributes
    ----------
    workers : threads for searches
    waiting : requests that may wait for a thread; more are answered by 503
    strangers_per_minute : requests of an address without a token; a sixth of them at once
    """

    workers: int = 2
    waiting: int = 256
    strangers_per_minute: float = 600.0


class Threads:
    """Thread pool with a bounded queue."""

    def __init__(self, name: str, workers: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"tercet-{name}")
        self._most, self.n_jobs = workers + waiting, 0

    @property
    def is_full(self) -> bool:
        return self.n_jobs >= self._most

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job in a thread; raise a 503 problem if the queue is full. For one event loop only."""
        if self.is_full:
            raise HttpProblem(503, f"{self._most} requests are running or waiting; try again soon", "busy", 1.0)
        self.n_jobs += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, job)
        future.add_done_callback(self._end)
        return await future

    def _end(self, _: object) -> None:
        self.n_jobs -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class Service:
    """Shared state of all requests.

    Parameters
    ----------
    index : documents and a text model
    taught : path of the store of taught actions
    limits : limits of load
    name : name of the collection, for the page
    shown_fields : stored fields in lists; None shows prices
    impressions : log of lists and clicks, or None; closed with the service
    source : folder of the index for live reload, or None
    look_seconds : between looks at the folder; 0 looks only after `Reloader.look_soon`
    interleaver : comparison with a candidate, or None; closed with the service
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
        self.metrics, self.is_closing = Metrics(), False
        self.store = TaughtStore(taught)
        try:
            served = Served.from_index(index)
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
        except RejectedCandidate as error:  # a restart must not fail for a rejected candidate
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
        """True before shutdown, while the queue has room."""
        return not self.is_closing and not self.reads.is_full

    # -- reading ------------------------------------------------------------------------------------------------

    async def read(self, job: Callable[[Served], T]) -> T:
        """Run a job in a thread, on the version served when the job starts."""
        return await self.reads.run(lambda: job(self.served))

    async def search(self, asked: SearchQuery, client: str) -> dict[str, Any]:
        """Answer a search."""
        check_query(self.served, asked.q)

        def find() -> dict[str, Any]:
            began, started, now = time.thread_time(), time.perf_counter(), self.now
            where = where_of(asked.filter, now.served.index.has_column)
            shared = self.interleaver
            draft = None if shared is None else shared.draft(now, client, asked.q)
            answer = answers.search(
                now.served,
                asked.q,
                asked.k,
                everything=asked.all,
                compare=asked.compare,
                with_facets=asked.facets,
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
        """Return True for a search that is faster than a switch to a thread and back."""
        is_plain = not (asked.compare or asked.facets or asked.filter) and asked.k <= _QUICK_RESULTS
        return is_plain and self._search_seconds < _QUICK_SECONDS and isinstance(self.served.base, Index)

    async def click(self, client: str, query_id: str, doc_id: str) -> dict[str, Any]:
        """Log a click on a list."""
        log = self.impressions
        if log is None:
            raise HttpProblem(409, "this service logs no impressions, so clicks cannot be logged", "not-logged")
        try:
            rank = await self.writes.run(lambda: log.click(client, query_id, doc_id))
        except KeyError as error:
            raise HttpProblem(404, f"no list {query_id!r} was shown recently", "unknown-list") from error
        except ValueError as error:
            detail = f"document {doc_id[:80]!r} was not in the list {query_id!r}"
            raise HttpProblem(422, detail, "not-shown") from error
        except StoreError as error:
            raise HttpProblem(507, str(error), "impressions") from error
        return {"query_id": query_id, "doc": doc_id, "rank": rank}

    def gauges(self) -> dict[str, tuple[str, float]]:
        """Return gauges for Prometheus."""
        now, log = self.now, self.impressions
        served = now.served
        gauges: dict[str, tuple[str, float]] = {}
        if log is not None:
            gauges = {
                "tercet_impressions_logged": ("Logged lists since the start.", log.n_searches),
                "tercet_clicks_logged": ("Logged clicks since the start.", log.n_clicks),
                "tercet_impressions_lost": ("Lists and clicks that could not be logged.", log.n_lost),
            }
        return gauges | {
            "tercet_queue_length": ("Running and waiting requests.", self.reads.n_jobs + self.writes.n_jobs),
            "tercet_version": ("Number of the served version.", served.revision),
            "tercet_revision": ("Number of the last change of taught actions.", self.store.revision),
            "tercet_learner_backlog": ("Changes that the served version lacks.", self.store.revision - served.revision),
            "tercet_actions": ("Taught actions.", self.store.n_actions),
            "tercet_learner_up": ("1, or 0 if actions are not learned.", float(self.teacher.failure is None)),
            "tercet_overlay_pairs": ("Taught pairs of words.", served.n_pairs),
            "tercet_documents": ("Documents of the index.", len(served.index)),
            "tercet_refused": ("1 if the index on disk is not served.", float(self.reloader.refused is not None)),
        }

    # -- teaching -----------------------------------------------------------------------------------------------

    async def teach(self, token: str, kind: str, query: str, pairs: Sequence[Pair]) -> dict[str, Any]:
        """Store an action, and wait a little for the version with the action."""
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
            with suppress(HttpProblem):  # too busy for the effect
                change = await self.writes.run(lambda: answers.effect(before, after.served, query, pairs))
        return {"action": action.number, "effect": change} | self._state(action.revision)

    async def undo(self, token: str, numbers: Sequence[int] | None) -> dict[str, Any]:
        """Undo actions, and wait a little for the version without the actions."""

        def write() -> tuple[list[Action], Future[Published]]:
            in_model = self._in_model()
            for number in numbers or ():
                if number <= in_model:
                    detail = f"action {number} is part of the model; fit the model again without it"
                    raise HttpProblem(409, detail, "in-model")
            try:
                undone = self.store.undo(token, numbers, after=in_model)
            except NotActiveError as error:
                detail = f"action {error.number} is not active" if error.number else "there is nothing to undo"
                raise HttpProblem(409, detail, "nothing-to-undo") from error
            return undone, self.teacher.learn(undone[-1].revision)

        undone, learned = await self._written(write)
        await _soon(learned)
        return {"undone": [action.number for action in undone]} | self._state(undone[-1].revision)

    async def _written(self, write: Callable[[], T]) -> T:
        try:
            return await self.writes.run(write)
        except StoreError as error:
            raise HttpProblem(507, str(error), "store") from error

    def _state(self, revision: int) -> dict[str, Any]:
        served = self.served
        return {"revision": revision, "version": served.version, "served": served.revision >= revision}

    def _in_model(self) -> int:
        """Return the number of the last action in the model."""
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
        """Add or replace documents, all or none, on disk and in the served version."""

        def add(index: Index) -> None:
            existing = next((doc_id for doc_id, _, _ in docs if doc_id in index), None)
            if replacing:
                index.replace(docs)
            elif existing is not None:
                detail = f"document {existing[:80]!r} is in the index already; send replace: true"
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
    """Return the version with an action, or None after a timeout."""
    [*finished], _ = await asyncio.wait([asyncio.wrap_future(learned)], timeout=_PUBLISHED_SECONDS)
    failed = not finished or finished[0].cancelled() or finished[0].exception() is not None
    return None if failed else finished[0].result()


def check_query(served: Served, query: str) -> None:
    """Raise a problem for a query of too many words."""
    n_terms = 0 if len(query) <= QUERY_TERMS else len(answers.words_of(served, query))
    if n_terms > QUERY_TERMS:
        raise limit_problem("query", n_terms, QUERY_TERMS, "words")


def check_documents(index: BaseIndex, doc_ids: Sequence[str]) -> None:
    """Raise a problem for an unknown document."""
    unknown = next((doc_id for doc_id in doc_ids if doc_id not in index), None)
    if unknown is not None:
        raise HttpProblem(404, f"there is no document {unknown[:80]!r} in the index", "unknown-document")


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
    if not query_rows(served.model, [query]).nnz:
        raise HttpProblem(422, "the model knows no word of the query, so there is nothing to learn", "unknown-words")
    if served.n_pairs >= MOST_PAIRS:
        detail = f"{served.n_pairs:,} pairs of words are taught, the most are {MOST_PAIRS:,}; fit a model from them"
        raise HttpProblem(507, detail, "limit", name="pairs", limit=MOST_PAIRS, value=served.n_pairs)
