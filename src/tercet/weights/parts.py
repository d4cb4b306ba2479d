"""The parts a bilinear form is made of.

A part is an immutable W of its own: it can score, expand a query, list the pairs behind one score and give its arrays
for saving. All that is built on top (blends, explanations, related words, indexes) is written once, in terms of these.

A new part is a class with this interface and a line in ``PARTS`` in ``mapped.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.scoring import expand_dense, expand_sparse, score_pairs_dense, score_pairs_sparse
from tercet.store import Fields, take_array
from tercet.weights.scoring import Matrix, in_double, score_expanded

_COLUMNS_AT_ONCE = 1024  # of a dense W: 4 KB of each row
_THIN = 1 / 8  # share of entries up to which an expanded query is made as a sparse row


class Pairs(NamedTuple):
    """Term pairs and what each adds to a score."""

    query_term: NDArray[np.int32]
    doc_term: NDArray[np.int32]
    contribution: NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part(ABC):
    """One scaled part of W, ``scale * part`` (n_query_terms, n_doc_terms)."""

    kind: ClassVar[str]
    scale: float = 1.0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """How many numbers the part keeps."""

    @abstractmethod
    def expand(self, Q: Matrix) -> Any:
        """Rows ``q'W`` (n_q, n_doc_terms), sparse where W is, dense where W is."""

    @abstractmethod
    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        """``W[query_terms][:, doc_terms]``, dense, without a per-document scale."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]: ...

    @classmethod
    @abstractmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self: ...

    def meta(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": float(self.scale), "shape": list(self.shape)}

    def score(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        """All scores (n_q, n_d), dense, in double precision."""
        return score_expanded(self._expand_block, Q, D)

    def _expand_block(self, Q: Matrix) -> Any:
        """``expand``, sparse or dense as is faster to make and to score with."""
        return self.expand(Q)

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        """Scores (n,) of row i of Q with row i of D."""
        expanded = self.expand(Q)
        if sparse.issparse(expanded):
            return np.asarray(expanded.multiply(D.astype(np.float64)).sum(axis=1)).ravel()
        return np.asarray(D.astype(np.float64).multiply(expanded).sum(axis=1)).ravel()

    def doc_scale(self, D: Matrix) -> NDArray[np.float64] | None:
        """What each document's scores are multiplied by (n_d,); None where W is all there is to a score."""
        return None

    def pairs(self, q: Matrix, d: Matrix) -> Pairs:
        """The pairs behind the score of the one-row matrices q and d; zeros are left out."""
        block = self.block(q.indices, d.indices)
        contribution = q.data[:, None].astype(np.float64) * block * d.data[None, :].astype(np.float64)
        doc_scale = self.doc_scale(d)
        if doc_scale is not None:
            contribution *= doc_scale
        a, b = np.nonzero(contribution)
        return Pairs(q.indices[a].astype(np.int32), d.indices[b].astype(np.int32), contribution[a, b])

    def scaled(self, factor: float) -> Self:
        return replace(self, scale=self.scale * factor)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A view nobody can write through; copies only when the caller could still change it."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def check_finite(array: NDArray[Any], what: str) -> None:
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{what}{list(at)} is {array[at]}; weights are finite")


@dataclass(frozen=True, eq=False, kw_only=True)
class Identity(Part):
    """``scale * I``: cosine similarity when rows have unit length."""

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
    """A weight for each word, nothing across words."""

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
    """Every pair of words, as one array; for vocabularies whose square fits in memory."""

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
    """The pairs that have a weight, as a CSR matrix."""

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
        return (Q.astype(np.float64) @ self.weights.astype(np.float64)) * self.scale

    def _expand_block(self, Q: Matrix) -> Any:
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


@dataclass(frozen=True, eq=False, kw_only=True)
class LowRank(Part):
    """``U'V`` with a word's factors in one row: U (n_query_terms, n_components), V (n_doc_terms, n_components).

    With ``typical_length`` the score of a document is divided by the length of its latent vector V'd and multiplied
    by that constant, so that a document of typical length keeps its score: a per-document scale that costs nothing
    at search time.
    """

    kind = "lowrank"
    query_factors: NDArray[np.float32]
    doc_factors: NDArray[np.float32]
    typical_length: float | None = None

    def __post_init__(self) -> None:
        if self.query_factors.shape[1] != self.doc_factors.shape[1]:
            raise InputError(
                f"query factors have {self.query_factors.shape[1]} components, document factors "
                f"{self.doc_factors.shape[1]}; they must agree"
            )
        tied = self.query_factors is self.doc_factors
        check_finite(self.query_factors, "U")
        object.__setattr__(self, "query_factors", frozen(self.query_factors))
        if tied:
            object.__setattr__(self, "doc_factors", self.query_factors)
            return
        check_finite(self.doc_factors, "V")
        object.__setattr__(self, "doc_factors", frozen(self.doc_factors))

    @property
    def tied(self) -> bool:
        return self.query_factors is self.doc_factors

    @property
    def shape(self) -> tuple[int, int]:
        return self.query_factors.shape[0], self.doc_factors.shape[0]

    @property
    def n_stored(self) -> int:
        return self.query_factors.size + (0 if self.tied else self.doc_factors.size)

    def latent_queries(self, Q: Matrix) -> NDArray[np.float64]:
        return np.asarray(Q.astype(np.float64) @ self.query_factors.astype(np.float64))  # (n_q, n_components)

    def latent_docs(self, D: Matrix) -> NDArray[np.float64]:
        return np.asarray(D.astype(np.float64) @ self.doc_factors.astype(np.float64))  # (n_d, n_components)

    def expand(self, Q: Matrix) -> NDArray[np.float64]:
        """Expansion at typical document length when there is a per-document scale."""
        return self.latent_queries(Q) @ self.doc_factors.T.astype(np.float64) * self.scale

    def doc_scale(self, D: Matrix) -> NDArray[np.float64] | None:
        return None if self.typical_length is None else self._scale_of(self.latent_docs(D))

    def _scale_of(self, latent: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if self.typical_length is None:
            return None
        length = np.sqrt(np.einsum("ij,ij->i", latent, latent))
        return np.divide(self.typical_length, length, out=np.zeros_like(length), where=length > 0)

    def score(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        latent = self.latent_docs(D)
        doc_scale = self._scale_of(latent)
        if doc_scale is not None:
            latent *= doc_scale[:, None]
        return (self.latent_queries(Q) * self.scale) @ latent.T

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        latent = self.latent_docs(D)
        scores = np.einsum("ij,ij->i", self.latent_queries(Q), latent) * self.scale
        doc_scale = self._scale_of(latent)
        return scores if doc_scale is None else scores * doc_scale

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        U, V = self.query_factors[query_terms], self.doc_factors[doc_terms]
        return U.astype(np.float64) @ V.T.astype(np.float64) * self.scale

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {"query_factors": self.query_factors}
        return arrays if self.tied else arrays | {"doc_factors": self.doc_factors}

    def meta(self) -> dict[str, Any]:
        return super().meta() | {"tied": self.tied, "typical_length": self.typical_length}

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        n, m = take_shape(fields)
        tied = fields.take("tied", bool)
        typical = fields.take("typical_length", (float, int, type(None)))
        U = take_array(arrays, "query_factors", np.float32, 2)
        V = U if tied else take_array(arrays, "doc_factors", np.float32, (m, U.shape[1]))
        if U.shape[0] != n or V.shape[0] != m:
            raise DamagedBundleError(f"low-rank factors have {U.shape[0]} and {V.shape[0]} rows, not {n} and {m}")
        return cls(query_factors=U, doc_factors=V, typical_length=typical)


def take_shape(fields: Fields) -> tuple[int, int]:
    shape = fields.take("shape", list)
    if len(shape) != 2 or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
        raise DamagedBundleError(f"a part has shape {shape}; expected two numbers of terms")
    return shape[0], shape[1]


def frozen_csr(matrix: Any, name: str) -> Matrix:
    """A copy as parts keep it: float32, each column of a row once and in order, no zeros, read-only."""
    kept = sparse.csr_array(matrix, dtype=np.float32, copy=True)
    kept.sum_duplicates()
    kept.eliminate_zeros()
    check_finite(kept.data, f"{name}.data")
    kept.indptr, kept.indices = kept.indptr.astype(np.int64), kept.indices.astype(np.int32)
    for array in (kept.data, kept.indices, kept.indptr):
        array.flags.writeable = False
    return kept


def csr_arrays(matrix: Matrix) -> dict[str, NDArray[Any]]:
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}


def take_csr(arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Matrix:
    """The matrix of that shape that `csr_arrays` gave."""
    indptr = take_array(arrays, "indptr", np.int64, (shape[0] + 1,))
    data = take_array(arrays, "data", np.float32, 1)
    indices = take_array(arrays, "indices", np.int32, (data.size,))
    rising = indptr[0] == 0 and indptr[-1] == data.size and not (np.diff(indptr) < 0).any()
    if not rising or (data.size and not (indices.min() >= 0 and indices.max() < shape[1])):
        raise DamagedBundleError("a sparse matrix's row pointers or columns are out of range")
    return sparse.csr_array((data, indices, indptr), shape=shape)
