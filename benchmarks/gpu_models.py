"""What a GPU learns, against one core: ten seeds side by side, steps that do not see each other, the time to a model.

Fits of the core run in processes of their own, as many as there are cores, each with one thread. The part ``at_once``
needs no GPU: where there is none, the kernels run on the CPU.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tercet as tc
from common import (
    Newsgroups,
    add_shared_options,
    check_data_home,
    error_of_ranker,
    load_newsgroups,
    machine_facts,
    newsgroups_rows,
    print_facts,
    print_table,
    read_newsgroups,
    write_json,
)
from reproductions.datasets import load_dataset
from reproductions.links import PreferenceTask
from reproductions.plan import find_plan
from tercet.data import read_beir
from tercet.errors import DeviceError, DivergedError, MissingExtraError
from tercet.gpu import Gpu, device, find_gpu
from tercet.gpu.states import GpuState
from tercet.gpu.stepper import GpuExecutor
from tercet.learn import SampledSource
from tercet.learn.loop import executing_on
from tercet.measure import average_precision_of_classes

PARTS = ("seeds", "sparse", "nfcorpus", "words", "at_once")
KINDS = {
    "low rank, tied, 100": (lambda **p: tc.LowRankRanker(n_components=100, tied=True, rate=0.1, **p), 300_000),
    "dense": (lambda **p: tc.DenseRanker(**p), 100_000),
    "sparse, l1 = 5e-6": (lambda **p: tc.SparseRanker(refit=False, **p), 100_000),
    "diagonal": (lambda **p: tc.DiagonalRanker(**p), 100_000),
}


@cache
def newsgroups(data_home: Path) -> Newsgroups:
    return load_newsgroups(data_home)


def learn(data_home: Path, kind: str, seed: int, there: str, quick: bool) -> tuple[float, float, float]:
    """MAP over 1,000 test queries, error on 20,000 test preferences, and the rate of violations at the end."""
    data = newsgroups(data_home)
    make, steps = KINDS[kind]
    source = SampledSource.from_labels(data.y, steps // (50 if quick else 1), random_state=seed)
    with device(there, strict=True):
        ranker = make(random_state=seed).fit(data.X, source)
    queries = np.arange(0, len(data.y_test), max(1, len(data.y_test) // 1000))[:1000]
    test = tc.Preferences.from_labels(data.y_test, 20_000, random_state=1000)
    mean = average_precision_of_classes(ranker.weights_, data.X_test, data.y_test, queries).mean()
    return float(mean), error_of_ranker(ranker, data.X_test, test), ranker.history_[-1].violation_rate


def seeds(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    n_seeds = 2 if arguments.quick else 10
    kinds = arguments.kind or list(KINDS)
    rows, found = [], []
    for kind in kinds:  # compiled here, so that not every process does it
        learn(arguments.data_home, kind, 0, "cpu", quick=True)
    with ProcessPoolExecutor(min(16, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        on_core = {
            (kind, seed): pool.submit(learn, arguments.data_home, kind, seed, "cpu", arguments.quick)
            for kind in kinds
            for seed in range(n_seeds)
        }
        with device("cuda"):
            on_gpu = {key: learn(arguments.data_home, *key, "cuda", arguments.quick) for key in on_core}
        for kind in kinds:
            gpu, core = (
                np.array([values[kind, seed] for seed in range(n_seeds)])
                for values in (on_gpu, {key: future.result() for key, future in on_core.items()})
            )
            found.append({"model": kind, "GPU": gpu.tolist(), "core": core.tolist()})
            difference = gpu - core
            rows.append(
                [
                    kind,
                    *(f"{v.mean():.4f} ± {v.std(ddof=1):.4f}" for v in (core[:, 0], gpu[:, 0])),
                    f"{difference[:, 0].mean():+.4f} ± {difference[:, 0].std(ddof=1) / np.sqrt(n_seeds):.4f}",
                    *(f"{v.mean():.4f} ± {v.std(ddof=1):.4f}" for v in (core[:, 1], gpu[:, 1])),
                ]
            )
    print_table(
        f"20 Newsgroups, {n_seeds} seeds: mean and standard deviation; the difference with its standard error",
        ["W", "MAP, core", "MAP, GPU", "GPU less core", "error, core", "error, GPU"],
        rows,
    )
    return found


@contextmanager
def clock(name: str, rows: list[list[str]]) -> Iterator[list[str]]:
    began = time.perf_counter()
    row = [name]
    yield row
    row.insert(1, f"{time.perf_counter() - began:.1f} s")
    rows.append(row)


def sparse(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """MAP at 1 % density: a dense W after many steps, thinned, and learned on; and W on the support of low rank."""
    data = newsgroups(arguments.data_home)
    quick = 50 if arguments.quick else 1
    rows: list[list[str]] = []
    steps = 30_000_000 // quick

    def value(ranker: Any) -> str:
        queries = np.arange(0, len(data.y_test), max(1, len(data.y_test) // 1000))[:1000]
        with device("cuda"):
            return f"{average_precision_of_classes(ranker.weights_, data.X_test, data.y_test, queries).mean():.4f}"

    def source(n: int) -> SampledSource:
        return SampledSource.from_labels(data.y, n, random_state=arguments.seed)

    with clock(f"dense, {steps:,} steps, rate 0.1", rows) as row, device("cuda", strict=True):
        dense = tc.DenseRanker(rate=0.1, schedule="constant").fit(data.X, source(steps))
    row.append(value(dense))
    for density in (0.05, 0.01):
        with clock(f"… thinned to {density:.0%}", rows) as row:
            thinned = dense.thin(density)
        row.append(value(thinned))
        with (
            clock(f"… and learned on, {steps // 6:,} steps, rate 0.5 falling", rows) as row,
            device("cuda", strict=True),
        ):
            thinned.set_params(rate=0.5, schedule="linear")
            thinned.refit_on_support(data.X, source(steps // 6))
        row.append(value(thinned))
    low_rank = tc.LowRankRanker(n_components=100, tied=True, rate=0.1, schedule="linear", scale_documents=False)
    with clock("sparse on the support of low rank, 1 %, 3,000,000 steps", rows) as row, device("cuda", strict=True):
        ranker = tc.SparseRanker(density=0.01, sparsify="low-rank", low_rank=low_rank)
        ranker.fit(data.X, source(3_000_000 // quick))
    row.append(value(ranker))
    print_table("20 Newsgroups, MAP over 1,000 test queries", ["model", "time", "MAP"], rows)
    return [{"rows": rows}]


def nfcorpus(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """``tc.fit`` as it is, on NFCorpus, and nDCG@10 on its dev queries."""
    data = read_beir(arguments.data_home / "nfcorpus")
    train, dev = data.split("train"), data.split("dev")
    rows: list[list[str]] = []
    for there in ("cuda", "cpu"):
        with clock(there, rows) as row, device(there):
            model = tc.fit(data.docs, data.queries, train, random_state=arguments.seed)
        run = model.rank({qid: data.queries[qid] for qid in dev}, data.docs, k=100)
        row.append(f"{tc.evaluate(dev, run, ['nDCG@10']).values.mean():.4f}")
    print_table("NFCorpus, tc.fit", ["device", "time", "nDCG@10 on dev"], rows)
    return [{"rows": rows}]


def words(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All pairs of ever more words: the array that the GPU holds, what steps cost, and how many pairs were met.

    A pair is met when a step changes it; a table of the pairs that were met, rather than an array of all, needs a key
    for each and room to find it.
    """
    train, test = read_newsgroups(arguments.data_home)
    rows: list[list[str]] = []
    steps = 1_000_000 // (50 if arguments.quick else 1)
    for n_words in (3_000, 10_000) if arguments.quick else (10_000, 30_000, 100_000):
        data = newsgroups_rows(train, test, n_words)
        queries = np.arange(0, len(data.y_test), max(1, len(data.y_test) // 1000))[:1000]
        for l1, n in ((5e-6, steps // 100), (5e-6, steps), (0.0, steps // 100), (0.0, steps // 10)):
            source = SampledSource.from_labels(data.y, n, random_state=arguments.seed)
            ranker = tc.SparseRanker(l1=l1, refit=False, random_state=arguments.seed)
            began = time.perf_counter()
            with device("cuda", strict=True):
                ranker.fit(data.X, source)
            took = time.perf_counter() - began
            size = data.X.shape[1]
            row = [f"{size:,}", f"{4 * size * size / 1e9:.1f} GB", f"{l1:g}", f"{n:,}", f"{took:.1f} s"]
            row.append(f"{ranker.density_:.2%}")
            if l1:
                by_query = average_precision_of_classes(ranker.weights_, data.X_test, data.y_test, queries)
            rows.append([*row, f"{by_query.mean():.4f}" if l1 else ""])
            print(*rows[-1], flush=True)
            del ranker
    print_table(
        "20 Newsgroups, sparse W of ever more words; with l1 = 0 the share of entries is that of the pairs met",
        ["words", "array", "l1", "steps", "time", "entries that are not zero", "MAP, 1,000 test queries"],
        rows,
    )
    return [{"rows": rows}]


def at_once(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Error on MNIST, whose images share most of their pixels, by the number of steps that do not see each other.

    They are batches, as ``deterministic=True`` has them: of that many from the second step on, and as it is done,
    where they grow with the steps before them.
    """
    plan = find_plan("chen2010")
    task = load_dataset(plan.datasets["mnist"], arguments.data_home, plan.quick if arguments.quick else None).tasks[0]
    assert isinstance(task, PreferenceTask)
    test = task.test(10_000, 0)
    rows = []
    rivals = {
        "dense, rate 200 / √t": (lambda **p: tc.DenseRanker(rate=200.0, schedule="inverse-sqrt", **p), 100_000),
        "low rank, tied, 100": (
            lambda **p: tc.LowRankRanker(n_components=100, tied=True, rate=0.1, schedule="linear", **p),
            60_000,
        ),
    }
    for name, (make, steps) in rivals.items():
        prefs = task.train(steps // (50 if arguments.quick else 1), arguments.seed)
        for n in (0, 16, 64, 256, 1024):
            row = [name, f"{n:,}" if n else "one after the other, on the CPU"]
            for steps_before in (1e-9, GpuState.steps_before) if n else (0,):
                ranker = make(random_state=arguments.seed)
                with batches_of(n, steps_before) if n else nullcontext():
                    try:
                        ranker.fit(task.Q, prefs, task.D)
                    except DivergedError:
                        row.append("no longer finite")
                        continue
                row.append(f"{float((ranker.margins(task.Q_test, test) <= 0).mean()):.4f}")
            rows.append(row if n else [*row, ""])
            print(*rows[-1], flush=True)
    print_table(
        "MNIST, error on 10,000 test preferences by the number of steps at once",
        ["W", "steps at once", "from the second step on", "growing"],
        rows,
    )
    return [{"rows": rows}]


@contextmanager
def batches_of(n: int, steps_before: float) -> Iterator[None]:
    """Have so many steps not see each other, as soon as so many times n were taken."""
    gpu = any_gpu()
    with (
        patch.object(gpu, "n_processors", n),
        patch.object(GpuState, "blocks_per_processor", 1),
        patch.object(GpuState, "take_as_many_as_texts_allow", lambda *_: None),
        patch.object(GpuState, "steps_before", steps_before),
        executing_on(GpuExecutor(gpu, deterministic=True)),
    ):
        yield


def any_gpu() -> Gpu:
    """The GPU, or this machine in its place."""
    try:
        return find_gpu()
    except (DeviceError, MissingExtraError):
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        gpu: Gpu = import_module("support.host_gpu").HostGpu()
        return gpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared_options(parser)
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts alone; may be repeated")
    parser.add_argument("--kind", choices=KINDS, action="append", help="of seeds, these alone; may be repeated")
    arguments = parser.parse_args()
    check_data_home(parser, arguments)
    gpu = any_gpu() if arguments.only == ["at_once"] else find_gpu()
    print_facts({**machine_facts(), "GPU": gpu.describe()})
    write_json(arguments.output, {part: globals()[part](arguments) for part in arguments.only or PARTS})


if __name__ == "__main__":
    main()
