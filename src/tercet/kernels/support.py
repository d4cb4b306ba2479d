"""Margin rank loss on a W with a given support.

The refit of Chen et al. 2010 (equation 8: q'W(d⁺ - d⁻) with the entries of W outside Ω at zero), and the rounds after
a pruning of Bai et al. 2010 (Algorithm 2).
"""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.prefetch import prefetch
from tercet.kernels.rows import difference, violates

AHEAD = 4  # rows whose start is prefetched before they are read


@kernel
def support_advance(values, columns, indptr, delta, Q, D, chunk, scratch, tally):
    """Take a step for each preference; change ``values``, the entries of W row by row, in place.

    Row r has the entries ``indptr[r]`` to ``indptr[r + 1]``. ``columns`` has the column of each, unsigned to avoid
    tests for negative indices; all other entries of W stay zero. ``delta`` (n_doc_terms,) is all zeros before and
    after: during a step it holds d+ - d-, and each row is read once from start to end. See ``dense_advance``.
    """
    cols, vals = scratch.cols, scratch.vals
    q_indptr, q_indices, q_data = Q
    for s in range(chunk.query.size):
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        for j in range(n):
            delta[cols[j]] = vals[j]
        lo, hi = q_indptr[chunk.query[s]], q_indptr[chunk.query[s] + 1]
        z = np.float32(0)
        for a in range(lo, hi):
            if a + AHEAD < hi:
                ahead = indptr[q_indices[a + AHEAD]]
                prefetch(values, 0, ahead)
                prefetch(columns, 0, ahead)
            first, last = indptr[q_indices[a]], indptr[q_indices[a] + 1]
            row, where = values[0, first:last], columns[0, first:last]
            z0 = np.float32(0)
            for k in range(row.size):
                z0 += row[k] * delta[where[k]]
            z += z0 * q_data[a]
        if violates(z, chunk.margin[s], tally):
            for a in range(lo, hi):
                first, last = indptr[q_indices[a]], indptr[q_indices[a] + 1]
                row, where = values[0, first:last], columns[0, first:last]
                e = chunk.step_size[s] * q_data[a]
                for k in range(row.size):  # W += η_t q (d+ - d-)' within the support
                    row[k] += e * delta[where[k]]
        for j in range(n):
            delta[cols[j]] = 0
