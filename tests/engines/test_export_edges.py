"""Exports where they are hard: odd numbers, terms of several words, empty results, places that cannot be written."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from support.exports import DOCS, Messages, one, read_synonyms, small_model
from tercet.cli.main import cli
from tercet.engines import boosted_query, write_anserini, write_ciff, write_synonyms
from tercet.engines.query_strings import written_boost
from tercet.errors import InputError
from tercet.weights import Diagonal, Identity, Sparse


@given(st.floats(min_value=1e-30, max_value=1e30))
def test_a_boost_is_written_as_the_grammar_of_query_strings_reads_it(boost):
    written = written_boost(boost)
    assert re.fullmatch(r"[0-9]+(\.[0-9]+)?", written)  # Lucene's NUMBER, which has no exponent
    assert float(written) == pytest.approx(boost, rel=1e-3)


def test_clauses_of_very_small_and_large_boosts_have_no_exponents():
    model = small_model({("hockey", "puck"): 3e-5, ("hockey", "bat"): 4e6})
    text = boosted_query(model, "hockey").text
    assert re.fullmatch(r"\((?:\w+\^[0-9]+(?:\.[0-9]+)?(?: OR )?)+\)", text)
    assert "puck^0.0000" in text


def test_a_model_that_learned_nothing_boosts_each_word_by_how_often_it_is_asked():
    found = dict(boosted_query(small_model({}, identity=3.0), "ball hockey ball puck").clauses)
    assert found == pytest.approx({"ball": 2.0, "hockey": 1.0, "puck": 1.0}, rel=1e-5)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_an_index_of_documents_without_known_words_is_written(tmp_path, packed):
    path = tmp_path / f"i.ciff{packed}"
    output = write_ciff(path, small_model({}), {"a": "zebra", "b": ""})
    assert (output.n_docs, output.n_postings) == (2, 0)
    read = Messages(gzip.decompress(path.read_bytes()) if packed else path.read_bytes())
    header = read.next()
    assert (one(header, 2), one(header, 3)) == (0, 2)
    assert [one(read.next(), 2).decode() for _ in range(2)] == ["a", "b"]
    assert read.at == len(read.data)


def test_a_negative_weight_of_a_word_on_itself_is_counted(tmp_path):
    output = write_synonyms(tmp_path / "s.txt", small_model({("hockey", "hockey"): -1.5, ("hockey", "puck"): 0.8}))
    _, found = read_synonyms(tmp_path / "s.txt")
    assert output.n_negative == 1
    assert [word for word, _ in found["hockey"]] == ["puck"]


def test_what_a_word_counts_for_itself_is_in_solr_lines_also_without_other_words(tmp_path):
    words = tc.Vectorizer(weighting="bm25").fit(DOCS.values())
    counts = {"hockey": 2.5, "puck": 1.05, "ice": 0.0, "bat": -1.0}
    values = np.array([counts.get(word, 1.0) for word in words.words_], dtype=np.float32)
    model = tc.TextModel(words, words, tc.Weights([Diagonal(weights=values)]))
    output = write_synonyms(tmp_path / "s.txt", model, min_boost=0.1)
    _, found = read_synonyms(tmp_path / "s.txt")
    assert found == {"hockey": [("hockey", 2.5)], "ice": [("ice", 0.0)], "bat": [("bat", 0.0)]}
    assert (output.n_words, output.n_pairs, output.n_negative) == (3, 0, 1)


def test_terms_of_several_words_are_counted_as_unwritable(tmp_path):
    words = tc.Vectorizer(analyzer=tc.Analyzer(ngrams=(1, 2))).fit(["ice hockey", "puck"])
    n = len(words.words_)
    W = sparse.csr_array(np.where(np.eye(n), 0.0, 0.5).astype(np.float32))
    model = tc.TextModel(words, words, tc.Weights([Identity(n_terms=n), Sparse(weights=W)]))
    output = write_synonyms(tmp_path / "s.txt", model)
    _, found = read_synonyms(tmp_path / "s.txt")
    # Solr would read "ice hockey|0.5" as the words "ice" and "hockey|0.5".
    assert set(found) == {"ice", "hockey", "puck"}
    assert all(" " not in word for line in found.values() for word, _ in line)
    assert output.n_unwritable == 1


def test_forms_of_text_are_packed_where_the_name_says_so(tmp_path):
    model = small_model({("hockey", "puck"): 0.8})
    for write, name in (
        (lambda path: write_anserini(path, model, DOCS), "d.jsonl"),
        (lambda path: write_synonyms(path, model), "s.txt"),
        (lambda path: write_ciff(path, model, DOCS), "i.ciff"),
    ):
        write(tmp_path / name)
        write(tmp_path / f"{name}.gz")
        assert gzip.decompress((tmp_path / f"{name}.gz").read_bytes()) == (tmp_path / name).read_bytes()


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def positions(tmp_path: Path) -> tuple[Path, Path]:
    small_model({("hockey", "puck"): 0.8}).save(tmp_path / "model")
    (tmp_path / "corpus.jsonl").write_text(
        "\n".join(json.dumps({"_id": d, "text": text}) for d, text in DOCS.items()), encoding="utf-8"
    )
    return tmp_path / "model", tmp_path


@pytest.mark.parametrize("form", ["solr", "query", "anserini", "ciff"])
def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left_behind(positions, form):
    model, folder = positions
    documents = ["documents", str(folder / "corpus.jsonl"), "--form", form]
    command = {"query": ["query", "hockey"], "solr": ["synonyms"]}.get(form, documents)
    before = sorted(folder.iterdir())
    missing = folder / "nowhere" / "x"
    for position, why in (
        (missing, f"{missing}: cannot write: "),
        (missing, "No such file or directory"),
        (model, f"{model} is a folder; expected the name of a file"),
    ):
        done = CliRunner().invoke(cli, ["export", *command, "--model", str(model), "-o", str(position)])
        assert done.exit_code == 1
        assert why in done.stderr
        assert ".tmp" not in done.stderr
    assert sorted(folder.iterdir()) == before


def test_a_query_goes_to_a_file_as_a_whole_or_not_at_all(positions, monkeypatch):
    model, folder = positions
    arguments = ["export", "query", "hockey", "--model", str(model), "-o", str(folder / "q")]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    written = (folder / "q").read_text(encoding="utf-8")
    assert written == boosted_query(tc.load(model), "hockey").text + "\n"

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    done = CliRunner().invoke(cli, [*arguments[:2], "puck", *arguments[3:], "--replace"])
    assert done.exit_code == 1
    assert "No space left" in done.stderr
    assert (folder / "q").read_text(encoding="utf-8") == written


@pytest.mark.parametrize(("text", "output"), [("", "nothing to export"), ("zebra", "the model does not know: zebra")])
def test_a_query_that_no_word_counts_for_is_a_failure(positions, text, output):
    model, _ = positions
    done = CliRunner().invoke(cli, ["export", "query", text, "--model", str(model)])
    assert done.exit_code == 1
    assert output in done.stderr
    assert done.stdout == ""


def test_documents_are_refused_where_none_are_needed(positions):
    model, folder = positions
    done = CliRunner().invoke(cli, ["export", "synonyms", str(folder), "--model", str(model), "-o", str(folder / "x")])
    assert done.exit_code == 2
    assert "unexpected extra argument" in done.stderr


def test_documents_need_no_queries(positions):
    model, folder = positions
    asked = ["export", "documents", "--model", str(model), "-o", str(folder / "d.jsonl")]
    done = CliRunner().invoke(cli, [*asked, str(folder / "corpus.jsonl")])
    assert done.exit_code == 0, done.output
    lines = (folder / "d.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(DOCS)
    done = CliRunner().invoke(cli, [*asked, "--replace"])
    assert done.exit_code == 2
    assert "Missing argument 'DATA'" in done.stderr


def test_a_document_id_that_no_file_can_hold_is_named(tmp_path):
    with pytest.raises(InputError, match="half a surrogate pair"):
        write_anserini(tmp_path / "d.jsonl", small_model({}), {"\ud800": "hockey"})
    assert list(tmp_path.iterdir()) == []
