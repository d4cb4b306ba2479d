"""Query expansion and RM3 against their formulas, the choice of parameters, bad input."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import oracles
import tercet as tc
from support.random_data import random_preferences, random_texts
from tercet.errors import InputError, ParameterError

seeds = st.integers(0, 10**6)
both = pytest.mark.parametrize("kind", [tc.learn.QueryExpansion, tc.learn.RM3Expansion])


def made_texts(seed, n_terms=15):
    rng = np.random.default_rng(seed)
    return random_texts(rng, 8, n_terms, density=0.15), random_texts(rng, 20, n_terms, density=0.25)


def made_counts(seed, D):
    return sparse.csr_array(np.where(D.toarray() > 0, np.random.default_rng(seed).integers(1, 9, D.shape), 0))


def double(matrix):
    return matrix.toarray().astype(float)


# -- the formulas -------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(seed=seeds, beta=st.sampled_from([0.0, 0.1, 2.0]), n=st.sampled_from([1, 3, 20, 99]))
def test_query_expansion_is_the_papers_sum(seed, beta, n):
    Q, D = made_texts(seed)
    found = tc.learn.QueryExpansion(beta=beta, n_expanded=n).fit(D).transform(Q)
    expected = [oracles.query_expansion(q, double(D), beta, n) for q in double(Q)]
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)
    assert found.dtype == np.float32
    assert found.has_canonical_format


@settings(max_examples=40)
@given(
    seed=seeds,
    n_found=st.sampled_from([1, 3, 99]),
    n_terms=st.sampled_from([1, 4, 99]),
    original_weight=st.sampled_from([0.0, 0.3, 1.0]),
    counted=st.booleans(),
)
def test_rm3_is_the_formula_word_by_word(seed, n_found, n_terms, original_weight, counted):
    Q, D = made_texts(seed)
    counts = made_counts(seed, D)
    query_weight = np.random.default_rng(seed).random(15) + 0.5
    ranker = tc.learn.RM3Expansion(n_found=n_found, n_terms=n_terms, original_weight=original_weight)
    found = ranker.fit(D, counts, query_weight).transform(Q) if counted else ranker.fit(D).transform(Q)
    used = (double(counts), query_weight) if counted else (double(D), np.ones(15))
    expected = [oracles.rm3(q, double(D), *used, n_found, n_terms, original_weight) for q in double(Q)]
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)
    assert found.has_canonical_format


@settings(max_examples=20)
@given(seed=seeds)
def test_no_weight_on_the_documents_ranks_as_before(seed):
    Q, D = made_texts(seed)
    before = tc.CosineRanker().fit(Q, D=D)
    for expansion in (tc.learn.QueryExpansion(beta=0.0), tc.learn.RM3Expansion(original_weight=1.0)):
        expanded = expansion.fit(D).transform(Q)
        lengths = [np.linalg.norm(m.toarray(), axis=1, keepdims=True) for m in (Q, expanded)]
        np.testing.assert_allclose(Q.toarray() * lengths[1], expanded.toarray() * lengths[0], atol=1e-5)
    unchanged = tc.learn.QueryExpansion(beta=0.0).fit(D).transform(Q)
    assert np.array_equal(before.rank(Q, D, 9)[0], before.rank(unchanged, D, 9)[0])


@both
def test_a_query_without_a_hit_keeps_its_words_alone(kind):
    D = sparse.csr_array([[1.0, 0, 0], [0, 1.0, 0]])
    expanded = kind().fit(D).transform([[0, 0, 1.0], [0, 0, 0.0]])
    assert expanded.toarray().tolist() == [[0, 0, 1], [0, 0, 0]]


@settings(max_examples=20)
@given(seed=seeds, original_weight=st.floats(0, 1))
def test_rm3_gives_probabilities(seed, original_weight):
    Q, D = made_texts(seed)
    expanded = tc.learn.RM3Expansion(original_weight=original_weight, n_terms=3).fit(D).transform(Q)
    sums = expanded.toarray().sum(axis=1)
    np.testing.assert_allclose(sums, np.diff(Q.indptr) > 0, atol=1e-5)
    assert (expanded.data > 0).all()
    assert (np.diff(expanded.indptr) <= np.diff(Q.indptr) + 3).all()


def test_rm3_on_bm25_finds_a_synonym():
    texts = ["car automobile road", "car automobile engine", "automobile wheel", "fish swim", "car park"]
    vectoriser = tc.Vectoriser(weighting="bm25").fit(texts)
    D, Q = vectoriser.transform_docs(texts), vectoriser.transform_queries(["car"])
    rows = [Counter(text.split()) for text in texts]
    counts = sparse.csr_array(np.array([[row[word] for word in vectoriser.words_] for row in rows], dtype=float))
    weight = vectoriser.idf_**vectoriser.idf_power
    expanded = tc.learn.RM3Expansion(n_found=3, n_terms=5).fit(D, counts, weight).transform(Q)
    scores = tc.CosineRanker().fit(Q, D=D).score_matrix
    assert scores(Q, D)[0, 2] == 0 < scores(expanded, D)[0, 2]
    assert scores(expanded, D)[0, 3] == 0


# -- choosing -----------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(seed=seeds, weighted=st.booleans())
def test_query_expansion_takes_the_least_rank_loss_of_the_grid(seed, weighted):
    Q, D = made_texts(seed)
    prefs = some_preferences(seed, weighted)
    grid = {"beta": (0.0, 0.2, 1.0), "n_expanded": (1, 4)}
    tuned = tc.learn.QueryExpansion().tune(Q, prefs, D, **grid)
    losses = {
        (b, n): loss_of(tc.learn.QueryExpansion(beta=b, n_expanded=n).fit(D).transform(Q), D, prefs)
        for b in grid["beta"]
        for n in grid["n_expanded"]
    }
    assert tuned.rank_loss_ == pytest.approx(min(losses.values()), abs=1e-6)
    assert losses[tuned.beta_, tuned.n_expanded_] == pytest.approx(tuned.rank_loss_, abs=1e-6)
    assert tuned.get_params() == {"beta": 0.1, "n_expanded": 5}
    again = tc.learn.QueryExpansion(beta=tuned.beta_, n_expanded=tuned.n_expanded_).fit(D)
    assert np.array_equal(tuned.transform(Q).toarray(), again.transform(Q).toarray())


@settings(max_examples=15)
@given(seed=seeds, weighted=st.booleans())
def test_rm3_takes_the_least_rank_loss_of_the_grid(seed, weighted):
    Q, D = made_texts(seed)
    counts, query_weight = made_counts(seed, D), np.linspace(0.5, 2, 15)
    prefs = some_preferences(seed, weighted)
    grid = {"n_found": (1, 4), "n_terms": (2, 5), "original_weight": (1.0, 0.4)}
    tuned = tc.learn.RM3Expansion().tune(Q, prefs, D, counts, query_weight, **grid)
    losses = {
        (k, n, w): loss_of(
            tc.learn.RM3Expansion(n_found=k, n_terms=n, original_weight=w).fit(D, counts, query_weight).transform(Q),
            D,
            prefs,
        )
        for k in grid["n_found"]
        for n in grid["n_terms"]
        for w in grid["original_weight"]
    }
    # Scores that are equal on paper may differ in the last bit of a float32 query.
    assert tuned.rank_loss_ == pytest.approx(min(losses.values()), abs=0.05)
    assert losses[tuned.n_found_, tuned.n_terms_, tuned.original_weight_] == pytest.approx(tuned.rank_loss_, abs=0.05)


@both
def test_many_preferences_are_thinned_evenly(kind):
    Q, D = made_texts(5)
    prefs = some_preferences(5, True)
    few = kind().tune(Q, prefs, D, most_preferences=20)
    kept = prefs[np.linspace(0, 59, 20).astype(int)]
    assert few.rank_loss_ == kind().tune(Q, kept, D, most_preferences=None).rank_loss_
    assert kind().tune(Q, prefs, D).rank_loss_ == kind().tune(Q, prefs, D, most_preferences=None).rank_loss_
    with pytest.raises(InputError, match="most_preferences must be at least 1, or None for all; got 0"):
        kind().tune(Q, prefs, D, most_preferences=0)


def some_preferences(seed, weighted):
    rng = np.random.default_rng(seed)
    prefs = random_preferences(rng, 60, 8, 20)
    weight = rng.random(60) + 0.1 if weighted else None
    return tc.Preferences(prefs.query, prefs.better, prefs.worse, weight)


def loss_of(expanded, D, prefs):
    scores = double(expanded) @ double(D).T
    wrong = scores[prefs.query, prefs.better] - scores[prefs.query, prefs.worse] <= 0
    return np.average(wrong, weights=prefs.weight)


@pytest.mark.parametrize("tune", [tc.learn.QueryExpansion().tune, tc.learn.RM3Expansion().tune])
def test_choosing_helps_where_word_matching_fails(tune):
    rng = np.random.default_rng(0)
    topic = np.arange(120) % 4
    X = np.zeros((120, 60))
    for i in range(120):
        X[i, topic[i] * 15 + rng.choice(15, 4, replace=False)] = 0.5
    X = sparse.csr_array(X.astype(np.float32))
    prefs = tc.Preferences.from_labels(topic, 2000)
    before = (tc.CosineRanker().fit(X).margins(X, prefs) <= 0).mean()
    tuned = tune(X, prefs, X)
    after = (tc.CosineRanker().fit(X).margins(tuned.transform(X), prefs, X) <= 0).mean()
    assert tuned.rank_loss_ == pytest.approx(after, abs=1e-3)
    assert after < 0.05 < 0.2 < before


# -- manners and bad input ----------------------------------------------------------------------------------------


@both
def test_scikit_learn_manners(kind):
    Q, D = made_texts(0)
    expansion = kind()
    assert clone(expansion).get_params() == expansion.get_params()
    with pytest.raises(NotFittedError):
        expansion.transform(Q)
    assert expansion.fit(D) is expansion
    assert expansion.n_features_in_ == 15
    expansion.tune(Q, random_preferences(np.random.default_rng(0), 20, 8, 20), D)
    assert not hasattr(expansion.fit(D), "rank_loss_")


PREFS = tc.Preferences([0], [1], [2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Q, D: tc.learn.QueryExpansion().fit(D).transform(Q[:, :4]), "Q has 4 columns, but this QueryExpansion"),
        (lambda Q, D: tc.learn.QueryExpansion().tune(Q, None, D), "chosen on Preferences; got NoneType"),
        (lambda Q, D: tc.learn.QueryExpansion().tune(Q, PREFS[:0], D), "chosen on Preferences; got none"),
        (lambda Q, D: tc.learn.QueryExpansion().tune(Q, PREFS, D, beta=()), "no values of beta to choose from"),
        (lambda Q, D: tc.learn.QueryExpansion().tune(Q, PREFS, D[:2]), r"worse\[0\] is row 2, but D has 2 rows"),
        (lambda Q, D: tc.learn.QueryExpansion().fit(None), "D is None"),
        (lambda Q, D: tc.learn.RM3Expansion().fit(D, D[:3]), r"counts has shape \(3, 15\) and D \(20, 15\)"),
        (lambda Q, D: tc.learn.RM3Expansion().fit(D, -1 * D), "counts are not negative"),
        (lambda Q, D: tc.learn.RM3Expansion().fit(D, query_weight=np.ones(3)), r"query_weight has shape \(3,\)"),
        (lambda Q, D: tc.learn.RM3Expansion().fit(D, query_weight=np.zeros(15)), r"query_weight\[0\] is 0.0"),
        (lambda Q, D: tc.learn.RM3Expansion().fit(D).transform(-1 * Q), "Q has negative entries"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call(*made_texts(1))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: tc.learn.QueryExpansion(beta=-0.1), "beta"),
        (lambda: tc.learn.QueryExpansion(n_expanded=0), "n_expanded"),
        (lambda: tc.learn.RM3Expansion(n_found=0), "n_found"),
        (lambda: tc.learn.RM3Expansion(n_terms=1.5), "n_terms"),
        (lambda: tc.learn.RM3Expansion(original_weight=1.5), "original_weight"),
    ],
)
def test_parameters_out_of_range_are_named(make, name):
    Q, D = made_texts(0)
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of {type(make()).__name__} must be"):
        make().fit(D)
    with pytest.raises(ParameterError, match=f"The '{name}' parameter"):
        type(make())().tune(Q, PREFS, D, **{name: (getattr(make(), name),)})
