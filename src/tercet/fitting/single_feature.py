"""The best single feature of rows: the baseline of every ranker of feature vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import LetorData
from tercet.measure import Measure, measure_rows

MOST_CELLS = 2_000_000  # rows times features of the search
MOST_FEATURES = 5_000  # features of the search


@dataclass(frozen=True)
class SingleFeature:
    """Feature to rank by, counted from 0; ``sign`` is -1 if less of the feature is better."""

    column: int
    sign: int

    def predict(self, X: Any) -> NDArray[np.float64]:
        values = X[:, [self.column]]
        values = values.toarray() if sparse.issparse(values) else values
        return self.sign * np.asarray(values, dtype=np.float64).ravel()

    def label(self, names: tuple[str, ...] | None) -> str:
        name = f"best feature: {self.column + 1}" + ("" if names is None else f" {names[self.column][:30]}")
        return name + (", reversed" if self.sign < 0 else "")


def best_feature(data: LetorData, measure: Measure, random_state: int = 0) -> SingleFeature:
    """Find the feature that ranks the queries best by itself, upwards or downwards; of equal features the first.

    Large sets are searched in a random sample of queries with `MOST_CELLS` values. Wide sets are searched in the
    `MOST_FEATURES` features that most rows have.
    """
    sizes = np.diff(data.starts)
    number = np.repeat(np.arange(data.n_queries), sizes)
    drawn = np.random.default_rng(random_state).permutation(data.n_queries)
    enough = int(np.searchsorted(np.cumsum(sizes[drawn]), MOST_CELLS // data.n_features)) + 1
    rows = np.flatnonzero(np.isin(number, drawn[:enough]))
    rows = rows[mixed_rows(number[rows], random_state)]
    X = sparse.csc_array(data.X[rows])
    columns = np.flatnonzero(X.min(axis=0).toarray().ravel() < X.max(axis=0).toarray().ravel())
    if len(columns) > MOST_FEATURES:
        columns = np.sort(columns[np.argsort(-np.diff(X.indptr)[columns], kind="stable")[:MOST_FEATURES]])
    up = 1 if measure.higher_is_better else -1

    def value(feature: SingleFeature) -> float:
        return up * measure_rows(data.y[rows], feature.predict(X), number[rows], measure).mean(measure)

    return max((SingleFeature(j, sign) for j in columns.tolist() or [0] for sign in (1, -1)), key=value)


def mixed_rows(qid: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Return all row numbers, query by query, the rows of a query in random order.

    Equal scores count in the order of the rows, so a file sorted by grade flatters what has many.
    """
    order = np.random.default_rng(seed).permutation(len(qid))
    _, query = np.unique(qid[order], return_inverse=True)
    return order[np.argsort(query, kind="stable")]
