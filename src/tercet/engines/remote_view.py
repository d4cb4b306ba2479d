"""Documents in another engine as a search sees them: remembered once read, found by bounds and ranked again exactly."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.values import Record
from tercet.engines.certified import Certified, certified_rerank
from tercet.engines.engine import PAGE, STORED_FIELDS, TEXT, Engine, Query, StoredPoint
from tercet.engines.records import MARKER_ROW, MOST_ROWS, Marker
from tercet.errors import EngineError, InputError
from tercet.search.scorer import ExactScores, ExpandedQueries, Scorer
from tercet.search.stored_fields import unpacked_record

_KEPT: Final = 4096  # documents that are remembered; a number never stands for another document
_KEPT_IDS: Final = 2**17  # and ids, which a run of many queries asks for when their documents are forgotten
_TEXTS_AT_ONCE: Final = 16
_MORE: Final = 10  # documents that are ranked again beyond those asked for

# Of a request for many queries: the most of them, documents in its answer, and what they take here meanwhile.
_QUERIES_AT_ONCE: Final = 32
_LISTED_AT_ONCE: Final = 2048
_LAID_OUT_BYTES: Final = 64 * 2**20

_SINGLE: Final = 2.0**-24  # how far off a float32 is at most, in parts of its size
_SMALLEST_SINGLE: Final = 2.0**-149  # and how far where that is more
_LARGEST: Final = 1e30  # products of query and document below it surely stay within single precision


@dataclass(eq=False)
class RemoteDocument:
    """A document that was read: its id, its words, and its text and stored fields once somebody asked for them."""

    doc_id: str
    terms: NDArray[np.int64]
    values: NDArray[np.float32]
    found_with: Sequence[int] = ()  # hits whose contents are read together, since a list of hits is shown together
    contents: Mapping[str, Any] | None = None


class DocumentCache:
    """The documents that were read last. Threads may share it."""

    def __init__(self) -> None:
        self._documents: OrderedDict[int, RemoteDocument] = OrderedDict()
        self._ids: OrderedDict[int, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, rows: Iterable[int]) -> dict[int, RemoteDocument]:
        """Those of some documents that are remembered, by row."""
        with self._lock:
            remembered = {row: self._documents[row] for row in rows if row in self._documents}
            for row in remembered:
                self._documents.move_to_end(row)
            return remembered

    def add(self, points: Sequence[StoredPoint], n_terms: int) -> dict[int, RemoteDocument]:
        """Remember documents; gives them, by row, whether there is room for all or not."""
        added = {}
        with self._lock:
            for point in points:
                if point.row not in self._documents:
                    terms, values = point.vector()
                    n = int(np.searchsorted(terms, n_terms))  # words come first
                    self._documents[point.row] = RemoteDocument(point.doc_id, terms[:n], values[:n])
                added[point.row] = self._documents[point.row]
                self._documents.move_to_end(point.row)
                self._ids[point.row] = point.doc_id
                self._ids.move_to_end(point.row)
            while len(self._documents) > _KEPT:
                self._documents.popitem(last=False)
            while len(self._ids) > _KEPT_IDS:
                self._ids.popitem(last=False)
        return added

    def ids(self, rows: Iterable[int]) -> dict[int, str]:
        """The ids of those documents that are remembered by it, by row."""
        with self._lock:
            return {row: self._ids[row] for row in rows if row in self._ids}


@dataclass(frozen=True, eq=False)
class RemoteView:
    """The documents of a collection; ``n_docs`` is how many there were when it was last looked at."""

    engine: Engine
    marker: Marker
    scorer: Scorer
    n_docs: int
    memory: DocumentCache = field(default_factory=DocumentCache)

    def __len__(self) -> int:
        return self.n_docs

    # -- documents ----------------------------------------------------------------------------------------------

    def find(self, doc_id: str) -> int | None:
        # While a document is being replaced there may be two; the later one counts.
        rows = [row for row, _ in self.engine.rows_of([doc_id])]
        self._check_own(rows)
        return max(rows, default=None)

    def _check_own(self, rows: Sequence[int]) -> None:
        """An error where rows are not of this index: its collection was replaced by that of another one.

        Rows tell, since those of every index begin at another number, see `first_row`.
        """
        first = self.marker.first_row
        if any(not first <= row < first + MOST_ROWS for row in rows):
            raise EngineError(
                f"{self.engine.where}, belongs to another index by now; open this one again if it was built anew"
            )

    def ids(self) -> Iterator[str]:
        row = MARKER_ROW + 1
        while page := self.engine.ids_from(row, PAGE):
            self._check_own([row for row, _ in page])
            yield from (doc_id for _, doc_id in page)
            row = page[-1][0] + 1

    def doc_ids(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        listed = rows.tolist()
        ids = self.memory.ids(listed)
        missing = [row for row in dict.fromkeys(listed) if row not in ids]
        ids |= {row: document.doc_id for row, document in zip(missing, self._documents(missing), strict=True)}
        return [ids[row] for row in listed]

    def text(self, row: int) -> str | None:
        if not self.marker.texts:
            return None
        document, contents = self._contents(row)
        if TEXT not in contents:
            raise EngineError(f"{self.engine.url}: document {document.doc_id!r} has no text any more")
        return str(contents[TEXT])

    def stored_fields(self, row: int) -> Record:
        document, contents = self._contents(row)
        return unpacked_record(contents.get(STORED_FIELDS, ""), f"{self.engine.url}: document {document.doc_id!r}")

    def has_column(self, _column: str) -> bool:
        return False

    def filter(self, where: Mapping[str, Collection[str]]) -> RemoteView:
        columns = ", ".join(repr(column[:80]) for column in where)
        raise InputError(
            f"documents that {self.engine.name} keeps cannot be filtered by stored fields; asked for {columns}"
        )

    def _contents(self, row: int) -> tuple[RemoteDocument, Mapping[str, Any]]:
        [document] = self._documents([row])
        if document.contents is None:
            contents = self.engine.contents(document.found_with or [row])
            for other_row, other in (self.memory.get(contents) | {row: document}).items():
                other.contents = contents.get(other_row)
            if document.contents is None:
                raise EngineError(f"{self.engine.url}: document {document.doc_id!r} is gone")
        return document, document.contents

    def terms(self, row: int) -> NDArray[np.int32]:
        return self.matrix(row).indices

    def matrix(self, row: int) -> sparse.csr_array:
        return self._matrix([row])

    def _matrix(self, rows: Sequence[int]) -> sparse.csr_array:
        documents = self._documents(rows)
        indptr = np.zeros(len(documents) + 1, dtype=np.int64)
        np.cumsum([document.terms.size for document in documents], out=indptr[1:])
        terms = np.concatenate([np.empty(0, np.int64), *(document.terms for document in documents)])
        values = np.concatenate([np.empty(0, np.float32), *(document.values for document in documents)])
        shape = (len(documents), self.marker.n_terms)
        matrix = sparse.csr_array((values, terms.astype(np.int32), indptr), shape=shape)
        matrix.has_canonical_format = True
        return matrix

    def _documents(self, rows: Sequence[int]) -> list[RemoteDocument]:
        """Documents by number, in that order; those that are not remembered are read."""
        documents = self.memory.get(rows)
        missing = [row for row in dict.fromkeys(rows) if row not in documents]
        for start in range(0, len(missing), PAGE):
            fetched = self.engine.fetch(missing[start : start + PAGE])
            documents |= self.memory.add(fetched, self.marker.n_terms)
        gone = next((row for row in missing if row not in documents), None)
        if gone is not None:
            raise EngineError(f"{self.engine.where}: point {gone} is gone")
        return [documents[row] for row in rows]

    # -- search -------------------------------------------------------------------------------------------------

    def search(self, queries: ExpandedQueries, k: int) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Rows and exact scores of the k best of each query, best first, ties by lower row."""
        answers = []
        for best in self.certified(queries, k):
            for start in range(0, best.rows.size, _TEXTS_AT_ONCE):
                together = best.rows[start : start + _TEXTS_AT_ONCE].tolist()
                for document in self.memory.get(together).values():
                    document.found_with = together
            answers.append((best.rows, best.scores))
        return answers

    def certified(self, queries: ExpandedQueries, k: int) -> Iterator[Certified]:
        """The same, each with the number of documents that were ranked again."""
        if k > self.n_docs:
            k = min(k, max(1, self.engine.count() - 1))  # others may have added some
        first = k + _MORE  # bounds are scores, but for their rounding
        laid_out = 8 * max(1, len(self.scorer.plain)) * max(1, self.scorer.n_terms)
        at_once = max(1, min(_QUERIES_AT_ONCE, _LISTED_AT_ONCE // first, _LAID_OUT_BYTES // laid_out))
        for start in range(0, len(queries), at_once):
            block = [RemoteQuery(self, queries.one(i)) for i in range(start, min(start + at_once, len(queries)))]
            ask_together(self.engine, block, first)
            yield from (certified_rerank(query, k, first) for query in block)

    def rescore(self, query: ExpandedQueries, rows: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Exact scores of documents for a lone query."""
        return ExactScores(self.scorer, query)(self._matrix(rows.tolist()))

    def largest_values(self, terms: NDArray[np.int32]) -> NDArray[np.float64]:
        """By how much at most any term occurs in a document."""
        return np.full(len(terms), self.marker.limits.value)


class RemoteQuery:
    """One query, a `BoundingEngine`. Engines score in single precision and list no document whose sum is zero."""

    unlisted = 0.0

    def __init__(self, view: RemoteView, query: ExpandedQueries) -> None:
        self._view, marker = view, view.marker
        self._exact = ExactScores(view.scorer, query)
        latent = np.concatenate([np.empty(0), *(vectors[0] for vectors in query.latent)])
        terms = np.concatenate([self._exact.terms, marker.n_terms + np.arange(latent.size)])
        weights = np.concatenate([self._exact.totals, latent])
        length = float(np.linalg.norm(weights))
        if not (length * marker.limits.length < _LARGEST and length < _LARGEST):
            raise InputError(
                f"the query has weights of {length:.3g}, too much for the single precision of {view.engine.name}"
            )
        with np.errstate(under="ignore"):
            values = weights.astype(np.float32)
        self.query: Query = terms[values != 0].astype(np.int64), values[values != 0]
        self.listed: tuple[int, list[StoredPoint]] = (0, [])  # the last answer of `by_bound`, and for which n
        # All dimensions that make a document count, which even weights that cancel each other do.
        self._counting = np.array([marker.always]) if latent.size else self._exact.terms.astype(np.int64)
        # Each product is of two rounded numbers, and each addition rounds, in whatever order.
        n = min(terms.size, marker.limits.dimensions) + 4
        longest = marker.limits.length
        self.error = 1.01 * n * (_SINGLE * length * longest + _SMALLEST_SINGLE * (length + longest + 1))

    def by_bound(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        if self.listed[0] != n:
            ask_together(self._view.engine, [self], n)
        points = self.listed[1]
        rows = [point.row for point in points]
        self._view._check_own(rows)
        self._view.memory.add(points, self._view.marker.n_terms)
        return np.array(rows, dtype=np.int64), np.array([point.score for point in points])

    def counting(self) -> NDArray[np.int64]:
        if not self._counting.size:
            return np.empty(0, dtype=np.int64)
        ones = np.ones(self._counting.size, dtype=np.float32)
        n = PAGE
        while (rows := self._view.engine.nearest_rows((self._counting, ones), n)).size >= n:
            n *= 2
        self._view._check_own(rows.tolist())
        return rows

    def scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._exact(self._view._matrix(rows.tolist()))


def ask_together(engine: Engine, queries: Sequence[RemoteQuery], n: int) -> None:
    """Have the n documents of largest bound of each query listed, by one request for all."""
    weighted = [query for query in queries if query.query[0].size]
    answers = iter(engine.nearest([query.query for query in weighted], n) if weighted else [])
    for query in queries:
        query.listed = (n, next(answers) if query.query[0].size else [])
