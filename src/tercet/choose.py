"""Choose between settings, for learners, recipes and papers.

``"best"``
    the best mean; ties go to the smaller, then the earlier trial.
``"sparsest"``
    the smallest trial within one standard error of the best, over the same queries; ties go to the better, then the
    earlier trial.
`Gain.is_clear`
    a replacement is rejected unless its mean gain over the same queries exceeds the standard error of the gain.

`verdict_of` judges a choice by the interval of the difference on untouched queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.errors import InputError

Rule = Literal["best", "sparsest"]
RULES: tuple[Rule, ...] = ("best", "sparsest")
ThreeWay = Literal["better", "no difference seen", "worse"]


def standard_error(values: ArrayLike) -> float:
    """Return the standard error of the mean of values; NaN for a single value.

    Examples
    --------
    >>> round(standard_error([1.0, 2.0, 3.0, 6.0]), 3), standard_error([1.0])
    (1.08, nan)
    """
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.std(ddof=1) / np.sqrt(numbers.size)) if numbers.size > 1 else float("nan")


@dataclass(frozen=True, eq=False)
class Trial:
    """Setting with its measured values.

    Attributes
    ----------
    setting : parameters by name
    values : measure of each query (n_queries,), or a single number
    size : size for the rule "sparsest", such as features used; infinite without a size
    result : learned model, if kept
    """

    setting: dict[str, Any]
    values: NDArray[np.float64]
    size: float = float("inf")
    result: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.atleast_1d(np.asarray(self.values, dtype=np.float64)))

    @property
    def mean(self) -> float:
        """Mean over queries."""
        return float(self.values.mean())


def settings_of(grid: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the values of a grid; the last name runs fastest.

    Examples
    --------
    >>> settings_of({"rate": (1, 2), "l1": (0,)})
    [{'rate': 1, 'l1': 0}, {'rate': 2, 'l1': 0}]
    """
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def choose(trials: Sequence[Trial], rule: Rule = "best", *, higher_is_better: bool = True) -> int:
    """Return the number of the trial chosen by a rule.

    Parameters
    ----------
    trials : trials; ties go to the earlier
    rule : "best" or "sparsest"
    higher_is_better : direction of the values

    Examples
    --------
    >>> trials = [Trial({"l1": l1}, values, size) for l1, values, size in (
    ...     (4, [0.1, 0.1, 0.2], 0), (2, [0.3, 0.5, 0.4], 1), (1, [0.2, 0.6, 0.43], 2))]
    >>> choose(trials), choose(trials, "sparsest")
    (2, 1)
    """
    if rule not in RULES:
        raise InputError(f"the rule must be {' or '.join(map(repr, RULES))}; got {rule!r}")
    if not trials:
        raise InputError("no trials to choose from")
    sign = 1.0 if higher_is_better else -1.0
    means = [sign * trial.mean for trial in trials]
    best = min(range(len(trials)), key=lambda number: (-means[number], trials[number].size, number))
    if rule == "best":
        return best
    top = trials[best].values
    if top.size < 2:
        raise InputError("a standard error needs the values of two or more queries")
    near = []
    for number, trial in enumerate(trials):
        if means[number] >= means[best] - standard_error(top - trial.values):
            near.append(number)
    return min(near, key=lambda number: (trials[number].size, -means[number], number))


class Gain(NamedTuple):
    """Gain of a system over another on the same queries.

    Attributes
    ----------
    mean, error : mean gain and its standard error, infinite for a single query
    n_queries : number of queries
    """

    mean: float
    error: float
    n_queries: int

    @classmethod
    def between(cls, before: ArrayLike, after: ArrayLike, *, higher_is_better: bool = True) -> Gain:
        """Compute the gain from ``before`` to ``after``, arrays with a value for each query.

        Examples
        --------
        >>> Gain.between([0.1, 0.2, 0.3], [0.4, 0.4, 0.6]).is_clear
        True
        """
        change = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
        gain = change if higher_is_better else -change
        error = standard_error(gain)
        return cls(float(gain.mean()), float("inf") if np.isnan(error) else error, gain.size)

    @property
    def is_clear(self) -> bool:
        """True if the mean gain exceeds one standard error."""
        return self.mean > self.error


def verdict_of(low: float, high: float, *, higher_is_better: bool = True) -> ThreeWay:
    """Judge the interval of a difference: better or worse if the whole interval is on one side of 0.

    Examples
    --------
    >>> verdict_of(0.01, 0.05), verdict_of(-0.01, 0.05), verdict_of(0.01, 0.05, higher_is_better=False)
    ('better', 'no difference seen', 'worse')
    """
    if not higher_is_better:
        low, high = -high, -low
    return "better" if low > 0 else "worse" if high < 0 else "no difference seen"
