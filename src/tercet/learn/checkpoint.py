"""Training that survives a kill."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tercet.errors import InputError, MissingBundleError
from tercet.learn.loop import Run, Saver
from tercet.learn.matrices import fingerprint
from tercet.learn.state import State
from tercet.store import Fields, check_destination, read_bundle, write_bundle

KIND = "checkpoint"


class Checkpoint(Saver):
    """Give it to ``fit`` as a callback: training is saved every so many steps and goes on from there.

    When ``path`` holds a checkpoint of the same run (same data, preferences and parameters), ``fit`` continues it, and
    the result has the same bits as a run that was never interrupted. A checkpoint of another run is an error.

    Parameters
    ----------
    path : folder to write to, replaced as a whole each time
    every : steps between writes; the end of the training is always written
    """

    def __init__(self, path: str | PathLike[str], every: int = 100_000) -> None:
        if every < 1:
            raise InputError(f"every must be at least 1 step; got {every}")
        self.path = Path(path)
        self.every = every
        self._written_at = 0
        self._identity = ""

    def after_chunk(self, run: Run) -> None:
        if run.finished or run.done - self._written_at >= self.every:
            self.write(run)

    def write(self, run: Run) -> None:
        stopping = asdict(run.stopping)
        # -inf is no JSON number; without a validation yet there is no best value to keep.
        stopping["best"] = None if run.stopping.best_step < 0 else run.stopping.best
        source_meta, source_arrays = run.source.state()
        meta: dict[str, Any] = {
            "run": self._identity,
            "first": run.first,
            "finished": run.finished,
            "stopping": stopping,
            "source": source_meta,
            "state": run.state.meta(),
            "best": None if run.best_state is None else run.best_state.meta(),
        }
        arrays = _prefixed("state", run.state.arrays()) | _prefixed("source", source_arrays)
        if run.best_state is not None:
            arrays |= _prefixed("best", run.best_state.arrays())
        write_bundle(self.path, kind=KIND, meta=meta, arrays=arrays)
        self._written_at = run.done

    def restore(self, run: Run) -> None:
        """Put the run where the checkpoint left it; nothing happens when there is no checkpoint yet."""
        self._identity = _identity(run)
        self._written_at = 0
        try:
            bundle = read_bundle(self.path, kind=KIND)
        except MissingBundleError:
            check_destination(self.path)  # now, and not when the first hour of work is to be written
            return
        fields = bundle.fields()
        if fields.take("run", str) != self._identity:
            raise InputError(
                f"{self.path} holds a checkpoint of another run: the data, the preferences or the parameters differ. "
                "Remove it or choose another path"
            )
        run.first = fields.take("first", int)
        run.finished = fields.take("finished", bool)
        stopping = Fields(fields.take("stopping", dict), "checkpoint stopping")
        best = stopping.take("best", float | None)
        run.stopping.best = float("-inf") if best is None else best
        run.stopping.best_step = stopping.take("best_step", int)
        run.stopping.since_best = stopping.take("since_best", int)
        stopping.take("every", int)  # part of the run's identity, which was compared above
        stopping.take("patience", int | None)
        stopping.done()
        run.state = _state(type(run.state), fields.take("state", dict), "state", bundle.arrays)
        best_meta = fields.take("best", dict | None)
        if best_meta is not None:
            run.best_state = _state(type(run.state), best_meta, "best", bundle.arrays)
        run.source.restore(fields.take("source", dict), _taken("source", bundle.arrays))
        fields.done()
        self._written_at = run.done


def _identity(run: Run) -> str:
    """A digest of all that decides the outcome of a run, the starting state included."""
    digest = hashlib.sha256()
    facts: tuple[Any, ...] = (run.sgd, run.total, run.stopping.every, run.stopping.patience, run.validation is not None)
    if run.stepper.identity:
        facts += (run.stepper.identity,)
    digest.update(repr((facts, run.source.fingerprint(), run.state.meta())).encode())
    digest.update(fingerprint(run.Q, run.D).encode())
    for name, array in sorted(run.state.arrays().items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _state(kind: type[State], meta: dict[str, Any], prefix: str, arrays: dict[str, NDArray[Any]]) -> State:
    fields = Fields(meta, f"checkpoint {prefix}")
    state = kind.from_state(fields, _taken(prefix, arrays))
    fields.done()
    return state


def _prefixed(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _taken(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}
