"""Qdrant's own engine in this process, qdrant-edge-py: the collection NAME of ``edge:PATH`` is a shard in PATH/NAME."""

from __future__ import annotations

import json
import shutil
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import qdrant_edge as qe

from tercet.errors import EngineError
from tercet.search.backends.engine import DOC_ID, MISSING, Patience, Point, Query
from tercet.search.backends.qdrant.qdrant_engine import VECTOR, QdrantEngine, config_problem

_CONFIG = "edge_config.json"
_EXPLAINED = {  # a part of what the library says, and what to say instead
    "WouldBlock": "another process has it open",
    "Shard is not initialized": "it was removed since; open the index again if it was built anew",  # and closed by us
}


class QdrantShard:
    """A shard that is open. A process may open each only once, so all who use it share it."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened


_open_shards: weakref.WeakValueDictionary[str, QdrantShard] = weakref.WeakValueDictionary()
_opening = threading.Lock()


class EdgeEngine(QdrantEngine):
    """A collection in a folder; one process at a time has it."""

    def __init__(self, url: str, path: Path) -> None:
        self.url, self.collection, self.path = url, path.name, path
        self._shared: QdrantShard | None = None

    def patient(self, patience: Patience) -> Self:
        return self  # nothing passes by waiting

    @property
    def _shard(self) -> Any:
        if self._shared is None:
            with _opening, self._errors():
                name = str(self.path.resolve())
                shard = _open_shards.get(name)
                if shard is None:
                    shard = _open_shards[name] = QdrantShard(qe.EdgeShard.load(str(self.path)))
            self._shared = shard
        return self._shared.opened

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Its errors are plain exceptions with a sentence."""
        try:
            yield
        except (EngineError, OSError):
            raise
        except Exception as error:
            reason = next((reason for words, reason in _EXPLAINED.items() if words in str(error)), error)
            raise EngineError(f"{self.where}: {reason}") from error

    # -- the collection -----------------------------------------------------------------------------------------

    def check_version(self) -> None:
        pass  # it is the one that is installed

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
        config = qe.EdgeConfig(sparse_vectors={VECTOR: qe.EdgeSparseVectorParams()})
        with _opening, self._errors():
            shard = QdrantShard(qe.EdgeShard.create(str(self.path), config))
            self._shared = _open_shards[str(self.path.resolve())] = shard

    def index_ids(self) -> None:
        with self._errors():
            self._shard.update(qe.UpdateOperation.create_field_index(DOC_ID, qe.PayloadSchemaType.Keyword))

    def drop(self) -> None:
        with _opening, self._errors():
            shard = _open_shards.pop(str(self.path.resolve()), None)
            if shard is not None:
                shard.opened.close()
            self._shared = None
            shutil.rmtree(self.path)

    # -- points -------------------------------------------------------------------------------------------------

    def put(self, points: Sequence[Point]) -> None:
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
            self._shard.update(qe.UpdateOperation.delete_points(list(rows)))

    def count(self) -> int:
        with self._errors():
            return int(self._shard.count(qe.CountRequest(exact=True)))

    def _retrieve(self, purpose: str, rows: Sequence[int], payload: Any, vector: Any = False) -> Sequence[Any]:
        with self._errors():
            return list(self._shard.retrieve(list(rows), payload, vector))

    def _query(self, queries: Sequence[Query], n: int, payload: Any, vector: Any) -> Sequence[Sequence[Any]]:
        answers = []
        for terms, values in queries:
            nearest = qe.Query.Nearest(qe.SparseVector(terms.tolist(), values.tolist()), using=VECTOR)
            with self._errors():
                request = qe.QueryRequest(limit=n, query=nearest, with_payload=payload, with_vector=vector)
                answers.append(list(self._shard.query(request)))
        return answers

    def _scroll(self, purpose: str, offset: Any, limit: int, doc_ids: Collection[str] | None) -> tuple[Any, Any]:
        only = None
        if doc_ids is not None:
            only = qe.Filter(must=[qe.FieldCondition(DOC_ID, match=qe.MatchAny(list(doc_ids)))])
        with self._errors():
            request = qe.ScrollRequest(offset=offset, limit=limit, filter=only, with_payload=[DOC_ID])
            page, following = self._shard.scroll(request)
        return page, following
