"""Texts mapped from a file: the rows of a chunk, margins and a ranking, in little memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.matrix import row_blocks
from tercet.data.preferences import Preferences
from tercet.kernels.scoring import score_listed
from tercet.store import is_mapped
from tercet.weights import Weights
from tercet.weights.scoring import in_double

_AT_ONCE = 4096  # preferences whose mapped texts are fetched together


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


def matching_margins(Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences) -> NDArray[np.float64]:
    """Return ``q·(d+ - d-)`` of each preference. Fastest if preferences of a query follow one another."""
    if is_mapped(Q.data) or is_mapped(D.data):
        parts = (gathered(prefs[start : start + _AT_ONCE], Q, D) for start in range(0, len(prefs), _AT_ONCE))
        return np.concatenate([np.empty(0), *(matching_margins(queries, docs, part) for part, queries, docs in parts)])
    queries, docs, scratch = in_double(Q), in_double(D), np.zeros(D.shape[1])
    better, worse = np.empty(len(prefs)), np.empty(len(prefs))
    score_listed(queries, docs, prefs.query, prefs.better, scratch, better)
    score_listed(queries, docs, prefs.query, prefs.worse, scratch, worse)
    return better - worse
