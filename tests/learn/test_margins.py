"""Margins of single preferences, in every learner."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import tercet as tc
from support.learners import (
    N_TERMS,
    Killed,
    every_learner,
    kill_at,
    made_data,
    made_tasks,
    same_bits,
    start_of,
    step_rates,
)
from support.random_data import as_vectors
from tercet.errors import InputError
from tercet.kernels.lowrank import lowrank_advance

seeds = st.integers(0, 10**6)


def with_margins(prefs, margin):
    return tc.Preferences(prefs.query, prefs.better, prefs.worse, prefs.weight, margin)


def drawn_margins(seed, n):
    return np.random.default_rng(seed).choice(np.float32([0.1, 0.5, 1.0, 3.0]), n)


def step_by_step(oracle, start, vectors, rates, margins):
    """An oracle that takes one margin, run one preference after the other."""
    for vector, rate, margin in zip(vectors, rates, margins, strict=True):
        start = oracle(start, [vector], [rate], margin=float(margin))
    return start


def dense_step(W, *arguments, **options):
    return oracles.sgd_dense(W, *arguments, **options)[0]


def expanded(weights):
    return weights.rows(np.arange(N_TERMS))


# -- one margin for all -------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_learner("margin")
@settings(max_examples=5)
@given(seed=seeds, margin=st.floats(0.01, 5.0))
def test_equal_margins_are_the_margin_of_the_ranker_to_the_bit(make, seed, margin):
    Q, D, prefs = made_data(seed)
    plain = make().set_params(margin=margin).fit(Q, prefs, D)
    own = make().set_params(margin=77.0).fit(Q, with_margins(prefs, np.full(len(prefs), margin)), D)
    assert same_bits(plain.weights_, own.weights_)
    assert [event.loss for event in plain.history_] == [event.loss for event in own.history_]


def test_margins_need_no_second_compilation():
    Q, D, prefs = made_data(0)
    tc.LowRankRanker(n_components=5).fit(Q, prefs, D)
    before = len(lowrank_advance.compiled.signatures)
    tc.LowRankRanker(n_components=5).fit(Q, with_margins(prefs, np.ones(len(prefs))), D)
    assert len(lowrank_advance.compiled.signatures) == before


# -- margins that differ, against the equations --------------------------------------------------------------------

ORACLES = {
    "dense": (
        lambda: tc.DenseRanker(rate=0.9),
        dense_step,
        np.eye(N_TERMS),
    ),
    "sparse": (
        lambda: tc.SparseRanker(rate=0.9, l1=0.02, shrink_every=1, refit=False),
        partial(oracles.algorithm_1, l1=0.02, T=1),
        np.eye(N_TERMS),
    ),
    "hashed": (  # with a bucket for each pair of words it is a dense W that starts at zero
        lambda: tc.HashedRanker(rate=0.9, n_buckets=N_TERMS**2, multiplier=N_TERMS, identity=None),
        dense_step,
        np.zeros((N_TERMS, N_TERMS)),
    ),
}


@pytest.mark.parametrize(("make", "oracle", "start"), ORACLES.values(), ids=ORACLES.keys())
@settings(max_examples=15)
@given(seed=seeds)
def test_each_preference_must_reach_its_own_margin(make, oracle, start, seed):
    Q, D, prefs = made_data(seed)
    margins = drawn_margins(seed, len(prefs))
    ranker = make()
    W = step_by_step(oracle, start, as_vectors(prefs, Q, D), step_rates(ranker, len(prefs)), margins)
    ranker.fit(Q, with_margins(prefs, margins), D)
    np.testing.assert_allclose(expanded(ranker.weights_), W, atol=5e-5)


@settings(max_examples=15)
@given(seed=seeds)
def test_each_preference_must_reach_its_own_margin_with_factors_and_a_diagonal(seed):
    Q, D, prefs = made_data(seed)
    margins = drawn_margins(seed, len(prefs))
    vectors, own = as_vectors(prefs, Q, D), with_margins(prefs, margins)
    ranker = tc.LowRankRanker(n_components=4, rate=0.2, diagonal="learned", spread=0.3)
    U, V, w = start_of(ranker, Q, D)
    for vector, margin in zip(vectors, margins, strict=True):
        U, V, w = oracles.sgd_lowrank(U, V, w, [vector], [0.2], float(margin), learn_diagonal=True)
    np.testing.assert_allclose(expanded(ranker.fit(Q, own, D).weights_), U.T @ V + np.diag(w), atol=1e-4)
    alone = tc.DiagonalRanker(rate=0.7)
    w = step_by_step(oracles.sgd_diagonal, np.ones(N_TERMS), vectors, step_rates(alone, len(prefs)), margins)
    np.testing.assert_allclose(alone.fit(Q, own, D).weights_.diagonal, w, atol=5e-5)


@pytest.mark.parametrize("given_to", [(True, True), (True, False), (False, True)])
def test_two_tasks_have_margins_of_their_own(given_to):
    Q, prefs, D, (Q2, prefs2) = made_tasks(1)
    margins = [drawn_margins(at, 40) if given else np.full(40, 0.7) for at, given in enumerate(given_to)]
    first, second = (
        with_margins(one, margin) if given else one
        for one, margin, given in zip((prefs, prefs2), margins, given_to, strict=True)
    )
    ranker = tc.learn.MultiTaskRanker(n_components=4, rate=0.2, spread=0.5, margin=0.7)
    F = ranker._start(Q, D).U.T.astype(float)
    U, V = F[:, : Q.shape[1]], F[:, Q.shape[1] :]
    for one, other, m1, m2 in zip(as_vectors(prefs, Q, D), as_vectors(prefs2, Q2, D), *margins, strict=True):
        # A rate of zero leaves out one of the two steps, since the oracle has one margin for both.
        U, _, V = oracles.sgd_tasks(U, None, V, [one], [other], [], [0.2, 0.0], float(m1))
        U, _, V = oracles.sgd_tasks(U, None, V, [one], [other], [], [0.0, 0.2], float(m2))
    ranker.fit(Q, first, D, second=(Q2, second))
    np.testing.assert_allclose(ranker.weights_.query_factors, U.T, atol=5e-5)
    np.testing.assert_allclose(ranker.weights_.doc_factors, V.T, atol=5e-5)


# -- they go where their preferences go ----------------------------------------------------------------------------


def test_margins_are_shuffled_with_their_preferences():
    Q, D, prefs = made_data(2)
    own = with_margins(prefs, drawn_margins(2, len(prefs)))
    order = np.concatenate([np.random.default_rng([5, epoch]).permutation(len(prefs)) for epoch in range(2)])
    shuffled = tc.DenseRanker(rate=0.9, shuffle=True, epochs=2, random_state=5).fit(Q, own, D)
    assert same_bits(shuffled.weights_, tc.DenseRanker(rate=0.9).fit(Q, own[order], D).weights_)
    assert not same_bits(shuffled.weights_, tc.DenseRanker(rate=0.9).fit(Q, prefs[order], D).weights_)


@every_learner("halves")
def test_two_halves_of_partial_fit_are_the_whole(make):
    Q, D, prefs = made_data(3)
    own = with_margins(prefs, drawn_margins(3, len(prefs)))
    whole = make().fit(Q, own, D)
    halves = make().partial_fit(Q, own[:23], D).partial_fit(Q, own[23:], D)
    assert same_bits(whole.weights_, halves.weights_)


def test_a_resumed_run_has_the_bits_of_an_unbroken_one(tmp_path):
    Q, D, prefs = made_data(4, n=9000)
    own = with_margins(prefs, drawn_margins(4, len(prefs)))

    def fit(prefs, *callbacks):
        return tc.LowRankRanker(n_components=4, rate=0.02, shuffle=True).fit(Q, prefs, D, callbacks=callbacks)

    whole = fit(own)
    with pytest.raises(Killed):
        fit(own, tc.Checkpoint(tmp_path / "c", every=1), kill_at(8000))
    assert same_bits(whole.weights_, fit(own, tc.Checkpoint(tmp_path / "c", every=1)).weights_)
    for other in (prefs, with_margins(prefs, drawn_margins(5, len(prefs)))):
        with pytest.raises(InputError, match="another run"):
            fit(other, tc.Checkpoint(tmp_path / "c", every=1))
