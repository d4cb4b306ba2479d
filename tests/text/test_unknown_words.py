"""Words of queries that a model does not know are told."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

import tercet as tc
from tercet.cli.main import cli
from tercet.data import write_beir
from tercet.text import Analyser, Vectoriser


def test_words_are_told_as_they_were_typed() -> None:
    stems = Vectoriser(analyser=Analyser(stemmer="english", ngrams=(1, 2))).fit(["running avocado"])
    assert stems.unknown_words("Runs happily, runs happily") == ["happily", "runs happily", "happily runs"]
    words = Vectoriser(analyser=Analyser(stemmer="english", stop_words="english")).fit(["running avocado"])
    assert words.unknown_words("The quaggas runs to the Quaggas") == ["quaggas"]


def test_rank_and_eval_and_compare_say_it_in_one_line(tmp_path: Path, model: tc.TextModel, corpus) -> None:
    model.save(tmp_path / "model")
    model.save(tmp_path / "other")
    queries = {
        "a": next(iter(corpus.queries.values())),
        "b": "zebra",
        "c": "zebra quagga zebra",
        "d": "alpaca bison camel dingo zebra",
    }
    docs = {doc_id.replace(" ", "-"): text for doc_id, text in corpus.docs.items()}
    write_beir(tmp_path / "data", docs, queries, {"test": {qid: {next(iter(docs)): 1} for qid in queries}})
    output = (
        "3 of 4 queries have words that the model does not know: zebra (3), alpaca (1), bison (1), camel (1), "
        "dingo (1) and 1 more; 3 have no word that it knows"
    )
    one, other = (("--model", str(tmp_path / name)) for name in ("model", "other"))
    for arguments, expected in (
        (("rank", *one, "-o", str(tmp_path / "run")), [f"note: {output}"]),
        (("eval", *one), [f"note: {output}"]),
        (("compare", *one, *other), [f"note: {tmp_path / name}: {output}" for name in ("model", "other")]),
    ):
        verb, *rest = arguments
        result = CliRunner().invoke(cli, [verb, str(tmp_path / "data"), *rest])
        assert result.exit_code == 0, result.output
        assert result.stderr.splitlines() == expected
    result = CliRunner().invoke(cli, ["compare", str(tmp_path / "data"), *one, *other, "--json"])
    assert json.loads(result.stdout)["queries"] == 4, "something else than JSON is printed with it"
