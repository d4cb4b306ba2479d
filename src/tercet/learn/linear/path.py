"""The trade-off between sparsity and accuracy: one ranker for each strength of the penalty."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tercet.errors import InputError
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.queries import Queries


@dataclass(frozen=True, eq=False, repr=False)
class L1Path:
    """Rankers from few features to many.

    Attributes
    ----------
    l1s : penalties, falling (n,); of ``FenchelRanker`` the radii, rising
    rankers : the fitted rankers (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from tercet.learn.linear import l1_path
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> path = l1_path(X, [1, 0, 1, 0], ["a", "a", "b", "b"], n_l1s=3)
    >>> path, path.coefs.shape
    (L1Path(3 penalties, 0 to 2 of 2 features), (3, 2))
    """

    l1s: NDArray[np.float64]
    rankers: tuple[SparseLinearRanker, ...]

    @property
    def coefs(self) -> NDArray[np.float64]:
        """Weights of each ranker (n, n_features)."""
        return np.stack([ranker.coef_ for ranker in self.rankers])

    @property
    def n_used(self) -> NDArray[np.int64]:
        """Number of features of each ranker (n,)."""
        return np.count_nonzero(self.coefs, axis=1)

    def __repr__(self) -> str:
        used, n_features = self.n_used, self.rankers[0].n_features_in_
        return f"L1Path({len(self.l1s)} penalties, {used.min()} to {used.max()} of {n_features:,} features)"


def l1_path(
    X: Any,
    y: Any,
    qid: Any = None,
    *,
    l1s: Sequence[float] | NDArray[Any] | None = None,
    n_l1s: int = 30,
    ratio: float = 1e-3,
    ranker: SparseLinearRanker | None = None,
) -> L1Path:
    """Fit a ranker at each of many penalties, from the strongest to the weakest.

    Each ranker is exactly ``clone(ranker).set_params(l1=l1).fit(X, y, qid=qid)``.

    Parameters
    ----------
    X, y, qid : as in ``FTRLRanker.fit``
    l1s : penalties, or radii of a ``FenchelRanker``. None takes ``n_l1s`` penalties of five digits, geometrically from
        the weakest penalty without a feature to ``ratio`` times this penalty
    ranker : all parameters but the penalty: an ``FTRLRanker``, the default, a ``ProximalRanker``, or a
        ``FenchelRanker``. The ranker is never changed

    Returns
    -------
    L1Path

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((40, 5))
    >>> path = l1_path(X, X[:, 1] > 0.5, np.arange(40) // 8, n_l1s=4)
    >>> path.n_used.tolist()[0], path.coefs.shape
    (0, (4, 5))
    """
    if ranker is not None and not isinstance(ranker, SparseLinearRanker):
        raise InputError(
            f"{type(ranker).__name__} has no path; expected an FTRLRanker, ProximalRanker or FenchelRanker"
        )
    pattern = clone(FTRLRanker() if ranker is None else ranker)
    pattern._check_params()
    features, queries = pattern._rows_to_learn(X, y, qid)
    if l1s is None:
        values = penalties_from(pattern, features, queries, n_l1s, ratio)
    else:
        try:
            values = np.sort(np.asarray(l1s, dtype=np.float64).ravel())
        except (TypeError, ValueError):
            values = np.empty(0)
        if not values.size or not np.isfinite(values).all() or values[0] < 0:
            raise InputError(f"l1s must be one or more finite numbers, none below 0; got {l1s!r}")
        values = values if pattern._penalty_name == "radius" else values[::-1]
    rankers = []
    for value in values.tolist():
        fitted = copy(pattern)  # much cheaper than a clone
        setattr(fitted, pattern._penalty_name, value)
        fitted._check_params()
        fitted._learn(features, queries)
        rankers.append(fitted)
    return L1Path(values, tuple(rankers))


def penalties_from(
    pattern: SparseLinearRanker, X: Any, queries: Queries, n_l1s: int = 30, ratio: float = 1e-3
) -> NDArray[np.float64]:
    """Return penalties from the weakest without a feature to ``ratio`` times as much, with five digits each."""
    if n_l1s < 1 or not 0 < ratio <= 1:
        raise InputError(f"n_l1s must be at least 1 and ratio in (0, 1]; got {n_l1s} and {ratio}")
    first = pattern._first_penalty(X, queries)
    # What a report prints is what was used: typed in again, it gives the same ranker.
    values = np.array([five_digits(value) for value in first * np.geomspace(1.0, ratio, n_l1s)])
    if values[0] < first:
        values[0] = five_digits(first * 1.0001)
    return values


def five_digits(value: float) -> float:
    """Return the printed form of a penalty as a number."""
    return float(f"{value:.5g}")
