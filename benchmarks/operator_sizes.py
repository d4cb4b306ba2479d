"""What an index takes by its number of documents: disk, memory to build it and to serve it, time by document.

    python benchmarks/operator_sizes.py [--most 1000000] [--quick]

Documents are 40 made-up words each, drawn by Zipf's law from 50,000. They are indexed by BM25, and with a model that
has 50 latent numbers for each of its words besides, as models of ``tercet fit`` may have. Each index is built by one
process and served by another, which is asked 200 queries of three words. Memory is what the system counts for the
process; of the service the part that is its own is told, too: the rest is the index as the system keeps it in memory
while there is room. Times are processor time by document, as multiples of that for the least documents.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.fitting import TextModel
from tercet.text import Vectorizer
from tercet.weights import Identity, LowRank, Weights

WORDS, LENGTH, LATENT, QUERIES, BLOCK = 50_000, 40, 50, 200, 10_000
SIZES = (10_000, 100_000, 1_000_000)
TERCET = [sys.executable, "-m", "tercet"]


def texts(n: int, seed: int) -> Iterator[str]:
    """The same documents for each number, as far as they go."""
    words = np.array([f"w{number:05}" for number in range(WORDS)])
    chances = 1 / np.arange(1, WORDS + 1)
    steps = np.cumsum(chances / chances.sum())
    for start in range(0, n, BLOCK):
        rng = np.random.default_rng([seed, start])
        drawn = np.searchsorted(steps, rng.random((min(BLOCK, n - start), LENGTH)))
        yield from (" ".join(row) for row in words[np.minimum(drawn, WORDS - 1)])


def write_documents(path: Path, n: int, seed: int) -> None:
    with path.open("w") as file:
        for number, text in enumerate(texts(n, seed)):
            file.write(json.dumps({"_id": f"d{number}", "text": text}) + "\n")


def save_model(path: Path, n: int, seed: int) -> None:
    vectorizer = Vectorizer(weighting="bm25").fit(list(texts(min(n, 100_000), seed)))
    n_words = vectorizer.n_features_in_
    U, V = np.random.default_rng(seed).normal(0, 0.1, (2, n_words, LATENT)).astype(np.float32)
    weights = Weights([Identity(n_terms=n_words), LowRank(query_factors=U, doc_factors=V)])
    TextModel(vectorizer, vectorizer, weights).save(path)


def build(documents: Path, index: Path, *options: str) -> dict[str, float]:
    """Bytes that building took at most, and processor seconds."""
    process = subprocess.Popen([*TERCET, "index", str(documents), *options, "-o", str(index)])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tercet index ended with {process.returncode}")
    return {"peak": 1024 * used.ru_maxrss, "seconds": used.ru_utime + used.ru_stime}


def serve(index: Path, seed: int) -> dict[str, float]:
    """Bytes of a service after some queries: all, and those that are its own."""
    rng = np.random.default_rng(seed)
    with subprocess.Popen([*TERCET, "serve", str(index), "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            for _ in range(QUERIES):
                query = " ".join(f"w{number:05}" for number in rng.integers(0, 5_000, 3))
                with urlopen(f"{address}search?q={quote(query)}", timeout=600) as answer:
                    answer.read()
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            status = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
        finally:
            process.terminate()
            process.wait()
    return {"resident": 1024 * int(status["VmRSS"]), "own": 1024 * int(status["RssAnon"])}


def measured(folder: Path, n: int, seed: int) -> dict[str, Any]:
    documents, model = folder / "documents.jsonl", folder / "model"
    write_documents(documents, n, seed)
    save_model(model, n, seed)
    found: dict[str, Any] = {"texts": documents.stat().st_size}
    for name, options in (("BM25", ()), ("latent", ("--model", str(model)))):
        index = folder / name
        built = build(documents, index, *options)
        disk = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
        found[name] = {**built, "disk": disk, **serve(index, seed)}
    return found


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, most=int)
    most = arguments.most or (2_000 if arguments.quick else SIZES[-1])
    sizes = [size for size in SIZES if size <= most] or [most]
    facts = machine_facts()
    print_facts(facts)
    results: dict[int, Any] = {}
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="tercet-sizes-") as folder:
            results[n] = measured(Path(folder), n, arguments.seed)
        rows = []
        for name in ("BM25", "latent"):
            one, least = results[n][name], results[sizes[0]][name]
            ratio = (one["seconds"] / n) / (least["seconds"] / sizes[0])
            amounts = [results[n]["texts"], one["disk"], one["peak"], one["resident"], one["own"]]
            rows.append([name, *(f"{amount / 1e6:,.0f}" for amount in amounts), f"{ratio:.2f}"])
        head = ["index", "texts", "disk", "to build", "to serve", "of it its own", "time by document, ratio"]
        print_table(f"{n:,} documents, MB", head, rows)
    write_json(arguments.output, {"facts": facts, "seed": arguments.seed, "sizes": results})


if __name__ == "__main__":
    main()
