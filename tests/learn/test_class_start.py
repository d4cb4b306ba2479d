"""Low rank that starts from what classes say: ridge regression of the classes of texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import random_texts
from tercet.data.sampling import LabelSampler
from tercet.errors import InputError, ParameterError
from tercet.learn import SampledSource, starts
from tercet.learn.starts import LabeledRows, class_scores
from tercet.measure import average_precision_of_classes


def make(**options):
    return tc.LowRankRanker(**{"start": "classes", "tied": True, "scale_documents": True, "rate": 0.01} | options)


def texts_of_classes(seed, n_classes, per_class, n_words=8):
    """Each class has words of its own, a text has two of them and one of all."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), per_class)
    X = np.zeros((y.size, n_classes * n_words))
    for i, c in enumerate(y):
        X[i, c * n_words + rng.choice(n_words, 2, replace=False)] += 1
        X[i, rng.integers(X.shape[1])] += 1
    return sparse.csr_array((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)), y


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 5), length=st.sampled_from([1.0, 30.0]))
def test_class_scores_are_those_of_ridge_regression(seed, n_classes, length):
    rng = np.random.default_rng(seed)
    X = random_texts(rng, 30, 12) * np.float32(length)
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, 30 - n_classes))
    found = class_scores(X, LabeledRows(np.arange(30), y), 10, 0) / np.sqrt(starts.CLASS_SCALE)
    expected = oracles.class_scores(X.toarray().astype(float), y, starts.CLASS_PENALTY)
    np.testing.assert_allclose(found, expected, atol=0.01 * np.abs(expected).max())


def test_texts_that_are_withheld_say_nothing(checkerboard):
    X, y = checkerboard
    rest = LabelSampler(y).drop(np.arange(0, 20))
    ranker = make().fit(X, SampledSource(rest, 100))
    changed = sparse.csr_array(sparse.vstack([X[:20] * 0, X[20:]], format="csr"))
    other = make().fit(changed, SampledSource(rest, 100))
    np.testing.assert_array_equal(*(one._state.U for one in (ranker, other)))


def test_classes_tell_texts_apart_that_share_no_word(checkerboard):
    X, y = checkerboard
    ranker = make(scale_documents=False).fit(X[:60], SampledSource.from_labels(y[:60], 200))
    for model in (ranker, ranker.thin(0.5), make(tied=False).fit(X[:60], SampledSource.from_labels(y[:60], 200))):
        assert average_precision_of_classes(model.weights_, X[60:], y[60:]).mean() > 0.99
    assert average_precision_of_classes(tc.CosineRanker().fit(X).weights_, X[60:], y[60:]).mean() < 0.9


def test_more_classes_than_components_share_them():
    X, y = texts_of_classes(0, n_classes=60, per_class=12)
    to_learn = np.arange(y.size) % 2 == 0
    source = SampledSource.from_labels(y[to_learn], 1000)
    quality = {}
    for n in (20, 60):
        ranker = make(n_components=n, identity_weight=0.0).fit(X[to_learn], source)
        assert ranker.weights_.parts[0].query_factors.shape == (X.shape[1], n)
        quality[n] = average_precision_of_classes(ranker.weights_, X[~to_learn], y[~to_learn]).mean()
    start = average_precision_of_classes(tc.CosineRanker().fit(X).weights_, X[~to_learn], y[~to_learn]).mean()
    assert start + 0.1 < quality[20] <= quality[60]


def test_rare_words_have_no_class_score(checkerboard):
    X, y = checkerboard
    ranker = make(n_frequent=10).fit(X, SampledSource.from_labels(y, 100))
    assert np.count_nonzero(ranker.weights_.parts[0].query_factors.any(axis=1)) == 10


def test_a_ranker_from_classes_is_saved_and_learns_on(checkerboard, tmp_path):
    X, y = checkerboard
    ranker = make().fit(X, SampledSource.from_labels(y, 300))
    ranker.save(tmp_path / "ranker")
    again = tc.load(tmp_path / "ranker")
    assert same_bits(again.weights_, ranker.weights_)
    prefs = tc.Preferences.from_labels(y, 50)
    assert same_bits(again.partial_fit(X, prefs).weights_, ranker.partial_fit(X, prefs).weights_)


def test_classes_that_are_not_there_are_named(checkerboard):
    X, y = checkerboard
    with pytest.raises(ParameterError, match="start='classes' needs the classes of documents"):
        make().fit(X, tc.Preferences.from_labels(y, 10))
    with pytest.raises(InputError, match="there are 120 labels and 100 documents"):
        make().fit(X[:100], SampledSource.from_labels(y, 10))


def test_partial_fit_alone_knows_no_classes(checkerboard):
    X, y = checkerboard
    with pytest.raises(ParameterError, match="start='classes' is where fit starts"):
        make().partial_fit(X, tc.Preferences.from_labels(y, 10))


def test_documents_without_words_have_no_classes(checkerboard):
    X, y = checkerboard
    with pytest.raises(InputError, match="finds nothing in documents without a word"):
        make().fit(X * 0, SampledSource.from_labels(y, 10))
