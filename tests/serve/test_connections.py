"""Connections that wait: they cost little, end in time, and keep nobody out."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from support.serving import Running, made_index, running
from tercet.serve import connections
from tercet.serve.connections import Connection, Door, Http, Server, Sparing

TOKEN = "of-the-connections"
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


class Wire(asyncio.Transport):
    """A transport that notes what becomes of it."""

    def __init__(self, address: str = "10.0.0.1", unsent: int = 0) -> None:
        super().__init__({"peername": (address, 1)})
        self.sent, self.state, self._unsent = b"", "open", unsent

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.state = "closed"

    def abort(self) -> None:
        self.state = "aborted"

    def is_closing(self) -> bool:
        return self.state != "open"

    def get_write_buffer_size(self) -> int:
        return self._unsent


class Heard:
    """In the place of HTTP: notes what it is given."""

    def __init__(self) -> None:
        self.data, self.is_busy = b"", False

    def connection_made(self, _: object) -> None:
        self.is_busy = True

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, _: object) -> None:
        self.is_busy = False


def entered(door: Door, address: str = "10.0.0.1", data: bytes = b"", unsent: int = 0) -> tuple[Connection, Wire]:
    connection, wire = Connection(door, lambda _: Heard()), Wire(address, unsent)
    connection.connection_made(wire)
    if data:
        connection.data_received(data)
    return connection, wire


def open_door(most: int = 4) -> Door:
    return Door(lambda token: token == TOKEN, most)


def test_who_has_waited_longest_makes_room():
    door = open_door()
    wires = [entered(door, f"10.0.0.{i}")[1] for i in range(6)]
    assert [wire.state for wire in wires] == ["closed"] * 2 + ["open"] * 4
    assert (len(door), door.n_turned_away) == (4, 2)


def test_a_crowd_of_one_place_makes_room_for_its_own():
    door = open_door()
    other = entered(door, "2001:db8::1")[1]
    crowd = [entered(door, f"2001:db8:0:1::{i:x}")[1] for i in range(1, 9)]
    assert other.state == "open"
    assert [wire.state for wire in crowd] == ["closed"] * 5 + ["open"] * 3


def test_who_showed_a_token_stays_and_who_is_served_does():
    door = open_door(2)
    head = HEAD + b"authorization:  bearer " + TOKEN.encode() + b"\r\n\r\n"
    known, known_wire = entered(door, data=head)
    known.answered()
    assert known.is_known
    _, busy_wire = entered(door, data=HEAD + b"\r\n")
    _, late = entered(door)
    assert [wire.state for wire in (known_wire, busy_wire, late)] == ["open", "open", "closed"]
    assert late.sent.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1\r\n" in late.sent


def test_http_begins_when_the_head_is_whole():
    door = open_door()
    connection, wire = entered(door)
    for byte in HEAD + b"\r":
        connection.data_received(bytes([byte]))
    assert list(door.waiting) == [connection]
    assert door.head_bytes == len(HEAD) + 1
    connection.data_received(b"\nbody")
    assert connection._http.data == HEAD + b"\r\nbody"
    assert (list(door.waiting), door.busy, door.head_bytes) == ([], {connection}, 0)
    connection.data_received(b"more")
    assert connection._http.data.endswith(b"bodymore")
    connection.connection_lost(None)
    assert (len(door), door._by_household) == (0, {})
    assert wire.state == "open"


def test_heads_are_bounded_one_by_one_and_together(monkeypatch):
    door = open_door()
    _, wire = entered(door, data=b"x" * (connections.HEAD_BYTES + 1))
    assert wire.sent.startswith(b"HTTP/1.1 431 ")
    monkeypatch.setattr(connections, "_HEADS_BYTES", door.head_bytes + 10)
    _, wire = entered(door, data=b"x" * 11)
    assert wire.sent.startswith(b"HTTP/1.1 503 ")


def test_what_comes_too_late_or_is_not_taken_ends(monkeypatch):
    door = open_door()

    async def swept() -> None:
        door._sweep()
        door.close()

    begun, begun_wire = entered(door, data=HEAD)
    idle, idle_wire = entered(door)
    busy, busy_wire = entered(door, data=HEAD + b"\r\n")
    full, full_wire = entered(door, unsent=10)
    asyncio.run(swept())  # which also ends those that wait
    assert busy_wire.state == "open"
    door = open_door()
    (begun, begun_wire), (idle, idle_wire) = entered(door, data=HEAD), entered(door)
    (busy, busy_wire), (full, full_wire) = entered(door, data=HEAD + b"\r\n"), entered(door, unsent=10)
    for connection in (begun, idle, full):
        connection.since -= connections.HEAD_SECONDS
    busy._paused = time.monotonic() - 2 * connections._STALLED_SECONDS
    asyncio.run(swept())
    assert begun_wire.sent.startswith(b"HTTP/1.1 408 ")
    assert idle_wire.sent == b""
    assert [wire.state for wire in (begun_wire, idle_wire, busy_wire, full_wire)] == ["closed"] * 2 + ["aborted"] * 2


def test_a_log_cannot_be_filled():
    now = [0.0]
    sparing = Sparing(3, lambda: now[0])

    def let_through(line: int) -> bool:
        return sparing.filter(logging.makeLogRecord({"pathname": "a.py", "lineno": line, "msg": "again"}))

    assert [let_through(1) for _ in range(5)] == [True] * 3 + [False] * 2
    assert let_through(2)
    now[0] = 61.0
    assert let_through(1)


def test_uvicorn_still_has_what_we_build_on():
    server = Server(uvicorn.Config(lambda: None, log_config=None), open_door())
    connection = server.config.http(config=server.config, server_state=server.server_state, app_state={}, _loop=None)
    assert isinstance(connection, Connection)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        http = Http(connection, config=server.config, server_state=server.server_state, app_state={}, _loop=loop)
    assert not http.is_busy


# -- over real connections ------------------------------------------------------------------------------------------


@contextmanager
def strangers(service: Running, n: int, first: bytes) -> Iterator[list[socket.socket]]:
    port = int(service.address.rstrip("/").rpartition(":")[2])
    there: list[socket.socket] = []
    try:
        for _ in range(n):
            there.append(socket.create_connection(("127.0.0.1", port), timeout=20))
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
        _, err = service.process.communicate(timeout=20)
    assert service.process.returncode == 0
    assert err.count("\n") < 5


@pytest.mark.slow
def test_few_files_are_enough(tmp_path: Path):
    resource = pytest.importorskip("resource")
    made_index(tmp_path / "index")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    program_limit = 600  # of open files, for the service: 88 connections
    import subprocess
    import sys

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
        _, err = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert "Traceback" not in err
    assert len(err) < 2000
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
