"""An index in an OpenSearch cluster, through the official client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tercet._validate import check_integer
from tercet.engines.credentials import Credential, http_credential, http_url, require_client
from tercet.engines.engine import PAGE, CandidateQuery, Engine, EngineDocument, ListedDocument, Passing
from tercet.engines.engine_index import EngineIndex
from tercet.engines.lucene_query import TEXT_FIELD, index_settings, term_clauses
from tercet.errors import EngineError, InputError
from tercet.fitting.text_model import TextModel
from tercet.store.kinds import OPENSEARCH_INDEX

PASSWORD: Final = "OPENSEARCH_PASSWORD"
_TIMEOUT_SECONDS: Final = 60
_PASSING: Final = frozenset({408, 429, 502, 503, 504})
# Doc values only: texts outside the cache are read later, by id.
_POSITIONS: Final[dict[str, Any]] = {"stored_fields": "_none_", "docvalue_fields": ["doc_id", "position"]}
_NAMED_FIRST: Final = 1e9  # score of documents that a query names by id
_MOST_RESULTS: Final = 10_000  # most results of a search, by the default configuration of a cluster
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
        require_client("opensearchpy", "opensearch-py", "opensearch")
        check_integer(shards, "shards")
        check_integer(replicas, "replicas", 0)
        if collection != collection.lower():
            raise InputError(f"collection is {collection!r}; names in OpenSearch have no capital letters")
        nodes = _nodes(url)
        user = http_credential(nodes, secret, PASSWORD, is_named=is_named)
        return OpenSearchEngine(nodes, collection, user, shards, replicas)

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return ",".join(_nodes(url))


def _nodes(url: Any) -> list[str]:
    listed = url.split(",") if isinstance(url, str) else [url]
    return [http_url(node.strip() if isinstance(node, str) else node, 9200, PASSWORD) for node in listed]


class OpenSearchEngine(Engine):
    """Index of the cluster as a collection."""

    name = "OpenSearch"
    has_vectors = False

    def __init__(self, nodes: Sequence[str], collection: str, user: Credential, shards: int, replicas: int) -> None:
        from opensearchpy import OpenSearch

        super().__init__(",".join(nodes), collection)
        self._lack, self._copies = user.lack, {"number_of_shards": shards, "number_of_replicas": replicas}
        auth = None if user.secret is None else tuple(user.secret.partition(":")[::2])
        self._client = OpenSearch(
            list(nodes), http_auth=auth, timeout=_TIMEOUT_SECONDS, max_retries=len(nodes), retry_on_timeout=False
        )

    def _problem(self, purpose: str, error: Exception) -> Exception | None:
        from opensearchpy import ConnectionError as NotConnected
        from opensearchpy import SSLError, TransportError

        if isinstance(error, NotConnected) and not isinstance(error, SSLError):  # also a timeout
            return Passing(f"{type(error).__name__}: {error.error}")
        if not isinstance(error, TransportError):
            return None
        reason = f"status {error.status_code}: {_reason(error)}"
        if error.status_code in _PASSING:
            return Passing(reason)
        return EngineError(f"{self.where}: {purpose}: {reason}{self._lack if error.status_code in (401, 403) else ''}")

    def check_version(self) -> None:
        version = self.ask("asking for its version", self._client.info).get("version", {})
        name, number = version.get("distribution", "no OpenSearch"), str(version.get("number", ""))
        if name != "opensearch" or number[:1] in ("", "1"):
            raise EngineError(f"{self.url} is {name} {number}; expected OpenSearch 2+")

    # -- the collection -----------------------------------------------------------------------------------------

    def owner(self) -> str | None:
        indices = self._client.indices
        if not self.ask("looking at the index", indices.exists, index=self.collection):
            return None
        mappings = self.ask("looking at the index", indices.get_mapping, index=self.collection)
        meta = [mapping["mappings"].get("_meta", {}).get("tercet", {}) for mapping in mappings.values()]
        return str(meta[0].get("owner", "")) if len(meta) == 1 else ""

    def create(self, owner: str, model: TextModel) -> None:
        if self.owner() == owner:
            return
        body = index_settings(model)
        body["settings"] |= self._copies
        body["mappings"] |= {"_meta": {"tercet": {"owner": owner}}, "dynamic": False}
        body["mappings"]["properties"] |= _KEPT_AS_THEY_ARE
        try:
            self.ask("creating the index", self._client.indices.create, index=self.collection, body=body)
        except EngineError:
            if self.owner() != owner:  # an earlier attempt with a lost response may have created the index
                raise

    def drop(self) -> None:
        self.ask("removing the index", self._client.indices.delete, index=self.collection, ignore_unavailable=True)

    def finish(self) -> None:
        self.ask("making changes visible", self._client.indices.refresh, index=self.collection)

    # -- documents ----------------------------------------------------------------------------------------------

    def put(self, documents: Sequence[EngineDocument]) -> None:
        actions = [[{"index": {"_id": _key(document.doc_id)}}, document.payload] for document in documents]
        self._bulk(f"writing {len(documents)} documents", actions)

    def delete(self, doc_ids: Sequence[str]) -> None:
        self._bulk(f"removing {len(doc_ids)} documents", [[{"delete": {"_id": _key(doc_id)}}] for doc_id in doc_ids])

    def _bulk(self, purpose: str, actions: list[list[Any]]) -> None:
        """Send actions of one or two lines each; actions on missing documents do nothing."""

        def send() -> None:
            nonlocal actions
            if not actions:
                return
            body = [line for action in actions for line in action]
            items = self._client.bulk(body=body, index=self.collection)["items"]
            outcomes = [(action, *item.values()) for action, item in zip(actions, items, strict=True)]
            failed = [(action, result) for action, result in outcomes if 300 <= result["status"] != 404]
            actions = [action for action, _ in failed]  # the others are there
            for _, result in failed:
                problem = f"document {result.get('_id')!r}: {result.get('error', {}).get('reason')}"
                if result["status"] not in _PASSING:
                    raise EngineError(f"{self.where}: {purpose}: status {result['status']}: {problem}")
            if failed:
                raise Passing(problem)

        self.ask(purpose, send)

    def count(self) -> int:
        return int(self.ask("counting", self._client.count, index=self.collection)["count"])

    def read(self, purpose: str, doc_ids: Sequence[str], names: Sequence[str]) -> list[Mapping[str, Any]]:
        if not doc_ids:
            return []
        body = {"ids": [_key(doc_id) for doc_id in doc_ids]}
        options = {"index": self.collection, "body": body, "_source_includes": list(names)}
        entries = self.ask(purpose, self._client.mget, **options)["docs"]
        for entry in entries:
            if "error" in entry:
                raise EngineError(f"{self.where}: {purpose}: {entry['error'].get('reason')}")
        return [entry["_source"] for entry in entries if entry.get("found")]

    def ids(self) -> Iterator[str]:
        self.finish()
        body: dict[str, Any] = {"size": PAGE, "sort": ["position", "doc_id"], "_source": ["doc_id"]}
        while True:
            [hits] = self._search("listing ids", [body])
            yield from (hit["_source"]["doc_id"] for hit in hits)
            if len(hits) < PAGE:
                return
            body["search_after"] = hits[-1]["sort"]

    def candidates(self, queries: Sequence[CandidateQuery], n: int) -> list[list[ListedDocument]]:
        bodies = []
        for query in queries:
            should: list[dict[str, Any]] = term_clauses(TEXT_FIELD, query.words)
            if query.doc_ids:
                named = {"terms": {"doc_id": list(query.doc_ids)}}
                should.append({"constant_score": {"filter": named, "boost": _NAMED_FIRST}})
            match = {"bool": {"should": should}} if should else {"match_none": {}}
            size = min(n + len(query.doc_ids), _MOST_RESULTS)
            bodies.append({"query": match, "size": size, "track_total_hits": False} | _POSITIONS)
        return [
            [ListedDocument(hit["fields"]["doc_id"][0], hit["fields"]["position"][0]) for hit in hits]
            for hits in self._search("searching", bodies)
        ]

    def _search(self, purpose: str, bodies: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Return the hits of each search."""
        # A search with a missing shard is an error and is retried: partial results are wrong.
        lines = [line for body in bodies for line in ({"allow_partial_search_results": False}, body)]

        def search() -> list[list[Any]]:
            answers = self._client.msearch(body=lines, index=self.collection)["responses"]
            for answer in answers:
                if "error" in answer:
                    problem = f"status {answer.get('status')}: {answer['error'].get('reason')}"
                    passes = answer.get("status") in _PASSING
                    raise Passing(problem) if passes else EngineError(f"{self.where}: {purpose}: {problem}")
            return [answer["hits"]["hits"] for answer in answers]

        return self.ask(purpose, search)


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
