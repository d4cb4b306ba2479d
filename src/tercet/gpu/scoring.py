"""Scores of texts, and exact rankings, on a GPU: in double precision, as on a CPU."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import MemoryLimitError
from tercet.gpu.hardware import Gpu
from tercet.weights import Dense, Diagonal, Identity, LowRank, ScoringDevice, Sparse, Weights

_log = logging.getLogger(__name__)

_LEAST = 1 << 27  # fewest multiply-adds that repay the copies to the GPU and back
_BLOCK_BYTES = 2 << 30  # most bytes of a block of scores, and of a block of expanded queries
_BLOCKS_IN_USE = 6  # blocks in memory at once, with the temporary arrays of products and sums
_KEPT = 4  # document matrices that stay on the GPU
_THREADS = 256  # threads of a block that expands a query
_BLOCKS_PER_PROCESSOR = 8

Found = TypeVar("Found")


class GpuScorer(ScoringDevice):
    """Score on a GPU if all parts are supported, large enough and fit; otherwise the CPU scores."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._docs: dict[int, tuple[Any, Any]] = {}  # id of the values -> values, copy on the GPU
        self._last: tuple[Weights, list[Any]] | None = None  # last weights, and the matrices of their parts

    def score(self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array) -> NDArray[np.float64] | None:
        return self._if_it_fits(lambda: self._score(weights, Q, D)) if self._repays(weights, Q, D) else None

    def rank(
        self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array, k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
        return self._if_it_fits(lambda: self._rank(weights, Q, D, k)) if self._repays(weights, Q, D) else None

    def _if_it_fits(self, compute: Callable[[], Found]) -> Found | None:
        """Run a computation on the GPU; None, with all memory released, if GPU memory is short."""
        try:
            with self.gpu.errors():
                return compute()
        except MemoryLimitError as error:
            _log.info("scoring on the CPU: %s", error)
        # Memory is freed here, after the except block: the error's traceback holds the unfinished arrays.
        self._docs.clear()
        self._last = None
        self.gpu.free_unused()
        return None

    def _score(self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array) -> NDArray[np.float64]:
        scores = np.empty((Q.shape[0], D.shape[0]))
        for start, block in self._blocks(weights, Q, D):
            scores[start : start + len(block)] = self.gpu.to_host(block)
        return scores

    def _rank(
        self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array, k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        xp, docs, scores = self.gpu.xp, np.empty((Q.shape[0], k), np.int32), np.empty((Q.shape[0], k))
        for start, block in self._blocks(weights, Q, D):
            for row, of_query in enumerate(block):
                # Documents above the k-th score, then documents with the k-th score by lower row.
                kth = xp.partition(of_query, of_query.size - k)[of_query.size - k]
                rows = xp.flatnonzero(of_query >= kth)
                best = rows[xp.lexsort(xp.stack((rows.astype(np.float64), -of_query[rows])))[:k]]
                docs[start + row] = self.gpu.to_host(best)
                scores[start + row] = self.gpu.to_host(of_query[best])
        return docs, scores

    def _repays(self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array) -> bool:
        is_supported = all(isinstance(part, Identity | Diagonal | Sparse | Dense | LowRank) for part in weights.parts)
        widest = max((part.query_factors.shape[1] for part in weights.parts if isinstance(part, LowRank)), default=1)
        return is_supported and Q.shape[0] > 0 and Q.shape[0] * (D.nnz + D.shape[0] * widest) >= _LEAST

    def _blocks(self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array) -> Any:
        """Yield the first query and the scores of all documents, on the GPU, for one block of queries at a time."""
        xp = self.gpu.xp
        docs = self._placed(D)
        latent = [self._latent(part, Q, docs) for part in weights.parts if isinstance(part, LowRank)]
        full_rank = [part for part in weights.parts if not isinstance(part, LowRank)]
        matrices = self._matrices(weights, full_rank)
        room = min(_BLOCK_BYTES, self.gpu.free_bytes() // _BLOCKS_IN_USE)
        height = max(1, room // (8 * max(*D.shape, Q.shape[1])))
        for start in range(0, Q.shape[0], height):
            n = min(height, Q.shape[0] - start)
            scores = xp.zeros((n, D.shape[0]))
            if full_rank:
                queries = self._csr(Q[start : start + n])
                expanded = xp.zeros((n, D.shape[1]))
                for part, matrix in zip(full_rank, matrices, strict=True):
                    self._expand(part, queries, matrix, expanded)
                scores += (docs @ expanded.T).T
            for of_queries, of_docs in latent:
                scores += of_queries[start : start + n] @ of_docs.T
            yield start, scores

    def _matrices(self, weights: Weights, parts: list[Any]) -> list[Any]:
        """Return the matrices of parts on the GPU; the matrices of the last weights stay for the next call."""
        if self._last is None or self._last[0] is not weights:
            self._last = None  # free the old matrices first
            self._last = weights, [self._matrix(part) for part in parts]
        return self._last[1]

    def let_go(self) -> None:
        """Release the memory of the last weights."""
        self._last = None

    def _matrix(self, part: Any) -> Any:
        if isinstance(part, Identity):
            return None
        return self._csr(part.weights) if isinstance(part, Sparse) else self.gpu.xp.asarray(part.weights, np.float64)

    def _expand(self, part: Any, queries: Any, matrix: Any, expanded: Any) -> None:
        """Add ``q'W``, dense, to the rows of queries (n_queries, n_doc_terms)."""
        if isinstance(part, Identity):
            expanded += part.scale * queries.toarray()
        elif isinstance(part, Diagonal):
            expanded += part.scale * (queries.toarray() * matrix)
        elif isinstance(part, Dense):
            expanded += part.scale * (queries @ matrix)
        else:
            # cuSPARSE's product of two sparse matrices needs memory for every term, and has a limit of 2^31 terms.
            n, width = expanded.shape
            rows = (*self._rows(queries), *self._rows(matrix))
            args = (*rows, np.float64(part.scale), np.int64(n), np.int64(width), expanded)
            n_blocks = min(n, self.gpu.n_processors * _BLOCKS_PER_PROCESSOR)
            self.gpu.launch("expand_queries", n_blocks, _THREADS, 0, args)

    def _rows(self, matrix: Any) -> tuple[Any, Any, Any]:
        """Return ``indptr``, ``indices`` and ``data`` in the types of the kernels."""
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data

    def _latent(self, part: LowRank, Q: sparse.csr_array, docs: Any) -> tuple[Any, Any]:
        xp = self.gpu.xp
        of_queries = self._csr(Q) @ xp.asarray(part.query_factors, np.float64) * part.scale
        of_docs = docs @ xp.asarray(part.doc_factors, np.float64)
        if part.unit_queries:
            of_queries *= self._over_lengths(abs(part.scale), of_queries)
        if part.typical_length is not None:
            of_docs *= self._over_lengths(part.typical_length, of_docs)
        return of_queries, of_docs

    def _over_lengths(self, number: float, vectors: Any) -> Any:
        xp = self.gpu.xp
        length = xp.sqrt((vectors**2).sum(axis=1, keepdims=True))
        return xp.where(length > 0, number / xp.where(length > 0, length, 1.0), 0.0)

    def _placed(self, D: sparse.csr_array) -> Any:
        """Return the documents on the GPU; the last few document matrices stay there."""
        key = id(D.data)
        if key not in self._docs:
            while len(self._docs) >= _KEPT:
                del self._docs[next(iter(self._docs))]
            self._docs[key] = D.data, self._csr(D)
        return self._docs[key][1]

    def _csr(self, matrix: sparse.csr_array) -> Any:
        xp = self.gpu.xp
        arrays = xp.asarray(matrix.data, np.float64), xp.asarray(matrix.indices), xp.asarray(matrix.indptr)
        return self.gpu.sparse.csr_matrix(arrays, shape=matrix.shape)
