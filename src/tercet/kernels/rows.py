"""Sparse rows inside kernels.

A matrix is the tuple ``(indptr int64, indices int32, data float32)`` with sorted, unique indices in each row. A chunk
is ``(query, better, worse, step_size, rate, margin)``, one of each per preference; the step size is the rate times the
preference's weight, and the margin is what its score must reach. Scratch is ``(cols, vals, shared_cols, shared_vals)``,
each with room for the words of two documents.
"""

from tercet.kernels.compiler import kernel


@kernel
def difference(matrix, better, worse, cols, vals):
    """Write the non-zero entries of ``matrix[better] - matrix[worse]`` to ``cols``, ``vals``; return their number.

    ``cols`` (int32) and ``vals`` (float32) have room for both rows.
    """
    indptr, indices, data = matrix
    p, p_end = indptr[better], indptr[better + 1]
    r, r_end = indptr[worse], indptr[worse + 1]
    n = 0
    while p < p_end and r < r_end:
        cp, cr = indices[p], indices[r]
        if cp < cr:
            cols[n], vals[n] = cp, data[p]
            p += 1
            n += 1
        elif cr < cp:
            cols[n], vals[n] = cr, -data[r]
            r += 1
            n += 1
        else:
            value = data[p] - data[r]
            if value != 0:
                cols[n], vals[n] = cp, value
                n += 1
            p += 1
            r += 1
    while p < p_end:
        cols[n], vals[n] = indices[p], data[p]
        p += 1
        n += 1
    while r < r_end:
        cols[n], vals[n] = indices[r], -data[r]
        r += 1
        n += 1
    return n


@kernel
def product(matrix, row, cols, vals, n, shared_cols, shared_vals):
    """Write the entries of ``matrix[row] * x`` for a sparse x (``cols``, ``vals``, n); return their number."""
    indptr, indices, data = matrix
    a, a_end = indptr[row], indptr[row + 1]
    j, m = 0, 0
    while a < a_end and j < n:
        if indices[a] < cols[j]:
            a += 1
        elif cols[j] < indices[a]:
            j += 1
        else:
            shared_cols[m], shared_vals[m] = cols[j], data[a] * vals[j]
            a += 1
            j += 1
            m += 1
    return m
