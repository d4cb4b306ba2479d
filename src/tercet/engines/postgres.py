"""An index in PostgreSQL with pgvector: one table, whose column ``words`` is a ``sparsevec``, scanned exactly."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tercet.errors import EngineError, InputError, MissingExtraError
from tercet.search.backends.credentials import check_encrypted, is_loopback
from tercet.search.backends.engine import READING, Engine, Passing, Point, Query, Terms, Values
from tercet.search.backends.remote_index import RemoteIndex
from tercet.search.backends.sql_engine import SECONDS, DatabaseUrl, SqlEngine, fields_of, password_of, shortest
from tercet.store.kinds import POSTGRES_INDEX

PASSWORD: Final = "PGPASSWORD"
UNENCRYPTED: Final = ("disable", "allow", "prefer")  # modes in which a password may go without TLS
OLDEST: Final = (0, 7)  # of pgvector, the first with sparsevec
_DIMENSIONS: Final = 10**9  # the most that a sparsevec has; both sides of a product must have the same
_PIECE: Final = 16_000  # values in a sparsevec, at most

# What a server that starts, stops, or is out of connections says; other refusals stay what they are.
_PASSING: Final = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01", "55P03")
_FULL: Final = ("53100", "53200", "53400", "54000")
_PASSING_WORDS: Final = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")


class PostgresIndex(RemoteIndex):
    """Documents in a table of PostgreSQL, see `RemoteIndex`.

    The database needs pgvector 0.7 or later. The password is that of the URL, of the variable PGPASSWORD or of a
    password file, and is written nowhere. A document has at most 16,000 different words and latent dimensions.

    Examples
    --------
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> url = "postgresql://me@localhost/papers"
    >>> index = PostgresIndex.build(docs, None, "index/", url=url)  # doctest: +SKIP
    >>> [hit.doc_id for hit in index.search("green avocados")]  # doctest: +SKIP
    ['a', 'b']
    """

    backend, engine_name, kind = "postgres", "PostgreSQL", POSTGRES_INDEX
    longest_name = 63

    @classmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        place = _parsed(url)
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgres", "an index in PostgreSQL") from error
        password = password_of(place, secret, PASSWORD, is_named=is_named)
        if place.options.get("sslmode") in UNENCRYPTED and password.secret is not None:
            check_encrypted(place.hosts, False, "the password", "use sslmode=require or more, or a tunnel to localhost")
        return PostgresEngine(place, collection, READING, password)

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return _parsed(url).kept


def _parsed(url: Any) -> DatabaseUrl:
    return DatabaseUrl(url, ("postgresql", "postgres"), 5432, PASSWORD)


class PostgresEngine(SqlEngine):
    """A table of a PostgreSQL server, through psycopg. Threads may share it."""

    name = "PostgreSQL"
    most_dimensions = _PIECE
    stored_vector = "words"

    @property
    def _table(self) -> str:
        return f'"{self.collection}"'  # a checked name has no quotes

    # -- talking to it ------------------------------------------------------------------------------------------

    def _open(self) -> Any:
        import psycopg

        place = self._place
        options: dict[str, Any] = {"host": place.host, "port": place.port, "dbname": place.database} | place.options
        options |= {} if place.user is None else {"user": place.user}
        # Without one, libpq would take the environment's for any host; a password file names hosts itself.
        options["password"] = self._password or ""
        if not all(map(is_loopback, place.hosts)):
            options.setdefault("sslmode", "require")
            if options["sslmode"] in UNENCRYPTED:
                options["passfile"] = os.devnull
        options.setdefault("connect_timeout", max(2, int(SECONDS / 6)))
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
        return self._problem_of([name for (name,) in self._ask("looking at the table", statement, [self._table])])

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
            "content text, carried text, marker text, words sparsevec STORAGE EXTERNAL)"
        )
        self._ask("creating the table", statement)

    def index_ids(self) -> None:
        # Named by the table, so that a second attempt finds the first.
        name = f"{self.collection[:50]}_ids"
        self._ask("indexing the ids", f'CREATE INDEX IF NOT EXISTS "{name}" ON {self._table} (id_hash)')

    def put(self, points: Sequence[Point]) -> None:
        columns: list[list[Any]] = [[] for _ in range(7)]
        for point in points:
            fields = fields_of(point)
            if any(isinstance(field, str) and "\0" in field for field in fields):
                raise InputError(f"document {fields[2]!r} has a NUL character, which PostgreSQL does not take")
            for column, field in zip(columns, [*fields, _written(point.terms, point.values)], strict=True):
                column.append(field)
        statement = (
            f"INSERT INTO {self._table} SELECT number, id_hash, doc_id, content, carried, marker, words::sparsevec "
            "FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) "
            "AS points (number, id_hash, doc_id, content, carried, marker, words) "
            "ON CONFLICT (number) DO UPDATE SET id_hash = excluded.id_hash, doc_id = excluded.doc_id, "
            "content = excluded.content, carried = excluded.carried, marker = excluded.marker, words = excluded.words"
        )
        self._ask(f"writing {len(points)} points", statement, columns)

    # -- vectors ------------------------------------------------------------------------------------------------

    def _product(self, n: int) -> str:
        return " + ".join(["(words <#> %s::sparsevec)"] * n)

    def _pieces(self, query: Query) -> list[str]:
        terms, values = query
        parts = (slice(start, start + _PIECE) for start in range(0, terms.size, _PIECE))
        return [_text(terms[part], values[part]) for part in parts]

    def _read_vector(self, stored: Any) -> tuple[Terms, Values]:
        if stored is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        n = int.from_bytes(stored[4:8], "big")  # after the number of dimensions
        terms = np.frombuffer(stored, ">i4", n, 12).astype(np.int64)
        return terms, np.frombuffer(stored, ">f4", n, 12 + 4 * n).astype(np.float32)


def _written(terms: Terms, values: Values) -> str | None:
    return _text(terms, values) if terms.size else None


def _text(terms: Terms, values: Values) -> str:
    return f"{{{shortest(terms, values, 1)}}}/{_DIMENSIONS}"


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
