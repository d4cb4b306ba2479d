"""Checks of every request (tokens, hosts, rates, sizes), and headers of every answer."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tercet.serve.metrics import Metrics
from tercet.serve.problems import HttpProblem, problem_of

_log = logging.getLogger(__name__)

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "::1")
HEAD_BYTES: Final = 16_384  # of a request's first line and headers
BODY_BYTES: Final = 1_000_000  # of a request with a token
STRANGER_BODY_BYTES: Final = 65_536  # of a request without a token
_MOST_BUCKETS: Final = 10_000  # the least recently used are dropped
_FORWARDED: Final = re.compile(r"forwarded|via|x-real-ip|x-forwarded-.*")

# The page loads its own files only, and no other site may frame the page.
_POLICY: Final = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
)
_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]

Level = Literal["open", "read", "teach"]


@dataclass(frozen=True)
class Access:
    """Tokens, host names and proxies of a service.

    Without a read token everybody reads. Without a teaching token, requests of this machine teach: from a loopback
    address, to a loopback name, without proxy headers.

    Parameters
    ----------
    read_token : required to read
    teach_tokens : required to teach, by name of the teacher; each token also reads
    hosts : accepted names in the Host header, against DNS rebinding; None accepts all
    proxies : addresses and networks with a trusted X-Forwarded-For
    """

    read_token: str | None = None
    teach_tokens: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] | None = LOOPBACK_HOSTS
    proxies: tuple[str, ...] = ()

    def holder(self, headers: Headers) -> str | None:
        """Return the name of the token of a request, "" for the read token, or None without a known token."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        # Compare all tokens in constant time.
        sent, tokens = token.strip().encode(), {"": self.read_token, **self.teach_tokens}
        names = [name for name, key in tokens.items() if key is not None and hmac.compare_digest(sent, key.encode())]
        return names[0] if names else None

    def check(self, level: Level, scope: Scope) -> None:
        """Raise a problem unless the request may use a route of this level."""
        holder, needs_token = scope["state"]["holder"], self.read_token if level == "read" else self.teach_tokens
        if level == "open" or holder or (level == "read" and (holder is not None or not needs_token)):
            return
        if level == "teach" and not self.teach_tokens:
            if scope["state"]["is_local"]:
                return
            detail = "visitors do not teach; set TERCET_TEACH_TOKEN, and send that token"
            raise HttpProblem(403, detail, "not-teaching")
        if holder is not None:
            raise HttpProblem(403, "this token may not teach; changing the ranking needs a teaching token", "read-only")
        sent = "authorization" in Headers(scope=scope)
        detail = "this token is not known" if sent else "a token is required: 'Authorization: Bearer …'"
        raise HttpProblem(401, detail, "token")

    def check_host(self, method: str, headers: Headers) -> None:
        """Raise a problem for an unknown host name, or a page of another site."""
        host = headers.get("host", "")
        if self.hosts is not None and host_name(host) not in self.hosts:
            raise HttpProblem(421, f"the service does not answer to the host {host[:80]!r}", "host")
        origin = headers.get("origin")
        if method != "GET" and origin is not None and _parsed(origin).netloc != host:
            raise HttpProblem(403, "a page of another site may not change what is learned", "origin")


def is_local(scope: Scope, headers: Headers) -> bool:
    """Return True for a request of this machine without proxy headers."""
    address = scope["client"][0] if scope.get("client") else ""
    names = (address, host_name(headers.get("host", "")))
    return all(name in LOOPBACK_HOSTS for name in names) and not any(map(_FORWARDED.fullmatch, headers.keys()))


@lru_cache(1024)
def host_name(host: str) -> str | None:
    """Return the name in a Host header, without the port.

    Examples
    --------
    >>> host_name("Search.Example:8080"), host_name("[::1]:8080"), host_name("[")
    ('search.example', '::1', None)
    """
    return _parsed(f"//{host}").hostname


def _parsed(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:  # for example an open bracket
        return urlsplit("")


@lru_cache(4096)
def network_of(address: str) -> str:
    """Return an IPv4 address, the /64 prefix of an IPv6 address, or other text unchanged.

    Examples
    --------
    >>> network_of("10.0.0.1"), network_of("2001:db8:1:2:aaaa::7"), network_of("::ffff:10.0.0.1"), network_of("local")
    ('10.0.0.1', '2001:db8:1:2::', '10.0.0.1', 'local')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.is_loopback:
        return str(parsed)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False).network_address)


class Buckets:
    """Token buckets by name: ``burst`` tokens each, refilled at ``per_minute``.

    Examples
    --------
    >>> buckets = Buckets(per_minute=60, burst=2, clock=lambda: 0.0)
    >>> [buckets.take("me") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, per_minute: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_minute / 60, float(burst), clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take a token and return 0, or return the seconds to the next token. For one event loop only."""
        now = self._clock()
        level, then = self._levels.pop(name, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._per_second)
        self._levels[name] = (level - 1 if level >= 1 else level, now)
        if len(self._levels) > _MOST_BUCKETS:
            self._levels.popitem(last=False)
        return 0.0 if level >= 1 else (1 - level) / self._per_second if self._per_second else math.inf


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app : guarded application
    access : tokens and hosts
    metrics : counts every request
    direct : applications before routing, by method and path; each checks the token
    strangers : rate limit of requests without a token, by address, except of this machine
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        metrics: Metrics,
        direct: Mapping[tuple[str, str], ASGIApp],
        strangers: Buckets,
    ) -> None:
        self._app, self._access, self._metrics = app, access, metrics
        self._direct, self._strangers = direct, strangers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, headers, status = time.monotonic(), Headers(scope=scope), 0
        holder, is_this_machine = self._access.holder(headers), is_local(scope, headers)
        scope.setdefault("state", {}).update(started=started, holder=holder, is_local=is_this_machine)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = [*message.get("headers", ()), *_HEADERS]
                names = {name for name, _ in answered}
                answered += [header for header in (_POLICY, (b"cache-control", b"no-store")) if header[0] not in names]
                message["headers"] = answered
            await send(message)

        try:
            await self._guarded(scope, headers, receive, sending)
        except Exception as error:
            problem = problem_of(error, scope["method"], "")
            if problem.status == 500:  # the traceback is for the log only
                _log.exception("%s %r failed", scope["method"], scope["path"])
            if status == 0:
                await problem.response()(scope, receive, sending)
        finally:
            self._metrics.count(_method(scope), _route(scope), status, time.monotonic() - started)

    async def _guarded(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        target = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
        if target + sum(len(name) + len(value) + 4 for name, value in headers.raw) > HEAD_BYTES:
            raise HttpProblem(431, f"the head is larger than {HEAD_BYTES:,} bytes", "head", closes=True)
        if "transfer-encoding" in headers and "content-length" in headers:
            detail = "the request has Content-Length and Transfer-Encoding; send one of the two"
            raise HttpProblem(400, detail, "framing", closes=True)
        self._access.check_host(scope["method"], headers)
        holder = scope["state"]["holder"]
        if holder is None and not scope["state"]["is_local"]:
            wait = self._strangers.take(network_of(scope["client"][0] if scope.get("client") else "local"))
            if wait:
                raise HttpProblem(429, "too many requests without a token from this address", "rate", wait)
        direct = self._direct.get((scope["method"], scope["path"]))
        if direct is not None:
            await direct(scope, receive, send)
            return
        body = await self._body(headers, receive, STRANGER_BODY_BYTES if holder is None else BODY_BYTES)
        is_given = False

        async def receive_body() -> Message:
            nonlocal is_given
            if is_given:
                return await receive()
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_body, send)

    async def _body(self, headers: Headers, receive: Receive, most: int) -> bytes:
        """Return the complete body."""
        length = headers.get("content-length", "0")
        if "transfer-encoding" not in headers and length == "0":
            return b""
        if length.isdigit() and int(length[:20]) > most:
            raise _too_large(most)
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise HttpProblem(400, "the connection ended within the body", "disconnected", closes=True)
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                return b"".join(chunks)


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(413, f"the body is larger than {most:,} bytes", "limit", closes=True, name="body", limit=most)


def _method(scope: Scope) -> str:
    methods = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
    return scope["method"] if scope["method"] in methods else "other"


def _route(scope: Scope) -> str:
    """Return the path pattern of the route, as a label of metrics."""
    route = scope.get("route")
    return str(scope["state"].get("route") or getattr(route, "path", "other"))
