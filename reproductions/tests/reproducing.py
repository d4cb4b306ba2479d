"""What the tests of reproductions share: the command, its results, and a listener that only takes notes."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from reproductions.__main__ import repro


def run(*arguments: object) -> Result:
    return CliRunner().invoke(repro, [str(a) for a in arguments])


def run_whole(plan_file: Path, home: Path, output: Path) -> tuple[Path, Result]:
    """The folder with everything a plan gives, and what the command printed."""
    result = run(plan_file, "--data-home", home, "-o", output)
    assert result.exit_code == 0, result.output
    return output, result


def results_in(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


class Quiet:
    """Who is told how a run goes on, and keeps it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.total = 0

    def begin(self, n_cells: int) -> None:
        self.total = n_cells

    def now(self, text: str) -> None:
        pass

    def done(self, text: str) -> None:
        self.lines.append(text)

    say = done

    def skip(self) -> None:
        self.lines.append("skipped")
