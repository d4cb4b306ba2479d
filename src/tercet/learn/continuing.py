"""Learning on: what new preferences add to weights of any kind, which themselves stay as they are.

A step for a query q, a better document b and a worse one w changes W along ``q (b - w)'``, as every learner here does.
All its lengths are relative, so that one setting suits all models: the better document is to be ahead by a share of the
larger of the two scores, and one step goes a share of the way there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, DivergedError, InputError
from tercet.kernels.compiler import announce_compilation
from tercet.kernels.rows import Chunk
from tercet.learn.matrices import KernelInput, check_matrix
from tercet.learn.sparse_state import SparseState
from tercet.weights import Sparse, Weights
from tercet.weights.unit import unit_of

SHRINK_EVERY = 100  # steps
CHUNK = 4096  # preferences that are planned at once


@dataclass(frozen=True)
class Pace:
    """How far preferences move the weights.

    Attributes
    ----------
    rate : share of its target that one step adds to the margin of its preference
    margin : by how much the better document is to be ahead, as a share of the larger score of the two
    least_margin : the same where both scores are near 0, as a share of what a document of the same words would get
    l1 : by how much each step shrinks every weight it has learned, as a share of the step's length. Weights that no
        preference asks for any more return to zero after some ``rate / l1`` steps
    """

    rate: float = 0.1
    margin: float = 0.05
    least_margin: float = 0.01
    l1: float = 2e-7

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not is_number(value, 0):
                raise InputError(f"{name} must be a finite number from 0; got {value!r}")
        if not (self.rate and (self.margin or self.least_margin)):
            raise InputError("rate and one of the margins must be above 0, or nothing is learned")


class _Added(SparseState):
    """The learned part; ``base_margins`` are those of the weights that stay, for the chunk that is learned from."""

    base_margins: NDArray[np.float32]

    def _margins_of_identity(
        self, query: NDArray[np.int32], better: NDArray[np.int32], worse: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        return self.base_margins


class Continued:
    """Weights of any kind, and the sparse part that preferences add to them.

    Parameters
    ----------
    base : what is learned on from; it never changes
    frequency : in how many documents each document word occurs, for speed: (n_doc_terms,)
    pace : how far steps go
    max_memory : bytes that the learned part may take while learning

    Notes
    -----
    A step costs the pairs of a query's words with those of two documents, and two scores of the base. Preferences may
    come in any portions: the bits are the same.

    Examples
    --------
    >>> from tercet.weights import Identity
    >>> X = sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> learner = Continued(Weights([Identity(n_terms=3)]), np.ones(3), Pace(rate=1.0, margin=0.5, l1=0.0))
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
        frequency: NDArray[Any],
        pace: Pace | None = None,
        *,
        max_memory: int = 2**30,
    ) -> None:
        if np.shape(frequency) != (base.shape[1],):
            raise InputError(f"frequency must have one number for each of {base.shape[1]} document words")
        self.base = base
        self.pace = Pace() if pace is None else pace
        self.unit = unit_of(base)
        self._state = _Added(
            sparse.csr_array(base.shape, dtype=np.float32),
            np.argsort(-np.asarray(frequency), kind="stable").astype(np.int32),
            max_memory=max_memory,
            l1=self.pace.l1,
            shrink_every=SHRINK_EVERY,
        )

    @property
    def n_steps(self) -> int:
        """Preferences learned from."""
        return self._state.step

    @property
    def n_weights(self) -> int:
        """Pairs of words that have a learned weight now."""
        return self._state.n_live

    @property
    def weights(self) -> Weights:
        """The base's parts and, last, the learned one."""
        return Weights([*self.base.parts, Sparse(weights=self._state.weights())])

    def learn(self, Q: Any, prefs: Preferences, D: Any) -> Learned:
        """One step for each preference, in their order; those of texts without words are passed over."""
        queries, docs = check_matrix(Q, "Q"), check_matrix(D, "D")
        prefs.check_rows(queries.shape[0], docs.shape[0])
        tally = np.zeros(2)
        if len(prefs):
            inputs = self._state.kernel_input(queries, docs)
            for start in range(0, len(prefs), CHUNK):
                self._advance(inputs, queries, prefs[start : start + CHUNK], docs, tally)
        if not np.isfinite(tally).all():
            raise DivergedError(f"the loss is no longer finite after {self.n_steps} steps; a smaller rate is needed")
        return Learned(len(prefs), int(tally[0]), float(tally[1]))

    def compile(self, say: Callable[[str], None]) -> None:
        """Get ready, and say so where that takes a while; learning does it by itself otherwise."""
        Q, D = (sparse.csr_array((1, width), dtype=np.float32) for width in self.base.shape)
        with announce_compilation(self._state.kernels, say):
            self._advance(self._state.kernel_input(Q, D), Q, Preferences([], [], []), D, np.zeros(2))

    def _advance(
        self,
        inputs: KernelInput,
        Q: sparse.csr_array,
        prefs: Preferences,
        D: sparse.csr_array,
        tally: NDArray[np.float64],
    ) -> None:
        target, step_size, length, self._state.base_margins = self._plan(Q, prefs, D)
        chunk = Chunk(prefs.query, prefs.better, prefs.worse, step_size, length, target)
        self._state.run(inputs, chunk, tally)
        self._state.step += len(prefs)

    def _plan(
        self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """For each preference the margin to reach, the size of a step, its unit of shrinkage, and the base's margin."""
        q, better, worse = Q[prefs.query], D[prefs.better], D[prefs.worse]
        first, second = self.base.score_rows(q, better), self.base.score_rows(q, worse)
        q_length, difference = _lengths(q), _lengths(better - worse)
        longer = np.maximum(_lengths(better), _lengths(worse))
        target = np.maximum(
            self.pace.margin * np.maximum(np.abs(first), np.abs(second)),
            self.pace.least_margin * self.unit * q_length * longer,
        )
        if prefs.margin is not None:
            target *= prefs.margin
        length = np.divide(target, q_length * difference, out=np.zeros_like(target), where=q_length * difference > 0)
        step_size = self.pace.rate * np.divide(
            target, (q_length * difference) ** 2, out=np.zeros_like(target), where=q_length * difference > 0
        )
        if prefs.weight is not None:
            step_size *= prefs.weight
        target[length == 0] = -np.inf  # nothing to learn from, and no violation
        plan = (target, step_size, length, first - second)
        return tuple(np.ascontiguousarray(column, dtype=np.float32) for column in plan)  # type: ignore[return-value]

    # -- saving -------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a checkpoint must keep besides the base."""
        return self._state.to_state()

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Be where ``to_state`` was."""
        state = _Added.from_state(meta, arrays, "what was learned on")
        if state.shape != self.base.shape or not np.array_equal(state.order, self._state.order):
            raise DamagedBundleError(f"what was learned on has shape {state.shape}, its base {self.base.shape}")
        self._state = state


@dataclass(frozen=True)
class Learned:
    """What came of some preferences: how many there were, how many asked for a change, and by how much in all."""

    n_preferences: int
    n_violations: int
    loss: float


def _lengths(rows: sparse.csr_array) -> NDArray[np.float64]:
    squared = rows.astype(np.float64).multiply(rows.astype(np.float64))
    return np.sqrt(np.asarray(squared.sum(axis=1)).ravel())
