"""Margin rank loss on a diagonal W: a learned weight for each word (Bai et al. 2010, section 2.2.1)."""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.rows import difference, product, violates


@kernel
def diagonal_advance(weights, Q, D, chunk, scratch, tally):
    """One pass over the preferences; changes ``weights`` (n_terms,) in place. ``tally`` as in ``dense_advance``."""
    cols, vals, shared_cols, shared_vals = scratch
    for s in range(chunk.query.size):
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        m = product(Q, chunk.query[s], cols, vals, n, shared_cols, shared_vals)
        z = np.float32(0)
        for i in range(m):
            z += weights[shared_cols[i]] * shared_vals[i]
        if violates(z, chunk.margin[s], tally):
            for i in range(m):
                weights[shared_cols[i]] += chunk.step_size[s] * shared_vals[i]
