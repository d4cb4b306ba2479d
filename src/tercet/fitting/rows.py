"""The recipe behind ``tc.fit_letor``: learn at every penalty, choose one on queries that were not learned from, and
report it against the best single feature."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import LetorData, LetorFold
from tercet.data.feature_names import checked_feature_names
from tercet.errors import InputError
from tercet.fitting.feature_model import FeatureModel, fit_width
from tercet.fitting.feature_report import Choice, FeatureReport, changes_between
from tercet.fitting.row_choice import Held, Plan, SingleFeature, Tried, has_pairs
from tercet.measure import Evaluation
from tercet.report import SystemResult

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
    choose: Choice = "best",
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
    plan = Plan.checked(measure, ranker, l1s, choose, random_state, verbose, l2s)
    if validation is not None and folds is not None:
        raise InputError("give validation data, or folds for a cross-validation, not both")
    parts, notes = _same_width({"training": train, "validation": validation, "test": test})
    train, validation, test = (parts.get(name) for name in ("training", "validation", "test"))  # type: ignore[assignment]
    names = None if feature_names is None else checked_feature_names(feature_names, train.n_features)
    tried, learn_seconds = _learn_timed(plan, train)
    single = plan.best_feature(train)
    label = single.label(names)
    held: Held | None = None
    if validation is not None:
        held = _held_out(tried, single, validation)
        split, where = "Validation queries chose.", f"{validation.n_queries:,} validation queries"
    elif len(tried) == 1 and test is not None and folds is None:
        split, where = "", ""
    else:
        n_folds = _n_folds(folds, train)
        held = plan.cross_validate(tried, train, n_folds)
        split = f"Cross-validation by query in {n_folds} folds chose, then all were learned from."
        where = f"{train.n_queries:,} queries, each held out in one of {n_folds} folds"
        label = label if test is not None else "best feature of each fold"
    chosen, path = (0, ()) if held is None else plan.choose(tried, held)
    if test is not None:
        held, where = _held_out(tried, single, test), f"{test.n_queries:,} test queries, which nothing was chosen on"
    elif path:
        notes.append("the penalty was chosen on the queries of the table, which flatters it; test queries would tell.")
    assert held is not None  # what has no validation and no test is cross-validated
    baseline, learned = plan.measured(held, chosen)
    report = _report(
        plan,
        tried,
        chosen,
        {label: baseline, _name_of(tried.rankers[chosen]): learned},
        path=path,
        n_train=train.n_queries,
        split=split if path else plan.choice_without_path,
        reported_on=where,
        notes=(*notes, *_notes_on(parts), *_note_on_features(tried, chosen)),
        used_by_fold=(),
        learn_seconds=learn_seconds,
        seconds=time.perf_counter() - began,
    )
    return FeatureModel(tried.rankers[chosen], names, report)


def fit_letor_folds(
    folds: Sequence[LetorFold],
    *,
    measure: str = MEASURE,
    ranker: Any = None,
    l1s: Sequence[float] | NDArray[Any] | None = None,
    l2s: Sequence[float] | NDArray[Any] | None = None,
    choose: Choice = "best",
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
    """
    began = time.perf_counter()
    plan = Plan.checked(measure, ranker, l1s, choose, random_state, verbose, l2s)
    everything = _every_query_once(folds)
    names = None if feature_names is None else checked_feature_names(feature_names, everything.n_features)
    tried, learn_seconds = _learn_timed(plan, everything)
    chosen_on, tested, used, notes = [], [], [], []
    for fold in folds:
        plan.tell(f"{fold.name} of {len(folds)} folds")
        l1s_here = plan.share(tried, fold.train.n_queries, everything.n_queries)
        own = plan.learn(fold.train, l1s_here, f"the training part of {fold.name}")
        single = plan.best_feature(fold.train)
        held = _held_out(own, single, fold.vali).of_fold(fold.name)
        place, _ = plan.choose(own, held)
        chosen_on.append(held)
        tested.append(_held_out(own, single, fold.test).of_fold(fold.name).column(place))
        used.append(own.n_used[place])
        parts = {"training": fold.train, "validation": fold.vali, "test": fold.test}
        notes += [f"{fold.name}: {note}" for note in _notes_on(parts)]
    chosen, path = plan.choose(tried, Held.joined(chosen_on))
    baseline, learned = plan.measured(Held.joined(tested), 0)
    report = _report(
        plan,
        tried,
        chosen,
        {"best feature of each fold": baseline, _name_of(tried.rankers[chosen]): learned},
        path=path,
        n_train=everything.n_queries,
        split=f"In each of {len(folds)} folds its validation queries chose." if path else plan.choice_without_path,
        reported_on=f"the {len(learned.qids):,} test queries of {len(folds)} folds, each by the model of its fold",
        notes=(
            "the model is learned on the rows of all folds"
            + (", at the penalty that the validation queries of all folds choose" if path else "")
            + "; the table is of the folds' own models.",
            *notes,
            *_note_on_features(tried, chosen),
        ),
        used_by_fold=tuple(n for n in used if n is not None),
        learn_seconds=learn_seconds,
        seconds=time.perf_counter() - began,
    )
    return FeatureModel(tried.rankers[chosen], names, report)


def _report(plan: Plan, tried: Tried, chosen: int, systems: Mapping[str, Evaluation], **told: Any) -> FeatureReport:
    baseline, learned = systems.values()
    first, second = (SystemResult.of(name, evaluation) for name, evaluation in systems.items())
    return FeatureReport(
        measure=str(plan.measure),
        ranker=_name_of(tried.rankers[chosen]) + ("" if told["path"] else plan.penalty_of(tried.rankers[chosen])),
        choose=plan.rule,
        n_features=int(tried.rankers[chosen].n_features_in_),
        n_used=tried.n_used[chosen],
        systems=(first, second),
        changes=changes_between(learned, baseline),
        chosen=chosen if told["path"] else None,
        **told,
    )


def _name_of(ranker: Any) -> str:
    params = ranker.get_params()
    told = [params.get(name, usual) for name, usual in _USUAL.items() if params.get(name, usual) != usual]
    return ", ".join([type(ranker).__name__, *("a kernel of its own" if callable(each) else each for each in told)])


def _learn_timed(plan: Plan, data: LetorData) -> tuple[Tried, float]:
    plan.compile(data)
    began = time.perf_counter()
    return plan.learn(data, plan.l1s, "the training data"), time.perf_counter() - began


def _held_out(tried: Tried, single: SingleFeature, data: LetorData) -> Held:
    return Held(tried.scores(data.X), single.scores(data.X), data.y, data.qid)


def _n_folds(folds: int | None, data: LetorData) -> int:
    if data.n_queries < 2:
        raise InputError("one query cannot be cross-validated; give validation data")
    return min(N_FOLDS, data.n_queries) if folds is None else folds


# -- the data -------------------------------------------------------------------------------------------------------


def _same_width(given: Mapping[str, LetorData | None]) -> tuple[dict[str, LetorData], list[str]]:
    """The parts that were given, all with the columns of the training data, and what was done for it."""
    for name, data in given.items():
        if not isinstance(data, LetorData) and not (data is None and name != "training"):
            raise InputError(f"the {name} data must be LetorData, as read_letor gives it; got {type(data).__name__}")
    found = {name: data for name, data in given.items() if data is not None}
    parts, notes = {}, []
    for name, data in found.items():
        if not len(data):
            raise InputError(f"the {name} data have no rows")
        parts[name], note = fit_width(data, found["training"].n_features, f"the {name} data")
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


def _note_on_features(tried: Tried, chosen: int) -> list[str]:
    return ["no feature has a weight: all documents score the same."] if tried.n_used[chosen] == 0 else []
