"""Weights of pairs of words: dense, diagonal, sparse, correlated, pruned, hashed, online."""

from __future__ import annotations

import numpy as np


def sgd_dense(W, preferences, rates, margin=1.0):
    """Chen et al. 2010, equation 4: W <- W + rate q (d+ - d-)' when q'W(d+ - d-) < margin."""
    W = W.copy()
    violations, loss = 0, 0.0
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        z = q @ W @ (better - worse)
        if z < margin:
            violations += 1
            loss += margin - z
            W += rate * np.outer(q, better - worse)
    return W, violations, loss


def sgd_diagonal(w, preferences, rates, margin=1.0):
    """The same loss with W = diag(w): the gradient is the diagonal of q (d+ - d-)'."""
    w = w.copy()
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        if q @ np.diag(w) @ (better - worse) < margin:
            w += rate * q * (better - worse)
    return w


def soft_threshold(W, amount):
    """Chen et al. 2010, equation 7."""
    return np.where(amount < W, W - amount, np.where(-amount > W, W + amount, 0.0))


def algorithm_1(W, preferences, rates, l1, T, margin=1.0):
    """Chen et al. 2010, Algorithm 1, with the sum over k read as the sum of the rates eta_k.

    Every T steps all of W is swept with l1 times the rates of the last T steps.
    """
    for t, ((q, better, worse), rate) in enumerate(zip(preferences, rates, strict=True), start=1):
        if q @ W @ (better - worse) < margin:
            W = W + rate * np.outer(q, better - worse)
        if t % T == 0:
            W = soft_threshold(W, l1 * sum(rates[t - T : t]))
    return W


def largest_entries(W, density):
    """The share ``density`` of W that is largest in size, and zeros; of equal entries the first by row and column.

    Zeros are never among them.
    """
    size = np.abs(W.astype(np.float32)).ravel()
    order = sorted(range(size.size), key=lambda k: (-size[k], k))[: max(1, round(density * size.size))]
    kept = np.zeros_like(W, dtype=np.float32)
    for k in order:
        kept.flat[k] = np.float32(W.flat[k])
    return kept


def refit(support, preferences, rates, margin=1.0, start=None):
    """Chen et al. 2010, section III.B: SGD on equation 8, from the identity restricted to the support."""
    W = np.where(support, np.eye(*support.shape), 0.0) if start is None else np.where(support, start, 0.0)
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        if q @ W @ (better - worse) < margin:
            W = W + np.where(support, rate * np.outer(q, better - worse), 0.0)
    return W


def correlated_bins(occurs, n_frequent, n_bins):
    """Bai et al. 2010, section 2.2.3: the frequent columns, and S and DICE for each word, best first.

    ``occurs`` (n_units, n_words) is not zero where a word occurs. Frequent words are numbered from the most frequent;
    those that a word never occurs with are left out of its S.
    """
    occurs = np.asarray(occurs) != 0
    n_words = occurs.shape[1]
    occur = [int(occurs[:, i].sum()) for i in range(n_words)]
    frequent = sorted((i for i in range(n_words) if occur[i]), key=lambda i: (-occur[i], i))[:n_frequent]
    S, DICE = [], []
    for i in range(n_words):
        scores = [2 * (occurs[:, i] & occurs[:, j]).sum() / (occur[i] + occur[j]) for j in frequent]
        best = sorted((r for r, score in enumerate(scores) if score), key=lambda r: (-scores[r], r))[:n_bins]
        S.append(best)
        DICE.append([scores[r] for r in best])
    return frequent, S, DICE


def correlated_hashing(q, d, S, n_frequent, k):
    """Bai et al. 2010, Algorithm 1, as printed: the features ab'/k (n_frequent, n_frequent)."""
    a, b = np.zeros(n_frequent), np.zeros(n_frequent)
    for p in range(k):
        for i in range(len(q)):
            if p < len(S[i]):
                a[S[i][p]] += q[i]
                b[S[i][p]] += d[i]
    return np.outer(a, b) / k


def correlated_hashing_by_bin(q, d, S, n_frequent, k):
    """Bai et al. 2010, equations 6 and 7: the mean of k maps, where p-th bins meet p-th bins."""
    features = np.zeros((n_frequent, n_frequent))
    for p in range(k):
        for s in range(len(q)):
            for t in range(len(d)):
                if p < len(S[s]) and p < len(S[t]):
                    features[S[s][p], S[t][p]] += q[s] * d[t] / k
    return features


def algorithm_2(W, preferences, rates, cuts, frequent_first, margin=1.0):
    """Bai et al. 2010, Algorithm 2: after the steps in ``cuts`` only that many active entries of each row stay.

    They are its largest by size, of equal ones those whose column comes first in ``frequent_first``.
    """
    W = W.copy()
    active = np.ones_like(W, dtype=bool)
    for t, ((q, better, worse), rate) in enumerate(zip(preferences, rates, strict=True), start=1):
        if q @ W @ (better - worse) < margin:
            W = W + np.where(active, rate * np.outer(q, better - worse), 0.0)
        if t in cuts:
            for row in range(len(W)):
                candidates = [column for column in frequent_first if active[row, column]]
                candidates.sort(key=lambda column: -abs(W[row, column]))
                active[row, candidates[cuts[t] :]] = False
            W = np.where(active, W, 0.0)
    return W, active


def sgd_hashed(n_buckets, multiplier, identity, preferences, rates, margin=1.0, learn_identity=False):
    """Bai et al. 2010, equation 5: the margin rank loss on the features of each bucket, from a table of zeros.

    ``identity`` is the amount of the identity at the start; its gradient is q'(d+ - d-).
    """
    table = np.zeros(n_buckets)
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        delta = better - worse
        features = np.zeros(n_buckets)
        for s in np.flatnonzero(q):
            for t in np.flatnonzero(delta):
                features[(int(s) * multiplier + int(t)) % n_buckets] += q[s] * delta[t]
        overlap = q @ delta if identity is not None else 0.0
        if table @ features + (identity or 0.0) * overlap < margin:
            table = table + rate * features
            if learn_identity:
                identity = identity + rate * overlap
    return table, identity


def online_steps(preferences, scores, rule, unit):
    """One passive-aggressive step a preference: min(target - margin, rate weight target) along q (d+ - d-)'.

    A preference is (q, d_better, d_worse, weight); ``scores`` has those of the weights that stay, one pair each.
    """
    W = np.zeros((preferences[0][0].size, preferences[0][1].size))
    for (q, better, worse, weight), (first, second) in zip(preferences, scores, strict=True):
        X = np.outer(q, better - worse)
        longer = max(np.linalg.norm(better), np.linalg.norm(worse))
        least = rule.least_margin * unit * np.linalg.norm(q) * longer
        target = max(rule.margin * max(abs(first), abs(second)), least)
        gap = target - (first - second) - q @ W @ (better - worse)
        if gap > 0 and X.any():
            if rule.pairs:
                X[np.abs(X) < np.sort(np.abs(X), axis=None)[-min(rule.pairs, X.size)]] = 0
            change = min(gap, rule.rate * weight * target) * X / (X * X).sum()
            if rule.step:
                change *= min(1, rule.step * unit / np.linalg.norm(change))
            W += change
            W = np.clip(W, -rule.weight * unit, rule.weight * unit) if rule.weight else W
    return W
