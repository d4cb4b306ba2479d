"""Rankers of feature vectors at every penalty, and the choice of the penalty on held-out rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from tercet._validate import check_seed
from tercet.choose import RULES, Trial, choose, standard_error
from tercet.data import LetorData, query_folds
from tercet.errors import InputError, ParameterError
from tercet.learn.features import FeatureRanker
from tercet.learn.linear import FTRLRanker, l1_path
from tercet.learn.progress import SHOW_AFTER_SECONDS, ProgressBar
from tercet.learn.rls import choose_rls
from tercet.measure import Measure, measure_rows, parse_measure
from tercet.report.details import PathPoint

MOST_CELLS = 2_000_000  # rows times features in the search for the best single feature
MOST_FEATURES = 5_000  # features in the same search
MANY_ROWS = 200_000  # number of rows above which progress is shown at once

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class SingleFeature:
    """Feature to rank by, counted from 0; ``sign`` is -1 if less of the feature is better."""

    column: int
    sign: int

    def predict(self, X: Any) -> Matrix:
        values = X[:, [self.column]]
        values = values.toarray() if sparse.issparse(values) else values
        return self.sign * np.asarray(values, dtype=np.float64).ravel()

    def label(self, names: tuple[str, ...] | None) -> str:
        name = f"best feature: {self.column + 1}" + ("" if names is None else f" {names[self.column][:30]}")
        return name + (", reversed" if self.sign < 0 else "")


@dataclass(frozen=True, eq=False)
class RankerPath:
    """Rankers learned from the same rows, from few features to many, and the best single feature of these rows.

    Attributes
    ----------
    rankers : a ranker for each penalty, or a single ranker
    l1s : penalties, or None for rankers without a path
    feature : best single feature
    n_queries : number of training queries
    seconds : time to learn the rankers
    """

    rankers: tuple[Any, ...]
    l1s: Matrix | None
    feature: SingleFeature
    n_queries: int
    seconds: float

    def scores(self, data: LetorData) -> Matrix:
        """Score rows by each ranker and, in the last column, by the best feature, (n_rows, n_rankers + 1)."""
        return np.column_stack([scorer.predict(data.X) for scorer in (*self.rankers, self.feature)])


class RowCandidates:
    """Ranker to learn, penalties to try, and the rule of choice.

    Parameters
    ----------
    measure, ranker, l1s, l2s, choose, random_state, verbose : as in ``fit_letor``
    """

    def __init__(
        self, measure: str, ranker: Any, l1s: Any, l2s: Any, choose: Any, random_state: int, verbose: bool | None
    ) -> None:
        if choose not in RULES:
            raise InputError(f"choose must be {' or '.join(map(repr, RULES))}; got {choose!r}")
        if ranker is not None and not isinstance(ranker, FeatureRanker):
            raise ParameterError(f"ranker must be a ranker of feature vectors, as FTRLRanker(); got {ranker!r}")
        if l1s is not None and l2s is not None:
            raise InputError("give l1s for a sparse ranker or l2s for a kernel ranker, not both")
        self.pattern: Any = clone(FTRLRanker() if ranker is None else ranker)
        self.measure, self.rule, self.l1s, self.l2s = parse_measure(measure), choose, l1s, l2s
        self.random_state = check_seed(random_state)
        self.bar = ProgressBar(type(self.pattern).__name__, None, 0, verbose)

    def learn(self, data: LetorData, name: str, whole: RankerPath | None = None) -> RankerPath:
        """Learn a ranker at each penalty, or a single ranker without a path.

        Parameters
        ----------
        data : training rows
        name : of the rows, for errors and progress
        whole : path of all rows, if ``data`` is a part; a ranker is then learned at each penalty of the path. An
            FTRLRanker's penalty is a total over all queries: a part takes a share of the total
        """
        if not grade_steps(data).any():
            raise InputError(
                f"{name}: none of its {data.n_queries:,} queries has two documents of different grades, so there is "
                "nothing to learn from"
            )
        if len(data) >= MANY_ROWS or time.perf_counter() - self.bar.started > SHOW_AFTER_SECONDS:
            self.bar.say(f"{name}: {len(data):,} rows")
        is_ftrl = isinstance(self.pattern, FTRLRanker)
        l1s = self.l1s if whole is None else whole.l1s
        if is_ftrl and whole is not None and whole.l1s is not None:
            l1s = whole.l1s * (data.n_queries / whole.n_queries)
        rows, began = (data.X, data.y, data.qid), time.perf_counter()
        rankers: tuple[Any, ...]
        if self.l2s is not None:
            rankers = (choose_rls(*rows, l2s=self.l2s, ranker=self.pattern).ranker,)
        elif is_ftrl or l1s is not None:
            path = l1_path(*rows, l1s=l1s, ranker=self.pattern)
            rankers, l1s = path.rankers, path.l1s
        else:
            rankers = (clone(self.pattern).fit(*rows),)
        seconds = time.perf_counter() - began
        return RankerPath(rankers, l1s, best_feature(data, self.measure, self.random_state), data.n_queries, seconds)

    def cross_validate(self, path: RankerPath, data: LetorData, n_folds: int) -> Matrix:
        """Score each row by rankers learned without the row's query, as `RankerPath.scores` does."""
        scores = np.empty((len(data), len(path.rankers) + 1))
        for number, (rows, left) in enumerate(query_folds(data.qid, n_folds, self.random_state), start=1):
            training = LetorData(data.X[rows], data.y[rows], data.qid[rows])
            part = self.learn(training, f"fold {number} of {n_folds}, training part", path)
            scores[left] = part.scores(LetorData(data.X[left], data.y[left], data.qid[left]))
        return scores

    def choose(self, path: RankerPath, held_out: LetorData, scores: Matrix) -> tuple[int, tuple[PathPoint, ...]]:
        """Return the index of the chosen ranker, and the path, empty without a choice."""
        if path.l1s is None or len(path.rankers) == 1:
            return 0, ()
        mixed = mixed_rows(held_out.qid, self.random_state)
        y, qid = held_out.y[mixed], held_out.qid[mixed]
        trials = []
        for l1, ranker, column in zip(path.l1s.tolist(), path.rankers, scores[mixed, :-1].T, strict=True):
            values = measure_rows(y, column, qid, self.measure).values[:, 0]
            trials.append(Trial({"l1": l1}, values, int(np.count_nonzero(ranker.coef_))))
        higher = self.measure.higher_is_better
        best = trials[choose(trials, higher_is_better=higher)]
        errors = [standard_error(trial.values - best.values) for trial in trials]
        points = tuple(
            PathPoint(trial.setting["l1"], int(trial.size), trial.mean, None if np.isnan(error) else error)
            for trial, error in zip(trials, errors, strict=True)
        )
        return choose(trials, self.rule, higher_is_better=higher, paired=True), points


def best_feature(data: LetorData, measure: Measure, random_state: int = 0) -> SingleFeature:
    """Find the best single feature to rank by, upwards or downwards; of equal features the first.

    Large sets are searched in a random sample of queries with `MOST_CELLS` values. Wide sets are searched in the
    `MOST_FEATURES` most frequent features.
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

    Equal scores count in the order of the rows: a file sorted by grade flatters a ranker with many ties.
    """
    order = np.random.default_rng(seed).permutation(len(qid))
    _, query = np.unique(qid[order].astype(np.str_), return_inverse=True)
    return order[np.argsort(query, kind="stable")]


def grade_steps(data: LetorData) -> NDArray[np.int64]:
    """Differences of grade from each row to the next row of the same query; 0 between queries."""
    steps = np.diff(data.y)
    steps[data.starts[1:-1] - 1] = 0
    return steps
