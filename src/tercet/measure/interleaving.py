"""Two rankings in one list, and which ranking clients prefer, at every look.

Both rankings make the list (team draft, Radlinski et al. 2008), so each client compares them under the same conditions.
Clients differ in taste and come more than once, so lists of one client are not independent, and the unit of the test is
the client. A client's score is its wins less its losses, divided by both: between -1 and 1, and 0 on average if clients
prefer neither ranking. The test bets on the scores (Waudby-Smith and Ramdas 2024). A bettor without an edge multiplies
the stake by 20 with a chance of at most 1 in 20, whatever the distribution of scores and however often one looks.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp

from tercet.errors import InputError

Doc = TypeVar("Doc", bound=Hashable)
Team = Literal["first", "second"]
TEAMS: Final[tuple[Team, Team]] = ("first", "second")
# The stake is divided among chances of the first side as by Beta(3, 3), which finds differences of one score in a few
# hundred clients without wasting clients where all agree.
_CHANCES: Final = np.linspace(0, 1, 201)[1:-1]
_LOG_STAKES: Final = log_softmax(2 * np.log(_CHANCES * (1 - _CHANCES)))
_MOST_CLIENTS: Final = 10**9

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
    """Scores of clients that compared two rankings, and the decision at any time.

    Clients are independent, and each client has one score, which is final: a score that still changes with later lists
    would depend on when one looks.

    Attributes
    ----------
    scores : number of clients by score: 1 if all lists that the client decided went to the first ranking, -1 if all
        went to the second ranking, 0 if the client decided none
    level : chance of a winner at any look if clients prefer neither ranking on average

    Examples
    --------
    >>> duel = Duel({1: 40, 0.5: 20, 0: 30, -1: 15})
    >>> duel.winner, duel.wins, duel.losses, duel.ties
    ('first', 60, 15, 30)
    >>> Duel({1: 10, -1: 8}).winner is None
    True
    """

    scores: Mapping[float, int]
    level: float = 0.05

    def __post_init__(self) -> None:
        for score, count in self.scores.items():
            if not -1 <= score <= 1 or count < 0:
                raise InputError(f"scores are from -1 to 1, with a number of clients each; got {score}: {count}")
        if not 0 < self.level < 1:
            raise InputError(f"level is a chance between 0 and 1; got {self.level!r}")

    @property
    def wins(self) -> int:
        """Number of clients with more wins than losses."""
        return sum(count for score, count in self.scores.items() if score > 0)

    @property
    def losses(self) -> int:
        """Number of clients with more losses than wins."""
        return sum(count for score, count in self.scores.items() if score < 0)

    @property
    def ties(self) -> int:
        """Number of clients with as many wins as losses."""
        return self.n_clients - self.wins - self.losses

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return sum(self.scores.values())

    @property
    def share(self) -> float | None:
        """Mean share of the first ranking over clients, a tie counted as one half; None without clients."""
        if not self.n_clients:
            return None
        return (1 + sum(score * count for score, count in self.scores.items()) / self.n_clients) / 2

    @property
    def p_value(self) -> float:
        """One over the growth of the stake: at most the level at any look with a chance of at most the level."""
        return min(1.0, float(np.exp(-self._evidence())))

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the share, at all looks at once."""
        if self.share is None:
            return 0.0, 1.0
        limit, least, most = -np.log(self.level), 1e-12, 1 - 1e-12
        best = min(max(self.share, least), most)

        def beyond(share: float) -> float:
            return self._evidence(share) - float(limit)

        low = brentq(beyond, least, best) if beyond(least) > 0 else 0.0
        high = brentq(beyond, best, most) if beyond(most) > 0 else 1.0
        return float(low), float(high)

    @property
    def winner(self) -> Team | None:
        """The ranking that clients prefer, if the interval excludes one half; None if the duel is open."""
        if self.share is None or self.p_value > self.level:
            return None
        return "first" if self.share > 0.5 else "second"

    @property
    def n_to_go(self) -> int | None:
        """Number of further clients until a decision at the present scores; 0 if decided, None without a lead."""
        if self.winner is not None:
            return 0
        most = _MOST_CLIENTS / max(self.n_clients, 1)
        limit = -np.log(self.level)

        def beyond(times: float) -> float:
            return self._evidence(times=times) - float(limit)

        if self.share in (None, 0.5) or beyond(most) < 0:
            return None
        return max(1, int(np.ceil((brentq(beyond, 1.0, most) - 1) * self.n_clients)))

    def to_meta(self) -> dict[str, Any]:
        """Return the standing as JSON has it."""
        low, high = self.interval
        return {
            "wins": self.wins,
            "losses": self.losses,
            "ties": self.ties,
            "share": self.share,
            "low": low,
            "high": high,
            "p_value": self.p_value,
            "level": self.level,
            "winner": self.winner,
            "to_go": self.n_to_go,
        }

    def _evidence(self, share: float = 0.5, times: float = 1.0) -> float:
        counts = times * np.fromiter(self.scores.values(), np.float64)
        return float(evidence(np.fromiter(self.scores, np.float64), counts, share))


def evidence(scores: ArrayLike, counts: ArrayLike, share: float = 0.5) -> NDArray[np.float64]:
    """Logarithm of the growth of a stake that is bet against a mean share of the first ranking.

    A `Duel` is decided if the evidence against one half is at least the logarithm of one over the level.

    Parameters
    ----------
    scores : distinct scores, (n_scores,)
    counts : number of clients with each score, (..., n_scores)
    share : the mean share

    Examples
    --------
    >>> evidence([1, -1], [[10, 10], [60, 20]]).round(2).tolist()
    [-0.77, 8.42]
    """
    firsts = (1 + np.asarray(scores, dtype=np.float64)) / 2
    growth = np.outer(firsts, _CHANCES / share) + np.outer(1 - firsts, (1 - _CHANCES) / (1 - share))
    return np.asarray(logsumexp(np.asarray(counts, dtype=np.float64) @ np.log(growth) + _LOG_STAKES, axis=-1))
