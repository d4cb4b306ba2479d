"""How often interleaving names a wrong winner if clients differ in taste, and how many lists a right winner takes.

    python benchmarks/interleaving.py                     # six minutes

Clients come in random order, some of them often. A visit has some lists, of which a client decides about half. A client
gives a decided list to the candidate with a chance of its own, its taste. Tastes are drawn for each duel from a
distribution; without a difference its mean is one half. A look follows each visit, and a duel ends with the first
decision. Four units of the test are compared:

- list: each list is a coin flip, by a mixture of coins (Robbins 1970), and the winner must hold without any one client;
  the rule until November 2026
- visit: each visit has a score, as if a client that returns were another client
- sign: the sign of the score of a client's first visit
- client: the score of a client's first visit, which is the rule of `tercet.measure.Duel`
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from common import print_table
from tercet.measure.interleaving import evidence

LIMIT = -np.log(0.05)
DECIDED = 0.5
Tastes = Callable[[np.random.Generator, int, float], NDArray[np.float64]]


def one_taste(rng: np.random.Generator, n: int, mean: float) -> NDArray[np.float64]:
    return np.full(n, mean)


def spread(total: float) -> Tastes:
    """Beta distribution with a sum of parameters: 2 is uniform around one half, 6 has a standard deviation of .19."""
    return lambda rng, n, mean: rng.beta(total * mean, total * (1 - mean), n)


def skewed(rng: np.random.Generator, n: int, mean: float) -> NDArray[np.float64]:
    """One client in five likes the candidate a lot, the others dislike it a little."""
    return mean + np.where(rng.random(n) < 0.2, 0.4, -0.1)


class Crowd(NamedTuple):
    """Clients of a duel.

    Attributes
    ----------
    clients, visits, lists : number of clients, of visits of a client and of lists of a visit
    heavy : share of clients with ten times as many visits
    """

    name: str
    tastes: Tastes
    clients: int
    visits: int = 1
    lists: int = 1
    heavy: float = 0.0


class Course(NamedTuple):
    """Visits of a duel in order: the client, and the lists that the candidate won and lost."""

    client: NDArray[np.int64]
    wins: NDArray[np.int64]
    losses: NDArray[np.int64]

    @classmethod
    def drawn(cls, crowd: Crowd, mean: float, rng: np.random.Generator) -> Course:
        taste = crowd.tastes(rng, crowd.clients, mean)
        visits = crowd.visits * np.where(rng.random(crowd.clients) < crowd.heavy, 10, 1)
        client = rng.permutation(np.repeat(np.arange(crowd.clients), visits))
        decided = rng.binomial(crowd.lists, DECIDED, client.size)
        wins = rng.binomial(decided, taste[client])
        return cls(client, wins, decided - wins)

    @property
    def scores(self) -> NDArray[np.float64]:
        return (self.wins - self.losses) / np.maximum(self.wins + self.losses, 1)

    @property
    def first_visits(self) -> NDArray[np.int64]:
        return np.sort(np.unique(self.client, return_index=True)[1])


Decision = tuple[int, bool] | None  # the visit, and True if the candidate won


def by_list(course: Course) -> Decision:
    wins, losses = np.cumsum(course.wins), np.cumsum(course.losses)
    leads = course.wins - course.losses
    for visit in np.flatnonzero(coin_evidence(wins, losses) >= LIMIT):
        candidate = bool(wins[visit] > losses[visit])
        side = 1 if candidate else -1
        most = np.argmax(side * np.bincount(course.client[: visit + 1], leads[: visit + 1]))
        others = course.client[: visit + 1] != most
        won, lost = course.wins[: visit + 1][others].sum(), course.losses[: visit + 1][others].sum()
        if side * (won - lost) > 0 and coin_evidence(won, lost) >= LIMIT:
            return int(visit), candidate
    return None


def coin_evidence(wins, losses):
    return betaln(wins + 10.0, losses + 10.0) - betaln(10.0, 10.0) + (wins + losses) * np.log(2)


def by_scores(visits: NDArray[np.int64], scores: NDArray[np.float64]) -> Decision:
    distinct, kinds = np.unique(scores, return_inverse=True)
    counts = np.cumsum(np.eye(distinct.size)[kinds], axis=0)
    over = np.flatnonzero(evidence(distinct, counts) >= LIMIT)
    return (int(visits[over[0]]), bool(scores[: over[0] + 1].mean() > 0)) if over.size else None


def by_visit(course: Course) -> Decision:
    return by_scores(np.arange(course.client.size), course.scores)


def by_sign(course: Course) -> Decision:
    return by_scores(course.first_visits, np.sign(course.scores[course.first_visits]))


def by_client(course: Course) -> Decision:
    return by_scores(course.first_visits, course.scores[course.first_visits])


RULES = {"list": by_list, "visit": by_visit, "sign": by_sign, "client": by_client}
EQUALS = [
    Crowd("one taste", one_taste, 1000),
    Crowd("one taste", one_taste, 50, lists=20),
    Crowd("uniform tastes", spread(2), 20, lists=20),
    Crowd("uniform tastes", spread(2), 50, lists=20),
    Crowd("Beta(3, 3)", spread(6), 50, lists=20),
    Crowd("uniform tastes", spread(2), 200, lists=5),
    Crowd("uniform tastes", spread(2), 1000),
    Crowd("Beta(3, 3), returning", spread(6), 50, visits=10, lists=4),
    Crowd("Beta(3, 3), heavy users", spread(6), 200, visits=2, lists=4, heavy=0.05),
    Crowd("skewed, heavy users", skewed, 500, visits=2, lists=4, heavy=0.05),
    Crowd("skewed", skewed, 500, lists=20),
]
BETTER = [
    Crowd("one taste", one_taste, 10_000),
    Crowd("one taste", one_taste, 5_000, lists=4),
    Crowd("Beta(3, 3)", spread(6), 10_000),
    Crowd("Beta(3, 3)", spread(6), 5_000, lists=4),
    Crowd("Beta(3, 3)", spread(6), 2_000, lists=20),
    Crowd("uniform tastes", spread(2), 5_000, lists=4),
    Crowd("Beta(3, 3), heavy users", spread(6), 3_000, visits=2, lists=4, heavy=0.05),
]


def wrong_winners(crowd: Crowd, n_duels: int, rng: np.random.Generator) -> list[str]:
    courses = [Course.drawn(crowd, 0.5, rng) for _ in range(n_duels)]
    shares = [np.mean([rule(course) is not None for course in courses]) for rule in RULES.values()]
    return [f"{share:.1%} ± {np.sqrt(share * (1 - share) / n_duels):.1%}" for share in shares]


def lists_taken(crowd: Crowd, mean: float, n_duels: int, rng: np.random.Generator) -> list[str]:
    """Median and 80 % quantile of the lists until the candidate won, and share of duels that another decision ended."""
    courses = [Course.drawn(crowd, mean, rng) for _ in range(n_duels)]
    cells = []
    for name in ("list", "client"):
        decisions = [RULES[name](course) for course in courses]
        lists = [crowd.lists * (each[0] + 1) if each and each[1] else np.inf for each in decisions]
        quantiles = (np.sort(lists)[int(share * n_duels)] for share in (0.5, 0.8))
        wrong = np.mean([each is not None and not each[1] for each in decisions])
        cells += [*(f"{each:,.0f}" if np.isfinite(each) else "open" for each in quantiles), f"{wrong:.1%}"]
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duels", type=int, default=2_000, help="duels without a difference, for each figure")
    parser.add_argument("--power-duels", type=int, default=200, help="duels with a better candidate, for each figure")
    parser.add_argument("--better", type=float, nargs="+", default=[0.55, 0.6], help="mean tastes for the candidate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    def described(crowd: Crowd) -> list[str]:
        return [crowd.name, f"{crowd.clients:,} × {crowd.visits} × {crowd.lists}"]

    print_table(
        f"no difference: share of {options.duels:,} duels with a winner after any visit ± standard error; at most 5 %",
        ["tastes", "clients × visits × lists", *RULES],
        [[*described(crowd), *wrong_winners(crowd, options.duels, rng)] for crowd in EQUALS],
    )
    print_table(
        f"lists until the candidate won, in half and in 80 % of {options.power_duels:,} duels, and wrong winners",
        [
            "tastes",
            "clients × visits × lists",
            "mean",
            *(f"{name}, {what}" for name in ("list", "client") for what in ("half", "80 %", "wrong")),
        ],
        [
            [*described(crowd), f"{mean:g}", *lists_taken(crowd, mean, options.power_duels, rng)]
            for mean in options.better
            for crowd in BETTER
        ],
    )


if __name__ == "__main__":
    main()
