"""Search with memory: documents in memory score by W and past queries, all others by W and matching words.

The two groups are searched separately, each exactly, and merged. Without a weight for documents without past queries,
one search is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.memory import Memory
from tercet.search.results import DocRows
from tercet.search.scorer import ExpandedQueries
from tercet.search.view import RankedRows, View
from tercet.weights import Part

_NOTHING: RankedRows = (np.empty(0, dtype=np.int32), np.empty(0))


@dataclass(frozen=True, eq=False)
class UnseenDocs:
    """Documents without past queries, and the additional part of W for these documents."""

    view: View
    part: Part

    def expand(self, Q: sparse.csr_array, queries: ExpandedQueries) -> ExpandedQueries:
        """Expand queries, already expanded by W, by the part as well."""
        return queries.with_part(self.part.expand_entries(Q))


@dataclass(frozen=True, eq=False)
class MemorySearch:
    """Documents of a view, grouped by memory.

    Attributes
    ----------
    view : all documents
    memory : past queries
    rows : row of each document of memory; -1 for a document outside the index
    known : documents ranked by W and past queries
    unseen : all other documents; None without other documents, or without a weight for them
    is_filtered : True if a filter hides documents, possibly also of ``rows``
    """

    view: View
    memory: Memory
    rows: NDArray[np.int64]
    known: View
    unseen: UnseenDocs | None
    is_filtered: bool = False

    @classmethod
    def build(cls, view: View, memory: Memory, n_words: int | None, before: MemorySearch | None = None) -> MemorySearch:
        """Look up the documents of memory.

        Parameters
        ----------
        view : documents and weights
        memory : past queries
        n_words : as in `Memory.unseen_part`
        before : memory search of another version; reused if documents and memory are the same
        """
        is_same = before is not None and before.memory is memory and _has_documents_of(before.view, view)
        rows = before.rows if before is not None and is_same else view.find_all(memory.ids)
        present = rows[rows >= 0]
        if not memory.settings.unseen or present.size == len(view):
            return cls(view, memory, rows, view, None)
        part = memory.unseen_part(view.scorer.n_terms, n_words)
        remaining = view.drop(present)
        unseen = replace(remaining, scorer=view.scorer.with_part(part), spare=[])
        return cls(view, memory, rows, view.drop(remaining.rows()), UnseenDocs(unseen, part))

    def filter(self, view: View) -> MemorySearch:
        """Return the memory search of a filtered view of the same segments."""
        if self.unseen is None:
            return replace(self, view=view, known=view, is_filtered=True)
        unseen = replace(self.unseen, view=self.unseen.view.intersect(view))
        return replace(self, view=view, known=self.known.intersect(view), unseen=unseen, is_filtered=True)

    def best(self, Q: sparse.csr_array, queries: ExpandedQueries, k: int) -> list[RankedRows]:
        """Return the k best documents of each query, as `View.search` does."""
        remembered = self.memory.scores(Q)
        # Memory moves documents down: other documents may take their positions.
        n_lowered = int(np.diff(np.append(0, np.cumsum(remembered.data < 0))[remembered.indptr]).max())
        by_words = self.known.search(queries, k + n_lowered)
        by_matches = [_NOTHING] * len(queries)
        if self.unseen is not None:
            by_matches = self.unseen.view.search(self.unseen.expand(Q, queries), k)
        answers = []
        for i, (word_hits, unseen) in enumerate(zip(by_words, by_matches, strict=True)):
            entries = slice(*remembered.indptr[i : i + 2])
            rows, amounts = self.rows[remembered.indices[entries]], remembered.data[entries]
            present = self.view.has_rows(rows) if self.is_filtered else rows >= 0
            answers.append(self._merged(queries.one(i), k, word_hits, unseen, rows[present], amounts[present]))
        return answers

    def _merged(
        self,
        query: ExpandedQueries,
        k: int,
        known: RankedRows,
        unseen: RankedRows,
        remembered: NDArray[np.int64],
        amounts: NDArray[np.float64],
    ) -> RankedRows:
        """Return the k best of all documents; memory adds ``amounts`` to the documents ``remembered``."""
        rows, totals = np.concatenate([known[0], unseen[0]]), np.concatenate([known[1], unseen[1]])
        at = _positions(rows, remembered)
        totals[at[at >= 0]] += amounts[at >= 0]
        remembered, amounts = remembered[at < 0], amounts[at < 0]
        ceiling = max(
            0.0, float(known[1][-1]) if known[1].size else 0.0
        )  # a document without a word of the query has score 0
        largest = np.zeros(amounts.size, dtype=bool)
        largest[np.argpartition(amounts, -k)[-k:] if amounts.size > k else slice(None)] = True
        for group in (largest, ~largest):  # scores of the first group exclude most of the second
            least = np.partition(totals, -k)[-k] if totals.size >= k else -np.inf
            near = np.flatnonzero(group & (ceiling + amounts >= least))
            if near.size:
                scores = self.view.rescore(query, remembered[near].astype(np.int32)) + amounts[near]
                rows, totals = np.concatenate([rows, remembered[near]]), np.concatenate([totals, scores])
        best = np.lexsort((rows, -totals))[:k]
        return rows[best], totals[best]

    def scores(
        self, Q: sparse.csr_array, query: ExpandedQueries, listed: DocRows, doc_ids: Sequence[str]
    ) -> NDArray[np.float64]:
        """Return exact scores of documents for a lone query, equal to the scores of `best`."""
        rows = listed.astype(np.int32)
        scores = self.view.rescore(query, rows)
        columns = [self.memory.ids.find(doc_id) for doc_id in doc_ids]
        has_past = np.array([column is not None for column in columns], dtype=bool)
        if has_past.any():
            amounts = self.memory.scores(Q)[:, [column for column in columns if column is not None]]
            scores[has_past] += amounts.toarray()[0]
        if self.unseen is not None and not has_past.all():
            expanded = self.unseen.expand(Q, query)
            scores[~has_past] = self.unseen.view.rescore(expanded, rows[~has_past])
        return scores


def _positions(rows: DocRows, sought: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each sought row among other rows; -1 for a missing row."""
    if not rows.size:
        return np.full(sought.size, -1)
    order = np.argsort(rows)
    nearest = order[np.searchsorted(rows, sought, sorter=order).clip(max=rows.size - 1)]
    return np.where(rows[nearest] == sought, nearest, -1)


def _has_documents_of(one: View, other: View) -> bool:
    """Return True if two views have the same documents under the same rows."""
    both = zip(one.entries, other.entries, strict=False)
    return one.has_segments_of(other) and all(
        np.array_equal(entry.dead, other_entry.dead) for entry, other_entry in both
    )
