"""Margin rank loss on a dense W (Chen et al. 2010, equation 4; Bai et al. 2010, section 2.3.1)."""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.prefetch import prefetch
from tercet.kernels.rows import difference

AHEAD = 8  # rows of W asked for before they are read


@kernel
def line_starts(cols, n, starts):
    """Write one column of each cache line of W that ``cols`` touches to ``starts``; return their number."""
    m, last = 0, -1
    for j in range(n):
        line = cols[j] // 16
        if line != last:
            starts[m] = cols[j]
            m += 1
            last = line
    return m


@kernel
def dense_advance(W, own, Q, D, chunk, scratch, tally):
    """One pass over the preferences; changes ``W`` (n_query_terms, n_doc_terms) in place.

    A step adds ``step_size * q (d+ - d-)'`` to W when ``q'W(d+ - d-)`` is below the margin. ``tally`` gains the number
    of violations and the sum of the losses. ``own`` has the column of each query word itself where those weights are
    held at zero, and is empty where they are not.
    """
    query, better, worse, step_size, _, margin = chunk
    cols, vals, starts, _ = scratch
    q_indptr, q_indices, q_data = Q
    for s in range(query.size):
        n = difference(D, better[s], worse[s], cols, vals)
        m = line_starts(cols, n, starts)
        lo, hi = q_indptr[query[s]], q_indptr[query[s] + 1]
        # The step waits for memory: rows are asked for ahead, and read four at a time so that misses overlap.
        for a in range(lo, min(lo + AHEAD, hi)):
            for i in range(m):
                prefetch(W, q_indices[a], starts[i])
        z = np.float32(0)
        mid = lo + (hi - lo) // 4 * 4
        for a in range(lo, mid, 4):
            for b in range(a + AHEAD, min(a + AHEAD + 4, hi)):
                for i in range(m):
                    prefetch(W, q_indices[b], starts[i])
            r0, r1, r2, r3 = W[q_indices[a]], W[q_indices[a + 1]], W[q_indices[a + 2]], W[q_indices[a + 3]]
            z0, z1, z2, z3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for j in range(n):
                c, v = cols[j], vals[j]
                z0 += r0[c] * v
                z1 += r1[c] * v
                z2 += r2[c] * v
                z3 += r3[c] * v
            z += z0 * q_data[a] + z1 * q_data[a + 1] + z2 * q_data[a + 2] + z3 * q_data[a + 3]
        for a in range(mid, hi):
            row = W[q_indices[a]]
            z0 = np.float32(0)
            for j in range(n):
                z0 += row[cols[j]] * vals[j]
            z += z0 * q_data[a]
        if not z >= margin[s]:  # so that NaN counts as a violation and shows in the loss
            tally[0] += 1
            tally[1] += margin[s] - z
            for a in range(lo, hi):
                row = W[q_indices[a]]
                e = step_size[s] * q_data[a]
                for j in range(n):
                    row[cols[j]] += e * vals[j]
                if own.size:
                    row[own[q_indices[a]]] = 0
