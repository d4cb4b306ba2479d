"""Duels of contenders in an impressions log: which list was whose, which lists count, and who is ahead.

A list counts once, when its clicks are settled, and whether it does is known by then from what came before and from how
much was clicked, never from whose documents these were. So under no difference each list that counts is a fair coin
flip, also given all before it, which is what the test of `Duel` takes for granted.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.data.click_sessions import SessionCounts
from tercet.data.ubi import CLICK_SECONDS, INTERLEAVED, GrowingUbi, LoggedList
from tercet.errors import InputError
from tercet.measure.interleaving import TEAMS, Duel, Team, credit

ATTRIBUTE: Final = INTERLEAVED
CLIENT_LISTS, ADDRESS_LISTS = 20, 200  # that count on a day

LeftOut = Literal["repeated", "client", "address", "odd", "broken"]


class Contest(NamedTuple):
    """Who is compared: lists with the same contest are one duel.

    Attributes
    ----------
    first, second : labels: what was served, and what it was compared with
    promotion : number of the promotion that what was served came by, 0 where there was none. A duel begins anew with it
    """

    first: str
    second: str
    promotion: int = 0


@dataclass(frozen=True)
class Assignment:
    """Whose the documents of a list were, as the log keeps it.

    Attributes
    ----------
    contest : who is compared
    teams : whose each document shown is; None is nobody's
    address : what an address is called where nobody vouches for the names that come from it
    """

    contest: Contest
    teams: tuple[Team | None, ...] = ()
    address: str | None = None

    def credit(self, clicked: list[bool]) -> int:
        """Who wins by these clicks: 1 the first, -1 the second, 0 neither."""
        return credit(self.teams, clicked)

    def to_meta(self) -> dict[str, Any]:
        """As JSON has it.

        Examples
        --------
        >>> Assignment(Contest("a1", "baseline"), (None, "second")).to_meta()
        {'contenders': ['a1', 'baseline'], 'method': 'team-draft', 'promotion': 0, 'teams': [0, 2]}
        """
        first, second, promotion = self.contest
        teams = [0 if team is None else TEAMS.index(team) + 1 for team in self.teams]
        summary: dict[str, Any] = {"contenders": [first, second], "method": "team-draft"}
        summary |= {"promotion": promotion, "teams": teams}
        return summary if self.address is None else summary | {"address_id": self.address}

    @classmethod
    def from_meta(cls, meta: Any, n_shown: int) -> Assignment:
        """What a log says of a list of so many documents; raises an InputError where that is no assignment."""
        try:
            first, second = meta["contenders"]
            promotion, address = meta.get("promotion", 0), meta.get("address_id")
            teams = tuple((None, *TEAMS)[int(team)] for team in meta["teams"])
            valid = all(isinstance(name, str) for name in (first, second)) and len(teams) == n_shown
            valid = valid and isinstance(promotion, int) and isinstance(address, str | None)
        except (TypeError, KeyError, ValueError, IndexError, AttributeError) as error:
            raise InputError(f"{ATTRIBUTE!r} of a list is {meta!r:.200}, which does not say whose it is") from error
        if not valid:
            raise InputError(f"{ATTRIBUTE!r} of a list is {meta!r:.200}, which does not say whose it is")
        return cls(Contest(first, second, promotion), teams, address)


@dataclass
class RunningDuel:
    """Where a duel stands.

    Attributes
    ----------
    wins, losses, ties : lists that the first won, lost, and those that nobody won
    by_client : wins less losses, of each client
    level : the chance of a wrong winner, whenever one looks
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0
    by_client: dict[str, list[int]] = field(default_factory=dict)
    level: float = 0.05

    def take(self, client: str, outcome: int) -> None:
        """Count a list."""
        self.wins += outcome > 0
        self.losses += outcome < 0
        self.ties += outcome == 0
        if outcome:
            counts = self.by_client.setdefault(client, [0, 0])
            counts[outcome < 0] += 1

    @property
    def duel(self) -> Duel:
        """All that counts."""
        return Duel(self.wins, self.losses, self.ties, self.level)

    @property
    def without_one(self) -> Duel:
        """The same without the client that did most for whoever is ahead."""
        side = 1 if self.wins >= self.losses else -1
        wins, losses = max(
            self.by_client.values(), key=lambda own: (side * (own[0] - own[1]), -sum(own)), default=(0, 0)
        )
        return Duel(self.wins - wins, self.losses - losses, self.ties, self.level)

    @property
    def winner(self) -> Team | None:
        """Who is better, where that is decided, and would be without any one client; None where it is open."""
        winner = self.duel.winner
        return winner if winner is not None and self.without_one.winner == winner else None

    @property
    def n_to_go(self) -> int | None:
        """How many more lists a decision takes if they go on as so far; None where nobody leads without one client."""
        if self.winner is not None:
            return 0
        without = self.without_one
        lead = (self.wins - self.losses) * (without.wins - without.losses)
        to_go = without.n_to_go if lead > 0 else None
        return to_go if to_go is None else max(1, to_go)

    def to_meta(self) -> dict[str, Any]:
        """As JSON has it."""
        duel = self.duel
        low, high = duel.interval
        return {
            "wins": duel.wins,
            "losses": duel.losses,
            "ties": duel.ties,
            "share": duel.share,
            "low": low,
            "high": high,
            "p_value": duel.p_value,
            "level": duel.level,
            "winner": self.winner,
            "to_go": self.n_to_go,
        }


@dataclass
class _Day:
    """What was shown to whom on a day."""

    day: date
    asked: set[tuple[Contest, str, str]] = field(default_factory=set)
    by_client: Counter[str] = field(default_factory=Counter)
    by_address: Counter[str] = field(default_factory=Counter)
    counts: SessionCounts = field(default_factory=SessionCounts)


class Tally:
    """Takes settled lists in the order in which they were shown, and counts those that count.

    Of the lists of one client and query on a day, the first of a contest counts. Of a client count 20 lists a day, of
    an address 200 where nobody vouches for the names it sends. From where on a client is odd by `oddness`, since it
    clicks everything or comes too often, none counts for the rest of that day.

    Attributes
    ----------
    standings : of each contest
    left_out : why lists were left out, and how many
    """

    def __init__(self, level: float = 0.05) -> None:
        self.level = level
        self.standings: defaultdict[Contest, RunningDuel] = defaultdict(lambda: RunningDuel(level=level))
        self.left_out: Counter[LeftOut] = Counter()
        self._days: list[_Day] = []

    def take(self, shown: LoggedList) -> tuple[Contest, int] | None:
        """Count a list: its contest and who won, or None where it does not count."""
        day = self._day(shown.shown_at)
        odd = day.counts.note(shown.client, len(shown.shown), len(shown.clicked))
        meta = shown.attributes.get(ATTRIBUTE)
        if meta is None:
            return None
        try:
            assignment = Assignment.from_meta(meta, len(shown.shown))
        except InputError:
            self.left_out["broken"] += 1
            return None
        why = self._left_out(day, shown, assignment, odd)
        if why is not None:
            self.left_out[why] += 1
            return None
        clicked = set(shown.clicked)
        outcome = assignment.credit([doc_id in clicked for doc_id in shown.shown])
        self.standings[assignment.contest].take(shown.client, outcome)
        return assignment.contest, outcome

    def _left_out(self, day: _Day, shown: LoggedList, assignment: Assignment, odd: bool) -> LeftOut | None:
        asked = assignment.contest, shown.client, shown.query
        if asked in day.asked:
            return "repeated"
        is_spent = day.by_client[shown.client] >= CLIENT_LISTS
        if not is_spent:  # else no list of this client counts any more, and what it asks all day need not be kept
            day.asked.add(asked)
        if odd:
            return "odd"
        if is_spent:
            return "client"
        address = assignment.address
        if address is not None and day.by_address[address] >= ADDRESS_LISTS:
            return "address"
        day.by_client[shown.client] += 1
        if address is not None:
            day.by_address[address] += 1
        return None

    def _day(self, shown_at: float) -> _Day:
        """The day of a list; the one before is kept, since lines of two threads may come in either order."""
        wanted = datetime.fromtimestamp(shown_at, UTC).date()
        for day in self._days:
            if day.day == wanted:
                return day
        self._days = [*self._days[-1:], _Day(wanted)]
        return self._days[-1]


@dataclass(frozen=True)
class DuelCourse:
    """A duel from its first list to its last.

    Attributes
    ----------
    duel : where it stands
    outcomes : of the lists that count, in order: 1 the first won, -1 the second, 0 nobody
    began, ended : when the first and the last of them were shown, in seconds since 1970
    """

    duel: RunningDuel
    outcomes: NDArray[np.int8]
    began: float
    ended: float


@dataclass(frozen=True)
class DuelReport:
    """What a log says of those who were compared in it.

    Attributes
    ----------
    n_lists, n_shared : lists that are settled, and those of them that were made of two rankings
    left_out : why some of these do not count, and how many
    waits : whether there are lists that wait for their clicks
    courses : duels by contest, in the order in which they began
    """

    n_lists: int
    n_shared: int
    left_out: Mapping[LeftOut, int]
    waits: bool
    courses: Mapping[Contest, DuelCourse]


def read_duels(
    folder: str | PathLike[str],
    since: float = 0.0,
    settle_seconds: float = CLICK_SECONDS,
    level: float = 0.05,
    clock: Callable[[], float] = time.time,
) -> DuelReport:
    """The duels of an impressions log; only reads it, also while it is written.

    Parameters
    ----------
    folder : of the impressions log, as the service writes it
    since : seconds since 1970; lists shown before do not count
    settle_seconds : after which a list counts, with the clicks that came until then
    level : the chance of a wrong winner, whenever one looks
    clock : gives seconds since 1970

    Notes
    -----
    O(lists of the log); in memory are the clients of two days, the outcomes, and who won how often for each client.
    """
    tally = Tally(level)
    n_lists = n_shared = 0
    outcomes: dict[Contest, bytearray] = {}
    times: dict[Contest, tuple[float, float]] = {}
    with GrowingUbi(Path(folder), clock, settle_seconds) as log:
        for shown in log.lists():
            if shown.shown_at < since:
                continue
            n_lists += 1
            n_shared += ATTRIBUTE in shown.attributes
            counted = tally.take(shown)
            if counted is not None:
                contest, outcome = counted
                outcomes.setdefault(contest, bytearray()).append(outcome % 256)
                times[contest] = times.get(contest, (shown.shown_at, 0.0))[0], shown.shown_at
        waits = log.waits
    courses = {
        contest: DuelCourse(tally.standings[contest], np.frombuffer(course, np.int8), *times[contest])
        for contest, course in outcomes.items()
    }
    return DuelReport(n_lists, n_shared, dict(tally.left_out), waits, courses)
