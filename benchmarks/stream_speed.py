"""Learning from mapped rows against learning from the same rows in memory: time, memory and bytes.

Documents are made up: words drawn by Zipf's law from 30,000, about 80 different ones each, tf-idf values of unit
length; queries are four words of one. Both ways learn from the same preferences, and their weights are compared to the
bit. Each fit is a process of its own. Its memory is what it holds beside mapped files, whose pages the system takes
back when anybody needs memory.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import tercet as tc
from common import (
    Clock,
    OwnMemory,
    machine_facts,
    median,
    parse_arguments,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    write_json,
)
from search_speed import N_TERMS, documents
from tercet.data import open_rows, write_rows
from tercet.data.sampling import JudgementSampler
from tercet.learn import SampledSource

DOCS_AT_ONCE = 50_000
N_QUERIES, WORDS_A_QUERY = 20_000, 4
STEPS = {"low rank": 200_000, "sparse": 60_000, "diagonal": 600_000}
MAKE: dict[str, Callable[[], Any]] = {
    "low rank": lambda: tc.LowRankRanker(n_components=100, tied=True, verbose=False),
    "sparse": lambda: tc.SparseRanker(rate=20.0, l1=1e-5, refit=False, max_memory=2**31, verbose=False),
    "diagonal": lambda: tc.DiagonalRanker(verbose=False),
}
TARGETS = {"low rank": 1.3, "sparse": 1.3}


def asked(D: sparse.csr_array, rng: np.random.Generator) -> sparse.csr_array:
    """Queries of a few words of a document each."""
    rows = D[rng.integers(0, D.shape[0], N_QUERIES)]
    keep = np.zeros(rows.nnz, dtype=bool)
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        keep[rng.choice(np.arange(start, stop), min(WORDS_A_QUERY, stop - start), replace=False)] = True
    indptr = np.concatenate(([0], np.cumsum(keep)))[rows.indptr]
    found = sparse.csr_array((rows.data[keep], rows.indices[keep], indptr), shape=rows.shape)
    found.data /= np.repeat(np.sqrt(found.power(2).sum(axis=1)), np.diff(indptr)).astype(np.float32)
    return found


def source_of(n_docs: int, n_steps: int, seed: int) -> SampledSource:
    """One relevant document for each query, all others are worse."""
    rng = np.random.default_rng(seed)
    relevant = rng.integers(0, n_docs, N_QUERIES)
    sampler = JudgementSampler(np.arange(N_QUERIES), relevant, np.ones(N_QUERIES, dtype=np.int64), n_docs=n_docs)
    return SampledSource(sampler, n_steps, random_state=seed)


def make_data(folder: Path, n_docs: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    first = documents(min(n_docs, DOCS_AT_ONCE), rng)
    write_rows(folder / "queries", [asked(first, rng)], n_columns=N_TERMS)
    began, making = time.perf_counter(), 0.0

    def blocks() -> Any:
        nonlocal making
        for start in range(0, n_docs, DOCS_AT_ONCE):
            started = time.perf_counter()
            block = documents(min(DOCS_AT_ONCE, n_docs - start), np.random.default_rng((seed, start)))
            making += time.perf_counter() - started
            yield block

    rows = write_rows(folder / "docs", blocks(), n_columns=N_TERMS)
    n_bytes = sum(file.stat().st_size for file in (folder / "docs").rglob("*") if file.is_file())
    return {
        "bytes a document": n_bytes / n_docs,
        "entries a document": rows.nnz / n_docs,
        "write s": time.perf_counter() - began - making,
        "gigabytes": n_bytes / 1e9,
    }


def fit_here(folder: Path, ranker: str, where: str, n_steps: int, seed: int) -> None:
    """In a process of its own: fit once and say how long it took and what it held."""
    Q, D = (open_rows(folder / name) for name in ("queries", "docs"))
    MAKE[ranker]().fit(Q[:50], tc.Preferences([0], [1], [2]), D[:50])  # compiles
    source = source_of(D.shape[0], n_steps, seed)
    memory, clock = OwnMemory(), Clock()
    with memory.watched():
        queries, docs = (X.copy() if where == "memory" else X for X in (Q, D))
        with clock.running():
            learner = MAKE[ranker]().fit(queries, source, docs)
    arrays = learner.weights_.to_state()[1]
    digest = hashlib.sha256(b"".join(array.tobytes() for _, array in sorted(arrays.items()))).hexdigest()
    summary = {
        "wall": clock.wall,
        "processor": clock.processor,
        "machine": clock.machine,
        "grew": memory.grew,
    }
    print(json.dumps(summary | {"model": sum(array.nbytes for array in arrays.values()), "digest": digest}))


def fitted(folder: Path, ranker: str, where: str, n_steps: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--folder", str(folder), "--ranker", ranker, "--where", where]
    command += ["--steps", str(n_steps), "--seed", str(seed)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, folder=Path, ranker=str, where=str, steps=int)
    if arguments.folder is not None:
        fit_here(arguments.folder, arguments.ranker, arguments.where, arguments.steps, arguments.seed)
        return
    n_docs, rounds = (100_000, 1) if arguments.quick else (1_000_000, 3)
    share = 10 if arguments.quick else 1
    facts = machine_facts()
    print_facts(facts)
    folder = Path(tempfile.mkdtemp(prefix="tercet-stream-"))
    results: dict[str, Any] = {"machine": facts, "n_docs": n_docs, "fits": {}}
    clocks: list[Clock] = []
    try:
        results["data"] = made = make_data(folder, n_docs, arguments.seed)
        print(
            f"\n{n_docs:,} documents of {made['entries a document']:.1f} words: "
            f"{made['bytes a document']:.0f} bytes each, {made['gigabytes']:.2f} GB, written in {made['write s']:.1f} s"
        )
        rows = []
        for ranker, all_steps in STEPS.items():
            n_steps = all_steps // share
            found: dict[str, list[dict[str, Any]]] = {"memory": [], "disk": []}
            for _ in range(rounds):
                for where, times in found.items():
                    times.append(fitted(folder, ranker, where, n_steps, arguments.seed))
                    clocks.append(Clock(*(times[-1][name] for name in ("wall", "processor", "machine"))))
            micro = {where: 1e6 * median([each["wall"] for each in times]) / n_steps for where, times in found.items()}
            grew = {where: max(each["grew"] for each in times) / 2**20 for where, times in found.items()}
            same = len({each["digest"] for times in found.values() for each in times}) == 1
            ratio = micro["disk"] / micro["memory"]
            target = TARGETS.get(ranker)
            rows.append(
                (
                    ranker,
                    f"{n_steps:,}",
                    f"{micro['memory']:.1f}",
                    f"{micro['disk']:.1f}",
                    f"{ratio:.2f}",
                    "" if target is None else verdict(ratio, target, at_most=True),
                    f"{grew['memory']:,.0f}",
                    f"{grew['disk']:,.0f}",
                    f"{found['disk'][0]['model'] / 2**20:,.0f}",
                    "yes" if same else "NO",
                )
            )
            results["fits"][ranker] = {"micro": micro, "grew": grew, "ratio": ratio, "same": same}
        print_table(
            f"Microseconds a preference, median of {rounds}; MB of memory that the fit took, the texts included",
            ("", "steps", "memory", "disk", "ratio", "≤ 1.3", "MB, memory", "MB, disk", "model MB", "same bits"),
            rows,
        )
        say_if_disturbed(clocks)
    finally:
        shutil.rmtree(folder)
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
