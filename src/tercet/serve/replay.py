"""The replay: the overlay as a function of the base and of the active entries of the journal.

Active votes on the same two documents for the same query are added up, and each such question whose votes do not
cancel is one step of the online learner, taken in the order of last votes. An entry that comes later mostly adds a step
at the end. One that changes an earlier question, or takes an entry back, goes back to the first step it changes and
takes the later ones again, so the result has the bits of a replay from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Literal

import numpy as np
from scipy import sparse

from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.learn.online import Contrast, OnlineLearner, Step
from tercet.search import BaseIndex
from tercet.serve.allowances import Allowances, Charge, Moment, Voter
from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Clicked, Entry, Preferred, Renewed, Withdrawn, seconds_of
from tercet.serve.votes import ONE_CLICK, Ballot, Position, Question, QuestionKey, Vote, votes_of

_CONTRASTS_KEPT = 16_384  # some 2 kB each
_LOOKED_UP_AT_ONCE = 1024
_ROWS_KEPT = 2048


@dataclass(frozen=True, eq=False)
class TakenStep:
    """The share of a step that was taken at its position, what those who asked had spent before, and the entries."""

    position: Position
    question: QuestionKey
    step: Step
    share: float
    spent_before: Charge
    entries: tuple[int, ...]


@dataclass(frozen=True)
class VoteOutcome:
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
        self.active: dict[int, bool] = {}
        self.steps: list[TakenStep] = []
        # Asked for by whoever checks, prepares and applies.
        self.query_row = lru_cache(_ROWS_KEPT)(partial(_query_row, self.model))
        self._index = index
        self._questions: dict[QuestionKey, Question] = {}
        self._taken: dict[QuestionKey, TakenStep] = {}
        self._contrasts: dict[QuestionKey, Contrast | None] = {}
        self._cast_by: dict[int, list[tuple[QuestionKey, Position]]] = {}

    def over(self, index: BaseIndex) -> Replay:
        """The same entries over documents that have changed, the model being the same; this one stays what it is.

        Steps are taken again from the first on whose documents are others now, so the bits are those of a replay from
        nothing. Costs two looks at the index for each question, and those steps.
        """
        other = copy(self)
        other._index = index
        other.overlay, other.allowances = self.overlay.copy(), self.allowances.copy()
        other.active, other.steps = dict(self.active), list(self.steps)
        other._questions = {key: replace(one, votes=dict(one.votes)) for key, one in self._questions.items()}
        other._taken, other._contrasts = dict(self._taken), dict(self._contrasts)
        other._cast_by = {number: list(cast) for number, cast in self._cast_by.items()}
        # Also what was only prepared: an entry may be told, and looked up, but not be applied yet.
        keys = self._questions.keys() | self._contrasts.keys()
        docs = {doc_id for key in keys for doc_id in (key.first, key.second)}
        changed = {doc_id for doc_id in docs if not index.same_row(self._index, doc_id)}
        stale = {key for key in keys if key.first in changed or key.second in changed}
        for key in stale:
            other._contrasts.pop(key, None)
        before: dict[QuestionKey, Position | None] = {
            key: question.position for key, question in other._questions.items() if key in stale
        }
        other._advance(before)
        return other

    def prepare(self, entries: Iterable[Entry]) -> None:
        """Look up the documents that entries speak of. Nothing changes, so this can be tried again where it fails."""
        self._look_up([question for entry in entries for question, _ in self._asked(entry)])

    def apply(self, entries: Iterable[Entry]) -> None:
        """Take in entries, in the order of their numbers."""
        before: dict[QuestionKey, Position | None] = {}
        for entry in entries:
            self.active[entry.number] = True
            if isinstance(entry, Withdrawn):
                for number in entry.entries:
                    self._withdraw(number, before)
            elif isinstance(entry, Renewed):
                self.allowances.renew(entry.number)
            else:
                self._cast(entry, before)
        self._advance(before)

    def outcomes(self, entry: Entry) -> tuple[VoteOutcome, ...]:
        """What came of each vote of an entry that was applied."""
        return tuple(self._outcome(question, vote) for question, vote in self._asked(entry) if question.votes)

    def _outcome(self, question: Question, vote: Vote) -> VoteOutcome:
        contrast = self._contrast(question)
        if contrast is None:
            return VoteOutcome("unknown", False)
        if not contrast.doc_terms.size:
            return VoteOutcome("same", False)
        sign = 1 if vote.better == question.key.first else -1
        lead = sign * self.overlay.lead(contrast)
        voters = question.by_voter(self._most_parts)
        net = sign * sum(voters.values())
        if net <= 0:
            return VoteOutcome("outvoted" if net else "cancelled", lead > 0)
        taken = self._taken[question.key]
        if not taken.step.keys.size:
            return VoteOutcome("ahead", lead > 0)
        if taken.share < 1:
            asking = [voter for voter, parts in voters.items() if sign * parts > 0]
            hours = max(self.allowances.hours_to_renew(voter, question.moment) for voter in asking)
            return VoteOutcome("allowance", lead > 0, hours)
        return VoteOutcome("learned" if lead > 0 else "bounded", lead > 0)

    def _asked(self, entry: Entry) -> Iterator[tuple[Question, Vote]]:
        """The votes of an entry, each with its question, a new one where nobody asked it before."""
        if isinstance(entry, (Preferred, Clicked)):
            query = _query_key(self.query_row(entry.query), entry.query)
            for vote in votes_of(entry, self.bounds):
                key = QuestionKey(query, *sorted((vote.better, vote.worse)))
                yield self._questions.get(key) or Question(key, entry.query), vote

    def _cast(self, entry: Entry, before: dict[QuestionKey, Position | None]) -> None:
        if not isinstance(entry, (Preferred, Clicked)):
            return
        voter = Voter.of(entry.client, entry.trust)
        moment = Moment(entry.number, 0.0 if entry.trust is None else seconds_of(entry))
        cast = self._cast_by.setdefault(entry.number, [])
        for i, (question, vote) in enumerate(self._asked(entry)):
            key, position = question.key, Position(entry.number, i)
            self._questions[key] = question
            before.setdefault(key, question.position if question.votes else None)
            parts = vote.parts if vote.better == key.first else -vote.parts
            question.votes[position] = Ballot(voter, parts, moment)
            cast.append((key, position))

    def _withdraw(self, number: int, before: dict[QuestionKey, Position | None]) -> None:
        if not self.active.get(number):
            return  # withdrawn before
        self.active[number] = False
        for key, position in self._cast_by.pop(number, ()):
            question = self._questions[key]
            before.setdefault(key, question.position)
            del question.votes[position]

    def _advance(self, before: dict[QuestionKey, Position | None]) -> None:
        """Go back to the first position that changed, and take the steps from there."""
        positions = [position for position in before.values() if position is not None]
        positions += [self._questions[key].position for key in before if self._questions[key].votes]
        changed = set(before)
        while positions and self.steps and self.steps[-1].position >= min(positions):
            last = self.steps.pop()
            self.overlay.go_back(last.step)
            self.allowances.refund(last.spent_before)
            del self._taken[last.question]
            changed.add(last.question)
        questions = [self._questions[key] for key in changed if self._questions[key].votes]
        questions.sort(key=lambda question: question.position)
        for start in range(0, len(questions), _LOOKED_UP_AT_ONCE):
            portion = questions[start : start + _LOOKED_UP_AT_ONCE]
            self._look_up(portion)
            for question in portion:
                self._take_step(question)
        for key in before:
            if not self._questions[key].votes:
                del self._questions[key]
                self._contrasts.pop(key, None)

    def _take_step(self, question: Question) -> None:
        """One step for what all clients say together; those who asked for it pay for it."""
        voters = question.by_voter(self._most_parts)
        net = sum(voters.values())
        contrast = self._contrast(question)
        if contrast is None or net == 0:
            return
        is_taught = any(voter.trust == "teacher" for voter, parts in voters.items() if (parts > 0) == (net > 0))
        pairs = self.bounds.teacher_pairs if is_taught else self.bounds.pairs
        step = self.overlay.propose(contrast, net / ONE_CLICK, pairs)
        share = 0.0
        spent_before = Charge()
        if step.keys.size:
            asking = {voter: abs(parts) for voter, parts in voters.items() if (parts > 0) == (net > 0) and parts}
            share, spent_before = self.allowances.charge(step.size, asking, question.moment)
        self.overlay.take(step, share)
        taken = TakenStep(question.position, question.key, step, share, spent_before, question.entries)
        self.steps.append(taken)
        self._taken[question.key] = taken

    @property
    def _most_parts(self) -> int:
        """What one voter can say for or against."""
        return int(self.bounds.preference * ONE_CLICK)

    def _contrast(self, question: Question) -> Contrast | None:
        """None where the index has lost a document, or the model knows no word of the query: then there is no step."""
        if question.key not in self._contrasts:
            self._look_up([question])
        return self._contrasts[question.key]

    def _look_up(self, questions: Sequence[Question]) -> None:
        """Have the contrasts of questions at hand, those that are missing worked out together."""
        missing = {question.key: question for question in questions if question.key not in self._contrasts}
        found: dict[QuestionKey, tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array]] = {}
        for key, question in missing.items():
            q = self.query_row(question.query)
            if q.nnz and key.first in self._index and key.second in self._index:
                found[key] = (q, self._index.row(key.first), self._index.row(key.second))
        contrasts: dict[QuestionKey, Contrast] = {}
        if found:
            stacked = (
                sparse.csr_array(sparse.vstack(rows, format="csr")) for rows in zip(*found.values(), strict=True)
            )
            contrasts = dict(zip(found, self.overlay.contrasts(*stacked), strict=True))
        for key in missing:
            self._contrasts[key] = contrasts.get(key)
        for key in list(islice(self._contrasts, max(0, len(self._contrasts) - max(_CONTRASTS_KEPT, len(questions))))):
            del self._contrasts[key]  # the oldest; worked out again should they be needed


def _query_row(model: TextModel, text: str) -> sparse.csr_array:
    return sparse.csr_array(model.queries([text]))


def _query_key(row: sparse.csr_array, text: str) -> bytes:
    """What makes two queries the same: their rows. Queries without a known word are told apart by their texts."""
    if not row.nnz:
        return b"?" + text.encode("utf-8", "surrogatepass")
    return row.indices.astype(np.int32).tobytes() + row.data.astype(np.float32).tobytes()


def text_model(index: BaseIndex) -> TextModel:
    """The model of an index, which must know words."""
    if not isinstance(index.model, TextModel):
        raise InputError("the index has weights without words, and the service takes texts; index with a text model")
    return index.model
