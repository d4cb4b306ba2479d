"""An index in Qdrant: on a server by its URL, or by ``edge:PATH`` in Qdrant's engine in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tercet.errors import InputError, MissingExtraError
from tercet.search.backends.credentials import check_encrypted, credential
from tercet.search.backends.engine import READING, Engine, Patience, check_collection
from tercet.search.backends.remote_index import RemoteIndex
from tercet.store.kinds import QDRANT_INDEX

EDGE: Final = "edge:"
API_KEY: Final = "QDRANT_API_KEY"


class QdrantIndex(RemoteIndex):
    """Documents in a collection of Qdrant, see `RemoteIndex`; the key of a server is in the variable QDRANT_API_KEY.

    Examples
    --------
    >>> import tempfile
    >>> from tercet import TextModel, Vectoriser
    >>> from tercet.weights import Identity, Weights
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> words = Vectoriser().fit(docs.values())
    >>> model = TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     index = QdrantIndex.build(docs, model, f"{folder}/index", url="http://localhost:6333")
    ...     print([hit.doc_id for hit in index.search("green avocados")])
    ['a', 'b']
    """

    backend, engine_name, kind = "qdrant", "Qdrant", QDRANT_INDEX

    @classmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        return connect(url, collection, secret, is_named=is_named)

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return normal_url(url)


def connect(
    url: str, collection: str, api_key: str | None = None, patience: Patience = READING, *, is_named: bool = False
) -> Engine:
    """The collection of that name; whether it exists is for `Engine.problem` to say.

    The key of a server is taken from the variable QDRANT_API_KEY where none is given and the user named the server; it
    is never written to disk, and goes to no other machine over plain HTTP.
    """
    url = normal_url(url)
    check_collection(collection)
    if url.startswith(EDGE):
        try:
            from tercet.search.backends.qdrant.edge import EdgeEngine
        except ModuleNotFoundError as error:
            raise MissingExtraError("qdrant-edge-py", "qdrant", "a url that begins with edge:") from error
        return EdgeEngine(url, Path(url.removeprefix(EDGE)) / collection)
    try:
        from tercet.search.backends.qdrant.server import ServerEngine
    except ModuleNotFoundError as error:
        raise MissingExtraError("qdrant-client", "qdrant", "an index on Qdrant") from error
    parts = urlsplit(url)
    hosts = [parts.hostname or ""]
    port = parts.port or (443 if parts.scheme == "https" else 80)
    key = credential(hosts, port, api_key, API_KEY, is_named=is_named)
    if key.secret is not None:
        remedy = f"use https://, a tunnel to localhost, or no key (unset {API_KEY})"
        check_encrypted(hosts, parts.scheme == "https", "the API key", remedy)
    return ServerEngine.connect(url, collection, key, patience)


def normal_url(url: Any) -> str:
    """A URL as a folder keeps it: the path of ``edge:PATH`` is made absolute.

    Examples
    --------
    >>> normal_url("http://localhost:6333/")
    'http://localhost:6333'
    """
    if not isinstance(url, str) or not url:
        raise InputError(f"url is {url!r}; expected one like http://localhost:6333, or edge:PATH")
    if url.startswith(EDGE):
        if not url.removeprefix(EDGE):
            raise InputError(f"url is {url!r}; expected a path after {EDGE}")
        return EDGE + str(Path(url.removeprefix(EDGE)).absolute())
    try:
        parts = urlsplit(url)
        hostname = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise InputError(f"url is {url!r}, which is none: {error}") from error
    if parts.scheme not in ("http", "https") or not hostname or parts.query or parts.fragment:
        raise InputError(f"url is {url!r}; expected one like http://localhost:6333, or edge:PATH")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"url must not hold a password, since it is written to disk; set {API_KEY} instead")
    return url.rstrip("/")
