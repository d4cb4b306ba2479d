"""Learner of single preferences: learned weights are added to constant weights of any kind.

A step for a query q, a better document b and a worse document w changes W along ``X = q (b - w)'``, as in every learner
here. The step is passive-aggressive (PA-I): with s the scores by the constant weights, and m the present margin of b,

    target = max(margin max(|s(b)|, |s(w)|), least_margin unit |q| max(|b|, |w|))
    step   = min(target - m, rate weight target) X / |X|²        and 0 if m reaches the target

All lengths are relative: one setting suits models of every scale. The service learns by this rule with bounded steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, DivergedError, InputError, MemoryLimitError
from tercet.kernels.online import (
    FREE,
    fill_table,
    online_advance,
)
from tercet.learn.matrices import kernel_rows
from tercet.store.codec import decode, encode
from tercet.store.schema import Shape
from tercet.weights import Sparse, Weights
from tercet.weights.value import unit_of

SHRINK_EVERY = 100  # steps
CHUNK = 4096  # preferences that are planned at once
LEAST_SLOTS = 1024
SLOT_BYTES = 16


@dataclass(frozen=True)
class OnlineRule:
    """Sizes of the steps of preferences.

    Attributes
    ----------
    rate : largest change of the margin by a preference of weight 1, as a share of its target
    margin : target lead of the better document, as a share of the larger score of the two
    least_margin : target lead for scores near 0, as a share of the score of a document with the words of the query
    l1 : shrinkage of every learned weight by each step, as a share of the step's length. Weights without further
        preferences return to zero after some ``rate / l1`` steps
    pairs : largest number of word pairs changed by a preference, by importance; 0 for any
    step : largest change by a preference, as a Euclidean length, in units of the base's usual weight of a word on
        itself; 0 for any
    weight : largest learned weight of a pair, in these units; 0 for any
    """

    rate: float = 0.4
    margin: float = 0.05
    least_margin: float = 0.01
    l1: float = 2e-7
    pairs: int = 0
    step: float = 0.0
    weight: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not is_number(value, 0):
                raise InputError(f"{name} must be a finite number from 0; got {value!r}")
        if not (self.rate and (self.margin or self.least_margin)):
            raise InputError("rate and one of the margins must be above 0, or nothing is learned")


@dataclass(frozen=True)
class Learned:
    """Result of some preferences: their number, the number of violations, and the summed loss."""

    n_preferences: int
    n_violations: int
    loss: float


@dataclass(frozen=True, eq=False)
class OnlineState:
    """Learned weights in a checkpoint: levels of pairs by rising key, and their owed shrinkage."""

    shape: tuple[int, int]
    n_steps: int
    cum: float
    pending: float
    keys: Annotated[NDArray[np.int64], Shape("n_pairs")]
    levels: Annotated[NDArray[np.float64], Shape("n_pairs")]

    def __post_init__(self) -> None:
        inside = self.keys.size == 0 or (self.keys[0] >= 0 and self.keys[-1] < self.shape[0] * self.shape[1])
        if not inside or (np.diff(self.keys) <= 0).any():
            raise InputError("keys of learned pairs do not rise, or are beyond the shape of the weights")


class OnlineLearner:
    """Weights of any kind, and a sparse part learned from preferences.

    Parameters
    ----------
    base : constant weights
    rule : sizes of steps
    max_memory : bytes of the learned part while learning; None for any
    n_words : number of learned columns, from the left; other columns count in scores of the base alone. None learns all

    Notes
    -----
    A step costs the pairs of a query's words with the words of two documents, and two scores of the base. Preferences
    may come in any portions, with the same bits.

    Examples
    --------
    >>> from tercet.weights import Identity
    >>> X = sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> learner = OnlineLearner(Weights([Identity(n_terms=3)]), OnlineRule(rate=1.0, margin=0.5, l1=0.0))
    >>> learner.learn(X, Preferences([0], [1], [0]), X)
    Learned(n_preferences=1, n_violations=1, loss=1.5)
    >>> print(learner.weights.sparse.toarray().round(2))
    [[-0.25  0.25  0.  ]
     [ 0.    0.    0.  ]
     [ 0.    0.    0.  ]]
    """

    def __init__(
        self,
        base: Weights,
        rule: OnlineRule | None = None,
        *,
        max_memory: int | None = 2**30,
        n_words: int | None = None,
    ) -> None:
        self.base = base
        self._n_words = n_words
        self.rule = OnlineRule() if rule is None else rule
        self.unit = unit_of(base)
        self.n_steps = 0
        self._max_memory = max_memory
        self._shrinkage = np.array([0.0, 0.0, self.rule.l1, SHRINK_EVERY])
        self._bounds = np.array([self.rule.pairs, self.rule.step * self.unit, self.rule.weight * self.unit])
        self._table, self._n_used = _empty_table(LEAST_SLOTS), 0

    # -- what was learned ---------------------------------------------------------------------------------------

    @property
    def _cum(self) -> float:
        return float(self._shrinkage[0])

    def _live(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rising keys of pairs with a weight, and their levels."""
        keys, levels = self.pairs()
        order = np.argsort(keys)
        return keys[order], levels[order]

    def matrix(self) -> sparse.csr_array:
        """Return the learned weights as CSR float32."""
        keys, levels = self._live()
        rows, columns = np.divmod(keys, self.base.shape[1])
        indptr = np.searchsorted(rows, np.arange(self.base.shape[0] + 1))
        data = (levels - np.copysign(self._cum, levels)).astype(np.float32)
        return sparse.csr_array((data, columns.astype(np.int32), indptr), shape=self.base.shape)

    @property
    def weights(self) -> Weights:
        """Parts of the base and, last, the learned part."""
        return Weights([*self.base.parts, Sparse(weights=self.matrix())])

    # -- many preferences ---------------------------------------------------------------------------------------

    def learn(self, Q: Any, prefs: Preferences, D: Any, lead: NDArray[np.float64] | None = None) -> Learned:
        """Take one step for each preference, in their order; skip texts without words.

        ``lead`` is an extra lead of each better document, from outside the weights.
        """
        queries, docs = check_matrix(Q, "Q"), check_matrix(D, "D")
        prefs.check_rows(queries.shape[0], docs.shape[0])
        tally = np.zeros(2)
        for start in range(0, len(prefs), CHUNK):
            stop = start + CHUNK
            self._advance(queries, prefs[start:stop], docs, tally, None if lead is None else lead[start:stop])
        if not np.isfinite(tally).all():
            raise DivergedError(f"the loss is no longer finite after {self.n_steps} steps; a smaller rate is needed")
        return Learned(len(prefs), int(tally[0]), float(tally[1]))

    def _advance(
        self,
        Q: sparse.csr_array,
        prefs: Preferences,
        D: sparse.csr_array,
        tally: NDArray[np.float64],
        lead: NDArray[np.float64] | None,
    ) -> None:
        margins, targets, reach, lengths = self._plan(Q, prefs, D)
        if lead is not None:
            margins = margins + lead
        chunk = (prefs.query, prefs.better, prefs.worse, margins, targets, reach, lengths)
        queries, docs = kernel_rows(self.words_of(Q)), kernel_rows(self.words_of(D))
        n_words = 2 * int(np.diff(docs[0]).max(initial=0))
        n_pairs = n_words * int(np.diff(queries[0]).max(initial=0))
        scratch = (np.empty(n_words, np.int32), np.empty(n_words, np.float32), *_step_room(n_pairs))
        done = 0
        while done < len(prefs):
            part = tuple(column[done:] for column in chunk)
            steps, self._n_used = online_advance(
                self._table,
                self._n_used,
                queries,
                docs,
                self.base.shape[1],
                part,
                self._shrinkage,
                self.n_steps,
                self._bounds,
                scratch,
                tally,
            )
            done += steps
            self.n_steps += steps
            if done < len(prefs):
                self._reserve(n_pairs)

    def _plan(
        self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the base's margin, the target, the largest share of the target, and the length of each preference."""
        q, better, worse = Q[prefs.query], D[prefs.better], D[prefs.worse]
        first, second = self.base.score_rows(q, better), self.base.score_rows(q, worse)
        q, better, worse = self.words_of(q), self.words_of(better), self.words_of(worse)
        q_length, difference = _lengths(q), _lengths(better - worse)
        longer = np.maximum(_lengths(better), _lengths(worse))
        target = np.maximum(
            self.rule.margin * np.maximum(np.abs(first), np.abs(second)),
            self.rule.least_margin * self.unit * q_length * longer,
        )
        if prefs.margin is not None:
            target *= prefs.margin
        size = q_length * difference
        length = np.divide(target, size, out=np.zeros_like(target), where=size > 0)  # 0: nothing to learn from
        reach = np.full(len(prefs), self.rule.rate)
        if prefs.weight is not None:
            reach *= prefs.weight
        return first - second, target, reach, length

    def with_base(self, base: Weights) -> OnlineLearner:
        """Return a learner with the same learned weights over a base with more columns at the end."""
        other = OnlineLearner(base, self.rule, max_memory=self._max_memory, n_words=self._n_words)
        keys, levels = self._live()
        rows, columns = np.divmod(keys, self.base.shape[1])
        other.unit, other._bounds, other._shrinkage = self.unit, self._bounds, self._shrinkage.copy()
        other.n_steps, other._n_used = self.n_steps, keys.size
        other._table = _empty_table(max(LEAST_SLOTS, 1 << int(4 * keys.size).bit_length()))
        fill_table(other._table, rows * base.shape[1] + columns, levels)
        return other

    def words_of(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Return the learned columns."""
        return rows if self._n_words is None else sparse.csr_array(rows[:, : self._n_words])

    def _reserve(self, n_pairs: int) -> None:
        """Make a table with room for ``n_pairs`` more pairs, without pairs of weight zero."""
        keys, levels = self._live()
        n_slots = max(LEAST_SLOTS, 1 << int(4 * (keys.size + n_pairs)).bit_length())
        if self._max_memory is not None and n_slots * SLOT_BYTES > self._max_memory:
            raise MemoryLimitError(
                f"{keys.size:,} learned weights and {n_pairs:,} pairs of a preference need {n_slots * SLOT_BYTES:,} "
                f"bytes; {self._max_memory:,} are allowed"
            )
        self._table, self._n_used = _empty_table(n_slots), keys.size
        fill_table(self._table, keys, levels)

    # -- saving -------------------------------------------------------------------------------------------------

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the keys of pairs with a weight, row × n_columns + column, and their levels."""
        keys, levels = self._table
        live = (keys != FREE) & (np.abs(levels) > self._cum)
        return keys[live], levels[live]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the learned state for a checkpoint, without the base."""
        cum, pending = self._shrinkage[:2].tolist()
        return encode(OnlineState(self.base.shape, self.n_steps, cum, pending, *self._live()))

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore the result of ``to_state``."""
        state = decode(OnlineState, meta, arrays, where="what was learned online")
        if state.shape != self.base.shape:
            raise DamagedBundleError(f"what was learned on has shape {state.shape}, its base {self.base.shape}")
        self._shrinkage[:2] = state.cum, state.pending
        self.n_steps = state.n_steps
        n_slots = max(LEAST_SLOTS, 1 << int(4 * state.keys.size).bit_length())
        self._table, self._n_used = _empty_table(n_slots), state.keys.size
        fill_table(self._table, state.keys, state.levels)


def _empty_table(n_slots: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.full(n_slots, FREE), np.zeros(n_slots)


def _step_room(n_pairs: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Allocate buffers for the keys of a step, its changes, and their slots in the table."""
    return np.empty(n_pairs, np.int64), np.empty(n_pairs), np.empty(n_pairs, np.int64)


def _lengths(rows: sparse.csr_array) -> NDArray[np.float64]:
    squared = rows.astype(np.float64).multiply(rows.astype(np.float64))
    return np.sqrt(np.asarray(squared.sum(axis=1)).ravel())
