"""Penalties that leave large weights alone, by L1 penalties that are weighted again and again (Laporte et al. 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from tercet.learn.base import Count, NotNegative, Positive
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.linear.objective import PairObjective, Vector
from tercet.learn.linear.proximal import Iterate, beginning, descend, warn_of_violation, weakest_that_leaves_nothing
from tercet.learn.linear.queries import Queries


@dataclass(eq=False, repr=False, kw_only=True)
class NonconvexRanker(SparseLinearRanker):
    """A sparse linear ranker: the mean squared hinge over all pairs within queries plus a penalty that eases off.

    For a weight of size t the penalty grows by ``l1 (1 - t / reach)`` and not at all beyond ``reach`` ("mcp"), or by
    ``l1 (1 + t / reach)^(p - 1)``, the ℓp penalty with its peak at 0 taken off ("lp"). So weights that stay are shrunk
    less than by L1, and fewer stay. Each round puts the line that touches the penalty at the present weights in its
    place, an L1 penalty with a weight for each feature, and solves that; it begins with L1. No round raises the value,
    and it ends where the conditions of a minimum hold, which need not be the lowest one.

    Parameters
    ----------
    l1 : strength of the penalty at 0; None takes ``l1_share`` of the weakest that leaves no feature
    l1_share : the share, where ``l1`` is None, of the weakest penalty that leaves no feature
    penalty : "mcp" or "lp"
    reach : the size of weights over which the penalty eases off; when it is large the penalty is L1
    p : the power of "lp"
    tolerance : how far the optimality conditions may be from met, as a share of the ``l1`` that leaves no feature
    max_iter : proximal steps at most, of all rounds; a ConvergenceWarning tells when they did not suffice
    normalise_pairs : let each query count the same, however many pairs it has
    margin : by how much the better document of a pair should win
    scale_features : learn from features divided by how far they reach within a query, on average, so that nothing
        depends on their units; ``coef_`` is for features as they are given

    Attributes
    ----------
    coef_ : weights (n_features,)
    l1_ : the penalty it was learned with
    n_iter_ : proximal steps
    n_rounds_ : rounds
    violation_ : how far the optimality conditions are from met
    loss_ : the mean squared hinge reached, without the penalty

    Notes
    -----
    A step costs O(n_rows (n_features + log n)) with n the documents of a query, not their pairs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = NonconvexRanker(l1=0.2, reach=2.0).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(3)
    array([1.109, 0.   ])
    """

    l1: NotNegative | None = None
    penalty: Literal["mcp", "lp"] = "mcp"
    reach: Positive = 1.0
    p: Annotated[float, Interval(Real, 0, 1, closed="neither")] = 0.5
    tolerance: Positive = 1e-4
    max_iter: Count = 10_000
    normalise_pairs: bool = False
    margin: Positive = 1.0

    _learned_scalars: ClassVar[dict[str, type]] = {
        "l1": float,
        "n_iter": int,
        "n_rounds": int,
        "violation": float,
        "loss": float,
    }

    def _learn_after(self, before: Self | None, X: Any, queries: Queries) -> None:
        objective = PairObjective(X, queries, self.margin, normalise_pairs=self.normalise_pairs)
        self.l1_ = self._strength(X, queries)
        n_iter = n_rounds = 0
        with np.errstate(over="ignore", invalid="ignore"):  # too large features: told below
            lipschitz = objective.lipschitz()
            iterate, enough = beginning(objective, self.tolerance)
            iterate = iterate if before is None else Iterate.from_point(objective, before._scaled_coef())
            growth = self._growth(iterate.w)
            while iterate.violation(growth) > enough and n_iter < self.max_iter:
                # Closer than asked for, or the last rounds would never meet the conditions they leave behind.
                iterate, n_steps = descend(
                    objective, growth, lipschitz, iterate, 0.1 * enough, self.max_iter - n_iter, accelerate=True
                )
                n_iter, n_rounds = n_iter + n_steps, n_rounds + 1
                growth = self._growth(iterate.w)
            violation = iterate.violation(growth)
        if not np.isfinite(violation):
            raise self._diverged(f"the optimality conditions are violated by {violation}")
        if violation > enough:
            warn_of_violation(violation, enough, n_iter)
        self._keep(iterate.w)
        self.n_iter_, self.n_rounds_, self.violation_, self.loss_ = n_iter, n_rounds, violation, iterate.loss

    def _sparse_end(self, X: Any, queries: Queries, ratio: float) -> float:
        return weakest_that_leaves_nothing(PairObjective(X, queries, self.margin, normalise_pairs=self.normalise_pairs))

    def _growth(self, w: Vector) -> Vector:
        """How fast the penalty of each weight grows with its size."""
        share = np.abs(w) / float(self.reach)
        eased = np.maximum(1.0 - share, 0.0) if self.penalty == "mcp" else (1.0 + share) ** (float(self.p) - 1.0)
        return self.l1_ * eased
