"""A collection as a table of PostgreSQL, through psycopg: one row for each point, its vector a ``sparsevec``."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet.engines.credentials import Credential
from tercet.engines.engine import (
    DOC_ID,
    MISSING,
    PAGE,
    STORED_FIELDS,
    TEXT,
    Engine,
    Passing,
    Patience,
    Point,
    Query,
    StoredPoint,
    Terms,
    Values,
    retried,
)
from tercet.errors import EngineError, InputError
from tercet.store.strings import hash_of

# Ids are found by a number that stands for them, so that no length and no collation of a column is in the way.
COLUMNS: Final = ("number", "id_hash", "doc_id", "content", "stored_fields", "marker", "words")
SECONDS: Final = 60.0  # that a connection or a statement may take
OLDEST: Final = (0, 7)  # of pgvector, the first with sparsevec
_DIMENSIONS: Final = 10**9  # the most that a sparsevec has; both sides of a product must have the same
_PIECE: Final = 16_000  # values in a sparsevec, at most

# What a server that starts, stops, or is out of connections says; other refusals stay what they are.
_PASSING: Final = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01", "55P03")
_FULL: Final = ("53100", "53200", "53400", "54000")
_PASSING_WORDS: Final = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")


class Connections:
    """Connections that are open and free; a thread takes one, or opens another. Those that fail are not kept."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened
        self._free: list[Any] = []
        weakref.finalize(self, _close_all, self._free)

    @contextlib.contextmanager
    def one(self) -> Iterator[Any]:
        try:
            connection = self._free.pop()
        except IndexError:
            connection = self._opened()
        try:
            yield connection
        except BaseException:
            _close_all([connection])
            _close_all(self._free)  # where one is lost, so are those that were open at the same time
            raise
        self._free.append(connection)


def _close_all(connections: list[Any]) -> None:
    while connections:
        with contextlib.suppress(Exception):
            connections.pop().close()


class PostgresEngine(Engine):
    """A table of a PostgreSQL server. Threads may share it.

    Every statement is a transaction of its own, so a batch is there as a whole or not at all.
    """

    name = "PostgreSQL"
    most_dimensions = _PIECE

    def __init__(
        self, url: str, collection: str, patience: Patience, password: Credential, options: dict[str, Any]
    ) -> None:
        super().__init__(url, collection, patience)
        self._options, self._password, self._lack = options, password.secret, password.lack
        self._connections = Connections(self._open)

    @property
    def _table(self) -> str:
        return f'"{self.collection}"'  # a checked name has no quotes

    # -- talking to it ------------------------------------------------------------------------------------------

    def _ask(self, purpose: str, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        def once() -> list[Any]:
            try:
                with self._connections.one() as connection:
                    return self._execute(connection, statement, parameters)
            except Exception as error:
                raised = self._error(purpose, error)
                if self._password:
                    raised.args = tuple(str(part).replace(self._password, "…") for part in raised.args)
                raise raised from None  # the client's own may show how it was called

        return retried(once, purpose, self.url, self._patience)

    def _open(self) -> Any:
        import psycopg

        # Without a password, libpq would take the environment's for any host; a password file names hosts itself.
        options = {"connect_timeout": max(2, int(SECONDS / 6))} | self._options | {"password": self._password or ""}
        # A pooler between here and there may not know the statements that another connection prepared.
        connection = psycopg.connect(**options, autocommit=True, prepare_threshold=None)
        try:
            # Compiling a scan takes longer than most scans do.
            connection.execute(f"SELECT set_config('statement_timeout', '{1000 * SECONDS:.0f}ms', false)")
            connection.execute("SELECT set_config('jit', 'off', false)")
        except BaseException:
            connection.close()
            raise
        return connection

    def _execute(self, connection: Any, statement: str, parameters: Sequence[Any]) -> list[Any]:
        with _bounded(connection), connection.cursor(binary=True) as cursor:
            cursor.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description is not None else []

    def _error(self, purpose: str, error: Exception) -> Exception:
        import psycopg

        if not isinstance(error, psycopg.Error):
            return Passing(str(error)) if isinstance(error, OSError) else error
        state, reason = error.sqlstate, str(error).strip().partition("\n")[0]
        if state is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return EngineError(f"{self.url}: {purpose}: {reason}")
        refused = "FATAL" in str(error) or "no password supplied" in str(error)
        if state is None and refused and not any(words in str(error) for words in _PASSING_WORDS):
            hint = self._lack if "password" in str(error) else ""
            said = re.sub(r".*(FATAL: *|fe_sendauth: )", "", reason)
            return EngineError(f"{self.url}: {purpose}: PostgreSQL refuses: {said}{hint}")
        if state is None or state.startswith(_PASSING):
            return Passing(f"{type(error).__name__}: {reason}")
        if state.startswith(_FULL):
            return EngineError(
                f"{self.url} is full or at a limit: {purpose}: {reason}. What was there is there; make room and give "
                "the same command again"
            )
        if state == "57014":
            return EngineError(f"{self.url}: {purpose} took longer than {SECONDS:.0f} s and was ended")
        return EngineError(f"{self.url}: {purpose}: {reason}")

    def check_version(self) -> None:
        version = self._vector_version()
        if version is not None and version < OLDEST:
            shown = ".".join(map(str, version))
            raise EngineError(
                f"{self.url} has pgvector {shown}; supported are {OLDEST[0]}.{OLDEST[1]} and later. Update it there"
            )

    def _vector_version(self) -> tuple[int, ...] | None:
        installed = self._ask("asking for its version", "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        return tuple(int(part) for part in installed[0][0].split(".")[:2]) if installed else None

    # -- the table ----------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        statement = (
            "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = to_regclass(%s)"
        )
        columns = [name for (name,) in self._ask("looking at the table", statement, [self._table])]
        if not columns:
            return MISSING
        if set(columns) != set(COLUMNS):
            return f"is a table with the columns {sorted(columns)[:12]}; ours have {sorted(COLUMNS)}"
        return None

    def create(self) -> None:
        if self._vector_version() is None:
            try:
                self._ask("installing pgvector", "CREATE EXTENSION IF NOT EXISTS vector")
            except EngineError as error:
                raise EngineError(
                    f"{self.url} has no pgvector, and it could not be installed there: {error}. Have CREATE EXTENSION "
                    "vector given in that database by somebody who may"
                ) from error
            self.check_version()
        # Vectors are not compressed, since every search reads all of them.
        statement = (
            f"CREATE TABLE IF NOT EXISTS {self._table} (number bigint PRIMARY KEY, id_hash bigint, doc_id text, "
            "content text, stored_fields text, marker text, words sparsevec STORAGE EXTERNAL)"
        )
        self._ask("creating the table", statement)

    def index_ids(self) -> None:
        # Named by the table, so that a second attempt finds the first.
        name = f"{self.collection[:50]}_ids"
        self._ask("indexing the ids", f'CREATE INDEX IF NOT EXISTS "{name}" ON {self._table} (id_hash)')

    def drop(self) -> None:
        self._ask("removing the table", f"DROP TABLE IF EXISTS {self._table}")

    # -- points -------------------------------------------------------------------------------------------------

    def put(self, points: Sequence[Point]) -> None:
        columns: list[list[Any]] = [[] for _ in COLUMNS]
        for point in points:
            fields = _fields(point)
            if any(isinstance(field, str) and "\0" in field for field in fields):
                raise InputError(f"document {fields[2]!r} has a NUL character, which PostgreSQL does not take")
            for column, field in zip(columns, fields, strict=True):
                column.append(field)
        statement = (
            f"INSERT INTO {self._table} "
            "SELECT number, id_hash, doc_id, content, stored_fields, marker, words::sparsevec "
            "FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) "
            "AS points (number, id_hash, doc_id, content, stored_fields, marker, words) "
            "ON CONFLICT (number) DO UPDATE SET id_hash = excluded.id_hash, doc_id = excluded.doc_id, "
            "content = excluded.content, stored_fields = excluded.stored_fields, marker = excluded.marker, "
            "words = excluded.words"
        )
        self._ask(f"writing {len(points)} points", statement, columns)

    def delete(self, rows: Sequence[int]) -> None:
        if rows:
            purpose = f"removing {len(rows)} points"
            self._ask(purpose, f"DELETE FROM {self._table} WHERE number IN ({_marks(rows)})", list(rows))

    def count(self) -> int:
        [[n]] = self._ask("counting", f"SELECT count(*) FROM {self._table}")
        return int(n)

    def payload(self, row: int) -> Mapping[str, Any] | None:
        statement = f"SELECT marker FROM {self._table} WHERE number = %s"
        points = self._ask("reading the marker", statement, [row])
        if not points:
            return None
        try:
            return dict(json.loads(points[0][0])) if points[0][0] else {}
        except (ValueError, TypeError):
            return {}

    def nearest(self, queries: Sequence[Query], n: int) -> list[list[StoredPoint]]:
        return [
            [
                StoredPoint(int(number), doc_id, -float(product), partial(_read_vector, stored))
                for number, product, doc_id, stored in self._list_nearest(query, n, ", doc_id, words")
            ]
            for query in queries
        ]

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        return np.array([number for number, _ in self._list_nearest(query, n, "")], dtype=np.int64)

    def _list_nearest(self, query: Query, n: int, columns: str) -> list[Any]:
        terms, values = query
        parts = (slice(start, start + _PIECE) for start in range(0, terms.size, _PIECE))
        pieces = [_sparsevec(terms[part], values[part]) for part in parts]
        product = " + ".join(["(words <#> %s::sparsevec)"] * len(pieces))  # of which <#> is the negative
        statement = (
            f"SELECT number, {product} AS product{columns} FROM {self._table} "
            "WHERE words IS NOT NULL ORDER BY product LIMIT %s"
        )
        # Below zero there is nothing that is better than those without a word of the query, which are not listed.
        return [point for point in self._ask("searching", statement, [*pieces, n]) if point[1] < 0]

    def fetch(self, rows: Sequence[int]) -> list[StoredPoint]:
        if not rows:
            return []
        statement = f"SELECT number, doc_id, words FROM {self._table} WHERE number IN ({_marks(rows)})"
        points = self._ask("reading documents", statement, list(rows))
        return [
            StoredPoint(int(number), doc_id, 0.0, partial(_read_vector, stored))
            for number, doc_id, stored in points
            if doc_id is not None
        ]

    def contents(self, rows: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        statement = f"SELECT number, content, stored_fields FROM {self._table} WHERE number IN ({_marks(rows)})"
        return {
            int(number): {
                name: value for name, value in ((TEXT, text), (STORED_FIELDS, stored_fields)) if value is not None
            }
            for number, text, stored_fields in self._ask("reading texts", statement, list(rows))
        }

    def rows_of(self, doc_ids: Collection[str]) -> list[tuple[int, str]]:
        wanted = list(doc_ids)
        numbered: list[tuple[int, str]] = []
        for start in range(0, len(wanted), PAGE):
            hashes = [_signed_hash(doc_id) for doc_id in wanted[start : start + PAGE]]
            statement = f"SELECT number, doc_id FROM {self._table} WHERE id_hash IN ({_marks(hashes)}) ORDER BY number"
            points = self._ask("looking for ids", statement, hashes)
            numbered += [(int(number), doc_id) for number, doc_id in points]
        asked = set(wanted)
        return [(number, doc_id) for number, doc_id in numbered if doc_id in asked]

    def ids_from(self, row: int, n: int) -> list[tuple[int, str]]:
        statement = (
            f"SELECT number, doc_id FROM {self._table} WHERE number >= %s AND id_hash IS NOT NULL "
            "ORDER BY number LIMIT %s"
        )
        return [(int(number), doc_id) for number, doc_id in self._ask("listing ids", statement, [row, n])]


def _fields(point: Point) -> list[Any]:
    """The values of a point's `COLUMNS`."""
    words = _sparsevec(point.terms, point.values) if point.terms.size else None
    doc_id, text, stored_fields = (point.payload.get(name) for name in (DOC_ID, TEXT, STORED_FIELDS))
    if doc_id is None:
        return [point.row, None, None, None, None, json.dumps(dict(point.payload)), words]
    return [point.row, _signed_hash(doc_id), doc_id, text, stored_fields, None, words]


def _sparsevec(terms: Terms, values: Values) -> str:
    """A vector as pgvector reads it, each number with as few digits as say which float32 it is."""
    entries = ",".join(f"{term + 1}:{value!s}" for term, value in zip(terms.tolist(), values, strict=True))
    return f"{{{entries}}}/{_DIMENSIONS}"


def _read_vector(stored: bytes | None) -> tuple[Terms, Values]:
    """A vector as pgvector sends it in its binary format."""
    if stored is None:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    n = int.from_bytes(stored[4:8], "big")  # after the number of dimensions
    terms = np.frombuffer(stored, ">i4", n, 12).astype(np.int64)
    return terms, np.frombuffer(stored, ">f4", n, 12 + 4 * n).astype(np.float32)


def _signed_hash(doc_id: str) -> int:
    return int(np.uint64(hash_of(doc_id)).astype(np.int64))


def _marks(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))


@contextlib.contextmanager
def _bounded(connection: Any) -> Iterator[None]:
    """End a connection whose server says nothing for too long; libpq would wait for ever."""

    def end() -> None:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(1.5 * SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
