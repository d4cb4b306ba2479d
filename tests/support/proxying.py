"""A service behind a real Caddy with the file of deploy/, and floods of requests without a token."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from support.serving import Running, made_index, running

CADDYFILE = Path(__file__).parents[2] / "deploy" / "Caddyfile"
TOKEN = "the-teaching-token"
HOLDER = {"Authorization": f"Bearer {TOKEN}"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def proxied(folder: Path, *options: str) -> Iterator[tuple[Running, Running, int]]:
    """A service, and the same through Caddy, without TLS so that raw bytes can be sent."""
    made_index(folder / "index")
    port = free_port()
    options = ("--proxy", "127.0.0.1", *options)
    with ExitStack() as both:
        direct = both.enter_context(running(folder / "index", *options, patience=240, TERCET_TEACH_TOKEN=TOKEN))
        config = folder / "Caddyfile"
        text = CADDYFILE.read_text().replace("{\n\tservers", "{\n\tadmin off\n\tauto_https off\n\tservers", 1)
        config.write_text(text.replace("{$TERCET_HOST}", f"http://127.0.0.1:{port}"))
        environment = {
            "TERCET_UPSTREAM": urllib.parse.urlsplit(direct.address).netloc,
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
        }
        command = ["caddy", "run", "--config", str(config), "--adapter", "caddyfile"]
        with open(folder / "caddy.log", "w") as log:
            caddy = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        both.callback(caddy.wait, 20)
        both.callback(caddy.terminate)
        proxy = Running(direct.process, f"http://127.0.0.1:{port}/")
        end = time.monotonic() + 60
        while True:
            with suppress(OSError):
                if proxy.ask("/ready").status == 200:
                    break
            assert time.monotonic() < end, (folder / "caddy.log").read_text()
            time.sleep(0.05)
        yield direct, proxy, port


def times_of_holder(proxy: Running, n: int) -> list[float]:
    """Milliseconds of searches with a token, which must all be answered."""
    took = []
    for _ in range(n):
        began = time.perf_counter()
        answer = proxy.ask("/search?q=green+avocado", headers=HOLDER)
        assert answer.status == 200, (answer.status, answer.body)
        took.append(1000 * (time.perf_counter() - began))
    return sorted(took)


@contextmanager
def strangers(attack: list[threading.Thread]) -> Iterator[None]:
    for thread in attack:
        thread.start()
    try:
        yield
    finally:
        for thread in attack:
            thread.join(60)


def times_in_a_flood(proxy: Running, port: int, path: str, n: int = 100) -> list[float]:
    """Milliseconds of a holder's searches while 100 connections pipeline 200 requests each and read no answer."""
    times_of_holder(proxy, 5)
    stop = threading.Event()

    def stranger() -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * 200)
            stop.wait(30)

    with strangers([threading.Thread(target=stranger, daemon=True) for _ in range(100)]):
        took = times_of_holder(proxy, n)
        stop.set()
    return took
