"""Linear rankers of feature vectors."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from oracles.texts import ranking


def query_pairs(y):
    """All (better, worse) of one query, by the better row, then by the worse one."""
    return [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]


def pair_loss(scores, pairs, margin=1.0):
    """Sum of max(0, margin - s_better + s_worse)² over the pairs, and its derivative by each score."""
    value, slopes = 0.0, np.zeros(len(scores))
    for better, worse in pairs:
        violation = margin - scores[better] + scores[worse]
        if violation > 0:
            value += violation**2
            slopes[better] -= 2 * violation
            slopes[worse] += 2 * violation
    return value, slopes


def listnet_loss(scores, y):
    """Cross entropy of the top-one probabilities, Cao et al. 2007."""
    wanted, given = np.exp(y) / np.exp(y).sum(), np.exp(scores) / np.exp(scores).sum()
    return -(wanted @ np.log(given)), given - wanted


def ftrl(
    X,
    y,
    qid,
    l1,
    rate,
    rho=1.0,
    per_feature=True,
    loss="hinge2",
    batch_size=None,
    per_pair=False,
    epochs=1,
):
    """Cheng et al. 2018, equation 6 with Algorithm 2 as Theorem 3.1 needs it; all features at every step."""
    d = X.shape[1]
    z, G, w, inverse_rate, t = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), 0
    for _ in range(epochs):
        for query in dict.fromkeys(qid):
            rows = [row for row in range(len(y)) if qid[row] == query]
            pairs = query_pairs(y[rows])
            size = batch_size or max(len(pairs), 1)
            for batch in (pairs[at : at + size] for at in range(0, len(pairs), size)):
                scores = X[rows] @ w
                if loss == "listnet":
                    _, slopes = listnet_loss(scores, y[rows])
                else:
                    _, slopes = pair_loss(scores, batch)
                g = X[rows].T @ slopes / (len(pairs) if per_pair else 1)
                t += 1
                G = G + g**2
                last, inverse_rate = inverse_rate, (np.sqrt(rho + G) if per_feature else np.full(d, np.sqrt(t))) / rate
                z = z + g - (inverse_rate - last) * w
                w = np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / np.where(inverse_rate > 0, inverse_rate, 1))
    return w, z, G, t


def mean_pair_loss(w, X, y, qid, margin=1.0):
    """The squared hinge over all pairs within queries, divided by their number, and its gradient."""
    value, gradient, n = 0.0, np.zeros(X.shape[1]), 0
    for query in dict.fromkeys(qid):
        rows = [row for row in range(len(y)) if qid[row] == query]
        pairs = query_pairs(y[rows])
        loss, slopes = pair_loss(X[rows] @ w, pairs, margin)
        value, gradient, n = value + loss, gradient + X[rows].T @ slopes, n + len(pairs)
    return value / n, gradient / n


def ndcg(order, grades, at=None):
    """Järvelin and Kekäläinen 2002 with gains 2^g - 1, of the documents in this order."""
    best = sorted(range(len(grades)), key=lambda doc: -grades[doc])
    value, most = (
        sum((2.0 ** grades[doc] - 1) / np.log2(2 + r) for r, doc in enumerate(o[:at])) for o in (order, best)
    )
    return value / most


def mean_ndcg_of_ties(scores, grades, at=None):
    """The mean over all orders in which no higher score stands below a lower one."""
    orders = [o for o in permutations(range(len(scores))) if (np.diff(np.asarray(scores)[list(o)]) <= 0).all()]
    return np.mean([ndcg(order, grades, at) for order in orders])


def mean_of_best(X, y, qid, rankers, folds, n_best, largest=None):
    """The mean of the rankers with the best nDCG@10 over queries left out, each by the deviation of its scores.

    A ranker is a function ``(X, y, qid, share) -> w``; ``folds`` has the queries left out each time.
    """
    queries = np.unique(qid)
    values, used = np.zeros((len(rankers), len(queries))), np.zeros(len(rankers))
    for left in folds:
        kept = ~np.isin(qid, left)
        for number, learn in enumerate(rankers):
            w = learn(X[kept], y[kept], qid[kept], 1 - len(left) / len(queries))
            used[number] += np.count_nonzero(w) / len(folds)
            for q in left:
                scores = X[qid == q] @ w
                values[number, queries == q] = ndcg(ranking(scores), y[qid == q], at=10)
    order = sorted(range(len(rankers)), key=lambda number: (-values[number].mean(), used[number], number))
    mean = np.zeros(X.shape[1])
    for number in order[:n_best]:
        w = rankers[number](X, y, qid, 1.0)
        centered = np.concatenate([X[qid == q] @ w - np.mean(X[qid == q] @ w) for q in queries])
        deviation = np.sqrt(np.mean(centered**2))
        mean += w / (deviation if deviation > 0 else 1.0) / n_best
    if largest is not None:
        mean[[j for j in range(len(mean)) if j not in np.argsort(-np.abs(mean), kind="stable")[:largest]]] = 0
    return mean, order[:n_best]


def adarank(X, y, qid, rounds, at=10, both_ways=True, repeat=True):
    """Xu and Li 2007, for scores without ties. Returns the weights of each round and the NDCG they reach."""
    groups = [[row for row in range(len(y)) if qid[row] == query] for query in dict.fromkeys(qid)]

    def values(scores):
        return np.array([ndcg(sorted(range(len(g)), key=lambda k: -scores[g][k]), y[g], at) for g in groups])

    weak = [(f, sign) for sign in ((1, -1) if both_ways else (1,)) for f in range(X.shape[1])]
    P, w, history = np.full(len(groups), 1 / len(groups)), np.zeros(X.shape[1]), []
    for _ in range(rounds):
        f, sign = max((h for h in weak if repeat or w[h[0]] == 0), key=lambda h: P @ values(h[1] * X[:, h[0]]))
        E = values(sign * X[:, f])
        w[f] += sign * 0.5 * np.log((P @ (1 + E)) / (P @ (1 - E)))
        history.append((w.copy(), values(X @ w).mean()))
        P = np.exp(-values(X @ w))
        P = P / P.sum()
    return history
