"""From journal entries to votes: what all active entries together say of two documents for a query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tercet.serve.bounds import Bounds
from tercet.serve.entries import Clicked, Entry, Preferred

ONE_VOTE = 1 << 20  # votes are whole numbers, so that contradictory ones cancel to exactly 0

Place = tuple[int, int]  # the number of an entry, and which of its preferences


@dataclass(frozen=True)
class Vote:
    """A preference for ``better`` over ``worse`` of so many parts of a vote."""

    query: str
    better: str
    worse: str
    parts: int


def votes_of(entry: Entry, bounds: Bounds) -> Iterator[Vote]:
    """The votes an entry casts.

    A preference is one whole vote. In a list with clicks, each clicked document is preferred over each one above it
    that was not clicked. People look from the top down, and the chance that they looked at rank r is taken as
    1 / log2(1 + r); a document that was passed over counts for that much, times `Bounds.click`. If all votes of a list
    came to more than one, they are scaled down to one.

    Examples
    --------
    >>> clicks = Clicked(1, "", "", "eyes", ("a", "b", "c"), ("c",))
    >>> [(vote.better, vote.worse, round(vote.parts / ONE_VOTE, 2)) for vote in votes_of(clicks, Bounds())]
    [('c', 'a', 0.5), ('c', 'b', 0.32)]
    """
    if isinstance(entry, Preferred):
        yield Vote(entry.query, entry.better, entry.worse, ONE_VOTE)
    elif isinstance(entry, Clicked):
        yield from _votes_of_clicks(entry.query, entry.shown, entry.clicked, bounds)


def _votes_of_clicks(query: str, shown: Sequence[str], clicked: Iterable[str], bounds: Bounds) -> Iterator[Vote]:
    chosen = set(clicked)
    found: list[tuple[float, str, str]] = []
    for place, better in enumerate(shown):
        if better in chosen:
            found += [
                (bounds.click / math.log2(2 + above), better, worse)
                for above, worse in enumerate(shown[:place])
                if worse not in chosen
            ]
    found.sort(key=lambda each: -each[0])  # stable, so equal ones stay in the order of the list
    found = found[: bounds.click_pairs]
    total = max(1.0, math.fsum(each[0] for each in found))
    for weight, better, worse in found:
        yield Vote(query, better, worse, int(weight / total * ONE_VOTE))


@dataclass
class Question:
    """Two documents for a query, ``first`` < ``second``, and the active votes on them by their places.

    A vote is (client, parts), parts above 0 for ``first``.
    """

    query_key: bytes
    query: str
    first: str
    second: str
    votes: dict[Place, tuple[str, int]] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where it stands among others: where its last vote does."""
        return max(self.votes)

    def by_client(self) -> dict[str, int]:
        """What each client says, however often: at most one vote for or against."""
        sums: dict[str, int] = {}
        for place in sorted(self.votes):
            client, parts = self.votes[place]
            sums[client] = sums.get(client, 0) + parts
        return {client: max(-ONE_VOTE, min(ONE_VOTE, parts)) for client, parts in sums.items()}

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(sorted({number for number, _ in self.votes}))
