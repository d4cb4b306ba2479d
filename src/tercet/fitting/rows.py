"""Learn a ranker from rows of feature vectors, behind ``tc.fit_letor``; from folds and from streams of rows, too.

Rankers are learned at every penalty. Held-out queries choose one, and the report compares it with the best feature.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Rule
from tercet.data import LetorData, LetorFold
from tercet.data.feature_names import checked_feature_names
from tercet.data.letor import LetorStream
from tercet.data.lines import FilePath
from tercet.errors import InputError
from tercet.fitting.feature_model import LETOR_MEASURES, FeatureModel, fit_width, n_used
from tercet.fitting.row_candidates import HeldOutRows, RankerPath, RowCandidates, grade_steps
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.ftrl_stream import StreamProgress
from tercet.learn.loop import Checkpoint
from tercet.measure import Measure, measure_rows, parse_measures
from tercet.report import Report, SystemResult, changes_between
from tercet.report.details import FeatureDetails, PathPoint

MEASURE = "nDCG(dcg='exp-log2')@10"
N_FOLDS = 5
_USUAL = {"loss": "hinge2", "kernel": "linear"}  # other values are part of a ranker's name


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
    began = time.perf_counter()
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
    held, notes = held.column(chosen), [*notes, *_notes_on(parts)]
    return _model(candidates, path, chosen, points, held, label, names, split, reported_on, notes, began)


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
    began = time.perf_counter()
    candidates = RowCandidates(measure, ranker, l1s, l2s, choose, random_state, verbose)
    everything = _every_query_once(folds)
    names = None if feature_names is None else checked_feature_names(feature_names, everything.n_features)
    path = candidates.learn(everything, "the training data")
    validated, tested, used, notes = [], [], [], []
    for fold in folds:
        own = candidates.learn(fold.train, f"the training part of {fold.name}", path)
        validated.append(own.score(fold.vali, fold.name))
        taken, _ = candidates.choose(own, validated[-1])
        tested.append(own.score(fold.test, fold.name).column(taken))
        used += [n for n in (n_used(own.rankers[taken]),) if n is not None]
        parts = {"training": fold.train, "validation": fold.vali, "test": fold.test}
        notes += [f"{fold.name}: {note}" for note in _notes_on(parts)]
    chosen, points = candidates.choose(path, HeldOutRows.joined(validated))
    held, n_folds = HeldOutRows.joined(tested), len(folds)
    at_which = ", at the penalty that the validation queries of all folds choose" if points else ""
    notes.insert(0, f"the model is learned on the rows of all folds{at_which}; the table is of the folds' own models.")
    split = f"In each of {n_folds} folds its validation queries chose."
    reported_on = f"the {len(np.unique(held.qid)):,} test queries of {n_folds} folds, each by the model of its fold"
    label = "best feature of each fold"
    return _model(candidates, path, chosen, points, held, label, names, split, reported_on, notes, began, tuple(used))


def fit_letor_stream(
    train: FilePath | LetorStream,
    *,
    validation: FilePath | LetorStream | None = None,
    test: FilePath | LetorStream | None = None,
    measures: str | Iterable[str | Measure] = LETOR_MEASURES,
    ranker: FTRLRanker | None = None,
    feature_names: Sequence[str] | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[StreamProgress], None] | None = None,
) -> FeatureModel:
    """Learn from a LETOR file chunk by chunk, one chunk in memory at a time, and measure other files the same way.

    No penalty is chosen: the ranker's own is taken. `fit_letor` chooses one if all rows fit in memory.

    Parameters
    ----------
    train, validation, test : LETOR files, or streams of them; the last two are only measured
    measures : what to measure
    ranker : an FTRLRanker with ``shuffle=False``
    feature_names : one for each feature
    checkpoint, progress : as in ``FTRLRanker.fit_stream``

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("1 qid:7 1:0.5 2:1\\n0 qid:7 2:1\\n")
    ...     model = fit_letor_stream(file, ranker=FTRLRanker(l1=0.1))
    >>> model.report.features.n_used, model.features()[0].feature
    (1, 1)
    """
    began = time.perf_counter()
    learner = FTRLRanker() if ranker is None else ranker
    if not isinstance(learner, FTRLRanker):
        raise InputError(f"only an FTRLRanker learns from a stream; got {type(learner).__name__}")
    parsed = parse_measures(measures)
    given = {"training": train, "validation": validation, "test": test}
    streams = {
        name: part if isinstance(part, LetorStream) else LetorStream(part)
        for name, part in given.items()
        if part is not None
    }
    training = streams.pop("training")
    for stream in streams.values():
        next(iter(stream))  # reads all of a file for its number of features, so errors come before the work
    last = StreamProgress()

    def keep_last(now: StreamProgress) -> None:
        nonlocal last
        last = now
        if progress is not None:
            progress(now)

    learner.fit_stream(training, checkpoint=checkpoint, progress=keep_last)
    model = FeatureModel(learner, None if feature_names is None else tuple(feature_names))
    systems, notes = {}, list[str]()
    for name, stream in streams.items():
        columns = []  # score, grade and query of each row
        for chunk in stream:
            rows, note = fit_width(chunk, model.n_features, str(stream.path))
            notes += [note] if note is not None and note not in notes else []
            columns.append((model.predict(rows.X), rows.y, rows.qid))
        scores, y, qid = map(np.concatenate, zip(*columns, strict=True))
        systems[f"{name} queries"] = measure_rows(y, scores, qid, parsed)
    if not systems:
        notes.append("nothing was held out, so nothing tells how it does on other queries; give a file of some.")
    passes = "one pass" if learner.epochs == 1 else f"{learner.epochs} passes"
    split = (
        f"{last.n_rows:,} rows of queries with pairs, {passes} in the order of the file; no penalty was chosen, "
        f"and the mean loss of a query in the last pass is {learner.loss_:.4g}."
    )
    title, seconds = f"{_name_of(learner)} with the penalty {learner.l1_:g}", time.perf_counter() - began
    reported_on, used = "queries that were not learned from", n_used(learner)
    details = FeatureDetails(title, "best", model.n_features, used, reported_on, (), None, (), learn_seconds=seconds)
    results = tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in systems.items())
    report = Report.from_features(details, str(parsed[0]), last.n_queries, split, results, seconds, notes=tuple(notes))
    return replace(model, report=report)


def _model(
    candidates: RowCandidates,
    path: RankerPath,
    chosen: int,
    points: tuple[PathPoint, ...],
    held: HeldOutRows,
    label: str,
    names: tuple[str, ...] | None,
    split: str,
    reported_on: str,
    notes: list[str],
    began: float,
    used_by_fold: tuple[int, ...] = (),
) -> FeatureModel:
    """Report on the chosen ranker and the best single feature, named ``label``, on held-out rows."""
    ranker, rule, number = path.rankers[chosen], candidates.rule, chosen if points else None
    name, n_features, used = _name_of(ranker), int(ranker.n_features_in_), n_used(ranker)
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
    details = FeatureDetails(title, rule, n_features, used, reported_on, points, number, used_by_fold, path.seconds)
    baseline, learned = (
        measure_rows(held.y, scores, held.qid, candidates.measures) for scores in (held.feature, held.scores[:, 0])
    )
    systems = SystemResult.from_evaluation(label, baseline), SystemResult.from_evaluation(name, learned)
    changes, seconds = changes_between(learned, baseline), time.perf_counter() - began
    report = Report.from_features(
        details, str(candidates.measure), path.n_queries, split, systems, seconds, changes, tuple(notes)
    )
    return FeatureModel(ranker, names, report)


def _name_of(ranker: Any) -> str:
    params = ranker.get_params()
    unusual = [params.get(name, usual) for name, usual in _USUAL.items() if params.get(name, usual) != usual]
    return ", ".join([type(ranker).__name__, *("a kernel of its own" if callable(one) else one for one in unusual)])


def _same_width(given: Mapping[str, LetorData | None]) -> tuple[dict[str, LetorData], list[str]]:
    """Give all parts the columns of the training data, with a note on each part that changed."""
    parts: dict[str, LetorData] = {}
    notes: list[str] = []
    for name, data in given.items():
        if data is None and name != "training":
            continue
        if not isinstance(data, LetorData):
            raise InputError(f"the {name} data must be LetorData, as read_letor gives it; got {type(data).__name__}")
        if not len(data):
            raise InputError(f"the {name} data have no rows")
        parts[name], note = fit_width(data, parts.get("training", data).n_features, f"the {name} data")
        notes += [] if note is None else [note]
    return parts, notes


def _every_query_once(folds: Sequence[LetorFold]) -> LetorData:
    """Join the rows of all folds; a query of several folds is taken from the first."""
    if not isinstance(folds, Sequence) or not folds or not all(isinstance(fold, LetorFold) for fold in folds):
        raise InputError("folds must be one or more LetorFold, as read_letor_folds gives them")
    parts = [part for fold in folds for part in (fold.train, fold.vali, fold.test)]
    if not all(map(len, parts)) or len({part.n_features for part in parts}) > 1:
        raise InputError("every part of every fold must have rows, and all the same number of features")
    seen: set[str] = set()
    blocks, y, qid = [], [], []
    for part in parts:
        fresh = np.repeat([name not in seen for name in part.qids.tolist()], np.diff(part.starts))
        seen.update(part.qids.tolist())
        blocks.append(part.X[fresh])
        y.append(part.y[fresh])
        qid.append(part.qid[fresh])
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
