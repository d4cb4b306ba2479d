"""SparseRanker: Algorithm 1 of Chen et al. 2010, exactly, in memory that follows the non-zeros."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

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
from tercet.kernels.sparse_rows import best_head
from tercet.learn import sparse as state_module
from tercet.learn import thin as thin_module
from tercet.learn.sources import ArraySource
from tercet.learn.sparse import SparseRows, Thinning
from tercet.learn.state import rates
from tercet.weights import Identity, LowRank, Sparse

N_TERMS = 300
# A byte too little for a level for every pair (300 columns are kept as 320).
LITTLE = N_TERMS * 320 * 4 - 1


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
    memory=st.sampled_from([None, LITTLE]),
)
def test_lazy_shrinkage_is_the_full_sweep_of_algorithm_1(seed, T, l1, schedule, memory):
    Q, D, prefs = made_data(seed)
    ranker = tc.SparseRanker(l1=l1, shrink_every=T, rate=1.3, schedule=schedule, refit=False, max_memory=memory).fit(
        Q, prefs, D
    )
    eta = rates(schedule, 1.3, 0, len(prefs), None).astype(float)
    W = oracles.algorithm_1(np.eye(N_TERMS), as_vectors(prefs, Q, D), eta, l1, T)
    compare(ranker.weights_.sparse, W)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), T=st.integers(1, 20), memory=st.sampled_from([None, LITTLE]))
def test_refit_is_equation_8(seed, T, memory):
    Q, D, prefs = made_data(seed)
    options = {"l1": 5e-3, "shrink_every": T, "rate": 1.3, "max_memory": memory, "refit_start": "identity"}
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


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), T=st.integers(1, 20), memory=st.sampled_from([None, LITTLE]))
def test_the_penalty_on_w_minus_i_leaves_the_identity_alone(seed, T, memory):
    Q, D, prefs = made_data(seed)
    ranker = tc.SparseRanker(
        l1=5e-3, shrink_every=T, rate=1.3, shrink_towards="identity", refit=False, max_memory=memory
    ).fit(Q, prefs, D)
    eta = rates("inverse-sqrt", 1.3, 0, len(prefs), None).astype(float)
    vectors = as_vectors(prefs, Q, D)
    identity = np.eye(N_TERMS)
    compare(ranker.weights_.sparse, oracles.algorithm_1(identity, vectors, eta, 5e-3, T, towards=identity) - identity)
    assert ranker.weights_.identity == 1.0
    before = ranker.weights_.sparse.toarray().astype(float)
    expected = oracles.refit(before != 0, vectors, eta, start=before, fixed=identity)
    found = ranker.refit_on_support(Q, prefs, D).weights_
    np.testing.assert_allclose(found.sparse.toarray(), expected, atol=2e-5)
    assert found.identity == 1.0


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), memory=st.sampled_from([None, LITTLE]))
def test_gradual_thinning_is_sgd_with_cuts(seed, memory):
    Q, D, prefs = made_data(seed, n=200)
    for texts in (Q, D):  # no sum is rounded, so that thresholds fall on the same side
        texts.data[:] = np.random.default_rng(seed).choice([0.25, 0.5, 0.75], texts.nnz)
    ranker = tc.SparseRanker(density=0.02, sparsify="thin", rate=0.5, schedule="constant", max_memory=memory)
    ranker.fit(Q, prefs, D)
    cuts = dict(Thinning(0.02, len(prefs)).due())
    assert max(cuts) == 150
    wanted = {step: round(share * N_TERMS**2) for step, share in cuts.items()}
    W = oracles.thinned_sgd(np.eye(N_TERMS), as_vectors(prefs, Q, D), np.full(len(prefs), 0.5), wanted)
    assert ranker.density_ >= 0.02 or ranker.density_ == np.count_nonzero(W) / W.size
    np.testing.assert_array_equal(ranker.weights_.sparse.toarray(), W)


def test_refit_by_hand_is_the_refit_of_fit():
    Q, D, prefs = made_data(4)
    whole = tc.SparseRanker(l1=5e-3, shrink_every=10, rate=1.3).fit(Q, prefs, D)
    parts = tc.SparseRanker(l1=5e-3, shrink_every=10, rate=1.3, refit=False).fit(Q, prefs, D)
    assert not parts.refit
    assert whole.refit
    assert same_bits(parts.refit_on_support(Q, prefs, D).weights_, whole.weights_)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), at=st.integers(1, 79), T=st.integers(1, 30), memory=st.sampled_from([None, LITTLE]))
def test_two_halves_are_the_whole_even_through_a_file(seed, at, T, memory, tmp_path_factory):
    Q, D, prefs = made_data(seed)

    def make():
        return tc.SparseRanker(l1=5e-3, shrink_every=T, rate=1.3, refit=False, max_memory=memory)

    whole = make().fit(Q, prefs, D)
    half = make().partial_fit(Q, prefs[:at], D)
    path = tmp_path_factory.mktemp("half") / "model"
    half.save(path)
    loaded = tc.load(path).partial_fit(Q, prefs[at:], D)
    assert same_bits(whole.weights_, half.partial_fit(Q, prefs[at:], D).weights_)
    assert same_bits(whole.weights_, loaded.weights_)


@given(seed=st.integers(0, 10**6))
def test_tables_and_direct_rows_give_the_same_weights(seed):
    Q, D, prefs = made_data(seed, n=300)
    weights = [
        tc.SparseRanker(l1=3e-3, shrink_every=7, rate=1.3, refit=False, max_memory=memory).fit(Q, prefs, D).weights_
        for memory in (None, LITTLE)
    ]
    np.testing.assert_allclose(weights[0].sparse.toarray(), weights[1].sparse.toarray(), atol=1e-5)


@pytest.mark.slow
def test_sweeping_and_rebasing_change_no_weight(monkeypatch):
    Q, D, prefs = made_data(5, n=400)
    plain = tc.SparseRanker(l1=3e-3, shrink_every=7, rate=1.3, refit=False, max_memory=LITTLE).fit(Q, prefs, D)
    monkeypatch.setattr(state_module, "SWEEP_EVERY", 5)
    swept = tc.SparseRanker(l1=3e-3, shrink_every=7, rate=1.3, refit=False, max_memory=LITTLE).fit(Q, prefs, D)
    assert same_bits(plain.weights_, swept.weights_)
    monkeypatch.setattr(state_module, "LARGEST_CUM", 1e-3)
    rebased = tc.SparseRanker(l1=3e-3, shrink_every=7, rate=1.3, refit=False, max_memory=LITTLE).fit(Q, prefs, D)
    np.testing.assert_allclose(rebased.weights_.sparse.toarray(), plain.weights_.sparse.toarray(), atol=2e-5)


def test_a_copy_of_rows_that_moved_learns_on_by_itself():
    rng = np.random.default_rng(0)
    X, prefs = random_texts(rng, 40, N_TERMS, density=0.03), random_preferences(rng, 6000, 40, 40)
    ranker = tc.SparseRanker(l1=0.01, rate=10.0, refit=False, max_memory=200_000).fit(X, prefs[:3000])
    same = deepcopy(ranker)
    assert same_bits(same.partial_fit(X, prefs[3000:]).weights_, ranker.partial_fit(X, prefs[3000:]).weights_)


def test_everything_dies_under_a_heavy_penalty_and_memory_is_given_back():
    Q, D, prefs = made_data(6, n=state_module.SWEEP_EVERY)
    make = partial(tc.SparseRanker, shrink_every=1, rate=1.0, refit=False, max_memory=LITTLE)
    full = make(l1=0.0).fit(Q, prefs, D)
    dead = make(l1=10.0).fit(Q, prefs, D)
    assert dead.weights_.sparse.nnz == 0
    assert dead._state.rows.bytes_used() < full._state.rows.bytes_used() / 10


@given(seed=st.integers(0, 10**6), l1=st.sampled_from([0.0, 3e-3]), T=st.integers(1, 9))
def test_how_rows_are_kept_changes_no_bit(seed, l1, T):
    """Gaps closed at once, sweeps all the time, nothing kept from reading to writing: the same weights."""
    Q, D, prefs = made_data(seed, n=150)
    make = partial(tc.SparseRanker, l1=l1, shrink_every=T, rate=1.3, refit=False, max_memory=LITTLE)
    plain = make().fit(Q, prefs, D).weights_
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "SWEEP_EVERY", 5)
        patch.setattr(state_module, "KEPT_WEIGHTS", 0)
        patch.setattr(state_module, "LEAST_GAPS", 0)
        assert same_bits(plain, make().fit(Q, prefs, D).weights_)


def test_rebasing_keeps_the_shrinkage_handed_out_small(monkeypatch):
    monkeypatch.setattr(state_module, "SWEEP_EVERY", 5)
    Q, D, prefs = made_data(5, n=400)
    ranker = tc.SparseRanker(l1=0.1, shrink_every=1, rate=1.0, schedule="constant", refit=False).fit(Q, prefs, D)
    assert ranker._state.cum < state_module.LARGEST_CUM + 5 * 0.1


@pytest.mark.parametrize("l1", [3e-3, 0.1])
def test_more_memory_is_never_too_little_and_never_exceeded(l1):
    Q, D, prefs = made_data(8, n=600)
    enough = False
    for memory in range(20_000, LITTLE, 20_000):
        ranker = tc.SparseRanker(l1=l1, shrink_every=5, rate=1.0, max_memory=memory)
        try:
            ranker.fit(Q, prefs, D)
        except MemoryLimitError:
            assert not enough, f"{memory} bytes were refused where less was enough"
        else:
            enough = True
            assert ranker._state.rows.peak_bytes() <= memory
    assert enough


@given(seed=st.integers(0, 10**6), memory=st.integers(13_000, 50_000))
def test_what_was_learned_in_a_memory_can_be_refitted_and_learned_on_in_it(seed, memory, tmp_path_factory):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 3, 200, density=1.0), random_texts(rng, 4, 63, density=0.05)
    prefs = random_preferences(rng, 15, 3, 4)
    ranker = tc.SparseRanker(l1=0.0, rate=1.0, refit=False, max_memory=memory)
    try:
        ranker.fit(Q, prefs, D)
    except MemoryLimitError:
        return
    path = tmp_path_factory.mktemp("tight") / "model"
    ranker.save(path)
    tc.load(path).rank(Q, D, 2)
    try:
        ranker.partial_fit(Q, prefs[:1], D)
    except MemoryLimitError:
        return
    tc.load(path).partial_fit(Q, prefs[:1], D)
    tc.SparseRanker(l1=0.0, rate=1.0, max_memory=memory).fit(Q, prefs, D)


@given(counts=st.lists(st.integers(0, 64), min_size=1, max_size=12), cost=st.sampled_from([12, 40]))
def test_a_head_ends_where_a_table_becomes_cheaper(counts, cost):
    def total(n_blocks):
        return 4 * 64 * n_blocks + cost * sum(counts[n_blocks:])

    head = best_head(np.array(counts), sum(counts), cost)
    assert total(head // 64) == min(total(n_blocks) for n_blocks in range(len(counts) + 1))


@pytest.mark.parametrize("shape", [(1000, 1), (1000, 65), (3, 64)])
def test_whole_rows_are_only_made_when_they_fit(shape):
    bytes_of_whole = shape[0] * -(-shape[1] // 64) * 64 * 4
    for memory in (bytes_of_whole - 1, bytes_of_whole):
        rows = SparseRows(shape, memory)
        assert rows.whole == (memory == bytes_of_whole)
        assert rows.arrays[4].nbytes <= memory


def test_a_source_without_an_end_is_refitted_for_as_many_steps():
    Q, D, prefs = made_data(9, n=100)

    endless = ArraySource(prefs)  # begins again after its last preference
    endless.n_steps = None
    ranker = tc.SparseRanker(l1=1e-3, rate=1.0).fit(Q, endless, D, callbacks=[lambda event: event.step >= 300])
    assert ranker.n_steps_ >= 300
    assert ranker.weights_.sparse.nnz
    with pytest.raises(ParameterError, match="come to an end"):
        ranker.refit_on_support(Q, endless, D)


def test_thinning_that_is_ended_early_makes_its_last_cut():
    Q, D, prefs = made_data(10, n=9000)
    ranker = tc.SparseRanker(density=0.02, sparsify="thin", rate=0.5, schedule="constant")
    ranker.fit(Q, prefs, D, callbacks=[lambda event: True])
    assert ranker.n_steps_ < 9000 * 3 // 4
    assert ranker.density_ == pytest.approx(0.02, rel=0.05)
    support = ranker.weights_.sparse.toarray() != 0
    ranker.partial_fit(Q, prefs, D)  # through all steps at which a cut was planned
    assert not ranker.weights_.sparse.toarray()[~support].any()


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
    around = tc.SparseRanker.from_weights(np.array([[0.0, 2.0], [0.0, 0.0]]), shrink_towards="identity")
    assert around.weights_.identity == 1.0
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
        (lambda Q, p, D: tc.SparseRanker(sparsify="thin").fit(Q, p, D), ParameterError, "needs a density"),
        (
            lambda Q, p, D: tc.SparseRanker(shrink_towards="identity").fit(Q, p, D[:, :200]),
            ParameterError,
            "needs one vocabulary; Q has 300 columns and D has 200",
        ),
        (
            lambda Q, p, D: tc.SparseRanker(sparsify="thin", density=0.1).fit(Q, p, D, lambda weights: 0.0),
            ParameterError,
            "takes no validation",
        ),
        (lambda Q, p, D: tc.SparseRanker(sparsify="thin").partial_fit(Q, p, D), ParameterError, "cannot reach"),
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
    ranker = tc.SparseRanker.from_weights(W, max_memory=N_TERMS * 64)
    for _ in range(2):
        with pytest.raises(MemoryLimitError, match="are needed to learn on"):
            ranker.partial_fit(Q, prefs, D)
        np.testing.assert_array_equal(ranker.weights_.sparse.toarray(), W.toarray())


def test_a_w_that_outgrows_its_memory_is_refused_with_the_figure():
    rng = np.random.default_rng(0)
    X = random_texts(rng, 60, 200, density=0.5)
    prefs = random_preferences(rng, 500, 60, 60)
    message = r"outgrown max_memory of 30,000 bytes: [\d,]+ entries take [\d,]+ and"
    with pytest.raises(MemoryLimitError, match=message):
        tc.SparseRanker(l1=0.0, max_memory=30_000, refit=False).fit(X, prefs)
