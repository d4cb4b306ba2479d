"""Rows of a shard: ``starts`` int64 (n_rows + 1), and ``entries`` int32, row after row its columns, then its values.

A row's columns and values lie side by side, so that a row from anywhere in a large file takes one look at the disk.
Values are the bits of float32.
"""

from tercet.kernels.compiler import kernel
from tercet.kernels.prefetch import prefetch

AHEAD = 3  # rows asked for before they are copied
LINE = 16  # entries in a cache line


@kernel
def take_rows(starts, entries, rows, positions, indptr, indices, bits):
    """Copy some rows to given places of a CSR matrix; ``indptr`` is filled already, ``bits`` are its values' bits."""
    lines = entries.reshape(1, entries.size)
    for i in range(rows.size):
        if i + AHEAD < rows.size:
            later = rows[i + AHEAD]
            for word in range(2 * starts[later], 2 * starts[later + 1], LINE):
                prefetch(lines, 0, word)
        start, stop = starts[rows[i]], starts[rows[i] + 1]
        first, target, n = 2 * start, indptr[positions[i]], stop - start
        indices[target : target + n] = entries[first : first + n]
        bits[target : target + n] = entries[first + n : first + 2 * n]


@kernel
def put_rows(indptr, indices, bits, entries):
    """Write all rows of a CSR matrix to ``entries``."""
    for row in range(indptr.size - 1):
        start, n = indptr[row], indptr[row + 1] - indptr[row]
        for j in range(n):
            entries[2 * start + j] = indices[start + j]
            entries[2 * start + n + j] = bits[start + j]
