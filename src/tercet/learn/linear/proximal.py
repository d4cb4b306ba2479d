"""SparseRank: the squared hinge over pairs with an L1 penalty, by proximal gradient steps (Lai et al. 2013)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tercet.learn.base import Count, NotNegative, Positive
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.linear.objective import PairObjective, Vector
from tercet.learn.linear.queries import Queries


@dataclass(eq=False, repr=False, kw_only=True)
class ProximalRanker(SparseLinearRanker):
    """A sparse linear ranker: the least mean squared hinge over all pairs within queries plus ``l1 |w|₁``.

    With K a Lipschitz constant of the gradient, each round takes a step of ``1 / K`` down the gradient and shrinks
    every weight by ``l1 / K``, smaller weights to exactly zero. Momentum (FISTA), which the paper does not have, leads
    to the same weights in far fewer rounds.

    Parameters
    ----------
    l1 : λ, strength of the penalty; None takes ``l1_share`` of the weakest penalty without a feature
    l1_share : share of the weakest penalty without a feature, if ``l1`` is None
    tolerance : largest violation of the optimality conditions, as a share of the smallest ``l1`` without a feature
    max_iter : largest number of rounds, with a ConvergenceWarning if more are needed
    scale_features : learn from features divided by their mean range within a query, independent of units; ``coef_``
        applies to the original features

    Attributes
    ----------
    coef_ : weights (n_features,)
    l1_ : penalty used
    n_iter_ : rounds
    violation_ : violation of the optimality conditions
    loss_ : mean squared hinge reached, without the penalty

    Notes
    -----
    A round costs O(n_rows (n_features + log n)) with n the documents of a query, not their pairs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = ProximalRanker(l1=0.2).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(3)
    array([0.988, 0.   ])
    """

    l1: NotNegative | None = None
    tolerance: Positive = 1e-4
    max_iter: Count = 10_000

    _learned_scalars: ClassVar[dict[str, type]] = {"l1": float, "n_iter": int, "violation": float, "loss": float}

    def _learn(self, X: Any, queries: Queries) -> None:
        objective = PairObjective(X, queries)
        self.l1_ = l1 = self._strength(X, queries)
        with np.errstate(over="ignore", invalid="ignore"):  # features that are too large are an error below
            K = objective.lipschitz()
            point = w = np.zeros(objective.n_features)
            loss, g = objective.value_and_gradient(point)
            # At least the rounding error of features with one value in all documents of a query.
            enough = max(self.tolerance * float(np.abs(g).max()), objective.rounding())
            momentum = 1.0
            for n_iter in range(self.max_iter + 1):
                violation = violation_at(point, g, l1)
                is_near = violation <= enough
                if (is_near and point is w) or n_iter == self.max_iter:
                    break
                down = point - g / K
                last, w = w, np.sign(down) * np.maximum(np.abs(down) - l1 / K, 0.0)
                # A point reached by momentum need not be sparse, so the last step is one without.
                ahead = w
                if not is_near and (point - w) @ (w - last) <= 0:  # uphill momentum is dropped
                    before, momentum = momentum, (1 + np.sqrt(1 + 4 * momentum**2)) / 2
                    ahead = w + (before - 1) / momentum * (w - last)
                else:
                    momentum = 1.0
                point = ahead
                loss, g = objective.value_and_gradient(point)
        if not np.isfinite(violation):
            raise self._diverged(f"the optimality conditions are violated by {violation}")
        if violation > enough:
            warnings.warn(
                f"the optimality conditions are violated by {violation:.3g} after {n_iter} rounds, not {enough:.3g}; "
                "raise max_iter or tolerance",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._keep(point)
        self.n_iter_, self.violation_, self.loss_ = n_iter, violation, loss

    def _first_penalty(self, X: Any, queries: Queries) -> float:
        return PairObjective(X, queries).first_penalty()


def violation_at(w: Vector, g: Vector, l1: float) -> float:
    """Return the distance of 0 from the subgradients of loss and penalty, of the worst feature."""
    at_zero = np.maximum(np.abs(g) - l1, 0.0)
    return float(np.where(w == 0, at_zero, np.abs(g + l1 * np.sign(w))).max())
