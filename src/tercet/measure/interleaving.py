"""Two rankings interleaved in a list, and a test of the clients' preference, valid at every look.

Both rankings make the list (team draft, Radlinski et al. 2008): each client compares both under the same conditions.
Lists of a client are not independent: the unit of the test is the client. The score of a client is (wins - losses) /
(wins + losses), between -1 and 1, and 0 on average if clients prefer neither ranking. The test bets on the scores
(Waudby-Smith and Ramdas 2024). Under any distribution of scores with mean 0, a bettor multiplies the stake by 20 at any
time with a chance of at most 1 in 20.
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
# A Beta(3, 3) distribution divides the stake among chances of the first side. The test then finds small differences in
# a few hundred clients, and large differences in few clients.
_CHANCES: Final = np.linspace(0, 1, 201)[1:-1]
_LOG_STAKES: Final = log_softmax(2 * np.log(_CHANCES * (1 - _CHANCES)))
_MOST_CLIENTS: Final = 10**9

# -- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interleaved(Generic[Doc]):
    """A list made of two rankings.

    Attributes
    ----------
    docs : shown documents, in order
    teams : team of each document, to be credited with clicks; None for the common beginning of both rankings

    Examples
    --------
    >>> Interleaved(("a", "b", "c"), (None, "first", "second")).credit({"c"})  # a win of the second
    -1
    """

    docs: tuple[Doc, ...]
    teams: tuple[Team | None, ...]

    def credit(self, clicked: Collection[Doc]) -> int:
        """Winner by clicks: 1 the first ranking, -1 the second, 0 neither.

        Examples
        --------
        >>> Interleaved(("a", "b", "c"), ("first", "second", "first")).credit({"a", "c"})
        1
        """
        return credit(self.teams, [doc in clicked for doc in self.docs])


def credit(teams: Sequence[Team | None], clicked: Sequence[bool]) -> int:
    """Winner of two teams by clicks: 1 the first, -1 the second, 0 neither."""
    clicks = [sum(click for team, click in zip(teams, clicked, strict=True) if team == owner) for owner in TEAMS]
    return int(np.sign(clicks[0] - clicks[1]))


def team_draft(
    first: Sequence[Doc], second: Sequence[Doc], k: int, random_state: np.random.Generator
) -> Interleaved[Doc]:
    """Interleave two rankings: both add their best missing document in turn; a coin decides the order of each turn.

    Documents of the common beginning of both rankings have no team, as their clicks would be noise. Documents added
    after the end of the shorter ranking have no team either, as a ranking would win by its length.

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
    remaining = {"first": list(dict.fromkeys(first)), "second": list(dict.fromkeys(second))}
    n_alike = next(
        (
            rank
            for rank, (first_id, second_id) in enumerate(zip(*remaining.values(), strict=False))
            if first_id != second_id
        ),
        min(map(len, remaining.values())),
    )
    docs: list[Doc] = []
    teams: list[Team | None] = []
    while len(docs) < k and any(remaining.values()):
        n_owned = _owned_in_turn(*remaining.values())
        for team in TEAMS if random_state.random() < 0.5 else TEAMS[::-1]:
            if remaining[team] and len(docs) < k:
                chosen = remaining[team][0]
                teams.append(team if len(docs) >= n_alike and n_owned > 0 else None)
                n_owned -= 1
                docs.append(chosen)
                for listed in remaining.values():
                    if chosen in listed:
                        listed.remove(chosen)
    return Interleaved(tuple(docs), tuple(teams))


def _owned_in_turn(first: Sequence[Doc], second: Sequence[Doc]) -> int:
    """Number of documents of a turn with a team, equal for both rankings over both sides of the coin."""
    if not first or not second:
        return 0
    return 2 if first[0] != second[0] or min(len(first), len(second)) > 1 else 1


# -- the test ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Duel:
    """Scores of clients on two rankings, and the decision at any time.

    Clients are independent, and each client has a single, final score: a changing score would depend on the time of the
    look.

    Attributes
    ----------
    scores : number of clients by score: 1 if all decided lists of the client went to the first ranking, -1 if all went
        to the second ranking, 0 without a decided list
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
        """Mean share of the first ranking over clients, with ties counted a half; None without clients."""
        if not self.n_clients:
            return None
        return (1 + sum(score * count for score, count in self.scores.items()) / self.n_clients) / 2

    @property
    def p_value(self) -> float:
        """Inverse of the growth of the stake.

        If clients prefer neither ranking, the chance that any look finds a p-value at or below the level is at most
        the level.
        """
        return min(1.0, float(np.exp(-self._evidence())))

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the share, valid at all looks together."""
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
        """The preferred ranking, if the interval excludes a half; None for an open duel."""
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
        """Return the standing as JSON values."""
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
    """Logarithm of the growth of a stake bet against a mean share of the first ranking.

    A `Duel` is decided if the evidence against a share of 1/2 is at least ``-log(level)``.

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
