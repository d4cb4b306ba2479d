"""Pieces of a reproduction: done once and kept on disk, or left out when the time is over."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from tercet.errors import DivergedError, TercetError
from tercet.store import write_file_atomically
from tercet.store.canonical import canonical_bytes, parse_json

FORMAT = 3  # of cells; a higher one leaves all older cells aside
# Whose code the numbers come from.
CODE = (
    "kernels/*",
    "data/*",
    "text/*",
    "weights/*",
    "learn/**/*",
    "measure/*",
    "fitting/rankers",
    "choose",
    "repro/*_jobs",
    "repro/datasets",
    "repro/folds",
    "repro/links",
    "repro/readers/*",
    "repro/tasks",
)


@cache
def code_digest() -> str:
    """Of the code that makes the numbers, so that a cell is never taken for that of another learner."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for pattern in CODE:
        for file in sorted(root.glob(f"{pattern}.py")):
            digest.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class CellCache:
    """A folder of finished cells; ``fresh`` leaves what is there aside."""

    folder: Path
    fresh: bool = False

    def get(
        self, name: str, setting: dict[str, Any], work: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        """The result of this setting and whether it was there already; else the work is done and kept."""
        setting = setting | {"format": FORMAT, "version": version("tercet"), "code": code_digest()}
        digest = hashlib.sha256(canonical_bytes(setting)).hexdigest()
        path = self.folder / f"{name}-{digest[:16]}.json"
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


class Listener(Protocol):
    """Who is told how a run goes on."""

    def begin(self, n_cells: int) -> None: ...
    def now(self, text: str) -> None: ...
    def done(self, text: str) -> None: ...
    def say(self, text: str) -> None: ...
    def skip(self) -> None: ...


@dataclass
class JobRunner:
    """Does a piece of work, finds it done, or leaves it out when the time is over; and says so."""

    cells: CellCache
    listener: Listener
    deadline: RunDeadline
    cut: list[str] = field(default_factory=list)  # what the budget left out or cut short
    failed: list[str] = field(default_factory=list)  # what diverged

    def get(
        self,
        title: str,
        key: str,
        setting: dict[str, Any],
        work: Callable[[], dict[str, Any]],
        *,
        summary: Callable[[dict[str, Any]], str],
        how_far: Callable[[dict[str, Any]], str] = lambda result: "cut short",
    ) -> dict[str, Any] | None:
        """The result; None when it was left out or diverged."""
        self.listener.now(title)
        started = time.monotonic()

        def unless_over() -> dict[str, Any]:
            return {"cut": True, "left out": True} if self.deadline.is_over else work()

        try:
            result, kept = self.cells.get(key, setting, unless_over)
        except DivergedError as error:  # of one setting; the others go on
            self.fail(f"{title}: {error}")
            return None
        if result.get("left out"):
            self.leave_out(title)
            return None
        how = "kept" if kept else f"done in {time.monotonic() - started:.0f} s"
        if result.get("cut"):
            how += ", cut short by the budget"
            self.cut.append(f"{title}: {how_far(result)}")
        self.listener.done(f"{title}: {how}{summary(result)}")
        return result

    def fail(self, line: str) -> None:
        self.failed.append(line)
        self.listener.done(line)

    def leave_out(self, title: str) -> None:
        self.cut.append(f"{title}: left out")
        self.listener.done(f"{title}: left out, the budget is used up")
