"""W unconstrained: a weight for every pair of words (Chen et al. 2010, section II)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError, MemoryLimitError
from tercet.kernels.dense import dense_advance
from tercet.kernels.rows import Chunk
from tercet.learn.base import Count, Positive, SgdRanker
from tercet.learn.matrices import KernelInput, by_document_frequency, reorder_columns
from tercet.learn.state import Schedule, State, Steps, check_order, physical_memory
from tercet.store.schema import OMIT_DEFAULT, Shape
from tercet.weights import Dense, Weights


@dataclass(eq=False)
class DenseState(State):
    """W with columns from the most to the least frequent word: a step then touches fewer cache lines."""

    W: Annotated[NDArray[np.float32], Shape("n_query_terms", "n_doc_terms")]
    order: Annotated[NDArray[np.int32], Shape("n_doc_terms")]
    step: Steps = 0
    zero_diagonal: Annotated[bool, OMIT_DEFAULT] = False

    def __post_init__(self) -> None:
        own_columns = np.argsort(self.order) if self.zero_diagonal else np.empty(0)
        self._own = own_columns.astype(np.int32)  # each query word's own column

    @classmethod
    def start(cls, n_query_terms: int, order: NDArray[np.int32], *, zero_diagonal: bool = False) -> Self:
        """Start at the identity for one vocabulary; at zero for two, or for a diagonal held at zero."""
        W = np.zeros((n_query_terms, order.size), dtype=np.float32)
        if n_query_terms == order.size and not zero_diagonal:
            W[order, np.arange(order.size)] = 1
        return cls(W, order, zero_diagonal=zero_diagonal)

    @property
    def shape(self) -> tuple[int, int]:
        return self.W.shape[0], self.W.shape[1]

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return KernelInput.from_matrices(Q, reorder_columns(D, self.order))

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        dense_advance(self.W, self._own, inputs.Q, inputs.D, chunk, inputs.scratch, tally)

    def snapshot(self) -> Weights:
        W = np.empty_like(self.W)
        W[:, self.order] = self.W
        W.flags.writeable = False
        return Weights([Dense(weights=W)])

    def check(self) -> None:
        check_order(self.order)
        n = self.order.size
        if self.zero_diagonal and (self.W.shape[0] != n or self.W[self.order, np.arange(n)].any()):
            raise InputError("the diagonal, which is held at zero, has another one, or none")


@dataclass(eq=False, repr=False, kw_only=True)
class DenseRanker(SgdRanker):
    """A weight for every pair of words, learned by SGD on the margin rank loss from W = I.

    Memory: 4 bytes for each pair of words. Cost of a step: words of the query times words of the two documents.

    Parameters
    ----------
    rate : float
        C of ``C / sqrt(t)`` for ``schedule="inverse-sqrt"`` (Chen et al.: 200), or the rate itself.
    schedule : {"inverse-sqrt", "constant", "linear"}
        ``linear`` falls to zero at the last step.
    diagonal : {"learned", "zero"}
        ``zero`` starts from W = 0 and never weighs a word against itself: only other words can match (Bai et al.,
        section 4.1).
    margin : margin for preferences without a margin of their own
    epochs : passes over the preferences
    shuffle : a new order for each pass, drawn from ``random_state``
    validate_every : steps between validations; default an epoch, or a tenth of a single epoch
    patience : validations in a row without improvement; the next ends the training. None never ends early
    max_memory : bytes that W may take; default three quarters of the machine's memory
    verbose : None shows progress on a terminal, True always, False never

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> X = sparse.csr_array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> ranker = DenseRanker(rate=2.0).fit(X, Preferences([0], [1], [2]))
    >>> ranker.weights_.sparse.toarray().tolist()
    [[-1.0, 2.0], [0.0, 1.0]]
    """

    rate: Positive = 200.0
    schedule: Schedule = "inverse-sqrt"
    diagonal: Literal["learned", "zero"] = "learned"
    max_memory: Count | None = None

    _state_class = DenseState
    _added_parameters: ClassVar[dict[str, Any]] = {"diagonal": "learned"}

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> DenseState:
        if self.diagonal == "zero" and Q.shape[1] != D.shape[1]:
            raise InputError(
                f"Q has {Q.shape[1]} columns and D {D.shape[1]}; diagonal='zero' needs one vocabulary, in which a word "
                "can meet itself"
            )
        allowed = self.max_memory if self.max_memory is not None else physical_memory() * 3 // 4
        needed = 4 * Q.shape[1] * D.shape[1]
        if needed > allowed:
            raise MemoryLimitError(
                f"a dense W for {Q.shape[1]:,} query and {D.shape[1]:,} document words takes {needed:,} bytes; "
                f"{allowed:,} are allowed. Use fewer words, or LowRankRanker"
            )
        return DenseState.start(Q.shape[1], by_document_frequency(D), zero_diagonal=self.diagonal == "zero")
