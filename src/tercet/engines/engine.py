"""What an index asks of an engine that keeps its documents: one collection of points, sparse vectors with payloads.

A point is a document, or the marker that makes a collection ours. Each engine says how its points are written, searched
and listed; what an index makes of that is the same for all of them, in the files beside this one. What a network or a
busy server spoils is tried again, see `retried`.
"""

from __future__ import annotations

import logging
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet.errors import EngineAwayError, InputError

DOC_ID, TEXT, STORED_FIELDS = "doc_id", "text", "stored_fields"  # the payload of a document; stored fields are JSON
MISSING: Final = "is not there"
PAGE: Final = 1024  # points that are read, listed or removed by one request

Terms = NDArray[np.int64]
Values = NDArray[np.float32]
Query = tuple[Terms, Values]
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How often something is tried, and the seconds in between: ``first``, twice that, and so on up to ``most``."""

    attempts: int
    first: float
    most: float


READING: Final = Patience(3, 0.1, 1.0)  # somebody waits for an answer
WRITING: Final = Patience(10, 0.5, 20.0)  # a long upload sits out the restart of a server


class Passing(Exception):
    """A failure that may be gone at the next attempt; ``after`` is how many seconds the server asked to wait."""

    def __init__(self, problem: str, after: float = 0.0) -> None:
        super().__init__(problem)
        self.after = after


def retried(call: Callable[[], T], purpose: str, where: str, patience: Patience) -> T:
    """Exponential backoff: ``call()``, tried again after each `Passing` failure; the last is an `EngineAwayError`.

    The pauses double from one to the next, see `Patience`.
    """
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
            # Many clients of a server that comes back must not all ask at the same moment.
            seconds = min(patience.most, patience.first * 2 ** (attempt - 1)) * random.uniform(0.75, 1.0)
            seconds = max(seconds, min(problem.after, patience.most))
            _log.info("%s: %s: %s; trying again in %.2f s", where, purpose, problem, seconds)
            waited += seconds
            pause(seconds)
    raise AssertionError("attempts is at least 1")


def pause(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, eq=False)
class Point:
    """A document on its way in, or the marker: a number, a sparse vector (empty for none) and its payload."""

    row: int
    terms: Terms
    values: Values
    payload: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StoredPoint:
    """A document as it comes back. ``score`` is 0 where it was not searched for."""

    row: int
    doc_id: str
    score: float
    read_vector: Callable[[], tuple[Terms, Values]]  # most documents of a search are remembered, so few are converted

    def vector(self) -> tuple[Terms, Values]:
        """Its dimensions in ascending order, and their values."""
        terms, values = self.read_vector()
        if (terms[1:] > terms[:-1]).all():
            return terms, values
        order = np.argsort(terms)
        return terms[order], values[order]


class Engine(ABC):
    """One collection. Every method may raise `EngineError`, after trying again where that may help.

    Attributes
    ----------
    name : of the engine, as people know it
    most_dimensions : that the vector of a document may have; None where any number will do
    url : as errors name it, without user and password
    collection : its name
    """

    name: str
    most_dimensions: int | None = None

    def __init__(self, url: str, collection: str, patience: Patience) -> None:
        self.url, self.collection, self._patience = url, collection, patience

    @property
    def where(self) -> str:
        """The collection, as errors name it."""
        return f"{self.url}, collection {self.collection!r}"

    def patient(self, patience: Patience) -> Self:
        """Return the same collection with other pauses between attempts."""
        engine = copy(self)
        engine._patience = patience
        return engine

    # -- the collection -----------------------------------------------------------------------------------------

    @abstractmethod
    def check_version(self) -> None:
        """Reach the engine; an error where it is of a version that is not supported."""

    @abstractmethod
    def problem(self) -> str | None:
        """Why this collection cannot be one of ours, by its configuration; `MISSING` where there is none."""

    @abstractmethod
    def create(self) -> None: ...

    @abstractmethod
    def index_ids(self) -> None:
        """Index the ids, so that no search by id scans all documents; may be asked for again."""

    @abstractmethod
    def drop(self) -> None: ...

    # -- points -------------------------------------------------------------------------------------------------

    @abstractmethod
    def put(self, points: Sequence[Point]) -> None:
        """Write points, also over others of the same number."""

    @abstractmethod
    def delete(self, rows: Sequence[int]) -> None: ...

    @abstractmethod
    def count(self) -> int:
        """How many points there are."""

    @abstractmethod
    def payload(self, row: int) -> Mapping[str, Any] | None:
        """The payload of one point; None where it is not there."""

    @abstractmethod
    def nearest(self, queries: Sequence[Query], n: int) -> list[list[StoredPoint]]:
        """For each query the n documents with the largest inner products, largest first, in single precision.

        Those whose inner product is zero are left out.
        """

    @abstractmethod
    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        """The same for one query, numbers only."""

    @abstractmethod
    def fetch(self, rows: Sequence[int]) -> list[StoredPoint]:
        """Documents by number, in any order; those that are not there are left out."""

    @abstractmethod
    def contents(self, rows: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """The texts and stored fields of documents, by number, each where it is kept."""

    @abstractmethod
    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        """Numbers and ids of the documents with some ids."""

    @abstractmethod
    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        """Numbers and ids of the first n documents from a number on."""


def shown_url(url: str) -> str:
    """A URL without user and password, as messages show it.

    Examples
    --------
    >>> shown_url("postgresql://me@host/papers")
    'postgresql://host/papers'
    """
    return re.sub(r"//[^/@]*@", "//", url)


def check_collection(name: Any, most: int = 200) -> None:
    """A name that every engine takes: it may be part of a URL, the name of a folder or of a table."""
    right = isinstance(name, str) and 0 < len(name) <= most and name.replace("-", "").replace("_", "").isalnum()
    if not right or not name.isascii():
        raise InputError(f"collection is {name!r}; expected letters, digits, - and _, at most {most}")
