"""tc.rerank: candidates of another engine, ordered by a model and with reasons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tercet as tc
from tercet.errors import InputError
from tercet.learn.joint import joined
from tercet.memory import Memory, MemorySettings
from tercet.text import FieldedVectorizer
from tercet.weights import Identity, Weights

DOCS = {
    "a": "black coffee",
    "b": "a pot of green tea from the hills",
    "c": "green tea",
    "d": "green paint",
    "e": "white coffee",
}


@pytest.fixture
def model() -> tc.TextModel:
    return tc.TextModel.bm25(DOCS.values())


def with_memory(words: tc.TextModel, unseen: float = 0.0) -> tc.TextModel:
    past = ("green tea", "hot drink")
    settings = MemorySettings(weight=3.0, unseen=unseen)
    return replace(words, memory=Memory(past, words.queries(past), [[0.0, 1.0], [1.0, 0.0]], ("a", "d"), settings))


def test_all_candidates_come_back_best_first_and_ties_as_given(model):
    hits = tc.rerank(model, "green tea unicorn", DOCS)
    assert [hit.doc_id for hit in hits] == ["c", "b", "d", "a", "e"]
    assert [hit.score for hit in hits][3:] == [0.0, 0.0]
    assert {hit.doc_id: hit.score for hit in hits} == model.rank({"q": "green tea unicorn"}, DOCS)["q"]
    assert [hit.text for hit in hits] == [DOCS[hit.doc_id] for hit in hits]
    assert hits.unknown == hits[0].why.unknown == ("unicorn",)
    assert [hit.doc_id for hit in tc.rerank(model, "green tea", dict(reversed(DOCS.items())))][3:] == ["e", "a"]


def test_a_score_does_not_depend_on_the_other_candidates(model):
    docs = {"new": "green tomatoes", **DOCS}
    alone = tc.rerank(model, "green tomatoes", {"new": docs["new"]})
    among = {hit.doc_id: hit.score for hit in tc.rerank(model, "green tomatoes", docs)}
    assert alone[0].score == among["new"]


def test_the_order_is_that_of_an_index(model):
    found = tc.Index.build(DOCS, model).search("a pot of green tea")
    hits = tc.rerank(model, "a pot of green tea", DOCS)[: len(found)]
    assert [hit.doc_id for hit in hits] == [hit.doc_id for hit in found]
    np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in found], rtol=1e-6)
    assert [hit.why.pairs for hit in hits] == [hit.why.pairs for hit in found]


@pytest.mark.parametrize("unseen", [0.0, 1.0])
def test_memory_knows_candidates_by_id(model, unseen):
    remembering = with_memory(model, unseen)
    docs = {**DOCS, "unheard of": "green tea for two"}
    hits = tc.rerank(remembering, "green tea", docs)
    assert hits[0].doc_id == "d"
    assert [past.text for past in hits[0].why.past] == ["green tea"]
    by_words = {hit.doc_id: hit.score for hit in tc.rerank(model, "green tea", docs)}
    by_all = {hit.doc_id: hit for hit in hits}
    assert by_all["d"].score > by_words["d"]
    assert by_all["unheard of"].why.past == ()
    assert (by_all["unheard of"].score > by_words["unheard of"]) == bool(unseen)
    for hit in hits:
        assert hit.why.score == pytest.approx(hit.score, abs=1e-6)
    renamed = tc.rerank(remembering, "green tea", {f"other-{doc_id}": text for doc_id, text in DOCS.items()})
    assert not any(hit.why.past for hit in renamed)


def test_records_bring_fields_numbers_and_stored_columns():
    records = [
        {"id": f"d{i}", "title": f"w{i % 3}", "text": f"w{i % 4} w{i % 5}", "price": float(i), "shop": "x" if i else ""}
        for i in range(20)
    ]
    vectorizer = FieldedVectorizer(fields=["title"], features=["price"]).fit(tc.as_documents(records))
    weights = joined(
        Weights([Identity(n_terms=vectorizer.layout_.n_words)]), np.array([1.5, 0.3, 0.2]), vectorizer.layout_
    )
    model = tc.TextModel(vectorizer, vectorizer, weights)
    hits = tc.rerank(model, "w1", records)
    assert {hit.doc_id: hit.score for hit in hits} == model.rank({"q": "w1"}, records)["q"]
    assert hits[0].score > hits[-1].score
    for hit in hits:
        assert hit.why.score == pytest.approx(hit.score, abs=1e-6)
    by_id = {hit.doc_id: hit.stored_fields for hit in hits}
    assert by_id["d3"] == tc.Index.build(records, model).stored_fields("d3")
    assert "shop" not in by_id["d0"]
    assert list(hits.to_frame()["doc_id"]) == [hit.doc_id for hit in hits]
    with pytest.raises(InputError, match="title"):
        tc.rerank(model, "w1", {"d": "a text alone"})


@pytest.mark.parametrize("nothing", [{}, []])
def test_without_candidates_there_are_no_hits(model, nothing):
    hits = tc.rerank(model, "green unicorn", nothing)
    assert (list(hits), hits.unknown) == ([], ("unicorn",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "tea", DOCS), "expected a TextModel"),
        (("model", 7, DOCS), "the query is of type int"),
        (("model", "tea", [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]), "'a' is already used"),
        (("model", "tea", "a text"), "documents by id"),
        (("model", "tea", None), "NoneType"),
    ],
)
def test_bad_input_is_named(model, arguments, message):
    given_model = model if arguments[0] == "model" else arguments[0]
    with pytest.raises(InputError, match=message):
        tc.rerank(given_model, *arguments[1:])
