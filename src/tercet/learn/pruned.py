"""W learned whole, then pruned row by row and learned again, round after round (Bai et al. 2010, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, MemoryLimitError, ParameterError
from tercet.kernels.dense import dense_advance
from tercet.kernels.sparse import sparse_advance
from tercet.kernels.sparse_rows import BLOCK, FAST_COST
from tercet.learn.base import COUNT, SgdRanker
from tercet.learn.dense import DenseState
from tercet.learn.loop import Callback, Event, Run, Stopping
from tercet.learn.matrices import Problem, by_document_frequency
from tercet.learn.memory import physical_memory
from tercet.learn.progress import ProgressBar
from tercet.learn.sources import ArraySource, Source, as_source
from tercet.learn.sparse_rows import LINE_BYTES
from tercet.learn.sparse_state import SparseState
from tercet.learn.state import Chunk, State
from tercet.store import Fields
from tercet.weights import Sparse, Weights

_BYTES_TO_MOVE = 20  # an entry from W to the rows of a support: its value and its column, on the way twice and more
_ENTRIES_AT_ONCE = 1 << 20  # of W, looked at together when rows are pruned


class PrunedState(State):
    """All of W until the first pruning, then the entries of its support, as many in each row.

    cuts : (step, entries that stay in each row after it), in the order of their steps
    """

    kernels = (dense_advance, sparse_advance)

    def __init__(self, inner: DenseState | SparseState, cuts: Sequence[tuple[int, int]] = (), step: int = 0) -> None:
        self.inner = inner
        self.cuts = tuple(cuts)
        self.step = step
        self._texts: tuple[sparse.csr_array, sparse.csr_array] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def is_pruned(self) -> bool:
        """No pruning is still to come."""
        return not self.cuts or self.step >= self.cuts[-1][0]

    @property
    def n_live(self) -> int:
        """Weights that are not zero."""
        return self.inner.n_live if isinstance(self.inner, SparseState) else int(np.count_nonzero(self.inner.W))

    def problem(self, Q: sparse.csr_array, D: sparse.csr_array) -> Problem:
        self._texts = Q, D
        return self.inner.problem(Q, D)

    def run(self, problem: Problem, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        done, n = 0, len(chunk[0])
        if n == 0:
            self.inner.run(problem, chunk, tally)
            _compile_support_kernel(chunk)
        while done < n:
            stop = min([n, *(step - self.step for step, _ in self.cuts if step > self.step + done)])
            query, better, worse, step_size, rate, margin = chunk
            part = slice(done, stop)
            self.inner.run(
                problem, (query[part], better[part], worse[part], step_size[part], rate[part], margin[part]), tally
            )
            if not np.isfinite(tally).all():
                return  # diverged: the loop says so, and there is nothing to choose from
            done = stop
            self.inner.step = self.step + done
            kept = dict(self.cuts).get(self.inner.step)
            if kept is not None:
                self.prune(kept)

    def prune(self, kept: int) -> None:
        """Leave the ``kept`` largest entries of each row, by size; the others are zero from now on.

        Of equal ones, those of more frequent document words stay.
        """
        n, m = self.shape
        order, step = self.inner.order, self.inner.step
        if isinstance(self.inner, DenseState):
            values, columns = self.inner.W, np.broadcast_to(np.arange(m, dtype=np.int32), (n, m))
        else:
            support = self.inner.live()
            values, columns = support.data.reshape(n, -1), support.indices.reshape(n, -1)
            del support
        left, where = np.empty((n, kept), dtype=np.float32), np.empty((n, kept), dtype=np.int32)
        height = max(1, _ENTRIES_AT_ONCE // values.shape[1])
        for start in range(0, n, height):
            block = slice(start, start + height)
            stay = _largest(values[block], kept)
            left[block] = values[block][stay].reshape(-1, kept)
            where[block] = columns[block][stay].reshape(-1, kept)
        del self.inner, values, columns  # before the next state takes memory
        self.inner = _support_state(left, where, order, step)
        del left, where  # so that they go when the state has read them
        assert self._texts is not None
        self.inner.problem(*self._texts)  # for its scratch; the order of columns, and so the problem, stays the same

    def snapshot(self) -> Weights:
        found = self.inner.snapshot()
        if isinstance(self.inner, DenseState) and self.is_pruned:  # no row had more entries than may stay
            return Weights([Sparse(weights=found.sparse)])
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.inner.arrays()

    def meta(self) -> dict[str, Any]:
        return super().meta() | {
            "dense": isinstance(self.inner, DenseState),
            "inner": self.inner.meta(),
            "cuts": [list(cut) for cut in self.cuts],
        }

    def copy(self) -> Self:
        return type(self)(self.inner.copy(), self.cuts, self.step)

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        inner_fields = Fields(fields.take("inner", dict), f"{fields.where} inner")
        kind = DenseState if fields.take("dense", bool) else SparseState
        inner = kind.from_state(inner_fields, arrays)
        inner_fields.done()
        step = fields.take("step", int)
        if step < 0 or step != inner.step:
            raise DamagedBundleError(f"{fields.where}: a pruned state is at step {step}, its weights at {inner.step}")
        return cls(inner, _checked_cuts(fields.take("cuts", list), inner, arrays, fields.where), step)


class PrunedRun(Run):
    """A run whose validation watches the last round only: the best of its weights, no denser ones, are kept."""

    def _validate(self) -> float | None:  # type: ignore[override]  # None: not validated yet
        assert isinstance(self.state, PrunedState)
        return super()._validate() if self.state.is_pruned else None


class PrunedRanker(SgdRanker):
    """Every pair of words has a weight at first; then the smallest of each row are dropped, round after round.

    All of W is learned from the identity, with every preference once for each epoch. Then, in each round, the smallest
    weights of each row are set to zero for good, and the others learn on from the same preferences, until ``n_kept``
    are left in each row. A rate that falls with the steps goes on falling over all rounds.

    Cost of a step: words of the query times words of the two documents. Memory: 4 bytes for each pair of words until
    the first pruning, which takes 20 bytes more for each pair that stays; then about 40 bytes for each pair that is
    left, for speed, but no more than before. ``fit`` says how much it will take where it shows progress.

    Parameters
    ----------
    n_kept : p, weights left in each row of W (Bai et al.: 10 to 1000)
    n_rounds : rounds of pruning; each leaves the same share of a row's weights
    drop : int, optional
        k, weights to drop from each row in a round (Bai et al.), as many rounds as it takes, instead of ``n_rounds``.
    max_memory : bytes W may take, its first pruning included; default half the machine's memory
    validate_every, patience : validation watches the last round only, where ``n_kept`` weights are left
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

    _state_class = PrunedState
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SgdRanker._parameter_constraints,
        "n_kept": [COUNT],
        "n_rounds": [COUNT],
        "drop": [COUNT, None],
        "max_memory": [COUNT, None],
    }

    def __init__(
        self,
        *,
        n_kept: int = 100,
        n_rounds: int = 5,
        drop: int | None = None,
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
        self.n_kept = n_kept
        self.n_rounds = n_rounds
        self.drop = drop
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

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn all of W, then prune it and learn on, round after round; see ``DenseRanker.fit``.

        Callbacks are told of every round, validation watches the last. A callback that ends the training leaves W as
        it is then, pruned or not.
        """
        self._check_params()
        self._forget()
        queries, docs = self._check_pair(Q, D)
        source = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state)
        if isinstance(source, ArraySource):
            source.prefs.check_rows(queries.shape[0], docs.shape[0])
        if source.n_steps is None:
            raise ParameterError("PrunedRanker needs to know the number of steps, and this source has no end")
        a_round = source.n_steps * self.epochs
        state = self._start(queries, docs)
        dense, needed = self._bytes_needed(*state.shape)
        ProgressBar(type(self).__name__, None, 0, self.verbose).say(
            f"W takes {dense / 1e9:,.2f} GB until it is pruned, and {needed / 1e9:,.2f} GB while it is pruned first"
        )
        state.cuts = tuple((a_round * k, kept) for k, kept in enumerate(self._entries_left(docs.shape[1]), start=1))
        run = PrunedRun(
            state,
            source,
            queries,
            docs,
            self._sgd(),
            total=a_round * (len(state.cuts) + 1),
            validation=validation,
            stopping=Stopping(
                every=self.validate_every or max(1, source.n_steps // (10 if self.epochs == 1 else 1)),
                patience=self.patience,
            ),
        )
        self.history_: list[Event] = []
        self._keep(run.go([self.history_.append, *callbacks], type(self).__name__, self.verbose), queries, docs)
        return self

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None) -> Self:
        """Learn the weights of the support on, one step per preference, in their order.

        Two halves give the same bits as the whole.
        """
        if not hasattr(self, "_state"):
            raise ParameterError("partial_fit learns the weights that fit has left; call fit first")
        return super().partial_fit(Q, prefs, D)

    @property
    def density_(self) -> float:
        """Share of the entries of W that are not zero."""
        check_is_fitted(self)
        assert isinstance(self._state, PrunedState)
        n, m = self._state.shape
        return self._state.n_live / (n * m)

    def _entries_left(self, m: int) -> list[int]:
        """Entries of a row of m that stay, after each round."""
        if self.n_kept >= m:
            return []
        if self.drop is not None:
            return [*range(m - self.drop, self.n_kept, -self.drop), self.n_kept]
        share = [round(m * (self.n_kept / m) ** (k / self.n_rounds)) for k in range(1, self.n_rounds + 1)]
        return sorted({kept for kept in share if kept < m}, reverse=True)

    def _bytes_needed(self, n: int, m: int) -> tuple[int, int]:
        """What W takes at first, and the most that it takes: when the entries that stay move to rows of their own."""
        copied = _BYTES_TO_MOVE * n * max(self._entries_left(m), default=0)
        return 4 * n * m, 4 * n * m + copied

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> PrunedState:
        dense, needed = self._bytes_needed(Q.shape[1], D.shape[1])
        allowed = self.max_memory if self.max_memory is not None else physical_memory() // 2
        if needed > allowed:
            raise MemoryLimitError(
                f"W is dense until it is pruned, and for {Q.shape[1]:,} query and {D.shape[1]:,} document words takes "
                f"{dense:,} bytes, {needed:,} while it is pruned first; {allowed:,} are allowed. Use fewer words, or "
                "SparseRanker"
            )
        return PrunedState(DenseState.start(Q.shape[1], by_document_frequency(D)))


def _largest(values: NDArray[np.float32], kept: int) -> NDArray[np.bool_]:
    """Which entries of each row are its ``kept`` largest by size; of equal ones the first."""
    size = np.abs(values)
    edge = size.shape[1] - kept
    smallest = np.partition(size, edge, axis=1)[:, edge, None]
    stay = size > smallest
    tied = size == smallest
    stay |= tied & (np.cumsum(tied, axis=1, dtype=np.int32) <= kept - stay.sum(axis=1, keepdims=True))
    return stay


def _support_state(
    values: NDArray[np.float32], columns: NDArray[np.int32], order: NDArray[np.int32], step: int = 0
) -> SparseState:
    """A state that learns these entries of each row, zeros among them too, and no others."""
    (n, kept), m = values.shape, order.size
    # The most that a row can take: a table for all entries, or a level for each column.
    row_bytes = min(FAST_COST * kept + LINE_BYTES, 4 * BLOCK * -(-m // BLOCK))
    return SparseState(
        sparse.csr_array((values.ravel(), columns.ravel(), np.arange(n + 1) * kept), shape=(n, m)),
        order,
        max_memory=n * row_bytes,
        l1=0.0,
        shrink_every=1,
        frozen=True,
        step=step,
    )


def _compile_support_kernel(chunk: Chunk) -> None:
    """Run the kernel of the later rounds on nothing, so that it is compiled when the user is told of it."""
    one = np.ones((1, 1), dtype=np.float32)
    state = _support_state(one, np.zeros((1, 1), dtype=np.int32), np.zeros(1, dtype=np.int32))
    state.run(state.problem(*2 * (sparse.csr_array(one),)), chunk, np.zeros(2))


def _checked_cuts(
    cuts: list[Any], inner: DenseState | SparseState, arrays: dict[str, NDArray[Any]], where: str
) -> list[tuple[int, int]]:
    """The saved cuts, when they fit together and with the entries that there are."""
    m = inner.shape[1]
    found = [(0, m), *(tuple(cut) if isinstance(cut, list) else () for cut in cuts)]
    whole = all(len(cut) == 2 and all(type(number) is int for number in cut) for cut in found)
    if not whole or any(b[0] <= a[0] or not 0 < b[1] < a[1] for a, b in pairwise(found)):
        raise DamagedBundleError(f"{where}: the cuts of a pruned state are {cuts}; steps rise and entries fall")
    kept = [kept for step, kept in found if step <= inner.step][-1]
    if isinstance(inner, SparseState):
        fits = inner.frozen and bool((np.diff(arrays["indptr"]) == kept).all())
    else:
        fits = kept == m
    if not fits:
        raise DamagedBundleError(f"{where}: a pruned state at step {inner.step} has not {kept} entries in each row")
    return [(step, left) for step, left in found[1:]]
