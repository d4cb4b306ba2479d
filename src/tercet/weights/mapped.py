"""A part seen through word maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.errors import InputError, MemoryLimitError
from tercet.store.codec import encode
from tercet.store.schema import Csr, SameAs
from tercet.weights.base import Part, frozen_csr, same_bits, widened
from tercet.weights.scoring import Matrix, product

_MOST_ENTRIES = 10**8  # most entries of W as a matrix: about a gigabyte
_MANY_WORDS = 50  # that replace one


@dataclass(frozen=True, eq=False, kw_only=True)
class Mapped(Part):
    """``W = A' part B``: words are replaced by shares of other words, weighed by the part.

    Correlated feature hashing has the map of `CorrelatedWords` as A and B. Explanations and related words are in terms
    of the original words.

    Scoring costs the scoring of the mapped texts by the part; the texts of a call are mapped once. A pair of words
    costs as many pairs of the part as the maps have entries for the two; a row of W costs a row of the part and a pass
    over B.

    Parameters
    ----------
    A : from query words to the part's, CSR (part's query terms, n_query_terms)
    B : from document words to the part's, CSR (part's document terms, n_doc_terms); A itself for equal maps
    part : any part, scaled or with a per-document scale

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.weights import Identity
    >>> same = sparse.csr_array([[1.0, 1.0]])  # two words that mean the same
    >>> Mapped(A=same, B=same, part=Identity(n_terms=1)).block(np.array([0, 1]), np.array([0, 1])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    kind = "mapped"
    A: Annotated[Matrix, Csr(None, "n_query_terms")]
    B: Annotated[Matrix, Csr(None, "n_doc_terms"), SameAs("A")]
    part: Part

    def __post_init__(self) -> None:
        tied = self.tied
        object.__setattr__(self, "A", frozen_csr(self.A, "A"))
        object.__setattr__(self, "B", self.A if tied else frozen_csr(self.B, "B"))
        if (self.A.shape[0], self.B.shape[0]) != self.part.shape:
            raise InputError(
                f"A and B map to {self.A.shape[0]} and {self.B.shape[0]} words; the {self.part.kind} part has "
                f"{self.part.shape[0]} and {self.part.shape[1]}"
            )
        if not np.isfinite(self.part.scale):
            raise InputError(f"the scale of the mapped {self.part.kind} part is {self.part.scale}; scales are finite")

    @property
    def tied(self) -> bool:
        return self.B is self.A

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[1], self.B.shape[1]

    def grown(self, n_query_terms: int, n_doc_terms: int) -> Part:
        A = widened(self.A, self.A.shape[0], n_query_terms)
        return replace(self, A=A, B=A if self.tied else widened(self.B, self.B.shape[0], n_doc_terms))

    @property
    def n_stored(self) -> int:
        return self.A.nnz + (0 if self.tied else self.B.nnz) + self.part.n_stored

    @cached_property
    def _query_words(self) -> Matrix:
        """A' as CSR: the replacements of each query word in a row."""
        return self.A.T.tocsr()

    @cached_property
    def _doc_words(self) -> Matrix:
        return self._query_words if self.tied else self.B.T.tocsr()

    def map_queries(self, Q: Matrix) -> Matrix:
        """Rows ``Aq`` (n_q, part's query terms), in double precision."""
        return _product(Q, self._query_words)

    def map_docs(self, D: Matrix) -> Matrix:
        """Rows ``Bd`` (n_d, part's document terms), in double precision."""
        return _product(D, self._doc_words)

    def expand(self, Q: Matrix) -> Any:
        expanded = self.part.expand(self.map_queries(Q))
        if self._is_wide and sparse.issparse(expanded):
            expanded = expanded.toarray()
        return (expanded @ self.B.astype(np.float64)) * self.scale

    @property
    def _is_wide(self) -> bool:
        """True if document words are replaced by many words: unmapped documents are then cheaper."""
        return self.innermost.is_sparse and self.B.nnz > _MANY_WORDS * self.B.shape[1]

    def score(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        if self._is_wide:
            return super().score(Q, D)
        return self.part.score(self.map_queries(Q), self.map_docs(D)) * self.scale

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        return self.part.score_rows(self.map_queries(Q), self.map_docs(D)) * self.scale

    def doc_scale(self, D: Matrix) -> NDArray[np.float64] | None:
        return self.part.doc_scale(self.map_docs(D))

    def query_scale(self, Q: Matrix) -> NDArray[np.float64] | None:
        return self.part.query_scale(self.map_queries(Q))

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        # Compute only the block of the part's words that replace one of the terms.
        a, b = self._query_words[query_terms].tocoo(), self._doc_words[doc_terms].tocoo()
        inner_query, row_a = np.unique(a.col, return_inverse=True)
        inner_doc, row_b = np.unique(b.col, return_inverse=True)
        inner = self.part.block(inner_query, inner_doc)
        query_map = sparse.csr_array(
            (a.data.astype(np.float64), (a.row, row_a)), shape=(len(query_terms), len(inner_query))
        )
        doc_map = sparse.csr_array((b.data.astype(np.float64), (row_b, b.row)), shape=(len(inner_doc), len(doc_terms)))
        return np.asarray((query_map @ inner) @ doc_map) * self.scale

    @property
    def name(self) -> str:
        return f"Mapped({self.part.name})"

    @property
    def inner(self) -> Part:
        return self.part

    @property
    def innermost(self) -> Part:
        return self.part.innermost

    @property
    def is_low_rank(self) -> bool:
        return self.part.is_low_rank

    @property
    def is_sparse(self) -> bool:
        """True if W is a sparse matrix of at most 10⁸ entries."""
        return self.innermost.is_sparse and self._most_entries() <= _MOST_ENTRIES

    @property
    def matrix(self) -> Matrix | None:
        return None if self.is_low_rank else self.plain().matrix

    def plain(self) -> Part:
        """Return ``A' part B`` as one part between the original words: of low rank if the part is, else sparse or
        dense.

        A sparse or dense part is refused above 10⁸ entries.
        """
        flat = self._flat()
        inner = flat.part.plain()
        scale = flat.scale * inner.scale
        A, B = flat._query_words.astype(np.float64), flat.B.astype(np.float64)
        most = flat._most_entries()
        if most > _MOST_ENTRIES and not inner.is_low_rank:
            raise MemoryLimitError(
                f"a {inner.kind} part that is mapped to {self.shape[0]:,} × {self.shape[1]:,} words may have {most:,} "
                f"entries as a matrix; {_MOST_ENTRIES:,} are allowed. Look at some with rows or related, or keep the "
                "largest with a ranker's thin"
            )
        return inner.through(A, B, flat.tied, scale)

    def _flat(self) -> Mapped:
        """Merge nested maps: return the same W with one map on each side."""
        if not isinstance(self.part, Mapped):
            return self
        inner = self.part._flat()
        A = inner.A.astype(np.float64) @ self.A
        B = A if self.tied and inner.tied else inner.B.astype(np.float64) @ self.B
        return Mapped(A=A, B=B, part=inner.part, scale=self.scale * inner.scale)

    def _most_entries(self) -> int:
        """Return a bound of the number of entries of W, without W."""
        per_inner_query = self.part.row_entries(np.diff(self.B.indptr))
        if per_inner_query is None:
            return self.shape[0] * self.shape[1]
        return min(self.shape[0] * self.shape[1], int(np.diff(self.A.indptr) @ per_inner_query))

    def sharing(self, others: Sequence[Part]) -> Part:
        meta, arrays = encode(self.part)
        for candidate in others:
            if candidate.inner is not None:
                other_meta, other_arrays = encode(candidate.inner)
                if other_meta == meta and all(same_bits(arrays[name], other_arrays[name]) for name in arrays):
                    return replace(self, part=candidate.inner)
        return self


def _product(X: Matrix, words: Matrix) -> Matrix:
    mapped = product(X, words)
    mapped.sort_indices()  # kernels need distinct words in ascending order in each row
    return mapped
