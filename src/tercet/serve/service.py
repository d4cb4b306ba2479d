"""The service without HTTP: an index, a journal, a learner, and bounded queues for those who ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeVar
from weakref import ref

from tercet.errors import JournalError
from tercet.measure.duels import ATTRIBUTE, Assignment
from tercet.search import BaseIndex, Index
from tercet.search.filtering import where_of
from tercet.serve import answers
from tercet.serve.answers import Baseline, Deadline
from tercet.serve.bounds import SNAPSHOT_EVERY, LearningBounds, Limits
from tercet.serve.collection import collection
from tercet.serve.generations import Generation, IndexSource
from tercet.serve.impressions import ImpressionLog
from tercet.serve.interleaving import Interleaver
from tercet.serve.journal_file import Journal
from tercet.serve.learner import Learner, Version
from tercet.serve.metrics import Metrics, resident_bytes
from tercet.serve.problems import HttpProblem
from tercet.serve.queues import Queue
from tercet.serve.rates import Rates
from tercet.serve.reloader import Reloader
from tercet.serve.teaching import Teaching, check_query

T = TypeVar("T")

_CHANGES_WAITING = 16  # changes of documents that may wait for another


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
    snapshot_every : entries between two snapshots of what is learned, which make the next start fast; 0 for none
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
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> None:
        self.limits, self.name = limits or Limits(), name
        self.impressions, self.interleaver = impressions, interleaver
        self._collection: tuple[ref[Generation], dict[str, Any]] | None = None  # of what, which it does not keep
        self.metrics = Metrics()
        self.journal = Journal(journal, self.limits.journal_bytes)
        try:
            self.reloader = Reloader(
                index, self.journal, bounds, source, look_seconds, impressions, interleaver, snapshot_every
            )
        except BaseException:
            self.journal.close()
            raise
        self.reads = Queue("reader", self.limits.workers, self.limits.waiting)
        self.writes = Queue("writer", 1, self.limits.waiting)
        self.changes = Queue("documents", 1, _CHANGES_WAITING)
        self.teaching = Teaching(self.reloader, self.writes)
        self.changing, self.clicking = Rates("changes", self.limits), Rates("clicks", self.limits)

    def close(self) -> None:
        self.reloader.stop()
        self.reads.close()
        self.writes.close()
        self.changes.close()
        self.reloader.close()
        self.journal.close()
        if self.impressions is not None:
            self.impressions.close()

    @property
    def serving(self) -> Generation:
        return self.reloader.serving

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
        return not self.reloader.is_closing and not self.reads.is_full

    def change(self, limits: Limits, look_seconds: float, keep_days: int) -> None:
        """Go on by other limits, but for workers and the size of the journal, which stay, and by other times."""
        kept = {"workers": self.limits.workers, "journal_bytes": self.limits.journal_bytes}
        self.limits, self.reloader.look_seconds = replace(limits, **kept), look_seconds
        for queue in (self.reads, self.writes):
            queue.allow(limits.waiting)
        for rates in (self.changing, self.clicking):
            rates.change(self.limits)
        if self.impressions is not None:
            self.impressions.keep_days = keep_days

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
        logged: bool = True,
    ) -> dict[str, Any]:
        """Both lists for a query; ``is_vouched`` where somebody we trust says that this is the client's name."""
        check_query(self.version, query)
        address = None if is_vouched else client.partition("/")[0]

        def find(version: Version, generation: Generation) -> dict[str, Any]:
            where = where_of(filters, generation.index.has_column)
            shared = self.interleaver
            draft = None if shared is None else shared.draft(generation, client, query, address)
            mixed = None if draft is None else draft.mixed
            answer = answers.search(version, generation.baseline, query, k, deadline, everything, where, mixed)
            answer["index"] = generation.index_label
            assignment = None if draft is None else draft.assignment
            return answer | {"query_id": self._log_list(client, answer, assignment) if logged else None}

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
        self.clicking.admit(client)
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
        except JournalError as error:
            raise HttpProblem(507, str(error), "impressions") from error
        return {"query_id": query_id, "doc": doc_id, "rank": rank}

    async def collection(self, deadline: Deadline) -> dict[str, Any]:
        def told(_: Version, now: Generation) -> tuple[ref[Generation], dict[str, Any]]:
            return ref(now), collection(now.index, self.name, now.baseline.name)

        if self._collection is None or self._collection[0]() is not self.serving:
            self._collection = await self.read(deadline, told)
        return self._collection[1]

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
                "tercet_version_exact": ("1, or 0 while an interim version is served.", float(version.exact)),
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
                    float(self.reloader.refused is not None),
                ),
                "process_resident_memory_bytes": ("Memory in RAM.", resident_bytes()),
            }
        )

    # -- changing -----------------------------------------------------------------------------------------------

    def admit(self, client: str) -> None:
        """Take a token for a change from a client and from its address."""
        self.changing.admit(client)

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

        return await self.changes.run(lambda: self.reloader.change_documents(add, len(docs)))

    async def remove_document(self, doc_id: str) -> dict[str, Any]:
        def remove(index: Index) -> None:
            if doc_id not in index:
                raise HttpProblem(404, f"there is no document {doc_id[:80]!r} in the index", "unknown-document")
            index.remove([doc_id])

        return await self.changes.run(lambda: self.reloader.change_documents(remove, 1))
