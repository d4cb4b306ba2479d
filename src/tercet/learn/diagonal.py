"""W diagonal: a learned weight for each word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError
from tercet.kernels.diagonal import diagonal_advance
from tercet.kernels.rows import Chunk
from tercet.learn.base import Positive, SgdRanker
from tercet.learn.matrices import KernelInput
from tercet.learn.state import Schedule, State, Steps
from tercet.store.schema import Shape
from tercet.weights import Diagonal, Weights


@dataclass(eq=False)
class DiagonalState(State):
    """A weight for each word."""

    weights: Annotated[NDArray[np.float32], Shape("n_terms")]
    step: Steps = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.size, self.weights.size

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return KernelInput.from_matrices(Q, D)

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        diagonal_advance(self.weights, inputs.Q, inputs.D, chunk, inputs.scratch, tally)

    def snapshot(self) -> Weights:
        return Weights([Diagonal(weights=self.weights)])


@dataclass(eq=False, repr=False, kw_only=True)
class DiagonalRanker(SgdRanker):
    """A learned weight for each word; words are never paired with other words (Bai et al. 2010, section 2.2.1).

    Cost of a step: the words of the three texts.

    Parameters
    ----------
    rate, schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> X = sparse.csr_array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> ranker = DiagonalRanker(rate=0.5).fit(X, Preferences([0], [1], [2]))
    >>> ranker.weights_.diagonal.tolist()
    [1.5, 0.5]
    """

    rate: Positive = 100.0
    schedule: Schedule = "inverse-sqrt"

    _state_class = DiagonalState

    def cost_per_step(self, n_query_words: float, n_doc_words: float) -> float:
        """Return the words of the three texts."""
        return n_query_words + 2 * n_doc_words

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> DiagonalState:
        if Q.shape[1] != D.shape[1]:
            raise InputError(
                f"Q has {Q.shape[1]} columns and D {D.shape[1]}; a diagonal pairs each word with itself, so they must "
                "agree"
            )
        return DiagonalState(np.ones(Q.shape[1], dtype=np.float32))
