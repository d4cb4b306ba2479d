"""What stands before HTTP: connections that wait cost little, end in time, and never keep others out.

uvicorn gives a connection all it needs for a request as soon as it is there, and lets it take its time. Here a
connection *waits* until the head of a request is whole: it costs a small object, is closed when the head does not come
in time, and is the first to go when there is no room for another. Only then uvicorn has it, until the answer is sent.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tercet.serve.networks import household

MOST_CONNECTIONS: Final = 16_384  # fewer where the system allows fewer open files
HEAD_SECONDS: Final = 10.0  # in which the head of a request must be there
HEAD_BYTES: Final = 16_384
_HEADS_BYTES = 2**25  # of heads that are not whole, all together
_STALLED_SECONDS = 10.0  # in which some of an answer must be taken
_SWEEP_SECONDS = 0.5
_ACCEPTED_AT_ONCE = 64
_BACKLOG = 4_096  # connections that the system holds until we look at them
_OTHER_FILES = 128  # that a service may have open beside its connections

_HEAD_END = re.compile(rb"\n\r?\n")
_TOKEN = re.compile(rb"\nauthorization:[ \t]*bearer[ \t]+([^\r\n]*)", re.IGNORECASE)


def _refusal(status: str, title: str, detail: str) -> bytes:
    body = f'{{"type": "about:blank", "title": "{title}", "status": {status[:3]}, "detail": "{detail}"}}'
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        "Retry-After: 1",
        "Connection: close",
        "",
        body,
    ]
    return "\r\n".join(lines).encode()


_TOO_SLOW = _refusal("408 Request Timeout", "Too slow", f"the head did not arrive within {HEAD_SECONDS:.0f} seconds")
_TOO_LARGE = _refusal(
    "431 Request Header Fields Too Large", "Too large", f"the head has more than {HEAD_BYTES:,} bytes"
)
_FULL = _refusal("503 Service Unavailable", "Busy", "there is no room for another connection; try again soon")


def most_connections() -> int:
    """How many connections the files that this process may open are enough for; raises that limit where it can."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    beside = 4 * _ACCEPTED_AT_ONCE + _OTHER_FILES  # what is closed is gone a few rounds later
    wanted = MOST_CONNECTIONS + beside
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, soft - beside))


class Door:
    """All connections of a server.

    Parameters
    ----------
    knows : whether a token is one of the service's; whoever showed one is not closed to make room
    most : connections at a time
    """

    def __init__(self, knows: Callable[[str], bool], most: int) -> None:
        self.knows, self.most = knows, most
        self.waiting: OrderedDict[Connection, None] = OrderedDict()  # those without a whole head, the oldest first
        self.busy: set[Connection] = set()
        self.n_turned_away = 0
        self.head_bytes = 0
        self._by_household: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.waiting) + len(self.busy)

    def open(self) -> None:
        """Begin to look after connections; in the loop that they are in."""
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.waiting):
            connection.end()

    def enter(self, connection: Connection) -> None:
        """Let a new connection wait; another goes where there is no room, or this one where all others are busy."""
        self._by_household[connection.household] += 1
        self.waiting[connection] = None
        if len(self) <= self.most:
            return
        self.n_turned_away += 1
        # Of a crowd from one place, the crowd pays; else whoever has waited longest.
        share = max(1, self.most // len(self._by_household))
        is_crowd = self._by_household[connection.household] > share
        for other in self.waiting:
            may_go = other is not connection and not other.is_known
            if may_go and (not is_crowd or other.household == connection.household):
                other.end()
                return
        connection.end(_FULL)

    def leave(self, connection: Connection) -> None:
        if connection not in self.waiting and connection not in self.busy:
            return  # it was sent away before
        self.waiting.pop(connection, None)
        self.busy.discard(connection)
        self._by_household[connection.household] -= 1
        if not self._by_household[connection.household]:
            del self._by_household[connection.household]

    def wait(self, connection: Connection) -> None:
        """The answer is sent; the next head may come."""
        if connection in self.busy:
            self.busy.discard(connection)
            self.waiting[connection] = None

    def serve(self, connection: Connection) -> None:
        """The head is there."""
        self.waiting.pop(connection, None)
        self.busy.add(connection)

    def _sweep(self) -> None:
        now = time.monotonic()
        late = []
        for connection in self.waiting:
            if connection.since > now - HEAD_SECONDS:
                break  # all others came later
            late.append(connection)
        for connection in late:
            connection.end(_TOO_SLOW if connection.has_head else b"")
        for connection in [one for one in self.busy if one.is_stalled(now)]:
            connection.abort()
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)


class Connection(asyncio.Protocol):
    """A connection: waits for the head of a request, then hands it, and what follows, to uvicorn."""

    __slots__ = ("_door", "_head", "_http", "_make", "_paused", "_transport", "household", "is_known", "since")

    def __init__(self, door: Door, make: Callable[[Connection], Http]) -> None:
        self._door, self._make = door, make
        self._http: Http | None = None
        self._head = b""
        self._paused = 0.0
        self.since, self.household, self.is_known = 0.0, "local", False

    @property
    def has_head(self) -> bool:
        """Whether there is the beginning of one."""
        return bool(self._head)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self.household = household(peer[0]) if peer else "local"
        self.since = time.monotonic()
        self._door.enter(self)

    def data_received(self, data: bytes) -> None:
        if self._http is not None and self._http.is_busy:
            self._http.data_received(data)
            return
        self._head += data
        self._door.head_bytes += len(data)
        if not _HEAD_END.search(self._head, max(0, len(self._head) - len(data) - 3)):
            if len(self._head) > HEAD_BYTES:
                self.end(_TOO_LARGE)
            elif self._door.head_bytes > _HEADS_BYTES:
                self.end(_FULL)
            return
        head = self._taken_head()
        token = _TOKEN.search(head)
        self.is_known = self.is_known or (token is not None and self._door.knows(token[1].decode("latin-1").strip()))
        self._door.serve(self)
        if self._http is None:
            self._http = self._make(self)
            self._http.connection_made(self._transport)
        self._http.data_received(head)

    def _taken_head(self) -> bytes:
        head, self._head = self._head, b""
        self._door.head_bytes -= len(head)
        return head

    def answered(self) -> None:
        """An answer was sent whole, and none is asked for by now."""
        self.since = time.monotonic()
        self._door.wait(self)

    def is_stalled(self, now: float) -> bool:
        """Whether whoever asked does not take the answer, or does not let the connection end."""
        if not self._paused and self._transport.is_closing():
            self._paused = now
        return bool(self._paused) and now - self._paused > _STALLED_SECONDS

    def end(self, answer: bytes = b"") -> None:
        """Close it, after an answer where there is one; what cannot be sent at once is not sent."""
        self._door.leave(self)
        if answer:
            self._transport.write(answer)
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause_writing(self) -> None:
        self._paused = time.monotonic()
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        self._paused = 0.0
        if self._http is not None:
            self._http.resume_writing()

    def eof_received(self) -> None:
        if self._http is not None:
            self._http.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._taken_head()
        self._door.leave(self)
        if self._http is not None:
            self._http.connection_lost(error)


class Http(H11Protocol):
    """HTTP as uvicorn speaks it, for a connection that reads for it."""

    def __init__(self, connection: Connection, **options: Any) -> None:
        super().__init__(**options)
        self._connection = connection

    @property
    def is_busy(self) -> bool:
        """Whether an answer is due, or more of a request whose answer was sent."""
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.is_busy:
            self._connection.answered()


class Server(uvicorn.Server):
    """uvicorn behind a door."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

        def connection(**options: Any) -> Connection:
            return Connection(door, lambda made: Http(made, **options))

        config.http, config.backlog = connection, _ACCEPTED_AT_ONCE  # type: ignore[assignment]

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)  # asyncio takes this number also for how many it accepts in one go
        self._door.open()

    async def shutdown(self, sockets: Any = None) -> None:
        self._door.close()
        await super().shutdown(sockets)


class Sparing(logging.Filter):
    """Lets a message of one place through so many times in a minute, so that nobody can fill the log.

    Examples
    --------
    >>> sparing = Sparing(most=1)
    >>> record = logging.makeLogRecord({"pathname": "a.py", "lineno": 1, "msg": "again"})
    >>> [sparing.filter(record) for _ in range(2)]
    [True, False]
    """

    def __init__(self, most: int = 10, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most, self._clock = most, clock
        self._minute = 0.0
        self._seen: Counter[tuple[str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        if now - self._minute > 60:
            self._minute = now
            self._seen.clear()
        place = (record.pathname, record.lineno)
        self._seen[place] += 1
        if self._seen[place] == self._most:
            record.msg = f"{record.msg} (more of these within a minute are left out)"
        return self._seen[place] <= self._most
