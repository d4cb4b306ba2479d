"""Jobs on LETOR rows: a method on a fold with a seed."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from reproductions.folds import (
    MEGABYTES,
    SECONDS,
    USED,
    FoldTask,
    QueryRows,
    drawn_rows,
    measure_by_query,
)
from reproductions.plan import Method
from reproductions.rankers import IN_PASSES, WITH_BASIS, make_ranker, n_used
from tercet.choose import Trial, choose, settings_of
from tercet.data import query_folds
from tercet.errors import DivergedError

_FITS_TO_TIME = 5
_SECONDS_TO_TIME = 3.0  # no further fit after so many
_LONG_SECONDS = 10.0  # what takes so long is not done again to be timed


# -- choosing ---------------------------------------------------------------------------------------------------------


@dataclass
class TriedGrid:
    """Settings of a grid that gave a ranker, in grid order, with rankers learned from the training part."""

    crossed: bool = False  # measured on queries left out in turn, and not on the validation part
    trials: list[Trial] = field(default_factory=list)
    diverged: int = 0
    unfinished: int = 0  # fits that stopped at their limit of rounds


def try_grid(method: Method, fold: FoldTask, measure: str, seed: int, parameters: dict[str, Any]) -> TriedGrid:
    """Learn with every combination of the grid and measure each by the method's rule.

    One decomposition gives all ``l2`` of a kernel ranker, and one run all ``epochs`` of FTRL.
    """
    tried = TriedGrid(crossed=learns_from_both(method, fold))
    leaves_out = method.choose_on == "leave-query-out"
    if leaves_out:
        both = fold.both()
        parts = [(both, prepared(method, both, seed)[1])]
    elif tried.crossed:
        both = fold.both()
        halves = query_folds(both.qid, method.cv_folds, seed)
        parts = [(both.take(train), both.take(test)) for train, test in halves]
    else:
        assert fold.validation is not None
        parts = [(fold.train, fold.validation)]
    tests = [test for _, test in parts]
    lessons = [prepared(method, train, seed) for train, _ in parts]
    l2s = method.choose.get("l2", ()) if method.ranker in WITH_BASIS else ()
    others = {name: values for name, values in method.choose.items() if not (l2s and name == "l2")}
    for setting in settings_of(others | dict.fromkeys(["epochs"] * _goes_on(method, parameters), (1,))):
        try:
            for tuned, fitted in _fits(method, parameters, setting, lessons, seed, tried):
                if l2s:
                    paths = [
                        ranker.leave_query_out(l2s) if leaves_out else ranker.path(l2s).predict(test.X)
                        for ranker, test in zip(fitted, tests, strict=True)
                    ]
                    for column, l2 in enumerate(l2s):
                        values = _measured([scores[:, column] for scores in paths], tests, measure)
                        tried.trials.append(Trial(tuned | {"l2": l2}, values))
                    continue
                scores = [ranker.predict(test.X) for ranker, test in zip(fitted, tests, strict=True)]
                sizes = [size for size in map(n_used, fitted) if size is not None]
                size = float(np.mean(sizes)) if sizes else np.inf
                values = _measured(scores, tests, measure)
                tried.trials.append(Trial(tuned, values, size, None if tried.crossed else fitted[0]))
        except DivergedError:
            tried.diverged += 1
    return tried


def learns_from_both(method: Method, fold: FoldTask) -> bool:
    """True if the tested ranker learns from the training and the validation part."""
    return method.choose_on != "validation" or fold.validation is None


def _goes_on(method: Method, parameters: dict[str, Any]) -> bool:
    """True if one run of FTRL gives the ranker after each number of passes."""
    settled = parameters.get("l1") is not None or "l1" in method.choose
    chosen = "epochs" in method.choose
    return chosen and settled and method.ranker in IN_PASSES and not parameters.get("shuffle")


def _fits(
    method: Method,
    parameters: dict[str, Any],
    setting: dict[str, Any],
    lessons: list[tuple[dict[str, Any], QueryRows]],
    seed: int,
    tried: TriedGrid,
) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield settings with a ranker for each lesson; a continued run yields one after each number of passes."""
    fitted = [learn(method.ranker, parameters | more | setting, rows, seed, tried) for more, rows in lessons]
    if not _goes_on(method, parameters):
        yield setting, fitted
        return
    for epochs in range(1, max(method.choose["epochs"]) + 1):
        if epochs > 1:
            fitted = [deepcopy(ranker).set_params(epochs=epochs) for ranker in fitted]
            for ranker, (_, rows) in zip(fitted, lessons, strict=True):
                ranker.partial_fit(rows.X, rows.y, qid=rows.qid)
        if epochs in method.choose["epochs"]:
            yield setting | {"epochs": epochs}, fitted


def _measured(scores: list[NDArray[np.float64]], tests: list[QueryRows], measure: str) -> NDArray[np.float64]:
    """By query, over all parts."""
    parts = zip(scores, tests, strict=True)
    return np.concatenate([measure_by_query(own, test, [measure])[measure] for own, test in parts])


def prepared(method: Method, data: QueryRows, seed: int) -> tuple[dict[str, Any], QueryRows]:
    """Further parameters, and the rows to learn from: what the method draws of each query."""
    if not method.per_query:
        return {}, data
    rows = drawn_rows(data, method.per_query, seed)
    return ({"n_basis": rows}, data) if method.drawn_as == "basis" else ({}, data.take(rows))


def learn(
    ranker: str, parameters: dict[str, Any], data: QueryRows, seed: int = 0, tried: TriedGrid | None = None
) -> Any:
    """Fit a ranker; a stop at the limit of rounds is counted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = make_ranker(ranker, parameters, seed).fit(data.X, data.y, qid=data.qid)
    for warning in caught:
        if tried is not None and issubclass(warning.category, ConvergenceWarning):
            tried.unfinished += 1
        elif not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return fitted


# -- one method on one fold with one seed -----------------------------------------------------------------------------


@dataclass(frozen=True)
class RowJob:
    """A method on a fold with a seed; ``traced`` measures all settings on the test part, for display only."""

    method: Method
    fold: FoldTask
    seed: int
    parameters: dict[str, Any]
    choose_by: str  # name of a measure of rankings
    measures: tuple[str, ...]  # names
    higher_is_better: bool = True  # of the measure that chooses
    traced: bool = False

    def run(self) -> dict[str, Any]:
        """Choose, learn, time and measure."""
        method, fold = self.method, self.fold
        if method.choose:
            tried = try_grid(method, fold, self.choose_by, self.seed, self.parameters)
        else:  # what a ranker finds by itself, if anything
            tried = TriedGrid(learns_from_both(method, fold), [Trial({}, np.zeros(1))])
        if not tried.trials:
            raise DivergedError(f"every setting diverged, {tried.diverged} of {tried.diverged}")
        most = np.inf if method.most_used is None else method.most_used * fold.test.n_features
        allowed = [trial for trial in tried.trials if trial.size <= most]
        allowed = allowed or [min(tried.trials, key=lambda trial: trial.size)]
        trial = allowed[choose(allowed, method.rule, higher_is_better=self.higher_is_better)]
        more, rows = prepared(method, fold.both() if tried.crossed else fold.train, self.seed)
        parameters = self.parameters | more | trial.setting
        began = time.process_time()
        ranker = trial.result or self._learn(parameters, rows)
        learned_in = time.process_time() - began
        used, n_features = n_used(ranker), fold.test.n_features
        by_query = fold.measure(ranker, self.measures)
        means = {name: float(np.mean(values)) for name, values in by_query.items()}
        means |= {} if used is None else {USED: used / n_features}
        means[SECONDS] = learned_in if learned_in > _LONG_SECONDS else self._seconds(parameters, rows)
        if MEGABYTES in self.measures:
            means[MEGABYTES] = peak_bytes(lambda: self._learn(parameters, rows)) / 1e6
        return {
            "facts": {
                "chosen": trial.setting,
                "n_used": used,
                "n_features": n_features,
                "n_rows": len(rows),
                "n_drawn": len(more["n_basis"]) if more else len(rows),
                "diverged": tried.diverged,
                "unfinished": tried.unfinished,
            },
            "models": {
                method.key: {"means": means, "by_query": {name: own.tolist() for name, own in by_query.items()}}
            },
            "related": {},
            "grid": [self._grid_point(trial) for trial in tried.trials] if method.choose else [],
        }

    def _grid_point(self, trial: Trial) -> dict[str, Any]:
        """Return a tried setting for the table on the cost of choosing."""
        used = None if np.isinf(trial.size) else trial.size
        point = {"parameters": trial.setting, "validation": trial.mean, "used": used}
        if self.traced and trial.result is not None:
            point["test"] = float(self.fold.measure(trial.result, [self.choose_by])[self.choose_by].mean())
        return point

    def _learn(self, parameters: dict[str, Any], rows: QueryRows) -> Any:
        return learn(self.method.ranker, parameters, rows, self.seed)

    def _seconds(self, parameters: dict[str, Any], rows: QueryRows) -> float:
        """Return the median processor seconds of some compiled fits."""
        taken: list[float] = []
        while len(taken) < _FITS_TO_TIME and sum(taken) < _SECONDS_TO_TIME:
            started = time.process_time()
            self._learn(parameters, rows)
            taken.append(time.process_time() - started)
        return float(np.median(taken))


# -- what learning costs ----------------------------------------------------------------------------------------------


def peak_bytes(work: Callable[[], Any]) -> int:
    """Return the peak bytes of arrays and Python objects during ``work``, without training rows and BLAS buffers."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()
