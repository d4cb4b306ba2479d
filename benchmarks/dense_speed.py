"""A dense W over 10,000 words of 20 Newsgroups: Tercet's DenseRanker against Vowpal Wabbit, one thread each,
the same preferences, rates chosen on training data; then how far a step is from what memory allows.

Vowpal Wabbit gets d+ - d- as one namespace crossed with the query's, without linear terms, and the hinge loss.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from typing import Any

import numba
import numpy as np
from scipy import sparse

import tercet as tc
from common import (
    LINE_BYTES,
    Clock,
    Newsgroups,
    differences,
    error_of_ranker,
    load_newsgroups,
    machine_facts,
    median,
    memory_bandwidth,
    parse_arguments,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    violation_rate,
    words_per_step,
    write_json,
)
from tercet.learn.matrices import by_document_frequency, reorder_columns
from vowpal import SETTINGS, Setting, describe, vowpal_errors, vowpal_learn, vowpal_models, vowpal_options

TARGET, AIM = 2.0, 3.0
CHOOSING_BITS = 24
FINAL_BITS = (24, 26)


# -- Tercet -------------------------------------------------------------------------------------------------------


def fit_dense(setting: Setting, X: sparse.csr_array, prefs: tc.Preferences) -> tuple[tc.DenseRanker, Clock]:
    ranker = tc.DenseRanker(schedule=setting[0], rate=setting[1])
    with (clock := Clock()).running():
        ranker.fit(X, prefs)
    return ranker, clock


# -- what memory allows -------------------------------------------------------------------------------------------


@numba.njit
def _count_lines(q_indptr, q_indices, d_indptr, d_indices, width):  # type: ignore[no-untyped-def]
    lines = 0
    for s in range(q_indptr.size - 1):
        last = np.int64(-1)
        for a in range(q_indptr[s], q_indptr[s + 1]):
            row = np.int64(q_indices[a]) * width
            for j in range(d_indptr[s], d_indptr[s + 1]):
                # Rows and columns ascend, so an equal line can only be the last one.
                line = (row + d_indices[j]) * 4 // LINE_BYTES
                lines += line != last
                last = line
    return lines


def lines_and_entries(X: sparse.csr_array, prefs: tc.Preferences) -> tuple[float, float]:
    """Distinct cache lines of W, in the column order the ranker uses, and entries of W that a step reads, on average.

    W is taken to begin at a line's start.
    """
    Q, D = X[prefs.query], differences(reorder_columns(X, by_document_frequency(X)), prefs)
    lines = _count_lines(Q.indptr, Q.indices, D.indptr, D.indices, X.shape[1])
    entries = np.diff(Q.indptr).astype(np.int64) @ np.diff(D.indptr)
    return lines / len(prefs), entries / len(prefs)


def print_limit(
    X: sparse.csr_array, prefs: tc.Preferences, steps_per_second: float, violations: float, seed: int
) -> dict[str, Any]:
    lines, entries = lines_and_entries(X, prefs)
    bandwidth = memory_bandwidth(seed=seed)
    print(
        f"\nA step reads {entries:,.0f} entries of W in {lines:,.0f} distinct cache lines, "
        f"{LINE_BYTES * lines:,.0f} bytes."
        f"\nA step that updates also writes them: {1 + violations:.2f} times that, with {violations:.1%} violations."
    )
    rows, limits = [], {}
    for name, speed in (("in order", bandwidth.streaming), ("lines at random", bandwidth.random_lines)):
        once = speed / (LINE_BYTES * lines)
        limits[name] = once
        rows.append(
            [
                name,
                f"{speed / 1e9:.1f}",
                f"{once:,.0f}",
                f"{steps_per_second / once:.2f}",
                f"{once / (1 + violations):,.0f}",
                f"{steps_per_second * (1 + violations) / once:.2f}",
            ]
        )
    print_table(
        "What one core reads from memory, the steps/s if each line were read once, and Tercet as a share of that",
        ["reading", "GB/s", "read once", "share", "and written", "share"],
        rows,
    )
    print("Lines at random: one plain load after another. A share above 1 is lines found in a cache or fetched ahead.")
    return {"lines": lines, "entries": entries, "bandwidth": bandwidth, "read_once_steps_per_second": limits}


# -- the comparison -----------------------------------------------------------------------------------------------


def choose(data: Newsgroups, prefs: tc.Preferences) -> tuple[Setting, Setting, dict[str, Any]]:
    """The settings with the lowest error on a held-out tenth of the training preferences, Tercet's first."""
    n = len(prefs) * 9 // 10
    learned, held_out = prefs[:n], prefs[n:]
    models = vowpal_models(CHOOSING_BITS, SETTINGS)
    for schedule in dict.fromkeys(setting[0] for setting in SETTINGS):
        vowpal_learn([model for model in models if model.setting[0] == schedule], data.X, learned)
    theirs = vowpal_errors(models, data.X, held_out)
    ours, violations = [], []
    for setting in SETTINGS:  # one W at a time
        ranker, _ = fit_dense(setting, data.X, learned)
        ours.append(error_of_ranker(ranker, data.X, held_out))
        violations.append(violation_rate(ranker))
    rows = zip(SETTINGS, violations, ours, models, theirs, strict=True)
    print_table(
        f"Rates: {len(learned):,} preferences learned, error on the {len(held_out):,} held out (-b {CHOOSING_BITS})",
        ["rate", "Tercet violations", "error", "Vowpal Wabbit violations", "error"],
        [
            [
                describe(setting),
                f"{violated:.1%}",
                f"{a:.4f}",
                f"{model.violation_rate:.1%}",
                f"{b:.4f}",
            ]
            for setting, violated, a, model, b in rows
        ],
    )
    best_ours, best_theirs = SETTINGS[int(np.argmin(ours))], SETTINGS[int(np.argmin(theirs))]
    return best_ours, best_theirs, {"settings": SETTINGS, "tercet": ours, "vowpal_wabbit": theirs}


def compare(data: Newsgroups, seed: int, quick: bool) -> dict[str, Any]:
    n, n_test = (5_000, 2_000) if quick else (100_000, 20_000)
    prefs = tc.Preferences.from_labels(data.y, n, random_state=seed)
    test = tc.Preferences.from_labels(data.y_test, n_test, random_state=seed + 1)
    query_words, doc_words = words_per_step(data.X, prefs)
    print(f"{n:,} preferences; {query_words:.0f} words in a query, {doc_words:.0f} in its two documents.")
    with (compiling := Clock()).running():
        tc.DenseRanker().fit(data.X, prefs[:1])
    print(f"Loading the compiled kernel, or compiling it once: {compiling.wall:.1f} s, not timed below.")
    print("Vowpal Wabbit:", vowpal_options(CHOOSING_BITS, 1.0))
    print("A falling rate is given as importance, and what W = I scores as the example's start: both begin at I.")

    ours, theirs, choice = choose(data, prefs)
    rows, clocks = [], []
    ranker, clock = fit_dense(ours, data.X, prefs)  # before, between and after the other engine's runs
    clocks.append(clock)
    results: list[dict[str, Any]] = []
    for bits in FINAL_BITS:
        [model] = vowpal_models(bits, (theirs,))
        parsing = vowpal_learn([model], data.X, prefs)
        [error] = vowpal_errors([model], data.X_test, test)
        results.append(
            {
                "engine": f"Vowpal Wabbit -b {bits}",
                "rate": describe(theirs),
                "steps_per_second": model.steps_per_second,
                "violation_rate": model.violation_rate,
                "error": error,
                "parsing": parsing,
                "clock": model.learning,
            }
        )
        ranker, clock = fit_dense(ours, data.X, prefs)
        clocks.append(clock)
    steps_per_second = [n / clock.wall for clock in clocks]
    tercet: dict[str, Any] = {
        "engine": "Tercet",
        "rate": describe(ours),
        "steps_per_second": median(steps_per_second),
        "violation_rate": violation_rate(ranker),
        "error": error_of_ranker(ranker, data.X_test, test),
        "runs": steps_per_second,
    }
    for result in (tercet, *results):
        rows.append(
            [
                result["engine"],
                result["rate"],
                f"{result['parsing'].wall:.1f}" if "parsing" in result else "–",
                f"{n / result['steps_per_second']:.1f}",
                f"{result['violation_rate']:.1%}",
                f"{result['steps_per_second']:,.0f}",
                f"{result['error']:.4f}",
            ]
        )
    print_table(
        f"Dense W, {data.X.shape[1]:,} words, {n:,} preferences, one thread; error on {n_test:,} test preferences",
        ["engine", "rate", "parsing s", "learning s", "violations", "steps/s", "test error"],
        rows,
    )
    runs = ", ".join(f"{value:,.0f}" for value in steps_per_second)
    print(f"Tercet before, between and after the other runs: {runs} steps/s; the median counts.")
    print_ratios(tercet, results)
    say_if_disturbed([*clocks, *(result["clock"] for result in results)])
    limit = print_limit(data.X, prefs, tercet["steps_per_second"], tercet["violation_rate"], seed)
    return {"choice": choice, "tercet": tercet, "vowpal_wabbit": results, "limit": limit}


def print_ratios(tercet: dict[str, Any], results: list[dict[str, Any]]) -> None:
    rows = []
    for result in results:
        result["ratio"] = ratio = tercet["steps_per_second"] / result["steps_per_second"]
        rows.append(
            [
                f"Tercet over {result['engine']}",
                f"{ratio:.2f}",
                f"{TARGET:g}: {verdict(ratio, TARGET)}",
                f"{AIM:g}: {verdict(ratio, AIM)}",
                f"{tercet['error'] - result['error']:+.4f}",
                verdict(tercet["error"], result["error"], at_most=True),
            ]
        )
    print_table(
        "Ratios of steps per second, and whether Tercet's test error is equal or lower",
        ["", "ratio", "target", "aim", "error", "equal or lower"],
        rows,
    )


def main() -> None:
    arguments = parse_arguments(__doc__)
    facts = machine_facts("vowpalwabbit")
    print_facts(facts)
    with (loading := Clock()).running():
        data = load_newsgroups(arguments.data_home)
    print(f"20 Newsgroups read and vectorized in {loading.wall:.1f} s.")
    with (whole := Clock()).running():
        results = compare(data, arguments.seed, arguments.quick)
    print(f"\nThe whole comparison took {whole.wall:.0f} s.")
    write_json(arguments.output, {"machine": facts, **results})


if __name__ == "__main__":
    main()
