"""Rankers of feature vectors at every penalty, and the choice between them on rows they did not learn from."""

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
from tercet.fitting.feature_model import LETOR_MEASURES, weights_of
from tercet.learn.features import FeatureRanker
from tercet.learn.linear import FTRLRanker, l1_path
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.progress import SHOW_AFTER_SECONDS, ProgressBar
from tercet.learn.rls import KernelLeastSquares, choose_rls
from tercet.learn.rls.path import checked_l2s
from tercet.measure import Evaluation, Measure, measure_rows, parse_measure
from tercet.report.details import PathPoint

MOST_CELLS = 2_000_000  # rows times features, when the best single feature is looked for
MOST_FEATURES = 5_000
MANY_ROWS = 200_000  # so many take long enough at every penalty that a terminal is told

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RankerPath:
    """The rankers to choose between, and their penalties where they have any, from few features to many."""

    rankers: tuple[Any, ...]
    l1s: Matrix | None

    def __len__(self) -> int:
        return len(self.rankers)

    @property
    def n_used(self) -> list[int | None]:
        """Features used by each; None for a ranker without weights."""
        weights = map(weights_of, self.rankers)
        return [None if w is None else int(np.count_nonzero(w)) for w in weights]

    def scores(self, X: Any) -> Matrix:
        """(n_rows, n)"""
        return np.column_stack([ranker.predict(X) for ranker in self.rankers])


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Scores of rows that were not learned from: of every ranker (n_rows, n), and of one feature (n_rows,)."""

    scores: Matrix
    feature: Matrix
    y: NDArray[np.int64]
    qid: NDArray[np.str_]

    def of_fold(self, name: str) -> HeldOutRows:
        """The same with queries named after a fold, so that two folds may have the same query."""
        return replace(self, qid=np.array([f"{name}/{qid}" for qid in self.qid.tolist()]))

    def column(self, ranker: int) -> HeldOutRows:
        """The same with the scores of one ranker only."""
        return replace(self, scores=self.scores[:, [ranker]])

    @classmethod
    def joined(cls, parts: list[HeldOutRows]) -> HeldOutRows:
        scores, feature, y, qid = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "feature", "y", "qid")
        )
        return cls(scores, feature, y, qid)


@dataclass(frozen=True)
class SingleFeature:
    """A feature, counted from 0, by which to rank; ``sign`` is -1 where less of it is better."""

    column: int
    sign: int

    def scores(self, X: Any) -> Matrix:
        return self.sign * _column(X, self.column).astype(np.float64)

    def label(self, names: tuple[str, ...] | None) -> str:
        name = f"best feature: {self.column + 1}" + ("" if names is None else f" {names[self.column][:30]}")
        return name + (", reversed" if self.sign < 0 else "")


@dataclass(frozen=True, eq=False)
class RowCandidates:
    """What to learn from rows and how to choose, checked: the rankers of a path, or the one that has no path."""

    measure: Measure
    pattern: Any
    l1s: Matrix | None
    rule: Rule
    random_state: int
    bar: ProgressBar
    l2s: Matrix | None = None

    @classmethod
    def checked(
        cls,
        measure: str,
        ranker: Any,
        l1s: Any,
        choose: str,
        random_state: int,
        verbose: bool | None,
        l2s: Any = None,
    ) -> RowCandidates:
        rule = next((name for name in RULES if name == choose), None)
        if rule is None:
            raise InputError(f"choose must be {' or '.join(map(repr, RULES))}; got {choose!r}")
        seed = check_seed(random_state)
        if ranker is not None and not isinstance(ranker, FeatureRanker):
            raise ParameterError(f"ranker must be a ranker of feature vectors, as FTRLRanker(); got {ranker!r}")
        pattern = clone(FTRLRanker() if ranker is None else ranker)
        penalties = None
        if l1s is not None:
            try:
                penalties = np.sort(np.asarray(l1s, dtype=np.float64).ravel())[::-1]
            except (TypeError, ValueError):
                raise InputError(f"l1s must be one or more finite numbers, none below 0; got {l1s!r}") from None
            if not penalties.size or not np.isfinite(penalties).all() or penalties[-1] < 0:
                raise InputError("l1s must be one or more finite numbers, none below 0")
            if not isinstance(pattern, SparseLinearRanker):
                raise ParameterError(f"a {type(pattern).__name__} has no penalty l1; leave out l1s")
        if l2s is not None and not isinstance(pattern, KernelLeastSquares):
            raise ParameterError(f"a {type(pattern).__name__} has no penalty l2 to choose; leave out l2s")
        bar = ProgressBar(type(pattern).__name__, None, 0, verbose)
        strengths = None if l2s is None else checked_l2s(l2s)
        return cls(parse_measure(measure), pattern, penalties, rule, seed, bar, strengths)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of the report's table, with the form of nDCG that the choice is by."""
        usual = LETOR_MEASURES
        if self.measure.name == "nDCG":
            usual = (*(str(replace(self.measure, cutoff=k)) for k in (1, 3, 5, 10)), "AP")
        return tuple(dict.fromkeys([*usual, str(self.measure)]))

    def penalty_of(self, ranker: Any) -> str:
        """The penalty of a ranker that was not chosen from a path, by its name."""
        if self.l2s is not None:
            return f", l2={ranker.l2:g}"
        return "" if self.l1s is None else f", {getattr(self.pattern, '_penalty_name', 'l1')}={self.l1s[0]:g}"

    @property
    def choice_without_path(self) -> str:
        """What is said of the choice where no path was chosen from."""
        if self.l2s is None:
            return "Nothing was chosen."
        return f"Training queries, left out one after another, chose l2 from {len(self.l2s)}."

    def tell(self, what: str, *, at_once: bool = False) -> None:
        """Say where the work is, once it has lasted a second."""
        if at_once or time.perf_counter() - self.bar.started > SHOW_AFTER_SECONDS:
            self.bar.say(what)

    # -- learning ---------------------------------------------------------------------------------------------------

    def compile(self, data: LetorData) -> None:
        """Let the compiler do its work on one query, so that what is timed is learning."""
        if isinstance(self.pattern, FTRLRanker) and has_pairs(data):
            spread = np.maximum.reduceat(data.y, data.starts[:-1]) > np.minimum.reduceat(data.y, data.starts[:-1])
            first, stop = data.starts[spread.argmax() :][:2]
            l1_path(data.X[first:stop], data.y[first:stop], l1s=[0.0], ranker=self.pattern)

    def learn(self, data: LetorData, l1s: Matrix | None, name: str) -> RankerPath:
        """Rankers at these penalties; without any, those of a path, or the one ranker that has no path."""
        if not has_pairs(data):
            raise InputError(
                f"{name}: none of its {data.n_queries:,} queries has two documents of different grades, so there is "
                "nothing to learn from"
            )
        if len(data) >= MANY_ROWS:
            self.tell(f"learning from the {len(data):,} rows of {name}", at_once=True)
        rows = data.X, data.y, data.qid
        if isinstance(self.pattern, FTRLRanker) or l1s is not None:
            # Cold, so that fitting a clone of the chosen ranker again gives its weights bit for bit.
            path = l1_path(*rows, l1s=l1s, ranker=self.pattern, warm_start=False)
            return RankerPath(path.rankers, path.l1s)
        if self.l2s is not None:
            return RankerPath((choose_rls(*rows, l2s=self.l2s, ranker=self.pattern).ranker,), None)
        return RankerPath((clone(self.pattern).fit(*rows),), None)

    def share(self, path: RankerPath, n_queries: int, of: int) -> Matrix | None:
        """The penalties that do with some of the queries what ``path`` does with all of them."""
        if path.l1s is None or not isinstance(self.pattern, FTRLRanker):
            return path.l1s
        return path.l1s * (n_queries / of)

    def cross_validate(self, path: RankerPath, data: LetorData, n_folds: int) -> HeldOutRows:
        """Scores of all rows, each by rankers that have not seen its query."""
        held = HeldOutRows(np.empty((len(data), len(path))), np.empty(len(data)), data.y, data.qid)
        for number, (learned, left) in enumerate(query_folds(data.qid, n_folds, self.random_state), start=1):
            self.tell(f"fold {number} of {n_folds}")
            part = LetorData(data.X[learned], data.y[learned], data.qid[learned])
            own = self.learn(
                part, self.share(path, part.n_queries, data.n_queries), f"fold {number} of {n_folds}, training part"
            )
            held.scores[left] = own.scores(data.X[left])
            held.feature[left] = self.best_feature(part).scores(data.X[left])
        return held

    # -- choosing ---------------------------------------------------------------------------------------------------

    def choose(self, path: RankerPath, held: HeldOutRows) -> tuple[int, tuple[PathPoint, ...]]:
        """The number of the chosen ranker, and the path it was chosen from; no path where there was no choice.

        Rows of a query are put in random order: where equal scores count in the order of the file, and the file is
        sorted by grade, a ranker without features would be the best.
        """
        if len(path) == 1 or path.l1s is None:
            return 0, ()
        mixed = mixed_rows(held.qid, self.random_state)
        y, qid = held.y[mixed], held.qid[mixed]
        columns = (measure_rows(y, held.scores[mixed, i], qid, self.measure) for i in range(len(path)))
        table = np.stack([column.values[:, 0] for column in columns])  # (n, n_queries)
        sizes = [np.inf if n_used is None else n_used for n_used in path.n_used]
        trials = [Trial({"l1": l1}, row, size) for l1, row, size in zip(path.l1s.tolist(), table, sizes, strict=True)]
        higher = self.measure.higher_is_better
        best = trials[choose(trials, higher_is_better=higher)]
        chosen = choose(trials, self.rule, higher_is_better=higher, paired=True)
        errors = [standard_error(trial.values - best.values) for trial in trials]
        return chosen, tuple(
            PathPoint(trial.setting["l1"], int(trial.size), trial.mean, None if np.isnan(error) else error)
            for trial, error in zip(trials, errors, strict=True)
        )

    def best_feature(self, data: LetorData) -> SingleFeature:
        """The feature that ranks these queries best by itself, upwards or downwards; of equal ones the first.

        Of large sets so many queries are looked at, drawn at random, as make `MOST_CELLS`; of wide ones the
        `MOST_FEATURES` features that most rows have.
        """
        number = np.repeat(np.arange(data.n_queries), np.diff(data.starts))
        sizes = np.diff(data.starts)
        drawn = np.random.default_rng(self.random_state).permutation(data.n_queries)
        enough = int(np.searchsorted(np.cumsum(sizes[drawn]), MOST_CELLS // data.n_features)) + 1
        rows = np.flatnonzero(np.isin(number, drawn[:enough]))
        rows = rows[mixed_rows(number[rows], self.random_state)]
        X, y, query = data.X[rows], data.y[rows], number[rows]
        X = sparse.csc_array(X) if sparse.issparse(X) else X
        best, most = SingleFeature(0, 1), -np.inf
        for column in _columns_to_look_at(X):
            values = _column(X, column)
            for sign in (1, -1):
                value = measure_rows(y, sign * values, query, self.measure).mean(self.measure)
                value = value if self.measure.higher_is_better else -value
                if value > most:
                    best, most = SingleFeature(column, sign), value
        return best

    def measured(self, held: HeldOutRows, ranker: int) -> tuple[Evaluation, Evaluation]:
        """The single feature and the ranker, every measure of the table."""
        return (
            measure_rows(held.y, held.feature, held.qid, self.measures),
            measure_rows(held.y, held.scores[:, ranker], held.qid, self.measures),
        )


def has_pairs(data: LetorData) -> bool:
    """Whether some query has documents of different grades."""
    if not len(data):
        return False
    lowest, highest = (extreme.reduceat(data.y, data.starts[:-1]) for extreme in (np.minimum, np.maximum))
    return bool((lowest < highest).any())


def mixed_rows(qid: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """All rows, those of a query together and in random order."""
    order = np.random.default_rng(seed).permutation(len(qid))
    _, query = np.unique(qid[order], return_inverse=True)
    return order[np.argsort(query, kind="stable")]


def _columns_to_look_at(X: Any) -> list[int]:
    """Columns that are not the same in all rows, rising; of more than `MOST_FEATURES` those with most values."""
    if sparse.issparse(X):
        low, high = (np.asarray(row.toarray()).ravel() for row in (X.min(axis=0), X.max(axis=0)))
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    columns = np.flatnonzero(low < high)
    if len(columns) > MOST_FEATURES:
        n_values = np.diff(X.indptr) if sparse.issparse(X) else np.count_nonzero(X, axis=0)
        columns = np.sort(columns[np.argsort(-n_values[columns], kind="stable")[:MOST_FEATURES]])
    return [int(column) for column in columns]


def _column(X: Any, column: int) -> NDArray[Any]:
    if sparse.issparse(X):
        return np.asarray(X[:, [column]].toarray()).ravel()
    return np.asarray(X[:, column])
