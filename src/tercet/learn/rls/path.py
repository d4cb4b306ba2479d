"""Every solution of many l2, from one decomposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.choose import Trial, choose
from tercet.errors import InputError


class PathRanker(Protocol):
    """What a path is of: a fitted ranker that scores rows by any coefficients."""

    def _scores(self, X: Any, learned: NDArray[np.float64]) -> NDArray[np.float64]: ...


@dataclass(frozen=True, eq=False)
class RLSPath:
    """Solutions for many l2; made by ``RankRLS.path`` and ``RLSRegressor.path``.

    Attributes
    ----------
    l2s : penalties (n,)
    coefficients : one row for each (n, n_coefficients): of the basis vectors, or of the features where the ranker has
        a ``coef_``

    Examples
    --------
    >>> import numpy as np
    >>> from tercet.learn.rls import RankRLS
    >>> X = np.array([[1.0, 0.2], [0.0, 0.1], [0.9, 0.3], [0.1, 0.2]])
    >>> path = RankRLS().fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"]).path([0.1, 1.0, 10.0])
    >>> path.predict(X).shape, path.ranker(1).l2
    ((4, 3), 1.0)
    """

    l2s: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    _ranker: PathRanker = field(repr=False)
    _make: Callable[[float, NDArray[np.float64]], Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.l2s)

    def __repr__(self) -> str:
        return f"RLSPath({len(self)} penalties, {self.l2s.min():g} to {self.l2s.max():g})"

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The scores of all rows for every l2 (n_rows, n); the kernel of the rows is made once."""
        return self._ranker._scores(X, self.coefficients.T)

    def ranker(self, i: int) -> Any:
        """The ranker with the i-th l2, as if it had been fitted with it."""
        if not isinstance(i, Integral) or not -len(self) <= i < len(self):
            raise InputError(f"there is no l2 number {i!r}; the path has {len(self)}")
        return self._make(float(self.l2s[int(i)]), self.coefficients[int(i)])

    def best(self, errors: ArrayLike) -> int:
        """The place of the lowest error, the largest l2 of equals.

        Parameters
        ----------
        errors : of each l2 (n,), or of each l2 and query (n, n_queries), where the mean counts
        """
        table = real_numbers(errors, "errors")
        means = table.mean(axis=1) if table.ndim == 2 and table.size else table
        if means.shape != (len(self),) or not np.isfinite(means).all():
            raise InputError(f"errors have shape {table.shape}; expected {len(self)} finite numbers, or rows of them")
        trials = [Trial({"l2": l2}, mean, -l2) for l2, mean in zip(self.l2s.tolist(), means, strict=True)]
        return choose(trials, higher_is_better=False)


def checked_l2s(l2s: ArrayLike) -> NDArray[np.float64]:
    """One or more penalties, all above 0; otherwise an InputError that names the first that is not."""
    values = np.atleast_1d(real_numbers(l2s, "l2s"))
    if values.ndim != 1 or not values.size:
        raise InputError(f"l2s must be one or more numbers; got shape {values.shape}")
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"l2s[{first}] is {values[first]}; every l2 must be finite and above 0")
    return values


def real_numbers(given: Any, name: str) -> NDArray[np.float64]:
    """An array of doubles; an InputError where something else was given, text that reads as a number included."""
    try:
        values = np.asarray(given)
    except ValueError:  # rows of different lengths
        raise InputError(f"{name} must be real numbers; got rows of different lengths") from None
    if values.size and values.dtype.kind not in "iuf":
        raise InputError(f"{name} must be real numbers; got {type(given).__name__} of dtype {values.dtype}")
    return values.astype(np.float64)
