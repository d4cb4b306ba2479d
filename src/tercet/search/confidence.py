"""Probability that a hit answers its query, calibrated by queries with known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tercet._validate import check_integer
from tercet.errors import InputError
from tercet.search.base import BaseIndex
from tercet.search.results import Hit

_C = 10.0  # of the logistic regression; its columns are standardised


@dataclass(frozen=True)
class Confidence:
    """Probability that a hit answers its query, so that a caller can abstain.

    A logistic function of the hit's score, its distance to the best score, the lead of the best score over the second
    one, and the logarithm of the hit's position. It belongs to the model and the documents that it was calibrated with.

    Attributes
    ----------
    weights : of the four numbers, and the constant; ``Confidence(weights)`` is the same again

    Examples
    --------
    >>> from tercet import Index
    >>> index = Index.build({"a": "green tea", "b": "black tea", "c": "blue sky", "d": "blue sea"})
    >>> queries = {"1": "green tea", "2": "black tea", "3": "blue", "4": "a blue sky"}
    >>> confidence = Confidence.fit(index, queries, {"1": {"a": 1}, "2": {"b": 1}, "3": {}, "4": {"c": 1}})
    >>> sure, unsure = confidence(index.search("black tea"))
    >>> bool(sure > 0.5 > unsure)
    True
    """

    weights: tuple[float, float, float, float, float]

    @classmethod
    def fit(
        cls, index: BaseIndex, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]], k: int = 10
    ) -> Confidence:
        """Calibrate by queries that the model has not learned from; by those that it has, it would be far too sure.

        Parameters
        ----------
        index : documents and the model
        queries : texts by id
        qrels : grades of documents by query; a hit without a positive grade is wrong, all hits where there are none
        k : hits of a query that count, two at least
        """
        from sklearn.linear_model import LogisticRegression  # here, as it loads much

        check_integer(k, "k", 2)
        if lacking := next((qid for qid in qrels if qid not in queries), None):
            raise InputError(f"query {lacking!r} is judged, but has no text; give queries, id -> text")
        lists = [(index.search(queries[qid], k), judged) for qid, judged in qrels.items()]
        good = np.array([judged.get(hit.doc_id, 0) > 0 for hits, judged in lists for hit in hits])
        if not 0 < good.sum() < len(good):
            found = f"of {len(good)} hits of {len(lists)} queries {good.sum()} are good"
            raise InputError(f"{found}; calibration needs good and wrong ones: give other queries")
        rows = np.concatenate([_rows(hits) for hits, _ in lists])
        mean, deviation = rows.mean(axis=0), np.where(np.ptp(rows, axis=0) > 0, rows.std(axis=0), 1.0)
        model = LogisticRegression(C=_C).fit((rows - mean) / deviation, good)
        weights = model.coef_[0] / deviation
        return cls((*weights.tolist(), float(model.intercept_[0] - weights @ mean)))

    def __call__(self, hits: Sequence[Hit]) -> NDArray[np.float64]:
        """Return the probability of each hit of a list, which has two hits at least where so many were found."""
        *weights, constant = self.weights
        return 0.5 + 0.5 * np.tanh((_rows(hits) @ np.array(weights) + constant) / 2)  # the logistic function


def _rows(hits: Sequence[Hit]) -> NDArray[np.float64]:
    """Score, distance to the best score, lead of the best score, and log of the position (n_hits, 4)."""
    scores = np.array([hit.score for hit in hits])
    if not len(scores):
        return np.empty((0, 4))
    lead = scores[0] - (scores[1] if len(scores) > 1 else 0.0)
    return np.stack([scores, scores - scores[0], np.full(len(scores), lead), np.log1p(np.arange(len(scores)))], axis=1)
