"""The record of `tools/reference.py`: figures as values, differences between two runs, and the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["quality", "exact", "ratio"]
Status = Literal["within", "moved", "gone", "new", "ratio"]


@dataclass(frozen=True)
class Figure:
    """One recorded value; a quality figure has the standard error of its mean."""

    kind: Kind
    value: float | str
    standard_error: float | None = None

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return self.value[:16]
        if self.standard_error is None:
            return f"{self.value:.4g}"
        return f"{self.value:.4f} ± {self.standard_error:.4f}"

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value is not None}


Figures = dict[str, dict[str, Figure]]  # part -> name -> figure


# -- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A figure that is not what the file has."""

    name: str
    status: Status
    before: Figure | None
    after: Figure | None

    def __str__(self) -> str:
        if self.after is None:
            return f"{self.name}: gone (was {self.before})"
        if self.before is None:
            return f"{self.name}: new, {self.after}"
        line = f"{self.name}: {self.before} -> {self.after}"
        if self.status == "ratio":
            return f"{line} (speed, for information)"
        if self.before.kind == "exact":
            return f"{line}: CHANGED"
        verdict = "within one standard error" if self.status == "within" else "MOVED by more than one standard error"
        return f"{line}: {verdict}"


def compare(before: dict[str, Figure], after: dict[str, Figure]) -> Iterator[Difference]:
    """Yield a difference for each figure that is not equal, in the order of the file, new figures last."""
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        if old != new:
            yield Difference(name, _status(old, new), old, new)


def _status(old: Figure | None, new: Figure | None) -> Status:
    if new is None:
        return "gone"
    if old is None:
        return "new"
    if old.kind == "ratio":
        return "ratio"
    if old.kind == "exact" or isinstance(old.value, str) or isinstance(new.value, str):
        return "moved"
    return "within" if abs(new.value - old.value) <= (old.standard_error or 0.0) else "moved"


# -- the file ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[dict[str, Any], Figures]:
    """Read the facts about a recorded run, and its figures."""
    content = json.loads(path.read_text(encoding="utf-8"))
    parts = content.pop("figures")
    return content, {
        part: {name: Figure(**value) for name, value in figures.items()} for part, figures in parts.items()
    }


def write(path: Path, facts: dict[str, Any], figures: Figures) -> None:
    """Write facts and figures as JSON."""
    parts = {part: {name: one.to_dict() for name, one in named.items()} for part, named in figures.items()}
    path.write_text(json.dumps({**facts, "figures": parts}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
