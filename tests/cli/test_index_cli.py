"""``tercet index``, ``tercet search`` and ``tercet explain`` of an index, as a user types them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import tercet as tc
from support.commands import ok, run
from support.indexes import DOCS, small_model
from tercet.data import read_run, write_beir
from tercet.search import Index
from tercet.weights import Identity

TEXTS = {doc_id: text for doc_id, text in DOCS.items() if text}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_model(TEXTS, latent=True).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    queries = {"q1": "green avocado", "q2": "sky", "q3": "guava"}
    write_beir(tmp_path / "data", TEXTS, queries, {"train": {"q1": {"a": 1}}})
    return tmp_path / "data"


@pytest.fixture
def index(model: Path, data: Path, tmp_path: Path) -> Path:
    assert "4 documents, 7 words" in ok("index", data, "--model", model, "-o", tmp_path / "index")
    return tmp_path / "index"


def corpus(path: Path, docs: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps({"_id": d, "text": text}) + "\n" for d, text in docs.items()))
    return path


def test_search_with_reasons(index: Path) -> None:
    plain = ok("search", index, "green avocado guava", "-k", 2)
    assert "the model does not know: guava" in plain
    best = Index.open(index).search("green avocado")[0]
    assert f"  1  {best.score:.4f}  {best.doc_id}  {best.text}" in plain
    assert "  2  " in plain
    assert "  3  " not in plain
    why = ok("search", index, "green avocado", "-k", 1, "--why")
    word, _, contribution = best.why.pairs[0]
    assert f"{contribution:+.4f}  {word}" in why
    assert "nothing found" in ok("search", index, "guava")


def test_many_queries_become_a_run(index: Path, data: Path, tmp_path: Path) -> None:
    output = ok("search", index, "--queries", data / "queries.jsonl", "-o", tmp_path / "run.trec", "-k", 3)
    assert "3 queries, up to 3 documents each" in output
    assert "1 queries have no results" in output
    found = read_run(tmp_path / "run.trec")
    assert found == {qid: best for qid, best in Index.open(index).search_many(queries_of(data), 3).items() if best}


def queries_of(data: Path) -> dict[str, str]:
    lines = (data / "queries.jsonl").read_text().splitlines()
    return {record["_id"]: record["text"] for record in map(json.loads, lines)}


def test_explain_of_an_index(index: Path, data: Path, model: Path) -> None:
    opened = Index.open(index)
    assert opened.explain("green avocado", "a").table(20) in ok("explain", index, "green avocado", "a")
    difference = ok("explain", index, "green avocado", "a", "--versus", "b")
    assert "a over b for 'green avocado'" in difference
    assert opened.versus("green avocado", "a", "b").table(20) in difference
    same = ok("explain", index, "green avocado", "a", "--model", model)
    assert opened.explain("green avocado", "a").table(20) in same
    stranger = run("explain", index, "green", "nobody")
    assert (stranger.exit_code, stranger.stdout) == (1, "")
    assert run("explain", index, "green").exit_code == 2
    assert run("explain", model, "green", "a").exit_code == 1
    assert run("explain", data, "green", "a").exit_code == 1


def test_documents_come_and_go(index: Path, tmp_path: Path) -> None:
    more = corpus(tmp_path / "more.jsonl", {"x": "green sky", "y": "blue toast"})
    added = ok("index", index, "--update", more)
    assert "4 documents before, 6 now, in 2 segments" in added
    assert "new to the index" not in added
    ok("index", index, "--update", corpus(tmp_path / "new.jsonl", {"x": "eyes"}))
    assert Index.open(index).text("x") == "eyes"
    (tmp_path / "ids.txt").write_text("y\n\nx\n")
    assert "6 documents before, 3 now" in ok(
        "index", index, "--remove", "a", "--remove-listed", tmp_path / "ids.txt", "--merge"
    )
    assert list(Index.open(index)) == ["b", "c", "é"]


def test_wrong_usage(index: Path, model: Path, data: Path, tmp_path: Path) -> None:
    for arguments in (
        ("index", "--model", model, "-o", tmp_path / "new"),
        ("index", data, "--model", model),
        ("index", data, "--model", model, "-o", index, "--update", data),
        ("index", index, "--update", data, "--replace"),
        ("index", index, "--update", data, "--language", "english"),
        ("index", data, "-o", tmp_path / "new", "--model", model, "--language", "english"),
        ("index", data, "-o", index, "--merge"),
        ("search", index),
        ("search", index, "green", "--queries", data / "queries.jsonl"),
        ("search", index, "green", "-o", tmp_path / "run"),
        ("search", index, "--queries", data / "queries.jsonl", "-o", tmp_path / "run", "--why"),
    ):
        assert run(*arguments).exit_code == 2, arguments
    assert not (tmp_path / "new").exists()
    refused = run("index", data, "--model", model, "-o", model)
    assert refused.exit_code == 1
    assert "'text-model'; expected 'index'" in refused.output
    no_texts = tmp_path / "no-texts"
    ok("index", data, "--model", model, "-o", no_texts, "--no-texts")
    assert "green avocado" not in ok("search", no_texts, "avocado")


def test_another_model_searches_the_same_index(index: Path, tmp_path: Path) -> None:
    small_model(TEXTS).save(tmp_path / "plain")
    assert "  4  " not in ok("search", index, "sky", "--model", tmp_path / "plain")
    assert "  4  " in ok("search", index, "sky", "--all")
    assert "no more matches; --all shows 2 hits without a word of the query" in ok("search", index, "sky")
    small_model({"z": "other words"}).save(tmp_path / "other")
    assert "another vectorizer" in run("search", index, "sky", "--model", tmp_path / "other").output


@pytest.mark.slow
def test_what_is_learned_with_the_words_of_an_index_searches_it(data: Path, tmp_path: Path) -> None:
    index, triplets = tmp_path / "bm25", tmp_path / "triplets.tsv"
    ok("index", data, "-o", index)
    triplets.write_text("query\tbetter\tworse\n" + "".join(f"unheard word{n}\ta\tb\n" for n in range(12)))
    ok(
        "fit",
        data / "corpus.jsonl",
        "--preferences",
        triplets,
        "--vocabulary",
        index,
        "-o",
        tmp_path / "model",
        "--steps",
        100,
    )
    assert ok("search", index, "avocado", "--model", tmp_path / "model")
    assert tc.load(tmp_path / "model").doc_vectorizer.words_ == Index.open(index).model.doc_vectorizer.words_


def test_a_long_build_says_how_far_it_is(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("index", data, "--model", model, "-o", tmp_path / "index")
    assert "so far" not in run(*command).stderr
    monkeypatch.setattr(importlib.import_module("tercet.cli.progress"), "SAY_EVERY_SECONDS", 0.0)
    assert run(*command, "--replace").stderr == "4 documents so far\n"
    more = corpus(tmp_path / "more.jsonl", {"x": "green sky", "y": "blue toast"})
    assert run("index", tmp_path / "index", "--update", more).stderr == "2 documents so far\n"


def test_without_a_model_it_is_bm25(data: Path, tmp_path: Path) -> None:
    said = ok("index", data, "-o", tmp_path / "bm25")
    assert "4 documents" in said
    assert "BM25 of words reduced to their English stems" in said
    own = tc.TextModel.bm25(TEXTS.values())
    opened = Index.open(tmp_path / "bm25")
    query = {"q": "green avocado"}
    assert opened.search_many(query, 3) == Index.build(TEXTS, own).search_many(query, 3)
    assert "green avocado" in ok("search", tmp_path / "bm25", "avocado", "--why")
    assert "avocado" in ok("explain", tmp_path / "bm25", "avocado", "a")
    assert "green avocado" in ok("search", tmp_path / "bm25", "avocados")
    written = ok("index", data, "-o", tmp_path / "written", "--language", "none")
    assert "words as they are written" in written
    assert "nothing found" in ok("search", tmp_path / "written", "avocados")
    german = ok("index", data, "-o", tmp_path / "german", "--language", "german")
    assert "words reduced to their German stems" in german
    assert Index.open(tmp_path / "german").model.doc_vectorizer.analyzer.stemmer == "german"
    assert "avocado +1.000" in ok("explain", tmp_path / "bm25", "--word", "avocado")


def test_a_stop_word_is_called_one(tmp_path: Path) -> None:
    tc.Index.build(TEXTS, path=tmp_path / "bm25", analyzer=tc.Analyzer(stop_words="english"))
    assert "'the' is a stop word" in ok("search", tmp_path / "bm25", "the")
    assert "stop word" not in ok("search", tmp_path / "bm25", "the avocado")


def test_the_demo_writes_over_nothing_but_itself(model: Path, index: Path, tmp_path: Path) -> None:
    refused = run("demo", "-o", tmp_path)
    assert refused.exit_code == 1
    assert f"{model} was not made by the demo; nothing was written" in refused.output


def test_new_words_are_counted_and_found(index: Path, model: Path, tmp_path: Path) -> None:
    added = ok("index", index, "--update", corpus(tmp_path / "more.jsonl", {"x": "green guava", "y": "guava"}))
    assert ", 1 new word" in added
    again = ok("index", index, "--update", corpus(tmp_path / "again.jsonl", {"z": "guava kiwi lime", "x": "guava"}))
    assert ", 2 new words" in again
    shown = ok("search", index, "kiwi guava", "--why", "-k", 1)
    assert " z " in shown
    assert "  kiwi\n" in shown
    assert " z " in ok("search", index, "kiwi", "--model", model), "a model from before takes the words of the index in"


def test_words_that_a_model_cannot_take_in_are_told(tmp_path: Path) -> None:
    words = tc.Vectorizer(max_features=3).fit(TEXTS.values())
    limited = tc.TextModel(words, words, tc.Weights([Identity(n_terms=3)]))
    Index.build(TEXTS, limited, tmp_path / "index")
    added = ok("index", tmp_path / "index", "--update", corpus(tmp_path / "more.jsonl", {"x": "guava"}))
    assert "1 of the words are new to the index, such as 'guava'" in added


def test_what_a_terminal_takes_for_commands_is_not_printed(tmp_path: Path) -> None:
    Index.build([("a\x1b[2J", "green \x1b[31m tea", {"price": "\x1b]0;x\x07"})], path=tmp_path / "index")
    shown = ok("search", tmp_path / "index", "tea")
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_a_table_is_indexed_with_what_it_carries(tmp_path: Path) -> None:
    table = tmp_path / "products.csv"
    table.write_text("sku,name,description,price\n007,Green tea,From the hills,1.50\n008,Black tea,From the plains,2\n")
    ok("index", table, "-o", tmp_path / "index")
    assert "007  Green tea From the hills\n       price 1.5\n" in ok("search", tmp_path / "index", "hills")
    more = tmp_path / "more.csv"
    more.write_text("sku,name,description,price\n008,Black tea,From the hills,3\n")
    ok("index", tmp_path / "index", "--update", more)
    assert Index.open(tmp_path / "index").stored_fields("008") == {"price": 3}


def test_an_index_is_not_lost(index: Path, model: Path, data: Path, tmp_path: Path) -> None:
    command = ("index", data, "-o", index)
    refused = run(*command)
    assert refused.exit_code == 1
    assert "holds a saved index already; nothing was written. --replace puts the new one in its place" in refused.output
    assert list(Index.open(index)) == list(TEXTS)
    (tmp_path / "index.taught.db").touch()
    assert "index.taught.db stays" in ok(*command, "--replace")
    broken = corpus(tmp_path / "broken.jsonl", {"x": "green sky"})
    broken.write_text(broken.read_text() + "{")
    before = Index.open(index).search("green")
    assert run("index", broken, "--model", model, "-o", index, "--replace").exit_code == 1
    assert Index.open(index).search("green") == before  # the old one is there until the new one is complete
    for other in (("index", data, "-o", model, "--replace"), ("fit", data, "-o", index, "--replace")):
        refused = run(*other)
        assert refused.exit_code == 1, other
        assert "nothing was written" in refused.output


def test_ids_are_taken_as_they_are(index: Path, tmp_path: Path) -> None:
    names = ["007", "1e5", " blank before", "x" * 5000]
    ok("index", index, "--update", corpus(tmp_path / "more.jsonl", dict.fromkeys(names, "green")))
    assert list(Index.open(index))[-4:] == names
    refused = run("search", index, "--queries", corpus(tmp_path / "q.jsonl", {"q": "green"}), "-o", tmp_path / "run")
    assert refused.exit_code == 1
    assert "document id ' blank before' holds a blank" in refused.output
    assert not (tmp_path / "run").exists()
    (tmp_path / "ids.txt").write_text(f"007\n blank before\r\n{names[3]}", encoding="utf-8")
    assert "8 documents before, 5 now, in" in ok("index", index, "--remove-listed", tmp_path / "ids.txt")
    assert "1e5" in Index.open(index)
    (tmp_path / "ids.txt").write_bytes(b"1e5\n\xff\n")
    refused = run("index", index, "--remove-listed", tmp_path / "ids.txt")
    assert refused.exit_code == 1
    assert "ids.txt:2" in refused.output
    assert "1e5" in Index.open(index)
    assert "1 segment\n" in ok("index", index, "--merge")
