"""Texts that are not in memory: the rows of a chunk, and what must be known of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import eigh, qr

from tercet.data.mapped_rows import StoredRows, Texts, take
from tercet.data.preferences import Preferences
from tercet.learn.matrices import column_counts, fingerprint
from tercet.store.digest import digest_of
from tercet.weights import Weights

_MORE_DIRECTIONS = 10  # than are asked for, while they are looked for


def blocks_of(texts: Texts) -> Iterator[sparse.csr_array]:
    """All rows in order: as they are, or some at a time where they are stored."""
    if isinstance(texts, StoredRows):
        yield from texts.blocks()
    else:
        yield texts


def gathered(prefs: Preferences, Q: Texts, D: Texts) -> tuple[Preferences, sparse.csr_array, sparse.csr_array]:
    """The texts that some preferences are about, and the preferences by the rows of these.

    Rows keep their order, so what a kernel reads, and so what it learns, is the same as from all of Q and D.
    """
    query_rows, query = np.unique(prefs.query, return_inverse=True)
    doc_rows, doc = np.unique(np.concatenate((prefs.better, prefs.worse)), return_inverse=True)
    return (
        prefs.renumbered(query, doc[: len(prefs)], doc[len(prefs) :]),
        take(Q, query_rows),
        take(D, doc_rows),
    )


def rank_texts(weights: Weights, Q: Texts, D: Texts, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """What ``Weights.rank`` gives, of stored documents a block at a time: memory for k documents of each query."""
    if not isinstance(D, StoredRows):
        return weights.rank(take(Q, np.arange(Q.shape[0])) if isinstance(Q, StoredRows) else Q, D, k)
    queries = take(Q, np.arange(Q.shape[0]))
    docs = np.empty((Q.shape[0], 0), dtype=np.int32)
    scores = np.empty(docs.shape)
    first = 0
    for block in blocks_of(D):
        block_docs, block_scores = weights.rank(queries, block, k)
        docs = np.hstack((docs, block_docs + np.int32(first)))
        scores = np.hstack((scores, block_scores))
        # Both halves are best first with ties by lower row, and all rows of the second come after those of the first.
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        docs, scores = np.take_along_axis(docs, best, axis=1), np.take_along_axis(scores, best, axis=1)
        first += block.shape[0]
    return docs, scores


class JoinedRows(StoredRows):
    """Texts below each other, the columns of each moved to the right by so many."""

    def __init__(self, parts: Sequence[tuple[Texts, int]], n_columns: int) -> None:
        self.parts = parts
        self._starts = np.cumsum([0, *(texts.shape[0] for texts, _ in parts)])
        self._shape = int(self._starts[-1]), n_columns

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def rows(self, numbers: ArrayLike) -> sparse.csr_array:
        wanted = np.asarray(numbers, dtype=np.int64)
        part_of = np.searchsorted(self._starts, wanted, side="right") - 1
        positions, moved = [], []
        for k, (texts, shift) in enumerate(self.parts):
            positions.append(np.flatnonzero(part_of == k))
            rows = take(texts, wanted[positions[k]] - self._starts[k])
            shape = rows.shape[0], self._shape[1]
            moved.append(sparse.csr_array((rows.data, rows.indices + np.int32(shift), rows.indptr), shape=shape))
        below = moved[0] if len(moved) == 1 else sparse.csr_array(sparse.vstack(moved, format="csr"))
        back = np.argsort(np.concatenate(positions))
        return below if np.array_equal(back, np.arange(len(back))) else below[back]

    def column_counts(self) -> NDArray[np.int64]:
        counts = np.zeros(self._shape[1], dtype=np.int64)
        for texts, shift in self.parts:
            counts[shift : shift + texts.shape[1]] += column_counts(texts)
        return counts

    def fingerprint(self) -> str:
        return digest_of("joined", self._shape, *([fingerprint(texts), shift] for texts, shift in self.parts))


class ChangedRows(StoredRows):
    """Texts as a function of some rows changes them; it may give several rows for each, always as many.

    ``identity`` is a digest of what the function does.
    """

    def __init__(
        self,
        texts: Texts,
        change: Callable[[sparse.csr_array], sparse.csr_array],
        identity: str,
        n_columns: int,
        n_rows_each: int = 1,
    ) -> None:
        self.texts = texts
        self.change = change
        self.identity = identity
        self._shape = texts.shape[0] * n_rows_each, n_columns
        self._counts: NDArray[np.int64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def rows(self, numbers: ArrayLike) -> sparse.csr_array:
        """The rows of some texts, by the numbers of the texts."""
        rows = take(self.texts, numbers)
        return self.change(rows) if rows.shape[0] else sparse.csr_array((0, self._shape[1]), dtype=np.float32)

    def blocks(self) -> Iterator[sparse.csr_array]:
        return map(self.change, blocks_of(self.texts))

    def column_counts(self) -> NDArray[np.int64]:
        if self._counts is None:  # takes a pass over the texts, so only when asked for
            self._counts = sum(
                (np.bincount(block.indices, minlength=self._shape[1]) for block in self.blocks()),
                np.zeros(self._shape[1], dtype=np.int64),
            )
        return self._counts

    def fingerprint(self) -> str:
        return digest_of("changed", self._shape, fingerprint(self.texts), self.identity)


def leading_directions(
    D: StoredRows, n: int, *, n_iter: int, seed: int, keep: NDArray[np.bool_] | None = None
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


def _squared_times(D: StoredRows, basis: NDArray[np.float64], keep: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """``D'D basis``, a block of rows at a time."""
    total = np.zeros_like(basis)
    for block in D.blocks():
        used = np.bincount(block.indices, minlength=D.shape[1]) > 0
        words = np.flatnonzero(used if keep is None else used & keep)
        rows = block.astype(np.float64)[:, words]
        total[words] += rows.T @ (rows @ basis[words])  # a block has few of all words
    return total
