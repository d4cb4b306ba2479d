"""LSIRanker: against the full decomposition, the choice of its parameters, parallel texts, saving."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import TruncatedSVD

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import random_preferences, random_texts
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.learn import lsi
from tercet.store import read_bundle, write_bundle

seeds = st.integers(0, 10**6)


def made_texts(seed, n_docs=30, n_terms=15):
    rng = np.random.default_rng(seed)
    return random_texts(rng, 8, n_terms), random_texts(rng, n_docs, n_terms)


# -- what it computes ---------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, 14))
def test_it_is_the_cosine_in_latent_space(seed, n):
    Q, D = made_texts(seed)
    q, d = Q.toarray().astype(float), D.toarray().astype(float)
    directions = oracles.leading_directions(d, n)
    cosine = oracles.lsi_cosine(q, d, directions, directions)
    scores = tc.LSIRanker(n_components=n).fit(D).score_matrix(Q, D)
    np.testing.assert_allclose(scores, cosine, atol=5e-5)


@pytest.mark.parametrize("n_docs", [30, 60])  # fewer than words, or more
def test_it_is_what_scikit_learn_finds(n_docs):
    Q, D = made_texts(3, n_docs=n_docs, n_terms=40)
    svd = TruncatedSVD(n_components=6, algorithm="arpack", random_state=0).fit(D.astype(float))
    latent_q, latent_d = svd.transform(Q.astype(float)), svd.transform(D.astype(float))
    expected = latent_q @ latent_d.T / np.outer(np.linalg.norm(latent_q, axis=1), np.linalg.norm(latent_d, axis=1))
    np.testing.assert_allclose(tc.LSIRanker(n_components=6).fit(D).score_matrix(Q, D), expected, atol=1e-5)


def test_many_texts_are_decomposed_at_random(monkeypatch):
    topic = np.arange(60) % 3  # three strong directions, far from the others
    X = np.random.default_rng(0).random((60, 30)) * 0.1
    X[np.arange(60), topic] = 5.0
    X = sparse.csr_array(X.astype(np.float32))
    exact = tc.LSIRanker(n_components=3).fit(X).score_matrix(X, X)
    monkeypatch.setattr(lsi, "_EXACT_UP_TO", 10)
    np.testing.assert_allclose(tc.LSIRanker(n_components=3).fit(X).score_matrix(X, X), exact, atol=1e-4)


@pytest.mark.parametrize("latent_bytes", [1, 2000])
def test_a_choice_with_little_room_is_the_same(latent_bytes, monkeypatch):
    Q, D = made_texts(4)
    prefs = random_preferences(np.random.default_rng(0), 200, 8, 30)
    whole = tc.LSIRanker(n_components="auto", alpha="auto").fit(Q, prefs, D)
    monkeypatch.setattr(lsi, "_LATENT_BYTES", latent_bytes)
    monkeypatch.setattr(lsi, "_PREFERENCES_AT_ONCE", 7)
    pieces = tc.LSIRanker(n_components="auto", alpha="auto").fit(Q, prefs, D)
    assert (pieces.n_components_, pieces.alpha_) == (whole.n_components_, whole.alpha_)
    assert pieces.rank_loss_ == pytest.approx(whole.rank_loss_, abs=1e-9)


@settings(max_examples=30)
@given(seed=seeds, alpha=st.floats(0, 1))
def test_a_blend_is_alpha_lsi_and_the_rest_tfidf(seed, alpha):
    Q, D = made_texts(seed)
    alone = tc.LSIRanker(n_components=5).fit(D)
    blend = tc.LSIRanker(n_components=5, alpha=alpha).fit(D)
    expected = alpha * alone.score_matrix(Q, D) + (1 - alpha) * (Q @ D.T).toarray()
    np.testing.assert_allclose(blend.score_matrix(Q, D), expected, atol=1e-6)
    assert blend.alpha_ == alpha
    assert alone.alpha_ is None
    assert blend.weights_.identity == pytest.approx(1 - alpha)


def test_words_of_an_lsi_are_related_by_w_and_not_by_a_query_of_one_word():
    _, D = made_texts(2)
    ranker = tc.LSIRanker(n_components=4, alpha=0.5).fit(D)
    B = ranker.weights_.parts[0].query_factors.astype(float)
    np.testing.assert_allclose(ranker.weights_.rows(np.arange(15)), 0.5 * B @ B.T + 0.5 * np.eye(15), atol=1e-5)


def test_it_relates_words_that_never_meet():
    # car and automobile both occur with road, and never together.
    D = sparse.csr_array(np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1.0]]))
    ranker = tc.LSIRanker(n_components=1).fit(D)  # the direction (1, 1, 2, 0) / sqrt(6)
    scores = ranker.score_matrix(sparse.csr_array([[1.0, 0, 0, 0]]), D)[0]
    np.testing.assert_allclose(scores[:4], 1, rtol=1e-5)
    assert scores[4] == pytest.approx(0, abs=1e-5)


def test_texts_without_a_known_direction_score_zero():
    D = sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0.0]]))
    ranker = tc.LSIRanker(n_components=1).fit(D)
    assert ranker.score_matrix([[0, 0, 1.0]], D).tolist() == [[0, 0, 0]]
    assert ranker.score_matrix([[1, 0, 0.0]], D)[0, 2] == 0


@settings(max_examples=20)
@given(seed=seeds)
def test_no_more_directions_than_the_documents_have(seed):
    rng = np.random.default_rng(seed)
    low = random_texts(rng, 3, 12).toarray()
    D = sparse.csr_array((rng.random((20, 3)) @ low).astype(np.float32))
    rank = np.linalg.matrix_rank(low)
    ranker = tc.LSIRanker(n_components=9).fit(D)
    assert ranker.n_components_ == rank == ranker.weights_.query_factors.shape[1]
    # In the space of all directions of the documents nothing is lost.
    expected = D.toarray() / np.maximum(np.linalg.norm(D.toarray(), axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(ranker.score_matrix(D, D), expected @ expected.T, atol=1e-4)


def test_same_seed_same_bits(monkeypatch):
    monkeypatch.setattr(lsi, "_EXACT_UP_TO", 0)  # an exact decomposition needs no seed
    _, D = made_texts(0, 200, 90)
    first, second = (tc.LSIRanker(n_components=20, random_state=2**40 + 3).fit(D) for _ in range(2))
    assert same_bits(first.weights_, second.weights_)
    other = tc.LSIRanker(n_components=20, random_state=1).fit(D)
    assert not same_bits(first.weights_, other.weights_)


def test_margins_rank_and_explain_agree_with_scores():
    Q, D = made_texts(3)
    ranker = tc.LSIRanker(n_components=6, alpha=0.4).fit(Q, D=D)
    scores = ranker.score_matrix(Q, D)
    prefs = random_preferences(np.random.default_rng(0), 40, 8, 30)
    np.testing.assert_allclose(
        ranker.margins(Q, prefs, D), scores[prefs.query, prefs.better] - scores[prefs.query, prefs.worse], atol=1e-12
    )
    assert ranker.rank(Q, D, 5)[0].tolist() == [oracles.ranking(row)[:5] for row in scores]
    why = ranker.explain(Q[[0]], D[[0]])
    assert why.contribution.sum() == pytest.approx(scores[0, 0], abs=1e-9)


# -- choosing -----------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(seed=seeds, weighted=st.booleans(), alpha=st.sampled_from([None, 0.3, "auto"]), auto=st.booleans())
def test_the_choice_is_the_first_of_the_best_tried_one_by_one(seed, weighted, alpha, auto):
    rng = np.random.default_rng(seed)
    Q, D = made_texts(seed)
    prefs = random_preferences(rng, 50, 8, 30)
    if weighted:
        prefs = tc.Preferences(prefs.query, prefs.better, prefs.worse, rng.random(50) + 0.1)
    assume(auto or alpha == "auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lsi, "N_COMPONENTS", (2, 4, 50))
        ranker = tc.LSIRanker(n_components="auto" if auto else 3, alpha=alpha).fit(Q, prefs, D)
    # The directions are those of the widest space, so that trying one by one means cutting it.
    widest = tc.LSIRanker(n_components=50 if auto else 3).fit(D).weights_.query_factors
    losses = {}
    for width in (2, 4, widest.shape[1]) if auto else (3,):
        B = widest[:, :width]
        alone = tc.Weights([tc.weights.LowRank(query_factors=B, doc_factors=B, typical_length=1.0, unit_queries=True)])
        for a in lsi.ALPHAS if alpha == "auto" else (1.0 if alpha is None else alpha,):
            scores = a * alone.score(Q, D) + (1 - a) * (Q.astype(float) @ D.astype(float).T).toarray()
            wrong = scores[prefs.query, prefs.better] - scores[prefs.query, prefs.worse] <= 1e-12
            losses[width, a] = np.average(wrong, weights=prefs.weight)
    assert ranker.rank_loss_ == pytest.approx(min(losses.values()))
    best = losses[ranker.n_components_, 1.0 if ranker.alpha_ is None else ranker.alpha_]
    assert best == pytest.approx(min(losses.values()))
    assert (ranker.alpha_ is None) == (alpha is None)
    first = next(setting for setting, loss in losses.items() if loss == min(losses.values()))
    assert (ranker.n_components_, 1.0 if ranker.alpha_ is None else ranker.alpha_) == first


def test_the_choice_helps_where_the_answer_is_known():
    # Documents of the same hidden topic are relevant; words of a topic rarely meet.
    rng = np.random.default_rng(0)
    topic = np.arange(120) % 4
    X = np.zeros((120, 40))
    for i in range(120):
        X[i, topic[i] * 10 + rng.choice(10, 3, replace=False)] = 1
    X = sparse.csr_array((X / np.sqrt(3)).astype(np.float32))
    prefs = tc.Preferences.from_labels(topic, 2000)
    cosine_loss = (tc.CosineRanker().fit(X).margins(X, prefs) <= 0).mean()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lsi, "N_COMPONENTS", (1, 4, 20))
        ranker = tc.LSIRanker(n_components="auto", alpha="auto").fit(X, prefs)
    assert ranker.n_components_ == 4
    assert ranker.rank_loss_ < 0.01 < 0.2 < cosine_loss
    assert ranker.rank_loss_ == pytest.approx((ranker.margins(X, prefs) <= 0).mean(), abs=1e-3)
    assert tc.LSIRanker(n_components="auto").fit(X, prefs).n_components_ == 40  # all that 40 words can have


@pytest.mark.parametrize("parameters", [{"n_components": "auto"}, {"alpha": "auto"}])
@pytest.mark.parametrize("prefs", [None, tc.Preferences([], [], []), "clicks"])
def test_a_choice_needs_preferences(parameters, prefs):
    _, D = made_texts(0)
    [name] = parameters
    with pytest.raises(InputError, match=f"{name}='auto' is chosen on Preferences; got (none|str)"):
        tc.LSIRanker(**parameters).fit(D, prefs)


# -- parallel texts ----------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, 12))
def test_mates_are_decomposed_side_by_side(seed, n):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 25, 9), random_texts(rng, 25, 13)
    q, d = Q.toarray().astype(float), D.toarray().astype(float)
    directions = oracles.leading_directions(np.hstack([q, d]), n)
    ranker = tc.LSIRanker(n_components=n).fit_parallel(Q, D)
    cosine = oracles.lsi_cosine(q, d, directions[:9], directions[9:])
    np.testing.assert_allclose(ranker.score_matrix(Q, D), cosine, atol=5e-4)
    assert (ranker.n_features_in_, ranker.n_doc_features_) == (9, 13)


def test_a_query_finds_its_mate_in_the_other_language():
    rng = np.random.default_rng(1)
    english = random_texts(rng, 200, 12, density=0.2)
    order = rng.permutation(12)
    french = sparse.csr_array(english.toarray()[:, order])  # each word has one translation
    ranker = tc.LSIRanker(n_components=12).fit_parallel(english[:150], french[:150])
    found, _ = ranker.rank(english[150:], french[150:], 1)
    # By content: texts of the same single word are the same text.
    same = np.isclose(french[150:].toarray()[found[:, 0]], french[150:].toarray()).all(axis=1)
    assert same[np.diff(english[150:].indptr) > 0].all()
    prefs = tc.Preferences(np.arange(100), np.arange(100), (np.arange(100) + 1) % 100)
    assert tc.LSIRanker(n_components="auto").fit_parallel(english, french, prefs).rank_loss_ < 0.1


# -- saving and bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [None, 0.3, "auto", 1.0, 0.0])
def test_saved_and_loaded_it_is_the_same(alpha, tmp_path):
    Q, D = made_texts(5)
    ranker = tc.LSIRanker(n_components=4, alpha=alpha).fit(
        Q, random_preferences(np.random.default_rng(0), 40, 8, 30), D
    )
    ranker.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert loaded.get_params() == ranker.get_params()
    assert same_bits(loaded.weights_, ranker.weights_)
    assert (loaded.alpha_, loaded.n_components_) == (ranker.alpha_, ranker.n_components_)
    assert getattr(loaded, "rank_loss_", None) == getattr(ranker, "rank_loss_", None)
    assert hasattr(loaded, "rank_loss_") == (alpha == "auto")


def test_mates_are_saved_too(tmp_path):
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 25, 9), random_texts(rng, 25, 13)
    ranker = tc.LSIRanker(n_components=4).fit_parallel(Q, D)
    ranker.save(tmp_path / "model")
    assert np.array_equal(tc.load(tmp_path / "model").score_matrix(Q, D), ranker.score_matrix(Q, D))


@pytest.mark.parametrize("damage", ["parts", "params"])
def test_a_damaged_bundle_is_refused(damage, tmp_path):
    _, D = made_texts(5)
    tc.LSIRanker(n_components=4, alpha=0.5).fit(D).save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model", kind="ranker")
    meta = dict(bundle.meta)
    if damage == "parts":
        meta["weights"]["parts"] = meta["weights"]["parts"][1:]
        arrays = {}
    else:
        meta["params"]["alpha"] = 2.0
        arrays = bundle.arrays
    write_bundle(tmp_path / "broken", kind="ranker", meta=meta, arrays=arrays)
    with pytest.raises(DamagedBundleError):
        tc.load(tmp_path / "broken")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Q, D: tc.LSIRanker().fit(Q[:, :5], D=D), "Q has 5 columns and D 15; fit needs one vocabulary"),
        (lambda Q, D: tc.LSIRanker().fit(0 * D), "D has no word in any text"),
        (
            lambda Q, D: tc.LSIRanker().fit_parallel(Q, D),
            "Q has 8 rows and D 30; rows are parallel texts",
        ),
        (lambda Q, D: tc.LSIRanker(alpha=0.5).fit_parallel(D, D), "alpha=0.5 blends with tf-idf"),
        (lambda Q, D: tc.LSIRanker(n_components="auto").fit_parallel(D, D), "is chosen on Preferences; got none"),
        (lambda Q, D: tc.LSIRanker(n_components=3).fit(D).rank(Q[:, :5], D, 3), "fitted with 15"),
        (
            lambda Q, D: tc.LSIRanker(alpha="auto").fit(Q, tc.Preferences([0], [1], [99]), D),
            r"worse\[0\] is row 99, but D has 30 rows",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call(*made_texts(0))


@pytest.mark.parametrize(
    "change", [{"n_components": 0}, {"n_components": "most"}, {"alpha": 1.1}, {"alpha": "best"}, {"random_state": -1}]
)
def test_parameters_out_of_range_are_named(change):
    [name] = change
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of LSIRanker must be"):
        tc.LSIRanker(**change).fit(made_texts(0)[1])


def test_a_failed_fit_leaves_no_old_model():
    _, D = made_texts(0)
    ranker = tc.LSIRanker(n_components=3).fit(D)
    with pytest.raises(InputError):
        ranker.fit(0 * D)
    with pytest.raises(ValueError, match="not fitted"):
        _ = ranker.weights_


def test_translations_may_be_named():
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 30, 9), random_texts(rng, 40, 13)
    translations = np.column_stack([np.arange(25), rng.permutation(40)[:25]])
    joint = tc.LSIRanker(n_components=5).fit_parallel(Q, D, translations=translations)
    assert same_bits(joint.weights_, tc.LSIRanker(n_components=5).fit_parallel(Q[:25], D[translations[:, 1]]).weights_)
    with pytest.raises(InputError, match=r"translations\[0\] is \(30, 0\)"):
        joint.fit_parallel(Q, D, translations=[(30, 0)])
