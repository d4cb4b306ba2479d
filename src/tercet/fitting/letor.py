"""Learn a ranker from rows of feature vectors: ``tc.fit_letor``.

Rankers are learned at every penalty, held-out queries choose the penalty, and the report has the best feature as rival.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from tercet._validate import check_seed
from tercet.choose import RULES, Rule, Trial, choose, standard_error
from tercet.data import LetorData, query_folds
from tercet.data.feature_names import checked_feature_names
from tercet.errors import InputError, ParameterError
from tercet.fitting.feature_model import LETOR_MEASURES, FeatureModel, fit_width, n_used, ranker_name
from tercet.learn.features import FeatureRanker
from tercet.learn.linear import FenchelRanker, FTRLRanker, MeanRanker, ProximalRanker, l1_path
from tercet.learn.rls import RankRLS, choose_rls
from tercet.measure import Measure, measure_rows, parse_measure
from tercet.report import Report, SystemResult, changes_between
from tercet.report.details import FeatureDetails, PathPoint

MEASURE: Final = "nDCG(dcg='exp-log2')@10"
N_FOLDS: Final = 5
FEATURE_RANKERS: Final[dict[str, type[FeatureRanker]]] = {
    "ftrl": FTRLRanker,
    "proximal": ProximalRanker,
    "fenchel": FenchelRanker,
    "mean": MeanRanker,
    "rankrls": RankRLS,
}
MOST_CELLS = 2_000_000  # rows times features in the search for the best single feature
MOST_FEATURES = 5_000  # features in the same search

Matrix = NDArray[np.float64]


def fit_letor(
    train: LetorData,
    *,
    validation: LetorData | None = None,
    test: LetorData | None = None,
    folds: int | None = None,
    measure: str = MEASURE,
    ranker: Any = None,
    l1s: Sequence[float] | NDArray[Any] | None = None,
    l2s: Sequence[float] | NDArray[Any] | None = None,
    choose: Rule = "best",
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
) -> FeatureModel:
    """Learn a ranker of feature vectors, sparse and linear by default. Held-out queries choose its penalty.

    Parameters
    ----------
    train : rows to learn from
    validation : rows to choose the penalty on; by default a cross-validation by query chooses
    test : rows to report on; by default the rows of the choice, with a warning in the report
    folds : number of folds of the cross-validation; by default 5, or the number of queries if smaller
    measure : measure to choose by
    ranker : FTRLRanker() by default, learned at every penalty of an `l1_path`. Any other ranker is learned unchanged
        unless ``l1s`` are given
    l1s : penalties to choose from, or a single penalty to take; radii of a FenchelRanker. An FTRLRanker's penalty is a
        total over all queries: a fold of the cross-validation takes a share of the total
    l2s : penalties of a RankRLS or an RLSRegressor to choose from, by the leave-query-out disagreement error; every
        fold chooses separately. By default the ranker's ``l2``
    choose : the "best" mean, or the "sparsest" within a standard error of the difference to the best
    feature_names : names of all features
    random_state : seed of the folds, and of the order of equal scores when choosing

    Returns
    -------
    FeatureModel
        Learned from all training rows. Its ``report`` has the table, the path and the choice.

    Notes
    -----
    Rows of another width than the training rows are cut or filled with zeros, with a note in the report. Equal scores
    are measured in the order of the rows, as in `measure_rows`; choices take the rows of each query in random order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((200, 6))
    >>> data = LetorData(X, X[:, 1] + X[:, 4] > 1, np.repeat(np.arange(20), 10))
    >>> model = fit_letor(data, feature_names=list("abcdef"))
    >>> sorted(row.name for row in model.features()[:2])
    ['b', 'e']
    """
    began = time.perf_counter()
    candidates = RowCandidates.checked(ranker, l1s, l2s, measure, choose, random_state)
    if validation is not None and folds is not None:
        raise InputError("give validation data, or folds for a cross-validation, not both")
    parts, notes = _same_width({"training": train, "validation": validation, "test": test})
    train = parts["training"]
    names = None if feature_names is None else checked_feature_names(feature_names, train.n_features)
    path = candidates.learn(train, "the training data")
    held_out, scores = train, np.empty((0, 0))
    chosen, label = 0, path.feature.label(names)
    points: tuple[PathPoint, ...] = ()
    split, reported_on = "", ""
    if validation is not None:
        held_out = parts["validation"]
        scores = path.scores(held_out)
        split, reported_on = "Validation queries chose.", f"{held_out.n_queries:,} validation queries"
    elif test is None or len(path.rankers) > 1:
        if train.n_queries < 2:
            raise InputError("one query cannot be cross-validated; give validation data")
        n_folds = min(N_FOLDS, train.n_queries) if folds is None else folds
        scores = candidates.cross_validate(path, train, n_folds)
        split = f"Cross-validation by query in {n_folds} folds chose, then all were learned from."
        reported_on = f"{train.n_queries:,} queries, each held out in one of {n_folds} folds"
        label = label if test is not None else "best feature of each fold"
    if scores.size:
        chosen, points = candidates.choose(path, held_out, scores)
    if test is not None:
        held_out = parts["test"]
        scores = path.scores(held_out)
        reported_on = f"{held_out.n_queries:,} test queries, which nothing was chosen on"
    elif points:
        notes.append("the penalty was chosen on the queries of the table, which flatters it; test queries would tell.")
    best, title = path.rankers[chosen], candidates.title(path.rankers[chosen])
    if not points:
        split = "Nothing was chosen."
        if candidates.l2s is not None:
            split = f"Training queries, left out one after another, chose l2 from {len(candidates.l2s)}."
    notes += _notes_on(parts)
    if n_used(best) == 0:
        notes.append("no feature has a weight: all documents score the same.")
    measures = _measures_with(candidates.measure)
    learned, baseline = (measure_rows(held_out.y, scores[:, number], held_out.qid, measures) for number in (chosen, -1))
    report = Report.from_features(
        FeatureDetails(
            ranker=title if not points else ranker_name(best),
            choose=candidates.rule,
            n_features=int(best.n_features_in_),
            n_used=n_used(best),
            reported_on=reported_on,
            path=points,
            chosen=chosen if points else None,
            used_by_fold=(),
            learn_seconds=path.seconds,
        ),
        str(candidates.measure),
        path.n_queries,
        split,
        (SystemResult.from_evaluation(label, baseline), SystemResult.from_evaluation(ranker_name(best), learned)),
        time.perf_counter() - began,
        changes_between(learned, baseline),
        notes=tuple(notes),
    )
    return FeatureModel(best, names, report)


# -- candidates -------------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True, eq=False)
class RowCandidates:
    """Ranker to learn, penalties to try, and the rule of choice, as in ``fit_letor``."""

    pattern: Any
    l1s: Any
    l2s: Any
    measure: Measure
    rule: Rule
    seed: int

    @classmethod
    def checked(cls, ranker: Any, l1s: Any, l2s: Any, measure: str, rule: Rule, random_state: int) -> RowCandidates:
        if rule not in RULES:
            raise InputError(f"choose must be {' or '.join(map(repr, RULES))}; got {rule!r}")
        if ranker is not None and not isinstance(ranker, FeatureRanker):
            raise ParameterError(f"ranker must be a ranker of feature vectors, as FTRLRanker(); got {ranker!r}")
        if l1s is not None and l2s is not None:
            raise InputError("give l1s for a sparse ranker or l2s for a kernel ranker, not both")
        pattern = clone(FTRLRanker() if ranker is None else ranker)
        return cls(pattern, l1s, l2s, parse_measure(measure), rule, check_seed(random_state))

    def title(self, ranker: Any) -> str:
        """Name a ranker with a penalty that was not chosen from a path."""
        if self.l2s is not None:
            return f"{ranker_name(ranker)}, l2={ranker.l2:g}"
        if self.l1s is not None:
            return f"{ranker_name(ranker)}, {ranker._penalty_name}={self.l1s[0]:g}"
        return ranker_name(ranker)

    def learn(self, data: LetorData, name: str, whole: RankerPath | None = None) -> RankerPath:
        """Learn a ranker at each penalty, or a single ranker without a path.

        Parameters
        ----------
        data : training rows
        name : name of the rows in errors
        whole : path of all rows, if ``data`` is a part; a ranker is then learned at each penalty of the path. An
            FTRLRanker's penalty is a total over all queries: a part takes a share of the total
        """
        if not _grade_steps(data).any():
            raise InputError(
                f"{name}: none of its {data.n_queries:,} queries has two documents of different grades, so there is "
                "nothing to learn from"
            )
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
        return RankerPath(rankers, l1s, best_feature(data, self.measure, self.seed), data.n_queries, seconds)

    def cross_validate(self, path: RankerPath, data: LetorData, n_folds: int) -> Matrix:
        """Score each row by rankers learned without the row's query, as `RankerPath.scores` does."""
        scores = np.empty((len(data), len(path.rankers) + 1))
        for number, (rows, held_out) in enumerate(query_folds(data.qid, n_folds, self.seed), start=1):
            training = LetorData(data.X[rows], data.y[rows], data.qid[rows])
            part = self.learn(training, f"fold {number} of {n_folds}, training part", path)
            scores[held_out] = part.scores(LetorData(data.X[held_out], data.y[held_out], data.qid[held_out]))
        return scores

    def choose(self, path: RankerPath, held_out: LetorData, scores: Matrix) -> tuple[int, tuple[PathPoint, ...]]:
        """Return the index of the chosen ranker, and the path, empty without a choice."""
        if path.l1s is None or len(path.rankers) == 1:
            return 0, ()
        mixed = mixed_rows(held_out.qid, self.seed)
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
        return choose(trials, self.rule, higher_is_better=higher), points


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


# -- rows -------------------------------------------------------------------------------------------------------------


def mixed_rows(qid: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Return all row numbers, query by query, the rows of a query in random order.

    Equal scores count in the order of the rows: a file sorted by grade flatters a ranker with many ties.
    """
    order = np.random.default_rng(seed).permutation(len(qid))
    _, query = np.unique(qid[order].astype(np.str_), return_inverse=True)
    return order[np.argsort(query, kind="stable")]


def _grade_steps(data: LetorData) -> NDArray[np.int64]:
    """Differences of grade from each row to the next row of the same query; 0 between queries."""
    steps = np.diff(data.y)
    steps[data.starts[1:-1] - 1] = 0
    return steps


def _measures_with(measure: Measure) -> tuple[str, ...]:
    """Return the measures of the table, with the form of nDCG of the choice."""
    usual = LETOR_MEASURES
    if measure.name == "nDCG":
        usual = (*(str(replace(measure, cutoff=k)) for k in (1, 3, 5, 10)), "AP")
    return tuple(dict.fromkeys([*usual, str(measure)]))


def _same_width(data_by_name: Mapping[str, Any]) -> tuple[dict[str, LetorData], list[str]]:
    """Give all parts the columns of the training data, with a note on each changed part."""
    parts: dict[str, LetorData] = {}
    notes: list[str] = []
    for name, data in data_by_name.items():
        if data is None and name != "training":
            continue
        parts[name], note = fit_width(data, parts["training"].n_features if parts else None, f"the {name} data")
        notes += [] if note is None else [note]
        if not len(data):
            raise InputError(f"the {name} data have no rows")
    return parts, notes


def _notes_on(parts: Mapping[str, LetorData]) -> list[str]:
    """Warn of queries in two parts, of queries without a relevant document, and of rows sorted by grade."""
    notes = [
        f"{n_shared:,} query ids are in both the {first} and the {second} data; the figures mean something only if "
        "they are different queries."
        for first, second in combinations(parts, 2)
        if (n_shared := len(np.intersect1d(parts[first].qids, parts[second].qids)))
    ]
    for name, data in parts.items():
        if name == "training":
            continue
        if n_empty := int((np.maximum.reduceat(data.y, data.starts[:-1]) < 1).sum()):
            notes.append(f"{n_empty:,} of {data.n_queries:,} {name} queries have no relevant document and count 0.")
        steps = _grade_steps(data)
        if steps.any() and steps.max() <= 0:
            notes.append(
                f"the rows of the {name} data are sorted by grade; equal scores are measured in the order of the rows, "
                "which flatters a ranker that has many."
            )
    return notes
