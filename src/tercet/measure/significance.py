"""Paired tests of two systems on the same queries, and a correction for several tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.choose import standard_error
from tercet.errors import InputError
from tercet.measure.evaluation import Evaluation
from tercet.measure.names import Measure

Method = Literal["t", "wilcoxon", "permutation"]

_LEVEL = 0.95
_NUMBERS_AT_ONCE = 2_000_000  # of resampled values in memory
# Relative differences up to this size are rounding: values are equal, and sums of random signs are equally extreme.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Mean difference a - b, its 95 % interval, the two-sided p-value and the number of queries compared.

    Examples
    --------
    >>> from tercet.measure import paired_test
    >>> test = paired_test([0.9, 0.8, 0.7], [0.5, 0.5, 0.5])
    >>> round(test.difference, 2), test.n
    (0.3, 3)
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    method: str

    def __str__(self) -> str:
        return (
            f"{self.difference:+.4f} (95% interval {self.low:+.4f} to {self.high:+.4f}), "
            f"p = {self.p_value:.3g}, {self.n} queries, {self.method} test"
        )


def paired_test(
    a: Evaluation | ArrayLike,
    b: Evaluation | ArrayLike,
    method: Method = "t",
    n: int = 10_000,
    random_state: int = 0,
    *,
    measure: str | Measure | None = None,
) -> PairedTest:
    """Test whether two systems differ on the same queries.

    Parameters
    ----------
    a, b : two evaluations of the same queries, in any order, or two arrays with a value per query
    method : "t", "wilcoxon" (signed ranks, zeros dropped) or "permutation" (random signs, Fisher's randomization test)
    n : number of permutations
    random_state : seed of the permutations
    measure : measure to compare; needed for evaluations of several measures

    Notes
    -----
    The difference is the difference of the means, with Student's interval. Differences by rounding alone are zero. If
    all differences are zero, p = 1. Permutations cost O(n n_queries).

    Examples
    --------
    >>> paired_test([0.5, 0.7, 0.9, 0.6], [0.4, 0.5, 0.8, 0.6]).p_value < 0.1
    True
    """
    if method not in _P_VALUES:
        raise InputError(f"'method' must be one of {', '.join(map(repr, _P_VALUES))}. Got {method!r}.")
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise InputError(f"'n', the number of permutations, must be an integer of 1 or more. Got {n!r}.")
    differences = _differences(a, b, measure)
    mean = float(differences.mean())
    if not differences.any():
        return PairedTest(0.0, 0.0, 0.0, 1.0, len(differences), method)
    p_value = _P_VALUES[method](differences, n, random_state)
    half = float(_stats().t.ppf((1 + _LEVEL) / 2, len(differences) - 1)) * standard_error(differences)
    return PairedTest(mean, mean - half, mean + half, p_value, len(differences), method)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's correction of the p-values of several tests.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"P-values must be a flat list of numbers between 0 and 1. Got {p_values!r}.")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def _differences(
    a: Evaluation | ArrayLike, b: Evaluation | ArrayLike, measure: str | Measure | None
) -> NDArray[np.float64]:
    if isinstance(a, Evaluation) and isinstance(b, Evaluation):
        first, second = _aligned(a, b, measure)
    elif isinstance(a, Evaluation) or isinstance(b, Evaluation):
        raise InputError("Compare two evaluations or two arrays, not one of each.")
    elif measure is not None:
        raise InputError(f"'measure' chooses a measure of two evaluations; arrays have none. Got {measure!r}.")
    else:
        first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            f"Both systems need one value for each of the same queries. Got shapes {first.shape} and {second.shape}."
        )
    if len(first) < 2:
        raise InputError(f"A paired test needs at least two queries. Got {len(first)}.")
    for name, values in (("first", first), ("second", second)):
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            raise InputError(f"Value {wrong[0]} of the {name} system is {values[wrong[0]]}; it must be finite.")
    differences = first - second
    # Equal rounding errors on every query would look like a certain difference.
    differences[np.abs(differences) <= _ROUNDING * np.maximum(np.abs(first), np.abs(second))] = 0.0
    return differences


def _aligned(
    a: Evaluation, b: Evaluation, measure: str | Measure | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a measure for both, in the order of a's queries."""
    if measure is None:
        shared = [m for m in a.measures if m in b.measures]
        if len(shared) != 1:
            names = ", ".join(map(str, shared)) or "none"
            raise InputError(f"Say which 'measure' to compare; the evaluations share {names}.")
        measure = shared[0]
    row_in_b = {qid: row for row, qid in enumerate(b.qids)}
    different = sorted(set(a.qids) ^ row_in_b.keys())
    if different:
        raise InputError(f"Query {different[0]!r} is in one evaluation only; both must cover the same queries.")
    return a[measure], b[measure][[row_in_b[qid] for qid in a.qids]]


def _stats() -> Any:
    """Import scipy.stats late, as the import takes longer than most commands."""
    from scipy import stats

    return stats


def _t(differences: NDArray[np.float64], n: int, seed: int) -> float:
    # scipy.stats.ttest_1samp warns of nearly equal differences.
    error = standard_error(differences)
    if error == 0.0:
        return 0.0
    return float(2 * _stats().t.sf(abs(differences.mean()) / error, len(differences) - 1))


def _wilcoxon(differences: NDArray[np.float64], n: int, seed: int) -> float:
    return float(_stats().wilcoxon(differences[differences != 0]).pvalue)


def _permutation(differences: NDArray[np.float64], n: int, seed: int) -> float:
    # scipy.stats.permutation_test is slower: it sorts random numbers, and a random sign is enough.
    random = np.random.default_rng(seed)
    total = abs(differences.sum()) - _ROUNDING * np.abs(differences).sum()
    at_once, as_extreme = max(1, _NUMBERS_AT_ONCE // len(differences)), 0
    for start in range(0, n, at_once):
        flips = random.integers(0, 2, size=(min(at_once, n - start), len(differences)), dtype=np.int8)
        as_extreme += int(np.count_nonzero(np.abs((2.0 * flips - 1.0) @ differences) >= total))
    return (1 + as_extreme) / (1 + n)  # the observed signs count as a draw: p is never 0


_P_VALUES: dict[str, Callable[[NDArray[np.float64], int, int], float]] = {
    "t": _t,
    "wilcoxon": _wilcoxon,
    "permutation": _permutation,
}
