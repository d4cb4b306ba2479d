"""The training loop: it owns time, kernels own arrays.

Chunk after chunk: draw preferences, advance the state, validate when due, tell the callbacks, checkpoint last.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tercet.data.preferences import Preferences
from tercet.data.shards import StoredRows
from tercet.errors import DivergedError, InputError, ParameterError
from tercet.kernels.compiler import announce_compilation
from tercet.learn.matrices import KernelInput, Texts
from tercet.learn.progress import ProgressBar
from tercet.learn.sources import Source
from tercet.learn.state import Sgd, State, rates
from tercet.learn.stored import gathered
from tercet.store.schema import Via
from tercet.weights import Weights

CHUNK = 4096


@dataclass(frozen=True)
class Event:
    """What a callback is told after a chunk.

    A callback that returns True ends the training.
    """

    step: int
    total: int | None
    seconds: float
    violation_rate: float
    loss: float
    validation: float | None
    weights: Callable[[], Weights] = field(repr=False, compare=False)


class Saver(ABC):
    """Keeps a run on disk: called before the first step, and last after each chunk."""

    @abstractmethod
    def restore(self, run: Run) -> None: ...

    @abstractmethod
    def after_chunk(self, run: Run) -> None: ...


Callback = Callable[[Event], Any] | Saver


class Stepper(ABC):
    """Takes the steps of a run: here, or on the workers of a cluster."""

    most_steps: int  # that are taken at once, between two looks at the state
    identity: str = ""  # all of it that decides the outcome of a run

    @abstractmethod
    def begin(self) -> None:
        """Get ready, before the first look at the state; a checkpoint may have put another one in place."""

    @abstractmethod
    def step(self, limit: int) -> tuple[float, float]:
        """Advance the run by at most ``limit`` preferences; returns the rate of violations and the mean loss.

        A limit of 0 only compiles. Where the source has no more, ``run.finished`` is set.
        """


_stepper: ContextVar[Callable[[Run], Stepper] | None] = ContextVar("stepper", default=None)


@contextmanager
def stepping(make: Callable[[Run], Stepper]) -> Iterator[None]:
    """Have the steps of every run that begins within the block taken by what ``make`` gives."""
    token = _stepper.set(make)
    try:
        yield
    finally:
        _stepper.reset(token)


# What a cluster can learn; others call ``must_be_here`` where they do not go through a Run.
MIXED = "SparseRanker, LowRankRanker, DiagonalRanker and FTRLRanker"


def must_be_here(ranker: object) -> None:
    """Refuse to learn within a block of `stepping`, for rankers that take no steps which could be taken elsewhere."""
    if _stepper.get() is not None:
        raise ParameterError(f"{type(ranker).__name__} does not learn in rounds, so no cluster learns it; {MIXED} do")


# -inf is no JSON number: before the first validation there is no best value to save.
NONE_YET = Via(
    float | None, lambda best: None if best == -np.inf else best, lambda best: -np.inf if best is None else best
)


@dataclass
class Stopping:
    """When to validate and when to give up.

    every : steps between validations
    patience : validations in a row that may bring no better one; one more stops. None never stops early
    """

    every: int
    patience: int | None
    best: Annotated[float, NONE_YET] = -np.inf
    best_step: int = -1
    since_best: int = 0

    def note(self, value: float, step: int) -> bool:
        """Take a validation value; True when it is the best so far."""
        if not np.isfinite(value):
            raise InputError(f"validation returned {value} at step {step}; it must return a finite number")
        if value > self.best:
            self.best, self.best_step, self.since_best = float(value), step, 0
            return True
        self.since_best += 1
        return False

    @property
    def exhausted(self) -> bool:
        return self.patience is not None and self.since_best > self.patience


class Run:
    """One call of fit: everything that must be kept to go on after a kill."""

    def __init__(
        self,
        state: State,
        source: Source,
        Q: Texts,
        D: Texts,
        sgd: Sgd,
        *,
        total: int | None,
        validation: Callable[[Weights], float] | None,
        stopping: Stopping,
    ) -> None:
        self.state = state
        self.source = source
        self.Q, self.D = Q, D
        self.sgd = sgd
        self.total = total
        self.validation = validation
        self.stopping = stopping
        self.first = state.step
        self.best_state: State | None = None
        self.finished = False

    @property
    def done(self) -> int:
        """Steps of this run."""
        return self.state.step - self.first

    def go(self, callbacks: Sequence[Callback], title: str, verbose: bool | None) -> State:
        """Train to the end; returns the best validated state, or the last one without validation."""
        checkpoints = [c for c in callbacks if isinstance(c, Saver)]
        listeners = [c for c in callbacks if not isinstance(c, Saver)]
        self.stepper = (_stepper.get() or Here)(self)
        for checkpoint in checkpoints:
            checkpoint.restore(self)
        self.state.look_at(self.Q, self.D)
        self.stepper.begin()
        started = time.perf_counter()
        with ProgressBar(title, self.total, self.done, verbose) as bar:
            if self.validation is not None and self.stopping.best_step < 0:
                self._validate()  # the start counts: learning must beat it
            with announce_compilation(self.state.kernels, bar.say):
                self.stepper.step(0)
            while not self.finished:
                limit = self.stepper.most_steps
                if self.total is not None:
                    limit = min(limit, self.total - self.done)
                if self.validation is not None:
                    limit = min(limit, self.stopping.every - self.done % self.stopping.every)
                violation_rate, loss = self.stepper.step(limit)
                validation = None
                if self.validation is not None and (self.done % self.stopping.every == 0 or self.done == self.total):
                    validation = self._validate()
                    self.finished |= self.stopping.exhausted
                self.finished |= self.done == self.total
                event = Event(
                    step=self.done,
                    total=self.total,
                    seconds=time.perf_counter() - started,
                    violation_rate=violation_rate,
                    loss=loss,
                    validation=validation,
                    weights=self.state.snapshot,
                )
                bar.update(self.done, violation_rate, loss, validation)
                for listener in listeners:
                    self.finished |= listener(event) is True
                for checkpoint in checkpoints:
                    checkpoint.after_chunk(self)
        return self.state if self.best_state is None else self.best_state

    def draw(self, limit: int, after: int = 0) -> tuple[Preferences, NDArray[np.float32]]:
        """Preferences that are ``after`` steps away, at most so many, and the rate of each; none at the end."""
        chunk = self.source.draw(self.done + after, self.state.snapshot)[:limit]
        chunk.check_rows(self.Q.shape[0], self.D.shape[0])
        return chunk, rates(self.sgd.schedule, self.sgd.rate, self.state.step + after, len(chunk), self.total)

    def note(self, tally: NDArray[np.float64], n_steps: int) -> tuple[float, float]:
        """The rate of violations and the mean loss of some steps; refuses what is no number any more."""
        if not np.isfinite(tally).all():
            raise DivergedError(
                f"the loss is no longer finite after {self.done} steps; a rate below {self.sgd.rate:g} is needed"
            )
        n = max(n_steps, 1)
        return float(tally[0] / n), float(tally[1] / n)

    def _validate(self) -> float:
        assert self.validation is not None
        value = float(self.validation(self.state.snapshot()))
        if self.stopping.note(value, self.done):
            self.best_state = self.state.copy()
        return value


class Here(Stepper):
    """Takes steps in this process, one after the other.

    Texts in memory are laid out once. Of stored ones only those of a chunk are fetched, and laid out for that chunk.
    """

    most_steps = CHUNK

    def __init__(self, run: Run) -> None:
        self.run = run

    def begin(self) -> None:
        Q, D = self.run.Q, self.run.D
        self._input: KernelInput | None = None
        if not (isinstance(Q, StoredRows) or isinstance(D, StoredRows)):
            self._input = self.run.state.kernel_input(Q, D)

    def step(self, limit: int) -> tuple[float, float]:
        run = self.run
        chunk, rate = run.draw(limit)
        if limit and not len(chunk):
            run.finished = True
            return 0.0, 0.0
        tally = np.zeros(2)
        inputs = self._input
        if inputs is None:
            chunk, queries, docs = gathered(chunk, run.Q, run.D)
            inputs = run.state.kernel_input(queries, docs)
        run.state.advance(inputs, chunk, rate, run.sgd.margin, tally)
        return run.note(tally, len(chunk))
