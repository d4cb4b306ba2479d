"""Start of the service at an address, and orderly shutdown."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tercet.errors import InputError
from tercet.serve.app import create_app
from tercet.serve.guard import HEAD_BYTES, LOOPBACK_HOSTS, Access, host_name
from tercet.serve.service import Service

_GRACE_SECONDS: Final = 5
_TOKEN_CHARS: Final = 16  # minimum
_MOST_CONNECTIONS: Final = 4_096
_SWITCH_SECONDS: Final = 5e-4  # thread switch interval, so that the event loop does not wait 5 ms for a search
_TEACHER: Final = "teacher"  # name of a token without a name


def is_loopback(host: str) -> bool:
    """Return True for a loopback address.

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
    read_token: str | None = None,
    teach_tokens: Sequence[str] = (),
    hosts: Sequence[str] = (),
    proxies: Sequence[str] = (),
) -> Access:
    """Return the access rules for an address.

    A teaching token is ``TOKEN`` or ``NAME:TOKEN``; the store keeps the name with each action. Addresses other than
    loopback need a read and a teaching token. A proxy needs a teaching token, because every visitor of a
    local proxy comes from loopback.
    """
    named = [_named_token(token) for token in teach_tokens]
    tokens = [*([("read", read_token)] if read_token is not None else []), *named]
    for i, (name, token) in enumerate(tokens):
        _check_token(name, token)
        for other_name, other_token in tokens[:i]:
            if token == other_token:
                raise InputError(f"the {name} and the {other_name} token are the same; they must differ")
    if len(dict(named)) < len(named):
        raise InputError("two teaching tokens have the same name; names must differ: ann:TOKEN, bob:TOKEN")
    names = tuple(_allowed_name(host_header) for host_header in hosts)
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise InputError(f"{error}; a proxy is an address or a network, as 10.0.0.5 or 10.0.0.0/24") from error
    if proxies and not named:
        raise InputError("behind a proxy every visitor seems to be this machine; set TERCET_TEACH_TOKEN, too")
    if read_token is not None and not named:
        raise InputError("with a read token alone nobody could teach; set TERCET_TEACH_TOKEN, too")
    if is_loopback(host):
        return Access(read_token, dict(named), (*LOOPBACK_HOSTS, *names), tuple(proxies))
    if read_token is None or not named:
        raise InputError(
            f"{host} can be reached by others, so a read and a teaching token are needed: "
            "TERCET_READ_TOKEN and TERCET_TEACH_TOKEN"
        )
    return Access(read_token, dict(named), names or None, tuple(proxies))


def _named_token(text: str) -> tuple[str, str]:
    name, colon, token = text.rpartition(":")
    if colon and not name:
        raise InputError("a teaching token has no name before its colon; expected NAME:TOKEN")
    return (name, token) if colon else (_TEACHER, text)


def _check_token(name: str, token: str) -> None:
    if not token.strip() or not token.isascii() or token != token.strip():
        raise InputError(f"the {name} token is empty or has blanks around it or characters beyond ASCII")
    if len(token) < _TOKEN_CHARS:
        raise InputError(
            f"the {name} token has {len(token)} characters; {_TOKEN_CHARS} are the least. A good one is what "
            '`python -c "import secrets; print(secrets.token_urlsafe(32))"` prints'
        )


def _allowed_name(host: str) -> str:
    """Return a host name in lower case, without port or brackets."""
    name = host_name(f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host)
    if not name or "/" in host or "@" in host:
        raise InputError(f"{host!r} is no host name; expected one like search.example")
    return name


@contextmanager
def logged_to_stderr() -> Iterator[None]:
    """Print warnings and tracebacks of Tercet on standard error."""
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
    """Limit BLAS to one thread: the products of a query are too small for more."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        with import_module("threadpoolctl").threadpool_limits(1):
            yield
    finally:
        sys.setswitchinterval(before)


def run(service: Service, access: Access, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, and pass the address to ``say``. Port 0 is any free port.

    SIGHUP looks for a new index at once.
    """
    app: Any = create_app(service, access)
    try:
        host.encode("idna")  # checked here for a better error
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=256)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise InputError(f"{host}:{port} cannot be listened on: {why}") from error
    with listening, logged_to_stderr(), _one_thread_each():
        listening.setblocking(False)
        # Connections inherit TCP_NODELAY. Otherwise the second part of an answer waits some 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        url_host = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            ProxyHeadersMiddleware(app, list(access.proxies)) if access.proxies else app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            http="h11",  # bounds the size of heads
            h11_max_incomplete_event_size=HEAD_BYTES,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        server = uvicorn.Server(config)

        def stop(*_: object) -> None:
            # Signals before uvicorn handles them, and signals that uvicorn raises again at its end.
            server.should_exit = True

        def look(*_: object) -> None:
            service.reloader.look_soon()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        if hasattr(signal, "SIGHUP"):
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, look)
        try:
            say(f"http://{url_host}:{listening.getsockname()[1]}/")
            server.run(sockets=[listening])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
