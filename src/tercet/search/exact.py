"""Scores of documents that come as rows of a matrix, the very bits that an index gives them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.kernels.search import lay_out
from tercet.search.scorer import ExpandedQueries, Scorer


class ExactScores:
    """Scores documents for one query in double precision.

    Parameters
    ----------
    scorer : of the weights
    query : one query, as `Scorer.expand` gives it
    """

    def __init__(self, scorer: Scorer, query: ExpandedQueries) -> None:
        self._scorer, self._query = scorer, query
        self._words = np.zeros((len(scorer.plain), scorer.n_terms))
        union = np.empty(query.most_terms, dtype=np.int32)
        n = lay_out(query.starts[0], query.stops[0], query.terms, query.weights, self._words, union)
        self.terms: NDArray[np.int32] = np.sort(union[:n])

    @property
    def totals(self) -> NDArray[np.float64]:
        """What the query gives to each of its ``terms``, all plain parts together."""
        return self._words[:, self.terms].sum(axis=0)

    def __call__(self, D: sparse.csr_array) -> NDArray[np.float64]:
        """The score of each row of canonical CSR float32."""
        rows = (D.indptr.astype(np.uint32), D.indices.astype(np.int32), D.data.astype(np.float32))
        for array in rows:
            array.flags.writeable = False  # as those of segments are, so that the kernel is compiled once
        listed = np.arange(D.shape[0], dtype=np.int32)
        return self._scorer.exact(self._query, self._words, rows, listed, D)
