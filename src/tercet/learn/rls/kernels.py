"""Kernels between rows of features, and columns of the kernel of the training rows with the basis.

`Columns` return the kernel a block of rows at a time: ``block(rows)`` is K[rows, R], a new array; ``gram()`` is
K[R, R]; ``n_columns`` is the number of basis vectors. No array has the size of all rows by all basis vectors, except a
given kernel matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from tercet.errors import InputError

Matrix = NDArray[np.float64]
Rows = NDArray[np.int64] | slice

NAMES = ("linear", "gaussian", "polynomial", "cosine", "precomputed")
_SMALLEST_ROOT = 1e-150  # what is smaller has a square that is rounded, or 0
_NUMBERS_AT_ONCE = 2**16  # of a block, so that what is done to them in turn finds them in a cache


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters.

    Parameters
    ----------
    name : "linear", "gaussian", "polynomial", "cosine" or "precomputed"
    gamma : the Gaussian's ``exp(-gamma |a - b|²)``, the factor of the polynomial's inner product
    degree, coef0 : of the polynomial ``(gamma a·b + coef0) ** degree``

    Examples
    --------
    >>> import numpy as np
    >>> Kernel("gaussian", gamma=1.0).between(np.array([[0.0], [1.0]]), np.array([[0.0]])).round(3).tolist()
    [[1.0], [0.368]]
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def between(self, A: Any, B: Any) -> Matrix:
        """The kernel of all rows of A with all rows of B, a new array (n_a, n_b)."""
        return FixedColumns(self, B)(A)

    def finish(self, products: Matrix) -> Matrix:
        """Compute the kernel from inner products or distances, in place."""
        if self.name not in ("gaussian", "polynomial"):
            return products
        rows = max(1, _NUMBERS_AT_ONCE // max(1, products.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):  # columns say which row it was
            for start in range(0, len(products), rows):
                part = products[start : start + rows]
                part *= self.gamma
                if self.name == "gaussian":
                    np.minimum(part, 0.0, out=part)  # a distance that rounding made negative
                    np.exp(part, out=part)
                else:
                    part += self.coef0
                    np.power(part, self.degree, out=part)
        return products

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        """The kernel of each row with itself (n,)."""
        if self.name == "gaussian":
            return np.ones(X.shape[0])
        if self.name == "cosine":
            return (largest_sizes(X) > 0).astype(np.float64)
        return self.finish(squared_norms(X)[:, None])[:, 0]


class FixedColumns:
    """A kernel with its second argument fixed, and made ready once."""

    def __init__(self, kernel: Kernel, B: Any) -> None:
        self.kernel = kernel
        self._shift: NDArray[np.float64] | float = 0.0
        if kernel.name == "cosine":
            B = unit_rows(B)
        elif kernel.name == "gaussian":
            if not sparse.issparse(B) and len(B):
                # Distances stay the same, and inner products become as small as they can be: less is cancelled.
                self._shift = B.mean(axis=0)
                B = B - self._shift
            self._norms = squared_norms(B)
        self._transposed = sparse.csr_array(B.T) if sparse.issparse(B) else B.T
        if kernel.name == "gaussian" and not sparse.issparse(B):
            self._longer = np.vstack([self._transposed, np.ones(len(B)), self._norms])

    def __call__(self, A: Any) -> Matrix:
        """The kernel of these rows with all of B."""
        return self.kernel.finish(self.products(A))

    def products(self, A: Any) -> Matrix:
        """Inner products; for a Gaussian kernel, squared distances with a minus;"""
        if self.kernel.name == "cosine":
            A = unit_rows(A)
        elif self.kernel.name == "gaussian" and not sparse.issparse(A):
            A = A - self._shift
        if self.kernel.name != "gaussian":
            return self._products(A)
        if sparse.issparse(A) or sparse.issparse(self._transposed):
            out = self._products(A)
            out *= 2.0
            out -= squared_norms(A)[:, None]
            out -= self._norms
            return out
        # 2 a·b - |a|² - |b|² as one product of rows that are longer by two: nothing is left to do but this.
        left = np.empty((len(A), A.shape[1] + 2))
        np.multiply(A, 2.0, out=left[:, :-2])
        np.negative(squared_norms(A), out=left[:, -2])
        left[:, -1] = -1.0
        return left @ self._longer

    def _products(self, A: Any) -> Matrix:
        if sparse.issparse(A) and not sparse.issparse(self._transposed):
            return np.asarray(A @ self._transposed)
        product = A @ self._transposed
        return np.ascontiguousarray(product.toarray() if sparse.issparse(product) else product, dtype=np.float64)


def squared_norms(X: Any) -> NDArray[np.float64]:
    """Of each row (n,)."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X)


def unit_rows(X: Any) -> Any:
    """Scale rows to length 1, dense or CSR; rows of length 0 stay."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(squared_norms(X))
    if not ((lengths > _SMALLEST_ROOT) & (lengths < np.inf)).all():  # zeros, or squares that no double holds
        X = _divided(X, largest_sizes(X))
        lengths = np.sqrt(squared_norms(X))
    return _divided(X, lengths)


def largest_sizes(X: Any) -> NDArray[np.float64]:
    """The largest absolute value of each row (n,)."""
    return np.asarray(abs(X).max(axis=1).toarray() if sparse.issparse(X) else np.abs(X).max(axis=1)).ravel()


def _divided(X: Any, by: NDArray[np.float64]) -> Any:
    """Divide each row by its number; a row with the number 0 stays."""
    scale = np.divide(1.0, by, out=np.zeros_like(by), where=by > np.finfo(np.float64).tiny)
    return sparse.csr_array(sparse.diags_array(scale) @ X) if sparse.issparse(X) else X * scale[:, None]


# -- columns ----------------------------------------------------------------------------------------------------------


class Columns(ABC):
    """Columns of a kernel matrix, a column for each basis vector."""

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
        self._against = FixedColumns(kernel, vectors)
        self.n_columns = vectors.shape[0]

    def block(self, rows: Rows) -> Matrix:
        return checked(self.kernel, self._against(self._X[rows]), rows)

    def gram(self) -> Matrix:
        gram = self._against(self._vectors)
        if self.kernel.name == "gaussian":
            np.fill_diagonal(gram, 1.0)
        return symmetric(gram)


class GivenColumns(Columns):
    """A given kernel matrix: of all rows with all rows, or of all rows with the basis."""

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
    """The features: the linear kernel solved for a weight of each feature, with the norm of the weights."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.n_columns = X.shape[1]

    def block(self, rows: Rows) -> Matrix:
        values = self._X[rows]
        return values.toarray(order="C") if sparse.issparse(values) else np.array(values, order="C")

    def gram(self) -> Matrix:
        return np.eye(self.n_columns)


class WhitenedColumns(Columns):
    """Orthonormal columns ``K[:, kept] C'⁻¹``, with C the Cholesky factor of ``K[kept, kept]``."""

    def __init__(self, columns: Columns, factor: Matrix, kept: NDArray[np.int64]) -> None:
        self._columns, self._factor, self._kept = columns, factor, kept
        self.n_columns = len(kept)

    def block(self, rows: Rows) -> Matrix:
        chosen = np.take(self._columns.block(rows), self._kept, axis=1)
        return solve_triangular(self._factor, chosen.T, lower=True, overwrite_b=True, check_finite=False).T

    def gram(self) -> Matrix:
        return np.eye(self.n_columns)


class MappedColumns(Columns):
    """Combinations of columns, ``K E``, orthonormal by construction."""

    def __init__(self, columns: Columns, E: Matrix) -> None:
        self._columns, self._E = columns, E
        self.n_columns = E.shape[1]

    def block(self, rows: Rows) -> Matrix:
        return self._columns.block(rows) @ self._E

    def gram(self) -> Matrix:
        return np.eye(self.n_columns)


def checked(kernel: Kernel, block: Matrix, rows: Rows) -> Matrix:
    """Return the block, or raise an InputError if a value of the kernel is not finite."""
    if kernel.name == "polynomial" and not np.isfinite(block).all():
        position, column = (int(at) for at in np.argwhere(~np.isfinite(block))[0])
        row = rows.start + position if isinstance(rows, slice) else rows[position]
        raise InputError(
            f"the kernel of row {row} and basis vector {column} is {block[position, column]}; every value must be "
            "finite. Features of a smaller scale, or a smaller gamma, coef0 or degree, may help"
        )
    return block


def symmetric(gram: Matrix) -> Matrix:
    """Return the mean of a matrix and its transpose, to remove rounding."""
    both = gram + gram.T
    both *= 0.5
    return both
