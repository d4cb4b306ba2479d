"""FTRLRanker against the algorithm as the paper's theorem needs it, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
from tercet.errors import DivergedError, InputError, ParameterError
from tercet.learn.linear import FTRLRanker


def made_rows(seed: int, n: int = 60, d: int = 7, n_queries: int = 6, n_grades: int = 3):
    """Rows of queries that stand apart, a third of the entries 0, and one feature that never occurs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.67)
    X[:, d // 2] = 0
    y = rng.integers(0, n_grades, n)
    return X, y, rng.integers(0, n_queries, n)


SETTINGS = {
    "plain paper": {},
    "plain rate": {"per_feature": False, "rate": 0.3},
    "batches": {"batch_size": 5},
    "batches, plain rate": {"batch_size": 3, "per_feature": False, "rate": 0.3},
    "per pair": {"normalize_pairs": True, "l1": 0.1},
    "per pair in batches": {"normalize_pairs": True, "batch_size": 7, "l1": 0.1},
    "listnet": {"loss": "listnet", "l1": 0.3},
    "listnet, plain rate": {"loss": "listnet", "l1": 0.3, "per_feature": False},
    "epochs": {"epochs": 4},
    "rho": {"rho": 0.2},
    "no rho": {"rho": 0.0},
    "no penalty": {"l1": 0.0},
}
every_setting = pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())


def expected(X, y, qid, params):
    given = {"l1": 2.0, "rate": 0.2, **params}
    given["per_pair"] = given.pop("normalize_pairs", False)
    return oracles.ftrl(X, y, qid, **given)


def made(params) -> FTRLRanker:
    return FTRLRanker(**{"l1": 2.0, "rate": 0.2, "scale_features": False, **params})


@pytest.mark.slow
@every_setting
@pytest.mark.parametrize("form", ["dense", "csr"])
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_every_number_is_that_of_the_algorithm(params, form, seed):
    X, y, qid = made_rows(seed)
    ranker = made(params).fit(X if form == "dense" else sparse.csr_array(X), y, qid=qid)
    w, _, G, t = expected(X, y, qid, params)
    np.testing.assert_allclose(ranker.coef_, w, rtol=1e-7, atol=1e-10)
    np.testing.assert_array_equal(ranker.coef_ == 0, w == 0)
    np.testing.assert_allclose(ranker._state.G, G, rtol=1e-7, atol=1e-10)
    assert ranker.n_steps_ == t
    np.testing.assert_allclose(ranker.predict(X), X @ w, rtol=1e-6, atol=1e-8)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_single_precision_learns_nearly_the_same(seed):
    X, y, qid = made_rows(seed)
    single, double = (made({}).fit(X.astype(kind), y, qid=qid).coef_ for kind in (np.float32, np.float64))
    np.testing.assert_allclose(single, double, atol=1e-4)
    assert single.dtype == np.float64


@every_setting
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_two_halves_are_the_whole_to_the_bit(params, seed):
    X, y, qid = made_rows(seed)
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    split = np.searchsorted(qid, 3)
    once = {**params, "epochs": 1}
    whole = made(once).fit(X, y, qid=qid)
    halves = made(once)
    for part in (slice(0, split), slice(split, None)):
        if split not in (0, len(y)):
            halves.partial_fit(X[part], y[part], qid=qid[part])
    if split in (0, len(y)):
        halves.partial_fit(X, y, qid=qid)
    np.testing.assert_array_equal(halves.coef_, whole.coef_)
    np.testing.assert_array_equal(halves._state.z, whole._state.z)


def test_weights_return_to_zero():
    # The first query wants the feature, the next ones want it gone.
    X = np.array([[1.0], [0.0]] * 8)
    y = np.array([1, 0] + [0, 1] * 7)
    qid = np.repeat(np.arange(8), 2)
    ranker = FTRLRanker(l1=1.0, rate=0.5)
    history = [float(ranker.partial_fit(X[qid == q], y[qid == q], qid=qid[qid == q]).coef_[0]) for q in range(8)]
    assert history[0] > 0
    assert 0.0 in history[1:]


@every_setting
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_a_penalty_large_enough_leaves_nothing_and_absent_features_stay_zero(params, seed):
    X, y, qid = made_rows(seed)
    assert not made({**params, "l1": 1e9}).fit(X, y, qid=qid).coef_.any()
    assert made(params).fit(X, y, qid=qid).coef_[X.shape[1] // 2] == 0


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), per_feature=st.booleans())
def test_a_warm_start_carries_what_was_summed_up_and_not_the_weights(seed, per_feature):
    X, y, qid = made_rows(seed)
    X[qid != qid[0], 1] = 0  # last met long before the warm start, while the plain rate went on
    params = {"per_feature": per_feature, "l1": 3.0}
    ranker = made(params).fit(X, y, qid=qid)
    _, z, G, t = expected(X, y, qid, params)
    # Nothing new to learn from: the weights are Theorem 3.1's at the new penalty.
    ranker.set_params(l1=0.5).partial_fit(X[:1], y[:1], qid=qid[:1])
    inverse_rate = (np.sqrt(1.0 + G) if per_feature else np.full(len(z), np.sqrt(t))) / 0.2
    wanted = np.where(np.abs(z) <= 0.5, 0, -(z - np.sign(z) * 0.5) / inverse_rate)
    np.testing.assert_allclose(ranker.coef_, wanted, rtol=1e-6, atol=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_a_query_without_pairs_adds_nothing(seed):
    X, y, qid = made_rows(seed)
    more = np.concatenate([X, np.ones((3, X.shape[1]))]), np.append(y, [2, 2, 1]), np.append(qid, [90, 90, 91])
    alone, joined = made({}).fit(X, y, qid=qid), made({}).fit(*more[:2], qid=more[2])
    np.testing.assert_array_equal(alone.coef_, joined.coef_)
    assert alone.n_steps_ == joined.n_steps_


def test_a_stream_may_begin_with_rows_that_teach_nothing():
    X, y, qid = made_rows(6)
    ranker = made({}).partial_fit(X[:1], y[:1], qid=qid[:1])
    assert ranker.n_steps_ == 0
    assert not ranker.predict(X).any()
    np.testing.assert_array_equal(ranker.partial_fit(X, y, qid=qid).coef_, made({}).fit(X, y, qid=qid).coef_)
    with pytest.raises(InputError, match="7 features"):
        ranker.partial_fit(X[:, :3], y, qid=qid)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_shuffle_is_told_by_its_seed_alone(batch_size):
    X, y, qid = made_rows(3)
    first, again, other = (
        made({"shuffle": True, "epochs": 2, "batch_size": batch_size, "random_state": seed}).fit(X, y, qid=qid).coef_
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first != made({"epochs": 2, "batch_size": batch_size}).fit(X, y, qid=qid).coef_).any()


def test_the_loss_it_tells_is_the_mean_of_those_met():
    X, y, qid = made_rows(9)
    ranker = made({"l1": 1e9}).fit(X, y, qid=qid)  # all weights stay 0, so each pair loses margin² = 1
    pairs = [len(oracles.query_pairs(y[qid == q])) for q in range(6)]
    assert ranker.loss_ == pytest.approx(np.mean(pairs))
    assert made({"l1": 1e9, "normalize_pairs": True}).fit(X, y, qid=qid).loss_ == pytest.approx(1.0)
    assert made({"l1": 1e9, "batch_size": 3}).fit(X, y, qid=qid).loss_ == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("params", [{}, {"batch_size": 3}, {"loss": "listnet"}], ids=str)
def test_weights_beyond_all_numbers_are_told(params):
    X, y, qid = made_rows(1)
    with pytest.raises(DivergedError, match="needs smaller steps"):
        made({"l1": 0.0, "rate": 1e300, "per_feature": False, "epochs": 5, **params}).fit(X * 1e100, y, qid=qid)


@pytest.mark.parametrize("params", [{}, {"batch_size": 3}], ids=str)
def test_scores_beyond_all_numbers_are_told_though_the_weights_are_finite(params):
    X = np.array([[1.0, 1.0], [0.0, 0.0], [1.7e308, -1.7e308], [1.7e308, -1.7e308]])
    ranker = FTRLRanker(l1=0.0, rate=2.0, rho=0.0, **params).fit(X[:2], [1, 0], qid=[7, 7])
    np.testing.assert_allclose(ranker.coef_, [2.0, 2.0])  # so the next two scores are equal and not finite
    with pytest.raises(DivergedError, match="smaller scale"):
        ranker.partial_fit(X[2:], [1, 0], qid=[8, 8])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"l1": -1.0}, "'l1' parameter of FTRLRanker must be"),
        ({"rate": 0.0}, "'rate' parameter"),
        ({"rho": -0.1}, "'rho' parameter"),
        ({"batch_size": 0}, "'batch_size' parameter"),
        ({"epochs": 0}, "'epochs' parameter"),
        ({"loss": "logistic"}, "'loss' parameter"),
        ({"loss": "listnet", "batch_size": 5}, "loss='listnet' looks at whole lists"),
        ({"loss": "listnet", "normalize_pairs": True}, "loss='listnet' looks at whole lists"),
    ],
)
def test_wrong_parameters_are_refused(params, message):
    X, y, qid = made_rows(0)
    with pytest.raises(ParameterError, match=message):
        FTRLRanker(**params).fit(X, y, qid=qid)
