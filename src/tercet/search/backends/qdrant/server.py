"""A Qdrant server, through qdrant-client."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet.errors import EngineError, MissingExtraError
from tercet.search.backends.qdrant.engine import (
    DOC_ID,
    MISSING,
    TEXT,
    VECTOR,
    Point,
    Query,
    Stored,
    config_problem,
    stored,
)
from tercet.search.backends.qdrant.retrying import Passing, Patience, retried

T = TypeVar("T")

# 1.10 has the query API; signed weights are searched without pruning since there are sparse vectors, 1.7.
OLDEST, BEFORE = (1, 10), (2, 0)
_TIMEOUT_SECONDS: Final = 60
_PASSING_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
_AT_ONCE: Final = 1024

_log = logging.getLogger(__name__)


class ServerEngine:
    """A collection of a server. Threads may share it."""

    def __init__(self, client: Any, url: str, collection: str, patience: Patience) -> None:
        self.url, self.collection = url, collection
        self._client, self._patience = client, patience

    @classmethod
    def connect(cls, url: str, collection: str, api_key: str | None, patience: Patience) -> Self:
        """Reach a server and see that its version is one that we support."""
        try:
            from qdrant_client import QdrantClient
        except ModuleNotFoundError as error:
            raise MissingExtraError("qdrant-client", "qdrant", "an index on Qdrant") from error
        # The version is looked at below, with an error instead of a warning from a thread.
        client = QdrantClient(url=url, api_key=api_key, timeout=_TIMEOUT_SECONDS, check_compatibility=False)
        made = cls(client, url, collection, patience)
        made._check_version()
        return made

    def patient(self, patience: Patience) -> Self:
        found = copy(self)
        found._patience = patience
        return found

    def _check_version(self) -> None:
        from qdrant_client.http.exceptions import UnexpectedResponse

        what = "asking for its version"
        try:
            found = str(self._ask(what, self._client.info).version)
        except UnexpectedResponse as error:
            raise self._refused(what, error) from error
        try:
            major, minor = (int(each) for each in found.split(".")[:2])
        except ValueError as error:
            raise EngineError(f"{self.url} says that its version is {found!r}; is it a Qdrant server?") from error
        if not OLDEST <= (major, minor) < BEFORE:
            raise EngineError(
                f"{self.url} is Qdrant {found}; supported are {OLDEST[0]}.{OLDEST[1]} and later, before {BEFORE[0]}.0"
            )

    def _ask(self, what: str, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call the client; what a network or a busy server spoils is tried again."""
        import httpx
        from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

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
                raise EngineError(f"{self.url}: {what}: the answer cannot be understood: {error.source}") from error

        return retried(once, what, self.url, self._patience)

    def _of(self, what: str, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """`_ask` where any refusal is an error."""
        from qdrant_client.http.exceptions import UnexpectedResponse

        try:
            return self._ask(what, call, self.collection, *args, **options)
        except UnexpectedResponse as error:
            raise self._refused(what, error) from error

    def _refused(self, what: str, error: Any) -> EngineError:
        hint = "; set QDRANT_API_KEY" if error.status_code in (401, 403) else ""
        said = f"status {error.status_code}: {_reason(error.content)}{hint}"
        return EngineError(f"{self.url}, collection {self.collection!r}: {what}: {said}")

    # -- the collection -----------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        from qdrant_client.http.exceptions import UnexpectedResponse

        what = "looking at the collection"
        try:
            found = self._ask(what, self._client.get_collection, self.collection)
        except UnexpectedResponse as error:
            if error.status_code == 404:
                return MISSING
            raise self._refused(what, error) from error
        params = found.config.params.model_dump(mode="json")
        return config_problem(params.get("vectors"), params.get("sparse_vectors"))

    def create(self) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        what = "creating the collection"
        asked = 0

        def make() -> None:
            nonlocal asked
            asked += 1
            try:
                self._client.create_collection(
                    self.collection,
                    vectors_config={},
                    sparse_vectors_config={VECTOR: models.SparseVectorParams()},
                )
            except UnexpectedResponse as error:
                # An attempt whose answer was lost may have made it.
                if error.status_code != 409 or asked == 1:
                    raise

        try:
            self._ask(what, make)
        except UnexpectedResponse as error:
            raise self._refused(what, error) from error

    def index_ids(self) -> None:
        from qdrant_client import models

        schema = models.PayloadSchemaType.KEYWORD
        self._of("indexing the ids", self._client.create_payload_index, DOC_ID, schema, wait=True)

    def drop(self) -> None:
        self._of("removing the collection", self._client.delete_collection)

    # -- points -------------------------------------------------------------------------------------------------

    def put(self, points: Sequence[Point]) -> None:
        from qdrant_client import models

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
        self._of(f"writing {len(made)} points", self._client.upsert, made, wait=True)

    def delete(self, rows: Sequence[int]) -> None:
        from qdrant_client import models

        selected = models.PointIdsList(points=list(rows))
        self._of(f"removing {len(rows)} points", self._client.delete, selected, wait=True)

    def payload(self, row: int) -> Mapping[str, Any] | None:
        found = self._of("reading a point", self._client.retrieve, [row], with_payload=True)
        return (found[0].payload or {}) if found else None

    def nearest(self, queries: Sequence[Query], n: int) -> list[list[Stored]]:
        found = self._query(queries, n, [DOC_ID], [VECTOR])
        return [[stored(p.id, p.payload, p.vector, p.score) for p in each] for each in found]

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        [found] = self._query([query], n, False, False)
        return np.array([p.id for p in found], dtype=np.int64)

    def _query(self, queries: Sequence[Query], n: int, payload: Any, vector: Any) -> list[list[Any]]:
        from qdrant_client import models

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
        return [list(each.points) for each in self._of("searching", self._client.query_batch_points, requests)]

    def fetch(self, rows: Sequence[int]) -> list[Stored]:
        found = self._of(
            "reading documents", self._client.retrieve, list(rows), with_payload=[DOC_ID], with_vectors=[VECTOR]
        )
        return [stored(p.id, p.payload, p.vector) for p in found]

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        found = self._of("reading texts", self._client.retrieve, list(rows), with_payload=[TEXT])
        return {int(p.id): p.payload[TEXT] for p in found if TEXT in (p.payload or {})}

    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        from qdrant_client import models

        among = models.Filter(must=[models.FieldCondition(key=DOC_ID, match=models.MatchAny(any=list(doc_ids)))])
        found: list[tuple[int, str]] = []
        offset: Any = None
        while True:
            page, offset = self._of(
                "looking for ids",
                self._client.scroll,
                scroll_filter=among,
                limit=_AT_ONCE,
                offset=offset,
                with_payload=[DOC_ID],
            )
            found += [(int(p.id), p.payload[DOC_ID]) for p in page]
            if offset is None:
                return found

    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        page, _ = self._of("listing ids", self._client.scroll, limit=n, offset=row, with_payload=[DOC_ID])
        return [(int(p.id), p.payload[DOC_ID]) for p in page]

    def count(self) -> int:
        return int(self._of("counting", self._client.count, exact=True).count)


def _reason(content: bytes) -> str:
    """What a server says of a refusal: Qdrant's own sentence, or the beginning of whatever came."""
    try:
        return str(json.loads(content)["status"]["error"])
    except (ValueError, TypeError, KeyError):
        return content[:200].decode("utf-8", "replace").strip() or "no reason given"
