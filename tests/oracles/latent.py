"""Low rank: its steps, its start, several tasks, features beside it."""

from __future__ import annotations

import numpy as np


def sgd_lowrank(U, V, diagonal, preferences, rates, margin=1.0, learn_diagonal=False, learn_documents=True):
    """Bai et al. 2010, section 2.3.2, with U and V as printed: n_components × n_terms.

    U <- U + rate V(d+ - d-)q' and V <- V + rate Uq(d+ - d-)' when 1 - f(q, d+) + f(q, d-) > 0.
    Without ``learn_documents`` V takes no step.
    """
    U, V, diagonal = U.copy(), V.copy(), diagonal.copy()
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        W = U.T @ V + np.diag(diagonal) if diagonal.size else U.T @ V
        delta = better - worse
        if margin - q @ W @ better + q @ W @ worse > 0:
            step_U = rate * np.outer(V @ delta, q)
            step_V = learn_documents * rate * np.outer(U @ q, delta)
            U, V = U + step_U, V + step_V
            if learn_diagonal:
                diagonal = diagonal + rate * q * delta
    return U, V, diagonal


def sgd_cosine(U, V, preferences, rates, margin):
    """Margin rank loss on cos(Uq, Vd), by its gradient: that of u·v / |u||v| by u is (v/|v| - cos u/|u|) / |u|.

    Texts without a latent vector have cosines of 0 and do not move. Factors as in `sgd_lowrank`.
    """

    def cosine(u, v):
        return u @ v / (np.linalg.norm(u) * np.linalg.norm(v)) if u.any() and v.any() else 0.0

    def by_first(u, v):
        if not u.any() or not v.any():
            return np.zeros_like(u)
        return (v / np.linalg.norm(v) - cosine(u, v) * u / np.linalg.norm(u)) / np.linalg.norm(u)

    tied = U is V
    U, V = U.copy(), V.copy()
    for (q, better, worse), rate in zip(preferences, rates, strict=True):
        u, b, w = U @ q, V @ better, V @ worse
        if cosine(u, b) - cosine(u, w) < margin:
            step_U = rate * np.outer(by_first(u, b) - by_first(u, w), q)
            step_V = rate * (np.outer(by_first(b, u), better) - np.outer(by_first(w, u), worse))
            U, V = (U + step_U + step_V,) * 2 if tied else (U + step_U, V + step_V)
    return U, V


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


def lowrank_iterates(U, V, diagonal, preferences, rates, kept=None, **options):
    """(U, V, diagonal) after each step of ``sgd_lowrank``; words outside ``kept`` (query, document) have no factors."""
    if kept is not None:
        U, V = U * kept[0], V * kept[1]
    iterates = []
    for preference, rate in zip(preferences, rates, strict=True):
        U, V, diagonal = sgd_lowrank(U, V, diagonal, [preference], [rate], **options)
        if kept is not None:
            U, V = U * kept[0], V * kept[1]
        iterates.append((U, V, diagonal))
    return iterates


def tied_iterates(U, identity_weight, preferences, rates, margin=1.0):
    """U after each step of ``sgd_tied``."""
    iterates = []
    for preference, rate in zip(preferences, rates, strict=True):
        U = sgd_tied(U, identity_weight, [preference], [rate], margin)
        iterates.append(U)
    return iterates


def lsi_cosine(Q, D, query_directions, doc_directions):
    """Cosine of the latent vectors of all queries and documents; 0 where one of them has no length."""
    q, d = Q @ query_directions, D @ doc_directions
    lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(d, axis=1))
    return np.divide(q @ d.T, lengths, out=np.zeros_like(lengths), where=lengths > 1e-9)


def leading_directions(texts, n):
    """Right singular vectors of the n largest singular values, as columns."""
    return np.linalg.svd(texts, full_matrices=False)[2][:n].T


def sgd_tasks(U_F, U_E, V_E, first, second, third, rates, margin=1.0):
    """Bai et al. 2010, section 2.4.2: a gradient step on q_F'U_F'V_E d_E, then one on each other objective, in turn.

    The second is q_E'U_E'V_E d_E, or q_E'V_E'V_E d_E where U_E is None. The third is q_F'U_F'U_F d_F ("similarly, one
    can also regularize U_F"); none where its list is empty. Factors as printed: n_components × n_terms.
    """
    rates = iter(rates)
    for t, ((q, better, worse), (q2, better2, worse2)) in enumerate(zip(first, second, strict=True)):
        rate, delta = next(rates), better - worse
        if q @ U_F.T @ V_E @ delta < margin:
            U_F, V_E = U_F + rate * np.outer(V_E @ delta, q), V_E + rate * np.outer(U_F @ q, delta)
        rate, delta = next(rates), better2 - worse2
        if U_E is None:
            if q2 @ V_E.T @ V_E @ delta < margin:
                V_E = V_E + rate * (np.outer(V_E @ delta, q2) + np.outer(V_E @ q2, delta))
        elif q2 @ U_E.T @ V_E @ delta < margin:
            U_E, V_E = U_E + rate * np.outer(V_E @ delta, q2), V_E + rate * np.outer(U_E @ q2, delta)
        if third:
            (q3, better3, worse3), rate = third[t], next(rates)
            delta = better3 - worse3
            if q3 @ U_F.T @ U_F @ delta < margin:
                U_F = U_F + rate * (np.outer(U_F @ delta, q3) + np.outer(U_F @ q3, delta))
    return U_F, U_E, V_E


def joint_sgd(
    U,
    V,
    identity,
    preferences,
    features,
    rates,
    prior,
    l1,
    feature_rate,
    rho,
    chunk_size,
    margin=1.0,
    learn_documents=True,
):
    """``q'(U'V + identity I)d + w · phi``, chunk by chunk; U and V as in `sgd_lowrank`, ``features`` are phi+ - phi-.

    W steps (Bai et al. 2010) where both together miss the margin, w being that of before the chunk. Then w steps (Cheng
    et al. 2018, FTRL with L1 on w - prior and the hinge loss) where both together miss it, W's part of the margin being
    what it was at that preference's step. Without ``learn_documents`` V takes no step.
    """
    U, V, n = U.copy(), V.copy(), len(prior)
    z, G, u = np.zeros(n), np.zeros(n), np.zeros(n)
    for start in range(0, len(preferences), chunk_size):
        chunk = range(start, min(start + chunk_size, len(preferences)))
        w, margins = prior + u, {}
        for s in chunk:
            q, better, worse = preferences[s]
            delta = better - worse
            margins[s] = q @ (U.T @ V + identity * np.eye(len(q))) @ delta
            if margins[s] + w @ features[s] < margin:
                step_U, step_V = rates[s] * np.outer(V @ delta, q), rates[s] * np.outer(U @ q, delta)
                U, V = U + step_U, V + learn_documents * step_V
        for s in chunk:
            if margins[s] + (prior + u) @ features[s] < margin:
                g = -features[s]
                before, G = np.sqrt(rho + G) / feature_rate, G + g**2
                inverse_rate = np.sqrt(rho + G) / feature_rate
                z = z + g - (inverse_rate - before) * u
                u = np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / inverse_rate)
    return U, V, prior + u


def nearest_of_rank(W, rank, a=None, b=None):
    """The W_k of that rank with the least squared error ||A^½ (W - W_k) B^½||, by a dense decomposition."""
    a, b = (np.sqrt(np.ones(n) if w is None else w) for n, w in zip(W.shape, (a, b), strict=True))
    left, singular, right = np.linalg.svd(a[:, None] * W * b)
    k = min(rank, singular.size)
    return (left[:, :k] * singular[:k]) @ right[:k] / np.outer(a, b)


def class_scores(X, classes, penalty):
    """Ridge regression of one-hot classes less their shares, without an intercept, in closed form (n_terms, n_classes).

    The penalty is in units of the mean squared length of the texts.
    """
    Y = (np.asarray(classes)[:, None] == np.unique(classes)[None, :]).astype(float)
    alpha = penalty * np.mean(np.sum(X**2, axis=1))
    return np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ (Y - Y.mean(axis=0)))


def softmax_map(X, Z, batches, rate, identity_weight, against="batch"):
    """The mean of M over batches of (query, better, worse, weight): descent of log(1 + sum exp(s_worse - s_better)),
    each slope by its definition, one pair of vectors at a time."""
    length = [np.linalg.norm(vectors, axis=1).mean() for vectors in (X, Z)]
    X, Z = X / length[0], Z / length[1]
    M, total = identity_weight * np.eye(X.shape[1]), 0.0
    for number, batch in enumerate(batches):
        slope = np.zeros_like(M)
        for one, (q, better, _, weight) in enumerate(batch):
            others = [batch[one]] if against == "own" else batch
            odds = [np.exp(X[q] @ M @ (Z[worse] - Z[better])) for _, _, worse, _ in others]
            for odd, (_, _, worse, _) in zip(odds, others, strict=True):
                slope += weight * odd / (1 + sum(odds)) * np.outer(X[q], Z[better] - Z[worse]) / len(batch)
        M = M + rate * (1 - number / len(batches)) * slope
        total = total + M
    return total / len(batches) / (length[0] * length[1])
