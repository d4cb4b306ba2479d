"""The trade-off between sparsity and accuracy: one ranker for each strength of the penalty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from tercet.errors import InputError
from tercet.learn.linear.base import SparseLinearRanker, scores
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.queries import Queries


@dataclass(frozen=True, eq=False)
class L1Path:
    """Rankers from few features to many.

    Attributes
    ----------
    l1s : penalties, falling (n,); of ``FenchelRanker`` the radii, rising
    coefs : weights at each (n, n_features)
    rankers : the fitted rankers (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from tercet.learn.linear import l1_path
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> path = l1_path(X, [1, 0, 1, 0], ["a", "a", "b", "b"], n_l1s=3)
    >>> path.coefs.shape
    (3, 2)
    """

    l1s: NDArray[np.float64]
    coefs: NDArray[np.float64]
    rankers: tuple[SparseLinearRanker, ...]

    def __len__(self) -> int:
        return len(self.l1s)

    def __repr__(self) -> str:
        used = self.n_used
        return f"L1Path({len(self)} penalties, {used.min()} to {used.max()} of {self.coefs.shape[1]:,} features)"

    @property
    def n_used(self) -> NDArray[np.int64]:
        """Number of features of each ranker (n,)."""
        return np.count_nonzero(self.coefs, axis=1)

    @property
    def density(self) -> NDArray[np.float64]:
        """The share of features each ranker uses, the papers' sparsity ratio (n,)."""
        return self.n_used / self.coefs.shape[1]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The scores of all rankers (n_rows, n)."""
        features = X if sparse.issparse(X) else np.asarray(X)
        if features.ndim != 2 or features.shape[1] != self.coefs.shape[1]:
            raise InputError(f"X has shape {features.shape}, but the path has {self.coefs.shape[1]} features")
        return scores(features, self.coefs.T)


def l1_path(
    X: Any,
    y: Any,
    qid: Any = None,
    *,
    l1s: Sequence[float] | NDArray[Any] | None = None,
    n_l1s: int = 30,
    ratio: float = 1e-3,
    ranker: SparseLinearRanker | None = None,
    warm_start: bool = True,
) -> L1Path:
    """Fit a ranker at each of many penalties, from the strongest to the weakest.

    Parameters
    ----------
    X, y, qid : as in ``FTRLRanker.fit``
    l1s : penalties, or None for ``n_l1s`` penalties of five digits, geometrically from the weakest penalty without a
        feature to ``ratio`` times this penalty
    ranker : all parameters but ``l1``: an ``FTRLRanker``, the default, a ``ProximalRanker``, or a ``FenchelRanker``.
        The ``radius`` of a ``FenchelRanker`` takes the place of ``l1`` and rises, up to the radius of the
        ``ProximalRanker`` at the weakest penalty. The ranker is never changed
    warm_start : start from the weights of the previous ranker. The result equals a cold start's up to ``tolerance``,
        after fewer rounds; FTRL, whose penalty is a total over a pass, starts anew at each penalty. Without, each
        ranker is exactly ``clone(ranker).set_params(l1=l1).fit(X, y, qid=qid)``

    Returns
    -------
    L1Path

    Notes
    -----
    FTRL costs ``epochs`` passes for each penalty, and one more to find the first.

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
        values = values[::-1] if pattern._fewer_when_larger else values
    rankers = tuple(rankers_along(pattern, features, queries, values, warm_start=warm_start))
    return L1Path(values, np.stack([fitted.coef_ for fitted in rankers]), rankers)


def penalties_from(
    pattern: SparseLinearRanker, X: Any, queries: Queries, n_l1s: int, ratio: float
) -> NDArray[np.float64]:
    """Return the penalties of a path, from the weakest without a feature to ``ratio`` times as much, with five digits
    each.
    """
    if n_l1s < 1 or not 0 < ratio <= 1:
        raise InputError(f"n_l1s must be at least 1 and ratio in (0, 1]; got {n_l1s} and {ratio}")
    first = pattern._sparse_end(X, queries, ratio)
    values = first * np.geomspace(1.0, ratio if pattern._fewer_when_larger else 1 / ratio, n_l1s)
    # What a report prints is what was used: typed in again, it gives the same ranker.
    values = np.array([five_digits(value) for value in values])
    if values[0] < first and pattern._fewer_when_larger:
        values[0] = five_digits(first * 1.0001)
    return values


def rankers_along(
    pattern: SparseLinearRanker, X: Any, queries: Queries, values: NDArray[np.float64], *, warm_start: bool = True
) -> Iterator[SparseLinearRanker]:
    """Yield a ranker at each of these penalties; rows are checked and scaled."""
    before, fresh = None, clone(pattern)
    for value in values.tolist():
        fitted = copy(fresh)  # far cheaper than a clone
        setattr(fitted, pattern._penalty_name, value)
        fitted._check_params()
        fitted._note_features(pattern)
        fitted._learn_after(before if warm_start else None, X, queries)
        yield fitted
        before = fitted


def five_digits(value: float) -> float:
    """Return the printed form of a penalty as a number."""
    return float(f"{value:.5g}")
