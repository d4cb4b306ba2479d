"""Immutable view of an index for searches: segments, removed documents and a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.values import Record
from tercet.kernels.postings import Candidates, Heap, SearchScratch, lay_out, table_row, wipe
from tercet.kernels.search import N_BUCKETS, search_segments, search_segments_for_all
from tercet.search import in_numpy
from tercet.search.filtering import unknown_column
from tercet.search.scorer import ExpandedQueries, Scorer
from tercet.search.segment import MOST_DOCS, Segment
from tercet.search.stored_fields import unpacked_record
from tercet.store.strings import PackedIds, hash_of

_NONE_DEAD = np.empty(0, dtype=np.uint16)
SegmentTable = tuple[NDArray[np.int64], NDArray[np.float64]]
RankedRows = tuple[NDArray[np.int32], NDArray[np.float64]]

_SINGLE = 2.0**-24  # largest relative rounding error of a float32
_SMALLEST_SINGLE = 2.0**-149  # largest absolute rounding error of a subnormal float32
_FEW_ROWS = 32  # most rows whose ids are looked up one by one
_LONGEST_QUERY, _LONGEST_DOC = 1e20, 1e15  # lengths of latent vectors whose products cannot overflow float32


@dataclass(frozen=True, eq=False)
class Factors:
    """Latent documents of a segment, float32 (n_docs, n_components), and the largest length."""

    values: NDArray[np.float32]
    max_length: float

    @classmethod
    def from_values(cls, values: NDArray[np.float32]) -> Factors:
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values, dtype=np.float64))
        return cls(values, float(lengths.max(initial=0.0)))


@dataclass(frozen=True, eq=False)
class LiveSegment:
    """Segment in an index: removed rows in ascending order, and factors for low-rank parts."""

    segment: Segment
    dead: NDArray[np.uint16] = field(default_factory=lambda: _NONE_DEAD)
    factors: Factors | None = None

    @property
    def n_alive(self) -> int:
        return self.segment.n_docs - len(self.dead)

    def is_dead(self, row: int) -> bool:
        i = int(np.searchsorted(self.dead, row))
        return i < len(self.dead) and int(self.dead[i]) == row

    def alive(self) -> NDArray[np.int64]:
        is_alive = np.ones(self.segment.n_docs, dtype=bool)
        is_alive[self.dead] = False
        return np.flatnonzero(is_alive)

    def candidates(self) -> NDArray[np.int64]:
        """Return live rows with a word."""
        worded = np.flatnonzero(np.diff(self.segment.rows.indptr))
        return np.setdiff1d(worded, self.dead, assume_unique=True) if self.dead.size else worded

    def filter(self, where: Mapping[str, Collection[str]]) -> LiveSegment:
        """Remove all rows without one of the values in each of the columns."""
        hidden = np.zeros(self.segment.n_docs, dtype=bool)
        hidden[self.dead] = True
        for column, values in where.items():
            excluded = np.ones(self.segment.n_docs, dtype=bool)
            excluded[self.segment.rows_with(column, values)] = False
            hidden |= excluded
        return replace(self, dead=np.flatnonzero(hidden).astype(np.uint16))

    def drop(self, rows: NDArray[np.integer[Any]]) -> LiveSegment:
        """With more rows dead."""
        hidden = np.zeros(self.segment.n_docs, dtype=bool)
        hidden[self.dead] = True
        hidden[rows] = True
        return replace(self, dead=np.flatnonzero(hidden).astype(np.uint16))


class Workspace:
    """Arrays for one search at a time.

    The arrays are one block of more than a megabyte, so that allocators keep the block apart from small objects: each
    version of a model has a block, and blocks among small objects would leave holes.
    """

    def __init__(self, scorer: Scorer) -> None:
        shape = (len(scorer.plain), scorer.n_terms)
        n_words = shape[0] * shape[1]
        doubles = np.zeros(n_words + 2 * MOST_DOCS)
        self.words = doubles[:n_words].reshape(shape)
        scores, halves = np.split(doubles[n_words:], 2)
        rows, self.sums = halves[: MOST_DOCS // 2].view(np.int32), halves[MOST_DOCS // 2 :].view(np.float32)
        self.candidates = Candidates(rows, scores)
        self._n = self._k = -1

    def scratch(self, n: int, k: int) -> tuple[NDArray[np.int32], SearchScratch]:
        """Words of a query and buffers for n words at least, kept for the next search; the sample is of k documents."""
        if n > self._n or k != self._k:
            self._n, self._k, ratio = n, k, np.empty(n + 1, dtype=np.float32)
            buffers = (
                np.empty(n + 1, dtype=np.int32),
                np.empty(n + 1, dtype=np.int32),
                ratio,
                ratio.view(np.int32),
                np.empty(N_BUCKETS + 1, dtype=np.int64),
                np.empty(n + 1),
                np.empty(n + 1, dtype=np.int64),
                np.empty(k),
                np.empty(k, dtype=np.int32),
            )
            self._scratch = np.empty(n, dtype=np.int32), SearchScratch(self.sums, *buffers)
        return self._scratch


@dataclass(frozen=True, eq=False)
class View:
    """Segments in the order of addition; a document's row is 65,536 times the segment's number plus the row in the
    segment.

    Threads may search at the same time.
    """

    entries: tuple[LiveSegment, ...]
    scorer: Scorer
    spare: list[Workspace] = field(default_factory=list)

    def __len__(self) -> int:
        return self._n_alive

    @cached_property
    def _n_alive(self) -> int:
        return sum(entry.n_alive for entry in self.entries)

    # -- documents ----------------------------------------------------------------------------------------------

    def find(self, doc_id: str) -> int | None:
        """The row of a document, or None."""
        hashed = hash_of(doc_id)
        for number, entry in enumerate(self.entries):
            row = entry.segment.ids.find(doc_id, hashed)
            if row is not None and not entry.is_dead(row):
                return number * MOST_DOCS + row
        return None

    def find_all(self, ids: PackedIds) -> NDArray[np.int64]:
        """Return the row of each document; -1 for a missing document."""
        rows = np.full(len(ids), -1, dtype=np.int64)
        for number, entry in enumerate(self.entries):
            local, listed = entry.segment.ids.shared(ids)
            alive = ~np.isin(local, entry.dead)
            rows[listed[alive]] = number * MOST_DOCS + local[alive]
        return rows

    def has_rows(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for each row in this view; -1 is no row."""
        present = rows >= 0
        for number, entry in enumerate(self.entries):
            in_segment = np.flatnonzero(rows // MOST_DOCS == number)
            hidden = np.zeros(entry.segment.n_docs, dtype=bool)
            hidden[entry.dead] = True
            present[in_segment] = ~hidden[rows[in_segment] % MOST_DOCS]
        return present

    def position(self, doc_id: str) -> tuple[Segment, int] | None:
        """Return the segment of a document and the row in the segment, or None."""
        row = self.find(doc_id)
        return None if row is None else (self.entries[row // MOST_DOCS].segment, row % MOST_DOCS)

    def doc_ids(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        """The ids of some rows."""
        if len(self.entries) == 1:
            return self.entries[0].segment.ids.strings.many(rows)
        if rows.size <= _FEW_ROWS:
            return [self.entries[row // MOST_DOCS].segment.ids.strings[row % MOST_DOCS] for row in rows.tolist()]
        numbers = rows // MOST_DOCS
        ids = np.empty(rows.size, dtype=object)
        for number in np.unique(numbers):
            in_segment = np.flatnonzero(numbers == number)
            ids[in_segment] = self.entries[number].segment.ids.strings.many(rows[in_segment] % MOST_DOCS)
        return list(ids)

    def text(self, row: int) -> str | None:
        texts = self.entries[row // MOST_DOCS].segment.texts
        return None if texts is None else texts[row % MOST_DOCS]

    def stored_fields(self, row: int) -> Record:
        segment, local = self.entries[row // MOST_DOCS].segment, row % MOST_DOCS
        packed = "" if segment.stored_fields is None else segment.stored_fields[local]
        return unpacked_record(packed, f"document {segment.ids.strings[local]!r}")

    @cached_property
    def _columns(self) -> dict[str, None]:
        return dict.fromkeys(name for entry in self.entries for name in entry.segment.columns)

    def has_column(self, column: str) -> bool:
        return column in self._columns

    def filter(self, where: Mapping[str, Collection[str]]) -> View:
        """Return the view without documents that lack one of the values in a column."""
        for column in where:
            if not self.has_column(column):
                raise unknown_column(column, self._columns)
        return replace(self, entries=tuple(entry.filter(where) for entry in self.entries))

    def drop(self, rows: NDArray[np.int64]) -> View:
        """Return the view without some rows."""
        entries, numbers = list(self.entries), rows // MOST_DOCS
        for number in np.unique(numbers):
            entries[number] = entries[number].drop(rows[numbers == number] % MOST_DOCS)
        return replace(self, entries=tuple(entries))

    def intersect(self, other: View) -> View:
        """Return the view without documents missing in another view of the same segments."""
        both = zip(self.entries, other.entries, strict=True)
        return replace(self, entries=tuple(entry.drop(other_entry.dead) for entry, other_entry in both))

    def has_segments_of(self, other: View) -> bool:
        """Return True if rows mean the same documents in another view, apart from removed documents."""
        return [entry.segment for entry in self.entries] == [entry.segment for entry in other.entries]

    def terms(self, row: int) -> NDArray[np.int32]:
        return self.entries[row // MOST_DOCS].segment.take(np.array([row % MOST_DOCS])).indices

    def matrix(self, row: int) -> sparse.csr_array:
        return self.entries[row // MOST_DOCS].segment.matrix(np.array([row % MOST_DOCS]))

    def rows(self) -> NDArray[np.int64]:
        """The rows of all documents."""
        alive = (number * MOST_DOCS + entry.alive() for number, entry in enumerate(self.entries))
        return np.concatenate([np.empty(0, dtype=np.int64), *alive])

    def ids(self) -> Iterator[str]:
        for entry in self.entries:
            for row in entry.alive():
                yield entry.segment.ids.strings[int(row)]

    # -- search -------------------------------------------------------------------------------------------------

    def search(self, queries: ExpandedQueries, k: int) -> list[RankedRows]:
        """Rows and scores of the k best candidates of each query, best first, ties by lower row."""
        n, n_docs = len(queries.starts), self._n_alive
        k = min(k, n_docs)
        if k == 0:
            return [(np.empty(0, dtype=np.int32), np.empty(0))] * n
        short = in_numpy.budget.covers(n_docs * n)
        if queries.latent:
            return [self._best_with_latent(queries.one(i), k, short) for i in range(n)]
        if short:
            return [self._best_by_words(queries.one(i), k) for i in range(n)]
        scores, rows, sizes = np.empty((n, k)), np.empty((n, k), dtype=np.int32), np.zeros(n, dtype=np.int64)
        query = (queries.starts, queries.stops, queries.terms, queries.weights)
        workspace = self._taken_workspace()
        union, scratch = workspace.scratch(queries.most_terms, k)
        search_segments_for_all(
            *self._table, workspace.words, query, union, scratch, Heap(scores, rows), workspace.candidates, sizes
        )
        self.spare.append(workspace)  # not after an error, which may have left something in it
        return [(rows[i, :size], scores[i, :size]) for i, size in enumerate(sizes.tolist())]

    def rescore(self, query: ExpandedQueries, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Exact scores of documents for a lone query."""
        if in_numpy.covers_rows(len(rows)):
            return self._exact(query, rows, None)
        with self._workspace() as workspace, _laid_out(query, workspace):
            return self._exact(query, rows, workspace.words)

    def _exact(
        self, query: ExpandedQueries, rows: NDArray[np.int32], words: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        scores = np.zeros(len(rows))
        numbers, local = rows // MOST_DOCS, rows % MOST_DOCS
        for number in np.unique(numbers):
            in_segment = np.flatnonzero(numbers == number)
            segment = self.entries[number].segment
            docs = segment.take(local[in_segment]) if query.latent else None
            scores[in_segment] = self.scorer.exact(query, words, segment.rows, local[in_segment], docs)
        return scores

    @cached_property
    def _table(self) -> SegmentTable:
        return _table(self.entries)

    def _taken_workspace(self) -> Workspace:
        try:
            return self.spare.pop()
        except IndexError:
            return Workspace(self.scorer)

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        workspace = self._taken_workspace()
        yield workspace
        self.spare.append(workspace)  # not after an error, which may have left something in it

    def _best_by_words(self, query: ExpandedQueries, k: int) -> RankedRows:
        """The same for a lone query, in NumPy."""
        rows, scores, words = [], [], query.words()
        for number, entry in enumerate(self.entries):
            totals, has_word = in_numpy.search_words(entry.segment.kernel_arrays, words)
            if entry.dead.size:
                has_word[entry.dead] = False
            candidates = has_word.nonzero()[0]
            candidate_scores = totals[candidates]
            if candidates.size > k:
                among_best = candidate_scores >= np.partition(candidate_scores, -k)[-k]
                candidates, candidate_scores = candidates[among_best], candidate_scores[among_best]
            rows.append(candidates.astype(np.int32) + np.int32(number * MOST_DOCS))
            scores.append(candidate_scores)
        return _ranked(_joined(rows), _joined(scores), k)

    def _best_with_latent(self, query: ExpandedQueries, k: int, short: bool) -> RankedRows:
        """Find candidates by factors in single precision, and score the candidates exactly."""
        latent = np.concatenate([vectors[0] for vectors in query.latent])
        length = float(np.linalg.norm(latent))
        longest = max(entry.factors.max_length for entry in self.entries if entry.factors is not None)
        if not (length < _LONGEST_QUERY and longest < _LONGEST_DOC):
            return self._best_of_all(query, k)
        single = latent.astype(np.float32)
        # Error bound: both factors of a product are rounded, and each of n_components additions rounds, in any order.
        slack = 1.01 * (latent.size + 4) * (_SINGLE * length * longest + _SMALLEST_SINGLE * (length + longest + 1))
        near_rows = self._near_in_numpy if short else self._near_by_kernel
        candidates, near = near_rows(query, k, single, slack)
        if near.size >= k:
            # A latent score below the rounding error of the score of words adds nothing.
            slack += 2.0**-50 * (float(np.abs(near).max()) + length * longest)
            candidates = candidates[near >= np.partition(near, -k)[-k] - 2 * slack]
        return _ranked(candidates, self.rescore(query, candidates), k)

    def _near_in_numpy(self, query: ExpandedQueries, _k: int, latent: NDArray[np.float32], _slack: float) -> RankedRows:
        """Return possible best documents and their scores by stored factors."""
        rows, scores, words = [], [], query.words()
        for number, entry in enumerate(self.entries):
            assert entry.factors is not None
            totals, _ = in_numpy.search_words(entry.segment.kernel_arrays, words)
            alive = entry.candidates()
            rows.append((alive + number * MOST_DOCS).astype(np.int32))
            scores.append((totals + entry.factors.values @ latent)[alive])
        return np.concatenate(rows), np.concatenate(scores)

    def _near_by_kernel(self, query: ExpandedQueries, k: int, latent: NDArray[np.float32], slack: float) -> RankedRows:
        """Do the same by a kernel, without documents far below the best."""
        heap, size = Heap(np.empty(k), np.empty(k, dtype=np.int32)), 0
        rows, scores = [], []
        with self._workspace() as workspace, _laid_out(query, workspace) as union:
            _, scratch = workspace.scratch(query.most_terms, k)
            for number, entry in enumerate(self.entries):
                segment = entry.segment
                assert entry.factors is not None
                base = entry.factors.values @ latent
                hidden = np.union1d(entry.dead, segment.empty_rows) if segment.empty_rows.size else entry.dead
                hidden_too = replace(entry, dead=hidden)
                size, n_candidates = search_segments(
                    *(*_table([hidden_too], number), workspace.words, union, base, slack),
                    *(scratch, heap, workspace.candidates, size),
                )
                rows.append(workspace.candidates.rows[:n_candidates] + np.int32(number * MOST_DOCS))
                scores.append(workspace.candidates.scores[:n_candidates].copy())
        return np.concatenate(rows), np.concatenate(scores)

    def _best_of_all(self, query: ExpandedQueries, k: int) -> RankedRows:
        """Score every document, if single precision would overflow."""
        rows = [number * MOST_DOCS + entry.candidates() for number, entry in enumerate(self.entries)]
        candidates = np.concatenate(rows).astype(np.int32)
        return _ranked(candidates, self.rescore(query, candidates), k)


def _table(entries: Sequence[LiveSegment], first: int = 0) -> SegmentTable:
    """Return the segments' addresses for kernels; the first segment has the number ``first``."""
    rows = [
        table_row(entry.segment.kernel_arrays, entry.dead, number * MOST_DOCS)
        for number, entry in enumerate(entries, first)
    ]
    return np.array([row for row, _ in rows], dtype=np.int64), np.array([length for _, length in rows])


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _ranked(rows: NDArray[np.int32], scores: NDArray[np.float64], k: int) -> RankedRows:
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


@contextmanager
def _laid_out(query: ExpandedQueries, workspace: Workspace) -> Iterator[NDArray[np.int32]]:
    """A lone query spread over the words of a workspace; gives its words, each once."""
    union = np.empty(query.most_terms, dtype=np.int32)
    n = lay_out(query.starts[0], query.stops[0], query.terms, query.weights, workspace.words, union)
    yield union[:n]
    wipe(workspace.words, union[:n])
