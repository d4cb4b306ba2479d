"""MinBatSRank: FTRL-proximal over batches of pairs that never cross a query (Cheng et al. 2018, Algorithms 1 and 2).

The paper's symbols: ``l1`` is λ, ``rate`` γ, ``rho`` ρ, ``z`` v_t, ``G`` the sum of squares g_t of Algorithm 2, and
``inverse_rate`` H_t / γ = 1 / η_t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.pairs import LISTNET, hinge_slopes, listnet_slopes

_FIRST = np.int64(0)  # typed: a literal 0 would compile a second version


class Features(NamedTuple):
    """Rows of features, dense (n_rows, d) or CSR; the other of the two is empty."""

    dense: NDArray[Any]
    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any]
    is_dense: bool


class Losses(NamedTuple):
    """Loss of ``kernels/pairs.py``, margin, and batches of pairs."""

    loss: int
    margin: float
    batch_size: int  # pairs in a batch, 0 for all pairs of a query
    per_pair: bool  # True to divide by the number of the query's pairs


class Paths(NamedTuple):
    """Branches of `ftrl_pass`: True for used branches, None for unused branches, which are not compiled."""

    sparse: bool | None
    batches: bool | None
    lists: bool | None

    @classmethod
    def from_features(cls, X: Features, losses: Losses) -> Paths:
        """Return the branches for these features and losses."""
        branches = not X.is_dense, losses.batch_size > 0, losses.loss == LISTNET
        return cls(*(branch or None for branch in branches))


class PassBuffers(NamedTuple):
    """Scratch of a pass; (n,) is the length of the longest query, (d,) the number of features, 0 for dense features."""

    scores: NDArray[Any]  # float64 (n,)
    slopes: NDArray[Any]  # float64 (n,)
    gradient: NDArray[Any]  # float64 (n_features,), all zero between calls
    used: NDArray[Any]  # int64 (n,), 0, 1, … at first
    is_used: NDArray[Any]  # bool (n,), all False between calls
    met: NDArray[Any]  # bool (d,), all False between calls
    features: NDArray[Any]  # int32 (d,)

    @classmethod
    def allocate(cls, X: Features, starts: NDArray[np.int64], n_features: int) -> PassBuffers:
        """Allocate buffers for these queries, outside the kernel to save compile time."""
        n, d = int(np.diff(starts).max(initial=0)), 0 if X.is_dense else n_features
        return cls(
            *(np.empty(n), np.empty(n), np.zeros(n_features), np.arange(n), np.zeros(n, np.bool_)),
            *(np.zeros(d, np.bool_), np.empty(d, np.int32)),
        )


class Rules(NamedTuple):
    """Rules from sums to a weight."""

    l1: float  # λ
    rate: float  # γ
    rho: float  # ρ
    per_feature: bool  # False: the paper's MinBatSRank-Nonfea


class Sums(NamedTuple):
    """Sums of FTRL, each (d,): z, squared slopes, and the resulting weights."""

    z: NDArray[Any]
    G: NDArray[Any]
    w: NDArray[Any]


@helper
def ftrl_weight(z, inverse_rate, l1):
    """Theorem 3.1 (equation 7): w is 0 where |v| <= λ, else -η (v - sign(v) λ)."""
    if abs(z) <= l1 or inverse_rate == 0.0:  # inverse_rate is 0 if rho is 0 and the squared slopes underflow
        return 0.0
    return ((l1 if z > 0.0 else -l1) - z) / inverse_rate  # NaN stays NaN


@helper
def ftrl_step(feature, slope, t, rules, sums):
    """Take in the derivative of batch t (from 1) by one weight; weights without a derivative never change.

    With per-feature rates 1/eta_t = sqrt(rho + G_t) / rate grows with the feature's own slopes only: an absent feature
    has sigma_t = 0. With the plain rate 1/eta_t = sqrt(t) / rate grows at every step, and ``-z = w/eta + sign(w) l1``
    with it for a constant w: z is updated at the next slope.
    """
    l1, rate, rho, per_feature = rules
    z, G, w = sums
    before = G[feature]
    G[feature] = before + slope * slope  # Algorithm 2, line 4
    if per_feature:
        inverse_rate = np.sqrt(rho + G[feature]) / rate  # lines 5 and 6: 1 / η = H / γ
        sigma = inverse_rate - np.sqrt(rho + before) / rate  # line 7
        z[feature] += slope - sigma * w[feature]  # v of Theorem 3.1: the sums of equation 6
    else:
        inverse_rate = np.sqrt(t) / rate
        if w[feature] == 0.0:
            z[feature] += slope
        else:
            z[feature] = slope - w[feature] * inverse_rate - np.sign(w[feature]) * l1
    w[feature] = ftrl_weight(z[feature], inverse_rate, l1)


@helper
def next_pairs(grades, better, worse, size, used, is_used):
    """Return the end of the batch of up to ``size`` pairs from (better, worse) on, and its numbers of pairs and
    documents.

    The documents are written to ``used`` (n,) and marked in ``is_used`` (n,), unmarked before. Pairs are ordered by the
    better document, then by the worse.
    """
    n = grades.size
    n_pairs, n_used = 0, 0
    while better < n:
        while worse < n:
            if grades[worse] < grades[better]:
                if n_pairs == size:
                    return better, worse, n_pairs, n_used
                n_pairs += 1
                for doc in (better, worse):
                    if not is_used[doc]:
                        is_used[doc] = True
                        used[n_used] = doc
                        n_used += 1
            worse += 1
        better += 1
        worse = 0
    return better, worse, n_pairs, n_used


@helper
def batch_slopes(scores, grades, better, worse, n_pairs, margin, slopes):
    """Like `hinge_slopes` for the ``n_pairs`` pairs from (better, worse) on; ``slopes`` (n,) comes in zero."""
    n = grades.size
    loss = 0.0
    while n_pairs > 0:
        while worse < n and n_pairs > 0:
            if grades[worse] < grades[better]:
                n_pairs -= 1
                violation = margin - scores[better] + scores[worse]
                if not violation <= 0.0:  # NaN stays NaN
                    loss += violation * violation
                    slopes[better] -= 2.0 * violation
                    slopes[worse] += 2.0 * violation
            worse += 1
        better += 1
        worse = 0
    return loss


@helper
def score_docs(X, rows, docs, w, scores, sparse):
    """Put the score of each of the documents ``docs`` (n,), whose rows of X are ``rows[docs]``, in ``scores[docs]``.

    Equation 1.
    """
    dense, indptr, indices, data, _ = X
    if sparse is None:
        # Four rows at a time: a single sum would wait for the previous addition at every feature. The last row fills
        # an incomplete group of four: every row is summed the same way, and equal rows have equal scores.
        last = docs.size - 1
        for u in range(0, docs.size, 4):
            doc0, doc1, doc2, doc3 = docs[u], docs[min(u + 1, last)], docs[min(u + 2, last)], docs[min(u + 3, last)]
            x0, x1, x2, x3 = dense[rows[doc0]], dense[rows[doc1]], dense[rows[doc2]], dense[rows[doc3]]
            sum0, sum1, sum2, sum3 = 0.0, 0.0, 0.0, 0.0
            for f in range(w.size):
                sum0 += x0[f] * w[f]
                sum1 += x1[f] * w[f]
                sum2 += x2[f] * w[f]
                sum3 += x3[f] * w[f]
            scores[doc0], scores[doc1], scores[doc2], scores[doc3] = sum0, sum1, sum2, sum3
        return
    for u in range(docs.size):
        row = rows[docs[u]]
        score = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            score += data[k] * w[indices[k]]
        scores[docs[u]] = score


@kernel
def ftrl_pass(X, sequence, queries, losses, rules, sums, step, buffers, sparse, batches, lists):
    """Take one pass over the queries ``sequence`` (n,), a step per batch; return steps, loss and largest |z|.

    Algorithm 1: the batches Z_t are pairs of one query, with the loss of equation 2. ``ftrl_step`` is its line 2.

    X is `Features`, ``queries`` are `QueryDocs` and ``buffers`` is `PassBuffers`; ``sums`` are changed in place, and
    ``step`` is the number of earlier steps. The last three are `Paths`.
    """
    dense, indptr, indices, data, _ = X
    rows, starts, grades, labels, n_grades, n_pairs = queries
    _, margin, batch_size, per_pair = losses
    z, w = sums.z, sums.w
    d = w.size
    scores, slopes, gradient, used, is_used, met, features = buffers
    first_step, total, largest = step, 0.0, 0.0
    for q in sequence:
        start, stop = starts[q], starts[q + 1]
        n = stop - start
        grade = grades[start:stop]
        scale = 1.0 / n_pairs[q] if per_pair else 1.0
        better, worse = _FIRST, _FIRST
        while True:
            n_used = n
            if batches is not None:
                next_better, next_worse, n_here, n_used = next_pairs(grade, better, worse, batch_size, used, is_used)
                if n_here == 0:
                    break
            score_docs(X, rows[start:stop], used[:n_used], w, scores, sparse)
            if batches is not None:
                slopes[:n] = 0.0
                total += scale * batch_slopes(scores[:n], grade, better, worse, n_here, margin, slopes[:n])
            elif lists is not None:
                total += listnet_slopes(scores[:n], labels[start:stop], slopes[:n])
            else:
                total += scale * hinge_slopes(scores[:n], grade, n_grades[q], margin, slopes[:n])
            step += 1
            if sparse is None:
                for u in range(n_used):
                    row, slope = rows[start + used[u]], scale * slopes[used[u]]
                    if slope != 0.0:
                        for f in range(d):
                            gradient[f] += slope * dense[row, f]
                for f in range(d):
                    if gradient[f] != 0.0:
                        ftrl_step(f, gradient[f], step, rules, sums)
                        largest = max(largest, abs(z[f]))
                    gradient[f] = 0.0
            else:
                n_met = 0
                for u in range(n_used):
                    row, slope = rows[start + used[u]], scale * slopes[used[u]]
                    if slope != 0.0:
                        for k in range(indptr[row], indptr[row + 1]):
                            f = indices[k]
                            if not met[f]:
                                met[f] = True
                                features[n_met] = f
                                n_met += 1
                            gradient[f] += slope * data[k]
                for m in range(n_met):
                    f = np.int64(features[m])
                    if gradient[f] != 0.0:
                        ftrl_step(f, gradient[f], step, rules, sums)
                        largest = max(largest, abs(z[f]))
                    gradient[f] = 0.0
                    met[f] = False
            if batches is None:
                break
            for u in range(n_used):
                is_used[used[u]] = False
            better, worse = next_better, next_worse
    return step - first_step, total, largest
