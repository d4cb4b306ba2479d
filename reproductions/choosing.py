"""Choice between settings: the best, or the sparsest within one standard error of the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

ThreeWay = Literal["better", "no difference seen", "worse"]


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting with its measure of each query, the number of features it uses, and the ranker where it is kept."""

    setting: dict[str, Any]
    values: NDArray[np.float64]
    size: float = float("inf")
    ranker: Any = None

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))


def settings_of(grid: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values of a grid, the last name running fastest.

    Examples
    --------
    >>> settings_of({"rate": (1, 2), "l1": (0,)})
    [{'rate': 1, 'l1': 0}, {'rate': 2, 'l1': 0}]
    """
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def choose(
    trials: Sequence[Trial],
    rule: Literal["best", "sparsest"] = "best",
    *,
    higher_is_better: bool = True,
    largest: float = float("inf"),
) -> int:
    """Return the number of the chosen trial.

    "best" takes the best mean, of equals the smaller, then the earlier. "sparsest" takes the smallest trial whose mean
    is within one standard error of the best. Sizes above ``largest`` are left out; if all are, the smallest is taken.

    Examples
    --------
    >>> trials = [Trial({"l1": l1}, np.array(values), size) for l1, values, size in (
    ...     (4, [0.1, 0.1, 0.2], 0), (2, [0.3, 0.5, 0.4], 1), (1, [0.2, 0.6, 0.43], 2))]
    >>> choose(trials), choose(trials, "sparsest"), choose(trials, largest=0)
    (2, 1, 0)
    """
    allowed = [number for number, trial in enumerate(trials) if trial.size <= largest]
    allowed = allowed or [min(range(len(trials)), key=lambda number: trials[number].size)]
    sign = 1.0 if higher_is_better else -1.0
    means = {number: sign * trials[number].mean for number in allowed}
    best = min(allowed, key=lambda number: (-means[number], trials[number].size, number))
    if rule == "best":
        return best
    least = means[best] - standard_error(trials[best].values)
    near = [number for number in allowed if means[number] >= least]
    return min(near, key=lambda number: (trials[number].size, -means[number], number))


def standard_error(values: Any) -> float:
    """Standard error of the mean of values; NaN for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def outcome_of(low: float, high: float, *, higher_is_better: bool = True) -> ThreeWay:
    """Outcome of a comparison, from the interval of the difference.

    Examples
    --------
    >>> outcome_of(0.01, 0.05), outcome_of(-0.01, 0.05), outcome_of(0.01, 0.05, higher_is_better=False)
    ('better', 'no difference seen', 'worse')
    """
    if not higher_is_better:
        low, high = -high, -low
    return "better" if low > 0 else "worse" if high < 0 else "no difference seen"
