"""AdaRank: boosting of single features towards a measure of whole rankings, here NDCG (Xu and Li 2007)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.kernels.ndcg import ndcg_values
from tercet.learn.base import Count
from tercet.learn.linear.base import LinearRanker, scores
from tercet.learn.linear.queries import Queries

_PERFECT = 1e-12  # what a feature may miss and still count as right on every query


@dataclass(eq=False, repr=False, kw_only=True)
class AdaRankRanker(LinearRanker):
    """A linear ranker put together from single features, each chosen for the queries the others rank badly.

    With E(q) the NDCG of query q and P its weight, at first the same for all, each round takes the feature with the
    highest ``sum P E`` when it alone ranks, adds ``log(sum P (1 + E) / sum P (1 - E)) / 2`` to its weight, and sets
    ``P = exp(-E)``, made to sum up to 1, by how the ranker so far ranks each query.

    Parameters
    ----------
    at : the length k of NDCG@k; None takes whole rankings
    max_iter : rounds at most
    both_ways : let a feature rank from its lowest value up as well, with a negative weight. The paper has features
        that all rise with relevance
    repeat : let a feature be chosen more than once, as the paper does. Importances differ little, so this mostly
        ends in rounds that choose the same one or two features; when a round changes nothing, it is the last.
        Otherwise each feature is chosen once at most
    scale_features : learn from features divided by how far they reach within a query, on average, so that nothing
        depends on their units; ``coef_`` is for features as they are given

    Attributes
    ----------
    coef_ : weights (n_features,), those of the round with the highest mean NDCG on what was learned from
    n_iter_ : rounds done
    ndcg_ : the mean NDCG they reach

    Notes
    -----
    Costs O(n_features n_rows log n) with n the documents of a query, and O(n_rows (n_features + log n)) a round.
    Features should be of the same scale, as in LETOR's QueryLevelNorm files. Gains are 2^label - 1; labels other than
    whole numbers from 0 to 31 are counted by their order in the query. Equal scores count by the mean over all their
    orders.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.3, 0.2], [0.4, 0.1], [0.9, 0.3], [0.1, 0.2], [0.5, 0.4], [0.2, 0.5]])
    >>> ranker = AdaRankRanker().fit(X, [1, 0, 1, 0, 1, 0], qid=["a", "a", "b", "b", "c", "c"])
    >>> ranker.coef_.round(3)
    array([3.406, 0.   ])
    """

    at: Count | None = 10
    max_iter: Count = 100
    both_ways: bool = True
    repeat: bool = False

    _learned_scalars: ClassVar[dict[str, type]] = {"n_iter": int, "ndcg": float}

    def _learn(self, X: Any, queries: Queries) -> None:
        ranked = _Ranked(X, queries.by_gain(), self.at)
        alone = ranked.by_each_feature(both_ways=self.both_ways)  # (n_signs, n_features, n_queries)
        n_features = alone.shape[1]
        w, best, reached = np.zeros(n_features), np.zeros(n_features), -np.inf
        importance = np.full(len(queries), 1.0 / len(queries))
        last, n_iter = None, 0
        while n_iter < (self.max_iter if self.repeat else min(self.max_iter, n_features)):
            n_iter += 1
            worth = alone @ importance
            if not self.repeat:
                worth[:, w != 0] = -np.inf
            sign, feature = chosen = np.unravel_index(int(worth.argmax()), worth.shape)
            way = -1.0 if sign else 1.0
            missed = float(importance @ (1.0 - alone[chosen]))
            if missed <= _PERFECT:
                w = np.zeros(n_features)
                w[feature] = way
            else:
                w[feature] += way * np.log(float(importance @ (1.0 + alone[chosen])) / missed) / 2
            with np.errstate(over="ignore", invalid="ignore"):  # told below
                summed = scores(ranked.X, w)
            if not np.isfinite(summed).all():
                raise self._diverged("the score of a document is not a finite number")
            values = ranked.values(summed)
            if values.mean() > reached:
                best, reached = w.copy(), float(values.mean())
            before, importance = importance, np.exp(-values) / np.exp(-values).sum()
            if reached >= 1.0 - _PERFECT or (self.repeat and chosen == last and (importance == before).all()):
                break
            last = chosen
        self._keep(best)
        self.n_iter_, self.ndcg_ = n_iter, reached


class _Ranked:
    """Rows in the order of their queries, and the NDCG of each query by a score."""

    def __init__(self, X: Any, queries: Queries, at: int | None) -> None:
        self.X = X[queries.rows]
        self._queries = queries
        self._at = int(np.diff(queries.starts).max()) if at is None else int(at)

    def values(self, by: NDArray[np.float64]) -> NDArray[np.float64]:
        values = np.empty(len(self._queries))
        ndcg_values(by, self._queries.starts, self._queries.grades, self._at, values)
        return values

    def by_each_feature(self, *, both_ways: bool) -> NDArray[np.float64]:
        columns = sparse.csc_array(self.X) if sparse.issparse(self.X) else self.X
        values = np.empty((1 + both_ways, self.X.shape[1], len(self._queries)))
        for feature in range(self.X.shape[1]):
            column = columns[:, [feature]]
            dense = column.toarray() if sparse.issparse(column) else column
            by = np.ascontiguousarray(dense[:, 0], dtype=np.float64)
            values[0, feature] = self.values(by)
            if both_ways:
                values[1, feature] = self.values(-by)
        return values
