"""Kernels between rows of features, a block of rows at a time.

No array has the size of all rows by all basis vectors, except a given kernel matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Matrix = NDArray[np.float64]
Rows = NDArray[np.int64] | slice

_METRICS = {"linear": "linear", "gaussian": "rbf", "polynomial": "poly", "cosine": "cosine"}  # in scikit-learn


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters.

    Parameters
    ----------
    name : "linear", "gaussian", "polynomial", "cosine"
    gamma : the Gaussian's ``exp(-gamma |a - b|²)``, the factor of the polynomial's inner product
    degree, coef0 : of the polynomial ``(gamma a·b + coef0) ** degree``

    Examples
    --------
    >>> import numpy as np
    >>> Kernel("gaussian", gamma=1.0).with_vectors(np.array([[0.0]]))(np.array([[0.0], [1.0]])).round(3).tolist()
    [[1.0], [0.368]]
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def with_vectors(self, vectors: Any) -> KernelWithVectors:
        """Return the function of rows that gives their kernel with these vectors."""
        return KernelWithVectors(self, vectors)

    def gram(self, vectors: Any) -> Matrix:
        """The kernel of vectors with each other, symmetric to the bit."""
        gram = self.with_vectors(vectors)(vectors)
        if self.name == "gaussian":
            np.fill_diagonal(gram, 1.0)
        return symmetric(gram)


class KernelWithVectors:
    """Function from rows to their kernel with vectors, a new array (n_rows, n_vectors)."""

    def __init__(self, kernel: Kernel, vectors: Any) -> None:
        self.metric = _METRICS[kernel.name]
        self.parameters = {"gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0}
        self.shift: Any = 0.0
        if kernel.name == "gaussian" and not sparse.issparse(vectors):
            # Distances stay the same, and inner products become as small as they can be: less is cancelled.
            self.shift = vectors.mean(axis=0)
        self.vectors = vectors - self.shift if np.ndim(self.shift) else vectors

    def __call__(self, rows: Any) -> Matrix:
        from sklearn.metrics.pairwise import pairwise_kernels  # loads Rich and much of scikit-learn

        rows = rows - self.shift if np.ndim(self.shift) else rows
        with np.errstate(over="ignore", invalid="ignore"):  # systems refuse values that are not finite
            kernel = pairwise_kernels(rows, self.vectors, metric=self.metric, filter_params=True, **self.parameters)
        return np.ascontiguousarray(kernel, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class GivenKernel:
    """Function from rows of a given kernel matrix to the columns of the basis."""

    columns: NDArray[np.int64]

    def __call__(self, rows: Any) -> Matrix:
        return np.ascontiguousarray(dense(rows)[:, self.columns])


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns ``K[:, R]`` of a kernel matrix, a column for each basis vector.

    Attributes
    ----------
    X : all rows
    n_columns : number of basis vectors
    between : function from rows to their kernel with the basis, a new array
    """

    X: Any
    n_columns: int
    between: Callable[[Any], Matrix]

    def block(self, rows: Rows) -> Matrix:
        """The kernel of these training rows with the basis, C-ordered and the caller's to change."""
        return self.between(self.X[rows])

    def mapped(self, n_columns: int, change: Callable[[Matrix], Matrix]) -> Columns:
        """Return combinations of the columns."""
        return Columns(self.X, n_columns, lambda rows: change(self.between(rows)))


def dense(rows: Any) -> Matrix:
    """Copy rows to a dense array."""
    return rows.toarray(order="C") if sparse.issparse(rows) else np.array(rows, dtype=np.float64, order="C")


def symmetric(gram: Matrix) -> Matrix:
    """Return the mean of a matrix and its transpose, to remove rounding."""
    both = gram + gram.T
    both *= 0.5
    return both
