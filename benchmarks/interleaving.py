"""How often interleaving names a wrong winner though one looks after every list, and how many lists it saves.

    python benchmarks/interleaving.py                     # two minutes

Two rankings of a query's documents see the grades through noise, part of which they share, as a model and what it
became do; the candidate sees them a little better. People click as `tercet.simulate.Visitors` do. Every list is of a
new query, so where both see equally well there is no difference at all. Lists are made once (``--pool``), duels and
A/B tests are drawn from them.

An A/B test shows a list of either ranking and compares clicks per list. Of both there is a test whose length was
fixed before with the right guess of the difference, the fewest lists that any test of 80 % power takes, and one that
may be looked at all the time: `Duel`, and for clicks per list a mixture of normal distributions (Robbins 1970) of just
the right width, which nobody would know.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from common import print_table
from tercet.measure.interleaving import credit, evidence, team_draft
from tercet.simulate import Visitors

SHOWN, DOCS, RELEVANT = 10, 40, 0.15
SEEN, SHARED = 1.5, 0.8  # how well grades are seen, and how much of the noise is of both
LEVEL, POWER = 0.05, 0.8
DISCOUNT = 1 / np.log2(np.arange(2, SHOWN + 2))


@dataclass
class Pool:
    """Lists by a difference: who won them, how good both rankings are, and how many more clicks a list of the better
    one has, with the sum of both variances.
    """

    ndcg: tuple[float, float]
    outcomes: dict[str, NDArray[np.int64]]
    more_clicks: float
    variance: float

    @classmethod
    def made(cls, better: float, n_lists: int, visitors: Visitors, seed: int) -> Pool:
        rng = np.random.default_rng(seed)
        grades = (rng.random((n_lists, DOCS)) < RELEVANT).astype(np.int64)
        shared = np.sqrt(SHARED) * rng.normal(size=grades.shape)
        orders = []
        for seen in (SEEN, SEEN + better):
            scores = seen * grades + shared + np.sqrt(1 - SHARED) * rng.normal(size=grades.shape)
            orders.append(np.argsort(-scores, axis=1)[:, :SHOWN])
        tops = [np.take_along_axis(grades, order, axis=1) for order in orders]
        ideal = np.cumsum(np.r_[0, DISCOUNT])[np.minimum(grades.sum(axis=1), SHOWN)]
        ndcg = [float(np.mean((top @ DISCOUNT)[ideal > 0] / ideal[ideal > 0])) for top in tops]
        outcomes = interleaved(grades, orders, visitors, rng)
        clicks = [visitors.clicks(rng, top).sum(axis=1) for top in tops]
        variance = float(clicks[0].var() + clicks[1].var())
        if visitors.looking is not None:  # what is expected of a list is known, and less by chance
            clicks = [np.array(visitors.chances)[top] @ visitors.examination(SHOWN) for top in tops]
        return cls((ndcg[0], ndcg[1]), outcomes, float((clicks[1] - clicks[0]).mean()), variance)


def interleaved(
    grades: NDArray[np.int64], orders: list[NDArray[np.int64]], visitors: Visitors, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Who wins each list, 1 the candidate, by how lists are made and clicks counted."""
    first, second = (order.tolist() for order in orders)
    drafts = [team_draft(b, a, SHOWN, rng) for a, b in zip(first, second, strict=True)]
    merged = [balanced(b, a, SHOWN, rng) for a, b in zip(first, second, strict=True)]
    clicked = [
        visitors.clicks(rng, np.take_along_axis(grades, np.array(docs), axis=1)).tolist()
        for docs in ([draft.docs for draft in drafts], merged)
    ]
    drafted = [credit(draft.teams, clicks) for draft, clicks in zip(drafts, clicked[0], strict=True)]
    everywhere = [
        credit(whole_teams(draft.teams, rng), clicks) for draft, clicks in zip(drafts, clicked[0], strict=True)
    ]
    checked = [
        balanced_credit(b, a, docs, clicks)
        for a, b, docs, clicks in zip(first, second, merged, clicked[1], strict=True)
    ]
    return {
        "team draft": np.array(drafted),
        "team draft, the common top counted": np.array(everywhere),
        "balanced": np.array(checked),
    }


def balanced(first: list[int], second: list[int], k: int, rng: np.random.Generator) -> list[int]:
    """Merge two rankings so that the top of the list has as many of one's best as of the other's (Joachims 2003).

    A coin says who leads. Whoever has gone through less of their ranking adds the next document of it.
    """
    leader, follower = (first, second) if rng.random() < 0.5 else (second, first)
    docs: dict[int, None] = {}
    n_lead = n_follow = 0
    while len(docs) < k and (n_lead < len(leader) or n_follow < len(follower)):
        leads = n_lead < len(leader) and (n_lead <= n_follow or n_follow == len(follower))
        docs[leader[n_lead] if leads else follower[n_follow]] = None
        n_lead, n_follow = n_lead + leads, n_follow + (not leads)
    return list(docs)


def balanced_credit(first: list[int], second: list[int], shown: list[int], clicks: list[bool]) -> int:
    """Winner of a balanced list: who has more clicked documents in the shallower top that the lowest click needs."""
    clicked = [doc for doc, click in zip(shown, clicks, strict=True) if click]
    if not clicked:
        return 0
    depth = min(ranking.index(clicked[-1]) for ranking in (first, second) if clicked[-1] in ranking) + 1
    tops = [len(set(clicked) & set(ranking[:depth])) for ranking in (first, second)]
    return int(np.sign(tops[0] - tops[1]))


def whole_teams(teams, rng):
    """Teams as coins gave them also where both rankings begin alike."""
    whole = list(teams)
    for position, team in enumerate(teams):
        if team is None:
            partner = position ^ 1  # of the same turn
            known = whole[partner] if partner < len(whole) else None
            whole[position] = (
                {"first": "second", "second": "first"}[known] if known else ("first", "second")[rng.integers(2)]
            )
    return whole


def wrong_winners(pool: Pool, n_duels: int, n_lists: int, rng: np.random.Generator) -> list[list[str]]:
    """The share of duels of equals that had a winner at any time, by the test and by one that is meant for one look."""
    rows = []
    lists = np.unique(np.geomspace(10, n_lists, 200).astype(int))
    for name, outcomes in pool.outcomes.items():
        n_wrong = n_naive = n_last = 0
        for _ in range(n_duels):
            drawn = rng.choice(outcomes, n_lists) * rng.choice([-1, 1], n_lists)  # equals: either may be the candidate
            flips = drawn[drawn != 0]
            wins = np.cumsum(flips > 0)
            losses = np.arange(1, flips.size + 1) - wins
            n_wrong += bool((evidence(wins, losses) >= -np.log(LEVEL)).any())
            at = np.searchsorted(np.flatnonzero(drawn), lists - 1, side="right") - 1
            at = at[at >= 0]
            z = np.abs(wins[at] - losses[at]) / np.sqrt(at + 1)
            n_naive += bool((z > NormalDist().inv_cdf(1 - LEVEL / 2)).any())
            n_last += bool(z[-1] > NormalDist().inv_cdf(1 - LEVEL / 2))
        shares = (f"{count / n_duels:.3f}" for count in (n_wrong, n_naive, n_last))
        rows.append([name, f"{np.mean(outcomes != 0):.2f}", *shares])
    return rows


def lists_of_duels(outcomes: NDArray[np.int64], n_duels: int, most: int, rng: np.random.Generator) -> tuple[int, int]:
    """Lists after which half and 80 % of the duels were won by the candidate; ``most`` where they were not."""
    stops = []
    for _ in range(n_duels):
        drawn = rng.choice(outcomes, most)
        decided = np.flatnonzero(drawn)
        wins = np.cumsum(drawn[decided] > 0)
        losses = np.arange(1, decided.size + 1) - wins
        over = np.flatnonzero(evidence(wins, losses) >= -np.log(LEVEL))
        won = over.size > 0 and wins[over[0]] > losses[over[0]]
        stops.append(int(decided[over[0]]) + 1 if won else most)
    return int(np.median(stops)), int(np.quantile(stops, POWER))


def lists_of_ab(pool: Pool, n_tests: int, rng: np.random.Generator) -> tuple[int, int]:
    """Lists of both sides: of a test of fixed length, and after which 80 % of those that go on were decided."""
    delta, variance = pool.more_clicks, pool.variance
    normal = NormalDist()
    per_side = (normal.inv_cdf(1 - LEVEL / 2) + normal.inv_cdf(POWER)) ** 2 * variance / delta**2
    block = max(1, int(per_side / 200))
    n = block * np.arange(1, 1601)  # lists of each side
    steps = rng.normal(delta * block, np.sqrt(variance * block), size=(n_tests, n.size))
    means = np.cumsum(steps, axis=1) / n
    width = delta**2
    log_evidence = 0.5 * np.log(variance / (variance + n * width)) + (n * means) ** 2 * width / (
        2 * variance * (variance + n * width)
    )
    over = log_evidence >= -np.log(LEVEL)
    stops = np.where(over.any(axis=1), n[over.argmax(axis=1)], n[-1])
    return int(2 * per_side), int(2 * np.quantile(stops, POWER))


def fixed_length(outcomes: NDArray[np.int64]) -> int:
    """Lists that a sign test of this power takes that is looked at once."""
    share, rate = np.mean(outcomes[outcomes != 0] > 0), np.mean(outcomes != 0)
    normal = NormalDist()
    spread = np.sqrt(share * (1 - share))
    flips = ((normal.inv_cdf(1 - LEVEL / 2) / 2 + normal.inv_cdf(POWER) * spread) / (share - 0.5)) ** 2
    return int(flips / rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", type=int, default=30_000, help="lists that are made for each difference")
    parser.add_argument("--duels", type=int, default=1_000, help="duels, and A/B tests, for each figure")
    parser.add_argument("--lists", type=int, default=5_000, help="lists of a duel of equals, looked at after each")
    parser.add_argument(
        "--better", type=float, nargs="+", default=[0.1, 0.2, 0.4], help="by how much grades are seen better"
    )
    parser.add_argument("--cascade", action="store_true", help="people read from the top until they found something")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    visitors = Visitors(looking=None) if options.cascade else Visitors()
    rng = np.random.default_rng(options.seed)
    equals = Pool.made(0.0, options.pool, visitors, options.seed)
    print_table(
        f"equals: share of {options.duels:,} duels of {options.lists:,} lists with a winner; people: {visitors}",
        ["lists", "won by somebody", "Duel, after each list", "a z test, at 200 looks", "a z test, at the end"],
        wrong_winners(equals, options.duels, options.lists, rng),
    )
    rows = []
    for number, better in enumerate(options.better, 1):
        pool = Pool.made(better, options.pool, visitors, options.seed + number)
        fixed_ab, always_ab = lists_of_ab(pool, options.duels, rng)
        gain = pool.ndcg[1] - pool.ndcg[0]
        for name, outcomes in pool.outcomes.items():
            most = 40 * fixed_length(outcomes)
            half, most_of = lists_of_duels(outcomes, min(options.duels, 300), min(most, 200_000), rng)
            share = np.mean(outcomes[outcomes != 0] > 0)
            fixed = fixed_length(outcomes)
            counts = [f"{count:,}" for count in (half, most_of, fixed, always_ab, fixed_ab)]
            times = [f"{always_ab / most_of:.1f}", f"{fixed_ab / fixed:.1f}"]
            rows.append([f"{pool.ndcg[0]:.3f} + {gain:.3f}", name, f"{share:.3f}", *counts, *times])
    print_table(
        "lists until the better one has won: in half of the duels, in 80 %; by a test of fixed length; A/B tests",
        ["nDCG@10", "lists", "won", "half", "80 %", "fixed", "A/B, 80 %", "A/B, fixed", "times", "times, fixed"],
        rows,
    )


if __name__ == "__main__":
    main()
