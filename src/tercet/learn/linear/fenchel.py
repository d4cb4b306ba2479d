"""FenchelRank: the squared hinge over pairs within an L1 ball, one feature at a time (Lai et al. 2013)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tercet.learn.base import Count, Positive
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.linear.objective import PairObjective, Vector
from tercet.learn.linear.proximal import ProximalRanker
from tercet.learn.linear.queries import Queries


@dataclass(eq=False, repr=False, kw_only=True)
class FenchelRanker(SparseLinearRanker):
    """A sparse linear ranker: the best one whose weights sum up to at most ``radius`` in size.

    Minimises the mean squared hinge over all pairs within queries. Each round takes the feature with the steepest
    slope, moves towards a ranker of that feature alone, and finds by exact line search how far. It ends when the
    duality gap says that no ranker in the ball is better by more than ``tolerance``.

    Parameters
    ----------
    radius : the largest sum of the sizes of the weights; None takes that of the ``ProximalRanker`` whose penalty is
        ``l1_share`` of the weakest that leaves no feature
    l1_share : see ``radius``
    tolerance : the duality gap to reach; without weights the loss is ``margin²``
    max_iter : rounds at most; a ConvergenceWarning tells when they did not suffice
    pairwise : take what is added from the feature that is least worth its weight. This reaches a small gap in far
        fewer rounds and sets weights back to exactly zero. Otherwise, as in the paper, from all weights alike
    normalise_pairs : let each query count the same, however many pairs it has
    margin : by how much the better document of a pair should win
    scale_features : learn from features divided by how far they reach within a query, on average, so that nothing
        depends on their units; ``coef_`` is for features as they are given

    Attributes
    ----------
    coef_ : weights (n_features,)
    radius_ : the radius it was learned with
    n_iter_ : rounds
    gap_ : the duality gap reached
    loss_ : the loss reached

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
    pairwise: bool = True
    normalise_pairs: bool = False
    margin: Positive = 1.0

    _learned_scalars: ClassVar[dict[str, type]] = {"radius": float, "n_iter": int, "gap": float, "loss": float}
    _penalty_name = "radius"
    _fewer_when_larger = False

    def _learn_after(self, before: Self | None, X: Any, queries: Queries) -> None:
        objective = PairObjective(X, queries, self.margin, normalise_pairs=self.normalise_pairs)
        self.radius_ = radius = self._strength(X, queries)
        w = np.zeros(objective.n_features) if before is None else before._scaled_coef()
        scores = objective.scores(w)
        loss, slopes = objective.slopes(scores)
        for n_iter in range(self.max_iter + 1):
            g = objective.gradient(slopes)
            feature = int(np.abs(g).argmax())
            gap = float(g @ w + radius * abs(g[feature]))
            if gap <= self.tolerance or n_iter == self.max_iter:
                break
            aim = -radius * np.sign(g[feature])
            change, most = -w, 1.0
            if self.pairwise:
                change, most = _from_the_least_worth(w, g, radius)
            change[feature] += aim
            moved = objective.scores(change)
            step = objective.best_step(scores, moved, most)
            if step == most and self.pairwise:
                emptied = (change != 0) & (np.arange(len(w)) != feature)
                w = w + step * change
                w[emptied] = 0.0
            else:
                w = w + step * change
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

    def _sparse_end(self, X: Any, queries: Queries, ratio: float) -> float:
        """``ratio`` times the radius of the ranker whose penalty is ``ratio`` times that which leaves no feature."""
        penalised = ProximalRanker(normalise_pairs=self.normalise_pairs, margin=self.margin)
        penalised.set_params(l1=ratio * penalised._sparse_end(X, queries, ratio))._learn(X, queries)
        return ratio * float(np.abs(penalised.coef_).sum() or 1.0)  # where nothing can be learned, any will do


def _from_the_least_worth(w: Vector, g: Vector, radius: float) -> tuple[Vector, float]:
    """The direction that takes from one feature's weight, or from what is left of the ball, and how far it goes.

    The weights are a mixture of single features at full radius and of nothing; what is given up is the part of the
    mixture along which the loss rises most.
    """
    change = np.zeros(len(w))
    worth = np.where(w != 0, g * np.sign(w), -np.inf)
    least = int(worth.argmax())
    left = 1.0 - float(np.abs(w).sum()) / radius
    if left > 1e-12 and worth[least] < 0:
        return change, left
    change[least] = -radius * np.sign(w[least])
    return change, float(abs(w[least])) / radius
