"""From journal entries to votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tercet.data.clicks import click_preferences
from tercet.kernels.votes import ONE_CLICK
from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Clicked, Entry, Preferred


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
