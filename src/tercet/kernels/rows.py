"""Arguments of kernels, and steps common to all learners: sparse rows, chunks of preferences, the hinge.

Sparse rows have sorted, unique columns. Numba compiles the named tuples directly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from tercet.kernels.compiler import helper


class CsrRows(NamedTuple):
    """A CSR matrix: row i has the columns ``indices[indptr[i]:indptr[i + 1]]`` and as many values in ``data``."""

    indptr: NDArray[Any]  # int64 (n_rows + 1,)
    indices: NDArray[Any]  # int32
    data: NDArray[Any]  # float32, or float64 where scores are computed


class QueryRow(NamedTuple):
    """One row of a CSR matrix as its arrays: to make a matrix of SciPy takes longer than a search."""

    indptr: NDArray[Any]
    indices: NDArray[Any]  # int32, ascending
    data: NDArray[Any]  # float32
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.n_columns

    @property
    def nnz(self) -> int:
        return self.indices.size


class Chunk(NamedTuple):
    """Preferences to step over, one of each per preference."""

    query: NDArray[Any]  # int32, a row of Q
    better: NDArray[Any]  # int32, a row of D
    worse: NDArray[Any]  # int32, a row of D
    step_size: NDArray[Any]  # float32, the rate times the preference's weight
    rate: NDArray[Any]  # float32
    margin: NDArray[Any]  # float32, what the score of better less that of worse must reach

    def part(self, start: int, stop: int) -> Chunk:
        """The preferences from one to another."""
        return Chunk(*(column[start:stop] for column in self))


class Scratch(NamedTuple):
    """Buffers for the words of two documents: their difference, and its overlap with a query."""

    cols: NDArray[Any]  # int32
    vals: NDArray[Any]  # float32
    shared_cols: NDArray[Any]  # int32
    shared_vals: NDArray[Any]  # float32


@helper
def violates(z, margin, tally):
    """Return True if the score difference z misses the margin; ``tally`` then gains a violation and its hinge loss.

    NaN counts as a violation and shows in the loss. A longer tally, (3 + n,), has the number of earlier preferences at
    2, followed by the z of each.
    """
    if tally.size > 2:
        tally[2] += 1
        tally[2 + int(tally[2])] = z
    if not z >= margin:
        tally[0] += 1
        tally[1] += margin - z
        return True
    return False


@helper
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


@helper
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
