"""The equations of click models, slow and obvious."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
from scipy import optimize

ADDED = 0.1


def counted(log):
    """(query, document) -> rank from 0 -> [times shown, times clicked]."""
    cells = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for query, shown, clicked in log.impressions:
        for rank, doc in enumerate(shown):
            cells[query, doc][rank][0] += 1
            cells[query, doc][rank][1] += doc in clicked
    return cells


def all_pairs(log, n_ranks):
    """Agarwal et al. 2019, with the weights of Mantel and Haenszel; by a general optimizer over log p and log r."""
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


def clicks_beyond_expected(log, curve, prior, *, timed):
    """(query, document) -> (clicks - expected) / (expected + prior); the first list of a timed log counts a quarter."""
    n = len(log)
    clicks, looks = defaultdict(float), defaultdict(float)
    for number, (query, shown, clicked) in enumerate(log, start=1):
        weight = 0.25 ** ((n - number) / n) if timed else 1.0
        for rank, doc in enumerate(shown):
            looks[query, doc] += weight * curve[min(rank, len(curve) - 1)]
            clicks[query, doc] += weight * (doc in clicked)
    attraction = sum(clicks.values()) / sum(looks.values())
    return {pair: (clicks[pair] - attraction * looks[pair]) / (attraction * looks[pair] + prior) for pair in looks}
