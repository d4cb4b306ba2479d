"""What it costs to begin: importing, help, and the first run of a verb on a machine that has compiled nothing yet.

    python benchmarks/start_up.py [--quick]

Processor seconds of whole processes, the user's and the system's together, the least of some runs; first runs have an
empty cache folder. Documents and rows are made up and few, so what is seen is importing and compiling.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, verdict, write_json
from tercet.data import LetorData, write_beir, write_letor
from tercet.fitting import TextModel
from tercet.search import Index
from tercet.text import Vectorizer
from tercet.weights import Identity, LowRank, Weights

PYTHON = [sys.executable, "-c"]
TERCET = [sys.executable, "-m", "tercet"]


def cpu_seconds(command: list[str], cache: str) -> float:
    """Processor time of a process, with this cache folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measured(command: list[str], runs: int) -> tuple[float, float]:
    """The first run, with nothing compiled, and a later one; the least of some of each."""
    first, later = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            first.append(cpu_seconds(command, cache))
            later.append(cpu_seconds(command, cache))
    return min(first), min(later)


def write_inputs(folder: Path) -> None:
    """Write a BEIR folder ``data``, LETOR rows ``rows.txt``, and the indexes ``bm25`` and ``lowrank``."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 6, 120)
    words = np.array([f"word{i:02}" for i in range(60)])
    docs = {f"d{i}": " ".join(words[(10 * topic + rng.integers(0, 20, 8)) % 60]) for i, topic in enumerate(topics)}
    queries = {f"q{i}": " ".join(docs[f"d{i}"].split()[:3]) for i in range(60)}
    qrels = {qid: {f"d{d}": 1 for d in np.flatnonzero(topics == topics[int(qid[1:])])[:6]} for qid in queries}
    write_beir(folder / "data", docs, queries, {"train": qrels})
    X = rng.random((400, 12), dtype=np.float32)
    y = np.clip(np.rint(4 * X[:, 0] + rng.normal(0, 0.3, len(X))), 0, 4).astype(np.int64)
    write_letor(folder / "rows.txt", LetorData(X, y, np.repeat(np.arange(40), 10).astype(str)))
    vectorizer = Vectorizer(weighting="bm25").fit(docs.values())
    n = vectorizer.n_features_in_
    U, V = rng.normal(0, 0.1, (2, n, 4)).astype(np.float32)
    low_rank = Weights([Identity(n_terms=n), LowRank(query_factors=U, doc_factors=V)])
    for name, weights in (("bm25", Weights([Identity(n_terms=n)])), ("lowrank", low_rank)):
        Index.build(docs, TextModel(vectorizer, vectorizer, weights), folder / name)


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    runs = 1 if arguments.quick else 3
    with tempfile.TemporaryDirectory() as made:
        write_inputs(Path(made))
        texts, rows, index, bm25 = (str(Path(made, name)) for name in ("data", "rows.txt", "lowrank", "bm25"))
        # What is run, and at most how many seconds the first and a later run shall take.
        commands: dict[str, tuple[list[str], float | None, float | None]] = {
            "python -c pass": ([*PYTHON, "pass"], None, None),
            "import tercet": ([*PYTHON, "import tercet"], None, 0.5),
            "import numpy, scipy.sparse, numba": ([*PYTHON, "import numpy, scipy.sparse, numba"], None, None),
            "import sklearn.base": ([*PYTHON, "import sklearn.base"], None, None),
            "tercet --version": ([*TERCET, "--version"], None, 0.3),
            "tercet --help": ([*TERCET, "--help"], None, 0.3),
            "tercet search --help": ([*TERCET, "search", "--help"], None, None),
            "tercet search, low rank": ([*TERCET, "search", index, "word01 word02"], 5.0, None),
            "tercet search, BM25": ([*TERCET, "search", bm25, "word01 word02"], 5.0, None),
            "tercet letor fit": ([*TERCET, "letor", "fit", rows, "-o", f"{made}/l", "--replace"], 8.0, None),
        }
        if not arguments.quick:
            commands["tercet fit"] = ([*TERCET, "fit", texts, "-o", f"{made}/m", "--replace"], None, None)
        results = {}
        table = []
        for name, (command, most_first, most_later) in commands.items():
            first, later = measured(command, runs)
            results[name] = {"first": first, "later": later, "ratio": first / later}
            aims = [
                f"{which} {most:g}: {verdict(seconds, most, at_most=True)}"
                for which, seconds, most in (("first", first, most_first), ("later", later, most_later))
                if most is not None
            ]
            table.append([name, f"{first:.2f}", f"{later:.2f}", f"{first / later:.1f}", "; ".join(aims)])
    print_table("Processor seconds", ["what", "first", "later", "ratio", "at most"], table)
    facts = machine_facts("numba", "numpy", "scipy", "scikit-learn")
    print_facts(facts)
    write_json(arguments.output, {"facts": facts, "seconds": results})


if __name__ == "__main__":
    main()
