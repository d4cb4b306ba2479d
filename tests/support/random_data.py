"""Random texts and preferences, and both as oracles take them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tercet import Preferences


def random_texts(rng: np.random.Generator, n: int, n_terms: int, density: float = 0.3) -> sparse.csr_array:
    """Rows of unit length with non-negative entries, some of them empty."""
    X = rng.random((n, n_terms)) * (rng.random((n, n_terms)) < density)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    X = np.divide(X, length, out=np.zeros_like(X), where=length > 0)
    return sparse.csr_array(X.astype(np.float32))


def random_preferences(rng: np.random.Generator, n: int, n_queries: int, n_docs: int) -> Preferences:
    better = rng.integers(0, n_docs, n)
    worse = (better + rng.integers(1, n_docs, n)) % n_docs
    return Preferences(rng.integers(0, n_queries, n), better, worse)


def as_vectors(prefs: Preferences, Q: sparse.csr_array, D: sparse.csr_array):
    """Preferences as the dense double-precision vectors that oracles take."""
    q, d = Q.toarray().astype(float), D.toarray().astype(float)
    return [(q[i], d[b], d[w]) for i, b, w in zip(prefs.query, prefs.better, prefs.worse, strict=True)]
