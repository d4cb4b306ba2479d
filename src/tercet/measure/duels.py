"""Duels of contenders in an impressions log: the contenders of each list, the counted lists, and the leader.

A client counts once in a duel, by the lists of the first visit, after the clicks of the visit are settled. Later visits
do not count, because the taste of a client persists. If clients prefer neither contender on average, each score has
the mean 0 given all earlier scores, as the test of `Duel` requires.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tercet.data.ubi import CLICK_SECONDS, INTERLEAVED, GrowingUbi, LoggedList
from tercet.errors import InputError
from tercet.measure.interleaving import TEAMS, Duel, Team, credit

ATTRIBUTE: Final = INTERLEAVED
VISIT: Final = 3  # length of a visit, as a multiple of the settling time of a list

LeftOut = Literal["later", "broken"]


class Contest(NamedTuple):
    """Contenders of a duel; lists with the same contest belong to the same duel.

    Attributes
    ----------
    first, second : labels of the served model and of its rival
    promotion : number of the promotion of the served model, 0 without a promotion. A promotion begins a new duel
    """

    first: str
    second: str
    promotion: int = 0


@dataclass(frozen=True)
class Assignment:
    """Teams of the documents of a list, as stored in the log.

    Attributes
    ----------
    contest : contenders of the list
    teams : team of each shown document, or None
    """

    contest: Contest
    teams: tuple[Team | None, ...] = ()

    def credit(self, clicked: list[bool]) -> int:
        """Winner by clicks: 1 the first, -1 the second, 0 neither."""
        return credit(self.teams, clicked)

    def to_meta(self) -> dict[str, Any]:
        """Return the assignment as JSON values.

        Examples
        --------
        >>> Assignment(Contest("a1", "baseline"), (None, "second")).to_meta()
        {'contenders': ['a1', 'baseline'], 'method': 'team-draft', 'promotion': 0, 'teams': [0, 2]}
        """
        first, second, promotion = self.contest
        teams = [0 if team is None else TEAMS.index(team) + 1 for team in self.teams]
        return {"contenders": [first, second], "method": "team-draft", "promotion": promotion, "teams": teams}

    @classmethod
    def from_meta(cls, meta: Any, n_shown: int) -> Assignment:
        """Read the assignment of a list of ``n_shown`` documents; raise an InputError if malformed."""
        try:
            first, second = meta["contenders"]
            promotion = meta.get("promotion", 0)
            teams = tuple((None, *TEAMS)[int(team)] for team in meta["teams"])
            valid = all(isinstance(name, str) for name in (first, second)) and len(teams) == n_shown
            valid = valid and isinstance(promotion, int)
        except (TypeError, KeyError, ValueError, IndexError, AttributeError) as error:
            raise InputError(f"{ATTRIBUTE!r} of a list is {meta!r:.200}, which does not say whose it is") from error
        if not valid:
            raise InputError(f"{ATTRIBUTE!r} of a list is {meta!r:.200}, which does not say whose it is")
        return cls(Contest(first, second, promotion), teams)


@dataclass
class _Visit:
    """First visit of a client, while lists may be added."""

    began: float
    wins: int = 0
    losses: int = 0

    @property
    def score(self) -> float:
        n_decided = self.wins + self.losses
        return (self.wins - self.losses) / n_decided if n_decided else 0.0


@dataclass
class RunningDuel:
    """State of a duel.

    Attributes
    ----------
    began, ended : times of the first and the last counted list, in seconds since 1970
    n_lists : number of counted lists
    scores : number of clients by final score
    """

    began: float
    ended: float = 0.0
    n_lists: int = 0
    scores: Counter[float] = field(default_factory=Counter)
    _visits: dict[str, _Visit] = field(default_factory=dict)  # open visits, in the order of time
    _clients: set[str] = field(default_factory=set)

    @property
    def n_open(self) -> int:
        """Number of clients with an open visit."""
        return len(self._visits)

    def take(self, client: str, shown_at: float, outcome: int, visit_seconds: float) -> bool:
        """Count a list; False if the first visit of the client is over."""
        if client not in self._clients:
            self._clients.add(client)
            self._visits[client] = _Visit(shown_at)
        visit = self._visits.get(client)
        if visit is None or shown_at > visit.began + visit_seconds:
            return False
        visit.wins += outcome > 0
        visit.losses += outcome < 0
        self.n_lists, self.ended = self.n_lists + 1, shown_at
        return True

    def close(self, until: float) -> None:
        """Close the visits begun until a time, with final scores."""
        for client, visit in list(self._visits.items()):
            if visit.began > until:
                break
            self.scores[visit.score] += 1
            del self._visits[client]


class Tally:
    """Scores of clients from settled lists, in the order of time.

    The lists of a client's first visit to a duel count.

    Parameters
    ----------
    settle_seconds : seconds until a list is settled; a visit is three times as long

    Attributes
    ----------
    n_lists, n_shared : number of settled lists, and of settled lists made of two rankings
    waits : True if lists wait for their clicks
    running : duels by contest, in the order of time
    left_out : number of lists left out, by reason
    """

    def __init__(self, settle_seconds: float = CLICK_SECONDS) -> None:
        self.settle_seconds = settle_seconds
        self.n_lists, self.n_shared, self.waits = 0, 0, False
        self.running: dict[Contest, RunningDuel] = {}
        self.left_out: Counter[LeftOut] = Counter()

    def duel(self, contest: Contest | None) -> Duel:
        """Return the standing of a contest."""
        running = None if contest is None else self.running.get(contest)
        return Duel({} if running is None else dict(running.scores))

    def take(self, impression: LoggedList) -> None:
        """Count a settled list, or the reason to leave the list out."""
        meta = impression.attributes.get(ATTRIBUTE)
        self.n_lists += 1
        if meta is None:
            return
        self.n_shared += 1
        try:
            assignment = Assignment.from_meta(meta, len(impression.shown))
        except InputError:
            self.left_out["broken"] += 1
            return
        running = self.running.setdefault(assignment.contest, RunningDuel(impression.shown_at))
        clicked = set(impression.clicked)
        outcome = assignment.credit([doc_id in clicked for doc_id in impression.shown])
        if not running.take(impression.client, impression.shown_at, outcome, VISIT * self.settle_seconds):
            self.left_out["later"] += 1

    def close(self, now: float) -> None:
        """Close the visits whose lists are all settled at a time in seconds since 1970."""
        for running in self.running.values():
            running.close(now - (VISIT + 1) * self.settle_seconds)


def read_duels(
    folder: str | PathLike[str],
    since: float = 0.0,
    settle_seconds: float = CLICK_SECONDS,
    clock: Callable[[], float] = time.time,
) -> Tally:
    """Read the duels of an impressions log, also of a running service.

    Parameters
    ----------
    folder : folder of the impressions log
    since : seconds since 1970; lists shown before do not count
    settle_seconds : seconds until a list is settled; later clicks do not count
    clock : gives seconds since 1970

    Notes
    -----
    O(lists of the log) time; memory for the names of all clients.
    """
    tally = Tally(settle_seconds)
    now = clock()  # before reading, so that closed visits are complete
    with GrowingUbi(Path(folder), clock, settle_seconds) as log:
        for impression in log.lists():
            if impression.shown_at >= since:
                tally.take(impression)
        tally.waits = log.waits
    tally.close(now)
    return tally
