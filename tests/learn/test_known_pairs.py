"""What is known of W before it is learned: pairs it never has, weights it stands beside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import InputError
from tercet.learn.offset import OffsetSource, margins_left
from tercet.learn.sources import ArraySource
from tercet.learn.state import rates
from tercet.weights import Identity, Sparse

N_TERMS = 300


def made_data(seed: int, n: int = 80):
    rng = np.random.default_rng(seed)
    Q, D = (random_texts(rng, n, N_TERMS, density=0.04) for n in (9, 11))
    prefs = random_preferences(rng, n, 9, 11)
    met = (np.abs(Q.toarray()).T @ np.ones((9, 11)) @ np.abs(D.toarray())) > 0
    some = met & (rng.random(met.shape) < 0.3)
    return Q, D, prefs, sparse.csr_array(some.astype(np.float32))


@pytest.mark.parametrize("schedule", ["constant", "inverse-sqrt"])
def test_pairs_that_are_never_learned_are_algorithm_1_without_them(schedule):
    Q, D, prefs, never = made_data(1)
    ranker = tc.SparseRanker(l1=2e-3, shrink_every=7, rate=1.3, schedule=schedule, refit=False)
    W = ranker.fit(Q, prefs, D, never=never).weights_.sparse.toarray()
    eta = rates(schedule, 1.3, 0, len(prefs), None).astype(float)
    may = (never.toarray() == 0).astype(float)
    expected = oracles.algorithm_1(np.eye(N_TERMS), as_vectors(prefs, Q, D), eta, 2e-3, 7, may=may)
    np.testing.assert_allclose(W, expected, atol=2e-5)
    assert not W[never.toarray() != 0].any()
    free = oracles.algorithm_1(np.eye(N_TERMS), as_vectors(prefs, Q, D), eta, 2e-3, 7)
    assert np.abs(free - expected).max() > 0.01  # they would have been learned


def test_a_stored_zero_is_no_pair_that_is_never_learned():
    Q, D, prefs, never = made_data(1)
    others = never.copy()
    others.data[::2] = 0
    stored = others.copy()
    others.eliminate_zeros()
    ranker = tc.SparseRanker(l1=1e-3, shrink_every=7, rate=1.3)
    expected = ranker.fit(Q, prefs, D, never=others).weights_
    assert same_bits(ranker.fit(Q, prefs, D, never=stored).weights_, expected)
    assert stored.nnz == never.nnz  # what was given stays as it is


def test_they_stay_away_in_the_refit_in_partial_fit_and_after_loading(tmp_path):
    Q, D, prefs, never = made_data(2)
    ranker = tc.SparseRanker(l1=1e-3, shrink_every=7, rate=1.3).fit(Q, prefs, D, never=never)
    ranker.save(tmp_path / "ranker")
    again = tc.load(tmp_path / "ranker")
    for one in (ranker, again):
        one.partial_fit(Q, prefs, D)
        assert not one.weights_.sparse.toarray()[never.toarray() != 0].any()
    assert same_bits(ranker.weights_, again.weights_)


def test_pairs_that_are_never_learned_are_not_on_the_support_of_a_low_rank_w():
    Q, D, prefs, never = made_data(4)
    ranker = tc.SparseRanker(sparsify="low-rank", density=0.05, low_rank=tc.LowRankRanker(n_components=3), refit=False)
    assert ranker.fit(Q, prefs, D).weights_.sparse.toarray()[never.toarray() != 0].any()
    assert not ranker.fit(Q, prefs, D, never=never).weights_.sparse.toarray()[never.toarray() != 0].any()


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_beside_fixed_weights_w_learns_what_they_leave(schedule):
    Q, D, prefs, pairs = made_data(5)
    P = pairs.toarray() * 0.3
    fixed = tc.Weights([Sparse(weights=pairs * 0.3), Identity(n_terms=N_TERMS, scale=0.5)])
    source = OffsetSource(ArraySource(prefs), Q, D, offset=fixed, margin=1.0, whole=lambda weights: weights + fixed)
    learned = tc.SparseRanker(l1=2e-3, shrink_every=7, rate=1.3, schedule=schedule, refit=False).fit(Q, source, D)
    eta = rates(schedule, 1.3, 0, len(prefs), len(prefs)).astype(float)
    # The penalty is on what is learned: the whole shrinks towards what is known.
    known = P + 0.5 * np.eye(N_TERMS)
    expected = oracles.algorithm_1(np.eye(N_TERMS) + known, as_vectors(prefs, Q, D), eta, 2e-3, 7, towards=known)
    np.testing.assert_allclose(learned.weights_.sparse.toarray() + known, expected, atol=2e-5)


def test_margins_that_preferences_have_of_their_own_are_those_to_reach():
    Q, D, prefs, pairs = made_data(6)
    own = tc.Preferences(prefs.query, prefs.better, prefs.worse, margin=np.full(len(prefs), 2.0))
    fixed = tc.Weights([Sparse(weights=pairs)])
    difference = [q @ pairs.toarray() @ (better - worse) for q, better, worse in as_vectors(prefs, Q, D)]
    left = margins_left(own, Q, D, offset=fixed, margin=1.0)
    np.testing.assert_allclose(left.margin, 2.0 - np.array(difference), atol=1e-5)
    assert margins_left(prefs, Q, D, offset=None, margin=1.0) is prefs


def test_a_source_tells_another_model_apart_by_what_it_stands_beside():
    Q, D, prefs, pairs = made_data(7)
    sources = [
        OffsetSource(ArraySource(prefs), Q, D, offset=offset, margin=1.0, whole=lambda weights: weights)
        for offset in (None, tc.Weights([Sparse(weights=pairs)]), tc.Weights([Sparse(weights=pairs * 2.0)]))
    ]
    assert len({source.fingerprint() for source in sources}) == 3


def test_pairs_of_another_shape_are_refused():
    Q, D, prefs, _ = made_data(8)
    with pytest.raises(InputError, match=r"never has shape \(2, 2\); expected \(300, 300\)"):
        tc.SparseRanker().fit(Q, prefs, D, never=sparse.csr_array(np.eye(2)))
