"""Kyoto, Japanese and English: finding the translation of an article, in both directions, and the articles it mentions.

Everything is chosen on training and validation parts of `python -m reproductions ssi`; its test queries are looked at
once.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from cross_language import CL_LSI, best_starts, learn
from reproductions.datasets import load_dataset
from reproductions.links import LinkTask, split_links
from reproductions.plan import find_plan
from tercet.learn import LSIRanker
from tercet.learn.starts import turned
from tercet.measure import HeldOutQueries, paired_test
from tercet.weights import LowRank, Weights

WIDTHS = (200, 400)  # components of each space, the widest of those that are tried
N_FIXED = 100  # of CL-LSI where it is learned from by itself
N_TESTED = 1000
MATE_STEPS = 65_536
LINK_STEPS = 200_000


Values = list[NDArray[np.float64]]  # a measure of each query, in both directions


def n_components(weights: Weights) -> int:
    [part] = weights.parts
    assert isinstance(part, LowRank)
    return part.query_factors.shape[1]


def row(name: str, value: NDArray[np.float64], other: NDArray[np.float64] | None, seconds: float) -> list[str]:
    """A system: its mean, the difference to another with its 95 % interval, and processor seconds."""
    change = ""
    if other is not None:
        test = paired_test(value, other)
        change = f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"
    return [name, f"{value.mean():.3f}", change, f"{seconds:.0f}"]


def translations(task: LinkTask, seed: int, quick: bool) -> list[list[str]]:
    """Mean reciprocal rank of the translation, from Japanese to English and back."""
    Q, D = task.query_block("ja"), task.D
    split = split_links(
        np.repeat(np.arange(task.n_articles)[:, None], 2, axis=1), by="links", n_articles=task.n_articles
    )
    validation = HeldOutQueries.from_links(split.validation, Q, D, exclude_self=False, measure="RR")
    some = np.random.default_rng(0).permutation(np.unique(split.test[:, 0]))[
        :N_TESTED
    ]  # those of python -m reproductions
    tested = [
        HeldOutQueries.from_links(np.repeat(some[:, None], 2, axis=1), *texts, exclude_self=False, measure="RR")
        for texts in ((Q, D), (D, Q))
    ]

    def measured(weights: Weights) -> Values:
        return [held_out.values(one) for held_out, one in zip(tested, (weights, turned(weights)), strict=True)]

    steps = 8192 if quick else MATE_STEPS
    began = time.process_time()
    narrow = LSIRanker(n_components=min(N_FIXED, len(split.train) - 1), random_state=seed)
    baseline = narrow.fit_parallel(Q, D, translations=split.train).weights_
    plain = measured(baseline)
    rows = [two_rows(CL_LSI, baseline, plain, None, began)]
    learned, _ = learn(baseline, Q, D, split.train, validation, steps, seed, verbose=False)
    rows.append(two_rows(f"learned from {CL_LSI}", learned, measured(learned), plain, began))
    for width in WIDTHS:
        began = time.process_time()
        better, starts = best_starts(Q, D, split.train, validation, seed, (width,))
        plain = measured(starts[CL_LSI])
        for name, weights in starts.items():
            rows.append(two_rows(name, weights, measured(weights), None if name == CL_LSI else plain, began))
        learned, _ = learn(starts[better], Q, D, split.train, validation, steps, seed, verbose=False)
        rows.append(two_rows(f"learned from {better}", learned, measured(learned), plain, began))
    return rows


def two_rows(name: str, weights: Weights, values: Values, others: Values | None, began: float) -> list[str]:
    """A system in both directions."""
    label, spent = f"{name}, N = {n_components(weights)}", time.process_time() - began
    there, back = (row(label, value, None if others is None else others[at], spent) for at, value in enumerate(values))
    return there[:3] + back[1:]


def neighbors(task: LinkTask, seed: int, quick: bool) -> list[list[str]]:
    """Mean average precision of the articles that an article mentions."""
    Q, D = task.query_block("ja"), task.D

    def over(asked: HeldOutQueries) -> HeldOutQueries:
        return replace(asked, Q=sparse.csr_array(asked.Q[:, task.query_blocks["ja"]]))

    known = np.repeat(task.parallel()[:, None], 2, axis=1)
    validation = over(task.validation)
    tested = over(task.held_out)
    began = time.process_time()
    better, starts = best_starts(Q, D, known, validation, seed, WIDTHS[:1])
    seconds = time.process_time() - began
    values = {name: tested.values(weights) for name, weights in starts.items()}
    rows = [
        row(
            f"{name}, N = {n_components(weights)}",
            values[name],
            None if name == CL_LSI else values[CL_LSI],
            seconds,
        )
        for name, weights in starts.items()
    ]
    steps, sampler = 20_000 if quick else LINK_STEPS, task.sampler(1.0, "queries")
    learned, _ = learn(starts[better], Q, D, known, validation, steps, seed, sampler=sampler, verbose=False)
    label = f"learned from {better}, N = {n_components(learned)}"
    return [*rows, row(label, tested.values(learned), values[CL_LSI], time.process_time() - began)]


def main() -> None:
    arguments = parse_arguments(__doc__)
    plan = find_plan("ssi")
    [task] = load_dataset(plan.datasets["kyoto"], arguments.data_home, plan.quick if arguments.quick else None).tasks
    assert isinstance(task, LinkTask)
    results: dict[str, Any] = {"machine": machine_facts()}
    for title, measured, columns in (
        ("The translation, MRR", translations, ["ja → en", "to CL-LSI", "en → ja", "to CL-LSI", "s"]),
        ("Articles it mentions, MAP", neighbors, ["MAP", "to CL-LSI", "s"]),
    ):
        rows = measured(task, arguments.seed, arguments.quick)
        print_table(title, ["", *columns], rows)
        results[title] = rows
    print_facts(results["machine"])
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
