"""Lists of documents shown together, made of rows and events, in the order of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from tercet.data.batches import BadCell
from tercet.data.clicks import ClickLog, Impression
from tercet.data.lines import Refused
from tercet.data.local_formats import DATES, ColumnFormat
from tercet.data.tables import DataTable
from tercet.data.values import Value, moment_in, number_in
from tercet.errors import FormatError

_FEW = 16  # most positions of a list that are compared one by one
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
    clicks: Collection[str] = ()  # each once
    session: str | None = None
    is_random: bool = False
    is_interleaved: bool = False

    def add(self, docs: Sequence[str], positions: Sequence[float | None]) -> None:
        """Add documents with their positions; a repeated document keeps its first position."""
        fresh = dict(zip(docs, positions, strict=True))
        if len(fresh) == len(docs) and fresh.keys().isdisjoint(
            self.positions.keys()
        ):  # isdisjoint iterates over its argument
            self.positions.update(fresh)
        else:
            for doc_id, position in zip(docs, positions, strict=True):
                self.positions.setdefault(doc_id, position)
        if self.taken is not None:
            self.taken.update(position for position in positions if position is not None)

    def has_any(self, docs: Sequence[str], positions: Sequence[float | None]) -> bool:
        """Return True if one of the documents or of the positions is in the list."""
        return any(doc_id in self.positions for doc_id in docs) or any(map(self._has_position, positions))

    def _has_position(self, position: float | None) -> bool:
        if position is None:
            return False
        if len(self.positions) <= _FEW:
            return position in self.positions.values()
        if self.taken is None:
            self.taken = {taken for taken in self.positions.values() if taken is not None}
        return position in self.taken

    def click(self, doc_id: str) -> bool:
        """Add a click; False for a repeated click."""
        if doc_id in self.clicks:
            return False
        if isinstance(self.clicks, dict):
            self.clicks[doc_id] = None
        elif len(self.clicks) == _FEW:
            self.clicks = dict.fromkeys((*self.clicks, doc_id))
        else:
            self.clicks = (*self.clicks, doc_id)
        return True

    def placed(self) -> PlacedList:
        docs = list(self.positions)
        positions = list(self.positions.values())
        if None not in positions and positions != sorted(positions):  # type: ignore[type-var]
            docs.sort(key=self.positions.__getitem__)  # type: ignore[arg-type]
        clicked = tuple([doc_id for doc_id in self.clicks if doc_id in self.positions])
        impression = Impression(self.query, tuple(docs), clicked)
        return PlacedList(self.time, impression, self.session, self.is_random, self.is_interleaved)


class ListKey(NamedTuple):
    """Key of the rows of a list: the id of the search, or else the session, if known; and the query."""

    group: str | None
    query: str
    is_id: bool

    @staticmethod
    def from_row(search: str | None, session: str | None, query: str) -> ListKey:
        return ListKey(session, query, False) if search is None else ListKey(search, query, True)


class ShownLists:
    """Puts documents shown together into lists."""

    def __init__(self) -> None:
        self.lists: list[ShownList] = []
        self.n_lost = self.n_repeated = 0
        self._of_key: dict[ListKey, list[ShownList]] = {}
        self._n_clicks = 0
        self._waiting: list[tuple[ListKey, str, int]] = []  # clicks on lists that may follow
        self._keys_waiting: set[ListKey] = set()
        self._last_key: ListKey | None = None

    def show(
        self, key: ListKey, docs: Sequence[str], positions: Sequence[float | None], times: Sequence[float | None]
    ) -> ShownList | None:
        """Add documents of consecutive rows to a list; return None, and add none, if they are of several lists.

        Without the id of a search, a repeated document or position begins a new list.
        """
        shown_list = self._of_key[key][-1] if key in self._of_key else None
        if not key.is_id:
            n_distinct = len(set(positions) - {None}) + positions.count(None)
            if len(set(docs)) < len(docs) or n_distinct < len(docs):
                return None
            is_other = key.group is None and key != self._last_key
            if shown_list is not None and (is_other or shown_list.has_any(docs[:1], positions[:1])):
                shown_list = None
            elif shown_list is not None and shown_list.has_any(docs, positions):
                return None
        if shown_list is None:
            shown_list = ShownList(key.query, self._n_clicks, times[0])
            self._of_key.setdefault(key, []).append(shown_list)
            self.lists.append(shown_list)
        shown_list.add(docs, positions)
        if shown_list.time is not None and times[0] is not None:
            shown_list.time = min(shown_list.time, min(times))  # type: ignore[type-var]
        self._last_key = key
        return shown_list

    def click(self, key: ListKey, doc_id: str) -> None:
        """Add a click; the list may come later in the file."""
        lists = self._of_key.get(key, ())
        if lists and doc_id in lists[-1].positions and key not in self._keys_waiting:
            self.n_repeated += not lists[-1].click(doc_id)
        else:  # later clicks of the key also wait, to keep their order
            self._keys_waiting.add(key)
            self._waiting.append((key, doc_id, self._n_clicks))
        self._n_clicks += 1

    def close(self) -> None:
        """Give each click to the last list before the click with its key and document, else to the first."""
        lists_with: dict[tuple[ListKey, str], list[ShownList]] = {}
        for key in self._keys_waiting:
            for shown_list in self._of_key.get(key, ()):
                for doc_id in shown_list.positions:
                    lists_with.setdefault((key, doc_id), []).append(shown_list)
        for key, doc_id, order in self._waiting:
            lists = lists_with.get((key, doc_id), [])
            if lists:
                n_before = bisect_right(
                    lists, order, key=lambda shown_list: shown_list.began
                )  # lists are sorted by their beginning
                self.n_repeated += not lists[max(0, n_before - 1)].click(doc_id)
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
        self.column = column
        self.notes: tuple[str, ...] = ()
        self._dates: ColumnFormat | None = None
        if column is None:
            return
        ignored: Refused = lambda problem: None  # noqa: E731  (errors are raised when the rows are read)
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

    def time_in(self, value: Value) -> float | None:
        """The seconds since 1970 in a cell; None without a column of times."""
        if self.column is None:
            return None
        text = self._dates.convert(str(value).strip()) if self._dates is not None and value is not None else value
        seconds = None if text is None else _seconds(text)
        if seconds is None:
            raise BadCell(f"{value!r}; a time is ISO 8601, or seconds since 1970")
        return seconds

    def __str__(self) -> str:
        return "" if self.column is None else f"; time: {self.column}"


def _seconds(value: Value) -> float | None:
    number = number_in(value.strip()) if isinstance(value, str) else value
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number / 1000 if number > 1e11 else float(number)
    moment = moment_in(str(value).strip())
    return None if moment is None else moment.timestamp()


def log_in_order(lists: Iterable[PlacedList], form: str, notes: Sequence[str], name: str) -> ClickLog:
    """Return lists sorted by time if all have a time, else in file order."""
    placed = list(lists)
    is_timed = bool(placed) and all(shown_list.time is not None for shown_list in placed)
    if is_timed:
        placed.sort(key=lambda shown_list: shown_list.time)  # type: ignore[arg-type, return-value]
    log = ClickLog(
        tuple(shown_list.impression for shown_list in placed),
        is_timed,
        tuple(notes),
        form,
        # A list without a session is its own session.
        tuple(shown_list.session or f"list {number}" for number, shown_list in enumerate(placed))
        if any(shown_list.session for shown_list in placed)
        else (),
        tuple(shown_list.is_random for shown_list in placed)
        if any(shown_list.is_random for shown_list in placed)
        else (),
        interleaved=tuple(shown_list.is_interleaved for shown_list in placed)
        if any(shown_list.is_interleaved for shown_list in placed)
        else (),
    )
    if not log.impressions:
        raise FormatError(name, None, NO_LISTS)
    return log
