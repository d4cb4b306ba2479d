"""What Qdrant's server and its engine in this process have in common: how points are had."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet.search.backends.engine import CARRIED, DOC_ID, PAGE, TEXT, Engine, Query, StoredPoint, Terms, Values

VECTOR: Final = "words"  # the name of the one sparse vector of a document


class QdrantEngine(Engine):
    """A collection, whose points either library gives alike."""

    name = "Qdrant"

    @abstractmethod
    def _retrieve(self, purpose: str, rows: Sequence[int], payload: Any, vector: Any = False) -> Sequence[Any]:
        """Points by number, those that are not there left out; ``purpose`` is what an error says was being done."""

    @abstractmethod
    def _query(self, queries: Sequence[Query], n: int, payload: Any, vector: Any) -> Sequence[Sequence[Any]]:
        """For each query the n points with the largest inner products; see `nearest`."""

    @abstractmethod
    def _scroll(self, purpose: str, offset: Any, limit: int, doc_ids: Collection[str] | None) -> tuple[Any, Any]:
        """A page of points in the order of their numbers, with those ids only, and the offset of the next page."""

    def payload(self, row: int) -> Mapping[str, Any] | None:
        points = self._retrieve("reading a point", [row], True)
        return (points[0].payload or {}) if points else None

    def nearest(self, queries: Sequence[Query], n: int) -> list[list[StoredPoint]]:
        answers = self._query(queries, n, [DOC_ID], [VECTOR])
        return [[_stored(point, point.score) for point in points] for points in answers]

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        [points] = self._query([query], n, False, False)
        return np.array([point.id for point in points], dtype=np.int64)

    def fetch(self, rows: Sequence[int]) -> list[StoredPoint]:
        return [_stored(point) for point in self._retrieve("reading documents", rows, [DOC_ID], [VECTOR])]

    def contents(self, rows: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        points = self._retrieve("reading texts", rows, [TEXT, CARRIED])
        return {int(point.id): point.payload or {} for point in points}

    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        numbered: list[tuple[int, str]] = []
        offset: Any = None
        while True:
            page, offset = self._scroll("looking for ids", offset, PAGE, doc_ids)
            numbered += _numbered(page)
            if offset is None:
                return numbered

    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        page, _ = self._scroll("listing ids", row, n, None)
        return _numbered(page)


def _stored(point: Any, score: float = 0.0) -> StoredPoint:
    doc_id = str((point.payload or {}).get(DOC_ID, ""))
    return StoredPoint(int(point.id), doc_id, float(score), partial(_vector, (point.vector or {}).get(VECTOR)))


def _vector(vector: Any) -> tuple[Terms, Values]:
    terms = np.array([] if vector is None else vector.indices, dtype=np.int64)
    return terms, np.array([] if vector is None else vector.values, dtype=np.float32)


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
