"""Learn a ranker from rows of feature vectors, behind ``tc.fit_letor``, and from folds of rows.

Rankers are learned at every penalty. Held-out queries choose one, and the report compares it with the best feature.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Rule
from tercet.data import LetorData, LetorFold
from tercet.data.feature_names import checked_feature_names
from tercet.errors import InputError
from tercet.fitting.feature_model import LETOR_MEASURES, FeatureModel, fit_width, n_used, ranker_name
from tercet.fitting.row_candidates import HeldOutRows, RankerPath, RowCandidates, grade_steps
from tercet.measure import measure_rows
from tercet.report import Report, SystemResult, changes_between
from tercet.report.details import FeatureDetails, PathPoint

MEASURE = "nDCG(dcg='exp-log2')@10"
N_FOLDS = 5


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
    verbose: bool | None = None,
) -> FeatureModel:
    """Learn a ranker of feature vectors, sparse and linear by default. Held-out queries choose its penalty.

    Parameters
    ----------
    train : rows to learn from
    validation : rows to choose the penalty on; by default a cross-validation by query chooses
    test : rows to report on; by default the queries that chose, which flatters, and the report says so
    folds : of the cross-validation; by default 5, or one for each query of fewer
    measure : measure to choose by
    ranker : FTRLRanker() by default, learned at every penalty of an `l1_path`. Any other ranker is learned as it is
        unless ``l1s`` are given
    l1s : penalties to choose from, or a single one to take; of a FenchelRanker the radii. An FTRLRanker's penalty is a
        total over all queries, so a fold of the cross-validation takes its share
    l2s : penalties of a RankRLS or an RLSRegressor to choose from, by the disagreement error of training queries left
        out one after another; every fold chooses for itself. Without ``l2s`` the ranker's own ``l2`` is taken
    choose : the "best" mean, or the "sparsest" within one standard error of the best; the error is that of the
        difference over the same queries
    feature_names : one for each feature
    random_state : seed of the folds, and of the order of equal scores when choosing
    verbose : None shows progress on a terminal, True always, False never

    Returns
    -------
    FeatureModel
        Learned from all training rows. Its ``report`` has the table, the path and the choice.

    Notes
    -----
    Rows of another width than the training rows are cut or filled with zeros, and the report says so. Equal scores are
    measured in the order of the rows, as in `measure_rows`; choices take the rows of each query in random order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((200, 6))
    >>> data = LetorData(X, X[:, 1] + X[:, 4] > 1, np.repeat(np.arange(20), 10))
    >>> model = fit_letor(data, feature_names=list("abcdef"))
    >>> sorted(row.name for row in model.features()[:2])
    ['b', 'e']
    """
    candidates = RowCandidates(measure, ranker, l1s, l2s, choose, random_state, verbose)
    if validation is not None and folds is not None:
        raise InputError("give validation data, or folds for a cross-validation, not both")
    parts, notes = _same_width({"training": train, "validation": validation, "test": test})
    train = parts["training"]
    names = None if feature_names is None else checked_feature_names(feature_names, train.n_features)
    path = candidates.learn(train, "the training data")
    label, held, split, reported_on = path.feature.label(names), None, "", ""
    if validation is not None:
        held = path.score(parts["validation"])
        split, reported_on = "Validation queries chose.", f"{validation.n_queries:,} validation queries"
    elif test is None or len(path.rankers) > 1:
        if train.n_queries < 2:
            raise InputError("one query cannot be cross-validated; give validation data")
        n_folds = min(N_FOLDS, train.n_queries) if folds is None else folds
        held = candidates.cross_validate(path, train, n_folds)
        split = f"Cross-validation by query in {n_folds} folds chose, then all were learned from."
        reported_on = f"{train.n_queries:,} queries, each held out in one of {n_folds} folds"
        label = label if test is not None else "best feature of each fold"
    chosen, points = candidates.choose(path, held)
    if test is not None:
        held = path.score(parts["test"])
        reported_on = f"{test.n_queries:,} test queries, which nothing was chosen on"
    elif points:
        notes.append("the penalty was chosen on the queries of the table, which flatters it; test queries would tell.")
    assert held is not None  # without test rows there are validation rows or a cross-validation
    held, notes = held.of_ranker(chosen), [*notes, *_notes_on(parts)]
    report = _report(candidates, path, chosen, points, held, label, split, reported_on, notes)
    return FeatureModel(path.rankers[chosen], names, report)


def fit_letor_folds(
    folds: Sequence[LetorFold],
    *,
    measure: str = MEASURE,
    ranker: Any = None,
    l1s: Sequence[float] | NDArray[Any] | None = None,
    l2s: Sequence[float] | NDArray[Any] | None = None,
    choose: Rule = "best",
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
    verbose: bool | None = None,
) -> FeatureModel:
    """Learn and choose in each fold, report on the test queries of all folds, and learn one model from all rows.

    Each fold learns from its training rows, chooses on its validation rows, and measures its test rows. The report has
    the means over the test queries of all folds. The model is learned from each query of all folds once, at the penalty
    that the validation queries of all folds choose. The model has seen the test queries, so the report is on the models
    of the folds.

    Parameters
    ----------
    folds : as `read_letor_folds` gives them
    measure, ranker, l1s, l2s, choose, feature_names, random_state, verbose : as in `fit_letor`

    Examples
    --------
    >>> import numpy as np
    >>> from tercet.data import LetorData
    >>> rng = np.random.default_rng(0)
    >>> def rows(first):
    ...     X = rng.random((40, 3)).astype(np.float32)
    ...     return LetorData(X, (X[:, 1] > 0.5).astype(np.int64), [f"q{first + i // 4}" for i in range(40)], None)
    >>> folds = [LetorFold(f"Fold{i}", rows(100 * i), rows(100 * i + 20), rows(100 * i + 40)) for i in range(2)]
    >>> model = fit_letor_folds(folds)
    >>> model.features()[0].feature
    2
    """
    candidates = RowCandidates(measure, ranker, l1s, l2s, choose, random_state, verbose)
    everything = _every_query_once(folds)
    names = None if feature_names is None else checked_feature_names(feature_names, everything.n_features)
    path = candidates.learn(everything, "the training data")
    validated, tested, used, notes = [], [], [], []
    for fold in folds:
        own = candidates.learn(fold.train, f"the training part of {fold.name}", path)
        validated.append(own.score(fold.vali, fold.name))
        taken, _ = candidates.choose(own, validated[-1])
        tested.append(own.score(fold.test, fold.name).of_ranker(taken))
        used.append(n_used(own.rankers[taken]))
        parts = {"training": fold.train, "validation": fold.vali, "test": fold.test}
        notes += [f"{fold.name}: {note}" for note in _notes_on(parts)]
    chosen, points = candidates.choose(path, HeldOutRows.joined(validated))
    held = HeldOutRows.joined(tested)
    at_which = ", at the penalty that the validation queries of all folds choose" if points else ""
    notes.insert(0, f"the model is learned on the rows of all folds{at_which}; the table is of the folds' own models.")
    split = f"In each of {len(folds)} folds its validation queries chose."
    n_queries = len(np.unique(held.qid))
    reported_on = f"the {n_queries:,} test queries of {len(folds)} folds, each by the model of its fold"
    label = "best feature of each fold"
    report = _report(candidates, path, chosen, points, held, label, split, reported_on, notes, used)
    return FeatureModel(path.rankers[chosen], names, report)


def _report(
    candidates: RowCandidates,
    path: RankerPath,
    chosen: int,
    points: tuple[PathPoint, ...],
    held: HeldOutRows,
    label: str,
    split: str,
    reported_on: str,
    notes: list[str],
    used_by_fold: Sequence[int | None] = (),
) -> Report:
    """Report on the chosen ranker and the best single feature, named ``label``, on held-out rows."""
    ranker, measure = path.rankers[chosen], candidates.measure
    name, used = ranker_name(ranker), n_used(ranker)
    title = name
    if not points:
        split = "Nothing was chosen."
        if candidates.l2s is not None:
            title += f", l2={ranker.l2:g}"
            split = f"Training queries, left out one after another, chose l2 from {len(candidates.l2s)}."
        elif candidates.l1s is not None:
            title += f", {ranker._penalty_name}={candidates.l1s[0]:g}"
    if used == 0:
        notes = [*notes, "no feature has a weight: all documents score the same."]
    measures = LETOR_MEASURES
    if measure.name == "nDCG":  # the form of nDCG that the choice is by
        measures = (*(str(replace(measure, cutoff=k)) for k in (1, 3, 5, 10)), "AP")
    measures = tuple(dict.fromkeys([*measures, str(measure)]))
    learned, baseline = (measure_rows(held.y, scores, held.qid, measures) for scores in held.scores.T)
    details = FeatureDetails(
        ranker=title,
        choose=candidates.rule,
        n_features=int(ranker.n_features_in_),
        n_used=used,
        reported_on=reported_on,
        path=points,
        chosen=chosen if points else None,
        used_by_fold=tuple(n for n in used_by_fold if n is not None),
        learn_seconds=path.seconds,
    )
    systems = SystemResult.from_evaluation(label, baseline), SystemResult.from_evaluation(name, learned)
    changes, seconds = changes_between(learned, baseline), time.perf_counter() - candidates.bar.started
    return Report.from_features(
        details, str(measure), path.n_queries, split, systems, seconds, changes, notes=tuple(notes)
    )


def _same_width(given: Mapping[str, Any]) -> tuple[dict[str, LetorData], list[str]]:
    """Give all parts the columns of the training data, with a note on each part that changed."""
    parts: dict[str, LetorData] = {}
    notes: list[str] = []
    for name, data in given.items():
        if data is None and name != "training":
            continue
        parts[name], note = fit_width(data, parts["training"].n_features if parts else None, f"the {name} data")
        notes += [] if note is None else [note]
        if not len(data):
            raise InputError(f"the {name} data have no rows")
    return parts, notes


def _every_query_once(folds: Sequence[LetorFold]) -> LetorData:
    """Join the rows of all folds; a query of several folds is taken from the first."""
    if not isinstance(folds, Sequence) or not folds or not all(isinstance(fold, LetorFold) for fold in folds):
        raise InputError("folds must be one or more LetorFold, as read_letor_folds gives them")
    parts = [part for fold in folds for part in (fold.train, fold.vali, fold.test)]
    if not all(map(len, parts)) or len({part.n_features for part in parts}) > 1:
        raise InputError("every part of every fold must have rows, and all the same number of features")
    qids, sizes = (np.concatenate(each) for each in ([p.qids for p in parts], [np.diff(p.starts) for p in parts]))
    is_first = np.isin(np.arange(len(qids)), np.unique(qids, return_index=True)[1])
    rows = np.split(np.repeat(is_first, sizes), np.cumsum([len(part) for part in parts])[:-1])
    kept = [(part.X[some], part.y[some], part.qid[some]) for part, some in zip(parts, rows, strict=True)]
    blocks, y, qid = zip(*kept, strict=True)
    X = sparse.vstack(blocks, format="csr") if any(map(sparse.issparse, blocks)) else np.concatenate(blocks)
    return LetorData(X, np.concatenate(y), np.concatenate(qid))


def _notes_on(parts: Mapping[str, LetorData]) -> list[str]:
    """Warn of queries in two parts, of queries without a relevant document, and of rows sorted by grade."""
    notes = [
        f"{n_shared:,} query ids are in both the {one} and the {other} data; the figures mean something only if they "
        "are different queries."
        for one, other in combinations(parts, 2)
        if (n_shared := len(np.intersect1d(parts[one].qids, parts[other].qids)))
    ]
    for name, data in parts.items():
        if name == "training":
            continue
        if n_empty := int((np.maximum.reduceat(data.y, data.starts[:-1]) < 1).sum()):
            notes.append(f"{n_empty:,} of {data.n_queries:,} {name} queries have no relevant document and count 0.")
        steps = grade_steps(data)
        if steps.any() and steps.max() <= 0:
            notes.append(
                f"the rows of the {name} data are sorted by grade; equal scores are measured in the order of the rows, "
                "which flatters a ranker that has many."
            )
    return notes
