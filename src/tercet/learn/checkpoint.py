"""Training that survives a kill."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tercet.errors import InputError, MissingBundleError
from tercet.learn.loop import Run, Saver, Stopping
from tercet.learn.matrices import fingerprint
from tercet.learn.state import Steps
from tercet.store import check_destination, read_bundle, write_bundle
from tercet.store.codec import decode, encode

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
        source_meta, source_arrays = run.source.state()
        state, state_arrays = run.state.to_state()
        best, best_arrays = (None, {}) if run.best_state is None else run.best_state.to_state()
        meta, _ = encode(StoredRun(self._identity, run.first, run.finished, run.stopping, source_meta, state, best))
        arrays = _prefixed("state", state_arrays) | _prefixed("source", source_arrays) | _prefixed("best", best_arrays)
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
    """What is saved of a run beside its arrays; ``run`` is its identity."""

    run: str
    first: Steps
    finished: bool
    stopping: Stopping
    source: dict[str, Any]
    state: dict[str, Any]
    best: dict[str, Any] | None


def _identity(run: Run) -> str:
    """A digest of all that decides the outcome of a run, the starting state included."""
    digest = hashlib.sha256()
    facts: tuple[Any, ...] = (run.sgd, run.total, run.stopping.every, run.stopping.patience, run.validation is not None)
    if run.stepper.identity:
        facts += (run.stepper.identity,)
    meta, arrays = run.state.to_state()
    digest.update(repr((facts, run.source.fingerprint(), sorted(meta.items()))).encode())
    digest.update(fingerprint(run.Q, run.D).encode())
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _prefixed(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _taken(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}
