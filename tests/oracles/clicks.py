"""The equations of click models, slow and obvious."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
from scipy import optimize

ADDED = 0.1


def guess(n_ranks):
    return [1 / np.log2(1 + rank) for rank in range(1, n_ranks + 1)]


def counted(log):
    """(query, document) -> rank from 0 -> [times shown, times clicked]."""
    cells = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for query, shown, clicked in log.impressions:
        for rank, doc in enumerate(shown):
            cells[query, doc][rank][0] += 1
            cells[query, doc][rank][1] += doc in clicked
    return cells


def all_pairs(log, n_ranks):
    """Agarwal et al. 2019, with the weights of Mantel and Haenszel; by a general optimiser over log p and log r."""
    tallies = defaultdict(lambda: [0.0, 0.0, 0.0])
    for ranks in counted(log).values():
        for k, j in combinations(sorted(ranks), 2):
            (n, c), (m, d) = ranks[k], ranks[j]
            weight = n * m / (n + m)
            tallies[k, j][0] += weight
            tallies[k, j][1] += weight * c / n
            tallies[k, j][2] += weight * d / m
    tallies = {two: tally for two, tally in tallies.items() if tally[1] + tally[2] > 0}

    def loss(x):
        log_p, log_r = np.r_[0.0, x[: n_ranks - 1]], dict(zip(tallies, x[n_ranks - 1 :], strict=True))
        total = 0.0
        for (k, j), (weight, above, below) in tallies.items():
            for rank, clicks in ((k, above), (j, below)):
                u = log_p[rank] + log_r[k, j]
                if u >= 0:
                    return 1e12
                clicks, shown = clicks + ADDED, weight + 2 * ADDED
                total -= clicks * u + (shown - clicks) * np.log(1 - np.exp(u))
        return total

    start = np.r_[np.zeros(n_ranks - 1), np.full(len(tallies), -2.0)]
    for _ in range(5):  # restarted, a simplex is as good as derivatives
        found = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
        start = found.x
    return np.exp(np.r_[0.0, found.x[: n_ranks - 1]])


def position_based_em(log, n_ranks, levels, n_steps):
    """Expectation maximisation, pair by pair and level by level."""
    p = [0.9 * chance for chance in guess(n_ranks)]
    shares = [1 / len(levels)] * len(levels)
    cells = counted(log)
    for _ in range(n_steps):
        seen, shown, kept = [0.0] * n_ranks, [0.0] * n_ranks, [0.0] * len(levels)
        for ranks in cells.values():
            chances = [
                share * np.prod([(p[rank] * g) ** c * (1 - p[rank] * g) ** (n - c) for rank, (n, c) in ranks.items()])
                for share, g in zip(shares, levels, strict=True)
            ]
            for level, (g, chance) in enumerate(zip(levels, chances, strict=True)):
                posterior = chance / sum(chances)
                kept[level] += posterior / len(cells)
                for rank, (n, c) in ranks.items():
                    seen[rank] += posterior * (c + (n - c) * p[rank] * (1 - g) / (1 - p[rank] * g))
            for rank, (n, _) in ranks.items():
                shown[rank] += n
        p, shares = [min(a / b, 1 - 1e-6) for a, b in zip(seen, shown, strict=True)], kept
    return np.array(p)


def clicks_over_expected(log, curve, prior):
    """(query, document) -> clicks over expected clicks, with the query's as the prior."""
    p = lambda rank: curve[min(rank, len(curve) - 1)]  # noqa: E731
    cells = counted(log)
    attraction = sum(c for ranks in cells.values() for _, c in ranks.values()) / sum(
        n * p(rank) for ranks in cells.values() for rank, (n, _) in ranks.items()
    )
    clicks = {pair: sum(c for _, c in ranks.values()) for pair, ranks in cells.items()}
    expected = {pair: sum(attraction * n * p(rank) for rank, (n, _) in ranks.items()) for pair, ranks in cells.items()}
    values = {}
    for query, doc in cells:
        own = [pair for pair in cells if pair[0] == query]
        mean = (sum(clicks[pair] for pair in own) + prior) / (sum(expected[pair] for pair in own) + prior)
        values[query, doc] = (clicks[query, doc] + prior * mean) / (expected[query, doc] + prior)
    return values


def lines_of_trust(log, halves, curve):
    """a and b of ``a[r] * G + b[r]``, with a G of its own for each comparison; ``halves`` are of rows that moved."""
    cells = counted(log)
    moved = {pair for pair, ranks in cells.items() if len(ranks) > 1}
    rows = [
        ((query, doc), rank, doc in clicked)
        for query, shown, clicked in log.impressions
        for rank, doc in enumerate(shown)
        if (query, doc) in moved
    ]
    n_ranks = len(curve)
    tallies = defaultdict(lambda: [0.0, 0.0, 0.0])
    for half in halves:
        for side in (True, False):
            expected, liking = defaultdict(float), defaultdict(float)
            others = defaultdict(lambda: defaultdict(lambda: [0, 0]))
            for (pair, rank, is_clicked), is_told in zip(rows, half, strict=True):
                if is_told == side:
                    expected[pair] += curve[rank]
                    liking[pair] += is_clicked
                else:
                    others[pair][rank][0] += 1
                    others[pair][rank][1] += is_clicked
            mean = sum(liking.values()) / sum(expected.values())
            for pair, ranks in others.items():
                if pair not in expected:
                    continue
                is_liked = liking[pair] > mean * expected[pair]
                for k, j in combinations(sorted(ranks), 2):
                    (n, c), (m, d) = ranks[k], ranks[j]
                    for place, value in enumerate((n * m, c * m, d * n)):
                        tallies[is_liked, k, j][place] += value / (n + m) / len(halves)
    kept = {key: tally for key, tally in tallies.items() if tally[0] > 1 and tally[1] + tally[2] > 0}

    def loss(x):
        a, b, G = np.r_[1.0, x[: n_ranks - 1]], np.r_[0.0, x[n_ranks - 1 : 2 * n_ranks - 2]], x[2 * n_ranks - 2 :]
        total = 0.0
        for (_, k, j), (weight, above, below), good in zip(kept, kept.values(), G, strict=True):
            n = weight + 2 * ADDED
            for rank, clicks in ((k, above), (j, below)):
                rate = (clicks + ADDED) / n
                total += (rate - a[rank] * good - b[rank]) ** 2 / (rate * (1 - rate) / n)
        return total

    start = np.r_[curve[1:], np.zeros(n_ranks - 1), [(tally[1] + ADDED) / tally[0] for tally in kept.values()]]
    for _ in range(5):
        found = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-8, "maxiter": 2000})
        start = found.x
    return np.r_[1.0, found.x[: n_ranks - 1]], np.r_[0.0, found.x[n_ranks - 1 : 2 * n_ranks - 2]]
