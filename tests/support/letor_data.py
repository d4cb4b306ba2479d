"""Made-up feature vectors with a known answer."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tercet.data import LetorData

RELEVANT = {1: 1.0, 4: -0.8}  # columns that grades follow from, and how


def made_up(
    seed: int,
    n_queries: int = 30,
    n_docs: int = 12,
    n_features: int = 10,
    *,
    noise: float = 0.15,
    first_query: int = 0,
    is_sparse: bool = False,
    comments: bool = False,
) -> LetorData:
    """Grades 0 to 2 by two of the features and some noise; the rows of a query are in no order."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_queries * n_docs, n_features)).astype(np.float32)
    if is_sparse:
        X *= rng.random(X.shape) < 0.15
    truth = sum(X[:, column] * weight for column, weight in RELEVANT.items() if column < n_features)
    truth = truth + noise * rng.standard_normal(len(X))
    y = np.zeros(len(X), int)
    for start in range(0, len(X), n_docs):
        best_first = start + np.argsort(-truth[start : start + n_docs])
        y[best_first[:2]], y[best_first[2:5]] = 2, 1
    qid = np.repeat([f"q{first_query + query}" for query in range(n_queries)], n_docs)
    notes = tuple(f"docid = d{row % n_docs} inc = 1" for row in range(len(X))) if comments else None
    return LetorData(sparse.csr_array(X) if is_sparse else X, y, qid, notes)
