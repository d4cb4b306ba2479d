"""Sparse SGD with L1 on W, then a refit on its support (Chen et al. 2010, Algorithm 1 and equation 8).

``SparseState`` holds W while it learns, and ``kernels/sparse.py`` has the steps. A low-rank W can also find the
support: ``OnSupportState`` then learns its largest entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from tercet.kernels.sparse import CUM, PENDING, SHRINK_EVERY, sparse_advance
from tercet.kernels.support import support_advance
from tercet.learn.base import Count, NotNegative, Positive, SavedRanker, SgdRanker, TermPairRanker
from tercet.learn.loop import Callback, Checkpoint, LocalExecutor, Run, Stopping, current_executor
from tercet.learn.lowrank import LowRankRanker
from tercet.learn.matrices import KernelInput, by_document_frequency, reorder_columns
from tercet.learn.sources import Source, as_source
from tercet.learn.state import Schedule, Sgd, State, Steps, check_order, physical_memory
from tercet.learn.thin import N_SIZES, edge_bin, largest_entries, least_of_bin, size_bins
from tercet.store.codec import decode, encode
from tercet.store.schema import Bounds, Csr, Shape
from tercet.weights import Identity, Sparse, Weights
from tercet.weights.base import row_blocks

DENSITY_TOLERANCE = 0.1
MOST_SEARCH_FITS = 16


# -- while it trains -------------------------------------------------------------------------------------------------

REBASE_EVERY = 2048  # steps between two looks at the shrinkage handed out
LARGEST_CUM = 1.0  # shrinkage above this is taken from the levels; a larger sum would cost levels their last digits
N_THINNINGS = 20  # of gradual thinning, evenly over the first three quarters of the steps


@dataclass(frozen=True)
class Thinning:
    """Cut the smallest entries in steps while learning, down to the share ``density``.

    The share left after each cut falls with the third power of the steps to go (Zhu and Gupta 2017), fast while most
    entries are noise. After the last cut the entries left learn on to the end, without new entries.
    """

    density: float
    n_steps: int

    def due(self) -> list[tuple[int, float]]:
        """Return the steps of the cuts, and the share of entries left by each."""
        return [
            (
                max(1, self.n_steps * 3 * k // (4 * N_THINNINGS)),
                self.density + (1 - self.density) * (1 - k / N_THINNINGS) ** 3,
            )
            for k in range(1, N_THINNINGS + 1)
        ]


@dataclass(frozen=True, eq=False)
class StoredSparse:
    """Saved `SparseState`: the levels of its live entries, or of the whole support when frozen."""

    order: Annotated[NDArray[np.int32], Shape("n_doc_terms")]
    levels: Annotated[sparse.csr_array, Csr("n_query_terms", "n_doc_terms", names=("levels", "columns", "indptr"))]
    l1: float
    shrink_every: Annotated[int, Bounds(least=1)]
    cum: float
    pending: float
    max_memory: Annotated[int | None, Bounds(least=0)]
    around_identity: bool
    thin_to: float | None
    thin_over: Annotated[int | None, Bounds(least=1, most=2**53)]
    frozen: bool
    step: Steps
    never_rows: Annotated[NDArray[np.int32] | None, Shape("n_never")] = None
    never_columns: Annotated[NDArray[np.int32] | None, Shape("n_never")] = None


class SparseState(State):
    """Levels of W by row, the shrinkage handed out, and the column order (frequent words first).

    start : levels that W starts from, columns in that order; with ``frozen``, explicit zeros belong to the support
    max_memory : bytes that W may take while learning, half the machine's memory by default
    around_identity : the levels are those of W - I
    frozen : no entry is added and none shrinks
    never : entries that stay at zero, columns as they are given
    """

    def __init__(
        self,
        start: sparse.csr_array,
        order: NDArray[np.int32],
        *,
        max_memory: int | None,
        l1: float,
        shrink_every: int,
        cum: float = 0.0,
        pending: float = 0.0,
        around_identity: bool = False,
        thinning: Thinning | None = None,
        frozen: bool = False,
        never: sparse.csr_array | None = None,
        step: int = 0,
    ) -> None:
        self._entries: sparse.csr_array | None = start  # W as CSR, while nothing learns
        self._levels: NDArray[np.float32] | None = None  # W while learning; NaN where an entry never has a weight
        self._shape = start.shape
        self.order = order
        self.max_memory = max_memory
        self.shrinkage = np.array([cum, pending, 0.0 if frozen else l1, shrink_every], dtype=np.float64)
        self.l1 = l1
        self.around_identity = around_identity
        self.thinning = thinning
        self.frozen = frozen
        self.never = never
        self.step = step
        self.texts: tuple[sparse.csr_array, sparse.csr_array] | None = None  # Q and D, for a fixed identity

    @property
    def cum(self) -> float:
        """Shrinkage handed out so far."""
        return float(self.shrinkage[CUM])

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def levels(self) -> NDArray[np.float32]:
        """Levels of all pairs (n_query_terms, n_doc_terms); made when first asked for, since only learning needs them.

        Pages of the array take memory once they are written to.
        """
        if self._levels is None:
            n, m = self.shape
            allowed = physical_memory() // 2 if self.max_memory is None else self.max_memory
            if 4 * n * m > allowed:
                raise MemoryLimitError(
                    f"a W of {n:,} query and {m:,} document words takes {4 * n * m:,} bytes while it learns; "
                    f"max_memory is {allowed:,}. Use fewer words, or sparsify='low-rank' with a density"
                )
            self.learn_in(np.zeros((n, m), dtype=np.float32), is_zero=True)
            assert self._levels is not None
        return self._levels

    def learn_in(self, levels: NDArray[np.float32], *, is_zero: bool = False) -> None:
        """Keep W in an array, in place of what the array held."""
        assert self._entries is not None
        if self.frozen:
            levels.fill(np.nan)
        elif not is_zero:
            levels.fill(0)
        _put(self._entries, levels)
        if self.never is not None:
            pairs = reorder_columns(self.never, self.order)
            pairs.data = np.full(pairs.nnz, np.nan, dtype=np.float32)
            _put(pairs, levels)
        self._levels, self._entries = levels, None

    def live(self) -> sparse.csr_array:
        """Levels of the live entries, columns in the order of the state, sorted; when frozen, of the whole support."""
        if self._entries is not None:
            return self._entries.copy()
        counts = [np.zeros(1, dtype=np.int64)]
        columns, levels = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.float32)]
        for block in self._blocks():
            live = self._is_live(block)
            counts.append(np.count_nonzero(live, axis=1))
            columns.append(np.nonzero(live)[1].astype(np.int32))
            levels.append(block[live])
        indptr = np.cumsum(np.concatenate(counts))
        return sparse.csr_array((np.concatenate(levels), np.concatenate(columns), indptr), shape=self.shape)

    def _blocks(self) -> Iterator[NDArray[np.float32]]:
        return (self.levels[rows] for rows in row_blocks(*self.shape))

    def _is_live(self, block: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Mark the entries of a block that have a weight, or belong to the support; a NaN does neither."""
        return ~np.isnan(block) if self.frozen else np.abs(block) > np.float32(self.cum)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_entries": self.live(), "_levels": None, "texts": None}

    def release(self) -> None:
        """Keep W as CSR only."""
        self._entries, self._levels = self.live(), None

    def set_levels(self, levels: sparse.csr_array, cum: float, pending: float) -> None:
        """Take these levels, of the live entries or of the whole support, with so much shrinkage handed out."""
        self._entries, self._levels = levels, None
        self.shrinkage[CUM], self.shrinkage[PENDING] = cum, pending

    def finish_thinning(self) -> None:
        """Make the last cut now, when the steps ended before it."""
        if self.thinning is not None and not self.frozen:
            self._cut(self.thinning.density)
            self.frozen = True
            self._mark_outside()

    def penalize(self, l1: float, shrink_every: int) -> None:
        """Set the penalty of the steps to come."""
        self.l1 = l1
        self.shrinkage[2:] = 0.0 if self.frozen else l1, shrink_every

    @property
    def n_live(self) -> int:
        """Weights that are not zero."""
        if self._entries is not None:
            return int(np.count_nonzero(np.abs(self._entries.data) > np.float32(self.cum)))
        return sum(int(np.count_nonzero(np.abs(block) > np.float32(self.cum))) for block in self._blocks())

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        self.texts = Q, D
        return KernelInput.from_matrices(Q, reorder_columns(D, self.order))

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        start = self._margins_of_identity(chunk.query, chunk.better, chunk.worse)
        done, n = 0, len(chunk.query)
        # After the last cut, which may have come early, no entry comes back.
        cuts = {} if self.thinning is None or self.frozen else dict(self.thinning.due())
        while True:
            step = self.step + done
            # Rebasing and cutting happen at fixed steps, so that stopping anywhere gives the same bits.
            stop = min([n, done + REBASE_EVERY - step % REBASE_EVERY, *(cut - self.step for cut in cuts if cut > step)])
            sparse_advance(
                self.levels,
                inputs.Q,
                inputs.D,
                chunk.part(done, stop),
                start[done:stop],
                self.shrinkage,
                step,
                inputs.scratch,
                tally,
            )
            done, step = stop, self.step + stop
            if n and step in cuts:
                self._cut(cuts[step])
                if step == max(cuts):
                    self.frozen = True
                    self._mark_outside()
            if n and step % REBASE_EVERY == 0 and self.cum > LARGEST_CUM:
                self._rebase()
            if done == n:
                return

    def _rebase(self) -> None:
        """Take the owed shrinkage from all levels; no weight changes."""
        cum = np.float32(self.cum)
        for block in self._blocks():
            block[:] = np.maximum(block - cum, 0) + np.minimum(block + cum, 0)
        self.shrinkage[CUM] = 0.0

    def _cut(self, density: float) -> None:
        """Drop the smallest weights, so that about the share ``density`` of all entries is left; nothing is owed.

        Of sizes too close to tell apart at the threshold all are kept.
        """
        n_of_size = np.zeros(N_SIZES, dtype=np.int64)
        for block in self._blocks():
            n_of_size += np.bincount(size_bins(np.nan_to_num(block)).ravel(), minlength=N_SIZES)
        n_of_size[0] = 0  # zeros
        smallest = least_of_bin(edge_bin(n_of_size, max(1, round(density * self.shape[0] * self.shape[1]))))
        for block in self._blocks():
            block[np.abs(block) < smallest] = 0

    def _mark_outside(self) -> None:
        """Mark all zeros as entries that never have a weight again."""
        for block in self._blocks():
            block[block == 0] = np.nan

    def _margins_of_identity(
        self, query: NDArray[np.int32], better: NDArray[np.int32], worse: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Return the part of each margin from a fixed identity."""
        if not self.around_identity:
            return np.zeros(len(query), dtype=np.float32)
        assert self.texts is not None
        Q, D = self.texts
        return np.asarray((Q[query] * (D[better] - D[worse])).sum(axis=1), dtype=np.float32)

    def weights(self) -> sparse.csr_array:
        """The current weights, without a fixed identity, columns in their given order."""
        live = self.live()
        cum = np.float32(self.cum)
        live.data = np.where(live.data > 0, live.data - cum, live.data + cum)
        weights = sparse.csr_array((live.data, self.order[live.indices], live.indptr), shape=self.shape)
        weights.eliminate_zeros()
        return weights

    def snapshot(self) -> Weights:
        learned = Sparse(weights=self.weights())
        return Weights([Identity(n_terms=self.shape[0]), learned] if self.around_identity else [learned])

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        stored = StoredSparse(
            order=self.order,
            levels=self.live(),
            l1=self.l1,
            shrink_every=int(self.shrinkage[SHRINK_EVERY]),
            cum=self.cum,
            pending=float(self.shrinkage[PENDING]),
            max_memory=self.max_memory,
            around_identity=self.around_identity,
            thin_to=None if self.thinning is None else self.thinning.density,
            thin_over=None if self.thinning is None else self.thinning.n_steps,
            frozen=self.frozen,
            step=self.step,
            **self._never_pairs(),
        )
        return encode(stored)

    def _never_pairs(self) -> dict[str, NDArray[np.int32]]:
        if self.never is None:
            return {}
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.never.indptr))
        return {"never_rows": rows, "never_columns": self.never.indices.astype(np.int32)}

    @classmethod
    def from_state(cls, meta: object, arrays: Mapping[str, NDArray[Any]], where: str) -> Self:
        stored = decode(StoredSparse, meta, arrays, where=where, copy=True)
        thin_to, thin_over = stored.thin_to, stored.thin_over
        never = None
        if stored.never_rows is not None and stored.never_columns is not None:
            never = pairs_matrix(stored.never_rows, stored.never_columns, stored.levels.shape, where)
        state = cls(
            stored.levels,
            stored.order,
            max_memory=stored.max_memory,
            l1=stored.l1,
            shrink_every=stored.shrink_every,
            cum=stored.cum,
            pending=stored.pending,
            around_identity=stored.around_identity,
            thinning=None if thin_to is None or thin_over is None else Thinning(thin_to, thin_over),
            frozen=stored.frozen,
            never=never,
            step=stored.step,
        )
        return cls.checked(state, where)

    def check(self) -> None:
        check_order(self.order)
        if not self.shape[0]:
            raise InputError("W has no row")


def _put(entries: sparse.csr_array, levels: NDArray[np.float32]) -> None:
    """Write the entries of a sparse matrix to their places in the first rows of an array."""
    for rows in row_blocks(entries.shape[0], levels.shape[1]):
        block = entries[rows]
        row = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        levels[rows][row, block.indices] = block.data


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


# -- the ranker ------------------------------------------------------------------------------------------------------


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
    sparsify : {"shrink", "thin", "low-rank"}
        Way to a sparse W; "thin" and "low-rank" need a ``density`` and have no penalty. "thin" takes one fit: the
        smallest entries are cut repeatedly during the first three quarters of the steps, and the rest learns on to the
        end. Better models for many steps. If a callback ends the steps early, the last cut is made then.
        "low-rank" learns ``low_rank`` first. The largest entries of its W, found block by block, are the support. With
        ``refit`` these entries learn on by the same step, on the same preferences; ``rate``, ``schedule`` and
        ``refit_start`` are ignored. Memory: the factors, then 8 bytes for each entry. The best models we know, and
        the fastest to learn.
    low_rank : LowRankRanker, optional
        Finds the support with ``sparsify="low-rank"``; default ``LowRankRanker(schedule="linear")``.
    refit_rate : of the refit with ``sparsify="low-rank"``; falls linearly to zero
    shrink_every : T, steps between shrinkages
    shrink_towards : {"zero", "identity"}
        Penalize W (Chen et al.), or W - I. With "identity" the identity is a part of its own, not counted by
        ``density``.
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
    sparsify: Literal["shrink", "thin", "low-rank"] = "shrink"
    low_rank: LowRankRanker | None = None
    shrink_towards: Literal["zero", "identity"] = "zero"
    shrink_every: Count = 100
    refit: bool = True
    refit_start: Literal["sparse", "identity"] = "sparse"
    refit_rate: Positive = 2.0
    max_memory: Count | None = None

    _state_class = SparseState
    _added_parameters: ClassVar[dict[str, Any]] = {"low_rank": None, "refit_rate": 2.0}

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
        *,
        never: sparse.csr_array | None = None,
    ) -> Self:
        """Learn from the start, and refit if asked; see ``DenseRanker.fit``.

        Validation and callbacks watch the sparse phase, before the refit. With ``sparsify="low-rank"`` callbacks watch
        both phases in turn, and validation the refit.

        Parameters
        ----------
        Q, prefs, D, validation, callbacks : as in ``DenseRanker.fit``
        never : CSR (n_query_terms, n_doc_terms)
            Nonzero entries are pairs of words with weights of zero from the start to the end, in ``partial_fit`` too;
            not supported on a cluster.
        """
        self._check_params()
        if hasattr(self, "weights_before_refit_"):
            del self.weights_before_refit_
        self._never = check_never(never, Q, D)
        if self._never is not None and current_executor().in_rounds:
            raise ParameterError("pairs that are never learned are kept on one machine, not on a cluster")
        self.n_fits_ = 0
        self.l1_ = float(self.l1)
        try:
            if self.sparsify == "thin":
                self._fit_thinned(Q, prefs, D, validation, callbacks)
            elif self.sparsify == "low-rank":
                self._fit_on_low_rank(Q, prefs, D, validation, callbacks)
            else:
                self._fit_shrunk(Q, prefs, D, validation, callbacks)
        finally:
            del self._never
        return self

    def _fit_shrunk(self, Q: Any, prefs: Any, D: Any, validation: Any, callbacks: Any) -> None:
        if self.density is None:
            self._fit_sparse(Q, prefs, D, validation, callbacks)
        else:
            if any(isinstance(callback, Checkpoint) for callback in callbacks):
                raise ParameterError(
                    "a search for a density makes several runs, which one checkpoint cannot hold; give l1"
                )
            self._search_density(lambda: self._fit_sparse(Q, prefs, D, validation, callbacks))
        if self.refit:
            self._refit(Q, prefs, D, self.n_steps_, callbacks)

    def _fit_thinned(self, Q: Any, prefs: Any, D: Any, validation: Any, callbacks: Any) -> None:
        if validation is not None:
            raise ParameterError("sparsify='thin' takes no validation: before its last cut, W is not what will be left")
        self.l1_ = 0.0
        self._thinning = self._plan_thinning(prefs)
        try:
            self._fit_sparse(Q, prefs, D, None, callbacks)
        finally:
            del self._thinning
        assert isinstance(self._state, SparseState)
        self._state.finish_thinning()

    def _fit_on_low_rank(self, Q: Any, prefs: Any, D: Any, validation: Any, callbacks: Any) -> None:
        if self.density is None:
            raise ParameterError("sparsify='low-rank' needs a density")
        if self.shrink_towards != "zero":
            raise ParameterError("sparsify='low-rank' shrinks nothing; leave out shrink_towards")
        if any(isinstance(callback, Checkpoint) for callback in callbacks):
            raise ParameterError("sparsify='low-rank' makes two runs, which one checkpoint cannot hold")
        self._forget()
        source = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state)
        n_steps = _steps_of_refit(source, self.epochs)
        first = LowRankRanker(schedule="linear", random_state=self.random_state, verbose=self.verbose)
        first = first if self.low_rank is None else clone(self.low_rank)
        first.fit(Q, prefs, D, callbacks=callbacks)
        self.l1_, self.n_fits_, self.history_ = 0.0, 1, first.history_
        queries, docs = self._check_pair(Q, D)
        never, order = self._never, by_document_frequency(docs)
        weights = without_pairs(largest_entries(first.weights_, float(self.density)), never)
        self._set_weights(weights, order, first.n_steps_, never=never)
        if not self.refit:
            return
        self.weights_before_refit_: Weights = self.weights_
        executor = current_executor()
        run = Run(
            OnSupportState(reorder_columns(weights, order), order),
            source,
            queries,
            docs,
            Sgd(rate=float(self.refit_rate), schedule="linear", margin=float(self.margin)),
            total=n_steps,
            validation=validation,
            stopping=Stopping(every=self.validate_every or max(1, n_steps // 10), patience=self.patience),
            # A cluster would have to mix weights on their support.
            executor=LocalExecutor() if executor.in_rounds else executor,
        )
        learned = run.go([self.history_.append, *callbacks], "refit", self.verbose)
        assert isinstance(learned, OnSupportState)
        self._set_weights(learned.weights(), order, first.n_steps_, never=never)

    def _plan_thinning(self, prefs: Preferences | Source) -> Thinning:
        n_steps = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state).n_steps
        if self.density is None:
            raise ParameterError("sparsify='thin' needs a density")
        if n_steps is None:
            raise ParameterError("sparsify='thin' needs to know the number of steps, and this source has no end")
        return Thinning(float(self.density), n_steps * int(self.epochs))

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None) -> Self:
        self._check_params()
        if not hasattr(self, "l1_"):
            if self.density is not None or self.sparsify != "shrink":
                raise ParameterError("partial_fit cannot reach a density; give l1, or call fit first")
            self.l1_ = float(self.l1)
        if self.density is None:
            self.l1_ = float(self.l1)  # as it may have been set since
        if hasattr(self, "_state"):
            assert isinstance(self._state, SparseState)
            self._state.penalize(self.l1_, self.shrink_every)
        return super().partial_fit(Q, prefs, D)

    def _fit_sparse(self, Q: Any, prefs: Any, D: Any, validation: Any, callbacks: Any) -> None:
        """One run of Algorithm 1."""
        super().fit(Q, prefs, D, validation, callbacks)
        self.n_fits_ += 1

    @property
    def density_(self) -> float:
        """Share of nonzero entries of W, or of W - I with a fixed identity."""
        check_is_fitted(self)
        assert isinstance(self._state, SparseState)
        n, m = self._state.shape
        return self._state.n_live / (n * m)

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
        shape = Q.shape[1], D.shape[1]
        around_identity = self.shrink_towards == "identity"
        if around_identity and shape[0] != shape[1]:
            raise ParameterError(
                f"shrink_towards='identity' needs one vocabulary; Q has {shape[0]} columns and D has {shape[1]}"
            )
        levels = sparse.csr_array(shape, dtype=np.float32) if around_identity else _identity_in(order, shape[0])
        never = getattr(self, "_never", None)
        return SparseState(
            without_pairs(levels, None if never is None else reorder_columns(never, order)),
            order,
            max_memory=self.max_memory,
            l1=self.l1_,
            shrink_every=self.shrink_every,
            around_identity=around_identity,
            thinning=getattr(self, "_thinning", None),
            never=never,
        )

    def refit_on_support(
        self, Q: Any, prefs: Preferences | Source, D: Any = None, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """Learn the entries of W that are not zero, the paper's Ω, again without penalty (equation 8).

        Callbacks see the steps of the refit and end the refit by returning True; a ``Checkpoint`` is ignored.
        """
        return self._refit(Q, prefs, D, None, callbacks)

    def _refit(self, Q: Any, prefs: Any, D: Any, n_steps: int | None, callbacks: Sequence[Callback]) -> Self:
        check_is_fitted(self)
        queries, docs = self._check_pair(Q, D)
        source = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state)
        before = self._state
        assert isinstance(before, SparseState)
        n_steps = _steps_of_refit(source, self.epochs) if n_steps is None else n_steps
        self.weights_before_refit_ = self.weights_
        state = self._on_support(before)
        run = Run(state, source, queries, docs, self._sgd(), total=n_steps)
        history: list[Callback] = [self.history_.append] if hasattr(self, "history_") else []
        summary = [callback for callback in callbacks if not isinstance(callback, Checkpoint)]
        run.go([*history, *summary], "refit", self.verbose)
        self._set_weights(state.weights(), before.order, before.step, before.around_identity, before.never)
        return self

    def _on_support(self, before: SparseState) -> SparseState:
        """Return the start of a refit: the entries left, without a penalty."""
        before.release()
        start = before.live()
        if self.refit_start == "sparse":
            cum = np.float32(before.cum)
            start.data = np.where(start.data > 0, start.data - cum, start.data + cum)
        else:
            rows = np.repeat(np.arange(start.shape[0]), np.diff(start.indptr))
            has_identity = start.shape[0] == start.shape[1] and not before.around_identity
            start.data = ((before.order[start.indices] == rows) & has_identity).astype(np.float32)
        return SparseState(
            start,
            before.order,
            max_memory=self.max_memory,
            l1=self.l1_,
            shrink_every=self.shrink_every,
            around_identity=before.around_identity,
            frozen=True,
            never=before.never,
        )

    def _set_weights(
        self,
        weights: sparse.csr_array,
        order: NDArray[np.int32],
        step: int,
        around_identity: bool = False,
        never: sparse.csr_array | None = None,
    ) -> None:
        """Make these weights the ranker's, ready to learn on."""
        self._forget()
        self._state = SparseState(
            reorder_columns(weights, order),
            order,
            max_memory=self.max_memory,
            l1=self.l1_,
            shrink_every=self.shrink_every,
            around_identity=around_identity,
            never=never,
            step=step,
        )
        self.n_features_in_, self.n_doc_features_ = weights.shape
        self.n_steps_ = step

    @classmethod
    def from_weights(cls, weights: sparse.csr_array, **params: Any) -> Self:
        """A fitted ranker with these weights; those of W - I with ``shrink_towards="identity"``."""
        ranker = cls(**params)
        ranker._check_params()
        ranker.l1_ = float(ranker.l1)
        weights = check_matrix(weights, "weights").copy()
        weights.eliminate_zeros()
        ranker._set_weights(weights, by_document_frequency(weights), 0, ranker.shrink_towards == "identity")
        return ranker

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if self.low_rank is not None:
            params["low_rank"] = self.low_rank._saved_params()
        return params

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        if isinstance(params["low_rank"], dict):
            stated = {**LowRankRanker._added_parameters, **params["low_rank"]}
            if set(stated) != set(LowRankRanker._get_param_names()):
                raise DamagedBundleError(f"{saved.where}: the parameters of its low_rank do not fit a LowRankRanker")
            params = {**params, "low_rank": LowRankRanker._with_params(stated, saved.where)}
        ranker = super()._from_bundle(params, saved)
        assert isinstance(ranker._state, SparseState)
        ranker.l1_ = ranker._state.l1
        return ranker


TermPairRanker._thinned_class = SparseRanker.from_weights


def _steps_of_refit(source: Source, epochs: int) -> int:
    if source.n_steps is None:
        raise ParameterError("a refit needs preferences that come to an end")
    return source.n_steps * epochs


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
    nearest_zero = 1e-12  # everything may have died
    a, b = np.log(denser[1]), np.log(max(sparser[1], nearest_zero))
    share = np.clip((a - np.log(density)) / (a - b), 0.1, 0.9)
    return float(np.exp(low + share * (high - low)))


# -- pairs of words that never have a weight -------------------------------------------------------------------------


def check_never(never: Any, Q: Any, D: Any) -> sparse.csr_array | None:
    """Pairs that never have a weight, as a matrix between the words of Q and of D, checked."""
    if never is None:
        return None
    queries = check_matrix(Q, "Q")
    shape = queries.shape[1], (queries if D is None else check_matrix(D, "D")).shape[1]
    pairs = check_matrix(never, "never")
    if pairs.shape != shape:
        raise InputError(f"never has shape {pairs.shape}; expected {shape}, a row for each query word")
    if not pairs.data.all():
        pairs = pairs.copy()
        pairs.eliminate_zeros()  # a zero that is stored says of no pair that it is never learned
    return pairs


def without_pairs(W: sparse.csr_array, never: sparse.csr_array | None) -> sparse.csr_array:
    """Return W, columns sorted, without the weights of excluded pairs."""
    if never is not None:
        W = sparse.csr_array(W - W.multiply(never != 0), dtype=np.float32)
        W.eliminate_zeros()
    W.sort_indices()
    return W


def pairs_matrix(
    rows: NDArray[np.int32], columns: NDArray[np.int32], shape: tuple[int, int], where: str
) -> sparse.csr_array:
    """Pairs of words as a matrix of ones."""
    for numbers, most in ((rows, shape[0]), (columns, shape[1])):
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < most):
            raise DamagedBundleError(f"{where}: a pair that is never learned lies outside of W")
    pairs = sparse.csr_array((np.ones(rows.size, dtype=np.float32), (rows, columns)), shape=shape)
    pairs.sum_duplicates()
    return pairs
