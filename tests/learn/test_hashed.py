"""HashedRanker: hash kernels on pairs of words (Bai et al. 2010, equation 5), exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import DamagedBundleError, InputError, MemoryLimitError, ParameterError
from tercet.learn import hashed as hashed_module
from tercet.learn.state import rates
from tercet.store import read_bundle, write_bundle

N_TERMS = 24


def made_data(seed: int, n: int = 50, n_doc_terms: int = N_TERMS):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS), random_texts(rng, 11, n_doc_terms)
    return Q, D, random_preferences(rng, n, 9, 11)


def step_rates(ranker, n):
    return rates(ranker.schedule, ranker.rate, 0, n, n).astype(float)


# -- against the paper's equation -------------------------------------------------------------------------------------

# A table far smaller than a row, one that rows pass the end of, and one with a bucket for every pair.
SIZES = [(1, 7), (2, 7), (5, 3), (23, 11), (25, 1), (97, 31), (1000, 10**9 + 7), (N_TERMS**2, N_TERMS)]  # H, P


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    table=st.sampled_from(SIZES),
    identity=st.sampled_from(["learned", None, 0.0, 2.5]),
    schedule=st.sampled_from(["constant", "inverse-sqrt"]),
    margin=st.sampled_from([0.5, 1.0]),
)
def test_hashed_is_equation_5(seed, table, identity, schedule, margin):
    Q, D, prefs = made_data(seed)
    n_buckets, multiplier = table
    rate = 0.4 / max(1.0, 200 / n_buckets)  # pairs in one bucket add up; a step must not grow with them
    ranker = tc.HashedRanker(
        n_buckets=n_buckets, multiplier=multiplier, identity=identity, rate=rate, schedule=schedule, margin=margin
    ).fit(Q, prefs, D)
    weights, amount = oracles.sgd_hashed(
        n_buckets,
        multiplier,
        1.0 if identity == "learned" else identity,
        as_vectors(prefs, Q, D),
        step_rates(ranker, len(prefs)),
        margin=margin,
        learn_identity=identity == "learned",
    )
    np.testing.assert_allclose(ranker.weights_.parts[0].table, weights, atol=2e-5)
    assert ranker.identity_ == pytest.approx(amount or 0.0, abs=2e-5)
    assert len(ranker.weights_.parts) == (1 if identity is None else 2)
    # The value says of every pair what the table of the ranker says.
    bucket = (np.arange(N_TERMS)[:, None] * multiplier + np.arange(N_TERMS)) % n_buckets
    W = weights[bucket] + (amount or 0.0) * np.eye(N_TERMS)
    np.testing.assert_allclose(ranker.weights_.rows(np.arange(N_TERMS)), W, atol=2e-5)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n_doc_terms=st.sampled_from([3, 40]), n_buckets=st.sampled_from([4, 37, 500]))
def test_two_vocabularies(seed, n_doc_terms, n_buckets):
    Q, D, prefs = made_data(seed, n_doc_terms=n_doc_terms)
    ranker = tc.HashedRanker(n_buckets=n_buckets, identity=None, rate=0.05, schedule="constant").fit(Q, prefs, D)
    table, _ = oracles.sgd_hashed(
        n_buckets, ranker.multiplier, None, as_vectors(prefs, Q, D), np.full(len(prefs), 0.05)
    )
    np.testing.assert_allclose(ranker.weights_.parts[0].table, table, atol=2e-5)
    assert ranker.weights_.shape == (N_TERMS, n_doc_terms)
    assert ranker.identity_ == 0.0


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_a_bucket_for_every_pair_is_the_dense_ranker(seed):
    Q, D, prefs = made_data(seed)
    hashed = tc.HashedRanker(n_buckets=N_TERMS**2, multiplier=N_TERMS, identity=1.0, rate=0.9).fit(Q, prefs, D)
    dense = tc.DenseRanker(rate=0.9).fit(Q, prefs, D)
    every = np.arange(N_TERMS)
    np.testing.assert_allclose(hashed.weights_.rows(every), dense.weights_.rows(every), atol=2e-5)


def test_pairs_of_one_step_add_up_in_their_bucket():
    q = sparse.csr_array(np.array([[1.0, 2.0, 4.0]], dtype=np.float32))
    D = sparse.csr_array(np.array([[1.0, 0.0, 3.0], [0.0, 0.5, 0.0]], dtype=np.float32))
    ranker = tc.HashedRanker(n_buckets=1, identity=None, rate=0.5).fit(q, tc.Preferences([0], [0], [1]), D)
    assert ranker.weights_.parts[0].table.tolist() == [0.5 * 7 * 3.5]


def test_preference_weights_scale_the_step(rng):
    Q, D, prefs = made_data(3, n=30)
    weight = rng.random(30).astype(np.float32) + 0.1
    weighted = tc.Preferences(prefs.query, prefs.better, prefs.worse, weight)
    ranker = tc.HashedRanker(n_buckets=50, rate=0.1, schedule="constant").fit(Q, weighted, D)
    table, amount = oracles.sgd_hashed(
        50, ranker.multiplier, 1.0, as_vectors(prefs, Q, D), 0.1 * weight.astype(float), learn_identity=True
    )
    np.testing.assert_allclose(ranker.weights_.parts[0].table, table, atol=2e-5)
    assert ranker.identity_ == pytest.approx(amount, abs=2e-5)


@pytest.mark.parametrize("n_buckets", [1_000_003, 7, 3_000_000])
@pytest.mark.parametrize("multiplier", [hashed_module.MULTIPLIER, 2**31])
def test_buckets_are_counted_in_64_bits(n_buckets, multiplier):
    most = np.iinfo(np.int32).max
    s, t = most - 1, most - 2
    Q = sparse.csr_array((np.ones(1, np.float32), ([0], [s])), shape=(1, most))
    D = sparse.csr_array((np.ones(2, np.float32), ([0, 1], [t, 5])), shape=(2, most))
    ranker = tc.HashedRanker(n_buckets=n_buckets, multiplier=multiplier, identity=None, rate=1.0)
    ranker.fit(Q, tc.Preferences([0], [0], [1]), D)
    expected = np.zeros(n_buckets)
    expected[(s * multiplier + t) % n_buckets] += 1
    expected[(s * multiplier + 5) % n_buckets] -= 1
    np.testing.assert_array_equal(ranker.weights_.parts[0].table, expected)


def test_the_multiplier_is_a_prime_that_spreads_rows():
    P = hashed_module.MULTIPLIER
    assert all(P % k for k in range(2, int(P**0.5) + 1))
    for n_buckets in (10**6, 3 * 10**6, 6 * 10**6, 2**20, 2**22, 2**24):
        # Rows of neighboring query words start at least a twentieth of the table apart.
        assert 0.05 < P % n_buckets / n_buckets < 0.95


# -- learning on ------------------------------------------------------------------------------------------------------

makes = pytest.mark.parametrize(
    "make",
    [
        lambda: tc.HashedRanker(n_buckets=100, rate=0.5),
        lambda: tc.HashedRanker(n_buckets=7, rate=0.01, identity=None, schedule="constant"),
        lambda: tc.HashedRanker(n_buckets=5000, rate=0.5, identity=3.0),
    ],
)


@pytest.mark.slow
@makes
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), split=st.integers(1, 49))
def test_two_halves_are_the_whole_even_through_a_file(make, seed, split, tmp_path_factory):
    Q, D, prefs = made_data(seed)
    whole = make().fit(Q, prefs, D)
    half = make().partial_fit(Q, prefs[:split], D)
    path = tmp_path_factory.mktemp("half") / "model"
    half.save(path)
    loaded = tc.load(path)
    assert same_bits(loaded.weights_, half.weights_)
    assert same_bits(whole.weights_, half.partial_fit(Q, prefs[split:], D).weights_)
    assert same_bits(whole.weights_, loaded.partial_fit(Q, prefs[split:], D).weights_)
    assert loaded.n_steps_ == whole.n_steps_ == 50


def test_the_best_validated_amount_of_the_identity_is_kept():
    Q, D, prefs = made_data(2)
    values, seen = iter([0.1, 0.7, 0.3, 0.2]), []

    def validation(weights):
        seen.append(weights)
        return next(values)

    ranker = tc.HashedRanker(n_buckets=100, rate=0.5, validate_every=10, patience=1).fit(Q, prefs, D, validation)
    assert same_bits(ranker.weights_, seen[1])
    assert len({weights.identity for weights in seen}) > 1
    assert ranker.n_steps_ == 10


@pytest.mark.parametrize("identity", ["learned", 1.0, None])
def test_learns_a_checkerboard_despite_collisions(identity, checkerboard):
    X, y = checkerboard
    ranker = tc.HashedRanker(n_buckets=800, rate=3.0, identity=identity).fit(X, tc.Preferences.from_labels(y, 4000))
    held_out = tc.Preferences.from_labels(y, 500, random_state=1)
    assert (tc.CosineRanker().fit(X).margins(X, held_out) <= 0).mean() > 0.3
    assert (ranker.margins(X, held_out) <= 0).mean() < 0.05


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_buckets": 0}, ParameterError, "'n_buckets' parameter of HashedRanker"),
        ({"n_buckets": 2.5}, ParameterError, "'n_buckets' parameter of HashedRanker"),
        ({"multiplier": 0}, ParameterError, "'multiplier' parameter of HashedRanker"),
        ({"multiplier": 2**31 + 1}, ParameterError, "'multiplier' parameter of HashedRanker"),
        ({"identity": "fixed"}, ParameterError, "'identity' parameter of HashedRanker"),
        ({"identity": -1.0}, ParameterError, "'identity' parameter of HashedRanker"),
        ({"n_buckets": 10**15}, MemoryLimitError, "1,000,000,000,000,000 buckets takes 4,000,000,000,000,000 bytes"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, error, message):
    Q, D, prefs = made_data(0)
    with pytest.raises(error, match=message):
        tc.HashedRanker(**parameters).fit(Q, prefs, D)


@pytest.mark.parametrize("identity", ["learned", 0.5])
def test_the_identity_needs_one_vocabulary(identity):
    Q, D, prefs = made_data(0, n_doc_terms=7)
    with pytest.raises(InputError, match=rf"Q has 24 columns and D 7; identity={identity!r} needs one vocabulary"):
        tc.HashedRanker(identity=identity).fit(Q, prefs, D)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta, arrays: meta["state"].update(multiplier=0), "multiplier is 0 .*at least 1"),
        (lambda meta, arrays: meta["state"].update(multiplier=2**40), "at most 2147483648"),
        (lambda meta, arrays: meta["state"].update(shape=[24, -1]), r"shape is \[24, -1\]"),
        (lambda meta, arrays: meta["state"].update(shape=[24, 7]), "1 amounts of the identity"),
        (lambda meta, arrays: arrays.update(table=np.zeros(0, np.float32)), "has 0 buckets"),
        (lambda meta, arrays: arrays.update(identity=np.ones(2)), "2 amounts of the identity"),
        (lambda meta, arrays: arrays.update(identity=np.ones(0)), "0 amounts of the identity"),
    ],
)
def test_a_damaged_file_is_refused(change, message, tmp_path):
    Q, D, prefs = made_data(0)
    tc.HashedRanker(n_buckets=10, rate=0.1).fit(Q, prefs, D).save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model")
    meta, arrays = dict(bundle.meta), dict(bundle.arrays)
    change(meta, arrays)
    write_bundle(tmp_path / "changed", kind=bundle.kind, meta=meta, arrays=arrays)
    with pytest.raises(DamagedBundleError, match=message):
        tc.load(tmp_path / "changed")
