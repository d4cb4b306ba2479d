"""ListNet with a linear score: the cross entropy of top-one probabilities (Cao et al. 2007)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from tercet.kernels.pairs import LISTNET
from tercet.learn.base import Count, NotNegative, Positive
from tercet.learn.linear.base import LinearRanker
from tercet.learn.linear.objective import PairObjective, Vector
from tercet.learn.linear.queries import Queries

_NEAR = 0.01  # of the largest derivative without weights


@dataclass(eq=False, repr=False, kw_only=True)
class ListNetRanker(LinearRanker):
    """A dense linear ranker that learns from whole lists.

    Minimises, with P the softmax over the documents of a query, the mean over queries of the cross entropy of
    ``P(labels)`` and ``P(scores)``, plus ``l2 |w|² / 2``. It is convex; L-BFGS finds its least value. The paper goes
    down the gradient for some rounds and stops.

    Parameters
    ----------
    l2 : strength of the penalty; the paper has none
    tolerance : how large a derivative may be left, as a share of the largest without weights
    max_iter : rounds at most, which stops early as the paper does; a ConvergenceWarning tells when they did not suffice
    scale_features : learn from features divided by how far they reach within a query, on average, so that nothing
        depends on their units; ``coef_`` is for features as they are given

    Attributes
    ----------
    coef_ : weights (n_features,)
    n_iter_ : rounds
    loss_ : the mean cross entropy reached, without the penalty

    Notes
    -----
    A round costs O(n_rows n_features). Labels count by their differences here and not by their order alone.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = ListNetRanker(l2=0.1).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(2)
    array([0.75, 0.52])
    """

    l2: NotNegative = 1e-4
    tolerance: Positive = 1e-5
    max_iter: Count = 1000

    _learned_scalars: ClassVar[dict[str, type]] = {"n_iter": int, "loss": float}

    def _learn(self, X: Any, queries: Queries) -> None:
        objective = PairObjective(X, queries, 0.0, normalise_pairs=False, loss=LISTNET)
        l2, start = float(self.l2), np.zeros(objective.n_features)

        def penalised(w: Vector) -> tuple[float, Vector]:
            loss, g = objective.value_and_gradient(w)
            return loss + l2 / 2 * float(w @ w), g + l2 * w

        steepest_at_start = float(np.abs(objective.value_and_gradient(start)[1]).max())
        enough = self.tolerance * steepest_at_start
        result = minimize(
            penalised,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "maxfun": 20 * self.max_iter, "gtol": enough, "ftol": 0.0},
        )
        steepest = float(np.abs(result.jac).max())
        # A search that rounding errors ended has arrived if it came near; else only the count of rounds cuts it short.
        cut_short = result.status == 1
        if steepest > (enough if cut_short else max(enough, _NEAR * steepest_at_start)):
            warnings.warn(
                f"a derivative of {steepest:.3g} is left after {result.nit} rounds, not {enough:.3g}; "
                + ("raise max_iter or tolerance" if cut_short else "bring the features to a smaller scale"),
                ConvergenceWarning,
                stacklevel=3,
            )
        weights = np.asarray(result.x, dtype=np.float64)
        self._keep(weights)
        self.n_iter_, self.loss_ = int(result.nit), objective.value_and_gradient(weights)[0]
