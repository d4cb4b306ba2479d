"""Exports: what other engines would read, decoded again and compared with what the model says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from support.corpora import Corpus
from support.exports import DOCS, Messages, one, read_synonyms, small_model
from tercet.cli.main import cli
from tercet.engines import (
    boosted_query,
    write_anserini,
    write_ciff,
    write_synonyms,
)
from tercet.engines.ciff import varint
from tercet.engines.impacts import ImpactRows
from tercet.engines.query_strings import quoted
from tercet.errors import InputError
from tercet.weights import Identity, LowRank, Sparse


def bm25_of(words: tc.Vectorizer, texts: list[str]) -> np.ndarray:
    """Each word's BM25 score in each document, as an engine computes it."""
    counts = np.array([[t.split().count(w) for w in words.words_] for t in texts])
    length = np.array([len(t.split()) for t in texts]) / words.mean_length_
    held_back = words.k1 * (1 - words.b + words.b * length)[:, None]
    return words.idf_ * counts * (words.k1 + 1) / (counts + held_back)


# -- synonyms ---------------------------------------------------------------------------------------------------------


def test_solr_lines_have_the_weights_and_say_what_they_leave_out(tmp_path):
    model = small_model(
        {("hockey", "puck"): 0.8, ("hockey", "stick"): 0.05, ("hockey", "bat"): -0.7, ("ball", "bat"): 0.5}
    )
    output = write_synonyms(tmp_path / "s.txt", model, min_boost=0.1)
    comments, found = read_synonyms(tmp_path / "s.txt")
    assert set(found) == {"hockey", "ball"}
    assert [word for word, _ in found["hockey"]] == ["hockey", "puck"]
    assert (output.n_words, output.n_pairs, output.n_below, output.n_negative, output.n_unwritable) == (2, 2, 1, 1, 0)
    assert "1 negative ones" in " ".join(comments)
    assert "DelimitedBoost" in " ".join(comments)
    # A boost times the engine's own score of the word is what the model adds, up to what a plain match adds.
    words = model.query_vectorizer
    idf = dict(zip(words.words_, words.idf_, strict=True))
    assert dict(found["hockey"])["puck"] == pytest.approx(0.8 * np.sqrt(idf["hockey"] / idf["puck"]), rel=1e-2)
    assert dict(found["hockey"])["hockey"] == 1.0


def test_synonyms_in_an_engine_rank_as_the_model(tmp_path):
    """Every pair is in the file, so boosted BM25 is the model's score up to a factor of the query."""
    model = small_model({("hockey", "puck"): 0.8, ("hockey", "ball"): 0.3, ("ball", "bat"): 0.5}, identity=2.0)
    write_synonyms(tmp_path / "s.txt", model, min_boost=1e-3)
    _, synonyms = read_synonyms(tmp_path / "s.txt")
    words = model.query_vectorizer
    engine = bm25_of(words, list(DOCS.values()))
    for query in ("hockey", "hockey ball", "ball library"):
        boosts = np.zeros(len(words.words_))
        for word in query.split():
            for other, boost in synonyms.get(word, [(word, 1.0)]):
                boosts[words.index_[other]] += boost
        ours = model.weights.score(model.queries([query]), model.docs(list(DOCS.values())))[0]
        theirs = engine @ boosts
        assert theirs / theirs.max() == pytest.approx(ours / ours.max(), rel=1e-2)


def test_words_that_a_synonym_file_cannot_hold_are_counted_and_others_escaped(tmp_path):
    words = tc.Vectorizer(analyzer=tc.Analyzer(pattern=r"\S+", lowercase=False)).fit(
        ["a|b #c d,e f=>g h\\i =>x y=> \\\\, plain"]
    )
    n = len(words.words_)
    W = sparse.csr_array(np.where(np.eye(n), 0.0, 0.5).astype(np.float32))
    model = tc.TextModel(words, words, tc.Weights([Identity(n_terms=n), Sparse(weights=W)]))
    output = write_synonyms(tmp_path / "s.txt", model)
    _, found = read_synonyms(tmp_path / "s.txt")
    assert set(found) == {"d,e", "f=>g", "h\\i", "=>x", "y=>", "\\\\,", "plain"}
    assert all({word for word, _ in line} == set(found) for line in found.values())
    assert output.n_unwritable == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_boost": 0}, "min_boost must be a number above 0"),
        ({"max_words": 0}, "max_words must be an integer from 1"),
    ],
)
def test_wrong_options_of_synonyms_are_named(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        write_synonyms(tmp_path / "s.txt", small_model({}), **options)
    assert list(tmp_path.iterdir()) == []


# -- a query ----------------------------------------------------------------------------------------------------------


def test_a_query_has_boosts_that_rank_as_the_model():
    model = small_model({("hockey", "puck"): 0.8, ("puck", "hockey"): 0.4, ("hockey", "bat"): -0.5}, identity=2.0)
    found = boosted_query(model, "hockey puck unheard")
    assert found.unknown == ("unheard",)
    assert [word for word, _ in found.negative] == ["bat"]
    assert found.negative[0][1] < 0
    assert "bat" not in found.text
    clauses = dict(re.findall(r"(\w+)\^([\d.]+)", found.text))
    assert {word: float(boost) for word, boost in clauses.items()} == pytest.approx(dict(found.clauses), rel=1e-3)
    words = model.query_vectorizer
    boosts = np.zeros(len(words.words_))
    for word, boost in (*found.clauses, *found.negative):
        boosts[words.index_[word]] = boost
    engine = bm25_of(words, list(DOCS.values())) @ boosts
    ours = model.weights.score(model.queries(["hockey puck"]), model.docs(list(DOCS.values())))[0]
    assert engine / engine.max() == pytest.approx(ours / ours.max(), abs=1e-5)


def test_clauses_beyond_the_most_are_counted():
    model = small_model({("hockey", word): 0.1 * i for i, word in enumerate(["puck", "bat", "ball", "stick"], 1)})
    found = boosted_query(model, "hockey", max_terms=2)
    assert len(found.clauses) == 2
    assert found.n_left_out == 3
    assert 0 < found.share < 1
    assert boosted_query(model, "hockey", field="body.en").text.startswith("body.en:(hockey^1 OR ")
    assert boosted_query(model, "unheard").text == ""
    with pytest.raises(InputError, match="field must be a name"):
        boosted_query(model, "hockey", field="a:b")


@given(st.text(min_size=1))
def test_a_word_in_a_query_string_is_never_syntax(word):
    written = quoted(word)
    if written == word:
        assert re.fullmatch(r"\w+", word)
        assert word not in ("AND", "OR", "NOT", "TO")
    else:
        inside = written[1:-1]
        assert written[0] == written[-1] == '"'
        assert re.fullmatch(r'(?:[^"\\]|\\["\\])*', inside, re.S)
        assert re.sub(r'\\(["\\])', r"\1", inside) == word


# -- documents --------------------------------------------------------------------------------------------------------


def dense_impacts(model: tc.TextModel, docs: dict[str, str]) -> np.ndarray:
    """What each query word alone adds to each document, times its weight in a query (n_docs, n_words)."""
    words = model.query_vectorizer
    weight = words.idf_**words.idf_power if words.weighting == "bm25" else words.idf_
    return (model.weights.score(np.eye(len(words.words_)), model.docs(list(docs.values()))) * weight[:, None]).T


@pytest.mark.parametrize("weighting", ["bm25", "tfidf"])
def test_the_impacts_of_plain_words_add_up_to_the_score(tmp_path, weighting):
    model = small_model({("hockey", "puck"): 0.8, ("ball", "bat"): 0.5}, weighting=weighting)
    output = write_anserini(tmp_path / "d.jsonl", model, DOCS, bits=16)
    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == list(DOCS)
    assert all(line["contents"] == "" for line in lines)
    assert all(type(n) is int and n >= 1 for line in lines for n in line["vector"].values())
    for query in ("hockey", "ball puck", "quiet hockey bat"):
        ours = model.weights.score(model.queries([query]), model.docs(list(DOCS.values())))[0]
        sums = np.array([sum(line["vector"].get(word, 0) for word in query.split()) for line in lines]) * output.step
        assert sums / sums.max() == pytest.approx(ours / ours.max(), abs=1e-3)


@pytest.mark.parametrize("queries", [None, ["hockey ball"]])
def test_the_impacts_of_a_cosine_add_up_to_the_score_times_the_length_of_the_query(tmp_path, queries):
    plain, rng = small_model({}), np.random.default_rng(0)
    n = plain.weights.shape[0]
    U, V = (rng.random((n, 3)) ** 4 * 10.0 ** rng.integers(-1, 2, (n, 1)) for _ in range(2))
    cosine = LowRank(query_factors=np.float32(U), doc_factors=np.float32(V), typical_length=1.0, unit_queries=True)
    model = tc.TextModel(plain.query_vectorizer, plain.doc_vectorizer, tc.Weights([cosine]))
    output = write_anserini(tmp_path / "d.jsonl", model, DOCS, bits=16, queries=queries)
    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text(encoding="utf-8").splitlines()]
    for query in ("hockey", "ball puck", "quiet hockey bat"):
        ours = model.weights.score(model.queries([query]), model.docs(list(DOCS.values())))[0]
        sums = np.array([sum(line["vector"].get(word, 0) for word in query.split()) for line in lines]) * output.step
        assert sums / sums.max() == pytest.approx(ours / ours.max(), abs=1e-3)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 9))
def test_quantised_impacts_are_within_half_a_step_and_nothing_is_lost_uncounted(seed, bits, max_terms):
    rng = np.random.default_rng(seed)
    words = tc.Vectorizer(weighting="bm25").fit(DOCS.values())
    n = len(words.words_)
    U, V = (rng.normal(size=(n, 3)).astype(np.float32) for _ in range(2))
    model = tc.TextModel(words, words, tc.Weights([LowRank(query_factors=U, doc_factors=V), Identity(n_terms=n)]))
    exact = dense_impacts(model, DOCS)
    rows = ImpactRows(model, DOCS, max_terms=max_terms, bits=bits)
    for at, (_, columns, impacts) in enumerate(rows):
        assert (np.diff(columns) > 0).all()
        assert np.abs(impacts * rows.step - exact[at, columns]).max(initial=0) <= rows.step / 2 * (1 + 1e-9)
        assert impacts.max(initial=1) <= 2**bits - 1
    output = rows.summary()
    assert output.n_postings + output.n_left_out + output.n_rounded == int((exact > 0).sum())
    assert output.n_negative == int((exact < 0).sum())


def test_a_ciff_file_read_back_has_the_same_impacts(tmp_path):
    model = small_model({("hockey", "puck"): 0.8, ("ball", "bat"): 0.5, ("hockey", "bat"): -0.4})
    docs = DOCS | {"d5": "hockey ball puck", "é": "puck bat"}  # words in three documents: a gap is not a number
    output = write_ciff(tmp_path / "i.ciff", model, docs, bits=8)
    expected = {
        (model.query_vectorizer.words_[j], at): n
        for at, (_, columns, impacts) in enumerate(ImpactRows(model, docs, bits=8))
        for j, n in zip(columns.tolist(), impacts.tolist(), strict=True)
    }
    read = Messages((tmp_path / "i.ciff").read_bytes())
    header = read.next()
    assert one(header, 1) == 1
    assert one(header, 3) == one(header, 5) == len(docs)
    assert one(header, 6) == sum(expected.values())
    assert one(header, 7) == pytest.approx(sum(expected.values()) / len(docs))
    assert "8 bits" in one(header, 8).decode()
    assert f"{output.n_negative} negative" in one(header, 8).decode()
    found, terms = {}, []
    for _ in range(one(header, 2)):
        postings = read.next()
        term = one(postings, 1).decode()
        terms.append(term)
        doc = 0
        for message in postings[4]:
            posting = Messages(message).fields()
            doc += one(posting, 1)
            found[term, doc] = one(posting, 2)
        mine = [n for (word, _), n in found.items() if word == term]
        assert one(postings, 2) == len(mine) == len(postings[4])
        assert one(postings, 3) == sum(mine)
    assert terms == sorted(terms, key=lambda term: term.encode())
    assert len(set(terms)) == len(terms) == one(header, 4)
    assert found == expected
    for at, doc_id in enumerate(docs):
        record = read.next()
        assert (one(record, 1), one(record, 2).decode()) == (at, doc_id)
        assert one(record, 3) == sum(n for (_, doc), n in expected.items() if doc == at)
    assert read.at == len(read.data)


@given(st.integers(0, 2**63 - 1))
def test_a_varint_comes_back(value):
    read = Messages(varint(value))
    assert read.varint() == value
    assert read.at == len(read.data)


def test_learned_impacts_rank_nearly_as_the_model(model, corpus: Corpus, tmp_path):
    model = model.with_parts(["words"])
    write_anserini(tmp_path / "d.jsonl", model, corpus.docs, max_terms=64)
    vectors = {}
    for line in (tmp_path / "d.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        vectors[record["id"]] = record["vector"]
    unseen = corpus.part(280)
    run = {
        qid: {d: float(sum(v.get(word, 0) for word in corpus.queries[qid].split())) for d, v in vectors.items()}
        for qid in unseen
    }
    ours = model.rank({q: corpus.queries[q] for q in unseen}, corpus.docs, k=len(corpus.docs))
    exact, exported = (tc.evaluate(unseen, each).mean("nDCG@10") for each in (ours, run))
    assert exported > 0.9 * exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 17}, "bits must be at most 16"),
        ({"bits": 0}, "bits must be an integer from 1"),
        ({"max_terms": True}, "max_terms must be an integer"),
        ({"docs": {}}, "there are no documents to export"),
    ],
)
@pytest.mark.parametrize("write", [write_anserini, write_ciff])
def test_wrong_options_of_documents_are_named_and_nothing_is_written(tmp_path, write, options, message):
    given = {"docs": DOCS} | options
    with pytest.raises(InputError, match=message):
        write(tmp_path / "out", small_model({}), **given)
    assert list(tmp_path.iterdir()) == []


def test_n_grams_are_refused_where_blanks_part_words(tmp_path):
    words = tc.Vectorizer(analyzer=tc.Analyzer(ngrams=(1, 2))).fit(DOCS.values())
    model = tc.TextModel(words, words, tc.Weights([Identity(n_terms=len(words.words_))]))
    with pytest.raises(InputError, match="has a blank in it"):
        write_anserini(tmp_path / "d.jsonl", model, DOCS)
    assert list(tmp_path.iterdir()) == []
    write_ciff(tmp_path / "i.ciff", model, DOCS)
    assert boosted_query(model, "ice hockey").text.count('"ice hockey"') == 1


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved_small(tmp_path: Path) -> tuple[Path, Path]:
    small_model({("hockey", "puck"): 0.8, ("hockey", "bat"): -0.5}).save(tmp_path / "model")
    folder = tmp_path / "beir"
    folder.mkdir()
    rows = [{"_id": d, "title": "", "text": t} for d, t in DOCS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "hockey"}))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td1\t1\n")
    return tmp_path / "model", folder


@pytest.mark.parametrize("form", ["solr", "anserini", "ciff"])
def test_the_command_writes_each_form(saved_small, tmp_path, form):
    model, folder = saved_small
    documents = ["documents", str(folder), "--form", form]
    command = documents if form in ("anserini", "ciff") else ["synonyms"]
    out = tmp_path / "out"
    done = CliRunner().invoke(cli, ["export", *command, "--model", str(model), "-o", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert out.stat().st_size > 0
    assert "negative" in done.output


def test_the_command_prints_a_query_and_what_is_negative(saved_small):
    model, _ = saved_small
    done = CliRunner().invoke(cli, ["export", "query", "hockey unheard", "--model", str(model)])
    assert done.exit_code == 0, done.output
    assert done.stdout == boosted_query(tc.load(model), "hockey unheard").text + "\n"
    assert "most negative: bat -" in done.stderr
    assert "the model does not know: unheard" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["synonyms"],
        ["query"],
        ["synonyms", "-o", "x", "--terms", "4"],
        ["documents", "-o", "x", "--field", "body"],
        ["query", "a", "--min-boost", "1"],
    ],
)
def test_the_command_refuses_what_does_not_go_together(saved_small, arguments):
    model, _ = saved_small
    assert CliRunner().invoke(cli, ["export", *arguments, "--model", str(model)]).exit_code == 2
