"""Pieces of a reproduction: done once and kept on disk, or left out when the time is over."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from reproductions.code import code_digest
from tercet.errors import BundleError, TercetError
from tercet.store import read_bundle, write_bundle, write_file_atomically
from tercet.store.canonical import canonical_bytes, parse_json
from tercet.store.kinds import WEIGHTS
from tercet.weights import Weights

FORMAT = 4  # of cells; a higher one leaves all older cells aside


@dataclass(frozen=True)
class CellSetting:
    """All that a cell depends on: what files are called after, values, and the modules that its number comes from."""

    name: str
    values: dict[str, Any]
    modules: tuple[str, ...]

    def digested(self) -> tuple[dict[str, Any], str]:
        """The setting with the version and the code, and a digest of both."""
        setting = self.values | {"format": FORMAT, "version": version("tercet"), "code": code_digest(self.modules)}
        return setting, hashlib.sha256(canonical_bytes(setting)).hexdigest()[:16]


@dataclass(frozen=True)
class CellCache:
    """A folder of finished cells; ``fresh`` leaves what is there aside."""

    folder: Path
    fresh: bool = False

    def get(self, cell: CellSetting, work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
        """The result of this setting and whether it was there already; else the work is done and kept."""
        setting, digest = cell.digested()
        path = self.folder / f"{cell.name}-{digest}.json"
        if path.exists() and not self.fresh:
            try:
                content = parse_json(path.read_bytes(), str(path))
            except TercetError:  # cut short or changed by hand: as good as none
                content = None
            if isinstance(content, dict) and content.get("setting") == setting and content.get("result"):
                return content["result"], True
        result = work()
        if result.get("cut"):  # how far it came depends on the machine
            return result, False
        data = canonical_bytes({"setting": setting, "result": result})
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file_atomically(path, data)
        # As a later run will read it, so that both give the same bytes.
        return parse_json(data, str(path))["result"], False


@dataclass(frozen=True)
class ComponentStore:
    """A folder of weights that blends are made of, each named after its cell; gone when its blends are done."""

    folder: Path

    def read(self, cell: CellSetting, model: str) -> Weights | None:
        """The weights of a model, where they are there and whole."""
        try:
            bundle = read_bundle(self._path(cell) / model, kind=WEIGHTS)
            return Weights.from_state(bundle.meta, bundle.arrays)
        except BundleError:
            return None

    def write(self, cell: CellSetting, weights: dict[str, Weights]) -> None:
        """Keep the weights of models; those of older settings of the same cell are removed."""
        for older in self._all(cell.name):
            if older != self._path(cell):
                shutil.rmtree(older, ignore_errors=True)
        for model, value in weights.items():
            meta, arrays = value.to_state()
            write_bundle(self._path(cell) / model, kind=WEIGHTS, meta=meta, arrays=arrays)

    def remove(self, names: Iterable[str]) -> None:
        """Let go of the weights of these cells."""
        for name in names:
            for path in self._all(name):
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder when it is empty; only when nobody writes to it any more."""
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _path(self, cell: CellSetting) -> Path:
        return self.folder / f"{cell.name}-{cell.digested()[1]}"

    def _all(self, name: str) -> list[Path]:
        named = re.compile(re.escape(name) + "-[0-9a-f]{16}")
        return [path for path in self.folder.glob(f"{name}-*") if named.fullmatch(path.name)]


@dataclass(frozen=True)
class RunDeadline:
    """A moment after which training ends; a callback."""

    moment: float | None = None  # of time.monotonic

    @classmethod
    def after(cls, budget: float | None) -> RunDeadline:
        """So many minutes from now; None never ends."""
        return cls(None if budget is None else time.monotonic() + 60 * budget)

    @property
    def is_over(self) -> bool:
        return self.moment is not None and time.monotonic() >= self.moment

    def __call__(self, event: object) -> bool:
        return self.is_over


class DeadlineWatch:
    """The deadline as a callback that notes where it ended a fit: after which step of its how-manieth run."""

    def __init__(self, deadline: RunDeadline) -> None:
        self.deadline = deadline
        self.ended_at: int | None = None
        self.n_runs = 0
        self._last: int | None = None

    def __call__(self, event: Any) -> bool:
        self.n_runs += self._last is None or event.step <= self._last
        self._last = event.step
        if not self.deadline(event):
            return False
        if event.total is None or event.step < event.total:
            self.ended_at = event.step
        return True


class Listener(Protocol):
    """Who is told how a run goes on."""

    def begin(self, n_cells: int) -> None: ...
    def now(self, text: str) -> None: ...
    def done(self, text: str) -> None: ...
    def say(self, text: str) -> None: ...
    def skip(self) -> None: ...
