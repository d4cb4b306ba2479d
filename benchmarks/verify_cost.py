"""What it costs to check stored vectors while they are read, and an index when it is opened.

Documents are those of `stream_speed.py`. A pass has as many preferences as there are documents, each with a document
drawn at random. Both ways are taken in turns in one process, from fresh mappings of files in the page cache, and
compared by processor time, since checking is work and no waiting.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tercet as tc
from common import machine_facts, median, parse_arguments, print_facts, print_table, verdict, write_json
from stream_speed import MAKE, make_data, source_of
from tercet.data.shards import MappedRows
from tercet.weights import Identity, Weights

WAYS, OPENED = ("never", "touch"), ("never", "open")
TARGET = 1.05


def opened(folder: Path, verify: Any) -> list[MappedRows]:
    return [MappedRows.open(folder / name, verify) for name in ("queries", "docs")]


def training_pass(ranker: str, folder: Path, seed: int) -> Callable[[Any], Any]:
    def run(verify: Any) -> Any:
        Q, D = opened(folder, verify)
        return MAKE[ranker]().fit(Q, source_of(len(D), len(D), seed), D).weights_.to_state()

    return run


def reading_pass(folder: Path, seed: int) -> Callable[[Any], Any]:
    def run(verify: Any) -> Any:
        _, D = opened(folder, verify)
        order = np.random.default_rng(seed).permutation(len(D))
        return sum(float(D.rows(order[start : start + 4096]).data.sum()) for start in range(0, len(D), 4096))

    return run


def seconds(work: Callable[[Any], Any], way: Any) -> float:
    began = time.process_time()
    work(way)
    return time.process_time() - began


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    n_docs, rounds = (20_000, 3) if arguments.quick else (100_000, 3)
    facts = machine_facts()
    print_facts(facts)
    folder = Path(tempfile.mkdtemp(prefix="tercet-verify-"))
    results: dict[str, Any] = {"machine": facts, "n_docs": n_docs, "passes": {}}
    try:
        made = make_data(folder, n_docs, arguments.seed)
        works: dict[str, Callable[[Any], Any]] = {
            f"a pass, {ranker}": training_pass(ranker, folder, arguments.seed) for ranker in MAKE
        }
        works["reading alone"] = reading_pass(folder, arguments.seed)
        rows = []
        for name, work in works.items():
            work("never")  # compiles
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            for i in range(rounds):
                for way in WAYS if i % 2 else WAYS[::-1]:
                    times[way].append(seconds(work, way))
            never, touch = (median(times[way]) for way in WAYS)
            is_training = name.startswith("a pass")
            summary = verdict(touch / never, TARGET, at_most=True) if is_training else ""
            rows.append((name, f"{never:.2f}", f"{touch:.2f}", f"{touch / never:.3f}", summary))
            results["passes"][name] = times
        print_table(
            f"{n_docs:,} documents, {made['gigabytes']:.2f} GB; processor seconds, median of {rounds}",
            ("", "never", "touch", "ratio", f"≤ {TARGET}"),
            rows,
        )
        results["index"] = index_costs(folder, n_docs, rounds)
    finally:
        shutil.rmtree(folder)
    write_json(arguments.output, results)


def index_costs(folder: Path, n_docs: int, rounds: int) -> dict[str, list[float]]:
    """Processor seconds to open an index of the same documents."""
    _, D = opened(folder, "never")
    docs, path = D.rows(np.arange(n_docs)), folder / "index"
    tc.Index.build_rows([f"doc {i}" for i in range(n_docs)], docs, Weights([Identity(n_terms=docs.shape[1])]), path)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    work = partial(tc.Index.open, path, None)
    times = {way: [seconds(work, way) for _ in range(rounds)] for way in OPENED}
    never, whole = (median(times[way]) for way in OPENED)
    rows = [("never", f"{never:.3f}", ""), ("all of it", f"{whole:.3f}", f"{whole / size * 1e9:.2f}")]
    print_table(f"Opening an index of {size / 1e9:.2f} GB", ("checked", "processor s", "s a GB"), rows)
    return times


if __name__ == "__main__":
    main()
