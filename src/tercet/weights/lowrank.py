"""Weights of low rank: words meet in a latent space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError
from tercet.store.schema import OMIT_DEFAULT, SameAs, Shape
from tercet.weights.base import Part, check_finite, frozen
from tercet.weights.scoring import Matrix, product


@dataclass(frozen=True, eq=False, kw_only=True)
class LowRank(Part):
    """``U'V`` with a word's factors in one row: U (n_query_terms, n_components), V (n_doc_terms, n_components).

    With ``typical_length`` the score of a document is divided by the length of its latent vector V'd and multiplied
    by that constant, so that a document of typical length keeps its score: a per-document scale that costs nothing
    at search time. With ``unit_queries`` a query's latent vector U'q has length 1 as well: with a ``typical_length`` of
    1 the score is the cosine of the two. That changes no ranking, but does in a sum with other parts.

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
    def is_low_rank(self) -> bool:
        return True

    @property
    def shape(self) -> tuple[int, int]:
        return self.query_factors.shape[0], self.doc_factors.shape[0]

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
        return self.latent_queries(Q) @ self.doc_factors.T.astype(np.float64) * self.scale

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

    def row_limits(self, shared: bool) -> NDArray[np.float64]:
        longest = np.linalg.norm(self.doc_factors, axis=1).max()
        return np.linalg.norm(self.query_factors, axis=1) * np.float64(longest) * abs(self.scale)

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
    """The number over the length of each row; 0 where it has none."""
    length = np.sqrt(np.einsum("ij,ij->i", latent, latent))
    return np.divide(number, length, out=np.zeros_like(length), where=length > 0)
