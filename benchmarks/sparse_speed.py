"""A W over 10,000 words of 20 Newsgroups that L1 keeps sparse while it learns: Tercet's SparseRanker against
Vowpal Wabbit with and without its --l1; one thread each, the same preferences, rates chosen on training data. Then the
cost of L1 and of its period.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

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
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    violation_rate,
    write_json,
)
from vowpal import SETTINGS, Setting, describe, vowpal_errors, vowpal_learn, vowpal_models, vowpal_options

L1 = 1e-6  # of both engines
BITS = 24
SPEED_TARGET = 1.5
L1_COST, PERIOD_COST = 1.5, 1.2
ROUNDS = 3
# Of the paper's C = 200 and T = 100, for the parts without a rival.
PAPER_L1 = 5e-6


def sparse_ranker(setting: Setting = ("inverse-sqrt", 200.0), **parameters: Any) -> tc.SparseRanker:
    return tc.SparseRanker(schedule=setting[0], rate=setting[1], refit=False, **parameters)


def timed_fit(ranker: tc.SparseRanker, data: Newsgroups, prefs: tc.Preferences) -> tuple[tc.SparseRanker, Clock]:
    with (clock := Clock()).running():
        ranker.fit(data.X, prefs)
    return ranker, clock


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
    clocks: list[Clock] = []

    def a_round() -> tc.SparseRanker:
        ranker, clock = timed_fit(sparse_ranker(ours, l1=L1), data, prefs)
        clocks.append(clock)
        return ranker

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
        ranker = a_round()
    results = []
    runs = [n / clock.wall for clock in clocks]
    results.append(
        {
            "engine": "Tercet",
            "rate": describe(ours),
            "steps_per_second": median(runs),
            "violation_rate": violation_rate(ranker),
            "error": error_of_ranker(ranker, data.X_test, test),
            "runs": runs,
            "density": ranker.density_,
        }
    )
    print_table(
        f"{n_words:,} words, {n:,} preferences, l1 {L1:g}, one thread; error on {len(test):,} test preferences",
        ["engine", "rate", "violations", "steps/s", "test error", "density"],
        [
            [
                result["engine"],
                result["rate"],
                f"{result['violation_rate']:.1%}",
                f"{result['steps_per_second']:,.0f}",
                f"{result['error']:.4f}",
                f"{result['density']:.1%}" if "density" in result else "–",
            ]
            for result in (*results, *rivals)
        ],
    )
    for result in results:
        runs = ", ".join(f"{value:,.0f}" for value in result["runs"])
        print(f"{result['engine']} before, between and after the other runs: {runs} steps/s; the median counts.")
    print_ratios(results, rivals)
    say_if_disturbed(clocks + [rival["clock"] for rival in rivals])
    return {"choice": choice, "tercet": results, "vowpal_wabbit": rivals}


def print_ratios(results: list[dict[str, Any]], rivals: list[dict[str, Any]]) -> None:
    rows = []
    for result in results:
        for rival in rivals:
            ratio = result["steps_per_second"] / rival["steps_per_second"]
            rows.append(
                [
                    f"{result['engine']} over {rival['engine']}",
                    f"{ratio:.2f}",
                    f"{SPEED_TARGET:g}: {verdict(ratio, SPEED_TARGET)}",
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


def main() -> None:
    arguments = parse_arguments(__doc__)
    facts = machine_facts("vowpalwabbit")
    print_facts(facts)
    data = load_newsgroups(arguments.data_home)
    n, n_test = (5_000, 2_000) if arguments.quick else (100_000, 20_000)
    prefs = tc.Preferences.from_labels(data.y, n, random_state=arguments.seed)
    test = tc.Preferences.from_labels(data.y_test, n_test, random_state=arguments.seed + 1)
    sparse_ranker().fit(data.X, prefs[:1])  # loads the compiled kernel, or compiles it once
    results = compare(data, prefs, test)
    seconds = costs(data, prefs)
    write_json(arguments.output, {"machine": facts, **results, "seconds": seconds})


if __name__ == "__main__":
    main()
