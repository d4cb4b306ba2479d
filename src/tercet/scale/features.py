"""FTRL in rounds: shares of a pass over queries, and how their sums are put together.

FTRL keeps, for each feature, ``z``, the slopes met less ``sigma w`` of every step, and ``G``, their squares. Slopes and
squares of all shares simply add up. The ``sigma`` of a round must add up to the growth of 1/eta, which follows from G;
each share has grown it by itself, so the mean of the weights that they went through, each counted by its ``sigma``, is
taken that many times. Where the slopes of the shares agree, they are alike because none knows of the others' steps; so
only as much of all sums is taken as `agreement` says. With one share, z is that of a pass without rounds.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.ftrl import ftrl_pass
from tercet.learn.linear.base import KernelFeatures
from tercet.learn.linear.ftrl import FTRLState, Losses, Rules
from tercet.learn.linear.queries import Queries
from tercet.scale.changes import DenseChange, Piece, agreement, as_compiled
from tercet.scale.mixing import RoundLength, words_of
from tercet.scale.rounds import Diary, Executor, RoundFacts, Schedule
from tercet.scale.shares import bytes_of

ROUND_LENGTH = RoundLength(1, 0.1)  # a step is a query
SLOPES, SUMS, SQUARES, GROWTH_OF_RATE = range(4)


@dataclass(frozen=True, eq=False)
class FeatureShare:
    """Queries of one worker, and the state of the features that their rows have; None for all."""

    queries: tuple[NDArray[Any], ...]
    losses: Losses
    rules: Rules
    step: int
    features: NDArray[np.int32] | None
    state: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
    n_features: int
    n_blocks: int

    def run(self, X: Any) -> Piece:
        z, G, w = (self._spread_out(array) for array in self.state)
        sums = np.zeros(self.n_features)
        n_steps, loss, largest = ftrl_pass(
            tuple(_as_sent(part) for part in X),
            np.arange(len(self.queries[1]) - 1),
            tuple(map(as_compiled, self.queries)),
            self.losses,
            self.rules.values(),
            (z, G, w, sums),
            self.step,
        )
        at = np.arange(self.n_features) if self.features is None else self.features
        before = FTRLState(*self.state, step=self.step, rules=self.rules)
        after = FTRLState(z[at], G[at], w[at], self.step + int(n_steps), self.rules)
        grown = after.inverse_rates() - before.inverse_rates()
        values = np.stack([sums[at], after.present() - before.present(), after.G - before.G, grown], axis=1)
        changed = np.flatnonzero(values[:, SQUARES])
        change = DenseChange(at[changed].astype(np.int32), values[changed], sums[at[changed]] ** 2)
        return Piece({"state": change}, np.array([n_steps, loss]), largest=float(largest))

    def heights(self) -> dict[str, int]:
        return {"state": self.n_features}

    def _spread_out(self, array: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.features is None:
            return np.array(array)
        whole = np.zeros(self.n_features)
        whole[self.features] = array
        return whole

    @property
    def n_bytes(self) -> int:
        return bytes_of(self)


class PassInRounds:
    """Takes passes of an ``FTRLRanker`` over its queries on the shares of an executor."""

    def __init__(self, executor: Executor, schedule: Schedule, diary: Diary) -> None:
        self._executor, self._schedule, self._diary = executor, schedule, diary
        self.identity = schedule.identity(ROUND_LENGTH)

    def __call__(
        self, X: KernelFeatures, order: NDArray[np.int64], queries: Queries, losses: Losses, state: FTRLState
    ) -> tuple[float, float]:
        self._broadcast(X)
        done, loss, largest = 0, 0.0, 0.0
        while done < len(order):
            began = time.perf_counter()
            n = self._schedule.steps(state.step, None, ROUND_LENGTH)
            part = order[done : done + n]
            done += len(part)
            n_shares = self._executor.n_shares
            shares = [self._share(X, queries, part[at::n_shares], losses, state) for at in range(n_shares)]
            sent = time.perf_counter()
            pieces = self._executor.run(shares)
            back = time.perf_counter()
            n_steps, met = pieces[0].tally
            _mix(state, [piece.changes["state"] for piece in pieces], int(n_steps))
            loss += float(met)
            largest = max(largest, pieces[0].largest, float(np.abs(state.z).max(initial=0.0)))
            self._diary.rounds.append(RoundFacts.of(int(n_steps), shares, pieces, began, sent, back))
        return loss, largest

    def _broadcast(self, X: KernelFeatures) -> None:
        digest = hashlib.blake2b()
        for array in X[:4]:
            digest.update(repr((array.shape, array.dtype)).encode())
            digest.update(array.view(np.uint8).data if array.size else b"")
        if digest.hexdigest() != self._executor.held:
            self._executor.broadcast(X, digest.hexdigest())
            self._diary.bytes_broadcast += self._executor.n_shares * bytes_of(X)

    def _share(
        self, X: KernelFeatures, queries: Queries, some: NDArray[np.int64], losses: Losses, state: FTRLState
    ) -> FeatureShare:
        lengths = np.diff(queries.starts)[some]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        at = np.repeat(queries.starts[some] - starts[:-1], lengths) + np.arange(starts[-1])
        rows = queries.rows[at]
        arrays = rows, starts, queries.grades[at], queries.labels[at], queries.n_grades[some], queries.n_pairs[some]
        features, sums = None, (state.z, state.G, state.w)
        if not X[4]:
            met = np.flatnonzero(words_of(X[1:4], rows, state.z.size)).astype(np.int32)
            features, sums = met, (state.z[met], state.G[met], state.w[met])
        return FeatureShare(
            arrays, losses, state.rules, state.step, features, sums, state.z.size, self._executor.n_shares
        )


def _mix(state: FTRLState, changes: list[DenseChange], n_steps: int) -> None:
    """Take in what all shares summed up."""
    apart = np.array([sum(float(change.squares.sum()) for change in changes)])
    together = np.array([sum(float((change.values[:, SLOPES] ** 2).sum()) for change in changes)])
    taken = agreement(apart, together)[0]
    for change in changes:
        at, (slopes, sums, squares, grown) = change.rows, taken * change.values.T
        before = FTRLState(state.z[at], state.G[at], state.w[at], state.step, state.rules)
        after = FTRLState(before.present(), before.G + squares, before.w, state.step + n_steps, state.rules)
        growth = after.inverse_rates() - before.inverse_rates()
        passed = slopes - sums  # the weights that shares went through, each times its sigma
        after.z += slopes - np.divide(growth * passed, grown, out=np.zeros_like(passed), where=grown > 0)
        after.settle()
        state.z[at], state.G[at], state.w[at] = after.z, after.G, after.w
    state.step += n_steps


def _as_sent(part: Any) -> Any:
    """An array as every pass has it: read-only, wherever it lies."""
    if not isinstance(part, np.ndarray):
        return part
    view = np.require(part, requirements=["C", "A"]).view()
    view.flags.writeable = False
    return view
