"""Mean squared hinge over the pairs of all queries, for the batch methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.pairs import all_curvature, all_slopes
from tercet.learn.linear.queries import Queries

Vector = NDArray[np.float64]


class PairObjective:
    """``F(w)``: mean squared hinge over all pairs within queries; 1 without weights.

    The loss costs O(n_rows log n) with n the documents of a query, and the gradient costs a product with X.
    """

    def __init__(self, X: Any, queries: Queries) -> None:
        in_order = len(queries.rows) == X.shape[0] and (queries.rows == np.arange(X.shape[0])).all()
        self.X = (X if in_order else X[queries.rows]).astype(
            np.float64, copy=False
        )  # converted once, not in every product
        self._queries = queries.arrays()
        self._scale = 1.0 / int(queries.n_pairs.sum())

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def scores(self, w: Vector) -> Vector:
        return np.asarray(self.X @ w, dtype=np.float64)

    def slopes(self, scores: Vector, margin: float = 1.0) -> tuple[float, Vector]:
        """The value, and its derivative by each score."""
        slopes = np.empty(len(scores))
        value = all_slopes(scores, self._queries, margin, slopes)
        return float(value) * self._scale, slopes * self._scale

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """The value at these weights, and its derivative by each."""
        value, slopes = self.slopes(self.scores(w))
        return value, self.gradient(slopes)

    def first_penalty(self) -> float:
        """Return the weakest L1 penalty that leaves no feature: the steepest derivative without weights."""
        return float(np.abs(self.value_and_gradient(np.zeros(self.n_features))[1]).max())

    def gradient(self, slopes: Vector) -> Vector:
        """The derivative by each weight."""
        return np.asarray(self.X.T @ slopes, dtype=np.float64)

    def rounding(self) -> float:
        """Return the largest derivative without weights by rounding errors alone."""
        return 1e-14 * max(float(self.X.max()), -float(self.X.min()))

    def best_step(self, scores: Vector, change: Vector, most: float) -> float:
        """Return the exact minimizer of the squared hinge in [0, most] along a change of the scores.

        The derivative along a line is piecewise linear and rises: Newton's steps end on the piece with its zero. A step
        out of the bracket halves the bracket instead.
        """
        low, high, step = 0.0, most, 0.0
        _, slopes = self.slopes(scores + most * change)
        if slopes @ change <= 0:
            return most
        _, slopes = self.slopes(scores)
        steepest = derivative = float(slopes @ change)
        for _ in range(100):
            if abs(derivative) <= 1e-13 * abs(steepest):
                break
            curvature = self._scale * all_curvature(scores + step * change, change, self._queries, 1.0)
            guess = step - derivative / curvature if curvature > 0 else high
            if not low < guess < high:
                guess = (low + high) / 2
            if guess in (low, high, step):
                break
            step = guess
            _, slopes = self.slopes(scores + step * change)
            derivative = float(slopes @ change)
            if derivative > 0:
                high = step
            else:
                low = step
        return step

    def lipschitz(self, n_rounds: int = 100) -> float:
        """Return a Lipschitz constant of the gradient: the largest curvature of the loss with all pairs violated.

        An upper bound: by the power method, plus a hundredth for its remaining error.
        """
        nothing = np.zeros(self.X.shape[0])
        v = np.random.default_rng(0).normal(size=self.n_features)
        largest = 0.0
        for _ in range(n_rounds):
            scores = self.scores(v / np.linalg.norm(v))
            # With a margin that no difference of scores reaches, slopes are linear in the scores plus a constant.
            margin = 2.0 * float(np.ptp(scores)) + 1.0
            v = self.gradient(self.slopes(scores, margin)[1] - self.slopes(nothing, margin)[1])
            before, largest = largest, float(np.linalg.norm(v))
            if largest <= before * (1 + 1e-4):
                break
        return 1.01 * largest
