"""What stands before every request: host and origin, tokens, the size of the body; and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tercet.serve.access_log import AccessLog, request_id_of
from tercet.serve.bounds import BODY_BYTES, VOTE_BYTES
from tercet.serve.journal import Trust
from tercet.serve.metrics import Metrics
from tercet.serve.networks import Network, client_address, household
from tercet.serve.problems import HttpProblem

_log = logging.getLogger(__name__)

_BODY_SECONDS = 10.0
_BODIES = 64  # that arrive at a time; with the largest size of one, this bounds the memory they take
_BODIES_OF_ONE = 16  # of these, from one address
_REST_BYTES, _REST_SECONDS = 65_536, 0.5  # of a body that nobody reads, and in which time, before an answer is sent
_READERS_POST = frozenset({"/events"})  # who may search may say what it clicked: that is logged, and changes nothing
_MOST_BYTES = dict.fromkeys(("/clicks", "/documents", "/revoke", "/undo"), BODY_BYTES)  # of bodies, by POST
_MOST_BYTES |= dict.fromkeys(("/events", "/prefer"), VOTE_BYTES)
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
    """Who may ask. The write token teaches, the revoke token takes back what anybody taught, both read as well.

    Without a read token everybody reads, and without a write token everybody teaches and takes back. Where there is a
    write token, only the revoke token revokes.

    ``hosts`` are the names by which the service may be called, so that a page of another site cannot reach it by a
    name of its own; None takes any. ``proxies`` are believed in what they say of the addresses of their clients.
    """

    read_token: str | None = None
    write_token: str | None = None
    hosts: tuple[str, ...] | None = LOOPBACK_HOSTS
    revoke_token: str | None = None
    proxies: tuple[Network, ...] = ()

    def knows(self, token: str) -> bool:
        """Whether it is any of the tokens."""
        return _is_one_of(token, (self.read_token, self.write_token, self.revoke_token))

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Raise a problem unless a request with these headers may go on."""
        reads = method in ("GET", "HEAD") or path in _READERS_POST
        if reads and self.read_token is None:
            return
        if not reads and self.write_token is None and (path != "/revoke" or self.revoke_token is None):
            return
        if path == "/revoke":
            needed: tuple[str | None, ...] = (self.revoke_token,)
        else:
            needed = (self.read_token, self.write_token, self.revoke_token) if reads else (self.write_token,)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise HttpProblem(401, "this needs a token, as 'Authorization: Bearer …'", "token")
        if _is_one_of(token.strip(), needed):
            return
        if not self.knows(token.strip()):
            raise HttpProblem(401, "this token is not known", "token")
        if path != "/revoke":
            detail = "this token may not teach; changing what is learned needs the write token"
            raise HttpProblem(403, detail, "read-only")
        unset = "" if self.revoke_token is not None else ", and none is set"
        raise HttpProblem(403, f"taking back what others taught needs the revoke token{unset}", "not-revoking")

    def needs_token(self, method: str, path: str) -> bool:
        """Whether a request without any token is refused; the page and the like are not asked for here."""
        reads = method in ("GET", "HEAD") or path in _READERS_POST
        return (self.read_token if reads else self.write_token) is not None

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
    """ASGI middleware.

    Parameters
    ----------
    app : what it guards
    access : who may ask
    metrics, access_log : told of every request
    open_paths : that need no token
    check_rate : given an address and a path before the body of a change is read; raises a problem where it changes too
        much
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        metrics: Metrics,
        open_paths: frozenset[str],
        access_log: AccessLog | None = None,
        check_rate: Callable[[str, str], None] | None = None,
    ) -> None:
        self._app, self._access, self._metrics, self._open_paths = app, access, metrics, open_paths
        self._access_log = access_log
        self._check_rate = check_rate
        self._bodies: Counter[str] = Counter()  # that arrive, by the household they come from
        self._unread = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        scope.setdefault("state", {})["started"] = started
        headers = Headers(scope=scope)
        peer = scope.get("client")
        if peer and self._access.proxies:
            forwarded = headers.getlist("x-forwarded-for")
            scope["client"] = (client_address(peer[0], forwarded, self._access.proxies), peer[1])
        request_id = request_id_of(headers.get("x-request-id"))
        status, body = 0, Body(headers, receive)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer_headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer_headers.setdefault(name, value)
                answer_headers["X-Request-ID"] = request_id
                if not body.is_read and not await self._passed_over(body):
                    answer_headers["Connection"] = "close"  # else what is still to come would hold it
            await send(message)

        try:
            await self._guarded(scope, headers, body, sending)
        except HttpProblem as problem:
            scope["state"]["problem"] = problem
            await problem.response()(scope, receive, sending)
        except Exception:
            # A defect: the log has the trace, the client does not.
            _log.exception("%s %r failed, request %s", scope["method"], scope["path"], request_id)
            if status == 0:
                failure = HttpProblem(500, "something went wrong here; the service's log says what", "internal")
                scope["state"]["problem"] = failure
                await failure.response()(scope, receive, sending)
        finally:
            seconds = time.monotonic() - started
            found = scope["state"].get("problem")
            if status == 503 and found is not None:
                said = (_method(scope), _route(scope), seconds, found.kind, found.detail, request_id)
                _log.warning("%s %s was answered by 503 after %.3f s (%s): %s; request %s", *said)
            self._metrics.count(_method(scope), _route(scope), status, seconds)
            if self._access_log is not None:
                self._access_log.write(
                    request_id=request_id,
                    address=scope["client"][0] if scope.get("client") else None,
                    method=_method(scope),
                    path=scope["path"],
                    route=_route(scope),
                    status=status,
                    problem=None if found is None else found.kind,
                    ms=round(seconds * 1000, 3),
                )

    async def _guarded(self, scope: Scope, headers: Headers, body: Body, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        self._access.check_host(method, headers)
        if path not in self._open_paths:
            self._access.check(method, path, headers)
        if not (method == "POST" and path in _MOST_BYTES):
            if not body.is_read:
                raise HttpProblem(400, f"{_method(scope)} takes no body at this path", "no-body")
            await self._app(scope, body.handed_over, send)
            return
        address = scope["client"][0] if scope.get("client") else "local"
        if self._check_rate is not None:
            self._check_rate(address, path)
        place = household(address)
        if self._bodies[place] >= _BODIES_OF_ONE or self._bodies.total() >= _BODIES:
            n = self._bodies[place]
            said = f"{n} bodies are arriving from this address" if n >= _BODIES_OF_ONE else f"{_BODIES} bodies arrive"
            raise HttpProblem(503, f"{said}; try again soon", "busy", 1.0)
        self._bodies[place] += 1
        try:
            await body.read(_MOST_BYTES[path])
        finally:
            self._bodies[place] -= 1
            if not self._bodies[place]:
                del self._bodies[place]
        await self._app(scope, body.handed_over, send)

    async def _passed_over(self, body: Body) -> bool:
        """Let a short body come in before a refusal is sent; a connection that is closed too soon loses the answer."""
        if self._unread >= _BODIES or not body.is_short:
            return False
        self._unread += 1
        try:
            return await body.passed_over()
        finally:
            self._unread -= 1


class Body:
    """The body of a request, of bounded size and in bounded time."""

    def __init__(self, headers: Headers, receive: Receive) -> None:
        self._receive, self._content, self._is_handed_over = receive, b"", False
        length = headers.get("content-length", "")
        self._length = int(length[:20]) if length.isascii() and length.isdigit() else None
        self.is_read = "transfer-encoding" not in headers and not self._length
        self.is_short = self._length is not None and self._length <= _REST_BYTES and "expect" not in headers

    async def read(self, most: int) -> None:
        """Have it come in as a whole, of so many bytes at most."""
        if self._length is not None and self._length > most:
            raise _too_large(self._length, most)
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                self._content = await self._received(most)
        except TimeoutError as error:
            raise HttpProblem(408, f"the body did not arrive within {_BODY_SECONDS:.0f} seconds", "slow") from error

    async def passed_over(self) -> bool:
        """Have it come in, to be thrown away; whether it did."""
        try:
            async with asyncio.timeout(_REST_SECONDS):
                await self._received(_REST_BYTES)
        except (TimeoutError, HttpProblem):
            return False
        return True

    async def handed_over(self) -> Message:
        """What the application receives."""
        if self._is_handed_over:
            return await self._receive()
        self._is_handed_over = True
        return {"type": "http.request", "body": self._content, "more_body": False}

    async def _received(self, most: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while not self.is_read:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise HttpProblem(400, "the connection ended within the body", "disconnected")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > most:
                raise _too_large(size, most)
            self.is_read = not message.get("more_body", False)
        return b"".join(chunks)


def _too_large(size: int, most: int) -> HttpProblem:
    detail = f"the body has {size:,} bytes or more; at most {most:,} are allowed here"
    return HttpProblem(413, detail, "limit", name="body", limit=most, value=size)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _method(scope: MutableMapping[str, Any]) -> str:
    return scope["method"] if scope["method"] in _METHODS else "other"


def _route(scope: MutableMapping[str, Any]) -> str:
    """The pattern of the path, so that nobody can make ever new labels."""
    return getattr(scope.get("route"), "path", "other")
