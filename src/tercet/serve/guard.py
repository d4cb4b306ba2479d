"""What stands before every request: host and origin, tokens, the size of the body; and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tercet.serve.access_log import AccessLog, request_id_of
from tercet.serve.bounds import BODY_BYTES
from tercet.serve.journal import Trust
from tercet.serve.metrics import Metrics
from tercet.serve.problems import HttpProblem

_log = logging.getLogger(__name__)

_BODY_SECONDS = 10.0
_BODIES = 64  # that arrive at a time; with the largest size of one, this bounds the memory they take
_READERS_POST = frozenset({"/events"})  # who may search may say what it clicked: that is logged, and changes nothing
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")  # what proxies send along

# The page needs its own files and nothing else; nobody may frame it.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Who may ask. The write token reads as well; None lets everybody.

    ``hosts`` are the names by which the service may be called, so that a page of another site cannot reach it by a
    name of its own; None takes any.
    """

    read_token: str | None = None
    write_token: str | None = None
    hosts: tuple[str, ...] | None = LOOPBACK_HOSTS

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Raise a problem unless a request with these headers may go on."""
        reads = method in ("GET", "HEAD") or path in _READERS_POST
        needed = (self.read_token, self.write_token) if reads else (self.write_token,)
        if needed[0] is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise HttpProblem(401, "this needs a token, as 'Authorization: Bearer …'", "token")
        if _is_one_of(token.strip(), needed):
            return
        if _is_one_of(token.strip(), (self.read_token,)):
            raise HttpProblem(403, "this token may read; changing what is learned needs the write token", "read-only")
        raise HttpProblem(401, "this token is not known", "token")

    def vouches(self, headers: Headers) -> bool:
        """Whether whoever sends these headers may name clients as it sees them, as the server of a site does."""
        token = headers.get("authorization", "").partition(" ")[2].strip()
        return self.write_token is not None and _is_one_of(token, (self.write_token,))

    def trust(self, client: str, headers: Headers) -> Trust:
        """Which allowance pays for the change of a client whom `check` let pass.

        Without a token the teacher is whoever sits at this machine: a loopback address, by a loopback name, through no
        proxy, and not for somebody else.
        """
        address, _, name = client.partition("/")
        if self.write_token is not None:
            return "vouched" if name else "teacher"
        is_here = address in LOOPBACK_HOSTS and host_name(headers.get("host", "")) in LOOPBACK_HOSTS
        return "teacher" if is_here and not name and not any(sent in headers for sent in _FORWARDED) else "visitor"

    def check_host(self, method: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if self.hosts is not None and host_name(host) not in self.hosts:
            raise HttpProblem(421, f"the service does not answer to the host {host[:80]!r}", "host")
        origin = headers.get("origin")
        if method != "GET" and origin is not None and _parsed(origin).netloc != host:
            raise HttpProblem(403, "a page of another site may not change what is learned", "origin")


def host_name(host: str) -> str | None:
    """The name in a Host header, which may have a port.

    Examples
    --------
    >>> host_name("Search.Example:8080"), host_name("[::1]:8080"), host_name("[")
    ('search.example', '::1', None)
    """
    return _parsed(f"//{host}").hostname


def _parsed(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:  # an open bracket and the like: no address of ours
        return urlsplit("")


def _is_one_of(candidate: str, tokens: Iterable[str | None]) -> bool:
    # Every token is compared, each in constant time, so that the time tells nothing.
    matches = [hmac.compare_digest(candidate.encode(), token.encode()) for token in tokens if token is not None]
    return any(matches)


class Guard:
    """ASGI middleware."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        metrics: Metrics,
        open_paths: frozenset[str],
        access_log: AccessLog | None = None,
    ) -> None:
        self._app, self._access, self._metrics, self._open_paths = app, access, metrics, open_paths
        self._access_log = access_log
        self._bodies = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        scope.setdefault("state", {})["started"] = started
        request_id = request_id_of(Headers(scope=scope).get("x-request-id"))
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = request_id
            await send(message)

        try:
            await self._guarded(scope, receive, sending)
        except HttpProblem as problem:
            await problem.response()(scope, receive, sending)
        except Exception:
            # A defect: the log has the trace, the client does not.
            _log.exception("%s %r failed, request %s", scope["method"], scope["path"], request_id)
            if status == 0:
                failure = HttpProblem(500, "something went wrong here; the service's log says what", "internal")
                await failure.response()(scope, receive, sending)
        finally:
            seconds = time.monotonic() - started
            self._metrics.count(_method(scope), _route(scope), status, seconds)
            if self._access_log is not None:
                self._access_log.write(
                    request_id=request_id,
                    address=scope["client"][0] if scope.get("client") else None,
                    method=_method(scope),
                    path=scope["path"],
                    route=_route(scope),
                    status=status,
                    ms=round(seconds * 1000, 3),
                )

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, method = Headers(scope=scope), scope["method"]
        self._access.check_host(method, headers)
        if scope["path"] not in self._open_paths:
            self._access.check(method, scope["path"], headers)
        if method in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        if self._bodies >= _BODIES:
            raise HttpProblem(503, f"{_BODIES} bodies are arriving; try again soon", "busy", 1.0)
        self._bodies += 1
        try:
            body = await _body(headers, receive)
        finally:
            self._bodies -= 1
        handed_over = False

        async def whole_body() -> Message:
            nonlocal handed_over
            if handed_over:
                return await receive()
            handed_over = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, whole_body, send)


async def _body(headers: Headers, receive: Receive) -> bytes:
    """The whole body, of bounded size and in bounded time."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > BODY_BYTES:
        raise _too_large(int(length[:20]))
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HttpProblem(400, "the connection ended within the body", "disconnected")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > BODY_BYTES:
                    raise _too_large(size)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError as error:
        raise HttpProblem(408, f"the body did not arrive within {_BODY_SECONDS:.0f} seconds", "slow") from error


def _too_large(size: int) -> HttpProblem:
    detail = f"the body has {size:,} bytes or more; at most {BODY_BYTES:,} are allowed"
    return HttpProblem(413, detail, "limit", name="body", limit=BODY_BYTES, value=size)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _method(scope: MutableMapping[str, Any]) -> str:
    return scope["method"] if scope["method"] in _METHODS else "other"


def _route(scope: MutableMapping[str, Any]) -> str:
    """The pattern of the path, so that nobody can make ever new labels."""
    return getattr(scope.get("route"), "path", "other")
