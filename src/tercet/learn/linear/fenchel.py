"""FenchelRank: the squared hinge over pairs within an L1 ball, feature by feature (Lai et al. 2013)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tercet.errors import ParameterError
from tercet.learn.base import Count, Positive
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.linear.objective import PairObjective, Vector
from tercet.learn.linear.proximal import ProximalRanker
from tercet.learn.linear.queries import Queries


@dataclass(eq=False, repr=False, kw_only=True)
class FenchelRanker(SparseLinearRanker):
    """A sparse linear ranker: the best ranker with ``|w|₁`` of at most ``radius``.

    Minimizes the mean squared hinge over all pairs within queries. Each round takes the feature with the steepest
    slope, moves towards a ranker of this feature alone, and finds the step by exact line search. The added weight is
    taken from the least useful feature; the paper takes it from all weights in proportion, which needs far more rounds
    and never sets a weight back to zero. Learning ends at a duality gap of ``tolerance``.

    Parameters
    ----------
    radius : largest sum of the sizes of the weights; None takes the sum of the ``ProximalRanker`` with the share
        ``l1_share`` of the weakest penalty without a feature
    l1_share : see ``radius``
    tolerance : duality gap to reach; without weights the loss is 1
    max_iter : largest number of rounds, with a ConvergenceWarning if more are needed
    scale_features : learn from features divided by their mean range within a query, independent of units; ``coef_``
        applies to the original features

    Attributes
    ----------
    coef_ : weights (n_features,)
    radius_ : radius used
    n_iter_ : rounds
    gap_ : duality gap reached
    loss_ : loss reached

    Notes
    -----
    A round costs O(n_rows (n_features + log n)) with n the documents of a query, not their pairs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = FenchelRanker(radius=0.5).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(3)
    array([0.556, 0.   ])
    """

    radius: Positive | None = None
    tolerance: Positive = 1e-3
    max_iter: Count = 10_000

    _learned_scalars: ClassVar[dict[str, type]] = {"radius": float, "n_iter": int, "gap": float, "loss": float}
    _penalty_name = "radius"

    def _learn(self, X: Any, queries: Queries) -> None:
        objective = PairObjective(X, queries)
        self.radius_ = radius = self._strength(X, queries)
        w = np.zeros(objective.n_features)
        scores = objective.scores(w)
        loss, slopes = objective.slopes(scores)
        for n_iter in range(self.max_iter + 1):
            g = objective.gradient(slopes)
            feature = int(np.abs(g).argmax())
            gap = float(g @ w + radius * abs(g[feature]))
            if gap <= self.tolerance or n_iter == self.max_iter:
                break
            change, most = _from_the_least_worth(w, g, radius)
            change[feature] -= radius * np.sign(g[feature])
            step = objective.best_step(scores, objective.scores(change), most)
            emptied = (change != 0) & (np.arange(len(w)) != feature)
            w = w + step * change
            if step == most:
                w[emptied] = 0.0
            scores = objective.scores(w)
            loss, slopes = objective.slopes(scores)
        if gap > self.tolerance:
            warnings.warn(
                f"the duality gap is {gap:.3g} after {n_iter} rounds, not {self.tolerance:.3g}; "
                "raise max_iter or tolerance",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._keep(w)
        self.n_iter_, self.gap_, self.loss_ = n_iter, gap, loss

    def _strength(self, X: Any, queries: Queries) -> float:
        if self.radius is not None:
            return float(self.radius)
        penalized = ProximalRanker(l1_share=self.l1_share)
        penalized._learn(X, queries)
        return float(np.abs(penalized.coef_).sum() or 1.0)  # where nothing can be learned, any will do

    def _first_penalty(self, X: Any, queries: Queries) -> float:
        raise ParameterError("FenchelRanker has a radius and no penalty; give the radii")


def _from_the_least_worth(w: Vector, g: Vector, radius: float) -> tuple[Vector, float]:
    """Return the direction away from the least useful feature, or from the rest of the ball, and its largest step.

    The weights are a mixture of single features at full radius and of nothing. The direction gives up the part of the
    mixture with the steepest rise of the loss.
    """
    change = np.zeros(len(w))
    worth = np.where(w != 0, g * np.sign(w), -np.inf)
    least = int(worth.argmax())
    remainder = 1.0 - float(np.abs(w).sum()) / radius
    if remainder > 1e-12 and worth[least] < 0:
        return change, remainder
    change[least] = -radius * np.sign(w[least])
    return change, float(abs(w[least])) / radius
