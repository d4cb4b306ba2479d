"""Actions of teachers: a SQLite file with one row for each action.

A row has the query as text and documents by id, and outlives every index and model. `number` counts actions;
`revision` counts changes, with undos. A checksum covers all other columns of a row.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from tercet.data.lines import FilePath
from tercet.data.triplets import Triplet
from tercet.errors import FormatError, VersionError

_log = logging.getLogger(__name__)

APPLICATION_ID: Final = 0x54637474
SCHEMA_VERSION: Final = 1
USE: Final = "use"  # kind of an action that also trains memory
_MAGIC: Final = b"SQLite format 3\0"

Pair = tuple[str, str]  # ids of the better and of the worse document


@dataclass(frozen=True)
class Action:
    """An action of a teacher.

    Attributes
    ----------
    number : counts actions from 1
    revision : number of the last change of the row
    time : ISO 8601 in UTC
    token : name of the teacher's token
    kind : "prefer", "reject", "move", or "use" for documents that answered, and the other documents shown
    query : text of the query
    pairs : better and worse documents, in the order of learning
    undone, undone_by : time of the undo, and the name of its token; None while the action counts
    """

    number: int
    revision: int
    time: str
    token: str
    kind: str
    query: str
    pairs: tuple[Pair, ...]
    undone: str | None = None
    undone_by: str | None = None

    @property
    def is_active(self) -> bool:
        """True unless the action was undone."""
        return self.undone is None

    def to_row(self) -> tuple[Any, ...]:
        """Return the columns of the row, the checksum last."""
        columns = [getattr(self, name) for name in COLUMNS]
        columns[_PAIRS] = json.dumps(self.pairs)
        return (*columns, checksum(columns))


COLUMNS: Final = tuple(field.name for field in fields(Action))
_PAIRS: Final = COLUMNS.index("pairs")


def checksum(columns: list[Any]) -> str:
    """Return the checksum of a row without its checksum."""
    return hashlib.sha256(json.dumps(columns, default=repr).encode()).hexdigest()[:32]


class Rows(NamedTuple):
    """Actions in the order of their numbers, and numbers of rows with a wrong checksum."""

    actions: list[Action]
    damaged: list[int]


class TaughtFile(NamedTuple):
    """Content of a file: the id of the store, actions, and numbers of damaged rows."""

    store: str
    actions: list[Action]
    damaged: list[int]

    @property
    def last(self) -> int:
        """Number of the last action, or 0."""
        return max((action.number for action in self.actions), default=0)

    @property
    def triplets(self) -> list[Triplet]:
        """Preferences of the counting actions: query, better and worse document."""
        active = (action for action in self.actions if action.is_active)
        return [(action.query, better, worse) for action in active for better, worse in action.pairs]


def is_taught(path: FilePath) -> bool:
    """Return True for a SQLite file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_taught(path: FilePath) -> TaughtFile:
    """Read the file of a service, also of a running one.

    Raises `FormatError` for any other file and for a damaged one. A row with a wrong checksum is left out.
    """
    with closing(connect(path, "ro")) as connection:
        store = store_of(connection, path)
        return TaughtFile(store, *read_rows(connection, path))


def connect(path: FilePath, mode: str) -> sqlite3.Connection:
    """Open a file of SQLite: mode "ro" reads, "rwc" writes and creates."""
    address = f"{Path(path).absolute().as_uri()}?mode={mode}"
    try:
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0)
    except sqlite3.Error as error:
        raise FormatError(path, None, f"the file cannot be opened: {error}") from error


def store_of(connection: sqlite3.Connection, path: FilePath) -> str:
    """Return the id of the store, and refuse any other file."""
    try:
        [application], [version] = (connection.execute(f"PRAGMA {name}").fetchone() for name in _HEADER)
        if application != APPLICATION_ID:
            raise FormatError(path, None, "this SQLite file does not hold what was taught to a service")
        if version > SCHEMA_VERSION:
            raise VersionError(f"{path} has schema {version}; this version of Tercet reads {SCHEMA_VERSION}")
        [store] = connection.execute("SELECT id FROM store").fetchone()
        return str(store)
    except (sqlite3.Error, TypeError) as error:
        raise FormatError(path, None, f"the file is damaged ({error}); put a backup in its place") from error


_HEADER: Final = ("application_id", "user_version")


def read_rows(connection: sqlite3.Connection, path: FilePath, where: str = "", values: Sequence[int] = ()) -> Rows:
    """Read all rows, or the rows of a WHERE clause with values."""
    select = f"SELECT {', '.join((*COLUMNS, 'checksum'))} FROM taught {where} ORDER BY number"
    damaged: list[int] = []
    try:
        actions = list(_checked(connection.execute(select, values), damaged))
    except sqlite3.Error as error:
        raise FormatError(path, None, f"the file is damaged ({error}); put a backup in its place") from error
    if damaged:
        _log.warning("%s: rows %s are damaged and skipped", path, ", ".join(map(str, damaged)))
    return Rows(actions, damaged)


def _checked(rows: Iterable[tuple[Any, ...]], damaged: list[int]) -> Iterator[Action]:
    for row in rows:
        columns = list(row[:-1])
        if checksum(columns) == row[-1]:
            columns[_PAIRS] = tuple((better, worse) for better, worse in json.loads(columns[_PAIRS]))
            yield Action(*columns)
        else:
            damaged.append(int(row[0]))
