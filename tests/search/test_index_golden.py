"""Indexes written by released versions are read by this one, answer as they did, and can be changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tercet as tc
from support import make_golden_index
from support.make_golden_index import GOLDEN, answers
from tercet.search import Index

VERSIONS = sorted(path.name for path in GOLDEN.iterdir())
every_version = pytest.mark.parametrize("version", VERSIONS)


def expected(version: str) -> dict[str, Any]:
    return json.loads((GOLDEN / version / "expected.json").read_text(encoding="utf-8"))


def assert_same(found: Any, stored: Any) -> None:
    """The same structure, numbers to 1e-6, everything else exactly."""
    if isinstance(stored, list | dict):
        assert len(found) == len(stored)
        keys = range(len(stored)) if isinstance(stored, list) else stored
        for key in keys:
            assert_same(found[key], stored[key])
    elif isinstance(stored, float):
        assert found == pytest.approx(stored, rel=1e-6, abs=1e-6)
    else:
        assert found == stored


def test_there_is_a_golden_index_of_this_version() -> None:
    assert tc.__version__ in VERSIONS


@every_version
def test_it_answers_as_it_did(version: str) -> None:
    stored = expected(version)
    assert stored["hits"]["green avocado"]
    assert_same(answers(Index.open(GOLDEN / version / "index")), stored)


@every_version
def test_it_can_be_changed(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version / "index", tmp_path / "index")
    index = Index.open(tmp_path / "index")
    index.add({"new": "green sky"})
    index.remove(["new"])
    index.merge()
    assert_same(answers(Index.open(tmp_path / "index")), expected(version))


@every_version
def test_it_stays_small(version: str) -> None:
    assert sum(path.stat().st_size for path in (GOLDEN / version).rglob("*") if path.is_file()) < 40_000


@pytest.mark.slow
def test_golden_files_are_not_overwritten_unless_forced(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(make_golden_index, "GOLDEN", tmp_path)
    make_golden_index.main([])
    made = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match="Use --force to replace them"):
        make_golden_index.main([])
    make_golden_index.main(["--force"])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == made
    assert capsys.readouterr().out.count("wrote") == 2
