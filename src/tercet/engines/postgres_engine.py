"""A collection that is a table of a database: one row for each point, with a column for its sparse vector.

Engines say how to connect, how their dialect writes a vector and a table, and which of their errors pass by waiting.
"""

from __future__ import annotations

import contextlib
import json
import weakref
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError
from tercet.search.backends.credentials import Credential, credential
from tercet.search.backends.engine import (
    CARRIED,
    DOC_ID,
    MISSING,
    PAGE,
    TEXT,
    Engine,
    Patience,
    Point,
    Query,
    StoredPoint,
    Terms,
    Values,
    retried,
)
from tercet.store.strings import hash_of

# Ids are found by a number that stands for them, so that no length and no collation of a column is in the way.
COLUMNS: Final = ("number", "id_hash", "doc_id", "content", "carried", "marker", "words")
SECONDS: Final = 60.0  # that a connection or a statement may take

_SECRET_OPTIONS: Final = frozenset({"password", "sslpassword", "passwd"})


# -- where it is ------------------------------------------------------------------------------------------------------


class DatabaseUrl:
    """``scheme://user:password@host:port/database?option=value``; what is written down has no password.

    Examples
    --------
    >>> url = DatabaseUrl("postgresql://me:secret@host:5433/papers", ("postgresql",), 5432, "PGPASSWORD")
    >>> url.kept, url.shown, url.password
    ('postgresql://me@host:5433/papers', 'postgresql://host:5433/papers', 'secret')
    """

    def __init__(self, url: Any, schemes: Sequence[str], port: int, variable: str) -> None:
        expected = f"expected one like {schemes[0]}://user@localhost:{port}/database; its password is in {variable}"
        try:
            parts = urlsplit(url)
            self.port = parts.port or port
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
        if parts.scheme not in schemes or not self.host or not self.database or "/" in self.database or parts.fragment:
            shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
            raise InputError(f"url is {shown!r}; {expected}")
        # An option goes before what stands in front of it, and several hosts are tried in turn.
        said = [self.options.get("host", self.host), self.options.get("hostaddr", "")]
        self.hosts = [host for hosts in said for host in hosts.split(",") if host]
        netloc = parts.netloc.rpartition("@")[2]
        place = (parts.path.rstrip("/"), urlencode(self.options, quote_via=quote), "")
        self.shown = urlunsplit((schemes[0], netloc, *place))
        user = "" if self.user is None else quote(self.user, safe="") + "@"
        self.kept = urlunsplit((schemes[0], user + netloc, *place))


def password_of(url: DatabaseUrl, given: str | None, variable: str, *, is_named: bool) -> Credential:
    """The password of a database: given, of its URL, or of the environment where it may go there."""
    return credential(url.hosts, url.port, given or url.password, variable, is_named=is_named)


# -- connections ------------------------------------------------------------------------------------------------------


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


# -- a table ----------------------------------------------------------------------------------------------------------


class SqlEngine(Engine):
    """A table. Every statement is a transaction of its own, so a batch is there as a whole or not at all.

    Attributes
    ----------
    placeholder : what stands for a vector in a statement
    stored_vector : the column that gives a vector back, to the last bit
    """

    placeholder: ClassVar[str]
    stored_vector: ClassVar[str]

    def __init__(self, url: DatabaseUrl, collection: str, patience: Patience, password: Credential) -> None:
        self.url, self.collection, self._patience = url.shown, collection, patience
        self._place, self._password, self._lack = url, password.secret, password.lack
        self._connections = Connections(self._open)

    def patient(self, patience: Patience) -> Self:
        engine = copy(self)
        engine._patience = patience
        return engine

    # -- where dialects differ ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _table(self) -> str:
        """The name of the table, in quotes."""

    @abstractmethod
    def _open(self) -> Any:
        """A new connection, which commits each statement."""

    @abstractmethod
    def _execute(self, connection: Any, statement: str, parameters: Sequence[Any]) -> list[Any]:
        """The rows of one statement."""

    @abstractmethod
    def _error(self, purpose: str, error: Exception) -> Exception:
        """What to raise instead of an error of the client: `Passing`, `EngineError`, or the error itself."""

    @abstractmethod
    def _product(self, n: int) -> str:
        """The inner product of a document and a query that is given in n pieces, negated."""

    @abstractmethod
    def _pieces(self, query: Query) -> list[str]:
        """A query as the values of `_product`; almost always one."""

    @abstractmethod
    def _read_vector(self, stored: Any) -> tuple[Terms, Values]:
        """The value of ``stored_vector`` as arrays."""

    # -- asking -------------------------------------------------------------------------------------------------

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

    # -- the collection -----------------------------------------------------------------------------------------

    def _problem_of(self, columns: Collection[str], ours: Collection[str] = COLUMNS) -> str | None:
        if not columns:
            return MISSING
        if set(columns) != set(ours):
            return f"is a table with the columns {sorted(columns)[:12]}; ours have {sorted(ours)}"
        return None

    def drop(self) -> None:
        self._ask("removing the table", f"DROP TABLE IF EXISTS {self._table}")

    # -- points -------------------------------------------------------------------------------------------------

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
                StoredPoint(int(number), doc_id, -float(product), _later(self._read_vector, stored))
                for number, product, doc_id, stored in self._list_nearest(query, n, f", doc_id, {self.stored_vector}")
            ]
            for query in queries
        ]

    def nearest_rows(self, query: Query, n: int) -> NDArray[np.int64]:
        return np.array([number for number, _ in self._list_nearest(query, n, "")], dtype=np.int64)

    def _list_nearest(self, query: Query, n: int, columns: str) -> list[Any]:
        pieces = self._pieces(query)
        statement = (
            f"SELECT number, {self._product(len(pieces))} AS product{columns} FROM {self._table} "
            "WHERE words IS NOT NULL ORDER BY product LIMIT %s"
        )
        # Below zero there is nothing that is better than those without a word of the query, which are not listed.
        return [point for point in self._ask("searching", statement, [*pieces, n]) if point[1] < 0]

    def fetch(self, rows: Sequence[int]) -> list[StoredPoint]:
        if not rows:
            return []
        statement = f"SELECT number, doc_id, {self.stored_vector} FROM {self._table} WHERE number IN ({_marks(rows)})"
        points = self._ask("reading documents", statement, list(rows))
        return [
            StoredPoint(int(number), doc_id, 0.0, _later(self._read_vector, stored))
            for number, doc_id, stored in points
            if doc_id is not None
        ]

    def contents(self, rows: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        statement = f"SELECT number, content, carried FROM {self._table} WHERE number IN ({_marks(rows)})"
        return {
            int(number): {name: value for name, value in ((TEXT, text), (CARRIED, carried)) if value is not None}
            for number, text, carried in self._ask("reading texts", statement, list(rows))
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


def fields_of(point: Point) -> list[Any]:
    """The columns of a point up to the marker; its vector is for the dialect."""
    doc_id = point.payload.get(DOC_ID)
    if doc_id is None:
        return [point.row, None, None, None, None, json.dumps(dict(point.payload))]
    return [point.row, _signed_hash(doc_id), doc_id, point.payload.get(TEXT), point.payload.get(CARRIED), None]


def shortest(terms: Terms, values: Values, first: int) -> str:
    """``term:value`` one after the other, each number with as few digits as say which float32 it is."""
    return ",".join(f"{term + first}:{value!s}" for term, value in zip(terms.tolist(), values, strict=True))


def _later(read: Callable[[Any], tuple[Terms, Values]], stored: Any) -> Callable[[], tuple[Terms, Values]]:
    return lambda: read(stored)


def _signed_hash(doc_id: str) -> int:
    return int(np.uint64(hash_of(doc_id)).astype(np.int64))


def _marks(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))
