"""Rankers that learn on a GPU, each with what it can be asked to do, and small texts for them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import tercet as tc
from support.random_data import random_preferences, random_texts

N_TERMS = 40


def some_texts(n: int = 60, seed: int = 0) -> sparse.csr_array:
    return random_texts(np.random.default_rng(seed), n, N_TERMS)


def some_preferences(n: int = 300, seed: int = 1) -> tc.Preferences:
    return random_preferences(np.random.default_rng(seed), n, 60, 60)


RANKERS = {
    "low rank": lambda **p: tc.LowRankRanker(n_components=5, rate=0.3, **p),
    "low rank, tied": lambda **p: tc.LowRankRanker(n_components=9, tied=True, rate=0.3, **p),
    "low rank, no diagonal": lambda **p: tc.LowRankRanker(n_components=4, diagonal=None, spread=0.5, rate=0.3, **p),
    "low rank, learned diagonal": lambda **p: tc.LowRankRanker(n_components=5, diagonal="learned", rate=0.3, **p),
    "low rank, few words": lambda **p: tc.LowRankRanker(n_components=5, n_frequent=20, rate=0.3, **p),
    "low rank, documents stay": lambda **p: tc.LowRankRanker(
        n_components=5, start="lsi", learn_documents=False, diagonal="learned", rate=0.5, **p
    ),
    "cosine": lambda **p: tc.LowRankRanker(
        n_components=5, normalize="latent", diagonal=None, margin=0.3, spread=0.5, rate=0.3, **p
    ),
    "diagonal": lambda **p: tc.DiagonalRanker(rate=0.7, **p),
    "dense": lambda **p: tc.DenseRanker(rate=3.0, **p),
    "dense, zero diagonal": lambda **p: tc.DenseRanker(rate=3.0, diagonal="zero", **p),
    "sparse": lambda **p: tc.SparseRanker(rate=3.0, l1=2e-3, shrink_every=7, **p),
    "sparse, without refit": lambda **p: tc.SparseRanker(rate=3.0, l1=2e-3, shrink_every=7, refit=False, **p),
    "sparse, on low rank": lambda **p: tc.SparseRanker(density=0.2, sparsify="low-rank", **p),
}


def same(one, other, **tolerance) -> None:
    terms = np.arange(N_TERMS)
    np.testing.assert_allclose(one.weights_.rows(terms), other.weights_.rows(terms), rtol=2e-4, atol=2e-5, **tolerance)
