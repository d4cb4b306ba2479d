"""How well the term-pair rankers rank 20 Newsgroups: every test post is a query against all other test posts, posts
of its own group are relevant. Mean average precision, error on test preferences, seconds of training on one core. Then
the sparse W on the support of a low-rank one, by density, each in a process of its own, so that its memory can be told.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tercet as tc
from common import (
    Clock,
    Newsgroups,
    error_of_ranker,
    load_newsgroups,
    machine_facts,
    parse_arguments,
    peak_memory,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    write_json,
)
from tercet.measure import average_precision_of_classes

MAP_TARGET, SECONDS_TARGET, SCALED_MAP_TARGET = 0.60, 10.0, 0.64
DENSITIES = (0.05, 0.01)
DIAGONAL_RATES = (0.1, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


@dataclass
class Row:
    """One method over the seeds."""

    name: str
    steps: int
    map: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    training: list[Clock] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        return [clock.wall for clock in self.training]


def choose_diagonal_rate(data: Newsgroups, n: int, seeds: range) -> tuple[float, dict[float, list[float]]]:
    """The rate with the lowest mean error on a held-out tenth of training preferences; test data is not looked at."""
    errors: dict[float, list[float]] = {rate: [] for rate in DIAGONAL_RATES}
    for seed in seeds:
        prefs = tc.Preferences.from_labels(data.y, n, random_state=seed)
        learned, held_out = prefs[: n * 9 // 10], prefs[n * 9 // 10 :]
        for rate, found in errors.items():
            ranker = tc.DiagonalRanker(rate=rate, schedule="inverse-sqrt").fit(data.X, learned)
            found.append(error_of_ranker(ranker, data.X, held_out))
    best = min(errors, key=lambda rate: np.mean(errors[rate]))
    print_table(
        f"DiagonalRanker, rate/sqrt(t): error on held-out training preferences ({n * 9 // 10:,} learned, "
        f"{n - n * 9 // 10:,} held out; {len(seeds)} seeds)",
        ["rate", "mean", "lowest", "highest", ""],
        [
            [
                f"{rate:g}",
                f"{np.mean(found):.4f}",
                f"{min(found):.4f}",
                f"{max(found):.4f}",
                "best" if rate == best else "",
            ]
            for rate, found in errors.items()
        ],
    )
    return best, errors


def measure(row: Row, ranker: Any, data: Newsgroups, seed: int, n_test: int) -> None:
    """Train on preferences of this seed and add what the test half says."""
    if row.steps:
        prefs = tc.Preferences.from_labels(data.y, row.steps, random_state=seed)
        with (clock := Clock()).running():
            ranker.fit(data.X, prefs)
        row.training.append(clock)
    else:
        ranker.fit(data.X)
    test = tc.Preferences.from_labels(data.y_test, n_test, random_state=1000 + seed)
    row.error.append(error_of_ranker(ranker, data.X_test, test))
    row.map.append(float(average_precision_of_classes(ranker.weights_, data.X_test, data.y_test).mean()))


def run(data: Newsgroups, seeds: range, diagonal_rate: float, quick: bool) -> list[Row]:
    many, few, n_test = (10_000, 5_000, 2_000) if quick else (300_000, 100_000, 20_000)
    lowrank = {"n_components": 100, "tied": True}
    methods: list[tuple[Row, type, dict[str, Any]]] = [
        (Row("cosine", 0), tc.CosineRanker, {}),
        (Row(f"diagonal, {diagonal_rate:g}/sqrt(t)", few), tc.DiagonalRanker, {"rate": diagonal_rate}),
        (Row("dense, 200/sqrt(t)", few), tc.DenseRanker, {"rate": 200.0, "schedule": "inverse-sqrt"}),
        # The rate that dense_speed.py chooses on held-out training preferences.
        (Row("dense, constant 1", few), tc.DenseRanker, {"rate": 1.0, "schedule": "constant"}),
        (Row("low rank, tied, 100", many), tc.LowRankRanker, lowrank),
        (Row("… documents scaled", many), tc.LowRankRanker, {**lowrank, "scale_documents": True}),
    ]
    warm_up = tc.Preferences.from_labels(data.y, 1, random_state=0)
    with (compiling := Clock()).running():
        for row, ranker, _ in methods:
            if row.steps:
                ranker().fit(data.X, warm_up)
    print(f"\nLoading the compiled kernels, or compiling them once: {compiling.wall:.1f} s, not timed below.")
    for seed in seeds:
        for row, ranker, parameters in methods:
            seeded = {"random_state": seed} if row.steps else {}
            measure(row, ranker(**parameters, **seeded), data, seed, n_test)
    return [row for row, _, _ in methods]


def mean_and_spread(values: list[float], digits: int) -> str:
    half = (max(values) - min(values)) / 2
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"


def print_rows(rows: list[Row], n_queries: int, n_seeds: int) -> None:
    print_table(
        f"{n_queries:,} test queries, each against the other {n_queries - 1:,} test posts; mean ± half the range of "
        f"{n_seeds} seeds; one core",
        ["method", "preferences", "MAP", "test error", "training s"],
        [
            [
                row.name,
                f"{row.steps:,}" if row.steps else "–",
                mean_and_spread(row.map, 4),
                mean_and_spread(row.error, 4),
                mean_and_spread(row.seconds, 2) if row.training else "–",
            ]
            for row in rows
        ],
    )
    plain, scaled = rows[-2:]
    targets = [
        ("MAP, low rank", min(plain.map), MAP_TARGET, False),
        ("… documents scaled", min(scaled.map), SCALED_MAP_TARGET, False),
        ("training s", max(plain.seconds + scaled.seconds), SECONDS_TARGET, True),
    ]
    print_table(
        "Targets, each held against the worst seed",
        ["", "worst", "target", ""],
        [
            [name, f"{value:.4g}", f"{'≤' if at_most else '≥'} {target:g}", verdict(value, target, at_most=at_most)]
            for name, value, target, at_most in targets
        ],
    )


# -- on the support of low rank -----------------------------------------------------------------------------------


def one_density(data_home: Path, density: float, n: int, seed: int) -> None:
    """Learn low rank with two passes, its largest entries with one more, and print what it took as JSON."""
    data = load_newsgroups(data_home)
    first = tc.LowRankRanker(n_components=100, tied=True, schedule="linear", epochs=2, random_state=seed)
    ranker = tc.SparseRanker(sparsify="low-rank", density=density, low_rank=first, random_state=seed)
    ranker.fit(data.X, tc.Preferences.from_labels(data.y, 1, random_state=seed))  # loads the compiled kernels
    before = peak_memory()
    prefs = tc.Preferences.from_labels(data.y, n, random_state=seed)
    with (clock := Clock()).running():
        ranker.fit(data.X, prefs)
    peak = peak_memory()
    test = tc.Preferences.from_labels(data.y_test, min(n, 20_000), random_state=1000 + seed)
    scores = {
        name: float(average_precision_of_classes(weights, data.X_test, data.y_test).mean())
        for name, weights in (("thinned", ranker.weights_before_refit_), ("refitted", ranker.weights_))
    }
    error = error_of_ranker(ranker, data.X_test, test)
    took = {"seconds": clock.wall, "processor_seconds": clock.processor, "bytes_before": before, "bytes": peak}
    print(json.dumps({"density": density, "steps": n, "error": error, **scores, **took}))


def on_low_rank(data_home: Path, n: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    for density in DENSITIES:
        command = [sys.executable, __file__, "--data-home", str(data_home), "--density", str(density)]
        done = subprocess.run(
            [*command, "--steps", str(n), "--seed", str(seed)], check=True, capture_output=True, text=True
        )
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    print_table(
        f"SparseRanker(sparsify='low-rank'): {n:,} preferences, two passes, then one on the support; seed {seed}",
        ["W kept", "MAP, thinned", "MAP, refitted", "test error", "training s", "process before", "process at most"],
        [
            [
                f"{row['density']:.1%}",
                f"{row['thinned']:.4f}",
                f"{row['refitted']:.4f}",
                f"{row['error']:.4f}",
                f"{row['seconds']:.1f}",
                f"{row['bytes_before'] / 2**20:.0f} MiB",
                f"{row['bytes'] / 2**20:.0f} MiB",
            ]
            for row in rows
        ],
    )
    return rows


def main() -> None:
    arguments = parse_arguments(__doc__, density=float, steps=int)
    if arguments.density:
        one_density(arguments.data_home, arguments.density, arguments.steps, arguments.seed)
        return
    facts = machine_facts()
    print_facts(facts)
    with (loading := Clock()).running():
        data = load_newsgroups(arguments.data_home)
    print(f"20 Newsgroups read and vectorized in {loading.wall:.1f} s.")
    seeds = range(arguments.seed, arguments.seed + (1 if arguments.quick else 3))
    rate, errors = choose_diagonal_rate(data, 10_000 if arguments.quick else 100_000, seeds)
    rows = run(data, seeds, rate, arguments.quick)
    print_rows(rows, len(data.y_test), len(seeds))
    say_if_disturbed([clock for row in rows for clock in row.training])
    sparse_rows = on_low_rank(arguments.data_home, 10_000 if arguments.quick else 1_000_000, arguments.seed)
    write_json(
        arguments.output,
        {"machine": facts, "diagonal_rates": errors, "rows": [vars(row) for row in rows], "on_low_rank": sparse_rows},
    )


if __name__ == "__main__":
    main()
