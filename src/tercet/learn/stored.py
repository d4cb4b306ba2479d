"""Texts that may be mapped from a file: the rows of a chunk, ranking and directions, in little memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh, qr

from tercet.data.matrix import row_blocks
from tercet.data.preferences import Preferences
from tercet.weights import Weights

_MORE_DIRECTIONS = 10  # than are asked for, while they are looked for


def gathered(
    prefs: Preferences, Q: sparse.csr_array, D: sparse.csr_array
) -> tuple[Preferences, sparse.csr_array, sparse.csr_array]:
    """The texts that some preferences are about, and the preferences by the rows of these.

    Rows keep their order, so what a kernel reads, and so what it learns, is the same as from all of Q and D.
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
    """What ``Weights.rank`` gives; of mapped documents a block at a time, in memory for k documents of each query."""
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


def leading_directions(
    D: sparse.csr_array, n: int, *, n_iter: int, seed: int, keep: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """About the n largest singular values of D, and right singular vectors in rows, by subspace iteration.

    ``n_iter + 2`` passes over D, and memory for a few matrices of (n_terms, n + 10). ``keep`` says which columns are
    looked at.
    """
    width = min(n + _MORE_DIRECTIONS, D.shape[1])
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((D.shape[1], width))
    for _ in range(n_iter + 1):
        basis, _ = qr(_squared_times(D, basis, keep), mode="economic", overwrite_a=True, check_finite=False)
    # The best of what the basis spans: D'D there is a small matrix.
    squares, turns = eigh(basis.T @ _squared_times(D, basis, keep), check_finite=False)
    size = np.sqrt(np.maximum(squares[::-1][:n], 0.0))
    directions = (basis @ turns[:, ::-1][:, :n]).T
    largest = directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)]
    return size, directions * np.where(largest < 0, -1.0, 1.0)[:, None]


def _squared_times(
    D: sparse.csr_array, basis: NDArray[np.float64], keep: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """``D'D basis``, a block of rows at a time."""
    total = np.zeros_like(basis)
    for block in row_blocks(D):
        used = np.bincount(block.indices, minlength=D.shape[1]) > 0
        words = np.flatnonzero(used if keep is None else used & keep)
        rows = block.astype(np.float64)[:, words]
        total[words] += rows.T @ (rows @ basis[words])  # a block has few of all words
    return total
