"""Searches while a long undo is worked out: a service with a journal of a million entries takes back the costliest.

The journal is that of `serve_journal.py`, with a snapshot beside it, so the service starts at once. Two readers search,
one request after the other, for some seconds; then the entry is taken back whose undo goes back farthest, and they
search on until an exact version without it is served; before that it counts in an interim one. Times are those that
clients see, others may be at work here. 1,000,000 entries; `--entries N` for others.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from serve_journal import COLOURS, NOUNS, costliest, drawn, put_columns, save_lines, short_texts, write_journal
from serve_load import Client, served
from tercet.search import Index
from tercet.serve import Journal, LearningBounds
from tercet.serve.generations import model_fingerprint
from tercet.serve.replay import Replay
from tercet.serve.snapshots import Snapshots

N_READERS = 2
PATIENCE_SECONDS = 300.0


class Searcher(Client):
    """Searches for words of the documents, and notes when."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(address, seed, float("inf"), False)
        self.when: list[float] = []

    def read(self) -> None:
        query = f"{self.rng.choice(COLOURS)}+{self.rng.choice(NOUNS)}"
        if self.ask("GET", f"/search?q={query}"):
            self.when.append(time.monotonic())


def make(folder: Path, n: int, seed: int) -> int:
    """An index with a journal and a snapshot; returns the entry whose undo costs most."""
    collection, path = short_texts(seed, folder / "index"), folder / "index.journal" / "journal.jsonl"
    path.parent.mkdir()
    given = drawn(n, collection, seed)
    save_lines(write_journal(path, given))
    state = Replay(collection.index, LearningBounds())
    put_columns(state, given)
    with Journal(path, 2**40) as journal:
        model = Index.open(folder / "index").model
        assert Snapshots(journal, 1).keep(state, model_fingerprint(model), n, 0)
    return costliest(state)


def summary(searches: list[tuple[float, float]], start: float, stop: float) -> dict[str, float]:
    times = np.array([1000 * seconds for when, seconds in searches if start <= when < stop])
    return {"n": times.size, "p50": np.quantile(times, 0.5), "p99": np.quantile(times, 0.99), "max": times.max()}


def await_version(client: Client, since: float, *names: str) -> float:
    """When one of these versions was served."""
    health: dict[str, Any] = {}
    while health.get("version") not in names and time.monotonic() < since + PATIENCE_SECONDS:
        time.sleep(0.01 if health else 0.0)
        health = client.ask("GET", "/health") or {}
    return time.monotonic()


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, entries=int)
    n = arguments.entries or (20_000 if arguments.quick else 1_000_000)
    facts = machine_facts()
    print_facts(facts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gone = make(folder, n, arguments.seed)
        began = time.monotonic()
        with served(folder / "index") as (address, _):
            started = time.monotonic() - began
            readers = [Searcher(address, seed) for seed in range(N_READERS)]
            for reader in readers:
                reader.start()
            quiet = time.monotonic()
            time.sleep(2.0 if arguments.quick else 15.0)
            teacher = Client(address, 99, 0.0, False)
            asked = time.monotonic()
            summary = teacher.ask("POST", "/undo", {"entry": gone})
            answered = time.monotonic() - asked
            counting = await_version(teacher, asked, f"v{n + 1}~", f"v{n + 1}")
            done = await_version(teacher, asked, f"v{n + 1}")
            for reader in readers:
                reader.until = 0.0
            for reader in readers:
                reader.join()
    is_done = done < asked + PATIENCE_SECONDS
    searches = [both for reader in readers for both in zip(reader.when, reader.times, strict=False)]
    found = {"before": summary(searches, quiet, asked), "meanwhile": summary(searches, asked, done)}
    print_table(
        f"entry {gone:,} of {n:,} is taken back: answered in {answered:.2f} s, {json.dumps(summary)}, "
        f"seen to count after {counting - asked:.2f} s, exact after {done - asked:.2f} s; "
        f"the service had started in {started:.1f} s",
        ["searches", "number", "p50 ms", "p99 ms", "longest ms"],
        [[title, *(f"{value:.0f}" for value in row.values())] for title, row in found.items()],
    )
    statuses = sum((reader.statuses for reader in readers), start=teacher.statuses)
    print(f"answers: {dict(statuses)}")
    results = {"entries": n, "entry": gone, "answered": answered, "told": summary, "done": done - asked, **found}
    results["counting"] = counting - asked
    write_json(arguments.output, {"machine": facts, **results, "started": started})
    sys.exit(0 if is_done and set(statuses) <= {"200", "202"} else 1)


if __name__ == "__main__":
    main()
