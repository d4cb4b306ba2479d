"""The least-squares problems of RankRLS (Tsivtsivadze et al. 2008), solved by Cholesky or an eigendecomposition.

The Laplacian L of the paper defines the compared rows, as a factor C with ``L = C'C``, never formed.

Learning is the least-squares system ``|t - C f|² + l2 |f|²`` over functions f of the rows, with one target ``t`` for
each row of C. With columns K of a basis, ``Z = C K``, the system needs ``Z'Z`` and ``Z't`` (``moments``). With all rows
as the basis, the space of C's rows suffices: ``(C K C' + l2 I) b = t`` and ``a = C'b`` (``dual``, ``back``). From
``(C K C' + l2 I) b = t`` follows ``C'C K C'b + l2 C'b = C't``: a is the paper's ``(L K + l2 I)⁻¹ L y``. The
matrix is symmetric, none of its eigenvalues is below l2, and K need not have an inverse.

With ``Z = C K_MR`` and ``G = Z'Z`` the sparse form is ``(G + l2 K_RR) a = Z't`` (equation 8). With ``K_RR = F F'`` the
sparse form becomes ``(T + l2 I) u = F⁻¹ Z't`` and ``a = F'⁻¹ u`` with ``T = F⁻¹ G F'⁻¹ = V Λ V'`` (section 4.1): each
further l2, the paper's λ, changes a diagonal only. The basic form is ``(S + l2 I) b = t``, ``a = C'b`` with
``S = C K C' = V Λ V'`` (see `Comparisons`). Both are ``a = E (Λ + l2)⁻¹ r`` for some E and r, a ``Spectrum``.

A basis with repeats, or with vectors near combinations of other vectors, makes K_RR singular, though the solution
stays well defined. A Cholesky decomposition with pivots drops dependent functions, with the coefficient 0. T is then
made from the orthonormal functions ``K F'⁻¹`` of the rows instead of from G, at the cost of another G. Small pivots
then enlarge errors of K, not of its square.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from tercet.errors import InputError
from tercet.learn.rls.kernels import Columns, Matrix, Rows, WhitenedColumns

Vector = NDArray[np.float64]

BYTES_AT_ONCE = 2**24  # of a block of rows of K
_NUMBERS_AT_ONCE = 2**16  # of those, that are worked on in turn
_EPS = float(np.finfo(np.float64).eps)
# A Cholesky solution is taken when the estimated inverse condition is at least this; the rest goes the longer way.
_WELL_CONDITIONED = 1e-10
# Where T is made from G, its errors are those of G times the condition of K_RR.
_WELL_CONDITIONED_GRAM = 1e-5
# How much of its norm a basis function must have for itself.
_INDEPENDENT = 1e-13


class Comparisons(ABC):
    """Compared rows.

    Attributes
    ----------
    rows : the compared training rows, in the order of ``dual``, ``back`` and ``spread``
    target : t, one number for each row of C
    strength : L's largest eigenvalue, or an upper bound
    """

    rows: NDArray[np.int64]
    target: Vector
    strength: float = 1.0

    @abstractmethod
    def moments(self, columns: Columns) -> tuple[Matrix, Vector]:
        """Return ``Z'Z``, its lower triangle only, Fortran-ordered, and ``Z't``."""

    @abstractmethod
    def dual(self, K: Matrix) -> Matrix:
        """Return ``C K C'`` of the kernel of ``rows`` with themselves; K may be overwritten."""

    @abstractmethod
    def back(self, b: Matrix) -> Matrix:
        """Return ``C'b`` for one or more columns."""

    @abstractmethod
    def forward(self, values: Matrix) -> Matrix:
        """Return ``C v`` for one or more columns of values of ``rows``; a new array."""

    @abstractmethod
    def take(self, positions: NDArray[np.int64]) -> Comparisons:
        """Return the comparisons among some of ``rows``, in this order; no other rows may be compared with these."""


class SingleRows(Comparisons):
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

    def take(self, positions: NDArray[np.int64]) -> SingleRows:
        return SingleRows(self._y, self.rows[positions])


class PairsByQuery(Comparisons):
    """All pairs of rows of a query: ``C = √n (I - 11'/n)`` within a query of n rows.

    Parameters
    ----------
    y : (n_rows,) grades
    rows : row numbers, query by query
    starts : (n_queries + 1,) first position of each query in ``rows``
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
        """Yield runs of queries with at most ``at_once`` rows in all; a larger query is a run alone."""
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
    """Return the number of rows of K in a block."""
    return max(64, BYTES_AT_ONCE // (8 * max(1, n_columns)))


def parts_of(n: int, n_columns: int) -> Iterator[slice]:
    step = rows_at_once(n_columns)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def run_of(rows: NDArray[np.int64]) -> Rows:
    """Return a slice for consecutive row numbers, to avoid a copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


# -- systems ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Every solution at once: ``a = E (values + l2)⁻¹ right``.

    values (k,) eigenvalues, none below 0; right (k,); E (n_coefficients, k); noise is how far rounding can have moved
    an eigenvalue
    """

    values: Vector
    right: Vector
    E: Matrix
    noise: float = 0.0

    def inverse(self, l2: float) -> Vector:
        """Return ``(values + l2)⁻¹``, 0 below the rounding error.

        The exact ``right`` is 0 there too, as in the limit of a vanishing l2; the computed ``right`` is noise.
        """
        total = self.values + l2
        return np.divide(1.0, total, out=np.zeros_like(total), where=total > self.floor)

    @property
    def floor(self) -> float:
        """Bound of the rounding error."""
        relative = len(self.values) * _EPS * float(self.values.max(initial=0.0))
        return max(relative, self.noise, float(np.finfo(np.float64).tiny))

    def coefficients(self, l2s: Vector) -> Matrix:
        """Return one row for each l2 (n_l2s, n_coefficients); each costs O(k n_coefficients)."""
        inner = np.stack([self.inverse(float(l2)) * self.right for l2 in l2s])
        return inner @ self.E.T


class System(ABC):
    """Unsolved system: columns of a kernel, and the compared rows."""

    def __init__(self, columns: Columns, comparisons: Comparisons) -> None:
        self.columns, self.comparisons = columns, comparisons

    @abstractmethod
    def solve(self, l2: float) -> Vector:
        """Return the coefficients of one l2, by a Cholesky decomposition if well conditioned."""

    @abstractmethod
    def _decompose(self) -> Spectrum: ...

    @cached_property
    def spectrum(self) -> Spectrum:
        """The decomposition, made when first asked for."""
        return self._decompose()


class SparseSystem(System):
    """Equation 8: ``A = (K_RM L K_MR + λ K_RR)⁻¹ K_RM L Y``.

    With a column for each feature and the identity for their kernel, the linear kernel in the primal.
    """

    def __init__(self, columns: Columns, comparisons: Comparisons) -> None:
        super().__init__(columns, comparisons)
        self.gram, self.right = comparisons.moments(columns)  # the gram's lower triangle only
        self.basis_gram = columns.gram().T  # symmetric, so that this is nothing but its Fortran order
        for each in (self.gram, self.right, self.basis_gram):
            check_finite(each)

    def solve(self, l2: float) -> Vector:
        scale = max(1.0, l2)  # so that no l2 is too large
        matrix = self.basis_gram * (l2 / scale)
        matrix += self.gram / scale if scale > 1.0 else self.gram
        solution = _cholesky_solution(matrix, self.right / scale)
        return self.spectrum.coefficients(np.array([l2]))[0] if solution is None else solution

    def _decompose(self) -> Spectrum:
        n = self.columns.n_columns
        factor, info = lapack.dpotrf(self.basis_gram, lower=1, clean=1)
        if info == 0 and _inverse_condition(factor, self.basis_gram) >= _WELL_CONDITIONED_GRAM:
            # F⁻¹ G F'⁻¹ by one half of the work that two triangular systems would be; only lower triangles are read.
            T, info = lapack.dsygst(self.gram, factor, lower=1)
            values, V = _eigen(T)
            inner = linalg.solve_triangular(factor, self.right, lower=True, check_finite=False)
            E = linalg.solve_triangular(factor, V, lower=True, trans="T", check_finite=False)
            return Spectrum(values, inner @ V, E)
        factor, kept = independent(self.basis_gram)
        T, inner = self.comparisons.moments(WhitenedColumns(self.columns, factor, kept))
        values, V = _eigen(T)
        E = np.zeros((n, len(kept)))
        E[kept] = linalg.solve_triangular(factor, V, lower=True, trans="T", check_finite=False)
        return Spectrum(values, inner @ V, E)


class FullSystem(System):
    """Equation 7: ``A = (K L K + λ K)⁻¹ K L Y``.

    Every compared row is a basis vector. Columns belong to all training rows.
    """

    noise = 0.0

    def _dual(self) -> Matrix:
        rows = self.comparisons.rows
        K = np.empty((len(rows), len(rows)))
        whole = len(rows) == self.columns.n_columns and bool((rows == np.arange(len(rows))).all())
        for part in parts_of(len(rows), self.columns.n_columns):
            block = self.columns.block(run_of(rows[part]))
            K[part] = block if whole else block[:, rows]
        check_finite(K)
        # How far rounding of K moves eigenvalues of C K C', which may be far smaller where a kernel is nearly flat.
        self.noise = _EPS * len(rows) * float(K.diagonal().max(initial=0.0)) * self.comparisons.strength
        # A symmetric matrix in C order is one in Fortran order, which LAPACK then need not copy.
        return self.comparisons.dual(K).T

    def solve(self, l2: float) -> Vector:
        matrix = self._dual()
        scale = max(1.0, l2)
        if scale > 1.0:
            matrix /= scale
        matrix[np.diag_indices(len(matrix))] += l2 / scale
        solution = None
        if l2 > self.noise:
            solution = _cholesky_solution(matrix, self.comparisons.target / scale)
        return self.spectrum.coefficients(np.array([l2]))[0] if solution is None else self._all(solution)

    def _all(self, dual: Matrix) -> Matrix:
        """Coefficients of all training rows from a solution in the space of comparisons."""
        coefficients = np.zeros((self.columns.n_columns, *dual.shape[1:]))
        coefficients[self.comparisons.rows] = self.comparisons.back(dual)
        return coefficients

    @cached_property
    def eigenvectors(self) -> tuple[Vector, Matrix]:
        """Λ and V of ``C K C'``."""
        return _eigen(self._dual())

    def _decompose(self) -> Spectrum:
        values, V = self.eigenvectors
        return Spectrum(values, self.comparisons.target @ V, self._all(V), self.noise)

    def functions(self) -> Matrix:
        """P with ``P (values + l2)⁻¹ right`` the scores of the training rows (in the order of ``rows``)."""
        rows, E = self.comparisons.rows, self.spectrum.E
        parts = parts_of(len(rows), self.columns.n_columns)
        return np.concatenate([self.columns.block(run_of(rows[part])) @ E for part in parts])


def check_finite(values: Matrix) -> None:
    """Raise an InputError if products of features or grades exceed float64."""
    if not (np.isfinite(values.min(initial=0.0)) and np.isfinite(values.max(initial=0.0))):
        raise InputError(
            "the kernel, or what is made of it and of the grades, grows beyond what a float64 holds; use features, or "
            "grades, of a smaller scale"
        )


def independent(gram: Matrix) -> tuple[Matrix, NDArray[np.int64]]:
    """Return a Cholesky factor of the kernel of independent basis vectors, and the numbers of these vectors."""
    largest = float(gram.diagonal().max(initial=0.0))
    if float(gram.diagonal().min(initial=0.0)) < -1e-6 * np.abs(gram).max(initial=0.0):
        raise InputError(_not_positive(float(gram.diagonal().min())))
    if largest <= 0.0:
        raise InputError("the kernel of every basis vector with itself is 0; there is nothing to learn from")
    # dpstrf looks at the diagonal only; its pivots fall.
    pivoted, pivots, rank, _ = lapack.dpstrf(gram, tol=_INDEPENDENT * largest, lower=1)
    kept = pivots[:rank].astype(np.int64) - 1
    factor = np.tril(pivoted[:rank, :rank])
    left_out = pivots[rank:].astype(np.int64) - 1
    if len(left_out):
        rest = linalg.solve_triangular(factor, gram[np.ix_(kept, left_out)], lower=True, check_finite=False)
        residual = gram[np.ix_(left_out, left_out)] - rest.T @ rest
        worst = float(np.abs(residual).max())
        if worst > 1e-6 * largest:
            raise InputError(_not_positive(-worst))
    return factor, kept


def cholesky_of(matrix: Matrix, inverse_condition: float) -> Matrix | None:
    """Return the lower factor, or None for a worse condition.

    The matrix is Fortran-ordered; only its lower triangle is read, and overwritten.
    """
    norm = _norm_of_lower(matrix)
    factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        return None
    reciprocal, _ = lapack.dpocon(factor, norm, uplo="L")
    return factor if reciprocal >= inverse_condition else None  # a NaN is not


def _cholesky_solution(matrix: Matrix, right: Vector) -> Vector | None:
    """Return the solution, or None for a bad condition."""
    factor = cholesky_of(matrix, _WELL_CONDITIONED)
    if factor is None:
        return None
    solution, _ = lapack.dpotrs(factor, right, lower=1)
    return solution if np.isfinite(solution).all() else None


def _inverse_condition(factor: Matrix, matrix: Matrix) -> float:
    return float(lapack.dpocon(factor, float(np.abs(matrix).sum(axis=0).max(initial=0.0)), uplo="L")[0])


def _norm_of_lower(matrix: Matrix) -> float:
    """Return the largest sum of sizes in a row of a symmetric matrix, given by its lower triangle."""
    sums, n = np.zeros(len(matrix)), len(matrix)
    for start in range(0, n, 256):  # columns of a Fortran-ordered matrix
        end = min(start + 256, n)
        below = np.abs(matrix[start:, start:end])
        corner = below[: end - start]
        corner[np.triu_indices(end - start, 1)] = 0.0
        sums[start:] += below.sum(axis=1)
        sums[start:end] += below.sum(axis=0) - corner.diagonal()
    return float(sums.max(initial=0.0))


def _eigen(matrix: Matrix) -> tuple[Vector, Matrix]:
    """Return eigenvalues, none below 0, and vectors of a symmetric matrix, given by its lower triangle."""
    values, vectors = linalg.eigh(matrix, lower=True, overwrite_a=True, check_finite=False, driver="evd")
    largest = float(np.abs(values).max(initial=0.0))
    if values[0] < -1e-6 * largest:
        raise InputError(_not_positive(float(values[0])))
    return np.maximum(values, 0.0), vectors


def _not_positive(value: float) -> str:
    return (
        f"the kernel is not positive semi-definite: an eigenvalue is about {value:.3g}. "
        "A kernel must be an inner product of some features of the rows"
    )
