"""The service behind a real Caddy with the file of deploy/: attacks from outside keep no holder of a token out."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from support.proxying import CADDYFILE, HOLDER, TOKEN, proxied, strangers, times_in_a_flood, times_of_holder
from support.serving import Running
from tercet.serve import read_taught

GIVEN = {"query": "green avocado", "better": "d3", "worse": "d9"}
MOST_MS = 20_000.0  # a holder who is kept out waits longer; the test is not of speed, and runs beside others

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not here; Debian has it: apt-get install caddy"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running, int, Path]]:
    folder = tmp_path_factory.mktemp("proxy")
    with proxied(folder) as (direct, proxy, port):
        yield direct, proxy, port, folder


def raw(port: int, sent: bytes, seconds: float = 1.5) -> bytes:
    """Send bytes as they are; return what comes back until the connection ends, or nothing comes any more."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        with suppress(OSError):
            connection.sendall(sent)
        with suppress(OSError):
            while chunk := connection.recv(65_536):
                received += chunk
    return received


def test_who_comes_through_the_proxy_teaches_with_a_token_alone(site):
    direct, proxy, _, folder = site
    assert proxy.ask("/search?q=green").status == 200
    for service in (proxy, direct):  # a teaching token is configured, so loopback alone is not enough either
        for headers in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, {"X-Real-IP": "::1"}):
            assert service.ask("/prefer", GIVEN, headers).status == 401
    assert read_taught(folder / "index.taught.db").actions == []
    assert proxy.ask("/prefer", GIVEN, HOLDER).status == 202
    assert proxy.ask("/undo", {}, HOLDER).status == 202


@pytest.mark.parametrize("path", ["/style.css", "/openapi.json", "/", "/search?q=green", "/nothing"])
def test_pipelined_requests_of_strangers_keep_no_holder_waiting(site, path):
    """The attack of the review: 100 connections with 200 requests each, whose answers nobody reads."""
    _, proxy, port, _ = site
    took = times_in_a_flood(proxy, port, path)
    assert took[98] < MOST_MS, f"p50 {took[50]:.0f} ms, p99 {took[98]:.0f} ms, most {took[-1]:.0f} ms"


def test_a_flood_of_new_requests_is_refused_cheaply(site):
    _, proxy, port, _ = site
    stop = threading.Event()
    statuses: list[bytes] = []

    def stranger() -> None:
        request = f"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        while not stop.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                for _ in range(50):
                    connection.sendall(request)
                    statuses.append(connection.recv(65_536)[9:12])

    with strangers([threading.Thread(target=stranger, daemon=True) for _ in range(8)]):
        took = times_of_holder(proxy, 100)
        stop.set()
    assert b"429" in statuses
    assert took[98] < MOST_MS, f"p50 {took[50]:.0f} ms, p99 {took[98]:.0f} ms; {len(statuses)} requests beside"


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /search?q=a HTTP/1.1\r\nX-Slow: ",
        b"POST /prefer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
        b"",
    ],
)
def test_heads_and_bodies_that_do_not_come_keep_nobody_out(site, begun):
    _, proxy, port, _ = site
    with ExitStack() as held:
        for _ in range(200):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            connection.sendall(begun)
        took = times_of_holder(proxy, 50)
    assert took[-1] < MOST_MS


def test_what_is_framed_twice_is_one_request_at_most(site):
    direct, _, port, folder = site
    inner = f"GET /taught HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    framings = [
        f"Content-Length: {len(inner)}\r\nTransfer-Encoding: chunked\r\n\r\n0",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\n0",
        "Transfer-Encoding: chunked, identity\r\n\r\n0",
        "Transfer-Encoding:\x0bchunked\r\n\r\n0",
    ]
    before = len(read_taught(folder / "index.taught.db").actions)
    own_port = int(urllib.parse.urlsplit(direct.address).port or 0)
    for at in (port, own_port):
        for framing in framings:
            sent = f"POST /prefer HTTP/1.1\r\nHost: 127.0.0.1:{at}\r\n{framing}\r\n\r\n{inner}"
            answer = raw(at, sent.encode("latin-1"))
            assert b" 202 " not in answer
            if framing is framings[0] and at == own_port:
                assert answer.startswith(b"HTTP/1.1 400 ")
                assert answer.count(b"HTTP/1.1 ") == 1, "the connection is closed"
    assert len(read_taught(folder / "index.taught.db").actions) == before


@pytest.mark.parametrize("size", [20_000, 33_000, 70_000, 2_000_000])
def test_heads_that_are_too_large_are_refused(site, size):
    direct, _, port, _ = site
    for at in (port, int(urllib.parse.urlsplit(direct.address).port or 0)):
        answer = raw(at, f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{at}\r\nX: {'x' * size}\r\n\r\n".encode())
        assert not answer.startswith(b"HTTP/1.1 200 ")
        kept = b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % at
        answer = raw(at, kept + f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{at}\r\nX: {'x' * size}\r\n\r\n".encode())
        assert answer.count(b"HTTP/1.1 200 ") == 1, "on a kept connection, too"


@pytest.mark.parametrize(
    "path",
    ["/prefer%0A", "//prefer", "/x/../prefer", "/prefer;a", "/./prefer", "/%70refer", "/prefer?x=%00", "/prefer%00"],
)
def test_no_spelling_of_a_path_teaches_without_a_token(site, path):
    _, proxy, _, folder = site
    before = len(read_taught(folder / "index.taught.db").actions)
    while (status := proxy.ask(path, GIVEN).status) == 429:  # the strangers before used up the rate
        time.sleep(0.2)
    assert status in (307, 400, 401, 404, 405, 422)
    assert len(read_taught(folder / "index.taught.db").actions) == before


def test_the_file_of_deploy_is_one_that_caddy_takes():
    command = ["caddy", "validate", "--config", str(CADDYFILE), "--adapter", "caddyfile"]
    environment = {"TERCET_HOST": "search.example", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
