"""Weights between two rounds on a cluster: changes are added and mixed in.

Sparse rows are ``(indptr int64, columns uint16 or int32, values float32)``, the columns of a row sorted. ``here``
(n,) has, for each row of a result, its row in an operand, or -1 if absent.
"""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.sparse import soft


@kernel
def mark_words(indptr, indices, rows, marked):
    """Set ``marked`` (n_terms,) for every word of the texts ``rows`` (n,)."""
    for row in rows:
        for k in range(indptr[row], indptr[row + 1]):
            marked[indices[k]] = True


@kernel
def merge_rows(one, here_one, other, here_other, factor, shrink, least, keep, out):
    """Write ``one + factor * other``, soft-thresholded by ``shrink``, to ``out``; returns the number of entries.

    Zeros are dropped unless ``keep``, and so are entries of ``one`` that ``other`` lacks and that are not larger than
    ``least`` in size. ``out`` is sparse rows with room for the entries of both.
    """
    one_indptr, one_columns, one_values = one
    other_indptr, other_columns, other_values = other
    indptr, columns, values = out
    n, zero = np.int64(0), np.float32(0)
    indptr[0] = 0
    for row in range(here_one.size):
        a, a_end, b, b_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        if here_one[row] >= 0:
            a, a_end = one_indptr[here_one[row]], one_indptr[here_one[row] + 1]
        if here_other[row] >= 0:
            b, b_end = other_indptr[here_other[row]], other_indptr[here_other[row] + 1]
        # Without branches, and written in any case to be overwritten by the next: neither which column comes next nor
        # whether a value is zero can be predicted.
        while a < a_end and b < b_end:
            column, other_column = one_columns[a], other_columns[b]
            mine, theirs = one_values[a], factor * other_values[b]
            in_one, in_other = column <= other_column, other_column <= column
            whole = (mine if in_one else zero) + (theirs if in_other else zero)
            value = soft(whole, shrink)
            columns[n], values[n] = min(column, other_column), value
            n += (keep | (value != 0)) & (in_other | (not abs(whole) <= least))
            a += in_one
            b += in_other
        for k in range(a, a_end):
            value = soft(one_values[k], shrink)
            columns[n], values[n] = one_columns[k], value
            n += (keep | (value != 0)) & (not abs(one_values[k]) <= least)
        for k in range(b, b_end):
            value = soft(factor * other_values[k], shrink)
            columns[n], values[n] = other_columns[k], value
            n += keep | (value != 0)
        indptr[row + 1] = n
    return n


@kernel
def take_sparse_rows(source, rows, out):
    """Copy the rows ``rows`` (n,) of sparse rows to ``out``, which has room for them and its ``indptr``."""
    indptr, columns, values = source
    out_indptr, out_columns, out_values = out
    for number in range(rows.size):
        lo, to = indptr[rows[number]], out_indptr[number]
        for k in range(indptr[rows[number] + 1] - lo):
            out_columns[to + k], out_values[to + k] = columns[lo + k], values[lo + k]
