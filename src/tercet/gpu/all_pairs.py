"""A W with a weight for every pair of words on a GPU: dense, kept sparse, or on a given support."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.gpu.hardware import Gpu
from tercet.gpu.states import AT_ONCE, AnyState, GpuChunk, GpuState, GpuTexts
from tercet.learn.dense import DenseState
from tercet.learn.sparse import LARGEST_CUM, REBASE_EVERY, SparseState
from tercet.learn.support import SupportState
from tercet.weights.base import row_blocks

PLAIN, LEVELS, SUPPORT = 0, 1, 2  # as in kernels/pairs.cu
TILE = 1024
_BYTES_TO_LOOK = 40  # temporary bytes per entry of W in `bring_back`: sizes, mask, positions and a copy
_BYTES_OF_A_PLACE = 16  # bytes per entry of a support: its position in W, and its weight during the copy


class GpuPairs(GpuState[AnyState]):
    """Array with an entry for every pair of words."""

    kernel = "pairs_advance"
    n_threads = 256
    form: int = PLAIN
    own: Any = None
    W: Any
    sums: Any
    chunk_cum: Any = None  # shrinkage handed out before each step of the next launch

    @property
    def shared_bytes(self) -> int:
        return 8 * TILE + super().shared_bytes

    def args(self, texts: GpuTexts) -> tuple[Any, ...]:
        return (
            self.W,
            self.sums,
            np.int64(self.W.shape[1]),
            np.int32(self.form),
            self.own,
            self.chunk_cum,
            self.gpu.xp.zeros(1, dtype=np.int64),
        )

    @property
    def order(self) -> NDArray[np.int32]:
        order: NDArray[np.int32] = self.state.order  # type: ignore[attr-defined]
        return order

    @classmethod
    def check(cls, gpu: Gpu, state: AnyState, *, deterministic: bool) -> None:
        n, m = state.shape
        gpu.check_room(
            (12 if deterministic else 4) * n * m + cls.bytes_extra(state),
            f"W of {n:,} by {m:,} words" + (", with sums of its changes," if deterministic else ""),
            f"Use fewer words, LowRankRanker, {'no deterministic, ' if deterministic else ''}or the CPU",
        )

    @classmethod
    def bytes_extra(cls, state: AnyState) -> int:
        """Return extra bytes for copying W to the GPU and back."""
        return 0


class GpuDense(GpuPairs[DenseState]):
    """W, every pair a weight."""

    def __init__(self, gpu: Gpu, state: DenseState, *, deterministic: bool) -> None:
        super().__init__(gpu, state, deterministic=deterministic)
        self.W = gpu.xp.asarray(state.W)
        self.own = gpu.xp.asarray(state._own) if state.zero_diagonal else None
        self.sums = self.sums_for(self.W)

    def bring_back(self) -> None:
        self.state.W[:] = self.gpu.to_host(self.W)


class GpuSupport(GpuPairs[SupportState]):
    """W on its support, NaN elsewhere."""

    form = SUPPORT

    def __init__(self, gpu: Gpu, state: SupportState, *, deterministic: bool) -> None:
        super().__init__(gpu, state, deterministic=deterministic)
        xp = gpu.xp
        self.W = xp.full(state.shape, np.nan, dtype=np.float32)
        self._positions = xp.asarray(_positions(state.entries))
        self.W.reshape(-1)[self._positions] = xp.asarray(state.entries.data)
        self.sums = self.sums_for(self.W)

    @classmethod
    def bytes_extra(cls, state: SupportState) -> int:
        return _BYTES_OF_A_PLACE * state.entries.nnz

    def bring_back(self) -> None:
        levels, data = self.W.reshape(-1), self.state.entries.data
        for first in range(0, data.size, AT_ONCE):
            part = slice(first, first + AT_ONCE)
            data[part] = self.gpu.to_host(levels[self._positions[part]])


class GpuSparse(GpuPairs[SparseState]):
    """Array of levels; a pair without an entry has level 0."""

    form = LEVELS

    def __init__(self, gpu: Gpu, state: SparseState, *, deterministic: bool) -> None:
        super().__init__(gpu, state, deterministic=deterministic)
        xp, live = gpu.xp, state.live()
        self.W = xp.zeros(state.shape, dtype=np.float32)
        for rows in row_blocks(*state.shape, most_entries=AT_ONCE):
            entries = live[rows]
            self.W[rows].reshape(-1)[xp.asarray(_positions(entries))] = xp.asarray(entries.data)
        self.sums = self.sums_for(self.W)

    @classmethod
    def bytes_extra(cls, state: SparseState) -> int:
        n, m = state.shape
        return _BYTES_TO_LOOK * min(n * m, max(m, AT_ONCE))

    def advance(self, texts: GpuTexts, chunk: GpuChunk, first_step: int, tally: Any) -> None:
        """Take a step for each preference; shrinkage and rebasing happen at the same steps as on a CPU."""
        xp, n_taken = self.gpu.xp, 0
        while n_taken < len(chunk):
            step = first_step + n_taken
            part = chunk.part(n_taken, len(chunk))
            handed, pending = self._hand_out(part.rate, step)
            looks = np.arange(REBASE_EVERY - step % REBASE_EVERY, len(part) + 1, REBASE_EVERY)
            if looks.size:
                over = np.flatnonzero(self.gpu.to_host(handed[xp.asarray(looks)]) > LARGEST_CUM)
                if over.size:
                    part = part.part(0, int(looks[over[0]]))
                    handed, pending = self._hand_out(part.rate, step)
            self.chunk_cum = handed[: len(part)].astype(np.float32)
            self.take_steps(texts, part, step, tally)
            n_taken += len(part)
            self.state.cum, self.state.pending = float(handed[-1]), pending
            if (first_step + n_taken) % REBASE_EVERY == 0 and self.state.cum > LARGEST_CUM:
                self._rebase()
        if not len(chunk):  # compile the kernel
            self.chunk_cum = xp.zeros(1, dtype=np.float32)
            self.take_steps(texts, chunk, first_step, tally)

    def _launch(
        self, texts: GpuTexts, chunk: GpuChunk, first_step: int, scores: Any, tally: Any, phase: int, at_once: int
    ) -> None:
        whole = self.chunk_cum
        if len(chunk):
            self.chunk_cum = whole[first_step - self._cum_from :][: len(chunk)]
        super()._launch(texts, chunk, first_step, scores, tally, phase, at_once)
        self.chunk_cum = whole

    def _hand_out(self, rate: Any, first_step: int) -> tuple[Any, float]:
        """Return the shrinkage handed out before each step and after the last (n + 1), and the pending rates."""
        xp, state = self.gpu.xp, self.state
        cum, pending, l1, every = state.cum, state.pending, state.l1, state.shrink_every
        self._cum_from = first_step
        total = xp.concatenate((xp.zeros(1), xp.cumsum(rate.astype(np.float64)))) + pending  # (n + 1,)
        steps = first_step + xp.arange(total.size)  # number of steps taken so far
        due = xp.flatnonzero((steps[1:] % every) == 0) + 1
        handed = xp.full(total.size, cum, dtype=np.float64)
        if not due.size:
            return handed, float(total[-1])
        before = xp.concatenate((xp.zeros(1), total[due[:-1]]))
        change = xp.zeros(total.size, dtype=np.float64)
        change[due] = l1 * (total[due] - before)
        return handed + xp.cumsum(change), float(total[-1] - total[due[-1]])

    def _rebase(self) -> None:
        xp, cum = self.gpu.xp, np.float32(self.state.cum)
        for block in self._blocks():
            block[:] = xp.maximum(block - cum, 0) + xp.minimum(block + cum, 0)
        self.state.cum = 0.0

    def _blocks(self) -> Iterator[Any]:
        return (self.W[rows] for rows in row_blocks(*self.W.shape, most_entries=AT_ONCE))

    def bring_back(self) -> None:
        """Copy the live entries back."""
        xp, state = self.gpu.xp, self.state
        counts, columns, levels = [], [], []
        for block in self._blocks():
            is_live = abs(block) > np.float32(state.cum)
            counts.append(self.gpu.to_host(is_live.sum(axis=1)))
            rows, cols = xp.nonzero(is_live)
            columns.append(self.gpu.to_host(cols.astype(np.int32)))
            levels.append(self.gpu.to_host(block[rows, cols]))
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        live = sparse.csr_array((np.concatenate(levels), np.concatenate(columns), indptr), shape=state.shape)
        state.set_levels(live, state.cum, state.pending)


def _positions(entries: sparse.csr_array) -> NDArray[np.int64]:
    """Return the positions of CSR entries in the flattened dense array, row by row."""
    n, width = entries.shape
    return np.repeat(np.arange(n, dtype=np.int64) * width, np.diff(entries.indptr)) + entries.indices
