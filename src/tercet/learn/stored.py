"""Texts mapped from a file: the rows of a chunk, and a ranking, in little memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.matrix import row_blocks
from tercet.data.preferences import Preferences
from tercet.weights import Weights


def gathered(
    prefs: Preferences, Q: sparse.csr_array, D: sparse.csr_array
) -> tuple[Preferences, sparse.csr_array, sparse.csr_array]:
    """Return preferences with the rows of their own texts only, renumbered.

    Rows keep their order: the kernel reads and learns the same as from all of Q and D.
    """
    query_rows, query = np.unique(prefs.query, return_inverse=True)
    doc_rows, doc = np.unique(np.concatenate((prefs.better, prefs.worse)), return_inverse=True)
    return (
        prefs.renumbered(query, doc[: len(prefs)], doc[len(prefs) :]),
        Q[query_rows],
        D[doc_rows],
    )


def rank_texts(
    weights: Weights, Q: sparse.csr_array, D: sparse.csr_array, k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Rank like ``Weights.rank``; read mapped documents a block at a time, in memory for k documents of each query."""
    docs = np.empty((Q.shape[0], 0), dtype=np.int32)
    scores = np.empty(docs.shape)
    first = 0
    for block in row_blocks(D):
        block_docs, block_scores = weights.rank(Q, block, k)
        docs = np.hstack((docs, block_docs + np.int32(first)))
        scores = np.hstack((scores, block_scores))
        if first:
            # Both halves are best first with ties by lower row, and all rows of the second come after the first.
            best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            docs, scores = np.take_along_axis(docs, best, axis=1), np.take_along_axis(scores, best, axis=1)
        first += block.shape[0]
    return docs, scores
