"""SparseRanker: Algorithm 1 of Chen et al. 2010, exactly."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import InputError, MemoryLimitError, ParameterError
from tercet.learn import sparse as state_module
from tercet.learn import thin as thin_module
from tercet.learn.sources import ArraySource
from tercet.learn.state import rates
from tercet.weights import Identity, LowRank, Sparse

N_TERMS = 300


def made_data(seed: int, n: int = 80):
    rng = np.random.default_rng(seed)
    Q, D = (random_texts(rng, n, N_TERMS, density=0.04) for n in (9, 11))
    return Q, D, random_preferences(rng, n, 9, 11)


def compare(found: sparse.csr_array, expected: np.ndarray, sure: float = 1e-4) -> None:
    """Equal numbers, and the same support wherever the oracle is not within float32 of a threshold."""
    dense = found.toarray()
    np.testing.assert_allclose(dense, expected, atol=2e-5)
    assert not dense[expected == 0][np.abs(dense[expected == 0]) > sure].any()
    assert (dense[np.abs(expected) > sure] != 0).all()


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    T=st.integers(1, 30),
    l1=st.sampled_from([0.0, 1e-3, 5e-3, 2e-2]),
    schedule=st.sampled_from(["constant", "inverse-sqrt"]),
)
def test_lazy_shrinkage_is_the_full_sweep_of_algorithm_1(seed, T, l1, schedule):
    Q, D, prefs = made_data(seed)
    ranker = tc.SparseRanker(l1=l1, shrink_every=T, rate=1.3, schedule=schedule, refit=False).fit(Q, prefs, D)
    eta = rates(schedule, 1.3, 0, len(prefs), None).astype(float)
    W = oracles.algorithm_1(np.eye(N_TERMS), as_vectors(prefs, Q, D), eta, l1, T)
    compare(ranker.weights_.sparse, W)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), T=st.integers(1, 20))
def test_refit_is_equation_8(seed, T):
    Q, D, prefs = made_data(seed)
    options = {"l1": 5e-3, "shrink_every": T, "rate": 1.3, "refit_start": "identity"}
    ranker = tc.SparseRanker(**options).fit(Q, prefs, D)
    support = ranker.weights_before_refit_.sparse.toarray() != 0
    eta = rates("inverse-sqrt", 1.3, 0, len(prefs), None).astype(float)
    expected = oracles.refit(support, as_vectors(prefs, Q, D), eta)
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), expected, atol=2e-5)
    assert not ranker.weights_.sparse.toarray()[~support].any()


def test_refit_starts_from_the_sparse_solution():
    Q, D, prefs = made_data(3)
    ranker = tc.SparseRanker(l1=5e-3, shrink_every=10, rate=1.3).fit(Q, prefs, D)
    before = ranker.weights_before_refit_.sparse.toarray().astype(float)
    eta = rates("inverse-sqrt", 1.3, 0, len(prefs), None).astype(float)
    expected = oracles.refit(before != 0, as_vectors(prefs, Q, D), eta, start=before)
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), expected, atol=2e-5)


def test_long_and_short_rows_of_a_support_are_learned_alike(monkeypatch):
    Q, D, prefs = made_data(8)
    learned = []
    for entries_for_a_word in (0.0, np.inf):
        monkeypatch.setattr("tercet.learn.support.LONG_ROW", entries_for_a_word)
        ranker = tc.SparseRanker(l1=1e-3, rate=1.3).fit(Q, prefs, D)
        support = ranker.weights_before_refit_.sparse.toarray() != 0
        assert not ranker.weights_.sparse.toarray()[~support].any()
        learned.append(ranker.weights_.sparse.toarray())
    np.testing.assert_allclose(*learned, atol=1e-5)


def test_refit_by_hand_is_the_refit_of_fit():
    Q, D, prefs = made_data(4)
    whole = tc.SparseRanker(l1=5e-3, shrink_every=10, rate=1.3).fit(Q, prefs, D)
    parts = tc.SparseRanker(l1=5e-3, shrink_every=10, rate=1.3, refit=False).fit(Q, prefs, D)
    assert not parts.refit
    assert whole.refit
    assert same_bits(parts.refit_on_support(Q, prefs, D).weights_, whole.weights_)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), at=st.integers(1, 79), T=st.integers(1, 30))
def test_two_halves_are_the_whole_even_through_a_file(seed, at, T, tmp_path_factory):
    Q, D, prefs = made_data(seed)

    def make():
        return tc.SparseRanker(l1=5e-3, shrink_every=T, rate=1.3, refit=False)

    whole = make().fit(Q, prefs, D)
    half = make().partial_fit(Q, prefs[:at], D)
    path = tmp_path_factory.mktemp("half") / "model"
    half.save(path)
    loaded = tc.load(path).partial_fit(Q, prefs[at:], D)
    assert same_bits(whole.weights_, half.partial_fit(Q, prefs[at:], D).weights_)
    assert same_bits(whole.weights_, loaded.weights_)


def test_a_copy_learns_on_by_itself():
    rng = np.random.default_rng(0)
    X, prefs = random_texts(rng, 40, N_TERMS, density=0.03), random_preferences(rng, 6000, 40, 40)
    ranker = tc.SparseRanker(l1=0.01, rate=10.0, refit=False).fit(X, prefs[:3000])
    same = deepcopy(ranker)
    assert same_bits(same.partial_fit(X, prefs[3000:]).weights_, ranker.partial_fit(X, prefs[3000:]).weights_)


def test_everything_dies_under_a_heavy_penalty():
    Q, D, prefs = made_data(6, n=2048)
    dead = tc.SparseRanker(l1=10.0, shrink_every=1, rate=1.0, refit=False).fit(Q, prefs, D)
    assert dead.weights_.sparse.nnz == 0


def test_rebasing_changes_no_weight(monkeypatch):
    Q, D, prefs = made_data(5, n=400)
    plain = tc.SparseRanker(l1=3e-3, shrink_every=7, rate=1.3, refit=False).fit(Q, prefs, D)
    monkeypatch.setattr(state_module, "REBASE_EVERY", 5)
    monkeypatch.setattr(state_module, "LARGEST_CUM", 1e-3)
    rebased = tc.SparseRanker(l1=3e-3, shrink_every=7, rate=1.3, refit=False).fit(Q, prefs, D)
    np.testing.assert_allclose(rebased.weights_.sparse.toarray(), plain.weights_.sparse.toarray(), atol=2e-5)


def test_rebasing_keeps_the_shrinkage_handed_out_small(monkeypatch):
    monkeypatch.setattr(state_module, "REBASE_EVERY", 5)
    Q, D, prefs = made_data(5, n=400)
    ranker = tc.SparseRanker(l1=0.1, shrink_every=1, rate=1.0, schedule="constant", refit=False).fit(Q, prefs, D)
    assert ranker._state.cum < state_module.LARGEST_CUM + 5 * 0.1


def test_a_source_without_an_end_is_refitted_for_as_many_steps():
    Q, D, prefs = made_data(9, n=100)

    endless = ArraySource(prefs)  # begins again after its last preference
    endless.n_steps = None
    ranker = tc.SparseRanker(l1=1e-3, rate=1.0).fit(Q, endless, D, callbacks=[lambda event: event.step >= 300])
    assert ranker.n_steps_ >= 300
    assert ranker.weights_.sparse.nnz
    with pytest.raises(ParameterError, match="come to an end"):
        ranker.refit_on_support(Q, endless, D)


def test_a_penalty_set_between_calls_takes_effect():
    Q, D, prefs = made_data(11)
    ranker = tc.SparseRanker(l1=0.0, rate=1.0, shrink_every=1, refit=False).fit(Q, prefs, D)
    before = ranker.density_
    ranker.set_params(l1=100.0).partial_fit(Q, prefs, D)
    assert ranker.l1_ == 100.0
    assert ranker.density_ < before / 10


def test_weights_given_by_hand_are_put_in_order(tmp_path):
    doubled = sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 1.0]), np.array([0, 0, 1, 1]), np.array([0, 3, 4])), shape=(2, 2)
    )
    ranker = tc.SparseRanker.from_weights(doubled)
    assert ranker.density_ == 0.5
    ranker.save(tmp_path / "m")
    np.testing.assert_array_equal(tc.load(tmp_path / "m").weights_.sparse.toarray(), [[3, 0], [0, 1]])
    with pytest.raises(InputError, match="must be a matrix of numbers"):
        tc.SparseRanker.from_weights("W")


def test_what_was_before_the_refit_is_not_kept_over_another_fit():
    Q, D, prefs = made_data(12)
    ranker = tc.SparseRanker(l1=1e-3, rate=1.0).fit(Q, prefs, D)
    assert ranker.weights_before_refit_.shape == (N_TERMS, N_TERMS)
    assert not hasattr(ranker.set_params(refit=False).fit(Q, prefs, D), "weights_before_refit_")


@pytest.mark.parametrize("density", [0.1, 0.3])
def test_a_density_is_met_within_a_tenth(density):
    rng = np.random.default_rng(0)
    X = random_texts(rng, 200, 60, density=0.2)
    prefs = random_preferences(rng, 2000, 200, 200)
    ranker = tc.SparseRanker(density=density, rate=5.0, shrink_every=10).fit(X, prefs)
    assert ranker.density_ == pytest.approx(density, rel=0.101)
    assert ranker.n_fits_ >= 1
    again = tc.SparseRanker(l1=ranker.l1_, rate=5.0, shrink_every=10).fit(X, prefs)
    assert same_bits(again.weights_, ranker.weights_)


@given(
    seed=st.integers(0, 10**6),
    density=st.floats(0.01, 1.0),
    block=st.sampled_from([1, 4096, 10**7]),
    looked_at=st.sampled_from([1, 3, 128]),  # rows that the threshold is guessed by; of one it is often wrong
)
def test_thinning_keeps_the_largest_entries_of_any_ranker(seed, density, block, looked_at):
    rng = np.random.default_rng(seed)
    U, V = (
        (rng.integers(-3, 4, (20, 3)) * 2.0 ** rng.integers(-6, 1, (20, 1))).astype(np.float32) for _ in range(2)
    )  # with ties and zeros, and words of all sizes
    stored = (rng.integers(-3, 4, (20, 20)) * (rng.random((20, 20)) < 0.1)).astype(np.float32)
    parts = [
        LowRank(query_factors=U, doc_factors=V, scale=-2.0),
        Identity(n_terms=20, scale=0.5),
        Sparse(weights=sparse.csr_array(stored)),
    ]
    weights = tc.Weights(parts[: int(rng.integers(1, 4))])
    W = -2 * U.astype(float) @ V.T.astype(float)
    W = W + 0.5 * np.eye(20) * (len(weights.parts) > 1) + stored * (len(weights.parts) > 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thin_module, "_BLOCK_BYTES", block)
        patch.setattr(thin_module, "_ROWS_LOOKED_AT", looked_at)
        found = thin_module.largest_entries(weights, density).toarray()
    kept = min(max(1, round(density * 400)), np.count_nonzero(W))
    order = np.lexsort((np.arange(400), -np.abs(W).ravel()))[:kept]
    expected = np.zeros(400)
    expected[order] = W.ravel()[order]
    np.testing.assert_array_equal(found, expected.reshape(20, 20))


@pytest.mark.parametrize("make", [tc.DenseRanker, lambda: tc.LowRankRanker(n_components=5), tc.CosineRanker])
def test_a_thinned_ranker_ranks_refits_and_learns_on(make, checkerboard):
    X, y = checkerboard
    prefs = tc.Preferences.from_labels(y, 3000)
    ranker = make().fit(X, prefs)
    thinned = ranker.thin(0.2)
    assert isinstance(thinned, tc.SparseRanker)
    assert thinned.density_ <= 0.2
    np.testing.assert_allclose(ranker.thin(1.0).score_matrix(X, X), ranker.score_matrix(X, X), atol=1e-5)
    held_out = tc.Preferences.from_labels(y, 500, random_state=1)
    support = thinned.weights_.sparse.toarray() != 0
    again = ranker.thin(0.2, X, prefs)
    assert not again.weights_.sparse.toarray()[~support].any()
    error = [(r.margins(X, held_out) <= 0).mean() for r in (thinned, again)]
    assert error[1] <= error[0]
    assert again.partial_fit(X, prefs[:50]).n_steps_ == 50
    with pytest.raises(InputError, match="density must lie above 0"):
        ranker.thin(0.0)


def test_parameters_survive_cloning_and_setting():
    ranker = tc.SparseRanker(refit=False, l1=0.1)
    assert ranker.get_params()["refit"] is False
    assert clone(ranker).get_params() == ranker.get_params()
    assert bool(ranker.set_params(refit=True).refit) is True


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda Q, p, D: tc.SparseRanker(max_memory=100).fit(Q, p, D), MemoryLimitError, "max_memory is 100"),
        (lambda Q, p, D: tc.SparseRanker(l1=-1).fit(Q, p, D), ParameterError, "'l1' parameter of SparseRanker"),
        (lambda Q, p, D: tc.SparseRanker(l1="much").partial_fit(Q, p, D), ParameterError, "'l1' parameter"),
        (lambda Q, p, D: tc.SparseRanker(density=2.0).fit(Q, p, D), ParameterError, "'density'"),
        (lambda Q, p, D: tc.SparseRanker(density=0.1).partial_fit(Q, p, D), ParameterError, "cannot reach"),
        (
            lambda Q, p, D: tc.SparseRanker(density=0.1).fit(Q, p, D, callbacks=[tc.Checkpoint("unused")]),
            ParameterError,
            "one checkpoint cannot hold",
        ),
        (lambda Q, p, D: tc.SparseRanker(density=1e-9).fit(Q, p, D), InputError, "no l1 gave a density"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message):
    Q, D, prefs = made_data(7, n=20)
    with pytest.raises(error, match=message):
        make(Q, prefs, D)


def test_a_w_that_does_not_fit_its_memory_stays_what_it_was():
    rng = np.random.default_rng(0)
    W = sparse.random_array((N_TERMS, N_TERMS), density=0.05, rng=rng, format="csr", dtype=np.float32)
    Q, D, prefs = made_data(7)
    tc.SparseRanker.from_weights(W, max_memory=4 * N_TERMS**2).partial_fit(Q, prefs, D)
    ranker = tc.SparseRanker.from_weights(W, max_memory=4 * N_TERMS**2 - 1)
    for _ in range(2):
        with pytest.raises(MemoryLimitError, match="takes 360,000 bytes while it learns; max_memory is 359,999"):
            ranker.partial_fit(Q, prefs, D)
        np.testing.assert_array_equal(ranker.weights_.sparse.toarray(), W.toarray())
