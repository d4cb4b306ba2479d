"""Query expansion against the paper's formula, and the choice of its parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from reproductions.rivals import QueryExpansion
from support.random_data import random_preferences, random_texts


def made_texts(seed):
    rng = np.random.default_rng(seed)
    return random_texts(rng, 8, 15, density=0.15), random_texts(rng, 20, 15, density=0.25)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), beta=st.sampled_from([0.0, 0.1, 2.0]), n=st.sampled_from([1, 3, 20, 99]))
def test_query_expansion_is_the_papers_sum(seed, beta, n):
    Q, D = made_texts(seed)
    nothing = tc.Preferences([0], [0], [1])
    found = QueryExpansion(betas=[beta], depths=[n]).fit(Q, nothing, D).represent_queries(Q)
    expected = [oracles.query_expansion(q, D.toarray().astype(float), beta, n) for q in Q.toarray().astype(float)]
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)
    assert found.dtype == np.float32
    assert found.has_canonical_format


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_the_least_rank_loss_of_the_grid_is_taken(seed, weighted):
    Q, D = made_texts(seed)
    rng = np.random.default_rng(seed)
    drawn = random_preferences(rng, 60, 8, 20)
    weight = rng.random(60) + 0.1 if weighted else None
    prefs = tc.Preferences(drawn.query, drawn.better, drawn.worse, weight)
    betas, depths = (0.0, 0.2, 1.0), (1, 4)
    losses = {
        (b, n): loss_of(QueryExpansion(betas=[b], depths=[n]).fit(Q, prefs, D), Q, D, prefs)
        for b in betas
        for n in depths
    }
    tuned = QueryExpansion(betas=betas, depths=depths).fit(Q, prefs, D)
    assert losses[tuned.beta_, tuned.n_expanded_] == pytest.approx(min(losses.values()), abs=1e-6)


def loss_of(expansion, Q, D, prefs):
    scores = expansion.represent_queries(Q).toarray().astype(float) @ D.toarray().astype(float).T
    wrong = scores[prefs.query, prefs.better] - scores[prefs.query, prefs.worse] <= 0
    return np.average(wrong, weights=prefs.weight)


def test_choosing_helps_where_word_matching_fails():
    rng = np.random.default_rng(0)
    topic = np.arange(120) % 4
    X = np.zeros((120, 60), dtype=np.float32)
    for i in range(120):
        X[i, topic[i] * 15 + rng.choice(15, 4, replace=False)] = 0.5
    X = sparse.csr_array(X)
    prefs = tc.Preferences.from_labels(topic, 2000)
    before = (tc.CosineRanker().fit(X).margins(X, prefs) <= 0).mean()
    tuned = QueryExpansion().fit(X, prefs, X)
    after = (tc.CosineRanker().fit(X).margins(tuned.represent_queries(X), prefs, X) <= 0).mean()
    assert after < 0.05 < 0.2 < before
