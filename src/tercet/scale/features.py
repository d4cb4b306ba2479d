"""FTRL in rounds: shares of a pass over queries, and how their sums are put together.

FTRL keeps, for each feature, G = Σ gₜ² and z = Σ (gₜ - σₜ wₜ), over steps t with slopes gₜ and weights wₜ, where
σₜ is the growth of 1/η, which follows from G. Share k adds up, from the z, G and w of the round's start,

    slopes Sₖ = Σ gₜ,   squares Pₖ = Σ gₜ²,   growth Rₖ = Σ σₜ,   and its own change of z, Zₖ = Sₖ - Σ σₜ wₜ

With S, P, R and Z the sums over shares, each times a = min(1, Σₖ|Sₖ|² / |Σₖ Sₖ|²) over all features (`agreement`: where
slopes agree, no share knew of the others' steps), the mixed state is

    G' = G + P,   z' = z + S - (S - Z) (1/η(G') - 1/η(G)) / R

so (S - Z) / R is the mean of the weights that shares went through, each counted by its σ, and it is taken as often as
1/η has grown with G'. With one share, z' is that of a pass without rounds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.ftrl import Features, Losses, PassBuffers, Paths, Rules, Sums, ftrl_pass
from tercet.kernels.pairs import QueryDocs
from tercet.kernels.rows import CsrRows
from tercet.learn.linear.ftrl import FTRLPass, FTRLState
from tercet.scale.changes import DenseChange, Piece, agreement, as_compiled
from tercet.scale.mixing import RoundLength, words_of
from tercet.scale.rounds import Diary, RoundFacts, Schedule, WorkerPool
from tercet.scale.shares import bytes_of
from tercet.store.digest import digest_of

FEATURE_ROUNDS = RoundLength(1, 0.1)  # a step is a query
SLOPES, SQUARES = 0, 2  # of (slopes, change of z, squares, growth of 1/eta), the columns of a change


@dataclass(frozen=True, eq=False)
class FeatureShare:
    """Queries of one worker, and the state of the features that their rows have; None for all."""

    queries: QueryDocs
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
        rows, queries = Features(*map(_as_sent, X)), QueryDocs(*map(as_compiled, self.queries))
        order = np.arange(len(queries.starts) - 1)
        buffers = PassBuffers.allocate(rows, order, queries.starts, self.n_features)
        n_steps, loss, largest = ftrl_pass(
            *(rows, order, queries, self.losses, self.rules, Sums(z, G, w, sums), self.step, buffers),
            *Paths.from_features(rows, self.losses),
        )
        own = np.arange(self.n_features) if self.features is None else self.features
        before = FTRLState(*self.state, step=self.step, rules=self.rules)
        after = FTRLState(z[own], G[own], w[own], self.step + int(n_steps), self.rules)
        grown = after.inverse_rates() - before.inverse_rates()
        values = np.stack([sums[own], after.present() - before.present(), after.G - before.G, grown], axis=1)
        changed = np.flatnonzero(values[:, SQUARES])
        change = DenseChange(own[changed].astype(np.int32), values[changed], sums[own[changed]] ** 2)
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


def pass_in_rounds(work: FTRLPass, pool: WorkerPool, schedule: Schedule, diary: Diary) -> tuple[float, float]:
    """Take a pass over queries on the workers of a pool; returns the loss met and the largest |z|."""
    _broadcast(work.X, pool, diary)
    done, loss, largest = 0, 0.0, 0.0
    while done < len(work.order):
        began = time.perf_counter()
        n = schedule.steps(work.state.step, None, FEATURE_ROUNDS)
        queries = work.order[done : done + n]
        done += len(queries)
        shares = [_share(work, queries[k :: pool.n_shares], pool.n_shares) for k in range(pool.n_shares)]
        sent = time.perf_counter()
        pieces = pool.run(shares)
        back = time.perf_counter()
        n_steps, round_loss = pieces[0].tally
        _mix(work.state, [piece.changes["state"] for piece in pieces], int(n_steps))
        loss += float(round_loss)
        largest = max(largest, pieces[0].largest, float(np.abs(work.state.z).max(initial=0.0)))
        diary.rounds.append(RoundFacts.from_times(int(n_steps), shares, pieces, began, sent, back))
    return loss, largest


def _broadcast(X: Features, pool: WorkerPool, diary: Diary) -> None:
    digest = digest_of(*X[:4])
    if digest != pool.held:
        pool.broadcast(X, digest)
        diary.bytes_broadcast += pool.n_shares * bytes_of(X)


def _share(work: FTRLPass, some: NDArray[np.int64], n_blocks: int) -> FeatureShare:
    """What a worker needs to go over some of the queries."""
    queries, state = work.queries, work.state
    lengths = np.diff(queries.starts)[some]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    docs = np.repeat(queries.starts[some] - starts[:-1], lengths) + np.arange(starts[-1])
    rows = queries.rows[docs]
    own = QueryDocs(
        rows, starts, queries.grades[docs], queries.labels[docs], queries.n_grades[some], queries.n_pairs[some]
    )
    features, sums = None, (state.z, state.G, state.w)
    if not work.X.is_dense:
        csr = CsrRows(work.X.indptr, work.X.indices, work.X.data)
        met = np.flatnonzero(words_of(csr, rows, state.z.size)).astype(np.int32)
        features, sums = met, (state.z[met], state.G[met], state.w[met])
    return FeatureShare(own, work.losses, state.rules, state.step, features, sums, state.z.size, n_blocks)


def _mix(state: FTRLState, changes: list[DenseChange], n_steps: int) -> None:
    """Take in what all shares summed up."""
    apart = np.array([sum(float(change.squares.sum()) for change in changes)])
    together = np.array([sum(float((change.values[:, SLOPES] ** 2).sum()) for change in changes)])
    taken = agreement(apart, together)[0]
    for change in changes:
        rows, (slopes, sums, squares, grown) = change.rows, taken * change.values.T
        before = FTRLState(state.z[rows], state.G[rows], state.w[rows], state.step, state.rules)
        after = FTRLState(before.present(), before.G + squares, before.w, state.step + n_steps, state.rules)
        growth = after.inverse_rates() - before.inverse_rates()
        passed = slopes - sums  # the weights that shares went through, each times its sigma
        after.z += slopes - np.divide(growth * passed, grown, out=np.zeros_like(passed), where=grown > 0)
        after.settle()
        state.z[rows], state.G[rows], state.w[rows] = after.z, after.G, after.w
    state.step += n_steps


def _as_sent(part: Any) -> Any:
    """An array as every pass has it: read-only, wherever it lies."""
    if not isinstance(part, np.ndarray):
        return part
    view = np.require(part, requirements=["C", "A"]).view()
    view.flags.writeable = False
    return view
