"""What ``LowRankRanker`` carries while it trains."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError
from tercet.kernels.lowrank import lowrank_advance
from tercet.learn.matrices import Problem, Texts
from tercet.learn.state import Chunk, State
from tercet.learn.stored import take
from tercet.store import Fields, take_array
from tercet.weights import Diagonal, Identity, LowRank, Part, Weights

# The typical length of a document's latent vector is taken over at most this many evenly spaced documents.
_LENGTH_SAMPLE = 2000

# Query and document words whose factors stay zero, 1 for each such word.
Rare = tuple[NDArray[np.uint8], NDArray[np.uint8]]
# For U, V and the diagonal: the sum of all changes, each times the number of steps before it.
Before = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

_NO_WORD: Rare = (np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8))
_NO_STEP = (np.empty((0, 0)), np.empty((0, 0)), np.empty(0), np.empty(0, dtype=np.int64))


class LowRankState(State):
    """U (n_query_terms, n_components), V (n_doc_terms, n_components), the same array when tied; a diagonal or none."""

    kernels = (lowrank_advance,)

    def __init__(
        self,
        U: NDArray[np.float32],
        V: NDArray[np.float32],
        diagonal: NDArray[np.float32],
        *,
        learn_diagonal: bool,
        scale_documents: bool,
        typical_length: float | None = None,
        step: int = 0,
        rare: Rare | None = None,
        before: Before | None = None,
    ) -> None:
        self.U, self.V = U, V
        self.diagonal = diagonal  # empty when W has no diagonal part
        self.rare = rare
        self.before = before
        self.learn_diagonal = learn_diagonal
        self.scale_documents = scale_documents
        self.typical_length = typical_length
        self.step = step
        self._sample: sparse.csr_array | None = None

    @property
    def tied(self) -> bool:
        return self.U is self.V

    @property
    def shape(self) -> tuple[int, int]:
        return self.U.shape[0], self.V.shape[0]

    def look_at(self, Q: Texts, D: Texts) -> None:
        if self.scale_documents:
            self._sample = take(D, np.arange(0, D.shape[0], -(-D.shape[0] // _LENGTH_SAMPLE)))

    def problem(self, Q: sparse.csr_array, D: sparse.csr_array) -> Problem:
        return Problem.of(Q, D)

    def run(self, problem: Problem, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        lowrank_advance(
            self.U,
            self.V,
            self.diagonal,
            self.learn_diagonal,
            _NO_WORD if self.rare is None else self.rare,
            _NO_STEP if self.before is None else (*self.before, np.array([self.step])),
            problem.Q,
            problem.D,
            chunk,
            problem.scratch,
            tally,
        )

    def leave_out(self, rare: Rare) -> None:
        """Set the factors of rare words to zero, where they stay."""
        for factors, words in zip((self.U, self.V), rare, strict=True):
            factors[words != 0] = 0
        self.rare = rare

    def average(self) -> None:
        """From here on, have snapshots give the mean of all steps."""
        before_U = np.zeros(self.U.shape)
        before_V = before_U if self.tied else np.zeros(self.V.shape)
        self.before = before_U, before_V, np.zeros(self.diagonal.shape)

    def snapshot(self) -> Weights:
        U = self._mean(self.U, 0)
        V = U if self.tied else self._mean(self.V, 1)
        self._measure_length()
        parts: list[Part] = [LowRank(query_factors=U, doc_factors=V, typical_length=self.typical_length)]
        if self.learn_diagonal:
            parts.append(Diagonal(weights=self._mean(self.diagonal, 2)))
        elif self.diagonal.size and self.diagonal[0]:
            parts.append(Identity(n_terms=self.diagonal.size, scale=float(self.diagonal[0])))
        return Weights(parts)

    def _mean(self, array: NDArray[np.float32], at: int) -> NDArray[np.float32]:
        """A copy of the array, or its mean over all steps when there is averaging.

        A change c at step t is in the iterates of the steps t, …, T. So their sum is T times the last iterate less
        the sum of all (t - 1) c, and no step touches more than the words it changes.
        """
        if self.before is None or self.step == 0:
            return array.copy()
        return (array - self.before[at] / self.step).astype(np.float32)

    def _measure_length(self) -> None:
        """Root mean square length of the documents' latent vectors; kept when the documents are not at hand."""
        if self.scale_documents and self._sample is not None:
            latent = self._sample.astype(np.float64) @ self._mean(self.V, 1).astype(np.float64)
            self.typical_length = float(np.sqrt(np.mean(np.sum(latent**2, axis=1)))) or 1.0

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"U": self.U, "diagonal": self.diagonal}
        if not self.tied:
            arrays["V"] = self.V
        if self.rare is not None:
            arrays |= {"rare_query_words": self.rare[0], "rare_doc_words": self.rare[1]}
        if self.before is not None:
            arrays |= {"before_U": self.before[0], "before_diagonal": self.before[2]}
            if not self.tied:
                arrays["before_V"] = self.before[1]
        return arrays

    def meta(self) -> dict[str, Any]:
        self._measure_length()
        return super().meta() | {
            "tied": self.tied,
            "learn_diagonal": self.learn_diagonal,
            "scale_documents": self.scale_documents,
            "typical_length": self.typical_length,
        }

    def copy(self) -> Self:
        U = self.U.copy()
        before = None
        if self.before is not None:
            before_U = self.before[0].copy()
            before = before_U, before_U if self.tied else self.before[1].copy(), self.before[2].copy()
        copied = type(self)(
            U,
            U if self.tied else self.V.copy(),
            self.diagonal.copy(),
            learn_diagonal=self.learn_diagonal,
            scale_documents=self.scale_documents,
            typical_length=self.typical_length,
            step=self.step,
            rare=self.rare,
            before=before,
        )
        copied._sample = self._sample
        return copied

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        tied = fields.take("tied", bool)
        U = take_array(arrays, "U", np.float32, 2).copy()
        V = U if tied else take_array(arrays, "V", np.float32, (None, U.shape[1])).copy()
        diagonal = take_array(arrays, "diagonal", np.float32, 1).copy()
        if diagonal.size and not diagonal.size == U.shape[0] == V.shape[0]:
            raise DamagedBundleError(f"a diagonal of {diagonal.size} does not fit factors of {U.shape[0]} words")
        rare: Rare | None = None
        if "rare_query_words" in arrays:
            rare = (
                take_array(arrays, "rare_query_words", np.uint8, (U.shape[0],)).copy(),
                take_array(arrays, "rare_doc_words", np.uint8, (V.shape[0],)).copy(),
            )
            if U[rare[0] != 0].any() or V[rare[1] != 0].any():
                raise DamagedBundleError("a word that is marked as rare has factors other than zero")
        before: Before | None = None
        if "before_U" in arrays:
            before_U = take_array(arrays, "before_U", np.float64, U.shape).copy()
            before_V = before_U if tied else take_array(arrays, "before_V", np.float64, V.shape).copy()
            before = before_U, before_V, take_array(arrays, "before_diagonal", np.float64, diagonal.shape).copy()
        return cls(
            U,
            V,
            diagonal,
            learn_diagonal=fields.take("learn_diagonal", bool),
            scale_documents=fields.take("scale_documents", bool),
            typical_length=fields.take("typical_length", float | None),
            step=fields.take("step", int),
            rare=rare,
            before=before,
        )
