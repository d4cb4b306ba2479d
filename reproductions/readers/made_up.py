"""Made-up rows whose queries have offsets of their own, as the sentences of a parse ranking have: nothing is read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reproductions.folds import QueryRows

N_WAVES = 1000  # that the planted function is a sum of
NOISE = 0.5  # standard deviation; the function's and the offsets' are 1


def make_offsets(
    train_queries: int, test_queries: int, rows_of_query: int, n_features: int, seed: int = 0
) -> tuple[QueryRows, QueryRows]:
    """Rows to learn from and rows to test on, ``y = g(x) + offset of the query + noise``.

    - ``x = (s + v) / √2``: s is the query's, v the row's own, both standard normal. Rows of a query resemble one
      another.
    - g is a random function with the Gaussian kernel ``exp(-|a - b|² / n_features)`` for its covariance, of standard
      deviation 1: a sum of ``N_WAVES`` cosines.
    - The offset is normal with standard deviation 1, independent of x; the noise is normal with ``NOISE``.

    Examples
    --------
    >>> train, test = make_offsets(3, 2, 4, n_features=5)
    >>> train.X.shape, train.qids.tolist(), test.X.shape, test.qids.tolist()
    ((12, 5), ['0', '1', '2'], (8, 5), ['3', '4'])
    """
    rng = np.random.default_rng(seed)
    n_queries = train_queries + test_queries
    query = np.repeat(np.arange(n_queries), rows_of_query)
    own, shared = rng.normal(size=(len(query), n_features)), rng.normal(size=(n_queries, n_features))
    X = (shared[query] + own) / np.sqrt(2.0)
    y = _planted(X, rng) + rng.normal(size=n_queries)[query] + NOISE * rng.normal(size=len(query))
    is_train = query < train_queries
    qid = query.astype(np.str_)
    return QueryRows(X[is_train], y[is_train], qid[is_train]), QueryRows(X[~is_train], y[~is_train], qid[~is_train])


def _planted(X: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """``√(2 / N_WAVES) Σ cos(w·x + phase)``, with w from the kernel's spectrum."""
    frequency = np.sqrt(2.0 / X.shape[1]) * rng.normal(size=(X.shape[1], N_WAVES))
    phase = rng.uniform(0.0, 2.0 * np.pi, N_WAVES)
    return np.asarray(np.sqrt(2.0 / N_WAVES) * np.cos(X @ frequency + phase).sum(axis=1), dtype=np.float64)
