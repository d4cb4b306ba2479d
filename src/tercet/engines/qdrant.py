"""An index in a collection of a Qdrant server."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from tercet.engines.credentials import check_encrypted, credential
from tercet.engines.engine import READING, Engine
from tercet.engines.remote_index import RemoteIndex
from tercet.errors import InputError, MissingExtraError
from tercet.store.kinds import QDRANT_INDEX

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

    engine_name, kind = "Qdrant", QDRANT_INDEX

    @classmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        url = normal_url(url)
        try:
            from tercet.engines.qdrant_engine import QdrantEngine
        except ModuleNotFoundError as error:
            raise MissingExtraError("qdrant-client", "qdrant", "an index on Qdrant") from error
        parts = urlsplit(url)
        hosts = [parts.hostname or ""]
        port = parts.port or (443 if parts.scheme == "https" else 80)
        key = credential(hosts, port, secret, API_KEY, is_named=is_named)
        if key.secret is not None:
            remedy = f"use https://, a tunnel to localhost, or no key (unset {API_KEY})"
            check_encrypted(hosts, parts.scheme == "https", "the API key", remedy)
        return QdrantEngine.connect(url, collection, key, READING)

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return normal_url(url)


def normal_url(url: Any) -> str:
    """A URL as a folder keeps it.

    Examples
    --------
    >>> normal_url("http://localhost:6333/")
    'http://localhost:6333'
    """
    if not isinstance(url, str) or not url:
        raise InputError(f"url is {url!r}; expected one like http://localhost:6333")
    try:
        parts = urlsplit(url)
        hostname = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise InputError(f"url is {url!r}, which is none: {error}") from error
    if parts.scheme not in ("http", "https") or not hostname or parts.query or parts.fragment:
        raise InputError(f"url is {url!r}; expected one like http://localhost:6333")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"url must not hold a password, since it is written to disk; set {API_KEY} instead")
    return url.rstrip("/")
