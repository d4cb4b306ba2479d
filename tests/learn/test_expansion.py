"""RM3 against its formula, and bad input."""

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
from support.random_data import random_texts
from tercet.errors import InputError, ParameterError

seeds = st.integers(0, 10**6)


def made_texts(seed, n_terms=15):
    rng = np.random.default_rng(seed)
    return random_texts(rng, 8, n_terms, density=0.15), random_texts(rng, 20, n_terms, density=0.25)


def made_counts(seed, D):
    return sparse.csr_array(np.where(D.toarray() > 0, np.random.default_rng(seed).integers(1, 9, D.shape), 0))


def double(matrix):
    return matrix.toarray().astype(float)


# -- the formulas -------------------------------------------------------------------------------------------------


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
    expanded = tc.learn.RM3Expansion(original_weight=1.0).fit(D).transform(Q)
    lengths = [np.linalg.norm(m.toarray(), axis=1, keepdims=True) for m in (Q, expanded)]
    np.testing.assert_allclose(Q.toarray() * lengths[1], expanded.toarray() * lengths[0], atol=1e-5)


def test_a_query_without_a_hit_keeps_its_words_alone():
    D = sparse.csr_array([[1.0, 0, 0], [0, 1.0, 0]])
    expanded = tc.learn.RM3Expansion().fit(D).transform([[0, 0, 1.0], [0, 0, 0.0]])
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
    vectorizer = tc.Vectorizer(weighting="bm25").fit(texts)
    D, Q = vectorizer.transform_docs(texts), vectorizer.transform_queries(["car"])
    rows = [Counter(text.split()) for text in texts]
    counts = sparse.csr_array(np.array([[row[word] for word in vectorizer.words_] for row in rows], dtype=float))
    weight = vectorizer.idf_**vectorizer.idf_power
    expanded = tc.learn.RM3Expansion(n_found=3, n_terms=5).fit(D, counts, weight).transform(Q)
    scores = tc.CosineRanker().fit(Q, D=D).score_matrix
    assert scores(Q, D)[0, 2] == 0 < scores(expanded, D)[0, 2]
    assert scores(expanded, D)[0, 3] == 0


# -- manners and bad input ----------------------------------------------------------------------------------------


def test_scikit_learn_manners():
    Q, D = made_texts(0)
    expansion = tc.learn.RM3Expansion()
    assert clone(expansion).get_params() == expansion.get_params()
    with pytest.raises(NotFittedError):
        expansion.transform(Q)
    assert expansion.fit(D) is expansion
    assert expansion.n_features_in_ == 15


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Q, D: tc.learn.RM3Expansion().fit(D).transform(Q[:, :4]), "Q has 4 columns, but this RM3Expansion"),
        (lambda Q, D: tc.learn.RM3Expansion().fit(None), "D is None"),
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
        (lambda: tc.learn.RM3Expansion(n_found=0), "n_found"),
        (lambda: tc.learn.RM3Expansion(n_terms=1.5), "n_terms"),
        (lambda: tc.learn.RM3Expansion(original_weight=1.5), "original_weight"),
    ],
)
def test_parameters_out_of_range_are_named(make, name):
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of RM3Expansion must be"):
        make().fit(made_texts(0)[1])
