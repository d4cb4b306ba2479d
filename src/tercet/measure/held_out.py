"""Queries with known answers over a fixed collection, ready to judge any weights value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tercet.errors import InputError
from tercet.measure.arrays import average_precision_by_class, measure_block
from tercet.measure.evaluate import Evaluation
from tercet.measure.names import Measure, parse_measure, parse_measures
from tercet.weights import Weights


@dataclass(frozen=True, eq=False)
class HeldOutQueries:
    """Every document is ranked for every query; ties by lower row.

    Called with weights it returns the mean of ``measure`` (negated where lower is better), so it can be given to
    ``fit`` as ``validation``.

    Parameters
    ----------
    Q, D : query rows and the whole collection
    grades : CSR integers (n_q, n_d)
    qids : names of the queries, for reports
    measure : what a call returns
    exclude : row of D to leave out for each query (the query itself), or None
    hidden : CSR (n_q, n_d), not zero where a document is left out of a query's ranking, or None
    """

    Q: sparse.csr_array
    D: sparse.csr_array
    grades: sparse.csr_array
    qids: tuple[str, ...]
    measure: Measure
    exclude: NDArray[np.int64] | None = None
    hidden: sparse.csr_array | None = None

    @classmethod
    def from_qrels(
        cls,
        qrels: Mapping[str, Mapping[str, int]],
        Q: Any,
        D: Any,
        query_rows: Mapping[str, int],
        doc_rows: Mapping[str, int],
        measure: str | Measure = "nDCG@10",
    ) -> HeldOutQueries:
        """Judgements by id, with the row of each id."""
        if not qrels:
            raise InputError("there are no held-out queries")
        rows, columns, grades = [], [], []
        for at, judged in enumerate(qrels.values()):
            for doc_id, grade in judged.items():
                rows.append(at)
                columns.append(doc_rows[doc_id])
                grades.append(grade)
        matrix = sparse.csr_array((grades, (rows, columns)), shape=(len(qrels), D.shape[0]), dtype=np.int64)
        chosen = sparse.csr_array(Q)[np.array([query_rows[qid] for qid in qrels])]
        return cls(chosen, sparse.csr_array(D), matrix, tuple(map(str, qrels)), parse_measure(measure))

    def __call__(self, weights: Weights) -> float:
        value = float(self.values(weights).mean())
        return value if self.measure.higher_is_better else -value

    def values(self, weights: Weights) -> NDArray[np.float64]:
        """The measure of each query."""
        return self.evaluate(weights, [self.measure]).values[:, 0]

    def evaluate(self, weights: Weights, measures: Any = None) -> Evaluation:
        """Several measures of each query."""
        parsed = parse_measures(measures or [self.measure])
        blocks = [self.measured(block, scores, parsed) for block, scores in weights.score_blocks(self.Q, self.D)]
        return Evaluation(parsed, self.qids, np.concatenate(blocks))

    def values_of_blends(self, weights: Weights, other: Weights, factors: Sequence[float]) -> NDArray[np.float64]:
        """The measure of each query under ``weights + factor * other``, (n_factors, n_q); each is scored once."""
        found = []
        both = zip(weights.score_blocks(self.Q, self.D), other.score_blocks(self.Q, self.D), strict=True)
        for (block, scores), (_, other_scores) in both:
            blends = [self.measured(block, scores + factor * other_scores, (self.measure,)) for factor in factors]
            found.append(np.concatenate(blends, axis=1).T)
        return np.concatenate(found, axis=1)

    def measured(self, block: slice, scores: NDArray[np.float64], measures: tuple[Measure, ...]) -> NDArray[np.float64]:
        """Measures (n, n_measures) of a block of queries from their scores; those of hidden documents are lost."""
        exclude = None if self.exclude is None else self.exclude[block]
        if self.hidden is not None:
            hidden = self.hidden[block].tocoo()
            scores[hidden.row, hidden.col] = -np.inf  # below every other, so that no rank above changes
        return measure_block(scores, self.grades[block], measures, exclude=exclude)


def average_precision_of_classes(weights: Weights, X: Any, labels: ArrayLike) -> NDArray[np.float64]:
    """Average precision of each row of X as a query against all other rows; its own class is relevant."""
    y = np.asarray(labels)
    values = [
        average_precision_by_class(scores, y[block], y, np.arange(block.start, block.stop))
        for block, scores in weights.score_blocks(X, X)
    ]
    return np.concatenate(values)
