"""A text model that learns on from clicks: any source of documents, any portions."""

from __future__ import annotations

import pytest

from support.click_data import DOCS, LOG, QUERIES, model, sparse_bits
from tercet.data import Impression
from tercet.errors import InputError
from tercet.fitting.clicks import ClickLearner
from tercet.search import Index
from tercet.text.vectors import vectorise


def test_clicks_change_the_ranking_and_are_counted():
    start = model()
    learner = ClickLearner(start, DOCS, queries=QUERIES)
    assert next(iter(start.rank({"q": "avocado"}, DOCS)["q"])) == "a"
    learner.learn(LOG * 200)
    assert next(iter(learner.model.rank({"q": "avocado"}, DOCS)["q"])) == "b"
    tally = learner.tally
    assert (tally.n_impressions, tally.n_clicked, tally.n_shown, tally.n_unknown) == (1000, 800, 2400, 200)
    assert tally.n_preferences == 800
    assert tally.n_wordless == 200
    assert learner.model.weights.parts[:-1] == start.weights.parts
    assert learner.model.report is start.report


def test_an_index_vectors_and_texts_give_the_same_bits_in_any_portions(tmp_path):
    start = model()
    whole = ClickLearner(start, DOCS, queries=QUERIES, skipped="all")
    whole.learn(LOG * 100)
    vectors = vectorise(DOCS, None, tmp_path / "vectors", vectoriser=start.doc_vectoriser)
    for docs in (DOCS.items(), Index.build(DOCS, start), vectors):
        parted = ClickLearner(start, docs, queries=QUERIES, skipped="all")
        for first in range(0, 500, 37):
            parted.learn((LOG * 100)[first : first + 37])
        assert sparse_bits(parted.model.weights) == sparse_bits(whole.model.weights)
        assert parted.tally == whole.tally
    assert whole.tally.n_preferences > 400


def test_ids_of_queries_are_looked_up_among_vectors(tmp_path):
    start, asked = model(), {"q1": "sky", "q2": "green oil"}
    vectors = vectorise(DOCS, asked, tmp_path / "vectors", vectoriser=start.doc_vectoriser)
    log = [
        Impression("q2", ("a", "d"), ("d",)),
        Impression("avocado", ("a", "b"), ("b",)),
        Impression("q1", ("c", "d"), ("d",)),
    ]
    by_text = ClickLearner(start, DOCS, queries=asked)
    by_text.learn(log * 100)
    assert by_text.tally.n_wordless == 0
    for docs, queries in ((vectors, None), (DOCS, vectors), (vectors, asked)):
        by_row = ClickLearner(start, docs, queries=queries)
        by_row.learn(log * 100)
        assert sparse_bits(by_row.model.weights) == sparse_bits(by_text.model.weights)
        assert by_row.tally == by_text.tally
    only_ids = ClickLearner(start, DOCS, queries=vectors)
    only_ids.learn(log[::2])
    assert (only_ids.tally.n_preferences, only_ids.tally.n_wordless) == (2, 0)
    others = vectorise({"a": "other words"}, {"q1": "words"}, tmp_path / "others")
    with pytest.raises(InputError, match="was made with other words than the model has"):
        ClickLearner(start, DOCS, queries=others)


def test_a_log_about_other_documents_is_refused(tmp_path):
    learner = ClickLearner(model(), DOCS)
    with pytest.raises(InputError, match="none of the first 1,024 documents that were shown is known"):
        learner.learn([Impression("avocado", ("x", "y"), ("y",))] * 2000)
    others = vectorise({"a": "other words"}, None, tmp_path / "vectors")
    with pytest.raises(InputError, match="was made with other words than the model has"):
        ClickLearner(model(), others)
    with pytest.raises(InputError, match="no documents"):
        ClickLearner(model(), {})
    with pytest.raises(InputError, match="'skipped' must be"):
        ClickLearner(model(), DOCS, skipped="below")
    with pytest.raises(InputError, match="the document id 'a' is there twice"):
        ClickLearner(model(), [*DOCS.items(), ("a", "another text"), ("e", "sky")])
