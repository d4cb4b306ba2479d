"""RSRank: pairs by their importance for NDCG, and weights cut back to zero as they are learned (Sun et al. 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.pairs import BY_BEST_ORDER, HINGE, SQUARED_HINGE, pair_slopes
from tercet.learn.base import Count, NotNegative, Positive, Seed
from tercet.learn.linear.base import LinearRanker
from tercet.learn.linear.objective import Vector
from tercet.learn.linear.queries import Queries

_LOSSES = {"hinge": HINGE, "hinge2": SQUARED_HINGE}


@dataclass(eq=False, repr=False, kw_only=True)
class RSRanker(LinearRanker):
    """A sparse linear ranker by truncated gradient steps over pairs that count by their importance for NDCG.

    A pair counts by the change in its query's NDCG were the two documents to change places in the best ranking, over
    the sum of these changes, so that the importances of a query sum up to 1. One
    query after another, each step goes ``rate / sqrt(t)`` down the gradient of its weighted loss. After every
    ``truncate_every`` steps, and after the last, the weights of at most ``threshold`` in size shrink by ``l1`` times
    the rates of these steps, to exactly zero where they are smaller (Langford, Li and Zhang 2009).

    Parameters
    ----------
    l1 : strength of the penalty, per step
    rate : the rate of the first step
    epochs : passes over the data
    truncate_every : steps from one truncation to the next
    threshold : weights larger than this in size do not shrink; None lets all shrink
    loss : "hinge2", the squared hinge over pairs, or "hinge"
    margin : by how much the better document of a pair should win
    shuffle : take the queries in a random order, a new one each epoch
    random_state : seed of that order
    scale_features : learn from features divided by how far they reach within a query, on average, so that nothing
        depends on their units; ``coef_`` is for features as they are given

    Attributes
    ----------
    coef_ : weights (n_features,)
    n_steps_ : steps done
    loss_ : the mean weighted loss of a query in the last pass, each query taken as it was met

    Notes
    -----
    A query of n documents costs n² and a product with its rows. Gains are 2^label - 1; labels other than whole numbers
    from 0 to 31 are counted by their order in the query. Publicly described are the reduction to weighted pairs and
    the truncated gradient; the weights, the loss and the rate are choices made here.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = RSRanker(l1=0.1).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(3)
    array([1.091, 0.242])
    """

    l1: NotNegative = 0.01
    rate: Positive = 0.3
    epochs: Count = 50
    truncate_every: Count = 1
    threshold: Positive | None = None
    loss: Literal["hinge", "hinge2"] = "hinge2"
    margin: Positive = 1.0
    shuffle: bool = True
    random_state: Seed = 0

    _learned_scalars: ClassVar[dict[str, type]] = {"n_steps": int, "loss": float}

    def _learn(self, X: Any, queries: Queries) -> None:
        rng, queries = np.random.default_rng(self.random_state), queries.by_gain()
        kind, margin = _LOSSES[self.loss] + BY_BEST_ORDER, float(self.margin)
        parts = [slice(start, stop) for start, stop in zip(queries.starts[:-1], queries.starts[1:], strict=True)]
        features = [X[queries.rows[part]] for part in parts]
        sums = [_sum_of_importances(queries.grades[part]) for part in parts]
        w, step, owed, order = np.zeros(X.shape[1]), 0, 0.0, np.arange(len(queries))
        with np.errstate(over="ignore", invalid="ignore"):  # too high a rate: told when the weights are kept
            for _ in range(self.epochs):
                order = rng.permutation(len(queries)) if self.shuffle else order
                total = 0.0
                for q in order:
                    scores, slopes = np.asarray(features[q] @ w, dtype=np.float64), np.empty(features[q].shape[0])
                    if not np.isfinite(scores).all():
                        raise self._diverged("the score of a document is not a finite number")
                    loss = pair_slopes(scores, queries.grades[parts[q]], queries.n_grades[q], margin, kind, slopes)
                    total += loss / sums[q]
                    step += 1
                    rate = float(self.rate) / np.sqrt(step)
                    w = w - rate / sums[q] * (features[q].T @ slopes)
                    owed += rate * float(self.l1)
                    if step % self.truncate_every == 0:
                        w, owed = truncated(w, owed, self.threshold), 0.0
        self._keep(truncated(w, owed, self.threshold))
        self.n_steps_, self.loss_ = step, float(total) / len(queries)


def _sum_of_importances(grades: NDArray[np.int32]) -> float:
    nothing = np.zeros(len(grades))  # by which every pair loses the margin, 1, times its importance
    return float(pair_slopes(nothing, grades, int(grades.max()) + 1, 1.0, HINGE + BY_BEST_ORDER, nothing.copy()))


def truncated(w: Vector, by: float, threshold: float | None) -> Vector:
    """Weights shrunk towards zero, those above the threshold left as they are."""
    shrunk = np.sign(w) * np.maximum(np.abs(w) - by, 0.0)
    return shrunk if threshold is None else np.where(np.abs(w) <= threshold, shrunk, w)
