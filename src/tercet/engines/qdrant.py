"""An index in a collection of a Qdrant server, through qdrant-client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tercet.engines.credentials import Credential, http_credential, http_url, require_client
from tercet.engines.engine import PAGE, CandidateQuery, Engine, EngineDocument, ListedDocument, Passing, keys_of
from tercet.engines.engine_index import EngineIndex
from tercet.errors import EngineError
from tercet.fitting.text_model import TextModel
from tercet.store.kinds import QDRANT_INDEX

API_KEY: Final = "QDRANT_API_KEY"
OLDEST, BEFORE = (1, 10), (2, 0)  # 1.10 has the query API
VECTOR: Final = "words"  # the sparse vector of a document
_TIMEOUT_SECONDS: Final = 60
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_MARKER: Final = "00000000-0000-0000-0000-000000000000"  # the point that names the owner of the collection
_POSITION: Final = ("doc_id", "position")


class QdrantIndex(EngineIndex):
    """Documents in a collection of Qdrant, see `EngineIndex`; the key of a server is in the variable QDRANT_API_KEY.

    Examples
    --------
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> index = QdrantIndex.build(docs, None, "index/", url="http://localhost:6333")  # doctest: +SKIP
    >>> [hit.doc_id for hit in index.search("green avocados")]  # doctest: +SKIP
    ['a', 'b']
    """

    kind = QDRANT_INDEX

    @classmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        require_client("qdrant_client", "qdrant-client", "qdrant")
        url = cls.kept_url(url)
        return QdrantEngine(url, collection, http_credential([url], secret, API_KEY, is_named=is_named))

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return http_url(url, 6333, API_KEY)


class QdrantEngine(Engine):
    """A collection of a server."""

    name = "Qdrant"

    def __init__(self, url: str, collection: str, key: Credential) -> None:
        from qdrant_client import QdrantClient

        super().__init__(url, collection)
        self._lack = key.lack
        # `check_version` looks at the version, with an error instead of a warning from a thread.
        self._client = QdrantClient(url=url, api_key=key.secret, timeout=_TIMEOUT_SECONDS, check_compatibility=False)

    def _problem(self, purpose: str, error: Exception) -> Exception | None:
        import httpx
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        if isinstance(error, QdrantException):  # too many requests
            return Passing(str(error))
        if isinstance(error, UnexpectedResponse):
            reason = f"status {error.status_code}: {_reason(error.content)}"
            if error.status_code in _PASSING:
                return Passing(reason)
            hint = self._lack if error.status_code in (401, 403) else ""
            return EngineError(f"{self.where}: {purpose}: {reason}{hint}")
        if not isinstance(error, ResponseHandlingException):
            return None
        if isinstance(error.source, httpx.TransportError | OSError):
            return Passing(f"{type(error.source).__name__}: {error.source}")
        return EngineError(f"{self.url}: {purpose}: the answer cannot be understood: {error.source}")

    def check_version(self) -> None:
        version = str(self.ask("asking for its version", self._client.info).version)
        try:
            major, minor = (int(number) for number in version.split(".")[:2])
        except ValueError as error:
            raise EngineError(f"{self.url} says that its version is {version!r}; is it a Qdrant server?") from error
        if not OLDEST <= (major, minor) < BEFORE:
            raise EngineError(
                f"{self.url} is Qdrant {version}; supported are {OLDEST[0]}.{OLDEST[1]} and later, before {BEFORE[0]}.0"
            )

    # -- the collection -----------------------------------------------------------------------------------------

    def owner(self) -> str | None:
        if not self.ask("looking at the collection", self._client.collection_exists, self.collection):
            return None
        markers = self._retrieve("looking at the collection", [_MARKER], ["owner"])
        return str(markers[0].get("owner", "")) if markers else ""

    def create(self, owner: str, _model: TextModel) -> None:
        from qdrant_client import models

        present = self.owner()
        if present == owner:
            return
        purpose = "creating the collection"
        if present is None:
            vectors = {VECTOR: models.SparseVectorParams()}
            options: dict[str, Any] = {"vectors_config": {}, "sparse_vectors_config": vectors}
            self.ask(purpose, self._client.create_collection, self.collection, **options)
        marker = models.PointStruct(id=_MARKER, vector={}, payload={"owner": owner})
        self.ask(purpose, self._client.upsert, self.collection, [marker], wait=True)

    def drop(self) -> None:
        self.ask("removing the collection", self._client.delete_collection, self.collection)

    # -- documents ----------------------------------------------------------------------------------------------

    def put(self, documents: Sequence[EngineDocument]) -> None:
        from qdrant_client import models

        points = []
        keys = keys_of([document.doc_id for document in documents])
        for key, document in zip(keys, documents, strict=True):
            words = models.SparseVector(indices=document.terms.tolist(), values=document.values.tolist())
            vector: Any = {VECTOR: words} if document.terms.size else {}
            points.append(models.PointStruct(id=key, vector=vector, payload=document.payload))
        self.ask(f"writing {len(points)} documents", self._client.upsert, self.collection, points, wait=True)

    def delete(self, doc_ids: Sequence[str]) -> None:
        from qdrant_client import models

        chosen = models.PointIdsList(points=[*keys_of(doc_ids)])
        self.ask(f"removing {len(doc_ids)} documents", self._client.delete, self.collection, chosen, wait=True)

    def count(self) -> int:
        return int(self.ask("counting", self._client.count, self.collection, exact=True).count) - 1  # the marker

    def read(self, purpose: str, doc_ids: Sequence[str], names: Sequence[str]) -> list[Mapping[str, Any]]:
        return self._retrieve(purpose, keys_of(doc_ids), names)

    def ids(self) -> Iterator[str]:
        listed: list[tuple[int, str]] = []  # pages come by key
        offset: Any = None
        while True:
            options: dict[str, Any] = {"limit": PAGE, "offset": offset, "with_payload": [*_POSITION]}
            page, offset = self.ask("listing ids", self._client.scroll, self.collection, **options)
            payloads = (point.payload or {} for point in page if point.id != _MARKER)
            listed += [(payload["position"], payload["doc_id"]) for payload in payloads]
            if offset is None:
                return (doc_id for _, doc_id in sorted(listed))

    def candidates(self, queries: Sequence[CandidateQuery], n: int) -> list[list[ListedDocument]]:
        from qdrant_client import models

        # Without exact, several shards are asked for as many documents as chance says will do: some may be missing.
        common: dict[str, Any] = {"using": VECTOR, "limit": n, "params": models.SearchParams(exact=True)}
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=query.terms.tolist(), values=query.weights.tolist()),
                with_payload=[*_POSITION],
                **common,
            )
            for query in queries
        ]
        answers = self.ask("searching", self._client.query_batch_points, self.collection, requests)
        listed = []
        for query, answer in zip(queries, answers, strict=True):
            payloads = [point.payload or {} for point in answer.points]
            hits = [ListedDocument(payload["doc_id"], payload["position"]) for payload in payloads]
            listed.append([*dict.fromkeys([*hits, *self.named(query.doc_ids)])])
        return listed

    def _retrieve(self, purpose: str, keys: Sequence[str], names: Sequence[str]) -> list[Mapping[str, Any]]:
        points = self.ask(purpose, self._client.retrieve, self.collection, [*keys], with_payload=[*names])
        return [point.payload or {} for point in points]


def _reason(content: bytes) -> str:
    """Return the reason of the server, or the beginning of the response."""
    try:
        return str(json.loads(content)["status"]["error"])
    except (ValueError, TypeError, KeyError):
        return content[:200].decode("utf-8", "replace").strip() or "no reason given"
