"""An index in an OpenSearch cluster, through the official client; Elasticsearch's REST interface is the same here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

from tercet._validate import check_integer
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
    payload_of,
    retried,
)
from tercet.engines.engine_index import EngineIndex
from tercet.engines.lucene_query import TEXT_FIELD, index_settings, term_clauses
from tercet.errors import EngineError, InputError, MissingExtraError
from tercet.fitting.text_model import TextModel
from tercet.store.kinds import OPENSEARCH_INDEX

T = TypeVar("T")

PASSWORD: Final = "OPENSEARCH_PASSWORD"
_TIMEOUT_SECONDS: Final = 60
_PASSING: Final = frozenset({408, 429, 502, 503, 504})
_SHOWN: Final = ["doc_id", TEXT_FIELD, "stored_fields", "position"]
# Doc values alone: texts are read by id, and only those that are not in the cache.
_POSITIONS: Final[dict[str, Any]] = {"stored_fields": "_none_", "docvalue_fields": ["doc_id", "position"]}
_NAMED_FIRST: Final = 1e9  # score of documents that a query names
_MOST_RESULTS: Final = 10_000  # of a search, unless the cluster is configured otherwise
_KEPT_AS_THEY_ARE: Final = {
    "doc_id": {"type": "keyword"},
    "stored_fields": {"type": "keyword", "index": False, "doc_values": False},
    "digest": {"type": "keyword", "index": False, "doc_values": False},
    "position": {"type": "long"},
}


class OpenSearchIndex(EngineIndex):
    """Documents in an OpenSearch cluster, see `EngineIndex`.

    ``url`` may name several nodes, separated by commas, for failover. Environment variable OPENSEARCH_PASSWORD holds
    ``user:password``. Texts are in the field ``text``, for any client of the cluster, see `search_body`.

    ``build`` also takes ``shards`` (default 1) and ``replicas`` (default 0).

    Examples
    --------
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> index = OpenSearchIndex.build(docs, None, "index/", url="http://localhost:9200")  # doctest: +SKIP
    >>> [hit.doc_id for hit in index.search("green avocados")]  # doctest: +SKIP
    ['a', 'b']
    """

    kind = OPENSEARCH_INDEX

    @classmethod
    def connect(
        cls,
        url: str,
        collection: str,
        secret: str | None,
        *,
        is_named: bool = False,
        shards: int = 1,
        replicas: int = 0,
    ) -> Engine:
        check_integer(shards, "shards")
        check_integer(replicas, "replicas", 0)
        if collection != collection.lower():
            raise InputError(f"collection is {collection!r}; names in OpenSearch have no capital letters")
        nodes = _nodes(url)
        try:
            import opensearchpy  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("opensearch-py", "opensearch", "an index in OpenSearch") from error
        parts = [urlsplit(node) for node in nodes]
        hosts = [part.hostname or "" for part in parts]
        user = credential(hosts, parts[0].port, secret, PASSWORD, is_named=is_named)
        if user.secret is not None:
            is_encrypted = all(part.scheme == "https" for part in parts)
            check_encrypted(hosts, is_encrypted, "the password", f"use https:// or no password (unset {PASSWORD})")
        return OpenSearchEngine(nodes, collection, user, shards, replicas)

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return ",".join(_nodes(url))


def _nodes(url: Any) -> list[str]:
    listed = url.split(",") if isinstance(url, str) else [url]
    return [http_url(node.strip() if isinstance(node, str) else node, 9200, PASSWORD) for node in listed]


class OpenSearchEngine(Engine):
    """Index of the cluster as a collection; shared by threads."""

    name = "OpenSearch"
    sums_products = False
    most_terms: ClassVar[int] = 100_000
    most_words: ClassVar[int] = 32

    def __init__(self, nodes: Sequence[str], collection: str, user: Credential, shards: int, replicas: int) -> None:
        from opensearchpy import OpenSearch

        super().__init__(",".join(nodes), collection, READING)
        self._lack, self._shards, self._replicas = user.lack, shards, replicas
        auth = None if user.secret is None else tuple(user.secret.partition(":")[::2])
        self._client = OpenSearch(
            list(nodes), http_auth=auth, timeout=_TIMEOUT_SECONDS, max_retries=len(nodes), retry_on_timeout=False
        )

    def _ask(self, purpose: str, call: Callable[..., T], **options: Any) -> T:
        from opensearchpy import ConnectionError as NotConnected
        from opensearchpy import SSLError, TransportError

        def once() -> T:
            try:
                return call(**options)
            except SSLError as error:
                raise EngineError(f"{self.url}: {purpose}: {error.error}") from error
            except NotConnected as error:  # also a timeout
                raise Passing(f"{type(error).__name__}: {error.error}") from error
            except TransportError as error:
                if error.status_code in _PASSING:
                    raise Passing(f"status {error.status_code}: {_reason(error)}") from error
                hint = self._lack if error.status_code in (401, 403) else ""
                raise EngineError(
                    f"{self.where}: {purpose}: status {error.status_code}: {_reason(error)}{hint}"
                ) from error

        return retried(once, purpose, self.url, self._patience)

    def check_version(self) -> None:
        version = self._ask("asking for its version", self._client.info).get("version", {})
        number = str(version.get("number", ""))
        if version.get("distribution") == "opensearch" and number[:1] not in ("", "1"):
            return
        raise EngineError(
            f"{self.url} is {version.get('distribution', 'no OpenSearch')} {number}; expected OpenSearch 2+"
        )

    # -- the collection -----------------------------------------------------------------------------------------

    def owner(self) -> str | None:
        indices = self._client.indices
        if not self._ask("looking at the index", indices.exists, index=self.collection):
            return None
        mappings = self._ask("looking at the index", indices.get_mapping, index=self.collection)
        meta = [mapping["mappings"].get("_meta", {}).get("tercet", {}) for mapping in mappings.values()]
        return str(meta[0].get("owner", "")) if len(meta) == 1 else ""

    def create(self, owner: str, model: TextModel) -> None:
        if self.owner() == owner:
            return
        body = index_settings(model)
        body["settings"] |= {"number_of_shards": self._shards, "number_of_replicas": self._replicas}
        body["mappings"] |= {"_meta": {"tercet": {"owner": owner}}, "dynamic": False}
        body["mappings"]["properties"] |= _KEPT_AS_THEY_ARE
        try:
            self._ask("creating the index", self._client.indices.create, index=self.collection, body=body)
        except EngineError:
            if self.owner() != owner:  # an attempt whose answer was lost has created the index
                raise

    def drop(self) -> None:
        self._ask("removing the index", self._client.indices.delete, index=self.collection, ignore_unavailable=True)

    def finish(self) -> None:
        self._ask("making changes visible", self._client.indices.refresh, index=self.collection)

    # -- documents ----------------------------------------------------------------------------------------------

    def put(self, documents: Sequence[EngineDocument]) -> None:
        lines: list[Any] = []
        for document in documents:
            lines += [{"index": {"_id": _key(document.doc_id)}}, payload_of(document)]
        self._bulk(f"writing {len(documents)} documents", lines, 2)

    def delete(self, doc_ids: Sequence[str]) -> None:
        lines = [{"delete": {"_id": _key(doc_id)}} for doc_id in doc_ids]
        self._bulk(f"removing {len(lines)} documents", lines, 1)

    def _bulk(self, purpose: str, lines: list[Any], n_lines: int) -> None:
        """Send actions of one or two lines each; actions on missing documents do nothing."""

        def send() -> None:
            nonlocal lines
            if not lines:
                return
            answer = self._client.bulk(body=lines, index=self.collection)
            failed: list[Any] = []
            problem = ""
            for number, item in enumerate(answer["items"]):
                [result] = item.values()
                if result["status"] < 300 or result["status"] == 404:
                    continue
                problem = f"document {result.get('_id')!r}: {result.get('error', {}).get('reason')}"
                if result["status"] not in _PASSING:
                    raise EngineError(f"{self.where}: {purpose}: status {result['status']}: {problem}")
                failed += lines[n_lines * number : n_lines * (number + 1)]
            lines = failed  # the others are there
            if failed:
                raise Passing(problem)

        self._ask(purpose, send)

    def count(self) -> int:
        return int(self._ask("counting", self._client.count, index=self.collection)["count"])

    def fetch(self, doc_ids: Sequence[str]) -> list[EngineDocument]:
        return [document_of(entry["_source"]) for entry in self._get("reading documents", doc_ids, _SHOWN)]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        found = self._get("comparing documents", doc_ids, ["doc_id", "digest"])
        return {entry["_source"]["doc_id"]: entry["_source"]["digest"] for entry in found}

    def _get(self, purpose: str, doc_ids: Sequence[str], fields: list[str]) -> list[Any]:
        if not doc_ids:
            return []
        body = {"ids": [_key(doc_id) for doc_id in doc_ids]}
        entries = self._ask(purpose, self._client.mget, index=self.collection, body=body, _source_includes=fields)[
            "docs"
        ]
        for entry in entries:
            if "error" in entry:
                raise EngineError(f"{self.where}: {purpose}: {entry['error'].get('reason')}")
        return [entry for entry in entries if entry.get("found")]

    def ids(self) -> Iterator[str]:
        after: list[Any] | None = None
        self.finish()
        while True:
            body: dict[str, Any] = {"size": PAGE, "sort": ["position", "doc_id"], "_source": ["doc_id"]}
            body |= {} if after is None else {"search_after": after}
            hits = self._search("listing ids", body)
            yield from (hit["_source"]["doc_id"] for hit in hits)
            if len(hits) < PAGE:
                return
            after = hits[-1]["sort"]

    def candidates(self, queries: Sequence[CandidateQuery], n: int) -> list[Listing]:
        bodies = []
        for query in queries:
            should: list[dict[str, Any]] = term_clauses(TEXT_FIELD, query.words)
            if query.doc_ids:
                named = {"terms": {"doc_id": list(query.doc_ids)}}
                should.append({"constant_score": {"filter": named, "boost": _NAMED_FIRST}})
            found = {"bool": {"should": should}} if should else {"match_none": {}}
            size = min(n + len(query.doc_ids), _MOST_RESULTS)
            bodies.append({"query": found, "size": size, "track_total_hits": False} | _POSITIONS)
        if len(bodies) == 1:
            return [_candidates(self._search("searching", bodies[0]), bodies[0])]
        lines = [line for body in bodies for line in ({"allow_partial_search_results": False}, body)]

        def search_many() -> Any:
            answers = self._client.msearch(body=lines, index=self.collection)["responses"]
            for answer in answers:
                if "error" in answer and answer.get("status") in _PASSING:
                    raise Passing(f"status {answer['status']}: {answer['error'].get('reason')}")
                if "error" in answer:
                    raise EngineError(f"{self.where}: searching: {answer['error'].get('reason')}")
            return answers

        answers = self._ask("searching", search_many)
        return [_candidates(each["hits"]["hits"], body) for each, body in zip(answers, bodies, strict=True)]

    def _search(self, purpose: str, body: dict[str, Any]) -> list[Any]:
        # A search that lacks a shard is an error, which is tried again, and no shorter answer.
        options = {"index": self.collection, "body": body, "allow_partial_search_results": False}
        hits: list[Any] = self._ask(purpose, self._client.search, **options)["hits"]["hits"]
        return hits


def _candidates(hits: list[Any], body: dict[str, Any]) -> Listing:
    listed = [ListedDocument(hit["fields"]["doc_id"][0], hit["fields"]["position"][0]) for hit in hits]
    return Listing(listed, hits[-1]["_score"] if len(hits) == body["size"] else None)


def _key(doc_id: str) -> str:
    """Return the document's own id, for other clients; refuse ids of more than 512 bytes."""
    if len(doc_id.encode("utf-8")) > 512:
        raise InputError(f"the id {doc_id[:80]!r}… has more than 512 bytes, which OpenSearch does not take")
    return doc_id


def _reason(error: Any) -> str:
    """Return the reason of the cluster, or the beginning of the response."""
    try:
        return str(error.info["error"]["reason"])
    except (TypeError, KeyError):
        return str(error.error)[:200]
