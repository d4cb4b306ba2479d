"""The replay: the overlay as a function of the base and of the active entries of the journal.

Active votes on the same two documents for the same query are added up, and each such question whose votes do not
cancel is one step, taken in the order of last votes. An entry that comes later mostly adds a step at the end. One that
changes an earlier question, or takes an entry back, goes back to the first step it changes and takes the later ones
again, so the result has the bits of a replay from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tercet.errors import InputError
from tercet.fitting.model import TextModel
from tercet.search import BaseIndex
from tercet.serve.bounds import Bounds
from tercet.serve.entries import Entry, Withdrawn
from tercet.serve.overlay import Contrast, Overlay, Step
from tercet.serve.votes import Place, Question, votes_of
from tercet.weights.unit import unit_of

_Key = tuple[bytes, str, str]

_CONTRASTS_KEPT = 2048


@dataclass(frozen=True, eq=False)
class Taken:
    """A step in its place, and the entries behind it."""

    place: Place
    question: _Key
    step: Step
    entries: tuple[int, ...]


class Replay:
    """Applies journal entries, in any portions, to an overlay over the model of an index."""

    def __init__(self, index: BaseIndex, bounds: Bounds) -> None:
        self.model = text_model(index)
        self.bounds = bounds
        self.overlay = Overlay(self.model.weights.shape, bounds, unit_of(self.model.weights))
        self.active: dict[int, bool] = {}
        self.taken: list[Taken] = []
        self._index = index
        self._questions: dict[_Key, Question] = {}
        self._contrasts: dict[_Key, Contrast | None] = {}
        self._asked_by: dict[int, list[tuple[_Key, Place]]] = {}

    def prepare(self, entries: Iterable[Entry]) -> None:
        """Look up the documents that entries speak of. Nothing changes, so this can be tried again where it fails."""
        for entry in entries:
            for vote in () if isinstance(entry, Withdrawn) else votes_of(entry, self.bounds):
                first, second = sorted((vote.better, vote.worse))
                key = (self._query_key(vote.query), first, second)
                self._contrast(key, Question(key[0], vote.query, first, second))

    def apply(self, entries: Iterable[Entry]) -> None:
        """Take in entries, in the order of their numbers."""
        places_before: dict[_Key, Place | None] = {}
        for entry in entries:
            self.active[entry.number] = True
            if isinstance(entry, Withdrawn):
                for number in entry.entries:
                    self._withdraw(number, places_before)
            else:
                self._cast(entry, places_before)
        self._advance(places_before)

    def _cast(self, entry: Entry, places_before: dict[_Key, Place | None]) -> None:
        asked = self._asked_by.setdefault(entry.number, [])
        for at, vote in enumerate(votes_of(entry, self.bounds)):
            first, second = sorted((vote.better, vote.worse))
            key = (self._query_key(vote.query), first, second)
            question = self._questions.setdefault(key, Question(key[0], vote.query, first, second))
            places_before.setdefault(key, question.place if question.votes else None)
            place = (entry.number, at)
            question.votes[place] = (entry.client, vote.parts if vote.better == first else -vote.parts)
            asked.append((key, place))

    def _withdraw(self, number: int, places_before: dict[_Key, Place | None]) -> None:
        if not self.active.get(number):
            return  # withdrawn before
        self.active[number] = False
        for key, place in self._asked_by.pop(number, ()):
            question = self._questions[key]
            places_before.setdefault(key, question.place)
            del question.votes[place]

    def _advance(self, places_before: dict[_Key, Place | None]) -> None:
        """Go back to the first place that changed, and take the steps from there."""
        places = [place for place in places_before.values() if place is not None]
        places += [self._questions[key].place for key in places_before if self._questions[key].votes]
        if not places:
            self._forget(places_before)
            return
        changed = set(places_before)
        while self.taken and self.taken[-1].place >= min(places):
            last = self.taken.pop()
            self.overlay.go_back(last.step)
            changed.add(last.question)
        todo = [self._questions[key] for key in changed if self._questions[key].votes]
        for question in sorted(todo, key=lambda each: each.place):
            clients = question.by_client()
            key = (question.query_key, question.first, question.second)
            contrast = self._contrast(key, question)
            if contrast is not None and sum(clients.values()) != 0:
                step = self.overlay.advance(contrast, clients)
                self.taken.append(Taken(question.place, key, step, question.entries))
        self._forget(places_before)

    def _forget(self, keys: Iterable[_Key]) -> None:
        for key in keys:
            if not self._questions[key].votes:
                del self._questions[key]
                self._contrasts.pop(key, None)

    def _contrast(self, key: _Key, question: Question) -> Contrast | None:
        """None where the index has lost a document, or the model knows no word of the query: then there is no step."""
        if key not in self._contrasts:
            if len(self._contrasts) >= _CONTRASTS_KEPT:
                del self._contrasts[next(iter(self._contrasts))]  # worked out again should it be needed
            known = question.first in self._index and question.second in self._index
            q = self.model.queries([question.query])
            self._contrasts[key] = None
            if known and q.nnz:
                first, second = (self._index.row(doc_id) for doc_id in (question.first, question.second))
                weights, unit = self.model.weights, self.overlay.unit
                self._contrasts[key] = Contrast.of(q, first, second, weights, self.bounds, unit)
        return self._contrasts[key]

    def _query_key(self, text: str) -> bytes:
        """What makes two queries the same: their rows. Queries without a known word are told apart by their texts."""
        row = self.model.queries([text])
        if not row.nnz:
            return b"?" + text.encode("utf-8", "surrogatepass")
        return row.indices.astype(np.int32).tobytes() + row.data.astype(np.float32).tobytes()


def text_model(index: BaseIndex) -> TextModel:
    """The model of an index, which must know words."""
    if not isinstance(index.model, TextModel):
        raise InputError("the index has weights without words, and the service takes texts; index with a text model")
    return index.model
