"""Margin rank loss on a dense W (Chen et al. 2010, equation 4; Bai et al. 2010, equation 8).

The step size is η_t of Chen et al. and λ of Bai et al.
"""

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.prefetch import line_starts, prefetch_lines
from tercet.kernels.rows import difference, violates

AHEAD = 8  # rows of W that are prefetched before they are read


@helper
def weighted_sum(W, rows, factors, cols, vals, starts, m):
    """Return ``Σ factors[a] (W[rows[a]] · x)`` for a sparse x, whose columns touch the cache lines ``starts[:m]``.

    Memory limits the speed: rows are prefetched, and four rows are read at a time to overlap cache misses.
    """
    n_rows, n = rows.size, cols.size
    for a in range(min(AHEAD, n_rows)):
        prefetch_lines(W, rows[a], starts, m)
    z = np.float32(0)
    fours = n_rows // 4 * 4
    for a in range(0, fours, 4):
        for b in range(a + AHEAD, min(a + AHEAD + 4, n_rows)):
            prefetch_lines(W, rows[b], starts, m)
        r0, r1, r2, r3 = W[rows[a]], W[rows[a + 1]], W[rows[a + 2]], W[rows[a + 3]]
        z0, z1, z2, z3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for j in range(n):
            c, v = cols[j], vals[j]
            z0 += r0[c] * v
            z1 += r1[c] * v
            z2 += r2[c] * v
            z3 += r3[c] * v
        z += z0 * factors[a] + z1 * factors[a + 1] + z2 * factors[a + 2] + z3 * factors[a + 3]
    for a in range(fours, n_rows):
        row = W[rows[a]]
        z0 = np.float32(0)
        for j in range(n):
            z0 += row[cols[j]] * vals[j]
        z += z0 * factors[a]
    return z


@kernel
def dense_advance(W, own, Q, D, chunk, scratch, tally):
    """Take a step for each preference; change ``W`` (n_query_terms, n_doc_terms) in place.

    A step adds ``step_size * q (d+ - d-)'`` to W if ``q'W(d+ - d-)`` is below the margin. ``tally`` gains the number
    of violations and the sum of the losses. ``own`` has the column of each query word for a diagonal held at zero, and
    is empty otherwise.
    """
    cols, vals, starts = scratch.cols, scratch.vals, scratch.shared_cols
    for s in range(chunk.query.size):
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        m = line_starts(cols, n, starts)
        lo, hi = Q.indptr[chunk.query[s]], Q.indptr[chunk.query[s] + 1]
        words, q_vals = Q.indices[lo:hi], Q.data[lo:hi]
        z = weighted_sum(W, words, q_vals, cols[:n], vals[:n], starts, m)  # q'W(d+ - d-)
        if violates(z, chunk.margin[s], tally):
            for a in range(words.size):
                row = W[words[a]]
                e = chunk.step_size[s] * q_vals[a]
                for j in range(n):  # W += λ q (d+ - d-)'
                    row[cols[j]] += e * vals[j]
                if own.size:
                    row[own[words[a]]] = 0
