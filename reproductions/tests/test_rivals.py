"""Rivals of the papers' rankers against their equations done slowly, or the conditions of an optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

import oracles
import tercet as tc
from reproductions.folds import QueryRows
from reproductions.rivals import AdaRankRanker, ListNetRanker, PathMeanRanker, QueryExpansion, RankSVMRanker
from support.random_data import random_preferences, random_texts
from tercet.learn.linear import ProximalRanker

seeds = st.integers(0, 10**6)


# -- query expansion --------------------------------------------------------------------------------------------------


def made_texts(seed):
    rng = np.random.default_rng(seed)
    return random_texts(rng, 8, 15, density=0.15), random_texts(rng, 20, 15, density=0.25)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, beta=st.sampled_from([0.0, 0.1, 2.0]), n=st.sampled_from([1, 3, 20, 99]))
def test_query_expansion_is_the_papers_sum(seed, beta, n):
    Q, D = made_texts(seed)
    nothing = tc.Preferences([0], [0], [1])
    found = QueryExpansion(betas=[beta], depths=[n]).fit(Q, nothing, D).represent_queries(Q)
    expected = [oracles.query_expansion(q, D.toarray().astype(float), beta, n) for q in Q.toarray().astype(float)]
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)
    assert found.dtype == np.float32


@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_the_least_rank_loss_of_the_grid_is_taken(seed):
    Q, D = made_texts(seed)
    prefs = random_preferences(np.random.default_rng(seed), 60, 8, 20)

    def loss_of(expansion):
        scores = expansion.represent_queries(Q).toarray().astype(float) @ D.toarray().astype(float).T
        return (scores[prefs.query, prefs.better] - scores[prefs.query, prefs.worse] <= 0).mean()

    betas, depths = (0.0, 0.2, 1.0), (1, 4)
    losses = {(b, n): loss_of(QueryExpansion(betas=[b], depths=[n]).fit(Q, prefs, D)) for b in betas for n in depths}
    tuned = QueryExpansion(betas=betas, depths=depths).fit(Q, prefs, D)
    assert losses[tuned.beta_, tuned.n_expanded_] == pytest.approx(min(losses.values()), abs=1e-6)


# -- feature vectors --------------------------------------------------------------------------------------------------


def made_rows(seed: int, n: int = 50, d: int = 6, n_queries: int = 5) -> QueryRows:
    """Grades that follow the first two features, with noise; every query has pairs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.digitize(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=n), [-0.5, 0.7])
    qid = np.sort(np.arange(n) % n_queries)
    for q in range(n_queries):
        y[np.flatnonzero(qid == q)[:2]] = 0, 2
    return QueryRows(X, y, qid.astype(str))


@settings(max_examples=15)
@given(seed=seeds, l2=st.sampled_from([1e-3, 0.1]))
def test_listnet_ends_where_its_gradient_is_zero(seed, l2):
    rows = made_rows(seed)
    w = ListNetRanker(l2=l2).learn(rows)
    parts = [(rows.X[rows.qid == q], rows.y[rows.qid == q]) for q in rows.qids]

    def value(w):
        return np.mean([oracles.listnet_loss(X @ w, y)[0] for X, y in parts]) + l2 / 2 * w @ w

    g = np.mean([X.T @ oracles.listnet_loss(X @ w, y)[1] for X, y in parts], axis=0) + l2 * w
    assert check_grad(value, lambda _: g, w) < 1e-5
    assert np.abs(g).max() < 1e-4


@pytest.mark.parametrize("repeat", [True, False])
@settings(max_examples=10)
@given(seed=seeds, rounds=st.integers(1, 6))
def test_adarank_is_the_algorithm(repeat, seed, rounds):
    rows = made_rows(seed)
    w = AdaRankRanker(max_iter=rounds, repeat=repeat).learn(rows)
    history = oracles.adarank(rows.X, rows.y, rows.qid, rounds, 10, True, repeat)
    reached = max(value for _, value in history)
    assert any(np.allclose(w, other) for other, value in history if value > reached - 1e-12)


def test_a_feature_that_is_always_right_is_enough():
    rows = made_rows(1)
    rows.X[:, 3] = -rows.y
    assert AdaRankRanker().learn(rows).tolist() == [0, 0, 0, -1, 0, 0]


@settings(max_examples=10)
@given(seed=seeds, l2=st.sampled_from([0.01, 0.1, 3.0]))
def test_ranksvm_is_at_the_optimum_of_the_mean_hinge_over_all_pairs(seed, l2):
    rows = made_rows(seed, n=30)
    X, y, qid = rows.X, rows.y, rows.qid
    pairs = np.array([X[i] - X[j] for i in range(30) for j in range(30) if qid[i] == qid[j] and y[i] > y[j]])

    def value(w):
        return np.maximum(0, 1 - pairs @ w).mean() + l2 / 2 * w @ w

    w = RankSVMRanker(l2=l2, max_iter=10_000).learn(rows)
    rng = np.random.default_rng(seed)
    near = [value(w + scale * rng.normal(size=len(w))) for scale in (0.3, 0.03, 0.003) for _ in range(20)]
    assert value(w) <= min(near) + 1e-4


@pytest.mark.parametrize("make", [ListNetRanker, AdaRankRanker, RankSVMRanker])
def test_units_of_features_do_not_matter_and_queries_without_pairs_count_nothing(make):
    rows = made_rows(4)
    units = 10.0 ** np.random.default_rng(0).uniform(-3, 4, rows.n_features)
    plain = make().fit(rows.X, rows.y, qid=rows.qid)
    scaled = make().fit(rows.X * units, rows.y, qid=rows.qid)
    np.testing.assert_allclose(scaled.predict(rows.X * units), plain.predict(rows.X), rtol=0.02, atol=0.02)
    X, y, qid = np.vstack([rows.X, 9 * rows.X[:3]]), np.append(rows.y, [1, 1, 1]), np.append(rows.qid, ["9"] * 3)
    np.testing.assert_array_equal(make().fit(X, y, qid=qid).coef_, plain.coef_)


def test_the_mean_of_a_path_is_that_of_its_fits_and_keeps_the_largest():
    rows = made_rows(5)
    data = rows.X, rows.y, rows.qid
    fits = [ProximalRanker(l1=l1, scale_features=False).fit(*data[:2], qid=data[2]).coef_ for l1 in (0.1, 0.01)]
    whole, cut = (PathMeanRanker(penalties=(0.1, 0.01), largest=n).fit(*data) for n in (None, 2))
    np.testing.assert_allclose(whole.coef_, np.mean(fits, axis=0))
    assert np.count_nonzero(cut.coef_) == 2
    assert np.abs(whole.coef_[cut.coef_ == 0]).max() <= np.abs(cut.coef_[cut.coef_ != 0]).min()
