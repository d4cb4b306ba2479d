"""The training loop: the loop owns time, kernels own arrays.

Chunk after chunk: draw preferences, advance the state, validate when due, call the callbacks, checkpoint last.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.data.preferences import Preferences, joined
from tercet.errors import DivergedError, InputError, MissingBundleError
from tercet.learn.matrices import KernelInput, fingerprint
from tercet.learn.progress import ProgressBar
from tercet.learn.sources import Source
from tercet.learn.state import Sgd, State, Steps, rates
from tercet.learn.stored import gathered
from tercet.store import check_destination, is_mapped, read_bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.digest import digest_of, state_digest
from tercet.store.kinds import CHECKPOINT
from tercet.store.schema import Via
from tercet.weights import Weights

CHUNK = 4096


@dataclass(frozen=True)
class Event:
    """Argument of a callback after a chunk.

    A callback that returns True ends the training.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import DiagonalRanker, Preferences
    >>> X, seen = sparse.eye_array(3, format="csr"), []
    >>> ranker = DiagonalRanker().fit(X, Preferences([0], [1], [2]), callbacks=[lambda event: seen.append(event.step)])
    >>> seen
    [1]
    """

    step: int
    total: int | None
    seconds: float
    violation_rate: float
    loss: float
    validation: float | None
    weights: Callable[[], Weights] = field(repr=False, compare=False)


# -- where steps are taken ---------------------------------------------------------------------------------------------


class Stepper(ABC):
    """Steps of one run."""

    most_steps: int  # most steps per call of `step`; the state is readable between calls
    stops_for_checkpoints: bool = False  # True to end a call of `step` early at a checkpoint
    identity: str = ""  # properties of the stepper that decide the outcome of a run
    name: str = ""  # name of the device in the title of progress, if any

    @abstractmethod
    def begin(self) -> None:
        """Prepare before the first read of the state; a checkpoint may have replaced the state."""

    @abstractmethod
    def step(self, limit: int) -> tuple[float, float]:
        """Advance the run by at most ``limit`` preferences; return the rate of violations and the mean loss.

        A limit of 0 only compiles. At the end of the source, ``run.finished`` is set.
        """

    def settle(self) -> None:
        """Bring the state of the run up to date, after steps on another device."""
        return

    def end(self) -> None:
        """Release all resources of the run, after its end or an error."""
        return


class InRounds(Protocol):
    """Ranker class with a flag for distributed rounds: workers learn from the same weights, and their changes are
    mixed.
    """

    _learns_in_rounds: ClassVar[bool]


class Executor(ABC):
    """Place of the steps of fits: the seam between learners and a cluster or a GPU.

    Sources, validation, callbacks and checkpoints are the same everywhere.
    """

    in_rounds: bool = False  # True if several workers learn from the same weights and their changes are mixed

    @abstractmethod
    def check(self, ranker: InRounds) -> None:
        """Raise a ParameterError for a ranker without support here."""

    @abstractmethod
    def stepper(self, run: Run) -> Stepper:
        """Return the stepper of an SGD run."""


class LocalExecutor(Executor):
    """Takes all steps in this process, in turn."""

    def check(self, ranker: InRounds) -> None:
        return

    def stepper(self, run: Run) -> Stepper:
        return LocalStepper(run)


_executor: ContextVar[Executor] = ContextVar("executor", default=LocalExecutor())  # noqa: B039  # LocalExecutor has no state


def current_executor() -> Executor:
    """Return the executor of the innermost ``executing_on`` block, or the local executor."""
    return _executor.get()


@contextmanager
def executing_on(executor: Executor) -> Iterator[None]:
    """Run the steps of every fit within the block on this executor."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


# -- the run -----------------------------------------------------------------------------------------------------------


# -inf is no JSON number: before the first validation there is no best value to save.
NONE_YET = Via(
    float | None, lambda best: None if best == -np.inf else best, lambda best: -np.inf if best is None else best
)


@dataclass
class Stopping:
    """Times of validations, and early stopping.

    every : steps between validations
    patience : validations in a row without improvement; the next stops the run. None never stops early
    """

    every: int
    patience: int | None
    best: Annotated[float, NONE_YET] = -np.inf
    best_step: int = -1
    since_best: int = 0

    def note(self, value: float, step: int) -> bool:
        """Take a validation value; return True for the best value up to now."""
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
    """One call of fit, with all state of a checkpoint."""

    def __init__(
        self,
        state: State,
        source: Source,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        sgd: Sgd,
        *,
        total: int | None,
        validation: Callable[[Weights], float] | None = None,
        stopping: Stopping | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.state = state
        self.source = source
        self.Q, self.D = Q, D
        self.sgd = sgd
        self.total = total
        self.validation = validation
        self.stopping = stopping or Stopping(every=1, patience=None)
        self.executor = executor or current_executor()
        self.first = state.step
        self.best_state: State | None = None
        self.finished = False
        self.begun = False  # True once steps may have changed the state
        self._validated_at = -1  # number of steps at the last validation

    @property
    def done(self) -> int:
        """Steps of this run."""
        return self.state.step - self.first

    def go(self, callbacks: Sequence[Callback], title: str, verbose: bool | None) -> State:
        """Train to the end; return the best validated state, or the last state without validation."""
        checkpoints = [callback for callback in callbacks if isinstance(callback, Checkpoint)]
        listeners = [callback for callback in callbacks if not isinstance(callback, Checkpoint)]
        self.stepper = self.executor.stepper(self)
        self.source.begin()
        for checkpoint in checkpoints:
            checkpoint.restore(self)
        self.state.observe(self.Q, self.D)
        started = time.perf_counter()
        title = f"{title} on {self.stepper.name}" if self.stepper.name else title
        try:
            self.stepper.begin()
            with ProgressBar(title, self.total, self.done, verbose) as bar:
                if self.validation is not None and self.stopping.best_step < 0:
                    self._validate()  # the start is a candidate: learning must beat the start
                self.stepper.step(0)  # compiles the kernels, so that rates are those of learning
                self.begun = True
                while not self.finished:
                    violation_rate, loss = self.stepper.step(self._next_limit(checkpoints))
                    validation = self._validate_if_due()
                    self.finished |= self.done == self.total
                    seconds, weights = time.perf_counter() - started, CurrentWeights(self.stepper, self.state)
                    event = Event(self.done, self.total, seconds, violation_rate, loss, validation, weights)
                    bar.update(self.done, violation_rate, loss, validation)
                    for listener in listeners:
                        answer = listener(event)
                        self.finished |= isinstance(answer, bool | np.bool_) and bool(answer)
                    for checkpoint in checkpoints:
                        checkpoint.after_chunk(self)
            self.stepper.settle()
        finally:
            self.stepper.end()
            del self.stepper  # break the cycle of run and stepper: W would stay in memory until a garbage collection
        return self.state if self.best_state is None else self.best_state

    def _next_limit(self, checkpoints: Sequence[Checkpoint]) -> int:
        """Return the largest number of steps up to the next validation, checkpoint or end."""
        limits = [self.stepper.most_steps]
        if self.total is not None:
            limits.append(self.total - self.done)
        if self.validation is not None:
            limits.append(self.stopping.every - self.done % self.stopping.every)
        if self.stepper.stops_for_checkpoints:
            limits += [checkpoint.due_in(self.done) for checkpoint in checkpoints]
        return min(limits)

    def _validate_if_due(self) -> float | None:
        # A source without a known end may end at any step: the last steps are validated, too.
        due = self.done % self.stopping.every == 0 or self.done == self.total or self.finished
        if self.validation is None or not due or self.done == self._validated_at:
            return None
        validation = self._validate()
        self.finished |= self.stopping.exhausted
        return validation

    def snapshot(self) -> Weights:
        """Return the weights after all steps up to now."""
        self.stepper.settle()
        return self.state.snapshot()

    def draw(self, limit: int, after: int = 0) -> tuple[Preferences, NDArray[np.float32]]:
        """Return at most ``limit`` preferences from ``after`` steps ahead, and their rates; no preference means the
        end.
        """
        chunk = self.source.draw(self.done + after, self.snapshot)[:limit]
        chunk.check_rows(self.Q.shape[0], self.D.shape[0])
        return chunk, rates(self.sgd.schedule, self.sgd.rate, self.state.step + after, len(chunk), self.total)

    def draw_all(self, limit: int, after: int = 0) -> tuple[Preferences, NDArray[np.float32]]:
        """Draw in several parts until ``limit`` preferences or the end of the source."""
        parts: list[tuple[Preferences, NDArray[np.float32]]] = []
        drawn = 0
        while drawn < limit or not parts:
            part = self.draw(limit - drawn, after + drawn)
            parts.append(part)
            drawn += len(part[0])
            if not len(part[0]):
                break
        return joined([prefs for prefs, _ in parts]), np.concatenate([rate for _, rate in parts])

    def note(self, tally: NDArray[np.float64], n_steps: int) -> tuple[float, float]:
        """Return the rate of violations and the mean loss of some steps; refuse a loss that is not finite."""
        if not np.isfinite(tally).all():
            raise DivergedError(
                f"the loss is no longer finite after {self.done} steps; a rate below {self.sgd.rate:g} is needed"
            )
        n = max(n_steps, 1)
        return float(tally[0] / n), float(tally[1] / n)

    def _validate(self) -> float:
        assert self.validation is not None
        self._validated_at = self.done
        value = float(self.validation(self.snapshot()))
        if self.stopping.note(value, self.done):
            self.best_state = self.state.copy()
        return value


class CurrentWeights:
    """Returns the weights of a run, after its end the last weights; keeps no texts."""

    def __init__(self, stepper: Stepper, state: State) -> None:
        self._stepper: ref[Stepper] | None = ref(stepper)
        self._state = state

    def __call__(self) -> Weights:
        at_work = None if self._stepper is None else self._stepper()
        if at_work is not None:
            at_work.settle()
        return self._state.snapshot()

    def __getstate__(self) -> dict[str, Any]:
        # A copy of a ranker has the history, but takes no part in a run.
        return {"_stepper": None, "_state": self._state}


class LocalStepper(Stepper):
    """Takes steps in this process, in turn.

    Texts in memory are prepared once. Of mapped texts the rows of each chunk are copied and prepared.
    """

    most_steps = CHUNK

    def __init__(self, run: Run) -> None:
        self.run = run

    def begin(self) -> None:
        Q, D = self.run.Q, self.run.D
        self._input: KernelInput | None = None
        if not (is_mapped(Q.data) or is_mapped(D.data)):
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


# -- checkpoints -------------------------------------------------------------------------------------------------------


class Checkpoint:
    """Callback of ``fit`` that saves the training at intervals and resumes a killed run.

    If ``path`` holds a checkpoint of the same run (same data, preferences and parameters), ``fit`` continues the run to
    the same bits as an uninterrupted run. A checkpoint of another run is an error.

    Parameters
    ----------
    path : folder, replaced as a whole at each write
    every : steps between writes; the end of the training is always written

    Examples
    --------
    >>> import tempfile
    >>> from scipy import sparse
    >>> from tercet import DiagonalRanker, Preferences
    >>> X, prefs = sparse.eye_array(3, format="csr"), Preferences([0], [1], [2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ranker = DiagonalRanker(epochs=5).fit(X, prefs, callbacks=[Checkpoint(f"{folder}/run", every=2)])
    ...     again = DiagonalRanker(epochs=5).fit(X, prefs, callbacks=[Checkpoint(f"{folder}/run", every=2)])  # goes on
    >>> ranker.n_steps_ == again.n_steps_
    True
    """

    def __init__(self, path: str | PathLike[str], every: int = 100_000) -> None:
        self.path = Path(path)
        self.every = check_integer(every, "every")
        self._written_at = 0
        self._identity = ""

    def due_in(self, done: int) -> int:
        """Return the steps to the next write, at the end of a CPU chunk."""
        return -(-(self._written_at + self.every) // CHUNK) * CHUNK - done

    def after_chunk(self, run: Run) -> None:
        if run.finished or run.done - self._written_at >= self.every:
            self.write(run)

    def write(self, run: Run) -> None:
        run.stepper.settle()
        source_meta, source_arrays = run.source.state()
        state, state_arrays = run.state.to_state()
        best, best_arrays = (None, {}) if run.best_state is None else run.best_state.to_state()
        meta, _ = encode(StoredRun(self._identity, run.first, run.finished, run.stopping, source_meta, state, best))
        arrays = _prefixed("state", state_arrays) | _prefixed("source", source_arrays) | _prefixed("best", best_arrays)
        write_bundle(self.path, kind=CHECKPOINT, meta=meta, arrays=arrays)
        self._written_at = run.done

    def restore(self, run: Run) -> None:
        """Restore the run from the checkpoint, if any."""
        self._identity = _identity(run)
        self._written_at = 0
        try:
            bundle = read_bundle(self.path, kind=CHECKPOINT)
        except MissingBundleError:
            check_destination(self.path)  # fail now, not at the first checkpoint
            return
        if bundle.meta.get("run") != self._identity:
            raise InputError(
                f"{self.path} holds a checkpoint of another run: the data, the preferences or the parameters differ. "
                "Remove it or choose another path"
            )
        stored = decode(StoredRun, bundle.meta, where="checkpoint")
        run.first, run.finished, run.stopping = stored.first, stored.finished, stored.stopping
        kind = type(run.state)
        run.state = kind.from_state(stored.state, _taken("state", bundle.arrays), "checkpoint state")
        if stored.best is not None:
            run.best_state = kind.from_state(stored.best, _taken("best", bundle.arrays), "checkpoint best")
        run.source.restore(stored.source, _taken("source", bundle.arrays))
        self._written_at = run.done


@dataclass(frozen=True)
class StoredRun:
    """Saved run without its arrays; ``run`` is its identity."""

    run: str
    first: Steps
    finished: bool
    stopping: Stopping
    source: dict[str, Any]
    state: dict[str, Any]
    best: dict[str, Any] | None


def _identity(run: Run) -> str:
    """Return a digest of all inputs of a run, the start included."""
    facts = asdict(run.sgd), run.total, run.stopping.every, run.stopping.patience, run.validation is not None
    inputs = run.stepper.identity, run.source.fingerprint(), fingerprint(run.Q, run.D)
    return digest_of(facts, inputs, state_digest(run.state))


def _prefixed(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _taken(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}


Callback = Callable[[Event], Any] | Checkpoint
