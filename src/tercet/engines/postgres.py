"""An index in PostgreSQL with pgvector: one table, whose column ``words`` is a ``sparsevec``, scanned exactly."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from tercet.engines.credentials import Credential, check_encrypted, credential, is_loopback
from tercet.engines.engine import (
    PAGE,
    READING,
    CandidateQuery,
    Engine,
    EngineDocument,
    ListedDocument,
    Listing,
    Passing,
    document_of,
    key_of,
    payload_of,
    retried,
    with_documents,
)
from tercet.engines.engine_index import EngineIndex
from tercet.errors import EngineError, InputError, MissingExtraError
from tercet.fitting.text_model import TextModel
from tercet.store.kinds import POSTGRES_INDEX

PASSWORD: Final = "PGPASSWORD"
UNENCRYPTED: Final = ("disable", "allow", "prefer")  # modes in which a password may go without TLS
SECONDS: Final = 60.0  # that a connection or a statement may take
OLDEST: Final = (0, 7)  # of pgvector, the first with sparsevec
_SCHEMES: Final = ("postgresql", "postgres")
_PORT: Final = 5432
_SECRET_OPTIONS: Final = frozenset({"password", "sslpassword", "passwd"})
_DIMENSIONS: Final = 10**9  # the most that a sparsevec has; both sides of a product must have the same
_OWNED: Final = "Tercet index "  # the comment on a table of ours begins so, and ends with the owner
_SHOWN: Final = ("doc_id", "text", "stored_fields", "position")

# SQLSTATEs of a server that starts, stops, or is out of connections; other refusals stay.
_PASSING: Final = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01", "55P03")
_FULL: Final = ("53100", "53200", "53400", "54000")
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
    def connect(
        cls, url: str, collection: str, secret: str | None, *, is_named: bool = False, **settings: Any
    ) -> Engine:
        if settings:
            raise InputError(f"an index in PostgreSQL takes no {', '.join(settings)}")
        parsed = PostgresUrl(url)
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgres", "an index in PostgreSQL") from error
        password = credential(parsed.hosts, parsed.port, secret or parsed.password, PASSWORD, is_named=is_named)
        if parsed.options.get("sslmode") in UNENCRYPTED and password.secret is not None:
            remedy = "use sslmode=require or more, or a tunnel to localhost"
            check_encrypted(parsed.hosts, False, "the password", remedy)
        return PostgresEngine(parsed.shown, collection, password, parsed.connection_options())

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return PostgresUrl(url).kept


class PostgresUrl:
    """``postgresql://user:password@host:port/database?option=value``; a folder keeps the URL without the password.

    Examples
    --------
    >>> url = PostgresUrl("postgresql://me:secret@host:5433/papers")
    >>> url.kept, url.shown, url.password
    ('postgresql://me@host:5433/papers', 'postgresql://host:5433/papers', 'secret')
    """

    def __init__(self, url: Any) -> None:
        expected = f"expected one like postgresql://user@localhost:{_PORT}/database; its password is in {PASSWORD}"
        try:
            parts = urlsplit(url)
            self.port = parts.port or _PORT
        except (ValueError, TypeError, AttributeError):
            raise InputError(f"the url is none; {expected}") from None  # which must not show a password
        self.options = dict(parse_qsl(parts.query))
        self.host = parts.hostname or self.options.get("host", "")
        self.database = unquote(parts.path.strip("/"))
        self.user = None if parts.username is None else unquote(parts.username)
        password = parts.password if parts.password is None else unquote(parts.password)
        self.password = password or self.options.get("password")
        for name in _SECRET_OPTIONS & set(self.options):
            del self.options[name]
        is_ours = parts.scheme in _SCHEMES and self.host and self.database
        if not is_ours or "/" in self.database or parts.fragment:
            shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
            raise InputError(f"url is {shown!r}; {expected}")
        # libpq prefers an option to the part before it, and tries several hosts in turn.
        listed = [self.options.get("host", self.host), self.options.get("hostaddr", "")]
        self.hosts = [host for hosts in listed for host in hosts.split(",") if host]
        netloc = parts.netloc.rpartition("@")[2]
        rest = (parts.path.rstrip("/"), urlencode(self.options, quote_via=quote), "")
        self.shown = urlunsplit((_SCHEMES[0], netloc, *rest))
        user = "" if self.user is None else quote(self.user, safe="") + "@"
        self.kept = urlunsplit((_SCHEMES[0], user + netloc, *rest))

    def connection_options(self) -> dict[str, Any]:
        """Options of ``psycopg.connect``, without the password."""
        options: dict[str, Any] = {"host": self.host, "port": self.port, "dbname": self.database} | self.options
        options |= {} if self.user is None else {"user": self.user}
        if not all(map(is_loopback, self.hosts)):
            options.setdefault("sslmode", "require")
            if options["sslmode"] in UNENCRYPTED:
                options["passfile"] = os.devnull
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
            _close_all(self._free)  # where one is lost, so are those that were open at the same time
            raise
        self._free.append(connection)


def _close_all(connections: list[Any]) -> None:
    while connections:
        with contextlib.suppress(Exception):
            connections.pop().close()


class PostgresEngine(Engine):
    """A table of a PostgreSQL server. Threads may share it.

    Every statement is a transaction of its own, so a request is there as a whole or not at all.
    """

    name = "PostgreSQL"

    def __init__(self, url: str, collection: str, password: Credential, options: dict[str, Any]) -> None:
        super().__init__(url, collection, READING)
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

    def owner(self) -> str | None:
        statement = "SELECT to_regclass(%s)::oid, obj_description(to_regclass(%s)::oid, 'pg_class')"
        [(table, comment)] = self._ask("looking at the table", statement, [self._table, self._table])
        if table is None:
            return None
        return str(comment).removeprefix(_OWNED) if (comment or "").startswith(_OWNED) else ""

    def create(self, owner: str, _model: TextModel) -> None:
        if self._vector_version() is None:
            try:
                self._ask("installing pgvector", "CREATE EXTENSION IF NOT EXISTS vector")
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
        statement = (
            f"DO $$ BEGIN CREATE TABLE {self._table} (key uuid PRIMARY KEY, doc_id text, text text, "
            "stored_fields text, position bigint, digest text, words sparsevec STORAGE EXTERNAL); "
            f"COMMENT ON TABLE {self._table} IS '{_OWNED}{owner}'; END $$"
        )
        self._ask("creating the table", statement)

    def drop(self) -> None:
        self._ask("removing the table", f"DROP TABLE IF EXISTS {self._table}")

    # -- documents ----------------------------------------------------------------------------------------------

    def put(self, documents: Sequence[EngineDocument]) -> None:
        columns: list[list[Any]] = [[] for _ in range(7)]
        for document in documents:
            payload = payload_of(document)
            if any("\0" in value for value in payload.values() if isinstance(value, str)):
                raise InputError(f"document {document.doc_id!r} has a NUL character, which PostgreSQL does not take")
            words = _sparsevec(document.terms, document.values) if document.terms.size else None
            for column, value in zip(columns, (str(key_of(document.doc_id)), *payload.values(), words), strict=True):
                column.append(value)
        names = "key, doc_id, text, stored_fields, position, digest, words"
        statement = (
            f"INSERT INTO {self._table} ({names}) "
            "SELECT key, doc_id, text, stored_fields, position, digest, words::sparsevec "
            "FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[]) "
            f"AS documents ({names}) ON CONFLICT (key) DO UPDATE SET text = excluded.text, "
            "stored_fields = excluded.stored_fields, position = excluded.position, digest = excluded.digest, "
            "words = excluded.words"
        )
        self._ask(f"writing {len(documents)} documents", statement, columns)

    def delete(self, doc_ids: Sequence[str]) -> None:
        statement = f"DELETE FROM {self._table} WHERE key = ANY(%s::uuid[])"
        self._ask(f"removing {len(doc_ids)} documents", statement, [_keys(doc_ids)])

    def count(self) -> int:
        [[n]] = self._ask("counting", f"SELECT count(*) FROM {self._table}")
        return int(n)

    def fetch(self, doc_ids: Sequence[str]) -> list[EngineDocument]:
        statement = f"SELECT {', '.join(_SHOWN)} FROM {self._table} WHERE key = ANY(%s::uuid[])"
        return [_document(row) for row in self._ask("reading documents", statement, [_keys(doc_ids)])]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        statement = f"SELECT doc_id, digest FROM {self._table} WHERE key = ANY(%s::uuid[])"
        return dict(self._ask("comparing documents", statement, [_keys(doc_ids)]))

    def ids(self) -> Iterator[str]:
        statement = (
            f"SELECT doc_id, position, key FROM {self._table} WHERE (position, key) > (%s, %s::uuid) "
            f"ORDER BY position, key LIMIT {PAGE}"
        )
        after = (-1, "00000000-0000-0000-0000-000000000000")
        while rows := self._ask("listing ids", statement, after):
            yield from (doc_id for doc_id, _, _ in rows)
            after = (rows[-1][1], str(rows[-1][2]))

    def candidates(self, queries: Sequence[CandidateQuery], n: int) -> list[Listing]:
        # <#> is the negative inner product; documents without a word of the query have a product of 0.
        statement = (
            f"SELECT doc_id, position, words <#> %s::sparsevec AS product FROM {self._table} "
            "WHERE words IS NOT NULL ORDER BY product LIMIT %s"
        )
        by_id = f"SELECT doc_id, position FROM {self._table} WHERE key = ANY(%s::uuid[])"
        answers = []
        for query in queries:
            vector = _sparsevec(query.terms, query.weights)
            rows = self._ask("searching", statement, [vector, n]) if query.terms.size else []
            named = self._ask("searching", by_id, [_keys(query.doc_ids)]) if query.doc_ids else []
            listed = [
                (ListedDocument(doc_id, position), -float(product)) for doc_id, position, product in rows if product
            ]
            answers.append(with_documents(listed, itertools.starmap(ListedDocument, named), n))
        return answers


def _document(row: Sequence[Any]) -> EngineDocument:
    return document_of(dict(zip(_SHOWN, row, strict=True)))


def _keys(doc_ids: Sequence[str]) -> list[str]:
    return [str(key_of(doc_id)) for doc_id in doc_ids]


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
