"""The map between own vectors against its oracle, and as a part of W."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from oracles.latent import softmax_map
from tercet.data.preferences import Preferences, PreferenceSampler
from tercet.errors import DivergedError
from tercet.learn import vector_map as under_test
from tercet.learn.joint import joined, taken_apart
from tercet.learn.vector_map import MapSetting, is_vector_map, learned_map, map_of, vector_map
from tercet.text.fielded import ColumnLayout
from tercet.weights import Identity, Weights


def some(seed, n_q=5, n_d=9, k=3):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n_q, k)).astype(np.float32), 3 * rng.normal(size=(n_d, k)).astype(np.float32)
    n = 20
    better = rng.integers(0, n_d, n)
    worse = (better + rng.integers(1, n_d, n)) % n_d
    return X, Z, Preferences(rng.integers(0, n_q, n), better, worse, rng.uniform(0.5, 2, n))


@pytest.mark.parametrize("against", ["batch", "own"])
@pytest.mark.parametrize("seed", range(3))
def test_it_learns_what_the_equations_say(monkeypatch, against, seed):
    monkeypatch.setattr(under_test, "BATCH", 6)
    X, Z, prefs = some(seed)
    sampler = PreferenceSampler(prefs)
    setting = MapSetting(2.0, 1.5, against)
    M = learned_map(X, Z, sampler, setting, n_steps=30, random_state=7)
    rng, batches = np.random.default_rng(7), []
    for _ in range(5):
        drawn = Preferences(*sampler.draw(rng, 6))
        weight = np.ones(6) if drawn.weight is None else drawn.weight
        batches.append(list(zip(drawn.query, drawn.better, drawn.worse, weight, strict=True)))
    np.testing.assert_allclose(M, softmax_map(X, Z, batches, 2.0, 1.5, against), rtol=2e-4, atol=2e-4)


def test_same_seed_same_bits_and_lengths_do_not_matter():
    X, Z, prefs = some(1)
    sampler, setting = PreferenceSampler(prefs), MapSetting(20.0)
    first, again = (learned_map(X, Z, sampler, setting, n_steps=2048) for _ in range(2))
    assert np.array_equal(first, again)
    scaled = learned_map(8 * X, Z / 4, sampler, setting, n_steps=2048)
    np.testing.assert_allclose((8 * X) @ scaled @ (Z / 4).T, X @ first @ Z.T, rtol=1e-3, atol=1e-3)


def test_without_a_rate_vectors_are_compared_as_they_are():
    X, Z, prefs = some(2)
    M = learned_map(X, Z, PreferenceSampler(prefs), MapSetting(0.0), n_steps=512)
    assert np.array_equal(M, M[0, 0] * np.eye(3, dtype=np.float32))


def test_a_map_that_grows_beyond_all_bounds_is_said():
    X, Z, prefs = some(3)
    with np.errstate(all="ignore"), pytest.raises(DivergedError, match="rate of 1e"):
        learned_map(X, Z, PreferenceSampler(prefs), MapSetting(1e300), n_steps=4096)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2), st.integers(0, 2), st.integers(1, 4))
def test_as_a_part_of_w_it_is_the_bilinear_form_and_comes_apart_again(seed, n_fields, n_numbers, n_dims):
    rng = np.random.default_rng(seed)
    layout = ColumnLayout(4, n_fields, n_numbers, n_dims)
    M = rng.normal(size=(n_dims, n_dims)).astype(np.float32)
    w = rng.normal(size=layout.n_features)
    words = Weights([Identity(n_terms=4, scale=2.0)])
    whole = joined(words, w, layout) + vector_map(M, layout)
    q, d = np.zeros((2, layout.n_columns), dtype=np.float32)
    x, z = rng.normal(size=(2, n_dims)).astype(np.float32)
    q[layout.query_dims], d[layout.doc_dims] = x, z
    q[:4], d[:4] = rng.normal(size=(2, 4))
    score = float(whole.score(sparse.csr_array(q[None]), sparse.csr_array(d[None]))[0, 0])
    assert score == pytest.approx(2 * q[:4].astype(float) @ d[:4] + x.astype(float) @ M @ z, abs=1e-4)
    np.testing.assert_allclose(map_of(whole, layout), M, rtol=1e-6)
    again, w_again = taken_apart(whole, layout)
    np.testing.assert_allclose(w_again, w, rtol=1e-6)
    np.testing.assert_allclose(again.rows(np.arange(4)), 2 * np.eye(4))
    assert [is_vector_map(part, layout) for part in whole.parts].count(True) == 1
