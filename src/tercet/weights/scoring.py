"""Scores of every document for every query, from the queries' expansions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.kernels.rows import CsrRows, QueryRow
from tercet.kernels.scoring import score_docs, score_postings

Matrix: TypeAlias = "sparse.csr_array"

_EXPANDED_BYTES = 64 * 2**20  # a block of expanded queries
_MOST_LANES = 64
_LANES_OF_A_VECTOR = 8  # lanes fill whole vectors: a single query runs the same instructions as a block
_DOCS_TOGETHER = 16
# Cost of a scattered multiply-add (an indexed load and store), relative to a contiguous multiply-add.
_COST_OF_SCATTERING = 6
# Cost of sorting the documents by word, in queries scored against all documents.
_COST_OF_POSTINGS = 32


def as_matrix(Q: Matrix | QueryRow) -> Matrix:
    """Return queries as a SciPy matrix."""
    if not isinstance(Q, QueryRow):
        return Q
    return sparse.csr_array((Q.data, Q.indices, Q.indptr), shape=Q.shape)


def in_double(matrix: Matrix | CsrRows) -> CsrRows:
    """Return a matrix in the types of scoring kernels: int64, int32 and float64."""
    return CsrRows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64))


def product(X: Matrix | QueryRow, M: Any) -> Any:
    """Return ``X @ M`` in double precision; only the rows of M used by X are read."""
    if isinstance(X, QueryRow):
        if isinstance(M, np.ndarray):  # the order of SciPy's additions
            rows = X.data[:, None].astype(np.float64) * M[X.indices].astype(np.float64)
            return np.add.accumulate(rows, axis=0)[-1:] if X.nnz else np.zeros((1, M.shape[1]))
        X = as_matrix(X)
    if X.nnz >= M.shape[0]:
        return X.astype(np.float64) @ M.astype(np.float64)
    used, column = np.unique(X.indices, return_inverse=True)
    narrow = sparse.csr_array((X.data.astype(np.float64), column, X.indptr), shape=(X.shape[0], used.size))
    return narrow @ _some_rows(M, used).astype(np.float64)


def _some_rows(M: Any, rows: NDArray[Any]) -> Any:
    """Return ``M[rows]``. SciPy would copy all columns of M if columns and row ends have different integer types."""
    if not sparse.issparse(M):
        return M[rows]
    starts = M.indptr[rows].astype(np.int64)
    lengths = M.indptr[rows + np.int64(1)] - starts
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
    return sparse.csr_array((M.data[entries], M.indices[entries], indptr), shape=(rows.size, M.shape[1]))


def score_expanded(expand: Callable[[Matrix], Any], Q: Matrix, D: Matrix) -> NDArray[np.float64]:
    """Return all scores (n_q, n_d) in double precision; ``expand`` returns rows ``q'W``, sparse or dense.

    Queries are expanded in blocks. A thin block reads only the documents with one of its words; another block reads
    every word of every document, for many queries side by side. A count of operations chooses; both ways give the same
    bits.
    """
    scores = np.empty((Q.shape[0], D.shape[0]))
    docs = in_double(D)
    docs_per_word = np.bincount(docs.indices, minlength=D.shape[1])
    docs_by_word: CsrRows | None = None
    height = max(_LANES_OF_A_VECTOR, _EXPANDED_BYTES // (8 * max(1, D.shape[1])))
    for start in range(0, Q.shape[0], height):
        expanded = expand(Q[start : start + height])
        block = scores[start : start + height]
        if sparse.issparse(expanded):
            scattered = _COST_OF_SCATTERING * int(docs_per_word[expanded.indices].sum())
            # The cost of sorting is shared with the blocks that follow.
            sorting = _COST_OF_POSTINGS * D.nnz * len(block) / (Q.shape[0] - start) if docs_by_word is None else 0
            if scattered + sorting <= len(block) * D.nnz:
                if docs_by_word is None:
                    docs_by_word = in_double(D.T.tocsr())
                expanded.sort_indices()
                score_postings(in_double(expanded), docs_by_word, block)
                continue
            expanded = expanded.toarray()
        _score_side_by_side(expanded, docs, block)
    return scores


def _score_side_by_side(expanded: NDArray[np.float64], docs: CsrRows, scores: NDArray[np.float64]) -> None:
    for start in range(0, len(expanded), _MOST_LANES):
        queries = expanded[start : start + _MOST_LANES]
        n_lanes = -(-len(queries) // _LANES_OF_A_VECTOR) * _LANES_OF_A_VECTOR
        words = np.zeros((expanded.shape[1], n_lanes))
        words[:, : len(queries)] = queries.T
        score_docs(docs, words, np.empty((_DOCS_TOGETHER, n_lanes)), scores[start : start + _MOST_LANES])
