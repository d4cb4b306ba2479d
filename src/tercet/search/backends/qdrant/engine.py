"""What an index asks of Qdrant: one collection of points, each a document with a sparse vector, or the marker.

`server` and `edge` say how the client of a server and the engine in this process retrieve, query and scroll points;
what becomes of the points is the same for both, and here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

VECTOR: Final = "words"  # the name of the one sparse vector of a document
DOC_ID, TEXT, CARRIED = "doc_id", "text", "carried"  # the payload of a document; what it carries is JSON
MISSING: Final = "is not there"
PAGE: Final = 1024  # points that are read, listed or removed by one request

Terms = NDArray[np.int64]
Values = NDArray[np.float32]
Query = tuple[Terms, Values]


@dataclass(frozen=True)
class Patience:
    """How often something is tried, and the seconds in between: ``first``, twice that, and so on up to ``most``."""

    attempts: int
    first: float
    most: float


READING: Final = Patience(3, 0.1, 1.0)  # somebody waits for an answer
WRITING: Final = Patience(10, 0.5, 20.0)  # a long upload sits out the restart of a server


@dataclass(frozen=True, eq=False)
class QdrantPoint:
    """A document on its way in, or the marker: a number, a sparse vector (empty for none) and its payload."""

    row: int
    terms: Terms
    values: Values
    payload: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StoredPoint:
    """A document as it comes back. ``score`` is 0 where it was not searched for."""

    row: int
    doc_id: str
    score: float
    _vector: Any  # as either library gives it; most documents of a search are remembered, so few are converted

    @classmethod
    def of(cls, point: Any, score: float = 0.0) -> Self:
        """From the point that either library gives."""
        doc_id = str((point.payload or {}).get(DOC_ID, ""))
        return cls(int(point.id), doc_id, float(score), (point.vector or {}).get(VECTOR))

    def vector(self) -> tuple[Terms, Values]:
        """Its dimensions in ascending order, and their values."""
        vector = self._vector
        terms = np.array([] if vector is None else vector.indices, dtype=np.int64)
        values = np.array([] if vector is None else vector.values, dtype=np.float32)
        if (terms[1:] > terms[:-1]).all():
            return terms, values
        order = np.argsort(terms)
        return terms[order], values[order]


class Engine(ABC):
    """One collection. Every method may raise `EngineError`, after trying again where that may help."""

    url: str
    collection: str

    @property
    def where(self) -> str:
        """The collection, as errors name it."""
        return f"{self.url}, collection {self.collection!r}"

    @abstractmethod
    def patient(self, patience: Patience) -> Self:
        """The same collection, for somebody with more or less time."""

    # -- the collection -----------------------------------------------------------------------------------------

    @abstractmethod
    def problem(self) -> str | None:
        """Why this collection cannot be one of ours, by its configuration; `MISSING` where there is none."""

    @abstractmethod
    def create(self) -> None: ...

    @abstractmethod
    def index_ids(self) -> None:
        """Index the payload field of ids, so that no search by id scans all documents; may be asked for again."""

    @abstractmethod
    def drop(self) -> None: ...

    # -- points, as either library takes and gives them ---------------------------------------------------------

    @abstractmethod
    def put(self, points: Sequence[QdrantPoint]) -> None:
        """Write points, also over others of the same number."""

    @abstractmethod
    def delete(self, rows: Sequence[int]) -> None: ...

    @abstractmethod
    def count(self) -> int:
        """How many points there are."""

    @abstractmethod
    def _retrieve(self, purpose: str, rows: Sequence[int], payload: Any, vector: Any = False) -> Sequence[Any]:
        """Points by number, those that are not there left out; ``purpose`` is what an error says was being done."""

    @abstractmethod
    def _query(self, queries: Sequence[Query], n: int, payload: Any, vector: Any) -> Sequence[Sequence[Any]]:
        """For each query the n points with the largest inner products; see `nearest`."""

    @abstractmethod
    def _scroll(self, purpose: str, offset: Any, limit: int, doc_ids: Collection[str] | None) -> tuple[Any, Any]:
        """A page of points in the order of their numbers, with those ids only, and the offset of the next page."""

    # -- what an index asks of points ---------------------------------------------------------------------------

    def payload(self, row: int) -> Mapping[str, Any] | None:
        """The payload of one point; None where it is not there."""
        points = self._retrieve("reading a point", [row], True)
        return (points[0].payload or {}) if points else None

    def nearest(self, queries: Sequence[Query], n: int) -> list[list[StoredPoint]]:
        """For each query the n documents with the largest inner products, largest first, in single precision.

        Those whose inner product is zero are left out.
        """
        answers = self._query(queries, n, [DOC_ID], [VECTOR])
        return [[StoredPoint.of(point, point.score) for point in points] for points in answers]

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        """The same for one query, numbers only."""
        [points] = self._query([query], n, False, False)
        return np.array([point.id for point in points], dtype=np.int64)

    def fetch(self, rows: Sequence[int]) -> list[StoredPoint]:
        """Documents by number, in any order; those that are not there are left out."""
        return [StoredPoint.of(point) for point in self._retrieve("reading documents", rows, [DOC_ID], [VECTOR])]

    def contents(self, rows: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """The texts of documents and what they carry, by number, each where it is kept."""
        points = self._retrieve("reading texts", rows, [TEXT, CARRIED])
        return {int(point.id): point.payload or {} for point in points}

    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        """Numbers and ids of the documents with some ids."""
        numbered: list[tuple[int, str]] = []
        offset: Any = None
        while True:
            page, offset = self._scroll("looking for ids", offset, PAGE, doc_ids)
            numbered += _numbered(page)
            if offset is None:
                return numbered

    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        """Numbers and ids of the first n documents from a number on."""
        page, _ = self._scroll("listing ids", row, n, None)
        return _numbered(page)


def _numbered(page: Sequence[Any]) -> list[tuple[int, str]]:
    return [(int(point.id), point.payload[DOC_ID]) for point in page]


def config_problem(dense: Any, sparse: Any) -> str | None:
    """Why vectors of this configuration are not ours."""
    if dense:
        return f"has dense vectors ({', '.join(map(repr, dense)) if isinstance(dense, Mapping) else 'one'})"
    names = sorted(sparse or {})
    if names != [VECTOR]:
        return f"has the sparse vectors {names}; ours have {[VECTOR]}"
    config = sparse[VECTOR] or {}
    datatype = (config.get("index") or {}).get("datatype") or config.get("datatype")
    if config.get("modifier") not in (None, "none") or datatype not in (None, "float32"):
        return f"changes values: modifier {config.get('modifier')!r}, datatype {datatype!r}"
    return None
