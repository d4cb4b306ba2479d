"""Probability that a hit answers its query, calibrated by queries with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError

_C = 10.0  # of the logistic regression; its columns are standardized


@dataclass(frozen=True)
class Confidence:
    """Probability that a hit answers its query, so that a caller can abstain.

    A logistic function of the hit's score, its distance to the best score, the lead of the best score over the second
    one, and the logarithm of the hit's position. The scores are those of one model over one collection.

    Attributes
    ----------
    weights : weights of the four numbers, and the constant

    Examples
    --------
    >>> lists = [[5.0, 1.0], [4.0, 0.5], [2.0, 1.9], [1.5, 1.0]]
    >>> confidence = Confidence.fit(lists, [[True, False], [True, False], [False, False], [False, False]])
    >>> sure, unsure = confidence([4.5, 1.0])
    >>> bool(sure > 0.5 > unsure)
    True
    """

    weights: tuple[float, float, float, float, float]

    @classmethod
    def fit(cls, scores: Sequence[Any], right: Sequence[Any]) -> Confidence:
        """Calibrate by queries that the model has not learned from.

        Parameters
        ----------
        scores : for each query the scores of its hits, best first, at least two if the query has two
        right : for each query, True for each hit that answers the query
        """
        from sklearn.linear_model import LogisticRegression  # a slow import

        answers = np.array([bool(value) for values in right for value in values])
        if not 0 < answers.sum() < len(answers):
            raise InputError(
                f"of {len(answers)} hits of {len(scores)} queries {answers.sum()} are right; calibration needs right "
                "and wrong hits: give other queries"
            )
        rows = np.concatenate([_rows(values) for values in scores])
        mean, deviation = rows.mean(axis=0), np.where(np.ptp(rows, axis=0) > 0, rows.std(axis=0), 1.0)
        model = LogisticRegression(C=_C).fit((rows - mean) / deviation, answers)
        weights = model.coef_[0] / deviation
        return cls((*weights.tolist(), float(model.intercept_[0] - weights @ mean)))

    def __call__(self, scores: Any) -> NDArray[np.float64]:
        """Return the probability of each hit of a query from the scores of the hits, best first."""
        *weights, constant = self.weights
        return 0.5 + 0.5 * np.tanh((_rows(scores) @ np.array(weights) + constant) / 2)  # the logistic function


def _rows(values: Any) -> NDArray[np.float64]:
    """Score, distance to the best score, lead of the best score, and log of the position (n_hits, 4)."""
    scores = np.asarray(values, dtype=np.float64)
    if not len(scores):
        return np.empty((0, 4))
    lead = scores[0] - (scores[1] if len(scores) > 1 else 0.0)
    return np.stack([scores, scores - scores[0], np.full(len(scores), lead), np.log1p(np.arange(len(scores)))], axis=1)
