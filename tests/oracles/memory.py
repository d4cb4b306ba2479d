"""Memory written from its equations: dense, in double precision, one number at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def similarity(q: Array, past: Array, threshold: float, power: float) -> float:
    """``max(0, (cos(q, q_i) − threshold) / (1 − threshold)) ** power``; 0 for a query without words."""
    lengths = np.linalg.norm(q) * np.linalg.norm(past)
    cosine = 0.0 if lengths == 0 else float(q @ past / lengths)
    return max(0.0, (cosine - threshold) / (1 - threshold)) ** power


def kernel_term(q: Array, P: Array, r: Array, *, weight: float, half: float, threshold: float, power: float) -> float:
    """``weight · m / (|m| + half)`` with ``m = Σ_i k(q, q_i) · r(q_i, d)``; r has one number for each past query."""
    m = sum(similarity(q, past, threshold, power) * evidence for past, evidence in zip(P, r, strict=True))
    return weight * m / (abs(m) + half)


def pooled_rows(P: Array, R: Array, k1: float = 1.2, b: float = 0.75) -> Array:
    """For each document the words of its past queries, weighted as BM25 with the root of idf, of mean length 1."""
    n_docs, n_terms = R.shape[1], P.shape[1]
    counts = np.zeros((n_docs, n_terms))
    for i in range(len(P)):
        for d in range(n_docs):
            if R[i, d] > 0:
                counts[d] += P[i] != 0
    lengths = counts.sum(axis=1)
    rows = np.zeros((n_docs, n_terms))
    for t in range(n_terms):
        df = np.count_nonzero(counts[:, t])
        idf = np.log(1 + (n_docs - df + 0.5) / (df + 0.5))
        for d in range(n_docs):
            norm = k1 * (1 - b + b * lengths[d] / max(lengths.mean(), 1e-12))
            rows[d, t] = np.sqrt(idf) * counts[d, t] * (k1 + 1) / (counts[d, t] + norm) if counts[d, t] else 0.0
    mean = np.linalg.norm(rows, axis=1).mean()
    return rows / max(mean, 1e-12)


def score(q: Array, d: Array, W: Array, added: float | None, unseen: float, n_words: int) -> float:
    """``q'Wd`` and what memory adds to a document that it knows; None for one that it does not know."""
    total = 0.0
    for i in range(len(q)):
        for j in range(len(d)):
            total += q[i] * W[i, j] * d[j]
    if added is not None:
        return total + added
    return total + unseen * sum(q[t] * d[t] for t in range(n_words))


def mixed_scores(
    Q: Array,
    D: Array,
    W: Array,
    P: Array,
    R: Array,
    columns: list[int],
    *,
    weight: float,
    pooled: float,
    threshold: float,
    power: float,
    half: float,
    unseen: float,
) -> Array:
    """Scores (n_queries, n_docs) by words and memory; past queries P (n_past, n_words) have evidence R (…, n_known).

    ``columns`` has the column of R of each document, -1 for one without evidence.
    ``q'Wd + weight · m / (|m| + half) + pooled · q'p_d`` for a document with evidence, where q has unit length in the
    last term, and ``q'Wd + unseen · q'd`` for any other. Columns of Q behind the words of P are none of memory's.
    """
    rows = pooled_rows(P, R)
    scores = np.zeros((len(Q), len(D)))
    for i, q in enumerate(Q):
        asked = q[: P.shape[1]]
        unit = asked / max(float(np.linalg.norm(asked)), 1e-12)
        near = np.array([similarity(asked, past, threshold, power) for past in P])
        for j, d in enumerate(D):
            scores[i, j] = q @ W @ d
            if columns[j] >= 0:
                m = float(near @ R[:, columns[j]])
                scores[i, j] += weight * m / (abs(m) + half) + pooled * float(unit @ rows[columns[j]])
            else:
                scores[i, j] += unseen * float(asked @ d[: P.shape[1]])
    return scores
