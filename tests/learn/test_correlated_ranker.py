"""Rankers behind correlated words: against the formulas, step by step, with the identity of all words beside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import oracles
import tercet as tc
from support.random_data import as_vectors, random_preferences, random_texts
from support.sources import TopSource
from tercet.errors import DamagedBundleError, DivergedError, InputError, ParameterError
from tercet.weights import Identity, LowRank, Mapped

seeds = st.integers(0, 10**6)


def made(seed, n_bins=3, n_frequent=5, n_terms=12):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, n_terms), random_texts(rng, 20, n_terms)
    words = tc.text.CorrelatedWords(n_frequent=n_frequent, n_bins=n_bins).fit(random_texts(rng, 30, n_terms))
    return Q, D, words, random_preferences(rng, 60, 9, 20)


def low_rank(**changed):
    return tc.LowRankRanker(**{"n_components": 2, "diagonal": None, "rate": 0.3, "spread": 0.4} | changed)


def features(words, q, d, variant):
    S = [[b for b in row if b >= 0] for row in words.bins_.tolist()]
    F = len(words.frequent_)
    if variant == "by-bin":
        return oracles.correlated_hashing_by_bin(q, d, S, F, words.n_bins)
    return oracles.correlated_hashing(q, d, S, F, words.n_bins if variant == "mean" else 1)


def step_by_step(U, V, words, variant, prefs, identity_weight, rate, margin, tied):
    """W = U'V on the features of correlated hashing, beside the identity of all words; factors n_components × F."""
    U, V = U.copy(), V.copy()
    violations = 0
    for q, better, worse in prefs:
        delta = features(words, q, better, variant) - features(words, q, worse, variant)
        W = U.T @ (U if tied else V)
        if identity_weight * q @ (better - worse) + (W * delta).sum() < margin:
            violations += 1
            if tied:
                U = U + rate * U @ (delta + delta.T)
            else:
                U, V = U + rate * V @ delta.T, V + rate * U @ delta
    return U, U if tied else V, violations


@pytest.mark.slow
@settings(max_examples=30)
@given(
    seed=seeds,
    variant=st.sampled_from(["mean", "by-bin", "first"]),
    identity_weight=st.sampled_from([0.0, 1.0, 6.0]),
    tied=st.booleans(),
    how=st.sampled_from(["fit", "source", "partial_fit"]),
)
def test_it_is_sgd_on_the_features_beside_the_identity(seed, variant, identity_weight, tied, how):
    Q, D, words, prefs = made(seed)
    ranker = tc.learn.CorrelatedRanker(
        words=words, ranker=low_rank(tied=tied), identity_weight=identity_weight, variant=variant
    )
    if how == "partial_fit":
        ranker.partial_fit(Q, prefs[:25], D).partial_fit(Q, prefs[25:], D)
    else:
        ranker.fit(Q, tc.learn.ArraySource(prefs) if how == "source" else prefs, D)
    start = low_rank(tied=tied)._start(*2 * (sparse.csr_array((1, 5)),))
    U, V, violations = step_by_step(
        start.U.T.astype(float),
        start.V.T.astype(float),
        words,
        variant,
        as_vectors(prefs, Q, D),
        identity_weight,
        rate=0.3,
        margin=1.0,
        tied=tied,
    )
    found = ranker.ranker_.weights_
    np.testing.assert_allclose(found.query_factors.T, U, atol=2e-4)
    np.testing.assert_allclose(found.doc_factors.T, V, atol=2e-4)
    if how != "partial_fit":
        assert ranker.ranker_.history_[-1].violation_rate == pytest.approx(violations / 60)
    scores = [
        [identity_weight * q @ d + (U.T @ V * features(words, q, d, variant)).sum() for d in D.toarray().astype(float)]
        for q in Q.toarray().astype(float)
    ]
    np.testing.assert_allclose(ranker.score_matrix(Q, D), scores, atol=2e-3)
    assert ranker.weights_.identity == identity_weight


def test_word_matching_that_is_enough_leaves_nothing_to_learn():
    Q, D, words, prefs = made(1)
    margins = tc.CosineRanker().fit(D).margins(Q, prefs, D)
    prefs = prefs[margins > 0.05]
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank(epochs=3), identity_weight=1000.0).fit(Q, prefs, D)
    assert {event.violation_rate for event in ranker.ranker_.history_} == {0.0}
    assert (
        tc.learn.CorrelatedRanker(words=words, ranker=low_rank()).fit(Q, prefs, D).ranker_.history_[0].violation_rate
        > 0
    )


@pytest.mark.parametrize("only_rare", [False, True])
def test_frequent_words_can_be_left_to_another_model(only_rare):
    Q, D, words, prefs = made(2)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank(), identity_weight=0.0, only_rare=only_rare)
    W = ranker.fit(Q, prefs, D).weights_.rows(np.arange(12))
    assert bool(W[words.frequent_].any()) != only_rare
    rare = np.setdiff1d(np.arange(12), words.frequent_)
    assert W[np.ix_(rare, rare)].any()
    # The two models of the paper: their sum is one value, whatever the mixing factor.
    first = low_rank(diagonal="identity", n_frequent=5).fit(Q, prefs, D).weights_
    mixed = first + 0.5 * ranker.weights_
    np.testing.assert_allclose(mixed.score(Q, D), first.score(Q, D) + 0.5 * ranker.score_matrix(Q, D))


RANKERS = [
    low_rank(),
    low_rank(diagonal="learned", scale_documents=True),
    low_rank(diagonal="learned", learn_documents=False),
    tc.HashedRanker(n_buckets=50, identity=None, rate=0.5),
    tc.HashedRanker(n_buckets=50, rate=0.5),
    tc.DenseRanker(rate=0.5),
    tc.SparseRanker(rate=0.5, l1=1e-3, shrink_every=7),
    tc.PrunedRanker(n_kept=2, n_rounds=2, rate=0.5),
    tc.DiagonalRanker(rate=0.5),
    tc.LSIRanker(n_components=2, alpha="auto"),
    tc.CosineRanker(),
]
every_ranker = pytest.mark.parametrize("inner", RANKERS, ids=[type(r).__name__ for r in RANKERS])


@every_ranker
def test_any_ranker_stands_behind_it(inner, tmp_path):
    Q, D, words, prefs = made(3)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=inner).fit(Q, prefs, D)
    M = words.matrix()
    own = Q.astype(float) @ D.astype(float).T
    expected = own.toarray() + ranker.ranker_.score_matrix(Q @ M.T, D @ M.T)
    np.testing.assert_allclose(ranker.score_matrix(Q, D), expected, atol=1e-5)
    why = ranker.explain(Q[[0]], D[[1]])
    assert why.contribution.sum() == pytest.approx(ranker.score_matrix(Q, D)[0, 1], abs=1e-6)
    assert len(ranker.related(0, 3)) <= 3
    assert ranker.thin(0.5).density_ <= 0.51
    ranker.save(tmp_path / "model")
    again = tc.load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_matrix(Q, D), ranker.score_matrix(Q, D))
    assert clone(again).get_params()["words"] is again.words  # what was fitted without this ranker stays
    assert type(again.ranker) is type(inner)
    if hasattr(inner, "rate"):
        np.testing.assert_array_equal(
            again.partial_fit(Q, prefs, D).score_matrix(Q, D), ranker.partial_fit(Q, prefs, D).score_matrix(Q, D)
        )
    else:
        with pytest.raises(ParameterError, match="needs a ranker that learns by steps"):
            tc.learn.CorrelatedRanker(words=words, ranker=tc.LSIRanker()).partial_fit(Q, prefs, D)


def test_by_bin_goes_on_from_a_file(tmp_path):
    Q, D, words, prefs = made(4)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank(), variant="by-bin").fit(Q, prefs, D)
    assert len(ranker.weights_.parts) == 4
    ranker.save(tmp_path / "model")
    again = tc.load(tmp_path / "model")
    assert type(again.ranker) is tc.LowRankRanker
    ranker.partial_fit(Q, prefs, D)
    again.partial_fit(Q, prefs, D)
    np.testing.assert_array_equal(ranker.score_matrix(Q, D), again.score_matrix(Q, D))
    _, arrays = ranker.weights_.to_state()
    assert sum("query_factors" in name for name in arrays) == 1  # shared by all places
    read = tc.Weights.from_state(*ranker.weights_.to_state())
    np.testing.assert_array_equal(read.score(Q, D), ranker.score_matrix(Q, D))
    assert read.parts[1].part.query_factors is read.parts[2].part.query_factors
    assert read.n_stored == ranker.weights_.n_stored
    state = ranker.ranker_._state
    meta, arrays = state.to_state()
    with pytest.raises(DamagedBundleError, match="factors of 3 bins come alone"):
        type(state).from_state(meta | {"learn_documents": False}, arrays, "state")


def test_all_who_look_at_the_weights_see_all_words(tmp_path):
    Q, D, words, prefs = made(5)
    seen = []
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank(validate_every=20))
    ranker.fit(
        Q,
        prefs,
        D,
        validation=lambda weights: seen.append(weights.shape) or float(len(seen)),
        callbacks=[lambda event: seen.append(event.weights().shape), tc.Checkpoint(tmp_path / "run")],
    )
    assert set(seen) == {(12, 12)}
    assert len(seen) > 3
    judged = tc.data.sampling.JudgementSampler.from_links(np.column_stack((prefs.query, prefs.better)), 20)
    tc.learn.CorrelatedRanker(words=words, ranker=low_rank()).fit(Q, TopSource(judged, Q, D, 50), D)


def test_words_that_are_not_fitted_learn_from_the_documents():
    Q, D, _, prefs = made(6)
    words = tc.text.CorrelatedWords(n_frequent=5, n_bins=2)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank()).fit(Q, prefs, D)
    np.testing.assert_array_equal(ranker.words_.bins_, tc.text.CorrelatedWords(n_frequent=5, n_bins=2).fit(D).bins_)
    assert not hasattr(words, "bins_")
    assert (
        tc.learn.CorrelatedRanker(ranker=low_rank()).fit(Q, prefs, D).words_.get_params()
        == tc.text.CorrelatedWords().get_params()
    )


def test_the_whole_story_is_short(tmp_path):
    texts = [
        "car engine road",
        "car wheel road",
        "automobile engine wheel",
        "fish sea",
        "fish sea boat",
        "boat sea wind",
    ]
    vectorizer = tc.Vectorizer().fit(texts)
    words = tc.text.CorrelatedWords(n_frequent=6, n_bins=2).fit(texts, vectorizer=vectorizer)
    X = vectorizer.transform_docs(texts)
    prefs = tc.Preferences.from_labels([0, 0, 0, 1, 1, 1], 300)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank(epochs=3)).fit(X, prefs)
    model = tc.TextModel(vectorizer, vectorizer, ranker.weights_)
    model.save(tmp_path / "model")
    again = tc.load(tmp_path / "model")
    docs = dict(enumerate(texts))
    assert again.rank({"q": "automobile"}, docs, 3) == model.rank({"q": "automobile"}, docs, 3)
    assert set(again.rank({"q": "automobile"}, docs, 3)["q"]) == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"words": 3}, ParameterError, "'words' parameter of CorrelatedRanker"),
        ({"variant": "both"}, ParameterError, "'variant' parameter"),
        ({"identity_weight": -1.0}, ParameterError, "'identity_weight' parameter"),
        ({"variant": "by-bin", "ranker": tc.DenseRanker()}, ParameterError, "needs a LowRankRanker; got DenseRanker"),
        ({"variant": "by-bin", "ranker": tc.LowRankRanker()}, ParameterError, "diagonal=None; got 'identity'"),
        (
            {"variant": "by-bin", "ranker": low_rank(learn_documents=False)},
            ParameterError,
            "variant='by-bin' needs a LowRankRanker with learn_documents=True; got False",
        ),
        ({"words": made(0, n_terms=7)[2]}, InputError, "Q has 12 columns, but words were fitted with 7"),
    ],
)
def test_what_does_not_fit_is_named(changed, error, message):
    Q, D, words, prefs = made(7)
    with pytest.raises(error, match=message):
        tc.learn.CorrelatedRanker(**{"words": words} | changed).fit(Q, prefs, D)


def test_what_the_ranker_inside_refuses_leaves_all_as_it_was():
    Q, D, words, prefs = made(7)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank())
    weights = ranker.fit(Q, prefs, D).weights_
    ranker.ranker_.set_params(schedule="linear")
    with pytest.raises(ParameterError, match="partial_fit does not know"):
        ranker.partial_fit(Q, prefs, D)
    assert ranker.weights_ is weights
    ranker.ranker_.set_params(schedule="constant", rate=1e30)
    with pytest.raises(DivergedError):
        ranker.partial_fit(Q, prefs, D)
    with pytest.raises(NotFittedError):
        _ = ranker.weights_


def test_one_vocabulary_and_rows_that_exist():
    Q, D, words, prefs = made(8)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank(), variant="by-bin")
    with pytest.raises(InputError, match="needs one vocabulary"):
        ranker.fit(Q, prefs, D[:, :5])
    # With a row for each place there are more rows than texts, so the texts are checked.
    for given_prefs in (prefs, tc.learn.ArraySource(prefs)):
        with pytest.raises(InputError, match="but D has 15 rows"):
            ranker.fit(Q, given_prefs, D[:15])
    with pytest.raises(InputError, match="prefs must be Preferences"):
        ranker.fit(Q, "clicks", D)


def test_a_damaged_file_is_refused(tmp_path):
    Q, D, words, prefs = made(9)
    ranker = tc.learn.CorrelatedRanker(words=words, ranker=low_rank()).fit(Q, prefs, D)
    assert [type(part) for part in ranker.weights_.parts] == [Identity, Mapped]
    assert isinstance(ranker.weights_.parts[1].part, LowRank)
    meta, arrays = ranker.to_state()
    cases = {
        "does not fit the words": {"params": meta["params"] | {"variant": "by-bin"}},
        "'variant' parameter": {"params": meta["params"] | {"variant": "x"}},
    }
    for message, changed in cases.items():
        tc.store.write_bundle(tmp_path / "model", kind="ranker", meta=meta | changed, arrays=arrays)
        with pytest.raises(DamagedBundleError, match=message):
            tc.load(tmp_path / "model")
    tc.store.write_bundle(
        tmp_path / "model", kind="ranker", meta=meta, arrays=arrays | {"more.x": np.zeros(1, dtype=np.float32)}
    )
    with pytest.raises(DamagedBundleError, match="unexpected array"):
        tc.load(tmp_path / "model")
