"""Orderings of the paper and of our models, and paired tests: one verdict for each pair.

A paired test of the plan decides a pair everywhere on the page, with Holm's correction. Paired intervals of the
difference decide all other pairs. So verdicts never contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from reproductions.plan import Claim, PairedTests
from reproductions.results import PaperResults
from reproductions.table import Cell, Table
from reproductions.verdicts import (
    NOT_COMPARED,
    Verdict,
    judge_claim,
    judge_folds,
    judge_pair,
    outcome_of_p,
    shown,
    signed,
)
from tercet.choose import ThreeWay, verdict_of
from tercet.measure import PairedTest, holm, paired_test
from tercet.report import shown_p

_TEST_NAMES = {"permutation": "permutation test", "wilcoxon": "Wilcoxon test"}


@dataclass(frozen=True)
class TestedPair:
    """A paired test of a plan; ``p_holm`` is corrected over the tests of its own table."""

    __test__ = False  # not one of pytest's

    tests: PairedTests
    first: str
    second: str
    measure: str
    test: PairedTest
    p_holm: float


@dataclass(frozen=True)
class DecidedPair:
    """Outcome for a pair of models; None if undecidable.

    ``pair`` is the plan's own test of the pair, if any; otherwise ``test`` has the interval.
    """

    outcome: ThreeWay | None
    test: PairedTest | None = None
    pair: TestedPair | None = None


class PairDecisions:
    """Every pair of models that a page compares, decided once."""

    def __init__(self, results: PaperResults) -> None:
        self._results = results

    @cached_property
    def tested(self) -> dict[tuple[str, frozenset[str], str], TestedPair]:
        """Paired tests of the plan by data set, models and measure; a pair counts in the first of its tables."""
        tested: dict[tuple[str, frozenset[str], str], TestedPair] = {}
        for tests in self._results.plan.comparisons:
            pairs = [
                (first, second, name)
                for first, second, name in self.pairs(tests)
                if (tests.dataset, frozenset((first, second)), name) not in tested
            ]
            made = [self._test(tests, *pair) for pair in pairs]
            corrected = holm([test.p_value for test in made]).tolist() if made else []
            for (first, second, name), test, p in zip(pairs, made, corrected, strict=True):
                key = tests.dataset, frozenset((first, second)), name
                tested[key] = TestedPair(tests, first, second, name, test, p)
        return tested

    def pairs(self, tests: PairedTests) -> list[tuple[str, str, str]]:
        """First model, second model and measure of the tests of a table, of models that have run."""
        pairs = list(combinations(tests.models, 2))
        if tests.against:
            pairs = [(model, tests.against) for model in tests.models if model != tests.against]
        ran = [pair for pair in pairs if all(self._results.runs(tests.dataset, model) for model in pair)]
        return [(*pair, measure) for measure in tests.measures for pair in ran]

    def _test(self, tests: PairedTests, first: str, second: str, measure: str) -> PairedTest:
        a, b = (self._results.by_query(tests.dataset, model, measure) for model in (first, second))
        return paired_test(a, b, tests.test)

    def decide(self, dataset: str, better: str, worse: str, name: str) -> DecidedPair:
        """The plan's own test of the pair, corrected; else the interval of the difference by query."""
        results, measure = self._results, self._results.plan.measures[name]
        pair = self.tested.get((dataset, frozenset((better, worse)), name))
        if pair is not None:
            difference = pair.test.difference * (1 if pair.first == better else -1)
            return DecidedPair(outcome_of_p(difference, pair.p_holm, measure), pair=pair)
        if results.has_folds(dataset) and not results.is_by_query(dataset, better, name):
            return DecidedPair(None)
        test = results.paired(dataset, better, worse, name)
        if test is None:
            return DecidedPair(None)
        return DecidedPair(verdict_of(test.low, test.high, higher_is_better=measure.higher_is_better), test)


# -- orderings --------------------------------------------------------------------------------------------------------


def claims_table(results: PaperResults, decisions: PairDecisions, *, ours: bool = False) -> Table:
    """Make the table of the paper's orderings, or of our own models' orderings."""
    plan = results.plan
    head = ["ordering", "data set", "measure", "difference", "verdict"]
    title, key = (
        ("Orderings of our own models", "our-orderings") if ours else ("Orderings the paper states", "orderings")
    )
    table = Table(title, head, key, key, tuple(plan.datasets))
    if plan.comparisons:
        table.notes.append("A pair among the paired tests of this page takes their verdict, with Holm's correction.")
    table.notes.append(
        "Better minus worse with paired 95 % intervals (t) by query, seeds taken together; an ordering holds if the "
        "whole interval is on its side. Measures without values of queries, such as memory, are compared by seed; with "
        "folds, an ordering holds if it does in every fold. Of several worse models the best here is taken."
    )
    for claim in (claim for claim in plan.claims if claim.ours == ours):
        for dataset in claim.datasets:
            for measure in claim.measures:
                models = (claim.better, *claim.worse)
                seeds = results.common_seeds(dataset, models)
                if seeds != () and all(results.values(dataset, model, measure, seeds) for model in models):
                    cells, record = _claim(results, decisions, claim, dataset, measure)
                    last = table.records[-1] if table.records else {"ordering": "", "against": ""}
                    if last["ordering"] == claim.text:  # the text stands in the first of its rows
                        cells[0] = Cell("", cells[0].detail if last["against"] != record["against"] else "")
                    table.rows.append(cells)
                    table.records.append(record)
    table.has_numbers = bool(table.rows)
    return table


def _claim(
    results: PaperResults, decisions: PairDecisions, claim: Claim, dataset: str, name: str
) -> tuple[list[Cell], dict[str, Any]]:
    """Compare the better model with the best of the worse models by the deciding test."""
    plan, measure = results.plan, results.plan.measures[name]
    models = (claim.better, *claim.worse)
    seeds = results.common_seeds(dataset, models)
    means = {model: float(np.mean(results.values(dataset, model, name, seeds))) for model in models}
    rival = (max if measure.higher_is_better else min)(claim.worse, key=lambda model: means[model])
    better, worse = means[claim.better], means[rival]
    titles = f"{plan.model(claim.better).title} against {plan.model(rival).title}"
    titles += f", the best of {len(claim.worse)}" if len(claim.worse) > 1 else ""
    digits = max(measure.digits, min(measure.digits + 1, 4))
    difference = signed(better - worse, measure, digits)
    detail = f"{shown(better, measure, digits)} against {shown(worse, measure, digits)}"
    decision = decisions.decide(dataset, claim.better, rival, name)
    pair, test = decision.pair, decision.test if decision.pair is None else decision.pair.test
    if pair is not None:
        difference += f" ({shown_p(pair.p_holm)})"
        detail += f", n = {pair.test.n:,}; {_TEST_NAMES[pair.tests.test]}, Holm"
    elif test is not None:
        difference += f" ({signed(test.low, measure, digits)} to {signed(test.high, measure, digits)})"
        detail += f", n = {test.n:,}"
    gain = 100 * (better / worse - 1) if worse else None
    if dataset in claim.printed and gain is not None:
        detail += f"; {gain:+.2f} %, paper {claim.printed[dataset]:+.2f} %"
    verdict = NOT_COMPARED if results.quick else _claim_verdict(results, decision, dataset, (claim.better, rival), name)
    cells = [Cell(claim.text, titles, claim.position), Cell(plan.datasets[dataset].title), Cell(measure.title)]
    cells += [Cell(difference, detail), Cell.from_verdict(verdict)]
    interval = None if pair is not None else test
    record = {
        "ordering": claim.text,
        "place": claim.position,
        "dataset": dataset,
        "measure": name,
        "better": better,
        "worse": worse,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "p_holm": None if pair is None else pair.p_holm,
        "decided_by": "" if pair is None else pair.tests.key,
        "n": None if test is None else test.n,
        "against": rival,
        "gain_percent": gain,
        "paper_percent": claim.printed.get(dataset),
    }
    return cells, record | verdict.as_record()


def _claim_verdict(
    results: PaperResults, decision: DecidedPair, dataset: str, models: tuple[str, str], name: str
) -> Verdict:
    if decision.outcome is not None:
        return judge_claim(decision.outcome)
    if not results.has_folds(dataset):
        return Verdict("not decided", "one seed: no interval")
    first, second = (results.by_fold(dataset, model, name).mean(axis=0) for model in models)
    gains = (first - second) * (1 if results.plan.measures[name].higher_is_better else -1)
    return judge_folds(gains.tolist())


# -- paired tests -----------------------------------------------------------------------------------------------------


def paired_table(results: PaperResults, tests: PairedTests, decisions: PairDecisions) -> Table:
    """The paired tests of one table of the plan, each with its verdict."""
    plan, dataset = results.plan, tests.dataset
    head = ["models", "measure", "difference", "95 % interval, uncorrected", "p", "p, Holm", "verdict"]
    table = Table(f"{tests.title}, {plan.datasets[dataset].title}", head, tests.key, "tests", (dataset,))
    if dataset not in results.data:
        table.has_numbers = False
        table.notes.append(not_run(results, dataset))
        return table
    pairs = [(a, b, name, decisions.tested[dataset, frozenset((a, b)), name]) for a, b, name in decisions.pairs(tests)]
    interval = {"permutation": "bootstrap", "wilcoxon": "Student's"}[tests.test]
    table.notes.append(
        f"The first minus the second over the {len(results.data[dataset]['queries'])} test queries of all folds, with "
        f"paired {interval} intervals; p of a two-sided paired {_TEST_NAMES[tests.test]}, and with Holm's correction "
        f"for the {sum(pair.tests is tests for *_, pair in pairs)} tests of this table. A verdict needs a corrected p "
        "below 0.05."
    )
    for a, b, name, pair in pairs:
        measure, test = plan.measures[name], pair.test
        sign = 1 if pair.first == a else -1
        difference = sign * test.difference
        low, high = sorted((sign * test.low, sign * test.high))
        verdict = NOT_COMPARED if results.quick else judge_pair(outcome_of_p(difference, pair.p_holm, measure))
        titles = f"{plan.model(a).title} − {plan.model(b).title}"
        elsewhere = "" if pair.tests is tests else f"from “{pair.tests.title}”"
        cells = [Cell(titles, elsewhere), Cell(measure.title), Cell(signed(difference, measure, 4))]
        cells += [Cell(f"{signed(low, measure, 4)} to {signed(high, measure, 4)}")]
        cells += [Cell(f"{test.p_value:.3g}"), Cell(f"{pair.p_holm:.3g}"), Cell.from_verdict(verdict)]
        table.rows.append(cells)
        table.records.append(
            {"first": a, "second": b, "measure": name, "difference": difference, "low": low, "high": high}
            | {"p": test.p_value, "p_holm": pair.p_holm, "n": test.n, "test": test.method}
            | {"corrected_in": pair.tests.key}
            | verdict.as_record()
        )
    table.has_numbers = bool(table.rows)
    return table


def not_run(results: PaperResults, dataset: str) -> str:
    """Why a data set has no numbers, as a sentence."""
    return f"Not run: {'the data are not here' if dataset in results.missing else 'another data set was asked for'}."
