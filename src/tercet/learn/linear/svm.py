"""RankSVM: the plain hinge over pairs with an L2 penalty, by planes below it (Joachims 2006, RankSVM-Struct)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tercet.kernels.pairs import HINGE
from tercet.kernels.simplex import best_mixture
from tercet.learn.base import Count, Positive
from tercet.learn.linear.base import LinearRanker
from tercet.learn.linear.objective import PairObjective, Vector
from tercet.learn.linear.queries import Queries

_IDLE_ROUNDS = 30  # a plane not used for so long is dropped
_SEARCH_STEPS = 8
_TOWARDS_MODEL = 0.1
_ROUNDING = 1e-13  # of a sum, as a share of the sum of its terms' sizes


@dataclass(eq=False, repr=False, kw_only=True)
class RankSVMRanker(LinearRanker):
    """A dense linear ranker: the least mean hinge over all pairs within queries plus ``l2 |w|² / 2``.

    Each round looks at the loss at one place, which gives a plane that is nowhere above it, and takes the weights that
    are best for the highest of all planes so far. Their value cannot be above the least one: it ends when the best
    weights met are within ``tolerance`` of it. A round looks next between the two, after a search along the line that
    joins them, which needs far fewer rounds than to look where the planes say (Franc and Sonnenburg 2008).

    Parameters
    ----------
    l2 : strength of the penalty
    tolerance : by how much the value may miss the least one, as a share of the value without weights
    max_iter : rounds at most; a ConvergenceWarning tells when they did not suffice
    normalise_pairs : let each query count the same, however many pairs it has
    margin : by how much the better document of a pair should win
    scale_features : learn from features divided by how far they reach within a query, on average, so that nothing
        depends on their units; ``coef_`` is for features as they are given

    Attributes
    ----------
    coef_ : weights (n_features,)
    n_iter_ : rounds
    gap_ : by how much the value reached may miss the least one
    loss_ : the mean hinge reached, without the penalty

    Notes
    -----
    A look costs O(n_rows (n_features + log n)) with n the documents of a query, not their pairs; a round has about
    ten.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = RankSVMRanker(l2=1.0, tolerance=1e-6).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(3)
    array([1.05 , 0.497])
    """

    l2: Positive = 1e-3
    tolerance: Positive = 1e-3
    max_iter: Count = 1000
    normalise_pairs: bool = False
    margin: Positive = 1.0

    _learned_scalars: ClassVar[dict[str, type]] = {"n_iter": int, "gap": float, "loss": float}

    def _learn(self, X: Any, queries: Queries) -> None:
        objective = PairObjective(X, queries, self.margin, normalise_pairs=self.normalise_pairs, loss=HINGE)
        l2, enough = float(self.l2), float(self.tolerance * self.margin)
        best, point = np.zeros(objective.n_features), np.zeros(objective.n_features)
        loss, g = objective.value_and_gradient(best)
        reached = loss
        planes = _Planes(objective.n_features, l2)
        for n_iter in range(1, self.max_iter + 1):
            planes.add(loss, g, point)
            model, floor = planes.lowest(0.1 * enough)
            gap = reached - floor
            if gap <= enough or n_iter == self.max_iter:
                break
            best, reached = _down_the_line(objective, best, reached, model - best, l2)
            point = best + _TOWARDS_MODEL * (model - best)
            loss, g = objective.value_and_gradient(point)
        if gap > enough:
            warnings.warn(
                f"the value may miss the least one by {gap:.3g} after {n_iter} rounds, not {enough:.3g}; "
                "raise max_iter, tolerance or l2, or bring the features to a smaller scale",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._keep(best)
        self.n_iter_, self.gap_, self.loss_ = n_iter, gap, objective.value_and_gradient(best)[0]


def _down_the_line(
    objective: PairObjective, w: Vector, value: float, change: Vector, l2: float
) -> tuple[Vector, float]:
    """Weights along a change of ``w`` with a lower value, close to the lowest, or ``w`` itself; and their value."""
    scores, moved = objective.scores(w), objective.scores(change)
    best, low, high = 0.0, 0.0, np.inf
    step = 1.0
    for _ in range(_SEARCH_STEPS):
        loss, slopes = objective.slopes(scores + step * moved)
        there = w + step * change
        value_there = loss + l2 / 2 * float(there @ there)
        if value_there < value:
            best, value = step, value_there
        if float(slopes @ moved) + l2 * float(there @ change) > 0:
            high = step
        else:
            low = step
        step = 2 * low if high == np.inf else (low + high) / 2
    return w + best * change, value


class _Planes:
    """Planes ``g · w + height`` that are nowhere above the loss."""

    def __init__(self, n_features: int, l2: float) -> None:
        self._l2 = l2
        self._slopes, self._heights = np.empty((0, n_features)), np.empty(0)
        self._doubts = np.empty(0)  # by how much rounding may have raised each height
        self._gram, self._mixture, self._idle = np.empty((0, 0)), np.empty(0), np.empty(0, dtype=np.int64)

    def add(self, loss: float, g: Vector, w: Vector) -> None:
        products = self._slopes @ g / self._l2
        corner = np.array([[g @ g / self._l2]])
        self._gram = np.block([[self._gram, products[:, None]], [products[None, :], corner]])
        self._slopes = np.vstack([self._slopes, g])
        self._heights = np.append(self._heights, loss - g @ w)
        self._doubts = np.append(self._doubts, _ROUNDING * (loss + np.abs(g) @ np.abs(w)))
        self._mixture = np.append(self._mixture, 0.0 if self._mixture.size else 1.0)
        self._idle = np.append(self._idle, 0)

    def lowest(self, tolerance: float) -> tuple[Vector, float]:
        """The weights that are best for the highest plane plus the penalty, and a bound below the value there."""
        best_mixture(self._gram, self._heights, self._mixture, tolerance, 20 * self._mixture.size + 1000)
        self._mixture /= self._mixture.sum()
        w = -(self._mixture @ self._slopes) / self._l2
        floor = float(self._mixture @ (self._heights - self._doubts)) - self._l2 / 2 * float(w @ w) * (1 + _ROUNDING)
        self._idle = np.where(self._mixture > 0, 0, self._idle + 1)
        keep = self._idle < _IDLE_ROUNDS
        if not keep.all():
            self._slopes, self._heights, self._gram = self._slopes[keep], self._heights[keep], self._gram[keep][:, keep]
            self._mixture, self._idle, self._doubts = self._mixture[keep], self._idle[keep], self._doubts[keep]
        return w, floor
