"""Where the kernel of the training rows with the basis comes from, a block of rows at a time.

Four kinds, one shape: ``block(rows)`` is K[rows, R], a new array; ``gram()`` is K[R, R]; ``n_columns`` is how many
basis vectors there are. Nothing of the size of all rows by all basis vectors is held, unless it was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from tercet.errors import InputError
from tercet.learn.rls.kernel import Against, Kernel, Matrix

Rows = NDArray[np.int64] | slice

KEPT_AT_MOST = 2**28  # bytes of what the kernels of a grid share


class Columns(ABC):
    """Columns of a kernel matrix, one for each basis vector."""

    n_columns: int

    @abstractmethod
    def block(self, rows: Rows) -> Matrix:
        """The kernel of these training rows with the basis, C-ordered and the caller's to change."""

    @abstractmethod
    def gram(self) -> Matrix:
        """The kernel of the basis with itself, symmetric, the caller's to change."""


class KernelColumns(Columns):
    """Made from rows of features when asked for.

    Parameters
    ----------
    X : the rows
    vectors : the basis vectors
    """

    def __init__(self, kernel: Kernel, X: Any, vectors: Any) -> None:
        self.kernel, self._X, self._vectors = kernel, X, vectors
        self._against = Against(kernel, vectors)
        self.n_columns = vectors.shape[0]

    def block(self, rows: Rows) -> Matrix:
        return checked(self.kernel, self._against(self._X[rows]), rows)

    def gram(self) -> Matrix:
        gram = self._against(self._vectors)
        if self.kernel.name == "gaussian":
            np.fill_diagonal(gram, 1.0)
        return symmetric(gram)


class SharedColumns(Columns):
    """Made from what pairs of rows share, which was kept from a kernel with other parameters.

    Parameters
    ----------
    shared : (n_rows, n_basis)
    gram : the same of the basis with itself
    """

    def __init__(self, kernel: Kernel, shared: Matrix, gram: Matrix) -> None:
        self._kernel, self._shared, self._gram = kernel, shared, gram
        self.n_columns = shared.shape[1]

    def block(self, rows: Rows) -> Matrix:
        return checked(self._kernel, self._kernel.finish(np.array(self._shared[rows], order="C")), rows)

    def gram(self) -> Matrix:
        gram = self._kernel.finish(self._gram.copy())
        if self._kernel.name == "gaussian":
            np.fill_diagonal(gram, 1.0)
        return symmetric(gram)


class Shared:
    """Keeps what the kernels of a grid share, from the first of them on; they must have the same rows and basis.

    Where that would be more than ``KEPT_AT_MOST`` bytes it is made anew each time, a block of rows at a time.
    """

    def __init__(self) -> None:
        self._kept: tuple[Matrix, Matrix] | None = None

    def columns(self, kernel: Kernel, X: Any, vectors: Any) -> Columns:
        """Columns that are made from what is kept, where that can be."""
        if not kernel.has_two_steps or 8 * X.shape[0] * vectors.shape[0] > KEPT_AT_MOST:
            return KernelColumns(kernel, X, vectors)
        if self._kept is None:
            against = Against(kernel, vectors)
            shared = against.shared(X)
            self._kept = shared, shared if vectors is X else against.shared(vectors)
        return SharedColumns(kernel, *self._kept)


class GivenColumns(Columns):
    """A kernel matrix that was given: of all rows with all rows, or of all rows with the basis."""

    def __init__(self, K: Any, columns: NDArray[np.int64], basis: NDArray[np.int64]) -> None:
        self._K, self._columns, self._basis = K, columns, basis
        self.n_columns = len(columns)

    def block(self, rows: Rows) -> Matrix:
        values = self._K[rows]
        values = values.toarray() if sparse.issparse(values) else values
        if len(self._columns) == values.shape[1] and (self._columns == np.arange(values.shape[1])).all():
            return np.array(values, dtype=np.float64, order="C")
        return np.ascontiguousarray(values[:, self._columns], dtype=np.float64)

    def gram(self) -> Matrix:
        return symmetric(self.block(self._basis))


class FeatureColumns(Columns):
    """The features themselves: the linear kernel solved for a weight of each feature, whose norm is their own."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.n_columns = X.shape[1]

    def block(self, rows: Rows) -> Matrix:
        values = self._X[rows]
        return values.toarray(order="C") if sparse.issparse(values) else np.array(values, order="C")

    def gram(self) -> Matrix:
        return np.eye(self.n_columns)


class WhitenedColumns(Columns):
    """Columns that were made orthonormal: ``K[:, kept] C'⁻¹``, with C the Cholesky factor of ``K[kept, kept]``."""

    def __init__(self, columns: Columns, factor: Matrix, kept: NDArray[np.int64]) -> None:
        self._columns, self._factor, self._kept = columns, factor, kept
        self.n_columns = len(kept)

    def block(self, rows: Rows) -> Matrix:
        chosen = np.take(self._columns.block(rows), self._kept, axis=1)
        return solve_triangular(self._factor, chosen.T, lower=True, overwrite_b=True, check_finite=False).T

    def gram(self) -> Matrix:
        return np.eye(self.n_columns)


class MappedColumns(Columns):
    """Functions that are combinations of columns, ``K E``, which the caller knows to be orthonormal."""

    def __init__(self, columns: Columns, E: Matrix) -> None:
        self._columns, self._E = columns, E
        self.n_columns = E.shape[1]

    def block(self, rows: Rows) -> Matrix:
        return self._columns.block(rows) @ self._E

    def gram(self) -> Matrix:
        return np.eye(self.n_columns)


def checked(kernel: Kernel, block: Matrix, rows: Rows) -> Matrix:
    """The block; an InputError where a kernel that can give what is not finite did."""
    if kernel.name in ("polynomial", "callable") and not np.isfinite(block).all():
        position, column = (int(at) for at in np.argwhere(~np.isfinite(block))[0])
        row = rows.start + position if isinstance(rows, slice) else rows[position]
        raise InputError(
            f"the kernel of row {row} and basis vector {column} is {block[position, column]}; every value must be "
            "finite. Features of a smaller scale, or a smaller gamma, coef0 or degree, may help"
        )
    return block


def symmetric(gram: Matrix) -> Matrix:
    """The mean of a matrix and its transpose: rounding, and given kernels, may leave them apart."""
    both = gram + gram.T
    both *= 0.5
    return both
