"""Margin rank loss on ``W = U'V`` between texts with a row for each bin of a word (Bai et al. 2010, equations 6, 7)."""

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.rows import difference, violates


@helper
def add_rows(factors, cols, vals, n, total):
    """Add ``vals[j] * factors[cols[j]]`` for j < n to ``total`` (n_components,)."""
    for j in range(n):
        row, x = factors[cols[j]], vals[j]
        for k in range(total.size):
            total[k] += x * row[k]


@helper
def change_rows(factors, cols, vals, n, step, change):
    """Add ``step * vals[j] * change`` to ``factors[cols[j]]`` for j < n."""
    for j in range(n):
        row, x = factors[cols[j]], step * vals[j]
        for k in range(change.size):
            row[k] += x * change[k]


@kernel
def binned_advance(U, V, Q, D, chunk, scratch, latent, tally):
    """One pass over the preferences; changes ``U`` and ``V``, as in ``lowrank_advance``, in place.

    Text i has the rows i P, …, i P + P - 1 of its matrix, one for each of P bins, and the score of two texts is the sum
    over bins p of ``q_p'U'V d_p``. ``latent`` is scratch (2, P, n_components) for the U q_p and the V (d+ - d-)_p.
    """
    query, better, worse = chunk.query, chunk.better, chunk.worse
    cols, vals = scratch.cols, scratch.vals
    q_indptr, q_indices, q_data = Q
    uq, vd = latent
    n_bins = uq.shape[0]
    for s in range(query.size):
        z = np.float32(0)
        for p in range(n_bins):
            lo, hi = q_indptr[query[s] * n_bins + p], q_indptr[query[s] * n_bins + p + 1]
            uq[p, :] = 0
            add_rows(U, q_indices[lo:hi], q_data[lo:hi], hi - lo, uq[p])
            n = difference(D, better[s] * n_bins + p, worse[s] * n_bins + p, cols, vals)
            vd[p, :] = 0
            add_rows(V, cols, vals, n, vd[p])
            for k in range(uq.shape[1]):
                z += uq[p, k] * vd[p, k]
        if violates(z, chunk.margin[s], tally):
            for p in range(n_bins):  # all gradients are those at the old U and V
                lo, hi = q_indptr[query[s] * n_bins + p], q_indptr[query[s] * n_bins + p + 1]
                change_rows(U, q_indices[lo:hi], q_data[lo:hi], hi - lo, chunk.step_size[s], vd[p])
                n = difference(D, better[s] * n_bins + p, worse[s] * n_bins + p, cols, vals)
                change_rows(V, cols, vals, n, chunk.step_size[s], uq[p])
