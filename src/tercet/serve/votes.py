"""From journal entries to votes: what all active entries together say of two documents for a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tercet.data.clicks import click_preferences
from tercet.serve.allowances import Moment, Voter
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


class Ballot(NamedTuple):
    """A vote as a question keeps it: whose it is, its parts, above 0 for the first document, and when it was cast."""

    voter: Voter
    parts: int
    moment: Moment


@dataclass
class Question:
    """The active votes on two documents for a query, by their positions."""

    key: QuestionKey
    query: str
    votes: dict[Position, Ballot] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        """Where it stands among others: where its last vote does."""
        return max(self.votes)

    @property
    def moment(self) -> Moment:
        return self.votes[self.position].moment

    def by_voter(self, most: int) -> dict[Voter, int]:
        """What each voter says, however often: at most so many parts for or against.

        A preference is a voter's last word: what it said before counts no more. That of a teacher stands against all
        others. Votes for which allowances were for life have neither rule, as then.
        """
        sums: dict[str, int] = {}
        voters: dict[str, Voter] = {}
        for position in sorted(self.votes):
            voter, parts, _ = self.votes[position]
            is_last_word = voter.trust is not None and abs(parts) >= most
            sums[voter.name] = parts + (0 if is_last_word else sums.get(voter.name, 0))
            voters[voter.name] = voter
        said = {voters[name]: max(-most, min(most, parts)) for name, parts in sums.items()}
        taught = {voter: parts for voter, parts in said.items() if voter.trust == "teacher" and abs(parts) == most}
        return taught or said

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(sorted({position.number for position in self.votes}))
