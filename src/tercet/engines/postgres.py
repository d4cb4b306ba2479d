"""An index in PostgreSQL with pgvector: one table, whose column ``words`` is a ``sparsevec``, scanned exactly."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import NDArray

from tercet.engines.credentials import Credential, credential, is_loopback, require_client
from tercet.engines.engine import (
    PAGE,
    CandidateQuery,
    Engine,
    EngineDocument,
    ListedDocument,
    Passing,
    keys_of,
    shown_url,
)
from tercet.engines.engine_index import EngineIndex
from tercet.errors import EngineError, InputError
from tercet.fitting.text_model import TextModel
from tercet.store.kinds import POSTGRES_INDEX

PASSWORD: Final = "PGPASSWORD"
UNENCRYPTED: Final = ("disable", "allow", "prefer")  # modes that may send a password without TLS
SECONDS: Final = 60.0  # timeout of a connection or a statement
OLDEST: Final = (0, 7)  # oldest supported pgvector: the first with sparsevec
_SCHEMES: Final = ("postgresql://", "postgres://")
_DIMENSIONS: Final = 10**9  # most dimensions of a sparsevec; both sides of a product need the same number
_OWNED: Final = "Tercet index "  # beginning of the comment on a table of Tercet; the owner follows
_COLUMNS: Final = {
    "key": "uuid",
    "doc_id": "text",
    "text": "text",
    "stored_fields": "text",
    "position": "bigint",
    "digest": "text",
    "words": "sparsevec",
}

# SQLSTATEs of a server that starts, stops, or is out of connections; other refusals are not retried.
_PASSING: Final = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01", "55P03")
_PASSING_WORDS: Final = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")


class PostgresIndex(EngineIndex):
    """Documents in a table of PostgreSQL, see `EngineIndex`.

    The database needs pgvector 0.7 or later. The password is that of the URL, of the variable PGPASSWORD or of a
    password file, and is written nowhere. A document has at most 16,000 different words.

    Examples
    --------
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> url = "postgresql://me@localhost/papers"
    >>> index = PostgresIndex.build(docs, None, "index/", url=url)  # doctest: +SKIP
    >>> [hit.doc_id for hit in index.search("green avocados")]  # doctest: +SKIP
    ['a', 'b']
    """

    kind = POSTGRES_INDEX
    longest_name = 63

    @classmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        options = url_options(url)
        # libpq tries several hosts in turn.
        hosts = [host for name in ("host", "hostaddr") for host in options.get(name, "").split(",") if host]
        is_encrypted = options.get("sslmode") not in UNENCRYPTED
        given_password, port = secret or options.get("password"), options.get("port", "5432")
        password = credential(hosts, port, given_password, PASSWORD, is_named=is_named, is_encrypted=is_encrypted)
        if not all(map(is_loopback, hosts)):
            options.setdefault("sslmode", "require")
            if not is_encrypted:
                options["passfile"] = os.devnull
        return PostgresEngine(shown_url(cls.kept_url(url)), collection, password, options)

    @classmethod
    def kept_url(cls, url: Any) -> str:
        options = url_options(url)
        for secret in ("password", "sslpassword"):
            options.pop(secret, None)
        user = f"{quote(options.pop('user'), safe='')}@" if "user" in options else ""
        database, address = quote(options.pop("dbname"), safe=""), ""
        if re.fullmatch(r"[\w.-]+", options["host"]):  # else a list of hosts, or a socket
            address = options.pop("host") + (f":{options.pop('port')}" if "port" in options else "")
        return f"{_SCHEMES[0]}{user}{address}/{database}" + (f"?{urlencode(options)}" if options else "")


def url_options(url: Any) -> dict[str, str]:
    """Read a URL as libpq does.

    Examples
    --------
    >>> url_options("postgresql://me@host:5433/papers?sslmode=require")  # doctest: +SKIP
    {'user': 'me', 'dbname': 'papers', 'host': 'host', 'port': '5433', 'sslmode': 'require'}
    """
    require_client("psycopg", "psycopg", "postgres")
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    options: dict[str, Any] = {}
    if isinstance(url, str) and url.startswith(_SCHEMES):
        with contextlib.suppress(Error, ValueError):
            options = conninfo_to_dict(url)
    if not options.get("host") or not options.get("dbname"):  # the message must not show a password
        example = "postgresql://user@localhost:5432/database"
        raise InputError(f"the url is none; expected one like {example}; its password is in {PASSWORD}")
    return options


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
            _close_all(self._free)  # after a lost connection, the other open connections are lost too
            raise
        self._free.append(connection)


def _close_all(connections: list[Any]) -> None:
    while connections:
        with contextlib.suppress(Exception):
            connections.pop().close()


class PostgresEngine(Engine):
    """A table of a PostgreSQL server.

    Every statement is a transaction of its own, so a request is there as a whole or not at all.
    """

    name = "PostgreSQL"

    def __init__(self, url: str, collection: str, password: Credential, options: dict[str, str]) -> None:
        super().__init__(url, collection)
        # Without a password, libpq would send PGPASSWORD to any host; a password file is bound to its hosts.
        self._options: dict[str, Any] = options | {"password": password.secret or ""}
        self._lack, self._connections = password.lack, Connections(self._open)

    @property
    def _table(self) -> str:
        return f'"{self.collection}"'  # a checked name has no quotes

    # -- talking to it ------------------------------------------------------------------------------------------

    def _rows(self, purpose: str, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a statement."""

        def execute() -> list[Any]:
            with self._connections.one() as connection, _bounded(connection), connection.cursor(binary=True) as cursor:
                cursor.execute(statement, parameters or None)
                return cursor.fetchall() if cursor.description is not None else []

        return self.ask(purpose, execute)

    def _open(self) -> Any:
        import psycopg

        # No prepared statements: a connection pooler may not know the statements of another connection.
        options: dict[str, Any] = {"connect_timeout": max(2, int(SECONDS / 6))} | self._options
        connection = psycopg.connect(**options, autocommit=True, prepare_threshold=None)
        try:
            # No JIT: compiling a scan takes longer than most scans.
            connection.execute(f"SELECT set_config('statement_timeout', '{1000 * SECONDS:.0f}ms', false)")
            connection.execute("SELECT set_config('jit', 'off', false)")
        except BaseException:
            connection.close()
            raise
        return connection

    def _problem(self, purpose: str, error: Exception) -> Exception | None:
        import psycopg

        if not isinstance(error, psycopg.Error):
            return Passing(str(error)) if isinstance(error, OSError) else None
        message = str(error).strip()
        if password := self._options["password"]:
            message = message.replace(password, "…")
        state, reason = error.sqlstate or "", message.partition("\n")[0]
        is_refused = "FATAL" in message or "no password supplied" in message
        if not state and is_refused and not any(words in message for words in _PASSING_WORDS):
            hint = self._lack if "password" in message else ""
            reply = re.sub(r".*(FATAL: *|fe_sendauth: )", "", reason)
            return EngineError(f"{self.url}: {purpose}: PostgreSQL refuses: {reply}{hint}")
        is_lost = not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        if is_lost or state.startswith(_PASSING):
            return Passing(f"{type(error).__name__}: {reason}")
        return EngineError(f"{self.url}: {purpose}: {reason}")

    def check_version(self) -> None:
        version = self._vector_version()
        if version is not None and version < OLDEST:
            release = ".".join(map(str, version))
            raise EngineError(
                f"{self.url} has pgvector {release}; supported are {OLDEST[0]}.{OLDEST[1]} and later. Update it there"
            )

    def _vector_version(self) -> tuple[int, ...] | None:
        statement = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        installed = self._rows("asking for its version", statement)
        return tuple(int(part) for part in installed[0][0].split(".")[:2]) if installed else None

    # -- the table ----------------------------------------------------------------------------------------------

    def owner(self) -> str | None:
        statement = "SELECT to_regclass(%s)::oid, obj_description(to_regclass(%s)::oid, 'pg_class')"
        [(table, comment)] = self._rows("looking at the table", statement, [self._table, self._table])
        if table is None:
            return None
        return str(comment).removeprefix(_OWNED) if (comment or "").startswith(_OWNED) else ""

    def create(self, owner: str, _model: TextModel) -> None:
        if self._vector_version() is None:
            try:
                self._rows("installing pgvector", "CREATE EXTENSION IF NOT EXISTS vector")
            except EngineError as error:
                raise EngineError(
                    f"{self.url} has no pgvector, and it could not be installed there: {error}. Have CREATE EXTENSION "
                    "vector given in that database by somebody who may"
                ) from error
            self.check_version()
        if self.owner() == owner:
            return
        # Table and comment at once, so that a table of ours always says so. Vectors are not compressed, since every
        # search reads all of them.
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        statement = (
            f"DO $$ BEGIN CREATE TABLE {self._table} ({columns} STORAGE EXTERNAL, PRIMARY KEY (key)); "
            f"COMMENT ON TABLE {self._table} IS '{_OWNED}{owner}'; END $$"
        )
        self._rows("creating the table", statement)

    def drop(self) -> None:
        self._rows("removing the table", f"DROP TABLE IF EXISTS {self._table}")

    # -- documents ----------------------------------------------------------------------------------------------

    def put(self, documents: Sequence[EngineDocument]) -> None:
        rows = []
        for key, document in zip(keys_of([each.doc_id for each in documents]), documents, strict=True):
            words = _sparsevec(document.terms, document.values) if document.terms.size else None
            row = {"key": key, **document.payload, "words": words}
            if any("\0" in value for value in row.values() if isinstance(value, str)):
                raise InputError(f"document {document.doc_id!r} has a NUL character, which PostgreSQL does not take")
            rows.append(row)
        names = ", ".join(_COLUMNS)
        arrays = ", ".join("%s::text[]" if kind == "sparsevec" else f"%s::{kind}[]" for kind in _COLUMNS.values())
        changed = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in ("key", "doc_id"))
        statement = (
            f"INSERT INTO {self._table} ({names}) SELECT {names}::sparsevec FROM unnest({arrays}) "
            f"AS documents ({names}) ON CONFLICT (key) DO UPDATE SET {changed}"
        )
        self._rows(f"writing {len(documents)} documents", statement, [[row[name] for row in rows] for name in _COLUMNS])

    def delete(self, doc_ids: Sequence[str]) -> None:
        statement = f"DELETE FROM {self._table} WHERE key = ANY(%s::uuid[])"
        self._rows(f"removing {len(doc_ids)} documents", statement, [keys_of(doc_ids)])

    def count(self) -> int:
        [[n]] = self._rows("counting", f"SELECT count(*) FROM {self._table}")
        return int(n)

    def read(self, purpose: str, doc_ids: Sequence[str], names: Sequence[str]) -> list[Mapping[str, Any]]:
        statement = f"SELECT {', '.join(names)} FROM {self._table} WHERE key = ANY(%s::uuid[])"
        return [dict(zip(names, row, strict=True)) for row in self._rows(purpose, statement, [keys_of(doc_ids)])]

    def ids(self) -> Iterator[str]:
        statement = (
            f"SELECT doc_id, position, key FROM {self._table} WHERE (position, key) > (%s, %s::uuid) "
            f"ORDER BY position, key LIMIT {PAGE}"
        )
        after = (-1, "00000000-0000-0000-0000-000000000000")
        while rows := self._rows("listing ids", statement, after):
            yield from (doc_id for doc_id, _, _ in rows)
            after = (rows[-1][1], str(rows[-1][2]))

    def candidates(self, queries: Sequence[CandidateQuery], n: int) -> list[list[ListedDocument]]:
        # <#> is the negative inner product; documents without a word of the query have a product of 0.
        statement = (
            f"SELECT doc_id, position, words <#> %s::sparsevec AS product FROM {self._table} "
            "WHERE words IS NOT NULL ORDER BY product LIMIT %s"
        )
        listed = []
        for query in queries:
            vector = _sparsevec(query.terms, query.weights)
            rows = self._rows("searching", statement, [vector, n]) if query.terms.size else []
            hits = [ListedDocument(doc_id, position) for doc_id, position, product in rows if product]
            listed.append([*dict.fromkeys([*hits, *self.named(query.doc_ids)])])
        return listed


def _sparsevec(terms: NDArray[np.int64], values: NDArray[np.float32]) -> str:
    """A vector as pgvector reads it, each number with as few digits as say which float32 it is."""
    entries = ",".join(f"{term + 1}:{value!s}" for term, value in zip(terms.tolist(), values, strict=True))
    return f"{{{entries}}}/{_DIMENSIONS}"


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
