"""W learned whole, then pruned row by row and learned again, round after round (Bai et al. 2010, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tercet.data.preferences import Preferences
from tercet.errors import InputError, MemoryLimitError, ParameterError
from tercet.kernels.rows import Chunk
from tercet.learn.base import Count, Positive, SgdRanker
from tercet.learn.dense import DenseState
from tercet.learn.loop import Callback, Run
from tercet.learn.matrices import KernelInput, by_document_frequency
from tercet.learn.sources import Source
from tercet.learn.state import Schedule, State, Steps, physical_memory
from tercet.learn.support import SupportState
from tercet.store.codec import decode, encode
from tercet.weights import Sparse, Weights
from tercet.weights.base import row_blocks

_ENTRIES_AT_ONCE = 1 << 20  # entries of W pruned at once
_BYTES_OF_ENTRY = 8  # a value and its column


@dataclass(frozen=True)
class StoredPruning:
    """Saved `PrunedState` without the arrays of its W."""

    dense: bool
    inner: dict[str, Any]
    cuts: tuple[tuple[int, int], ...]
    step: Steps


class PrunedState(State):
    """All of W until the first pruning, then the entries of its support, the same number in each row.

    cuts : (step, entries left in each row after this step), in the order of their steps
    """

    def __init__(self, inner: DenseState | SupportState, cuts: Sequence[tuple[int, int]] = (), step: int = 0) -> None:
        self.inner = inner
        self.cuts = tuple(cuts)
        self.step = step

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def is_pruned(self) -> bool:
        """True after the last pruning."""
        return not self.cuts or self.step >= self.cuts[-1][0]

    @property
    def n_live(self) -> int:
        """Number of weights other than zero."""
        return int(np.count_nonzero(self.inner.W if isinstance(self.inner, DenseState) else self.inner.entries.data))

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return self.inner.kernel_input(Q, D)  # pruning does not change the order of columns

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        start, n = 0, len(chunk.query)
        if n == 0:  # compiles the kernels of all rounds
            self.inner.run(inputs, chunk, tally)
            SupportState(self.inner.order, sparse.csr_array(self.shape, dtype=np.float32)).run(inputs, chunk, tally)
        while start < n:
            stop = min([n, *(step - self.step for step, _ in self.cuts if step > self.step + start)])
            self.inner.run(inputs, chunk.part(start, stop), tally)
            if not np.isfinite(tally).all():
                return  # diverged: the loop raises the error
            start = stop
            self.inner.step = self.step + start
            n_kept = dict(self.cuts).get(self.inner.step)
            if n_kept is not None:
                self.prune(n_kept)

    def prune(self, n_kept: int) -> None:
        """Algorithm 2: keep the ``n_kept`` entries of each row with the largest size; the rest stays zero.

        Among equal entries, more frequent document words stay.
        """
        entries = largest_of_rows(self.inner.W if isinstance(self.inner, DenseState) else self.inner.entries, n_kept)
        self.inner = SupportState(self.inner.order, entries, self.inner.step)

    def snapshot(self) -> Weights:
        weights = self.inner.snapshot()
        if isinstance(self.inner, DenseState) and self.is_pruned:  # no row had more entries than allowed
            return Weights([Sparse(weights=weights.sparse)])
        return weights

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        inner, arrays = self.inner.to_state()
        meta, _ = encode(StoredPruning(isinstance(self.inner, DenseState), inner, self.cuts, self.step))
        return meta, arrays

    @classmethod
    def from_state(cls, meta: object, arrays: Mapping[str, NDArray[Any]], where: str) -> Self:
        stored = decode(StoredPruning, meta, where=where)
        kind = DenseState if stored.dense else SupportState
        inner = kind.from_state(stored.inner, arrays, f"{where} inner")
        return cls.checked(cls(inner, stored.cuts, stored.step), where)

    def copy(self) -> Self:
        return type(self)(self.inner.copy(), self.cuts, self.step)

    def check(self) -> None:
        if self.step != self.inner.step:
            raise InputError(f"it is at step {self.step}, its weights at {self.inner.step}")
        cuts = [(0, self.shape[1]), *self.cuts]
        if any(b[0] <= a[0] or not 0 < b[1] < a[1] for a, b in pairwise(cuts)):
            raise InputError(f"its cuts are {list(self.cuts)}; steps rise and entries fall")
        n_kept = [n_kept for step, n_kept in cuts if step <= self.step][-1]
        if isinstance(self.inner, SupportState):
            has = np.unique(np.diff(self.inner.entries.indptr)).tolist()
        else:
            has = [self.shape[1]]
        if has != [n_kept]:
            raise InputError(f"at step {self.step} it has not {n_kept} entries in each row")


class PrunedRun(Run):
    """A run validated in the last round only: the best of its weights are kept, never denser weights."""

    def _validate(self) -> float | None:  # type: ignore[override]  # None: not validated yet
        assert isinstance(self.state, PrunedState)
        return super()._validate() if self.state.is_pruned else None


@dataclass(eq=False, repr=False, kw_only=True)
class PrunedRanker(SgdRanker):
    """Every pair of words has a weight at first; each round then drops the smallest weights of each row.

    All of W is learned from the identity, with every preference once for each epoch. Each round sets the smallest
    weights of each row to zero for good, and the rest learns on from the same preferences, until ``n_kept`` are left in
    each row. A rate that falls with the steps falls over all rounds.

    Cost of a step: words of the query times words of the two documents until the first pruning, then times the weights
    left in a row. Memory: 4 bytes for each pair of words until the first pruning, then 8 bytes for each pair left.

    Parameters
    ----------
    n_kept : p, weights left in each row of W (Bai et al.: 10 to 1000)
    n_rounds : rounds of pruning; each leaves the same share of a row's weights
    max_memory : bytes W may take, its first pruning included; default half the machine's memory
    validate_every, patience : validation watches the last round only, with ``n_kept`` weights. Callbacks see every
        round; a callback that ends the training leaves W unchanged, pruned or not
    rate, schedule, margin, epochs, shuffle, random_state, verbose : see ``DenseRanker``

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> X = sparse.csr_array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.25, 0.5]])
    >>> ranker = PrunedRanker(n_kept=1, rate=2.0, n_rounds=1).fit(X, Preferences([0], [1], [2]))
    >>> print(ranker.weights_.sparse.toarray())
    [[0.  1.5 0. ]
     [0.  1.  0. ]
     [0.  0.  1. ]]
    >>> ranker.n_steps_
    2
    """

    n_kept: Count = 100
    n_rounds: Count = 5
    rate: Positive = 200.0
    schedule: Schedule = "inverse-sqrt"
    max_memory: Count | None = None

    _state_class = PrunedState
    _run_class = PrunedRun
    _removed_parameters: ClassVar[dict[str, Any]] = {"drop": None}

    def _train(
        self,
        state: State,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        source: Source,
        validation: Callable[[Weights], float] | None,
        callbacks: Sequence[Callback],
        rounds: int = 1,
    ) -> None:
        assert isinstance(state, PrunedState)
        if source.n_steps is None:
            raise ParameterError("PrunedRanker needs to know the number of steps, and this source has no end")
        a_round = source.n_steps * int(self.epochs)
        n_entries = self._entries_left(D.shape[1])
        state.cuts = tuple((a_round * k, n_kept) for k, n_kept in enumerate(n_entries, start=1))
        super()._train(state, Q, D, source, validation, callbacks, rounds=len(n_entries) + 1)

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None) -> Self:
        """Learn the weights of the support on, one step per preference, in their order.

        Two halves give the same bits as the whole.
        """
        if not hasattr(self, "_state"):
            raise ParameterError("partial_fit learns the weights that fit has left; call fit first")
        return super().partial_fit(Q, prefs, D)

    @property
    def density_(self) -> float:
        """Share of nonzero entries of W."""
        check_is_fitted(self)
        assert isinstance(self._state, PrunedState)
        n, m = self._state.shape
        return self._state.n_live / (n * m)

    def _entries_left(self, m: int) -> list[int]:
        """Return the entries left in a row of m after each round."""
        if self.n_kept >= m:
            return []
        share = [round(m * (self.n_kept / m) ** (k / self.n_rounds)) for k in range(1, self.n_rounds + 1)]
        return sorted({n_kept for n_kept in share if n_kept < m}, reverse=True)

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> PrunedState:
        n, m = Q.shape[1], D.shape[1]
        needed = 4 * n * m + _BYTES_OF_ENTRY * n * max(self._entries_left(m), default=0)
        allowed = self.max_memory if self.max_memory is not None else physical_memory() // 2
        if needed > allowed:
            raise MemoryLimitError(
                f"W is dense until it is pruned, and for {n:,} query and {m:,} document words its first pruning takes "
                f"{needed:,} bytes; {allowed:,} are allowed. Use fewer words, fewer rounds or SparseRanker"
            )
        return PrunedState(DenseState.start(n, by_document_frequency(D)))


def largest_of_rows(W: NDArray[np.float32] | sparse.csr_array, n_kept: int) -> sparse.csr_array:
    """Return the ``n_kept`` largest entries of each row by size, ties by column; of CSR, rows have one length."""
    values, columns = (W, None) if isinstance(W, np.ndarray) else (W.data.reshape(W.shape[0], -1), W.indices)
    n, width = values.shape
    kept_values, kept_columns = np.empty((n, n_kept), dtype=np.float32), np.empty((n, n_kept), dtype=np.int32)
    for rows in row_blocks(n, width, most_entries=_ENTRIES_AT_ONCE):
        sizes = np.abs(values[rows])
        sizes[np.isnan(sizes)] = np.inf  # the loss of the next step shows the divergence
        least = np.partition(sizes, width - n_kept, axis=1)[:, width - n_kept, None]
        largest = sizes >= least
        tied = np.flatnonzero(np.count_nonzero(largest, axis=1) > n_kept)
        ties = sizes[tied] == least[tied]
        n_larger = np.count_nonzero(sizes[tied] > least[tied], axis=1)
        largest[tied] &= ~ties | (np.cumsum(ties, axis=1, dtype=np.int32) <= (n_kept - n_larger)[:, None])
        at = np.nonzero(largest)[1].reshape(-1, n_kept)
        kept_values[rows] = np.take_along_axis(values[rows], at, axis=1)
        kept_columns[rows] = at if columns is None else np.take_along_axis(columns.reshape(n, -1)[rows], at, axis=1)
    return sparse.csr_array((kept_values.ravel(), kept_columns.ravel(), np.arange(n + 1) * n_kept), shape=W.shape)
