"""How much one client, one address and the teacher may change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError
from tercet.kernels.votes import (
    ALONE,
    CROWD,
    NOBODY,
    ONE_CLICK,
    TEACHER,
    VISITOR,
    VOUCHED,
    Addresses,
    Payers,
    Purses,
    Terms,
    Voters,
    charge,
    owed,
    purses_of,
)
from tercet.serve.bounds import LearningBounds
from tercet.serve.growing_columns import Arrays, GrowingColumns, Numbered
from tercet.serve.journal import Trust
from tercet.serve.networks import household, site
from tercet.store.fields import take_array

_ADDRESS_SHARE, _SITE_SHARE, _VOUCHED_SHARE = 10, 40, 100  # allowances of a client that one address has
_TEACHER = "teacher"  # whoever has the write token, from wherever
_TRUST: dict[Trust | None, int] = {None: NOBODY, "teacher": TEACHER, "visitor": VISITOR, "vouched": VOUCHED}
_TRUSTED = {number: trust for trust, number in _TRUST.items()}


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


class Letters(NamedTuple):
    """Names of clients, one behind the other."""

    letter: NDArray[np.uint8]


class Spent(NamedTuple):
    """All that paying changes: of each purse, what was spent and when; of each address, what it asked for."""

    amount: NDArray[np.float64]
    number: NDArray[np.int64]
    seconds: NDArray[np.float64]
    asked: NDArray[np.int64]
    agreed: NDArray[np.int64]


class Allowances:
    """What clients, addresses and the teacher have spent: sizes of changes added up, less what came back since.

    A client pays from its own allowance and from that of its address, so that inventing names gives little; of IPv6,
    that of its /64 and of its /48, so that having many addresses does not either. Where whoever has the write token
    vouches for the names, the address has more. All others together have one that only a promotion or a bake renews;
    those who mostly agree with nobody elsewhere have another, and pay more for each change. The teacher has one of its
    own. The arithmetic is in ``kernels/votes.py``.

    Parameters
    ----------
    bounds : what they may spend, and how soon it comes back
    unit : what the bounds are in

    Examples
    --------
    >>> allowances = Allowances(LearningBounds(client=1.0, alone=1.0, renewal=24.0), unit=1.0)
    >>> ann = Voter("10.0.0.1/ann", "visitor")
    >>> [allowances.charge(0.5, {ann: 1}, Moment(1, hours * 3600.0)) for hours in (0, 0, 6)]
    [1.0, 1.0, 0.5]
    """

    def __init__(self, bounds: LearningBounds, unit: float) -> None:
        self._bounds, self._unit = bounds, unit
        self.terms = Terms(
            float(bounds.rate),
            int(bounds.preference * ONE_CLICK),
            int(bounds.pairs),
            int(bounds.teacher_pairs),
            float(bounds.step * unit),
            float(bounds.weight * unit),
            float(bounds.renewal),
            float(bounds.alone),
            bool(bounds.crowd),
        )
        whole, real = np.int32, np.float64
        self._voters = GrowingColumns(
            Voters,
            name=whole,
            trust=np.int8,
            address=whole,
            own=whole,
            shared=whole,
            site=whole,
            start=np.int64,
            n=whole,
        )
        self._purses = GrowingColumns(Purses, most=real, renews=np.bool_, amount=real, number=np.int64, seconds=real)
        self._addresses = GrowingColumns(Addresses, place=whole, asked=np.int64, agreed=np.int64)
        self._letters = GrowingColumns(Letters, letter=np.uint8)
        self._names, self._places = Numbered(), Numbered()
        self._renewals = np.zeros(0, np.int64)
        self._voter_numbers: dict[Voter, int] = {}
        self._address_numbers: dict[str, int] = {}
        self._purse_numbers: dict[tuple[str, float, bool], int] = {}
        for _ in (CROWD, ALONE):  # the first two
            self._purses.append(bounds.crowd * unit, False, 0.0, -1, 0.0)

    def copy(self) -> Allowances:
        """The same amounts, spent on by themselves."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (GrowingColumns, Numbered, dict)):
                setattr(other, name, value.copy())
        return other

    @property
    def payers(self) -> Payers:
        """All of them as kernels take them, until somebody is added."""
        letters = self._letters.all.letter
        return Payers(self._voters.all, self._purses.all, self._addresses.all, letters, self._renewals)

    def renew(self, number: int) -> None:
        """From the entry of this number on, every allowance is whole again; it may be said twice."""
        if not self._renewals.size or number > self._renewals[-1]:
            self._renewals = np.append(self._renewals, np.int64(number))

    def charge(self, size: float, voters: Mapping[Voter, int], moment: Moment) -> float:
        """Which share of a step those who asked for it can afford.

        Each pays for its part of the votes; those with none for the step pay nothing.
        """
        asking = np.array([self.number_of(voter) for voter in voters], np.int32)
        parts = np.array(list(voters.values()), np.int64)
        own = np.empty(4, np.int32)
        return float(charge(size, asking, parts, len(parts), *moment, self.payers, self.terms, own))

    def spent(self, voter: Voter, moment: Moment) -> tuple[float, ...]:
        """What is missing in each of the allowances that somebody pays from, its own first."""
        return tuple(self._owed(purse, moment) for purse in self._purses_of(voter))

    def hours_to_renew(self, voter: Voter, moment: Moment) -> float:
        """After how many hours without a vote all that somebody pays from is whole again; infinite for never.

        What all share may be spent in part: whether it is gone is what counts of it.
        """
        hours = 0.0
        for purse in self._purses_of(voter):
            spent, most = self._owed(purse, moment), float(self._purses.all.most[purse])
            if self._purses.all.renews[purse] and self._bounds.renewal:
                hours = max(hours, spent / most * self._bounds.renewal)
            elif spent and (purse not in (CROWD, ALONE) or spent >= most * (1 - 1e-9)):
                return math.inf
        return hours

    def _purses_of(self, voter: Voter) -> list[int]:
        purses = np.empty(4, np.int32)
        n = purses_of(self.payers, self.number_of(voter), self.terms.has_crowd, purses)
        numbers: list[int] = purses[:n].tolist()
        return numbers

    def _owed(self, purse: int, moment: Moment) -> float:
        return float(owed(self._purses.all, purse, self._renewals, self.terms.renewal, *moment))

    # -- who there is -------------------------------------------------------------------------------------------

    def number_of(self, voter: Voter) -> int:
        """By which kernels know somebody."""
        number = self._voter_numbers.get(voter)
        if number is None:
            letters = np.frombuffer(spelled(voter.client), np.uint8)
            start = self._letters.extend(letters)
            name, address = self._names.number(spelled(voter.name)), self._address_number(voter.address)
            row = (name, _TRUST[voter.trust], address, *self._own_purses(voter), start, letters.size)
            number = self._voter_numbers[voter] = self._voters.append(*row)
        return number

    def voter(self, number: int) -> Voter:
        start, n = self._voters.all.start[number], self._voters.all.n[number]
        client = self._letters.all.letter[start : start + n].tobytes().decode("utf-8", "surrogatepass")
        return Voter(client, _TRUSTED[int(self._voters.all.trust[number])])

    def _own_purses(self, voter: Voter) -> tuple[int, int, int]:
        if voter.trust == _TEACHER:
            return self._purse(_TEACHER, self._bounds.teacher * self._unit, True), -1, -1
        most, renews = self._bounds.client * self._unit, voter.trust is not None
        address_share = _VOUCHED_SHARE if voter.trust == "vouched" else _ADDRESS_SHARE
        own = self._purse(voter.client, most, renews)
        # No client is called "*/…", since an address comes first in its name.
        shared = self._purse(f"*/{voter.address}", address_share * most, renews)
        own_site = site(voter.address) if voter.trust == "visitor" else None
        of_site = -1 if own_site is None else self._purse(f"*/{own_site}/48", _SITE_SHARE * most, renews)
        return own, shared, of_site

    def _purse(self, name: str, most: float, renews: bool) -> int:
        number = self._purse_numbers.get((name, most, renews))
        if number is None:
            number = self._purse_numbers[name, most, renews] = self._purses.append(most, renews, 0.0, -1, 0.0)
        return number

    def _address_number(self, address: str) -> int:
        number = self._address_numbers.get(address)
        if number is None:
            place = self._places.number(spelled(site(address) or address))
            number = self._address_numbers[address] = self._addresses.append(place, 0, 0)
        return number

    # -- going back, and saving ---------------------------------------------------------------------------------

    def to_spent(self) -> Spent:
        purses, addresses = self._purses, self._addresses
        columns = [purses.column(name) for name in ("amount", "number", "seconds")]
        columns += [addresses.column(name) for name in ("asked", "agreed")]
        return Spent(*(column.copy() for column in columns))

    def restore(self, spent: Spent | None) -> None:
        """Be where `to_spent` was; whoever came since has spent nothing. None is before the first step."""
        nothing = {"number": -1}
        for name in Spent._fields:
            column = (self._addresses if name in ("asked", "agreed") else self._purses).column(name)
            column[:] = nothing.get(name, 0)
            if spent is not None:
                saved = getattr(spent, name)
                column[: len(saved)] = saved

    @contextmanager
    def having(self, spent: Spent) -> Iterator[None]:
        """Be where `to_spent` was for the time of a block; afterwards, where it is now."""
        now = self.to_spent()
        self.restore(spent)
        try:
            yield
        finally:
            self.restore(now)

    @property
    def n_voters(self) -> int:
        return len(self._voters)

    def fits(self, spent: Spent) -> bool:
        """Whether `restore` can take what was read from a file."""
        n_purses, n_addresses = {array.size for array in spent[:3]}, {array.size for array in spent[3:]}
        lengths = len(n_purses) == len(n_addresses) == 1
        return lengths and n_purses.pop() <= len(self._purses) and n_addresses.pop() <= len(self._addresses)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Who there is; `add` has them again, with the same numbers."""
        return {
            "voters.letters": self._letters.column("letter"),
            "voters.n": self._voters.column("n"),
            "voters.trust": self._voters.column("trust"),
            "renewals": self._renewals,
        }

    def add(self, arrays: Arrays) -> None:
        """Have the voters of `arrays`, in their order, and the renewals."""
        letters = take_array(arrays, "voters.letters", np.uint8, 1, where="snapshot").tobytes()
        lengths = take_array(arrays, "voters.n", np.int32, 1, where="snapshot")
        trusts = take_array(arrays, "voters.trust", np.int8, (len(lengths),), where="snapshot").tolist()
        start = 0
        try:
            for n, trust in zip(lengths.tolist(), trusts, strict=True):
                self.number_of(Voter(letters[start : start + n].decode("utf-8", "surrogatepass"), _TRUSTED[trust]))
                start += n
        except (UnicodeDecodeError, KeyError) as error:
            raise DamagedBundleError(f"snapshot: voters cannot be read: {error!r}") from error
        if start != len(letters) or len(self._voters) != len(lengths):
            raise DamagedBundleError("snapshot: voters have other letters than they say")
        self._renewals = np.array(take_array(arrays, "renewals", np.int64, 1, where="snapshot"))


def spelled(text: str) -> bytes:
    """A text as it is compared and kept; half a surrogate pair, which a journal may have, is kept, too."""
    return text.encode("utf-8", "surrogatepass")
