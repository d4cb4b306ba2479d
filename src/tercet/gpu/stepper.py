"""Take the steps of a run on a GPU."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tercet._lazy import sparse
from tercet.data.counters import Counters
from tercet.data.preferences import Preferences
from tercet.errors import MemoryLimitError, ParameterError
from tercet.gpu.all_pairs import GpuDense, GpuSparse, GpuSupport
from tercet.gpu.hardware import Gpu
from tercet.gpu.scoring import GpuScorer
from tercet.gpu.states import GpuChunk, GpuDiagonal, GpuLowRank, GpuState, GpuTexts
from tercet.learn import RANKERS
from tercet.learn.dense import DenseState
from tercet.learn.diagonal import DiagonalState
from tercet.learn.loop import CHUNK, Executor, InRounds, LocalStepper, Run, Stepper
from tercet.learn.lowrank import LowRankState
from tercet.learn.multitask import MultiTaskState
from tercet.learn.sources import BLOCK, ArraySource, SampledSource
from tercet.learn.sparse import SparseState
from tercet.learn.state import State, rates
from tercet.learn.stored import gathered
from tercet.learn.support import SupportState
from tercet.store import is_mapped
from tercet.weights import scoring_by

_log = logging.getLogger(__name__)

MOST_STEPS = 1 << 21  # most steps of a chunk with preferences on the GPU
FROM_HOST = 1 << 17  # most steps of a chunk if the CPU draws preferences or gathers texts for the next chunk
LOOKS = 20  # fewest chunks of a run: learning curves and comparisons of running fits need that many points
REPAID = 3.0  # least seconds on a core that repay a GPU; a GPU takes about two seconds to start
_OPERATIONS = 1e9  # approximate multiply-adds per second on a core
_OPERATIONS_OF_A_WORD = 16  # cost, in multiply-adds, of a diagonal's lookup of a word in the other texts
_SHARE_FOR_TEXTS = 0.8  # share of the GPU memory left by the weights that texts may take

ON_GPU: dict[type[State], type[GpuState[Any]]] = {
    LowRankState: GpuLowRank,
    MultiTaskState: GpuLowRank,
    DenseState: GpuDense,
    SparseState: GpuSparse,
    SupportState: GpuSupport,
    DiagonalState: GpuDiagonal,
}


class GpuStepper(Stepper):
    """Take the steps of a run on a GPU: one thread block per step, many steps at once.

    The GPU draws random preferences by counters; given preferences are copied once. Other sources draw on the CPU
    while the GPU is at work, and the CPU gathers texts that are mapped or too large for the GPU.
    """

    stops_for_checkpoints = True

    def __init__(self, run: Run, gpu: Gpu, *, deterministic: bool) -> None:
        self.run, self.gpu, self.deterministic = run, gpu, deterministic
        self.name = gpu.name
        self._pace = self._pace_of(MOST_STEPS)

    @property
    def most_steps(self) -> int:  # type: ignore[override]
        """Number of steps to the end of the chunk; chunks of a resumed run end at the same steps."""
        return self._pace - self.run.done % self._pace

    def _pace_of(self, most: int) -> int:
        """Return the steps of a chunk: at most ``most``, in whole CPU chunks, with at least ``LOOKS`` chunks a run."""
        if self.run.total is None:
            return most
        return min(most, max(1, self.run.total // LOOKS // CHUNK) * CHUNK)

    def begin(self) -> None:
        run, xp = self.run, self.gpu.xp
        with self.gpu.errors():
            self._state = ON_GPU[type(run.state)](self.gpu, run.state, deterministic=self.deterministic)
            self._state.take_as_many_as_texts_allow(run.Q, run.D)
            self._texts: GpuTexts | None = None
            if self._texts_fit(run.Q, run.D):
                self._texts = self._state.lay_out(run.Q, run.D)
            self._tally = xp.zeros((self._state.n_blocks, 2), dtype=np.float64)
            self._place_source()
        self._next: tuple[int, GpuChunk, GpuTexts] | None = None
        self._settled = True

    def _place_source(self) -> None:
        source, xp = self.run.source, self.gpu.xp
        self._sampler: Any = None
        self._given: GpuChunk | None = None
        if self._texts is None or type(source) not in (SampledSource, ArraySource):
            self._pace = self._pace_of(BLOCK if source.looks_at_weights else FROM_HOST)
        elif isinstance(source, SampledSource):
            if not self.run.done:
                source.drawn_by = "counters"  # a resumed run keeps its way of drawing
            if source.drawn_by == "counters":
                self._sampler = source.sampler.placed(xp)
            else:
                self._pace = self._pace_of(FROM_HOST)
        elif isinstance(source, ArraySource):
            source.prefs.check_rows(self.run.Q.shape[0], self.run.D.shape[0])  # kernels do not check rows
            self._given, self._epoch, self._order = self._chunk_of(source.prefs, None), -1, None

    def step(self, limit: int) -> tuple[float, float]:
        run = self.run
        with self.gpu.errors():
            if limit == 0:
                self._compile()
                return 0.0, 0.0
            chunk, texts = self._draw(limit)
            if not len(chunk):
                run.finished = True
                return 0.0, 0.0
            self._tally[:] = 0
            self._state.advance(texts, chunk, run.state.step, self._tally)
            run.state.step += len(chunk)
            self._settled = False
            self._look_ahead()
            tally = self.gpu.to_host(self._tally).sum(axis=0)
        return run.note(tally, len(chunk))

    def settle(self) -> None:
        if not self._settled:
            with self.gpu.errors():
                self._state.bring_back()
            self._settled = True

    def end(self) -> None:
        self._state = self._texts = self._sampler = self._given = self._next = self._tally = None  # type: ignore[assignment]
        self.gpu.free_unused()

    # -- preferences of the next chunk ----------------------------------------------------------------------------

    def _draw(self, limit: int) -> tuple[GpuChunk, GpuTexts]:
        run, xp = self.run, self.gpu.xp
        if self._sampler is not None:
            assert self._texts is not None
            assert isinstance(run.source, SampledSource)
            steps = xp.arange(run.done, run.done + limit)
            drawn = self._sampler.drawn(Counters(xp, run.source.random_state, steps))
            for rows, n, name in zip(drawn, (run.Q.shape[0], *(2 * run.D.shape[:1])), ("Q", "D", "D"), strict=True):
                if int(rows.max()) >= n:
                    raise ParameterError(f"the sampler draws row {int(rows.max())} of {name}, which has {n}")
            rate = self._rates(0, limit)
            query, better, worse = drawn
            return GpuChunk(query, better, worse, rate, rate, self._margins(limit)), self._texts
        if self._given is not None:
            assert self._texts is not None
            return self._given_part(limit), self._texts
        if self._next is None or self._next[0] != run.done:
            self._next = self._from_host(limit, 0)
        _, chunk, texts = self._next
        self._next = None
        if len(chunk) > limit:  # drawn ahead, and longer than the caller's limit
            self._next = run.done + limit, chunk.part(limit, len(chunk)), texts
            chunk = chunk.part(0, limit)
        return chunk, texts

    def _given_part(self, limit: int) -> GpuChunk:
        """Return the next given preferences, up to the end of a pass."""
        run, source = self.run, self.run.source
        assert isinstance(source, ArraySource)
        assert self._given is not None
        epoch, first = divmod(run.done, len(source.prefs))
        if source.shuffle and epoch != self._epoch:
            self._order, self._epoch = self.gpu.xp.asarray(source.order(epoch)), epoch
        n = min(limit, len(source.prefs) - first)
        if self._order is None:
            part = self._given.part(first, first + n)
        else:
            part = self._given.take(self._order[first : first + n])
        rate = self._rates(0, n)
        step_size = rate if source.prefs.weight is None else rate * part.step_size
        return GpuChunk(part.query, part.better, part.worse, rate, step_size, part.margin)

    def _from_host(self, limit: int, after: int) -> tuple[int, GpuChunk, GpuTexts]:
        """Draw preferences ``after`` steps ahead on the CPU, with texts that are not on the GPU."""
        run = self.run
        # A source that looks at the weights draws only after the steps of its last draw, as on a CPU.
        prefs, rate = (run.draw if run.source.looks_at_weights else run.draw_all)(limit, after)
        texts = self._texts
        with self.gpu.copying():
            if texts is None:
                prefs, Q, D = gathered(prefs, run.Q, run.D)
                texts = self._state.lay_out(Q, D)
            chunk = self._chunk_of(prefs, self.gpu.xp.asarray(rate))
        return run.done + after, chunk, texts

    def _look_ahead(self) -> None:
        """Draw the next preferences while the GPU is at work."""
        run = self.run
        on_gpu = self._sampler is not None or self._given is not None
        if on_gpu or run.source.looks_at_weights or self._next is not None:
            return
        limit = self.most_steps if run.total is None else min(self.most_steps, run.total - run.done)
        if limit:
            self._next = self._from_host(limit, 0)

    def _chunk_of(self, prefs: Preferences, rate: Any) -> GpuChunk:
        """Copy preferences to the GPU; without a rate, the weights are the step sizes."""
        xp = self.gpu.xp
        weight = None if prefs.weight is None else xp.asarray(prefs.weight)
        step_size = weight if rate is None else rate if weight is None else rate * weight
        margin = self._margins(len(prefs)) if prefs.margin is None else xp.asarray(prefs.margin)
        query, better, worse = map(xp.asarray, (prefs.query, prefs.better, prefs.worse))
        return GpuChunk(query, better, worse, rate, step_size, margin)

    def _rates(self, after: int, n: int) -> Any:
        sgd, run = self.run.sgd, self.run
        return rates(sgd.schedule, sgd.rate, run.state.step + after, n, run.total, self.gpu.xp)

    def _margins(self, n: int) -> Any:
        return self.gpu.xp.full(n, self.run.sgd.margin, dtype=np.float32)

    def _texts_fit(self, Q: sparse.csr_array, D: sparse.csr_array) -> bool:
        if is_mapped(Q.data) or is_mapped(D.data):
            return False
        return self._state.bytes_of_texts(Q, D) < _SHARE_FOR_TEXTS * self.gpu.free_bytes()

    def _compile(self) -> None:
        """Compile the kernel by a launch without preferences."""
        xp, run = self.gpu.xp, self.run
        none = xp.zeros(0, dtype=np.int32), xp.zeros(0, dtype=np.float32)
        texts = self._texts or self._state.lay_out(run.Q[[]], run.D[[]])
        chunk = GpuChunk(none[0], none[0], none[0], none[1], none[1], none[1])
        self._state.advance(texts, chunk, run.state.step, self._tally)


class GpuExecutor(Executor):
    """Take the steps of fits on a GPU.

    Parameters
    ----------
    strict : refuse rankers that cannot learn on a GPU or do not fit; otherwise the CPU learns them
    auto : leave such rankers, and small fits, to the CPU
    deterministic : give the same bits every time
    """

    def __init__(self, gpu: Gpu, *, strict: bool = True, auto: bool = False, deterministic: bool = False) -> None:
        self.gpu, self.strict, self.auto, self.deterministic = gpu, strict, auto, deterministic
        self._scorer = GpuScorer(gpu)

    @property
    def _leaves_to_cpu(self) -> bool:
        """Learn on the CPU if the GPU cannot; False refuses."""
        return self.auto or not self.strict

    def check(self, ranker: InRounds) -> None:
        state_class = getattr(ranker, "_state_class", None)
        if not self._leaves_to_cpu and state_class not in ON_GPU:
            able = [name for name, cls in RANKERS.items() if getattr(cls, "_state_class", None) in ON_GPU]
            raise ParameterError(
                f"{type(ranker).__name__} does not learn on a GPU; {', '.join(able[:-1])} and {able[-1]} do"
            )

    def stepper(self, run: Run) -> Stepper:
        if self.auto and seconds_on_a_core(run) < REPAID:
            return LocalStepper(run)
        self._scorer.let_go()
        try:
            self._check_state(run.state)
        except (ParameterError, MemoryLimitError) as error:
            if not self._leaves_to_cpu:
                raise
            _log.info("learning on the CPU: %s", error)
            return LocalStepper(run)
        _log.info("learning on %s", self.gpu.name)
        return GpuStepper(run, self.gpu, deterministic=self.deterministic)

    def _check_state(self, state: State) -> None:
        if type(state) not in ON_GPU:
            raise ParameterError(f"a {type(state).__name__} is not learned on a GPU; learn it on the CPU")
        with self.gpu.errors():
            ON_GPU[type(state)].check(self.gpu, state, deterministic=self.deterministic)

    def scoring(self) -> AbstractContextManager[None]:
        """Score texts on the GPU within the block."""
        return scoring_by(self._scorer)


def seconds_on_a_core(run: Run) -> float:
    """Estimate the seconds that the remaining steps of a run take on one core."""
    if run.total is None:
        return np.inf
    q, d = (X.nnz / max(1, X.shape[0]) for X in (run.Q, run.D))
    if isinstance(run.state, LowRankState):
        operations = 2 * (q + 2 * d) * run.state.U.shape[1]
    elif isinstance(run.state, DiagonalState):
        operations = _OPERATIONS_OF_A_WORD * (q + 2 * d)
    else:
        operations = 4 * q * 2 * d
    return float((run.total - run.done) * operations / _OPERATIONS)
