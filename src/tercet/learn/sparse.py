"""Sparse SGD with L1 on W, then a refit on its support (Chen et al. 2010, Algorithm 1 and equation 8).

``SparseState`` holds W while it learns, and ``kernels/sparse.py`` has the lines of Algorithm 1. A low-rank W can find
the support, too. ``SupportState`` learns the entries of a support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, InputError, MemoryLimitError, ParameterError
from tercet.kernels.rows import Chunk
from tercet.kernels.sparse import sparse_advance
from tercet.learn.base import Count, NotNegative, Positive, SavedRanker, SgdRanker, TermPairRanker
from tercet.learn.loop import Callback, Checkpoint, LocalExecutor, Run, Stopping, current_executor
from tercet.learn.lowrank import LowRankRanker
from tercet.learn.matrices import KernelInput, by_document_frequency, reorder_columns
from tercet.learn.sources import Source, as_source
from tercet.learn.state import Schedule, Sgd, State, Steps, check_order, physical_memory
from tercet.learn.support import SupportState
from tercet.learn.thin import largest_entries
from tercet.store.codec import encode
from tercet.store.schema import Bounds, Csr, Shape
from tercet.weights import Sparse, Weights
from tercet.weights.base import row_blocks

DENSITY_TOLERANCE = 0.1
MOST_SEARCH_FITS = 16
REBASE_EVERY = 2048  # steps between two checks of the shrinkage handed out
LARGEST_CUM = 1.0  # larger shrinkage is subtracted from the levels, so that levels keep their last digits
# Removed fields of older files: of a W around a fixed identity, and of a W thinned while learning.
_OLDER_FIELDS = ("around_identity", "frozen", "thin_to", "thin_over")


@dataclass(eq=False)
class SparseState(State):
    """W as levels, see ``kernels/sparse.py``; columns from the most to the least frequent word.

    levels : levels of the entries with a weight, while nothing learns
    l1, shrink_every : λ and T
    max_memory : bytes that W may take while learning, half the machine's memory by default
    cum, pending : the shrinkage λ Σ η handed out so far, and the rates Σ η since
    """

    order: Annotated[NDArray[np.int32], Shape("n_doc_terms")]
    levels: Annotated[sparse.csr_array, Csr("n_query_terms", "n_doc_terms", names=("levels", "columns", "indptr"))]
    l1: float
    shrink_every: Annotated[int, Bounds(least=1)]
    max_memory: Annotated[int | None, Bounds(least=0)] = None
    cum: float = 0.0
    pending: float = 0.0
    step: Steps = 0

    def __post_init__(self) -> None:
        self._dense: NDArray[np.float32] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.levels.shape
        return n, m

    @property
    def allowed(self) -> int:
        """Bytes that W may take while learning."""
        return physical_memory() // 2 if self.max_memory is None else self.max_memory

    @property
    def dense(self) -> NDArray[np.float32]:
        """Levels of all pairs (n_query_terms, n_doc_terms), made for learning.

        Pages of the array take memory once they are written to.
        """
        if self._dense is None:
            n, m = self.shape
            if 4 * n * m > self.allowed:
                raise MemoryLimitError(
                    f"a W of {n:,} query and {m:,} document words takes {4 * n * m:,} bytes while it learns; "
                    f"max_memory is {self.allowed:,}. Use fewer words, or sparsify='low-rank' with a density"
                )
            self._dense = np.zeros((n, m), dtype=np.float32)
            rows = np.repeat(np.arange(n), np.diff(self.levels.indptr))
            self._dense[rows, self.levels.indices] = self.levels.data
        return self._dense

    def live(self) -> sparse.csr_array:
        """Return the levels of the entries with a weight."""
        if self._dense is None:
            return self.levels.copy()
        counts = [np.zeros(1, dtype=np.int64)]
        columns, levels = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.float32)]
        for block in self._blocks(self._dense):
            live = np.abs(block) > np.float32(self.cum)
            counts.append(np.count_nonzero(live, axis=1))
            columns.append(np.nonzero(live)[1].astype(np.int32))
            levels.append(block[live])
        indptr = np.cumsum(np.concatenate(counts))
        return sparse.csr_array((np.concatenate(levels), np.concatenate(columns), indptr), shape=self.shape)

    def _blocks(self, dense: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        return (dense[rows] for rows in row_blocks(*self.shape))

    def settled(self) -> Self:
        """Return a copy that holds entries with a weight alone."""
        return replace(self, levels=self.live())

    def set_levels(self, levels: sparse.csr_array, cum: float, pending: float) -> None:
        """Take these levels, with so much shrinkage handed out."""
        self.levels, self._dense = levels, None
        self.cum, self.pending = cum, pending

    @property
    def n_live(self) -> int:
        """Number of weights other than zero."""
        if self._dense is None:
            return int(np.count_nonzero(np.abs(self.levels.data) > np.float32(self.cum)))
        return sum(int(np.count_nonzero(np.abs(block) > np.float32(self.cum))) for block in self._blocks(self._dense))

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return KernelInput.from_matrices(Q, reorder_columns(D, self.order))

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        start, n = 0, len(chunk.query)
        while True:
            step = self.step + start
            # Rebasing happens at fixed steps, so that stopping anywhere gives the same bits.
            stop = min(n, start + REBASE_EVERY - step % REBASE_EVERY)
            shrinkage = np.array([self.cum, self.pending, self.l1, self.shrink_every], dtype=np.float64)
            part = chunk.part(start, stop)
            sparse_advance(self.dense, inputs.Q, inputs.D, part, shrinkage, step, inputs.scratch, tally)
            self.cum, self.pending = shrinkage[:2].tolist()
            if stop > start and (self.step + stop) % REBASE_EVERY == 0 and self.cum > LARGEST_CUM:
                self._rebase()
            start = stop
            if start == n:
                return

    def _rebase(self) -> None:
        """Take the owed shrinkage from all levels; no weight changes."""
        cum = np.float32(self.cum)
        for block in self._blocks(self.dense):
            block[:] = np.maximum(block - cum, 0) + np.minimum(block + cum, 0)
        self.cum = 0.0

    def entries(self) -> sparse.csr_array:
        """Return the current weights, columns in the order of the state."""
        live, cum = self.live(), np.float32(self.cum)
        live.data = np.where(live.data > 0, live.data - cum, live.data + cum)
        return live

    def snapshot(self) -> Weights:
        W = self.entries()
        weights = sparse.csr_array((W.data, self.order[W.indices], W.indptr), shape=self.shape)
        weights.eliminate_zeros()
        return Weights([Sparse(weights=weights)])

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return encode(self.settled())

    @classmethod
    def from_state(cls, meta: object, arrays: Mapping[str, NDArray[Any]], where: str) -> Self:
        """Restore a state. W around a fixed identity, of an older file, becomes the sum of both."""
        older = {} if not isinstance(meta, dict) else {name: meta[name] for name in _OLDER_FIELDS if name in meta}
        if isinstance(meta, dict):
            meta = {name: value for name, value in meta.items() if name not in older}
        state = super().from_state(meta, arrays, where)
        if older.get("around_identity"):
            both = state.entries() + _identity_in(state.order, state.shape[0])
            state.set_levels(sparse.csr_array(both, dtype=np.float32), 0.0, state.pending)
        return state

    def copy(self) -> Self:
        return self.settled()

    def check(self) -> None:
        check_order(self.order)
        if not self.shape[0]:
            raise InputError("W has no row")


@dataclass(eq=False, repr=False, kw_only=True)
class SparseRanker(SgdRanker):
    """Every pair of words may have a weight, and L1 keeps most at exactly zero, while it trains and after.

    W starts at the identity, which shrinks like every other entry. After every ``shrink_every`` steps the L1 penalty of
    these steps is taken at once (Algorithm 1). Entries owe the penalty until their next reading, with the same weights
    as a sweep over all of W. With ``refit`` the entries left are then learned again without penalty, on the same
    preferences in the same order.

    Cost of a step: words of the query times words of the two documents. Memory: 4 bytes for each pair of words.

    Parameters
    ----------
    l1 : λ, strength of the penalty
    density : float, optional
        Share of nonzero entries to reach instead of a given ``l1``: fits with another l1 are repeated until the share
        is met within a tenth. ``l1_`` is the strength found, ``n_fits_`` the number of fits. A W sparser than
        ``density`` without any penalty is taken; ``density_`` is the share reached.
    sparsify : {"shrink", "low-rank"}
        Way to a sparse W. "low-rank" needs a ``density`` and learns ``low_rank`` first. The largest entries of its W,
        found block by block, are the support. With ``refit`` these entries learn on by the same step, on the same
        preferences; ``rate``, ``schedule``, ``l1`` and ``refit_start`` are ignored. Memory: the factors, then 8 bytes
        for each entry. The best models we know, and the fastest to learn.
    low_rank : LowRankRanker, optional
        Finds the support with ``sparsify="low-rank"``; default ``LowRankRanker(schedule="linear")``.
    refit_rate : of the refit with ``sparsify="low-rank"``; falls linearly to zero
    shrink_every : T, steps between shrinkages
    refit : after shrinking, learn the entries left (Ω) again, without penalty (equation 8), as ``refit_on_support``
    refit_start : {"sparse", "identity"}
        Start of the refit: the sparse solution, or the identity on the support. Chen et al. name none; the gains they
        report appear with the sparse solution.
    max_memory : bytes that W may take while training; default half the machine's memory
    rate : C of the rate ``η_t = C / √t``
    schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> X = sparse.csr_array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> ranker = SparseRanker(rate=2.0, l1=0.01, shrink_every=1, refit=False).fit(X, Preferences([0], [1], [2]))
    >>> print(ranker.weights_.sparse.toarray().round(2))
    [[-0.98  1.98]
     [ 0.    0.98]]
    """

    rate: Positive = 200.0
    schedule: Schedule = "inverse-sqrt"
    l1: NotNegative = 5e-6
    density: Annotated[float, Interval(Real, 0, 1, closed="neither")] | None = None
    sparsify: Literal["shrink", "low-rank"] = "shrink"
    low_rank: LowRankRanker | None = None
    shrink_every: Count = 100
    refit: bool = True
    refit_start: Literal["sparse", "identity"] = "sparse"
    refit_rate: Positive = 2.0
    max_memory: Count | None = None

    _state_class = SparseState
    _added_parameters: ClassVar[dict[str, Any]] = {"low_rank": None, "refit_rate": 2.0}
    _removed_parameters: ClassVar[dict[str, Any]] = {"shrink_towards": "zero"}

    @property
    def unit(self) -> float:
        """Weight of the identity at the start of the low-rank ranker, if used; else 1."""
        return self.low_rank.unit if self.sparsify == "low-rank" and self.low_rank is not None else 1.0

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from the start, and refit if asked; see ``DenseRanker.fit``.

        Validation and callbacks watch the sparse phase, before the refit. With ``sparsify="low-rank"`` callbacks watch
        both phases in turn, and validation the refit.
        """
        self._check_params()
        self.__dict__.pop("weights_before_refit_", None)
        self.l1_, self.n_fits_ = float(self.l1), 0
        if self.sparsify == "low-rank":
            self._fit_low_rank(Q, prefs, D, validation, callbacks)
            return self
        if self.density is None:
            self._fit_once(Q, prefs, D, validation, callbacks)
        elif any(isinstance(callback, Checkpoint) for callback in callbacks):
            raise ParameterError("a search for a density makes several runs, which one checkpoint cannot hold; give l1")
        else:
            self._search_density(lambda: self._fit_once(Q, prefs, D, validation, callbacks))
        if self.refit:
            self._refit(Q, prefs, D, callbacks, n_steps=self.n_steps_)
        return self

    def _fit_once(self, Q: Any, prefs: Any, D: Any, validation: Any, callbacks: Any) -> None:
        """One run of Algorithm 1."""
        super().fit(Q, prefs, D, validation, callbacks)
        self.n_fits_ += 1

    def _fit_low_rank(self, Q: Any, prefs: Any, D: Any, validation: Any, callbacks: Any) -> None:
        if self.density is None:
            raise ParameterError("sparsify='low-rank' needs a density")
        if any(isinstance(callback, Checkpoint) for callback in callbacks):
            raise ParameterError("sparsify='low-rank' makes two runs, which one checkpoint cannot hold")
        self._forget()
        first = LowRankRanker(schedule="linear", random_state=self.random_state, verbose=self.verbose)
        first = first if self.low_rank is None else clone(self.low_rank)
        first.fit(Q, prefs, D, callbacks=callbacks)
        self.l1_, self.n_fits_, self.history_ = 0.0, 1, first.history_
        _, docs = self._check_pair(Q, D)
        support = largest_entries(first.weights_, float(self.density))
        self._set_weights(support, by_document_frequency(docs), first.n_steps_)
        if self.refit:
            sgd = Sgd(rate=float(self.refit_rate), schedule="linear", margin=float(self.margin))
            self._refit(Q, prefs, D, callbacks, sgd=sgd, validation=validation)

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None) -> Self:
        self._check_params()
        if not hasattr(self, "l1_"):
            if self.density is not None or self.sparsify != "shrink":
                raise ParameterError("partial_fit cannot reach a density; give l1, or call fit first")
            self.l1_ = float(self.l1)
        if self.density is None:
            self.l1_ = float(self.l1)  # `set_params` may have changed l1
        if hasattr(self, "_state"):
            state = self._sparse_state
            state.l1, state.shrink_every = self.l1_, int(self.shrink_every)
        return super().partial_fit(Q, prefs, D)

    @property
    def _sparse_state(self) -> SparseState:
        assert isinstance(self._state, SparseState)
        return self._state

    @property
    def density_(self) -> float:
        """Share of nonzero entries of W."""
        check_is_fitted(self)
        n, m = self._state.shape
        return self._sparse_state.n_live / (n * m)

    def _search_density(self, fit_once: Callable[[], None]) -> None:
        """Search for l1 on a log scale: outwards until the density is bracketed, then by interpolation."""
        assert self.density is not None
        denser: tuple[float, float] | None = None  # l1 that was too small, and its density
        sparser: tuple[float, float] | None = None
        self.l1_ = float(self.l1) or 1e-6
        for _ in range(MOST_SEARCH_FITS):
            fit_once()
            tried, reached = self.l1_, self.density_
            if abs(reached - self.density) <= DENSITY_TOLERANCE * self.density:
                return
            if reached > self.density:
                denser = tried, reached
            elif tried == 0:
                return  # without any penalty W is sparser than that
            else:
                sparser = tried, reached
            self.l1_ = _next_l1(tried, denser, sparser, self.density)
            if denser is None and self.l1_ < float(self.l1) / 100:
                self.l1_ = 0.0
        raise InputError(
            f"no l1 gave a density of {self.density:g} within a tenth in {MOST_SEARCH_FITS} fits; the last, "
            f"{tried:g}, gave {reached:g}. With few steps the density jumps; give l1 instead"
        )

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> SparseState:
        order = by_document_frequency(D)
        return self._state_of(_identity_in(order, Q.shape[1]), order, 0)

    def _state_of(self, levels: sparse.csr_array, order: NDArray[np.int32], step: int) -> SparseState:
        return SparseState(order, levels, self.l1_, int(self.shrink_every), self.max_memory, step=step)

    def refit_on_support(
        self, Q: Any, prefs: Preferences | Source, D: Any = None, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """Learn the entries of W that are not zero, the paper's Ω, again without penalty (equation 8).

        Callbacks see the steps of the refit and end the refit by returning True; a ``Checkpoint`` is ignored.
        """
        check_is_fitted(self)
        self._refit(Q, prefs, D, callbacks)
        return self

    def _refit(
        self,
        Q: Any,
        prefs: Any,
        D: Any,
        callbacks: Sequence[Callback],
        *,
        sgd: Sgd | None = None,
        n_steps: int | None = None,
        validation: Callable[[Weights], float] | None = None,
    ) -> None:
        queries, docs = self._check_pair(Q, D)
        source = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state)
        if n_steps is None:
            if source.n_steps is None:
                raise ParameterError("a refit needs preferences that come to an end")
            n_steps = source.n_steps * int(self.epochs)
        self.weights_before_refit_: Weights = self.weights_
        executor, before = current_executor(), self._sparse_state
        self._state = before = before.settled()
        support = self._support_of(before, "sparse" if sgd is not None else self.refit_start)
        if sgd is not None:
            support.max_array = 0  # as the memory of low rank is promised
        run = Run(
            support,
            source,
            queries,
            docs,
            sgd or self._sgd(),
            total=n_steps,
            validation=validation,
            stopping=Stopping(every=self.validate_every or max(1, n_steps // 10), patience=self.patience),
            # A cluster would have to mix weights on their support.
            executor=LocalExecutor() if executor.in_rounds else executor,
        )
        history: list[Callback] = [self.history_.append] if hasattr(self, "history_") else []
        listeners = [callback for callback in callbacks if not isinstance(callback, Checkpoint)]
        learned = run.go([*history, *listeners], "refit", self.verbose)
        assert isinstance(learned, SupportState)
        self._set_weights(learned.weights(), before.order, before.step)

    def _support_of(self, before: SparseState, start: str) -> SupportState:
        """Return the start of a refit: the entries with a weight."""
        entries = before.entries()
        if start == "identity":
            rows = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
            has_identity = entries.shape[0] == entries.shape[1]
            entries.data = ((before.order[entries.indices] == rows) & has_identity).astype(np.float32)
        state = SupportState(before.order, entries)
        state.max_array = before.allowed
        return state

    def _set_weights(self, weights: sparse.csr_array, order: NDArray[np.int32], step: int) -> None:
        """Make these weights the ranker's, ready to learn on."""
        self._forget()
        self._state = self._state_of(reorder_columns(weights, order), order, step)
        self.n_features_in_, self.n_doc_features_ = weights.shape
        self.n_steps_ = step

    @classmethod
    def from_weights(cls, weights: sparse.csr_array, **params: Any) -> Self:
        """A fitted ranker with these weights."""
        ranker = cls(**params)
        ranker._check_params()
        ranker.l1_ = float(ranker.l1)
        weights = check_matrix(weights, "weights").copy()
        weights.eliminate_zeros()
        ranker._set_weights(weights, by_document_frequency(weights), 0)
        return ranker

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if self.low_rank is not None:
            params["low_rank"] = self.low_rank._saved_params()
        return params

    @classmethod
    def _current_params(cls, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of an older file; a W thinned while learning is one to shrink."""
        params = {name: value for name, value in params.items() if name != "shrink_towards"}
        return params | ({"sparsify": "shrink", "density": None} if params.get("sparsify") == "thin" else {})

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        if isinstance(params["low_rank"], dict):
            stated = {**LowRankRanker._added_parameters, **LowRankRanker._current_params(params["low_rank"])}
            if set(stated) != set(LowRankRanker._get_param_names()):
                raise DamagedBundleError(f"{saved.where}: the parameters of its low_rank do not fit a LowRankRanker")
            params = {**params, "low_rank": LowRankRanker._with_params(stated, saved.where)}
        ranker = super()._from_bundle(params, saved)
        ranker.l1_ = ranker._sparse_state.l1
        return ranker


TermPairRanker._thinned_class = SparseRanker.from_weights


def _identity_in(order: NDArray[np.int32], n_rows: int) -> sparse.csr_array:
    """The identity with its columns in that order; nothing when the two sides have vocabularies of their own."""
    if n_rows != order.size:
        return sparse.csr_array((n_rows, order.size), dtype=np.float32)
    position = np.empty(order.size, dtype=np.int32)
    position[order] = np.arange(order.size, dtype=np.int32)
    return sparse.csr_array((np.ones(n_rows, np.float32), position, np.arange(n_rows + 1)), shape=(n_rows, n_rows))


def _next_l1(
    l1: float, denser: tuple[float, float] | None, sparser: tuple[float, float] | None, density: float
) -> float:
    """Return the l1 of the density on a line of log(density) against log(l1), away from the ends of the bracket."""
    if denser is None or sparser is None:
        return l1 * (4.0 if sparser is None else 0.25)
    low, high = np.log(denser[0]), np.log(sparser[0])
    nearest_zero = 1e-12  # all weights may be zero
    a, b = np.log(denser[1]), np.log(max(sparser[1], nearest_zero))
    share = np.clip((a - np.log(density)) / (a - b), 0.1, 0.9)
    return float(np.exp(low + share * (high - low)))
