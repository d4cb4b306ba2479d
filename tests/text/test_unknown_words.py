"""Words of queries that a model does not know are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from sklearn.exceptions import NotFittedError

import tercet as tc
from tercet.cli.main import cli
from tercet.data import write_beir
from tercet.errors import InputError
from tercet.text import Analyser, Vectoriser, unknown_words


@pytest.fixture(scope="module")
def vectoriser() -> Vectoriser:
    return Vectoriser(analyser=Analyser(stop_words="english")).fit(["green avocado", "green eyes"])


def test_each_query_counts_once_for_a_word(vectoriser: Vectoriser) -> None:
    found = unknown_words(vectoriser, ["zebra zebra green", "the Zebra", "quagga", "eyes", "the"])
    assert found.words == (("zebra", 2), ("quagga", 1))
    assert (found.n_queries, found.n_affected, found.n_lost) == (5, 3, 3)
    output = (
        "3 of 5 queries have words that the model does not know: zebra (2), quagga (1); 3 have no word that it knows"
    )
    assert str(found) == output
    assert found.line(1).startswith("3 of 5 queries have words that the model does not know: zebra (2) and 1 more;")


def test_where_all_is_known_that_is_said(vectoriser: Vectoriser) -> None:
    assert str(unknown_words(vectoriser, ["green eyes"])) == "the model knows every word of the 1 queries"
    assert str(unknown_words(vectoriser, ["eyes", "the"])).endswith("; 1 has no word that it knows")
    with pytest.raises(InputError, match=r"pass \[text\]"):
        unknown_words(vectoriser, "eyes")
    with pytest.raises(InputError, match=r"texts\[1\] must be a string, found int"):
        unknown_words(vectoriser, ["eyes", 7])  # type: ignore[list-item]
    with pytest.raises(NotFittedError, match="Vectoriser instance is not fitted yet"):
        unknown_words(Vectoriser(), ["eyes"])


def test_unknown_words_are_those_of_the_vectoriser(vectoriser: Vectoriser) -> None:
    text = "purple avocado and yellow eyes"
    assert [word for word, _ in unknown_words(vectoriser, [text]).words] == sorted(vectoriser.unknown_words(text))


def test_words_are_told_as_they_were_typed() -> None:
    stems = Vectoriser(analyser=Analyser(stemmer="english", ngrams=(1, 2))).fit(["running avocado"])
    found = unknown_words(stems, ["Runs happily", "quaggas"])
    assert found.words == (("happily", 1), ("quaggas", 1), ("runs happily", 1))
    assert (found.n_affected, found.n_lost) == (2, 1)


def test_rank_and_eval_and_compare_say_it_in_one_line(tmp_path: Path, model: tc.TextModel, corpus) -> None:
    model.save(tmp_path / "model")
    model.save(tmp_path / "other")
    queries = {"a": next(iter(corpus.queries.values())), "b": "zebra", "c": "zebra quagga"}
    docs = {doc_id.replace(" ", "-"): text for doc_id, text in corpus.docs.items()}
    write_beir(tmp_path / "data", docs, queries, {"test": {qid: {next(iter(docs)): 1} for qid in queries}})
    output = (
        "2 of 3 queries have words that the model does not know: zebra (2), quagga (1); 2 have no word that it knows"
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
    assert json.loads(result.stdout)["queries"] == 3, "something else than JSON is printed with it"
