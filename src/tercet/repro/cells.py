"""Finished pieces of a reproduction, kept on disk: what is done is done once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tercet.errors import TercetError
from tercet.store import write_file_atomically
from tercet.store.canonical import canonical_bytes, parse_json

FORMAT = 2  # of cells; a higher one leaves all older cells aside
# Whose code the numbers of term-pair models come from.
TERM_PAIRS = (
    "kernels/*",
    "data/*",
    "text/*",
    "weights/*",
    "learn/*",
    "measure/*",
    "repro/classes",
    "repro/jobs",
    "repro/learn*",
    "repro/link*",
    "repro/readers/*",
    "repro/measuring",
    "repro/tasks",
)


@cache
def code_digest(patterns: tuple[str, ...]) -> str:
    """Of the code that makes the numbers, so that a cell is never taken for that of another learner."""
    found = hashlib.sha256()
    root = Path(__file__).parents[1]
    for pattern in patterns:
        for file in sorted(root.glob(f"{pattern}.py")):
            found.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Cells:
    """A folder of finished cells; ``fresh`` leaves what is there aside."""

    folder: Path
    fresh: bool = False
    code: tuple[str, ...] = TERM_PAIRS  # files below the package whose change makes cells old

    def get(
        self, name: str, setting: dict[str, Any], work: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        """The result of this setting and whether it was there already; else the work is done and kept."""
        setting = setting | {"format": FORMAT, "version": version("tercet"), "code": code_digest(self.code)}
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
