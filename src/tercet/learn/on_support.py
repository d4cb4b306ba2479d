"""W on a given support: what is learned after a low-rank W has said where weights are worth having."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.kernels.rows import Chunk
from tercet.kernels.support import support_advance
from tercet.learn.matrices import KernelInput, reorder_columns
from tercet.learn.state import State
from tercet.weights import Sparse, Weights


class OnSupportState(State):
    """A W on a given support, in 8 bytes for each of its entries: no entry is added and none shrinks.

    ``weights`` is what it starts from, columns in the order of ``order``; explicit zeros belong to the support.
    """

    def __init__(self, weights: sparse.csr_array, order: NDArray[np.int32], step: int = 0) -> None:
        self.values = weights.data.astype(np.float32).reshape(1, -1)
        self.columns = weights.indices.astype(np.uint32).reshape(1, -1)
        self.indptr = weights.indptr.astype(np.int64)
        self.order = order
        self.step = step
        self._delta = np.zeros(order.size, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return self.indptr.size - 1, self.order.size

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return KernelInput.from_matrices(Q, reorder_columns(D, self.order))

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        support_advance(
            self.values, self.columns, self.indptr, self._delta, inputs.Q, inputs.D, chunk, inputs.scratch, tally
        )

    def weights(self) -> sparse.csr_array:
        """The current weights, columns in their given order."""
        columns = self.order[self.columns[0].view(np.int32)]
        weights = sparse.csr_array((self.values[0].copy(), columns, self.indptr), shape=self.shape)
        weights.eliminate_zeros()
        return weights

    def snapshot(self) -> Weights:
        return Weights([Sparse(weights=self.weights())])

    def copy(self) -> Self:
        columns = self.columns[0].view(np.int32)
        same = sparse.csr_array((self.values[0], columns, self.indptr), shape=self.shape, copy=True)
        return type(self)(same, self.order, self.step)
