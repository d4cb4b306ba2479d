"""Sums of low-rank parts compressed into one, against a dense decomposition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import oracles
from support.random_data import random_texts
from tercet.errors import InputError
from tercet.weights import Dense, Diagonal, Hashed, Identity, LowRank, Sparse, Weights


def factors(rng, n, k):
    # Components of very different lengths, as learned ones are.
    return (rng.standard_normal((n, k)) * 10.0 ** rng.integers(-1, 2, k)).astype(np.float32)


def low_rank(rng, n, m, k, *, tied=False, scale=1.0):
    U = factors(rng, n, k)
    return LowRank(query_factors=U, doc_factors=U if tied else factors(rng, m, k), scale=scale)


def dense(weights):
    n, m = weights.shape
    return sum(part.block(np.arange(n), np.arange(m)) for part in weights.parts)


def assert_near(found, expected, tolerance=1e-5):
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


ranks = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(n=st.integers(2, 12), m=st.integers(2, 12), ranks=ranks, k=st.integers(1, 14), seed=...)
def test_the_nearest_of_that_rank(n, m, ranks, k, seed: int):
    rng = np.random.default_rng(abs(seed))
    weights = Weights([low_rank(rng, n, m, r, scale=rng.choice([-2.0, 0.5, 3.0])) for r in ranks])
    compressed = weights.compressed(k)
    assert len(compressed.parts) == 1
    assert compressed.parts[0].query_factors.shape[1] <= max(k, sum(ranks) if len(ranks) == 1 else 0)
    W = dense(weights)
    # As near as the nearest; which one it is differs where singular values do not.
    errors = [np.linalg.norm(W - V) for V in (dense(compressed), oracles.nearest_of_rank(W, k))]
    assert errors[0] <= errors[1] * (1 + 1e-6) + 1e-5 * np.linalg.norm(W)


def test_the_very_matrix_of_a_dense_decomposition_with_balanced_factors():
    rng = np.random.default_rng(0)
    weights = Weights([low_rank(rng, 20, 15, 3, scale=scale) for scale in (0.5, -1.0, 2.0)])
    for k in (1, 4, 9):
        assert_near(dense(weights.compressed(k)), oracles.nearest_of_rank(dense(weights), k))
    part = weights.compressed(4).parts[0]
    singular = np.linalg.svd(dense(weights), compute_uv=False)[:4]
    for F in (part.query_factors, part.doc_factors):
        assert_near(F.T.astype(float) @ F, np.diag(singular))


def test_scores_stay_where_the_rank_suffices():
    rng = np.random.default_rng(1)
    models = [
        Weights([Identity(n_terms=30, scale=2.0), low_rank(rng, 30, 30, 4)]),
        Weights(
            [Identity(n_terms=30, scale=1.0), low_rank(rng, 30, 30, 4), Diagonal(weights=factors(rng, 30, 1)[:, 0])]
        ),
        Weights([low_rank(rng, 30, 30, 4), Diagonal(weights=factors(rng, 30, 1)[:, 0], scale=0.3)]),
    ]
    mean = (models[0] + models[1] + models[2]) * (1 / 3)
    Q, D = random_texts(rng, 5, 30), random_texts(rng, 9, 30)
    small = mean.compressed(12)
    assert sorted(part.kind for part in small.parts) == ["diagonal", "identity", "lowrank"]
    assert small.identity == pytest.approx(1.0)
    assert_near(small.score(Q, D), mean.score(Q, D))


def test_equal_models_need_no_more_components_than_one():
    part = low_rank(np.random.default_rng(0), 40, 40, 5)
    small = (Weights([part.scaled(0.25)] * 4)).compressed(20)
    assert small.parts[0].query_factors.shape[1] == 5
    assert_near(dense(small), dense(Weights([part])))


def test_tied_factors_stay_tied():
    rng = np.random.default_rng(0)
    weights = Weights([low_rank(rng, 12, 12, 3, tied=True, scale=scale) for scale in (0.5, 2.0)])
    for k in (2, 6):
        small = weights.compressed(k)
        assert small.parts[0].tied
        assert small.n_stored == 12 * k
        assert_near(dense(small), oracles.nearest_of_rank(dense(weights), k))
    # A negative scale is nothing that equal factors can say.
    opposite = Weights([weights.parts[0], weights.parts[1].scaled(-1.0)]).compressed(6)
    assert not opposite.parts[0].tied
    assert_near(dense(opposite), dense(Weights([weights.parts[0], weights.parts[1].scaled(-1.0)])))


def test_other_parts_are_added_up_or_stay():
    rng = np.random.default_rng(0)
    pairs = [sparse.csr_array(rng.random((6, 6)) * (rng.random((6, 6)) < 0.3)) for _ in range(2)]
    parts = [
        *(Sparse(weights=matrix, scale=0.5) for matrix in pairs),
        *(Dense(weights=factors(rng, 6, 6), scale=scale) for scale in (1.0, -0.5)),
        *(Hashed(table=factors(rng, 4, 1)[:, 0], n_query_terms=6, n_doc_terms=6, multiplier=7) for _ in range(2)),
    ]
    small = Weights(parts).compressed(3)
    assert [part.kind for part in small.parts] == ["sparse", "dense", "hashed", "hashed"]
    assert small.parts[2] is parts[4]
    assert_near(dense(small), dense(Weights(parts)))


def test_a_part_that_fits_stays_as_it_is():
    part = low_rank(np.random.default_rng(0), 6, 7, 3)
    assert Weights([part]).compressed(3).parts[0] is part
    assert Weights([part]).compressed(2).parts[0].query_factors.shape == (6, 2)


def test_factors_of_zeros_are_compressed_to_zeros():
    zero = LowRank(query_factors=np.zeros((4, 2), np.float32), doc_factors=np.ones((5, 2), np.float32))
    small = Weights([zero, zero.scaled(0.0)]).compressed(3)
    assert small.parts[0].query_factors.shape == (4, 1)
    assert not dense(small).any()


@pytest.mark.parametrize("tied", [False, True])
def test_a_part_that_counts_for_nothing_takes_nothing_from_the_others(tied):
    rng = np.random.default_rng(0)
    one, other = (Weights([low_rank(rng, 6, 6, 2, tied=tied)]) for _ in range(2))
    assert_near(dense((one * 0.0 + other).compressed(2)), dense(other))
    nothing = LowRank(query_factors=factors(rng, 6, 2), doc_factors=np.zeros((6, 2), dtype=np.float32))
    assert_near(dense((Weights([nothing]) + other).compressed(4)), dense(other))


@pytest.mark.parametrize("how", [{"typical_length": 2.0}, {"unit_queries": True}])
def test_what_divides_by_latent_lengths_is_refused(how):
    U = np.ones((4, 2), np.float32)
    with pytest.raises(InputError, match="divides by the length of latent vectors"):
        Weights([LowRank(query_factors=U, doc_factors=U, **how)] * 2).compressed(2)
