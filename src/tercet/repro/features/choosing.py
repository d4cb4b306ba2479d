"""Which parameters a method takes in one split: a grid, each point of it measured on what is not tested."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tercet.data import query_folds
from tercet.errors import DivergedError
from tercet.learn.rls import RLS_RANKERS
from tercet.repro.features.data import Rows, Split, drawn_rows, rows_of
from tercet.repro.features.measuring import by_query
from tercet.repro.features.plan import Method
from tercet.repro.features.rankers import make_ranker, n_used
from tercet.repro.running import Deadline


@dataclass
class Point:
    """A setting and how it did where it was measured; with the ``ranker`` where that learned from the training part."""

    parameters: dict[str, Any]
    values: NDArray[np.float64]  # by query
    used: float | None  # features, mean where there were several rankers
    ranker: Any = None

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def size(self) -> float:
        """For comparing; what cannot be counted counts as the largest."""
        return np.inf if self.used is None else self.used


@dataclass
class Tried:
    """All points of a grid that gave a ranker, in its order."""

    crossed: bool = False  # measured on queries left out in turn, and not on the validation part
    points: list[Point] = field(default_factory=list)
    diverged: int = 0
    unfinished: int = 0  # fits that stopped at their limit of rounds
    cut: bool = False  # the deadline came first


def grid(method: Method) -> list[dict[str, Any]]:
    """Every combination of the values to choose from.

    Examples
    --------
    >>> grid(Method("m", "M", "FTRLRanker", choose={"rate": (1, 2), "l1": (0,)}))
    [{'rate': 1, 'l1': 0}, {'rate': 2, 'l1': 0}]
    """
    return [dict(zip(method.choose, values, strict=True)) for values in product(*method.choose.values())]


def try_all(
    method: Method, split: Split, measure: str, seed: int, parameters: dict[str, Any], deadline: Deadline
) -> Tried:
    """Learn with every combination, and measure each where the method says.

    All ``l2`` of a kernel ranker come from one decomposition for each setting of the rest.
    """
    tried = Tried(crossed=method.choose_on == "cross-validation" or split.vali is None)
    if tried.crossed:
        both = split.both()
        folds = query_folds(both.qid, method.cv_folds, seed)
        parts = [(rows_of(both, train), rows_of(both, test)) for train, test in folds]
    else:
        assert split.vali is not None
        parts = [(split.train, split.vali)]
    tests = [test for _, test in parts]
    given = [prepared(method, train, seed) for train, _ in parts]
    l2s = method.choose.get("l2", ()) if method.ranker in RLS_RANKERS else ()
    for chosen in grid(replace(method, choose=_without_l2(method.choose)) if l2s else method):
        if deadline.is_over:
            tried.cut = True
            break
        try:
            fitted = [learn(method.ranker, parameters | more | chosen, train, tried) for more, train in given]
        except DivergedError:
            tried.diverged += 1
            continue
        if l2s:
            scores = [ranker.path(l2s).predict(test.X) for ranker, test in zip(fitted, tests, strict=True)]
            for at, l2 in enumerate(l2s):
                values = _measured([each[:, at] for each in scores], tests, measure)
                tried.points.append(Point(chosen | {"l2": l2}, values, None))
            continue
        values = _measured([ranker.predict(test.X) for ranker, test in zip(fitted, tests, strict=True)], tests, measure)
        sizes = [size for size in map(n_used, fitted) if size is not None]
        used = float(np.mean(sizes)) if sizes else None
        tried.points.append(Point(chosen, values, used, None if tried.crossed else fitted[0]))
    return tried


def _without_l2(choose: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {name: values for name, values in choose.items() if name != "l2"}


def _measured(scores: list[NDArray[np.float64]], tests: list[Rows], measure: str) -> NDArray[np.float64]:
    """By query, over all parts."""
    pairs = zip(scores, tests, strict=True)
    return np.concatenate([by_query(each, test, [measure])[measure] for each, test in pairs])


def prepared(method: Method, data: Rows, seed: int) -> tuple[dict[str, Any], Rows]:
    """Further parameters, and the rows to learn from: what the method draws of each query."""
    if not method.per_query:
        return {}, data
    rows = drawn_rows(data, method.per_query, seed)
    return ({"n_basis": rows}, data) if method.drawn_as == "basis" else ({}, rows_of(data, rows))


def learn(ranker: str, parameters: dict[str, Any], data: Rows, tried: Tried | None = None) -> Any:
    """A fitted ranker; one that stops at its limit of rounds is counted and taken as it is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = make_ranker(ranker, parameters).fit(data.X, data.y, qid=data.qid)
    for warning in caught:
        if tried is not None and issubclass(warning.category, ConvergenceWarning):
            tried.unfinished += 1
        elif not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return fitted


def choose(points: Sequence[Point], method: Method, n_features: int, higher_is_better: bool = True) -> Point:
    """The best by the method's rule; of equals the sparser, then the earlier.

    When nothing is sparse enough for ``most_used``, the sparsest.
    """
    allowed = list(points)
    if method.most_used is not None:
        allowed = [point for point in points if point.size <= method.most_used * n_features]
        allowed = allowed or [min(points, key=lambda point: point.size)]
    sign = 1.0 if higher_is_better else -1.0
    best = max(sign * point.mean for point in allowed)
    if method.rule == "best":
        return min((point for point in allowed if sign * point.mean == best), key=lambda point: point.size)
    first = next(point for point in allowed if sign * point.mean == best)
    n = len(first.values)
    error = float(first.values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    good = [point for point in allowed if sign * point.mean >= best - error]
    return min(good, key=lambda point: (point.size, -sign * point.mean))
