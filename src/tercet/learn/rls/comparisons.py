"""Which rows are compared with which: the Laplacian L of the paper, as a factor C with ``L = C'C``, never formed.

Learning is the least-squares system ``|t - C f|² + l2 |f|²`` over functions f of the rows, with one target ``t`` for
each row of C. With columns K of a basis, ``Z = C K``, it needs ``Z'Z`` and ``Z't`` (``moments``); with all rows as the
basis it is solved in the space of C's rows: ``(C K C' + l2 I) b = t`` and ``a = C'b`` (``dual``, ``back``). From
``(C K C' + l2 I) b = t`` follows ``C'C K C'b + l2 C'b = C't``, so that a is the paper's ``(L K + l2 I)⁻¹ L y``. The
matrix is symmetric, none of its eigenvalues is below l2, and K need not have an inverse.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from tercet.errors import InputError
from tercet.learn.rls.columns import Columns, Rows
from tercet.learn.rls.kernel import Matrix

Vector = NDArray[np.float64]

BYTES_AT_ONCE = 2**24  # of a block of rows of K
_NUMBERS_AT_ONCE = 2**16  # of those, that are worked on in turn


class Comparisons(ABC):
    """Which rows are compared.

    Attributes
    ----------
    rows : the training rows that take part, in the order that ``dual``, ``back`` and ``spread`` have them in
    target : t, one number for each row of C
    strength : L's largest eigenvalue, or a bound of it
    """

    rows: NDArray[np.int64]
    target: Vector
    strength: float = 1.0

    @abstractmethod
    def moments(self, columns: Columns) -> tuple[Matrix, Vector]:
        """``Z'Z``, of which only the lower triangle is filled, Fortran-ordered, and ``Z't``."""

    @abstractmethod
    def dual(self, K: Matrix) -> Matrix:
        """``C K C'`` of the kernel of ``rows`` with themselves, which may be overwritten."""

    @abstractmethod
    def back(self, b: Matrix) -> Matrix:
        """``C'b`` for one or more columns."""

    @abstractmethod
    def forward(self, values: Matrix) -> Matrix:
        """``C v`` for one or more columns of values of ``rows``; a new array."""

    @abstractmethod
    def take(self, positions: NDArray[np.int64]) -> Comparisons:
        """The same among some of ``rows``, in this order; no others may be compared with these."""


class Alone(Comparisons):
    """No comparisons, C = I: regression."""

    def __init__(self, y: Vector, rows: NDArray[np.int64]) -> None:
        self._y, self.rows, self.target = y, rows, y[rows]

    def moments(self, columns: Columns) -> tuple[Matrix, Vector]:
        gram, right = _no_moments(columns)
        for part in parts_of(len(self.rows), columns.n_columns):
            _add(gram, right, columns.block(run_of(self.rows[part])), self.target[part])
        return gram, right

    def dual(self, K: Matrix) -> Matrix:
        return K

    def back(self, b: Matrix) -> Matrix:
        return b

    def forward(self, values: Matrix) -> Matrix:
        return values.copy()

    def take(self, positions: NDArray[np.int64]) -> Alone:
        return Alone(self._y, self.rows[positions])


class PairsByQuery(Comparisons):
    """All rows of a query with one another: ``C = √n (I - 11'/n)`` within a query of n rows.

    Parameters
    ----------
    y : (n_rows,) grades
    rows : row numbers, those of a query together
    starts : (n_queries + 1,) where each query begins in ``rows``
    """

    def __init__(self, y: Vector, rows: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        self._y, self.rows, self.starts = y, rows, starts
        self.sizes = np.diff(starts)
        self.target = self.forward(y[rows])
        self.strength = float(self.sizes.max())

    def moments(self, columns: Columns) -> tuple[Matrix, Vector]:
        gram, right = _no_moments(columns)
        at_once = rows_at_once(columns.n_columns)
        for first, last in self._runs(at_once):
            if last > first + 1 or self.sizes[first] <= at_once:
                part = slice(self.starts[first], self.starts[last])
                block = columns.block(run_of(self.rows[part]))
                _centre(block, self.starts[first : last + 1] - self.starts[first])
                _add(gram, right, block, self.target[part])
            else:
                self._add_piecewise(gram, right, columns, first, at_once)
        return gram, right

    def _runs(self, at_once: int) -> Iterator[tuple[int, int]]:
        """Queries that together have at most so many rows; one that has more stands alone."""
        first = 0
        while first < len(self.sizes):
            limit = self.starts[first] + at_once
            last = max(first + 1, int(np.searchsorted(self.starts, limit, side="right")) - 1)
            yield first, last
            first = last

    def _add_piecewise(self, gram: Matrix, right: Vector, columns: Columns, query: int, at_once: int) -> None:
        # Differences to the mean of the query are differences to the mean of the piece, and those of the pieces'
        # means to the query's, which are orthogonal: no large numbers are subtracted from one another.
        start, n = int(self.starts[query]), int(self.sizes[query])
        n_pieces = -(-n // at_once)
        bounds = start + n * np.arange(n_pieces + 1) // n_pieces
        means = np.empty((n_pieces, columns.n_columns))
        targets = np.empty(n_pieces)
        for i, (begin, end) in enumerate(pairwise(bounds)):
            block, target = columns.block(run_of(self.rows[begin:end])), self.target[begin:end]
            means[i], targets[i] = block.mean(axis=0), target.mean()
            block -= means[i]
            block *= np.sqrt(n)
            _add(gram, right, block, target - targets[i])
        counts = np.diff(bounds)
        means -= (counts / n) @ means
        means *= np.sqrt(n * counts)[:, None]
        _add(gram, right, means, np.sqrt(counts) * targets)

    def dual(self, K: Matrix) -> Matrix:
        _centre(K, self.starts)
        _centre_columns(K, self.starts)
        return K

    def back(self, b: Matrix) -> Matrix:
        return self.forward(b)  # C is symmetric

    def forward(self, values: Matrix) -> Matrix:
        copy = np.array(values, dtype=np.float64)
        _centre(copy, self.starts)
        return copy

    def take(self, positions: NDArray[np.int64]) -> PairsByQuery:
        """Of whole queries, the rows of each together."""
        query = np.searchsorted(self.starts, positions, side="right")
        starts = np.flatnonzero(np.diff(query, prepend=-1, append=-1))
        return PairsByQuery(self._y, self.rows[positions], starts)


class ByEdge(Comparisons):
    """Pairs of rows, each with a weight w and a target: a row ``√w (e_better - e_worse)`` of C for each.

    ``L = C'C`` is sparse. Where a square factor is wanted (``dual``), each connected part of the graph has one of its
    rows grounded: ``f'Lf`` depends on differences to that row alone, and the Laplacian of the others has a Cholesky
    factor.
    """

    def __init__(self, better: NDArray[np.int64], worse: NDArray[np.int64], weight: Vector, margin: Vector) -> None:
        self.rows, ends = np.unique(np.concatenate([better, worse]), return_inverse=True)
        n, n_edges = len(self.rows), len(better)
        edge = np.arange(n_edges)
        root = np.sqrt(weight)
        self._C = sparse.csr_array(
            (np.concatenate([root, -root]), (np.concatenate([edge, edge]), ends)), shape=(n_edges, n)
        )
        self.laplacian = sparse.csr_array(self._C.T @ self._C)
        self.strength = 2.0 * float(self.laplacian.diagonal().max())
        self.right = self._C.T @ (root * margin)  # C't
        n_parts, part = sparse.csgraph.connected_components(self.laplacian, directed=False)
        order = np.argsort(part, kind="stable")
        self._by_part, self._part_starts = order, np.searchsorted(part[order], np.arange(n_parts + 1))
        is_ground = np.zeros(n, dtype=bool)
        is_ground[order[self._part_starts[:-1]]] = True
        self._ground_of = order[self._part_starts[:-1]][part]
        self._free = np.flatnonzero(~is_ground)
        self._factor: Matrix | None = None

    @property
    def target(self) -> Vector:  # type: ignore[override]
        return linalg.solve_triangular(self._grounded(), self.right[self._free], lower=True, check_finite=False)

    def moments(self, columns: Columns) -> tuple[Matrix, Vector]:
        values = np.concatenate(
            [columns.block(self.rows[part]) for part in parts_of(len(self.rows), columns.n_columns)]
        )
        # L takes no notice of what is the same for all of a connected part; without it less is cancelled.
        for start, end in pairwise(self._part_starts):
            members = self._by_part[start:end]
            values[members] -= values[members].mean(axis=0)
        gram = np.asfortranarray(values.T @ (self.laplacian @ values))
        return 0.5 * (gram + gram.T), values.T @ self.right

    def _grounded(self) -> Matrix:
        """R with ``R R'`` the Laplacian without the grounded rows."""
        if self._factor is None:
            inner = self.laplacian[self._free][:, self._free].toarray()
            factor, info = lapack.dpotrf(inner.T, lower=1, clean=1, overwrite_a=1)
            if info != 0:
                weights = self._C.data**2
                raise InputError(
                    f"weights from {weights.min():.3g} to {weights.max():.3g} are too far apart: beside the largest, "
                    "rounding leaves nothing of the smallest. Use weights nearer to each other, or n_basis"
                )
            self._factor = factor
        return self._factor

    def dual(self, K: Matrix) -> Matrix:
        half = self.forward(K)
        return self.forward(half.T)

    def back(self, b: Matrix) -> Matrix:
        a = np.zeros((len(self.rows), *b.shape[1:]))
        inner = self._grounded() @ b
        a[self._free] = inner
        np.subtract.at(a, self._ground_of[self._free], inner)
        return a

    def forward(self, values: Matrix) -> Matrix:
        return self._grounded().T @ (values[self._free] - values[self._ground_of[self._free]])

    def take(self, positions: NDArray[np.int64]) -> ByEdge:
        raise InputError("preferences between rows have no queries that could be left out")


def _centre(values: Matrix, starts: NDArray[np.int64]) -> None:
    """``√n (v - their mean)`` for the rows of each query, in place."""
    sizes = np.diff(starts)
    roots = np.sqrt(sizes.astype(np.float64))
    # Some queries at a time: few calls where they are small, and numbers that stay in a cache.
    step = max(1, _NUMBERS_AT_ONCE * len(sizes) // max(1, values.size))
    for first in range(0, len(sizes), step):
        last = min(first + step, len(sizes))
        part = values[starts[first] : starts[last]]
        if last == first + 1:
            part -= part.mean(axis=0)
            part *= roots[first]
            continue
        wide = (-1, *[1] * (values.ndim - 1))
        means = np.add.reduceat(part, starts[first:last] - starts[first], axis=0)
        means /= sizes[first:last].reshape(wide)
        part -= np.repeat(means, sizes[first:last], axis=0)
        part *= np.repeat(roots[first:last], sizes[first:last]).reshape(wide)


def _centre_columns(K: Matrix, starts: NDArray[np.int64]) -> None:
    """The same for the columns of each query."""
    sizes = np.diff(starts)
    roots = np.repeat(np.sqrt(sizes.astype(np.float64)), sizes)
    step = max(1, _NUMBERS_AT_ONCE // max(1, K.shape[1]))
    for first in range(0, len(K), step):
        part = K[first : first + step]
        means = np.add.reduceat(part, starts[:-1], axis=1)
        means /= sizes
        part -= np.repeat(means, sizes, axis=1)
        part *= roots


def _no_moments(columns: Columns) -> tuple[Matrix, Vector]:
    n = columns.n_columns
    return np.zeros((n, n), order="F"), np.zeros(n)


def _add(gram: Matrix, right: Vector, Z: Matrix, t: Vector) -> None:
    """Add ``Z'Z`` to the lower triangle and ``Z't``."""
    added = dsyrk(1.0, Z.T, beta=1.0, c=gram, lower=1, overwrite_c=1)
    assert np.shares_memory(added, gram)
    right += t @ Z


def rows_at_once(n_columns: int) -> int:
    """How many rows of K a block has."""
    return max(64, BYTES_AT_ONCE // (8 * max(1, n_columns)))


def parts_of(n: int, n_columns: int) -> Iterator[slice]:
    step = rows_at_once(n_columns)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def run_of(rows: NDArray[np.int64]) -> Rows:
    """A slice where row numbers follow one another, which is taken without a copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
