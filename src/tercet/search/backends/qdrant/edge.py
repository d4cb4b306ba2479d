"""Qdrant's own engine in this process, qdrant-edge-py: the collection NAME of ``edge:PATH`` is a shard in PATH/NAME."""

from __future__ import annotations

import json
import shutil
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tercet.errors import EngineError, MissingExtraError
from tercet.search.backends.qdrant.engine import (
    DOC_ID,
    EDGE,
    MISSING,
    TEXT,
    VECTOR,
    Point,
    Query,
    Stored,
    config_problem,
    stored,
)
from tercet.search.backends.qdrant.retrying import Patience

_CONFIG = "edge_config.json"
_TOLD = {
    "WouldBlock": "another process has it open",
    "Shard is not initialized": "it was removed since; open the index again if it was built anew",  # and closed by us
}


class Shard:
    """A shard that is open. A process may open each only once, so all who use it share it."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened


_open_shards: weakref.WeakValueDictionary[str, Shard] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def _library() -> Any:
    try:
        import qdrant_edge
    except ModuleNotFoundError as error:
        raise MissingExtraError("qdrant-edge-py", "qdrant", "a url that begins with edge:") from error
    return qdrant_edge


class EdgeEngine:
    """A collection in a folder; one process at a time has it."""

    def __init__(self, url: str, collection: str) -> None:
        self.url, self.collection = url, collection
        self.path = Path(url.removeprefix(EDGE)) / collection
        self._qe = _library()
        self._held: Shard | None = None

    def patient(self, patience: Patience) -> Self:
        return self  # nothing passes by waiting

    @property
    def _where(self) -> str:
        return f"{self.url}, collection {self.collection!r}"

    @property
    def _shard(self) -> Any:
        if self._held is None:
            with _opening, self._errors():
                name = str(self.path.resolve())
                found = _open_shards.get(name)
                if found is None:
                    found = _open_shards[name] = Shard(self._qe.EdgeShard.load(str(self.path)))
            self._held = found
        return self._held.opened

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Its errors are plain exceptions with a sentence."""
        try:
            yield
        except (EngineError, OSError):
            raise
        except Exception as error:
            told = next((told for said, told in _TOLD.items() if said in str(error)), error)
            raise EngineError(f"{self._where}: {told}") from error

    # -- the collection -----------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        if not self.path.exists():
            return MISSING
        if not (self.path / _CONFIG).is_file():
            return "is a folder with something else in it"
        with self._errors():
            config = json.loads((self.path / _CONFIG).read_text(encoding="utf-8"))
        return config_problem(config.get("vectors"), config.get("sparse_vectors"))

    def create(self) -> None:
        self.path.mkdir(parents=True)
        config = self._qe.EdgeConfig(sparse_vectors={VECTOR: self._qe.EdgeSparseVectorParams()})
        with _opening, self._errors():
            made = self._qe.EdgeShard.create(str(self.path), config)
            self._held = _open_shards[str(self.path.resolve())] = Shard(made)

    def index_ids(self) -> None:
        with self._errors():
            self._shard.update(self._qe.UpdateOperation.create_field_index(DOC_ID, self._qe.PayloadSchemaType.Keyword))

    def drop(self) -> None:
        with _opening, self._errors():
            held = _open_shards.pop(str(self.path.resolve()), None)
            if held is not None:
                held.opened.close()
            self._held = None
            shutil.rmtree(self.path)

    # -- points -------------------------------------------------------------------------------------------------

    def put(self, points: Sequence[Point]) -> None:
        qe = self._qe
        made = [
            qe.Point(
                point.row,
                {VECTOR: qe.SparseVector(point.terms.tolist(), point.values.tolist())} if point.terms.size else {},
                dict(point.payload),
            )
            for point in points
        ]
        with self._errors():
            self._shard.update(qe.UpdateOperation.upsert_points(made))

    def delete(self, rows: Sequence[int]) -> None:
        with self._errors():
            self._shard.update(self._qe.UpdateOperation.delete_points(list(rows)))

    def payload(self, row: int) -> Mapping[str, Any] | None:
        with self._errors():
            found = self._shard.retrieve([row], True, False)
        return (found[0].payload or {}) if found else None

    def nearest(self, queries: Sequence[Query], n: int) -> list[list[Stored]]:
        found = (self._query(query, n, [DOC_ID], [VECTOR]) for query in queries)
        return [[stored(p.id, p.payload, p.vector, p.score) for p in each] for each in found]

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        return np.array([p.id for p in self._query(query, n, False, False)], dtype=np.int64)

    def _query(self, query: Query, n: int, payload: Any, vector: Any) -> list[Any]:
        qe = self._qe
        terms, values = query
        asked = qe.Query.Nearest(qe.SparseVector(terms.tolist(), values.tolist()), using=VECTOR)
        with self._errors():
            request = qe.QueryRequest(limit=n, query=asked, with_payload=payload, with_vector=vector)
            return list(self._shard.query(request))

    def fetch(self, rows: Sequence[int]) -> list[Stored]:
        with self._errors():
            found = self._shard.retrieve(list(rows), [DOC_ID], [VECTOR])
        return [stored(p.id, p.payload, p.vector) for p in found]

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        with self._errors():
            found = self._shard.retrieve(list(rows), [TEXT], False)
        return {p.id: p.payload[TEXT] for p in found if TEXT in (p.payload or {})}

    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        qe = self._qe
        among = qe.Filter(must=[qe.FieldCondition(DOC_ID, match=qe.MatchAny(list(doc_ids)))])
        found: list[tuple[int, str]] = []
        offset = None
        while True:
            with self._errors():
                request = qe.ScrollRequest(offset=offset, limit=1024, filter=among, with_payload=[DOC_ID])
                page, offset = self._shard.scroll(request)
            found += [(p.id, p.payload[DOC_ID]) for p in page]
            if offset is None:
                return found

    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        with self._errors():
            request = self._qe.ScrollRequest(offset=row, limit=n, with_payload=[DOC_ID])
            page, _ = self._shard.scroll(request)
        return [(p.id, p.payload[DOC_ID]) for p in page]

    def count(self) -> int:
        with self._errors():
            return int(self._shard.count(self._qe.CountRequest(exact=True)))
