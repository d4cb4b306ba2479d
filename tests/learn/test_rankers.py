"""Each ranker against its oracle, and what every ranker must do."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import oracles
import tercet as tc
from support.learners import (
    CONTRACTS,
    LEARNERS,
    N_TERMS,
    Killed,
    every_learner,
    kill_at,
    made_data,
    same_bits,
    start_of,
    step_rates,
)
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import InputError, MemoryLimitError, ParameterError
from tercet.learn import RANKERS, DivergedError
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.loop import CHUNK
from tercet.learn.rls import RankRLS, RLSRegressor

# -- against the papers' equations --------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), schedule=st.sampled_from(["constant", "inverse-sqrt", "linear"]))
def test_dense_is_equation_4(seed, schedule):
    Q, D, prefs = made_data(seed)
    ranker = tc.DenseRanker(rate=0.9, schedule=schedule).fit(Q, prefs, D)
    W, violations, loss = oracles.sgd_dense(np.eye(N_TERMS), as_vectors(prefs, Q, D), step_rates(ranker, len(prefs)))
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), W, atol=2e-5)
    output = ranker.history_[-1]
    assert output.violation_rate == pytest.approx(violations / len(prefs))
    assert output.loss == pytest.approx(loss / len(prefs), rel=1e-4, abs=1e-5)


@given(seed=st.integers(0, 10**6))
def test_dense_with_two_vocabularies_starts_at_zero(seed):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS), random_texts(rng, 11, 7)
    prefs = random_preferences(rng, 40, 9, 11)
    ranker = tc.DenseRanker(rate=0.5, schedule="constant").fit(Q, prefs, D)
    W, _, _ = oracles.sgd_dense(np.zeros((N_TERMS, 7)), as_vectors(prefs, Q, D), np.full(40, 0.5))
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), W, atol=2e-5)


@given(seed=st.integers(0, 10**6))
def test_a_diagonal_held_at_zero_stays_there_and_the_rest_learns_as_written(seed):
    Q, D, prefs = made_data(seed)
    ranker = tc.DenseRanker(rate=0.9, schedule="constant", diagonal="zero").fit(Q, prefs, D)
    W = np.zeros((N_TERMS, N_TERMS))
    for preference in as_vectors(prefs, Q, D):
        W, _, _ = oracles.sgd_dense(W, [preference], [0.9])
        np.fill_diagonal(W, 0)
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), W, atol=2e-5)


def test_a_diagonal_of_zero_needs_one_vocabulary():
    Q, D = random_texts(np.random.default_rng(0), 3, 4), random_texts(np.random.default_rng(0), 3, 5)
    with pytest.raises(InputError, match="diagonal='zero' needs one vocabulary"):
        tc.DenseRanker(diagonal="zero").fit(Q, tc.Preferences([0], [1], [2]), D)


@given(seed=st.integers(0, 10**6))
def test_diagonal_is_the_same_loss_on_the_diagonal(seed):
    Q, D, prefs = made_data(seed)
    ranker = tc.DiagonalRanker(rate=0.7).fit(Q, prefs, D)
    w = oracles.sgd_diagonal(np.ones(N_TERMS), as_vectors(prefs, Q, D), step_rates(ranker, len(prefs)))
    np.testing.assert_allclose(ranker.weights_.diagonal, w, atol=2e-5)


@given(
    seed=st.integers(0, 10**6),
    diagonal=st.sampled_from(["identity", "learned", None]),
    weight=st.sampled_from([0.0, 1.0, 4.0]),
    margin=st.sampled_from([0.5, 1.0]),
)
def test_low_rank_is_section_2_3_2(seed, diagonal, weight, margin):
    Q, D, prefs = made_data(seed)
    ranker = tc.LowRankRanker(
        n_components=4, rate=0.2, diagonal=diagonal, identity_weight=weight, margin=margin, random_state=seed
    )
    U, V, learned = oracles.sgd_lowrank(
        *start_of(ranker, Q, D),
        as_vectors(prefs, Q, D),
        step_rates(ranker, len(prefs)),
        margin=margin,
        learn_diagonal=diagonal == "learned",
    )
    weights = ranker.fit(Q, prefs, D).weights_
    np.testing.assert_allclose(weights.query_factors, U.T, atol=2e-5)
    np.testing.assert_allclose(weights.doc_factors, V.T, atol=2e-5)
    if diagonal == "learned":
        np.testing.assert_allclose(weights.diagonal, learned, atol=2e-5)
    else:
        assert weights.identity == (weight if diagonal else 0.0)


@given(seed=st.integers(0, 10**6))
def test_tied_low_rank_is_the_gradient_of_the_symmetric_form(seed):
    Q, D, prefs = made_data(seed)
    ranker = tc.LowRankRanker(n_components=4, rate=0.2, tied=True, identity_weight=1.5)
    U = oracles.sgd_tied(start_of(ranker, Q, D)[0], 1.5, as_vectors(prefs, Q, D), step_rates(ranker, len(prefs)))
    weights = ranker.fit(Q, prefs, D).weights_
    np.testing.assert_allclose(weights.query_factors, U.T, atol=2e-5)
    assert weights.doc_factors.shape == weights.query_factors.shape


def test_preference_weights_scale_the_step(rng):
    Q, D, prefs = made_data(3, n=30)
    weight = rng.random(30).astype(np.float32) + 0.1
    weighted = tc.Preferences(prefs.query, prefs.better, prefs.worse, weight)
    ranker = tc.DenseRanker(rate=0.5, schedule="constant").fit(Q, weighted, D)
    W, _, _ = oracles.sgd_dense(np.eye(N_TERMS), as_vectors(prefs, Q, D), 0.5 * weight.astype(float))
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), W, atol=2e-5)


def test_epochs_repeat_the_preferences_in_order():
    Q, D, prefs = made_data(4, n=20)
    ranker = tc.DenseRanker(rate=0.5, epochs=3).fit(Q, prefs, D)
    W, _, _ = oracles.sgd_dense(np.eye(N_TERMS), as_vectors(prefs, Q, D) * 3, step_rates(ranker, 60))
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), W, atol=2e-5)
    assert ranker.n_steps_ == 60


# -- what every learner must do ------------------------------------------------------------------------------------


def test_every_ranker_is_in_the_table():
    assert {name.split()[0] for name in LEARNERS} == set(RANKERS)
    for name, learner in LEARNERS.items():
        assert type(learner.make()).__name__ == name.split()[0]
        assert set(learner.cannot) <= set(CONTRACTS)


@pytest.mark.slow
@every_learner("halves")
@given(seed=st.integers(0, 10**6), split=st.integers(1, 59))
def test_two_halves_of_partial_fit_are_the_whole(make, seed, split):
    Q, D, prefs = made_data(seed)
    whole = make().fit(Q, prefs, D)
    halves = make().partial_fit(Q, prefs[:split], D).partial_fit(Q, prefs[split:], D)
    assert same_bits(whole.weights_, halves.weights_)


@every_learner("seed")
def test_same_seed_same_bits_and_another_seed_another_order(make):
    Q, D, prefs = made_data(1)
    shuffled = [make().set_params(shuffle=True, epochs=2, random_state=s).fit(Q, prefs, D) for s in (5, 5, 6)]
    assert same_bits(shuffled[0].weights_, shuffled[1].weights_)
    assert not same_bits(shuffled[0].weights_, shuffled[2].weights_)


@every_learner("checkerboard")
def test_learns_a_checkerboard(make, checkerboard):
    X, y = checkerboard
    prefs = tc.Preferences.from_labels(y, 4000)
    before = tc.CosineRanker().fit(X)
    after = make().fit(X, prefs)
    held_out = tc.Preferences.from_labels(y, 500, random_state=1)
    error = [(r.margins(X, held_out) <= 0).mean() for r in (before, after)]
    assert error[1] < 0.05 < 0.3 < error[0]


def test_a_diagonal_makes_no_checkerboard_worse(checkerboard):
    X, y = checkerboard
    ranker = tc.DiagonalRanker(rate=0.7).fit(X, tc.Preferences.from_labels(y, 4000))
    held_out = tc.Preferences.from_labels(y, 500, random_state=1)
    assert (ranker.margins(X, held_out) <= 0).mean() <= (tc.CosineRanker().fit(X).margins(X, held_out) <= 0).mean()


@every_learner("learns on")
def test_weights_do_not_change_under_a_reader(make):
    Q, D, prefs = made_data(2)
    ranker = make().fit(Q, prefs[:30], D)
    weights = ranker.weights_
    kept = weights.to_state()[1]
    before = {name: array.copy() for name, array in kept.items()}
    scores = weights.score(Q, D)
    ranker.partial_fit(Q, prefs[30:], D)
    assert not same_bits(weights, ranker.weights_)
    for name, array in kept.items():
        assert np.array_equal(array, before[name])
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 1
    assert np.array_equal(weights.score(Q, D), scores)


@every_learner("learns on")
def test_saved_and_loaded_it_learns_on_with_the_same_bits(make, tmp_path):
    Q, D, prefs = made_data(5)
    ranker = make().fit(Q, prefs[:30], D)
    ranker.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert repr(loaded.get_params()) == repr(ranker.get_params())  # by value, where one is an estimator itself
    assert same_bits(loaded.weights_, ranker.weights_)
    assert same_bits(loaded.partial_fit(Q, prefs[30:], D).weights_, ranker.partial_fit(Q, prefs[30:], D).weights_)


@every_learner()
def test_saved_and_loaded_it_answers_with_the_same_bits(make, tmp_path):
    Q, D, prefs = made_data(5)
    ranker = make().fit(Q, prefs, D)
    ranker.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert type(loaded) is type(ranker)
    assert same_bits(loaded.weights_, ranker.weights_)
    assert np.array_equal(loaded.margins(Q, prefs, D), ranker.margins(Q, prefs, D))


@pytest.mark.parametrize(
    "copied", [deepcopy, lambda ranker: pickle.loads(pickle.dumps(ranker))], ids=["copy", "pickle"]
)
@every_learner("learns on")
def test_a_copy_learns_on_by_itself_with_the_same_bits(make, copied):
    Q, D, prefs = made_data(5)
    ranker = make().fit(Q, prefs[:30], D)
    before = ranker.weights_
    same = copied(ranker)
    assert same_bits(same.weights_, before)
    same.partial_fit(Q, prefs[30:], D)
    assert same_bits(ranker.weights_, before)
    assert same_bits(same.weights_, ranker.partial_fit(Q, prefs[30:], D).weights_)


@every_learner("resumes")
def test_a_killed_fit_goes_on_to_the_same_bits(make, tmp_path):
    Q, D, prefs = made_data(7, n=2 * CHUNK + 100)
    whole = make().fit(Q, prefs, D)
    with pytest.raises(Killed):
        make().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "kept", every=1), kill_at(CHUNK + 1)])
    resumed = make().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "kept")])
    assert same_bits(resumed.weights_, whole.weights_)


@pytest.mark.parametrize("name", sorted(RANKERS))
def test_scikit_learn_manners(name):
    ranker = RANKERS[name]()
    Q, D, prefs = made_data(6)
    copied = clone(ranker)
    assert copied.get_params() == ranker.get_params()
    for call in (
        lambda: ranker.weights_,
        lambda: ranker.rank(Q, D, 3),
        lambda: ranker.margins(Q, prefs, D),
        lambda: ranker.related(0),
        lambda: ranker.save("nowhere"),
    ):
        with pytest.raises(NotFittedError):
            call()
    assert ranker.fit(Q, prefs, D) is ranker
    assert ranker.n_features_in_ == N_TERMS
    with pytest.raises(TypeError, match=r"unknown|takes no arguments"):
        RANKERS[name](unknown=1)
    with pytest.raises(ValueError, match="Invalid parameter 'unknown'"):
        ranker.set_params(unknown=1)


@every_learner()
def test_margins_rank_and_explain_agree_with_scores(make):
    Q, D, prefs = made_data(8)
    ranker = make().fit(Q, prefs, D)
    scores = ranker.score_matrix(Q, D)
    expected = scores[prefs.query, prefs.better] - scores[prefs.query, prefs.worse]
    np.testing.assert_allclose(ranker.margins(Q, prefs, D), expected, atol=1e-12)
    docs, best = ranker.rank(Q, D, 4)
    for i, row in enumerate(scores):
        assert docs[i].tolist() == oracles.ranking(row)[:4]
        np.testing.assert_array_equal(best[i], row[docs[i]])
    for i in range(Q.shape[0]):
        why = ranker.explain(Q[[i]], D[[i]])
        assert abs(why.contribution.sum() - scores[i, i]) <= 1e-6 * np.abs(why.contribution).sum()
        assert why.score == pytest.approx(scores[i, i], abs=1e-12)


# -- bad input ------------------------------------------------------------------------------------------------------

X = sparse.csr_array(np.eye(4, dtype=np.float32))
PREFS = tc.Preferences([0], [1], [2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0}, "The 'rate' parameter of DenseRanker must be a float in the range"),
        ({"rate": "fast"}, "Got 'fast' instead"),
        ({"schedule": "cosine"}, "The 'schedule' parameter of DenseRanker must be a str among"),
        ({"epochs": 0}, "The 'epochs' parameter of DenseRanker must be an int in the range"),
        ({"margin": -1}, "'margin'"),
        ({"random_state": -1}, "'random_state'"),
    ],
)
def test_parameters_out_of_range_are_named(change, message):
    with pytest.raises(ParameterError, match="parameter of DenseRanker") as error:
        tc.DenseRanker(**change).fit(X, PREFS)
    assert message in str(error.value)


def with_value(value):
    matrix = X.copy()
    matrix.data[2] = value
    return matrix


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.fit(with_value(np.nan), PREFS), r"Q\[2, 2\] is nan; every value must be finite"),
        (lambda r: r.fit(X, PREFS, with_value(np.inf)), r"D\[2, 2\] is inf; every value must be finite"),
        (
            lambda r: r.fit(X, tc.Preferences([4], [1], [2])),
            r"query\[0\] is row 4, but Q has 4 rows \(0 to 3\)",
        ),
        (
            lambda r: r.fit(X, tc.Preferences([0, 0], [1, 9], [2, 2])),
            r"better\[1\] is row 9, but D has 4 rows",
        ),
        (lambda r: r.fit(X, tc.Preferences([], [], [])), "prefs is empty"),
        (lambda r: r.fit(X, {(0, 1, 2)}), r"prefs must be Preferences, or triplets of row numbers .*; got set"),
        (lambda r: r.fit(X, [(0, 1)]), r"as a list or an array \(n, 3\); got shape \(1, 2\)"),
        (lambda r: r.fit(None, PREFS), "Q is None"),
        (
            lambda r: r.fit(sparse.csr_array((0, 4)), PREFS),
            r"Q must have rows and columns; got shape \(0, 4\)",
        ),
        (lambda r: r.fit("text", PREFS), "Q must be a matrix of numbers; got str"),
        (
            lambda r: r.fit(X, PREFS).rank(X[:, :3], X, 2),
            "Q has 3 columns, but this LowRankRanker was fitted with 4",
        ),
        (lambda r: r.fit(X, PREFS).rank(X, X, 0), "k must be an integer from 1; got 0"),
        (lambda r: r.fit(X, PREFS).related(4), r"query term 4 does not exist; there are 4 \(0 to 3\)"),
        (
            lambda r: r.fit(X, PREFS, X[:, :3]),
            "Q has 4 columns and D 3; diagonal='identity' needs one vocabulary",
        ),
        (lambda r: r.set_params(schedule="linear").partial_fit(X, PREFS), "partial_fit does not know"),
        (lambda r: r.fit(X, PREFS).margins(X, None), "prefs must be Preferences, .*; got NoneType"),
        (lambda r: r.set_params(start="lsi").fit(0 * X, PREFS), "finds no direction in documents without a word"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call(tc.LowRankRanker(n_components=2))


@every_learner()
@pytest.mark.parametrize(
    ("Q", "D", "message"),
    [
        ("text", None, "Q must be a matrix of numbers; got str"),
        (None, None, "Q is None"),
        (sparse.csr_array((0, N_TERMS)), None, "Q must have rows and columns"),
        (sparse.csr_array([[np.nan] * N_TERMS] * 3), None, r"Q\[0, 0\] is nan; every value must be finite"),
        (sparse.csr_array((3, N_TERMS)), sparse.csr_array([[np.inf] * N_TERMS] * 3), r"D\[0, 0\] is inf"),
    ],
)
def test_every_ranker_names_a_matrix_that_is_none(make, Q, D, message):
    with pytest.raises(InputError, match=message):
        make().fit(Q, PREFS, D)


@every_learner("margin")
@pytest.mark.parametrize(
    ("prefs", "message"),
    [
        (tc.Preferences([9], [1], [2]), r"query\[0\] is row 9, but Q has 9 rows"),
        (tc.Preferences([0, 0], [1, 11], [2, 2]), r"better\[1\] is row 11, but D has 11 rows"),
        (tc.Preferences([], [], []), "prefs is empty"),
        ([(0, 1, 2, 3)], r"prefs must be Preferences, .* got shape \(1, 4\)"),
    ],
)
def test_every_ranker_names_preferences_that_are_none(make, prefs, message):
    Q, D, _ = made_data(0)
    with pytest.raises(InputError, match=message):
        make().fit(Q, prefs, D)


def test_a_dense_w_that_does_not_fit_is_refused_with_the_figure():
    with pytest.raises(MemoryLimitError, match="takes 64 bytes; 63 are allowed"):
        tc.DenseRanker(max_memory=63).fit(X, PREFS)


def test_divergence_is_an_error_and_leaves_no_broken_ranker():
    Q, D, prefs = made_data(0)
    ranker = tc.LowRankRanker(n_components=3, rate=1e6)
    with pytest.raises(DivergedError, match="a rate below 1e"):
        ranker.partial_fit(Q, prefs, D)
    with pytest.raises(NotFittedError):
        _ = ranker.weights_


def test_latent_directions_take_any_seed_that_is_one():
    Q, D, prefs = made_data(0)
    ranker = tc.LowRankRanker(n_components=3, start="lsi", random_state=2**40 + 1).fit(Q, prefs, D)
    assert np.isfinite(ranker.margins(Q, prefs, D)).all()


# -- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranker", [*RANKERS.values(), *LINEAR_RANKERS.values(), RankRLS, RLSRegressor])
def test_every_parameter_has_limits(ranker):
    assert set(ranker._get_param_names()) <= set(ranker._parameter_constraints)
    ranker()._check_params()


def test_a_type_without_limits_is_no_type_of_a_parameter():
    with pytest.raises(TypeError, match="says nothing of the limits"):

        class Careless(tc.DiagonalRanker):
            size: int = 3
