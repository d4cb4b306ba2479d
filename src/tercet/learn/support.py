"""A W on a given support: entries change, and none is added or dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError
from tercet.kernels.rows import Chunk
from tercet.kernels.sparse import sparse_advance
from tercet.kernels.support import support_advance
from tercet.learn.matrices import KernelInput, reorder_columns
from tercet.learn.state import State, Steps, check_order
from tercet.store.fields import csr_problem
from tercet.store.schema import Csr, Shape
from tercet.weights import Sparse, Weights

LONG_ROW = 2  # entries of a row per word of two documents from which an array of all pairs is faster


@dataclass(eq=False)
class SupportState(State):
    """Entries of W, 8 bytes each; columns in the order of ``order``, and explicit zeros belong to the support."""

    order: Annotated[NDArray[np.int32], Shape("n_doc_terms")]
    entries: Annotated[sparse.csr_array, Csr("n_query_terms", "n_doc_terms", names=("values", "columns", "indptr"))]
    step: Steps = 0

    def __post_init__(self) -> None:
        self.max_array = 0  # bytes of an array of all pairs, faster to learn in if rows are long
        self._in_array = False
        self._array: NDArray[np.float32] | None = None  # NaN outside the support
        self._delta = np.zeros(self.order.size, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.entries.shape
        return n, m

    def observe(self, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        n, m = self.shape
        n_words = 2 * D.nnz / max(1, D.shape[0])  # of two documents
        n_entries = np.diff(self.entries.indptr)[Q.indices].sum() / max(
            1, Q.nnz
        )  # mean entries in the row of a query's word
        self._in_array = 4 * n * m <= self.max_array and n_entries > LONG_ROW * n_words

    def _positions(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.entries.indptr))
        return rows, self.entries.indices

    def _settle(self) -> None:
        """Bring the entries up to date."""
        if self._array is not None:
            self.entries.data[:] = self._array[self._positions()]

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return KernelInput.from_matrices(Q, reorder_columns(D, self.order))

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        if self._in_array:
            if self._array is None:
                self._array = np.full(self.shape, np.nan, dtype=np.float32)
                self._array[self._positions()] = self.entries.data
            no_penalty = np.array([0.0, 0.0, 0.0, 1.0])
            sparse_advance(self._array, inputs.Q, inputs.D, chunk, no_penalty, self.step, inputs.scratch, tally)
            return
        W = self.entries
        values, columns = W.data.reshape(1, -1), W.indices.astype(np.int32, copy=False).view(np.uint32).reshape(1, -1)
        indptr = W.indptr.astype(np.int64, copy=False)
        support_advance(values, columns, indptr, self._delta, inputs.Q, inputs.D, chunk, inputs.scratch, tally)

    def weights(self) -> sparse.csr_array:
        """Return a copy of W without zeros, columns in their given order."""
        self._settle()
        W = self.entries
        weights = sparse.csr_array((W.data.copy(), self.order[W.indices], W.indptr.copy()), shape=W.shape)
        weights.eliminate_zeros()
        return weights

    def snapshot(self) -> Weights:
        return Weights([Sparse(weights=self.weights())])

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._settle()
        return super().to_state()

    def copy(self) -> Self:
        self._settle()
        return super().copy()

    def check(self) -> None:
        check_order(self.order)
        W = self.entries
        problem = csr_problem(W.indptr, W.indices, W.shape[1], ascending=True)
        if not W.nnz or problem is not None:
            raise InputError(f"its support {problem or 'is empty'}")
