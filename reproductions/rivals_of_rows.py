"""Rivals of MinBatSRank on feature vectors: ListNet, AdaRank and RankSVM."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from reproductions.folds import QueryRows
from tercet.errors import DivergedError, InputError
from tercet.learn.linear import ProximalRanker

Vector = NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class RivalOfRows(BaseEstimator):
    """Linear ranker of feature vectors: ``fit(X, y, qid=qid)``, ``predict(X)``, ``coef_`` (n_features,).

    With ``scale_features`` a rival learns from features divided by their mean range within a query; ``coef_`` is for
    the features as given.
    """

    scale_features: bool = True

    def fit(self, X: Any, y: Any, qid: Any) -> Self:
        rows = rows_with_pairs(_dense(X), np.asarray(y), np.asarray(qid))
        scale = mean_ranges(rows) if self.scale_features else np.ones(rows.n_features)
        with np.errstate(over="ignore", invalid="ignore"):  # weights that diverge are an error below
            w = self._learn(QueryRows(rows.X / scale, rows.y, rows.qid))
        if not np.isfinite(w).all():
            raise DivergedError(f"a weight of {type(self).__name__} is not finite; lower the rate or rescale X")
        self.coef_ = w / scale
        return self

    @abstractmethod
    def _learn(self, rows: QueryRows) -> Vector:
        """Return the weights for these rows; every query has documents of different grades."""

    def predict(self, X: Any) -> Vector:
        return _dense(X) @ self.coef_


def _dense(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def rows_with_pairs(X: NDArray[np.float64], y: NDArray[Any], qid: NDArray[Any]) -> QueryRows:
    """Rows of the queries with documents of different grades, the rows of a query together."""
    _, first_rows, numbers = np.unique(qid, return_index=True, return_inverse=True)
    order = np.argsort(first_rows[numbers], kind="stable")
    rows = QueryRows(X[order], y[order], qid[order])
    firsts, sizes = rows.starts[:-1], np.diff(rows.starts)
    has_pairs = np.maximum.reduceat(rows.y, firsts) > np.minimum.reduceat(rows.y, firsts)
    if not has_pairs.any():
        raise InputError("no query has two documents of different grades")
    return rows.take(np.flatnonzero(np.repeat(has_pairs, sizes)))


def mean_ranges(rows: QueryRows) -> Vector:
    """Mean of max - min of each feature over the queries where the feature varies; 1 for a constant feature."""
    firsts = rows.starts[:-1]
    ranges = np.maximum.reduceat(rows.X, firsts) - np.minimum.reduceat(rows.X, firsts)  # (n_queries, n_features)
    n_varying = np.count_nonzero(ranges, axis=0)
    return np.where(n_varying > 0, ranges.sum(axis=0) / np.maximum(n_varying, 1), 1.0)


def pair_matrix(rows: QueryRows) -> sparse.csr_array:
    """Return (n_pairs, n_rows) with 1 at the better document of a pair and -1 at the worse document.

    Examples
    --------
    >>> pair_matrix(QueryRows(np.eye(3), np.array([2, 0, 0]), np.array(["7", "7", "7"]))).toarray()
    array([[ 1., -1.,  0.],
           [ 1.,  0., -1.]])
    """
    grades = np.split(rows.y, rows.starts[1:-1])
    parts = [start + np.argwhere(np.greater.outer(y, y)) for start, y in zip(rows.starts[:-1], grades, strict=True)]
    pairs = np.concatenate(parts).astype(np.int32)  # (n_pairs, 2): better, worse; half the memory of int64
    signs, starts = np.tile([1.0, -1.0], len(pairs)), np.arange(0, 2 * len(pairs) + 1, 2, dtype=np.int32)
    return sparse.csr_array((signs, pairs.ravel(), starts), shape=(len(pairs), len(rows)))


# -- ListNet ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class ListNetRanker(RivalOfRows):
    """ListNet with a linear score (Cao et al. 2007).

    Minimises the mean over queries of the cross entropy of softmax(labels) and softmax(scores), plus ``l2 |w|² / 2``,
    by L-BFGS. The paper has no penalty; it stops gradient descent early.

    Parameters
    ----------
    l2 : strength of the penalty
    tolerance : largest derivative at the end, as a share of the largest derivative at zero
    max_iter : maximum number of iterations

    Examples
    --------
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = ListNetRanker(l2=0.1).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(2)
    array([0.75, 0.52])
    """

    l2: float = 1e-4
    tolerance: float = 1e-5
    max_iter: int = 1000

    def _learn(self, rows: QueryRows) -> Vector:
        target, _ = softmax_of_queries(rows.y.astype(np.float64), rows.starts)

        def loss_and_gradient(w: Vector) -> tuple[float, Vector]:
            scores = rows.X @ w
            predicted, log_totals = softmax_of_queries(scores, rows.starts)
            loss = (log_totals.sum() - target @ scores) / rows.n_queries
            gradient = rows.X.T @ (predicted - target) / rows.n_queries
            return float(loss + self.l2 / 2 * w @ w), gradient + self.l2 * w

        start = np.zeros(rows.n_features)
        enough = self.tolerance * float(np.abs(loss_and_gradient(start)[1]).max())
        result = minimize(
            loss_and_gradient,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "maxfun": 20 * self.max_iter, "gtol": enough, "ftol": 0.0},
        )
        self.n_iter_ = int(result.nit)
        if result.status == 1:  # other ends of L-BFGS are at the precision of the machine
            _warn(f"ListNet: a derivative of {np.abs(result.jac).max():.3g} is left after {self.n_iter_} iterations")
        return np.asarray(result.x, dtype=np.float64)


def softmax_of_queries(scores: Vector, starts: NDArray[np.int64]) -> tuple[Vector, Vector]:
    """Return the softmax within each query (n_rows,) and the logarithm of its denominator (n_queries,)."""
    sizes, highest = np.diff(starts), np.maximum.reduceat(scores, starts[:-1])
    exponentials = np.exp(scores - np.repeat(highest, sizes))
    totals = np.add.reduceat(exponentials, starts[:-1])
    return exponentials / np.repeat(totals, sizes), np.log(totals) + highest


# -- AdaRank ----------------------------------------------------------------------------------------------------------

_PERFECT = 1e-12  # distance to an nDCG of 1 that rounding explains


@dataclass(eq=False, repr=False, kw_only=True)
class AdaRankRanker(RivalOfRows):
    """AdaRank-NDCG: boosting of single features (Xu and Li 2007).

    With E(q) the nDCG of query q and P(q) its weight, each round adds the feature with the highest ``sum P E``, by
    ``log(sum P (1 + E) / sum P (1 - E)) / 2``. The next P is proportional to ``exp(-E)`` of the sum of all features
    so far. A feature can also rank from its lowest value up; features of the paper all rise with relevance.
    ``coef_`` is from the round with the highest mean nDCG on the training rows.

    Parameters
    ----------
    at : k of nDCG@k; None for whole rankings
    max_iter : maximum number of rounds
    repeat : whether a feature can be added more than once, as in the paper

    Examples
    --------
    >>> X = np.array([[0.3, 0.2], [0.4, 0.1], [0.9, 0.3], [0.1, 0.2], [0.5, 0.4], [0.2, 0.5]])
    >>> ranker = AdaRankRanker().fit(X, [1, 0, 1, 0, 1, 0], qid=["a", "a", "b", "b", "c", "c"])
    >>> ranker.coef_.round(3)
    array([3.406, 0.   ])
    """

    at: int | None = 10
    max_iter: int = 100
    repeat: bool = False

    def _learn(self, rows: QueryRows) -> Vector:
        ndcg = QueryNdcg(rows, self.at)
        weak = np.array([[ndcg(sign * feature) for feature in rows.X.T] for sign in (1.0, -1.0)])
        w, best, self.ndcg_ = np.zeros(rows.n_features), np.zeros(rows.n_features), -np.inf
        P = np.full(rows.n_queries, 1.0 / rows.n_queries)
        last, self.n_iter_ = None, 0
        while self.n_iter_ < (self.max_iter if self.repeat else min(self.max_iter, rows.n_features)):
            self.n_iter_ += 1
            values = weak @ P  # (2, n_features)
            if not self.repeat:
                values[:, w != 0] = -np.inf
            row, feature = chosen = np.unravel_index(int(values.argmax()), values.shape)
            sign = -1.0 if row else 1.0
            loss = float(P @ (1.0 - weak[chosen]))
            if loss <= _PERFECT:
                w = np.zeros(rows.n_features)
                w[feature] = sign
            else:
                w[feature] += sign * np.log(float(P @ (1.0 + weak[chosen])) / loss) / 2
            E = ndcg(rows.X @ w)
            if E.mean() > self.ndcg_:
                best, self.ndcg_ = w.copy(), float(E.mean())
            before, P = P, np.exp(-E) / np.exp(-E).sum()
            if self.ndcg_ >= 1.0 - _PERFECT or (self.repeat and chosen == last and (before == P).all()):
                break
            last = chosen
        return best


class QueryNdcg:
    """nDCG@k of each query by one score per row; equal scores count by the mean over all their orders.

    Examples
    --------
    >>> rows = QueryRows(np.eye(3), np.array([0, 1, 0]), np.array(["7", "7", "7"]))
    >>> QueryNdcg(rows, 10)(np.array([0.0, 2.0, 1.0])), QueryNdcg(rows, 1)(np.zeros(3)).round(3)
    (array([1.]), array([0.333]))
    """

    def __init__(self, rows: QueryRows, at: int | None = None) -> None:
        sizes = np.diff(rows.starts)
        ranks = np.arange(len(rows)) - np.repeat(rows.starts[:-1], sizes)
        self._query = np.repeat(np.arange(rows.n_queries), sizes)
        self._firsts = rows.starts[:-1]
        self._discounts = np.where(ranks < (len(rows) if at is None else at), 1.0 / np.log2(2.0 + ranks), 0.0)
        self._gains = 2.0**rows.y - 1.0
        self._best = self._dcg(self._gains)

    def __call__(self, scores: Vector) -> Vector:
        return self._dcg(scores) / self._best

    def _dcg(self, scores: Vector) -> Vector:
        order = np.lexsort((-scores, self._query))
        is_tied = (np.diff(scores[order]) == 0) & (np.diff(self._query) == 0)
        group = np.concatenate([[0], np.cumsum(~is_tied)])
        mean_gains = np.bincount(group, self._gains[order]) / np.bincount(group)
        return np.add.reduceat(mean_gains[group] * self._discounts, self._firsts)


# -- RankSVM ----------------------------------------------------------------------------------------------------------

_IDLE_ROUNDS = 30  # rounds without use after which a plane is dropped
_SEARCH_STEPS = 8
_TOWARDS_MODEL = 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class RankSVMRanker(RivalOfRows):
    """RankSVM-Struct: the mean hinge over all pairs within queries plus ``l2 |w|² / 2`` (Joachims 2006).

    A cutting-plane method with line search (Franc and Sonnenburg 2008): each round adds a plane below the loss and
    minimises the highest plane plus the penalty, which bounds the optimum from below.

    Parameters
    ----------
    l2 : strength of the penalty
    tolerance : largest distance to the optimum; the value at zero is 1
    max_iter : maximum number of rounds

    Attributes
    ----------
    gap_ : bound on the distance to the optimum

    Examples
    --------
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = RankSVMRanker(l2=1.0, tolerance=1e-6).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(3)
    array([1.05 , 0.497])
    """

    l2: float = 1e-3
    tolerance: float = 1e-3
    max_iter: int = 1000

    def _learn(self, rows: QueryRows) -> Vector:
        pairs = pair_matrix(rows)
        planes = CuttingPlanes(rows.n_features, self.l2)
        best = point = np.zeros(rows.n_features)
        value = 1.0
        for n_iter in range(1, self.max_iter + 1):
            violations = 1.0 - pairs @ (rows.X @ point)
            gradient = -(rows.X.T @ (pairs.T @ (violations > 0).astype(np.float64))) / len(violations)
            planes.add(float(np.maximum(violations, 0.0).mean()), gradient, point)
            model, lower_bound = planes.minimum(0.1 * self.tolerance)
            gap = value - lower_bound
            if gap <= self.tolerance or n_iter == self.max_iter:
                break
            best, value = self._line_search(rows, pairs, best, value, model - best)
            point = best + _TOWARDS_MODEL * (model - best)
        self.n_iter_, self.gap_ = n_iter, gap
        if gap > self.tolerance:
            _warn(f"RankSVM: the value may exceed the optimum by {gap:.3g} after {n_iter} rounds")
        return best

    def _line_search(
        self, rows: QueryRows, pairs: sparse.csr_array, w: Vector, value: float, direction: Vector
    ) -> tuple[Vector, float]:
        """Return weights on the line with a lower value, close to the lowest, or ``w``; and their value."""
        violations, changes = 1.0 - pairs @ (rows.X @ w), -(pairs @ (rows.X @ direction))
        best, low, high, step = 0.0, 0.0, np.inf, 1.0
        for _ in range(_SEARCH_STEPS):
            there, moved = w + step * direction, violations + step * changes
            is_violated = moved > 0
            value_there = float(moved[is_violated].sum() / len(moved) + self.l2 / 2 * there @ there)
            slope = changes[is_violated].sum() / len(moved) + self.l2 * there @ direction
            if value_there < value:
                best, value = step, value_there
            if slope > 0:
                high = step
            else:
                low = step
            step = 2 * low if high == np.inf else (low + high) / 2
        return w + best * direction, value


class CuttingPlanes:
    """Planes ``gradient · w + height`` below a convex loss, and the minimum of the highest plus ``l2 |w|² / 2``."""

    def __init__(self, n_features: int, l2: float) -> None:
        self._l2 = l2
        self._gradients, self._heights = np.empty((0, n_features)), np.empty(0)
        self._mixture, self._idle = np.empty(0), np.empty(0, dtype=np.int64)

    def add(self, loss: float, gradient: Vector, w: Vector) -> None:
        self._gradients = np.vstack([self._gradients, gradient])
        self._heights = np.append(self._heights, loss - gradient @ w)
        self._mixture = np.append(self._mixture, 0.0 if self._mixture.size else 1.0)
        self._idle = np.append(self._idle, 0)

    def minimum(self, tolerance: float) -> tuple[Vector, float]:
        """Return the weights at the minimum and a lower bound of the minimum."""
        best_mixture(self._gradients @ self._gradients.T / self._l2, self._heights, self._mixture, tolerance)
        self._mixture /= self._mixture.sum()
        w = -(self._mixture @ self._gradients) / self._l2
        lower_bound = float(self._mixture @ self._heights) - self._l2 / 2 * float(w @ w)
        self._idle = np.where(self._mixture > 0, 0, self._idle + 1)
        keep = self._idle < _IDLE_ROUNDS
        self._gradients, self._heights = self._gradients[keep], self._heights[keep]
        self._mixture, self._idle = self._mixture[keep], self._idle[keep]
        return w, lower_bound


def best_mixture(gram: NDArray[np.float64], heights: Vector, mixture: Vector, tolerance: float) -> None:
    """Maximise ``heights · m - m · gram · m / 2`` over the simplex, in place, by exact steps between two entries."""
    slopes, diagonal = heights - gram @ mixture, gram.diagonal()
    for _ in range(20 * len(mixture) + 1000):
        to = int(slopes.argmax())
        differences = np.where(mixture > 0, slopes[to] - slopes, 0.0)
        if differences.max() <= tolerance:
            break
        curvatures = np.maximum(gram[to, to] + diagonal - 2.0 * gram[to], 1e-300)
        source = int((differences**2 / curvatures).argmax())
        step = min(mixture[source], differences[source] / curvatures[source])
        mixture[source] -= step
        mixture[to] += step
        slopes -= step * (gram[to] - gram[source])


# -- ours -------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class PathMeanRanker(BaseEstimator):
    """Mean of the L1 path: the batch optima of `ProximalRanker` at several penalties, averaged; nothing is chosen.

    Parameters
    ----------
    penalties : the values of ``l1``
    largest : number of weights to keep, the largest ones; None for all
    """

    penalties: tuple[float, ...] = tuple(2.0 ** -(3.5 + step / 2) for step in range(9))
    largest: int | None = None

    def fit(self, X: Any, y: Any, qid: Any) -> Self:
        path = [ProximalRanker(l1=l1, scale_features=False).fit(X, y, qid=qid).coef_ for l1 in self.penalties]
        w = np.mean(path, axis=0)
        if self.largest is not None:
            w[np.argsort(-np.abs(w), kind="stable")[self.largest :]] = 0.0
        self.coef_ = w
        return self

    def predict(self, X: Any) -> Vector:
        return np.asarray(X @ self.coef_)


def _warn(message: str) -> None:
    warnings.warn(f"{message}; raise max_iter or tolerance", ConvergenceWarning, stacklevel=4)


LINEAR_RIVALS: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (ListNetRanker, AdaRankRanker, RankSVMRanker, PathMeanRanker)
}
