"""Two rankings in one list, and who wins by clicks: as soon as it is sure, however often one looks.

Both rankings make the list that is shown (team draft, Radlinski et al. 2008), so that the same person compares them
under the same conditions. A list that is clicked more for one ranking is a win of it. Under no difference wins and
losses are fair coin flips, and the test is a mixture over all other coins (Robbins 1970): it holds at every time at
once, so that stopping when it is decided is no cheating.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import betaln, xlogy

from tercet.errors import InputError

Doc = TypeVar("Doc", bound=Hashable)
Team = Literal["first", "second"]
TEAMS: Final[tuple[Team, Team]] = ("first", "second")
# Parameters of the Beta distribution that coins are mixed by. Larger ones look for small differences, and decide later
# on large ones; with 10 and 10 about two thirds of its coins are between .4 and .6.
_MIXED_BY: Final = 10.0
_MOST_LISTS: Final = 10**9

# -- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interleaved(Generic[Doc]):
    """A list made of two rankings.

    Attributes
    ----------
    docs : what is shown, in order
    teams : whose each of them is; the team of a document is who gets its click. None where both rankings begin alike:
        who is clicked there says nothing

    Examples
    --------
    >>> Interleaved(("a", "b", "c"), (None, "first", "second")).credit({"c"})  # a win of the second
    -1
    """

    docs: tuple[Doc, ...]
    teams: tuple[Team | None, ...]

    def credit(self, clicked: Collection[Doc]) -> int:
        """1 where the first ranking has more clicks, -1 where the second has, 0 where they have as many.

        Examples
        --------
        >>> Interleaved(("a", "b", "c"), ("first", "second", "first")).credit({"a", "c"})
        1
        """
        return credit(self.teams, [doc in clicked for doc in self.docs])


def credit(teams: Sequence[Team | None], clicked: Sequence[bool]) -> int:
    """Who of two teams has more clicks: 1 the first, -1 the second, 0 neither."""
    clicks = [sum(click for team, click in zip(teams, clicked, strict=True) if team == one) for one in TEAMS]
    return int(np.sign(clicks[0] - clicks[1]))


def team_draft(
    first: Sequence[Doc], second: Sequence[Doc], k: int, random_state: np.random.Generator
) -> Interleaved[Doc]:
    """Two rankings take turns to add their best document that is not in the list yet; a coin says who begins each turn.

    A ranking that has nothing left to add leaves the rest to the other. As long as both rankings are the same from the
    top, a document is nobody's: it would be there whoever added it, and its clicks would be noise. So is what one adds
    when the other has nothing to add in return: a ranking would win by being longer.

    Examples
    --------
    >>> shown = team_draft(["a", "b", "c"], ["b", "d", "a"], 4, np.random.default_rng(0))
    >>> shown.docs, shown.teams
    (('b', 'a', 'c', 'd'), ('second', 'first', 'first', 'second'))
    >>> team_draft(["a", "b", "c"], ["a", "c", "b"], 3, np.random.default_rng(0)).teams
    (None, 'first', 'first')
    >>> team_draft(["a", "b"], ["a", "b", "c", "d"], 4, np.random.default_rng(0)).teams
    (None, None, None, None)
    """
    left = {"first": list(dict.fromkeys(first)), "second": list(dict.fromkeys(second))}
    n_alike = next(
        (rank for rank, (one, other) in enumerate(zip(*left.values(), strict=False)) if one != other),
        min(map(len, left.values())),
    )
    docs: list[Doc] = []
    teams: list[Team | None] = []
    while len(docs) < k and any(left.values()):
        n_owned = _owned_in_turn(*left.values())
        for team in TEAMS if random_state.random() < 0.5 else TEAMS[::-1]:
            if left[team] and len(docs) < k:
                chosen = left[team][0]
                teams.append(team if len(docs) >= n_alike and n_owned > 0 else None)
                n_owned -= 1
                docs.append(chosen)
                for listed in left.values():
                    if chosen in listed:
                        listed.remove(chosen)
    return Interleaved(tuple(docs), tuple(teams))


def _owned_in_turn(first: Sequence[Doc], second: Sequence[Doc]) -> int:
    """How many documents of a turn are somebody's, so that over both sides of the coin each ranking has as many.

    Both add one, unless the one has nothing left, or only what the other adds before it.
    """
    if not first or not second:
        return 0
    return 2 if first[0] != second[0] or min(len(first), len(second)) > 1 else 1


# -- the test ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Duel:
    """Wins of two rankings over interleaved lists, and what can be said of them at any time.

    Attributes
    ----------
    wins, losses, ties : lists that the first ranking won, lost, and those that nobody won
    level : the chance of a wrong winner, whenever one stops

    Examples
    --------
    >>> Duel(wins=60, losses=40, ties=200).winner is None, Duel(wins=160, losses=90, ties=500).winner
    (True, 'first')
    """

    wins: int
    losses: int
    ties: int = 0
    level: float = 0.05

    def __post_init__(self) -> None:
        if min(self.wins, self.losses, self.ties) < 0:
            raise InputError(f"wins, losses and ties are counts; got {self.wins}, {self.losses}, {self.ties}")
        if not 0 < self.level < 1:
            raise InputError(f"level is a chance between 0 and 1; got {self.level!r}")

    @property
    def n_decided(self) -> int:
        """Lists that somebody won."""
        return self.wins + self.losses

    @property
    def share(self) -> float | None:
        """The share of decided lists that the first ranking won; None without one."""
        return self.wins / self.n_decided if self.n_decided else None

    @property
    def p_value(self) -> float:
        """The chance of so much evidence of a difference at this time, where there is none: one over the evidence.

        It is at most the level with a chance of at most the level, however often one looks.
        """
        return min(1.0, float(np.exp(-evidence(self.wins, self.losses))))

    @property
    def interval(self) -> tuple[float, float]:
        """Where the share of wins is, at the confidence 1 - level, at all times at once."""
        if not self.n_decided:
            return 0.0, 1.0
        limit, best = -np.log(self.level), self.wins / self.n_decided

        def beyond(share: float) -> float:
            return float(evidence(self.wins, self.losses, share) - limit)

        low = brentq(beyond, 0.0, best) if self.wins and beyond(1e-300) > 0 else 0.0
        high = brentq(beyond, best, 1.0 - 1e-16) if self.losses and beyond(1.0 - 1e-16) > 0 else 1.0
        return float(low), float(high)

    @property
    def winner(self) -> Team | None:
        """Who is better, where the interval excludes no difference; None where that is open."""
        if self.p_value > self.level:
            return None
        return "first" if self.wins > self.losses else "second"

    @property
    def n_to_go(self) -> int | None:
        """How many more lists a decision takes if they go on as so far; 0 when it is there, None when nobody leads."""
        if self.winner is not None:
            return 0
        n_lists = self.n_decided + self.ties
        if self.wins == self.losses:
            return None
        limit = -np.log(self.level)

        def beyond(times: float) -> float:
            return float(evidence(self.wins * times, self.losses * times) - limit)

        most = _MOST_LISTS / n_lists
        if beyond(most) < 0:
            return None
        return int(np.ceil((brentq(beyond, 1.0, most) - 1) * n_lists))


def evidence(wins: ArrayLike, losses: ArrayLike, share: float = 0.5) -> NDArray[np.float64]:
    """The log of how much more likely wins and losses are by a mixture of coins than by one with this share.

    A `Duel` is decided where it is at least the log of one over the level.

    Examples
    --------
    >>> evidence([10, 60], [10, 20]).round(2).tolist()
    [-0.35, 7.5]
    """
    wins, losses = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    mixed = betaln(wins + _MIXED_BY, losses + _MIXED_BY) - betaln(_MIXED_BY, _MIXED_BY)
    return np.asarray(mixed - xlogy(wins, share) - xlogy(losses, 1 - share))
