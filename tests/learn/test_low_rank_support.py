"""SparseRanker(sparsify="low-rank"): a support from low-rank factors, block by block, learned on by Chen's step."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import ParameterError
from tercet.learn import thin
from tercet.learn.state import rates
from tercet.weights import Identity, LowRank

N_TERMS = 60


def made_data(seed: int, n_steps: int = 120):
    rng = np.random.default_rng(seed)
    Q, D = (random_texts(rng, n, N_TERMS, density=0.1) for n in (9, 11))
    return Q, D, random_preferences(rng, n_steps, 9, 11)


def made(**params):
    first = tc.LowRankRanker(n_components=4, identity_weight=2.0, schedule="linear", verbose=False)
    return tc.SparseRanker(**{"sparsify": "low-rank", "density": 0.1, "low_rank": first} | params)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    density=st.sampled_from([0.001, 0.02, 0.1, 0.5, 1.0]),
    rounded=st.booleans(),
    height=st.sampled_from([1, 3, 100]),
)
def test_the_support_is_that_of_the_dense_product_ties_by_row_and_column(seed, density, rounded, height):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 14, 2)
    U, V = (rng.normal(size=(k, 3)).astype(np.float32) for k in (n, m))
    if rounded:  # many equal sizes, and zeros
        U, V = U.round(), V.round()
    parts = [LowRank(query_factors=U, doc_factors=V)] + ([Identity(n_terms=n, scale=2.0)] if n == m else [])
    W = U.astype(float) @ V.T.astype(float) + (2.0 * np.eye(n) if n == m else 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thin, "_BLOCK_BYTES", 8 * m * height)
        found = thin.largest_entries(tc.Weights(parts), density)
    np.testing.assert_array_equal(found.toarray(), oracles.largest_entries(W, density))


@pytest.mark.parametrize("epochs", [1, 2])
def test_what_is_on_the_support_learns_on_by_the_step_of_the_others(epochs):
    Q, D, prefs = made_data(1)
    ranker = made(epochs=epochs, refit_rate=0.7).fit(Q, prefs, D)
    first = tc.LowRankRanker(n_components=4, identity_weight=2.0, schedule="linear").fit(Q, prefs, D)
    start = oracles.largest_entries(first.weights_.rows(np.arange(N_TERMS)), 0.1)
    np.testing.assert_array_equal(ranker.weights_before_refit_.sparse.toarray(), start)
    eta = rates("linear", 0.7, 0, epochs * len(prefs), epochs * len(prefs)).astype(float)
    steps = as_vectors(prefs, Q, D) * epochs
    expected = oracles.refit(start != 0, steps, eta, start=start.astype(float))
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), expected, atol=2e-5)
    assert ranker.density_ <= 0.1


def test_without_a_refit_it_is_the_low_rank_model_thinned():
    Q, D, prefs = made_data(2)
    ranker = made(refit=False).fit(Q, prefs, D)
    thinned = tc.LowRankRanker(n_components=4, identity_weight=2.0, schedule="linear").fit(Q, prefs, D).thin(0.1)
    assert same_bits(ranker.weights_, thinned.weights_)
    assert (ranker.n_fits_, ranker.n_steps_) == (1, len(prefs))


def test_two_vocabularies():
    rng = np.random.default_rng(4)
    Q, D = random_texts(rng, 9, 40, density=0.1), random_texts(rng, 11, N_TERMS, density=0.1)
    ranker = made(low_rank=tc.LowRankRanker(n_components=3, diagonal=None)).fit(
        Q, random_preferences(rng, 50, 9, 11), D
    )
    assert ranker.weights_.shape == (40, N_TERMS)


@pytest.mark.slow
def test_no_dense_w_is_ever_in_memory(monkeypatch):
    monkeypatch.setattr(thin, "_BLOCK_BYTES", 1 << 18)
    n = 3000
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random_array((50, n), density=0.01, rng=rng, dtype=np.float32))
    prefs = random_preferences(rng, 200, 50, 50)
    ranker = tc.SparseRanker(sparsify="low-rank", density=0.001, low_rank=tc.LowRankRanker(n_components=5))
    ranker.fit(X, prefs)  # compiles
    tracemalloc.start()
    ranker.fit(X, prefs)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * n * n / 4


def test_it_is_saved_and_learns_on(tmp_path):
    Q, D, prefs = made_data(5)
    ranker = made(margin=0.5).fit(Q, prefs, D)
    ranker.save(tmp_path / "ranker")
    again = tc.load(tmp_path / "ranker")
    assert same_bits(again.weights_, ranker.weights_)
    assert again.get_params(deep=False).keys() == ranker.get_params(deep=False).keys()
    assert again.low_rank.get_params() == ranker.low_rank.get_params()
    assert same_bits(again.partial_fit(Q, prefs, D).weights_, ranker.partial_fit(Q, prefs, D).weights_)


def test_validation_watches_the_refit_and_callbacks_both_phases():
    Q, D, prefs = made_data(6)
    values = iter([0.9, *np.linspace(0.1, 0.8, 1000)])  # the start of the refit is the best
    steps = []
    ranker = made(validate_every=30, patience=None)
    ranker.fit(Q, prefs, D, validation=lambda weights: next(values), callbacks=[lambda event: steps.append(event.step)])
    assert same_bits(ranker.weights_, ranker.weights_before_refit_)
    assert steps.count(len(prefs)) == 2


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"density": None}, "sparsify='low-rank' needs a density"),
        ({"refit_rate": 0.0}, "The 'refit_rate' parameter of SparseRanker"),
        ({"low_rank": tc.CosineRanker()}, "The 'low_rank' parameter of SparseRanker"),
    ],
)
def test_what_does_not_go_together_is_named(params, message):
    Q, D, prefs = made_data(7)
    with pytest.raises(ParameterError, match=message):
        made(**params).fit(Q, prefs, D)


def test_one_checkpoint_cannot_hold_two_runs(tmp_path):
    Q, D, prefs = made_data(7)
    with pytest.raises(ParameterError, match="two runs, which one checkpoint cannot hold"):
        made().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "run")])
    with pytest.raises(ParameterError, match="partial_fit cannot reach a density"):
        made().partial_fit(Q, prefs, D)


def test_a_density_that_no_penalty_leaves_is_the_w_without_one():
    X = sparse.csr_array(np.eye(8, dtype=np.float32))
    ranker = tc.SparseRanker(density=0.5, rate=1.0, refit=False).fit(X, tc.Preferences([0], [1], [2]))
    assert (ranker.l1_, ranker.density_) == (0.0, 10 / 64)
