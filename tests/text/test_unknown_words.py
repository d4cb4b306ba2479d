"""Words of queries that a model does not know are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import tercet as tc
from tercet.cli.main import cli
from tercet.data import write_beir
from tercet.text import Analyzer, FieldedVectorizer, Vectorizer


def test_words_are_told_as_they_were_typed() -> None:
    stems = Vectorizer(analyzer=Analyzer(stemmer="english", ngrams=(1, 2))).fit(["running avocado"])
    assert stems.unknown_words("Runs happily, runs happily") == ["happily", "runs happily", "happily runs"]
    words = Vectorizer(analyzer=Analyzer(stemmer="english", stop_words="english")).fit(["running avocado"])
    assert words.unknown_words("The quaggas runs to the Quaggas") == ["quaggas"]


def test_eval_says_it_in_one_line(tmp_path: Path, model: tc.TextModel, corpus) -> None:
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
    unknown = "zebra (3), quagga (1), alpaca (1), bison (1), camel (1)"
    output = f"3 of 4 queries have words that the model does not know: {unknown}"
    one, other = (("--model", str(tmp_path / name)) for name in ("model", "other"))
    for arguments, expected in (
        (("eval", *one), [f"note: {output}"]),
        (("eval", *one, *other), [f"note: {tmp_path / name}: {output}" for name in ("model", "other")]),
    ):
        verb, *rest = arguments
        result = CliRunner().invoke(cli, [verb, str(tmp_path / "data"), *rest])
        assert result.exit_code == 0, result.output
        assert result.stderr.splitlines() == expected
    result = CliRunner().invoke(cli, ["eval", str(tmp_path / "data"), *one, *other, "--json"])
    assert json.loads(result.stdout)["queries"] == 4, "something else than JSON is printed with it"


@pytest.mark.parametrize("weighting", ["bm25", "tfidf"])
@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
def test_the_row_of_a_query_is_that_of_the_matrix(weighting: str, ngrams: tuple[int, int]) -> None:
    analyzer = Analyzer(stemmer="english", stop_words="english", ngrams=ngrams)
    words = Vectorizer(analyzer=analyzer, weighting=weighting).fit(["running avocado green", "green toast runs", "sky"])
    for text in ("Green the green runs", "toast", "quagga", "", "quagga toast sky sky sky"):
        row, unknown = words.query(text)
        matrix = words.transform_queries([text])
        assert row.indices.tolist() == matrix.indices.tolist()
        assert row.data.tobytes() == matrix.data.tobytes()
        assert row.shape == matrix.shape
        assert list(unknown) == words.unknown_words(text)
    columns = FieldedVectorizer(fields=["title"], analyzer=analyzer, weighting="bm25")
    docs = [{"id": "a", "text": "green tea", "title": "tea"}, {"id": "b", "text": "green", "title": "b"}]
    columns.fit(tc.as_documents(docs))
    for text in ("tea time", "quagga"):
        row, _ = columns.query(text)
        matrix = columns.transform_queries([text])
        assert row.indices.tolist() == matrix.indices.tolist()
        assert row.data.tolist() == matrix.data.tolist()


def test_documents_are_counted_as_their_model_counts_them() -> None:
    docs = {str(i): " ".join(["the", *("tea" * (i % 3 == 0), "teas", f"w{i % 7}", f"w{i % 7}")]) for i in range(50)}
    built = tc.Index.build(docs, segment_docs=20)
    again = tc.Index.build(docs, tc.TextModel.bm25(docs.values()), segment_docs=20)
    for doc_id in docs:
        assert built.same_row(again, doc_id)
