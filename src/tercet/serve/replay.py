"""The replay: the overlay as a function of the base and of the active entries of the journal.

Active votes on the same two documents for the same query are added up, and each such question whose votes do not
cancel is one step of the online learner, taken in the order of last votes. An entry that comes later mostly adds a step
at the end. One that changes an earlier question, or takes an entry back, goes back to before the first step it changes
and takes the later ones again, so the result has the bits of a replay from nothing.

Votes and questions are rows of columns, and all steps are taken by one compiled pass over them (``kernels/votes.py``).
What was learned is kept as it was at a few places, twice as far apart the longer ago they are: whoever goes back n
votes takes some 2 n of them again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from copy import copy
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.fitting.text_model import TextModel
from tercet.kernels.online import FREE, fill_table
from tercet.kernels.votes import LOOKED_UP, NO_STEP, NOT_LOOKED_UP, ballots_behind, count_votes, take_steps
from tercet.learn.online import OnlineLearner
from tercet.search import BaseIndex
from tercet.serve.allowances import Allowances, Moment, Spent, Voter
from tercet.serve.ballots import ABSENT, BallotBox
from tercet.serve.bounds import LearningBounds
from tercet.serve.growing_columns import Arrays
from tercet.serve.journal import Clicked, Entry, Preferred, Renewed, Withdrawn, seconds_of
from tercet.serve.votes import Vote, votes_of
from tercet.store.fields import take_array

_LOOKED_UP_AT_ONCE = 1024
_ROWS_KEPT = 2048
_LAST_STRETCH = 256  # votes between the last two places to go back to
_TAKEN_AT_ONCE = 65_536  # votes of one compiled call: a tenth of a second or so, after which it is seen how far it is
_STEP_SECONDS = 2e-6  # of one vote, until it is measured


class Waypoint(NamedTuple):
    """All that steps change, as it was before the step of a ballot."""

    ballot: int
    keys: NDArray[np.int64]
    levels: NDArray[np.float64]
    spent: Spent


class Going(NamedTuple):
    """How far steps are that are being taken: since when, and at which ballots they began, are and will end."""

    since: float
    first: int
    done: int
    stop: int


class TakenStep(NamedTuple):
    """A step: the last vote that asked for it, as its entry and its place there; the share taken; and all entries."""

    position: tuple[int, int]
    share: float
    entries: tuple[int, ...]


class VoteOutcome(NamedTuple):
    """What came of a vote.

    Attributes
    ----------
    reason : "learned", or why it changed less than it asked for: the better one was "ahead" enough before; the model
        sees the "same" words in both, or knows none of the query ("unknown"); others "cancelled" it or "outvoted" it;
        its "allowance" is spent; a single change is "bounded"
    is_ahead : whether the better document is ahead now
    renewed_in : hours after which a spent allowance is whole again
    """

    reason: Literal["learned", "ahead", "same", "unknown", "cancelled", "outvoted", "allowance", "bounded"]
    is_ahead: bool
    renewed_in: float = 0.0


class Replay:
    """Applies journal entries, in any portions, to an overlay over the model of an index."""

    def __init__(self, index: BaseIndex, bounds: LearningBounds) -> None:
        self.model = text_model(index)
        self.bounds = bounds
        self.overlay = OnlineLearner(self.model.weights, bounds, n_words=self.model.n_words)
        self.allowances = Allowances(bounds, self.overlay.unit)
        self.n_taken = 0  # votes that steps were taken for, again and again
        # Asked for by whoever checks, prepares and applies.
        self.query_row = lru_cache(_ROWS_KEPT)(partial(_query_row, self.model))
        self._index = index
        self._box = BallotBox()
        self._places: list[Waypoint] = []
        self._n_done = 0  # ballots whose steps are in the overlay
        self._going = Going(0.0, 0, 0, 0)

    def over(self, index: BaseIndex) -> Replay:
        """The same entries over documents that have changed, the model being the same; this one stays what it is.

        Steps are taken again from the first on whose documents are others now, so the bits are those of a replay from
        nothing. Costs a look at the index for each document that somebody spoke of, and those steps.
        """
        other = copy(self)
        other._index, other._box, other._places = index, self._box.copy(), list(self._places)
        other.overlay, other.allowances = self.overlay.copy(), self.allowances.copy()
        docs = range(len(self._box.docs))
        other._look_up_again([doc for doc in docs if not index.same_row(self._index, self._box.doc_id(doc))])
        return other

    def compile(self) -> None:
        """Get ready; applying does it by itself otherwise."""
        self.overlay.advance(take_steps, 0, 0, 0, *self._known)

    def prepare(self, entries: Iterable[Entry]) -> None:
        """Look up the documents that entries speak of. Nothing changes, so this can be tried again where it fails."""
        self._look_up(dict.fromkeys(question for entry in entries for question, _ in self._asked(entry)))

    def apply(self, entries: Iterable[Entry]) -> None:
        """Take in entries, in the order of their numbers."""
        changed = self._n_done
        touched: dict[int, None] = {}
        for entry in entries:
            self._box.first_number = self._box.first_number or entry.number
            if isinstance(entry, Withdrawn):
                for number in entry.entries:
                    changed = min(changed, self._box.withdraw(number, entry.number))
            elif isinstance(entry, Renewed):
                self.allowances.renew(entry.number)
            elif isinstance(entry, (Preferred, Clicked)):
                voter = self.allowances.number_of(Voter.of(entry.client, entry.trust))
                seconds = 0.0 if entry.trust is None else seconds_of(entry)
                for question, vote in self._asked(entry):
                    touched[question] = None
                    parts = vote.parts if self._box.is_first(question, vote.better) else -vote.parts
                    changed = min(changed, self._box.cast(entry.number, question, voter, parts, seconds))
        self._look_up(touched)
        self._advance(changed)

    def _asked(self, entry: Entry) -> Iterator[tuple[int, Vote]]:
        """The votes of an entry, each with the number of its question."""
        if isinstance(entry, (Preferred, Clicked)):
            row = self.query_row(entry.query)
            query = self._box.query(row, entry.query, self.overlay.words_of(row))
            for vote in votes_of(entry, self.bounds):
                yield self._box.question(query, vote.better, vote.worse), vote

    @property
    def inactive(self) -> frozenset[int]:
        """Numbers of the entries that were withdrawn."""
        return frozenset(self._box.inactive)

    def outcomes(self, entry: Entry) -> tuple[VoteOutcome, ...]:
        """What came of each vote of an entry that was applied."""
        last = self._box.questions.all.last
        return tuple(self._outcome(question, vote) for question, vote in self._asked(entry) if last[question] >= 0)

    def _outcome(self, question: int, vote: Vote) -> VoteOutcome:
        ballots, questions, *_ = self._box.rows
        if questions.known[question] != LOOKED_UP:
            return VoteOutcome("unknown", False)
        if not questions.n_words[question]:
            return VoteOutcome("same", False)
        sign = 1 if self._box.is_first(question, vote.better) else -1
        lead = sign * (float(questions.margin[question]) + self.overlay.lead(*self._box.words_of(question)))
        last, most = int(questions.last[question]), self.allowances.terms.most_parts
        voters, parts = count_votes(ballots, last, self.allowances.payers.voters, most)
        net = sign * int(parts.sum())
        if net <= 0:
            return VoteOutcome("outvoted" if net else "cancelled", lead > 0)
        if not questions.n_pairs[question]:
            return VoteOutcome("ahead", lead > 0)
        if questions.share[question] < 1:
            moment = Moment(int(ballots.number[last]), float(ballots.seconds[last]))
            asking = [self.allowances.voter(voter) for voter in voters[sign * parts > 0].tolist()]
            hours = max(self.allowances.hours_to_renew(voter, moment) for voter in asking)
            return VoteOutcome("allowance", lead > 0, hours)
        return VoteOutcome("learned" if lead > 0 else "bounded", lead > 0)

    def steps(self) -> list[TakenStep]:
        """All steps in their order."""
        box = self._box
        last, share = box.questions.column("last"), box.questions.column("share")
        taken = np.sort(last[(last >= 0) & (share != NO_STEP)]).tolist()
        return [
            TakenStep(box.position(ballot), float(share[box.ballots.all.question[ballot]]), box.entries(ballot))
            for ballot in taken
        ]

    def entries_behind(self, keys: NDArray[np.int64]) -> dict[int, tuple[int, ...]]:
        """The entries behind pairs of words, by the pairs' keys; costs a look at every step."""
        slots = np.full(max(16, 1 << int(4 * keys.size).bit_length()), FREE)
        fill_table((slots, np.zeros(slots.size)), keys, np.zeros(keys.size))
        ballots, pairs = ballots_behind(slots, self.model.weights.shape[1], self._n_done, *self._box.rows)
        behind: dict[int, set[int]] = {key: set() for key in keys.tolist()}
        for ballot, key in zip(ballots.tolist(), pairs.tolist(), strict=True):
            behind[key].update(self._box.entries(ballot))
        return {key: tuple(sorted(entries)) for key, entries in behind.items()}

    # -- steps -------------------------------------------------------------------------------------------------

    @property
    def _known(self) -> tuple[Any, ...]:
        """What the kernels read, until rows are added."""
        return *self._box.rows, self.allowances.payers, self.allowances.terms

    def _advance(self, changed: int) -> None:
        """Go back to before the first ballot that changed, and take the steps from there."""
        start, stop = self._n_done, len(self._box.ballots)
        if changed < start:
            start = self._go_back(changed)
        self.n_taken += stop - start
        self._going = Going(time.monotonic(), start, start, stop)
        for pause in self._pauses(start, stop):
            while start < pause:
                until = min(pause, start + _TAKEN_AT_ONCE)
                self.overlay.advance(take_steps, start, until, self._box.most_pairs, *self._known)
                start = self._n_done = until
                self._going = self._going._replace(done=until)
            if pause - (self._places[-1].ballot if self._places else 0) >= _LAST_STRETCH:
                self._places.append(Waypoint(pause, *self.overlay.pairs(), self.allowances.to_spent()))
        self._thin_places()

    @property
    def seconds_left(self) -> float:
        """About how long it will be until the steps are taken that are being taken now; any thread may ask."""
        since, first, done, stop = self._going
        a_vote = (time.monotonic() - since) / (done - first) if done > first else _STEP_SECONDS
        return a_vote * (stop - done)

    @staticmethod
    def _pauses(start: int, stop: int) -> list[int]:
        """Where to stop on the way, so as to have places to go back to."""
        pauses, stretch = [stop], _LAST_STRETCH
        while stop - stretch > start:
            pauses.append(stop - stretch)
            stretch *= 2
        return pauses[::-1]

    def _go_back(self, ballot: int) -> int:
        """Be at the last place that is not after a ballot; returns which ballot is next there."""
        while self._places and self._places[-1].ballot > ballot:
            self._places.pop()
        if self._places:
            place = self._places[-1]
            self.overlay.go_back(place.keys, place.levels)
            self.allowances.restore(place.spent)
            return place.ballot
        self.overlay.go_back(np.zeros(0, np.int64), np.zeros(0))
        self.allowances.restore(None)
        return 0

    def _thin_places(self) -> None:
        """Keep places twice as far apart the longer ago they are."""
        i = len(self._places) - 2
        while i >= 0:
            before = self._places[i - 1].ballot if i else 0
            after = self._places[i + 1].ballot
            if after - before <= self._n_done - after:
                del self._places[i]
            i -= 1

    # -- documents ---------------------------------------------------------------------------------------------

    def _look_up(self, questions: Iterable[int]) -> None:
        """Have the contrasts of questions at hand, those that are missing worked out together."""
        missing = [question for question in questions if self._box.questions.all.known[question] == NOT_LOOKED_UP]
        for start in range(0, len(missing), _LOOKED_UP_AT_ONCE):
            self._look_up_some(np.array(missing[start : start + _LOOKED_UP_AT_ONCE]))

    def _look_up_some(self, some: NDArray[np.int64]) -> None:
        questions, (n_query_words, n_doc_words) = self._box.questions.all, self.model.weights.shape
        docs = np.unique(np.concatenate([questions.first[some], questions.second[some]]))
        rows = [self._row(int(doc)) for doc in docs]  # where another engine is away, nothing has changed yet
        marks = np.array([_mark(row) for row in rows], np.uint64)
        self._box.doc_marks.all.mark[docs] = marks
        first, second = (np.searchsorted(docs, column[some]) for column in (questions.first, questions.second))
        queries = np.unique(questions.query[some])
        query_rows = [self._box.query_row(int(query), n_query_words) for query in queries]
        query = np.searchsorted(queries, questions.query[some])
        n_words = np.array([row.nnz for row in query_rows])
        there = (marks[first] != ABSENT) & (marks[second] != ABSENT) & (n_words[query] > 0)
        contrasts = None
        if there.any():
            nothing = sparse.csr_array((1, n_doc_words), dtype=np.float32)
            doc_rows = [nothing if row is None else row for row in rows]
            Q, D = (sparse.csr_array(sparse.vstack(each, format="csr")) for each in (query_rows, doc_rows))
            contrasts = self.overlay.contrasts(Q[query[there]], D[first[there]], D[second[there]])
        self._box.put_contrasts(some, there, contrasts)

    def _row(self, doc: int) -> sparse.csr_array | None:
        """The words of a document; None where the index does not have it."""
        doc_id = self._box.doc_id(doc)
        return self._index.row(doc_id) if doc_id in self._index else None

    def _look_up_again(self, docs: list[int]) -> None:
        """Take steps anew whose documents are others now."""
        stale = self._box.forget(docs)
        self._look_up(stale.tolist())
        last = self._box.questions.column("last")[stale]
        self._advance(int(last[last >= 0].min(initial=self._n_done)))

    # -- saving ------------------------------------------------------------------------------------------------

    @property
    def index_digest(self) -> str:
        return self._index.digest

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that `restore` needs. They are not copied, and change with the next entry."""
        arrays: dict[str, NDArray[Any]] = {"taken": np.array([self.n_taken], np.int64)}
        now = Waypoint(self._n_done, *self.overlay.pairs(), self.allowances.to_spent())
        for i, place in enumerate([*self._places, now]):
            arrays |= {f"place.{i}.keys": place.keys, f"place.{i}.levels": place.levels}
            arrays |= {f"place.{i}.{name}": array for name, array in place.spent._asdict().items()}
        arrays["place.ballots"] = np.array([place.ballot for place in (*self._places, now)], np.int64)
        return arrays | self._box.arrays() | self.allowances.arrays()

    def restore(self, arrays: Arrays, same_documents: bool) -> None:
        """Be where `arrays` was, over an index whose documents may be others; before anything is applied.

        Raises `DamagedBundleError` where arrays do not fit together.
        """
        self.allowances.add(arrays)
        self._box.restore(arrays, self.model.weights.shape, self.allowances.n_voters)
        (self.n_taken,) = take_array(arrays, "taken", np.int64, (1,), where="snapshot").tolist()
        ballots = take_array(arrays, "place.ballots", np.int64, 1, where="snapshot").tolist()
        places = [self._saved_place(arrays, i, ballot) for i, ballot in enumerate(ballots)]
        n_ballots = len(self._box.ballots)
        if ballots != sorted(ballots) or ballots[:1] < [0] or ballots[-1:] != [n_ballots]:
            raise DamagedBundleError(f"snapshot: places at ballots {ballots} of {n_ballots}")
        *self._places, now = places
        self._n_done = now.ballot
        self.overlay.go_back(now.keys, now.levels)
        self.allowances.restore(now.spent)
        if not same_documents:
            marks = self._box.doc_marks.column("mark").tolist()
            self._look_up_again([doc for doc, mark in enumerate(marks) if _mark(self._row(doc)) != mark])

    def _saved_place(self, arrays: Arrays, i: int, ballot: int) -> Waypoint:
        def take(name: str, kind: Any) -> NDArray[Any]:
            return take_array(arrays, f"place.{i}.{name}", kind, 1, where="snapshot").copy()

        reals, wholes = ("amount", "seconds"), ("number", "asked", "agreed")
        spent = {name: take(name, np.float64) for name in reals} | {name: take(name, np.int64) for name in wholes}
        place = Waypoint(ballot, take("keys", np.int64), take("levels", np.float64), Spent(**spent))
        n_rows, n_columns = self.model.weights.shape
        inside = ((place.keys >= 0) & (place.keys < n_rows * n_columns)).all()
        if not (inside and place.keys.size == place.levels.size and self.allowances.fits(place.spent)):
            raise DamagedBundleError(f"snapshot: what was learned until ballot {ballot} does not fit the model")
        return place


def _query_row(model: TextModel, text: str) -> sparse.csr_array:
    return sparse.csr_array(model.queries([text]))


def _mark(row: sparse.csr_array | None) -> int:
    """Sixty-four bits that stand for the words of a document."""
    if row is None:
        return ABSENT
    words = row.indices.astype(np.int32).tobytes() + row.data.astype(np.float32).tobytes()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little") | 1


def text_model(index: BaseIndex) -> TextModel:
    """The model of an index, which must know words."""
    if not isinstance(index.model, TextModel):
        raise InputError("the index has weights without words, and the service takes texts; index with a text model")
    return index.model
