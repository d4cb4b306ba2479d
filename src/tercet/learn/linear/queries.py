"""Rows grouped by their query, for the kernels over pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.row_queries import query_numbers
from tercet.kernels.pairs import QueryDocs

_FEW_GRADES = 32


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries with pairs, in the order of their first rows; a query without pairs teaches nothing.

    rows (n,) row numbers by query, in their order; starts (n_queries + 1,) first position of each query;
    grades (n,) 0, 1, … by rising label; labels (n,) as given; n_grades, n_pairs (n_queries,)
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    grades: NDArray[np.int32]
    labels: NDArray[np.float64]
    n_grades: NDArray[np.int64]
    n_pairs: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.n_pairs)

    def arrays(self) -> QueryDocs:
        """Return the arrays for kernels."""
        return QueryDocs(self.rows, self.starts, self.grades, self.labels, self.n_grades, self.n_pairs)

    @classmethod
    def from_labels(cls, y: NDArray[Any], qid: Any) -> Queries:
        """Group the rows of labels ``y`` by their query id; ``qid=None`` means a single query."""
        labels = np.asarray(y, dtype=np.float64)
        query, n_queries = query_numbers(qid, len(labels))
        if (np.diff(query) < 0).any():
            rows = np.argsort(query, kind="stable")
            query, labels = query[rows], labels[rows]
        else:
            rows = np.arange(len(labels))
        grades, n_grades = _grades(labels, query, n_queries)
        sizes = np.bincount(query, minlength=n_queries)
        offsets = np.concatenate([[0], np.cumsum(n_grades)])
        per_grade = np.bincount(offsets[query] + grades, minlength=offsets[-1])
        same = np.add.reduceat(per_grade * per_grade, offsets[:-1])
        n_pairs = (sizes * sizes - same) // 2
        keep = n_pairs > 0
        if not keep.all():
            is_kept = keep[query]
            rows, grades, labels = rows[is_kept], grades[is_kept], labels[is_kept]
            sizes, n_grades, n_pairs = sizes[keep], n_grades[keep], n_pairs[keep]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return cls(rows, starts, grades, labels, n_grades, n_pairs)

    def subset(self, numbers: NDArray[np.int64]) -> Queries:
        """These of the queries, counted from 0, in this order; rows keep their numbers."""
        lengths = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], lengths)
        return Queries(
            self.rows[positions],
            starts,
            self.grades[positions],
            self.labels[positions],
            self.n_grades[numbers],
            self.n_pairs[numbers],
        )


def _grades(
    labels: NDArray[np.float64], query: NDArray[np.int64], n_queries: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return numbers from 0 up in the order of the labels within each query, and the number of possible grades."""
    lowest, highest = float(labels.min()), float(labels.max())
    if highest - lowest < _FEW_GRADES:
        whole = (labels - lowest).astype(np.int32)
        if (whole + lowest == labels).all():  # not whole == labels - lowest, which may have been rounded
            return whole, np.full(n_queries, int(highest - lowest) + 1)
    order = np.lexsort((labels, query))
    ordered, owner = labels[order], query[order]
    new_query = np.concatenate([[True], owner[1:] != owner[:-1]])
    rises = np.concatenate([[False], ordered[1:] != ordered[:-1]]) & ~new_query
    height = np.cumsum(rises)
    rank = height - height[new_query][owner]
    grades = np.empty(len(labels), dtype=np.int32)
    grades[order] = rank
    n_grades = np.zeros(n_queries, dtype=np.int64)
    n_grades[owner] = rank + 1  # the last, and highest, of each query stays
    return grades, n_grades


def mean_ranges(X: Any, queries: Queries) -> NDArray[np.float64]:
    """Mean over queries of max - min of each feature, without queries where the feature is constant (n_features,).

    1 for a feature that is constant in every query. Costs a look at every value.
    """
    total, n_varying = _sparse_ranges(X, queries) if sparse.issparse(X) else _dense_ranges(X, queries)
    varies = n_varying > 0
    return np.where(varies, total, 1.0) / np.where(varies, n_varying, 1)


def _dense_ranges(X: NDArray[Any], queries: Queries) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sum of the ranges of each feature, and number of queries with a range above 0."""
    rows, starts = queries.rows, queries.starts[:-1]
    ordered = X if len(rows) == len(X) and (rows == np.arange(len(X))).all() else X[rows]
    ranges = np.maximum.reduceat(ordered, starts).astype(np.float64) - np.minimum.reduceat(ordered, starts)
    return ranges.sum(axis=0), np.count_nonzero(ranges, axis=0)


def _sparse_ranges(X: Any, queries: Queries) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Like `_dense_ranges`, from the stored values of each query and feature."""
    ordered, n_features = X[queries.rows], X.shape[1]
    ordered.sum_duplicates()  # of a matrix that has an entry in parts
    lengths = np.diff(queries.starts)
    query = np.repeat(np.repeat(np.arange(len(queries)), lengths), np.diff(ordered.indptr))
    key = query * n_features + ordered.indices
    order = np.argsort(key, kind="stable")
    values, key = ordered.data[order].astype(np.float64), key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
    query, feature = np.divmod(key[first], n_features)
    high, low = (extreme.reduceat(values, first) if len(first) else values for extreme in (np.maximum, np.minimum))
    is_full = np.diff(np.append(first, len(values))) == lengths[query]  # otherwise 0 is among its values
    ranges = np.where(is_full, high, np.maximum(high, 0.0)) - np.where(is_full, low, np.minimum(low, 0.0))
    total = np.bincount(feature, weights=ranges, minlength=n_features).astype(np.float64)
    return total, np.bincount(feature[ranges > 0], minlength=n_features)
