"""What it costs to check stored rows and an index when they are opened.

Documents are those of `stream_speed.py`, their files in the page cache. Compared by processor time, since checking is
work and no waiting.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tercet as tc
from common import machine_facts, median, parse_arguments, print_facts, print_table, write_json
from stream_speed import make_data
from tercet.data import open_rows
from tercet.weights import Identity, Weights

WAYS = ("never", "open")


def seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    n_docs, rounds = (20_000, 3) if arguments.quick else (100_000, 5)
    facts = machine_facts()
    print_facts(facts)
    folder = Path(tempfile.mkdtemp(prefix="tercet-verify-"))
    results: dict[str, Any] = {"machine": facts, "n_docs": n_docs, "opened": {}}
    try:
        make_data(folder, n_docs, arguments.seed)
        docs = open_rows(folder / "docs").copy()
        weights = Weights([Identity(n_terms=docs.shape[1])])
        tc.Index.build_rows([f"doc {i}" for i in range(n_docs)], docs, weights, folder / "index")
        rows = []
        for name, opener in (("docs", open_rows), ("index", tc.Index.open)):
            path = folder / name
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            times = {way: [seconds(lambda: opener(path, verify=way)) for _ in range(rounds)] for way in WAYS}  # noqa: B023
            never, whole = (median(times[way]) for way in WAYS)
            rows.append(
                (name, f"{size / 1e6:,.0f}", f"{never:.4f}", f"{whole:.3f}", f"{(whole - never) / size * 1e9:.2f}")
            )
            results["opened"][name] = times
        print_table(
            f"{n_docs:,} documents; processor seconds to open, median of {rounds}",
            ("", "MB", "unchecked", "checked", "s a GB"),
            rows,
        )
    finally:
        shutil.rmtree(folder)
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
