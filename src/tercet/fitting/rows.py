"""Rows of feature vectors as a task, behind ``tc.fit_letor``: learn at every penalty, choose one on queries that were
not learned from, and report it against the best single feature. Folds and streams of rows likewise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from tercet.fitting.feature_model import LETOR_MEASURES, FeatureModel, fit_width
from tercet.fitting.row_candidates import HeldOutRows, RankerPath, RowCandidates, SingleFeature, has_pairs
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.ftrl_stream import StreamProgress
from tercet.learn.loop import Checkpoint
from tercet.measure import Evaluation, Measure, measure_rows, parse_measures
from tercet.report import Report, SystemResult, changes_between
from tercet.report.details import FeatureDetails, PathPoint

MEASURE = "nDCG(dcg='exp-log2')@10"
N_FOLDS = 5
_USUAL = {"loss": "hinge2", "kernel": "linear"}  # parameters that are part of a ranker's name where they are another


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
    """Learn a ranker of feature vectors, sparse and linear by default, its penalty chosen on queries it did not see.

    Parameters
    ----------
    train : rows to learn from
    validation : rows to choose the penalty on. Without them it is chosen by cross-validation by query, and the model
        is the ranker of all training rows
    test : rows to report on. Without them the report is on the queries that chose, and says that this flatters
    folds : of the cross-validation; by default 5, or one a query where there are fewer. Not with ``validation``
    measure : what the choice is by
    ranker : what to learn; ``FTRLRanker()`` by default. An FTRLRanker is learned at every penalty of an `l1_path`, any
        other one as it is unless ``l1s`` are given
    l1s : penalties to choose from, or a single one to take; of a FenchelRanker the radii. An FTRLRanker's penalty is a
        total over all queries, so a fold of the cross-validation takes the share that its queries are
    l2s : of a RankRLS or an RLSRegressor, penalties to choose from, by the disagreement error of training queries that
        are left out one after another; every fold chooses for itself. Without them its own ``l2`` is taken
    choose : the "best" mean, or the "sparsest" that is within one standard error of the best; the error is that of the
        difference over the same queries
    feature_names : one for each feature
    random_state : seed of the folds, and of the order of equal scores when choosing
    verbose : None shows progress on a terminal, True always, False never

    Returns
    -------
    FeatureModel
        Its ``report`` has the table, the path and the choice.

    Notes
    -----
    Rows of another width than the training rows are cut or filled with zeros, and the report says so. Equal scores are
    measured in the order of the rows, as in `measure_rows`, but choices are made with the rows of each query in random
    order.

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
    candidates = RowCandidates.checked(measure, ranker, l1s, choose, random_state, verbose, l2s)
    if validation is not None and folds is not None:
        raise InputError("give validation data, or folds for a cross-validation, not both")
    parts, notes = _same_width({"training": train, "validation": validation, "test": test})
    train, validation, test = (parts.get(name) for name in ("training", "validation", "test"))  # type: ignore[assignment]
    names = None if feature_names is None else checked_feature_names(feature_names, train.n_features)
    path, learn_seconds = _learn_timed(candidates, train)
    single = candidates.best_feature(train)
    label = single.label(names)
    held: HeldOutRows | None = None
    if validation is not None:
        held = _held_out(path, single, validation)
        split, where = "Validation queries chose.", f"{validation.n_queries:,} validation queries"
    elif len(path) == 1 and test is not None and folds is None:
        split, where = "", ""
    else:
        n_folds = _n_folds(folds, train)
        held = candidates.cross_validate(path, train, n_folds)
        split = f"Cross-validation by query in {n_folds} folds chose, then all were learned from."
        where = f"{train.n_queries:,} queries, each held out in one of {n_folds} folds"
        label = label if test is not None else "best feature of each fold"
    chosen, points = (0, ()) if held is None else candidates.choose(path, held)
    if test is not None:
        held, where = _held_out(path, single, test), f"{test.n_queries:,} test queries, which nothing was chosen on"
    elif points:
        notes.append("the penalty was chosen on the queries of the table, which flatters it; test queries would tell.")
    assert held is not None  # what has no validation and no test is cross-validated
    baseline, learned = candidates.measured(held, chosen)
    report = _report(
        candidates,
        path.rankers[chosen],
        {label: baseline, _name_of(path.rankers[chosen]): learned},
        points,
        chosen,
        n_train=train.n_queries,
        split=split,
        reported_on=where,
        notes=(*notes, *_notes_on(parts)),
        learn_seconds=learn_seconds,
        began=began,
    )
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
    """Learn and choose in each fold for itself, report on the test queries of all, and learn one model on all rows.

    In each fold rankers are learned on its training rows, the penalty is chosen on its validation rows, and its test
    rows are measured. The report has the means over the test queries of all folds. The model returned is learned on the
    rows of all folds, each query once, at the penalty that the same rule chooses on the validation queries of all
    folds. It has seen the test queries: the report is on the folds' models, and not on it.

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
    candidates = RowCandidates.checked(measure, ranker, l1s, choose, random_state, verbose, l2s)
    everything = _every_query_once(folds)
    names = None if feature_names is None else checked_feature_names(feature_names, everything.n_features)
    path, learn_seconds = _learn_timed(candidates, everything)
    to_choose, to_report, used, notes = [], [], [], []
    for fold in folds:
        candidates.tell(f"{fold.name} of {len(folds)} folds")
        l1s_here = candidates.share(path, fold.train.n_queries, everything.n_queries)
        own = candidates.learn(fold.train, l1s_here, f"the training part of {fold.name}")
        single = candidates.best_feature(fold.train)
        held = _held_out(own, single, fold.vali).of_fold(fold.name)
        taken, _ = candidates.choose(own, held)
        to_choose.append(held)
        to_report.append(_held_out(own, single, fold.test).of_fold(fold.name).column(taken))
        used.append(own.n_used[taken])
        parts = {"training": fold.train, "validation": fold.vali, "test": fold.test}
        notes += [f"{fold.name}: {note}" for note in _notes_on(parts)]
    chosen, points = candidates.choose(path, HeldOutRows.joined(to_choose))
    baseline, learned = candidates.measured(HeldOutRows.joined(to_report), 0)
    at_which = ", at the penalty that the validation queries of all folds choose" if points else ""
    report = _report(
        candidates,
        path.rankers[chosen],
        {"best feature of each fold": baseline, _name_of(path.rankers[chosen]): learned},
        points,
        chosen,
        n_train=everything.n_queries,
        split=f"In each of {len(folds)} folds its validation queries chose.",
        reported_on=f"the {len(learned.qids):,} test queries of {len(folds)} folds, each by the model of its fold",
        notes=(
            f"the model is learned on the rows of all folds{at_which}; the table is of the folds' own models.",
            *notes,
        ),
        used_by_fold=tuple(n for n in used if n is not None),
        learn_seconds=learn_seconds,
        began=began,
    )
    return FeatureModel(path.rankers[chosen], names, report)


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
    """Learn from a LETOR file chunk by chunk, in memory for a chunk, and measure on others the same way.

    No penalty is chosen: that of the ranker is taken. `fit_letor` chooses one where all rows fit in memory.

    Parameters
    ----------
    train, validation, test : LETOR files, or streams of them; the last two are only measured on
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
    # What can be wrong with these is to be told before the work, not after it.
    parsed = parse_measures(measures)
    parts = {"validation": validation, "test": test}
    streams = {name: _stream(part) for name, part in parts.items() if part is not None}
    for stream in streams.values():
        next(iter(stream))  # finds the number of features, and so reads all of a file
    last = StreamProgress()

    def note(now: StreamProgress) -> None:
        nonlocal last
        last = now
        if progress is not None:
            progress(now)

    learner.fit_stream(_stream(train), checkpoint=checkpoint, progress=note)
    names = None if feature_names is None else checked_feature_names(feature_names, int(learner.n_features_in_))
    model = FeatureModel(learner, names)
    notes: dict[str, None] = {}
    systems = {f"{name} queries": _measured(model, stream, parsed, notes) for name, stream in streams.items()}
    if not systems:
        notes["nothing was held out, so nothing tells how it does on other queries; give a file of some."] = None
    passes = "one pass" if learner.epochs == 1 else f"{learner.epochs} passes"
    seconds = time.perf_counter() - began
    details = FeatureDetails(
        ranker=f"{_name_of(learner)} with the penalty {learner.l1_:g}",
        choose="best",
        n_features=model.n_features,
        n_used=int(np.count_nonzero(learner.coef_)),
        reported_on="queries that were not learned from",
        path=(),
        chosen=None,
        used_by_fold=(),
        learn_seconds=seconds,
    )
    report = Report(
        measure=str(parsed[0]),
        n_train=last.n_queries,
        n_validation=0,
        n_test=0,
        split=f"{last.n_rows:,} rows of queries with pairs, {passes} in the order of the file; no penalty was chosen, "
        f"and the mean loss of a query in the last pass is {learner.loss_:.4g}.",
        systems=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in systems.items()),
        accepted=True,
        decision=details.decision(str(parsed[0])),
        seconds=seconds,
        features=details,
        notes=tuple(notes),
    )
    return FeatureModel(learner, names, report)


def _report(
    candidates: RowCandidates,
    ranker: Any,
    systems: Mapping[str, Evaluation],
    points: tuple[PathPoint, ...],
    chosen: int,
    *,
    n_train: int,
    split: str,
    reported_on: str,
    notes: tuple[str, ...],
    learn_seconds: float,
    began: float,
    used_by_fold: tuple[int, ...] = (),
) -> Report:
    """The best single feature, and the ranker that was chosen, on queries it did not learn from."""
    baseline, learned = systems.values()
    n_used = RankerPath((ranker,), None).n_used[0]
    if n_used == 0:
        notes = (*notes, "no feature has a weight: all documents score the same.")
    details = FeatureDetails(
        ranker=_name_of(ranker) + ("" if points else candidates.penalty_of(ranker)),
        choose=candidates.rule,
        n_features=int(ranker.n_features_in_),
        n_used=n_used,
        reported_on=reported_on,
        path=points,
        chosen=chosen if points else None,
        used_by_fold=used_by_fold,
        learn_seconds=learn_seconds,
    )
    measure = str(candidates.measure)
    return Report(
        measure=measure,
        n_train=n_train,
        n_validation=0,
        n_test=0,
        split=split if points else candidates.choice_without_path,
        systems=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in systems.items()),
        accepted=True,
        decision=details.decision(measure),
        changes=changes_between(learned, baseline),
        seconds=time.perf_counter() - began,
        features=details,
        notes=notes,
    )


def _name_of(ranker: Any) -> str:
    params = ranker.get_params()
    unusual = [params.get(name, usual) for name, usual in _USUAL.items() if params.get(name, usual) != usual]
    return ", ".join([type(ranker).__name__, *("a kernel of its own" if callable(one) else one for one in unusual)])


def _learn_timed(candidates: RowCandidates, data: LetorData) -> tuple[RankerPath, float]:
    candidates.compile(data)
    began = time.perf_counter()
    return candidates.learn(data, candidates.l1s, "the training data"), time.perf_counter() - began


def _held_out(path: RankerPath, single: SingleFeature, data: LetorData) -> HeldOutRows:
    return HeldOutRows(path.scores(data.X), single.scores(data.X), data.y, data.qid)


def _n_folds(folds: int | None, data: LetorData) -> int:
    if data.n_queries < 2:
        raise InputError("one query cannot be cross-validated; give validation data")
    return min(N_FOLDS, data.n_queries) if folds is None else folds


def _stream(data: FilePath | LetorStream) -> LetorStream:
    return data if isinstance(data, LetorStream) else LetorStream(data)


def _measured(
    model: FeatureModel, stream: LetorStream, measures: Sequence[Measure], notes: dict[str, None]
) -> Evaluation:
    """Measures of all rows; of each only score, grade and query are kept."""
    scores, grades, qids = [], [], []
    for chunk in stream:
        rows, note = fit_width(chunk, model.n_features, str(stream.path))
        if note is not None:
            notes[note] = None
        scores.append(model.predict(rows.X))
        grades.append(rows.y)
        qids.append(rows.qid)
    return measure_rows(np.concatenate(grades), np.concatenate(scores), np.concatenate(qids), measures)


# -- the data -------------------------------------------------------------------------------------------------------


def _same_width(given: Mapping[str, LetorData | None]) -> tuple[dict[str, LetorData], list[str]]:
    """The parts that were given, all with the columns of the training data, and what was done for it."""
    for name, data in given.items():
        if not isinstance(data, LetorData) and not (data is None and name != "training"):
            raise InputError(f"the {name} data must be LetorData, as read_letor gives it; got {type(data).__name__}")
    present = {name: data for name, data in given.items() if data is not None}
    parts, notes = {}, []
    for name, data in present.items():
        if not len(data):
            raise InputError(f"the {name} data have no rows")
        parts[name], note = fit_width(data, present["training"].n_features, f"the {name} data")
        notes += [] if note is None else [note]
    return parts, notes


def _every_query_once(folds: Sequence[LetorFold]) -> LetorData:
    if not isinstance(folds, Sequence) or not folds or not all(isinstance(fold, LetorFold) for fold in folds):
        raise InputError("folds must be one or more LetorFold, as read_letor_folds gives them")
    parts = [part for fold in folds for part in (fold.train, fold.vali, fold.test)]
    if not all(map(len, parts)) or len({part.n_features for part in parts}) > 1:
        raise InputError("every part of every fold must have rows, and all the same number of features")
    seen: set[str] = set()
    rows: list[tuple[LetorData, NDArray[np.int64]]] = []
    for part in parts:
        fresh = [qid for qid in part.qids.tolist() if qid not in seen]
        seen.update(fresh)
        rows.append((part, np.flatnonzero(np.isin(part.qid, fresh))))
    blocks = [part.X[new] for part, new in rows]
    any_sparse = any(map(sparse.issparse, blocks))
    X = sparse.csr_array(sparse.vstack(blocks, format="csr")) if any_sparse else np.concatenate(blocks)
    y, qid = (np.concatenate([getattr(part, name)[new] for part, new in rows]) for name in ("y", "qid"))
    return LetorData(X, y, qid)


def _notes_on(parts: Mapping[str, LetorData]) -> list[str]:
    notes = []
    for one, other in combinations(parts, 2):
        if n_shared := len(np.intersect1d(parts[one].qids, parts[other].qids)):
            notes.append(
                f"{n_shared:,} query ids are in both the {one} and the {other} data; the figures mean something only "
                "if they are different queries."
            )
    for name, data in parts.items():
        if name == "training":
            continue
        highest = np.maximum.reduceat(data.y, data.starts[:-1])
        if n_empty := int((highest < 1).sum()):
            notes.append(f"{n_empty:,} of {data.n_queries:,} {name} queries have no relevant document and count 0.")
        rises = np.diff(data.y) > 0
        rises[data.starts[1:-1] - 1] = False  # from one query to the next
        if has_pairs(data) and not rises.any():
            notes.append(
                f"the rows of the {name} data are sorted by grade; equal scores are measured in the order of the rows, "
                "which flatters a ranker that has many."
            )
    return notes
