"""Learner of single preferences: learned weights are added to constant weights of any kind.

A step for a query q, a better document b and a worse document w changes W along ``X = q (b - w)'``, as in every learner
here. The step is passive-aggressive (PA-I): with s the scores by the constant weights, and m the present margin of b,

    target = max(margin max(|s(b)|, |s(w)|), least_margin unit |q| max(|b|, |w|))
    step   = min(target - m, rate weight target) X / |X|²        and 0 if m reaches the target

All lengths are relative: one setting suits models of every scale. The service learns by this rule with bounded steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences
from tercet.errors import DivergedError, InputError
from tercet.kernels.online import FREE, fill_table, online_advance
from tercet.learn.matrices import kernel_rows
from tercet.weights import Sparse, Weights
from tercet.weights.value import unit_of

CHUNK = 4096  # preferences planned at once
LEAST_SLOTS = 1024


@dataclass(frozen=True)
class OnlineRule:
    """Sizes of the steps of preferences, with the defaults of the service.

    Attributes
    ----------
    rate : largest change of the margin by a preference of weight 1, as a share of its target
    margin : target lead of the better document, as a share of the larger score of the two
    least_margin : target lead for scores near 0, as a share of the score of a document with the words of the query
    pairs : largest number of word pairs changed by a preference, by importance; 0 for any
    step : largest change by a preference, as a Euclidean length, in units of the base's usual weight of a word on
        itself; 0 for any
    weight : largest learned weight of a pair, in these units; 0 for any
    """

    rate: float = 50.0
    margin: float = 0.05
    least_margin: float = 0.01
    pairs: int = 1024
    step: float = 1.0
    weight: float = 1.0

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


class OnlineLearner:
    """Weights of any kind, and a sparse part learned from preferences.

    Parameters
    ----------
    base : constant weights
    rule : sizes of steps
    n_words : number of learned columns, from the left; other columns count in scores of the base alone. None learns all

    Notes
    -----
    A step costs the pairs of a query's words with the words of two documents, and two scores of the base. Preferences
    may come in any portions, with the same bits.

    Examples
    --------
    >>> from tercet.weights import Identity
    >>> X = sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> learner = OnlineLearner(Weights([Identity(n_terms=3)]), OnlineRule(rate=1.0, margin=0.5))
    >>> learner.learn(X, Preferences([0], [1], [0]), X)
    Learned(n_preferences=1, n_violations=1, loss=1.5)
    >>> print(learner.weights.sparse.toarray().round(2))
    [[-0.25  0.25  0.  ]
     [ 0.    0.    0.  ]
     [ 0.    0.    0.  ]]
    """

    def __init__(self, base: Weights, rule: OnlineRule | None = None, *, n_words: int | None = None) -> None:
        self.base = base
        self.rule = OnlineRule() if rule is None else rule
        self.unit = unit_of(base)
        self.n_steps = 0
        self._n_words = n_words
        self._bounds = np.array([self.rule.pairs, self.rule.step * self.unit, self.rule.weight * self.unit])
        self._table, self._n_used = _empty_table(LEAST_SLOTS), 0

    # -- what was learned ---------------------------------------------------------------------------------------

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rising keys of learned pairs, row × n_columns + column, and their weights."""
        keys, weights = self._table
        learned = (keys != FREE) & (weights != 0)
        order = np.argsort(keys[learned])
        return keys[learned][order], weights[learned][order]

    def matrix(self) -> sparse.csr_array:
        """Return the learned weights as CSR float32."""
        keys, weights = self.pairs()
        rows, columns = np.divmod(keys, self.base.shape[1])
        indptr = np.searchsorted(rows, np.arange(self.base.shape[0] + 1))
        data = weights.astype(np.float32)
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
        margins, targets, reach = self._plan(Q, prefs, D)
        if lead is not None:
            margins = margins + lead
        chunk = (prefs.query, prefs.better, prefs.worse, margins, targets, reach)
        queries, docs = kernel_rows(self.words_of(Q)), kernel_rows(self.words_of(D))
        n_words = 2 * int(np.diff(docs[0]).max(initial=0))
        n_pairs = n_words * int(np.diff(queries[0]).max(initial=0))
        scratch = (np.empty(n_words, np.int32), np.empty(n_words, np.float32), *_step_room(n_pairs))
        start = 0
        while start < len(prefs):
            part = tuple(column[start:] for column in chunk)
            steps, self._n_used = online_advance(
                self._table,
                self._n_used,
                queries,
                docs,
                self.base.shape[1],
                part,
                self._bounds,
                scratch,
                tally,
            )
            start += steps
            self.n_steps += steps
            if start < len(prefs):
                self._fill(*self.pairs(), n_pairs)

    def _plan(
        self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the base's margin, the target, and the largest share of the target of each preference."""
        q, better, worse = Q[prefs.query], D[prefs.better], D[prefs.worse]
        first, second = self.base.score_rows(q, better), self.base.score_rows(q, worse)
        q, better, worse = self.words_of(q), self.words_of(better), self.words_of(worse)
        longer = np.maximum(_lengths(better), _lengths(worse))
        target = np.maximum(
            self.rule.margin * np.maximum(np.abs(first), np.abs(second)),
            self.rule.least_margin * self.unit * _lengths(q) * longer,
        )
        if prefs.margin is not None:
            target *= prefs.margin
        reach = np.full(len(prefs), self.rule.rate)
        if prefs.weight is not None:
            reach *= prefs.weight
        return first - second, target, reach

    def with_base(self, base: Weights) -> OnlineLearner:
        """Return a learner with the same learned weights over a base with more columns at the end."""
        learner = OnlineLearner(base, self.rule, n_words=self._n_words)
        keys, weights = self.pairs()
        rows, columns = np.divmod(keys, self.base.shape[1])
        learner.unit, learner._bounds, learner.n_steps = self.unit, self._bounds, self.n_steps
        learner._fill(rows * base.shape[1] + columns, weights, 0)
        return learner

    def words_of(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Return the learned columns."""
        return rows if self._n_words is None else sparse.csr_array(rows[:, : self._n_words])

    def _fill(self, keys: NDArray[np.int64], weights: NDArray[np.float64], n_more: int) -> None:
        """Make a table of these pairs, with slots for more."""
        self._table = _empty_table(max(LEAST_SLOTS, 1 << int(4 * (keys.size + n_more)).bit_length()))
        self._n_used = keys.size
        fill_table(self._table, keys, weights)


def _empty_table(n_slots: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.full(n_slots, FREE), np.zeros(n_slots)


def _step_room(n_pairs: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Allocate buffers for the keys of a step, its changes, and their slots in the table."""
    return np.empty(n_pairs, np.int64), np.empty(n_pairs), np.empty(n_pairs, np.int64)


def _lengths(rows: sparse.csr_array) -> NDArray[np.float64]:
    squared = rows.astype(np.float64).multiply(rows.astype(np.float64))
    return np.sqrt(np.asarray(squared.sum(axis=1)).ravel())
