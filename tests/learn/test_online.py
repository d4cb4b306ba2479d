"""The online learner: a sparse part that single preferences add to weights of any kind, and steps that are undone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
from support.indexes import KINDS, N_TERMS, random_weights
from support.random_data import random_preferences, random_texts
from tercet import Preferences
from tercet.errors import InputError
from tercet.kernels.online import propose
from tercet.learn.online import OnlineLearner, OnlineRule
from tercet.weights import Identity, Sparse, Weights

N = N_TERMS
FREELY = {"pairs": 0, "step": 0.0, "weight": 0.0}
RULES = [
    OnlineRule(),
    OnlineRule(rate=0.4, **FREELY),
    OnlineRule(margin=0.2, **FREELY),
    OnlineRule(rate=0.7, margin=0.4, pairs=7, step=0.1, weight=0.15),
]


def base_of(kind: str, seed: int = 0) -> Weights:
    return random_weights(np.random.default_rng(seed), [kind, "identity"] if kind == "sparse" else [kind])


def sparse_bits(weights: Weights) -> tuple[bytes, bytes]:
    last = weights.parts[-1]
    assert isinstance(last, Sparse)
    return last.weights.data.tobytes(), last.weights.indices.tobytes()


def texts(seed: int = 1) -> tuple[sparse.csr_array, sparse.csr_array, Preferences]:
    rng = np.random.default_rng(seed)
    Q, D, prefs = random_texts(rng, 9, N), random_texts(rng, 14, N), random_preferences(rng, 250, 9, 14)
    return Q, D, Preferences(prefs.query, prefs.better, prefs.worse, rng.uniform(0.1, 2, 250).astype(np.float32))


def expected_of(base: Weights, Q, prefs: Preferences, D, rule: OnlineRule, unit: float) -> np.ndarray:
    q, d, scores = Q.toarray().astype(float), D.toarray().astype(float), base.score(Q, D)
    rows = list(zip(prefs.query, prefs.better, prefs.worse, prefs.weight, strict=True))
    return oracles.online_steps(
        [(q[i], d[b], d[w], weight) for i, b, w, weight in rows],
        [(scores[i, b], scores[i, w]) for i, b, w, _ in rows],
        rule,
        unit,
    )


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 40))
def test_a_step_is_confined_to_its_largest_pairs_ties_by_lower_key(values, most):
    vals = np.array(values, np.float32)
    cols, bounds = 2 * np.arange(vals.size, dtype=np.int32), np.array([float(most), 0.0, 0.0])
    keys, change, slots = np.empty(vals.size, np.int64), np.empty(vals.size), 7 * np.arange(vals.size)
    query = np.array([1], np.int32), np.ones(1, np.float32)
    m = propose(100, *query, cols, vals, vals.size, 1.0, 1.0, 1.0, bounds, keys, change, slots)
    kept = np.sort(np.argsort(-np.abs(vals), kind="stable")[:most])
    assert m == (kept.size if vals.any() else 0)
    assert keys[:m].tolist() == (100 + cols[kept[:m]]).tolist()
    assert slots[:m].tolist() == (7 * kept[:m]).tolist()
    assert np.allclose(change[:m] * (vals.astype(float) ** 2)[kept].sum(), vals[kept[:m]])


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("rule", RULES, ids=["default", "small steps", "all the way", "bounded"])
def test_the_learned_part_is_what_plain_steps_give(name, rule):
    base = base_of(name)
    Q, D, prefs = texts()
    learner = OnlineLearner(base, rule)
    result = learner.learn(Q, prefs, D)
    learned = learner.weights.parts[-1].weights.toarray()
    expected = expected_of(base, Q, prefs, D, rule, learner.unit)
    assert np.allclose(learned, expected, atol=1e-4 * np.abs(expected).max())
    assert result.n_preferences == learner.n_steps == 250
    assert 0 < result.n_violations <= 250
    assert learner.weights.parts[:-1] == base.parts


@given(name=st.sampled_from(KINDS), cuts=st.lists(st.integers(0, 250), max_size=6), seed=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_portions_give_the_same_bits(name, cuts, seed):
    base = base_of(name, seed)
    Q, D, prefs = texts(seed)
    rule = OnlineRule(rate=0.5, margin=0.3)
    whole = OnlineLearner(base, rule)
    whole.learn(Q, prefs, D)
    parted = OnlineLearner(base, rule)
    for first, last in pairwise(sorted({0, 250, *cuts})):
        part = prefs[first:last]
        queries, rows = np.unique(part.query, return_inverse=True)
        parted.learn(Q[queries], Preferences(rows, part.better, part.worse, part.weight), D)
    assert sparse_bits(parted.weights) == sparse_bits(whole.weights)
    assert parted.n_steps == 250


def test_a_lead_from_elsewhere_is_made_good_and_one_ahead_needs_no_step():
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    for lead, n_violations, ahead in ((-2.0, 1, 2.0), (5.0, 0, -1.0)):
        learner = OnlineLearner(Weights([Identity(n_terms=3)]), OnlineRule(rate=100.0, **FREELY))
        assert learner.learn(X, Preferences([0], [1], [0]), X, np.array([lead])).n_violations == n_violations
        scores = learner.weights.score(X[[0]], X)[0]
        assert scores[1] - scores[0] >= ahead


def test_steps_have_no_scale_of_their_own():
    Q, D, prefs = texts()
    for name in KINDS:
        base = base_of(name)
        plain, scaled = (OnlineLearner(weights, OnlineRule(rate=0.5)) for weights in (base, base * 8.0))
        plain.learn(Q, prefs, D)
        scaled.learn(Q, prefs, D * np.float32(4.0))
        one, other = (learner.weights.parts[-1].weights.toarray() for learner in (plain, scaled))
        if name not in ("scaled", "mapped-lowrank"):  # which scale documents to unit length
            assert np.allclose(8 * one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def test_preferences_that_hold_change_nothing():
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    learner = OnlineLearner(Weights([Identity(n_terms=3)]))
    assert learner.learn(X, Preferences([0], [0], [1]), X).n_violations == 0
    assert learner.matrix().nnz == 0
    learner.learn(X, Preferences([2], [1], [0]), X)
    assert learner.matrix().nnz == 2


def test_texts_without_words_and_weights_of_preferences():
    X = sparse.csr_array(np.array([[1, 0], [0, 1], [0, 0]], np.float32))
    learner = OnlineLearner(Weights([Identity(n_terms=2)]), OnlineRule(rate=0.1))
    assert learner.learn(X, Preferences([2, 2], [0, 1], [1, 0]), X).n_violations == 0
    assert learner.learn(X, Preferences([], [], []), X).n_preferences == 0
    assert learner.matrix().nnz == 0
    learner.learn(X, Preferences([0], [1], [0], weight=[2.0]), X)
    other = OnlineLearner(Weights([Identity(n_terms=2)]), OnlineRule(rate=0.2))
    other.learn(X, Preferences([0], [1], [0]), X)
    assert sparse_bits(learner.weights) == sparse_bits(other.weights)


def test_what_cannot_be_learned_on_is_refused():
    for wrong in ({"rate": -1.0}, {"rate": 0.0}, {"margin": 0.0, "least_margin": 0.0}, {"step": True}):
        with pytest.raises(InputError, match=r"rate|step"):
            OnlineRule(**wrong)
