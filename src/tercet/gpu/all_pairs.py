"""A W with a weight for every pair of words on a GPU: dense, kept sparse, or on a given support."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.gpu.hardware import Gpu
from tercet.gpu.states import AT_ONCE, AnyState, GpuChunk, GpuState, GpuTexts
from tercet.kernels.sparse import CUM, PENDING, SHRINK_EVERY
from tercet.learn.dense import DenseState
from tercet.learn.matrices import reorder_columns
from tercet.learn.sparse import LARGEST_CUM, REBASE_EVERY, OnSupportState, SparseState
from tercet.learn.thin import N_SIZES, SIZE_SHIFT, edge_bin, least_of_bin
from tercet.weights.base import row_blocks

PLAIN, LEVELS, SUPPORT = 0, 1, 2  # as in kernels/pairs.cu
TILE = 1024
_BYTES_TO_LOOK = 40  # for each entry of W that is looked at: sizes, masks, places of those that are kept, a copy
_BYTES_OF_A_PLACE = 16  # for each entry of a support: where it is in W, and its weight on the way there or back


class GpuPairs(GpuState[AnyState]):
    """An array of all pairs of words."""

    kernel = "pairs_advance"
    n_threads = 256
    form: int = PLAIN
    own: Any = None
    identity: Any = None
    W: Any
    sums: Any
    chunk_cum: Any = None  # shrinkage handed out before each step of what is launched next

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
            self.identity,
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


class GpuSupport(GpuPairs[OnSupportState]):
    """W on its support, NaN elsewhere."""

    form = SUPPORT

    def __init__(self, gpu: Gpu, state: OnSupportState, *, deterministic: bool) -> None:
        super().__init__(gpu, state, deterministic=deterministic)
        xp = gpu.xp
        self.W = xp.full(state.shape, np.nan, dtype=np.float32)
        self._positions = xp.asarray(_positions(state.indptr, state.columns[0].view(np.int32), state.shape[1]))
        self.W.reshape(-1)[self._positions] = xp.asarray(state.values[0])
        self.sums = self.sums_for(self.W)

    @classmethod
    def bytes_extra(cls, state: OnSupportState) -> int:
        return _BYTES_OF_A_PLACE * state.values.size

    def bring_back(self) -> None:
        self.state.values[0][:] = self.gpu.to_host(self.W.reshape(-1)[self._positions])


class GpuSparse(GpuPairs[SparseState]):
    """Levels of all pairs: 0 without an entry, NaN for forbidden pairs and outside a support."""

    def __init__(self, gpu: Gpu, state: SparseState, *, deterministic: bool) -> None:
        super().__init__(gpu, state, deterministic=deterministic)
        xp, shape = gpu.xp, state.shape
        self.W = xp.full(shape, np.nan, dtype=np.float32) if state.frozen else xp.zeros(shape, dtype=np.float32)
        self._put(state.live())
        if state.never is not None:
            never = reorder_columns(state.never, state.order)
            self._put(sparse.csr_array((np.full(never.nnz, np.nan, np.float32), never.indices, never.indptr), shape))
        if state.around_identity:
            self.identity = xp.asarray(state.order)
        self.sums = self.sums_for(self.W)
        self._cuts = {} if state.thinning is None or state.frozen else dict(state.thinning.due())

    @classmethod
    def bytes_extra(cls, state: SparseState) -> int:
        n, m = state.shape
        return _BYTES_TO_LOOK * min(n * m, max(m, AT_ONCE))

    @property
    def form(self) -> int:  # type: ignore[override]
        return SUPPORT if self.state.frozen else LEVELS

    def _put(self, entries: sparse.csr_array) -> None:
        xp = self.gpu.xp
        for rows in row_blocks(*self.W.shape, most_entries=AT_ONCE):
            some = entries[rows]
            positions = _positions(some.indptr, some.indices, some.shape[1])
            self.W[rows].reshape(-1)[xp.asarray(positions)] = xp.asarray(some.data)

    def advance(self, texts: GpuTexts, chunk: GpuChunk, first_step: int, tally: Any) -> None:
        """Shrinkage is handed out as on a CPU; rebasing and cutting happen at the same steps."""
        xp, done = self.gpu.xp, 0
        while done < len(chunk):
            step = first_step + done
            cuts = [cut for cut in self._cuts if cut > step]
            stop = min([len(chunk), *(cut - first_step for cut in cuts)])
            some = chunk.part(done, stop)
            handed, pending = self._hand_out(some.rate, step)
            looks = np.arange(REBASE_EVERY - step % REBASE_EVERY, len(some) + 1, REBASE_EVERY)
            if looks.size and not self.state.frozen:
                over = np.flatnonzero(self.gpu.to_host(handed[xp.asarray(looks)]) > LARGEST_CUM)
                if over.size:
                    some = some.part(0, int(looks[over[0]]))
                    handed, pending = self._hand_out(some.rate, step)
            self.chunk_cum = handed[: len(some)].astype(np.float32)
            self.take_steps(texts, some, step, tally)
            done += len(some)
            self.state.shrinkage[CUM], self.state.shrinkage[PENDING] = float(handed[-1]), pending
            self._tidy(first_step + done)
        if not len(chunk):  # only compiles
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
        """Shrinkage handed out before each step and after the last (n + 1), and the rates that are pending then."""
        xp, (cum, pending, l1, every) = self.gpu.xp, self.state.shrinkage
        self._cum_from = first_step
        total = xp.concatenate((xp.zeros(1), xp.cumsum(rate.astype(np.float64)))) + pending  # (n + 1,)
        steps = first_step + xp.arange(total.size)  # steps done by then
        due = xp.flatnonzero((steps[1:] % int(every)) == 0) + 1
        handed = xp.full(total.size, cum, dtype=np.float64)
        if not due.size:
            return handed, float(total[-1])
        before = xp.concatenate((xp.zeros(1), total[due[:-1]]))
        change = xp.zeros(total.size, dtype=np.float64)
        change[due] = l1 * (total[due] - before)
        return handed + xp.cumsum(change), float(total[-1] - total[due[-1]])

    def _tidy(self, step: int) -> None:
        """Return the work due after a step: a cut, or settling the levels."""
        state, xp = self.state, self.gpu.xp
        if step in self._cuts:
            state.frozen = step == max(self._cuts)
            self._cut(self._cuts[step], np.nan if state.frozen else 0.0)
        if not state.frozen and step % REBASE_EVERY == 0 and state.cum > LARGEST_CUM:
            cum = np.float32(state.cum)
            for block in self._blocks():
                block[:] = xp.where(xp.isnan(block), block, xp.maximum(block - cum, 0) + xp.minimum(block + cum, 0))
            state.shrinkage[CUM] = 0.0

    def _cut(self, density: float, absent: float) -> None:
        """Drop the smallest weights, as ``SparseState`` does; nothing is owed. NaN stays."""
        xp = self.gpu.xp
        counts = xp.zeros(N_SIZES, dtype=np.int64)
        for block in self._blocks():
            sizes = (block.view(np.int32) & 0x7FFFFFFF) >> SIZE_SHIFT
            sizes[xp.isnan(block)] = 0
            counts += xp.bincount(sizes.reshape(-1), minlength=N_SIZES)
        n_of_size = self.gpu.to_host(counts)
        n_of_size[0] = 0  # zeros
        smallest = least_of_bin(edge_bin(n_of_size, max(1, round(density * self.W.size))))
        for block in self._blocks():
            block[abs(block) < smallest] = absent

    def _blocks(self) -> Iterator[Any]:
        return (self.W[rows] for rows in row_blocks(*self.W.shape, most_entries=AT_ONCE))

    def bring_back(self) -> None:
        """The live entries, or the whole support, as the state keeps them."""
        xp, state = self.gpu.xp, self.state
        counts, columns, levels = [], [], []
        for block in self._blocks():
            kept = ~xp.isnan(block) if state.frozen else abs(block) > np.float32(state.cum)
            counts.append(self.gpu.to_host(kept.sum(axis=1)))
            rows, cols = xp.nonzero(kept)
            columns.append(self.gpu.to_host(cols.astype(np.int32)))
            levels.append(self.gpu.to_host(block[rows, cols]))
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        live = sparse.csr_array((np.concatenate(levels), np.concatenate(columns), indptr), shape=state.shape)
        state.set_levels(live, state.cum, float(state.shrinkage[PENDING]))


def _positions(indptr: NDArray[Any], columns: NDArray[Any], width: int) -> NDArray[np.int64]:
    """Return positions of the entries of rows in an array of all pairs, row by row."""
    return np.repeat(np.arange(indptr.size - 1, dtype=np.int64) * width, np.diff(indptr)) + columns


assert SHRINK_EVERY == 3  # the last number of ``SparseState.shrinkage``, as ``_hand_out`` takes them apart
