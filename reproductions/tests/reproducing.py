"""Shared by the tests of reproductions: the command, its results, and the files of its plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from reproductions.__main__ import main
from reproductions.plan import Plan
from reproductions.results import PaperResults
from reproductions.runner import reproduce

PLANS = Path(__file__).parent / "plans"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_whole(plan: Path, home: Path, output: Path) -> tuple[Path, Result]:
    """The output folder of a plan, and the output of the command."""
    result = run(plan, "--data-home", home, "-o", output)
    assert result.exit_code == 0, result.output
    return output, result


def run_quietly(plan: Plan, home: Path, output: Path, **settings: Any) -> tuple[PaperResults, list[str]]:
    """Return the results of a run and the progress lines."""
    lines: list[str] = []
    return reproduce(plan, home, output, tell=lines.append, **settings), lines


def results_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def refuse(*_: object) -> None:
    pytest.fail("a cached job was done again")
