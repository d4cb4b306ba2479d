"""The rankers MinBatSRank is compared with, against their equations done slowly, or the conditions of an optimum."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import oracles
from tercet.errors import DivergedError, ParameterError
from tercet.kernels.ndcg import ndcg_values
from tercet.kernels.pairs import BY_BEST_ORDER, BY_PRESENT_ORDER, pair_slopes
from tercet.kernels.simplex import best_mixture
from tercet.learn import linear
from tercet.learn.linear.queries import Queries

seeds = st.integers(0, 10**6)

# The oracles know features as they are given.
AdaRankRanker = partial(linear.AdaRankRanker, scale_features=False)
ListNetRanker = partial(linear.ListNetRanker, scale_features=False)
NonconvexRanker = partial(linear.NonconvexRanker, scale_features=False)
ProximalRanker = partial(linear.ProximalRanker, scale_features=False)
RankSVMRanker = partial(linear.RankSVMRanker, scale_features=False)
RSRanker = partial(linear.RSRanker, scale_features=False)


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
    """Two grades or more; few different scores, so that many tie."""
    n = draw(st.integers(2, most))
    scores = np.array(draw(st.lists(st.integers(-4, 4).map(lambda v: v / 4), min_size=n, max_size=n)))
    grades = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=np.int32)
    grades[:2] = 0, 2
    return scores, grades


@settings(max_examples=50)
@given(query=one_query(15), margin=st.sampled_from([0.5, 1.0]), power=st.sampled_from([1, 2]), ideal=st.booleans())
def test_pairs_count_by_their_change_in_ndcg(query, margin, power, ideal):
    scores, grades = query
    slopes = np.full(len(scores), np.nan)
    value = pair_slopes(scores, grades, 4, margin, power + (BY_BEST_ORDER if ideal else BY_PRESENT_ORDER), slopes)
    wanted, wanted_slopes = oracles.ndcg_pair_loss(scores, grades, margin, power, ideal)
    assert value == pytest.approx(wanted)
    np.testing.assert_allclose(slopes, wanted_slopes, atol=1e-12)


@settings(max_examples=30)
@given(seed=seeds)
def test_the_weight_of_a_pair_is_what_ndcg_loses(seed):
    rng = np.random.default_rng(seed)
    scores, grades = rng.permutation(6) / 10.0, np.array([0, 1, 2, 0, 1, 3], dtype=np.int32)
    order = np.argsort(-scores)
    total = 0.0
    for better, worse in oracles.query_pairs(grades):
        changed = order.copy()
        changed[[list(order).index(better), list(order).index(worse)]] = worse, better
        total += abs(oracles.ndcg(order, grades) - oracles.ndcg(changed, grades)) * (1 - scores[better] + scores[worse])
    assert pair_slopes(scores, grades, 4, 1.0, 1 + BY_PRESENT_ORDER, np.empty(6)) == pytest.approx(total)


@settings(max_examples=30)
@given(query=one_query(20), seed=seeds, ideal=st.booleans())
def test_the_order_of_the_rows_does_not_matter(query, seed, ideal):
    scores, grades = query
    kind = 2 + (BY_BEST_ORDER if ideal else BY_PRESENT_ORDER)
    mixed = np.random.default_rng(seed).permutation(len(scores))
    slopes, other = np.empty((2, len(scores)))
    pair_slopes(scores, grades, 4, 1.0, kind, slopes)
    pair_slopes(scores[mixed], grades[mixed], 4, 1.0, kind, other)
    np.testing.assert_allclose(other, slopes[mixed], atol=1e-12)


@settings(max_examples=30)
@given(queries=st.lists(one_query(6), min_size=1, max_size=3), at=st.sampled_from([1, 3, 10]))
def test_equal_scores_count_by_the_mean_over_their_orders(queries, at):
    starts = np.concatenate([[0], np.cumsum([len(scores) for scores, _ in queries])])
    values = np.empty(len(queries))
    scores, grades = (np.concatenate(part) for part in zip(*queries, strict=True))
    ndcg_values(scores, starts, grades, at, values)
    np.testing.assert_allclose(values, [oracles.mean_ndcg_of_ties(*query, at) for query in queries])


def test_gains_are_those_of_the_labels_or_of_their_order():
    y = np.array([0, 2, 2, 1.5, -1, 9, 40, 3, 7, 0])
    grades = Queries.from_labels(y, [1, 1, 1, 2, 2, 2, 3, 3, 4, 4]).by_gain()
    assert grades.grades.tolist() == [0, 2, 2, 1, 0, 2, 1, 0, 7, 0]
    assert grades.n_grades.tolist() == [3, 3, 2, 8]
    assert len(Queries.from_labels(np.zeros(3), None).by_gain()) == 0


def test_a_thousand_grades_do_not_overflow():
    grades, values = np.arange(3000, dtype=np.int32), np.empty(1)
    ndcg_values(grades.astype(float), np.array([0, 3000]), grades, 10, values)
    assert values[0] == pytest.approx(1.0)


# -- ListNet --------------------------------------------------------------------------------------------------------


def listnet_value(w, X, y, qid, l2):
    losses = [oracles.listnet_loss(X[qid == q] @ w, y[qid == q])[0] for q in set(qid)]
    return np.mean(losses) + l2 / 2 * w @ w


@settings(max_examples=15)
@given(seed=seeds, l2=st.sampled_from([1e-3, 0.1]), form=st.sampled_from([np.array, sparse.csr_array]))
def test_listnet_ends_where_its_gradient_is_zero(seed, l2, form):
    X, y, qid = made_rows(seed)
    ranker = ListNetRanker(l2=l2).fit(form(X), y, qid=qid)
    w = ranker.coef_
    parts = [(X[qid == q], y[qid == q]) for q in set(qid)]
    g = np.mean([rows.T @ oracles.listnet_loss(rows @ w, labels)[1] for rows, labels in parts], axis=0) + l2 * w
    assert check_grad(lambda v: listnet_value(v, X, y, qid, l2), lambda _: g, w) < 1e-5
    assert np.abs(g).max() < 1e-4
    assert ranker.loss_ == pytest.approx(listnet_value(w, X, y, qid, 0.0))


def test_listnet_tells_when_the_search_did_not_get_going():
    X, y, qid = made_rows(0)
    with pytest.warns(ConvergenceWarning, match="after 0 rounds, .*; bring the features to a smaller scale"):
        ListNetRanker().fit(X * 1e100, y, qid=qid)


# -- AdaRank --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("repeat", [True, False])
@settings(max_examples=10)
@given(seed=seeds, rounds=st.integers(1, 6), at=st.sampled_from([3, 10, None]))
def test_adarank_is_the_algorithm(both_ways, repeat, seed, rounds, at):
    X, y, qid = made_rows(seed)
    X = np.random.default_rng(seed).normal(size=X.shape) + X  # no ties
    ranker = AdaRankRanker(at=at, max_iter=rounds, both_ways=both_ways, repeat=repeat).fit(X, y, qid=qid)
    history = oracles.adarank(X, y, qid, rounds, at, both_ways, repeat)
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
    assert AdaRankRanker(both_ways=False).fit(X, y, qid=qid).coef_.min() >= 0


def test_scores_beyond_all_numbers_are_told():
    rng = np.random.default_rng(0)
    X, y = 1e308 * rng.choice([-1.0, 1.0], size=(40, 6)), rng.integers(0, 3, 40)
    with np.errstate(invalid="ignore"), pytest.raises(DivergedError, match="score of a document"):
        AdaRankRanker().fit(X, y, qid=np.arange(40) // 8)  # scikit-learn's own check sums up all of X


def test_a_feature_chosen_again_and_again_ends_the_rounds():
    X, y, qid = made_rows(2)
    X[:, 1:] = 0.0
    ranker = AdaRankRanker(repeat=True, both_ways=False).fit(X, y, qid=qid)
    assert np.flatnonzero(ranker.coef_).tolist() == [0]
    assert ranker.n_iter_ < 5
    assert AdaRankRanker(max_iter=20).fit(X, y, qid=qid).n_iter_ == 6


# -- RankSVM --------------------------------------------------------------------------------------------------------


def differences(X, y, qid):
    return np.array([X[i] - X[j] for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]])


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
    assert ranker.loss_ == pytest.approx(np.maximum(0, 1 - pairs @ ranker.coef_).mean())


@pytest.mark.parametrize("scale", [1e7, 1e10])
def test_ranksvm_does_not_take_rounding_errors_for_a_bound(scale):
    X, y, qid = made_rows(0)
    with pytest.warns(ConvergenceWarning, match="smaller scale"):
        ranker = RankSVMRanker(max_iter=100).fit(X * scale, y, qid=qid)
    # The direction of the ranker for rows of size 1 has this loss at any scale.
    w = RankSVMRanker(l2=1e-6, max_iter=5000).fit(X, y, qid=qid).coef_
    assert ranker.loss_ - ranker.gap_ <= np.maximum(0, 1 - differences(X, y, qid) @ w).mean()


@settings(max_examples=10)
@given(seed=seeds)
def test_queries_may_count_the_same_and_the_margin_may_be_another(seed):
    X, y, qid = made_rows(seed, n=30)
    ranker = RankSVMRanker(l2=0.1, margin=0.5, normalise_pairs=True, tolerance=1e-5).fit(X, y, qid=qid)

    def value(w):
        losses = [
            np.maximum(0, 0.5 - differences(X[qid == q], y[qid == q], qid[qid == q]) @ w).mean() for q in range(5)
        ]
        return np.mean(losses) + 0.05 * w @ w

    rng = np.random.default_rng(seed)
    for size in (1e-4, 1e-2, 1.0):
        assert value(ranker.coef_ + size * rng.normal(size=6)) >= value(ranker.coef_) - 0.5e-5


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, 12))
def test_no_mixture_is_better(seed, n):
    rng = np.random.default_rng(seed)
    factor, heights = rng.normal(size=(n, 4)), rng.normal(size=n)
    gram, mixture = factor @ factor.T, np.full(n, 1 / n)
    best_mixture(gram, heights, mixture, 1e-9, 10_000)
    assert mixture.min() >= 0
    assert mixture.sum() == pytest.approx(1.0)
    slopes = heights - gram @ mixture
    assert slopes.max() - slopes @ mixture <= 1e-8


# -- RSRank ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"truncate_every": 4},
        {"truncate_every": 3, "threshold": 0.1},
        {"loss": "hinge", "margin": 0.5},
    ],
    ids=str,
)
@settings(max_examples=8)
@given(seed=seeds, form=st.sampled_from([np.array, sparse.csr_array]))
def test_rsrank_is_the_truncated_gradient(params, seed, form):
    X, y, qid = made_rows(seed)
    ranker = RSRanker(l1=0.05, rate=0.2, epochs=3, shuffle=False, **params).fit(form(X), y, qid=qid)
    w = oracles.truncated_gradient(
        X,
        y,
        qid,
        0.05,
        0.2,
        3,
        params.get("truncate_every", 1),
        params.get("threshold", np.inf),
        params.get("margin", 1.0),
        1 if "loss" in params else 2,
    )
    np.testing.assert_allclose(ranker.coef_, w, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ranker.coef_ == 0, w == 0)
    assert ranker.n_steps_ == 15


def test_rsrank_shuffles_by_its_seed_and_leaves_nothing_at_a_strong_penalty():
    X, y, qid = made_rows(3)
    first, again, other = (RSRanker(epochs=2, random_state=seed).fit(X, y, qid=qid).coef_ for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert not RSRanker(l1=100.0).fit(X, y, qid=qid).coef_.any()
    with pytest.raises(DivergedError, match="RSRanker needs smaller steps"):
        RSRanker(rate=1e9, l1=0.0).fit(1e9 * X, y, qid=qid)


# -- penalties that ease off ----------------------------------------------------------------------------------------

GROWTH = {
    "mcp": lambda t, reach: np.maximum(0, 1 - t / reach),
    "lp": lambda t, reach: (1 + t / reach) ** (0.5 - 1),
}


@pytest.mark.parametrize("penalty", GROWTH)
@settings(max_examples=15)
@given(seed=seeds, l1=st.sampled_from([0.02, 0.1, 0.3]), reach=st.sampled_from([0.2, 1.0]))
def test_the_conditions_of_a_minimum_hold(penalty, seed, l1, reach):
    X, y, qid = made_rows(seed)
    ranker = NonconvexRanker(l1=l1, penalty=penalty, reach=reach, tolerance=1e-5).fit(X, y, qid=qid)
    w = ranker.coef_
    value, gradient = oracles.mean_pair_loss(w, X, y, qid)
    steepest = np.abs(oracles.mean_pair_loss(np.zeros(6), X, y, qid)[1]).max()
    growth = l1 * GROWTH[penalty](np.abs(w), reach)
    assert (np.abs(gradient[w == 0]) <= l1 + 1e-5 * steepest + 1e-10).all()
    np.testing.assert_allclose(gradient[w != 0], -(growth * np.sign(w))[w != 0], atol=1e-5 * steepest + 1e-10)
    assert ranker.loss_ == pytest.approx(value)


@pytest.mark.parametrize("penalty", GROWTH)
@settings(max_examples=10)
@given(seed=seeds)
def test_the_value_is_below_that_of_the_l1_solution_it_begins_with(penalty, seed):
    X, y, qid = made_rows(seed)
    sizes = np.linspace(0, 5, 20_001)
    area = np.concatenate([[0], np.cumsum(GROWTH[penalty](sizes[1:], 0.5))]) * 5 / 20_000

    def value(w):
        return oracles.mean_pair_loss(w, X, y, qid)[0] + 0.1 * np.interp(np.abs(w), sizes, area).sum()

    eased = NonconvexRanker(l1=0.1, penalty=penalty, reach=0.5).fit(X, y, qid=qid)
    assert value(eased.coef_) <= value(ProximalRanker(l1=0.1).fit(X, y, qid=qid).coef_) + 1e-4


def test_a_large_reach_is_l1_and_a_small_one_shrinks_less():
    X, y, qid = made_rows(7)
    plain = ProximalRanker(l1=0.1, tolerance=1e-6).fit(X, y, qid=qid).coef_
    far = NonconvexRanker(l1=0.1, reach=1e9, tolerance=1e-6).fit(X, y, qid=qid)
    near = NonconvexRanker(l1=0.1, reach=0.2).fit(X, y, qid=qid).coef_
    np.testing.assert_allclose(far.coef_, plain, atol=1e-5)
    assert far.n_rounds_ == 1
    assert np.abs(near).max() > np.abs(plain).max()
    assert np.count_nonzero(near) <= np.count_nonzero(plain)


# -- parameters -----------------------------------------------------------------------------------------------------


def test_rounds_that_do_not_suffice_are_told():
    X, y, qid = made_rows(0)
    for ranker, message in (
        (ListNetRanker(max_iter=2), "a derivative of .* is left after 2 rounds"),
        (RankSVMRanker(max_iter=2), "may miss the least one by .* after 2 rounds"),
        (NonconvexRanker(max_iter=2), "optimality conditions are violated by .* after 2 rounds"),
    ):
        with pytest.warns(ConvergenceWarning, match=message):
            assert ranker.fit(X, y, qid=qid).n_iter_ == 2


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (ListNetRanker(l2=-1.0), "'l2' parameter of ListNetRanker"),
        (AdaRankRanker(at=0), "'at' parameter of AdaRankRanker"),
        (RankSVMRanker(l2=0.0), "'l2' parameter of RankSVMRanker"),
        (RSRanker(threshold=0.0), "'threshold' parameter of RSRanker"),
        (RSRanker(loss="listnet"), "'loss' parameter of RSRanker"),
        (NonconvexRanker(penalty="l1"), "'penalty' parameter of NonconvexRanker"),
        (NonconvexRanker(p=1.0), "'p' parameter of NonconvexRanker"),
    ],
)
def test_wrong_parameters_are_refused(ranker, message):
    X, y, qid = made_rows(0)
    with pytest.raises(ParameterError, match=message):
        ranker.fit(X, y, qid=qid)
