"""Margin rank loss on ``W = U'V + diag(w)`` (Bai et al. 2010, equation 4 and section 2.3.2).

The paper's symbols: ``step_size`` is λ, d+ and d- are the better and the worse document.
"""

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.prefetch import LINE, prefetch
from tercet.kernels.rows import difference, product, violates

AHEAD = 6  # rows of factors that are prefetched before they are read


@helper
def prefetch_row(F, row):
    """Prefetch a row of factors: words of a text lie far apart, so each would else wait for memory."""
    for k in range(0, F.shape[1], LINE):
        prefetch(F, row, k)


@kernel
def lowrank_advance(U, V, diagonal, learn_diagonal, rare, Q, D, chunk, scratch, tally):
    """Take a step for each preference; change ``U``, ``V`` and, when learned, ``diagonal`` in place.

    ``U`` (n_query_terms, n_components) and ``V`` (n_doc_terms, n_components) hold a word's factors in one row; the tied
    model has one array for both. ``diagonal`` (n_terms,) is empty without a diagonal. Both gradients are taken at the
    old U and V. ``tally`` as in ``dense_advance``.

    ``rare`` (n_query_terms,) and (n_doc_terms,) marks words with factors of zero; both are empty without such words.
    """
    cols, vals, shared_cols, shared_vals = scratch
    q_indptr, q_indices, q_data = Q
    rare_q, rare_d = rare
    width = U.shape[1]
    uq = np.empty(width, dtype=np.float32)  # U q
    vd = np.empty(width, dtype=np.float32)  # V (d+ - d-)
    for s in range(chunk.query.size):
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        lo, hi = q_indptr[chunk.query[s]], q_indptr[chunk.query[s] + 1]
        _latent(U, rare_q, q_indices, q_data, lo, hi, uq)
        _latent(V, rare_d, cols, vals, 0, n, vd)
        z = np.float32(0)  # f(q, d+) - f(q, d-), equation 4
        for k in range(width):
            z += uq[k] * vd[k]
        m = 0
        if diagonal.size:
            m = product(Q, chunk.query[s], cols, vals, n, shared_cols, shared_vals)
        for i in range(m):
            z += diagonal[shared_cols[i]] * shared_vals[i]
        if violates(z, chunk.margin[s], tally):  # equation 8
            e = chunk.step_size[s]
            _add_to_words(U, rare_q, q_indices, q_data, lo, hi, e, vd)  # U += λ V (d+ - d-) q'
            _add_to_words(V, rare_d, cols, vals, 0, n, e, uq)  # V += λ U q (d+ - d-)'
            if learn_diagonal:
                for i in range(m):
                    diagonal[shared_cols[i]] += e * shared_vals[i]


@kernel
def queries_advance(U, latent, positions, diagonal, learn_diagonal, rare_q, Q, D, chunk, scratch, tally):
    """Take a step for each preference with constant V; change ``U`` and, when learned, ``diagonal`` in place.

    ``latent`` (n, n_components) has V d in rows, and ``positions`` (2, n_preferences) the rows of the better and the
    worse documents. All else as in ``lowrank_advance``.
    """
    cols, vals, shared_cols, shared_vals = scratch
    q_indptr, q_indices, q_data = Q
    width = U.shape[1]
    uq = np.empty(width, dtype=np.float32)  # U q
    vd = np.empty(width, dtype=np.float32)  # V (d+ - d-)
    for s in range(chunk.query.size):
        lo, hi = q_indptr[chunk.query[s]], q_indptr[chunk.query[s] + 1]
        _latent(U, rare_q, q_indices, q_data, lo, hi, uq)
        better, worse = latent[positions[0, s]], latent[positions[1, s]]
        z = np.float32(0)
        for k in range(width):
            vd[k] = better[k] - worse[k]
            z += uq[k] * vd[k]
        m = 0
        if diagonal.size:
            n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
            m = product(Q, chunk.query[s], cols, vals, n, shared_cols, shared_vals)
        for i in range(m):
            z += diagonal[shared_cols[i]] * shared_vals[i]
        if violates(z, chunk.margin[s], tally):
            e = chunk.step_size[s]
            _add_to_words(U, rare_q, q_indices, q_data, lo, hi, e, vd)  # U += λ V (d+ - d-) q'
            if learn_diagonal:
                for i in range(m):
                    diagonal[shared_cols[i]] += e * shared_vals[i]


@kernel
def cosine_advance(U, V, rare, Q, D, chunk, latent, tally):
    """One pass over the preferences, by the margin rank loss on cosines of latent vectors; changes U and V in place.

    ``cos(U q, V d+) - cos(U q, V d-)`` is to reach the margin, and a step is one of its exact gradient, all taken at
    the old U and V. ``U``, ``V``, ``rare`` and ``tally`` as in ``lowrank_advance``; ``latent`` (6, n_components) is
    scratch. A text without a latent vector has cosines of 0 and is not moved.
    """
    q_indptr, q_indices, q_data = Q
    d_indptr, d_indices, d_data = D
    rare_q, rare_d = rare
    width = U.shape[1]
    u, b, w = latent[0], latent[1], latent[2]  # of the query, the better and the worse document; then their gradients
    grad_u, grad_b, grad_w = latent[3], latent[4], latent[5]
    for s in range(chunk.query.size):
        q, better, worse = chunk.query[s], chunk.better[s], chunk.worse[s]
        q_length = _unit_latent(U, rare_q, q_indices, q_data, q_indptr[q], q_indptr[q + 1], u)
        b_length = _unit_latent(V, rare_d, d_indices, d_data, d_indptr[better], d_indptr[better + 1], b)
        w_length = _unit_latent(V, rare_d, d_indices, d_data, d_indptr[worse], d_indptr[worse + 1], w)
        cos_b, cos_w = np.float32(0), np.float32(0)
        for k in range(width):
            cos_b += u[k] * b[k]
            cos_w += u[k] * w[k]
        if violates(cos_b - cos_w, chunk.margin[s], tally) and q_length > 0:
            e = chunk.step_size[s]
            e_q = e / q_length
            e_b = e / b_length if b_length > 0 else np.float32(0)
            e_w = e / w_length if w_length > 0 else np.float32(0)
            for k in range(width):
                grad_u[k] = e_q * (b[k] - w[k] - (cos_b - cos_w) * u[k])
                grad_b[k] = e_b * (u[k] - cos_b * b[k])
                grad_w[k] = e_w * (cos_w * w[k] - u[k])
            _add_to_words(U, rare_q, q_indices, q_data, q_indptr[q], q_indptr[q + 1], np.float32(1), grad_u)
            _add_to_words(V, rare_d, d_indices, d_data, d_indptr[better], d_indptr[better + 1], np.float32(1), grad_b)
            _add_to_words(V, rare_d, d_indices, d_data, d_indptr[worse], d_indptr[worse + 1], np.float32(1), grad_w)


@helper
def _latent(factors, rare, indices, data, start, stop, latent):
    """Write the latent vector of a text's words to ``latent``."""
    latent[:] = 0
    for a in range(start, stop):
        if a + AHEAD < stop:
            prefetch_row(factors, indices[a + AHEAD])
        if rare.size and rare[indices[a]]:
            continue
        row, x = factors[indices[a]], data[a]
        for k in range(latent.size):
            latent[k] += x * row[k]


@helper
def _unit_latent(factors, rare, indices, data, start, stop, latent):
    """Write the latent vector of a text's words, at unit length, to ``latent``; return its length before."""
    _latent(factors, rare, indices, data, start, stop, latent)
    squares = np.float32(0)
    for k in range(latent.size):
        squares += latent[k] * latent[k]
    length = np.sqrt(squares)
    if length > 0:
        for k in range(latent.size):
            latent[k] /= length
    return length


@helper
def _add_to_words(factors, rare, indices, data, start, stop, rate, change):
    """Add ``rate * x * change`` to the factors of each word of a text, x its value."""
    for a in range(start, stop):
        if a + AHEAD < stop:
            prefetch_row(factors, indices[a + AHEAD])
        if rare.size and rare[indices[a]]:
            continue
        row, x = factors[indices[a]], rate * data[a]
        for k in range(change.size):
            row[k] += x * change[k]
