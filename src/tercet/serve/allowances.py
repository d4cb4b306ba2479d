"""How much one client, one address and the teacher may change."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Trust
from tercet.serve.networks import household, site

_ADDRESS_SHARE, _SITE_SHARE, _VOUCHED_SHARE = 10, 40, 100  # allowances of a client that one address has
_CROWD, _ALONE = "*", "*alone"  # all for whom nobody vouches, by whether they agree with others
_TEACHER = "teacher"  # whoever has the write token, from wherever


class Voter(NamedTuple):
    """Who pays for a step, and from which kind of allowance; None is one for life, as services gave before."""

    client: str
    trust: Trust | None

    @classmethod
    def of(cls, client: str, trust: Trust | None) -> Voter:
        """A client as journals have it: of IPv6 addresses, those of a /64 are one."""
        if trust is None:
            return cls(client, None)
        address, slash, name = client.partition("/")
        return cls(household(address) + slash + name, trust)

    @property
    def address(self) -> str:
        return self.client.partition("/")[0]

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


class Charge(NamedTuple):
    """What a charge changed: what was spent of each purse before; who asked, and who of them was found to agree."""

    purses: tuple[tuple[Purse, Spent | None], ...] = ()
    asked: tuple[str, ...] = ()
    agreed: tuple[str, ...] = ()


class Allowances:
    """What clients, addresses and the teacher have spent: sizes of changes added up, less what came back since.

    A client pays from its own allowance and from that of its address, so that inventing names gives little; of IPv6,
    that of its /64 and of its /48, so that having many addresses does not either. Where whoever has the write token
    vouches for the names, the address has more. All others together have one that only a promotion or a bake renews;
    those who mostly agree with nobody elsewhere have another, and pay more for each change. The teacher has one of its
    own.

    Parameters
    ----------
    bounds : what they may spend, and how soon it comes back
    unit : what the bounds are in

    Examples
    --------
    >>> allowances = Allowances(LearningBounds(client=1.0, alone=1.0, renewal=24.0), unit=1.0)
    >>> ann = Voter("10.0.0.1/ann", "visitor")
    >>> [allowances.charge(0.5, {ann: 1}, Moment(1, hours * 3600.0))[0] for hours in (0, 0, 6)]
    [1.0, 1.0, 0.5]
    """

    def __init__(self, bounds: LearningBounds, unit: float) -> None:
        self._bounds, self._unit = bounds, unit
        self._spent: dict[Purse, Spent] = {}
        self._renewals: list[int] = []
        self._asked: Counter[str] = Counter()  # steps that an address asked for
        self._agreed: Counter[str] = Counter()  # and those of them that another one asked for, too

    def copy(self) -> Allowances:
        """The same amounts, spent on by themselves."""
        other = Allowances(self._bounds, self._unit)
        other._spent, other._renewals = dict(self._spent), list(self._renewals)
        other._asked, other._agreed = self._asked.copy(), self._agreed.copy()
        return other

    def renew(self, number: int) -> None:
        """From the entry of this number on, every allowance is whole again."""
        self._renewals.append(number)

    def charge(self, size: float, voters: Mapping[Voter, int], moment: Moment) -> tuple[float, Charge]:
        """Which share of a step those who asked for it can afford, and what each had spent before.

        Each pays for its part of the votes; those with none for the step pay nothing.
        """
        votes = sum(voters.values())
        affordable = 0.0
        asked = tuple(sorted({voter.address for voter in voters if voter.trust is not None}))
        agreed = asked if len({site(address) or address for address in asked}) > 1 else ()
        self._asked.update(asked)
        self._agreed.update(agreed)
        before: dict[Purse, Spent | None] = {}
        for voter in sorted(voters, key=lambda voter: (voter.client, voter.trust or "")):
            payment = size * (voters[voter] / votes)
            purses, price = self._purses(voter), self._price(voter)
            for purse in purses:
                payment = min(payment, max(0.0, purse.most - self._owed(purse, moment)) / price)
            for purse in purses:
                last = self._spent.get(purse)
                before.setdefault(purse, last)
                # A clock that was set back must not make up for time twice.
                latest = moment if last is None else Moment(moment.number, max(moment.seconds, last.moment.seconds))
                self._spent[purse] = Spent(self._owed(purse, moment) + payment * price, latest)
            affordable += payment
        return (min(1.0, affordable / size) if size else 0.0), Charge(tuple(before.items()), asked, agreed)

    def refund(self, before: Charge) -> None:
        """Undo the last `charge`."""
        self._asked.subtract(before.asked)
        self._agreed.subtract(before.agreed)
        for purse, spent in before.purses:
            if spent is None:
                self._spent.pop(purse, None)
            else:
                self._spent[purse] = spent

    def spent(self, voter: Voter, moment: Moment) -> tuple[float, ...]:
        """What is missing in each of the allowances that somebody pays from, its own first."""
        return tuple(self._owed(purse, moment) for purse in self._purses(voter))

    def hours_to_renew(self, voter: Voter, moment: Moment) -> float:
        """After how many hours without a vote all that somebody pays from is whole again; infinite for never.

        What all share may be spent in part: whether it is gone is what counts of it.
        """
        hours = 0.0
        for purse in self._purses(voter):
            owed = self._owed(purse, moment)
            if purse.renews and self._bounds.renewal:
                hours = max(hours, owed / purse.most * self._bounds.renewal)
            elif owed and (purse.name not in (_CROWD, _ALONE) or owed >= purse.most * (1 - 1e-9)):
                return math.inf
        return hours

    def _purses(self, voter: Voter) -> tuple[Purse, ...]:
        if voter.trust == _TEACHER:
            return (Purse(_TEACHER, self._bounds.teacher * self._unit, True),)
        most, renews = self._bounds.client * self._unit, voter.trust is not None
        address_share = _VOUCHED_SHARE if voter.trust == "vouched" else _ADDRESS_SHARE
        # No client is called "*/…", since an address comes first in its name.
        purses = [Purse(voter.client, most, renews), Purse(f"*/{voter.address}", address_share * most, renews)]
        if voter.trust == "visitor":
            if (own_site := site(voter.address)) is not None:
                purses.append(Purse(f"*/{own_site}/48", _SITE_SHARE * most, renews))
            if self._bounds.crowd:
                crowd = _ALONE if self._is_alone(voter) else _CROWD
                purses.append(Purse(crowd, self._bounds.crowd * self._unit, False))
        return tuple(purses)

    def _price(self, voter: Voter) -> float:
        return max(1.0, self._bounds.alone) if self._is_alone(voter) else 1.0

    def _is_alone(self, voter: Voter) -> bool:
        """Whether a visitor agrees with nobody of another place in most of what it asks for; a /48 is one place."""
        asked, agreed = self._asked.get(voter.address, 0), self._agreed.get(voter.address, 0)
        return voter.trust == "visitor" and 2 * agreed < max(1, asked)

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
