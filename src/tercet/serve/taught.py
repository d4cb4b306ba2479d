"""Store of taught actions: a SQLite file in WAL mode with one writing service.

An action is on disk when `add` or `undo` returns: ``synchronous=FULL`` syncs the log at every commit. One transaction
creates the tables, so the next start completes an interrupted first start.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final

from tercet.data.taught import (
    APPLICATION_ID,
    COLUMNS,
    SCHEMA_VERSION,
    Action,
    Pair,
    Rows,
    connect,
    read_rows,
    store_of,
)
from tercet.data.values import timestamp
from tercet.errors import FormatError, StoreError, StoreInUseError
from tercet.store.atomic import sync_folder, try_lock

_log = logging.getLogger(__name__)

_TABLES: Final = (
    "CREATE TABLE store (id TEXT NOT NULL)",
    "CREATE TABLE taught (number INTEGER PRIMARY KEY AUTOINCREMENT, revision INTEGER NOT NULL UNIQUE, "
    "time TEXT NOT NULL, token TEXT NOT NULL, kind TEXT NOT NULL, query TEXT NOT NULL, pairs TEXT NOT NULL, "
    "undone TEXT, undone_by TEXT, checksum TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_INSERT: Final = f"INSERT INTO taught ({', '.join((*COLUMNS, 'checksum'))}) VALUES ({', '.join('?' * 10)})"
_UPDATE: Final = f"UPDATE taught SET ({', '.join((*COLUMNS, 'checksum'))}) = ({', '.join('?' * 10)}) WHERE number = ?"


class NotActiveError(Exception):
    """Action ``number`` is unknown, damaged or undone."""

    def __init__(self, number: int) -> None:
        super().__init__(f"action {number} is not an active one")
        self.number = number


class TaughtStore:
    """Actions of teachers on disk.

    Parameters
    ----------
    path : of the SQLite file; PATH.lock names the writing service

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, TaughtStore(Path(folder, "taught.db")) as store:
    ...     action = store.add("teacher", "prefer", "green tea", [("a", "b")])
    ...     [undone] = store.undo("teacher", [action.number])
    ...     action.number, action.is_active, undone.is_active, store.revision
    (1, True, False, 2)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()  # one statement at a time
        try:
            self._claim = _claimed(self.path)
            with ExitStack() as begun:
                begun.callback(os.close, self._claim)
                self._connection = connect(self.path, "rwc")
                begun.callback(self._connection.close)
                self.id = self._prepared()
                rows = read_rows(self._connection, self.path)
                begun.pop_all()  # success: `close` closes these
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error}") from error
        self.damaged = tuple(rows.damaged)
        self.n_actions = max((action.number for action in rows.actions), default=0)
        self.revision = int(self._connection.execute("SELECT coalesce(max(revision), 0) FROM taught").fetchone()[0])

    def _prepared(self) -> str:
        """Create missing tables; return the id of the store."""
        connection = self._connection
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_mode = WAL")
            is_new = connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
            if is_new and connection.execute("PRAGMA application_id").fetchone() == (0,):
                with self._transaction():
                    for statement in _TABLES:
                        connection.execute(statement)
                    connection.execute("INSERT INTO store VALUES (?)", (secrets.token_hex(16),))
                os.chmod(self.path, 0o600)
                sync_folder(self.path.parent)
        except sqlite3.DatabaseError as error:
            message = f"the file cannot be used: {error}; put a backup in its place"
            raise FormatError(self.path, None, message) from error
        return store_of(connection, self.path)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the statements of the block, or none."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StoreError(f"{self.path} cannot be written: {error}; nothing was taught") from error
            raise

    def add(self, token: str, kind: str, query: str, pairs: Sequence[Pair]) -> Action:
        """Write an action to disk. Raises `StoreError` if writing fails."""
        with self._lock, self._transaction() as connection:
            [(last,)] = connection.execute("SELECT coalesce(max(number), 0) FROM taught")
            action = Action(last + 1, self.revision + 1, timestamp(), token, kind, query, tuple(pairs))
            connection.execute(_INSERT, action.to_row())
        self.n_actions, self.revision = action.number, action.revision
        return action

    def undo(self, token: str, numbers: Sequence[int] | None = None, after: int = 0) -> list[Action]:
        """Mark actions as undone, all or none; without numbers, the last action of the token after ``after``.

        Raises `NotActiveError` for an action that is not active.
        """
        with self._lock, self._transaction() as connection:
            if numbers is None:
                last = "SELECT coalesce(max(number), 0) FROM taught WHERE undone IS NULL AND token = ? AND number > ?"
                numbers = connection.execute(last, (token, after)).fetchone()
            asked = f"WHERE number IN ({', '.join('?' * len(numbers))})"
            rows = {action.number: action for action in read_rows(connection, self.path, asked, numbers).actions}
            undone: list[Action] = []
            time = timestamp()
            for number in dict.fromkeys(numbers):
                if number not in rows or not rows[number].is_active:
                    raise NotActiveError(number)
                revision = self.revision + len(undone) + 1
                undone.append(replace(rows[number], revision=revision, undone=time, undone_by=token))
                connection.execute(_UPDATE, (*undone[-1].to_row(), number))
        self.revision = undone[-1].revision
        return undone

    def since(self, revision: int) -> Rows:
        """Return the actions changed after a revision, by number."""
        with self._lock:
            return read_rows(self._connection, self.path, "WHERE revision > ?", (revision,))

    def latest(self, n: int) -> Rows:
        """Return the latest actions, by number."""
        with self._lock:
            return read_rows(self._connection, self.path, "WHERE number > (SELECT max(number) FROM taught) - ?", (n,))

    def close(self) -> None:
        """Close the file and release the lock."""
        with self._lock:
            if self._claim >= 0:
                self._connection.close()
                os.close(self._claim)
                self._claim = -1

    def __enter__(self) -> TaughtStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def back_up(path: str | PathLike[str], copy: str | PathLike[str]) -> int:
    """Copy a file of taught actions by SQLite's backup, even during writes; return the number of rows."""
    if Path(copy).exists():
        raise FormatError(copy, None, "the file is there already; name another")
    with closing(connect(path, "ro")) as source:
        store_of(source, path)
        try:
            with closing(connect(copy, "rwc")) as target:
                source.backup(target)
                [n_rows] = target.execute("SELECT count(*) FROM taught").fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"{copy} cannot be written: {error}") from error
    with open(copy, "rb") as file:
        os.fsync(file.fileno())
    sync_folder(Path(copy).absolute().parent)
    return int(n_rows)


def _claimed(path: Path) -> int:
    """Lock PATH.lock, or raise an error with the name of the locking service."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as begun:
        claim = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        begun.callback(os.close, claim)
        if not try_lock(claim):
            holder = os.read(claim, 200).decode("utf-8", "replace").strip() or "another service"
            raise StoreInUseError(f"{path} is held by {holder}; stop that service, or name another file")
        os.ftruncate(claim, 0)
        os.write(claim, f"process {os.getpid()} on {socket.gethostname()} since {timestamp()}\n".encode())
        begun.pop_all()
    return claim
