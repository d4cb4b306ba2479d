"""SparseRank: the squared hinge over pairs with an L1 penalty, by proximal gradient steps (Lai et al. 2013)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tercet.learn.base import Count, NotNegative, Positive
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.linear.objective import PairObjective, Vector
from tercet.learn.linear.queries import Queries


@dataclass(eq=False, repr=False, kw_only=True)
class ProximalRanker(SparseLinearRanker):
    """A sparse linear ranker: the least mean squared hinge over all pairs within queries plus ``l1 |w|₁``.

    Each round takes a step of ``1 / lipschitz`` down the gradient and shrinks every weight by ``l1 / lipschitz``,
    smaller weights to exactly zero.

    Parameters
    ----------
    l1 : λ, strength of the penalty; None takes ``l1_share`` of the weakest penalty without a feature
    l1_share : share of the weakest penalty without a feature, if ``l1`` is None
    lipschitz : the paper's K, Lipschitz constant of the gradient. None takes a sufficient bound; a smaller number,
        without ``accelerate``, makes longer steps, and too small a number diverges
    accelerate : carry momentum from round to round, and drop uphill momentum. The paper has no momentum; the result
        is the same, after far fewer rounds
    tolerance : largest violation of the optimality conditions, as a share of the smallest ``l1`` without a feature
    max_iter : largest number of rounds, with a ConvergenceWarning if more are needed
    normalise_pairs : let each query count the same, whatever its number of pairs
    margin : margin of the better document of a pair
    scale_features : learn from features divided by their mean range within a query, independent of units; ``coef_``
        applies to the original features

    Attributes
    ----------
    coef_ : weights (n_features,)
    l1_ : penalty used
    n_iter_ : rounds
    lipschitz_ : constant used
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
    lipschitz: Positive | None = None
    accelerate: bool = True
    tolerance: Positive = 1e-4
    max_iter: Count = 10_000
    normalise_pairs: bool = False
    margin: Positive = 1.0

    _learned_scalars: ClassVar[dict[str, type]] = {
        "l1": float,
        "n_iter": int,
        "lipschitz": float,
        "violation": float,
        "loss": float,
    }
    lipschitz_: float = field(init=False)

    def _learn_after(self, before: Self | None, X: Any, queries: Queries) -> None:
        objective = PairObjective(X, queries, self.margin, normalise_pairs=self.normalise_pairs)
        self.l1_ = self._strength(X, queries)
        with np.errstate(over="ignore", invalid="ignore"):  # too small a constant, or too large features: told below
            lipschitz = float(self.lipschitz or (objective.lipschitz() if before is None else before.lipschitz_))
            start, enough = beginning(objective, self.tolerance)
            start = start if before is None else Iterate.from_point(objective, before._scaled_coef())
            iterate, n_iter, violation = start, 0, np.inf
            while violation > enough and (n_iter < self.max_iter or iterate is start):
                iterate, n_more = descend(
                    objective,
                    self._strengths(iterate.w),
                    lipschitz,
                    iterate,
                    enough,
                    self.max_iter - n_iter,
                    accelerate=self.accelerate,
                )
                n_iter, violation = n_iter + n_more, iterate.violation(self._strengths(iterate.w))
        if not np.isfinite(violation):
            raise self._diverged(f"the optimality conditions are violated by {violation}")
        if violation > enough:
            warn_of_violation(violation, enough, n_iter)
        self._keep(iterate.w)
        self.n_iter_, self.lipschitz_, self.violation_, self.loss_ = n_iter, lipschitz, violation, iterate.loss

    def _strengths(self, w: Vector) -> Vector:
        """Return the derivative of the penalty of each weight by its size: λ.

        A penalty that is not convex overrides the method: each round then replaces the penalty by its tangent, an L1
        penalty with a strength for each feature (reweighted L1).
        """
        return np.full(len(w), self.l1_)

    def _sparse_end(self, X: Any, queries: Queries, ratio: float) -> float:
        return weakest_that_leaves_nothing(PairObjective(X, queries, self.margin, normalise_pairs=self.normalise_pairs))


@dataclass(frozen=True, eq=False)
class Iterate:
    """Weights, and their loss and gradient."""

    w: Vector
    loss: float
    g: Vector

    @classmethod
    def from_point(cls, objective: PairObjective, w: Vector) -> Iterate:
        return cls(w, *objective.value_and_gradient(w))

    @property
    def steepest(self) -> float:
        return float(np.abs(self.g).max())

    def violation(self, penalty: Vector) -> float:
        """Return the distance of zero from the subgradients of loss and penalty, of the worst feature."""
        at_zero = np.maximum(np.abs(self.g) - penalty, 0.0)
        return float(np.where(self.w == 0, at_zero, np.abs(self.g + penalty * np.sign(self.w))).max())


def weakest_that_leaves_nothing(objective: PairObjective) -> float:
    """Return the smallest ``l1`` with all weights at zero."""
    return Iterate.from_point(objective, np.zeros(objective.n_features)).steepest


def beginning(objective: PairObjective, tolerance: float) -> tuple[Iterate, float]:
    """Return the iterate without weights, and the largest final violation of the optimality conditions.

    The largest violation is the share ``tolerance`` of the steepest derivative, and at least the rounding error of
    features with one value in all documents of a query.
    """
    start = Iterate.from_point(objective, np.zeros(objective.n_features))
    return start, max(tolerance * start.steepest, objective.rounding())


def descend(
    objective: PairObjective,
    penalty: Vector,
    lipschitz: float,
    start: Iterate,
    enough: float,
    max_iter: int,
    *,
    accelerate: bool,
) -> tuple[Iterate, int]:
    """Take proximal gradient steps on the loss plus ``penalty · |w|`` until the violation is at most ``enough``."""
    iterate, w, momentum = start, start.w, 1.0
    for n_iter in range(max_iter + 1):
        is_near = not iterate.violation(penalty) > enough
        if (is_near and iterate.w is w) or n_iter == max_iter:
            break
        down = iterate.w - iterate.g / lipschitz
        last, w = w, np.sign(down) * np.maximum(np.abs(down) - penalty / lipschitz, 0.0)
        ahead = w
        # What momentum leads to need not be sparse, so the last step is one without.
        if accelerate and not is_near and (iterate.w - w) @ (w - last) <= 0:
            before, momentum = momentum, (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = w + (before - 1) / momentum * (w - last)
        else:
            momentum = 1.0
        iterate = Iterate.from_point(objective, ahead)
    return iterate, n_iter


def warn_of_violation(violation: float, enough: float, n_iter: int) -> None:
    warnings.warn(
        f"the optimality conditions are violated by {violation:.3g} after {n_iter} rounds, not {enough:.3g}; "
        "raise max_iter or tolerance, or lipschitz where it was given",
        ConvergenceWarning,
        stacklevel=4,
    )
