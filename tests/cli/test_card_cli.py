"""``tercet card``: what a model is and how it does, as Markdown that others can read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tercet as tc
from tercet.cli.main import cli
from tercet.data import LetorData
from tercet.report.card import model_card

WORDS = ("purr", "bark", "swim")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card") / "animals"
    docs = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
    queries = {str(i): WORDS[i % 3] for i in range(12)}
    qrels = {q: {"abc"[int(q) % 3]: 1} for q in queries}
    tc.fit(docs, queries, qrels, n_steps=100, n_models=1, verbose=False, name="animals").save(folder)
    return folder


def test_a_card_has_the_data_the_report_the_licences_and_the_limits(model: Path, tmp_path: Path) -> None:
    written = tmp_path / "README.md"
    arguments = ["card", str(model), "-o", str(written), "--licence", "BSD-3-Clause", "--data-licence", "CC0-1.0"]
    result = CliRunner().invoke(cli, [*arguments, "--intended-use", "To find animals.", "--contact", "a zoo"])
    assert result.exit_code == 0, result.output
    card, report = written.read_text(encoding="utf-8"), tc.load(model).report
    assert card.startswith('---\nlibrary_name: "tercet"\n')
    assert 'license: "BSD-3-Clause"' in card
    assert "\n# animals\n" in card
    assert "To find animals." in card
    assert f"- {report.n_train} training queries." in card
    for system in report.systems:
        mean, low, high = system.values[report.measure]
        assert f"| {system.name} | {mean:.3f} [{low:.3f}, {high:.3f}]" in card
    assert report.decision in card
    assert "- The model: BSD-3-Clause\n- What it was learned from: CC0-1.0" in card
    assert "Learning was declined: the model is its start" in card
    assert card.rstrip().endswith("a zoo")
    assert CliRunner().invoke(cli, arguments).exit_code != 0  # it is there already


def test_what_nobody_said_is_not_made_up(model: Path) -> None:
    card = CliRunner().invoke(cli, ["card", str(model)]).output
    assert "- The model: not stated" in card
    assert "license:" not in card


def test_what_comes_from_outside_is_text_in_it(model: Path) -> None:
    report = tc.load(model).report
    card = model_card(report, title="<script>a\nb", kind="k", size="s", version="1", licence="x\n# not a heading")
    assert "<script>" not in card
    assert "\n# not a heading" not in card


def test_one_query_has_no_interval() -> None:
    docs = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
    queries = {str(i): WORDS[i % 3] for i in range(13)}
    qrels = {str(i): {"abc"[i % 3]: 1} for i in range(12)}
    report = tc.fit(docs, queries, qrels, test={"12": {"a": 1}}, n_steps=100, n_models=1, verbose=False).report
    card = model_card(report, title="t", kind="k", size="s", version="1")
    assert "| BM25 | 1.000 | 1.000 | 1.000 |" in card
    assert "nan" not in card


def test_a_card_of_features_says_which_queries_the_table_is_of() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((100, 3))
    report = tc.fit_letor(LetorData(X, X[:, 1] > 0.5, np.repeat(np.arange(20), 5))).report
    card = model_card(report, title="t", kind="k", size="s", version="1")
    assert "\nOn 20 queries, each held out in one of 5 folds, with 95 % intervals:\n" in card


def test_a_model_without_a_report_has_no_card(tmp_path: Path) -> None:
    tc.TextModel.bm25(["green tea"]).save(tmp_path / "model")
    result = CliRunner().invoke(cli, ["card", str(tmp_path / "model")])
    assert result.exit_code == 1
    assert "has no report, which a card is made of" in result.output
