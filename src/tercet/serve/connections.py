"""What stands before HTTP: connections that wait cost little, end in time, and never keep others out.

uvicorn gives a connection all it needs for a request as soon as it is there, and lets it take its time. Here a
connection *waits* until the head of a request is whole: it costs a socket and a small object, is closed when the head
does not come in time, and is the first to go when there is no room for another. Only then uvicorn has it, until the
answer is sent.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tercet.serve.networks import household

_log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 16_384  # fewer where the system allows fewer open files
HEAD_SECONDS: Final = 10.0  # in which the head of a request must be there
HEAD_BYTES: Final = 16_384
_HEADS_BYTES = 2**25  # of heads that are not whole, all together
_STALLED_SECONDS = 10.0  # in which some of an answer must be taken
_SWEEP_SECONDS = 0.2
_ACCEPTED_AT_ONCE = 256
_BACKLOG = 4_096  # connections that the system holds until we look at them
_OTHER_FILES = 128  # that a service may have open beside its connections

_CROWD = 512  # connections from which on strangers are answered here, for a tenth of what an answer costs

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
_NO_TOKEN = _refusal("401 Unauthorized", "A token is needed", "this needs a token, as 'Authorization: Bearer ...'")
_FULL = _refusal("503 Service Unavailable", "Busy", "there is no room for another connection; try again soon")


def most_connections() -> int:
    """How many connections the files that this process may open are enough for; raises that limit where it can."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    siblings = _OTHER_FILES
    wanted = MOST_CONNECTIONS + siblings
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, soft - siblings))


class Waiting:
    """What waits for the head of a request: a connection that is new, or one that was answered and is kept."""

    def __init__(self, door: Door, place: str) -> None:
        self._door, self._head = door, b""
        self.household, self.is_known, self.since = place, False, time.monotonic()

    @property
    def has_head(self) -> bool:
        """Whether there is the beginning of one."""
        return bool(self._head)

    def end(self, answer: bytes = b"") -> None:
        """Close the connection, after an answer where there is one; what cannot be sent at once is not sent."""
        raise NotImplementedError

    def heard(self, data: bytes) -> bytes | None:
        """What has come until now, where that is a whole head; whoever sends too much of one is sent away."""
        self._head += data
        self._door.head_bytes += len(data)
        if _HEAD_END.search(self._head, max(0, len(self._head) - len(data) - 3)):
            head = self._head
            self.forget()
            token = _TOKEN.search(head)
            self.is_known |= token is not None and self._door.knows(token[1].decode("latin-1").strip())
            return head
        if len(self._head) > HEAD_BYTES:
            self.end(_TOO_LARGE)
        elif self._door.head_bytes > _HEADS_BYTES:
            self.end(_FULL)
        return None

    def forget(self) -> None:
        """Let go what has come of a head."""
        self._door.head_bytes -= len(self._head)
        self._head = b""


class Newcomer(Waiting):
    """A connection whose first request is not there yet: a socket that the loop looks at, and nothing else."""

    def __init__(self, door: Door, connection: socket.socket, place: str) -> None:
        super().__init__(door, place)
        self._connection = connection
        self._file = connection.fileno()  # a socket would be described, for an error that nobody sees, each time
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._readable)

    def _readable(self) -> None:
        try:
            data = self._connection.recv(HEAD_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.end()
        elif (head := self.heard(data)) is not None:
            if self._door.refuses(self, head):
                self.end(_NO_TOKEN)
                return
            self._loop.remove_reader(self._file)
            self._door.leave(self)
            self._door.hand_over(self._connection, self, head)

    def end(self, answer: bytes = b"") -> None:
        self._loop.remove_reader(self._file)
        self.forget()
        self._door.leave(self)
        with suppress(OSError):
            if answer:
                self._connection.send(answer)
        self._connection.close()


class Http(Waiting, H11Protocol):
    """HTTP as uvicorn speaks it, with the head that came already; afterwards it waits for the next one."""

    def __init__(self, door: Door, newcomer: Waiting, head: bytes, **options: Any) -> None:
        Waiting.__init__(self, door, newcomer.household)
        H11Protocol.__init__(self, **options)
        self.is_known, self._first, self._paused = newcomer.is_known, head, 0.0

    @property
    def is_busy(self) -> bool:
        """Whether an answer is due."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._door.serve(self)
        super().data_received(self._first)
        self._first = b""

    def data_received(self, data: bytes) -> None:
        if self.is_busy:
            super().data_received(data)
        elif (head := self.heard(data)) is not None:
            self._door.serve(self)
            super().data_received(head)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.is_busy:  # nor has the next one begun
            self.since = time.monotonic()
            self._door.wait(self)

    def is_stalled(self, now: float) -> bool:
        """Whether whoever asked does not take the answer, or does not let the connection end."""
        if not self._paused and self.transport.is_closing():
            self._paused = now
        return bool(self._paused) and now - self._paused > _STALLED_SECONDS

    def pause_writing(self) -> None:
        self._paused = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._paused = 0.0
        super().resume_writing()

    def end(self, answer: bytes = b"") -> None:
        self._door.leave(self)
        if answer:
            self.transport.write(answer)
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        self._door.leave(self)
        super().connection_lost(exc)


class Door:
    """All connections of a server.

    Parameters
    ----------
    knows : whether a token is one of the service's; whoever showed one is not closed to make room
    most : connections at a time
    needs_token : whether a method and a path need a token
    """

    def __init__(
        self, knows: Callable[[str], bool], most: int, needs_token: Callable[[str, str], bool] = lambda *_: False
    ) -> None:
        self.knows, self.most, self._needs_token = knows, most, needs_token
        self.n_refused = 0
        self.waiting: OrderedDict[Waiting, None] = OrderedDict()  # those without a whole head, the oldest first
        self.busy: set[Http] = set()
        self.head_bytes = 0  # of heads that are not whole
        self._by_household: Counter[str] = Counter()
        self._make: Callable[[Waiting, bytes], Http] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._listening: Sequence[socket.socket] = ()
        self._coming: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self.waiting) + len(self.busy) + len(self._coming)

    def open(self, listening: Sequence[socket.socket], make: Callable[[Waiting, bytes], Http]) -> None:
        """Let people in; in the loop that serves them."""
        self._make, self._listening = make, listening
        loop = asyncio.get_running_loop()
        for one in listening:
            one.listen(_BACKLOG)
            loop.add_reader(one, self._accept, one)
        self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def close(self) -> None:
        """Let nobody in any more, and send away those who have not asked for anything."""
        for one in self._listening:
            asyncio.get_running_loop().remove_reader(one)
        if self._timer is not None:
            self._timer.cancel()
        for waiting in list(self.waiting):
            waiting.end()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                _log.warning("no connection can be accepted: %s", error.strerror)
                self._make_room(None)
                return
            connection.setblocking(False)
            place = household(peer[0]) if isinstance(peer, tuple) else "local"
            self.enter(Newcomer(self, connection, place))

    def refuses(self, newcomer: Waiting, head: bytes) -> bool:
        """Whether a request is answered here, where there is a crowd, since it lacks the token that it needs."""
        if newcomer.is_known or len(self) < _CROWD:
            return False
        method, _, rest = head.partition(b"\n")[0].decode("latin-1").partition(" ")
        is_refused = self._needs_token(method, rest.partition(" ")[0].partition("?")[0])
        self.n_refused += is_refused
        return is_refused

    def hand_over(self, connection: socket.socket, newcomer: Waiting, head: bytes) -> None:
        """Have a request answered whose head is there."""
        assert self._make is not None
        http = self._make(newcomer, head)
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: http, connection))
        self._coming.add(task)
        task.add_done_callback(partial(self._come, connection))

    def _come(self, connection: socket.socket, task: asyncio.Task[Any]) -> None:
        self._coming.discard(task)
        if task.cancelled() or task.exception() is not None:
            connection.close()  # it ended while it was handed over

    def enter(self, newcomer: Waiting) -> None:
        """Let a new connection wait; another goes where there is no room, or this one where all others are busy."""
        self._wait(newcomer)
        if len(self) > self.most:
            self._make_room(newcomer)

    def _make_room(self, newcomer: Waiting | None) -> None:
        # Of a crowd from one place, the crowd pays; else whoever has waited longest.
        share = max(1, self.most // max(1, len(self._by_household)))
        is_crowd = newcomer is not None and self._by_household[newcomer.household] > share
        for other in self.waiting:
            may_go = other is not newcomer and not other.is_known
            if may_go and (newcomer is None or not is_crowd or other.household == newcomer.household):
                other.end()
                return
        if newcomer is not None:
            newcomer.end(_FULL)

    def serve(self, http: Http) -> None:
        """The head is there."""
        self.leave(http)
        self.busy.add(http)
        self._by_household[http.household] += 1

    def wait(self, http: Http) -> None:
        """The answer is sent; the next head may come."""
        if http in self.busy:
            self.leave(http)
            self._wait(http)

    def _wait(self, waiting: Waiting) -> None:
        self.waiting[waiting] = None
        self._by_household[waiting.household] += 1

    def leave(self, waiting: Waiting) -> None:
        if waiting in self.waiting:
            del self.waiting[waiting]
        elif waiting in self.busy:
            self.busy.discard(waiting)
        else:
            return  # it was sent away before
        self._by_household[waiting.household] -= 1
        if not self._by_household[waiting.household]:
            del self._by_household[waiting.household]

    def _sweep(self) -> None:
        now = time.monotonic()
        late = []
        for waiting in self.waiting:
            if waiting.since > now - HEAD_SECONDS:
                break  # all others came later
            late.append(waiting)
        for waiting in late:
            waiting.end(_TOO_SLOW if waiting.has_head else b"")
        for http in [one for one in self.busy if one.is_stalled(now)]:
            http.transport.abort()
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)


class Server(uvicorn.Server):
    """uvicorn behind a door."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # the one that looks at bare sockets
            runner.run(self.serve(sockets))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])

        def http(newcomer: Waiting, head: bytes) -> Http:
            options = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
            return Http(self._door, newcomer, head, **options, _loop=asyncio.get_running_loop())

        self._door.open(sockets or [], http)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
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
