"""Margin rank loss on a W that is a sum over pairs of texts: the steps of ``dense_advance``, without W."""

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.rows import difference, product, violates


@kernel
def inner_products(X, columns, products):
    """``products`` (n, m) gains the inner products of n sparse rows with m others, given as the columns of those."""
    for i in range(X.indptr.size - 1):
        row = products[i]
        for a in range(X.indptr[i], X.indptr[i + 1]):
            word, value = X.indices[a], X.data[a]
            for b in range(columns.indptr[word], columns.indptr[word + 1]):
                row[columns.indices[b]] += value * columns.data[b]


@helper
def latent_margin(queries, M, query, better, worse):
    """The query's inner products with all texts, times what they weigh for the one document less the other."""
    near, first, second = queries[query], M[better], M[worse]
    z = np.float32(0)
    for a in range(near.size):
        z += near[a] * (first[a] - second[a])
    return z


@kernel
def dual_advance(amounts, M, queries, docs, start, diagonal, Q, D, chunk, scratch, tally):
    """One pass over the preferences; changes ``amounts`` (n_queries, n_docs) in place.

    W is ``Q' amounts D`` beside ``start``, the inner products of all queries and documents, empty for none; without
    its diagonal where ``diagonal`` (n_terms,) is not empty, which holds what the diagonal would be. ``queries`` and
    ``docs`` are the inner products of texts of the same side. ``M`` (n_docs, n_queries) is ``(amounts docs)'``, kept
    up to date: a step costs a few rows of it, and a column where the margin is missed. ``tally`` as in
    ``dense_advance``.
    """
    cols, vals, shared_cols, shared_vals = scratch
    for s in range(chunk.query.size):
        i, better, worse = chunk.query[s], chunk.better[s], chunk.worse[s]
        z = latent_margin(queries, M, i, better, worse)
        if start.size:
            z += start[i, better] - start[i, worse]
        m = 0
        if diagonal.size:
            n = difference(D, better, worse, cols, vals)
            m = product(Q, i, cols, vals, n, shared_cols, shared_vals)
            for k in range(m):
                z -= diagonal[shared_cols[k]] * shared_vals[k]
        if violates(z, chunk.margin[s], tally):
            e = chunk.step_size[s]
            amounts[i, better] += e
            amounts[i, worse] -= e
            first, second = docs[better], docs[worse]
            for j in range(first.size):
                M[j, i] += e * (first[j] - second[j])
            for k in range(m):
                diagonal[shared_cols[k]] += e * shared_vals[k]
