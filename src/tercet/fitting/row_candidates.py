"""Rankers of feature vectors at every penalty, and the choice between them on rows outside their training data."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from tercet._validate import check_seed
from tercet.choose import RULES, Rule, Trial, choose, standard_error
from tercet.data import LetorData, query_folds
from tercet.errors import InputError, ParameterError
from tercet.fitting.feature_model import LETOR_MEASURES, n_used
from tercet.learn.features import FeatureRanker
from tercet.learn.linear import FTRLRanker, l1_path
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.progress import SHOW_AFTER_SECONDS, ProgressBar
from tercet.learn.rls import KernelLeastSquares, choose_rls
from tercet.learn.rls.path import checked_l2s
from tercet.measure import Measure, measure_rows, parse_measure
from tercet.report.details import PathPoint

MOST_CELLS = 2_000_000  # rows times features in the search for the best single feature
MOST_FEATURES = 5_000  # features in the same search
MANY_ROWS = 200_000  # rows that take long enough to announce the work at once

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Scores of rows outside the training data: of every ranker (n_rows, n), and of one feature (n_rows,)."""

    scores: Matrix
    feature: Matrix
    y: NDArray[np.int64]
    qid: NDArray[np.str_]

    def column(self, ranker: int) -> HeldOutRows:
        """Return the same rows with the scores of one ranker."""
        return replace(self, scores=self.scores[:, [ranker]])

    @classmethod
    def joined(cls, parts: list[HeldOutRows]) -> HeldOutRows:
        return cls(*(np.concatenate([vars(part)[name] for part in parts]) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class SingleFeature:
    """Feature to rank by, counted from 0; ``sign`` is -1 if less of the feature is better."""

    column: int
    sign: int

    def scores(self, X: Any) -> Matrix:
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
    rankers : one for each penalty, or a single one
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

    def score(self, data: LetorData, fold: str = "") -> HeldOutRows:
        """Score rows; ``fold`` goes before the query ids, since two folds may have the same query."""
        scores = np.column_stack([ranker.predict(data.X) for ranker in self.rankers])
        qid = np.array([f"{fold}/{qid}" for qid in data.qid.tolist()]) if fold else data.qid
        return HeldOutRows(scores, self.feature.scores(data.X), data.y, qid)


class RowCandidates:
    """Ranker to learn, penalties to try, and the rule that chooses, all checked.

    Parameters
    ----------
    measure, ranker, l1s, l2s, choose, random_state, verbose : as in ``fit_letor``
    """

    def __init__(
        self, measure: str, ranker: Any, l1s: Any, l2s: Any, choose: str, random_state: int, verbose: bool | None
    ) -> None:
        if choose not in RULES:
            raise InputError(f"choose must be {' or '.join(map(repr, RULES))}; got {choose!r}")
        if ranker is not None and not isinstance(ranker, FeatureRanker):
            raise ParameterError(f"ranker must be a ranker of feature vectors, as FTRLRanker(); got {ranker!r}")
        self.rule: Rule = choose
        self.measure: Measure = parse_measure(measure)
        self.random_state = check_seed(random_state)
        self.pattern: Any = clone(FTRLRanker() if ranker is None else ranker)
        kind = type(self.pattern).__name__
        self.bar = ProgressBar(kind, None, 0, verbose)
        if l1s is not None and not isinstance(self.pattern, SparseLinearRanker):
            raise ParameterError(f"a {kind} has no penalty l1; leave out l1s")
        if l2s is not None and not isinstance(self.pattern, KernelLeastSquares):
            raise ParameterError(f"a {kind} has no penalty l2 to choose; leave out l2s")
        self.l1s = None if l1s is None else _falling(l1s)
        self.l2s = None if l2s is None else checked_l2s(l2s)

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures of the report's table, with the form of nDCG that the choice is by."""
        usual = LETOR_MEASURES
        if self.measure.name == "nDCG":
            usual = (*(str(replace(self.measure, cutoff=k)) for k in (1, 3, 5, 10)), "AP")
        return tuple(dict.fromkeys([*usual, str(self.measure)]))

    def learn(self, data: LetorData, name: str, whole: RankerPath | None = None) -> RankerPath:
        """Learn a ranker at each penalty, or the one ranker without a path.

        Parameters
        ----------
        data : training rows
        name : of the rows, for errors and progress
        whole : path of all rows that these rows are a part of; a ranker is then learned at each of its penalties.
            An FTRLRanker's penalty is a total over all queries, so a part takes its share
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
        if whole is not None and l1s is not None and is_ftrl:
            l1s = l1s * (data.n_queries / whole.n_queries)
        rows, began = (data.X, data.y, data.qid), time.perf_counter()
        rankers: tuple[Any, ...]
        if is_ftrl or l1s is not None:
            # A cold start at each penalty: fitting a clone of the chosen ranker again gives the same bits.
            path = l1_path(*rows, l1s=l1s, ranker=self.pattern, warm_start=False)
            rankers, l1s = path.rankers, path.l1s
        elif self.l2s is not None:
            rankers = (choose_rls(*rows, l2s=self.l2s, ranker=self.pattern).ranker,)
        else:
            rankers = (clone(self.pattern).fit(*rows),)
        seconds = time.perf_counter() - began
        return RankerPath(rankers, l1s, best_feature(data, self.measure, self.random_state), data.n_queries, seconds)

    def cross_validate(self, path: RankerPath, data: LetorData, n_folds: int) -> HeldOutRows:
        """Score each row by rankers that were learned without its query."""
        parts, positions = [], []
        for number, rows in enumerate(query_folds(data.qid, n_folds, self.random_state), start=1):
            learned, left = (LetorData(data.X[part], data.y[part], data.qid[part]) for part in rows)
            parts.append(self.learn(learned, f"fold {number} of {n_folds}, training part", path).score(left))
            positions.append(rows[1])
        held, order = HeldOutRows.joined(parts), np.argsort(np.concatenate(positions))
        return HeldOutRows(held.scores[order], held.feature[order], held.y[order], held.qid[order])

    def choose(self, path: RankerPath, held: HeldOutRows | None) -> tuple[int, tuple[PathPoint, ...]]:
        """Return the index of the chosen ranker, and the path; the path is empty if there was no choice.

        Rows of a query are put in random order. Equal scores count in the order of the rows, so a file sorted by grade
        would make a ranker without features the best.
        """
        if held is None or path.l1s is None or len(path.rankers) == 1:
            return 0, ()
        mixed = mixed_rows(held.qid, self.random_state)
        trials = []
        for number, (l1, ranker) in enumerate(zip(path.l1s.tolist(), path.rankers, strict=True)):
            column = measure_rows(held.y[mixed], held.scores[mixed, number], held.qid[mixed], self.measure)
            trials.append(Trial({"l1": l1}, column.values[:, 0], n_used(ranker) or 0))
        higher = self.measure.higher_is_better
        best = trials[choose(trials, higher_is_better=higher)]
        errors = [standard_error(trial.values - best.values) for trial in trials]
        points = tuple(
            PathPoint(trial.setting["l1"], int(trial.size), trial.mean, None if np.isnan(error) else error)
            for trial, error in zip(trials, errors, strict=True)
        )
        return choose(trials, self.rule, higher_is_better=higher, paired=True), points


def _falling(l1s: Any) -> Matrix:
    """Check penalties and sort them from large to small."""
    try:
        penalties = np.sort(np.asarray(l1s, dtype=np.float64).ravel())[::-1]
    except (TypeError, ValueError):
        penalties = np.empty(0)
    if not penalties.size or not np.isfinite(penalties).all() or penalties[-1] < 0:
        raise InputError(f"l1s must be one or more finite numbers, none below 0; got {l1s!r}")
    return penalties


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
        return up * measure_rows(data.y[rows], feature.scores(X), number[rows], measure).mean(measure)

    return max((SingleFeature(j, sign) for j in columns.tolist() or [0] for sign in (1, -1)), key=value)


def grade_steps(data: LetorData) -> NDArray[np.int64]:
    """Differences of grade from each row to the next row of the same query; 0 from one query to the next."""
    steps = np.diff(data.y)
    steps[data.starts[1:-1] - 1] = 0
    return steps


def mixed_rows(qid: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Return all row numbers, query by query, the rows of a query in random order."""
    order = np.random.default_rng(seed).permutation(len(qid))
    _, query = np.unique(qid[order], return_inverse=True)
    return order[np.argsort(query, kind="stable")]
