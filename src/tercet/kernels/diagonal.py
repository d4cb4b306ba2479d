"""Margin rank loss on a diagonal W: a learned weight for each word (Bai et al. 2010, section 2.2.1)."""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.rows import difference, product


@kernel
def diagonal_advance(weights, Q, D, chunk, scratch, tally):
    """One pass over the preferences; changes ``weights`` (n_terms,) in place. ``tally`` as in ``dense_advance``."""
    query, better, worse, step_size, _, margin = chunk
    cols, vals, shared_cols, shared_vals = scratch
    for s in range(query.size):
        n = difference(D, better[s], worse[s], cols, vals)
        m = product(Q, query[s], cols, vals, n, shared_cols, shared_vals)
        z = np.float32(0)
        for i in range(m):
            z += weights[shared_cols[i]] * shared_vals[i]
        if not z >= margin[s]:
            tally[0] += 1
            tally[1] += margin[s] - z
            for i in range(m):
                weights[shared_cols[i]] += step_size[s] * shared_vals[i]
