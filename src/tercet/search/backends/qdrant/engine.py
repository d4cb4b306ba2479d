"""What an index asks of Qdrant, and where to find one: a server by its URL, or ``edge:PATH``, its engine in-process."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError
from tercet.search.backends.qdrant.retrying import READING, Patience

VECTOR: Final = "words"  # the name of the one sparse vector of a document
DOC_ID, TEXT = "doc_id", "text"  # what a document's payload has
EDGE: Final = "edge:"
API_KEY: Final = "QDRANT_API_KEY"
MISSING: Final = "is not there"

Terms = NDArray[np.int64]
Values = NDArray[np.float32]
Query = tuple[Terms, Values]


@dataclass(frozen=True, eq=False)
class Point:
    """A document on its way in, or the marker: a number, a sparse vector (empty for none) and what goes with it."""

    row: int
    terms: Terms
    values: Values
    payload: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Stored:
    """A document as it comes back. ``score`` is 0 where it was not searched for."""

    row: int
    doc_id: str
    score: float
    _vector: Any  # as either library gives it; most documents of a search are known already, so few are converted

    def vector(self) -> tuple[Terms, Values]:
        """Its dimensions in ascending order, and their values."""
        told = self._vector
        terms = np.array([] if told is None else told.indices, dtype=np.int64)
        values = np.array([] if told is None else told.values, dtype=np.float32)
        if (terms[1:] > terms[:-1]).all():
            return terms, values
        order = np.argsort(terms)
        return terms[order], values[order]


class Engine(Protocol):
    """One collection. Every method may raise `EngineError`, after trying again where that may help."""

    url: str
    collection: str

    def patient(self, patience: Patience) -> Self:
        """The same collection, for somebody with more or less time."""
        ...

    def problem(self) -> str | None:
        """Why this collection cannot be one of ours, by its configuration; `MISSING` where there is none."""
        ...

    def create(self) -> None: ...

    def index_ids(self) -> None:
        """Have ids found without looking at every document; may be asked for again."""
        ...

    def drop(self) -> None: ...

    def put(self, points: Sequence[Point]) -> None:
        """Write points, also over others of the same number."""
        ...

    def delete(self, rows: Sequence[int]) -> None: ...

    def payload(self, row: int) -> Mapping[str, Any] | None:
        """What goes with one point; None where it is not there."""
        ...

    def nearest(self, queries: Sequence[Query], n: int) -> list[list[Stored]]:
        """For each query the n documents with the largest inner products, largest first, in single precision.

        Those whose inner product is zero are left out.
        """
        ...

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        """The same for one query, numbers only."""
        ...

    def fetch(self, rows: Sequence[int]) -> list[Stored]:
        """Documents by number, in any order; those that are not there are left out."""
        ...

    def texts(self, rows: Sequence[int]) -> dict[int, str]: ...

    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        """Numbers and ids of the documents with some ids."""
        ...

    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        """Numbers and ids of the first n documents from a number on."""
        ...

    def count(self) -> int:
        """How many points there are."""
        ...


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
        named = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise InputError(f"url is {url!r}, which is none: {error}") from error
    if parts.scheme not in ("http", "https") or not named or parts.query or parts.fragment:
        raise InputError(f"url is {url!r}; expected one like http://localhost:6333, or edge:PATH")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"url must not hold a password, since it is written to disk; set {API_KEY} instead")
    return url.rstrip("/")


def connect(url: str, collection: str, api_key: str | None = None, patience: Patience = READING) -> Engine:
    """The collection of that name; whether it exists is for `Engine.problem` to say.

    The key of a server is taken from the variable QDRANT_API_KEY where none is given; it is never written to disk.
    """
    url = normal_url(url)
    check_collection(collection)
    if url.startswith(EDGE):
        from tercet.search.backends.qdrant.edge import EdgeEngine

        return EdgeEngine(url, collection)
    from tercet.search.backends.qdrant.server import ServerEngine

    return ServerEngine.connect(url, collection, api_key or os.environ.get(API_KEY) or None, patience)


def check_collection(name: Any) -> None:
    # What both take: it is part of a URL, and for edge the name of a folder.
    right = isinstance(name, str) and 0 < len(name) <= 200 and name.replace("-", "").replace("_", "").isalnum()
    if not right or not name.isascii():
        raise InputError(f"collection is {name!r}; expected letters, digits, - and _, at most 200")


def stored(row: Any, payload: Any, vectors: Any, score: float = 0.0) -> Stored:
    """A document from what either library gives."""
    return Stored(int(row), str((payload or {}).get(DOC_ID, "")), float(score), (vectors or {}).get(VECTOR))


def config_problem(dense: Any, sparse: Any) -> str | None:
    """Why vectors of this configuration are not ours."""
    if dense:
        return f"has dense vectors ({', '.join(map(repr, dense)) if isinstance(dense, Mapping) else 'one'})"
    names = sorted(sparse or {})
    if names != [VECTOR]:
        return f"has the sparse vectors {names}; ours have {[VECTOR]}"
    own = sparse[VECTOR] or {}
    kind = (own.get("index") or {}).get("datatype") or own.get("datatype")
    if own.get("modifier") not in (None, "none") or kind not in (None, "float32"):
        return f"changes values: modifier {own.get('modifier')!r}, datatype {kind!r}"
    return None
