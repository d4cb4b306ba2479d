"""The service for a long time: everything at once, among slow and idle clients; then ever more readers, until it sheds.

Everything is that of `serve_load.py --minutes`: readers, writers who take back a quarter, clicks, documents that come
and go, models that are promoted and baked. Beside that, 512 connections say nothing and 32 clients send a search four
bytes at a time, ten times a second; what the service closes is opened again. Memory, open files and the times that
clients see are noted every few seconds, and drawn where `--picture FILE` says. 30 minutes, or `--minutes N`. Then 16 to
256 readers for a few seconds each, on the same service: requests a second, times, and how many are shed by a 503.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from serve_load import (
    N_READERS,
    N_WRITERS,
    TOKEN,
    Changer,
    Client,
    Commits,
    Promoter,
    Visitor,
    lost_entries,
    made_index,
    measured,
    memory_of,
    served,
    slope_mb,
    unlike_replay,
)

IDLE, SLOW = 512, 32
CROWDS = (16, 64, 128, 256)


class Loiterers(threading.Thread):
    """Holds connections that say nothing, and others that send a search a byte at a time."""

    def __init__(self, address: str, until: float) -> None:
        super().__init__()
        host, _, port = address.partition(":")
        self._address, self._until = (host, int(port)), until
        self.answers = 0

    def run(self) -> None:
        request = f"GET /search?q=w00001 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        there: dict[int, tuple[socket.socket, int]] = {}
        while time.monotonic() < self._until:
            for at in range(IDLE + SLOW):
                if at not in there:
                    there[at] = (socket.create_connection(self._address, timeout=30), 0)
                    there[at][0].setblocking(False)
                connection, sent = there[at]
                with suppress(BlockingIOError):
                    try:
                        if at >= IDLE and sent < len(request):
                            sent += connection.send(request[sent : sent + 4])
                            there[at] = (connection, sent)
                        data = connection.recv(65_536)
                    except ConnectionError:
                        data = b""
                    self.answers += data.startswith(b"HTTP/1.1 200")
                    connection.close()
                    del there[at]
            time.sleep(0.1)
        for connection, _ in there.values():
            connection.close()


class Sampler(threading.Thread):
    """Notes memory, open files and the latest times of clients, now and then."""

    def __init__(self, process: int, clients: list[Client], until: float, pause: float) -> None:
        super().__init__()
        self._process, self._clients, self._until, self._pause = process, clients, until, pause
        self.samples: list[dict[str, float]] = []

    def run(self) -> None:
        begun, seen = time.monotonic(), [0] * len(self._clients)
        while time.monotonic() < self._until:
            time.sleep(self._pause)
            latest = np.concatenate([one.times[n:] for one, n in zip(self._clients, seen, strict=True)] or [[]])
            seen = [len(one.times) for one in self._clients]
            self.samples.append(
                {
                    "minute": (time.monotonic() - begun) / 60,
                    **memory_of(self._process),
                    "files": len(os.listdir(f"/proc/{self._process}/fd")),
                    "p50_ms": 1000 * float(np.quantile(latest, 0.5)) if latest.size else float("nan"),
                    "p99_ms": 1000 * float(np.quantile(latest, 0.99)) if latest.size else float("nan"),
                    "per_second": latest.size / self._pause,
                }
            )


def shed_of(statuses: Mapping[str, int]) -> int:
    return sum(n for status, n in statuses.items() if status.startswith("503"))


class Reader(Client):
    """Searches, one time after the other; waits a moment when it is told to come again."""

    def write(self) -> None:
        raise NotImplementedError

    def read(self) -> None:
        before = shed_of(self.statuses)
        super().read()
        if shed_of(self.statuses) > before:
            time.sleep(0.2)


def draw(samples: list[dict[str, float]], path: Path) -> None:
    from tercet.pictures import BLUE, RED, SETTINGS, TITLE_SIZE, import_matplotlib

    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    minutes = [sample["minute"] for sample in samples]
    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(8, 6.4), dpi=150, layout="constrained")
        titles = {
            "own_mb": "Memory, MB: its own, and mapped files",
            "files": "Open files",
            "p50_ms": "Times of requests, ms: half and 99 %",
        }
        for axes, (name, title) in zip(figure.subplots(3, 1, sharex=True), titles.items(), strict=True):
            axes.set_title(title, loc="left", fontsize=TITLE_SIZE)
            axes.plot(minutes, [sample[name] for sample in samples], color=BLUE)
            if name == "own_mb":
                axes.plot(minutes, [sample["mapped_mb"] for sample in samples], color=RED)
            if name == "p50_ms":
                axes.plot(minutes, [sample["p99_ms"] for sample in samples], color=RED)
                axes.set_xlabel("minutes")
            axes.set_ylim(bottom=0)
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path)


def soak(address: str, process: int, folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    commits, until = Commits(folder / "index"), time.monotonic() + seconds
    clients = [Visitor(address, seed + at, until, at >= N_READERS, commits) for at in range(N_READERS + N_WRITERS)]
    changer = Changer(address, seed, until, commits)
    promoter = Promoter(folder, until, commits, pause=min(15.0, seconds / 8))
    loiterers = Loiterers(address, until)
    sampler = Sampler(process, [*clients, changer], until, max(2.0, seconds / 120))
    found = measured(address, process, [*clients, changer], until, siblings=[promoter, loiterers, sampler])
    journal = folder / "index.journal" / "journal.jsonl"
    found["faults"] = [fault for one in [*clients, changer, promoter] for fault in one.faults]
    found["faults"] += lost_entries(journal, [*clients, changer]) + unlike_replay(address, folder / "index", journal)
    found |= {"samples": sampler.samples, "promotions": dict(promoter.done), "changes": changer.changes}
    return found | {"slow_answers": loiterers.answers}


def shedding(address: str, process: int, seconds: float, seed: int) -> list[dict[str, Any]]:
    rows = []
    for n in CROWDS:
        until = time.monotonic() + seconds
        readers = [Reader(address, seed + 1000 * n + at, until, False) for at in range(n)]
        found = measured(address, process, readers, until)
        statuses = found["statuses"]
        rows.append({"readers": n, "shed": shed_of(statuses), **found})
    return rows


def main() -> None:
    from dataclasses import replace

    import tercet as tc
    from tercet.search import Index
    from tercet.weights import Weights

    arguments = parse_arguments(__doc__, needs_data=False, minutes=float, picture=Path)
    n_docs, seconds = (2_000, 20.0) if arguments.quick else (50_000, 60 * (arguments.minutes or 30.0))
    facts = machine_facts()
    print_facts(facts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_index(folder / "index", n_docs, arguments.seed)
        own = Index.open(folder / "index").model
        assert isinstance(own, tc.TextModel)
        identity, pairs = own.weights.parts
        replace(own, weights=Weights([identity, pairs.scaled(0.5)])).save(folder / "other")
        options = ["--log-impressions", folder / "log", "--look-every", "0.5", "--deadline-ms", "5000"]
        with served(folder / "index", *map(str, options)) as (address, service):
            found = soak(address, service.pid, folder, seconds, arguments.seed)
            crowds = shedding(address, service.pid, 3.0 if arguments.quick else 10.0, arguments.seed)
    samples = found["samples"]
    part = max(1, len(samples) // 6)
    print_table(
        f"{seconds / 60:.1f} minutes: {found['requests']:,} requests, {found['errors']} errors, "
        f"{len(found['faults'])} faults, {found['entries']:.0f} entries, models {found['promotions']}",
        ["", "own memory MB", "mapped MB", "files", "p50 ms", "p99 ms", "requests/s"],
        [
            [title, *(f"{np.nanmean([sample[name] for sample in some]):.0f}" for name in list(samples[0])[1:])]
            for title, some in (("first sixth", samples[:part]), ("last sixth", samples[-part:]))
        ],
    )
    print(f"own memory rises by {slope_mb(samples):+.1f} MB a minute in the second half")
    print(f"answers: {found['statuses']}; to slow clients: {found['slow_answers']}")
    for fault in found["faults"][:20]:
        print(f"  {fault}")
    print_table(
        "ever more readers",
        ["readers", "requests/s", "p50 ms", "p99 ms", "shed by 503", "answers"],
        [
            [
                str(row["readers"]),
                f"{row['per_second']:.0f}",
                f"{row['p50_ms']:.0f}",
                f"{row['p99_ms']:.0f}",
                f"{row['shed']:,}",
                ", ".join(f"{status}: {n}" for status, n in sorted(row["statuses"].items())),
            ]
            for row in crowds
        ],
    )
    if arguments.picture is not None:
        draw(samples, arguments.picture)
    write_json(arguments.output, {"machine": facts, "soak": found, "crowds": crowds})
    sys.exit(1 if found["errors"] or found["faults"] else 0)


if __name__ == "__main__":
    main()
