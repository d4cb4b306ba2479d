"""Lists of documents shown together, made of rows and events, in the order of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from tercet.data.clicks import ClickLog, Impression
from tercet.data.lines import Refused
from tercet.data.local_formats import DATES, ColumnFormat
from tercet.data.tables import DataTable
from tercet.data.values import Record, Value, moment_in, number_in
from tercet.errors import FormatError

_FEW = 16  # positions of a list that are compared one by one
NO_LISTS = "the log holds no lists of shown documents"


class PlacedList(NamedTuple):
    """A shown list with its time and session, and marks of random and interleaved order."""

    time: float | None
    impression: Impression
    session: str | None = None
    is_random: bool = False
    is_interleaved: bool = False


@dataclass(slots=True)
class ShownList:
    """Documents shown together, as rows come."""

    query: str
    began: int
    time: float | None = None
    positions: dict[str, float | None] = field(default_factory=dict)
    taken: set[float] | None = None  # the positions of a long list
    clicks: dict[str, None] = field(default_factory=dict)
    session: str | None = None
    is_random: bool = False
    is_interleaved: bool = False

    def add(self, documents: Mapping[str, float | None]) -> None:
        """Add documents with their positions; a repeated document keeps its first position."""
        for doc_id, position in documents.items():
            self.positions.setdefault(doc_id, position)
        if self.taken is not None:
            self.taken.update(position for position in documents.values() if position is not None)

    def has_position(self, position: float | None) -> bool:
        """Return True if a document has the position."""
        if position is None:
            return False
        if len(self.positions) <= _FEW:
            return position in self.positions.values()
        if self.taken is None:
            self.taken = {taken for taken in self.positions.values() if taken is not None}
        return position in self.taken

    def placed(self) -> PlacedList:
        return PlacedList(self.time, self.impression(), self.session, self.is_random, self.is_interleaved)

    def impression(self) -> Impression:
        docs = list(self.positions)
        positions = list(self.positions.values())
        if None not in positions and positions != sorted(positions):  # type: ignore[type-var]
            docs.sort(key=self.positions.__getitem__)  # type: ignore[arg-type]
        clicked = tuple([doc_id for doc_id in self.clicks if doc_id in self.positions])
        return Impression(self.query, tuple(docs), clicked)


class ListKey(NamedTuple):
    """Key of the rows of a list: the id of the search, or else the session, if known; and the query."""

    group: Any
    query: str
    is_id: bool

    @staticmethod
    def from_row(search: Value, session: Value, query: str) -> ListKey:
        return ListKey(session, query, False) if search in (None, "") else ListKey(search, query, True)


class ShownLists:
    """Puts documents shown together into lists."""

    def __init__(self) -> None:
        self.lists: list[ShownList] = []
        self.n_lost = self.n_repeated = 0
        self._of_key: dict[ListKey, list[ShownList]] = {}
        self._n_clicks = 0
        self._waiting: list[tuple[ListKey, str, int]] = []  # clicks whose list may still come
        self._keys_waiting: set[ListKey] = set()
        self._last_key: ListKey | None = None

    def show(self, key: ListKey, doc_id: str, position: float | None, time: float | None) -> ShownList:
        """Add a document to its list."""
        shown = self._open_list(key, doc_id, position)
        if shown is None:
            shown = ShownList(key.query, self._n_clicks, time)
            self._of_key.setdefault(key, []).append(shown)
            self.lists.append(shown)
        shown.add({doc_id: position})
        if time is not None and shown.time is not None:
            shown.time = min(time, shown.time)
        self._last_key = key
        return shown

    def _open_list(self, key: ListKey, doc_id: str, position: float | None) -> ShownList | None:
        """Return the list that a document continues, or None for the first document of a list."""
        lists = self._of_key.get(key)
        if lists is None or key.is_id:
            return lists[-1] if lists else None
        again = doc_id in lists[-1].positions or lists[-1].has_position(position)
        return None if again or (key.group is None and key != self._last_key) else lists[-1]

    def show_together(
        self, key: ListKey, docs: Sequence[str], positions: Sequence[float | None], times: Sequence[float | None]
    ) -> ShownList | None:
        """Add consecutive documents of a list; return None, and add none, if a document may begin a new list."""
        shown = self._open_list(key, docs[0], positions[0])
        fresh = dict(zip(docs, positions, strict=True))
        taken = set(positions) - {None}
        repeats = len(fresh) < len(docs) or (not key.is_id and len(taken) + positions.count(None) < len(docs))
        if shown is not None:
            repeats |= not fresh.keys().isdisjoint(shown.positions.keys())  # goes through the smaller
            repeats |= not key.is_id and any(map(shown.has_position, taken))
        if repeats:
            return None
        first = self.show(key, docs[0], positions[0], times[0])
        first.add(fresh)
        if first.time is not None and times[0] is not None:
            first.time = min(first.time, min(times))  # type: ignore[type-var]
        return first

    def click(self, key: ListKey, doc_id: str) -> None:
        """Add a click; the list may come later in the file."""
        lists = self._of_key.get(key, ())
        if lists and doc_id in lists[-1].positions and key not in self._keys_waiting:
            self._add_click(lists[-1], doc_id)
        else:  # later clicks of the key wait, too, to keep their order
            self._keys_waiting.add(key)
            self._waiting.append((key, doc_id, self._n_clicks))
        self._n_clicks += 1

    def _add_click(self, shown: ShownList, doc_id: str) -> None:
        self.n_repeated += doc_id in shown.clicks
        shown.clicks[doc_id] = None

    def close(self) -> None:
        """Give each click to the last list before the click with its key and document, else to the first."""
        lists_with: dict[tuple[ListKey, str], list[ShownList]] = {}
        for key in self._keys_waiting:
            for shown in self._of_key.get(key, ()):
                for doc_id in shown.positions:
                    lists_with.setdefault((key, doc_id), []).append(shown)
        for key, doc_id, order in self._waiting:
            lists = lists_with.get((key, doc_id), [])
            if lists:
                n_before = bisect_right(lists, order, key=lambda shown: shown.began)  # they begin one after the other
                self._add_click(lists[max(0, n_before - 1)], doc_id)
            else:
                self.n_lost += 1
        self._waiting.clear()
        self._of_key.clear()

    def take_placed(self) -> Iterator[PlacedList]:
        """Yield the lists with their times, and forget them."""
        lists, self.lists = self.lists[::-1], []
        while lists:
            yield lists.pop().placed()


class Times:
    """Reads times of a column, if any: ISO 8601, seconds or milliseconds since 1970, or local dates."""

    def __init__(self, table: DataTable, column: str | None, is_given: bool) -> None:
        self.table, self.column = table, column
        self.notes: tuple[str, ...] = ()
        self._dates: ColumnFormat | None = None
        if column is None:
            return
        ignored: Refused = lambda problem: None  # noqa: E731  (told when the rows are read)
        values = (row[column] for _, row in table.rows(ignored) if row.get(column) is not None)
        first = next(values, None)
        if isinstance(first, str) and _seconds(first) is None:
            dates = ColumnFormat(str(value).strip() for value in chain([first], values))
            if dates.name in DATES:
                self._dates, self.notes = dates, (f"click log: {column!r} holds {dates.name}.",)
                return
        if not is_given and (first is None or _seconds(first) is None):
            self.notes = (
                f"click log: {self.column!r} holds {first!r}, which is no time (ISO 8601, or seconds since 1970), so "
                "the order of the rows stands for it.",
            )
            self.column = None

    def time_of(self, row: Record, number: int) -> float | None:
        return None if self.column is None else self.time_in(row.get(self.column), number)

    def time_in(self, value: Value, number: int) -> float:
        """The seconds since 1970 in a cell."""
        text = self._dates.convert(str(value).strip()) if self._dates is not None and value is not None else value
        seconds = None if text is None else _seconds(text)
        if seconds is None:
            raise self.table.error(number, f"{self.column} {value!r}; a time is ISO 8601, or seconds since 1970")
        return seconds

    def __str__(self) -> str:
        return "" if self.column is None else f"; time: {self.column}"


def _seconds(value: Value) -> float | None:
    number = number_in(value.strip()) if isinstance(value, str) else value
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number / 1000 if number > 1e11 else float(number)
    moment = moment_in(str(value).strip())
    return None if moment is None else moment.timestamp()


def session_in(value: Value) -> str | None:
    """Return the session in a cell, or None."""
    return None if value is None or value == "" else str(value)


def log_in_order(lists: Iterable[PlacedList], form: str, notes: Sequence[str], name: str) -> ClickLog:
    """Return lists sorted by time if all have a time, else in file order."""
    placed = list(lists)
    is_timed = bool(placed) and all(one.time is not None for one in placed)
    if is_timed:
        placed.sort(key=lambda one: one.time)  # type: ignore[arg-type, return-value]
    log = ClickLog(
        tuple(one.impression for one in placed),
        is_timed,
        tuple(notes),
        form,
        # A list without a session is one of its own.
        tuple(one.session or f"list {number}" for number, one in enumerate(placed))
        if any(one.session for one in placed)
        else (),
        tuple(one.is_random for one in placed) if any(one.is_random for one in placed) else (),
        interleaved=tuple(one.is_interleaved for one in placed) if any(one.is_interleaved for one in placed) else (),
    )
    if not log.impressions:
        raise FormatError(name, None, NO_LISTS)
    return log
