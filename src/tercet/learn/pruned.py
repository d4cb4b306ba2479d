"""W learned whole, then pruned row by row and learned again, round after round (Bai et al. 2010, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tercet.data.preferences import Preferences
from tercet.errors import InputError, MemoryLimitError, ParameterError
from tercet.kernels.rows import Chunk
from tercet.kernels.support import N_DIGITS, largest_of_rows, support_advance
from tercet.learn.base import Count, Positive, SgdRanker
from tercet.learn.dense import DenseState
from tercet.learn.loop import Callback, Run
from tercet.learn.matrices import KernelInput, by_document_frequency, reorder_columns
from tercet.learn.progress import ProgressBar
from tercet.learn.sources import Source
from tercet.learn.state import Schedule, State, Steps, check_order, physical_memory
from tercet.store.codec import decode, encode
from tercet.store.fields import csr_problem
from tercet.store.schema import Shape
from tercet.weights import Sparse, Weights

_ENTRIES_AT_ONCE = 1 << 20  # of W, looked at together when rows are pruned
_BYTES_OF_ENTRY = 8  # a value and its column
_ALL_COLUMNS = np.empty((0, 0), dtype=np.int32)  # of a W without columns of its own


@dataclass(eq=False)
class SupportState(State):
    """A W with the same number of entries in every row; all other entries stay zero.

    columns : the column of each entry in W, rising in every row
    order : the columns of W from the most to the least frequent word, as in ``DenseState``
    """

    values: Annotated[NDArray[np.float32], Shape("n_query_terms", "n_kept")]
    columns: Annotated[NDArray[np.int32], Shape("n_query_terms", "n_kept")]
    order: Annotated[NDArray[np.int32], Shape("n_doc_terms")]
    step: Steps = 0

    def __post_init__(self) -> None:
        self._delta = np.zeros(self.order.size, dtype=np.float32)
        self._indptr = np.arange(self.values.shape[0] + 1, dtype=np.int64) * self.values.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.order.size

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return KernelInput.from_matrices(Q, reorder_columns(D, self.order))

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        values, columns = self.values.reshape(1, -1), self.columns.reshape(1, -1).view(np.uint32)
        support_advance(values, columns, self._indptr, self._delta, inputs.Q, inputs.D, chunk, inputs.scratch, tally)

    def snapshot(self) -> Weights:
        n, kept = self.values.shape
        weights = sparse.csr_array(
            (self.values.flatten(), self.order[self.columns.ravel()], np.arange(n + 1) * kept), shape=self.shape
        )
        weights.eliminate_zeros()
        return Weights([Sparse(weights=weights)])

    def check(self) -> None:
        check_order(self.order)
        n, kept = self.columns.shape
        problem = csr_problem(np.arange(n + 1) * kept, self.columns.ravel(), self.order.size, ascending=True)
        if not self.columns.size or problem is not None:
            raise InputError(f"its support {problem or 'is empty'}")


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
        self.order = inner.order
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
    def row_length(self) -> int:
        """Number of entries of each row with a possible weight."""
        return self.inner.values.shape[1] if isinstance(self.inner, SupportState) else self.shape[1]

    @property
    def n_live(self) -> int:
        """Number of weights other than zero."""
        return int(np.count_nonzero(self.inner.W if isinstance(self.inner, DenseState) else self.inner.values))

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return self.inner.kernel_input(Q, D)  # the same before and after a pruning: the order of columns stays

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        done, n = 0, len(chunk.query)
        if n == 0:  # to compile, while the user is told of it: the kernels of the later rounds, too
            self.inner.run(inputs, chunk, tally)
            one = _take_largest(np.zeros((1, 1), dtype=np.float32), _ALL_COLUMNS, 1)
            SupportState(*one, self.order).run(inputs, chunk, tally)
        while done < n:
            stop = min([n, *(step - self.step for step, _ in self.cuts if step > self.step + done)])
            self.inner.run(inputs, chunk.part(done, stop), tally)
            if not np.isfinite(tally).all():
                return  # diverged: the loop says so, and there is nothing to choose from
            done = stop
            self.inner.step = self.step + done
            kept = dict(self.cuts).get(self.inner.step)
            if kept is not None:
                self.prune(kept)

    def prune(self, kept: int) -> None:
        """Keep the ``kept`` largest entries of each row, by size; the rest stays zero.

        Among equal entries, more frequent document words stay. The memory of W is released on the way.
        """
        assert 0 < kept <= self.row_length
        if isinstance(self.inner, DenseState):
            left, where = _take_largest(self.inner.W, _ALL_COLUMNS, kept)
        else:
            left, where = _take_largest(self.inner.values, self.inner.columns, kept)
        self.inner = SupportState(left, where, self.order, self.inner.step)

    def snapshot(self) -> Weights:
        weights = self.inner.snapshot()
        if isinstance(self.inner, DenseState) and self.is_pruned:  # no row had more entries than may stay
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
        check_cuts(self)


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
    ``fit`` prints both with its progress.

    Parameters
    ----------
    n_kept : p, weights left in each row of W (Bai et al.: 10 to 1000)
    n_rounds : rounds of pruning; each leaves the same share of a row's weights
    max_memory : bytes W may take, before and after its first pruning; default half the machine's memory
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
        dense, left = self._bytes_needed(*state.shape)
        before = f"W takes {dense / 1e9:,.2f} GB"
        ProgressBar(type(self).__name__, None, 0, self.verbose).say(
            before + (f" until it is pruned, then {left / 1e9:,.2f} GB" if left else "")
        )
        state.cuts = tuple((a_round * k, kept) for k, kept in enumerate(self._entries_left(D.shape[1]), start=1))
        super()._train(state, Q, D, source, validation, callbacks, rounds=len(state.cuts) + 1)

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
        return sorted({kept for kept in share if kept < m}, reverse=True)

    def _bytes_needed(self, n: int, m: int) -> tuple[int, int]:
        """Return the bytes of W until its first pruning, and after; 0 without a pruning."""
        return 4 * n * m, _BYTES_OF_ENTRY * n * max(self._entries_left(m), default=0)

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> PrunedState:
        dense, left = self._bytes_needed(Q.shape[1], D.shape[1])
        allowed = self.max_memory if self.max_memory is not None else physical_memory() // 2
        if max(dense, left) > allowed:
            raise MemoryLimitError(
                f"W is dense until it is pruned, and for {Q.shape[1]:,} query and {D.shape[1]:,} document words takes "
                f"{dense:,} bytes, then {left:,} after its first pruning; {allowed:,} are allowed. Use fewer words"
                f"{', fewer rounds' if left > dense else ''} or SparseRanker"
            )
        return PrunedState(DenseState.start(Q.shape[1], by_document_frequency(D)))


def _take_largest(
    values: NDArray[np.float32], columns: NDArray[np.int32], kept: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the ``kept`` largest entries of each row and their columns; consume the given arrays.

    The given arrays shrink from their end while the new arrays fill: together they take no more than the larger.
    """
    n, width = values.shape
    left, where = np.empty((n, kept), dtype=np.float32), np.empty((n, kept), dtype=np.int32)
    counts = np.empty(N_DIGITS, dtype=np.int32)
    height = max(1, _ENTRIES_AT_ONCE // width)
    for start in reversed(range(0, n, height)):
        here = slice(start, start + height)
        largest_of_rows(values[here].view(np.int32), columns[here], left[here].view(np.int32), where[here], counts)
        for old in (values, columns) if columns.size else (values,):
            old.resize((start, width), refcheck=False)  # the state that holds it is the only other one, and ends here
    return left, where


def check_cuts(state: PrunedState) -> None:
    """Refuse inconsistent cuts, or cuts that do not fit the entries."""
    cuts = [(0, state.shape[1]), *state.cuts]
    if any(b[0] <= a[0] or not 0 < b[1] < a[1] for a, b in pairwise(cuts)):
        raise InputError(f"its cuts are {list(state.cuts)}; steps rise and entries fall")
    kept = [kept for step, kept in cuts if step <= state.step][-1]
    if state.row_length != kept:
        raise InputError(f"at step {state.step} it has not {kept} entries in each row")
