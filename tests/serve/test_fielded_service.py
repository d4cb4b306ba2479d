"""The service over documents with fields and numbers: reasons have them, and what is learned is about words alone."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from tercet.data.taught import Action
from tercet.learn.joint import joined
from tercet.search import Index
from tercet.serve.answers import explain, search
from tercet.serve.served import Served
from tercet.serve.teacher import Overlay
from tercet.text import FieldedVectorizer
from tercet.weights import Identity, Weights

DOCS = tc.as_documents(
    {
        "a": {"title": "green avocado", "text": "a fruit", "downloads": 10},
        "b": {"title": "green eyes", "text": "an eye", "downloads": 2000},
        "c": {"title": "blue sky", "text": "above", "downloads": 0},
    }
)


@pytest.fixture
def index():
    words = FieldedVectorizer(fields=["title"], features=["log:downloads"]).fit(DOCS)
    weights = joined(Weights([Identity(n_terms=words.layout_.n_words)]), np.array([0.5, 0.2, 0.0]), words.layout_)
    return Index.build(DOCS, tc.TextModel(words, words, weights))


def test_votes_change_words_and_leave_numbers_as_they_are(index):
    assert index.search("green")[0].doc_id == "b"
    overlay = Overlay(Served.from_index(index), "store")
    overlay.learn(Action(number, number, "", "me", "prefer", "green", (("a", "b"),)) for number in (1, 2, 3))
    served = overlay.served(3)
    learned = served.model.weights.parts[-1].weights
    assert learned.nnz == served.n_pairs > 0
    assert max(learned.indices.max(), np.flatnonzero(np.diff(learned.indptr)).max()) < index.model.n_words
    before, after = (one.search("green") for one in (index, served.index))
    lead = {hit.doc_id: hit.score for hit in after}
    assert (
        lead["a"] - lead["b"]
        > {hit.doc_id: hit.score for hit in before}["a"] - {hit.doc_id: hit.score for hit in before}["b"]
    )


def test_both_lists_and_reasons_are_given(index):
    served = Served.from_index(index)
    answer = search(served, "green", 3, compare=True)
    assert answer["learned"][0]["id"] == "b"
    assert [hit["id"] for hit in answer["baseline"]] == ["a", "b"]  # by words alone
    why = explain(served, index, "green", "b", None, 100)
    assert {pair["doc_word"] for pair in why["pairs"]} >= {"green", "title: green", "log:downloads 2000"}
    assert sum(pair["contribution"] for pair in why["pairs"]) == pytest.approx(why["score"])
