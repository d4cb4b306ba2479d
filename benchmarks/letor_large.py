"""A feature set too large for memory, made up: written as text, parsed, learned from chunk by chunk.

Started by itself in a process of its own (source, rows), it learns from that many rows and prints its peak memory.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

import tercet as tc
from common import Clock, median, peak_memory, print_table, say_if_disturbed, verdict
from tercet.data import LetorData, LetorStream, read_letor, write_letor

N_FEATURES = 200
ROWS_OF_A_QUERY = 100
ROWS_OF_A_CHUNK = 20_000
DECIMALS = 6  # as LETOR's files have
SMALL_TEXT_CHUNK = 1 << 20  # bytes, where memory is looked at
PARSE_SPEED = 60e6


def made_up_rows(n_rows: int, seed: int) -> Iterator[LetorData]:
    """Chunks of uniform features with grades 0 to 2, which follow a tenth of the features and noise."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(N_FEATURES) * (rng.random(N_FEATURES) < 0.1)
    spread = np.sqrt((weights**2).sum() / 12)
    for first in range(0, n_rows, ROWS_OF_A_CHUNK):
        n = min(ROWS_OF_A_CHUNK, n_rows - first)
        X = np.rint(rng.random((n, N_FEATURES), dtype=np.float32) * np.float32(10**DECIMALS)) / np.float32(10**DECIMALS)
        drawn = (X @ weights - weights.sum() / 2) / spread + 0.5 * rng.standard_normal(n)
        qid = (np.arange(first, first + n) // ROWS_OF_A_QUERY).astype(np.str_)
        yield LetorData(X, np.clip(np.floor(drawn + 1), 0, 2), qid)


def learn(chunks: Iterable[LetorData]) -> tc.FTRLRanker:
    ranker = tc.FTRLRanker(normalize_pairs=True)
    for chunk in chunks:
        ranker.partial_fit(chunk.X, chunk.y, chunk.qid)
    return ranker


def megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"


# -- one pass from disk -------------------------------------------------------------------------------------------


def forget_cached(file: Path) -> None:
    """Ask the system to drop what it keeps of a file, so that the disk is read."""
    with open(file, "rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def time_passes(text: Path, n_rows: int, repeats: int) -> dict[str, Any]:
    """Passes with the file dropped from the system's cache, and with it there; and the reading alone; in turn."""
    stream = LetorStream(text, N_FEATURES)
    clocks: dict[str, list[Clock]] = {"from the disk": [], "file cached": [], "reading alone, file cached": []}
    for _ in range(repeats):
        for name, rounds in clocks.items():
            if name == "from the disk":
                forget_cached(text)
            with (clock := Clock()).running():
                if name.startswith("reading"):
                    assert sum(len(chunk) for chunk in stream) == n_rows
                else:
                    ranker = learn(stream)
            rounds.append(clock)
    seconds = {name: [clock.wall for clock in rounds] for name, rounds in clocks.items()}
    print_table(
        f"One pass over {n_rows:,} rows, {N_FEATURES} features, {megabytes(text.stat().st_size)} of text: seconds",
        ["", "median", "fastest", "slowest"],
        [[name, *(f"{f(walls):.2f}" for f in (median, min, max))] for name, walls in seconds.items()],
    )
    print(f"{np.count_nonzero(ranker.coef_)} weights are not zero after {ranker.n_steps_:,} steps.")
    say_if_disturbed([clock for rounds in clocks.values() for clock in rounds])
    return {"rows": n_rows, "bytes": text.stat().st_size, "seconds": seconds}


# -- text ---------------------------------------------------------------------------------------------------------


def time_parsing(text: Path, n_rows: int, repeats: int) -> dict[str, Any]:
    """Tercet's readers and scikit-learn's, in turn."""
    readers = {
        "read_letor": lambda: len(read_letor(text)),
        "iter_letor, width given": lambda: sum(len(chunk) for chunk in LetorStream(text, N_FEATURES)),
        "scikit-learn load_svmlight_file": lambda: load_svmlight_file(str(text), query_id=True)[0].shape[0],
    }
    clocks: dict[str, list[Clock]] = {name: [] for name in readers}
    size = text.stat().st_size
    for _ in range(repeats):
        for name, reader in readers.items():
            with (clock := Clock()).running():
                found = reader()
            assert found == n_rows, (name, found)
            clocks[name].append(clock)
    speeds = {name: size / median([clock.wall for clock in found]) for name, found in clocks.items()}
    theirs = speeds["scikit-learn load_svmlight_file"]
    print_table(
        f"Parsing {megabytes(size)} of LETOR text, {n_rows:,} rows of {N_FEATURES} features",
        ["reader", "MB/s", "over scikit-learn", "target"],
        [
            [
                name,
                f"{speed / 1e6:.0f}",
                f"{speed / theirs:.2f}",
                "–" if name.startswith("scikit") else f"≥ {PARSE_SPEED / 1e6:g}: {verdict(speed, PARSE_SPEED)}",
            ]
            for name, speed in speeds.items()
        ],
    )
    say_if_disturbed([clock for found in clocks.values() for clock in found])
    return {"bytes": size, "rows": n_rows, "bytes_per_second": speeds}


# -- memory -------------------------------------------------------------------------------------------------------


def first_rows(chunks: Iterable[LetorData], n_rows: int) -> Iterator[LetorData]:
    """Chunks until there are that many rows; the whole of the last one."""
    for chunk in chunks:
        yield chunk
        n_rows -= len(chunk)
        if n_rows <= 0:
            return


def tell_memory(text: Path, n_rows: int) -> None:
    """Learn from the first rows of a file and print this process's peak memory before and after."""
    learn(made_up_rows(ROWS_OF_A_QUERY, 0))  # the kernels are loaded, or compiled
    chunks = LetorStream(text, N_FEATURES, chunk_bytes=SMALL_TEXT_CHUNK)
    before = peak_memory()
    learn(first_rows(chunks, n_rows))
    print(json.dumps({"rows": n_rows, "before": before, "peak": peak_memory()}))


def compare_memory(text: Path, n_rows: int, allowed: int) -> dict[str, Any]:
    """Peaks of processes that learn from a quarter of the rows and from all of them."""
    peaks = []
    for n in (n_rows // 4, n_rows):
        command = [sys.executable, __file__, str(text), str(n)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks.append(json.loads(run.stdout.splitlines()[-1]))
    quarter, whole = peaks
    growth = whole["peak"] - quarter["peak"]
    print_table(
        f"Peak memory of a process that learns from {n_rows:,} rows in chunks of {megabytes(SMALL_TEXT_CHUNK)} of text",
        ["before learning", "a quarter of the rows", "all rows", "target"],
        [
            [
                megabytes(whole["before"]),
                megabytes(quarter["peak"]),
                megabytes(whole["peak"]),
                f"≤ {megabytes(allowed)} apart: {verdict(growth, allowed, at_most=True)}",
            ]
        ],
    )
    return {"quarter": quarter, "whole": whole}


def large_set(seed: int, quick: bool) -> dict[str, Any]:
    n_rows, repeats = (8_000, 1) if quick else (100_000, 3)
    with tempfile.TemporaryDirectory(prefix="tercet-letor-") as position:
        text = Path(position, "train.txt")
        with (printing := Clock()).running():
            write_letor(text, made_up_rows(n_rows, seed))
        print(f"\nA made-up set, seed {seed}: {n_rows:,} rows written in {printing.wall:.0f} s; removed afterwards.")
        learn(made_up_rows(ROWS_OF_A_QUERY, seed))
        read_letor(text)
        return {
            "pass": time_passes(text, n_rows, repeats),
            "parsing": time_parsing(text, n_rows, repeats),
            "memory": compare_memory(text, n_rows, min(n_rows, ROWS_OF_A_CHUNK) * N_FEATURES * 4),
        }


if __name__ == "__main__":
    tell_memory(Path(sys.argv[1]), int(sys.argv[2]))
