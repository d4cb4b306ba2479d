"""Margin rank loss with L1 on W (Chen et al. 2010, Algorithm 1).

The paper's symbols: q is the query, ``vals`` d⁺ - d⁻, ``step_size`` η_t, ``l1`` λ, ``shrink_every`` T. Comments in
``sparse_advance`` have the lines of Algorithm 1.

An entry stores its owed shrinkage. With ``cum`` the shrinkage handed out so far, a weight w is stored as the *level*
``sign(w) (|w| + cum)``. The current weight is the soft threshold of the level by ``cum``. Handing out shrinkage changes
one number; an entry takes its share when a step next reads the entry. NaN marks an entry outside a given support.
"""

from __future__ import annotations

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.prefetch import line_starts, prefetch_lines
from tercet.kernels.rows import difference, violates

AHEAD = 4  # rows of W that are prefetched before they are read
# Owed shrinkage, ``shrinkage`` float64 (4,): handed out so far, pending rates, l1, T.
CUM, PENDING, L1, SHRINK_EVERY = 0, 1, 2, 3


@helper
def soft(level, cum):
    """Return the weight of a level: the soft threshold of equation 7 by all shrinkage so far (Proposition 1)."""
    return max(level - cum, np.float32(0)) + min(level + cum, np.float32(0))


@helper
def level_of(weight, cum):
    """Return the level of a weight. The level of zero is cum, which reads as zero; a branch would be mispredicted."""
    return weight + np.copysign(cum, weight)


@helper
def hand_out(shrinkage, rate, n_done):
    """Algorithm 1, line 4: every T steps hand out ``λ Σ η_k`` of the steps k since the last time."""
    shrinkage[PENDING] += rate
    if n_done % shrinkage[SHRINK_EVERY] == 0:
        shrinkage[CUM] += shrinkage[L1] * shrinkage[PENDING]
        shrinkage[PENDING] = 0


@kernel
def sparse_advance(W, Q, D, chunk, shrinkage, first_step, scratch, tally):
    """Take a step for each preference; change the levels ``W`` (n_query_terms, n_doc_terms) in place.

    ``tally`` as in ``dense_advance``.
    """
    cols, vals, starts, expanded = scratch  # ``expanded``: q'W at the columns
    q_indptr, q_indices, q_data = Q
    for s in range(chunk.query.size):  # line 1: the drawn tuple (q, d⁺, d⁻)
        cum = np.float32(shrinkage[CUM])
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        m = line_starts(cols, n, starts)
        for j in range(n):
            expanded[j] = 0
        lo, hi = q_indptr[chunk.query[s]], q_indptr[chunk.query[s] + 1]
        for a in range(lo, min(lo + AHEAD, hi)):
            prefetch_lines(W, q_indices[a], starts, m)
        for a in range(lo, hi):
            if a + AHEAD < hi:
                prefetch_lines(W, q_indices[a + AHEAD], starts, m)
            row, q = W[q_indices[a]], q_data[a]
            for j in range(n):
                level = row[cols[j]]
                weight = soft(level, cum)
                expanded[j] += q * (weight if level == level else np.float32(0))
        z = np.float32(0)
        for j in range(n):  # line 2: the loss is 1 - z, with z = q'W(d⁺ - d⁻)
            z += expanded[j] * vals[j]
        if violates(z, chunk.margin[s], tally):
            for a in range(lo, hi):
                row, e = W[q_indices[a]], chunk.step_size[s] * q_data[a]
                for j in range(n):  # line 3: W += η_t q (d⁺ - d⁻)'
                    level = row[cols[j]]
                    changed = level_of(soft(level, cum) + e * vals[j], cum)
                    row[cols[j]] = changed if level == level else level
        hand_out(shrinkage, chunk.rate[s], first_step + s + 1)  # line 4
