"""Slow, obvious NumPy versions of the papers' equations. Tests compare the product with these, number for number.

Everything is dense and in double precision; a preference is a tuple (q, d_better, d_worse) of vectors.
"""

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


def sgd_lowrank(U, V, diagonal, preferences, rates, margin=1.0, learn_diagonal=False):
    """Bai et al. 2010, section 2.3.2, with U and V as printed: n_components × n_terms.

    U <- U + rate V(d+ - d-)q' and V <- V + rate Uq(d+ - d-)' when 1 - f(q, d+) + f(q, d-) > 0.
    """
    U, V, diagonal = U.copy(), V.copy(), diagonal.copy()
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        W = U.T @ V + np.diag(diagonal) if diagonal.size else U.T @ V
        delta = better - worse
        if margin - q @ W @ better + q @ W @ worse > 0:
            step_U = rate * np.outer(V @ delta, q)
            step_V = rate * np.outer(U @ q, delta)
            U, V = U + step_U, V + step_V
            if learn_diagonal:
                diagonal = diagonal + rate * q * delta
    return U, V, diagonal


def sgd_tied(U, identity_weight, preferences, rates, margin=1.0):
    """W = U'U + w I: the derivative of q'U'U(d+ - d-) by U is U(d+ - d-)q' + Uq(d+ - d-)'."""
    U = U.copy()
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        delta = better - worse
        if q @ (U.T @ U + identity_weight * np.eye(U.shape[1])) @ delta < margin:
            U = U + rate * (np.outer(U @ delta, q) + np.outer(U @ q, delta))
    return U


def latent_scaled_score(q, d, U, V, typical_length):
    """The latent score over the length of the document's latent vector, times a typical length."""
    latent = V @ d
    return float((U @ q) @ latent / np.linalg.norm(latent) * typical_length)


def ranking(scores):
    """Rows from best to worst; ties by lower row."""
    return sorted(range(len(scores)), key=lambda d: (-scores[d], d))


def soft_threshold(W, amount):
    """Chen et al. 2010, equation 7."""
    return np.where(amount < W, W - amount, np.where(-amount > W, W + amount, 0.0))


def algorithm_1(W, preferences, rates, l1, T, margin=1.0, towards=0.0):
    """Chen et al. 2010, Algorithm 1, with the sum over k read as the sum of the rates eta_k.

    Every T steps all of W is swept with l1 times the rates of the last T steps. ``towards`` is what W shrinks to: 0 in
    the paper; the identity gives the penalty on W - I.
    """
    W = W.copy()
    for t, ((q, better, worse), rate) in enumerate(zip(preferences, rates, strict=True), start=1):
        if q @ W @ (better - worse) < margin:
            W = W + rate * np.outer(q, better - worse)
        if t % T == 0:
            W = towards + soft_threshold(W - towards, l1 * sum(rates[t - T : t]))
    return W


def thinned_sgd(W, preferences, rates, cuts, margin=1.0):
    """SGD on all of W that after the steps in ``cuts`` keeps that many entries; after the last cut, learns only those.

    Sizes are told apart by the upper 17 bits of a float32; those at the threshold stay.
    """
    W = W.copy()
    support = np.ones_like(W, dtype=bool)
    for t, ((q, better, worse), rate) in enumerate(zip(preferences, rates, strict=True), start=1):
        if q @ W @ (better - worse) < margin:
            W = W + np.where(support, rate * np.outer(q, better - worse), 0.0)
        if t in cuts:
            size = np.abs(W).astype(np.float32).view(np.uint32) >> 15
            smallest = max(np.sort(size, axis=None)[::-1][cuts[t] - 1], 1)
            W = np.where(size >= smallest, W, 0.0)
            if t == max(cuts):
                support = W != 0
    return W


def refit(support, preferences, rates, margin=1.0, start=None, fixed=0.0):
    """Chen et al. 2010, section III.B: SGD on equation 8, from the identity restricted to the support.

    ``fixed`` is a matrix beside W that scores too and is not learned.
    """
    W = np.where(support, np.eye(*support.shape), 0.0) if start is None else np.where(support, start, 0.0)
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        if q @ (W + fixed) @ (better - worse) < margin:
            W = W + np.where(support, rate * np.outer(q, better - worse), 0.0)
    return W


def shrink_groups(W, amount, by):
    """W_g <- W_g max(0, 1 - amount / ||W_g||) for each row, or each column, g."""
    norm = np.linalg.norm(W, axis=1 if by == "rows" else 0, keepdims=True)
    kept = np.divide(norm - amount, norm, out=np.zeros_like(norm), where=norm > amount)
    return W * kept


def algorithm_1_by_groups(W, preferences, rates, l1, T, by, margin=1.0):
    """Algorithm 1 with the norms of rows or columns in place of L1: every T steps all of W is swept."""
    W = W.copy()
    for t, ((q, better, worse), rate) in enumerate(zip(preferences, rates, strict=True), start=1):
        if q @ W @ (better - worse) < margin:
            W = W + rate * np.outer(q, better - worse)
        if t % T == 0:
            W = shrink_groups(W, l1 * sum(rates[t - T : t]), by)
    return W
