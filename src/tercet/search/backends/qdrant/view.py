"""Documents in Qdrant as a search sees them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import EngineError, InputError
from tercet.search.backends.qdrant.engine import Engine, Query, Stored
from tercet.search.backends.qdrant.marker import MOST_ROWS, ROW, Marker
from tercet.search.certified import Certified, certified_rerank
from tercet.search.exact import ExactScores
from tercet.search.scorer import ExpandedQueries, Scorer

_KEPT: Final = 4096  # documents that are remembered; a number never stands for another document
_KEPT_IDS: Final = 2**17  # and ids, which a run of many queries asks for when their documents are forgotten
_AT_ONCE: Final = 1024
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
class Known:
    """A document that was read: its id, its words, and its text once somebody asked for it."""

    doc_id: str
    terms: NDArray[np.int64]
    values: NDArray[np.float32]
    found_with: Sequence[int] = ()  # hits whose texts are read together, since a list of hits is shown together
    text: str | None = None


class Memory:
    """The documents that were read last. Threads may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Known] = OrderedDict()
        self._ids: OrderedDict[int, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, rows: Iterable[int]) -> dict[int, Known]:
        """Those of some documents that are remembered, by row."""
        with self._lock:
            found = {row: self._known[row] for row in rows if row in self._known}
            for row in found:
                self._known.move_to_end(row)
            return found

    def add(self, documents: Sequence[Stored], n_terms: int) -> dict[int, Known]:
        """Remember documents; gives them, by row, whether there is room for all or not."""
        added = {}
        with self._lock:
            for each in documents:
                if each.row not in self._known:
                    terms, values = each.vector()
                    n = int(np.searchsorted(terms, n_terms))  # words come first
                    self._known[each.row] = Known(each.doc_id, terms[:n], values[:n])
                added[each.row] = self._known[each.row]
                self._known.move_to_end(each.row)
                self._ids[each.row] = each.doc_id
                self._ids.move_to_end(each.row)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            while len(self._ids) > _KEPT_IDS:
                self._ids.popitem(last=False)
        return added

    def ids(self, rows: Iterable[int]) -> dict[int, str]:
        """The ids of those documents that are remembered by it, by row."""
        with self._lock:
            return {row: self._ids[row] for row in rows if row in self._ids}


@dataclass(frozen=True, eq=False)
class QdrantView:
    """The documents of a collection; ``n_docs`` is how many there were when it was last looked at."""

    engine: Engine
    marker: Marker
    scorer: Scorer
    n_docs: int
    memory: Memory = field(default_factory=Memory)

    def __len__(self) -> int:
        return self.n_docs

    # -- documents ----------------------------------------------------------------------------------------------

    def find(self, doc_id: str) -> int | None:
        # While a document is being replaced there may be two; the later one counts.
        found = [row for row, _ in self.engine.rows_of([doc_id])]
        self._check_own(found)
        return max(found, default=None)

    def _check_own(self, rows: Sequence[int]) -> None:
        """All that is asked of Qdrant may meet another index by now, whose numbers begin elsewhere."""
        first = self.marker.first_row
        if any(not first <= row < first + MOST_ROWS for row in rows):
            where = f"{self.engine.url}, collection {self.engine.collection!r},"
            raise EngineError(f"{where} belongs to another index by now; open this one again if it was built anew")

    def ids(self) -> Iterator[str]:
        row = ROW + 1
        while page := self.engine.ids_from(row, _AT_ONCE):
            self._check_own([row for row, _ in page])
            yield from (doc_id for _, doc_id in page)
            row = page[-1][0] + 1

    def doc_ids(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        listed = rows.tolist()
        found = self.memory.ids(listed)
        missing = [row for row in dict.fromkeys(listed) if row not in found]
        found |= {row: known.doc_id for row, known in zip(missing, self._documents(missing), strict=True)}
        return [found[row] for row in listed]

    def text(self, row: int) -> str | None:
        if not self.marker.texts:
            return None
        [known] = self._documents([row])
        if known.text is None:
            texts = self.engine.texts(known.found_with or [row])
            for each, found in (self.memory.get(texts) | {row: known}).items():
                found.text = texts.get(each)
            if row not in texts:
                raise EngineError(f"{self.engine.url}: document {known.doc_id!r} is gone, or has no text any more")
        return known.text

    def matrix(self, row: int) -> sparse.csr_array:
        return self._matrix([row])

    def _matrix(self, rows: Sequence[int]) -> sparse.csr_array:
        documents = self._documents(rows)
        indptr = np.zeros(len(documents) + 1, dtype=np.int64)
        np.cumsum([each.terms.size for each in documents], out=indptr[1:])
        terms = np.concatenate([np.empty(0, np.int64), *(each.terms for each in documents)])
        values = np.concatenate([np.empty(0, np.float32), *(each.values for each in documents)])
        shape = (len(documents), self.marker.n_terms)
        found = sparse.csr_array((values, terms.astype(np.int32), indptr), shape=shape)
        found.has_canonical_format = True
        return found

    def _documents(self, rows: Sequence[int]) -> list[Known]:
        """Documents by number, in that order; those that are not remembered are read."""
        found = self.memory.get(rows)
        missing = [row for row in dict.fromkeys(rows) if row not in found]
        for start in range(0, len(missing), _AT_ONCE):
            fetched = self.engine.fetch(missing[start : start + _AT_ONCE])
            found |= self.memory.add(fetched, self.marker.n_terms)
        gone = next((row for row in missing if row not in found), None)
        if gone is not None:
            raise EngineError(f"{self.engine.url}, collection {self.engine.collection!r}: point {gone} is gone")
        return [found[row] for row in rows]

    # -- search -------------------------------------------------------------------------------------------------

    def search(self, queries: ExpandedQueries, k: int) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Rows and exact scores of the k best of each query, best first, ties by lower row."""
        found = []
        for best in self.certified(queries, k):
            for start in range(0, best.rows.size, _TEXTS_AT_ONCE):
                together = best.rows[start : start + _TEXTS_AT_ONCE].tolist()
                for known in self.memory.get(together).values():
                    known.found_with = together
            found.append((best.rows, best.scores))
        return found

    def certified(self, queries: ExpandedQueries, k: int) -> Iterator[Certified]:
        """The same, each with the number of documents that were ranked again."""
        if k > self.n_docs:
            k = min(k, max(1, self.engine.count() - 1))  # others may have added some
        first = k + _MORE  # bounds are scores, but for their rounding
        laid_out = 8 * max(1, len(self.scorer.plain)) * max(1, self.scorer.n_terms)
        at_once = max(1, min(_QUERIES_AT_ONCE, _LISTED_AT_ONCE // first, _LAID_OUT_BYTES // laid_out))
        for start in range(0, len(queries), at_once):
            some = [Asked(self, queries.one(i)) for i in range(start, min(start + at_once, len(queries)))]
            ask_together(self.engine, some, first)
            yield from (certified_rerank(each, k, first) for each in some)

    def rescore(self, query: ExpandedQueries, rows: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Exact scores of documents for a lone query."""
        return ExactScores(self.scorer, query)(self._matrix(rows.tolist()))

    def largest_values(self, terms: NDArray[np.int32]) -> NDArray[np.float64]:
        """By how much at most any term occurs in a document."""
        return np.full(len(terms), self.marker.limits.value)


class Asked:
    """One query. Qdrant scores in single precision and lists no document whose sum is zero."""

    unlisted = 0.0

    def __init__(self, view: QdrantView, query: ExpandedQueries) -> None:
        self._view, marker = view, view.marker
        self._exact = ExactScores(view.scorer, query)
        latent = np.concatenate([np.empty(0), *(each[0] for each in query.latent)])
        terms = np.concatenate([self._exact.terms, marker.n_terms + np.arange(latent.size)])
        weights = np.concatenate([self._exact.totals, latent])
        length = float(np.linalg.norm(weights))
        if not (length * marker.limits.length < _LARGEST and length < _LARGEST):
            raise InputError(f"the query has weights of {length:.3g}, too much for the single precision of Qdrant")
        with np.errstate(under="ignore"):
            values = weights.astype(np.float32)
        self.query: Query = terms[values != 0].astype(np.int64), values[values != 0]
        self.listed: tuple[int, list[Stored]] = (0, [])  # the last answer of `by_bound`, and for which n
        # All dimensions that make a document count, which even weights that cancel each other do.
        self._counting = np.array([marker.always]) if latent.size else self._exact.terms.astype(np.int64)
        # Each product is of two rounded numbers, and each addition rounds, in whatever order.
        n = min(terms.size, marker.limits.dimensions) + 4
        longest = marker.limits.length
        self.error = 1.01 * n * (_SINGLE * length * longest + _SMALLEST_SINGLE * (length + longest + 1))

    def by_bound(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        if self.listed[0] != n:
            ask_together(self._view.engine, [self], n)
        found = self.listed[1]
        self._view._check_own([each.row for each in found])
        self._view.memory.add(found, self._view.marker.n_terms)
        return np.array([each.row for each in found], dtype=np.int64), np.array([each.score for each in found])

    def counting(self) -> NDArray[np.int64]:
        if not self._counting.size:
            return np.empty(0, dtype=np.int64)
        ones = np.ones(self._counting.size, dtype=np.float32)
        n = _AT_ONCE
        while (found := self._view.engine.nearest_rows((self._counting, ones), n)).size >= n:
            n *= 2
        self._view._check_own(found.tolist())
        return found

    def scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._exact(self._view._matrix(rows.tolist()))


def ask_together(engine: Engine, some: Sequence[Asked], n: int) -> None:
    """Have the n documents of largest bound of each query listed, by one request for all."""
    weighted = [each for each in some if each.query[0].size]
    answers = iter(engine.nearest([each.query for each in weighted], n) if weighted else [])
    for each in some:
        each.listed = (n, next(answers) if each.query[0].size else [])
