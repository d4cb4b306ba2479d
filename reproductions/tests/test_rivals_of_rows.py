"""The rankers MinBatSRank is compared with, against their equations done slowly, or the conditions of an optimum."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import oracles
from reproductions import rivals_of_rows
from reproductions.rankers import OF_ROWS
from reproductions.rivals_of_rows import QueryNdcg, QueryRows, best_mixture
from tercet.errors import InputError
from tercet.learn.linear import ProximalRanker

seeds = st.integers(0, 10**6)

# The oracles know features as they are given.
AdaRankRanker = partial(rivals_of_rows.AdaRankRanker, scale_features=False)
ListNetRanker = partial(rivals_of_rows.ListNetRanker, scale_features=False)
RankSVMRanker = partial(rivals_of_rows.RankSVMRanker, scale_features=False)


def made_rows(seed: int, n: int = 50, d: int = 6, n_queries: int = 5):
    """Grades that follow the first two features, with noise; queries stand apart and have pairs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    y = np.digitize(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=n), [-0.5, 0.7])
    qid = rng.permutation(np.arange(n) % n_queries)
    for q in range(n_queries):
        y[np.flatnonzero(qid == q)[:2]] = 0, 2
    return X, y, qid


# -- NDCG -----------------------------------------------------------------------------------------------------------


@st.composite
def one_query(draw, most):
    """At least two grades, and few different scores, for many ties."""
    n = draw(st.integers(2, most))
    scores = np.array(draw(st.lists(st.integers(-4, 4).map(lambda v: v / 4), min_size=n, max_size=n)))
    grades = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=np.int32)
    grades[:2] = 0, 2
    return scores, grades


@settings(max_examples=30)
@given(queries=st.lists(one_query(6), min_size=1, max_size=3), at=st.sampled_from([1, 3, 10]))
def test_equal_scores_count_by_the_mean_over_their_orders(queries, at):
    scores, grades = (np.concatenate(part) for part in zip(*queries, strict=True))
    qid = np.repeat(np.arange(len(queries)), [len(own) for own, _ in queries])
    values = QueryNdcg(QueryRows(scores[:, None], grades, qid), at)(scores)
    np.testing.assert_allclose(values, [oracles.mean_ndcg_of_ties(*query, at) for query in queries])


# -- ListNet --------------------------------------------------------------------------------------------------------


def listnet_value(w, X, y, qid, l2):
    losses = [oracles.listnet_loss(X[qid == q] @ w, y[qid == q])[0] for q in set(qid)]
    return np.mean(losses) + l2 / 2 * w @ w


@settings(max_examples=15)
@given(seed=seeds, l2=st.sampled_from([1e-3, 0.1]), form=st.sampled_from([np.array, sparse.csr_array]))
def test_listnet_ends_where_its_gradient_is_zero(seed, l2, form):
    X, y, qid = made_rows(seed)
    w = ListNetRanker(l2=l2).fit(form(X), y, qid=qid).coef_
    parts = [(X[qid == q], y[qid == q]) for q in set(qid)]
    g = np.mean([rows.T @ oracles.listnet_loss(rows @ w, labels)[1] for rows, labels in parts], axis=0) + l2 * w
    assert check_grad(lambda v: listnet_value(v, X, y, qid, l2), lambda _: g, w) < 1e-5
    assert np.abs(g).max() < 1e-4


# -- AdaRank --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeat", [True, False])
@settings(max_examples=10)
@given(seed=seeds, rounds=st.integers(1, 6), at=st.sampled_from([3, 10, None]))
def test_adarank_is_the_algorithm(repeat, seed, rounds, at):
    X, y, qid = made_rows(seed)
    X = np.random.default_rng(seed).normal(size=X.shape) + X  # no ties
    ranker = AdaRankRanker(at=at, max_iter=rounds, repeat=repeat).fit(X, y, qid=qid)
    history = oracles.adarank(X, y, qid, rounds, at, True, repeat)
    reached = max(value for _, value in history)
    assert ranker.ndcg_ == pytest.approx(reached)
    assert any(np.allclose(ranker.coef_, w) for w, value in history if value > reached - 1e-12)
    assert ranker.n_iter_ == rounds or repeat


def test_a_feature_that_is_always_right_is_enough():
    X, y, qid = made_rows(1)
    X[:, 3] = -y
    ranker = AdaRankRanker().fit(X, y, qid=qid)
    assert ranker.coef_.tolist() == [0, 0, 0, -1, 0, 0]
    assert (ranker.n_iter_, ranker.ndcg_) == (1, pytest.approx(1.0))


def test_a_feature_chosen_again_and_again_ends_the_rounds():
    X, y, qid = made_rows(2)
    X[:, 1:] = 0.0
    ranker = AdaRankRanker(repeat=True).fit(X, y, qid=qid)
    assert np.flatnonzero(ranker.coef_).tolist() == [0]
    assert ranker.n_iter_ < 5
    assert AdaRankRanker(max_iter=20).fit(X, y, qid=qid).n_iter_ == 6


# -- RankSVM --------------------------------------------------------------------------------------------------------


def differences(X, y, qid):
    return np.array([X[i] - X[j] for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]])


@pytest.mark.slow
@settings(max_examples=15)
@given(seed=seeds, l2=st.sampled_from([0.01, 0.1, 3.0]), form=st.sampled_from([np.array, sparse.csr_array]))
def test_ranksvm_is_a_support_vector_machine_of_all_pairs(seed, l2, form):
    X, y, qid = made_rows(seed, n=30)
    pairs = differences(X, y, qid)
    ranker = RankSVMRanker(l2=l2, tolerance=1e-5).fit(form(X), y, qid=qid)
    slow = LinearSVC(loss="hinge", C=1 / (l2 * len(pairs)), fit_intercept=False, tol=1e-7, max_iter=10**6)
    slow.fit(np.vstack([pairs, -pairs[:1]]), [1] * len(pairs) + [-1], sample_weight=[1.0] * len(pairs) + [1e-12])

    def value(w):
        return np.maximum(0, 1 - pairs @ w).mean() + l2 / 2 * w @ w

    least = value(slow.coef_[0])
    assert value(ranker.coef_) == pytest.approx(least, abs=2e-5)
    assert value(ranker.coef_) - ranker.gap_ <= least + 1e-9
    assert ranker.gap_ <= 1e-5


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, 12))
def test_no_mixture_is_better(seed, n):
    rng = np.random.default_rng(seed)
    factor, heights = rng.normal(size=(n, 4)), rng.normal(size=n)
    gram, mixture = factor @ factor.T, np.full(n, 1 / n)
    best_mixture(gram, heights, mixture, 1e-9)
    assert mixture.min() >= 0
    assert mixture.sum() == pytest.approx(1.0)
    slopes = heights - gram @ mixture
    assert slopes.max() - slopes @ mixture <= 1e-8


# -- all of them ----------------------------------------------------------------------------------------------------


def test_rounds_that_do_not_suffice_are_told():
    X, y, qid = made_rows(0)
    for ranker in (ListNetRanker(max_iter=2), RankSVMRanker(max_iter=2)):
        with pytest.warns(ConvergenceWarning, match="after 2 .*raise max_iter"):
            assert ranker.fit(X, y, qid=qid).n_iter_ == 2


every_rival = pytest.mark.parametrize(
    "make", list(rivals_of_rows.LINEAR_RIVALS.values())[:3], ids=lambda make: make.__name__
)


@every_rival
def test_units_of_features_do_not_matter_and_queries_without_pairs_count_nothing(make):
    X, y, qid = made_rows(4)
    units = 10.0 ** np.random.default_rng(0).uniform(-3, 4, X.shape[1])
    plain = make().fit(X, y, qid=qid)
    scaled = make().fit(X * units, y, qid=qid)
    np.testing.assert_allclose(scaled.predict(X * units), plain.predict(X), rtol=0.02, atol=0.02)
    more = make().fit(np.vstack([X, 9 * X[:3]]), np.append(y, [1, 1, 1]), qid=np.append(qid, [9, 9, 9]))
    np.testing.assert_array_equal(more.coef_, plain.coef_)
    assert clone(plain).get_params() == plain.get_params()


@every_rival
def test_rows_that_are_no_pairs_are_an_error(make):
    X, y, qid = made_rows(0)
    with pytest.raises(InputError, match="no query has two documents of different grades"):
        make().fit(X, np.ones(len(y)), qid=qid)


@every_rival
def test_plans_know_the_rival(make):
    assert OF_ROWS[make.__name__] is make


def test_the_mean_of_a_path_is_that_of_its_fits_and_keeps_the_largest():
    X, y, qid = made_rows(5)
    fits = [ProximalRanker(l1=l1, scale_features=False).fit(X, y, qid=qid).coef_ for l1 in (0.1, 0.01)]
    whole, cut = (rivals_of_rows.PathMeanRanker(penalties=(0.1, 0.01), largest=n).fit(X, y, qid) for n in (None, 2))
    np.testing.assert_allclose(whole.coef_, np.mean(fits, axis=0))
    assert np.count_nonzero(cut.coef_) == 2
    assert np.abs(whole.coef_[cut.coef_ == 0]).max() <= np.abs(cut.coef_[cut.coef_ != 0]).min()
