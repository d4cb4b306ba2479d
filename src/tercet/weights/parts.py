"""The plain parts a bilinear form is made of.

A part is an immutable W of its own: it can score, expand a query, list the pairs behind one score and give its arrays
for saving. All that is built on top (blends, explanations, related words, indexes) is written once, in terms of these.

A new part is a class with this interface and a line in ``PARTS`` in ``mapped.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError
from tercet.kernels.scoring import expand_dense, expand_sparse, score_pairs_dense, score_pairs_sparse
from tercet.store import Fields, take_array
from tercet.weights.part import Part, check_finite, csr_arrays, frozen, frozen_csr, take_csr, take_shape
from tercet.weights.scoring import Matrix, in_double, product

_COLUMNS_AT_ONCE = 1024  # of a dense W: 4 KB of each row
_THIN = 1 / 8  # share of entries up to which an expanded query is made as a sparse row


@dataclass(frozen=True, eq=False, kw_only=True)
class Identity(Part):
    """``scale * I``: cosine similarity when rows have unit length.

    Examples
    --------
    >>> Identity(n_terms=2, scale=3.0).block(np.arange(2), np.arange(2)).tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """

    kind = "identity"
    n_terms: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_terms, self.n_terms

    @property
    def n_stored(self) -> int:
        return 1

    def expand(self, Q: Matrix) -> Matrix:
        return Q.astype(np.float64) * self.scale

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        return (query_terms[:, None] == doc_terms[None, :]) * self.scale

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        n, m = take_shape(fields)
        if n != m:
            raise DamagedBundleError(f"an identity part has shape ({n}, {m}); it is square")
        return cls(n_terms=n)


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagonal(Part):
    """A weight for each word, nothing across words: ``weights`` float32 (n_terms,).

    Examples
    --------
    >>> Diagonal(weights=np.array([1, 2], dtype=np.float32)).block(np.arange(2), np.arange(2)).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """

    kind = "diagonal"
    weights: NDArray[np.float32]

    def __post_init__(self) -> None:
        check_finite(self.weights, "diagonal")
        object.__setattr__(self, "weights", frozen(self.weights))

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.size, self.weights.size

    @property
    def n_stored(self) -> int:
        return self.weights.size

    def expand(self, Q: Matrix) -> Matrix:
        scaled = Q.astype(np.float64)
        scaled.data *= self.weights[scaled.indices].astype(np.float64) * self.scale
        return scaled

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        same = query_terms[:, None] == doc_terms[None, :]
        return same * self.weights[doc_terms].astype(np.float64) * self.scale

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights}

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        n, m = take_shape(fields)
        if n != m:
            raise DamagedBundleError(f"a diagonal part has shape ({n}, {m}); it is square")
        return cls(weights=take_array(arrays, "weights", np.float32, (n,)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Part):
    """Every pair of words, as one array; for vocabularies whose square fits in memory.

    ``weights`` float32 (n_query_terms, n_doc_terms).

    Examples
    --------
    >>> Dense(weights=np.array([[1, 2], [0, 4]], dtype=np.float32)).n_stored
    4
    """

    kind = "dense"
    weights: NDArray[np.float32]

    def __post_init__(self) -> None:
        check_finite(self.weights, "W")
        object.__setattr__(self, "weights", frozen(self.weights))

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape[0], self.weights.shape[1]

    @property
    def n_stored(self) -> int:
        return self.weights.size

    def expand(self, Q: Matrix) -> NDArray[np.float64]:
        expanded = np.zeros((Q.shape[0], self.shape[1]))
        expand_dense(in_double(Q), self.weights, _COLUMNS_AT_ONCE, expanded)
        expanded *= self.scale
        return expanded

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        # A pair of texts has far fewer pairs of words than an expanded query has entries.
        scores = np.empty(Q.shape[0])
        score_pairs_dense(in_double(Q), in_double(D), self.weights, scores)
        return scores * self.scale

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        return self.weights[np.ix_(query_terms, doc_terms)].astype(np.float64) * self.scale

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights}

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        return cls(weights=take_array(arrays, "weights", np.float32, take_shape(fields)))


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
    weights: Matrix

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen_csr(self.weights, "W"))

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape

    @property
    def n_stored(self) -> int:
        return self.weights.nnz

    def expand(self, Q: Matrix) -> Matrix:
        return product(Q, self.weights) * self.scale

    def expand_block(self, Q: Matrix) -> Any:
        n_products = int(np.diff(self.weights.indptr)[Q.indices].sum())
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

    def _rows(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
        """The weights as kernels read them; unsigned columns need no test for a negative one."""
        return self.weights.indptr, self.weights.indices.view(np.uint32), self.weights.data

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        return self.weights[query_terms][:, doc_terms].toarray().astype(np.float64) * self.scale

    def arrays(self) -> dict[str, NDArray[Any]]:
        return csr_arrays(self.weights)

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        return cls(weights=take_csr(arrays, take_shape(fields)))
