"""An index in PostgreSQL with pgvector: one table, whose column ``words`` is a ``sparsevec``, scanned exactly."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from tercet.engines.credentials import check_encrypted, credential, is_loopback
from tercet.engines.engine import READING, Engine
from tercet.engines.postgres_engine import PostgresEngine
from tercet.engines.remote_index import RemoteIndex
from tercet.errors import InputError, MissingExtraError
from tercet.store.kinds import POSTGRES_INDEX

PASSWORD: Final = "PGPASSWORD"
UNENCRYPTED: Final = ("disable", "allow", "prefer")  # modes in which a password may go without TLS
_SCHEMES: Final = ("postgresql", "postgres")
_PORT: Final = 5432
_SECRET_OPTIONS: Final = frozenset({"password", "sslpassword", "passwd"})


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

    engine_name, kind = "PostgreSQL", POSTGRES_INDEX
    longest_name = 63

    @classmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        parsed = PostgresUrl(url)
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgres", "an index in PostgreSQL") from error
        password = credential(parsed.hosts, parsed.port, secret or parsed.password, PASSWORD, is_named=is_named)
        if parsed.options.get("sslmode") in UNENCRYPTED and password.secret is not None:
            remedy = "use sslmode=require or more, or a tunnel to localhost"
            check_encrypted(parsed.hosts, False, "the password", remedy)
        return PostgresEngine(parsed.shown, collection, parsed.connection_options(), READING, password)

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
