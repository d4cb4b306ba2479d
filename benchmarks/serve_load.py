"""The service under load: 16 readers and 2 writers for 60 s from a second process, on 50,000 documents.

Documents are made up: 80 words each, drawn by Zipf's law from 30,000; the model is BM25 and 300,000 learned pairs.
Readers search for two to four words and now and then ask for reasons; writers prefer documents, and take every
fourth preference back. Then the same while impressions and requests are logged, a third of the lists get a click, and
the index changes all the time, by requests and by another writer of its folder, so that the service moves from one to
the next. Reports requests a second, times as clients see them, errors, and the service's memory.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from scipy import sparse

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.search import Index
from tercet.weights import Identity, Sparse, Weights

N_WORDS = 30_000
N_READERS, N_WRITERS = 16, 2
PER_WORD = 10
TOKEN = "of-the-benchmark"


def made_index(path: Path, n_docs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = np.array([f"w{at:05d}" for at in range(N_WORDS)])
    share = 1 / np.arange(1, N_WORDS + 1)
    drawn = rng.choice(N_WORDS, (n_docs, 80), p=share / share.sum())
    docs = {f"doc-{at}": " ".join(words[row[:8]]) + "\n" + " ".join(words[row[8:]]) for at, row in enumerate(drawn)}
    vectoriser = tc.Vectoriser(weighting="bm25").fit(docs.values())
    n = len(vectoriser.words_)
    rows, columns = np.repeat(np.arange(n), PER_WORD), rng.integers(0, n, n * PER_WORD)
    pairs = sparse.coo_array((rng.normal(0, 0.05, n * PER_WORD).astype(np.float32), (rows, columns)), shape=(n, n))
    weights = Weights([Identity(n_terms=n), Sparse(weights=pairs.tocsr())])
    Index.build(docs, tc.TextModel(vectoriser, vectoriser, weights), path)


class Client(threading.Thread):
    """Asks one thing after the other over one connection until the time is up."""

    def __init__(self, address: str, seed: int, until: float, writes: bool) -> None:
        super().__init__()
        self.rng, self.until, self.writes = np.random.default_rng(seed), until, writes
        self.connection = http.client.HTTPConnection(address, timeout=30)
        self.times: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.name = f"{'writer' if writes else 'reader'}-{seed}"

    def run(self) -> None:
        while time.monotonic() < self.until:
            (self.write if self.writes else self.read)()
        self.connection.close()

    def query(self) -> str:
        return " ".join(f"w{at:05d}" for at in (N_WORDS ** self.rng.random(self.rng.integers(2, 5))).astype(int) - 1)

    def read(self) -> None:
        query = self.query()
        found = self.ask("GET", f"/search?{urlencode({'q': query})}")
        if found and found.get("query_id") and self.rng.random() < 0.3:
            self.ask("POST", "/events", {"query_id": found["query_id"], "doc": found["learned"][0]["id"]})
        if found and found["learned"] and self.rng.random() < 0.1:
            self.ask("GET", f"/explain?{urlencode({'q': query, 'doc': found['learned'][0]['id']})}")

    def write(self) -> None:
        query = self.query()
        found = self.ask("GET", f"/search?{urlencode({'q': query})}")
        if found and len(found["learned"]) > 1:
            worse, better = (hit["id"] for hit in found["learned"][:2])
            self.ask("POST", "/prefer", {"query": query, "better": better, "worse": worse, "client": self.name})
            if self.rng.random() < 0.25:
                self.ask("POST", "/undo", {"client": self.name})
        time.sleep(0.05)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        started = time.perf_counter()
        try:
            sent = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
            self.connection.request(method, path, sent, headers)
            answer = self.connection.getresponse()
            found = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.statuses[type(error).__name__] += 1
            self.connection.close()
            return None
        self.times.append(time.perf_counter() - started)
        kind = "partial" if found.get("partial") else str(answer.status)
        self.statuses[kind] += 1
        return found if answer.status == 200 else None


class Changer(Client):
    """Adds and removes documents, one time by requests, the other time in the folder of the index."""

    def __init__(self, address: str, seed: int, until: float, index: Path) -> None:
        super().__init__(address, seed, until, writes=True)
        self.seed, self.index = seed, Index.open(index)
        self.changes = 0

    def write(self) -> None:
        ids = [f"change-{self.seed}-{self.changes}-{part}" for part in range(5)]
        docs = {doc_id: self.query() for doc_id in ids}
        if self.changes % 2:
            self.index.add(docs)
            self.index.remove(ids[:4])
        else:
            self.ask("POST", "/documents", {"documents": [{"id": one, "text": docs[one]} for one in ids]})
            for doc_id in ids[:4]:
                self.ask("DELETE", f"/documents/{doc_id}")
        self.changes += 1
        time.sleep(0.5)


def gauge(address: str, name: str) -> float:
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def loaded(
    address: str, seconds: float, seed: int, n_writers: int = N_WRITERS, changing: Path | None = None
) -> dict[str, Any]:
    until = time.monotonic() + seconds
    clients = [Client(address, seed + at, until, at >= N_READERS) for at in range(N_READERS + n_writers)]
    if changing is not None:
        clients.append(Changer(address, seed, until, changing))
    memory = []
    started = time.monotonic()
    for client in clients:
        client.start()
    while time.monotonic() < until:
        time.sleep(min(5.0, max(0.0, until - time.monotonic())))
        memory.append(gauge(address, "process_resident_memory_bytes"))
    for client in clients:
        client.join()
    took = time.monotonic() - started
    times = np.sort(np.concatenate([client.times for client in clients]))
    statuses = sum((client.statuses for client in clients), Counter())
    return {
        "requests": int(times.size),
        "per_second": times.size / took,
        "p50_ms": 1000 * float(np.quantile(times, 0.5)),
        "p99_ms": 1000 * float(np.quantile(times, 0.99)),
        "statuses": dict(statuses),
        "errors": sum(count for status, count in statuses.items() if status not in ("200", "202", "409", "partial")),
        "changes": sum(client.changes for client in clients if isinstance(client, Changer)),
        "memory_mb": [round(each / 1e6, 1) for each in memory],
        "entries": gauge(address, "tercet_journal_entries"),
    }


@contextmanager
def served(index: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A service in a process of its own, which must end well."""
    program = "import sys; from tercet.cli.main import main; sys.argv[0] = 'tercet'; main()"
    command = [sys.executable, "-c", program, "serve", str(index), "--port", "0", "--write-token", TOKEN, *options]
    command += ["--writes-per-minute", "100000", "--write-burst", "100000"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout is not None
        yield service.stdout.readline().strip().removeprefix("http://").rstrip("/"), service
    finally:
        service.terminate()
        code = service.wait(60)
    if code:
        raise SystemExit(f"the service ended with exit code {code}")


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    n_docs, seconds = (2_000, 5.0) if arguments.quick else (50_000, 60.0)
    facts = machine_facts()
    print_facts(facts)
    with tempfile.TemporaryDirectory() as folder:
        made_index(Path(folder, "index"), n_docs, arguments.seed)
        with served(Path(folder, "index")) as (address, _):
            warm_up = loaded(address, seconds / 4, arguments.seed + 1000)
            found = loaded(address, seconds, arguments.seed)
            reading = loaded(address, seconds / 2, arguments.seed + 2000, n_writers=0)
        logs = ["--log-impressions", str(Path(folder, "log")), "--access-log", str(Path(folder, "access.jsonl"))]
        with served(Path(folder, "index"), *logs, "--look-every", "0.2") as (address, _):
            loaded(address, seconds / 4, arguments.seed + 3000, changing=Path(folder, "index"))
            living = loaded(address, seconds, arguments.seed + 4000, changing=Path(folder, "index"))
            refused = gauge(address, "tercet_refused")
            lost = gauge(address, "tercet_impressions_lost")
    growth = found["memory_mb"][-1] - warm_up["memory_mb"][-1]
    learned = found["entries"] - warm_up["entries"]
    idle_growth = reading["memory_mb"][-1] - reading["memory_mb"][0]
    print_table(
        f"{n_docs:,} documents, {N_READERS} readers and {N_WRITERS} writers, {seconds:.0f} s after warming up",
        ["requests/s", "p50 ms", "p99 ms", "errors", "preferences and undos", "memory MB", "growth MB"],
        [
            [
                f"{found['per_second']:.0f}",
                f"{found['p50_ms']:.1f}",
                f"{found['p99_ms']:.1f}",
                str(found["errors"]),
                f"{found['entries']:.0f}",
                f"{found['memory_mb'][-1]:.0f}",
                f"{growth:.0f}",
            ]
        ],
    )
    print(f"\nThe service keeps {learned:.0f} more entries than before, {1000 * growth / max(1, learned):.0f} kB each.")
    print(f"With readers alone, {reading['per_second']:.0f} requests/s, memory grew by {idle_growth:.1f} MB.")
    print(f"answers: {found['statuses']}")
    memory = living["memory_mb"]
    print(
        f"\nWith logs and {living['changes']} rounds of changes to the index: {living['per_second']:.0f} requests/s, "
        f"p50 {living['p50_ms']:.1f} ms, p99 {living['p99_ms']:.1f} ms, {living['errors']} errors, memory from "
        f"{memory[0]:.0f} to {memory[-1]:.0f} MB, {refused:.0f} refused, {lost:.0f} log lines lost"
    )
    print(f"answers: {living['statuses']}")
    phases = {"warm_up": warm_up, "load": found, "readers": reading, "living": living}
    write_json(arguments.output, {"machine": facts, **phases, "growth_mb": growth})
    sys.exit(1 if found["errors"] or living["errors"] or refused or lost else 0)


if __name__ == "__main__":
    main()
