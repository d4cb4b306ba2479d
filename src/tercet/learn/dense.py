"""W unconstrained: every pair of words has a weight (Chen et al. 2010, section II)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, MemoryLimitError
from tercet.kernels.dense import dense_advance
from tercet.learn.base import COUNT, SgdRanker
from tercet.learn.matrices import Problem, by_document_frequency, reorder_columns
from tercet.learn.memory import physical_memory
from tercet.learn.state import Chunk, State
from tercet.store import Fields, take_array
from tercet.weights import Dense, Weights


class DenseState(State):
    """W with its columns from the most to the least frequent word, so that a step touches fewer cache lines."""

    kernels = (dense_advance,)

    def __init__(self, W: NDArray[np.float32], order: NDArray[np.int32], step: int = 0) -> None:
        self.W = W
        self.order = order
        self.step = step

    @classmethod
    def start(cls, n_query_terms: int, order: NDArray[np.int32]) -> Self:
        """The identity where both sides share a vocabulary, zeros where they do not."""
        W = np.zeros((n_query_terms, order.size), dtype=np.float32)
        if n_query_terms == order.size:
            W[order, np.arange(order.size)] = 1
        return cls(W, order)

    @property
    def shape(self) -> tuple[int, int]:
        return self.W.shape[0], self.W.shape[1]

    def problem(self, Q: sparse.csr_array, D: sparse.csr_array) -> Problem:
        return Problem.of(Q, reorder_columns(D, self.order))

    def run(self, problem: Problem, chunk: Chunk, margin: np.float32, tally: NDArray[np.float64]) -> None:
        dense_advance(self.W, problem.Q, problem.D, chunk, margin, problem.scratch, tally)

    def snapshot(self) -> Weights:
        W = np.empty_like(self.W)
        W[:, self.order] = self.W
        W.flags.writeable = False
        return Weights([Dense(weights=W)])

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"W": self.W, "order": self.order}

    def copy(self) -> Self:
        return type(self)(self.W.copy(), self.order, self.step)

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        order = take_array(arrays, "order", np.int32, 1)
        if not np.array_equal(np.sort(order), np.arange(order.size)):
            raise DamagedBundleError("the column order of a dense state is not a permutation")
        W = take_array(arrays, "W", np.float32, (None, order.size))
        return cls(W.copy(), order, fields.take("step", int))


class DenseRanker(SgdRanker):
    """Every pair of words has a weight, learned by SGD on the margin rank loss from W = I.

    Needs 4 bytes for each pair of words. Cost of a step: words of the query times words of the two documents.

    Parameters
    ----------
    rate : float
        C of ``C / sqrt(t)`` for ``schedule="inverse-sqrt"`` (Chen et al.: 200), or the rate itself.
    schedule : {"inverse-sqrt", "constant", "linear"}
        ``linear`` falls to zero at the last step.
    margin : the margin a preference must reach
    epochs : passes over the preferences
    shuffle : a new order for each pass, drawn from ``random_state``
    validate_every : steps between validations; default an epoch, or a tenth of a single one
    patience : validations without improvement before training ends; None never ends early
    max_memory : bytes W may take; default three quarters of the machine's memory
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

    _state_class = DenseState
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SgdRanker._parameter_constraints,
        "max_memory": [COUNT, None],
    }

    def __init__(
        self,
        *,
        rate: float = 200.0,
        schedule: str = "inverse-sqrt",
        margin: float = 1.0,
        epochs: int = 1,
        shuffle: bool = False,
        validate_every: int | None = None,
        patience: int | None = 3,
        max_memory: int | None = None,
        random_state: int = 0,
        verbose: bool | None = None,
    ) -> None:
        self.rate = rate
        self.schedule = schedule
        self.margin = margin
        self.epochs = epochs
        self.shuffle = shuffle
        self.validate_every = validate_every
        self.patience = patience
        self.max_memory = max_memory
        self.random_state = random_state
        self.verbose = verbose

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> DenseState:
        needed = 4 * Q.shape[1] * D.shape[1]
        allowed = self.max_memory if self.max_memory is not None else physical_memory() * 3 // 4
        if needed > allowed:
            raise MemoryLimitError(
                f"a dense W for {Q.shape[1]:,} query and {D.shape[1]:,} document words takes {needed:,} bytes; "
                f"{allowed:,} are allowed. Use fewer words, or LowRankRanker"
            )
        return DenseState.start(Q.shape[1], by_document_frequency(D))
