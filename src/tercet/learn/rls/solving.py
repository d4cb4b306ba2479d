"""The least-squares problems of RankRLS (Tsivtsivadze et al. 2008), solved by Cholesky or an eigendecomposition.

The Laplacian L of the paper (equation 5) is held as a factor C with ``L = C'C``, never formed: within a query of n rows
``C = √n (I - 11'/n)``; ``C = I`` for a regression. With targets ``t = C y`` learning is ``|t - C f|² + λ |f|²``.

- sparse form (equation 8), with ``Z = C K_MR``: ``(Z'Z + λ K_RR) a = Z't``
- basic form (equation 7), in the space of C's rows: ``(C K C' + λ I) b = t``, ``a = C'b``. Hence
  ``C'C K C'b + λ C'b = C't``: a is the paper's ``(L K + λ I)⁻¹ L y``. The matrix is symmetric, none of its eigenvalues
  is below λ, and K need not have an inverse

Every λ at once (section 4.1): in terms of orthonormal functions of the rows both forms are ``(Λ + λ I) u = r`` with
diagonal Λ, a `Spectrum`. Sparse: ``K_RR = F F'``, ``F⁻¹ Z'Z F'⁻¹ = V Λ V'``, functions ``K F'⁻¹ V``. Basic:
``C K C' = V Λ V'``, functions ``K C' V Λ^-½``.

Repeats in the basis make K_RR singular, though the function stays well defined. A Cholesky decomposition with pivots
drops dependent vectors, with the coefficient 0. ``Z'Z`` is then made again from the orthonormal functions ``K F'⁻¹``:
small pivots enlarge errors of K and not of its square.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from tercet.errors import InputError
from tercet.learn.rls.kernels import Columns, Matrix, Rows

Vector = NDArray[np.float64]

BYTES_AT_ONCE = 2**24  # bytes of a block of rows of K
_NUMBERS_AT_ONCE = 2**16  # numbers of a block that is centered in a processor cache
_EPS = float(np.finfo(np.float64).eps)
# A Cholesky decomposition is taken when no pivot is below this share of the largest diagonal entry.
_LEAST_PIVOT = 1e-10
_LEAST_PIVOT_OF_BASIS = 1e-5  # least pivot of K_RR; a bad condition of K_RR amplifies errors of Z'Z
_LEAST_PIVOT_OF_BLOCK = 1e-6  # of rows left out
_INDEPENDENT = 1e-13  # least share of a basis function's norm outside the span of the others


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Compared rows: the factor C of the Laplacian.

    Parameters
    ----------
    y : (n_rows,) grades
    rows : row numbers, query by query
    starts : (n_queries + 1,) first position of each query in ``rows``
    within_queries : False for ``C = I``
    """

    y: Vector
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    within_queries: bool = True

    @cached_property
    def target(self) -> Vector:
        """``t = C y``."""
        return self.forward(self.y[self.rows])

    @property
    def strength(self) -> float:
        """The largest eigenvalue of L."""
        return float(np.diff(self.starts).max()) if self.within_queries else 1.0

    def forward(self, values: Matrix) -> Matrix:
        """Return ``C v`` for one or more columns of values of ``rows``, a new array; C is symmetric."""
        copy = np.array(values, dtype=np.float64)
        if self.within_queries:
            _center(copy, self.starts)
        return copy

    def dual(self, K: Matrix) -> Matrix:
        """Return ``C K C'`` of the kernel of ``rows`` with themselves; K is overwritten."""
        if self.within_queries:
            _center(K, self.starts)
            _center_columns(K, self.starts)
        return K

    def moments(self, columns: Columns) -> tuple[Matrix, Vector]:
        """Return ``Z'Z``, its lower triangle only, Fortran-ordered, and ``Z't``, reading rows a block at a time."""
        n_columns = columns.n_columns
        gram, right = np.zeros((n_columns, n_columns), order="F"), np.zeros(n_columns)
        for first, last in self.runs(at_once := rows_at_once(n_columns)):
            start, end = self.starts[first], self.starts[last]
            parts = [slice(at, min(at + at_once, end)) for at in range(start, end, at_once)]
            mean = 0.0
            if len(parts) > 1:  # a query with more rows than a block is read twice
                mean = sum(columns.block(run_of(self.rows[part])).sum(axis=0) for part in parts) / (end - start)
            for part in parts:
                Z = columns.block(run_of(self.rows[part]))
                if len(parts) > 1 and self.within_queries:
                    Z -= mean
                    Z *= np.sqrt(end - start)
                elif self.within_queries:
                    _center(Z, self.starts[first : last + 1] - start)
                added = dsyrk(1.0, Z.T, beta=1.0, c=gram, lower=1, overwrite_c=1)
                assert np.shares_memory(added, gram)
                right += self.target[part] @ Z
        return gram, right

    def runs(self, at_once: int) -> Iterator[tuple[int, int]]:
        """Yield runs of queries with at most ``at_once`` rows in all; a larger query is a run alone."""
        first = 0
        while first < len(self.starts) - 1:
            limit = self.starts[first] + at_once
            last = max(first + 1, int(np.searchsorted(self.starts, limit, side="right")) - 1)
            yield first, last
            first = last


def _center(values: Matrix, starts: NDArray[np.int64]) -> None:
    """``√n (v - mean)`` over the rows of each query, in place."""
    sizes = np.diff(starts)
    roots = np.sqrt(sizes.astype(np.float64))
    wide = (-1, *[1] * (values.ndim - 1))
    # Some queries at a time: few calls for small queries, and numbers that stay in a cache.
    step = max(1, _NUMBERS_AT_ONCE * len(sizes) // max(1, values.size))
    for first in range(0, len(sizes), step):
        last = min(first + step, len(sizes))
        part = values[starts[first] : starts[last]]
        means = np.add.reduceat(part, starts[first:last] - starts[first], axis=0)
        means /= sizes[first:last].reshape(wide)
        part -= np.repeat(means, sizes[first:last], axis=0)
        part *= np.repeat(roots[first:last], sizes[first:last]).reshape(wide)


def _center_columns(K: Matrix, starts: NDArray[np.int64]) -> None:
    """The same over the columns of each query."""
    sizes = np.diff(starts)
    roots = np.repeat(np.sqrt(sizes.astype(np.float64)), sizes)
    for part in slices(len(K), max(1, _NUMBERS_AT_ONCE // max(1, K.shape[1]))):
        means = np.add.reduceat(K[part], starts[:-1], axis=1)
        means /= sizes
        K[part] -= np.repeat(means, sizes, axis=1)
        K[part] *= roots


def rows_at_once(n_columns: int) -> int:
    """Return the number of rows of K in a block."""
    return max(64, BYTES_AT_ONCE // (8 * max(1, n_columns)))


def slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def run_of(rows: NDArray[np.int64]) -> Rows:
    """Return a slice for consecutive row numbers, to avoid a copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


# -- systems ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Every solution at once: ``a = E (values + λ)⁻¹ right``.

    values (k,) eigenvalues Λ, none below 0; right (k,); E (n_coefficients, k): coefficients of orthonormal functions;
    noise is how far rounding can have moved an eigenvalue
    """

    values: Vector
    right: Vector
    E: Matrix
    noise: float = 0.0

    @property
    def floor(self) -> float:
        """Bound of the rounding error of an eigenvalue."""
        relative = len(self.values) * _EPS * float(self.values.max(initial=0.0))
        return max(relative, self.noise, float(np.finfo(np.float64).tiny))

    def inverse(self, l2: float) -> Vector:
        """Return ``(values + l2)⁻¹``, 0 below the rounding error.

        The exact ``right`` is 0 there too, as in the limit of a vanishing l2; the computed ``right`` is noise.
        """
        total = self.values + l2
        return np.divide(1.0, total, out=np.zeros_like(total), where=total > self.floor)

    def coefficients(self, l2s: Vector) -> Matrix:
        """Return one row for each l2 (n_l2s, n_coefficients); each costs O(k n_coefficients)."""
        inner = np.stack([self.inverse(float(l2)) * self.right for l2 in l2s])
        return inner @ self.E.T

    def without(self, Q: Matrix, target: Vector, l2: float) -> Vector:
        """Return the solution u without a block of rows, from the compared functions Q of the block and its target."""
        if len(target) < len(self.values):
            # Woodbury: residuals e = (I - Q d Q')⁻¹ (t - Q d r) with d = (Λ + l2)⁻¹, and u = d (r - Q'e).
            inverse = self.inverse(l2)
            weighted = Q * inverse
            complement = -(weighted @ Q.T)
            complement[np.diag_indices(len(complement))] += 1.0
            residuals = cholesky_solution(complement, target - weighted @ self.right, _LEAST_PIVOT_OF_BLOCK)
            if residuals is not None:
                return inverse * (self.right - residuals @ Q)
        # A block that decides a function nearly alone, or of more rows than functions: what the others leave.
        gram, right = np.diag(self.values) - Q.T @ Q, self.right - target @ Q
        least = _LEAST_PIVOT * (float(self.values.max(initial=0.0)) + l2)
        solution = cholesky_solution(gram + l2 * np.eye(len(gram)), right, least)
        if solution is not None:
            return solution
        values, V = linalg.eigh(gram, check_finite=False)
        return Spectrum(np.maximum(values, 0.0), right @ V, V, self.floor).coefficients(np.array([l2]))[0]


class System(ABC):
    """Unsolved system: columns of a kernel, and the compared rows."""

    columns: Columns
    comparisons: Comparisons

    @abstractmethod
    def solve(self, l2: float) -> Vector:
        """Return the coefficients of one l2, by a Cholesky decomposition if well conditioned."""

    @abstractmethod
    def _decompose(self) -> Spectrum: ...

    @cached_property
    def spectrum(self) -> Spectrum:
        """The decomposition, made when first asked for."""
        return self._decompose()

    def held_out(self, group: NDArray[np.int64], l2s: Vector) -> Matrix:
        """Return scores of every row under the solution without the row's group, for each l2 (n_rows, n_l2s).

        ``group`` has the query of each row, with comparisons within groups only. Some groups are read at a time:
        memory does not grow with the number of rows.
        """
        y, rows, compared = self.comparisons.y, self.comparisons.rows, self.comparisons
        order = rows[np.argsort(group[rows], kind="stable")]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1, [len(order)]])
        groups = Comparisons(y, order, starts, compared.within_queries)
        scores = np.empty((len(group), len(l2s)))
        for first, last in groups.runs(rows_at_once(self.columns.n_columns)):
            start, end = starts[first], starts[last]
            block = Comparisons(y, order[start:end], starts[first : last + 1] - start, compared.within_queries)
            P = self._functions(block.rows)
            Q = block.forward(P)
            for begin, stop in zip(block.starts[:-1], block.starts[1:], strict=True):
                rows_of_group = slice(begin, stop)
                solutions = [
                    self.spectrum.without(Q[rows_of_group], block.target[rows_of_group], float(l2)) for l2 in l2s
                ]
                scores[block.rows[rows_of_group]] = P[rows_of_group] @ np.column_stack(solutions)
        return scores

    def _functions(self, rows: NDArray[np.int64]) -> Matrix:
        """Values of the orthonormal functions for these rows (n, k)."""
        parts = slices(len(rows), rows_at_once(self.columns.n_columns))
        return np.concatenate([self.columns.block(run_of(rows[part])) @ self.spectrum.E for part in parts])


class SparseSystem(System):
    """Equation 8: ``A = (K_RM L K_MR + λ K_RR)⁻¹ K_RM L Y``.

    With a column for each feature and the identity for their kernel, the linear kernel in the primal.
    """

    def __init__(self, columns: Columns, basis_gram: Matrix, comparisons: Comparisons) -> None:
        self.columns, self.comparisons = columns, comparisons
        self.gram, self.right = comparisons.moments(columns)  # only the lower triangle of gram
        self.basis_gram = basis_gram.T  # symmetric: the transpose only changes to Fortran order
        for each in (self.gram, self.right, self.basis_gram):
            check_finite(each)

    def solve(self, l2: float) -> Vector:
        scale = max(1.0, l2)  # avoids overflow for a large l2
        matrix = self.basis_gram * (l2 / scale)  # equation 8: Z'Z + λ K_RR
        matrix += self.gram / scale if scale > 1.0 else self.gram
        solution = cholesky_solution(matrix, self.right / scale, _LEAST_PIVOT * largest_of(matrix))
        return self.spectrum.coefficients(np.array([l2]))[0] if solution is None else solution

    def _decompose(self) -> Spectrum:
        n = self.columns.n_columns
        factor = cholesky(self.basis_gram.copy(order="F"), _LEAST_PIVOT_OF_BASIS * largest_of(self.basis_gram))
        if factor is not None:
            basis = np.arange(n)
            # Section 4.1: F⁻¹ Z'Z F'⁻¹, by half the work of two triangular systems; only lower triangles are read.
            T, _ = lapack.dsygst(self.gram, factor, lower=1)
            right = linalg.solve_triangular(factor, self.right, lower=True, check_finite=False)
        else:
            factor, basis = independent(self.basis_gram)

            def whitened(block: Matrix) -> Matrix:
                chosen = np.take(block, basis, axis=1)
                return linalg.solve_triangular(factor, chosen.T, lower=True, overwrite_b=True, check_finite=False).T

            T, right = self.comparisons.moments(self.columns.mapped(len(basis), whitened))
        values, V = _eigen(T)
        E = np.zeros((n, len(basis)))
        E[basis] = linalg.solve_triangular(factor, V, lower=True, trans="T", check_finite=False)
        return Spectrum(values, right @ V, E)


class FullSystem(System):
    """Equation 7: ``A = (K L K + λ K)⁻¹ K L Y``; every compared row is a basis vector."""

    noise = 0.0

    def __init__(self, columns: Columns, comparisons: Comparisons) -> None:
        self.columns, self.comparisons = columns, comparisons

    def _dual(self) -> Matrix:
        rows = self.comparisons.rows
        K = np.empty((len(rows), len(rows)))
        in_order = bool((rows == np.arange(len(rows))).all())
        for part in slices(len(rows), rows_at_once(len(rows))):
            block = self.columns.block(run_of(rows[part]))
            K[part] = block if in_order else block[:, rows]
        check_finite(K)
        # Bound of the effect of rounding K on eigenvalues of C K C'. Eigenvalues may be far smaller for a flat kernel.
        self.noise = _EPS * len(rows) * float(K.diagonal().max(initial=0.0)) * self.comparisons.strength
        # The transpose of a symmetric matrix in C order is in Fortran order: LAPACK does not copy it.
        return self.comparisons.dual(K).T

    def solve(self, l2: float) -> Vector:
        matrix = self._dual()
        scale = max(1.0, l2)
        if scale > 1.0:
            matrix /= scale
        matrix[np.diag_indices(len(matrix))] += l2 / scale  # equation 7: C K C' + λ I
        if l2 > self.noise:
            solution = cholesky_solution(matrix, self.comparisons.target / scale, _LEAST_PIVOT * largest_of(matrix))
            if solution is not None:
                return self._all(solution)
        return self.spectrum.coefficients(np.array([l2]))[0]

    def _all(self, dual: Matrix) -> Matrix:
        """Coefficients of all training rows, ``C'b``, from a solution in the space of C's rows."""
        coefficients = np.empty_like(dual)
        coefficients[self.comparisons.rows] = self.comparisons.forward(dual)
        return coefficients

    def _decompose(self) -> Spectrum:
        values, V = _eigen(self._dual())
        floor = Spectrum(values, values, V, self.noise).floor
        values, V = values[values > floor], V[:, values > floor]
        roots = np.sqrt(values)
        return Spectrum(values, roots * (self.comparisons.target @ V), self._all(V / roots), self.noise)


def check_finite(values: Matrix) -> None:
    """Raise an InputError if products of features or grades exceed float64."""
    if not (np.isfinite(values.min(initial=0.0)) and np.isfinite(values.max(initial=0.0))):
        raise InputError(
            "the kernel, or what is made of it and of the grades, grows beyond what a float64 holds; use features, or "
            "grades, of a smaller scale"
        )


def largest_of(matrix: Matrix) -> float:
    """Return the largest diagonal entry."""
    return float(matrix.diagonal().max(initial=0.0))


def cholesky(matrix: Matrix, least_pivot: float) -> Matrix | None:
    """Return the lower factor, or None for a smaller pivot.

    Only the lower triangle is read; a Fortran-ordered matrix is overwritten.
    """
    factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    # A NaN is not regular.
    is_regular = info == 0 and float(np.square(factor.diagonal()).min(initial=np.inf)) >= least_pivot
    return factor if is_regular else None


def cholesky_solution(matrix: Matrix, right: Vector, least_pivot: float) -> Vector | None:
    """Return the solution, or None for a smaller pivot."""
    factor = cholesky(matrix, least_pivot)
    if factor is None:
        return None
    solution, _ = lapack.dpotrs(factor, right, lower=1)
    return solution if np.isfinite(solution).all() else None


def independent(gram: Matrix) -> tuple[Matrix, NDArray[np.int64]]:
    """Return a Cholesky factor of the kernel of independent basis vectors, and the numbers of these vectors."""
    largest = largest_of(gram)
    if float(gram.diagonal().min(initial=0.0)) < -1e-6 * np.abs(gram).max(initial=0.0):
        raise InputError(_not_positive(float(gram.diagonal().min())))
    if largest <= 0.0:
        raise InputError("the kernel of every basis vector with itself is 0; there is nothing to learn from")
    # dpstrf pivots by the diagonal only; pivots fall.
    pivoted, pivots, rank, _ = lapack.dpstrf(gram, tol=_INDEPENDENT * largest, lower=1)
    chosen = pivots[:rank].astype(np.int64) - 1
    factor = np.tril(pivoted[:rank, :rank])
    dropped = pivots[rank:].astype(np.int64) - 1
    if len(dropped):
        rest = linalg.solve_triangular(factor, gram[np.ix_(chosen, dropped)], lower=True, check_finite=False)
        worst = float(np.abs(gram[np.ix_(dropped, dropped)] - rest.T @ rest).max())
        if worst > 1e-6 * largest:
            raise InputError(_not_positive(-worst))
    return factor, chosen


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
