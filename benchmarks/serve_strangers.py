"""Strangers who hold connections: 10,000 that are idle or drip, for ten minutes, while others work.

A second process opens connections from eight addresses of this machine and keeps as many: of those it opens, a third
send nothing, a third send the head of a request a byte a second, and a third ask for something that is refused, with a
body that comes a byte a second. What the service closes is opened again, up to 2,000 a second. None has a token.
Meanwhile holders of tokens search, teach and take back, each over connections that are new every other time. Reports
what they saw: answers by status, times, and the service's memory and log. The service may open few files with
`--files 1024`; `--minutes 2` is shorter.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import http.client
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

READ, WRITE = "the-reading-token", "the-writing-token"
_OPEN_A_SECOND = 2_000  # connections: a third are refused at once, the others held for ten seconds
_SETTLED_SECONDS = 20.0  # after which as many should be held as were asked for
_ADDRESSES = 8  # of strangers, 127.0.0.2 and on
_BIND_LATE = 24  # IP_BIND_ADDRESS_NO_PORT of Linux: the port is chosen when it is known where to
_SERVE = "import sys; from tercet.cli.main import main; sys.argv[0] = 'tercet'; main()"
_LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0})); "
_BEGINNINGS = (
    b"",
    b"GET /search?q=green HTTP/1.1\r\nHost: localhost\r\nX: ",
    b"POST /prefer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n",
)


def strangers(port: int, n: int, seconds: float) -> dict[str, Any]:
    """Keep so many connections, from several addresses of this machine; what is closed is opened again."""
    selector, tally, kinds = selectors.DefaultSelector(), Counter[str](), count()
    made: dict[socket.socket, int] = {}  # to its kind
    pending: dict[socket.socket, None] = {}
    drips: deque[tuple[float, socket.socket]] = deque()  # whose turn it is when
    held: list[int] = []
    began = time.monotonic()
    until, refill, may_open, look = began + seconds, began, 0.0, began + _SETTLED_SECONDS
    while (now := time.monotonic()) < until:
        may_open, refill = min(_OPEN_A_SECOND / 10, may_open + (now - refill) * _OPEN_A_SECOND), now
        while len(made) + len(pending) < n and may_open >= 1:
            may_open -= 1
            one = socket.socket()
            one.setblocking(False)
            # One address has ports for 28,000 connections, those included that were closed within a minute.
            one.setsockopt(socket.IPPROTO_IP, _BIND_LATE, 1)
            one.bind((f"127.0.0.{2 + tally['tried'] % _ADDRESSES}", 0))
            tally["tried"] += 1
            one.connect_ex(("127.0.0.1", port))
            selector.register(one, selectors.EVENT_WRITE)
            pending[one] = None
        for key, _ in selector.select(0.02):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            try:
                if one in pending:
                    del pending[one]
                    if failure := one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        tally[f"not opened: {os.strerror(failure)}"] += 1
                        raise ConnectionError
                    kind = made[one] = next(kinds) % 3
                    tally["opened"] += 1
                    selector.modify(one, selectors.EVENT_READ)
                    if _BEGINNINGS[kind]:
                        one.send(_BEGINNINGS[kind])
                        drips.append((now + 1, one))
                elif not one.recv(4096):
                    raise ConnectionError
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(one)
                tally["closed by the service"] += made.pop(one, None) is not None
                one.close()
        while drips and drips[0][0] <= now:
            one = drips.popleft()[1]
            if one in made:
                drips.append((now + 1, one))
                with suppress(OSError):  # it is closed, which is found when it is read
                    one.send(b"x")
        if now >= look:
            look = now + 1
            held.append(len(made))
    held_facts = (
        {"held, the least": min(held), "in the mean": round(np.mean(held)), "the most": max(held)} if held else {}
    )
    return {**tally, **held_facts}


class Holder(threading.Thread):
    """Searches, teaches or takes back, with a token, until the time is up."""

    def __init__(self, port: int, writes: bool, until: float, seed: int) -> None:
        super().__init__()
        self._port, self._writes, self._until, self._rng = port, writes, until, np.random.default_rng(seed)
        self._connection: http.client.HTTPConnection | None = None
        self.times: list[float] = []
        self.ends: list[float] = []
        self.statuses: Counter[str] = Counter()

    def run(self) -> None:
        for turn in count():
            if time.monotonic() > self._until:
                return
            if turn % 2 == 0 and self._connection is not None:
                self._connection.close()
                self._connection = None
            if self._writes:
                better, worse = self._rng.choice(50, 2, replace=False)
                body = {"query": "green avocado", "better": f"d{better}", "worse": f"d{worse}"}
                summary = self._ask("POST", "/prefer", body)
                if summary is not None and turn % 4 == 0:
                    self._ask("POST", "/undo", {"receipts": [summary["receipt"]]})
                time.sleep(0.5)
            else:
                self._ask("GET", f"/search?{urlencode({'q': self._rng.choice(['green', 'blue sky', 'oil'])})}")
                time.sleep(0.05)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {"Authorization": f"Bearer {WRITE if self._writes else READ}", "Content-Type": "application/json"}
        started = time.perf_counter()
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._connection.getresponse()
            summary = json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            self._connection = None
            self._note(started, type(error).__name__)
            return None
        why = f" {summary['type'].rpartition(':')[2]}" if answer.status >= 400 else ""
        self._note(started, f"{answer.status}{why}")
        return summary if answer.status in (200, 202) else None

    def _note(self, started: float, status: str) -> None:
        self.ends.append(time.perf_counter())
        self.times.append(self.ends[-1] - started)
        self.statuses[status] += 1


def memory_mb(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def held(port: int, seconds: float, seed: int, process: int) -> dict[str, Any]:
    """Four readers and a writer with tokens, for so long: what they saw."""
    until, began = time.monotonic() + seconds, time.perf_counter()
    holders = [Holder(port, at == 4, until, seed + at) for at in range(5)]
    used = cpu_seconds(process)
    memory = []
    for holder in holders:
        holder.start()
    while time.monotonic() < until:
        time.sleep(min(1.0, seconds / 5))
        memory.append(memory_mb(process))
    for holder in holders:
        holder.join()
    times = np.concatenate([holder.times for holder in holders])
    minutes = (np.concatenate([holder.ends for holder in holders]) - began) // 60
    by_minute = [times[minutes == minute] for minute in np.unique(minutes)]
    times = np.sort(times)
    return {
        "requests": int(times.size),
        "statuses": dict(sum((holder.statuses for holder in holders), Counter())),
        "p50_ms": 1000 * float(np.quantile(times, 0.5)),
        "p99_ms": 1000 * float(np.quantile(times, 0.99)),
        "most_ms": 1000 * float(times[-1]),
        "p99_ms_by_minute": [round(1000 * float(np.quantile(some, 0.99)), 1) for some in by_minute],
        "cores": (cpu_seconds(process) - used) / seconds,
        "memory_mb": max(memory),
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    if sys.argv[1:2] == ["--strangers"]:
        port, n, seconds = sys.argv[2:]
        print(json.dumps(strangers(int(port), int(n), float(seconds))))
        return
    from support.serving import made_index

    arguments = parse_arguments(__doc__, needs_data=False, minutes=float, files=int)
    n, seconds = (500, 15.0) if arguments.quick else (10_000, 60 * (arguments.minutes or 10.0))
    facts = machine_facts()
    print_facts(facts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_index(folder / "index")
        program = (_LIMITED.format(arguments.files) if arguments.files else "") + _SERVE
        command = [sys.executable, "-c", program, "serve", str(folder / "index"), "--port", "0"]
        command += ["--write-burst", "100000", "--writes-per-minute", "100000"]
        tokens = {"TERCET_READ_TOKEN": READ, "TERCET_WRITE_TOKEN": WRITE}
        with open(folder / "log", "w") as log:
            service = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **tokens}
            )
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().strip().rstrip("/").rpartition(":")[2])
            held(port, 5.0, arguments.seed + 100, service.pid)
            alone = held(port, min(30.0, seconds), arguments.seed, service.pid)
            crowd = subprocess.Popen(
                [sys.executable, __file__, "--strangers", str(port), str(n), str(seconds)], stdout=subprocess.PIPE
            )
            among = held(port, seconds, arguments.seed, service.pid)
            tally = json.loads(crowd.communicate(timeout=60)[0])
        finally:
            service.terminate()
            service.wait(30)
        log_bytes = (folder / "log").stat().st_size
    print_table(
        f"{n:,} connections of strangers for {seconds:.0f} s, {arguments.files or 'as many as there are'} files",
        ["", "requests", "answers", "p50 ms", "p99 ms", "most ms", "memory MB", "cores used", "load"],
        [
            [
                title,
                f"{part['requests']:,}",
                ", ".join(f"{status}: {number:,}" for status, number in sorted(part["statuses"].items())),
                f"{part['p50_ms']:.1f}",
                f"{part['p99_ms']:.1f}",
                f"{part['most_ms']:.0f}",
                f"{part['memory_mb']:.0f}",
                f"{part['cores']:.2f}",
                f"{part['load_average']:.1f}",
            ]
            for title, part in (("alone", alone), ("among strangers", among))
        ],
    )
    print(f"\nstrangers: {tally}; the log has {log_bytes:,} bytes; p99 by minute: {among['p99_ms_by_minute']}")
    results = {"machine": facts, "alone": alone, "among": among, "strangers": tally, "log_bytes": log_bytes}
    write_json(arguments.output, results)
    sys.exit(1 if set(among["statuses"]) - {"200", "202"} else 0)


if __name__ == "__main__":
    main()
