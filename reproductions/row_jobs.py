"""Jobs on LETOR rows: a method on a fold with a seed."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from reproductions.folds import MEGABYTES, SECONDS, USED, FoldTask, QueryRows, drawn_rows, measure_by_query
from reproductions.plan import Method, Plan
from reproductions.rankers import WITH_BASIS, make_ranker, n_used
from tercet.choose import Trial, choose, settings_of
from tercet.data import query_folds
from tercet.errors import DivergedError

_FITS_TO_TIME = 5
_SECONDS_TO_TIME = 3.0  # no further fit after so many
_LONG_SECONDS = 10.0  # what takes so long is not done again to be timed


@dataclass(frozen=True)
class Lesson:
    """Rows to learn from, with the parameters that come with them, and rows to measure on."""

    rows: QueryRows
    test: QueryRows
    more: dict[str, Any]

    @classmethod
    def from_rows(cls, method: Method, rows: QueryRows, test: QueryRows, seed: int) -> Lesson:
        """Draw some rows of each query if the method does, as examples or as a basis."""
        if not method.per_query:
            return cls(rows, test, {})
        drawn = drawn_rows(rows, method.per_query, seed)
        return cls(rows, test, {"n_basis": drawn}) if method.drawn_as == "basis" else cls(rows.take(drawn), test, {})


def run_row_job(plan: Plan, method: Method, dataset: str, fold: FoldTask, seed: int) -> dict[str, Any]:
    """Choose, learn, time and measure."""
    chooses_by, parameters = plan.measures[plan.choose_by], method.parameters_for(dataset)
    measures = [plan.name_of(key) for key in plan.measures_of(dataset)]
    uses_both = method.choose_on != "validation" or fold.validation is None
    lesson = Lesson.from_rows(method, fold.both() if uses_both else fold.train, fold.test, seed)
    trials: list[Trial] = []
    ranker, setting = None, dict[str, Any]()
    if method.choose:
        trials = try_grid(method, fold, plan.name_of(plan.choose_by), seed, parameters)
        if not trials:
            raise DivergedError("every setting diverged")
        trial = trials[choose(trials, higher_is_better=chooses_by.higher_is_better)]
        ranker, setting = trial.result, trial.setting
    parameters |= lesson.more | setting
    began = time.process_time()
    ranker = ranker or learn(method.ranker, parameters, lesson.rows, seed)
    learned_in = time.process_time() - began
    used, n_features = n_used(ranker), fold.test.n_features
    by_query = fold.measure(ranker, measures)
    means = {name: float(np.mean(values)) for name, values in by_query.items()}
    means |= {} if used is None else {USED: used / n_features}

    def learn_again() -> None:
        learn(method.ranker, parameters, lesson.rows, seed)

    means[SECONDS] = learned_in if learned_in > _LONG_SECONDS else processor_seconds(learn_again)
    if MEGABYTES in measures:
        means[MEGABYTES] = peak_bytes(learn_again) / 1e6
    values = {name: own.tolist() for name, own in by_query.items()}
    facts = {"chosen": setting, "n_rows": len(lesson.rows), "n_tried": len(trials)}
    return {"facts": facts, "models": {method.key: {"means": means, "by_query": values}}, "related": {}}


def try_grid(method: Method, fold: FoldTask, measure: str, seed: int, parameters: dict[str, Any]) -> list[Trial]:
    """Learn with every combination of the grid and measure each by the method's rule.

    One decomposition gives all ``l2`` of a kernel ranker, and one run all ``epochs`` of FTRL.
    """
    both, leaves_out = fold.both(), method.choose_on == "leave-query-out"
    if leaves_out:
        parts = [(both, both)]
    elif method.choose_on == "cross-validation" or fold.validation is None:
        halves = query_folds(both.qid, method.cv_folds, seed)
        parts = [(both.take(train), both.take(test)) for train, test in halves]
    else:
        parts = [(fold.train, fold.validation)]
    lessons = [Lesson.from_rows(method, train, test, seed) for train, test in parts]
    if leaves_out and method.drawn_as == "examples":  # only these are measured
        lessons = [Lesson(lesson.rows, lesson.rows, lesson.more) for lesson in lessons]

    def measured(scores: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """By query, over all parts."""
        pairs = zip(scores, lessons, strict=True)
        return np.concatenate([measure_by_query(own, lesson.test, [measure])[measure] for own, lesson in pairs])

    trials: list[Trial] = []
    l2s = method.choose.get("l2", ()) if method.ranker in WITH_BASIS else ()
    for setting in settings_of({name: values for name, values in method.choose.items() if not (l2s and name == "l2")}):
        if setting.get("epochs", 1) > 1 and method.ranker == "FTRLRanker":
            continue  # a run of one pass goes on to all others
        try:
            for tuned, fitted in _fits(method, parameters, setting, lessons, seed):
                if l2s:
                    paths = [
                        ranker.leave_query_out(l2s) if leaves_out else ranker.path(l2s).predict(lesson.test.X)
                        for ranker, lesson in zip(fitted, lessons, strict=True)
                    ]
                    for column, l2 in enumerate(l2s):
                        trials.append(Trial(tuned | {"l2": l2}, measured([scores[:, column] for scores in paths])))
                    continue
                scores = [ranker.predict(lesson.test.X) for ranker, lesson in zip(fitted, lessons, strict=True)]
                sizes = [n_used(ranker) for ranker in fitted]
                size = float(np.mean([np.inf if used is None else used for used in sizes]))
                kept = fitted[0] if method.choose_on == "validation" and fold.validation is not None else None
                trials.append(Trial(tuned, measured(scores), size, kept))
        except DivergedError:
            continue
    return trials


def _fits(
    method: Method, parameters: dict[str, Any], setting: dict[str, Any], lessons: list[Lesson], seed: int
) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield settings with a ranker for each lesson; FTRL goes on and yields one after each number of passes."""
    fitted = [learn(method.ranker, parameters | lesson.more | setting, lesson.rows, seed) for lesson in lessons]
    yield setting, fitted
    if method.ranker != "FTRLRanker" or "epochs" not in setting:
        return
    for epochs in range(2, max(method.choose["epochs"]) + 1):
        fitted = [deepcopy(ranker).set_params(epochs=epochs) for ranker in fitted]
        for ranker, lesson in zip(fitted, lessons, strict=True):
            ranker.partial_fit(lesson.rows.X, lesson.rows.y, qid=lesson.rows.qid)
        if epochs in method.choose["epochs"]:
            yield setting | {"epochs": epochs}, fitted


def learn(ranker: str, parameters: dict[str, Any], data: QueryRows, seed: int = 0) -> Any:
    """Fit a ranker; a stop at the limit of rounds is a setting as good as any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_ranker(ranker, parameters, seed).fit(data.X, data.y, qid=data.qid)


def processor_seconds(work: Callable[[], None]) -> float:
    """Return the median processor seconds of some compiled fits."""
    taken: list[float] = []
    while len(taken) < _FITS_TO_TIME and sum(taken) < _SECONDS_TO_TIME:
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return float(np.median(taken))


def peak_bytes(work: Callable[[], None]) -> int:
    """Return the peak bytes of arrays and Python objects during ``work``, without training rows and BLAS buffers."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
