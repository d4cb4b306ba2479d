"""Plain parts of a bilinear form.

A part is an immutable W with methods to score, to expand a query and to list the pairs behind a score. The fields of a
part are saved. Blends, explanations, related words and indexes use these methods only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.kernels.rows import CsrRows
from tercet.kernels.scoring import expand_dense, expand_sparse, score_pairs_dense, score_pairs_sparse
from tercet.store.schema import LENGTH, Csr, Shape
from tercet.weights.base import Part, frozen_csr, frozen_single, widened
from tercet.weights.scoring import Matrix, in_double, product

_COLUMNS_AT_ONCE = 1024  # columns of a dense W read together: 4 KB of each row
_THIN = 1 / 8  # largest share of nonzero entries for which an expanded query is a sparse row


@dataclass(frozen=True, eq=False, kw_only=True)
class Identity(Part):
    """``scale * I``: cosine similarity when rows have unit length.

    Examples
    --------
    >>> Identity(n_terms=2, scale=3.0).block(np.arange(2), np.arange(2)).tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """

    kind = "identity"
    shape_lengths = ("n_terms", "n_terms")
    n_terms: Annotated[int, LENGTH]

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_terms", check_integer(self.n_terms, "n_terms of an identity", 0))

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_terms, self.n_terms

    def grown(self, n_query_terms: int, n_doc_terms: int) -> Part:
        return replace(self, n_terms=n_query_terms)

    @property
    def n_stored(self) -> int:
        return 1

    @property
    def is_diagonal(self) -> bool:
        return True

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def identity(self) -> float:
        return self.scale

    def expand(self, Q: Matrix) -> Matrix:
        return Q.astype(np.float64) * self.scale

    def expand_entries(self, Q: Matrix) -> CsrRows:
        return CsrRows(Q.indptr, Q.indices, Q.data.astype(np.float64) * self.scale)

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        return (query_terms[:, None] == doc_terms[None, :]) * self.scale

    def through(self, A: Matrix, B: Matrix, tied: bool, scale: float) -> Part:
        return Sparse(weights=A @ B, scale=scale)

    def row_entries(self, per_doc_term: NDArray[Any]) -> NDArray[Any]:
        return per_doc_term


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagonal(Part):
    """A weight for each word, nothing across words: ``weights`` float32 (n_terms,).

    Examples
    --------
    >>> Diagonal(weights=np.array([1, 2], dtype=np.float32)).block(np.arange(2), np.arange(2)).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """

    kind = "diagonal"
    shape_lengths = ("n_terms", "n_terms")
    weights: Annotated[NDArray[np.float32], Shape("n_terms")]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen_single(self.weights, "diagonal", 1))

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.size, self.weights.size

    def grown(self, n_query_terms: int, n_doc_terms: int) -> Part:
        return replace(self, weights=np.pad(self.weights, (0, n_query_terms - self.weights.size)))

    @property
    def n_stored(self) -> int:
        return self.weights.size

    @property
    def is_diagonal(self) -> bool:
        return True

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def diagonal(self) -> NDArray[np.float64]:
        return self.weights * np.float64(self.scale)

    def expand(self, Q: Matrix) -> Matrix:
        scaled = Q.astype(np.float64)
        scaled.data *= self.weights[scaled.indices].astype(np.float64) * self.scale
        return scaled

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        same = query_terms[:, None] == doc_terms[None, :]
        return same * self.weights[doc_terms].astype(np.float64) * self.scale

    def expand_entries(self, Q: Matrix) -> CsrRows:
        return CsrRows(Q.indptr, Q.indices, Q.data * (self.weights[Q.indices].astype(np.float64) * self.scale))

    def through(self, A: Matrix, B: Matrix, tied: bool, scale: float) -> Part:
        return Sparse(weights=(A * self.weights.astype(np.float64)) @ B, scale=scale)

    def row_entries(self, per_doc_term: NDArray[Any]) -> NDArray[Any]:
        return per_doc_term


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Part):
    """Every pair of words, as one array; for small vocabularies.

    ``weights`` float32 (n_query_terms, n_doc_terms).

    Examples
    --------
    >>> Dense(weights=np.array([[1, 2], [0, 4]], dtype=np.float32)).n_stored
    4
    """

    kind = "dense"
    weights: Annotated[NDArray[np.float32], Shape("n_query_terms", "n_doc_terms")]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen_single(self.weights, "W", 2))

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape[0], self.weights.shape[1]

    @property
    def n_stored(self) -> int:
        return self.weights.size

    @property
    def matrix(self) -> Matrix:
        return sparse.csr_array(self.weights) * np.float32(self.scale)

    def expand(self, Q: Matrix) -> NDArray[np.float64]:
        expanded = np.zeros((Q.shape[0], self.shape[1]))
        expand_dense(in_double(Q), self.weights, _COLUMNS_AT_ONCE, expanded)
        expanded *= self.scale
        return expanded

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        # Score by pairs of words: a pair of texts has far fewer pairs than an expanded query has entries.
        scores = np.empty(Q.shape[0])
        score_pairs_dense(in_double(Q), in_double(D), self.weights, scores)
        return scores * self.scale

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        return self.weights[np.ix_(query_terms, doc_terms)].astype(np.float64) * self.scale

    def through(self, A: Matrix, B: Matrix, tied: bool, scale: float) -> Part:
        return Dense(weights=(A @ self.weights.astype(np.float64) @ B).astype(np.float32), scale=scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sparse(Part):
    """The pairs that have a weight, as a CSR matrix (n_query_terms, n_doc_terms).

    Examples
    --------
    >>> from scipy import sparse
    >>> Sparse(weights=sparse.csr_array([[1.0, 2.0], [0.0, 4.0]])).n_stored
    3
    """

    kind = "sparse"
    weights: Annotated[Matrix, Csr("n_query_terms", "n_doc_terms", names=("data", "indices", "indptr"))]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen_csr(self.weights, "W"))

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape

    def grown(self, n_query_terms: int, n_doc_terms: int) -> Part:
        return replace(self, weights=widened(self.weights, n_query_terms, n_doc_terms))

    @property
    def n_stored(self) -> int:
        return self.weights.nnz

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def matrix(self) -> Matrix:
        return sparse.csr_array(self.weights) * np.float32(self.scale)

    def expand(self, Q: Matrix) -> Matrix:
        return product(Q, self.weights) * self.scale

    def expand_block(self, Q: Matrix) -> Any:
        starts = self.weights.indptr
        n_products = int((starts[Q.indices + 1] - starts[Q.indices]).sum())
        if n_products <= _THIN * Q.shape[0] * self.shape[1]:
            return self.expand(Q)
        expanded = np.zeros((Q.shape[0], self.shape[1]))
        expand_sparse(in_double(Q), self._rows(), expanded)
        expanded *= self.scale
        return expanded

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        scores = np.empty(Q.shape[0])
        score_pairs_sparse(in_double(Q), in_double(D), self._rows(), np.zeros(self.shape[1]), scores)
        return scores * self.scale

    def _rows(self) -> CsrRows:
        """Return the weights for kernels; unsigned columns need no test for a negative column."""
        return CsrRows(self.weights.indptr, self.weights.indices.view(np.uint32), self.weights.data)

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        return self.weights[query_terms][:, doc_terms].toarray().astype(np.float64) * self.scale

    def through(self, A: Matrix, B: Matrix, tied: bool, scale: float) -> Part:
        return Sparse(weights=(A @ self.weights.astype(np.float64)) @ B, scale=scale)

    def row_entries(self, per_doc_term: NDArray[Any]) -> NDArray[Any]:
        W = self.weights
        return sparse.csr_array((np.ones(W.nnz), W.indices, W.indptr), shape=W.shape) @ per_doc_term
