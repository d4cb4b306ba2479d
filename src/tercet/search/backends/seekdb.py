"""An index in seekdb, through the protocol of MySQL: one table, whose column ``words`` is a ``SPARSEVECTOR``.

Vectors are scanned. seekdb's own index of sparse vectors is several times as fast and promises no answer, so what it
leaves out could not be known; ``benchmarks/engine_speed.py`` says how often that is. A vector that is read back has six
digits a value, so the column ``vector`` has all of them once more.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tercet.errors import EngineError, MissingExtraError
from tercet.search.backends.credentials import is_loopback
from tercet.search.backends.engine import READING, Engine, Passing, Point, Query, Terms, Values
from tercet.search.backends.remote_index import RemoteIndex
from tercet.search.backends.sql_engine import COLUMNS, SECONDS, DatabaseUrl, SqlEngine, fields_of, password_of, shortest
from tercet.store.kinds import SEEKDB_INDEX

PASSWORD: Final = "SEEKDB_PASSWORD"
SUPPORTED: Final = (1,)

# Codes of the client (lost, gone, refused) and of the server (locked, busy, starting).
_PASSING: Final = frozenset({2002, 2003, 2006, 2013, 2014, 2055, 1040, 1205, 1213, 4012, 4023, 4038, 8001})
_FULL: Final = frozenset({1021, 1041, 1114, 4013, 4030, 4184})
_TIMED_OUT: Final = 4012
_NO_ENTRY: Final = frozenset({1044, 1045, 1049})


class SeekdbIndex(RemoteIndex):
    """Documents in a table of seekdb 1.x, see `RemoteIndex`; the password is that of the URL or of SEEKDB_PASSWORD.

    Examples
    --------
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> url = "seekdb://root@localhost:2881/test"
    >>> index = SeekdbIndex.build(docs, None, "index/", url=url)  # doctest: +SKIP
    >>> [hit.doc_id for hit in index.search("green avocados")]  # doctest: +SKIP
    ['a', 'b']
    """

    backend, engine_name, kind = "seekdb", "seekdb", SEEKDB_INDEX
    longest_name = 64

    @classmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        place = _parsed(url)
        try:
            import pymysql  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("PyMySQL", "seekdb", "an index in seekdb") from error
        return SeekdbEngine(place, collection, READING, password_of(place, secret, PASSWORD, is_named=is_named))

    @classmethod
    def kept_url(cls, url: Any) -> str:
        return _parsed(url).kept


def _parsed(url: Any) -> DatabaseUrl:
    return DatabaseUrl(url, ("seekdb", "mysql"), 2881, PASSWORD)


def _encrypting() -> Any:
    """A connection that says nothing to a server that does not offer TLS, where PyMySQL goes on without."""
    from pymysql.connections import Connection
    from pymysql.constants import CLIENT

    class EncryptedConnection(Connection):
        def _request_authentication(self) -> None:
            if not self.server_capabilities & CLIENT.SSL:
                raise EngineError(
                    f"{self.host} offers no TLS, and a password goes to no other machine without; use a tunnel to "
                    "localhost"
                )
            super()._request_authentication()

    return EncryptedConnection


class SeekdbEngine(SqlEngine):
    """A table of a seekdb server, through PyMySQL. Threads may share it."""

    name = "seekdb"
    stored_vector = "vector"

    @property
    def _table(self) -> str:
        return f"`{self.collection}`"  # a checked name has no quotes

    # -- talking to it ------------------------------------------------------------------------------------------

    def _open(self) -> Any:
        import pymysql

        place = self._place
        is_away = self._password is not None and not all(map(is_loopback, place.hosts))
        connection = _encrypting() if is_away else pymysql.connect
        return connection(
            host=place.host,
            port=place.port,
            user=place.user or "root",
            password=self._password or "",
            database=place.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, int(SECONDS / 6)),
            read_timeout=1.5 * SECONDS,
            write_timeout=1.5 * SECONDS,
            init_command=f"SET ob_query_timeout = {int(1e6 * SECONDS)}",
            ssl=ssl.create_default_context(cafile=place.options.get("ssl_ca")) if is_away else None,
        )

    def _execute(self, connection: Any, statement: str, parameters: Sequence[Any]) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(statement, list(parameters) or None)
            return list(cursor.fetchall())

    def _error(self, purpose: str, error: Exception) -> Exception:
        import pymysql

        if not isinstance(error, pymysql.MySQLError):
            return Passing(f"{type(error).__name__}: {error}") if isinstance(error, OSError) else error
        code, reason = (*error.args, 0, "")[:2]
        if code == _TIMED_OUT:
            return EngineError(f"{self.url}: {purpose} took longer than {SECONDS:.0f} s and was ended: {reason}")
        if code in _PASSING or isinstance(error, pymysql.err.InterfaceError):
            return Passing(f"{type(error).__name__}: {reason or error}")
        if code in _FULL:
            return EngineError(
                f"{self.url} is full or at a limit: {purpose}: {reason}. What was there is there; make room and give "
                "the same command again"
            )
        hint = self._lack if code == 1045 else ""
        refuses = "seekdb refuses: " if code in _NO_ENTRY else ""
        return EngineError(f"{self.url}: {purpose}: {refuses}{reason or error}{hint}")

    def check_version(self) -> None:
        [[version]] = self._ask("asking for its version", "SELECT version()")
        numbers = re.search(r"seekdb-v(\d+)\.", str(version))
        if numbers is None or int(numbers[1]) not in SUPPORTED:
            raise EngineError(f"{self.url} says that it is {version!r}; supported is seekdb 1.x")

    # -- the table ----------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        statement = (
            "SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND table_name = %s"
        )
        columns = [name for (name,) in self._ask("looking at the table", statement, [self.collection])]
        return self._problem_of(columns, (*COLUMNS, "vector"))

    def create(self) -> None:
        statement = (
            f"CREATE TABLE IF NOT EXISTS {self._table} (number BIGINT PRIMARY KEY, id_hash BIGINT, doc_id LONGTEXT, "
            "content LONGTEXT, carried LONGTEXT, marker LONGTEXT, words SPARSEVECTOR, vector LONGBLOB, "
            "KEY ids (id_hash)) DEFAULT CHARSET utf8mb4"
        )
        self._ask("creating the table", statement)

    def index_ids(self) -> None:
        pass  # the table has it from the beginning

    def put(self, points: Sequence[Point]) -> None:
        fields: list[Any] = []
        for point in points:
            words = _text(point.terms, point.values) if point.terms.size else None
            fields += [*fields_of(point), words, _packed(point.terms, point.values)]
        row = f"({', '.join(['%s'] * (len(COLUMNS) + 1))})"
        columns = ", ".join((*COLUMNS, "vector"))
        statement = f"REPLACE INTO {self._table} ({columns}) VALUES {', '.join([row] * len(points))}"
        self._ask(f"writing {len(points)} points", statement, fields)

    # -- vectors ------------------------------------------------------------------------------------------------

    def _product(self, n: int) -> str:
        return "negative_inner_product(words, %s)"

    def _pieces(self, query: Query) -> list[str]:
        return [_text(*query)]

    def _read_vector(self, stored: Any) -> tuple[Terms, Values]:
        n = len(stored) // 8
        return np.frombuffer(stored, "<i4", n).astype(np.int64), np.frombuffer(stored, "<f4", n, 4 * n)


def _text(terms: Terms, values: Values) -> str:
    return f"{{{shortest(terms, values, 0)}}}"


def _packed(terms: Terms, values: Values) -> bytes:
    return terms.astype("<i4").tobytes() + values.astype("<f4").tobytes()
