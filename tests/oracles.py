"""Slow, obvious NumPy versions of the papers' equations. Tests compare the product with these, number for number.

Everything is dense and in double precision; a preference is a tuple (q, d_better, d_worse) of vectors.
"""

from __future__ import annotations

from itertools import permutations

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


def ranking(scores):
    """Rows from best to worst; ties by lower row."""
    return sorted(range(len(scores)), key=lambda d: (-scores[d], d))


def soft_threshold(W, amount):
    """Chen et al. 2010, equation 7."""
    return np.where(amount < W, W - amount, np.where(-amount > W, W + amount, 0.0))


def algorithm_1(W, preferences, rates, l1, T, margin=1.0, towards=0.0, may=1.0):
    """Chen et al. 2010, Algorithm 1, with the sum over k read as the sum of the rates eta_k.

    Every T steps all of W is swept with l1 times the rates of the last T steps. ``towards`` is what W shrinks to: 0 in
    the paper; the identity gives the penalty on W - I. ``may`` is 0 where W never has a weight.
    """
    W = W * may
    for t, ((q, better, worse), rate) in enumerate(zip(preferences, rates, strict=True), start=1):
        if q @ W @ (better - worse) < margin:
            W = W + may * rate * np.outer(q, better - worse)
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


def shrink_nested(W, amount, groups):
    """Groups of rows within each other, given as (rows, weight): soft-thresholds from the smallest to the largest."""
    W = W.copy()
    for rows, weight in sorted(groups, key=lambda group: len(group[0])):
        norm = np.linalg.norm(W[rows])
        W[rows] *= (norm - amount * weight) / norm if norm > amount * weight else 0.0
    return W


def group_penalty(W, groups):
    return sum(weight * np.linalg.norm(W[rows]) for rows, weight in groups)


def shrink_overlapping(X, amount, groups, n_steps=3000):
    """argmin_W 1/2 ||X - W||^2 + amount group_penalty(W), by accelerated projected gradients on its dual.

    W = X - sum of xi_g, where xi_g is zero outside of the group and at most amount weight_g long, and all of these
    together are to make W as small as they can.
    """
    inside = np.zeros((len(groups), len(X), 1))
    for g, (rows, _) in enumerate(groups):
        inside[g, rows] = 1
    radius = amount * np.array([weight for _, weight in groups])[:, None, None]
    rate = 1 / max(inside.sum(axis=0).max(), 1)  # the number of groups a row is in at most
    xi = ahead = np.zeros((len(groups), *X.shape))
    t = 1.0
    for _ in range(n_steps):
        step = ahead + rate * inside * (X - ahead.sum(axis=0))
        length = np.sqrt((step**2).sum(axis=(1, 2), keepdims=True))
        moved = step * np.minimum(1, radius / np.maximum(length, 1e-300))
        next_t = (1 + np.sqrt(1 + 4 * t * t)) / 2
        xi, ahead, t = moved, moved + (t - 1) / next_t * (moved - xi), next_t
    return X - xi.sum(axis=0)


def algorithm_1_by_groups(W, preferences, rates, l1, T, by, margin=1.0, shrink=shrink_groups):
    """Algorithm 1 with the norms of rows or columns in place of L1: every T steps all of W is swept."""
    W = W.copy()
    for t, ((q, better, worse), rate) in enumerate(zip(preferences, rates, strict=True), start=1):
        if q @ W @ (better - worse) < margin:
            W = W + rate * np.outer(q, better - worse)
        if t % T == 0:
            W = shrink(W, l1 * sum(rates[t - T : t]), by)
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


def lowrank_iterates(U, V, diagonal, preferences, rates, margin=1.0, learn_diagonal=False, kept=None):
    """(U, V, diagonal) after each step of ``sgd_lowrank``; words outside ``kept`` (query, document) have no factors."""
    if kept is not None:
        U, V = U * kept[0], V * kept[1]
    iterates = []
    for preference, rate in zip(preferences, rates, strict=True):
        U, V, diagonal = sgd_lowrank(U, V, diagonal, [preference], [rate], margin, learn_diagonal)
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


def ridge_map(X, Y):
    """Ridge regression of Y on X; of nine penalties the one whose solutions without a row predict that row best."""
    k = X.shape[1]
    mean = np.trace(X.T @ X) / k

    def solve(X, Y, l2):
        return np.linalg.solve(X.T @ X + l2 * np.eye(k), X.T @ Y)

    def left_out_error(l2):
        rows = np.arange(len(X))
        return sum(np.sum((Y[i] - X[i] @ solve(X[rows != i], Y[rows != i], l2)) ** 2) for i in rows)

    return solve(X, Y, min(np.geomspace(1e-3, 10, 9) * mean, key=left_out_error))


def query_expansion(q, D, beta, n_expanded):
    """Bai et al. 2010, section 4: q + beta times the sum of the E best documents; one without a common word is none."""
    scores = D @ q
    best = [d for d in ranking(scores)[:n_expanded] if scores[d] > 0]
    return q + beta * D[best].sum(axis=0)


def rm3(q, D, counts, query_weight, n_found, n_terms, original_weight):
    """Abdul-Jaleel et al. 2004, word by word, with the retrieval score in place of the likelihood of the query."""
    scores = D @ q
    words = q / query_weight
    own = words / words.sum() if words.any() else words
    relevance = np.zeros(len(q))
    for d in ranking(scores)[:n_found]:
        if scores[d] > 0:
            for w in range(len(q)):
                relevance[w] += scores[d] * counts[d, w] / counts[d].sum()
    if not relevance.any():
        return own * query_weight
    for w in ranking(relevance)[n_terms:]:
        relevance[w] = 0
    return (original_weight * own + (1 - original_weight) * relevance / relevance.sum()) * query_weight


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


# -- text of feature vectors ----------------------------------------------------------------------------------------


def svmlight_rows(text):
    """(target, qid or None, {feature id: value}, comment) of each line of ASCII; ValueError where one is wrong."""
    rows = []
    for line in text.split("\n"):
        body, _, comment = line.partition("#")
        tokens = body.split()
        if not tokens:
            continue
        target = float(tokens.pop(0))
        qid = tokens.pop(0)[4:] if tokens and tokens[0].startswith("qid:") else None
        ids, values = [], []
        for token in tokens:
            key, value = token.split(":")
            if key != key.strip("+-"):
                raise ValueError(f"{token} has a sign")
            ids.append(int(key))
            values.append(float(value))
        if ids != sorted(set(ids)) or min(ids, default=1) < 1 or qid == "" or not np.isfinite([target, *values]).all():
            raise ValueError(line)
        rows.append((target, qid, dict(zip(ids, values, strict=True)), comment.strip()))
    if len({qid is None for _, qid, _, _ in rows}) > 1:
        raise ValueError("some lines have a qid and some have none")
    return rows


# -- linear rankers of feature vectors ------------------------------------------------------------------------------


def query_pairs(y):
    """All (better, worse) of one query, by the better row, then by the worse one."""
    return [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]


def pair_loss(scores, pairs, margin=1.0, power=2):
    """Sum of max(0, margin - s_better + s_worse)^power over the pairs, and its derivative by each score."""
    value, slopes = 0.0, np.zeros(len(scores))
    for better, worse in pairs:
        violation = margin - scores[better] + scores[worse]
        if violation > 0:
            value += violation**power
            slopes[better] -= power * violation ** (power - 1)
            slopes[worse] += power * violation ** (power - 1)
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
    margin=1.0,
    batch_size=None,
    per_pair=False,
    epochs=1,
    weight_pairs=None,
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
                elif weight_pairs:
                    power, ideal = {"hinge": 1, "hinge2": 2}[loss], weight_pairs == "ideal-ndcg"
                    _, slopes = ndcg_pair_loss(scores, y[rows], margin, power, ideal)
                else:
                    _, slopes = pair_loss(scores, batch, margin, {"hinge": 1, "hinge2": 2}[loss])
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


def ndcg_pair_loss(scores, grades, margin=1.0, power=2, ideal=False):
    """As ``pair_loss`` over all pairs, each by the change in NDCG were the two to change places; ties worst first."""
    keys = grades if ideal else scores
    order = sorted(range(len(scores)), key=lambda doc: (-keys[doc], grades[doc]))
    place = np.empty(len(scores))
    for doc in range(len(scores)):
        same = [r for r, other in enumerate(order) if keys[other] == keys[doc] and grades[other] == grades[doc]]
        place[doc] = np.mean([1 / np.log2(2 + r) for r in same])
    most = sum((2.0**g - 1) / np.log2(2 + r) for r, g in enumerate(sorted(grades, reverse=True)))
    value, slopes = 0.0, np.zeros(len(scores))
    for better, worse in query_pairs(grades):
        weight = (2.0 ** grades[better] - 2.0 ** grades[worse]) * abs(place[better] - place[worse]) / most
        loss, slope = pair_loss(scores, [(better, worse)], margin, power)
        value, slopes = value + weight * loss, slopes + weight * slope
    return value, slopes


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
        centred = np.concatenate([X[qid == q] @ w - np.mean(X[qid == q] @ w) for q in queries])
        deviation = np.sqrt(np.mean(centred**2))
        mean += w / (deviation if deviation > 0 else 1.0) / n_best
    if largest is not None:
        mean[[j for j in range(len(mean)) if j not in np.argsort(-np.abs(mean), kind="stable")[:largest]]] = 0
    return mean, order[:n_best]


def stability(X, y, qid, halves, path, most):
    """How often each feature is among the first ``most`` that enter a path, over halves of the queries.

    Meinshausen and Bühlmann (2010); ``path(X, y, qid)`` gives weights from the strongest penalty to the weakest.
    """
    counts = np.zeros(X.shape[1])
    for half in halves:
        entered: list[int] = []
        kept = np.isin(qid, half)
        for w in path(X[kept], y[kept], qid[kept]):
            new = [j for j in np.flatnonzero(w) if j not in entered]
            entered += sorted(new, key=lambda j: -abs(w[j]))
        counts[entered[:most]] += 1
    return counts / len(halves)


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


def truncated_gradient(X, y, qid, l1, rate, epochs, every, threshold, margin=1.0, power=2):
    """Langford et al. 2009 over the pairs of one query after another, weighted by their change in the ideal NDCG."""
    w, t, gravity = np.zeros(X.shape[1]), 0, 0.0
    last = epochs * len(set(qid))
    for _ in range(epochs):
        for query in dict.fromkeys(qid):
            rows = [row for row in range(len(y)) if qid[row] == query]
            _, slopes = ndcg_pair_loss(X[rows] @ w, y[rows], margin, power, ideal=True)
            slopes = slopes / ndcg_pair_loss(np.zeros(len(rows)), y[rows], 1.0, 1, ideal=True)[0]
            t += 1
            w, gravity = w - rate / np.sqrt(t) * X[rows].T @ slopes, gravity + l1 * rate / np.sqrt(t)
            if t % every == 0 or t == last:
                for f in range(len(w)):
                    if 0 <= w[f] <= threshold:
                        w[f] = max(0.0, w[f] - gravity)
                    elif -threshold <= w[f] <= 0:
                        w[f] = min(0.0, w[f] + gravity)
                gravity = 0.0
    return w


# -- RankRLS, by the equations of Tsivtsivadze et al. 2008 ----------------------------------------------------------


def kernel_matrix(A, B, name, gamma=1.0, degree=3, coef0=1.0):
    """One pair of rows after another."""
    pair = {
        "linear": lambda a, b: a @ b,
        "gaussian": lambda a, b: np.exp(-gamma * ((a - b) ** 2).sum()),
        "polynomial": lambda a, b: (gamma * (a @ b) + coef0) ** degree,
        "cosine": lambda a, b: a @ b / np.sqrt((a @ a) * (b @ b)) if a.any() and b.any() else 0.0,
    }[name]
    return np.array([[pair(a, b) for b in B] for a in A])


def query_laplacian(qid):
    """Equation 5: L = D - W, where W joins all rows of a query."""
    W = np.array([[float(a == b) for b in qid] for a in qid])
    return np.diag(W.sum(axis=1)) - W


def edge_laplacian(better, worse, weight, margin, n_rows):
    """L of weighted pairs, and in the place of L y the sum of ``weight margin (e_better - e_worse)``."""
    L, right = np.zeros((n_rows, n_rows)), np.zeros(n_rows)
    for b, w, how_much, by in zip(better, worse, weight, margin, strict=True):
        e = np.zeros(n_rows)
        e[b], e[w] = 1.0, -1.0
        L += how_much * np.outer(e, e)
        right += how_much * by * e
    return L, right


def solved(A, b):
    """A dense solution, made better by what is left of b in more than double precision."""
    x = np.linalg.solve(A, b)
    for _ in range(3):
        left = b.astype(np.longdouble) - A.astype(np.longdouble) @ x.astype(np.longdouble)
        x = x + np.linalg.solve(A, left.astype(np.float64))
    return x


def rank_rls(K, L, Ly, l2):
    """Equation 7, multiplied by K's inverse from the left so that K need not have one."""
    return solved(L @ K + l2 * np.eye(len(K)), Ly)


def sparse_rank_rls(K, R, L, Ly, l2):
    """Equation 8."""
    return solved(K[R] @ L @ K[:, R] + l2 * K[np.ix_(R, R)], K[R] @ Ly)


def walk_kernel(first, second, decay, max_length):
    """Σ over pairs of labels of what the walks between them weigh in each graph.

    A graph has the labels of each node, and edges (i, j) with their weights.

    Every walk of 1 to max_length edges is listed; it weighs the product of its edges, each times decay.
    """

    def weights(labels, edges):
        total = {}
        walks = [((i, j), decay * w) for (i, j), w in edges.items()]
        while walks:
            (*walk, end), weight = walks.pop()
            for a in labels[walk[0]]:
                for b in labels[end]:
                    total[a, b] = total.get((a, b), 0.0) + weight
            if len(walk) < max_length:
                walks += [((*walk, end, j), weight * decay * w) for (i, j), w in edges.items() if i == end]
        return total

    of_first, of_second = weights(*first), weights(*second)
    return sum(weight * of_second.get(pair, 0.0) for pair, weight in of_first.items())


def disagreement_error(scores, y):
    """Equation 1 for one query, over pairs i ≠ j."""
    n = len(y)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return sum(abs(np.sign(y[i] - y[j]) - np.sign(scores[i] - scores[j])) for i, j in pairs) / (2 * len(pairs))


def concordance_index(scores, y):
    """The share of pairs of different grades in the right order, ties of scores a half; NaN without such pairs."""
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
    right = sum((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]) for i, j in pairs)
    return right / len(pairs) if pairs else float("nan")


def in_shares(preferences, rates, n_shares):
    """Every n-th preference of a round, with its rate."""
    return [(preferences[at::n_shares], rates[at::n_shares]) for at in range(n_shares)]


def mixed_sum(before, shares):
    """One round of a model that is linear in its weights: each share starts from the same ones, and changes add up."""
    return before + sum(after - before for after in shares)


def mixed_sparse(before, shares, shrink):
    """The same with a penalty: a share does not send what it changed in an entry that is zero by no more than its part
    of what the round shrinks by, and the sum is shrunk."""
    sent = [np.where((before != 0) | (np.abs(after) > shrink / len(shares)), after - before, 0.0) for after in shares]
    return soft_threshold(before + sum(sent), shrink)


def mixed_by_agreement(before, shares):
    """One round of rows that are multiplied with others.

    Of the sum of a row's changes, ``sum |c|^2 / |sum c|^2`` is taken, at most all of it.
    """
    after = before.copy()
    for row in range(len(before)):
        changes = [share[row] - before[row] for share in shares]
        total = np.sum(changes, axis=0)
        if total @ total > 0:
            after[row] += min(1.0, sum(change @ change for change in changes) / (total @ total)) * total
    return after


def ftrl_share(z, G, gradients_of, queries, l1, rate, rho):
    """FTRL with a rate for each feature over some queries; gives slopes, sigma w, and the growth of G and of 1/eta."""
    start, slopes, passed = G.copy(), np.zeros_like(z), np.zeros_like(z)
    z, G = z.copy(), G.copy()
    for query in queries:
        w = -soft_threshold(z, l1) * rate / np.sqrt(rho + G)
        gradient = gradients_of(query, w)
        sigma = (np.sqrt(rho + G + gradient**2) - np.sqrt(rho + G)) / rate
        G += gradient**2
        z += gradient - sigma * w
        slopes += gradient
        passed += sigma * w
    grown = (np.sqrt(rho + G) - np.sqrt(rho + start)) / rate
    return slopes, passed, G - start, grown


def mixed_ftrl(z, G, shares, rate, rho):
    """One round of FTRL: slopes and squares add up as far as they agree, and sigma is what the mixed G asks for."""
    slopes, passed, squares, grown = (np.sum([share[part] for share in shares], axis=0) for part in range(4))
    apart, together = sum(share[0] @ share[0] for share in shares), slopes @ slopes
    taken = min(1.0, apart / together) if together > 0 else 1.0
    after = G + taken * squares
    growth = (np.sqrt(rho + after) - np.sqrt(rho + G)) / rate
    mean = np.divide(passed, grown, out=np.zeros_like(passed), where=grown > 0)
    return z + taken * slopes - growth * mean, after


def online_steps(preferences, scores, rule, unit):
    """One passive-aggressive step a preference: min(target - margin, rate weight target) along q (d+ - d-)'.

    A preference is (q, d_better, d_worse, weight); ``scores`` has those of the weights that stay, one pair each. Every
    100 steps, ``l1`` times the lengths of the targets since then is taken off every weight.
    """
    W, pending = np.zeros((preferences[0][0].size, preferences[0][1].size)), 0.0
    for step, ((q, better, worse, weight), (first, second)) in enumerate(zip(preferences, scores, strict=True), 1):
        X = np.outer(q, better - worse)
        longer = max(np.linalg.norm(better), np.linalg.norm(worse))
        least = rule.least_margin * unit * np.linalg.norm(q) * longer
        target = max(rule.margin * max(abs(first), abs(second)), least)
        gap = target - (first - second) - q @ W @ (better - worse)
        pending += target / np.linalg.norm(X) if X.any() else 0.0
        if gap > 0 and X.any():
            if rule.pairs:
                X[np.abs(X) < np.sort(np.abs(X), axis=None)[-rule.pairs]] = 0
            change = min(gap, rule.rate * weight * target) * X / (X * X).sum()
            if rule.step:
                change *= min(1, rule.step * unit / np.linalg.norm(change))
            W += change
            W = np.clip(W, -rule.weight * unit, rule.weight * unit) if rule.weight else W
        if step % 100 == 0:
            W, pending = np.sign(W) * np.maximum(np.abs(W) - rule.l1 * pending, 0), 0.0
    return W


def joint_sgd(U, V, identity, preferences, features, rates, prior, l1, feature_rate, rho, chunk_size, margin=1.0):
    """``q'(U'V + identity I)d + w · phi``, chunk by chunk; U and V as in `sgd_lowrank`, ``features`` are phi+ - phi-.

    W steps (Bai et al. 2010) where both together miss the margin, w being that of before the chunk. Then w steps (Cheng
    et al. 2018, FTRL with L1 on w - prior and the hinge loss) where both together miss it, W's part of the margin being
    what it was at that preference's step.
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
                U, V = U + rates[s] * np.outer(V @ delta, q), V + rates[s] * np.outer(U @ q, delta)
        for s in chunk:
            if margins[s] + (prior + u) @ features[s] < margin:
                g = -features[s]
                before, G = np.sqrt(rho + G) / feature_rate, G + g**2
                inverse_rate = np.sqrt(rho + G) / feature_rate
                z = z + g - (inverse_rate - before) * u
                u = np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / inverse_rate)
    return U, V, prior + u


def drawn_shares(grades, n_docs, popular=0.0, uniform_over="queries", itself=False, absent=()):
    """Probability of each preference (query, better, worse): the better one by query or judgement, the worse one of
    those of a lower grade, uniformly or, for a share of them, as often as each is the better one."""
    lower = {}
    for q, judged in grades.items():
        others = [d for d in range(n_docs) if d not in absent and not (itself and d == q)]
        for b in others:
            worse = [w for w in others if judged.get(w, 0) < judged.get(b, 0)]
            if judged.get(b, 0) > 0 and worse:
                lower[q, b] = worse
    better = {}
    for q, b in lower:
        n_same = sum(query == q for query, _ in lower)
        n_queries = len({query for query, _ in lower})
        better[q, b] = 1 / len(lower) if uniform_over == "judgements" else 1 / n_queries / n_same
    popularity = np.zeros(n_docs)
    for (_, b), share in better.items():
        popularity[b] += share
    drawn = np.zeros((max(grades) + 1, n_docs, n_docs))
    for (q, b), worse in lower.items():
        uniform = np.zeros(n_docs)
        uniform[worse] = 1 / len(worse)
        by_popularity = np.zeros(n_docs)
        by_popularity[worse] = popularity[worse]
        by_popularity = by_popularity / by_popularity.sum() if by_popularity.any() else uniform
        drawn[q, b] = better[q, b] * (popular * by_popularity + (1 - popular) * uniform)
    return drawn


def nearest_of_rank(W, rank, a=None, b=None):
    """The W_k of that rank with the least squared error ||A^½ (W - W_k) B^½||, by a dense decomposition."""
    a, b = (np.sqrt(np.ones(n) if w is None else w) for n, w in zip(W.shape, (a, b), strict=True))
    left, singular, right = np.linalg.svd(a[:, None] * W * b)
    k = min(rank, singular.size)
    return (left[:, :k] * singular[:k]) @ right[:k] / np.outer(a, b)
