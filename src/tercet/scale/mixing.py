"""The driver's side of a round: cut the state into shares, and mix the changes of all shares into the weights.

With the changes c₁, …, c_N of N shares, the weights gain

    Σ cₖ                for a sparse or a diagonal W: scores are linear in the weights
    a Σ cₖ, a ≤ 1       for each row of the two factors of a low rank, with a = Σ|cₖ|² / |Σ cₖ|² (``agreement``)

A plain sum of many shares diverges for two factors, since a score multiplies the factors. Changes at right angles are
independent: the whole sum is taken (a = 1). N equal changes are the same work: the mean is taken (a = 1/N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.errors import ParameterError
from tercet.kernels.mixing import mark_words, take_sparse_rows
from tercet.learn.diagonal import DiagonalState
from tercet.learn.lowrank import LowRankState
from tercet.learn.matrices import kernel_rows
from tercet.learn.sparse import SparseState
from tercet.learn.state import State
from tercet.scale.changes import (
    CsrRows,
    DenseChange,
    EntryBuffers,
    SparseChange,
    aligned,
    allocate_entries,
    kind_of_columns,
    merge,
)
from tercet.scale.shares import DiagonalShare, LaidOut, LowRankShare, Share, SomeRows, SparseShare

MOST_OF_THEM = 0.75  # of all rows; from there on all are sent, which spares a copy

WORTH_CUTTING = 2**24  # bytes

AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True)
class RoundLength:
    """Length of rounds: few steps while the weights change fast, then a part of the steps done so far.

    first : steps of a share in the first rounds
    growth : part of the steps done so far
    ending : largest part of the remaining steps

    docs/measured/scale.md has the measurements behind them.
    """

    first: int
    growth: float
    ending: float | None = None


class Mixer(ABC, Generic[AnyState]):
    """Cut the state into shares and put the changes back."""

    round_length: ClassVar[RoundLength] = RoundLength(128, 0.1)
    neighbours = 1  # workers that share a machine's memory

    def __init__(self, state: AnyState) -> None:
        self.state = state

    def lay_out(self, Q: sparse.csr_array, D: sparse.csr_array) -> LaidOut:
        """Texts as a worker's kernel reads them."""
        return LaidOut(aligned(kernel_rows(Q)), None if D is Q else aligned(kernel_rows(D)))

    def n_blocks(self, n_shares: int) -> int:
        """Return the number of blocks of a change, one for each worker that adds blocks up."""
        return n_shares

    @abstractmethod
    def share(self, texts: LaidOut, prefs: Preferences, common: dict[str, Any], total_rate: float) -> Share:
        """Make the share for some preferences; the rates of all steps of the round add up to ``total_rate``."""

    @abstractmethod
    def mix(self, changes: Mapping[str, list[Any]], total_rate: float) -> None:
        """Add the changes of a round, block after block, and shrink by the rates of the round."""


class DiagonalMixer(Mixer[DiagonalState]):
    def share(self, texts: LaidOut, prefs: Preferences, common: dict[str, Any], total_rate: float) -> Share:
        words = words_of(texts.Q, prefs.query, self.state.weights.size)
        return DiagonalShare(**common, n_terms=self.state.weights.size, weights=some_rows(self.state.weights, words))

    def mix(self, changes: Mapping[str, list[Any]], total_rate: float) -> None:
        add_all(self.state.weights, changes["weights"])


class LowRankMixer(Mixer[LowRankState]):
    def __init__(self, state: LowRankState) -> None:
        super().__init__(state)
        if state.cosine:
            raise ParameterError("normalise='latent' is learned in one process; leave it out on a cluster")

    def share(self, texts: LaidOut, prefs: Preferences, common: dict[str, Any], total_rate: float) -> Share:
        state = self.state
        n, m = state.shape
        query_words = words_of(texts.Q, prefs.query, n)
        doc_words = words_of(texts.Q if texts.D is None else texts.D, np.concatenate([prefs.better, prefs.worse]), m)
        diagonal: SomeRows | float | None = None
        if state.diagonal.size:
            diagonal = some_rows(state.diagonal, query_words) if state.learn_diagonal else float(state.diagonal[0])
        return LowRankShare(
            **common,
            shape=state.shape,
            U=some_rows(state.U, query_words | doc_words if state.tied else query_words),
            V=None if state.tied else some_rows(state.V, doc_words),
            diagonal=diagonal,
            rare=state.rare,
            scale_documents=state.scale_documents,
            learn_documents=state.learn_documents,
        )

    def n_blocks(self, n_shares: int) -> int:
        # A small change is sooner added up than cut.
        return min(n_shares, 1 + (self.state.U.nbytes + self.state.V.nbytes) // WORTH_CUTTING)

    def mix(self, changes: Mapping[str, list[Any]], total_rate: float) -> None:
        for name, blocks in changes.items():
            if name == "diagonal":
                add_all(self.state.diagonal, blocks)
                continue
            array = self.state.U if name == "U" else self.state.V
            for change in blocks:
                array[change.rows] += change.values * change.agreed().astype(np.float32)[:, None]


class SparseMixer(Mixer[SparseState]):
    """Between rounds W is settled, so sending rows is copying rows."""

    # All of W goes to the workers and back, so rounds cost more; sums of it stay calm. A long last round would shrink
    # away at once what was learned in it.
    round_length = RoundLength(512, 0.5, ending=0.5)

    def __init__(self, state: SparseState) -> None:
        super().__init__(state)
        if state.thinning is not None:
            raise ParameterError(
                "sparsify='thin' cuts all of W while it learns, which a cluster does not; use 'shrink'"
            )
        if state.never is not None:
            raise ParameterError("pairs that are never learned are kept on one machine, not on a cluster")
        live = state.live()
        if not state.frozen:
            # What is owed so far, and the rates that are pending, are taken with the first round.
            cum = np.float32(state.cum)
            live.data = np.where(live.data > 0, live.data - cum, live.data + cum)
        self._kind = kind_of_columns(state.shape[1])
        self._entries = CsrRows(live.indptr.astype(np.int64), live.indices.astype(self._kind), live.data)
        self._pending = float(state.shrinkage[1])
        # Where the entries are to be after the next round, and where after the one that follows.
        self._buffers: tuple[EntryBuffers, EntryBuffers] = (
            allocate_entries(0, self._kind),
            allocate_entries(0, self._kind),
        )
        self._put_back()

    def lay_out(self, Q: sparse.csr_array, D: sparse.csr_array) -> LaidOut:
        inputs = self.state.kernel_input(Q, D)  # which has the columns of D in another order
        return LaidOut(aligned(inputs.Q), inputs.D, (Q, D) if self.state.around_identity else None)

    def share(self, texts: LaidOut, prefs: Preferences, common: dict[str, Any], total_rate: float) -> Share:
        state = self.state
        marked = words_of(texts.Q, prefs.query, state.shape[0])
        rows = np.flatnonzero(marked).astype(np.int32)
        entries = self._entries if len(rows) == state.shape[0] else _take(self._entries, rows)
        return SparseShare(
            **common,
            shape=state.shape,
            rows=rows,
            entries=entries,
            frozen=state.frozen,
            # If no share changes a zero by more than its part of what the round shrinks, it is zero after it.
            least=self._shrinkage(total_rate) / common["n_shares"],
            max_memory=state.max_memory,
            neighbours=self.neighbours,
        )

    def mix(self, changes: Mapping[str, list[Any]], total_rate: float) -> None:
        state = self.state
        blocks: list[SparseChange] = changes["W"]
        n = state.shape[0]
        change_row = np.full(n, -1, dtype=np.int64)
        before = 0
        for change in blocks:
            change_row[change.rows] = before + np.arange(len(change.rows))
            before += len(change.rows)
        shrink, stacked = self._shrinkage(total_rate), _stacked(blocks)
        free, taken = self._buffers
        needed = len(self._entries.indices) + len(stacked.indices)
        if needed > len(free[0]):
            free = allocate_entries(2 * needed, self._kind)
        self._entries = merge(
            self._entries, np.arange(n), stacked, change_row, shrink=shrink, keep=state.frozen, buffers=free
        )
        self._buffers = taken, free  # used in turn, since getting memory takes as long as merging
        self._pending = 0.0
        self._put_back()

    def _shrinkage(self, total_rate: float) -> float:
        return 0.0 if self.state.frozen else self.state.l1 * (self._pending + total_rate)

    def _put_back(self) -> None:
        indptr, columns, values = self._entries
        held = sparse.csr_array((values, columns.astype(np.int32), indptr), shape=self.state.shape)
        self.state.set_levels(held, 0.0, self._pending)


MIXERS: dict[type[State], type[Mixer[Any]]] = {
    DiagonalState: DiagonalMixer,
    LowRankState: LowRankMixer,
    SparseState: SparseMixer,
}


def mixer_of(state: State) -> Mixer[Any]:
    """Return the mixer of a state of a ranker that learns in rounds."""
    return MIXERS[type(state)](state)


def words_of(texts: CsrRows, rows: NDArray[np.int32], n_terms: int) -> NDArray[np.bool_]:
    """Mark the words of some rows."""
    chosen = np.zeros(len(texts.indptr) - 1, dtype=np.bool_)
    chosen[rows] = True
    marked = np.zeros(n_terms, dtype=np.bool_)
    mark_words(texts.indptr, texts.indices, np.flatnonzero(chosen), marked)
    return marked


def some_rows(array: NDArray[np.float32], marked: NDArray[np.bool_]) -> SomeRows:
    """Return the marked rows, or all rows if most are marked."""
    rows = np.flatnonzero(marked).astype(np.int32)
    return (None, array) if len(rows) >= MOST_OF_THEM * len(array) else (rows, array[rows])


def add_all(weights: NDArray[np.float32], blocks: list[DenseChange]) -> None:
    """Add the changes of one weight per word."""
    for change in blocks:
        weights[change.rows] += change.values[:, 0]


def _take(entries: CsrRows, rows: NDArray[np.int32]) -> CsrRows:
    lengths = np.diff(entries.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    taken = CsrRows(indptr, *allocate_entries(int(indptr[-1]), entries.indices.dtype))
    take_sparse_rows(entries, rows, taken)
    return taken


def _stacked(blocks: list[SparseChange]) -> CsrRows:
    """Stack the rows of all blocks."""
    ends = np.cumsum([0, *(len(change.entries.indices) for change in blocks)])
    indptr = [change.entries.indptr[1:] + end for change, end in zip(blocks, ends[:-1], strict=True)]
    return CsrRows(
        np.concatenate([[0], *indptr]).astype(np.int64),
        np.concatenate([change.entries.indices for change in blocks]),
        np.concatenate([change.entries.data for change in blocks]),
    )
