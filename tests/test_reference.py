"""The record of reference figures: which differences count, and what the comparison prints."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from support.documents import PROJECT


@pytest.fixture
def reference(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROJECT / "tools"))
    return importlib.import_module("reference")


def quality(value, error=0.02):
    return {"kind": "quality", "value": value, "standard_error": error}


def exact(value):
    return {"kind": "exact", "value": value}


def ratio(value):
    return {"kind": "ratio", "value": value}


def compared(reference, before, after):
    """Exit code of a comparison of one part with made-up figures, or with an exception as the part's outcome."""
    before = {"part": {name: reference.Figure(**figure) for name, figure in before.items()}}

    def part(data_home):
        if isinstance(after, Exception):
            raise after
        return {name: reference.Figure(**figure) for name, figure in after.items()}

    return reference.print_differences(before, reference.run({"part": part}, None), "0123456789abcdef")


@pytest.mark.parametrize(
    ("before", "after", "code", "line"),
    [
        (quality(0.40), quality(0.419), 0, "f: 0.4000 ± 0.0200 -> 0.4190 ± 0.0200: within one standard error"),
        (quality(0.40), quality(0.381), 0, "f: 0.4000 ± 0.0200 -> 0.3810 ± 0.0200: within one standard error"),
        (quality(0.40), quality(0.421, 0.5), 1, "f: 0.4000 ± 0.0200 -> 0.4210 ± 0.5000: MOVED by more than one"),
        (quality(0.40), quality(0.379), 1, "f: 0.4000 ± 0.0200 -> 0.3790 ± 0.0200: MOVED by more than one"),
        (quality(0.40), quality(float("nan")), 1, "f: 0.4000 ± 0.0200 -> nan"),
        (exact("aa"), exact("ab"), 1, "f: aa -> ab: CHANGED"),
        (exact("a" * 64), exact("a" * 63 + "b"), 1, "CHANGED"),
        (ratio(10.0), ratio(1.0), 0, "f: 10 -> 1 (speed, for information)"),
        (exact("aa"), None, 0, "f: gone (was aa)"),
        (None, exact("aa"), 0, "f: new, aa"),
    ],
)
def test_a_difference_is_printed_and_fails_beyond_its_tolerance(reference, capsys, before, after, code, line):
    figures = [{"same": exact("same")} | ({} if one is None else {"f": one}) for one in (before, after)]
    assert compared(reference, *figures) == code
    first, closing = capsys.readouterr().out.splitlines()
    assert line in first
    assert "compared with commit 0123456789ab:" in closing


def test_equal_figures_print_only_the_closing_line(reference, capsys):
    figures = {"q": quality(0.4), "e": exact("aa"), "r": ratio(2.0)}
    assert compared(reference, figures, figures) == 0
    [closing] = capsys.readouterr().out.splitlines()
    assert closing.startswith("3 figures, ")
    assert "0 moved, 0 within, 0 gone, 0 new, 0 parts failed" in closing


def test_a_part_that_raises_fails(reference, capsys):
    assert compared(reference, {"e": exact("aa")}, ValueError("no such name")) == 1
    printed = capsys.readouterr()
    assert "no such name" in printed.err
    assert "1 parts failed: part" in printed.out


def test_a_record_is_read_as_it_was_written(reference, tmp_path):
    figures = {"part": {"a, café": reference.Figure(**quality(1 / 3)), "b": reference.Figure(**exact("aa"))}}
    reference.write(tmp_path / "record.json", {"commit": "abc", "seed": 0}, figures)
    assert reference.read(tmp_path / "record.json") == ({"commit": "abc", "seed": 0}, figures)


def test_the_stored_record_names_its_commit_and_has_every_kind_of_figure(reference):
    facts, figures = reference.read(PROJECT / "tools" / "reference.json")
    assert len(facts["commit"]) == 40
    assert facts["seed"] == 0
    assert {one.kind for named in figures.values() for one in named.values()} == {"quality", "exact", "ratio"}
