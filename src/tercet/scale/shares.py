"""Shares of a round: pure functions of the data sent to a worker.

A share gives the same bits on any worker, so a share lost with a worker is run again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.errors import TercetError
from tercet.kernels.rows import CsrRows
from tercet.learn.diagonal import DiagonalState
from tercet.learn.lowrank import LowRankState, Rare
from tercet.learn.matrices import KernelInput
from tercet.learn.sparse import SparseState
from tercet.learn.state import State, physical_memory
from tercet.scale.changes import (
    Change,
    DenseChange,
    Piece,
    SparseChange,
    aligned,
    as_compiled,
    cut_into_blocks,
)

# Some rows of an array: their numbers, None for all, and their values.
SomeRows = tuple[NDArray[np.int32] | None, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class LaidOut:
    """Query and document rows in the layout of the kernels, for all shares of all rounds.

    identity : query and document matrices for a fixed identity in the margins
    """

    Q: CsrRows
    D: CsrRows | None  # None: the same as Q
    identity: tuple[sparse.csr_array, sparse.csr_array] | None = None

    @cached_property
    def own(self) -> tuple[CsrRows, CsrRows]:
        """Copy both out of network buffers once, since reading a buffer is slower."""
        queries = owned(self.Q)
        return queries, queries if self.D is None else owned(self.D)

    def kernel_input(self, Q: CsrRows | None = None) -> KernelInput:
        queries, docs = self.own
        if Q is not None:
            queries = Q
        return KernelInput.from_rows(queries, docs)


@dataclass(frozen=True, eq=False)
class Share:
    """Ordered preferences of one worker with their rates, and the number of blocks of the change.

    texts : texts of the share, if the worker lacks the whole collection
    """

    prefs: tuple[Any, ...]
    rate: NDArray[np.float32]
    margin: float
    n_blocks: int
    n_shares: int
    texts: LaidOut | None

    def learn(self, state: State, inputs: KernelInput) -> NDArray[np.float64]:
        """Take the steps; return violations and loss."""
        tally = np.zeros(2)
        state.advance(inputs, Preferences(*self.prefs), as_compiled(self.rate), self.margin, tally)
        return tally

    def run(self, texts: LaidOut | None) -> Piece:
        mine = self.texts or texts
        assert mine is not None
        return Piece(*self.change(mine))

    def change(self, texts: LaidOut) -> tuple[dict[str, Change], NDArray[np.float64]]:
        """Return the change of each array, and violations and loss."""
        raise NotImplementedError

    def heights(self) -> dict[str, int]:
        """Return the number of rows of each array."""
        raise NotImplementedError

    @property
    def n_bytes(self) -> int:
        return bytes_of(self)


@dataclass(frozen=True, eq=False)
class DiagonalShare(Share):
    n_terms: int
    weights: SomeRows

    def change(self, texts: LaidOut) -> tuple[dict[str, Change], NDArray[np.float64]]:
        state = DiagonalState(spread_out(self.weights, self.n_terms))
        tally = self.learn(state, texts.kernel_input())
        return {"weights": found_in(state.weights, self.weights)}, tally

    def heights(self) -> dict[str, int]:
        return {"weights": self.n_terms}


@dataclass(frozen=True, eq=False)
class LowRankShare(Share):
    """Rows of U and V (None if tied), and rows of a learned diagonal or the value of a fixed one."""

    shape: tuple[int, int]
    U: SomeRows
    V: SomeRows | None
    diagonal: SomeRows | float | None
    rare: Rare | None
    scale_documents: bool
    learn_documents: bool

    def change(self, texts: LaidOut) -> tuple[dict[str, Change], NDArray[np.float64]]:
        U = spread_out(self.U, self.shape[0])
        V = U if self.V is None else spread_out(self.V, self.shape[1])
        learned = isinstance(self.diagonal, tuple)
        if isinstance(self.diagonal, tuple):
            diagonal = spread_out(self.diagonal, self.shape[0])
        else:
            diagonal = np.full(0 if self.diagonal is None else self.shape[0], self.diagonal, dtype=np.float32)
        rare_q, rare_d = self.rare or (None, None)
        state = LowRankState(
            U,
            V,
            diagonal,
            learn_diagonal=learned,
            scale_documents=self.scale_documents,
            rare_query_words=rare_q,
            rare_doc_words=rare_d,
            learn_documents=self.learn_documents,
        )
        tally = self.learn(state, texts.kernel_input())
        changes: dict[str, Change] = {"U": found_in(U, self.U)}
        if self.V is not None and self.learn_documents:
            changes["V"] = found_in(V, self.V)
        if isinstance(self.diagonal, tuple):
            changes["diagonal"] = found_in(diagonal, self.diagonal)
        return changes, tally

    def heights(self) -> dict[str, int]:
        return {"U": self.shape[0], "V": self.shape[1], "diagonal": self.shape[0]}


@dataclass(frozen=True, eq=False)
class SparseShare(Share):
    """Settled rows of W for the share's query words, in ascending order."""

    shape: tuple[int, int]
    rows: NDArray[np.int32]
    entries: CsrRows
    frozen: bool
    least: float  # a change of an entry that is zero must be larger than this to be sent
    max_memory: int | None
    neighbours: int  # workers that share this machine's memory

    def change(self, texts: LaidOut) -> tuple[dict[str, Change], NDArray[np.float64]]:
        before = aligned(self.entries)
        indptr, columns, values = before
        levels = sparse.csr_array((values, columns.astype(np.int32), indptr), shape=(len(self.rows), self.shape[1]))
        state = SparseState(
            levels,
            np.arange(self.shape[1], dtype=np.int32),
            max_memory=self.max_memory or physical_memory() // (2 * self.neighbours),
            l1=0.0,
            shrink_every=1,
            around_identity=texts.identity is not None,
            frozen=self.frozen,
        )
        # Rows of W are numbered as they were sent, so the query's words are, too.
        words, position = texts.own[0], np.zeros(self.shape[0], dtype=np.int32)
        position[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        inputs = texts.kernel_input(CsrRows(words.indptr, position[words.indices], words.data))
        state.texts = texts.identity
        tally = self.learn(state, inputs)
        live = state.live()
        after = CsrRows(live.indptr.astype(np.int64), live.indices.astype(columns.dtype), live.data)
        return {"W": SparseChange.between(self.rows, before, after, self.least)}, tally

    def heights(self) -> dict[str, int]:
        return {"W": self.shape[0]}


def run_share(data: Any, share: Any) -> list[Piece]:
    """Take the steps of a share; return the change, one piece for each block of rows."""
    began = time.perf_counter()
    try:
        piece = share.run(data)
    except TercetError as error:
        # Said in words: an error with two bases does not survive the way to another process.
        piece = Piece(refusal=(type(error).__name__, str(error)))
    return cut_into_blocks(replace(piece, seconds=time.perf_counter() - began), share.heights(), share.n_blocks)


def spread_out(some: SomeRows, height: int) -> NDArray[np.float32]:
    """Make an array with these rows; other rows are uninitialized and never read."""
    rows, values = some
    if rows is None:
        return np.array(values, order="C")
    whole = np.empty((height, *values.shape[1:]), dtype=values.dtype)
    whole[rows] = values
    return whole


def owned(rows: CsrRows) -> CsrRows:
    """Return rows in writable memory of this process."""
    return CsrRows(*map(_owned, rows))


def _owned(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.flags.owndata and array.flags.writeable else array.copy()


def found_in(whole: NDArray[np.float32], before: SomeRows) -> DenseChange:
    rows, values = before
    return DenseChange.between(rows, values, whole if rows is None else whole[rows])


def bytes_of(value: Any) -> int:
    """Return the bytes of all arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if sparse.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if is_dataclass(value):
        return sum(bytes_of(getattr(value, item.name)) for item in fields(value))
    return sum(map(bytes_of, value)) if isinstance(value, tuple) else 0
