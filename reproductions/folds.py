"""Tasks of LETOR rows: graded feature vectors, the rows of a query together, to learn from, choose on and test on."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError
from tercet.measure import Orders, compare_orders, measure_rows

USED, SECONDS, MEGABYTES = "features used", "seconds", "megabytes"
OF_THE_RANKER = (USED, SECONDS, MEGABYTES)
DISAGREEMENT, MISORDERED = "disagreement", "misordered"
OF_PAIRS = (DISAGREEMENT, MISORDERED)
_ORDER_SEED = 4000  # added to the seed of an order, so that what is drawn later does not depend on it


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Feature vectors with a grade or a score each, the rows of a query one after another.

    Attributes
    ----------
    X : (n_rows, n_features), dense or CSR
    y : (n_rows,) higher is better
    qid : (n_rows,) ids of the queries, as strings
    starts : (n_queries + 1,) first row of each query, and the number of rows
    qids : (n_queries,) id of each query, in the order of the rows

    Examples
    --------
    >>> rows = QueryRows(np.eye(3), np.array([0.5, 0.25, 1.0]), np.array(["7", "7", "8"]))
    >>> rows.qids.tolist(), rows.starts.tolist()
    (['7', '8'], [0, 2, 3])
    """

    X: Any
    y: NDArray[Any]
    qid: NDArray[np.str_]

    def __post_init__(self) -> None:
        if self.y.shape != (self.X.shape[0],) or self.qid.shape != self.y.shape:
            raise InputError(f"X has {self.X.shape[0]} rows, y has shape {self.y.shape}, qid has {self.qid.shape}")
        if len(set(self.qids.tolist())) < self.n_queries:
            raise InputError("the rows of a query must follow one another")

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        changes = np.flatnonzero(self.qid[1:] != self.qid[:-1]) + 1
        return np.concatenate([[0], changes, [len(self.qid)]]) if len(self.qid) else np.zeros(1, dtype=np.int64)

    @cached_property
    def qids(self) -> NDArray[np.str_]:
        return self.qid[self.starts[:-1]]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        return len(self.qids)

    def take(self, rows: NDArray[np.int64]) -> QueryRows:
        """Some rows, those of a query together."""
        return QueryRows(self.X[rows], self.y[rows], self.qid[rows])


@dataclass(frozen=True, eq=False)
class FoldTask:
    """One fold: training rows, validation rows (or None) and test rows."""

    name: str
    train: QueryRows
    validation: QueryRows | None
    test: QueryRows

    def both(self) -> QueryRows:
        """Training and validation part together."""
        return self.train if self.validation is None else stacked([self.train, self.validation])

    def measure(self, ranker: Any, names: Iterable[str]) -> dict[str, NDArray[np.float64]]:
        """Each measure of each test query's ranking."""
        return measure_by_query(ranker.predict(self.test.X), self.test, names)


def folds_statistics(folds: Sequence[FoldTask]) -> dict[str, int]:
    """Return the printed facts about the data, over the test queries of all folds."""
    tests = [fold.test for fold in folds]
    return {
        "queries": sum(test.n_queries for test in tests),
        "features": tests[0].n_features,
        "relevance levels": len(np.unique(np.concatenate([test.y for test in tests]))),
        "query-document pairs": sum(len(test) for test in tests),
    }


# -- rows -------------------------------------------------------------------------------------------------------------


def stacked(parts: Sequence[QueryRows]) -> QueryRows:
    """Rows one after another; no query may be in two parts."""
    is_sparse = sparse.issparse(parts[0].X)
    X = sparse.vstack([part.X for part in parts], format="csr") if is_sparse else np.vstack([part.X for part in parts])
    return QueryRows(X, np.concatenate([part.y for part in parts]), np.concatenate([part.qid for part in parts]))


def first_queries(fold: FoldTask, n: int | None) -> FoldTask:
    """The fold with so many queries of each part at most."""

    def first(data: QueryRows) -> QueryRows:
        return data if n is None else data.take(np.arange(data.starts[min(n, data.n_queries)]))

    validation = None if fold.validation is None else first(fold.validation)
    return FoldTask(fold.name, first(fold.train), validation, first(fold.test))


def in_random_order(data: QueryRows, seed: int) -> QueryRows:
    """The same queries with the rows of each in a random order.

    Equal scores stand in the order of the rows, and that of a file may be a good ranking already.
    """
    orders = [random.permutation(rows) for random, rows in _by_query(data, _ORDER_SEED + seed)]
    return data.take(np.concatenate(orders))


def drawn_rows(data: QueryRows, per_query: int, seed: int) -> NDArray[np.int64]:
    """Draw up to ``per_query`` rows of each query, in ascending order.

    The rows depend on the query id and the seed only, not on other queries.
    """
    return np.concatenate(
        [
            np.sort(random.choice(rows, min(per_query, rows.size), replace=False))
            for random, rows in _by_query(data, seed)
        ]
    )


def _by_query(data: QueryRows, seed: int) -> Iterator[tuple[np.random.Generator, NDArray[np.int64]]]:
    """The rows of each query, with a generator of its own."""
    for qid, start, end in zip(data.qids.tolist(), data.starts[:-1], data.starts[1:], strict=True):
        yield np.random.default_rng([seed, zlib.crc32(qid.encode())]), np.arange(start, end)


# -- measures ---------------------------------------------------------------------------------------------------------


def measure_by_query(scores: NDArray[Any], data: QueryRows, names: Iterable[str]) -> dict[str, NDArray[np.float64]]:
    """Return each ranking measure for each query, in row order; other measures are skipped.

    A query without a relevant document, or without pairs, counts as 0.
    """
    listed = [name for name in names if name not in OF_THE_RANKER]
    ranked = [name for name in listed if name not in OF_PAIRS]
    values: dict[str, NDArray[np.float64]] = {}
    if ranked:
        evaluation = measure_rows(data.y, scores, data.qid, ranked)
        values = {name: evaluation[name] for name in ranked}
    if len(ranked) < len(listed):
        orders = compare_orders(scores, data.y, data.qid)
        values |= {name: _of_pairs(name, orders, data) for name in listed if name in OF_PAIRS}
    return {name: values[name] for name in listed}


def _of_pairs(name: str, orders: Orders, data: QueryRows) -> NDArray[np.float64]:
    errors = orders.disagreement if name == DISAGREEMENT else 1.0 - orders.concordance
    number = {qid: i for i, qid in enumerate(data.qids.tolist())}
    values = np.zeros(data.n_queries)
    values[[number[qid] for qid in orders.qids]] = np.nan_to_num(errors, nan=0.0)
    return values
