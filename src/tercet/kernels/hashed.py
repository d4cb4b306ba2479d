"""Margin rank loss on hashed pairs of words: ``W[s, t] = table[(s P + t) mod H]`` (Bai et al. 2010, equation 5)."""

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.prefetch import line_starts, prefetch
from tercet.kernels.rows import difference, product, violates
from tercet.kernels.scoring import largest

AHEAD = 8  # rows of W that are prefetched before they are read


@helper
def prefetch_buckets(pool, first, starts, m):
    """Prefetch the buckets of a row's columns; ``first`` is the bucket of its column 0."""
    size = pool.shape[1]
    for i in range(m):
        bucket = first + starts[i]
        prefetch(pool, 0, bucket - size if bucket >= size else bucket)


@helper
def row_sum(table, first, last, cols, vals, n):
    """The inner product of a row of W with a difference of documents, whose columns are below H and up to ``last``."""
    size, start = np.uint64(table.size), np.uint64(first)
    z = np.float32(0)
    if start + last < size:  # the usual case: the table is longer than a row
        for j in range(n):
            z += table[start + np.uint64(cols[j])] * vals[j]
    else:
        for j in range(n):
            bucket = start + np.uint64(cols[j])
            z += table[bucket - size if bucket >= size else bucket] * vals[j]
    return z


@kernel
def hashed_advance(table, multiplier, identity, learn_identity, Q, D, chunk, scratch, firsts, tally):
    """Take a step for each preference; change ``table`` (H,) and, when learned, ``identity`` in place.

    ``identity`` (1,) is the amount of the identity next to the table, empty without an identity. ``multiplier`` is P,
    up to 2^31, safe from overflow. All buckets are read before any is written, and pairs with a common bucket add up.
    ``firsts`` (words of a query,) is scratch for the bucket of column 0 in each row. ``tally`` as in ``dense_advance``.
    """
    query, step_size = chunk.query, chunk.step_size
    cols, vals, starts, shared = scratch
    q_indptr, q_indices, q_data = Q
    size = np.uint64(table.size)
    pool = table.reshape(1, table.size)
    for s in range(query.size):
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        overlap = np.float32(0)  # q'(d+ - d-)
        if identity.size:
            m = product(Q, query[s], cols, vals, n, starts, shared)
            for i in range(m):
                overlap += shared[i]
        if n and cols[n - 1] >= table.size:
            for j in range(n):
                cols[j] %= table.size
        # Columns are now below H: a row's first bucket plus a column wraps around the table at most once.
        m = line_starts(cols, n, starts)
        last = largest(cols[:n])
        lo, hi = q_indptr[query[s]], q_indptr[query[s] + 1]
        for a in range(lo, hi):
            firsts[a - lo] = np.int64(q_indices[a]) * multiplier % table.size
            if a < lo + AHEAD:
                prefetch_buckets(pool, firsts[a - lo], starts, m)
        z = np.float32(identity[0] * overlap) if identity.size else np.float32(0)
        for a in range(lo, hi):
            if a + AHEAD < hi:
                prefetch_buckets(pool, firsts[a - lo + AHEAD], starts, m)
            z += row_sum(table, firsts[a - lo], last, cols, vals, n) * q_data[a]
        if violates(z, chunk.margin[s], tally):
            for a in range(lo, hi):
                first = np.uint64(firsts[a - lo])
                e = step_size[s] * q_data[a]
                if first + last < size:
                    for j in range(n):
                        table[first + np.uint64(cols[j])] += e * vals[j]
                else:
                    for j in range(n):
                        bucket = first + np.uint64(cols[j])
                        table[bucket - size if bucket >= size else bucket] += e * vals[j]
            if learn_identity:
                identity[0] += step_size[s] * overlap
