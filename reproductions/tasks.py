"""Tasks of rows with classes, and parts shared with tasks of links.

A data set has one task, or one task for each fold. A task has training matrices (Q, D), draws training and test
preferences (`train`, `test`), and measures a model on test queries (`measure`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import Preferences
from tercet.measure import average_precision_of_classes
from tercet.weights import Dense, Diagonal, Identity, Mapped, Sparse, Weights

_CHUNK = 4096
TEST_SEED = 1000  # added to the seed for test preferences
_QUERY_SEED = 0  # of the test queries, where some are drawn


# -- tasks of preferences ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightedMatch:
    """A weights value, and the representation of queries if that is not their own."""

    weights: Weights
    represent: Callable[[sparse.csr_array], sparse.csr_array] | None = None

    def queries(self, Q: sparse.csr_array) -> sparse.csr_array:
        return Q if self.represent is None else self.represent(Q)


@dataclass(frozen=True, eq=False)
class WordMap:
    """Maps from the task's words to a method's words; ``nearest`` has the replacements of a word."""

    A: sparse.csr_array
    B: sparse.csr_array
    nearest: Callable[[int, int], list[tuple[int, float]]] | None = None

    def lift(self, weights: Weights) -> Weights:
        """The same weights on the task's own words."""
        return Weights([Mapped(A=self.A, B=self.B, part=part) for part in weights.parts])


@dataclass(frozen=True, eq=False)
class Measured:
    """Measures of a model on the test queries.

    Attributes
    ----------
    means : by the name of the measure
    by_query : values of each query
    wrong : numbers of the wrongly ranked test preferences
    """

    means: dict[str, float]
    by_query: dict[str, list[float]]
    wrong: list[int]


def wrong_preferences(
    match: WeightedMatch, Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences
) -> NDArray[np.bool_]:
    """Which preferences on these rows are not ranked right; a tie is not."""
    margins = np.empty(len(prefs))
    for start in range(0, len(prefs), _CHUNK):
        chunk = prefs[start : start + _CHUNK]
        queries = match.queries(Q[chunk.query])
        better, worse = (match.weights.score_rows(queries, D[rows]) for rows in (chunk.better, chunk.worse))
        margins[start : start + _CHUNK] = better - worse
    return margins <= 0


@dataclass(frozen=True, eq=False)
class ClassTask:
    """Rows and classes of both halves: a row is a query for other rows of the class.

    ``words`` name the columns, if known. ``test_queries`` limits the test rows taken as queries; the documents are all
    test rows.
    """

    Q: sparse.csr_array
    y: NDArray[Any]
    Q_test: sparse.csr_array
    y_test: NDArray[Any]
    words: list[str] | None = None
    test_queries: int | None = None

    @property
    def D(self) -> sparse.csr_array:
        return self.Q

    def statistics(self) -> dict[str, int]:
        return {
            "training samples": self.Q.shape[0],
            "testing samples": self.Q_test.shape[0],
            "classes": len(np.union1d(self.y, self.y_test)),
            "dictionary size": self.Q.shape[1],
            "free parameters": self.Q.shape[1] ** 2,
        }

    def train(self, n: int, seed: int, share: float = 1.0, uniform_over: str = "links") -> Preferences:
        """Preferences to learn from; ``share`` and ``uniform_over`` are for links."""
        return Preferences.from_labels(self.y, n, random_state=seed)

    def test(self, n: int, seed: int) -> Preferences:
        """Preferences to measure the error on."""
        return Preferences.from_labels(self.y_test, n, random_state=TEST_SEED + seed)

    def measure(self, match: WeightedMatch, prefs: Preferences) -> Measured:
        """Average precision of each test query, wrong test preferences, and their means."""
        precision = average_precision_of_classes(match.weights, self.Q_test, self.y_test, self._asked())
        wrong = self.wrong(match, prefs)
        means = {"map": float(precision.mean()), "error": float(wrong.mean())}
        return Measured(means, {"map": precision.tolist()}, np.flatnonzero(wrong).tolist())

    def wrong(self, match: WeightedMatch, prefs: Preferences) -> NDArray[np.bool_]:
        return wrong_preferences(match, self.Q_test, self.Q_test, prefs)

    def _asked(self) -> NDArray[np.int64] | None:
        """The test rows that are queries, in ascending order; None for all."""
        n = len(self.y_test)
        if self.test_queries is None or self.test_queries >= n:
            return None
        return np.sort(np.random.default_rng(_QUERY_SEED).choice(n, self.test_queries, replace=False))

    def with_fewer_rows(self, train_rows: int | None, test_rows: int | None) -> ClassTask:
        """The same with fewer rows."""
        train, test = _spread(len(self.y), train_rows), _spread(len(self.y_test), test_rows)
        return replace(self, Q=self.Q[train], y=self.y[train], Q_test=self.Q_test[test], y_test=self.y_test[test])


def _spread(n: int, most: int | None) -> NDArray[np.int64]:
    """Evenly spaced rows: files are sorted by class."""
    return np.linspace(0, n - 1, n if most is None else min(n, most)).astype(np.int64)


# -- the size of W ----------------------------------------------------------------------------------------------------


def n_nonzero(weights: Weights) -> int:
    """Count the non-zero entries of W as the papers do: a low-rank W has all entries."""
    n, m = weights.shape
    if len(weights.parts) == 1 and isinstance(weights.parts[0], Dense):
        return int(np.count_nonzero(weights.parts[0].weights))
    if not all(isinstance(part, (Identity, Diagonal, Sparse)) for part in weights.parts):
        return n * m
    W = sparse.csr_array((n, m), dtype=np.float32) if weights.sparse is None else weights.sparse
    if weights.identity or weights.diagonal is not None:
        on_diagonal = np.full(n, weights.identity) + (0.0 if weights.diagonal is None else weights.diagonal)
        W = W + sparse.diags_array(on_diagonal, format="csr")
    return int(W.count_nonzero())


def megabytes(n_entries: float, n_rows: int) -> float:
    """A compressed sparse row matrix in double precision: value and column of each entry, a pointer for each row.

    In units of 2**20 bytes.
    """
    return (16 * n_entries + 8 * (n_rows + 1)) / 2**20


def measure_size(weights: Weights) -> dict[str, float]:
    """Non-zeros, the share of W they are, and megabytes."""
    n, m = weights.shape
    entries = n_nonzero(weights)
    return {"density": entries / (n * m), "memory": megabytes(entries, n)}
