"""Words and features in one model: ``score = q'Wd + w · phi(q, d)``, both learned from the same preferences.

``phi`` are the matches of fields and the numbers of documents, in the columns of `FieldedVectorizer` behind the words.
W learns by the steps of its ranker, from the margin left by features; w learns by FTRL-proximal with L1 (Cheng et al.
2018), from the margin left by W. Both are one bilinear form over all columns: a field is a diagonal block of the form,
a number an entry in the row of the column that all queries have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences
from tercet.errors import InputError, ParameterError
from tercet.kernels.ftrl import Rules, Sums
from tercet.kernels.joint import feature_differences, ftrl_preferences
from tercet.kernels.rows import Chunk
from tercet.learn.base import Count, NotNegative, Positive, SgdRanker, TermPairRanker
from tercet.learn.dense import DenseRanker
from tercet.learn.diagonal import DiagonalRanker
from tercet.learn.hashed import HashedRanker
from tercet.learn.loop import Callback, Checkpoint, current_executor
from tercet.learn.lowrank import LowRankRanker
from tercet.learn.matrices import KernelInput
from tercet.learn.sources import Source, as_source
from tercet.learn.sparse import SparseRanker, SparseState
from tercet.learn.state import State
from tercet.text.fielded import ColumnLayout
from tercet.weights import Diagonal, Identity, Mapped, Part, Sparse, Weights

# Rankers that train together with w, step by step; any other ranker trains first, and w afterwards.
STEP_BY_STEP: tuple[type[SgdRanker], ...] = (LowRankRanker, DiagonalRanker, DenseRanker, HashedRanker)


# -- one bilinear form ------------------------------------------------------------------------------------------------


def joined(words: Weights, w: NDArray[np.float64], layout: ColumnLayout) -> Weights:
    """Return ``q'Wd + w · phi(q, d)`` as weights over all columns.

    Examples
    --------
    >>> W = joined(Weights([Identity(n_terms=2)]), np.array([0.5, 0.25]), ColumnLayout(2, 1, 1))
    >>> W.rows(np.array([0, 5]))[:, :5].tolist()  # of a word, and of the column that all queries have
    [[1.0, 0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.25]]
    """
    parts = [widened(part, layout.n_words, layout.n_columns) for part in words.parts]
    n, n_columns = layout.n_words, layout.n_columns
    row = np.concatenate([np.tile(np.arange(n), layout.n_fields), np.full(layout.n_numbers, layout.any_query)])
    column = np.arange(n, layout.any_query)
    value = np.concatenate([np.repeat(w[: layout.n_fields], n), w[layout.n_fields :]]).astype(np.float32)
    is_nonzero = value != 0
    if is_nonzero.any():
        shape = (n_columns, n_columns)
        parts.append(
            Sparse(weights=sparse.csr_array((value[is_nonzero], (row[is_nonzero], column[is_nonzero])), shape=shape))
        )
    return Weights(parts)


def taken_apart(weights: Weights, layout: ColumnLayout) -> tuple[Weights, NDArray[np.float64]]:
    """Invert `joined`: return W between words, and w."""
    to_words = sparse.csr_array(sparse.eye_array(layout.n_columns, layout.n_words, format="csr", dtype=np.float32))
    words = Weights([Mapped(A=to_words, B=to_words, part=part) for part in weights.parts])
    first, last = weights.rows(np.array([0, layout.any_query]))
    of_fields = first[layout.n_words : layout.first_number : layout.n_words]
    return words, np.concatenate([of_fields, last[layout.first_number : layout.any_query]])


def widened(part: Part, n: int, n_columns: int) -> Part:
    """Return a part between the first n columns as a part between all columns, with zeros elsewhere."""
    if isinstance(part, Identity):
        # No document has a column that queries have beyond words, and no query those of documents.
        return Identity(n_terms=n_columns, scale=part.scale)
    if isinstance(part, Diagonal):
        return Diagonal(weights=np.pad(part.weights, (0, n_columns - n)), scale=part.scale)
    if isinstance(part, Sparse):
        W = part.weights
        indptr = np.pad(W.indptr, (0, n_columns - n), mode="edge")
        return Sparse(
            weights=sparse.csr_array((W.data, W.indices, indptr), shape=(n_columns, n_columns)), scale=part.scale
        )
    of_words = sparse.csr_array(sparse.eye_array(n, n_columns, format="csr", dtype=np.float32))
    return Mapped(A=of_words, B=of_words, part=part)


# -- state ------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class FixedState(State):
    """A W without learning."""

    weights: Weights
    step: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        return KernelInput.from_matrices(Q, D)

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        n, m = self.shape
        Q, D = (
            sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.indptr.size - 1, width))
            for rows, width in ((inputs.Q, n), (inputs.D, m))
        )
        queries = Q[chunk.query]
        better, worse = (self.weights.score_rows(queries, D[rows]) for rows in (chunk.better, chunk.worse))
        missed = chunk.margin - (better - worse)
        tally[0] += np.count_nonzero(missed > 0)
        tally[1] += missed[missed > 0].sum()
        tally[2] = len(chunk.query)
        tally[3:] = better - worse

    def snapshot(self) -> Weights:
        return self.weights

    def copy(self) -> Self:
        return replace(self)


@dataclass(frozen=True, eq=False)
class JointInput(KernelInput):
    """Kernel input of all columns, and of the words alone for the learner of W."""

    words: KernelInput


@dataclass(eq=False)
class FeatureState:
    """State of FTRL: sums of slopes, and the weights as differences from the prior."""

    layout: ColumnLayout
    rules: Rules
    prior: NDArray[np.float64]  # (n_features,), like the sums
    z: NDArray[np.float64]
    G: NDArray[np.float64]
    change: NDArray[np.float64]
    largest: float = 0.0  # largest |z| so far: the smallest l1 that keeps every weight at its prior

    @property
    def w(self) -> NDArray[np.float64]:
        return self.prior + self.change

    def copy(self) -> FeatureState:
        return replace(self, z=self.z.copy(), G=self.G.copy(), change=self.change.copy())


class JointState(State):
    """The state of W's learner, and the state of FTRL.

    Preferences are taken ``chunk_size`` at a time. First W takes steps over the chunk, by the margins left by the
    earlier feature weights. Then w takes steps over the same preferences, each by the margin of W at its turn. With a
    chunk of one preference both steps follow the gradient at the same point.
    """

    def __init__(self, inner: State, features: FeatureState, chunk_size: int, step: int = 0) -> None:
        self.inner, self.features, self.chunk_size, self.step = inner, features, chunk_size, step
        self._words = np.zeros(features.layout.n_words, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.layout.n_columns, self.features.layout.n_columns

    def observe(self, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        self.inner.observe(*words_of(self.features.layout, Q, D))

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> JointInput:
        every = KernelInput.from_matrices(Q, D)
        words = self.inner.kernel_input(*words_of(self.features.layout, Q, D))
        return JointInput(every.Q, every.D, every.scratch, words)

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        assert isinstance(inputs, JointInput)
        n = len(chunk.query)
        size = n if isinstance(self.inner, FixedState) else self.chunk_size
        for start in range(0, max(n, 1), max(size, 1)):  # an empty chunk compiles
            self._run(inputs, chunk.part(start, min(start + size, n)), tally)

    def _run(self, inputs: JointInput, part: Chunk, tally: NDArray[np.float64]) -> None:
        features, layout = self.features, self.features.layout
        n = len(part.query)
        differences = np.empty((n, layout.n_features))
        columns = (layout.n_words, layout.n_fields, layout.n_numbers)
        feature_differences(inputs.Q, inputs.D, columns, part, self._words, differences)
        left_to_words = (part.margin - differences @ features.w).astype(np.float32)
        left_to_words.flags.writeable = False  # as given ones are: a kernel is compiled for each kind of array
        noted = np.zeros(3 + n)
        self.inner.run(inputs.words, part._replace(margin=left_to_words), noted)
        first_step = self.inner.step
        self.inner.step += n
        tally += noted[:2]
        weight = np.divide(part.step_size, part.rate, out=np.ones(n, np.float32), where=part.rate > 0)
        sums = Sums(features.z, features.G, features.change)
        largest = ftrl_preferences(
            differences, noted[3:], part.margin, weight, features.prior, features.rules, sums, first_step
        )
        features.largest = max(features.largest, float(largest))
        if not np.isfinite(features.change).all():
            tally[1] = np.nan  # the loop raises the error for divergence

    def snapshot(self) -> Weights:
        return joined(self.inner.snapshot(), self.features.w, self.features.layout)

    def copy(self) -> Self:
        return type(self)(self.inner.copy(), self.features.copy(), self.chunk_size, self.step)


def words_of(layout: ColumnLayout, *matrices: sparse.csr_array) -> tuple[sparse.csr_array, ...]:
    """Return the columns of words of each matrix."""
    return tuple(sparse.csr_array(matrix[:, : layout.n_words]) for matrix in matrices)


# -- ranker -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class JointRanker(TermPairRanker):
    """``q'Wd + w · phi(q, d)``: any ranker's W on words, and a weight for each field and each number of documents.

    Q and D come from `FieldedVectorizer`. W of the rankers of `STEP_BY_STEP`, and of a `SparseRanker` with a penalty
    and its refit, learns side by side with w: the margin of a preference is the margin of both together, and a
    violation gives a step to both. W of another ranker is learned first, alone, and w then on top of W.

    w is learned by FTRL-proximal, with a rate for each feature. L1 leaves a weight at its prior exactly unless the
    preferences give enough evidence against the prior.

    Parameters
    ----------
    layout : meaning of the columns
    ranker : learns W; None keeps words matching themselves, with ``identity_weight``, and learns w alone
    prior : weight of each feature to start from and to shrink towards, fields first; default 0
    l1 : strength of the penalty on w, a total over the run as in `FTRLRanker`; `sparse_end` finds the weakest penalty
        with every weight at its prior
    feature_rate, rho : of FTRL, ``rate / sqrt(rho + sum of squared slopes)``
    chunk_size : preferences learned by W before w, see `JointState`

    Examples
    --------
    >>> Q = sparse.csr_array(np.array([[1, 0, 0, 1]], dtype=np.float32))  # a word, another, a number, any query
    >>> D = sparse.csr_array(np.array([[1, 0, 1, 0], [1, 0, -1, 0]], dtype=np.float32))
    >>> ranker = JointRanker(layout=ColumnLayout(2, 0, 1)).fit(Q, Preferences([0] * 9, [0] * 9, [1] * 9), D)
    >>> bool(ranker.feature_weights_[0] > 0)
    True
    """

    layout: ColumnLayout
    ranker: TermPairRanker | None = None
    prior: Annotated[Sequence[float] | None, "array-like", None] = None
    identity_weight: Positive = 5.0
    l1: NotNegative = 0.0
    feature_rate: Positive = 0.5
    rho: NotNegative = 1.0
    chunk_size: Count = 64

    @property
    def takes_sources(self) -> bool:
        """True if the ranker of W takes sources."""
        return self.ranker is None or self.ranker.takes_sources

    @property
    def unit(self) -> float:
        """Weight of the identity, the unit of priors."""
        return float(self.identity_weight)

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn W and w; see ``DenseRanker.fit``. Validation and callbacks get both as one W."""
        self._check_params()
        current_executor().check(self)
        if any(isinstance(callback, Checkpoint) for callback in callbacks):
            raise ParameterError("a JointRanker keeps no checkpoints")
        queries = check_matrix(Q, "Q")
        docs = queries if D is None or D is Q else check_matrix(D, "D")
        words = words_of(self.layout, queries, docs)
        stepping, inner = self._inner(words, prefs)
        source = as_source(prefs, shuffle=stepping.shuffle, random_state=stepping.random_state)
        state = self._start(inner, queries, docs)
        stepping._train(state, queries, docs, source, validation, callbacks)
        if isinstance(inner, SparseState) and isinstance(stepping, SparseRanker) and stepping.refit:
            learned = self._learned(stepping)
            assert isinstance(learned.inner, SparseState)
            support = stepping._support_of(learned.inner, stepping.refit_start)
            state = JointState(support, learned.features.copy(), learned.chunk_size)
            stepping._train(state, queries, docs, source, None, callbacks)
        self._state, self.history_, self.n_steps_ = self._learned(stepping), stepping.history_, stepping.n_steps_
        self._snapshot = self._state.snapshot()
        self._note_widths(queries, docs)
        return self

    def _inner(self, words: tuple[sparse.csr_array, ...], prefs: Preferences | Source) -> tuple[SgdRanker, State]:
        """Return the ranker whose rate and schedule count, and the first state of W."""
        Q, D = words
        if self.ranker is None:
            match = Weights([Identity(n_terms=self.layout.n_words, scale=self.identity_weight)])
            return DiagonalRanker(), FixedState(match)
        ranker = clone(self.ranker)
        ranker._check_params()
        if isinstance(ranker, SparseRanker) and ranker.sparsify == "shrink" and ranker.density is None:
            ranker.l1_ = float(ranker.l1)
            return ranker, ranker._start(Q, D)
        if isinstance(ranker, STEP_BY_STEP):
            return ranker, ranker._start(Q, D)
        return DiagonalRanker(verbose=getattr(ranker, "verbose", None)), FixedState(ranker.fit(Q, prefs, D).weights_)

    def _start(self, inner: State, Q: sparse.csr_array, D: sparse.csr_array) -> JointState:
        layout = self.layout
        if not Q.shape[1] == D.shape[1] == layout.n_columns:
            raise InputError(f"Q and D have {Q.shape[1]} and {D.shape[1]} columns; the layout has {layout.n_columns}")
        prior = np.zeros(layout.n_features)
        if self.prior is not None:
            if np.shape(self.prior) != prior.shape or not np.isfinite(self.prior).all():
                raise ParameterError(f"prior must be {layout.n_features} finite numbers; got {self.prior!r}")
            prior[:] = self.prior
        rules = Rules(float(self.l1), float(self.feature_rate), float(self.rho), True)
        z, G, change = np.zeros((3, layout.n_features))
        return JointState(inner, FeatureState(layout, rules, prior, z, G, change), int(self.chunk_size))

    @staticmethod
    def _learned(stepping: SgdRanker) -> JointState:
        assert isinstance(stepping._state, JointState)
        return stepping._state

    @property
    def weights_(self) -> Weights:
        check_is_fitted(self)
        return self._snapshot

    @property
    def feature_weights_(self) -> NDArray[np.float64]:
        """w (n_features,), fields first."""
        check_is_fitted(self)
        return self._state.features.w

    def sparse_end(self, Q: Any, prefs: Preferences | Source, D: Any = None) -> float:
        """Return the smallest penalty with all of w at its prior throughout, next to words matching themselves."""
        alone = clone(self).set_params(ranker=None, l1=np.finfo(np.float64).max)
        return alone.fit(Q, prefs, D)._state.features.largest

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        raise InputError("a JointRanker is not saved; a TextModel with its weights_ is")
