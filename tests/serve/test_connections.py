"""Connections that wait: they cost little, end in time, and keep nobody out."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from support.serving import Running, made_index, running
from tercet.serve import connections
from tercet.serve.connections import Door, Server, Sparing, Waiting

TOKEN = "of-the-connections"
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


class Guest(Waiting):
    """Waits, without a connection, and notes what becomes of it."""

    def __init__(self, door: Door, place: str = "10.0.0.1") -> None:
        super().__init__(door, place)
        self.state = "open"

    def end(self, answer: bytes = b"") -> None:
        self.forget()
        self._door.leave(self)
        self.state = answer[9:12].decode() or "closed"


def entered(door: Door, place: str = "10.0.0.1", data: bytes = b"") -> Guest:
    guest = Guest(door, place)
    door.enter(guest)
    if data:
        guest.heard(data)
    return guest


def open_door(most: int = 4) -> Door:
    return Door(lambda token: token == TOKEN, most)


def test_who_has_waited_longest_makes_room():
    door = open_door()
    guests = [entered(door, f"10.0.0.{i}") for i in range(6)]
    assert [guest.state for guest in guests] == ["closed"] * 2 + ["open"] * 4
    assert len(door) == 4


def test_a_crowd_of_one_place_makes_room_for_its_own():
    door = open_door()
    other = entered(door, "2001:db8::")
    crowd = [entered(door, "2001:db8:0:1::") for _ in range(8)]
    assert other.state == "open"
    assert [guest.state for guest in crowd] == ["closed"] * 5 + ["open"] * 3


def test_who_showed_a_token_stays():
    door = open_door(2)
    known = [entered(door) for _ in range(2)]
    for guest in known:
        assert guest.heard(HEAD + b"authorization:  bearer " + TOKEN.encode() + b"\r\n\r\n")
    late = entered(door)
    assert [guest.state for guest in (*known, late)] == ["open", "open", "503"]
    assert b"Retry-After: 1\r\n" in connections._FULL


def test_in_a_crowd_strangers_are_told_so_at_once(monkeypatch):
    door = Door(lambda token: token == TOKEN, 100, lambda method, path: (method, path) != ("GET", "/health"))
    guest = entered(door)
    asked = b"GET /search?q=green HTTP/1.1\r\n\r\n"
    assert not door.refuses(guest, asked)
    monkeypatch.setattr(connections, "_CROWD", 1)
    assert door.refuses(guest, asked)
    assert not door.refuses(guest, b"GET /health HTTP/1.1\r\n\r\n")
    assert door.refuses(guest, b"POST /health HTTP/1.1\r\n\r\n")
    assert door.refuses(guest, b"\xff\n\n")
    guest.is_known = True
    assert not door.refuses(guest, asked)


def test_a_head_is_whole_at_its_empty_line():
    door = open_door()
    guest = entered(door)
    for byte in HEAD + b"\r":
        assert guest.heard(bytes([byte])) is None
    assert door.head_bytes == len(HEAD) + 1
    assert guest.heard(b"\nbody") == HEAD + b"\r\nbody"
    assert (door.head_bytes, guest.has_head) == (0, False)


def test_heads_are_bounded_one_by_one_and_together(monkeypatch):
    door = open_door()
    assert entered(door, data=b"x" * (connections.HEAD_BYTES + 1)).state == "431"
    monkeypatch.setattr(connections, "_HEADS_BYTES", 10)
    assert entered(door, data=b"x" * 11).state == "503"
    assert (door.head_bytes, len(door)) == (0, 0)


def test_a_head_that_comes_too_late_is_not_waited_for():
    async def swept(door: Door) -> None:
        door._sweep()
        door._timer.cancel()

    door = open_door()
    begun, idle, new = entered(door, data=HEAD), entered(door), entered(door)
    for guest in (begun, idle):
        guest.since -= connections.HEAD_SECONDS
    asyncio.run(swept(door))
    assert [guest.state for guest in (begun, idle, new)] == ["408", "closed", "open"]


def test_a_log_cannot_be_filled():
    now = [0.0]
    sparing = Sparing(3, lambda: now[0])

    def let_through(line: int) -> bool:
        return sparing.filter(logging.makeLogRecord({"pathname": "a.py", "lineno": line, "msg": "again"}))

    assert [let_through(1) for _ in range(5)] == [True] * 3 + [False] * 2
    assert let_through(2)
    now[0] = 61.0
    assert let_through(1)


@contextmanager
def served_here(monkeypatch, app: Any, most: int = 100) -> Iterator[tuple[int, Door]]:
    """A server in a thread of this process, with short times."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.4)
    monkeypatch.setattr(connections, "_STALLED_SECONDS", 0.4)
    monkeypatch.setattr(connections, "_SWEEP_SECONDS", 0.05)
    door = open_door(most)
    server = Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1), door)
    server.capture_signals = nullcontext  # this is not the main thread
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1], door
        finally:
            server.should_exit = True
            thread.join(20)
    assert not thread.is_alive()


def connected(port: int, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=90)
    connection.sendall(data)
    return connection


def heard(connection: socket.socket, n_answers: int) -> None:
    """Receive so many short answers."""
    received = b""
    while received.count(b"ok") < n_answers:
        received += (data := connection.recv(4096))
        assert data


def until(condition: Any) -> None:
    late = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < late
        time.sleep(0.01)


async def large_answer(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"50000000")]})
    await send({"type": "http.response.body", "body": bytes(50_000_000)})


async def short_answer(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_a_connection_is_kept_and_its_next_head_has_its_time_too(monkeypatch):
    with served_here(monkeypatch, short_answer) as (port, door), connected(port, HEAD + b"\r\n") as connection:
        heard(connection, 1)
        connection.sendall((HEAD + b"\r\n") * 2)  # one behind the other
        heard(connection, 2)
        until(lambda: len(door.waiting) == 1)
        connection.sendall(HEAD)
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert connection.recv(4096) == b""
        assert len(door) == 0


def test_an_answer_that_nobody_takes_is_not_kept(monkeypatch):
    with served_here(monkeypatch, large_answer) as (port, door), connected(port, HEAD + b"\r\n") as connection:
        until(lambda: len(door))
        until(lambda: not len(door))
        n_received = 0
        with suppress(ConnectionResetError):
            while data := connection.recv(2**20):
                n_received += len(data)
        assert n_received < 50_000_000


def test_connections_end_when_they_may(monkeypatch):
    with served_here(monkeypatch, short_answer, most=3) as (port, door):
        held = [connected(port) for _ in range(5)]
        until(lambda: len(door) == 3)
        with connected(port, HEAD + b"\r\n") as one_more:
            heard(one_more, 1)
        until(lambda: len(door) == 0)  # they said nothing for too long
        assert door._by_household == {}
        for connection in held:
            assert connection.recv(10) == b""
            connection.close()
        broken = connected(port, b"nonsense\r\n\r\n")
        assert broken.recv(4096).startswith(b"HTTP/1.1 400 ")
        broken.close()
        connected(port, HEAD).close()
        until(lambda: (len(door), door.head_bytes) == (0, 0))


# -- over real connections ------------------------------------------------------------------------------------------


@contextmanager
def strangers(service: Running, n: int, first: bytes) -> Iterator[list[socket.socket]]:
    port = int(service.address.rstrip("/").rpartition(":")[2])
    there: list[socket.socket] = []
    try:
        for _ in range(n):
            there.append(socket.create_connection(("127.0.0.1", port), timeout=90))
            there[-1].sendall(first)
        yield there
    finally:
        for one in there:
            one.close()


@pytest.mark.slow
def test_strangers_do_not_turn_it_off(tmp_path: Path):
    made_index(tmp_path / "index")
    token = {"Authorization": f"Bearer {TOKEN}"}
    given = {"query": "green avocado", "better": "d3", "worse": "d9"}
    slow_body = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n\r\nx"
    with (
        running(tmp_path / "index", TERCET_WRITE_TOKEN=TOKEN) as service,
        strangers(service, 600, b""),
        strangers(service, 300, b"GET /hea") as dripping,
        strangers(service, 100, slow_body) as slow,
    ):
        for stranger in dripping:
            stranger.sendall(b"l")
        assert all(one.recv(12) == b"HTTP/1.1 400" for one in slow)  # at once, not when the body is there
        assert service.ask("/health").status == 200
        assert service.ask("/search?q=green", headers=token).status == 200
        assert service.ask("/prefer", given, token).status == 202
        assert service.ask("/prefer", given).status == 401
        service.process.terminate()
        _, err = service.process.communicate(timeout=90)
    assert service.process.returncode == 0
    assert err.count("\n") < 5


@pytest.mark.slow
def test_few_files_are_enough(tmp_path: Path):
    resource = pytest.importorskip("resource")
    made_index(tmp_path / "index")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    program_limit = 600  # of open files, for the service: 472 connections
    program = "import resource, sys; from tercet.cli.main import main; sys.argv[0] = 'tercet'; "
    program += f"resource.setrlimit(resource.RLIMIT_NOFILE, ({program_limit}, {program_limit})); main()"
    command = [sys.executable, "-c", program, "serve", str(tmp_path / "index"), "--port", "0", "--write-token", TOKEN]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        service = Running(process, process.stdout.readline().strip())
        with strangers(service, 1500, b""):
            for _ in range(20):
                assert service.ask("/search?q=green", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200
        process.terminate()
        _, err = process.communicate(timeout=90)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert "Traceback" not in err
    assert len(err) < 2000
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
