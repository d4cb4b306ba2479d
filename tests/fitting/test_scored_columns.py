"""Fits with fields and numbers: what decides is found, what does not help is rejected, what is kept can be served."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from tercet.data.documents import as_documents
from tercet.errors import InputError
from tercet.fitting.scored_columns import ALONE, ScoredColumns, weights_by_name
from tercet.fitting.text_model import pair_name
from tercet.learn.joint import taken_apart
from tercet.text import Analyzer, FieldedVectorizer

ANALYZER = Analyzer()
QUICK = {"n_steps": 2000, "verbose": False}


def shop(seed=0, n_docs=300, n_queries=60, popularity=1.0):
    """Things to find by a word of the text or of the title, the popular ones before the dear ones."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i}" for i in range(30)])
    docs = {
        f"d{i}": {
            "title": " ".join(rng.choice(words, 2)),
            "text": " ".join(rng.choice(words, 6)),
            "price": float(rng.gamma(2, 10)) if i % 10 else None,
            "downloads": int(100 * rng.pareto(1.0)),
        }
        for i in range(n_docs)
    }
    queries, qrels = {}, {}
    for number in range(n_queries):
        word = rng.choice(words)
        worth = {
            doc_id: (word in doc["text"].split())
            + 2 * (word in doc["title"].split())
            + popularity * (np.log1p(doc["downloads"]) - 0.05 * (doc["price"] or 0))
            for doc_id, doc in docs.items()
            if word in f"{doc['title']} {doc['text']}".split()
        }
        queries[f"q{number}"] = str(word)
        qrels[f"q{number}"] = dict.fromkeys(sorted(worth, key=lambda doc_id: -worth[doc_id])[:5], 1)
    return docs, queries, qrels


@pytest.fixture(scope="module")
def fitted():
    docs, queries, qrels = shop()
    model = tc.fit(
        docs,
        queries,
        qrels,
        options={
            "fields": {"title": 1.0},
            "features": ["price", "log:downloads"],
            "analyzer": ANALYZER,
            "n_steps": 8000,
            "verbose": False,
        },
    )
    return docs, queries, model


@pytest.mark.slow
def test_numbers_that_decide_have_the_right_signs(fitted):
    _, _, model = fitted
    chosen = model.report.chosen
    assert model.report.accepted
    assert any("beside words" in note for note in model.report.notes)
    assert chosen["weight of log:downloads"] > 0 > chosen["weight of price"]
    assert chosen["weight of title"] > 0
    assert [system.name for system in model.report.systems][-1] == "learned"
    assert "BM25 with fields" in [system.name for system in model.report.systems]
    assert model.report.changes["nDCG@10"][0] > 0.1


@pytest.mark.slow
def test_an_explanation_sums_over_words_fields_and_numbers(fitted):
    docs, queries, model = fitted
    [(doc_id, score)] = model.rank({"q": queries["q0"]}, as_documents(docs), k=1)["q"].items()
    why = model.explain(queries["q0"], docs[doc_id])
    assert why.score == pytest.approx(score, rel=1e-12)
    assert sum(contribution for _, _, contribution in why.pairs) == pytest.approx(score, abs=1e-9)
    table = why.table(100)
    assert f"log:downloads {docs[doc_id]['downloads']}" in table
    assert "any query" not in table
    assert pair_name("word1", "title: word1") == "title: word1"


def test_a_saved_model_ranks_alike(fitted, tmp_path):
    docs, queries, model = fitted
    model.save(tmp_path / "model")
    again = tc.load(tmp_path / "model")
    assert isinstance(again.doc_vectorizer, FieldedVectorizer)
    assert again.doc_vectorizer is again.query_vectorizer
    assert again.rank(queries, as_documents(docs), k=5) == model.rank(queries, as_documents(docs), k=5)
    assert again.report == model.report


def test_documents_must_have_the_columns(fitted):
    docs, queries, model = fitted
    with pytest.raises(InputError, match="must come with these columns"):
        model.docs(["word1"])
    with pytest.raises(InputError, match="no column 'title'; they have 'text'"):
        model.rank(queries, {"a": "word1"})
    some = {doc_id: {"title": doc["title"], "text": doc["text"]} for doc_id, doc in docs.items()}
    with pytest.raises(InputError, match="no column 'price'; they have 'title' and 'text'"):
        model.rank(queries, as_documents(some))


def test_words_are_looked_up_as_ever(fitted):
    _, _, model = fitted
    assert model.related("Word1", 3)[0][0].endswith("word1")
    assert all(": " not in word for pair in model.strongest_pairs(5, min_docs=1) for word in pair[:2])
    with pytest.raises(InputError, match="does not know the word 'zebra'"):
        model.related("zebra")


def test_words_alone_score_as_the_model_does_without_numbers(fitted):
    docs, _, model = fitted
    alone = model.words_alone()
    assert alone.words_alone() is alone
    D = alone.docs(list(as_documents(docs).values()))
    word = alone.query_vectorizer.words_[0]
    score = alone.weights.score(alone.queries([word]), D)
    expected = taken_apart(model.weights, model.doc_vectorizer.layout_)[0].score(alone.queries([word]), D)
    assert np.array_equal(score, expected)


def test_a_thin_model_keeps_fields_and_numbers(fitted):
    docs, queries, model = fitted
    thin = model.thin(0.1)
    assert weights_by_name(thin.doc_vectorizer, thin.weights) == pytest.approx(
        weights_by_name(model.doc_vectorizer, model.weights)
    )
    assert thin.weights.n_stored <= 0.1 * model.n_words**2 + model.n_words + 4
    hits = tc.Index.build(docs, thin).search(queries["q0"], k=3)
    assert sum(c for _, _, c in hits[0].why.pairs) == pytest.approx(hits[0].score, abs=1e-9)


@pytest.mark.slow
def test_where_learning_does_not_help_documents_need_no_columns():
    docs, queries, qrels = shop(1, n_queries=30, popularity=0.0)
    rng = np.random.default_rng(1)
    for doc in docs.values():
        doc["downloads"] = int(rng.integers(1000))
    # Judged at random: nothing can be learned.
    qrels = {qid: dict.fromkeys(rng.choice(list(docs), 3).tolist(), 1) for qid in qrels}
    model = tc.fit(docs, queries, qrels, options=QUICK | {"features": ["downloads"], "analyzer": ANALYZER})
    assert not model.report.accepted
    assert not any("beside words" in note for note in model.report.notes)  # of what was rejected, the model has nothing
    assert not isinstance(model.doc_vectorizer, FieldedVectorizer)
    assert model.rank({"q": "word1"}, {"a": "word1", "b": "word2"}, k=1)["q"].keys() == {"a"}


@pytest.mark.slow
def test_preferences_and_other_rankers_learn_numbers_too():
    docs, queries, qrels = shop(2)
    rng = np.random.default_rng(0)
    triplets = [
        (queries[qid], better, worse)
        for qid, judged in qrels.items()
        for better in judged
        for worse in rng.choice([doc_id for doc_id in docs if doc_id not in judged], 3)
    ]
    model = tc.fit(
        docs,
        preferences=triplets,
        ranker=["sparse", tc.LSIRanker(n_components=5)],
        options={"features": ["log:downloads"], "analyzer": ANALYZER, "n_steps": 3000, "verbose": False},
    )
    assert model.report.chosen["weight of log:downloads"] > 0
    assert model.report.chosen["ranker"] in ("sparse", "LSIRanker", ALONE)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(fitted):
    docs, queries, qrels = shop()
    fits = [
        tc.fit(docs, queries, qrels, options=QUICK | {"features": ["log:downloads"], "analyzer": ANALYZER})
        for _ in range(2)
    ]
    runs = [model.rank(queries, as_documents(docs), k=5) for model in fits]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fields": {"title": -1}}, "the weight of the field 'title' must be a number from 0; got -1"),
        ({"fields": "title"}, r"fields is a list of columns; got the string 'title', pass \['title'\]"),
        ({"features": "price"}, r"features is a list of columns; got the string 'price', pass \['price'\]"),
        ({"features": ["sqrt:price"]}, "no known transform"),
        (
            {"features": ["prize"]},
            "documents have no column 'prize'; they have 'title', 'text', 'price' and 'downloads'",
        ),
    ],
)
def test_what_cannot_be_is_said(given, message):
    docs, queries, qrels = shop(n_docs=40, n_queries=20)
    with pytest.raises(InputError, match=message):
        tc.fit(docs, queries, qrels, options=given)


def test_fields_may_be_named_without_weights():
    assert ScoredColumns.from_arguments(["title"], None) == ScoredColumns({"title": 1.0}, ())
    assert ScoredColumns.from_arguments(None, None) is None


@pytest.mark.slow
def test_clicks_teach_numbers_too():
    docs, queries, qrels = shop(3)
    rng = np.random.default_rng(0)
    log = []
    for qid in rng.choice(list(queries), 400).tolist():
        wanted = str(rng.choice(list(qrels[qid])))
        shown = list(dict.fromkeys([*map(str, rng.choice(list(docs), 5)), wanted]))
        log.append(tc.data.Impression(queries[qid], tuple(shown), (wanted,)))
    model = tc.fit(docs, clicks=log, options=QUICK | {"features": ["log:downloads"], "analyzer": ANALYZER})
    assert model.report.chosen["weight of log:downloads"] > 0
