"""What is served while a replay goes far back: the last exact weights, with questions that changed moved to the end.

An entry that is taken back, or that speaks of an old question, changes a step of long ago and with it all that was
learned in its light. Until that is learned again, the step is taken out of the weights as it is recorded, and what is
said of the question now is a step on top of all others:

    interim = served - step of the question as it was + step of the question by the votes that are left

each weight kept within its bound. Steps that came in between stay as they are; so the interim is near what the replay
will give, and is not that to the bit. It costs these steps and a copy of the weights, whatever the journal's length.
It is never saved: who starts again replays the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tercet.kernels.votes import NO_STEP, Ballots, Questions, cast_until, recorded_steps, take_steps
from tercet.serve.journal import Clicked, Entry, Preferred, Renewed, Withdrawn
from tercet.serve.replay import Replay, VoteOutcome
from tercet.serve.votes import Vote


class Cast(NamedTuple):
    """A vote, as ballots have it."""

    number: int
    voter: int
    parts: int
    seconds: float


class Interim:
    """Entries on top of what a replay has, until it has them in their places.

    Parameters
    ----------
    state : a replay that is exact. It hands its weights over, and may learn these and other entries while this is in
        use, in turns

    Attributes
    ----------
    matrix : the weights, as they are served
    """

    def __init__(self, state: Replay) -> None:
        self._state = state
        self.matrix: sparse.csr_array = state.matrix()
        self._overlay = state.hand_over()
        self._spent = state.allowances.to_spent()
        questions = state.box.questions
        # Of the steps that are in the weights; those of the replay will be others.
        self._n_pairs, self._moved = questions.column("n_pairs").copy(), questions.column("moved").copy()
        self._own: dict[int, tuple[int, float]] = {}  # the same, of questions that were moved to the end
        self._later: dict[int, list[Cast]] = {}  # votes on them that came since
        self._asked_by: dict[int, list[int]] = {}  # questions of the entries that did
        self._gone: set[int] = set()

    @property
    def inactive(self) -> frozenset[int]:
        """Numbers of the entries that were withdrawn."""
        return frozenset(self._state.box.inactive | self._gone)

    def apply(self, entries: Sequence[Entry]) -> dict[int, tuple[VoteOutcome, ...]]:
        """Have entries count that come next, are `prepare`d, and which the replay does not have yet.

        Returns what came of their votes, by their numbers.
        """
        votes = {question: self._votes_on(question) for question in self._take_in(entries)}
        questions = sorted(votes, key=lambda question: votes[question][-1].number if votes[question] else 0)
        rows, ballots = self._rows_of(questions, [votes[question] for question in questions])
        n_columns, (queries, words) = self._state.model.weights.shape[1], self._state.box.rows[2:]
        every = np.arange(len(questions))
        keys, changes = recorded_steps(every, n_columns, rows, queries, words)
        before, which = np.unique(keys, return_inverse=True)
        self._overlay.subtract(before, np.bincount(which, changes, minlength=before.size).astype(np.float64))
        with self._state.allowances.having(self._spent):
            known = ballots, rows, queries, words, self._state.allowances.payers, self._state.allowances.terms
            rows.share[:], rows.n_pairs[:], rows.moved[:] = NO_STEP, 0, 0.0
            self._overlay.advance(take_steps, 0, ballots.number.size, self._state.step_room, *known)
            self._spent = self._state.allowances.to_spent()
            places = {question: row for row, question in enumerate(questions)}
            outcomes = {entry.number: self._outcomes(entry, places, ballots, rows) for entry in entries}
        after, _ = recorded_steps(every, n_columns, rows, queries, words)
        self.matrix = self._overlay.matrix_after(self.matrix, np.concatenate([before, after]))
        self._own.update(zip(questions, zip(rows.n_pairs.tolist(), rows.moved.tolist(), strict=True), strict=True))
        return outcomes

    def _take_in(self, entries: Iterable[Entry]) -> dict[int, None]:
        """Note what entries say; returns the questions that are answered in another way now."""
        state, box = self._state, self._state.box
        touched: dict[int, None] = {}
        for entry in entries:
            if isinstance(entry, Withdrawn):
                for number in entry.entries:
                    if not box.first_number <= number <= entry.number or number in box.inactive or number in self._gone:
                        continue  # baked, or withdrawn before
                    self._gone.add(number)
                    touched |= dict.fromkeys(box.ballots.all.question[list(box.ballots_of((number,)))].tolist())
                    touched |= dict.fromkeys(self._asked_by.get(number, ()))
            elif isinstance(entry, Renewed):
                state.allowances.renew(entry.number)
            elif isinstance(entry, (Preferred, Clicked)):
                voter, seconds = state.cast_by(entry)
                asked = self._asked_by[entry.number] = []
                for question, vote in state.asked(entry):
                    cast = Cast(entry.number, voter, box.signed_parts(question, vote), seconds)
                    self._later.setdefault(question, []).append(cast)
                    asked.append(question)
                touched |= dict.fromkeys(asked)
        return touched

    def _votes_on(self, question: int) -> list[Cast]:
        """All votes on a question that count, in their order."""
        ballots, last = self._state.box.ballots.all, self._state.box.questions.all.last[question]
        cast = cast_until(ballots, last)
        columns = (getattr(ballots, name)[cast].tolist() for name in Cast._fields)
        votes = [Cast(*vote) for vote in zip(*columns, strict=True)]
        newest = votes[-1].number if votes else 0
        votes += [vote for vote in self._later.get(question, []) if vote.number > newest]  # the replay has others
        return [vote for vote in votes if vote.number not in self._gone]

    def _rows_of(self, questions: Sequence[int], votes: Sequence[Sequence[Cast]]) -> tuple[Questions, Ballots]:
        """Questions, with the steps that are in the weights, and all votes on them, as rows of their own."""
        rows = Questions(*(column[np.array(questions, np.int64)] for column in self._state.box.questions.all))
        for row, question in enumerate(questions):
            rows.n_pairs[row], rows.moved[row] = self._step_of(question)
        n = np.array([len(each) for each in votes], np.int64)
        rows.last[:] = np.where(n > 0, np.cumsum(n) - 1, -1)
        columns: dict[str, Any] = {
            name: [getattr(vote, name) for cast in votes for vote in cast] for name in Cast._fields
        }
        before = np.arange(-1, n.sum() - 1)
        before[(np.cumsum(n) - n)[n > 0]] = -1
        columns |= {"question": np.repeat(np.arange(len(questions)), n), "before": before, "counts": before >= -1}
        types = self._state.box.ballots.all
        return rows, Ballots(*(np.asarray(columns[name], getattr(types, name).dtype) for name in Ballots._fields))

    def _step_of(self, question: int) -> tuple[int, float]:
        if question in self._own:
            return self._own[question]
        return (int(self._n_pairs[question]), float(self._moved[question])) if question < self._moved.size else (0, 0.0)

    def _outcomes(
        self, entry: Entry, places: dict[int, int], ballots: Ballots, rows: Questions
    ) -> tuple[VoteOutcome, ...]:
        """What came of each vote of an entry."""

        def outcome(question: int, vote: Vote) -> VoteOutcome:
            lead = self._overlay.lead(*self._state.box.words_of(question))
            return self._state.outcome(vote, ballots, rows, places[question], lead)

        return tuple(
            outcome(question, vote) for question, vote in self._state.asked(entry) if rows.last[places[question]] >= 0
        )
