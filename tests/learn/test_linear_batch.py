"""FenchelRanker and ProximalRanker: they end where the conditions of an optimum hold, recomputed pair by pair."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

import oracles
from tercet.errors import DivergedError, ParameterError
from tercet.kernels.pairs import all_curvature
from tercet.learn import linear
from tercet.learn.linear.objective import PairObjective
from tercet.learn.linear.queries import Queries

# The oracles know features as they are given.
FenchelRanker = partial(linear.FenchelRanker, scale_features=False)
ProximalRanker = partial(linear.ProximalRanker, scale_features=False)


def made_rows(seed: int, n: int = 50, d: int = 6, n_queries: int = 5):
    """Grades that follow the first two features, with noise; queries stand apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    y = np.digitize(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=n), [-0.5, 0.7])
    return X, y, rng.integers(0, n_queries, n)


def objective_of(X, y, qid) -> PairObjective:
    return PairObjective(X, Queries.from_labels(y, qid))


# -- the objective --------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6), margin=st.sampled_from([0.5, 1.0]), form=st.sampled_from([np.array, sparse.csr_array])
)
def test_value_and_gradient_are_those_of_all_pairs(seed, margin, form):
    X, y, qid = made_rows(seed)
    w = np.random.default_rng(seed).normal(size=X.shape[1])
    objective = objective_of(form(X), y, qid)
    value, slopes = objective.slopes(objective.scores(w), margin)
    wanted, gradient = oracles.mean_pair_loss(w, X, y, qid, margin)
    assert value == pytest.approx(wanted)
    np.testing.assert_allclose(objective.gradient(slopes), gradient, atol=1e-10)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), most=st.sampled_from([0.01, 1.0, 50.0]))
def test_the_line_search_finds_the_minimum(seed, most):
    X, y, qid = made_rows(seed)
    rng = np.random.default_rng(seed)
    objective = objective_of(X, y, qid)
    scores = objective.scores(rng.normal(size=X.shape[1]))
    change = objective.scores(rng.normal(size=X.shape[1]))

    def value(step):
        return objective.slopes(scores + step * change)[0]

    if objective.slopes(scores)[1] @ change > 0:
        change = -change
    step = objective.best_step(scores, change, most)
    assert 0 <= step <= most
    slow = minimize_scalar(value, bounds=(0, most), method="bounded", options={"xatol": 1e-9})
    assert value(step) <= slow.fun + 1e-9
    if step < most:
        start, end = (abs(objective.slopes(scores + at * change)[1] @ change) for at in (0.0, step))
        assert end <= 1e-10 * max(1.0, start)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_curvature_is_how_fast_the_derivative_along_a_line_changes(seed):
    _, y, qid = made_rows(seed)
    rng = np.random.default_rng(seed)
    queries = Queries.from_labels(y, qid)
    scores, change = rng.normal(size=(2, len(queries.rows)))
    below, above = (derivative_along(scores + step * change, change, queries) for step in (-1e-7, 1e-7))
    found = all_curvature(scores, change, queries.arrays(), 1.0)
    assert found == pytest.approx((above - below) / 2e-7, rel=1e-5)


def derivative_along(scores, change, queries) -> float:
    total = 0.0
    for q in range(len(queries)):
        part = slice(queries.starts[q], queries.starts[q + 1])
        pairs = oracles.query_pairs(queries.labels[part])
        total += oracles.pair_loss(scores[part], pairs)[1] @ change[part]
    return total


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_the_lipschitz_constant_is_just_above_the_largest_curvature(seed):
    X, y, qid = made_rows(seed)
    differences = [
        X[i] - X[j]
        for q in range(5)
        for i, j in oracles.query_pairs(np.where(qid == q, y, -9))
        if qid[j] == q == qid[i]
    ]
    exact = 2 * np.linalg.eigvalsh(np.array(differences).T @ np.array(differences) / len(differences))[-1]
    assert exact <= objective_of(X, y, qid).lipschitz() <= 1.02 * exact


# -- FenchelRanker --------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), radius=st.sampled_from([0.05, 0.3, 1.0]))
def test_no_ranker_of_the_ball_is_better_by_more_than_the_gap(seed, radius):
    X, y, qid = made_rows(seed)
    ranker = FenchelRanker(radius=radius, tolerance=3e-3).fit(X, y, qid=qid)
    value, gradient = oracles.mean_pair_loss(ranker.coef_, X, y, qid)
    assert np.abs(ranker.coef_).sum() <= radius * (1 + 1e-12)
    assert ranker.loss_ == pytest.approx(value)
    assert ranker.gap_ == pytest.approx(gradient @ ranker.coef_ + radius * np.abs(gradient).max(), abs=1e-9)
    assert ranker.gap_ <= 3e-3
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = rng.dirichlet(np.ones(X.shape[1])) * rng.choice([-radius, radius], X.shape[1])
        assert oracles.mean_pair_loss(other, X, y, qid)[0] >= value - ranker.gap_ - 1e-12


def test_a_small_ball_holds_the_steepest_feature_alone():
    X, y, qid = made_rows(2)
    ranker = FenchelRanker(radius=0.01).fit(X, y, qid=qid)
    _, gradient = oracles.mean_pair_loss(np.zeros(6), X, y, qid)
    assert np.flatnonzero(ranker.coef_).tolist() == [np.abs(gradient).argmax()]


def test_rounds_that_do_not_suffice_are_told():
    X, y, qid = made_rows(0)
    with pytest.warns(ConvergenceWarning, match="duality gap is .* after 2 rounds"):
        assert FenchelRanker(tolerance=1e-12, max_iter=2).fit(X, y, qid=qid).n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="optimality conditions are violated by .* after 2 rounds"):
        assert ProximalRanker(tolerance=1e-12, max_iter=2).fit(X, y, qid=qid).n_iter_ == 2


# -- ProximalRanker -------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), l1=st.sampled_from([0.0, 0.02, 0.2]))
def test_the_optimality_conditions_hold(seed, l1):
    X, y, qid = made_rows(seed)
    ranker = ProximalRanker(l1=l1, tolerance=1e-6).fit(X, y, qid=qid)
    w = ranker.coef_
    value, gradient = oracles.mean_pair_loss(w, X, y, qid)
    steepest = np.abs(oracles.mean_pair_loss(np.zeros(6), X, y, qid)[1]).max()
    assert (np.abs(gradient[w == 0]) <= l1 + 1e-6 * steepest + 1e-10).all()
    np.testing.assert_allclose(gradient[w != 0], -l1 * np.sign(w[w != 0]), atol=1e-6 * steepest + 1e-10)
    assert ranker.loss_ == pytest.approx(value)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_the_penalty_at_which_nothing_is_left(seed):
    X, y, qid = made_rows(seed)
    steepest = np.abs(oracles.mean_pair_loss(np.zeros(6), X, y, qid)[1]).max()
    assert not ProximalRanker(l1=steepest * 1.001).fit(X, y, qid=qid).coef_.any()
    assert ProximalRanker(l1=steepest * 0.98).fit(X, y, qid=qid).coef_.any()


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), l1=st.sampled_from([0.05, 0.2]))
def test_ball_and_penalty_are_two_sides_of_one_problem(seed, l1):
    X, y, qid = made_rows(seed)
    penalized = ProximalRanker(l1=l1, tolerance=1e-8).fit(X, y, qid=qid)
    radius = np.abs(penalized.coef_).sum()
    if radius > 0:
        held = FenchelRanker(radius=radius, tolerance=1e-5).fit(X, y, qid=qid)
        assert held.loss_ == pytest.approx(penalized.loss_, abs=1e-4)


def test_features_that_tell_no_two_documents_apart_get_no_weights():
    _, y, qid = made_rows(3)
    same_in_a_query = np.column_stack([np.ones(len(y)), 0.1 * qid, 1e5 / (qid + 3)])
    assert not ProximalRanker(l1=0.0).fit(same_in_a_query, y, qid=qid).coef_.any()


def test_features_beyond_what_squares_hold_are_told():
    X, y, qid = made_rows(3)
    with pytest.raises(DivergedError, match="features of a smaller scale"):
        ProximalRanker().fit(X * 1e160, y, qid=qid)


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (FenchelRanker(radius=0.0), "'radius' parameter of FenchelRanker"),
        (FenchelRanker(tolerance=0.0), "'tolerance' parameter of FenchelRanker"),
        (ProximalRanker(l1=-0.1), "'l1' parameter of ProximalRanker"),
    ],
)
def test_wrong_parameters_are_refused(ranker, message):
    X, y, qid = made_rows(0)
    with pytest.raises(ParameterError, match=message):
        ranker.fit(X, y, qid=qid)
