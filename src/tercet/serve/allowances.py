"""How much one client, one address and the teacher may change."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Trust

_ADDRESS_SHARE, _VOUCHED_SHARE = 10, 100  # allowances of a client that one address has
_TEACHER = "teacher"  # whoever has the write token, from wherever


class Voter(NamedTuple):
    """Who pays for a step, and from which kind of allowance; None is one for life, as services gave before."""

    client: str
    trust: Trust | None

    @property
    def name(self) -> str:
        """Who says it: the teacher is one, whatever the address."""
        return _TEACHER if self.trust == _TEACHER else self.client


class Moment(NamedTuple):
    """When a step is paid for: the number of the entry that asked for it last, and its time in seconds."""

    number: int
    seconds: float


class Purse(NamedTuple):
    """An allowance: whose it is, and what it holds when it is whole."""

    name: str
    most: float
    renews: bool


class Spent(NamedTuple):
    amount: float
    moment: Moment


Before = tuple[tuple[Purse, Spent | None], ...]


class Allowances:
    """What clients, addresses and the teacher have spent: sizes of changes added up, less what came back since.

    A client pays from its own allowance and from that of its address, so that inventing names gives little. Where
    whoever has the write token vouches for the names, the address has more. The teacher has an allowance of its own.

    Parameters
    ----------
    bounds : what they may spend, and how soon it comes back
    unit : what the bounds are in

    Examples
    --------
    >>> allowances = Allowances(LearningBounds(client=1.0, renewal=24.0), unit=1.0)
    >>> ann = Voter("10.0.0.1/ann", "visitor")
    >>> [allowances.charge(0.5, {ann: 1}, Moment(1, hours * 3600.0))[0] for hours in (0, 0, 6)]
    [1.0, 1.0, 0.5]
    """

    def __init__(self, bounds: LearningBounds, unit: float) -> None:
        self._bounds, self._unit = bounds, unit
        self._spent: dict[Purse, Spent] = {}
        self._renewals: list[int] = []

    def copy(self) -> Allowances:
        """The same amounts, spent on by themselves."""
        other = Allowances(self._bounds, self._unit)
        other._spent, other._renewals = dict(self._spent), list(self._renewals)
        return other

    def renew(self, number: int) -> None:
        """From the entry of this number on, every allowance is whole again."""
        self._renewals.append(number)

    def charge(self, size: float, voters: Mapping[Voter, int], moment: Moment) -> tuple[float, Before]:
        """Which share of a step those who asked for it can afford, and what each had spent before.

        Each pays for its part of the votes; those with none for the step pay nothing.
        """
        votes = sum(voters.values())
        affordable = 0.0
        before: dict[Purse, Spent | None] = {}
        for voter in sorted(voters, key=lambda voter: (voter.client, voter.trust or "")):
            payment = size * (voters[voter] / votes)
            purses = self._purses(voter)
            for purse in purses:
                payment = min(payment, max(0.0, purse.most - self._owed(purse, moment)))
            for purse in purses:
                last = self._spent.get(purse)
                before.setdefault(purse, last)
                # A clock that was set back must not make up for time twice.
                latest = moment if last is None else Moment(moment.number, max(moment.seconds, last.moment.seconds))
                self._spent[purse] = Spent(self._owed(purse, moment) + payment, latest)
            affordable += payment
        return (min(1.0, affordable / size) if size else 0.0), tuple(before.items())

    def refund(self, before: Before) -> None:
        """Undo the last `charge`."""
        for purse, spent in before:
            if spent is None:
                self._spent.pop(purse, None)
            else:
                self._spent[purse] = spent

    def spent(self, voter: Voter, moment: Moment) -> tuple[float, ...]:
        """What is missing in each of the allowances that somebody pays from, its own first."""
        return tuple(self._owed(purse, moment) for purse in self._purses(voter))

    def hours_to_renew(self, voter: Voter, moment: Moment) -> float:
        """After how many hours without a vote all that somebody pays from is whole again; infinite for never."""
        purses = [(purse, self._owed(purse, moment)) for purse in self._purses(voter)]
        if any(owed and not (purse.renews and self._bounds.renewal) for purse, owed in purses):
            return math.inf
        return max((owed / purse.most * self._bounds.renewal for purse, owed in purses if owed), default=0.0)

    def _purses(self, voter: Voter) -> tuple[Purse, ...]:
        if voter.trust == _TEACHER:
            return (Purse(_TEACHER, self._bounds.teacher * self._unit, True),)
        most, renews = self._bounds.client * self._unit, voter.trust is not None
        address_share = _VOUCHED_SHARE if voter.trust == "vouched" else _ADDRESS_SHARE
        # No client is called "*/…", since an address comes first in its name.
        address = "*/" + voter.client.partition("/")[0]
        return Purse(voter.client, most, renews), Purse(address, address_share * most, renews)

    def _owed(self, purse: Purse, moment: Moment) -> float:
        """What was spent of an allowance and has not come back yet."""
        last = self._spent.get(purse)
        if last is None:
            return 0.0
        if bisect_right(self._renewals, last.moment.number) < bisect_right(self._renewals, moment.number):
            return 0.0
        if not (purse.renews and self._bounds.renewal):
            return last.amount
        hours = max(0.0, moment.seconds - last.moment.seconds) / 3600
        return max(0.0, last.amount - purse.most * hours / self._bounds.renewal)
