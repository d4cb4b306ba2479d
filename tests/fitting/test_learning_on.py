"""Learning on: a sparse part that preferences, and clicks, add to weights of any kind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from support.click_data import DOCS, LOG, QUERIES, model, sparse_bits
from support.indexes import KINDS, N_TERMS, random_weights
from support.random_data import random_preferences, random_texts
from tercet import Preferences
from tercet.data import Impression
from tercet.errors import DamagedBundleError, InputError
from tercet.fitting.clicks import ClickLearner
from tercet.learn.continuing import Continued, Pace
from tercet.search import Index
from tercet.text.vectors import vectorise
from tercet.weights import Identity, Weights

N = N_TERMS


def base_of(kind: str, seed: int = 0) -> Weights:
    return random_weights(np.random.default_rng(seed), [kind, "identity"] if kind == "sparse" else [kind])


def texts(seed: int = 1) -> tuple[sparse.csr_array, sparse.csr_array, Preferences]:
    rng = np.random.default_rng(seed)
    return random_texts(rng, 9, N), random_texts(rng, 14, N), random_preferences(rng, 250, 9, 14)


def oracle(base: Weights, Q, prefs: Preferences, D, pace: Pace, unit: float) -> np.ndarray:
    """What is learned, step by step on a dense W in double precision."""
    W, pending = np.zeros((N, N)), 0.0
    q_all, d_all = Q.toarray().astype(float), D.toarray().astype(float)
    scores = base.score(Q, D)
    for at, (i, b, w) in enumerate(zip(prefs.query, prefs.better, prefs.worse, strict=True)):
        q, x = q_all[i], d_all[b] - d_all[w]
        longest = max(np.linalg.norm(d_all[b]), np.linalg.norm(d_all[w]))
        target = max(
            pace.margin * max(abs(scores[i, b]), abs(scores[i, w])),
            pace.least_margin * unit * np.linalg.norm(q) * longest,
        )
        size = np.linalg.norm(q) * np.linalg.norm(x)
        if size > 0:
            if scores[i, b] - scores[i, w] + q @ W @ x < target:
                W += pace.rate * target / size**2 * np.outer(q, x)
            pending += target / size
        if (at + 1) % 100 == 0:
            W = np.sign(W) * np.maximum(np.abs(W) - pace.l1 * pending, 0)
            pending = 0.0
    return W


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("pace", [Pace(), Pace(rate=0.7, margin=0.4, l1=1e-3)])
def test_the_learned_part_is_what_plain_steps_give(name, pace):
    base = base_of(name)
    Q, D, prefs = texts()
    learner = Continued(base, np.ones(N), pace)
    told = learner.learn(Q, prefs, D)
    found = learner.weights.parts[-1].weights.toarray()
    expected = oracle(base, Q, prefs, D, pace, learner.unit)
    assert np.allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    assert told.n_preferences == learner.n_steps == 250
    assert 0 < told.n_violations <= 250
    assert learner.weights.parts[:-1] == base.parts


@given(
    name=st.sampled_from(KINDS),
    cuts=st.lists(st.integers(0, 250), max_size=6),
    saved=st.integers(0, 250),
    seed=st.integers(0, 100),
)
@settings(max_examples=40, deadline=None)
def test_portions_and_restarts_give_the_same_bits(name, cuts, saved, seed):
    base = base_of(name, seed)
    Q, D, prefs = texts(seed)
    pace = Pace(rate=0.5, margin=0.3, l1=1e-4)
    whole = Continued(base, np.ones(N), pace)
    whole.learn(Q, prefs, D)
    parted = Continued(base, np.ones(N), pace)
    bounds = sorted({0, saved, 250, *cuts})
    for first, last in pairwise(bounds):
        part = prefs[first:last]
        rows, places = np.unique(part.query, return_inverse=True)
        parted.learn(Q[rows], Preferences(places, part.better, part.worse), D)
        if last == saved:
            state = parted.to_state()
            parted = Continued(base, np.ones(N), pace)
            parted.restore(*state)
    assert sparse_bits(parted.weights) == sparse_bits(whole.weights)
    assert parted.n_steps == 250


def test_steps_have_no_scale_of_their_own():
    Q, D, prefs = texts()
    for name in KINDS:
        base = base_of(name)
        plain, scaled = (Continued(each, np.ones(N), Pace(rate=0.5)) for each in (base, base * 8.0))
        plain.learn(Q, prefs, D)
        scaled.learn(Q, prefs, D * np.float32(4.0))
        one, other = (each.weights.parts[-1].weights.toarray() for each in (plain, scaled))
        if name not in ("scaled", "mapped-lowrank"):  # which scale documents to unit length
            assert np.allclose(8 * one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def test_preferences_that_hold_change_nothing_and_old_weights_fade():
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    learner = Continued(Weights([Identity(n_terms=3)]), np.ones(3), Pace(l1=1e-3, rate=0.5))
    assert learner.learn(X, Preferences([0], [0], [1]), X).n_violations == 0
    assert learner.n_weights == 0
    learner.learn(X, Preferences([2], [1], [0]), X)
    assert learner.n_weights == 2
    learner.learn(X, Preferences([0] * 3000, [0] * 3000, [1] * 3000), X)
    assert learner.n_weights == 0


def test_texts_without_words_and_weights_of_preferences():
    X = sparse.csr_array(np.array([[1, 0], [0, 1], [0, 0]], np.float32))
    learner = Continued(Weights([Identity(n_terms=2)]), np.ones(2), Pace(l1=0.0))
    assert learner.learn(X, Preferences([2, 2], [0, 1], [1, 0]), X).n_violations == 0
    assert learner.learn(X, Preferences([], [], []), X).n_preferences == 0
    assert learner.n_weights == 0
    learner.learn(X, Preferences([0], [1], [0], weight=[2.0]), X)
    other = Continued(Weights([Identity(n_terms=2)]), np.ones(2), Pace(l1=0.0, rate=0.2))
    other.learn(X, Preferences([0], [1], [0]), X)
    assert sparse_bits(learner.weights) == sparse_bits(other.weights)


def test_what_cannot_be_learned_on_is_refused():
    base = base_of("identity")
    with pytest.raises(InputError, match="one number for each of 24 document words"):
        Continued(base, np.ones(3))
    for wrong in ({"rate": -1.0}, {"l1": np.nan}, {"rate": 0.0}, {"margin": 0.0, "least_margin": 0.0}):
        with pytest.raises(InputError, match=r"rate|l1"):
            Pace(**wrong)
    other = Continued(Weights([Identity(n_terms=3)]), np.ones(3)).to_state()
    with pytest.raises(DamagedBundleError, match="has shape"):
        Continued(base, np.ones(N)).restore(*other)


# -- clicks -----------------------------------------------------------------------------------------------------------


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
        for at in range(0, 500, 37):
            parted.learn((LOG * 100)[at : at + 37])
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
