"""A W over 10,000 words of 20 Newsgroups that L1 keeps sparse while it learns: Tercet's SparseRanker, with a level for
every pair of words and with memory for the non-zeros only, against Vowpal Wabbit with and without its --l1; one thread
each, the same preferences, rates chosen on training data. Then what L1 and its period cost, and up to 100,000 words.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import subprocess
import sys
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
    median,
    parse_arguments,
    peak_memory,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    violation_rate,
    words_per_step,
    write_json,
)
from vowpal import SETTINGS, Setting, describe, vowpal_errors, vowpal_learn, vowpal_models, vowpal_options

L1 = 1e-6  # of both engines
BITS = 24
BYTES_PER_NON_ZERO = 18
DIRECT_TARGET, BOUND_TARGET = 1.5, 1.0
L1_COST, PERIOD_COST = 1.5, 1.2
ROUNDS = 3
# Of the paper's C = 200 and T = 100, for the parts without a rival.
PAPER_L1 = 5e-6
SIZES = (10_000, 30_000, 100_000)
MEMORY_OF_LARGEST = 2 * 2**30


def sparse_ranker(setting: Setting = ("inverse-sqrt", 200.0), **parameters: Any) -> tc.SparseRanker:
    return tc.SparseRanker(schedule=setting[0], rate=setting[1], refit=False, **parameters)


def timed_fit(ranker: tc.SparseRanker, data: Newsgroups, prefs: tc.Preferences) -> tuple[tc.SparseRanker, Clock]:
    with (clock := Clock()).running():
        ranker.fit(data.X, prefs)
    return ranker, clock


def storage(ranker: tc.SparseRanker) -> tuple[int, int]:
    """Non-zeros, and the most bytes that rows of W took while it learned."""
    state: Any = ranker._state
    return state.n_live, state.rows.peak_bytes()


# -- against Vowpal Wabbit ----------------------------------------------------------------------------------------


def choose(data: Newsgroups, prefs: tc.Preferences) -> tuple[Setting, Setting, dict[str, Any]]:
    """The settings with the lowest error on a held-out tenth of the training preferences, Tercet's first."""
    n = len(prefs) * 9 // 10
    learned, held_out = prefs[:n], prefs[n:]
    models = vowpal_models(BITS, SETTINGS, L1)
    for schedule in dict.fromkeys(setting[0] for setting in SETTINGS):
        vowpal_learn([model for model in models if model.setting[0] == schedule], data.X, learned)
    theirs = vowpal_errors(models, data.X, held_out)
    ours, densities = [], []
    for setting in SETTINGS:
        ranker, _ = timed_fit(sparse_ranker(setting, l1=L1), data, learned)
        ours.append(error_of_ranker(ranker, data.X, held_out))
        densities.append(ranker.density_)
    print_table(
        f"Rates, l1 {L1:g}: {n:,} preferences learned, error on the {len(held_out):,} held out (-b {BITS})",
        ["rate", "Tercet density", "error", "Vowpal Wabbit error"],
        [
            [describe(setting), f"{density:.1%}", f"{a:.4f}", f"{b:.4f}"]
            for setting, density, a, b in zip(SETTINGS, densities, ours, theirs, strict=True)
        ],
    )
    best_ours, best_theirs = SETTINGS[int(np.argmin(ours))], SETTINGS[int(np.argmin(theirs))]
    return best_ours, best_theirs, {"settings": SETTINGS, "tercet": ours, "vowpal_wabbit": theirs}


def compare(data: Newsgroups, prefs: tc.Preferences, test: tc.Preferences) -> dict[str, Any]:
    n, n_words = len(prefs), data.X.shape[1]
    print("Vowpal Wabbit:", vowpal_options(BITS, 1.0, L1))
    ours, theirs, choice = choose(data, prefs)
    whole, _ = timed_fit(sparse_ranker(ours, l1=L1), data, prefs)
    bound = BYTES_PER_NON_ZERO * storage(whole)[0]
    if bound >= 4 * n_words**2:
        raise SystemExit(f"{BYTES_PER_NON_ZERO} bytes a non-zero are enough for all of W; use a larger l1")
    print(f"\nThe memory-bound rows get {bound:,} bytes, {BYTES_PER_NON_ZERO} for each non-zero that is left at last.")
    engines: dict[str, dict[str, Any]] = {
        "Tercet, every pair": {"max_memory": None},
        "Tercet, memory-bound": {"max_memory": bound},
    }
    clocks: dict[str, list[Clock]] = {name: [] for name in engines}
    fitted: dict[str, tc.SparseRanker] = {}

    def a_round() -> None:
        for name, memory in engines.items():
            fitted[name], clock = timed_fit(sparse_ranker(ours, l1=L1, **memory), data, prefs)
            clocks[name].append(clock)

    a_round()  # before, between and after the other engine's runs
    rivals = []
    for name, l1 in ((f"Vowpal Wabbit -b {BITS} --l1 {L1:g}", L1), (f"Vowpal Wabbit -b {BITS}", 0.0)):
        [model] = vowpal_models(BITS, (theirs,), l1)
        vowpal_learn([model], data.X, prefs)
        [error] = vowpal_errors([model], data.X_test, test)
        rivals.append(
            {
                "engine": name,
                "rate": describe(theirs),
                "steps_per_second": model.steps_per_second,
                "violation_rate": model.violation_rate,
                "error": error,
                "clock": model.learning,
            }
        )
        a_round()
    results = []
    for name, ranker in fitted.items():
        n_live, peak = storage(ranker)
        runs = [n / clock.wall for clock in clocks[name]]
        results.append(
            {
                "engine": name,
                "rate": describe(ours),
                "steps_per_second": median(runs),
                "violation_rate": violation_rate(ranker),
                "error": error_of_ranker(ranker, data.X_test, test),
                "runs": runs,
                "density": ranker.density_,
                "bytes_per_non_zero": peak / n_live,
            }
        )
    print_table(
        f"{n_words:,} words, {n:,} preferences, l1 {L1:g}, one thread; error on {len(test):,} test preferences",
        ["engine", "rate", "violations", "steps/s", "test error", "density", "bytes/non-zero"],
        [
            [
                result["engine"],
                result["rate"],
                f"{result['violation_rate']:.1%}",
                f"{result['steps_per_second']:,.0f}",
                f"{result['error']:.4f}",
                f"{result['density']:.1%}" if "density" in result else "–",
                f"{result['bytes_per_non_zero']:.1f}" if "density" in result else "–",
            ]
            for result in (*results, *rivals)
        ],
    )
    for result in results:
        runs = ", ".join(f"{value:,.0f}" for value in result["runs"])
        print(f"{result['engine']} before, between and after the other runs: {runs} steps/s; the median counts.")
    print("Bytes are the most that rows of W took at any time, gaps between them included.")
    print_ratios(results, rivals)
    say_if_disturbed([clock for found in clocks.values() for clock in found] + [rival["clock"] for rival in rivals])
    return {"choice": choice, "max_memory": bound, "tercet": results, "vowpal_wabbit": rivals}


def print_ratios(results: list[dict[str, Any]], rivals: list[dict[str, Any]]) -> None:
    rows = []
    for result, target in zip(results, (DIRECT_TARGET, BOUND_TARGET), strict=True):
        for rival in rivals:
            ratio = result["steps_per_second"] / rival["steps_per_second"]
            rows.append(
                [
                    f"{result['engine']} over {rival['engine']}",
                    f"{ratio:.2f}",
                    f"{target:g}: {verdict(ratio, target)}",
                    f"{result['error'] - rival['error']:+.4f}",
                    verdict(result["error"], rival["error"], at_most=True),
                ]
            )
    print_table(
        "Ratios of steps per second, and whether Tercet's test error is equal or lower",
        ["", "ratio", "target", "error", "equal or lower"],
        rows,
    )


# -- what L1 and its period cost ----------------------------------------------------------------------------------


def costs(data: Newsgroups, prefs: tc.Preferences) -> dict[str, Any]:
    variants: dict[str, dict[str, Any]] = {
        "l1 = 0": {"l1": 0.0},
        f"l1 = {PAPER_L1:g}, T = 100": {"l1": PAPER_L1, "shrink_every": 100},
        f"l1 = {PAPER_L1:g}, T = 1": {"l1": PAPER_L1, "shrink_every": 1},
    }
    clocks: dict[str, list[Clock]] = {name: [] for name in variants}
    violations: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, parameters in variants.items():
            ranker, clock = timed_fit(sparse_ranker(**parameters), data, prefs)
            clocks[name].append(clock)
            violations[name] = violation_rate(ranker)
    seconds = {name: [clock.wall for clock in found] for name, found in clocks.items()}
    print_table(
        f"200/sqrt(t), {len(prefs):,} preferences, {ROUNDS} rounds in turn",
        ["", "violations", "median s", "fastest", "slowest"],
        [
            [name, f"{violations[name]:.1%}", f"{median(found):.2f}", f"{min(found):.2f}", f"{max(found):.2f}"]
            for name, found in seconds.items()
        ],
    )
    off, on, each = (median(found) for found in seconds.values())
    print_table(
        "Ratios of seconds",
        ["", "ratio", "target"],
        [
            ["L1 over none", f"{on / off:.2f}", f"≤ {L1_COST:g}: {verdict(on / off, L1_COST, at_most=True)}"],
            [
                "T = 1 over T = 100",
                f"{each / on:.2f}",
                f"≤ {PERIOD_COST:g}: {verdict(each / on, PERIOD_COST, at_most=True)}",
            ],
        ],
    )
    say_if_disturbed([clock for found in clocks.values() for clock in found])
    return seconds


# -- many words ---------------------------------------------------------------------------------------------------


def one_size(data_home: Path, n_words: int, n: int, seed: int) -> None:
    """Fit over that many words and print what it took as JSON; a process of its own, so that its memory can be told."""
    data = load_newsgroups(data_home, n_words)
    before = peak_memory()
    prefs = tc.Preferences.from_labels(data.y, n, random_state=seed)
    query_words, doc_words = words_per_step(data.X, prefs)
    # Never room for every pair, so that all sizes are kept the same way.
    ranker = sparse_ranker(l1=PAPER_L1, max_memory=min(2**30, 4 * data.X.shape[1] ** 2 - 1))
    ranker.fit(data.X, prefs[:1])
    ranker, clock = timed_fit(ranker, data, prefs)
    n_live, peak = storage(ranker)
    peak_process = peak_memory()
    test = tc.Preferences.from_labels(data.y_test, min(n, 20_000), random_state=seed + 1)
    print(
        json.dumps(
            {
                "words": data.X.shape[1],
                "steps_per_second": n / clock.wall,
                "pairs": float(query_words * doc_words),
                "non_zeros": n_live,
                "rows_bytes": peak,
                "process_bytes_before": before,
                "process_bytes": peak_process,
                "error": error_of_ranker(ranker, data.X_test, test),
            }
        )
    )


def many_words(data_home: Path, n: int, seed: int, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    found = []
    for n_words in sizes:
        command = [sys.executable, __file__, "--data-home", str(data_home), "--size", str(n_words), "--steps", str(n)]
        run = subprocess.run([*command, "--seed", str(seed)], check=True, capture_output=True, text=True)
        found.append(json.loads(run.stdout.splitlines()[-1]))
    print_table(
        f"{n:,} preferences, l1 {PAPER_L1:g}, 200/sqrt(t), T = 100, memory-bound (at most 1 GiB), a process each",
        [
            "words",
            "pairs a step",
            "µs a step",
            "ns a pair",
            "non-zeros",
            "W dense",
            "rows of W",
            "process",
            "test error",
        ],
        [
            [
                f"{row['words']:,}",
                f"{row['pairs']:,.0f}",
                f"{1e6 / row['steps_per_second']:.0f}",
                f"{1e9 / row['steps_per_second'] / row['pairs']:.1f}",
                f"{row['non_zeros']:,}",
                f"{4e-9 * row['words'] ** 2:.1f} GB",
                f"{1e-6 * row['rows_bytes']:.0f} MB",
                f"{row['process_bytes'] / 2**20:.0f} MiB",
                f"{row['error']:.4f}",
            ]
            for row in found
        ],
    )
    print("Process: the most it held in memory, interpreter, texts and all; before learning it had", end=" ")
    print(", ".join(f"{row['process_bytes_before'] / 2**20:.0f}" for row in found), "MiB.")
    largest = found[-1]["process_bytes"]
    print(f"Largest: {largest / 2**30:.2f} GiB, target ≤ {MEMORY_OF_LARGEST / 2**30:g} GiB:", end=" ")
    print(verdict(largest, MEMORY_OF_LARGEST, at_most=True))
    return found


def main() -> None:
    arguments = parse_arguments(__doc__, size=int, steps=int)
    if arguments.size:
        one_size(arguments.data_home, arguments.size, arguments.steps, arguments.seed)
        return
    facts = machine_facts("vowpalwabbit")
    print_facts(facts)
    data = load_newsgroups(arguments.data_home)
    n, n_test = (5_000, 2_000) if arguments.quick else (100_000, 20_000)
    prefs = tc.Preferences.from_labels(data.y, n, random_state=arguments.seed)
    test = tc.Preferences.from_labels(data.y_test, n_test, random_state=arguments.seed + 1)
    sparse_ranker().fit(data.X, prefs[:1])  # loads the compiled kernel, or compiles it once
    results = compare(data, prefs, test)
    seconds = costs(data, prefs)
    sizes = many_words(arguments.data_home, n, arguments.seed, SIZES)
    write_json(arguments.output, {"machine": facts, **results, "seconds": seconds, "sizes": sizes})


if __name__ == "__main__":
    main()
