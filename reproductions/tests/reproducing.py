"""Shared by the tests of reproductions: the command, its results, and the files of its plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from reproductions.__main__ import main
from reproductions.plan import Plan
from reproductions.results import PaperResults
from reproductions.runner import reproduce

PLANS = Path(__file__).parent / "plans"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_quietly(plan: Plan, home: Path, output: Path, **settings: Any) -> tuple[PaperResults, list[str]]:
    """Return the results of a run and the progress lines."""
    lines: list[str] = []
    return reproduce(plan, home, output, tell=lines.append, **settings), lines


def results_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found
