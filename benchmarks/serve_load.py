"""The service under load: 16 readers and 2 writers for 60 s from a second process, on 50,000 documents.

Documents are made up: 80 words each, drawn by Zipf's law from 30,000; the model is BM25 and 300,000 learned pairs.
Readers search for two to four words and now and then ask for reasons; writers prefer documents, and take every
fourth preference back. Reports requests a second, times as clients see them, errors, and the service's memory: its own,
and that of files it has mapped, by minute (read from /proc, so on Linux).

Then everything at once, for a minute or for `--minutes 10`, which leaves out the rest: impressions and requests are
logged, a third of the lists get a click, lists are shared with a candidate, documents come and go, by requests and by
another writer of the folder, and models are promoted, taken back, and baked from the journal of the running service.
Checked are: that no request fails; that an answer has exactly the documents of the commit that it names, and no client
sees an older commit or version after a newer one; that every acknowledged entry is in the journal or its archives, what
is served at the end is their replay, to the bit, and every list that was shown is in the log.
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
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from scipy import sparse

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.search import Index
from tercet.search.folder import Folder
from tercet.serve import read_journal, replay
from tercet.weights import Identity, Sparse, Weights

N_WORDS = 30_000
N_READERS, N_WRITERS = 16, 2
PER_WORD = 10
FINE = ("200", "202", "409", "partial")  # what a request may be answered by
IDLE_SECONDS = 3.0  # after which a client opens another connection; the service closes them after 5
TOKEN = "of-the-benchmark"
MARKS = "first-mark second-mark"  # words of the documents that come and go
TERCET = [sys.executable, "-c", "import sys; from tercet.cli.main import main; sys.argv[0] = 'tercet'; main()"]


def made_index(path: Path, n_docs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = np.array([f"w{at:05d}" for at in range(N_WORDS)])
    share = 1 / np.arange(1, N_WORDS + 1)
    drawn = rng.choice(N_WORDS, (n_docs, 80), p=share / share.sum())
    docs = {f"doc-{at}": " ".join(words[row[:8]]) + "\n" + " ".join(words[row[8:]]) for at, row in enumerate(drawn)}
    docs["doc-0"] += f"\n{MARKS}"
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
        self.asked = 0.0
        self.times: list[float] = []
        self.faults: list[str] = []
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
            body = {"query": query, "better": better, "worse": worse, "client": self.name}
            summary = self.ask("POST", "/prefer", body)
            if summary and self.rng.random() < 0.25:
                self.ask("POST", "/undo", {"receipts": [summary["receipt"]]})
        time.sleep(0.05)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        started = time.perf_counter()
        if started - self.asked > IDLE_SECONDS:
            self.connection.close()
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
        self.asked = time.perf_counter()
        self.times.append(self.asked - started)
        kind = "partial" if found.get("partial") else str(answer.status)
        if answer.status >= 400:
            kind += f" {found['type'].rpartition(':')[2]}"  # what the problem is called
        self.statuses[kind] += 1
        return found if answer.status in (200, 202) else None


class Commits:
    """Every commit of the index in its order, with the documents of `Changer` that it has; one writer at a time."""

    def __init__(self, index: Path) -> None:
        self.folder, self.turn = Folder(index), threading.Lock()
        self.order: dict[str, int] = {}
        self.docs: list[frozenset[str]] = []
        self.note(())

    def note(self, docs: Collection[str], label: str | None = None) -> None:
        """What was committed just now; to be called while it is one's turn."""
        label = self.folder.committed().digest[:12] if label is None else label
        if label not in self.order:
            self.order[label] = len(self.docs)
            self.docs.append(frozenset(docs))

    def now(self) -> frozenset[str]:
        return self.docs[-1]


class Visitor(Client):
    """A client that checks what it is shown, and notes which entries and lists it was told of."""

    def __init__(self, address: str, seed: int, until: float, writes: bool, commits: Commits) -> None:
        super().__init__(address, seed, until, writes)
        self.commits = commits
        self.last = (0, 0)
        self.lists: list[str] = []
        self.acknowledged: dict[int, dict[str, Any]] = {}

    def read(self) -> None:
        if self.rng.random() < 0.05:
            self.look()
        super().read()

    def write(self) -> None:
        super().write()
        time.sleep(0.5)

    def look(self) -> None:
        """Search for the words that all documents of `Changer` have, and no others."""
        self.ask("GET", f"/search?{urlencode({'q': MARKS, 'k': 1000, 'all': 'true'})}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        summary = super().ask(method, path, body)
        if summary is not None and path.startswith("/search"):
            self.check(summary)
        if summary is not None and "entry" in summary:
            self.acknowledged[summary["entry"]] = {**(body or {}), "withdrawn": summary.get("withdrawn")}
        return summary

    def check(self, summary: dict[str, Any]) -> None:
        if summary["query_id"]:
            self.lists.append(summary["query_id"])
        at = self.commits.order.get(summary["index"])
        for _ in range(100):  # a commit may be served before whoever made it could note it
            if at is not None:
                break
            time.sleep(0.05)
            at = self.commits.order.get(summary["index"])
        if at is None:
            self.faults.append(f"index {summary['index']} was never committed")
            return
        here = (at, int(summary["version"][1:].rstrip("~")))
        if min(here[0] - self.last[0], here[1] - self.last[1]) < 0:
            self.faults.append(f"commit and version {here} came after {self.last}")
        self.last = here
        shown = {hit["id"] for hit in summary["learned"] if hit["id"].startswith("change-")}
        there = self.commits.docs[at]
        if shown - there or (summary["query"] == MARKS and shown != there):
            self.faults.append(f"{len(shown - there)} documents too many and {len(there - shown)} too few in {at}")


class Changer(Visitor):
    """Adds and removes documents, one time by requests, the other time in the folder of the index."""

    def __init__(self, address: str, seed: int, until: float, commits: Commits) -> None:
        super().__init__(address, seed, until, True, commits)
        self.seed, self.index = seed, Index.open(commits.folder.path)
        self.changes = 0
        self.waits: list[float] = []

    def write(self) -> None:
        there = self.commits.now()
        ids = [f"change-{self.seed}-{self.changes}-{part}" for part in range(5)]
        docs = {doc_id: f"{MARKS} {self.query()}" for doc_id in ids}
        old = sorted(there)[:5] if len(there) > 40 else []  # so that they stay as many
        for doc_ids, is_new in ((ids, True), *(([doc_id], False) for doc_id in old)):
            with self.commits.turn:
                there = there | set(doc_ids) if is_new else there - set(doc_ids)
                if self.changes % 2:
                    self.index.add(docs) if is_new else self.index.remove(doc_ids)
                    self.commits.note(there)
                else:
                    started = time.perf_counter()
                    posted = {"documents": [{"id": one, "text": docs[one]} for one in ids]} if is_new else None
                    path = "/documents" if is_new else f"/documents/{doc_ids[0]}"
                    summary = self.ask("POST" if is_new else "DELETE", path, posted)
                    self.waits.append(time.perf_counter() - started)
                    self.commits.note(there, None if summary is None else summary["index"])
                    self.last = (self.commits.order[self.folder_label()], self.last[1])
                    self.look()  # which must not come from before
        self.changes += 1
        time.sleep(1.0)

    def folder_label(self) -> str:
        return self.commits.folder.committed().digest[:12]


class Promoter(threading.Thread):
    """Promotes another model, takes that back, and promotes one that was baked from the journal of the service."""

    def __init__(self, folder: Path, until: float, commits: Commits, pause: float) -> None:
        super().__init__()
        self.folder, self.until, self.commits, self.pause = folder, until, commits, pause
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self) -> None:
        steps = [("promoted", "other"), ("taken back", "--undo"), ("baked", "baked"), ("taken back", "--undo")]
        for name, what in cycle([*steps[:3], *steps[:3], steps[3]]):
            wake = time.monotonic() + self.pause
            while time.monotonic() < min(wake, self.until):
                time.sleep(0.1)
            if time.monotonic() >= self.until:
                return
            model = what if what == "--undo" else str(self.folder / what)
            if what == "baked" and not self.tercet("bake", self.folder / "index.journal", "-o", model, "--replace"):
                continue
            with self.commits.turn:
                if self.tercet("index", self.folder / "index", "--model", model):
                    self.done[name] += 1
                self.commits.note(self.commits.now())

    def tercet(self, *words: object) -> bool:
        done = subprocess.run([*TERCET, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            self.faults.append(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.returncode == 0


def living(address: str, process: int, folder: Path, seconds: float, seed: int, commits: Commits) -> dict[str, Any]:
    """All that can happen to a service, for so many seconds."""
    until = time.monotonic() + seconds
    clients = [Visitor(address, seed + at, until, at >= N_READERS, commits) for at in range(N_READERS + N_WRITERS)]
    changer = Changer(address, seed, until, commits)
    promoter = Promoter(folder, until, commits, pause=min(15.0, seconds / 8))
    found = measured(address, process, [*clients, changer], until, siblings=[promoter])
    journal = folder / "index.journal" / "journal.jsonl"
    found["changes"], found["promotions"] = changer.changes, dict(promoter.done)
    found["change_p50_ms"] = 1000 * float(np.median(changer.waits))
    found["change_most_ms"] = 1000 * max(changer.waits)
    found["faults"] = [fault for one in [*clients, changer, promoter] for fault in one.faults]
    found["faults"] += lost_entries(journal, [*clients, changer]) + lost_lists(folder / "log", [*clients, changer])
    found["faults"] += unlike_replay(address, folder / "index", journal)
    for name in ("tercet_refused", "tercet_impressions_lost"):
        if gauge(address, name):
            found["faults"].append(f"{name} is {gauge(address, name)}")
    found["archived"] = len(list(journal.parent.glob("journal-*.jsonl")))
    found["shared"] = gauge(address, "tercet_interleaving")
    found["lists"] = gauge(address, "tercet_impressions_logged")
    return found


def lost_entries(journal: Path, clients: Sequence[Visitor]) -> list[str]:
    entries = read_journal(journal).entries
    faults = []
    for number, body in ((number, body) for client in clients for number, body in client.acknowledged.items()):
        meta = entries[number - 1].to_meta() if number <= len(entries) else {}
        expected = {"entries": body["withdrawn"]} if body["withdrawn"] else {k: body[k] for k in ("better", "worse")}
        if any(meta.get(name) != value for name, value in expected.items()):
            faults.append(f"entry {number} was acknowledged and is not there")
    return faults


def lost_lists(log: Path, clients: Sequence[Visitor]) -> list[str]:
    lines = (line for path in log.glob("ubi_queries-*.jsonl") for line in path.read_text("utf-8").splitlines())
    lists = {json.loads(line)["query_id"] for line in lines}
    lost = [shown for client in clients for shown in client.lists if shown not in lists]
    return [f"{len(lost)} lists are not in the log"] if lost else []


def unlike_replay(address: str, index: Path, journal: Path) -> list[str]:
    """Whether what is served is not what the journal gives over the index, from nothing."""
    expected = replay(Index.open(index), read_journal(journal).entries)
    for _ in range(600):  # the last promotion may still be on its way
        served = json.loads(got(address, "/learned?limit=1"))
        if (served["version"], served["digest"]) == (expected.name, expected.digest):
            return []
        time.sleep(0.1)
    return [f"{served['version']} is not the replay of the journal, {expected.name}"]


def got(address: str, path: str) -> str:
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def gauge(address: str, name: str) -> float:
    return float(next(line for line in got(address, "/metrics").splitlines() if line.startswith(f"{name} ")).split()[1])


def memory_of(process: int) -> dict[str, float]:
    """What a process has in RAM, in MB: for itself, and of files that are mapped, which the system can take away."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    own, *mapped = (int(status[name].split()[0]) * 1024 / 1e6 for name in ("RssAnon", "RssFile", "RssShmem"))
    return {"own_mb": own, "mapped_mb": sum(mapped)}


def slope_mb(samples: Sequence[dict[str, float]]) -> float:
    """By how much a process's own memory rose a minute, in the second half: least squares."""
    late = samples[len(samples) // 2 :]
    if len(late) < 2:
        return float("nan")
    minutes, own = ([sample[name] for sample in late] for name in ("minute", "own_mb"))
    return float(np.polyfit(minutes, own, 1)[0])


def by_minute(samples: Sequence[dict[str, float]]) -> list[list[str]]:
    """The mean of each whole minute, the last samples with it where they are fewer than half a minute."""
    n_minutes = max(1, round(samples[-1]["minute"]))
    rows = []
    for minute in range(n_minutes):
        some = [sample for sample in samples if min(int(sample["minute"]), n_minutes - 1) == minute]
        means = (np.mean([sample[name] for sample in some]) for name in ("own_mb", "mapped_mb"))
        rows.append([str(minute + 1), *(f"{mean:.0f}" for mean in means)])
    return rows


def loaded(address: str, process: int, seconds: float, seed: int, n_writers: int = N_WRITERS) -> dict[str, Any]:
    until = time.monotonic() + seconds
    clients = [Client(address, seed + at, until, at >= N_READERS) for at in range(N_READERS + n_writers)]
    return measured(address, process, clients, until)


def measured(
    address: str, process: int, clients: Sequence[Client], until: float, siblings: Sequence[threading.Thread] = ()
) -> dict[str, Any]:
    memory: list[dict[str, float]] = []
    started = time.monotonic()
    for client in (*clients, *siblings):
        client.start()
    while time.monotonic() < until:
        time.sleep(min(5.0, max(0.0, until - time.monotonic())))
        memory.append({"minute": (time.monotonic() - started) / 60, **memory_of(process)})
    for client in (*clients, *siblings):
        client.join()
    took = time.monotonic() - started
    times = np.sort(np.concatenate([client.times for client in clients]))
    statuses = sum((client.statuses for client in clients), Counter())
    return {
        "requests": int(times.size),
        "per_second": times.size / took,
        "p50_ms": 1000 * float(np.quantile(times, 0.5)),
        "p99_ms": 1000 * float(np.quantile(times, 0.99)),
        "most_ms": 1000 * float(times[-1]),
        "statuses": dict(statuses),
        "errors": sum(count for status, count in statuses.items() if status.split()[0] not in FINE),
        "memory": memory,
        "memory_mb": [round(sample["own_mb"] + sample["mapped_mb"], 1) for sample in memory],
        "entries": gauge(address, "tercet_journal_entries"),
    }


@contextmanager
def served(index: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A service in a process of its own, which must end well."""
    command = [*TERCET, "serve", str(index), "--port", "0", "--write-token", TOKEN, *options]
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
    arguments = parse_arguments(__doc__, needs_data=False, minutes=float)
    n_docs, seconds = (2_000, 5.0) if arguments.quick else (50_000, 60.0)
    facts = machine_facts()
    print_facts(facts)
    phases: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_index(folder / "index", n_docs, arguments.seed)
        if arguments.minutes is None:
            phases = ordinary_load(folder / "index", n_docs, seconds, arguments.seed)
        all_at_once = 60 * arguments.minutes if arguments.minutes else 4 * seconds if arguments.quick else seconds
        phases["living"] = everything(folder, all_at_once, arguments.seed)
    write_json(arguments.output, {"machine": facts, **phases})
    sys.exit(1 if any(phase["errors"] or phase.get("faults") for phase in phases.values()) else 0)


def ordinary_load(index: Path, n_docs: int, seconds: float, seed: int) -> dict[str, Any]:
    with served(index) as (address, service):
        warm_up = loaded(address, service.pid, seconds / 4, seed + 1000)
        found = loaded(address, service.pid, seconds, seed)
        reading = loaded(address, service.pid, seconds / 2, seed + 2000, n_writers=0)
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
    return {"warm_up": warm_up, "load": found, "readers": reading}


def everything(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    own = Index.open(folder / "index").model
    assert isinstance(own, tc.TextModel)
    for name, scale in (("other", 0.5), ("candidate", 2.0)):  # of what was learned beside BM25
        identity, pairs = own.weights.parts
        replace(own, weights=Weights([identity, pairs.scaled(scale)])).save(folder / name)
    options = ["--log-impressions", folder / "log", "--access-log", folder / "access.jsonl", "--look-every", "0.5"]
    # A deadline that others on the machine do not make us miss: what is looked for is what a reload would break.
    options += ["--interleave", folder / "candidate", "--deadline-ms", "5000"]
    with served(folder / "index", *map(str, options)) as (address, service):
        found = living(address, service.pid, folder, seconds, seed + 4000, Commits(folder / "index"))
    memory = by_minute(found["memory"])
    answered = f"half within {found['p50_ms']:.0f} ms, 99 % within {found['p99_ms']:.0f} ms"
    summary = {
        "requests": f"{found['requests']:,}, {found['per_second']:.0f} a second, {found['errors']} errors",
        "answered": f"{answered}, all within {found['most_ms']:.0f} ms",
        "taught": f"{found['entries']:.0f} entries, {found['archived']} archives",
        "documents": f"{found['changes']} rounds; a request {found['change_p50_ms']:.0f} ms, at most "
        f"{found['change_most_ms']:.0f}",
        "models": ", ".join(f"{count} {name}" for name, count in found["promotions"].items()),
        "lists": f"{found['lists']:.0f} in the log",
        "memory": f"at most {max(found['memory_mb']):.0f} MB; its own rises by {slope_mb(found['memory']):+.1f} MB a "
        "minute in the second half",
        "faults": str(len(found["faults"])),
    }
    print_table(f"Everything at once, {seconds:.0f} s", ["", ""], [[name, value] for name, value in summary.items()])
    print_table("Memory in the mean of each minute, MB", ["minute", "own", "mapped files"], memory)
    print(f"answers: {found['statuses']}")
    for fault in found["faults"][:20]:
        print(f"  {fault}")
    return found


if __name__ == "__main__":
    main()
