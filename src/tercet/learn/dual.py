"""W as a sum over pairs of texts: what a dense W learns, where texts are few and words are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError, MemoryLimitError
from tercet.kernels.dual import dual_advance, inner_products
from tercet.kernels.rows import Chunk, CsrRows
from tercet.kernels.scoring import expand_dense
from tercet.learn.matrices import KernelInput, kernel_rows, reorder_columns
from tercet.learn.state import State, Steps
from tercet.store.schema import Csr, SameAs, Shape
from tercet.weights import Diagonal, Identity, Mapped, Part, Sparse, Weights

_COLUMNS_AT_ONCE = 1024  # of W, when its rows are made: these of all texts stay in the cache


def bytes_by_texts(n: int, m: int, *, has_identity: bool = True) -> int:
    """What W takes by n queries and m documents that are other texts."""
    return 4 * (n * n + m * m + (2 + has_identity) * n * m)


@dataclass(frozen=True, eq=False)
class _Products:
    """Inner products of queries, of documents, and of both; ``M`` as ``dual_advance`` keeps it."""

    queries: NDArray[np.float32]
    docs: NDArray[np.float32]
    start: NDArray[np.float32]
    M: NDArray[np.float32]


@dataclass(eq=False)
class DualState(State):
    """``W = I + Q' amounts D``: each step adds its rate to one pair of texts and takes it from another.

    The identity is there where both sides have one vocabulary. ``diagonal`` is empty, or what W would have on its
    diagonal, which is then held at zero: no identity either.
    """

    Q: Annotated[sparse.csr_array, Csr("n_queries", "n_query_terms")]
    D: Annotated[sparse.csr_array, Csr("n_docs", "n_doc_terms"), SameAs("Q")]
    amounts: Annotated[NDArray[np.float32], Shape("n_queries", "n_docs")]
    diagonal: Annotated[NDArray[np.float32], Shape("n_diagonal")]
    step: Steps = 0

    def __post_init__(self) -> None:
        self._products: _Products | None = None

    @classmethod
    def start(cls, Q: sparse.csr_array, D: sparse.csr_array, *, zero_diagonal: bool = False, max_memory: int) -> Self:
        n, m = Q.shape[0], D.shape[0]
        has_identity = Q.shape[1] == D.shape[1] and not zero_diagonal
        needed = 12 * n * n if D is Q else bytes_by_texts(n, m, has_identity=has_identity)
        if needed > max_memory:
            raise MemoryLimitError(
                f"inner products of {n:,} queries and {m:,} documents take {needed:,} bytes; {max_memory:,} are "
                "allowed. Use form='words', or LowRankRanker"
            )
        n_diagonal = Q.shape[1] if zero_diagonal else 0
        return cls(Q, D, np.zeros((n, m), dtype=np.float32), np.zeros(n_diagonal, dtype=np.float32))

    @property
    def shape(self) -> tuple[int, int]:
        return self.Q.shape[1], self.D.shape[1]

    @property
    def has_identity(self) -> bool:
        return self.shape[0] == self.shape[1] and not self.diagonal.size

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        if not (_same(Q, self.Q) and _same(D, self.D)):
            raise InputError("form='texts' goes on learning from the texts it began with; Q or D are others")
        if self._products is None:
            queries = _inner_products(self.Q, self.Q)
            both = queries if self.D is self.Q else np.empty((0, 0), dtype=np.float32)
            if self.D is not self.Q and self.has_identity:
                both = _inner_products(self.Q, self.D)
            docs = queries if self.D is self.Q else _inner_products(self.D, self.D)
            start = both if self.has_identity else np.empty((0, 0), dtype=np.float32)
            pairs = sparse.csr_array(self.amounts)
            M = np.ascontiguousarray((pairs @ docs).T) if pairs.nnz else np.zeros(self.amounts.T.shape, np.float32)
            self._products = _Products(queries, docs, start, M)
        return KernelInput.from_matrices(Q, D)

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        products = self._products
        assert products is not None
        dual_advance(
            self.amounts,
            products.M,
            products.queries,
            products.docs,
            products.start,
            self.diagonal,
            inputs.Q,
            inputs.D,
            chunk,
            inputs.scratch,
            tally,
        )

    def snapshot(self) -> Weights:
        parts: list[Part] = [Mapped(A=self.Q, B=self.D, part=Sparse(weights=sparse.csr_array(self.amounts)))]
        if self.has_identity:
            parts.insert(0, Identity(n_terms=self.shape[0]))
        if self.diagonal.size:
            parts.append(Diagonal(weights=-self.diagonal))
        return Weights(parts)

    def rows_of_w(self, order: NDArray[np.int32], height: int) -> Any:
        """Rows of W, ``height`` of them at a time and the last ones first, with its columns in this order."""
        assert not self.diagonal.size
        columns = (sparse.csr_array(self.amounts) @ reorder_columns(self.D, order)).toarray()  # (n_queries, n_terms)
        words = self.Q.T.tocsr()
        position = np.argsort(order)
        for first in reversed(range(0, words.shape[0], height)):
            some = words[first : first + height]
            block = np.zeros((some.shape[0], columns.shape[1]), dtype=np.float32)
            expand_dense(kernel_rows(some), columns, _COLUMNS_AT_ONCE, block)
            if self.has_identity:
                here = np.arange(block.shape[0])
                block[here, position[first + here]] += 1
            yield first, block

    def check(self) -> None:
        if self.diagonal.size not in (0, self.shape[0]) or (self.diagonal.size and self.shape[0] != self.shape[1]):
            raise InputError(f"a diagonal of {self.diagonal.size} does not fit W of shape {self.shape}")


def _same(given: sparse.csr_array, kept: sparse.csr_array) -> bool:
    return given is kept or (
        given.shape == kept.shape
        and np.array_equal(given.indptr, kept.indptr)
        and np.array_equal(given.indices, kept.indices)
        and np.array_equal(given.data, kept.data)
    )


def _inner_products(rows: sparse.csr_array, others: sparse.csr_array) -> NDArray[np.float32]:
    products = np.zeros((rows.shape[0], others.shape[0]), dtype=np.float32)
    inner_products(kernel_rows(rows), _columns(others), products)
    return products


def _columns(rows: sparse.csr_array) -> CsrRows:
    return kernel_rows(rows.T.tocsr())
