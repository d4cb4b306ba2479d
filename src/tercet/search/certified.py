"""Exact answers from engines that only bound a score: rank again what they list, and list until nobody can be missing.

An engine lists documents by a bound of their scores. The best of them are ranked by their exact scores. The answer is
exact once every document that was not listed has a bound, rounding included, strictly below the last score of the
answer; equal scores are ordered by row, so a tie must be listed, too. Until then twice as many are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_MORE = 10  # documents asked for at first beyond twice those wanted
_AT_ONCE = 1024  # documents ranked again at a time when all that count are

Rows = NDArray[np.int64]


class BoundingEngine(Protocol):
    """One query, as an engine sees it.

    Attributes
    ----------
    error : by how much at most a document's score is above its bound
    unlisted : the bound of those documents that count and that `by_bound` never lists; ``-inf`` where there are none
    """

    error: float
    unlisted: float

    def by_bound(self, n: int) -> tuple[Rows, NDArray[np.float64]]:
        """The n documents of largest bound and their bounds, largest first; fewer than n where it lists no more."""
        ...

    def counting(self) -> Rows:
        """All documents that count, in any order; asked for only where `unlisted` ones may belong to the answer."""
        ...

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Exact scores of documents."""
        ...


@dataclass(frozen=True, eq=False)
class Certified:
    """An exact answer.

    Attributes
    ----------
    rows, scores : of the best documents, best first, equal scores by row
    depth : how many documents were ranked again for it
    """

    rows: Rows
    scores: NDArray[np.float64]
    depth: int


def certified_rerank(engine: BoundingEngine, k: int, first: int | None = None) -> Certified:
    """The k documents with the largest exact scores.

    Costs as many exact scores as it takes to be sure; `Certified.depth` says how many that were.

    Parameters
    ----------
    engine : a query to it
    k : how many
    first : how many documents to ask for at first, then twice as many; at least k. None is 2k + 10, for bounds that are
        not tight

    Examples
    --------
    >>> class Listed:  # bounds are scores that were rounded up
    ...     error, unlisted, true = 0.0, -np.inf, np.array([0.2, 0.9, 0.55, 0.6])
    ...     def by_bound(self, n):
    ...         bounds = np.ceil(self.true * 10) / 10
    ...         rows = np.argsort(-bounds, kind="stable")[:n]
    ...         return rows, bounds[rows]
    ...     def counting(self):
    ...         return np.arange(4)
    ...     def scores(self, rows):
    ...         return self.true[rows]
    >>> certified_rerank(Listed(), 2).rows.tolist()
    [1, 3]
    """
    rows, scores = np.empty(0, dtype=np.int64), np.empty(0)
    depth = 2 * k + _MORE if first is None else max(k, first)
    while True:
        listed, bounds = engine.by_bound(depth)
        new = listed[~np.isin(listed, rows)]
        rows, scores = np.concatenate([rows, new]), np.concatenate([scores, engine.scores(new)])
        rest = float(bounds[-1]) if listed.size >= depth else -np.inf
        last = float(np.partition(scores, -k)[-k]) if scores.size >= k else -np.inf
        if max(rest, engine.unlisted) + engine.error < last or rest == engine.unlisted == -np.inf:
            return Certified(*ranked(rows, scores, k), rows.size)
        if rest <= engine.unlisted:
            break  # documents further down the list are no better than those that are not on it
        depth *= 2
    depth = rows.size
    for some in _in_portions(np.setdiff1d(engine.counting(), rows)):
        best_rows, best_scores = ranked(rows, scores, k)
        rows = np.concatenate([best_rows, some])
        scores = np.concatenate([best_scores, engine.scores(some)])
        depth += some.size
    return Certified(*ranked(rows, scores, k), depth)


def ranked(rows: Rows, scores: NDArray[np.float64], k: int) -> tuple[Rows, NDArray[np.float64]]:
    """The k best, best first, equal scores by row."""
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def _in_portions(rows: Rows) -> Iterator[Rows]:
    yield from (rows[start : start + _AT_ONCE] for start in range(0, rows.size, _AT_ONCE))
