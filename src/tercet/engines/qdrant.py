"""An index in a collection of a Qdrant server, through qdrant-client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from tercet.engines.credentials import Credential, check_encrypted, credential, http_url
from tercet.engines.engine import (
    PAGE,
    READING,
    CandidateQuery,
    Engine,
    EngineDocument,
    ListedDocument,
    Listing,
    Passing,
    document_of,
    key_of,
    payload_of,
    retried,
    with_documents,
)
from tercet.engines.engine_index import EngineIndex
from tercet.errors import EngineError, InputError, MissingExtraError
from tercet.fitting.text_model import TextModel
from tercet.store.kinds import QDRANT_INDEX

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

T = TypeVar("T")

API_KEY: Final = "QDRANT_API_KEY"
OLDEST, BEFORE = (1, 10), (2, 0)  # 1.10 has the query API
VECTOR: Final = "words"  # the sparse vector of a document
_TIMEOUT_SECONDS: Final = 60
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_MARKER: Final = "00000000-0000-0000-0000-000000000000"  # the point that names the owner of the collection
_SHOWN: Final = ["doc_id", "text", "stored_fields", "position"]
_POSITION: Final = ["doc_id", "position"]


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
    def connect(
        cls, url: str, collection: str, secret: str | None, *, is_named: bool = False, **settings: Any
    ) -> Engine:
        if settings:
            raise InputError(f"an index on Qdrant takes no {', '.join(settings)}")
        url = cls.kept_url(url)
        try:
            import qdrant_client  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("qdrant-client", "qdrant", "an index on Qdrant") from error
        parts = urlsplit(url)
        hosts = [parts.hostname or ""]
        port = parts.port or (443 if parts.scheme == "https" else 80)
        key = credential(hosts, port, secret, API_KEY, is_named=is_named)
        if key.secret is not None:
            remedy = f"use https://, a tunnel to localhost, or no key (unset {API_KEY})"
            check_encrypted(hosts, parts.scheme == "https", "the API key", remedy)
        return QdrantEngine(url, collection, key)

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return http_url(url, 6333, API_KEY)


class QdrantEngine(Engine):
    """A collection of a server. Threads may share it."""

    name = "Qdrant"

    def __init__(self, url: str, collection: str, key: Credential) -> None:
        from qdrant_client import QdrantClient

        super().__init__(url, collection, READING)
        self._lack = key.lack
        # `check_version` looks at the version, with an error instead of a warning from a thread.
        self._client: QdrantClient = QdrantClient(
            url=url, api_key=key.secret, timeout=_TIMEOUT_SECONDS, check_compatibility=False
        )

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

    def _ask(self, purpose: str, call: Callable[..., T], *args: Any, **options: Any) -> T:
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
                reason = f"status {error.status_code}: {_reason(error.content)}"
                if error.status_code in _PASSING:
                    raise Passing(reason) from error
                hint = self._lack if error.status_code in (401, 403) else ""
                raise EngineError(f"{self.where}: {purpose}: {reason}{hint}") from error
            except ResponseHandlingException as error:
                if isinstance(error.source, httpx.TransportError | OSError):
                    raise Passing(f"{type(error.source).__name__}: {error.source}") from error
                raise EngineError(f"{self.url}: {purpose}: the answer cannot be understood: {error.source}") from error

        return retried(once, purpose, self.url, self._patience)

    # -- the collection -----------------------------------------------------------------------------------------

    def owner(self) -> str | None:
        if not self._ask("looking at the collection", self._client.collection_exists, self.collection):
            return None
        points = self._retrieve("looking at the collection", [_MARKER], ["owner"])
        return str((points[0].payload or {}).get("owner", "")) if points else ""

    def create(self, owner: str, _model: TextModel) -> None:
        from qdrant_client import models

        if self.owner() == owner:
            return
        if self.owner() is None:
            vectors = {VECTOR: models.SparseVectorParams()}
            create = self._client.create_collection
            self._ask(
                "creating the collection", create, self.collection, vectors_config={}, sparse_vectors_config=vectors
            )
        marker = models.PointStruct(id=_MARKER, vector={}, payload={"owner": owner})
        self._ask("creating the collection", self._client.upsert, self.collection, [marker], wait=True)

    def drop(self) -> None:
        self._ask("removing the collection", self._client.delete_collection, self.collection)

    # -- documents ----------------------------------------------------------------------------------------------

    def put(self, documents: Sequence[EngineDocument]) -> None:
        from qdrant_client import models

        points = []
        for document in documents:
            words = models.SparseVector(indices=document.terms.tolist(), values=document.values.tolist())
            vector: Any = {VECTOR: words} if document.terms.size else {}
            key = str(key_of(document.doc_id))
            points.append(models.PointStruct(id=key, vector=vector, payload=dict(payload_of(document))))
        self._ask(f"writing {len(points)} documents", self._client.upsert, self.collection, points, wait=True)

    def delete(self, doc_ids: Sequence[str]) -> None:
        from qdrant_client import models

        chosen = models.PointIdsList(points=[*_keys(doc_ids)])
        self._ask(f"removing {len(doc_ids)} documents", self._client.delete, self.collection, chosen, wait=True)

    def count(self) -> int:
        return int(self._ask("counting", self._client.count, self.collection, exact=True).count) - 1  # the marker

    def fetch(self, doc_ids: Sequence[str]) -> list[EngineDocument]:
        return [document_of(point.payload) for point in self._retrieve("reading documents", _keys(doc_ids), _SHOWN)]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        points = self._retrieve("comparing documents", _keys(doc_ids), ["doc_id", "digest"])
        return {point.payload["doc_id"]: point.payload["digest"] for point in points}

    def ids(self) -> Iterator[str]:
        listed: list[tuple[int, str]] = []  # pages come by key
        offset: Any = None
        while True:
            options: dict[str, Any] = {"limit": PAGE, "offset": offset, "with_payload": ["doc_id", "position"]}
            page, offset = self._ask("listing ids", self._client.scroll, self.collection, **options)
            payloads = (point.payload or {} for point in page if point.id != _MARKER)
            listed += [(payload["position"], payload["doc_id"]) for payload in payloads]
            if offset is None:
                return (doc_id for _, doc_id in sorted(listed))

    def candidates(self, queries: Sequence[CandidateQuery], n: int) -> list[Listing]:
        from qdrant_client import models

        # Without exact, several shards are asked for as many documents as chance says will do: some may be missing.
        common: dict[str, Any] = {"using": VECTOR, "limit": n, "params": models.SearchParams(exact=True)}
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=query.terms.tolist(), values=query.weights.tolist()),
                with_payload=_POSITION,
                **common,
            )
            for query in queries
        ]
        answers = self._ask("searching", self._client.query_batch_points, self.collection, requests)
        found = []
        for query, answer in zip(queries, answers, strict=True):
            named = self._retrieve("searching", _keys(query.doc_ids), _POSITION) if query.doc_ids else []
            listed = [(_candidate(point), float(point.score)) for point in answer.points]
            found.append(with_documents(listed, map(_candidate, named), n))
        return found

    def _retrieve(self, purpose: str, keys: Sequence[str], payload: list[str]) -> Sequence[Any]:
        retrieve = self._client.retrieve
        points: Sequence[Any] = self._ask(purpose, retrieve, self.collection, list(keys), with_payload=payload)
        return points


def _candidate(point: Any) -> ListedDocument:
    return ListedDocument(point.payload["doc_id"], int(point.payload["position"]))


def _keys(doc_ids: Sequence[str]) -> list[str]:
    return [str(key_of(doc_id)) for doc_id in doc_ids]


def _reason(content: bytes) -> str:
    """Return the reason of the server, or the beginning of the response."""
    try:
        return str(json.loads(content)["status"]["error"])
    except (ValueError, TypeError, KeyError):
        return content[:200].decode("utf-8", "replace").strip() or "no reason given"
