"""Interface of an engine that keeps documents and lists candidates for a query.

An engine stores each document with its text, its stored fields and, where the engine can use them, its words as a
sparse vector. An engine lists candidates; `tercet.engines.engine_view` scores them. Failures that may pass are tried
again, see `retried`.
"""

from __future__ import annotations

import logging
import random
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet.errors import EngineAwayError, InputError
from tercet.fitting.text_model import TextModel

PAGE: Final = 1024  # most documents read, listed or removed by one request
SHOWN: Final = ("doc_id", "text", "stored_fields", "position")  # what a read document has
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Patience(NamedTuple):
    """Number of attempts, and the seconds between attempts: ``first``, doubled each time, up to ``most``."""

    attempts: int
    first: float
    most: float


READING: Final = Patience(3, 0.1, 1.0)  # somebody waits for an answer
WRITING: Final = Patience(10, 0.5, 20.0)  # a long upload outlasts the restart of a server


class Passing(Exception):
    """Temporary failure."""


def retried(call: Callable[[], T], purpose: str, where: str, patience: Patience) -> T:
    """Call with exponential backoff after each `Passing` failure; the last failure is an `EngineAwayError`."""
    waited = 0.0
    for attempt in range(1, patience.attempts + 1):
        try:
            return call()
        except Passing as problem:
            if attempt == patience.attempts:
                raise EngineAwayError(
                    f"{where} does not answer: {purpose} was tried {patience.attempts} times, with {waited:.1f} s of "
                    f"waiting in between; the last time: {problem}"
                ) from problem
            # Random delays spread the retries of many clients after a restart of the server.
            seconds = min(patience.most, patience.first * 2 ** (attempt - 1)) * random.uniform(0.75, 1.0)
            _log.info("%s: %s: %s; trying again in %.2f s", where, purpose, problem, seconds)
            waited += seconds
            pause(seconds)
    raise AssertionError("attempts is at least 1")


def pause(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, eq=False)
class EngineDocument:
    """Document in an engine.

    Attributes
    ----------
    doc_id : id outside of the engine
    text : text
    stored_fields : other columns as a JSON object, or an empty string
    position : number for the order of equal scores
    digest : hash of the written fields
    terms, values : words as columns of the model; empty in read documents
    """

    doc_id: str
    text: str
    stored_fields: str
    position: int
    digest: str = ""
    terms: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    values: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, dtype=np.float32))

    @property
    def payload(self) -> dict[str, Any]:
        """Return the stored fields of a document in all engines."""
        return {name: getattr(self, name) for name in (*SHOWN, "digest")}


@dataclass(frozen=True, eq=False)
class CandidateQuery:
    """Expanded query.

    Attributes
    ----------
    terms, weights : for engines with vectors, columns of the model, ascending, and weights, possibly negative
    words : for engines with BM25 scores, (word, boost) with positive boosts, the strongest first
    doc_ids : additional documents to list
    """

    terms: NDArray[np.int64]
    weights: NDArray[np.float32]
    words: tuple[tuple[str, float], ...]
    doc_ids: tuple[str, ...]


class ListedDocument(NamedTuple):
    """Id and position of a document; a rewritten document has another position."""

    doc_id: str
    position: int


class Engine(ABC):
    """Collection of documents. Methods raise `EngineError` for permanent failures. Threads may share it.

    Attributes
    ----------
    name : display name
    has_vectors : True if documents have their words as a sparse vector, False if the engine scores texts with BM25
    most_terms : largest number of different words of a document, or of terms of a query
    url : address in errors, without user and password
    collection : name of the collection
    """

    name: ClassVar[str]
    has_vectors: ClassVar[bool] = True
    most_terms: ClassVar[int] = 16_000

    def __init__(self, url: str, collection: str) -> None:
        self.url, self.collection, self._patience = url, collection, READING

    @property
    def where(self) -> str:
        """Name of the collection in errors."""
        return f"{self.url}, collection {self.collection!r}"

    def patient(self) -> Self:
        """Return the same collection with the patience of an upload."""
        engine = copy(self)
        engine._patience = WRITING
        return engine

    def ask(self, purpose: str, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call the client of the engine, also more than once; failures are errors of Tercet."""

        def once() -> T:
            try:
                return call(*args, **options)
            except Exception as error:
                problem = self._problem(purpose, error)
                if problem is None:
                    raise
                raise problem from None  # the client's traceback may show credentials

        return retried(once, purpose, self.url, self._patience)

    @abstractmethod
    def _problem(self, purpose: str, error: Exception) -> Exception | None:
        """Return a `Passing` or an `EngineError` for an error of the client; None for other errors."""

    # -- the collection -----------------------------------------------------------------------------------------

    @abstractmethod
    def check_version(self) -> None:
        """Connect to the engine; refuse unsupported versions."""

    @abstractmethod
    def owner(self) -> str | None:
        """Return the name of the owning index: empty for a foreign collection, None for a missing one."""

    @abstractmethod
    def create(self, owner: str, model: TextModel) -> None:
        """Create the collection for an index, also after an interruption."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the collection with all documents."""

    # -- documents ----------------------------------------------------------------------------------------------

    @abstractmethod
    def put(self, documents: Sequence[EngineDocument]) -> None:
        """Write documents, in place of documents with the same ids."""

    @abstractmethod
    def delete(self, doc_ids: Sequence[str]) -> None:
        """Remove documents; missing ids are ignored."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of documents."""

    @abstractmethod
    def read(self, purpose: str, doc_ids: Sequence[str], names: Sequence[str]) -> list[Mapping[str, Any]]:
        """Read fields of documents by id, in any order, without missing documents."""

    @abstractmethod
    def ids(self) -> Iterator[str]:
        """Return all ids in the order of positions."""

    @abstractmethod
    def candidates(self, queries: Sequence[CandidateQuery], n: int) -> list[list[ListedDocument]]:
        """List for each query the n best documents with a word of the query, and the query's ``doc_ids``."""

    def finish(self) -> None:  # noqa: B027  # most engines have nothing to do
        """Make all writes visible to searches; called at the end of each change."""

    def fetch(self, doc_ids: Sequence[str]) -> list[EngineDocument]:
        """Read documents with their texts."""
        payloads = (payload for page in pages(doc_ids) for payload in self.read("reading documents", page, SHOWN))
        return [
            EngineDocument(each["doc_id"], each["text"], each["stored_fields"], each["position"]) for each in payloads
        ]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of existing documents by id."""
        payloads = self.read("comparing documents", doc_ids, ("doc_id", "digest"))
        return {payload["doc_id"]: payload["digest"] for payload in payloads}

    def named(self, doc_ids: Sequence[str]) -> list[ListedDocument]:
        """Return existing documents as candidates."""
        payloads = self.read("searching", doc_ids, ("doc_id", "position")) if doc_ids else []
        return [ListedDocument(payload["doc_id"], payload["position"]) for payload in payloads]


def keys_of(doc_ids: Sequence[str]) -> list[str]:
    """Return the keys of documents in engines whose own ids are short.

    Examples
    --------
    >>> keys_of(["007"])
    ['b797c0db-213d-0981-f111-d755b86ab03b']
    """
    return [str(uuid.UUID(bytes=blake2b(doc_id.encode("utf-8"), digest_size=16).digest())) for doc_id in doc_ids]


def pages(entries: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split into slices of at most `PAGE`."""
    for start in range(0, len(entries), PAGE):
        yield entries[start : start + PAGE]


def shown_url(url: str) -> str:
    """A URL without user and password, as messages show it.

    Examples
    --------
    >>> shown_url("postgresql://me@host/papers")
    'postgresql://host/papers'
    """
    return re.sub(r"//[^/@]*@", "//", url)


def check_collection(name: Any, most: int) -> None:
    """Refuse an unsafe name for a part of a URL, a folder or a table."""
    if not isinstance(name, str) or not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{most}}}", name):
        raise InputError(f"collection is {name!r}; expected letters, digits, - and _, at most {most}")
