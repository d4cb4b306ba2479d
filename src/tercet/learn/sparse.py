"""W kept sparse by L1 while it trains, then refitted on its support (Chen et al. 2010, section III).

Its support may also be found by a low-rank W, whose largest entries are looked for block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tercet.data.mapped_rows import Texts
from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.learn.base import Count, NotNegative, Positive, SavedRanker, SgdRanker, TermPairRanker
from tercet.learn.known_pairs import check_never, without_pairs
from tercet.learn.loop import Callback, Checkpoint, LocalExecutor, Run, Stopping, current_executor
from tercet.learn.lowrank import LowRankRanker
from tercet.learn.matrices import by_document_frequency, check_matrix, reorder_columns
from tercet.learn.on_support import OnSupportState
from tercet.learn.sources import Source, as_source
from tercet.learn.sparse_state import SparseState, Thinning
from tercet.learn.state import Schedule, Sgd
from tercet.learn.thin import largest_entries
from tercet.weights import Weights

DENSITY_TOLERANCE = 0.1
MOST_SEARCH_FITS = 16


@dataclass(eq=False, repr=False, kw_only=True)
class SparseRanker(SgdRanker):
    """Every pair of words may have a weight, and L1 keeps most at exactly zero, while it trains and after.

    W starts at the identity, which shrinks like every other entry. After every ``shrink_every`` steps the L1 penalty of
    those steps is taken at once (Algorithm 1); entries owe it until they are read, which gives the same weights as
    sweeping over all of W. Then, with ``refit``, the entries that are left are learned again without penalty, on the
    same preferences in the same order.

    Cost of a step: words of the query times words of the two documents. Memory: 4 bytes for each pair of words where
    that fits ``max_memory``, else about what the non-zeros take.

    Parameters
    ----------
    l1 : strength of the penalty
    density : float, optional
        Share of non-zero entries to reach instead of a given ``l1``: fits are repeated with another l1 until it is met
        within a tenth. ``l1_`` is the strength found, ``n_fits_`` the number of fits it took. Where W is sparser even
        without a penalty, since few pairs of words met in a step, that W is taken; ``density_`` is what was reached.
    sparsify : {"shrink", "thin", "low-rank"}
        How W becomes sparse; the latter two need a ``density`` and have no penalty. "thin" takes one fit: the smallest
        entries are cut again and again during the first three quarters of the steps, and those left at last learn on
        to the end. It gives better models where many steps are made and all of W fits in memory at first. Should a
        callback end the steps early, the last cut is made then.
        "low-rank" learns ``low_rank`` first. The largest entries of its W, looked for block by block, are the support,
        and with ``refit`` they learn on from there by the same step, on the same preferences; ``rate``, ``schedule``
        and ``refit_start`` have no part in it. W is never held as a whole: memory is that of the factors, then 8 bytes
        for each entry. The best models we know, and the fastest to learn.
    low_rank : LowRankRanker, optional
        Finds the support with ``sparsify="low-rank"``; default ``LowRankRanker(schedule="linear")``.
    refit_rate : of the refit with ``sparsify="low-rank"``; falls linearly to zero
    shrink_every : T, steps between shrinkages
    shrink_towards : {"zero", "identity"}
        What is penalised: W (Chen et al.), or W - I. Then the identity stays, as a part of its own that ``density``
        does not count.
    refit : after shrinking, learn the entries that are left again, without penalty, as ``refit_on_support`` does
    refit_start : {"sparse", "identity"}
        What the refit starts from: the sparse solution, or the identity on the support. Chen et al. do not say which;
        what refitting brings them is what the first brings.
    max_memory : bytes W may take while training; default half the machine's memory
    rate, schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``

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

    takes_never = True

    _state_class = SparseState
    _learns_in_rounds = True
    _added_parameters: ClassVar[dict[str, Any]] = {"low_rank": None, "refit_rate": 2.0}

    @property
    def unit(self) -> float:
        """Weight of the identity that the low-rank ranker starts from, if it finds the support; else 1."""
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
        """Learn from the start, and refit when asked to; see ``DenseRanker.fit``.

        Validation and callbacks watch the sparse phase; the refit follows it. With ``sparsify="low-rank"`` callbacks
        watch both phases, one after the other, and validation the refit.

        Parameters
        ----------
        Q, prefs, D, validation, callbacks : as in ``DenseRanker.fit``
        never : CSR (n_query_terms, n_doc_terms)
            Pairs of words, its entries that are not zero, whose weights are zero from the start to the end. They are
            kept there by ``partial_fit``, too; a cluster refuses to learn with them.
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
            self._state.penalise(self.l1_, self.shrink_every)
        return super().partial_fit(Q, prefs, D)

    def _fit_sparse(self, Q: Any, prefs: Any, D: Any, validation: Any, callbacks: Any) -> None:
        """One run of Algorithm 1."""
        super().fit(Q, prefs, D, validation, callbacks)
        self.n_fits_ += 1

    @property
    def density_(self) -> float:
        """Share of the entries of W, or of W - I where the identity stays, that are not zero."""
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

    def _start(self, Q: Texts, D: Texts) -> SparseState:
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
        """Learn the entries of W that are not zero again, without penalty.

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
        """What a refit starts from: the entries that are left, to be learned without penalty."""
        before.release_rows()
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
    """Where log(density) against log(l1) would meet the density, kept away from the ends of the bracket."""
    if denser is None or sparser is None:
        return l1 * (4.0 if sparser is None else 0.25)
    low, high = np.log(denser[0]), np.log(sparser[0])
    nearest_zero = 1e-12  # everything may have died
    a, b = np.log(denser[1]), np.log(max(sparser[1], nearest_zero))
    share = np.clip((a - np.log(density)) / (a - b), 0.1, 0.9)
    return float(np.exp(low + share * (high - low)))
