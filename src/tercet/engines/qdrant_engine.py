"""A collection of a Qdrant server, through qdrant-client; a request that fails in passing is retried."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from tercet.engines.credentials import Credential
from tercet.engines.engine import (
    DOC_ID,
    MISSING,
    PAGE,
    STORED_FIELDS,
    TEXT,
    Engine,
    Passing,
    Patience,
    Point,
    Query,
    StoredPoint,
    Terms,
    Values,
    retried,
)
from tercet.errors import EngineError

T = TypeVar("T")

# 1.10 has the query API; signed weights are searched without pruning since there are sparse vectors, 1.7.
OLDEST, BEFORE = (1, 10), (2, 0)
_TIMEOUT_SECONDS: Final = 60
_PASSING_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
VECTOR: Final = "words"  # the name of the one sparse vector of a document


class QdrantEngine(Engine):
    """A collection of a server. Threads may share it."""

    name = "Qdrant"

    def __init__(self, url: str, collection: str, patience: Patience, key: Credential) -> None:
        super().__init__(url, collection, patience)
        self._lack = key.lack
        # The version is looked at by `check_version`, with an error instead of a warning from a thread.
        self._client = QdrantClient(url=url, api_key=key.secret, timeout=_TIMEOUT_SECONDS, check_compatibility=False)

    def check_version(self) -> None:
        version = str(self._ask("asking for its version", self._client.info).version)
        try:
            major, minor = (int(number) for number in version.split(".")[:2])
        except ValueError as error:
            raise EngineError(f"{self.url} says that its version is {version!r}; is it a Qdrant server?") from error
        if not OLDEST <= (major, minor) < BEFORE:
            raise EngineError(
                f"{self.url} is Qdrant {version}; supported are {OLDEST[0]}.{OLDEST[1]} and later, before {BEFORE[0]}.0"
            )

    def _ask(
        self, purpose: str, call: Callable[..., T], *args: Any, allowed: Collection[int] = (), **options: Any
    ) -> T:
        """Call the client, again where that may help. A refusal is an error, unless its status is ``allowed``."""

        def once() -> T:
            try:
                return call(*args, **options)
            except ResourceExhaustedResponse as error:
                raise Passing(str(error), float(error.retry_after_s)) from error
            except QdrantException as error:
                raise Passing(str(error)) from error
            except UnexpectedResponse as error:
                if error.status_code in _PASSING_STATUSES:
                    raise Passing(f"status {error.status_code}: {_reason(error.content)}") from error
                raise
            except ResponseHandlingException as error:
                if isinstance(error.source, httpx.TransportError | OSError):
                    raise Passing(f"{type(error.source).__name__}: {error.source}") from error
                raise EngineError(f"{self.url}: {purpose}: the answer cannot be understood: {error.source}") from error

        try:
            return retried(once, purpose, self.url, self._patience)
        except UnexpectedResponse as error:
            if error.status_code in allowed:
                raise
            hint = self._lack if error.status_code in (401, 403) else ""
            reason = f"status {error.status_code}: {_reason(error.content)}{hint}"
            raise EngineError(f"{self.where}: {purpose}: {reason}") from error

    # -- the collection -----------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        try:
            info = self._ask("looking at the collection", self._client.get_collection, self.collection, allowed={404})
        except UnexpectedResponse:
            return MISSING
        params = info.config.params.model_dump(mode="json")
        return _config_problem(params.get("vectors"), params.get("sparse_vectors"))

    def create(self) -> None:
        attempts = 0

        def make() -> None:
            nonlocal attempts
            attempts += 1
            try:
                self._client.create_collection(
                    self.collection,
                    vectors_config={},
                    sparse_vectors_config={VECTOR: models.SparseVectorParams()},
                )
            except UnexpectedResponse as error:
                # An attempt whose answer was lost may have made it.
                if error.status_code != 409 or attempts == 1:
                    raise

        self._ask("creating the collection", make)

    def index_ids(self) -> None:
        schema = models.PayloadSchemaType.KEYWORD
        self._ask("indexing the ids", self._client.create_payload_index, self.collection, DOC_ID, schema, wait=True)

    def drop(self) -> None:
        self._ask("removing the collection", self._client.delete_collection, self.collection)

    # -- points -------------------------------------------------------------------------------------------------

    def put(self, points: Sequence[Point]) -> None:
        made = [
            models.PointStruct(
                id=point.row,
                vector={VECTOR: models.SparseVector(indices=point.terms.tolist(), values=point.values.tolist())}
                if point.terms.size
                else {},
                payload=dict(point.payload),
            )
            for point in points
        ]
        self._ask(f"writing {len(made)} points", self._client.upsert, self.collection, made, wait=True)

    def delete(self, rows: Sequence[int]) -> None:
        selected = models.PointIdsList(points=list(rows))
        self._ask(f"removing {len(rows)} points", self._client.delete, self.collection, selected, wait=True)

    def count(self) -> int:
        return int(self._ask("counting", self._client.count, self.collection, exact=True).count)

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
        points = self._retrieve("reading texts", rows, [TEXT, STORED_FIELDS])
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

    def _retrieve(self, purpose: str, rows: Sequence[int], payload: Any, vector: Any = False) -> Sequence[Any]:
        retrieve = self._client.retrieve
        points: Sequence[Any] = self._ask(
            purpose, retrieve, self.collection, list(rows), with_payload=payload, with_vectors=vector
        )
        return points

    def _query(self, queries: Sequence[Query], n: int, payload: Any, vector: Any) -> Sequence[Sequence[Any]]:
        # Without exact, several shards are asked for as many documents as chance says will do: some may be missing.
        common: dict[str, Any] = {"using": VECTOR, "limit": n, "params": models.SearchParams(exact=True)}
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=terms.tolist(), values=values.tolist()),
                with_payload=payload,
                with_vector=vector,
                **common,
            )
            for terms, values in queries
        ]
        answers = self._ask("searching", self._client.query_batch_points, self.collection, requests)
        return [answer.points for answer in answers]

    def _scroll(self, purpose: str, offset: Any, limit: int, doc_ids: Collection[str] | None) -> tuple[Any, Any]:
        only = None
        if doc_ids is not None:
            match = models.MatchAny(any=list(doc_ids))
            only = models.Filter(must=[models.FieldCondition(key=DOC_ID, match=match)])
        options = {"scroll_filter": only, "limit": limit, "offset": offset, "with_payload": [DOC_ID]}
        page, following = self._ask(purpose, self._client.scroll, self.collection, **options)
        return page, following


def _reason(content: bytes) -> str:
    """What a server says of a refusal: Qdrant's own sentence, or the beginning of whatever came."""
    try:
        return str(json.loads(content)["status"]["error"])
    except (ValueError, TypeError, KeyError):
        return content[:200].decode("utf-8", "replace").strip() or "no reason given"


def _stored(point: Any, score: float = 0.0) -> StoredPoint:
    doc_id = str((point.payload or {}).get(DOC_ID, ""))
    return StoredPoint(int(point.id), doc_id, float(score), partial(_vector, (point.vector or {}).get(VECTOR)))


def _vector(vector: Any) -> tuple[Terms, Values]:
    terms = np.array([] if vector is None else vector.indices, dtype=np.int64)
    return terms, np.array([] if vector is None else vector.values, dtype=np.float32)


def _numbered(page: Sequence[Any]) -> list[tuple[int, str]]:
    return [(int(point.id), point.payload[DOC_ID]) for point in page]


def _config_problem(dense: Any, sparse: Any) -> str | None:
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
