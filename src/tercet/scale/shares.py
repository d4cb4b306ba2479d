"""Shares of a round of a low-rank fit: made by the driver, learned by a worker, mixed into the weights by the driver.

A share is a pure function of its data and gives the same bits on any worker, so a share lost with a worker is run
again.
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
from tercet.errors import ParameterError, TercetError
from tercet.kernels.rows import CsrRows
from tercet.learn.lowrank import LowRankState, Rare
from tercet.learn.matrices import KernelInput, kernel_rows
from tercet.learn.state import State
from tercet.scale.changes import Result, RowChanges

# Rows of an array: row numbers, None for all rows, and values.
SelectedRows = tuple[NDArray[np.int32] | None, NDArray[np.float32]]

_ALL_ROWS = 0.75  # share of selected rows from which all rows are sent, to spare a copy


@dataclass(frozen=True, eq=False)
class Texts:
    """Query and document rows in the layout of the kernels; ``D`` is None for the rows of ``Q``."""

    Q: CsrRows
    D: CsrRows | None

    @classmethod
    def from_matrices(cls, Q: sparse.csr_array, D: sparse.csr_array) -> Texts:
        return cls(_aligned(kernel_rows(Q)), None if D is Q else _aligned(kernel_rows(D)))

    @cached_property
    def inputs(self) -> KernelInput:
        """Copies outside network buffers, which are slower to read."""
        queries = CsrRows(*map(_owned, self.Q))
        return KernelInput.from_rows(queries, queries if self.D is None else CsrRows(*map(_owned, self.D)))


@dataclass(frozen=True, eq=False)
class Share:
    """Ordered preferences of one worker with their rates, and the rows of the factors for the words of their texts.

    sent_texts : texts of the share, if the worker lacks the whole collection
    V : None for tied factors
    diagonal : rows of a learned diagonal, the value of a fixed one, or None
    """

    prefs: tuple[Any, ...]
    rate: NDArray[np.float32]
    margin: float
    sent_texts: Texts | None
    shape: tuple[int, int]
    U: SelectedRows
    V: SelectedRows | None
    diagonal: SelectedRows | float | None
    rare: Rare | None
    scale_documents: bool
    learn_documents: bool

    @classmethod
    def from_state(cls, state: LowRankState, texts: Texts, prefs: Preferences, **others: Any) -> Share:
        """Make the share of some preferences from the weights at the start of a round."""
        n, m = state.shape
        query_words = words_of(texts.Q, prefs.query, n)
        doc_words = words_of(texts.Q if texts.D is None else texts.D, np.concatenate([prefs.better, prefs.worse]), m)
        diagonal: SelectedRows | float | None = None
        if state.diagonal.size:
            diagonal = _selected(state.diagonal, query_words) if state.learn_diagonal else float(state.diagonal[0])
        return cls(
            prefs=(prefs.query, prefs.better, prefs.worse, prefs.weight, prefs.margin),
            shape=state.shape,
            U=_selected(state.U, query_words | doc_words if state.tied else query_words),
            V=None if state.tied else _selected(state.V, doc_words),
            diagonal=diagonal,
            rare=state.rare,
            scale_documents=state.scale_documents,
            learn_documents=state.learn_documents,
            **others,
        )

    def run(self, texts: Texts | None) -> Result:
        """Take the steps and return the changes of the factors and of a learned diagonal."""
        texts = self.sent_texts or texts
        assert texts is not None
        U = _scattered(self.U, self.shape[0])
        V = U if self.V is None else _scattered(self.V, self.shape[1])
        if isinstance(self.diagonal, tuple):
            diagonal = _scattered(self.diagonal, self.shape[0])
        else:
            diagonal = np.full(0 if self.diagonal is None else self.shape[0], self.diagonal, dtype=np.float32)
        rare_query_words, rare_doc_words = self.rare or (None, None)
        state = LowRankState(
            U,
            V,
            diagonal,
            learn_diagonal=isinstance(self.diagonal, tuple),
            scale_documents=self.scale_documents,
            rare_query_words=rare_query_words,
            rare_doc_words=rare_doc_words,
            learn_documents=self.learn_documents,
        )
        tally = np.zeros(2)
        state.advance(texts.inputs, Preferences(*self.prefs), _as_compiled(self.rate), self.margin, tally)
        changes = {"U": _changes(U, self.U)}
        if self.V is not None and self.learn_documents:
            changes["V"] = _changes(V, self.V)
        if isinstance(self.diagonal, tuple):
            changes["diagonal"] = _changes(diagonal, self.diagonal)
        return Result(changes, tally)

    @property
    def n_bytes(self) -> int:
        return bytes_of(self)


def learns_in_rounds(state: State) -> LowRankState:
    """Return the state, or raise `ParameterError` if a cluster does not learn it."""
    assert isinstance(state, LowRankState)
    if state.cosine:
        raise ParameterError("normalize='latent' is learned in one process; leave it out on a cluster")
    return state


def run_share(texts: Texts | None, share: Share) -> Result:
    """Take the steps of a share; an error is a result, too."""
    began = time.perf_counter()
    try:
        result = share.run(texts)
    except TercetError as error:
        # Name and message, since an exception with two bases cannot be sent to another process.
        return Result(refusal=(type(error).__name__, str(error)))
    return replace(result, seconds=time.perf_counter() - began)


def mix(state: LowRankState, total: Result) -> None:
    """Add the summed changes of all shares to the weights."""
    for name, change in total.changes.items():
        if name == "diagonal":  # scores are linear in the diagonal, so the whole sum is taken
            state.diagonal[change.rows] += change.values[:, 0]
        else:
            factors = state.U if name == "U" else state.V
            factors[change.rows] += change.mixed()


def words_of(texts: CsrRows, rows: NDArray[np.int32], n_terms: int) -> NDArray[np.bool_]:
    """Mark the words of some rows."""
    chosen = np.unique(rows)
    lengths = np.diff(texts.indptr)[chosen]
    first = texts.indptr[chosen] - (np.cumsum(lengths) - lengths)
    entries = np.repeat(first, lengths) + np.arange(lengths.sum())
    marked = np.zeros(n_terms, dtype=np.bool_)
    marked[texts.indices[entries]] = True
    return marked


def bytes_of(value: Any) -> int:
    """Return the bytes of all arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        return sum(bytes_of(getattr(value, item.name)) for item in fields(value))
    return sum(map(bytes_of, value)) if isinstance(value, tuple) else 0


def _selected(array: NDArray[np.float32], marked: NDArray[np.bool_]) -> SelectedRows:
    """Return the marked rows, or all rows if most are marked."""
    rows = np.flatnonzero(marked).astype(np.int32)
    return (None, array) if len(rows) >= _ALL_ROWS * len(array) else (rows, array[rows])


def _scattered(selected: SelectedRows, height: int) -> NDArray[np.float32]:
    """Make an array with these rows; other rows are uninitialized and never read."""
    rows, values = selected
    if rows is None:
        return np.array(values, order="C")
    whole = np.empty((height, *values.shape[1:]), dtype=values.dtype)
    whole[rows] = values
    return whole


def _changes(after: NDArray[np.float32], before: SelectedRows) -> RowChanges:
    rows, values = before
    return RowChanges.between(rows, values, after if rows is None else after[rows])


def _owned(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.flags.owndata and array.flags.writeable else array.copy()


def _aligned(rows: CsrRows) -> CsrRows:
    return CsrRows(*map(_as_compiled, rows))


def _as_compiled(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in the layout of the compiled kernels; a received array may be read-only or unaligned."""
    return np.require(array, requirements=["C", "A", "W"])
