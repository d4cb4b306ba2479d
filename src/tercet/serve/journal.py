"""The journal: every preference, click and withdrawal in the order in which they came, each on disk before its answer.

A line is ``{"sum": S, "entry": {…}}``. S is a SHA-256 of the entry and of the sum before it, so a line that was
changed, moved or taken out is found. An entry is acknowledged when its line is synced. A kill may leave the beginning
of a line at the end of the file: nobody was told that it is kept, and it is cut off when the journal is opened again.
Any other damage is an error that names the line, since what follows depends on it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from tercet.errors import FormatError, InputError, JournalError
from tercet.store.atomic import sync_folder, try_lock
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT

Trust = Literal["visitor", "vouched", "teacher"]


@dataclass(frozen=True)
class Entry:
    """What every entry has: its number from 1, when it came, and from whom.

    ``client`` is what limits are counted by: the address, and a slash and the name where the request gave one.
    """

    kind: ClassVar[str]
    number: int
    time: str
    client: str

    @property
    def address(self) -> str:
        return self.client.partition("/")[0]

    def to_meta(self) -> dict[str, Any]:
        return encode(self)[0]


@dataclass(frozen=True)
class Preferred(Entry):
    """Somebody said that for a query one document is better than another.

    ``trust`` is which allowance pays for it, as `Allowances` has them. Entries of services that gave allowances for
    life have none, and are paid for as they were then.
    """

    kind = "prefer"
    query: str
    better: str
    worse: str
    trust: Annotated[Trust | None, OMIT_DEFAULT] = None

    def __post_init__(self) -> None:
        _check_time(self)


@dataclass(frozen=True)
class Clicked(Entry):
    """Somebody saw a list and clicked some of it; ``trust`` as `Preferred` has it."""

    kind = "clicks"
    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]
    trust: Annotated[Trust | None, OMIT_DEFAULT] = None

    def __post_init__(self) -> None:
        _check_time(self)


def seconds_of(entry: Entry) -> float:
    """When an entry came, in seconds since 1970."""
    return datetime.fromisoformat(entry.time).timestamp()


def _check_time(entry: Preferred | Clicked) -> None:
    """Allowances renew by the times of entries."""
    if entry.trust is not None:
        try:
            seconds_of(entry)
        except ValueError as error:
            raise InputError(f"time is {entry.time!r}; expected one like 2026-11-15T18:20:00.123Z") from error


@dataclass(frozen=True)
class Withdrawn(Entry):
    """Earlier entries count no more: undone by who made them, or revoked."""

    kind = "withdraw"
    reason: str
    entries: tuple[int, ...]


@dataclass(frozen=True)
class Renewed(Entry):
    """What was taught up to here has become part of a model: from here on every allowance is whole again.

    ``of`` names the promotion, so that each renews them once.
    """

    kind = "renew"
    reason: Literal["bake", "promote"]
    of: Annotated[str, OMIT_DEFAULT] = ""


_KINDS: dict[str, type] = {kind.kind: kind for kind in (Preferred, Clicked, Withdrawn, Renewed)}


def entry_of(meta: Any) -> Entry:
    """The entry that `Entry.to_meta` described; anything else is an `InputError` that says what is wrong.

    Examples
    --------
    >>> entry_of({"kind": "prefer", "number": 1, "time": "", "client": "", "query": "q", "better": "a", "worse": "b"})
    Preferred(number=1, time='', client='', query='q', better='a', worse='b', trust=None)
    """
    return decode(Entry, meta, where="entry", error=InputError, kinds={Entry: _KINDS})


E = TypeVar("E", bound=Entry)

HEADER = '{"tercet-journal": 1}\n'

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadJournal:
    """A journal as it is on disk: its entries, the last sum, and how many of its bytes are whole lines."""

    entries: tuple[Entry, ...]
    last_sum: str
    n_bytes: int
    torn_bytes: int


def read_journal(path: str | PathLike[str]) -> ReadJournal:
    """Read a journal. The beginning of a line at the end is left out; other damage raises `FormatError`."""
    with open(path, "rb") as file:
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    torn = len(data) - len(whole)
    if not whole:
        if data and not HEADER.encode().startswith(data):
            raise FormatError(path, 1, f"found {data[:60]!r}; a journal begins with {HEADER.strip()}")
        return ReadJournal((), "", 0, torn)
    lines = whole[:-1].split(b"\n")
    if lines[0] != HEADER.strip().encode():
        raise FormatError(path, 1, f"found {lines[0][:60]!r}; a journal begins with {HEADER.strip()}")
    entries: list[Entry] = []
    last_sum = ""
    for number, line in enumerate(lines[1:], start=2):
        entry, last_sum = _parsed(line, last_sum, path, number)
        if entry.number != len(entries) + 1:
            raise FormatError(path, number, f"found entry {entry.number}; expected entry {len(entries) + 1}")
        entries.append(entry)
    return ReadJournal(tuple(entries), last_sum, len(whole), torn)


def _spelled(entry: Entry, last_sum: str) -> tuple[bytes, str]:
    body = json.dumps(entry.to_meta(), separators=(",", ":"), allow_nan=False)
    own_sum = hashlib.sha256(f"{last_sum}{body}".encode()).hexdigest()[:32]
    return f'{{"sum":"{own_sum}","entry":{body}}}\n'.encode(), own_sum


def _parsed(line: bytes, last_sum: str, path: str | PathLike[str], number: int) -> tuple[Entry, str]:
    try:
        record: Any = json.loads(line)
        entry = entry_of(record["entry"] if isinstance(record, dict) and set(record) == {"sum", "entry"} else record)
    except InputError as error:
        raise FormatError(path, number, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(path, number, f"the line is damaged: {error}; found {line[:60]!r}") from error
    spelled, own_sum = _spelled(entry, last_sum)
    if spelled[:-1] != line:
        raise FormatError(
            path, number, "the checksum does not fit: this line or the one before it is not as it was written"
        )
    return entry, own_sum


class Journal:
    """A journal that one process has open for writing.

    Parameters
    ----------
    path : the file; it and its folder are made where they are missing
    most_bytes : size at which it takes no more

    Examples
    --------
    >>> import tempfile
    >>> from tercet.serve.journal import Preferred
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(Path(folder, "journal.jsonl")) as journal:
    ...         _ = journal.append(lambda n: Preferred(n, "2026-01-01T00:00:00Z", "me", "eyes", "a", "b"))
    ...     [entry.number for entry in read_journal(Path(folder, "journal.jsonl")).entries]
    [1]
    """

    def __init__(self, path: str | PathLike[str], most_bytes: int = 2**30) -> None:
        self.path = Path(path)
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._broken: str | None = None
        _make_folder(self.path.parent)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if not try_lock(self._file):
                raise JournalError(f"{self.path} is in use by another service; this one needs a journal of its own")
            kept = read_journal(self.path)
            self.torn_bytes = kept.torn_bytes
            if kept.torn_bytes:
                _log.warning(
                    "%s: the last line was cut short by a kill and never acknowledged; its %d bytes are dropped",
                    self.path,
                    kept.torn_bytes,
                )
            os.ftruncate(self._file, kept.n_bytes)
            os.lseek(self._file, kept.n_bytes, os.SEEK_SET)
            self._n_bytes, self._last_sum = kept.n_bytes, kept.last_sum
            self.entries: list[Entry] = list(kept.entries)
            if not self._n_bytes:
                self._write(HEADER.encode())
            os.fsync(self._file)
            sync_folder(self.path.parent)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def n_bytes(self) -> int:
        return self._n_bytes

    def append(self, make: Callable[[int], E], then: Callable[[E], None] | None = None) -> E:
        """Write the entry that ``make`` gives for the next number; returns when it is synced.

        ``then`` is called before the next entry can be written. Raises `JournalError` where the disk refuses, and
        where the file is no longer the one at its path, since a restart would not find what is written to it.
        """
        with self._lock:
            if self._broken is not None:
                raise JournalError(self._broken)
            self._check_file()
            entry = make(len(self.entries) + 1)
            line, own_sum = _spelled(entry, self._last_sum)
            if self._n_bytes + len(line) > self._most_bytes:
                raise JournalError(f"the journal has {self._n_bytes:,} bytes; {self._most_bytes:,} are the most")
            before = self._n_bytes
            try:
                self._write(line)
                os.fsync(self._file)
            except OSError as error:
                self._take_back(before, error)
                raise JournalError(f"the journal cannot be written: {error.strerror}") from error
            self._last_sum = own_sum
            self.entries.append(entry)
            if then is not None:
                then(entry)
            return entry

    def _check_file(self) -> None:
        try:
            open_file, file_there = os.fstat(self._file), os.stat(self.path)
        except OSError as error:
            raise JournalError(f"the journal is not at its place any more: {error.strerror}") from error
        if not os.path.samestat(open_file, file_there):
            raise JournalError("another file is at the place of the journal; restart the service to use that one")
        if open_file.st_size != self._n_bytes:
            raise JournalError(
                f"somebody else changed the journal: it has {open_file.st_size:,} bytes and was left with "
                f"{self._n_bytes:,}"
            )

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self._n_bytes += len(data)

    def _take_back(self, n_bytes: int, error: OSError) -> None:
        """Leave the file as it was; where even that fails, take nothing more, since what is on disk is not known."""
        self._n_bytes = n_bytes
        try:
            os.ftruncate(self._file, n_bytes)
            os.lseek(self._file, n_bytes, os.SEEK_SET)
            os.fsync(self._file)
        except OSError as second:
            self._broken = f"the journal takes no more until a restart: {error.strerror}, then {second.strerror}"
            _log.error("%s: %s", self.path, self._broken)

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                self._broken = "the journal is closed"
                os.close(self._file)
                self._file = -1


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each synced in the one that holds it: a power cut must not take it."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)
