"""Margin rank loss on a W with a given support, such as what a pruning leaves (Bai et al. 2010, Algorithm 2)."""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.prefetch import prefetch
from tercet.kernels.rows import difference, violates

AHEAD = 4  # rows whose start is prefetched before they are read
SIZE_BITS = 0x7FFFFFFF  # of a float32, all but its sign; they sort as its size does, NaN last
DIGIT_BITS = 11  # of a size, counted together; three such digits are a size
N_DIGITS = 1 << DIGIT_BITS


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
                for k in range(row.size):
                    row[k] += e * delta[where[k]]
        for j in range(n):
            delta[cols[j]] = 0


@kernel
def largest_of_rows(values, columns, kept_values, kept_columns, counts):
    """Write the largest entries of each row, by size, and their columns to ``kept_values``, ``kept_columns``.

    Their width is the number of entries; ties go to the first entry, and entries keep their order. Values are the bits
    (int32) of floats; ``columns`` is empty for a full row. ``counts`` (N_DIGITS,) is scratch.
    """
    n_kept = kept_values.shape[1]
    for r in range(values.shape[0]):
        row = values[r]
        # Digit by digit, from the highest, the smallest size that stays, and how many of that size do.
        smallest, ties = np.int64(0), n_kept
        for shift in (2 * DIGIT_BITS, DIGIT_BITS, 0):
            counts[:] = 0
            for k in range(row.size):
                size = np.int64(row[k]) & SIZE_BITS
                if size >> (shift + DIGIT_BITS) == smallest:
                    counts[(size >> shift) & (N_DIGITS - 1)] += 1
            digit = N_DIGITS - 1
            while counts[digit] < ties:
                ties -= counts[digit]
                digit -= 1
            smallest = (smallest << DIGIT_BITS) | digit
        n = 0
        for k in range(row.size):
            size = np.int64(row[k]) & SIZE_BITS
            if size > smallest or (size == smallest and ties > 0):
                ties -= size == smallest
                kept_values[r, n] = row[k]
                kept_columns[r, n] = columns[r, k] if columns.size else k
                n += 1
