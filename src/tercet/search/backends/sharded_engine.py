"""Several collections of the same kind that make one: documents are spread over them, answers are put together.

A document is on the shard that its number says, ``row % n``; the marker is on each. Every shard lists its best by the
same bounds, so the best of the lists are the best of all, and what is ranked again of them is certified as for one
collection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet.errors import EngineAwayError
from tercet.search.backends.engine import Engine, Patience, Point, Query, StoredPoint
from tercet.search.backends.records import MARKER_ROW

T = TypeVar("T")

_absent: ContextVar[set[str] | None] = ContextVar("absent shards", default=None)


@contextmanager
def absent_noted() -> Iterator[set[str]]:
    """The URLs of shards that gave no answer to what is asked within the block."""
    urls: set[str] = set()
    token = _absent.set(urls)
    try:
        yield urls
    finally:
        _absent.reset(token)


class ShardedEngine(Engine):
    """Shards as one collection; they are asked at the same time.

    Parameters
    ----------
    shards : the collections, in an order that never changes
    partial : whether reading goes on without shards that do not answer; writing never does
    """

    def __init__(self, shards: Sequence[Engine], partial: bool = False) -> None:
        self._shards, self.partial = tuple(shards), partial
        first = self._shards[0]
        self.name, self.most_dimensions, self.collection = first.name, first.most_dimensions, first.collection
        self.url = ", ".join(shard.url for shard in self._shards)
        self._threads = ThreadPoolExecutor(len(self._shards), "shard")

    @property
    def shards(self) -> Sequence[Engine]:
        return self._shards

    def patient(self, patience: Patience) -> Self:
        engine = copy(self)
        engine._shards, engine.partial = tuple(shard.patient(patience) for shard in self._shards), False
        return engine

    # -- asking them --------------------------------------------------------------------------------------------

    def _each(self, ask: Callable[[Engine], T]) -> list[T]:
        """The answers of all shards; where partial answers will do, of those that answer."""
        return self._together({number: partial(ask, shard) for number, shard in enumerate(self._shards)})

    def _owners(self, rows: Sequence[int], ask: Callable[[Engine, list[int]], T]) -> list[T]:
        """What the shards say of their own rows."""
        owned: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            owned[row % len(self._shards)].append(row)
        return self._together({number: partial(ask, self._shards[number], own) for number, own in owned.items()})

    def _together(self, calls: Mapping[int, Callable[[], T]]) -> list[T]:
        """Calls to shards by number, at the same time."""
        answers = {number: self._threads.submit(call) for number, call in calls.items()}
        given: list[T] = []
        away: list[EngineAwayError] = []
        for number, answer in answers.items():
            try:
                given.append(answer.result())
            except EngineAwayError as error:
                away.append(error)
                noted = _absent.get()
                if noted is not None:
                    noted.add(self._shards[number].url)
        if away and (not self.partial or not given):
            raise away[0]
        return given

    # -- the collection -----------------------------------------------------------------------------------------

    def check_version(self) -> None:
        self._each(lambda shard: shard.check_version())

    def problem(self) -> str | None:
        return next((problem for problem in self._each(lambda shard: shard.problem()) if problem is not None), None)

    def create(self) -> None:
        self._each(lambda shard: shard.create())

    def index_ids(self) -> None:
        self._each(lambda shard: shard.index_ids())

    def drop(self) -> None:
        self._each(lambda shard: shard.drop())

    # -- points -------------------------------------------------------------------------------------------------

    def put(self, points: Sequence[Point]) -> None:
        markers = [point for point in points if point.row == MARKER_ROW]
        if markers:
            self._each(lambda shard: shard.put(markers))
        documents = {point.row: point for point in points if point.row != MARKER_ROW}
        self._owners(list(documents), lambda shard, own: shard.put([documents[row] for row in own]))

    def delete(self, rows: Sequence[int]) -> None:
        self._owners(rows, lambda shard, own: shard.delete(own))

    def count(self) -> int:
        counts = self._each(lambda shard: shard.count())
        return sum(counts) - (len(counts) - 1)  # the marker is on each

    def payload(self, row: int) -> Mapping[str, Any] | None:
        if row == MARKER_ROW:
            return next(iter(self._each(lambda shard: shard.payload(row))), None)
        return next(iter(self._owners([row], lambda shard, own: shard.payload(own[0]))), None)

    def nearest(self, queries: Sequence[Query], n: int) -> list[list[StoredPoint]]:
        lists = self._each(lambda shard: shard.nearest(queries, n))
        merged = ([point for answers in lists for point in answers[i]] for i in range(len(queries)))
        return [sorted(points, key=lambda point: -point.score)[:n] for points in merged]

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        """At least the n of largest inner product, by shard; fewer than n where there are no more."""
        return np.concatenate(self._each(lambda shard: shard.nearest_rows(query, n)))

    def fetch(self, rows: Sequence[int]) -> list[StoredPoint]:
        return [point for points in self._owners(rows, lambda shard, own: shard.fetch(own)) for point in points]

    def contents(self, rows: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        parts = self._owners(rows, lambda shard, own: shard.contents(own))
        return {row: content for part in parts for row, content in part.items()}

    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        return sorted(numbered for part in self._each(lambda shard: shard.rows_of(doc_ids)) for numbered in part)

    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        pages = self._each(lambda shard: shard.ids_from(row, n))
        return sorted(numbered for page in pages for numbered in page)[:n]
