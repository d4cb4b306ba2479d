"""From journal entries to votes: what all active entries together say of two documents for a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tercet.data.clicks import click_preferences
from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Clicked, Entry, Preferred

ONE_CLICK = 1 << 20  # votes are whole numbers of parts, so that contradictory ones cancel to exactly 0


class Position(NamedTuple):
    """Where a vote stands: the number of its entry, and which of the entry's votes it is."""

    number: int
    vote: int


class QuestionKey(NamedTuple):
    """Two documents for a query, ``first`` < ``second``; queries with the same row are the same."""

    query: bytes
    first: str
    second: str


@dataclass(frozen=True)
class Vote:
    """A preference for ``better`` over ``worse`` of so many parts of a click."""

    better: str
    worse: str
    parts: int


def votes_of(entry: Entry, bounds: LearningBounds) -> Iterator[Vote]:
    """The votes an entry casts: a preference counts as `LearningBounds.preference` clicks, a list as its clicks say.

    Examples
    --------
    >>> clicks = Clicked(1, "", "", "eyes", ("a", "b", "c"), ("c",))
    >>> [(vote.better, vote.worse, round(vote.parts / ONE_CLICK, 2)) for vote in votes_of(clicks, LearningBounds())]
    [('c', 'a', 0.61), ('c', 'b', 0.39)]
    """
    if isinstance(entry, Preferred):
        yield Vote(entry.better, entry.worse, int(bounds.preference * ONE_CLICK))
    elif isinstance(entry, Clicked):
        for better, worse, weight in click_preferences(entry.shown, entry.clicked):
            yield Vote(better, worse, int(weight * ONE_CLICK))


@dataclass
class Question:
    """The active votes on two documents for a query, by their positions: (client, parts), above 0 for the first."""

    key: QuestionKey
    query: str
    votes: dict[Position, tuple[str, int]] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        """Where it stands among others: where its last vote does."""
        return max(self.votes)

    def by_client(self, most: int) -> dict[str, int]:
        """What each client says, however often: at most so many parts for or against."""
        sums: dict[str, int] = {}
        for position in sorted(self.votes):
            client, parts = self.votes[position]
            sums[client] = sums.get(client, 0) + parts
        return {client: max(-most, min(most, parts)) for client, parts in sums.items()}

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(sorted({position.number for position in self.votes}))
