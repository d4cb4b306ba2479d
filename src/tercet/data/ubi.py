"""OpenSearch's UBI as a folder: files of queries and files of events, one of each or as many as a rotated log has.

`GrowingUbi` reads such a log while it is written, as `GrowingFile` reads one file: the service writes
``ubi_queries-20261116-0001.jsonl`` and ``ubi_events-20261116-0001.jsonl``, then those of the next number or day.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, Self

from tercet.data.growing import GrowingFile, check_before
from tercet.data.json_lines import parse_json_object
from tercet.data.lines import FilePath, Refused
from tercet.data.preference_files import START, StreamPosition
from tercet.data.tables import DataTable
from tercet.data.values import Record, moment_in
from tercet.data.watching import READ_AT_ONCE
from tercet.errors import FormatError, InputError

QUERIES, EVENTS = "ubi_queries", "ubi_events"
CLICK = "click"
ATTRIBUTES = "query_attributes"
INTERLEAVED = "interleaved"  # of these: whose each document of a list is
CLICK_SECONDS = 600.0  # a click that comes later than this after its list is not counted by who follows a log

_NUMBERED = re.compile(r"-(\d{4})(\d\d)(\d\d)-(\d{4})\.jsonl$")
_MOST_FILES = 10_000  # of a day
_MOST_BYTES = 1 << 32  # of a file, so that a place in a folder is one number


@dataclass(frozen=True)
class LoggedList:
    """A list as the log of a service has it, with the clicks that came in time.

    Attributes
    ----------
    shown_at : seconds since 1970
    query_id, client : what clicks name the list by, and who saw it; empty where that is not said
    query, shown, clicked : what was searched, the ids from top to bottom, and those clicked in the order of the clicks
    attributes : whatever else the service says of it
    """

    shown_at: float
    query_id: str
    client: str
    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]
    attributes: dict[str, Any]


def ubi_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files of queries and those of events of a log of UBI, by their names and in the order of these."""
    parts = [
        sorted(file for file in folder.iterdir() if file.is_file() and what in file.name.lower())
        for what in ("queries", "events")
    ]
    for what, files in zip(("queries", "events"), parts, strict=True):
        if not files:
            raise InputError(
                f"{folder}: a folder of a click log has files of queries and of events, ubi_queries and ubi_events "
                f"(CSV, JSONL or Parquet); of {what} there is none"
            )
    return parts[0], parts[1]


def ubi_tables(folder: Path, open_one: Callable[[Path], DataTable]) -> list[DataTable]:
    """The queries and the events of a folder, each as one table."""
    tables: list[DataTable] = []
    for files in ubi_files(folder):
        parts = [open_one(file) for file in files if file.stat().st_size]
        if not parts:
            raise FormatError(files[-1], None, "nothing was logged here yet")
        tables.append(parts[0] if len(parts) == 1 else JoinedTable(parts))
    return tables


class JoinedTable(DataTable):
    """Tables of the same kind, one after the other; what is wrong with a row is named by the file that has it."""

    def __init__(self, parts: Sequence[DataTable]) -> None:
        self._parts = tuple(parts)
        self.name = parts[0].name
        self.form = f"{parts[0].form}, {len(parts)} files"
        self.is_typed = parts[0].is_typed
        self.columns = tuple(dict.fromkeys(column for part in parts for column in part.columns))

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        for part in self._parts:
            part.lists_as_json = self.lists_as_json
            self.name = part.name  # whoever has a row of it says so
            yield from part.rows(refused)


def open_growing(log: FilePath, position: StreamPosition = START) -> GrowingFile | GrowingUbi:
    """A click log to be read as it grows: a file, or a folder of UBI."""
    return GrowingUbi(Path(log), position) if os.path.isdir(log) else GrowingFile(log, position)


def check_grown(log: FilePath, position: StreamPosition, digest: str) -> None:
    """Raise a FormatError where a log is not the one that had this digest at that place; see `check_before`."""
    if not os.path.isdir(log):
        check_before(log, position, digest)
        return
    number, offset = divmod(position.at, _MOST_BYTES)
    files = _numbered(Path(log), QUERIES)
    if number in files:  # else it was removed since, as old ones are
        check_before(files[number], StreamPosition(offset, 0), digest)


def file_number(day: date, count: int) -> int:
    """What a file of a rotated log is known by, in the order of time."""
    return (day - date(1970, 1, 1)).days * _MOST_FILES + count


def _numbered(folder: Path, kind: str) -> dict[int, Path]:
    """The files of a kind by their numbers; one that has none in its name is alone."""
    files: dict[int, Path] = {}
    for path in sorted(folder.glob(f"{kind}*.jsonl")):
        match = _NUMBERED.search(path.name)
        try:
            year, month, day, count = (int(part) for part in match.groups()) if match else (1970, 1, 1, 0)
            number = file_number(date(year, month, day), count)
        except ValueError as error:
            raise InputError(f"{path}: its name has no date") from error
        if number in files:
            raise InputError(f"{folder}: {files[number].name} and {path.name} have no order; number them by day")
        files[number] = path
    return files


class _NumberedFiles:
    """Complete lines of numbered files, one file after the other, from any place on."""

    def __init__(self, folder: Path, kind: str, number: int = 0, offset: int = 0) -> None:
        self._folder, self._kind = folder, kind
        self.number, self.offset = number, offset
        self._file: GrowingFile | None = None
        self._counted = folder, 0, 0  # lines up to a place of a file

    @property
    def path(self) -> Path:
        return Path(self._file.path) if self._file is not None else self._folder

    def next(self) -> str | None:
        """The next line, or None where none is complete; `offset` then stands behind it."""
        while True:
            if self._file is None and not self._open():
                return None
            assert self._file is not None
            lines = self._file.read(1)
            if lines:
                self.offset = self._file.position.at
                return lines[0][1]
            later = [number for number in _numbered(self._folder, self._kind) if number > self.number]
            if not later:
                return None
            lines = self._file.read(1)  # that came between the last look and the next file
            if lines:
                self.offset = self._file.position.at
                return lines[0][1]
            self.close()
            self.number, self.offset = min(later), 0

    def _open(self) -> bool:
        files = _numbered(self._folder, self._kind)
        numbers = [number for number in files if number >= self.number]
        if not numbers:
            return False
        if min(numbers) != self.number:  # what was read before is gone
            self.number, self.offset = min(numbers), 0
        self._file = GrowingFile(files[self.number], StreamPosition(self.offset, 0))
        return True

    def back(self, offset: int) -> None:
        """Go back to a place in the file that is open."""
        assert self._file is not None
        path = self._file.path
        self._file.close()
        self.offset = offset
        self._file = GrowingFile(path, StreamPosition(offset, 0))

    @property
    def place(self) -> tuple[int, int]:
        """The number of the file, and where in it the next line begins."""
        return self.number, self.offset

    def go_to(self, place: tuple[int, int]) -> None:
        """Have the line there be the next one."""
        self.close()
        self.number, self.offset = place

    def error(self, message: str) -> FormatError:
        """What is wrong with the line that was read last."""
        path, offset, n_lines = self._counted
        if path != self.path or offset > self.offset:
            path, offset, n_lines = self.path, 0, 0
        with open(path, "rb") as stream:
            stream.seek(offset)
            while offset < self.offset:  # on from the last error, so that many of them cost one reading
                text = stream.read(min(READ_AT_ONCE, self.offset - offset))
                if not text:
                    break
                offset, n_lines = offset + len(text), n_lines + text.count(b"\n")
        self._counted = path, offset, n_lines
        return FormatError(path, n_lines, message)

    def digest(self) -> str:
        if self._file is None and not self._open():
            return ""
        assert self._file is not None
        self._file.position = StreamPosition(self.offset, 0)
        return self._file.digest()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class GrowingUbi:
    """Reads a log of UBI that others append to: a line for each list, once it is so old that its clicks are there.

    A list is handed out `click_seconds` after it was shown, with the clicks that came until then, so what is read does
    not depend on when. Lines are JSON as `read_clicks` takes them: query, shown, clicked, and who saw it as session.

    Parameters
    ----------
    path : the folder
    position : where to begin
    clock : gives seconds since 1970
    click_seconds : for how long clicks on a list count

    Attributes
    ----------
    position : behind the last list that was handed out
    """

    is_packed = False

    def __init__(
        self,
        path: Path,
        position: StreamPosition = START,
        clock: Callable[[], float] = time.time,
        click_seconds: float = CLICK_SECONDS,
    ) -> None:
        self.path, self.position = path, position
        self._clock, self._click_seconds = clock, click_seconds
        number, offset = divmod(position.at, _MOST_BYTES)
        self._queries = _NumberedFiles(path, QUERIES, number, offset)
        self._events = _NumberedFiles(path, EVENTS, number)  # both are rotated together
        self._clicks: dict[str, list[tuple[float, str]]] = {}
        self._next_event: tuple[float, str, str] | None = None
        self._at_event: tuple[int, int] | None = None  # place of an event that is not known to be right yet
        self._n_young = 0
        if not _numbered(path, QUERIES):
            raise InputError(
                f"{path} has no ubi_queries….jsonl, so it is no click log; expected a file or UBI's folder"
            )

    def read(self, limit: int) -> list[tuple[int, str]]:
        """At most so many lists, numbered, of those that are old enough now.

        Lists before a line that is wrong are handed out; the next call raises a FormatError, and so does each after it
        as long as the line is as it is: nothing is passed over.
        """
        lines: list[tuple[int, str]] = []
        try:
            for one in islice(self.lists(), limit):
                line = {"query": one.query, "shown": one.shown, "clicked": one.clicked, "session": one.client}
                text = json.dumps(line, ensure_ascii=False) if one.shown and one.query else ""
                lines.append((self.position.within, text))
        except FormatError:
            number, offset = divmod(self.position.at, _MOST_BYTES)
            self._queries.go_to((number, offset))
            if self._at_event is not None:
                self._events.go_to(self._at_event)
            if not lines:
                raise
        return lines

    def lists(self) -> Iterator[LoggedList]:
        """The same as they were logged, one by one; who goes on after a line that is wrong gets the next ones."""
        until = self._clock() - self._click_seconds
        self._n_young = 0
        while True:
            offset, number = self._queries.offset, self._queries.number
            text = self._queries.next()
            if text is None:
                break
            if not text.strip():
                continue
            one = self._list(text)
            if one.shown_at > until:
                self._queries.back(offset if self._queries.number == number else 0)
                self._n_young = 1
                break
            clicks = self._clicks_of(one.query_id, one.shown_at)
            self._stand(self.position.within + 1)
            shown = set(one.shown)
            yield replace(one, clicked=tuple(doc_id for doc_id in clicks if doc_id in shown))
        self._stand(self.position.within)

    def _stand(self, n_lists: int) -> None:
        self.position = StreamPosition(self._queries.number * _MOST_BYTES + self._queries.offset, n_lists)

    def _list(self, text: str) -> LoggedList:
        record = self._record(text, self._queries)
        hits = record.get("query_response_hit_ids")
        if not isinstance(hits, list) or not all(isinstance(doc_id, str) for doc_id in hits):
            raise self._queries.error('"query_response_hit_ids" must be an array of strings')
        query, query_id = record.get("user_query"), record.get("query_id")
        if not isinstance(query, str | None) or not isinstance(query_id, str):
            raise self._queries.error('"user_query" and "query_id" must be strings')
        client, attributes = record.get("client_id"), record.get(ATTRIBUTES)
        return LoggedList(
            self._time(record, self._queries),
            query_id,
            client if isinstance(client, str) else "",
            (query or "").strip(),  # none is browsing
            tuple(dict.fromkeys(hits)),
            (),
            attributes if isinstance(attributes, dict) else {},
        )

    def _clicks_of(self, query_id: str, shown_at: float) -> list[str]:
        """What was clicked on a list in time, in the order of the clicks."""
        while True:
            if self._next_event is None and not self._read_event():
                break
            assert self._next_event is not None
            clicked_at, clicked_on, doc_id = self._next_event
            if clicked_at > shown_at + self._click_seconds:
                break
            self._clicks.setdefault(clicked_on, []).append((clicked_at, doc_id))
            self._next_event = None
        clicks = self._clicks.pop(query_id, [])
        while self._clicks:  # those that came too late for a list of long ago
            oldest = next(iter(self._clicks))
            if self._clicks[oldest][-1][0] >= shown_at:
                break
            del self._clicks[oldest]
        return list(dict.fromkeys(doc_id for at, doc_id in clicks if at <= shown_at + self._click_seconds))

    def _read_event(self) -> bool:
        """Go on to the next click."""
        while True:
            self._at_event = self._events.place
            text = self._events.next()
            if text is None:
                break
            if not text.strip():
                continue
            record = self._record(text, self._events)
            if record.get("action_name") != CLICK:
                continue
            attributes = record.get("event_attributes")
            shown = attributes.get("object") if isinstance(attributes, dict) else None
            doc_id = shown.get("object_id") if isinstance(shown, dict) else None
            if not isinstance(doc_id, str) or not isinstance(record.get("query_id"), str):
                raise self._events.error('a click needs "query_id" and "event_attributes.object.object_id"')
            self._next_event = self._time(record, self._events), record["query_id"], doc_id
            self._at_event = None
            return True
        self._at_event = None
        return False

    def _record(self, text: str, lines: _NumberedFiles) -> dict[str, Any]:
        try:
            return parse_json_object(text, lines.path, 0)
        except FormatError as error:
            raise lines.error(error.message) from error

    def _time(self, record: dict[str, Any], lines: _NumberedFiles) -> float:
        moment = moment_in(str(record.get("timestamp")))
        if moment is None:
            raise lines.error(f'"timestamp" is {record.get("timestamp")!r}; a time is ISO 8601')
        return moment.timestamp()

    @property
    def n_waiting(self) -> int:
        """Whether lists wait for their clicks."""
        return self._n_young

    @property
    def waiting(self) -> str | None:
        if not self._n_young:
            return None
        minutes = self._click_seconds / 60
        return f"the latest lists wait until {minutes:.3g} minutes have passed, in which clicks may come"

    def is_replaced(self) -> bool:
        return False

    def begin_again(self) -> None:
        """Files follow each other of themselves."""

    def digest(self) -> str:
        """A digest of what stands before the place in its file."""
        return self._queries.digest()

    def close(self) -> None:
        self._queries.close()
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
