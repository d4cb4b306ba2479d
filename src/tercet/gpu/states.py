"""State of a learner on a GPU: arrays, the kernel of a step, and copies to the GPU and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import ParameterError
from tercet.gpu.hardware import Gpu
from tercet.learn.diagonal import DiagonalState
from tercet.learn.loop import CHUNK
from tercet.learn.lowrank import LowRankState
from tercet.learn.matrices import column_counts, kernel_rows, reorder_columns
from tercet.learn.state import State
from tercet.weights.base import row_blocks

DIRECT, COLLECT, APPLY = 0, 1, 2  # as in kernels/common.cuh
_WARP = 32
_SECTOR = 8  # floats of a memory sector; rows of factors are aligned to sectors
_FLOAT4 = 16  # bytes of a float4
_MOST_SHARED = 96 * 1024  # most bytes of shared memory of a block
AT_ONCE = 1 << 24  # entries of a large array that are copied or compared in one operation

AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True)
class GpuChunk:
    """Preferences on the GPU, with the rate and the margin of each step."""

    query: Any
    better: Any
    worse: Any
    rate: Any
    step_size: Any
    margin: Any

    def __len__(self) -> int:
        return int(self.query.size)

    def part(self, start: int, stop: int) -> GpuChunk:
        return self.take(slice(start, stop))

    def take(self, positions: Any) -> GpuChunk:
        columns = (self.query, self.better, self.worse, self.rate, self.step_size, self.margin)
        return GpuChunk(*(None if column is None else column[positions] for column in columns))


@dataclass(frozen=True)
class GpuTexts:
    """Q and D on the GPU: ``indptr``, ``indices`` and ``data`` of each.

    ``latent`` (n_docs, stride) holds the latent vectors of D for a learner with fixed document factors.
    """

    Q: tuple[Any, Any, Any]
    D: tuple[Any, Any, Any]
    latent: Any = None

    @property
    def args(self) -> tuple[Any, ...]:
        return *self.Q, *self.D


class GpuState(ABC, Generic[AnyState]):
    """Arrays of a state on a GPU.

    A subclass copies the arrays to the GPU and back, and names the kernel and its arguments.
    """

    kernel: str
    n_threads: ClassVar[int] = 128
    blocks_per_processor: ClassVar[int] = 8
    most_at_a_weight: ClassVar[float] = 32.0
    steps_before: ClassVar[float] = 64  # concurrency grows by one per so many steps: early steps are large

    def __init__(self, gpu: Gpu, state: AnyState, *, deterministic: bool) -> None:
        self.gpu, self.state, self.deterministic = gpu, state, deterministic
        self.n_blocks = max(1, gpu.n_processors * self.blocks_per_processor)
        self.first_step = state.step

    # -- for subclasses -------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def check(cls, gpu: Gpu, state: AnyState, *, deterministic: bool) -> None:
        """Refuse a state that a GPU cannot learn or has no room for, before any copy.

        Raises
        ------
        ParameterError, MemoryLimitError
        """

    @abstractmethod
    def args(self, texts: GpuTexts) -> tuple[Any, ...]:
        """Arguments of the kernel before Q and D of these texts."""

    @abstractmethod
    def bring_back(self) -> None:
        """Copy the arrays from the GPU back into the state."""

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return 4 * (self.n_threads // _WARP)

    def lay_out(self, Q: sparse.csr_array, D: sparse.csr_array) -> GpuTexts:
        """Copy texts to the GPU; once if queries and documents are the same matrix with the same columns."""
        queries = self._rows(Q)
        if self._are_once(Q, D):
            return GpuTexts(queries, queries)
        return GpuTexts(queries, self._rows(D if self.order is None else reorder_columns(D, self.order)))

    def bytes_of_texts(self, Q: sparse.csr_array, D: sparse.csr_array) -> int:
        """Return the bytes of GPU memory that ``lay_out`` takes."""
        return sum(8 * (texts.nnz + texts.shape[0]) for texts in ((Q,) if self._are_once(Q, D) else (Q, D)))

    @property
    def order(self) -> NDArray[np.int32] | None:
        """Order of document columns on the GPU, if not the given order."""
        return None

    def _are_once(self, Q: sparse.csr_array, D: sparse.csr_array) -> bool:
        return Q is D and self.order is None

    def _rows(self, texts: sparse.csr_array) -> tuple[Any, Any, Any]:
        indptr, indices, data = map(self.gpu.xp.asarray, kernel_rows(texts))
        return indptr, indices, data

    # -- steps ----------------------------------------------------------------------------------------------------

    def advance(self, texts: GpuTexts, chunk: GpuChunk, first_step: int, tally: Any) -> None:
        """Take a step for each preference; ``tally`` (n_blocks, 2) on the GPU gains violations and loss."""
        self.take_steps(texts, chunk, first_step, tally)

    def take_as_many_as_texts_allow(self, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        """Take fewer steps at once if texts share many words.

        Concurrent steps do not see each other. If k concurrent steps change a weight, each step goes the whole way, and
        together the steps overshoot k-fold; with a large rate the run diverges. The number of concurrent steps is
        limited so that on average ``most_at_a_weight`` steps change the same weight.
        """
        self.n_blocks = max(1, min(self.n_blocks, int(self.most_at_a_weight / max(self._overlap(Q, D), 1e-12))))

    def _overlap(self, Q: sparse.csr_array, D: sparse.csr_array) -> float:
        """Return the share of a step's weights that another step also changes: pairs of words."""
        return shared_words(Q) * shared_words(D)

    def take_steps(self, texts: GpuTexts, chunk: GpuChunk, first_step: int, tally: Any) -> None:
        n = max(len(chunk), 1)
        scores = self.gpu.xp.empty(n, dtype=np.float32)
        start = 0
        while start < n:
            step = first_step + start
            at_once = min(self.n_blocks, 1 + int(step / self.steps_before))
            if self.deterministic:
                # All steps of a launch read the same weights: as many steps as run at once in direct mode. A launch
                # ends at the latest with a chunk of the CPU, so that a stop there does not change the bits.
                longest = min(at_once, CHUNK - step % CHUNK)
            else:
                longest = n if at_once == self.n_blocks else max(1, step // 8)
            launch = slice(start, min(n, start + longest))
            for phase in (COLLECT, APPLY) if self.deterministic else (DIRECT,):
                self._launch(texts, chunk.take(launch), step, scores[launch], tally, phase, at_once)
            start = launch.stop

    def _launch(
        self, texts: GpuTexts, chunk: GpuChunk, first_step: int, scores: Any, tally: Any, phase: int, at_once: int
    ) -> None:
        n = len(chunk)
        self.first_step = first_step
        common = (chunk.query, chunk.better, chunk.worse, chunk.step_size, chunk.margin, np.int64(n), scores, tally)
        args = (*self.args(texts), *texts.args, *common, np.int32(phase))
        shared = -(-self.shared_bytes // _FLOAT4) * _FLOAT4  # kernels read whole float4s
        self.gpu.launch(self.kernel, max(1, min(at_once, n)), self.n_threads, shared, args)

    def sums_for(self, array: Any) -> Any:
        """Return zeroed sums of changes for a deterministic run, else None."""
        if not self.deterministic or array is None:
            return None
        return self.gpu.xp.zeros(array.shape, dtype=np.uint64)


def shared_words(texts: sparse.csr_array) -> float:
    """Return the mean share of a text's words that another text has, over all pairs of texts."""
    frequency = column_counts(texts) / max(1, texts.shape[0])
    return float((frequency**2).sum() / max(frequency.sum(), 1e-12))


class GpuDiagonal(GpuState[DiagonalState]):
    """A weight for each word."""

    kernel = "diagonal_advance"
    n_threads = 64
    blocks_per_processor = 16

    def __init__(self, gpu: Gpu, state: DiagonalState, *, deterministic: bool) -> None:
        super().__init__(gpu, state, deterministic=deterministic)
        self.weights = gpu.xp.asarray(state.weights)
        self.sums = self.sums_for(self.weights)

    @classmethod
    def check(cls, gpu: Gpu, state: DiagonalState, *, deterministic: bool) -> None:
        n_words = state.weights.size
        gpu.check_room((12 if deterministic else 4) * n_words, f"a diagonal of {n_words:,} words", "Learn on the CPU")

    def args(self, texts: GpuTexts) -> tuple[Any, ...]:
        return self.weights, self.sums

    def bring_back(self) -> None:
        self.state.weights[:] = self.gpu.to_host(self.weights)


class GpuLowRank(GpuState[LowRankState]):
    """Factors with aligned rows, a diagonal, and sums of changes for deterministic runs."""

    most_at_a_weight = 256.0

    def __init__(self, gpu: Gpu, state: LowRankState, *, deterministic: bool) -> None:
        super().__init__(gpu, state, deterministic=deterministic)
        self.kernel = "cosine_advance" if state.cosine else "lowrank_advance"
        self.width = state.U.shape[1]
        self.stride, self.n_vectors, n_warps = _room_of_a_block(state)
        self.n_warps = min(self.n_threads // _WARP, n_warps)
        self.U = self._padded(state.U)
        self.V = self.U if state.tied else self._padded(state.V)
        self.diagonal = gpu.xp.asarray(state.diagonal) if state.diagonal.size else None
        self.rare = [None, None] if state.rare is None else [gpu.xp.asarray(words) for words in state.rare]
        sums_u = self.sums_for(self.U)
        sums_v = sums_u if state.tied else self.sums_for(self.V if state.learn_documents else None)
        self.sums = [sums_u, sums_v, self.sums_for(self.diagonal if state.learn_diagonal else None)]
        self.vectors = None
        if deterministic:
            self.vectors = gpu.xp.empty((self.n_blocks, self.n_vectors, self.stride), dtype=np.float32)

    @classmethod
    def check(cls, gpu: Gpu, state: LowRankState, *, deterministic: bool) -> None:
        stride, _, n_warps = _room_of_a_block(state)
        if n_warps < 1:
            raise ParameterError(f"{state.U.shape[1]:,} components are more than a block of the GPU has room for")
        n_rows = state.U.shape[0] + (0 if state.tied else state.V.shape[0])
        n_learned = n_rows if state.learn_documents else state.U.shape[0]
        copied = 8 * min(n_rows * stride, AT_ONCE)
        gpu.check_room(
            stride * (4 * n_rows + (8 * n_learned if deterministic else 0)) + copied,
            f"the factors of {n_rows:,} words" + (", with sums of their changes," if deterministic else ""),
            f"Use fewer words or components,{' leave out deterministic,' if deterministic else ''} or the CPU",
        )

    @property
    def n_threads(self) -> int:  # type: ignore[override]
        return _WARP * getattr(self, "n_warps", 4)

    @property
    def shared_bytes(self) -> int:
        return 4 * self.n_warps * (self.n_vectors * self.stride + 1)

    def args(self, texts: GpuTexts) -> tuple[Any, ...]:
        stride, vectors = np.int32(self.stride), self.vectors
        if self.state.cosine:
            return self.U, self.V, self.sums[0], self.sums[1], stride, *self.rare, vectors
        learn_diagonal = np.int32(self.state.learn_diagonal)
        return self.U, self.V, self.diagonal, *self.sums, stride, learn_diagonal, *self.rare, texts.latent, vectors

    def lay_out(self, Q: sparse.csr_array, D: sparse.csr_array) -> GpuTexts:
        texts = super().lay_out(Q, D)
        if self.state.learn_documents:
            return texts
        n_docs = D.shape[0]
        latent = self.gpu.xp.empty((n_docs, self.stride), dtype=np.float32)
        # A kernel of Tercet: the bits of a cuSPARSE product depend on the texts multiplied together.
        args = (self.V, np.int32(self.stride), *texts.D, np.int64(n_docs), latent)
        self.gpu.launch("latent_vectors", max(1, min(n_docs, self.n_blocks)), self.n_threads, 0, args)
        return replace(texts, latent=latent)

    def bytes_of_texts(self, Q: sparse.csr_array, D: sparse.csr_array) -> int:
        latent = 0 if self.state.learn_documents else 4 * D.shape[0] * self.stride
        return latent + super().bytes_of_texts(Q, D)

    def _overlap(self, Q: sparse.csr_array, D: sparse.csr_array) -> float:
        return max(shared_words(Q), shared_words(D))

    def bring_back(self) -> None:
        state = self.state
        self._fetch(self.U, state.U)
        if not state.tied and state.learn_documents:
            self._fetch(self.V, state.V)
        if state.learn_diagonal:
            state.diagonal[:] = self.gpu.to_host(self.diagonal)

    def _padded(self, factors: NDArray[Any]) -> Any:
        xp = self.gpu.xp
        padded = xp.zeros((factors.shape[0], self.stride), dtype=factors.dtype)
        for rows in row_blocks(*padded.shape, most_entries=AT_ONCE):
            padded[rows, : self.width] = xp.asarray(factors[rows])
        return padded

    def _fetch(self, padded: Any, factors: NDArray[Any]) -> None:
        """Copy factors back in blocks of rows, without the padding."""
        for rows in row_blocks(*padded.shape, most_entries=AT_ONCE):
            factors[rows] = self.gpu.to_host(padded[rows, : self.width])


def _room_of_a_block(state: LowRankState) -> tuple[int, int, int]:
    """Return floats per row of factors, vectors per warp, and warps per block."""
    stride = -(-state.U.shape[1] // _SECTOR) * _SECTOR
    n_vectors = 3 if state.cosine else 2
    return stride, n_vectors, _MOST_SHARED // (4 * (n_vectors * stride + 1))
