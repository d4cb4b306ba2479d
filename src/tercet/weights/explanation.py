"""Why a document got its score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tercet.weights.base import Pairs


@dataclass(frozen=True, eq=False)
class Explanation:
    """Term pairs, largest contribution by size first; ``contribution.sum()`` is the score.

    Iterating gives ``(query_term, doc_term, contribution)``.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.weights import Sparse, Weights
    >>> W = Weights([Sparse(weights=sparse.csr_array([[1.0, 0.5], [0.0, 1.0]]))])
    >>> list(W.explain(sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[1.0, 4.0]])))
    [(0, 1, 2.0), (0, 0, 1.0)]
    """

    score: float
    query_term: NDArray[np.int32]
    doc_term: NDArray[np.int32]
    contribution: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.contribution)

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        return zip(self.query_term.tolist(), self.doc_term.tolist(), self.contribution.tolist(), strict=True)


def merge_pairs(parts: Sequence[Pairs]) -> Pairs:
    """Add up what several parts say of the same pair, then sort by size, ties by query and document term."""
    query_term = np.concatenate([pairs.query_term for pairs in parts])
    doc_term = np.concatenate([pairs.doc_term for pairs in parts])
    contribution = np.concatenate([pairs.contribution for pairs in parts])
    if not len(contribution):
        return Pairs(query_term, doc_term, contribution)
    keys, where = np.unique(np.stack([query_term, doc_term], axis=1), axis=0, return_inverse=True)
    total = np.bincount(where.ravel(), contribution, len(keys)).astype(np.float64)
    order = np.lexsort((keys[:, 1], keys[:, 0], -np.abs(total)))
    return Pairs(keys[order, 0], keys[order, 1], total[order])
