"""W with whole rows or whole columns shrunk to zero: words, or groups of them, that drop out of one side altogether.

Chen et al. 2010 name group lasso and a hierarchy of words as future work; this is their Algorithm 1 with those
penalties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tercet.data.mapped_rows import Texts
from tercet.data.preferences import Preferences
from tercet.errors import InputError, MemoryLimitError, ParameterError
from tercet.kernels.grouped import (
    LINE,
    LINES_A_WORD,
    NORM,
    SCALE,
    GroupScratch,
    GroupTrees,
    grouped_advance,
    mark_written,
    refresh,
)
from tercet.kernels.rows import Chunk
from tercet.kernels.sparse_rows import CUM, L1, PENDING, SHRINK_EVERY
from tercet.learn.base import COUNT, Count, NotNegative, SavedRanker
from tercet.learn.loop import Callback, Run
from tercet.learn.matrices import KernelInput, by_document_frequency, reorder_columns
from tercet.learn.penalised import PenalisedRanker, RefitStart, steps_of_refit
from tercet.learn.sources import Source, as_source
from tercet.learn.state import State, Steps, check_order, physical_memory
from tercet.learn.word_groups import WordGroups, as_word_groups
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT, Bounds, Shape
from tercet.weights import Sparse, Weights

REFRESH_EVERY = 1 << 17  # steps between exact computations of all norms
_BLOCK = 256  # groups turned to CSR at a time
_IN_STATE = "in the state"  # where a saved ranker has the tree it was given
_NEVER_WRITTEN, _UNIT = (0.0, 0.0, 1.0), (1.0, 0.0, 1.0)  # scale, stamp, norm


Grouping = Literal["rows", "columns"]
Share = Annotated[float, Interval(Real, 0, 1, closed="both")]


@dataclass(frozen=True, eq=False)
class StoredGroups:
    """A `GroupedState` as it is saved: its living groups."""

    living: Annotated[NDArray[np.int32], Shape("n_living")]
    V: Annotated[NDArray[np.float32], Shape("n_living", "n_inner")]
    groups: Annotated[NDArray[np.float64], Shape("n_living", 3)]
    order: Annotated[NDArray[np.int32], Shape("n_inner")]
    by: Grouping
    n_groups: Annotated[int, Bounds(least=1, below=2**31)]
    l1: float
    shrink_every: Annotated[int, Bounds(least=1)]
    cum: float
    pending: float
    step: Steps
    tree: Annotated[WordGroups | None, OMIT_DEFAULT] = None
    word_share: Annotated[float, OMIT_DEFAULT, Bounds(least=0, most=1)] = 0.5

    def __post_init__(self) -> None:
        check_order(self.order)
        if np.any(np.diff(self.living, prepend=-1, append=self.n_groups) <= 0):
            raise InputError(f"the living groups are not rising numbers below {self.n_groups}")
        if np.any(self.groups[:, [SCALE, NORM]] <= 0):
            raise InputError("a living group has a scale or a norm that is not positive")
        if self.tree is not None and self.tree.n_words != self.n_groups:
            raise InputError(f"its tree has groups of {self.tree.n_words} words, and there are {self.n_groups}")


class GroupedState(State):
    """Groups of W as lines of V with a scale each, the shrinkage handed out, and the order of V's columns.

    ``order`` is that of the side that is not grouped, frequent words first, so that a step touches fewer cache lines.
    """

    def __init__(
        self,
        V: NDArray[np.float32],
        groups: NDArray[np.float64],
        order: NDArray[np.int32],
        *,
        by: Grouping,
        l1: float,
        shrink_every: int,
        cum: float = 0.0,
        pending: float = 0.0,
        step: int = 0,
        tree: WordGroups | None = None,
        word_share: float = 0.5,
    ) -> None:
        self.V = V
        self.groups = groups
        self.order = order
        self.by = by
        self.shrinkage = np.array([cum, pending, l1, shrink_every], dtype=np.float64)
        self.frozen = False
        self.step = step
        self.tree = tree
        self.word_share = word_share
        self.trees = _NO_TREES if tree is None else tree.trees(word_share)
        self.marks = np.zeros((V.shape[0], _mark_words(V.shape[1])), dtype=np.int64)
        mark_written(V, self.marks)
        self._scratch = _scratch(0, 0, 0)

    @classmethod
    def start(cls, n_groups: int, order: NDArray[np.int32], **how: Any) -> Self:
        """The identity where both sides share a vocabulary, zeros where they do not."""
        V = np.zeros((n_groups, order.size), dtype=np.float32)
        groups = np.tile(_NEVER_WRITTEN, (n_groups, 1))
        if n_groups == order.size:
            V[order, np.arange(order.size)] = 1
            groups[:] = _UNIT
        return cls(V, groups, order, **how)

    @property
    def cum(self) -> float:
        return float(self.shrinkage[CUM])

    @property
    def shape(self) -> tuple[int, int]:
        n_groups, n_inner = self.V.shape
        return (n_groups, n_inner) if self.by == "rows" else (n_inner, n_groups)

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        two_docs = 2 * int(np.diff(D.indptr).max(initial=0))
        longest = max(two_docs, int(np.diff(Q.indptr).max(initial=0)))
        self._scratch = _scratch(two_docs, longest, self.marks.shape[1])
        if self.by == "rows":
            return KernelInput.of(Q, reorder_columns(D, self.order))
        return KernelInput.of(reorder_columns(Q, self.order), D)

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        done, n = 0, len(chunk.query)
        while True:
            step = self.step + done
            # Norms are refreshed at fixed steps, so that cutting a run anywhere gives the same bits.
            stop = min(n, done + REFRESH_EVERY - step % REFRESH_EVERY)
            grouped_advance(
                self.V,
                self.marks,
                self.groups,
                inputs.Q,
                inputs.D,
                chunk.part(done, stop),
                self.shrinkage,
                self.trees,
                step,
                self.by == "columns",
                self.frozen,
                self._scratch,
                tally,
            )
            if stop > done and (self.step + stop) % REFRESH_EVERY == 0 and not self.frozen:
                self.refresh()
            done = stop
            if done == n:
                return

    def penalise(self, l1: float, shrink_every: int, word_share: float) -> None:
        """Shrink like this from now on."""
        self.shrinkage[[L1, SHRINK_EVERY]] = l1, shrink_every
        if self.tree is not None and word_share != self.word_share:
            self.word_share, self.trees = word_share, self.tree.trees(word_share)

    def refresh(self) -> None:
        """Take all owed shrinkage and compute norms anew; weights change by rounding only."""
        refresh(self.V, self.marks, self.groups, self.cum)
        self.shrinkage[CUM] = 0.0

    def scales(self) -> NDArray[np.float64]:
        """The scale of each group after its owed shrinkage; 0 for the dead."""
        scale, stamp, norm = self.groups.T
        return np.maximum(scale - (self.cum - stamp) / norm, 0.0)

    def weights(self) -> sparse.csr_array:
        """The current weights, words in their given order; dead groups have no entry."""
        scales = self.scales()
        position = np.argsort(self.order)
        blocks = []
        for first in range(0, scales.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            lines = np.zeros((scales[block].size, position.size), dtype=np.float32)
            alive = np.flatnonzero(scales[block])
            lines[alive] = self.V[first + alive][:, position] * scales[first + alive, None]
            blocks.append(sparse.csr_array(lines))
        W = sparse.vstack(blocks, format="csr")
        return W if self.by == "rows" else W.T.tocsr()

    def snapshot(self) -> Weights:
        return Weights([Sparse(weights=self.weights())])

    def begin_refit(self, start: RefitStart) -> None:
        """Start over, in place, on the living groups, from the weights or the identity; the dead stay dead."""
        alive = self.scales() > 0
        self.frozen = True
        self.step = 0
        if start == "sparse":
            self.refresh()
            self.shrinkage[PENDING] = 0.0
            return
        self.V[:] = 0
        self.marks[:] = 0
        if self.V.shape[0] == self.V.shape[1]:
            columns = np.flatnonzero(alive[self.order])
            self.V[self.order[columns], columns] = 1
            mark_written(self.V, self.marks)
        self.groups[:] = np.where(alive[:, None], _UNIT, _NEVER_WRITTEN)
        self.shrinkage[CUM] = self.shrinkage[PENDING] = 0.0

    def end_refit(self, step: int) -> None:
        """Let groups shrink and come back again, from the weights as they are."""
        self.refresh()
        self.frozen = False
        self.step = step

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        living = np.flatnonzero(self.scales()).astype(np.int32)
        whole = living.size == len(self.groups)
        stored = StoredGroups(
            living=living,
            V=self.V if whole else self.V[living],
            groups=self.groups if whole else self.groups[living],
            order=self.order,
            by=self.by,
            n_groups=len(self.groups),
            l1=float(self.shrinkage[L1]),
            shrink_every=int(self.shrinkage[SHRINK_EVERY]),
            cum=self.cum,
            pending=float(self.shrinkage[PENDING]),
            step=self.step,
            tree=self.tree,
            word_share=self.word_share,
        )
        return encode(stored)

    @classmethod
    def from_state(cls, meta: object, arrays: Mapping[str, NDArray[Any]], where: str) -> Self:
        stored = decode(StoredGroups, meta, arrays, where=where)
        needed, allowed = _needed_bytes(stored.n_groups, stored.order.size), physical_memory() // 2
        if needed > allowed:  # groups that were dropped take no space on disk
            raise MemoryLimitError(f"{where}: W takes {needed:,} bytes; {allowed:,} are allowed on this machine")
        try:
            return cls._whole(stored)
        except MemoryError as error:
            raise MemoryLimitError(f"{where}: W takes {needed:,} bytes, which are not there") from error

    @classmethod
    def _whole(cls, stored: StoredGroups) -> Self:
        V = np.zeros((stored.n_groups, stored.order.size), dtype=np.float32)
        V[stored.living] = stored.V
        groups = np.tile(_NEVER_WRITTEN, (stored.n_groups, 1))
        groups[stored.living] = stored.groups
        return cls(
            V,
            groups,
            stored.order.copy(),
            by=stored.by,
            l1=stored.l1,
            shrink_every=stored.shrink_every,
            cum=stored.cum,
            pending=stored.pending,
            step=stored.step,
            tree=stored.tree,
            word_share=stored.word_share,
        )


def _needed_bytes(n_groups: int, n_inner: int) -> int:
    """Of V, its marks, and three numbers for each group."""
    return n_groups * (4 * n_inner + 8 * _mark_words(n_inner) + 24)


@dataclass(eq=False, repr=False, kw_only=True)
class GroupSparseRanker(PenalisedRanker):
    """Every pair of words may have a weight, and a group penalty removes whole words, or topics, from one side of W.

    Learns the mean margin rank loss plus ``l1`` times the sum of the norms of W's rows, or of its columns. A row that
    reaches zero is a query word that asks for nothing; a column, a document word that no query asks for and that an
    index need not hold. W starts at the identity. After every ``shrink_every`` steps each group gives the penalty of
    those steps from its norm, all at once; groups owe it until they are read, which gives the same weights as sweeping
    over all of W. An update can bring a group back. Then, with ``refit``, the groups that are left are learned again
    without penalty, on the same preferences in the same order.

    With a ``tree`` words stand in groups of words, which may lie within each other or overlap, and the penalty is
    ``l1`` times ``word_share Σ ||W_i|| + (1 - word_share) Σ weight_g ||W_g||`` over words i and groups g: a topic
    vanishes as a whole, and single words of those that stay. Every ``shrink_every`` steps the proximal step of this
    penalty is taken, from the norms of rows alone.

    Cost of a step: words of the query times words of the two documents; with a tree, every ``shrink_every`` steps, one
    pass over words and groups, or several where groups overlap. Memory: 4 bytes for each pair of words.

    Parameters
    ----------
    l1 : strength of the penalty
    by : {"rows", "columns"}
        What vanishes together: all weights of a query word, or all of a document word.
    tree : "clusters", WordGroups, or a path of groups such as "sport/hockey" for each word
        Groups of the words of that side. "clusters" finds them by the documents the words occur in; a word of several
        groups has a list of paths. Where texts are fitted (``tc.fit``), words may be named:
        ``{"puck": "sport/hockey"}``, or the path of a table of words and their groups.
    n_clusters : how many "clusters" has; several numbers are levels of a tree
    clusters_of_word : how many of the finest clusters a word is in
    word_share : the words' own share of the penalty, from 0 to 1; only with a tree
    shrink_every : T, steps between shrinkages
    refit : learn the groups that are left again, without penalty; ``ranker.refit(Q, prefs, D)`` does it by hand
    refit_start : {"sparse", "identity"}
        What the refit starts from: the weights that are left, or the identity on them.
    max_memory : bytes W may take while training; default half the machine's memory
    rate, schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``

    Attributes
    ----------
    groups_ : rows, or columns, of W that are not zero
    n_groups_ : their number
    tree_ : the groups of words; None without a tree
    weights_before_refit_ : the weights that chose the groups

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> X = sparse.csr_array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> ranker = GroupSparseRanker(rate=2.0, l1=0.5, shrink_every=1, refit=False).fit(X, Preferences([0], [1], [2]))
    >>> print(ranker.weights_.sparse.toarray().round(2))
    [[-0.55  1.11  0.  ]
     [ 0.    0.    0.  ]
     [ 0.    0.    0.  ]]
    >>> ranker.groups_
    array([0])
    """

    l1: NotNegative = 1e-5
    by: Grouping = "rows"
    tree: Annotated[Any, WordGroups, Mapping, str, list, tuple, None] = None
    n_clusters: Annotated[int | Sequence[int], COUNT, list, tuple] = (20, 200)
    clusters_of_word: Count = 1
    word_share: Share = 0.5

    _state_class = GroupedState
    _added_parameters: ClassVar[dict[str, Any]] = {
        "tree": None,
        "n_clusters": (20, 200),
        "clusters_of_word": 1,
        "word_share": 0.5,
        "refit_start": "identity",
    }

    @property
    def groups_(self) -> NDArray[np.intp]:
        """Rows, or columns, of W that are not zero."""
        check_is_fitted(self)
        W = self.weights_.parts[0].matrix
        assert isinstance(self._state, GroupedState)
        assert W is not None
        if self._state.by == "rows":
            return np.flatnonzero(np.diff(W.indptr))
        return np.flatnonzero(np.bincount(W.indices, minlength=self.n_doc_features_))

    @property
    def n_groups_(self) -> int:
        return self.groups_.size

    @property
    def tree_(self) -> WordGroups | None:
        """The groups of words; None without a tree."""
        check_is_fitted(self)
        assert isinstance(self._state, GroupedState)
        return self._state.tree

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from the start, and refit when asked to; see ``DenseRanker.fit``.

        Validation and callbacks watch the first phase; the refit follows it.
        """
        if hasattr(self, "weights_before_refit_"):
            del self.weights_before_refit_
        super().fit(Q, prefs, D, validation, callbacks)
        if self._refit_wanted:
            self._refit_on_support(Q, prefs, D, n_steps=self.n_steps_, callbacks=callbacks)
        return self

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None) -> Self:
        self._check_params()
        if hasattr(self, "_state"):
            assert isinstance(self._state, GroupedState)
            if self._state.by != self.by:
                raise ParameterError(
                    f"by={self.by!r} cannot be set between calls of partial_fit; call fit to start anew"
                )
            self._state.penalise(float(self.l1), self.shrink_every, float(self.word_share))
        return super().partial_fit(Q, prefs, D)

    def _start(self, Q: Texts, D: Texts) -> GroupedState:
        n, m = Q.shape[1], D.shape[1]
        n_groups, inner = (n, D) if self.by == "rows" else (m, Q)
        needed = _needed_bytes(n_groups, inner.shape[1])
        allowed = self.max_memory if self.max_memory is not None else physical_memory() // 2
        if needed > allowed:
            raise MemoryLimitError(
                f"W for {n:,} query and {m:,} document words, shrunk by {self.by}, takes {needed:,} bytes; "
                f"{allowed:,} are allowed. Use fewer words, or SparseRanker"
            )
        return GroupedState.start(
            n_groups,
            by_document_frequency(inner),
            by=self.by,
            l1=float(self.l1),
            shrink_every=self.shrink_every,
            tree=self._tree(Q if self.by == "rows" and n != m else D),
            word_share=float(self.word_share),
        )

    def _tree(self, texts: Texts) -> WordGroups | None:
        """The groups of the words of these texts."""
        if self.tree is None:
            return None
        if isinstance(self.tree, str) and self.tree == "clusters":
            return WordGroups.from_clusters(
                texts, self.n_clusters, clusters_of_word=self.clusters_of_word, random_state=self.random_state
            )
        return as_word_groups(self.tree, texts.shape[1])

    def _refit_on_support(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        n_steps: int | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        check_is_fitted(self)
        queries, docs = self._check_pair(Q, D)
        source = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state)
        n_steps = steps_of_refit(source, self.epochs) if n_steps is None else n_steps
        state = self._state
        assert isinstance(state, GroupedState)
        self.weights_before_refit_ = self.weights_
        # W is learned again where it lies; should it diverge, the ranker counts as not fitted.
        self._forget()
        steps = state.step
        state.begin_refit(self.refit_start)
        run = Run(state, source, queries, docs, self._sgd(), total=n_steps)
        run.go(self._listeners(callbacks), "refit", self.verbose)
        state.end_refit(steps)
        self._keep(state, queries, docs)
        return self

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if "n_clusters" in params and not isinstance(params["n_clusters"], int):
            params["n_clusters"] = [int(n) for n in params["n_clusters"]]
        if "tree" in params and not isinstance(self.tree, str):
            params["tree"] = _IN_STATE
        return params

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        if isinstance(params["n_clusters"], list):
            params = {**params, "n_clusters": tuple(params["n_clusters"])}
        ranker = super()._from_bundle(params, saved)
        if isinstance(ranker.tree, str) and ranker.tree == _IN_STATE:
            ranker.tree = ranker.tree_
        return ranker


_NO_TREES = GroupTrees(
    first=np.zeros(1, dtype=np.int64),
    parent=np.empty(0, dtype=np.int32),
    weight=np.empty(0),
    first_line=np.zeros(1, dtype=np.int64),
    line=np.empty(0, dtype=np.int32),
    correction=np.empty(0),
    factor=np.empty(0),
    part=np.empty(0),
    size=np.empty(0),
    before=np.empty(0),
)


def _mark_words(n_inner: int) -> int:
    """int64 words that the marks of one group take."""
    return -(-n_inner // (LINE * LINES_A_WORD))


def _scratch(two_docs: int, longest: int, mark_words: int) -> GroupScratch:
    """Room for the words of two documents, of the longest query or two documents, and for the marks of a group."""
    return GroupScratch(
        cols=np.empty(two_docs, dtype=np.int32),
        vals=np.empty(two_docs, dtype=np.float32),
        starts=np.empty(longest, dtype=np.int32),
        living=np.empty(longest, dtype=np.int32),
        factors=np.empty(longest, dtype=np.float32),
        touched=np.empty(mark_words, dtype=np.int64),
    )
