"""Weights that pairs of words share at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.errors import InputError, MemoryLimitError
from tercet.kernels.rows import CsrRows
from tercet.kernels.scoring import expand_hashed, expand_hashed_at, score_pairs_hashed
from tercet.store.schema import LENGTH
from tercet.weights.base import Part, check_finite, frozen
from tercet.weights.plain import Dense
from tercet.weights.scoring import Matrix, score_expanded

_MOST_TERMS = 2**31  # s·P + t stays below 2⁶³ for multipliers up to 2³¹
_COLUMNS_AT_ONCE = 1024  # 8 KB of an expanded query
_MOST_ENTRIES = 2**27  # most entries of W as a matrix: half a gigabyte
_COST_OF_PICKING = 4  # cost of reading a scattered weight, relative to a contiguous weight


@dataclass(frozen=True, eq=False, kw_only=True)
class Hashed(Part):
    """``W[s, t] = table[(s·P + t) mod H]``, a hash kernel: H weights for any number of pairs.

    A query costs its words times the different words of the documents, plus the words of all documents; a pair of
    texts costs the product of their numbers of words; a row of W costs n_doc_terms. None needs all of W.

    Parameters
    ----------
    table : the shared weights, float32 (H,)
    n_query_terms, n_doc_terms : below 2³¹
    multiplier : P, a large prime up to 2³¹

    Examples
    --------
    >>> table = np.arange(5, dtype=np.float32)
    >>> part = Hashed(table=table, n_query_terms=3, n_doc_terms=4, multiplier=7)
    >>> part.block(np.arange(3), np.arange(4)).tolist()
    [[0.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 0.0], [4.0, 0.0, 1.0, 2.0]]
    """

    kind = "hashed"
    table: NDArray[np.float32]
    n_query_terms: Annotated[int, LENGTH]
    n_doc_terms: Annotated[int, LENGTH]
    multiplier: int

    def __post_init__(self) -> None:
        if self.table.ndim != 1 or not self.table.size or self.table.dtype != np.float32:
            raise InputError(
                f"a hashed part's table is {self.table.dtype} of shape {self.table.shape}; expected one or more "
                "float32 in a row"
            )
        for name, least in (("n_query_terms", 0), ("n_doc_terms", 0), ("multiplier", 1)):
            most = _MOST_TERMS if name == "multiplier" else _MOST_TERMS - 1
            number = check_integer(getattr(self, name), f"{name} of a hashed part", least, most)
            object.__setattr__(self, name, number)
        check_finite(self.table, "table")
        object.__setattr__(self, "table", frozen(self.table))

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_query_terms, self.n_doc_terms

    @property
    def n_stored(self) -> int:
        return self.table.size

    def starts(self, query_terms: NDArray[Any]) -> NDArray[np.int64]:
        """Return the start of a query term's row of W in the table; the row continues from there, cyclically."""
        return query_terms.astype(np.int64) * self.multiplier % self.table.size

    def _queries(self, Q: Matrix) -> CsrRows:
        return CsrRows(Q.indptr.astype(np.int64), self.starts(Q.indices), Q.data.astype(np.float64))

    def expand(self, Q: Matrix) -> NDArray[np.float64]:
        expanded = np.zeros((Q.shape[0], self.n_doc_terms))
        expand_hashed(self._queries(Q), self.table, _COLUMNS_AT_ONCE, expanded)
        expanded *= self.scale
        return expanded

    def _expand_at(self, Q: Matrix, doc_terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the columns ``doc_terms`` of `expand`, with the same bits."""
        expanded = np.zeros((Q.shape[0], doc_terms.size))
        expand_hashed_at(self._queries(Q), self.table, doc_terms % self.table.size, expanded)
        expanded *= self.scale
        return expanded

    def score(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        """Score documents with few different words: queries are expanded to these words only."""
        doc_terms = _distinct(D.indices, self.n_doc_terms)
        if _COST_OF_PICKING * doc_terms.size > self.n_doc_terms:
            return score_expanded(self.expand, Q, D)
        column = np.searchsorted(doc_terms, D.indices)
        narrow = sparse.csr_array((D.data, column, D.indptr), shape=(D.shape[0], doc_terms.size))
        return score_expanded(lambda block: self._expand_at(block, doc_terms), Q, narrow)

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        scores = np.empty(Q.shape[0])
        buckets = D.indices.astype(np.int64) % self.table.size
        docs = CsrRows(D.indptr.astype(np.int64), buckets, D.data.astype(np.float64))
        score_pairs_hashed(self._queries(Q), docs, self.table, scores)
        return scores * self.scale

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        buckets = self.starts(query_terms)[:, None] + doc_terms[None, :].astype(np.int64)
        return self.table[buckets % self.table.size].astype(np.float64) * self.scale

    def plain(self) -> Dense:
        """Return all of W as a matrix; refused above 2²⁷ entries."""
        n, m = self.shape
        if n * m > _MOST_ENTRIES:
            raise MemoryLimitError(
                f"hashed weights have an entry for each of {n:,} × {m:,} pairs of words, {4 * n * m:,} bytes as a "
                "matrix. Look at some with rows or related, or keep the largest with a ranker's thin"
            )
        W = np.empty((n, m), dtype=np.float32)
        doc_terms = np.arange(m)
        for s, start in enumerate(self.starts(np.arange(n))):
            W[s] = self.table[(start + doc_terms) % self.table.size]
        return Dense(weights=W, scale=self.scale)


def _distinct(terms: NDArray[Any], n_terms: int) -> NDArray[np.int64]:
    """Return the distinct terms in ascending order."""
    if terms.size < n_terms:
        return np.unique(terms).astype(np.int64)
    return np.flatnonzero(np.bincount(terms, minlength=n_terms))  # linear time, without a sort
