"""What the benchmarks share: arguments, 20 Newsgroups as matrices, clocks, facts about the machine, tables."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from tercet.data.labeled import LabeledTexts, read_20newsgroups

sys.path.append(str(Path(__file__).parents[1]))  # for the reproductions, which are not installed

N_WORDS = 10_000
ARCHIVE = "20news-bydate.tar.gz"
# An idle machine: a thread is hardly ever without a processor, and others hardly use any.
SHARE_ABOVE = 0.97
OTHERS_BELOW = 0.10
TABLE_BYTES = 400_000_000  # as large as a dense W over 10,000 words, far larger than any cache
LINE_BYTES = 64


# -- arguments ----------------------------------------------------------------------------------------------------


def parse_arguments(description: str | None, *, needs_data: bool = True, **for_itself: type) -> argparse.Namespace:
    """The arguments of a script; ``for_itself`` are options that it gives to processes it starts.

    Without ``needs_data`` the folder may be left out, and is None then.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared_options(parser)
    for name, kind in for_itself.items():
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if needs_data:
        check_data_home(parser, arguments)
    return arguments


def add_shared_options(parser: argparse.ArgumentParser) -> None:
    """The options of every script, or of each of its verbs."""
    home = os.environ.get("TERCET_DATA")
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        type=Path,
        default=Path(home) if home else None,
        help="folder with the data sets that README.md names; default: the variable TERCET_DATA",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of preferences and starts (default 0)")
    parser.add_argument("--quick", action="store_true", help="a small run, to see that everything works")
    parser.add_argument("-o", dest="output", metavar="FILE", type=Path, help="also write the results as JSON")


def check_data_home(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End with a message where nobody said where the data is."""
    if arguments.data_home is None:
        parser.error("say where the data is: --data-home DIR, or the variable TERCET_DATA")


# -- data ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Newsgroups:
    """tf-idf rows of both halves, one vocabulary, learned on the training half."""

    X: sparse.csr_array
    y: NDArray[Any]
    X_test: sparse.csr_array
    y_test: NDArray[Any]


def read_newsgroups(data_home: Path) -> tuple[LabeledTexts, LabeledTexts]:
    """The texts of the bydate split, packed or extracted."""
    archive = data_home / ARCHIVE
    return read_20newsgroups(archive if archive.exists() else data_home)


def load_newsgroups(data_home: Path, n_words: int = N_WORDS) -> Newsgroups:
    """The bydate split as sublinear tf-idf of its most frequent words without English stop words."""
    return newsgroups_rows(*read_newsgroups(data_home), n_words)


def newsgroups_rows(train: LabeledTexts, test: LabeledTexts, n_words: int = N_WORDS) -> Newsgroups:
    vectorizer = tc.Vectorizer(
        analyzer=tc.Analyzer(stop_words="english", html=False), max_features=n_words, sublinear_tf=True
    )
    X = vectorizer.fit_transform_docs(train.texts)
    X_test = vectorizer.transform_docs(test.texts)
    return Newsgroups(sparse.csr_array(X), np.array(train.labels), sparse.csr_array(X_test), np.array(test.labels))


def words_per_step(X: sparse.csr_array, prefs: tc.Preferences) -> tuple[float, float]:
    """Mean words of the query, and of the two documents together."""
    n = np.diff(X.indptr)
    return float(n[prefs.query].mean()), float((n[prefs.better] + n[prefs.worse]).mean())


# -- time ---------------------------------------------------------------------------------------------------------


@dataclass
class Clock:
    """Seconds by the wall, seconds this process had a processor, seconds all processors of the machine were busy."""

    wall: float = 0.0
    processor: float = 0.0
    machine: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, processor, machine = time.perf_counter(), time.process_time(), _busy_seconds()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.processor += time.process_time() - processor
            self.machine += _busy_seconds() - machine


def _busy_seconds() -> float:
    """Seconds all processors have been busy since the machine started; 0 where that is not known."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, *_ = (int(ticks) for ticks in file.readline().split()[1:])
    except FileNotFoundError:  # not Linux
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def say_if_disturbed(clocks: Sequence[Clock]) -> None:
    """Say how much others used the machine during the timed runs: they take processors, caches and memory from them."""
    wall = sum(clock.wall for clock in clocks)
    share = sum(clock.processor for clock in clocks) / wall
    print(f"The timed runs took {wall:.0f} s and had a processor for {share:.0%} of it;", end=" ")
    others = max(0.0, sum(clock.machine - clock.processor for clock in clocks)) / wall
    print(f"others kept {others:.2f} processors busy.")
    if others > OTHERS_BELOW or share < SHARE_ABOVE:
        print("THE MACHINE WAS NOT IDLE: run this again for figures to rely on.")


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


# -- the machine --------------------------------------------------------------------------------------------------


def machine_facts(*packages: str) -> dict[str, Any]:
    return {
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: version(name) for name in ("tercet", "numpy", "scipy", "numba", *packages)},
    }


def peak_memory() -> int:
    """The most bytes of memory this process has held so far, which on Linux getrusage would mix with its parent's."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


class OwnMemory:
    """The most memory that a block takes, the pages of mapped files apart; looked at a hundred times a second."""

    grew = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        before, over = self._now(), threading.Event()

        def look() -> None:
            while not over.wait(0.01):
                self.grew = max(self.grew, self._now() - before)

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self.grew = max(self.grew, self._now() - before)

    @staticmethod
    def _now() -> int:
        with open("/proc/self/status") as file:
            return 1024 * next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


@dataclass(frozen=True)
class Bandwidth:
    """What one core reads from memory, in bytes a second."""

    streaming: float
    random_lines: float


@numba.njit(fastmath=True)
def _sum_all(table):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(table.size):
        total += table[i]
    return total


@numba.njit(fastmath=True)
def _sum_at(table, positions):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(positions.size):
        total += table[positions[i]]
    return total


def memory_bandwidth(rounds: int = 3, seed: int = 0) -> Bandwidth:
    """Read a table the size of a dense W once in order, and once line by line in random order; best of rounds."""
    table = np.ones(TABLE_BYTES // 4, dtype=np.float32)
    per_line = LINE_BYTES // 4
    lines = np.random.default_rng(seed).permutation(table.size // per_line).astype(np.int32)
    positions = lines * np.int32(per_line)
    _sum_all(table[:1]), _sum_at(table, positions[:1])
    streaming, scattered = [], []
    for _ in range(rounds):
        with (clock := Clock()).running():
            _sum_all(table)
        streaming.append(table.nbytes / clock.wall)
        with (clock := Clock()).running():
            _sum_at(table, positions)
        scattered.append(LINE_BYTES * positions.size / clock.wall)
    return Bandwidth(max(streaming), max(scattered))


# -- errors -------------------------------------------------------------------------------------------------------


def error_of(margins: NDArray[Any]) -> float:
    """Share of preferences that are not ranked right; a tie is an error."""
    return float(np.mean(margins <= 0))


def differences(D: sparse.csr_array, prefs: tc.Preferences) -> sparse.csr_array:
    """``d+ - d-`` of each preference, columns ascending, no stored zeros."""
    rows = sparse.csr_array(D[prefs.better] - D[prefs.worse])
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def error_of_ranker(ranker: Any, X: sparse.csr_array, prefs: tc.Preferences) -> float:
    """Error of a ranker on texts that are queries and documents at once."""
    return error_of(ranker.margins(X, prefs))


def violation_rate(ranker: Any) -> float:
    """Share of the steps of the last fit that were violations."""
    steps = np.diff([0, *(event.step for event in ranker.history_)])
    return float(np.average([event.violation_rate for event in ranker.history_], weights=steps))


# -- output -------------------------------------------------------------------------------------------------------


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table in plain text: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for at, row in enumerate(cells):
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  ".join([first, *rest]).rstrip())
        if at == 0:
            print("  ".join("-" * width for width in widths))


def print_facts(facts: dict[str, Any]) -> None:
    print(", ".join(f"{name} {value}" for name, value in facts.items()))


def verdict(value: float, target: float, *, at_most: bool = False) -> str:
    met = value <= target if at_most else value >= target
    return "met" if met else "MISSED"


def write_json(path: Path | None, results: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(results, indent=1, default=_plain) + "\n")
        print(f"\nwrote {path}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Clock, Bandwidth)):
        return asdict(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
