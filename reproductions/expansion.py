"""Query expansion, a rival in the tables of the SSI paper: the documents a query finds first are added to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reproductions.choosing import Trial, choose
from tercet.data import Preferences
from tercet.weights import Identity, Weights

AT_ONCE = 1000  # preferences whose rows are in memory
BETAS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
DEPTHS = (1, 2, 5, 10, 20, 50)
MOST_PREFERENCES = 20_000  # used to choose by; of more, evenly spaced ones


class QueryExpansion:
    """Adds the documents a query finds first to it: ``q' = q + beta (d_1 + … + d_E)`` (Bai et al. 2010, section 4).

    Documents are found by their inner product with the query, which is the cosine for rows of unit length. The paper
    speaks of the documents' mean and prints their sum; the sum is taken, so ``beta`` for the mean is E times as large.

    Parameters
    ----------
    D : the documents, (n_docs, n_terms) CSR
    beta : weight of the documents
    n_expanded : E, how many documents are added
    """

    def __init__(self, D: sparse.csr_array, *, beta: float = 0.1, n_expanded: int = 5) -> None:
        self.docs = D
        self.beta = beta
        self.n_expanded = n_expanded

    @classmethod
    def tuned(
        cls,
        Q: sparse.csr_array,
        prefs: Preferences,
        D: sparse.csr_array,
        *,
        betas: Sequence[float] = BETAS,
        depths: Sequence[int] = DEPTHS,
    ) -> Self:
        """The expansion with the least rank loss on the preferences, the first of equal ones.

        ``beta=0`` is among the usual ones, so the chosen expansion is never worse there than none.
        """
        if len(prefs) > MOST_PREFERENCES:
            prefs = prefs[np.linspace(0, len(prefs) - 1, MOST_PREFERENCES).astype(np.int64)]
        prefs = prefs[np.argsort(prefs.query, kind="stable")]
        asked, row = np.unique(prefs.query, return_inverse=True)
        queries = Q[asked]
        prefs = Preferences(row.ravel(), prefs.better, prefs.worse, prefs.weight)
        ranked, scores = cls(D)._rank(queries, max(depths))
        own_margins = _margins(queries, D, prefs)
        trials: list[Trial] = []
        for depth in depths:
            added_margins = _margins(_sum_of_found(ranked[:, :depth], scores[:, :depth], D), D, prefs)
            for beta in betas:
                wrong = own_margins + beta * added_margins <= 0  # ties included
                loss = np.average(wrong, weights=prefs.weight)
                trials.append(Trial({"beta": beta, "n_expanded": depth}, np.array(loss)))
        return cls(D, **trials[choose(trials, higher_is_better=False)].setting)

    def transform(self, Q: sparse.csr_array) -> sparse.csr_array:
        """The expanded queries, CSR float32; a query that finds nothing stays as it is."""
        added = _sum_of_found(*self._rank(Q, self.n_expanded), self.docs)
        expanded = sparse.csr_array(Q.astype(np.float64) + self.beta * added, dtype=np.float32)
        expanded.sum_duplicates()
        expanded.eliminate_zeros()
        return expanded

    def _rank(self, Q: sparse.csr_array, depth: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        return Weights([Identity(n_terms=self.docs.shape[1])]).rank(Q, self.docs, depth)


def _sum_of_found(docs: NDArray[np.int32], scores: NDArray[np.float64], D: sparse.csr_array) -> sparse.csr_array:
    """The sum of the documents of each query (n_queries, n_terms); one that shares no word with it is not found."""
    row, rank = np.nonzero(scores > 0)
    found = sparse.csr_array((np.ones(row.size), (row, docs[row, rank])), shape=(len(docs), D.shape[0]))
    return sparse.csr_array(found @ D.astype(np.float64))


def _margins(Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences) -> NDArray[np.float64]:
    """``q·d+ - q·d-`` of each preference."""
    margins = np.empty(len(prefs))
    for start in range(0, len(prefs), AT_ONCE):
        some = prefs[start : start + AT_ONCE]
        asked = Q[some.query].astype(np.float64)
        better, worse = (asked.multiply(D[rows].astype(np.float64)).sum(axis=1) for rows in (some.better, some.worse))
        margins[start : start + AT_ONCE] = better - worse
    return margins
