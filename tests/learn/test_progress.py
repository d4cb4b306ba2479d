"""What a long run shows on a terminal can be read at any width."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tercet.learn.progress as progress
from tercet.learn.progress import FACTS_WIDTH, ProgressBar, facts_line


class Terminal(io.StringIO):
    """Standard error as a terminal of so many columns."""

    def isatty(self) -> bool:
        return True


def last_line(monkeypatch, columns: int, *, total: int | None, validation: float | None) -> str:
    """The line that a terminal shows, without colors."""
    screen = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SHOW_AFTER_SECONDS", 0.0)
    with ProgressBar("CorrelatedRanker", total, 0, None) as bar:
        bar.started -= 9.0
        bar.update(610_000, 0.081, 0.059, validation)
        assert bar._bar is not None
        bar._bar.refresh()
        shown = screen.getvalue()
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r", "\n").split("\n")
    return [line for line in lines if line.strip()][-1]


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
@pytest.mark.parametrize("validation", [None, 0.31234])
def test_a_line_has_all_of_its_facts(monkeypatch, columns, validation):
    line = last_line(monkeypatch, columns, total=1_000_000, validation=validation)
    assert "…" not in line
    assert len(line.rstrip()) <= columns
    facts = f"68k/s  viol 8.1%  {'' if validation is None else 'valid .3123  '}0:06 left"
    assert re.fullmatch(rf"CorrelatedRanker +[━╸╺]{{8,24}} +61% {re.escape(facts)} *", line), line


def test_sixty_columns_are_enough_without_validation(monkeypatch):
    line = last_line(monkeypatch, 60, total=1_000_000, validation=None)
    assert line.rstrip().endswith("0:06 left")
    assert line.count("━") + line.count("╸") >= 3


def test_a_run_without_an_end_has_no_share_and_no_time_left(monkeypatch):
    line = last_line(monkeypatch, 80, total=None, validation=None)
    assert line.rstrip().endswith("68k/s  viol 8.1%")
    assert "left" not in line


@given(st.floats(0, 9.9e8), st.floats(0, 1), st.none() | st.floats(0, 359_999), st.none() | st.floats(0, 1, width=16))
def test_facts_stay_within_their_columns(rate, violations, left, validation):
    assert len(facts_line(rate, violations, left, validation)) <= FACTS_WIDTH
