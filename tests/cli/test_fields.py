"""``tercet fit --field … --feature …``, and an index and reasons of what it learned."""

from __future__ import annotations

import json

import pytest

from support.commands import run
from tercet.data import write_qrels


@pytest.fixture
def folder(tmp_path):
    """Documents with columns, queries and judgements: the popular one of two is wanted."""
    words = [f"word{i}" for i in range(20)]
    (tmp_path / "products.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "id": f"{word}-{size}",
                    "title": f"{word} {size}",
                    "text": f"some {word} {'' if size == 'large' else word}",
                    "downloads": 3000 if size == "large" else 10 + number,
                }
            )
            + "\n"
            for number, word in enumerate(words)
            for size in ("small", "large")
        )
    )
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps({"_id": word, "text": word}) + "\n" for word in words))
    write_qrels(tmp_path / "qrels.tsv", {word: {f"{word}-large": 1, f"{word}-small": 0} for word in words})
    return tmp_path


@pytest.mark.slow
def test_columns_are_learned_indexed_and_explained(folder):
    files = ["--queries", folder / "queries.jsonl", "--judgements", folder / "qrels.tsv"]
    columns = ["--field", "title:2", "--feature", "log:downloads"]
    model, index = folder / "model", folder / "index"
    result = run("fit", folder / "products.jsonl", *files, *columns, "--language", "none", "--steps", 5000, "-o", model)
    assert result.exit_code == 0, result.output
    assert "BM25 with fields" in result.output
    result = run("index", folder / "products.jsonl", "--model", model, "-o", index)
    assert result.exit_code == 0, result.output
    result = run("search", index, "word3", "--why")
    assert result.exit_code == 0, result.output
    assert "  1  " in result.output
    assert result.output.index("word3-large") < result.output.index("word3-small")
    assert "log:downloads 3000" in result.output
    assert run("index", index, "--update", folder / "products.jsonl").exit_code == 0
    why = run("explain", index, "word3", "word3-large")
    assert why.exit_code == 0, why.output
    assert "title: word3" in why.output
    plain = run("index", index, "--update", folder / "queries.jsonl")
    assert plain.exit_code == 1
    assert "no column 'title'; they have 'text'" in plain.output


def test_what_cannot_be_is_said(folder):
    files = [folder / "products.jsonl", "--queries", folder / "queries.jsonl", "--judgements", folder / "qrels.tsv"]
    result = run("fit", *files, "--feature", "price", "-o", folder / "model")
    assert result.exit_code == 1
    assert "no column 'price'; they have 'title', 'text' and 'downloads'" in result.output
    result = run("fit", *files, "--field", "title", "--field", "title:2", "-o", folder / "model")
    assert result.exit_code == 2
    assert "--field title is named twice" in result.output
