"""Running the service: an address, an application, and an orderly end."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

import uvicorn

from tercet.errors import InputError
from tercet.serve.access_log import AccessLog
from tercet.serve.app import OPEN_PATHS, create_app
from tercet.serve.connections import Door, Server, Sparing, most_connections
from tercet.serve.guard import LOOPBACK_HOSTS, Access, host_name
from tercet.serve.networks import proxies_of
from tercet.serve.service import Service

_GRACE_SECONDS = 5
_TOKEN_CHARS = 16  # at least: a guess at each of them is hopeless


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def access_for(
    host: str,
    read_token: str | None,
    write_token: str | None,
    hosts: tuple[str, ...] = (),
    revoke_token: str | None = None,
    proxies: tuple[str, ...] = (),
) -> Access:
    """Who may ask at an address; without a read and a write token, one that others can reach is refused.

    A read or a revoke token without a write token is refused as well: those who may not even read could teach.
    """
    tokens = {"read": read_token, "write": write_token, "revoke": revoke_token}
    for name, token in tokens.items():
        if token is not None and (not token.strip() or not token.isascii() or token != token.strip()):
            raise InputError(f"the {name} token is empty or has blanks around it or characters beyond ASCII")
        if token is not None and len(token) < _TOKEN_CHARS:
            raise InputError(
                f"the {name} token has {len(token)} characters; {_TOKEN_CHARS} are the least. A good one is what "
                '`python -c "import secrets; print(secrets.token_urlsafe(32))"` prints'
            )
    names = tuple(_allowed_name(host_header) for host_header in hosts)
    there = [(name, token) for name, token in tokens.items() if token is not None]
    for i, (name, token) in enumerate(there):
        for other, another in there[i + 1 :]:
            if token == another:
                raise InputError(f"the {name} and the {other} token are the same; they must differ")
    believed = proxies_of(proxies)
    if is_loopback(host):
        if write_token is None and (read_token is not None or revoke_token is not None):
            alone = "read" if read_token is not None else "revoke"
            raise InputError(f"with a {alone} token alone everybody could teach; set TERCET_WRITE_TOKEN, too")
        return Access(read_token, write_token, (*LOOPBACK_HOSTS, *names), revoke_token, believed)
    if read_token is None or write_token is None:
        raise InputError(
            f"{host} can be reached by others, so a read and a write token are needed: "
            "TERCET_READ_TOKEN and TERCET_WRITE_TOKEN"
        )
    return Access(read_token, write_token, names or None, revoke_token, believed)


def _allowed_name(host: str) -> str:
    """A host as requests name it: in small letters, without a port, an IPv6 address without brackets."""
    name = host_name(f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host)
    if not name or "/" in host or "@" in host:
        raise InputError(f"{host!r} is no host name; expected one like search.example")
    return name


@contextmanager
def logged_to_stderr() -> Iterator[None]:
    """Show warnings and traces of Tercet, which as a library keeps them to itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("tercet")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Have a request be the work of one thread: products as small as a query's are only slower with more."""
    with import_module("threadpoolctl").threadpool_limits(1):
        yield


@contextmanager
def logged_sparingly(*names: str) -> Iterator[None]:
    """Have loggers that strangers can make write let through only so much."""
    sparing = Sparing()
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(sparing)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(sparing)


def run(
    service: Service,
    access: Access,
    host: str,
    port: int,
    say: Callable[[str], None],
    access_log: AccessLog | None = None,
    reread: Callable[[], None] | None = None,
) -> None:
    """Serve until a SIGTERM or SIGINT; ``say`` is told the address. Port 0 is any free one.

    A SIGHUP has ``reread`` called by a thread of the service, the index looked at, and the access log go on in the file
    that is at its path then.
    """
    app = create_app(service, access, access_log)
    try:
        host.encode("idna")  # as the system will have it; it says less well what is wrong
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=256)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise InputError(f"{host}:{port} cannot be listened on: {why}") from error
    sparing = ("uvicorn.error", "asyncio", "tercet.serve.guard")
    with listening, logged_to_stderr(), logged_sparingly(*sparing), _one_thread_each():
        listening.setblocking(False)
        # Connections inherit it. Else the second part of an answer waits until the first is acknowledged, some 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shown = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody could claim to be another address
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )

        def needs_token(method: str, path: str) -> bool:
            return path not in OPEN_PATHS and access.needs_token(method, path)

        server = Server(config, Door(access.knows, most_connections(), needs_token))

        def stop(*_: object) -> None:
            # For a signal before uvicorn listens to signals, and for those it raises again when it is done: by then
            # there is still the journal to close.
            server.should_exit = True

        def look(*_: object) -> None:
            service.reloader.look_soon()
            if access_log is not None:
                access_log.reopen()

        service.reloader.when_asked = reread
        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        if hasattr(signal, "SIGHUP"):
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, look)
        try:
            say(f"http://{shown}:{listening.getsockname()[1]}/")
            server.run(sockets=[listening])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
