"""Weights of low rank: words meet in a latent space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError
from tercet.store.schema import OMIT_DEFAULT, SameAs, Shape
from tercet.weights.base import Part, frozen_single, row_blocks
from tercet.weights.scoring import Matrix, product


@dataclass(frozen=True, eq=False, kw_only=True)
class LowRank(Part):
    """``U'V`` with a word's factors in one row: U (n_query_terms, n_components), V (n_doc_terms, n_components).

    With ``typical_length`` the score of a document is divided by the length of its latent vector V'd and multiplied
    by this constant: a document of typical length keeps its score. The per-document scale costs nothing at search time.
    With ``unit_queries`` a query's latent vector U'q has length 1 as well: with a ``typical_length`` of 1 the score is
    the cosine of the two. ``unit_queries`` changes no ranking by this part alone, but a ranking by a sum with other
    parts.

    Examples
    --------
    >>> U, V = np.array([[1], [2]], dtype=np.float32), np.array([[3], [5]], dtype=np.float32)
    >>> LowRank(query_factors=U, doc_factors=V).block(np.arange(2), np.arange(2)).tolist()
    [[3.0, 5.0], [6.0, 10.0]]
    """

    kind = "lowrank"
    query_factors: Annotated[NDArray[np.float32], Shape("n_query_terms", "n_components")]
    doc_factors: Annotated[NDArray[np.float32], Shape("n_doc_terms", "n_components"), SameAs("query_factors")]
    typical_length: float | None = None
    unit_queries: Annotated[bool, OMIT_DEFAULT] = False

    def __post_init__(self) -> None:
        tied = self.query_factors is self.doc_factors
        object.__setattr__(self, "query_factors", frozen_single(self.query_factors, "U", 2))
        doc_factors = self.query_factors if tied else frozen_single(self.doc_factors, "V", 2)
        object.__setattr__(self, "doc_factors", doc_factors)
        if self.query_factors.shape[1] != self.doc_factors.shape[1]:
            raise InputError(
                f"query factors have {self.query_factors.shape[1]} components, document factors "
                f"{self.doc_factors.shape[1]}; they must agree"
            )
        if self.typical_length is not None and not 0 <= self.typical_length < np.inf:
            raise InputError(f"typical_length must be a number of at least 0, or None; got {self.typical_length!r}")

    @property
    def tied(self) -> bool:
        return self.query_factors is self.doc_factors

    @property
    def is_low_rank(self) -> bool:
        return True

    @property
    def shape(self) -> tuple[int, int]:
        return self.query_factors.shape[0], self.doc_factors.shape[0]

    def grown(self, n_query_terms: int, n_doc_terms: int) -> Part:
        more_queries, more_docs = n_query_terms - self.shape[0], n_doc_terms - self.shape[1]
        U = np.pad(self.query_factors, ((0, more_queries), (0, 0)))
        V = U if self.tied else np.pad(self.doc_factors, ((0, more_docs), (0, 0)))
        return replace(self, query_factors=U, doc_factors=V)

    def ungrown(self, n_added: int) -> Part:
        if not n_added or self.query_factors[-n_added:].any() or self.doc_factors[-n_added:].any():
            return self
        U = self.query_factors[:-n_added]
        return replace(self, query_factors=U, doc_factors=U if self.tied else self.doc_factors[:-n_added])

    @property
    def n_stored(self) -> int:
        return self.query_factors.size + (0 if self.tied else self.doc_factors.size)

    def latent_queries(self, Q: Matrix) -> NDArray[np.float64]:
        latent = np.asarray(product(Q, self.query_factors))  # (n_q, n_components)
        return latent * _over_lengths(1.0, latent)[:, None] if self.unit_queries else latent

    def latent_docs(self, D: Matrix) -> NDArray[np.float64]:
        return np.asarray(product(D, self.doc_factors))  # (n_d, n_components)

    def expand(self, Q: Matrix) -> NDArray[np.float64]:
        """Expansion at typical document length when there is a per-document scale."""
        expanded = self.latent_queries(Q) @ self.doc_factors.T.astype(np.float64)
        return expanded if self.scale == 1 else np.multiply(expanded, self.scale, out=expanded)

    def doc_scale(self, D: Matrix) -> NDArray[np.float64] | None:
        return None if self.typical_length is None else self._scale_of(self.latent_docs(D))

    def _scale_of(self, latent: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if self.typical_length is None:
            return None
        return _over_lengths(self.typical_length, latent)

    def query_scale(self, Q: Matrix) -> NDArray[np.float64] | None:
        return _over_lengths(1.0, np.asarray(product(Q, self.query_factors))) if self.unit_queries else None

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

    def through(self, A: Matrix, B: Matrix, tied: bool, scale: float) -> LowRank:
        U = (A @ self.query_factors).astype(np.float32)
        V = U if tied and self.tied else (B.T @ self.doc_factors).astype(np.float32)
        return LowRank(
            query_factors=U,
            doc_factors=V,
            typical_length=self.typical_length,
            unit_queries=self.unit_queries,
            scale=scale,
        )


def _over_lengths(number: float, latent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide a number by the length of each row; 0 for a row of length 0."""
    length = np.sqrt(np.einsum("ij,ij->i", latent, latent))
    return np.divide(number, length, out=np.zeros_like(length), where=length > 0)


def truncated_sum(parts: Sequence[LowRank], n_components: int) -> LowRank:
    """Return the sum of parts as one part of at most ``n_components``: the nearest in squared error over all pairs of
    words.

    Truncated singular value decomposition of ``UV'``, with U and V the factors of all parts side by side (n, r), by way
    of their Gram matrices: O(n r²), and never a matrix of words by words. Each singular value is shared evenly between
    the two sides; values below the rounding of single precision are dropped.
    """
    if any(part.typical_length is not None or part.unit_queries for part in parts):
        raise InputError(
            "a low-rank part that divides by the length of latent vectors is no W, so it cannot be added to another or "
            "made smaller"
        )
    queries, docs = [part.query_factors for part in parts], [part.doc_factors for part in parts]
    scale = np.concatenate([np.full(part.query_factors.shape[1], part.scale) for part in parts])
    tied = all(part.tied for part in parts) and bool((scale > 0).all())
    gram_u = _gram(queries)
    gram_v = gram_u if tied else _gram(docs)
    # Scale components to equal length on both sides, so that rounding loses no small component of either side.
    length_u, length_v = np.sqrt(np.diagonal(gram_u)), np.sqrt(np.diagonal(gram_v)) * np.abs(scale)
    stretch_u, counts = (
        np.ones(scale.size),
        (length_u > 0) & (length_v > 0),
    )  # a component of length 0 on one side adds nothing
    np.sqrt(np.divide(length_v, length_u, where=counts, out=stretch_u), out=stretch_u)
    stretch_v = scale / stretch_u
    root_u, inverse_u = _root(gram_u * np.outer(stretch_u, stretch_u))
    root_v, inverse_v = (root_u, inverse_u) if tied else _root(gram_v * np.outer(stretch_v, stretch_v))
    left, singular, right = np.linalg.svd(root_u @ root_v.T, full_matrices=False)
    rank = max(1, np.count_nonzero(singular > np.finfo(np.float32).eps * singular[0]))
    largest = slice(min(n_components, rank))
    U = _combined(queries, stretch_u[:, None] * (inverse_u @ (left[:, largest] * np.sqrt(singular[largest]))))
    V = (
        U
        if tied
        else _combined(docs, stretch_v[:, None] * (inverse_v @ (right[largest].T * np.sqrt(singular[largest]))))
    )
    return LowRank(query_factors=U, doc_factors=V)


def _gram(factors: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    """``F'F`` (r, r) of factors side by side."""
    width = sum(F.shape[1] for F in factors)
    gram = np.zeros((width, width))
    for block in row_blocks(factors[0].shape[0], width):
        rows = np.hstack([F[block] for F in factors]).astype(np.float64)
        gram += rows.T @ rows
    return gram


def _root(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return R (rank, r), with ``R'R`` the Gram matrix, and the pseudo-inverse of R."""
    values, vectors = np.linalg.eigh(gram)
    is_positive = values > np.finfo(np.float64).eps * values[-1]
    is_positive[-1] = True
    root, vectors = np.sqrt(np.maximum(values[is_positive], 0)), vectors[:, is_positive]
    return root[:, None] * vectors.T, vectors * np.divide(1, root, where=root > 0, out=np.zeros_like(root))


def _combined(factors: Sequence[NDArray[np.float32]], mix: NDArray[np.float64]) -> NDArray[np.float32]:
    """``F @ mix`` of factors side by side."""
    product = np.empty((factors[0].shape[0], mix.shape[1]), dtype=np.float32)
    for block in row_blocks(factors[0].shape[0], mix.shape[0]):
        product[block] = np.hstack([F[block] for F in factors]).astype(np.float64) @ mix
    return product
