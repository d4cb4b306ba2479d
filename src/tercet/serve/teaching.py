"""What is taught, and taken back: checked, journalled, learned, and answered."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, Literal

from tercet.data.clicks import Impression, impression_problem
from tercet.data.values import timestamp
from tercet.errors import EngineError, FormatError, JournalError
from tercet.serve import answers
from tercet.serve.bounds import LEARNED_PAIRS, QUERY_TERMS
from tercet.serve.generations import Generation
from tercet.serve.journal import Clicked, Entry, Preferred, Trust, Withdrawn
from tercet.serve.journal_chain import Entries
from tercet.serve.learner import Version
from tercet.serve.problems import HttpProblem, limit_problem
from tercet.serve.queues import Queue
from tercet.serve.reloader import Reloader, renewal
from tercet.serve.replay import VoteOutcome

_log = logging.getLogger(__name__)

_BAKED = (
    "what came before is part of the model. Prefer the other way round; or take the promotion of that model back, and "
    "the entry after that"
)
_APPLY_WAIT_SECONDS = 0.5  # how long an acknowledgement waits for the learner, so that most can say "applied"


def check_query(version: Version, query: str) -> None:
    n_terms = len(answers.words_of(version, query))
    if n_terms > QUERY_TERMS:
        raise limit_problem("query", n_terms, QUERY_TERMS, "words")


def check_documents(generation: Generation, doc_ids: Sequence[str]) -> None:
    for doc_id in doc_ids:
        if doc_id not in generation.index:
            raise HttpProblem(404, f"there is no document {doc_id[:80]!r} in the index", "unknown-document")


class Teaching:
    """Takes preferences, clicks and withdrawals.

    Parameters
    ----------
    reloader : has what is served, and the journal
    writes : the queue in which changes wait
    """

    def __init__(self, reloader: Reloader, writes: Queue) -> None:
        self._reloader, self._writes = reloader, writes

    async def prefer(
        self, client: str, query: str, better: str, worse: str, trust: Trust = "visitor"
    ) -> dict[str, Any]:
        if better == worse:
            detail = f"better and worse are the same document {better[:80]!r}; they must differ"
            raise HttpProblem(422, detail, "invalid")
        await self._writes.run(lambda: self._check_learnable(query, (better, worse)))  # it may ask another engine
        return await self._teach(
            lambda number, receipt: Preferred(number, timestamp(), client, query, better, worse, trust, receipt),
            query,
            [better],
            worse,
        )

    async def clicks(
        self, client: str, query: str, shown: Sequence[str], clicked: Sequence[str], trust: Trust = "visitor"
    ) -> dict[str, Any]:
        problem = impression_problem(Impression(query, tuple(shown), tuple(clicked)))
        if problem is not None:
            raise HttpProblem(422, problem, "invalid")
        await self._writes.run(lambda: self._check_learnable(query, shown))
        lists = (tuple(shown), tuple(clicked))
        return await self._teach(
            lambda number, receipt: Clicked(number, timestamp(), client, query, *lists, trust, receipt), query, clicked
        )

    async def _teach(
        self, make: Callable[[int, str], Entry], query: str, better: Sequence[str], worse: str | None = None
    ) -> dict[str, Any]:
        """Have a vote learned, give a receipt, and say what it changed where that can be seen in time."""
        before, secret = self._reloader.version, secrets.token_urlsafe(16)
        told, after, siblings = await self._append(lambda number: make(number, _hashed(secret)))
        told["receipt"] = f"{told['entry']}.{secret}"
        effect = None
        if after is not None:
            outcomes, rival = after.outcomes[told["entry"]], self._rival_outcomes(told["entry"], siblings)
            with suppress(HttpProblem, EngineError):  # too busy to look, or the engine is away: the vote is kept
                effect = await self._writes.run(
                    lambda: answers.effect(before, after, query, better, worse, outcomes, rival)
                )
        return told | {"effect": effect}

    def _rival_outcomes(self, number: int, siblings: Version | None) -> Sequence[VoteOutcome] | None:
        """What the model with which lists are shared made of the votes of an entry; None where none are shared."""
        shared = self._reloader.interleaver
        if shared is None or shared.rival_hybrid(self._reloader.serving) is None:
            return None
        return () if siblings is None else siblings.outcomes.get(number, ())

    async def renew(self, reason: Literal["bake", "promote"]) -> dict[str, Any]:
        """Make every allowance whole again, since what was taught has become part of a model."""
        return (await self._append(partial(renewal, reason=reason)))[0]

    def _check_learnable(self, query: str, doc_ids: Sequence[str]) -> None:
        check_query(self._reloader.version, query)
        check_documents(self._reloader.serving, doc_ids)
        if not self._reloader.learner.query_row(query).nnz:
            detail = "the model knows no word of the query, so there is nothing to learn"
            raise HttpProblem(422, detail, "unknown-words")
        n_pairs = int(self._reloader.version.overlay.nnz)
        if n_pairs >= LEARNED_PAIRS:
            detail = (
                f"{n_pairs:,} pairs of words are learned, and {LEARNED_PAIRS:,} are the most; tercet bake makes them "
            )
            detail += "part of the model, and then more can be taught"
            raise HttpProblem(507, detail, "limit", name="pairs", limit=LEARNED_PAIRS, value=n_pairs)

    async def undo(
        self, client: str, numbers: Sequence[int] | None, receipts: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Take back what an address taught without a name, its last entry unless others are named; or by receipts."""
        if receipts is not None:
            return await self._withdraw(client, "undo", lambda: self._proven(receipts))
        return await self._withdraw(client, "undo", lambda: self._own(client, numbers))

    def _proven(self, receipts: Sequence[str]) -> list[int]:
        numbers = set()
        for receipt in dict.fromkeys(receipts):  # each is read once, however often it is sent
            number, _, secret = receipt.partition(".")
            self._check_known(int(number))
            with _reading():
                entry = self._reloader.journal.entries[int(number) - 1]
            expected = entry.receipt if isinstance(entry, (Preferred, Clicked)) else ""
            if not (expected and hmac.compare_digest(_hashed(secret), expected)):
                raise HttpProblem(409, f"this is not the receipt of entry {number}", "not-yours")
            if self._is_gone(entry.number):
                raise HttpProblem(409, f"entry {number} is not an active one", "nothing-to-undo")
            numbers.add(entry.number)
        return sorted(numbers)

    def _own(self, client: str, numbers: Sequence[int] | None) -> list[int]:
        if numbers is None:
            n_baked = self._reloader.version.n_baked
            last = next(self._active_votes(self._reloader.journal.entries[n_baked:], client), None)
            if last is not None:
                return [last]
            detail = "there is no entry of this client to take back"
            detail += f" after entry {n_baked}; {_BAKED}" if n_baked else ""
            raise HttpProblem(409, detail, "nothing-to-undo")
        for number in dict.fromkeys(numbers):
            if self._voter(number) != client or self._is_gone(number):
                raise HttpProblem(409, f"entry {number} is not an active one of this client", "not-yours")
        return sorted(set(numbers))

    async def revoke(self, client: str, numbers: Sequence[int] | None, whose: str | None) -> dict[str, Any]:
        if (numbers is None) == (whose is None):
            raise HttpProblem(422, "name either entries or a client", "invalid")

        def targets() -> list[int]:
            if numbers is None:
                assert whose is not None
                entries = self._reloader.journal.entries
                return sorted(self._active_votes(entries[self._reloader.version.n_baked :], whose))
            asked = sorted(set(numbers))
            return [number for number in asked if self._voter(number) is not None and not self._is_gone(number)]

        return await self._withdraw(client, "revoke", targets)

    def _voter(self, number: int) -> str | None:
        """Whose vote an entry is that may be taken back; None where it is no vote."""
        self._check_known(number)
        return self._reloader.journal.entries.voter(number)

    def _check_known(self, number: int) -> None:
        if not 1 <= number <= len(self._reloader.journal):
            raise HttpProblem(
                404, f"there is no entry {number}; the last one is {len(self._reloader.journal)}", "unknown-entry"
            )
        if number <= self._reloader.version.n_baked:
            raise HttpProblem(409, f"entry {number} cannot be taken back; {_BAKED}", "baked")

    def _active_votes(self, entries: Entries, client: str | None = None) -> Iterator[int]:
        """Numbers of the votes that count, of a client or of everybody, the latest first."""
        withdrawn, inactive = self._reloader.journal.withdrawn, self._reloader.version.inactive
        for number in map(int, reversed(entries.votes_of(client))):
            if number not in withdrawn and number not in inactive:
                yield number

    def _is_gone(self, number: int) -> bool:
        return number in self._reloader.journal.withdrawn or number in self._reloader.version.inactive

    async def _withdraw(self, client: str, reason: str, targets: Callable[[], list[int]]) -> dict[str, Any]:
        gone: list[int] = []

        def make(number: int) -> Withdrawn:
            gone.extend(targets())  # looked up while nobody else can write
            if not gone:
                raise HttpProblem(409, "none of these entries is active", "nothing-to-undo")
            return Withdrawn(number, timestamp(), client, reason, tuple(gone))

        return (await self._append(make))[0] | {"withdrawn": gone}

    async def _append(self, make: Callable[[int], Entry]) -> tuple[dict[str, Any], Version | None, Version | None]:
        """Journal an entry, have it learned, and say so when it is on disk.

        Gives the first version that has it as well, and that of the model with which lists are shared.
        """
        if self._reloader.learner.failure is not None:
            raise HttpProblem(503, "nothing is learned until a restart; reading goes on", "learner-stopped", 60.0)

        def write() -> tuple[Entry, Future[Version], Future[Version] | None]:
            try:
                return self._reloader.record(make)
            except JournalError as error:
                raise HttpProblem(507, str(error), "journal") from error

        entry, *learning = await self._writes.run(write)
        both = [asyncio.wrap_future(one) for one in learning if one is not None]  # a shared list needs either
        await asyncio.wait(both, timeout=_APPLY_WAIT_SECONDS)
        version = self._reloader.version
        is_applied = version.number >= entry.number
        told = {"entry": entry.number, "version": version.name, "applied": is_applied}
        told["ready_in"] = 0.0 if is_applied else self._ready_in()
        told["exact_in"] = self._reloader.learner.exact_in(version) if is_applied else told["ready_in"]
        applied, siblings = map(_result_of, learning)
        return told, applied, siblings

    def _ready_in(self) -> float | None:
        learner = self._reloader.learner
        return None if learner.failure is not None else max(0.1, round(learner.seconds_left, 1))

    def history(self, limit: int, *, active_only: bool = False) -> list[dict[str, Any]]:
        """Entries of the journal, latest first."""
        journal = self._reloader.journal
        entries, n_archived = journal.entries, journal.n_archived
        with _reading():
            if active_only:
                numbers = self._active_votes(entries[max(n_archived, self._reloader.version.n_baked) :])
                listed = [entries[number - 1] for number in islice(numbers, limit)]
            else:
                listed = list(entries[max(n_archived, len(entries) - limit) :])[::-1]
        return [_history_entry(entry, entry.number not in journal.withdrawn) for entry in listed]


@contextmanager
def _reading() -> Iterator[None]:
    """Entries are read from the journal, whose disk may fail."""
    try:
        yield
    except (JournalError, FormatError, OSError) as error:
        _log.warning("the journal cannot be read: %s", error)
        detail = "the journal cannot be read; the service's log says why"
        raise HttpProblem(503, detail, "journal", 60.0) from error


def _result_of(applied: Future[Version] | None) -> Version | None:
    """What it gives, where it has come."""
    return applied.result() if applied is not None and applied.done() and not applied.cancelled() else None


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _history_entry(entry: Entry, active: bool) -> dict[str, Any]:
    members = dict.fromkeys(("query", "better", "worse", "shown", "clicked", "trust", "reason", "of", "entries"))
    meta = entry.to_meta()
    number = meta.pop("number")
    meta.pop("receipt", None)
    return {"version": f"v{number}", "entry": number, "active": active} | members | meta
