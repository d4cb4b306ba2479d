"""Learn a ranker from rows of feature vectors: ``tc.fit_letor``.

Rankers are learned at every penalty, held-out queries choose the penalty, and the report has the best feature as rival.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.choose import Rule
from tercet.data import LetorData
from tercet.data.feature_names import checked_feature_names
from tercet.errors import InputError
from tercet.fitting.feature_model import LETOR_MEASURES, FeatureModel, fit_width, n_used, ranker_name
from tercet.fitting.row_candidates import RankerPath, RowCandidates, grade_steps
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
    verbose : None shows progress on a terminal, True always, False never

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
    candidates = RowCandidates(measure, ranker, l1s, l2s, choose, random_state, verbose)
    if validation is not None and folds is not None:
        raise InputError("give validation data, or folds for a cross-validation, not both")
    parts, notes = _same_width({"training": train, "validation": validation, "test": test})
    train = parts["training"]
    names = None if feature_names is None else checked_feature_names(feature_names, train.n_features)
    path = candidates.learn(train, "the training data")
    label, split, reported_on = path.feature.label(names), "", ""
    held_out, scores = train, np.empty((0, 0))
    chosen = 0
    points: tuple[PathPoint, ...] = ()
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
    notes += _notes_on(parts)
    report = _report(candidates, path, chosen, points, held_out, scores, label, split, reported_on, notes)
    return FeatureModel(path.rankers[chosen], names, report)


def _report(
    candidates: RowCandidates,
    path: RankerPath,
    chosen: int,
    points: tuple[PathPoint, ...],
    held_out: LetorData,
    scores: NDArray[np.float64],
    label: str,
    split: str,
    reported_on: str,
    notes: list[str],
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
    if measure.name == "nDCG":  # the form of nDCG of the choice
        measures = (*(str(replace(measure, cutoff=k)) for k in (1, 3, 5, 10)), "AP")
    measures = tuple(dict.fromkeys([*measures, str(measure)]))
    learned, baseline = (measure_rows(held_out.y, scores[:, number], held_out.qid, measures) for number in (chosen, -1))
    details = FeatureDetails(
        ranker=title,
        choose=candidates.rule,
        n_features=int(ranker.n_features_in_),
        n_used=used,
        reported_on=reported_on,
        path=points,
        chosen=chosen if points else None,
        used_by_fold=(),
        learn_seconds=path.seconds,
    )
    systems = SystemResult.from_evaluation(label, baseline), SystemResult.from_evaluation(name, learned)
    changes, seconds = changes_between(learned, baseline), time.perf_counter() - candidates.bar.started
    return Report.from_features(
        details, str(measure), path.n_queries, split, systems, seconds, changes, notes=tuple(notes)
    )


def _same_width(given: Mapping[str, Any]) -> tuple[dict[str, LetorData], list[str]]:
    """Give all parts the columns of the training data, with a note on each changed part."""
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
