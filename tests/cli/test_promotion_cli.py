"""``tercet index INDEX --model NEW`` and ``--undo``, as a user types them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tercet as tc
from support.commands import ok, run
from support.indexes import DOCS, small_model
from tercet.search import Index
from tercet.search.folder import model_name
from tercet.weights import Identity, Weights


@pytest.fixture
def index(tmp_path: Path) -> Path:
    model = small_model(DOCS)
    Index.build(DOCS, model, tmp_path / "index")
    replace(model, weights=Weights([Identity(n_terms=model.weights.shape[0], scale=2.0)])).save(tmp_path / "plain")
    return tmp_path / "index"


def test_a_model_is_promoted_listed_and_taken_back(index: Path, tmp_path: Path) -> None:
    said = ok("index", index)
    assert f"{index}: {len(DOCS)} documents" in said
    assert "no promotions" in said
    names = [model_name(tc.load(tmp_path / "plain")), model_name(Index.open(index).model)]
    assert f"promotion 1, {names[1]} -> {names[0]}" in ok("index", index, "--model", tmp_path / "plain")
    assert model_name(Index.open(index).model) == names[0]
    said = ok("index", index, "--undo")
    assert f"promotion 2, {names[0]} -> {names[1]}, promotion 1 is undone" in said
    _, first, second = ok("index", index).splitlines()
    assert first.startswith("1  20")
    assert first.endswith("by hand")
    assert second.startswith("2  20")
    assert second.endswith("undoes 1")
    assert model_name(Index.open(index).model) == names[1]


def test_what_is_no_promotion(index: Path, tmp_path: Path) -> None:
    tc.TextModel.bm25(["other words"]).save(tmp_path / "other")
    result = run("index", index, "--model", tmp_path / "other")
    assert result.exit_code == 1
    assert "another vectorizer" in result.output
    assert run("index", index, "--undo").exit_code == 1
    assert run("index", index, "--model", tmp_path / "plain", "--undo").exit_code == 2
    assert run("index", tmp_path / "plain").exit_code == 1
