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

from common import machine_facts, parse_arguments, print_facts, print_table, verdict, write_json
from tercet.cli.warm import Workshop

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


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    runs = 1 if arguments.quick else 3
    with tempfile.TemporaryDirectory() as made:
        shop = Workshop(Path(made))
        index, bm25 = str(shop.index("low rank")), str(shop.index("BM25"))
        texts, rows = str(shop.data), str(shop.rows)
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
