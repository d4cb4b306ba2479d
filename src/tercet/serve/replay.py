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
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.fitting.text_model import TextModel
from tercet.kernels.votes import (
    LOOKED_UP,
    NO_STEP,
    NOT_LOOKED_UP,
    Ballots,
    Questions,
    cast_until,
    count_votes,
    most_step_pairs,
    recorded_steps,
    take_steps,
)
from tercet.learn.online import OnlineLearner
from tercet.search import BaseIndex
from tercet.serve.allowances import Allowances, Moment, Spent, Voter, spelled
from tercet.serve.ballots import ABSENT, BallotBox
from tercet.serve.behind import LookBehind
from tercet.serve.bounds import LearningBounds
from tercet.serve.growing_columns import Arrays
from tercet.serve.journal import Clicked, Entry, Preferred, Renewed, Withdrawn, seconds_of
from tercet.serve.votes import Vote, votes_of
from tercet.store.fields import take_array

_LOOKED_UP_AT_ONCE = 1024
_LOOKED_AT_FIRST = 1024  # questions; then as many at once as take the seconds of a stretch
_ROWS_KEPT = 2048
_LAST_STRETCH = 256  # votes between the last two places to go back to
_STRETCH_SECONDS = 0.03  # of one compiled call, about, after which others get their turn
_STEP_SECONDS = 1e-5  # of one vote, until it is measured: 1e-6 where texts are short and few, 5e-5 where they are many
_LEAST_STEP_SECONDS = 1e-7  # lest a clock that stands still makes one call of all
_PAIR_SECONDS = 5e-7  # of one learned pair, to go back to another place and to serve what is learned from there


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
        # What is in the journal is learned whatever it takes; how much that may be is asked before it is there.
        self.overlay = OnlineLearner(self.model.weights, bounds, max_memory=None, n_words=self.model.n_words)
        self.allowances = Allowances(bounds, self.overlay.unit)
        self.n_taken = 0  # votes that steps were taken for, again and again
        # Asked for by whoever checks, prepares and applies.
        self.query_row = lru_cache(_ROWS_KEPT)(partial(_query_row, self.model))
        self._index = index
        self.box = BallotBox()
        self._places: list[Waypoint] = []
        self._n_done = 0  # ballots whose steps are in the overlay
        self._going = Going(0.0, 0, 0, 0)
        self._a_vote = _STEP_SECONDS
        self._is_without = False  # weights, which somebody else has until it goes back
        self._matrix: tuple[sparse.csr_array, int] | None = None  # the overlay at some ballot, until it goes back

    def over(self, index: BaseIndex) -> Replay:
        """The same entries over documents that have changed, the model being the same; this one stays what it is.

        Steps are taken again from the first on whose documents are others now, so the bits are those of a replay from
        nothing. Costs a look at the index for each document that somebody spoke of, and those steps.
        """
        other = copy(self)
        other._index, other.box, other._places = index, self.box.copy(), list(self._places)
        other.overlay, other.allowances = self.overlay.copy(), self.allowances.copy()
        docs = range(len(self.box.docs))
        other._look_up_again([doc for doc in docs if not index.same_row(self._index, self.box.doc_id(doc))])
        return other

    def compile(self) -> None:
        """Get ready; applying does it by itself otherwise."""
        self.overlay.advance(take_steps, 0, 0, self.step_room, *self._known)
        none = np.zeros(0, np.int64)
        cast_until(self.box.ballots.all, -1)
        keys, change = recorded_steps(none, self.model.weights.shape[1], *self.box.rows[1:])
        self.overlay.subtract(keys, change)
        self.overlay.matrix_after(sparse.csr_array(self.model.weights.shape, dtype=np.float32), keys)

    def prepare(self, entries: Iterable[Entry]) -> None:
        """Look up the documents that entries speak of. Nothing changes, so this can be tried again where it fails."""
        self._look_up(dict.fromkeys(question for entry in entries for question, _ in self.asked(entry)))

    @property
    def is_looked_up(self) -> bool:
        """Whether nothing is left to `prepare`; where another engine is away, something may be."""
        return bool((self.box.questions.column("known") != NOT_LOOKED_UP).all())

    def seconds_back(self, entries: Iterable[Entry]) -> float:
        """About how long it takes to go back for entries that come next, and to take steps again; 0 for no need."""
        changed = min((self._first_changed(entry) for entry in entries), default=self._n_done)
        if changed >= self._n_done:
            return 0.0
        place = max((place.ballot for place in self._places if place.ballot <= changed), default=0)
        return self._a_vote * (self._n_done - place) + _PAIR_SECONDS * self.overlay.n_pairs

    def _first_changed(self, entry: Entry) -> int:
        """The first ballot, of those there are, whose step an entry changes."""
        box, last = self.box, self.box.questions.all.last
        if isinstance(entry, Withdrawn):
            gone = set(entry.entries)
            found = (box.last_without(int(box.ballots.all.question[i]), gone) for i in box.ballots_of(gone))
            return min((ballot for both in found for ballot in both if ballot >= 0), default=self._n_done)
        ballots = (int(last[question]) for question, _ in self.asked(entry))
        return min((ballot for ballot in ballots if ballot >= 0), default=self._n_done)

    def apply(self, entries: Iterable[Entry], meanwhile: Callable[[], object] | None = None) -> None:
        """Take in entries, in the order of their numbers; others get their turn, ``meanwhile``, now and then."""
        changed = self._n_done
        touched: dict[int, None] = {}
        for entry in entries:
            self.box.first_number = self.box.first_number or entry.number
            if isinstance(entry, Withdrawn):
                for number in entry.entries:
                    changed = min(changed, self.box.withdraw(number, entry.number))
            elif isinstance(entry, Renewed):
                self.allowances.renew(entry.number)
            elif isinstance(entry, (Preferred, Clicked)):
                voter, seconds = self.cast_by(entry)
                for question, vote in self.asked(entry):
                    touched[question] = None
                    parts = self.box.signed_parts(question, vote)
                    changed = min(changed, self.box.cast(entry.number, question, voter, parts, seconds))
        self._look_up(touched)
        self._advance(changed, meanwhile)

    def cast_by(self, entry: Preferred | Clicked) -> tuple[int, float]:
        """The number of who casts the votes of an entry, and when, as allowances are counted."""
        voter = self.allowances.number_of(Voter.of(entry.client, entry.trust))
        return voter, 0.0 if entry.trust is None else seconds_of(entry)

    def asked(self, entry: Entry) -> Iterator[tuple[int, Vote]]:
        """The votes of an entry, each with the number of its question."""
        if isinstance(entry, (Preferred, Clicked)):
            row = self.query_row(entry.query)
            query = self.box.query(row, entry.query, self.overlay.words_of(row))
            for vote in votes_of(entry, self.bounds):
                yield self.box.question(query, vote.better, vote.worse), vote

    @property
    def inactive(self) -> frozenset[int]:
        """Numbers of the entries that were withdrawn."""
        return frozenset(self.box.inactive)

    def outcomes(self, entry: Entry) -> tuple[VoteOutcome, ...]:
        """What came of each vote of an entry that was applied."""
        last = self.box.questions.all.last
        lead, ballots = self.overlay.lead, self.box.ballots.all
        return tuple(
            self.outcome(vote, ballots, self.box.questions.all, question, lead(*self.box.words_of(question)))
            for question, vote in self.asked(entry)
            if last[question] >= 0
        )

    def outcome(self, vote: Vote, ballots: Ballots, questions: Questions, row: int, learned: float) -> VoteOutcome:
        """What came of a vote on the question of a row, which is ahead by so much of what was learned."""
        if questions.known[row] != LOOKED_UP:
            return VoteOutcome("unknown", False)
        if not questions.n_words[row]:
            return VoteOutcome("same", False)
        sign = 1 if self.box.docs[questions.first[row]] == spelled(vote.better) else -1
        lead = sign * (float(questions.margin[row]) + learned)
        last, most = int(questions.last[row]), self.allowances.terms.most_parts
        voters, parts = count_votes(ballots, last, self.allowances.payers.voters, most)
        net = sign * int(parts.sum())
        if net <= 0:
            return VoteOutcome("outvoted" if net else "cancelled", lead > 0)
        if not questions.n_pairs[row]:
            return VoteOutcome("ahead", lead > 0)
        if questions.share[row] < 1:
            moment = Moment(int(ballots.number[last]), float(ballots.seconds[last]))
            asking = [self.allowances.voter(voter) for voter in voters[sign * parts > 0].tolist()]
            hours = max(self.allowances.hours_to_renew(voter, moment) for voter in asking)
            return VoteOutcome("allowance", lead > 0, hours)
        return VoteOutcome("learned" if lead > 0 else "bounded", lead > 0)

    def matrix(self) -> sparse.csr_array:
        """The overlay as it is served; costs a copy of it where steps were only added since, and else the table."""
        if self._matrix is None:
            matrix = self.overlay.matrix()
        else:
            matrix, done = self._matrix
            box = self.box
            new = np.unique(box.ballots.column("question")[done : self._n_done]).astype(np.int64)
            if new.size:
                keys, _ = recorded_steps(new, self.model.weights.shape[1], *box.rows[1:])
                matrix = self.overlay.matrix_after(matrix, keys)
        self._matrix = matrix, self._n_done
        return matrix

    def hand_over(self) -> OnlineLearner:
        """The weights, for somebody who changes them; whatever is applied next begins by going back."""
        self._is_without = True
        return self.overlay.handed_over()

    def steps(self) -> list[TakenStep]:
        """All steps in their order."""
        box = self.box
        last, share = box.questions.column("last"), box.questions.column("share")
        taken = np.sort(last[(last >= 0) & (share != NO_STEP)]).tolist()
        return [
            TakenStep(box.position(ballot), float(share[box.ballots.all.question[ballot]]), box.entries(ballot))
            for ballot in taken
        ]

    def look_behind(self, keys: NDArray[np.int64]) -> Iterator[LookBehind]:
        """Look for the votes behind pairs of words, by the pairs' keys: gives what was found after each stretch.

        There is one at least, and entries may be applied between two of them; questions that are new then are not
        looked at.
        """
        behind, stop, at_once = LookBehind(keys, self.model.weights.shape), len(self.box.questions), _LOOKED_AT_FIRST
        while not behind.is_whole:
            began, first = time.perf_counter(), max(0, stop - at_once)
            behind.look(self.box, first, stop)
            seconds = max(1e-6, time.perf_counter() - began)
            at_once = max(_LAST_STRETCH, int(at_once * min(4.0, _STRETCH_SECONDS / seconds)))
            stop = first
            yield behind

    # -- steps -------------------------------------------------------------------------------------------------

    @property
    def _known(self) -> tuple[Any, ...]:
        """What the kernels read, until rows are added."""
        return *self.box.rows, self.allowances.payers, self.allowances.terms

    def _advance(self, changed: int, meanwhile: Callable[[], object] | None = None) -> None:
        """Go back to before the first ballot that changed, and take the steps from there."""
        first, stop = self._n_done, len(self.box.ballots)
        if changed < first or self._is_without:
            first = self._go_back(changed)
        self.n_taken += stop - first
        worked = time.thread_time()  # others may be at work here, too
        self._going = Going(time.monotonic(), first, first, stop)
        start = first
        for pause in self._pauses(start, stop):
            while start < pause:
                until = min(pause, start + self._votes_at_once())
                self.overlay.advance(take_steps, start, until, self.step_room, *self._known)
                start = self._n_done = until
                self._going = self._going._replace(done=until)
                if until - first >= _LAST_STRETCH:
                    self._a_vote = max(_LEAST_STEP_SECONDS, (time.thread_time() - worked) / (until - first))
                if meanwhile is not None:
                    meanwhile()
            if pause - (self._places[-1].ballot if self._places else 0) >= _LAST_STRETCH:
                self._places.append(Waypoint(pause, *self.overlay.pairs(), self.allowances.to_spent()))
        self._thin_places()

    @property
    def step_room(self) -> int:
        """How many pairs of words a step may add, at most."""
        return int(most_step_pairs(self.box.most_pairs, self.allowances.terms))

    def _votes_at_once(self) -> int:
        return max(_LAST_STRETCH, int(_STRETCH_SECONDS / self._a_vote))

    @property
    def seconds_left(self) -> float:
        """About how long it will be until the steps are taken that are being taken now; any thread may ask."""
        since, first, done, stop = self._going
        a_vote = (time.monotonic() - since) / (done - first) if done > first else self._a_vote
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
        self._matrix, self._is_without = None, False
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
        missing = [question for question in questions if self.box.questions.all.known[question] == NOT_LOOKED_UP]
        for start in range(0, len(missing), _LOOKED_UP_AT_ONCE):
            self._look_up_some(np.array(missing[start : start + _LOOKED_UP_AT_ONCE]))

    def _look_up_some(self, some: NDArray[np.int64]) -> None:
        questions, (n_query_words, n_doc_words) = self.box.questions.all, self.model.weights.shape
        docs = np.unique(np.concatenate([questions.first[some], questions.second[some]]))
        rows = [self._row(int(doc)) for doc in docs]  # where another engine is away, nothing has changed yet
        marks = np.array([_mark(row) for row in rows], np.uint64)
        self.box.doc_marks.all.mark[docs] = marks
        first, second = (np.searchsorted(docs, column[some]) for column in (questions.first, questions.second))
        queries = np.unique(questions.query[some])
        query_rows = [self.box.query_row(int(query), n_query_words) for query in queries]
        query = np.searchsorted(queries, questions.query[some])
        n_words = np.array([row.nnz for row in query_rows])
        there = (marks[first] != ABSENT) & (marks[second] != ABSENT) & (n_words[query] > 0)
        contrasts = None
        if there.any():
            nothing = sparse.csr_array((1, n_doc_words), dtype=np.float32)
            doc_rows = [nothing if row is None else row for row in rows]
            Q, D = (sparse.csr_array(sparse.vstack(each, format="csr")) for each in (query_rows, doc_rows))
            contrasts = self.overlay.contrasts(Q[query[there]], D[first[there]], D[second[there]])
        self.box.put_contrasts(some, there, contrasts)

    def _row(self, doc: int) -> sparse.csr_array | None:
        """The words of a document; None where the index does not have it."""
        doc_id = self.box.doc_id(doc)
        return self._index.row(doc_id) if doc_id in self._index else None

    def _look_up_again(self, docs: list[int]) -> None:
        """Take steps anew whose documents are others now."""
        stale = self.box.forget(docs)
        self._look_up(stale.tolist())
        last = self.box.questions.column("last")[stale]
        self._advance(int(last[last >= 0].min(initial=self._n_done)))

    # -- saving ------------------------------------------------------------------------------------------------

    @property
    def index_digest(self) -> str:
        return self._index.digest

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that `restore` needs. They are not copied, and change with the next entry."""
        arrays: dict[str, NDArray[Any]] = {}
        now = Waypoint(self._n_done, *self.overlay.pairs(), self.allowances.to_spent())
        for i, place in enumerate([*self._places, now]):
            arrays |= {f"place.{i}.keys": place.keys, f"place.{i}.levels": place.levels}
            arrays |= {f"place.{i}.{name}": array for name, array in place.spent._asdict().items()}
        arrays["place.ballots"] = np.array([place.ballot for place in (*self._places, now)], np.int64)
        return arrays | self.box.arrays() | self.allowances.arrays()

    def restore(self, arrays: Arrays, same_documents: bool) -> None:
        """Be where `arrays` was, over an index whose documents may be others; before anything is applied.

        Raises `DamagedBundleError` where arrays do not fit together.
        """
        self.allowances.add(arrays)
        self.box.restore(arrays, self.model.weights.shape, self.allowances.n_voters)
        ballots = take_array(arrays, "place.ballots", np.int64, 1, where="snapshot").tolist()
        places = [self._saved_place(arrays, i, ballot) for i, ballot in enumerate(ballots)]
        n_ballots = len(self.box.ballots)
        if ballots != sorted(ballots) or ballots[:1] < [0] or ballots[-1:] != [n_ballots]:
            raise DamagedBundleError(f"snapshot: places at ballots {ballots} of {n_ballots}")
        *self._places, now = places
        self._matrix = None
        self._n_done = now.ballot
        self.overlay.go_back(now.keys, now.levels)
        self.allowances.restore(now.spent)
        if not same_documents:
            marks = self.box.doc_marks.column("mark").tolist()
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
