"""OpenSearch's UBI as a folder of files of queries and of events, perhaps rotated.

`GrowingUbi` follows such a log while the service writes: ``ubi_queries-20261116-0001.jsonl`` and
``ubi_events-20261116-0001.jsonl``, then the files of the next number or day.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, Self

from tercet.data.lines import READ_AT_ONCE, Refused, line_text, parse_json_object, raw_line
from tercet.data.tables import DataTable
from tercet.data.values import Record, moment_in
from tercet.errors import FormatError, InputError

QUERIES, EVENTS = "ubi_queries", "ubi_events"
CLICK = "click"
ATTRIBUTES = "query_attributes"
INTERLEAVED = "interleaved"  # attribute with the ranking that gave each document of a list
CLICK_SECONDS = 600.0  # seconds after a list; `GrowingUbi` ignores later clicks

_NUMBERED = re.compile(r"-(\d{4})(\d\d)(\d\d)-(\d{4})\.jsonl$")
_MOST_FILES = 10_000  # of a day


@dataclass(frozen=True)
class LoggedList:
    """A list in the log of a service, with its clicks in time.

    Attributes
    ----------
    shown_at : seconds since 1970
    query_id, client : id of the list, and the client; empty if unknown
    query, shown, clicked : the query, the ids from top to bottom, and the clicked ids in the order of the clicks
    attributes : other attributes of the service
    """

    shown_at: float
    query_id: str
    client: str
    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]
    attributes: dict[str, Any]


def ubi_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of queries and the files of events, sorted by name."""
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
    """Return the queries and the events of a folder, each as one table."""
    tables: list[DataTable] = []
    for files in ubi_files(folder):
        parts = [open_one(file) for file in files if file.stat().st_size]
        if not parts:
            raise FormatError(files[-1], None, "nothing was logged here yet")
        tables.append(parts[0] if len(parts) == 1 else JoinedTable(parts))
    return tables


class JoinedTable(DataTable):
    """Tables of the same kind, one after the other; errors name the file of a row."""

    def __init__(self, parts: Sequence[DataTable]) -> None:
        self._parts = tuple(parts)
        self.name = parts[0].name
        self.form = f"{parts[0].form}, {len(parts)} files"
        self.is_typed = parts[0].is_typed
        self.columns = tuple(dict.fromkeys(column for part in parts for column in part.columns))

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        for part in self._parts:
            part.lists_as_json = self.lists_as_json
            self.name = part.name  # errors name the file of the row
            yield from part.rows(refused)


def file_number(day: date, count: int) -> int:
    """Return the number of a rotated file, rising with time."""
    return (day - date(1970, 1, 1)).days * _MOST_FILES + count


def _numbered(folder: Path, kind: str) -> dict[int, Path]:
    """Return the files of a kind by their numbers."""
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
    """Complete lines of numbered files; half a line at the end waits for its rest.

    Attributes
    ----------
    number, path : the open file
    offset : beginning of the next line
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder, self._kind = folder, kind
        self.number, self.offset, self.path = 0, 0, folder
        self._stream: BinaryIO | None = None
        self._counted = folder, 0, 0  # lines up to a place of a file

    def next(self) -> str | None:
        """Return the next complete line, or None."""
        while True:
            if self._stream is None and not self._open():
                return None
            line = self._line()
            if line is not None:
                return line
            later = [number for number in _numbered(self._folder, self._kind) if number > self.number]
            if not later:
                return None
            line = self._line()  # a line written between the last read and the next file
            if line is not None:
                return line
            self.close()
            self.number, self.offset = min(later), 0

    def _open(self) -> bool:
        files = _numbered(self._folder, self._kind)
        numbers = [number for number in files if number >= self.number]
        if not numbers:
            return False
        if min(numbers) != self.number:  # the old file was removed
            self.number, self.offset = min(numbers), 0
        self.path = files[self.number]
        self._stream = open(self.path, "rb")  # noqa: SIM115  (the next call reads on; `close` closes the file)
        self._stream.seek(self.offset)
        return True

    def _line(self) -> str | None:
        assert self._stream is not None
        start = self.offset
        try:
            raw = raw_line(self._stream, self.path, 0)
            if not raw.endswith(b"\n"):
                self._stream.seek(start)
                size = os.fstat(self._stream.fileno()).st_size
                if size < start:
                    message = f"the file has {size} bytes, and {start} were read before: it was cut off or written anew"
                    raise FormatError(self.path, None, message)
                return None
            self.offset += len(raw)
            return line_text(raw, self.path, 0 if start else 1, start)
        except FormatError as error:
            if error.line is None:
                raise
            self.offset = self._stream.tell()
            raise self.error(error.message) from error

    def back(self, offset: int) -> None:
        """Go back in the open file."""
        assert self._stream is not None
        self.offset = self._stream.seek(offset)

    def error(self, message: str) -> FormatError:
        """Return the error of the last line."""
        path, offset, n_lines = self._counted
        if path != self.path or offset > self.offset:
            path, offset, n_lines = self.path, 0, 0
        with open(path, "rb") as stream:
            stream.seek(offset)
            while offset < self.offset:  # count on from the last error: many errors cost one pass
                text = stream.read(min(READ_AT_ONCE, self.offset - offset))
                if not text:
                    break
                offset, n_lines = offset + len(text), n_lines + text.count(b"\n")
        self._counted = path, offset, n_lines
        return FormatError(path, n_lines, message)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class GrowingUbi:
    """Follows a log of UBI: yields each list once, `click_seconds` after its time, with the clicks until then.

    The result does not depend on the times of reading.

    Parameters
    ----------
    path : the folder
    clock : returns seconds since 1970
    click_seconds : time for clicks on a list

    Attributes
    ----------
    waits : True if lists wait for their clicks
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, click_seconds: float = CLICK_SECONDS
    ) -> None:
        self._clock, self._click_seconds = clock, click_seconds
        self._queries, self._events = _NumberedFiles(path, QUERIES), _NumberedFiles(path, EVENTS)
        self._clicks: dict[str, list[tuple[float, str]]] = {}
        self._next_event: tuple[float, str, str] | None = None
        self.waits = False
        if not _numbered(path, QUERIES):
            raise InputError(
                f"{path} has no ubi_queries….jsonl, so it is no click log; expected a file or UBI's folder"
            )

    def lists(self) -> Iterator[LoggedList]:
        """Yield new lists of sufficient age; after a FormatError of a line, the next call continues after the line."""
        until = self._clock() - self._click_seconds
        self.waits = False
        while True:
            offset, number = self._queries.offset, self._queries.number
            text = self._queries.next()
            if text is None:
                break
            if not text.strip():
                continue
            shown_list = self._list(text)
            if shown_list.shown_at > until:
                self._queries.back(offset if self._queries.number == number else 0)
                self.waits = True
                break
            clicks = self._clicks_of(shown_list.query_id, shown_list.shown_at)
            shown_ids = set(shown_list.shown)
            yield replace(shown_list, clicked=tuple(doc_id for doc_id in clicks if doc_id in shown_ids))

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
        """Return the documents clicked in time, in the order of the clicks."""
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
        while self._clicks:  # drop clicks that came too late for old lists
            oldest = next(iter(self._clicks))
            if self._clicks[oldest][-1][0] >= shown_at:
                break
            del self._clicks[oldest]
        return list(dict.fromkeys(doc_id for at, doc_id in clicks if at <= shown_at + self._click_seconds))

    def _read_event(self) -> bool:
        """Go on to the next click."""
        while (text := self._events.next()) is not None:
            if not text.strip():
                continue
            record = self._record(text, self._events)
            if record.get("action_name") != CLICK:
                continue
            attributes = record.get("event_attributes")
            clicked_object = attributes.get("object") if isinstance(attributes, dict) else None
            doc_id = clicked_object.get("object_id") if isinstance(clicked_object, dict) else None
            if not isinstance(doc_id, str) or not isinstance(record.get("query_id"), str):
                raise self._events.error('a click needs "query_id" and "event_attributes.object.object_id"')
            self._next_event = self._time(record, self._events), record["query_id"], doc_id
            return True
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

    def close(self) -> None:
        self._queries.close()
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
