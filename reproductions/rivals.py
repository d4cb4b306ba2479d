"""Rivals of the papers' rankers: query expansion of words; ListNet, AdaRank and RankSVM of feature vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from reproductions.folds import QueryRows, measure_by_query
from tercet.choose import Trial, choose
from tercet.data import Preferences
from tercet.learn.linear import ProximalRanker
from tercet.weights import Identity, Weights

Vector = NDArray[np.float64]
AT_ONCE = 1000  # preferences whose rows are in memory
BETAS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
DEPTHS = (1, 2, 5, 10, 20, 50)
_NDCG = "nDCG(dcg='exp-log2')@10"
_PERFECT = 1e-12  # distance to an nDCG of 1 that rounding explains


# -- words ------------------------------------------------------------------------------------------------------------


class QueryExpansion:
    """Query expansion before plain word matching: ``q' = q + beta (d_1 + … + d_E)`` (Bai et al. 2010, section 4).

    Documents are ranked by the inner product with the query. The paper speaks of the mean of the documents and prints
    the sum; the sum is taken. ``fit`` chooses beta and E with the least rank loss on the preferences, the first on
    ties.

    Parameters
    ----------
    betas : weights of the documents to choose from
    depths : numbers E of documents to choose from
    """

    def __init__(self, *, betas: Sequence[float] = BETAS, depths: Sequence[int] = DEPTHS) -> None:
        self.betas = betas
        self.depths = depths

    def fit(self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array) -> Self:
        self.docs = D
        prefs = prefs[np.argsort(prefs.query, kind="stable")]
        asked, row = np.unique(prefs.query, return_inverse=True)
        queries = Q[asked]
        prefs = Preferences(row.ravel(), prefs.better, prefs.worse)
        ranked, scores = self.weights_.rank(queries, D, max(self.depths))
        own_margins = _margins(queries, D, prefs)
        trials: list[Trial] = []
        for depth in self.depths:
            added_margins = _margins(_sum_of_docs(ranked[:, :depth], scores[:, :depth], D), D, prefs)
            for beta in self.betas:
                wrong = own_margins + beta * added_margins <= 0  # ties included
                trials.append(Trial({"beta_": beta, "n_expanded_": depth}, np.array(wrong.mean())))
        self.beta_, self.n_expanded_ = trials[choose(trials, higher_is_better=False)].setting.values()
        return self

    @property
    def weights_(self) -> Weights:
        return Weights([Identity(n_terms=self.docs.shape[1])])

    def represent_queries(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Return expanded queries, CSR float32; a query without results stays unchanged."""
        added = _sum_of_docs(*self.weights_.rank(Q, self.docs, self.n_expanded_), self.docs)
        expanded = sparse.csr_array(Q.astype(np.float64) + self.beta_ * added, dtype=np.float32)
        expanded.sum_duplicates()
        expanded.eliminate_zeros()
        return expanded


def _sum_of_docs(docs: NDArray[np.int32], scores: NDArray[np.float64], D: sparse.csr_array) -> sparse.csr_array:
    """Return the sum of the found documents of each query (n_queries, n_terms)."""
    row, rank = np.nonzero(scores > 0)
    found = sparse.csr_array((np.ones(row.size), (row, docs[row, rank])), shape=(len(docs), D.shape[0]))
    return sparse.csr_array(found @ D.astype(np.float64))


def _margins(Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences) -> Vector:
    """``q·d+ - q·d-`` of each preference."""
    margins = np.empty(len(prefs))
    for start in range(0, len(prefs), AT_ONCE):
        some = prefs[start : start + AT_ONCE]
        asked = Q[some.query].astype(np.float64)
        better, worse = (asked.multiply(D[rows].astype(np.float64)).sum(axis=1) for rows in (some.better, some.worse))
        margins[start : start + AT_ONCE] = better - worse
    return margins


# -- feature vectors --------------------------------------------------------------------------------------------------


class RivalOfRows(ABC):
    """Linear ranker of dense feature vectors: ``fit(X, y, qid=qid)``, ``predict(X)``, ``coef_`` (n_features,).

    A rival learns from features divided by their mean range within a query; ``coef_`` is for the features as given.
    The rows of a query stand together.
    """

    def fit(self, X: NDArray[Any], y: NDArray[Any], qid: NDArray[Any]) -> Self:
        rows = QueryRows(np.asarray(X, dtype=np.float64), y, qid)
        firsts, sizes = rows.starts[:-1], np.diff(rows.starts)
        has_pairs = np.maximum.reduceat(rows.y, firsts) > np.minimum.reduceat(rows.y, firsts)
        rows = rows.take(np.flatnonzero(np.repeat(has_pairs, sizes)))
        scale = mean_ranges(rows)
        self.coef_ = self.learn(QueryRows(rows.X / scale, rows.y, rows.qid)) / scale
        return self

    @abstractmethod
    def learn(self, rows: QueryRows) -> Vector:
        """Return the weights for these rows; every query has documents of different grades."""

    def predict(self, X: NDArray[Any]) -> Vector:
        return np.asarray(X @ self.coef_)


def mean_ranges(rows: QueryRows) -> Vector:
    """Mean of max - min of each feature over the queries where the feature varies; 1 for a constant feature."""
    firsts = rows.starts[:-1]
    ranges = np.maximum.reduceat(rows.X, firsts) - np.minimum.reduceat(rows.X, firsts)  # (n_queries, n_features)
    n_varying = np.count_nonzero(ranges, axis=0)
    return np.where(n_varying > 0, ranges.sum(axis=0) / np.maximum(n_varying, 1), 1.0)


class ListNetRanker(RivalOfRows):
    """ListNet with a linear score (Cao et al. 2007).

    Minimizes the mean over queries of the cross entropy of softmax(labels) and softmax(scores), plus ``l2 |w|² / 2``,
    by L-BFGS. The paper has no penalty; it stops gradient descent early.
    """

    def __init__(self, l2: float = 1e-4) -> None:
        self.l2 = l2

    def learn(self, rows: QueryRows) -> Vector:
        target, _ = _softmax(rows.y.astype(np.float64), rows.starts)

        def loss_and_gradient(w: Vector) -> tuple[float, Vector]:
            scores = rows.X @ w
            predicted, log_totals = _softmax(scores, rows.starts)
            loss = (log_totals.sum() - target @ scores) / rows.n_queries
            gradient = rows.X.T @ (predicted - target) / rows.n_queries
            return float(loss + self.l2 / 2 * w @ w), gradient + self.l2 * w

        start = np.zeros(rows.n_features)
        enough = 1e-5 * float(np.abs(loss_and_gradient(start)[1]).max())
        options = {"maxiter": 1000, "maxfun": 20_000, "gtol": enough, "ftol": 0.0}
        return np.asarray(minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x)


def _softmax(scores: Vector, starts: NDArray[np.int64]) -> tuple[Vector, Vector]:
    """Return the softmax within each query (n_rows,) and the logarithm of its denominator (n_queries,)."""
    sizes, highest = np.diff(starts), np.maximum.reduceat(scores, starts[:-1])
    exponentials = np.exp(scores - np.repeat(highest, sizes))
    totals = np.add.reduceat(exponentials, starts[:-1])
    return exponentials / np.repeat(totals, sizes), np.log(totals) + highest


class AdaRankRanker(RivalOfRows):
    """AdaRank-NDCG: boosting of single features by nDCG@10 (Xu and Li 2007).

    With E(q) the nDCG of query q and P(q) its weight, each round adds the feature with the highest ``sum P E``, by
    ``log(sum P (1 + E) / sum P (1 - E)) / 2``. The next P is proportional to ``exp(-E)`` of the sum of all features
    so far. A feature can also rank from its lowest value up; features of the paper all rise with relevance.
    ``coef_`` is from the round with the highest mean nDCG on the training rows.

    Parameters
    ----------
    max_iter : maximum number of rounds
    repeat : whether a feature can be added more than once, as in the paper
    """

    def __init__(self, max_iter: int = 100, repeat: bool = False) -> None:
        self.max_iter = max_iter
        self.repeat = repeat

    def learn(self, rows: QueryRows) -> Vector:
        def ndcg(scores: Vector) -> Vector:
            return measure_by_query(scores, rows, [_NDCG])[_NDCG]

        weak = np.array([[ndcg(sign * feature) for feature in rows.X.T] for sign in (1.0, -1.0)])
        w, best, highest = np.zeros(rows.n_features), np.zeros(rows.n_features), -np.inf
        P = np.full(rows.n_queries, 1.0 / rows.n_queries)
        for _ in range(self.max_iter if self.repeat else min(self.max_iter, rows.n_features)):
            values = weak @ P  # (2, n_features)
            if not self.repeat:
                values[:, w != 0] = -np.inf
            row, feature = chosen = np.unravel_index(int(values.argmax()), values.shape)
            sign = -1.0 if row else 1.0
            loss = float(P @ (1.0 - weak[chosen]))
            if loss <= _PERFECT:
                return np.asarray(sign * np.eye(rows.n_features)[feature])
            w[feature] += sign * np.log(float(P @ (1.0 + weak[chosen])) / loss) / 2
            E = ndcg(rows.X @ w)
            if E.mean() > highest:
                best, highest = w.copy(), float(E.mean())
            P = np.exp(-E) / np.exp(-E).sum()
        return best


class RankSVMRanker(RivalOfRows):
    """RankSVM-Struct: the mean hinge over all pairs within queries plus ``l2 |w|² / 2`` (Joachims 2006).

    By the dual coordinate descent of LIBLINEAR on the differences of all pairs.
    """

    def __init__(self, l2: float = 1e-3, max_iter: int = 300) -> None:
        self.l2 = l2
        self.max_iter = max_iter

    def learn(self, rows: QueryRows) -> Vector:
        pairs = [
            start + np.argwhere(np.greater.outer(rows.y[start:end], rows.y[start:end]))
            for start, end in zip(rows.starts[:-1], rows.starts[1:], strict=True)
        ]
        better, worse = np.concatenate(pairs).T
        signs = np.where(np.arange(len(better)) % 2, -1.0, 1.0)  # both classes are needed
        differences = (rows.X[better] - rows.X[worse]) * signs[:, None]
        machine = LinearSVC(
            C=1.0 / (self.l2 * len(better)),
            loss="hinge",
            fit_intercept=False,
            tol=1e-4,
            max_iter=self.max_iter,
            random_state=0,
        )
        return np.asarray(machine.fit(differences, signs).coef_[0])


class PathMeanRanker:
    """Mean of the L1 path: the batch optima of `ProximalRanker` at several penalties, averaged; nothing is chosen.

    Parameters
    ----------
    penalties : the values of ``l1``
    largest : number of weights to keep, the largest ones; None for all
    """

    def __init__(
        self,
        penalties: Sequence[float] = tuple((2.0 ** -np.arange(3.5, 8.0, 0.5)).tolist()),
        largest: int | None = None,
    ) -> None:
        self.penalties = penalties
        self.largest = largest

    def fit(self, X: Any, y: Any, qid: Any) -> Self:
        path = [ProximalRanker(l1=l1, scale_features=False).fit(X, y, qid=qid).coef_ for l1 in self.penalties]
        w = np.mean(path, axis=0)
        if self.largest is not None:
            w[np.argsort(-np.abs(w), kind="stable")[self.largest :]] = 0.0
        self.coef_ = w
        return self

    def predict(self, X: Any) -> Vector:
        return np.asarray(X @ self.coef_)
