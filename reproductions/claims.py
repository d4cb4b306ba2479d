"""Orderings the paper states, paired tests, and how often a model is the best: one verdict for each pair.

Where the plan tests a pair, that test decides it, corrected after Holm, wherever the pair comes up on the page. All
other pairs are decided by the paired interval of their difference. So no two verdicts contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from reproductions.choosing import ThreeWay, outcome_of
from reproductions.paper_results import PaperResults
from reproductions.plan_items import Claim, PairedTests, Standings
from reproductions.printed import printed_in
from reproductions.table import Cell, Table
from reproductions.verdicts import (
    NOT_COMPARED,
    TONES,
    Verdict,
    judge_claim,
    judge_folds,
    shown,
    signed,
    verdict_of_p,
)
from tercet.measure import PairedTest, holm, paired_test
from tercet.report import shown_p

_TEST_NAMES = {"permutation": "permutation test", "wilcoxon": "Wilcoxon test"}


@dataclass(frozen=True)
class TestedPair:
    """One of the paired tests of a plan; ``p_holm`` is corrected over those of its own table."""

    __test__ = False  # not one of pytest's

    tests: PairedTests
    first: str
    second: str
    measure: str
    test: PairedTest
    p_holm: float


@dataclass(frozen=True)
class DecidedPair:
    """Whether one model is better than another; None where nothing can be said.

    ``pair`` is the plan's own test of them, where it has one, else ``test`` is what gave the interval.
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
        """The plan's paired tests by data set, models and measure; a pair that is there twice counts once, in the
        first of its tables."""
        tested: dict[tuple[str, frozenset[str], str], TestedPair] = {}
        for tests in self._results.plan.comparisons:
            mentioned = [
                (first, second, measure)
                for first, second, measure in self.mentioned(tests)
                if (tests.dataset, frozenset((first, second)), measure) not in tested
            ]
            made = [self._test(tests, *pair) for pair in mentioned]
            corrected = holm([test.p_value for test in made]).tolist() if made else []
            for (first, second, measure), test, p in zip(mentioned, made, corrected, strict=True):
                pair = TestedPair(tests, first, second, measure, test, p)
                tested[tests.dataset, frozenset((first, second)), measure] = pair
        return tested

    def mentioned(self, tests: PairedTests) -> list[tuple[str, str, str]]:
        """First, second and measure of the tests of a table, of models that have run."""
        pairs = list(combinations(tests.models, 2))
        if tests.against:
            pairs = [(model, tests.against) for model in tests.models if model != tests.against]
        ran = [pair for pair in pairs if all(self._results.runs(tests.dataset, model) for model in pair)]
        return [(*pair, measure) for measure in tests.measures for pair in ran]

    def _test(self, tests: PairedTests, first: str, second: str, measure: str) -> PairedTest:
        a, b = (self._results.by_query(tests.dataset, model, measure) for model in (first, second))
        return paired_test(a, b, tests.test)

    def decide(self, dataset: str, better: str, worse: str, name: str) -> DecidedPair:
        """The plan's own test of the pair, corrected; else by query the interval of the difference."""
        results, measure = self._results, self._results.plan.measures[name]
        pair = self.tested.get((dataset, frozenset((better, worse)), name))
        if pair is not None:
            difference = pair.test.difference * (1 if pair.first == better else -1)
            return DecidedPair(verdict_of_p(difference, pair.p_holm, measure), pair=pair)
        if results.has_folds(dataset) and not results.is_by_query(dataset, better, name):
            return DecidedPair(None)
        test = results.paired(dataset, better, worse, name)
        if test is None:
            return DecidedPair(None)
        return DecidedPair(outcome_of(test.low, test.high, higher_is_better=measure.higher_is_better), test)


# -- orderings --------------------------------------------------------------------------------------------------------


def claims_table(results: PaperResults, decisions: PairDecisions) -> Table:
    """Each ordering the paper states, on each data set and by each measure."""
    head = ["ordering", "data set", "measure", "difference", "verdict"]
    table = Table("Orderings the paper states", head, key="orderings")
    tested = "A pair among the paired tests of this page takes their verdict, with Holm's correction. All others: "
    table.notes.append(
        f"{tested if results.plan.comparisons else ''}better minus worse with paired 95 % intervals (t) by query, "
        "seeds taken together; an ordering holds when the whole interval is on its side. What is no measure of "
        "queries, such as memory, is compared by seed, and with folds it holds when it does in every one. Where "
        "several are said to be worse, against the one of them that does best here."
    )
    table.notes[0] = table.notes[0][0].upper() + table.notes[0][1:]
    for claim in results.plan.claims:
        for dataset in claim.datasets:
            for measure in claim.measures:
                models = (claim.better, *claim.worse)
                seeds = results.common_seeds(dataset, models)
                if seeds != () and all(results.values(dataset, model, measure, seeds) for model in models):
                    cells, record = _claim(results, decisions, claim, dataset, measure)
                    if table.records and table.records[-1]["ordering"] == claim.text:  # told once
                        cells[0] = Cell(
                            "", cells[0].detail if table.records[-1]["against"] != record["against"] else ""
                        )
                    table.rows.append(cells)
                    table.records.append(record)
    table.has_numbers = bool(table.rows)
    return table


def _claim(
    results: PaperResults, decisions: PairDecisions, claim: Claim, dataset: str, name: str
) -> tuple[list[Cell], dict[str, Any]]:
    """What is said to be better against what is said to be worse, and what decides it."""
    plan, measure = results.plan, results.plan.measures[name]
    seeds = results.common_seeds(dataset, (claim.better, *claim.worse))
    means = {
        model: float(np.mean(results.values(dataset, model, name, seeds))) for model in (claim.better, *claim.worse)
    }
    rival = (max if measure.higher_is_better else min)(claim.worse, key=lambda model: means[model])
    better, worse = means[claim.better], means[rival]
    titles = f"{plan.model(claim.better).title} against {plan.model(rival).title}"
    titles += f", the best of {len(claim.worse)}" if len(claim.worse) > 1 else ""
    digits = max(measure.digits, min(measure.digits + 1, 4))
    difference = signed(better - worse, measure, digits)
    detail = f"{shown(better, measure, digits)} against {shown(worse, measure, digits)}"
    decision = decisions.decide(dataset, claim.better, rival, name)
    test, pair = decision.test, decision.pair
    if pair is not None:
        difference += f" ({shown_p(pair.p_holm)})"
        detail += f", n = {pair.test.n:,}; {_TEST_NAMES[pair.tests.test]}, Holm"
    elif test is not None:
        difference += f" ({signed(test.low, measure, digits)} to {signed(test.high, measure, digits)})"
        detail += f", n = {test.n:,}"
    verdict = _claim_verdict(results, decision, dataset, (claim.better, rival), name)
    gain = 100 * (better / worse - 1) if worse else None
    if dataset in claim.printed and gain is not None:
        detail += f"; {gain:+.2f} %, paper {claim.printed[dataset]:+.2f} %"
    if results.quick:
        verdict = Verdict(NOT_COMPARED, "plain")
    cells = [Cell(claim.text, titles, claim.position), Cell(plan.datasets[dataset].title), Cell(measure.title)]
    cells += [Cell(difference, detail), Cell(verdict.text, tone=verdict.tone)]
    record = {
        "ordering": claim.text,
        "place": claim.position,
        "dataset": dataset,
        "measure": name,
        "better": better,
        "worse": worse,
        "low": None if test is None else test.low,
        "high": None if test is None else test.high,
        "p_holm": None if pair is None else pair.p_holm,
        "decided_by": "" if pair is None else pair.tests.key,
        "n": pair.test.n if pair is not None else None if test is None else test.n,
        "verdict": verdict.text,
        "against": rival,
        "gain_percent": gain,
        "paper_percent": claim.printed.get(dataset),
    }
    return cells, record


def _claim_verdict(
    results: PaperResults, decision: DecidedPair, dataset: str, models: tuple[str, str], name: str
) -> Verdict:
    """What was decided; what has no value of each query holds where it does in every fold."""
    if decision.outcome is not None:
        return judge_claim(decision.outcome)
    if not results.has_folds(dataset):
        return Verdict("one seed: no interval", "plain")
    first, second = (results.by_fold(dataset, model, name).mean(axis=0) for model in models)
    gains = (first - second) * (1 if results.plan.measures[name].higher_is_better else -1)
    return judge_folds(gains.tolist())


# -- paired tests -----------------------------------------------------------------------------------------------------


def paired_table(results: PaperResults, tests: PairedTests, decisions: PairDecisions) -> Table:
    """The paired tests of one table of the plan, each with its verdict."""
    plan, dataset = results.plan, tests.dataset
    head = ["models", "measure", "difference", "95 % interval, uncorrected", "p", "p, Holm", "verdict"]
    table = Table(f"{tests.title}, {plan.datasets[dataset].title}", head, key=tests.key)
    if dataset not in results.data:
        table.has_numbers = False
        table.notes.append(not_run(results, dataset))
        return table
    mentioned = decisions.mentioned(tests)
    pairs = [decisions.tested[dataset, frozenset((a, b)), name] for a, b, name in mentioned]
    table.notes += _notes_on_tests(results, tests, sum(pair.tests is tests for pair in pairs))
    for (a, b, name), pair in zip(mentioned, pairs, strict=True):
        measure, test, p = plan.measures[name], pair.test, pair.p_holm
        sign = 1 if pair.first == a else -1
        low, high = sorted((sign * test.low, sign * test.high))
        outcome = verdict_of_p(sign * test.difference, p, measure)
        verdict = Verdict(NOT_COMPARED, "plain") if results.quick else Verdict(outcome, TONES[outcome])
        titles = f"{plan.model(a).title} − {plan.model(b).title}"
        elsewhere = "" if pair.tests is tests else f"from “{pair.tests.title}”"
        interval = f"{signed(low, measure, 4)} to {signed(high, measure, 4)}"
        cells = [Cell(titles, elsewhere), Cell(measure.title), Cell(signed(sign * test.difference, measure, 4))]
        cells += [Cell(interval), Cell(f"{test.p_value:.3g}"), Cell(f"{p:.3g}")]
        table.rows.append([*cells, Cell(verdict.text, tone=verdict.tone)])
        table.records.append(
            {"first": a, "second": b, "measure": name, "difference": sign * test.difference, "low": low, "high": high}
            | {"p": test.p_value, "p_holm": p, "n": test.n, "test": test.method, "corrected_in": pair.tests.key}
            | {"verdict": verdict.text}
        )
    table.has_numbers = bool(table.rows)
    return table


def _notes_on_tests(results: PaperResults, tests: PairedTests, n_tests: int) -> list[str]:
    plan, dataset = results.plan, tests.dataset
    interval = {"permutation": "bootstrap", "wilcoxon": "Student's"}[tests.test]
    notes = [
        f"The first minus the second over the {len(results.data[dataset]['queries'])} test queries of all folds, with "
        f"paired {interval} intervals; p of a two-sided paired {_TEST_NAMES[tests.test]}, and with Holm's correction "
        f"for the {n_tests} tests of this table. A verdict needs a corrected p below 0.05."
    ]
    if tests.against and results.runs(dataset, tests.against):
        errors = [(plan.measures[m].title, results.standard_error(dataset, tests.against, m)) for m in tests.measures]
        listed = ", ".join(f"{title} {error:.4f}" for title, error in errors if error is not None)
        notes.append(f"Standard errors of {plan.model(tests.against).title} alone: {listed}.")
    return notes


# -- standings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Standing:
    """The place of a model by one measure, and the best and the worst that its paired tests leave open."""

    position: int
    best: int
    worst: int
    n: int

    def __str__(self) -> str:
        sure = self.best == self.worst
        return _ordinal(self.position) + ("" if sure else f" ({_ordinal(self.best)} to {_ordinal(self.worst)})")


def standings_table(results: PaperResults, standings: Standings, decisions: PairDecisions) -> Table:
    """The model's place by each measure, ours and printed, and how often it is the best."""
    plan, model = results.plan, standings.model
    head = ["data set", "measure", "ours", "paper", "verdict"]
    table = Table(f"{standings.position}: {standings.title}", head, key=standings.key)
    ours: list[_Standing] = []
    theirs: list[int] = []  # printed places where ours has one
    n_stated = 0
    for spec in (spec for key in standings.tables for spec in plan.tables if spec.key == key):
        for dataset in spec.datasets:
            for name in spec.measures:
                numbers = {row.model: printed_in(spec, row, dataset, name) for row in spec.rows}
                printed = {key: number.value for key, number in numbers.items() if number is not None}
                if model not in printed:
                    continue
                n_stated += 1
                if not all(results.values(dataset, key, name) for key in printed):
                    continue
                rivals = [key for key in printed if key != model]
                standing = _standing(results, decisions, dataset, model, rivals, name)
                position = 1 + sum(_is_better(results, name, printed[key], printed[model]) for key in rivals)
                ours.append(standing)
                theirs.append(position)
                names = [Cell(plan.datasets[dataset].title), Cell(plan.measures[name].title)]
                table.rows.append([*names, Cell(str(standing)), Cell(_ordinal(position)), Cell("")])
                table.records.append(
                    {"dataset": dataset, "measure": name, "ours": standing.position, "best_place": standing.best}
                    | {"worst_place": standing.worst, "models": standing.n, "paper": position, "verdict": ""}
                )
    table.has_numbers = bool(ours)
    title = plan.model(model).title
    table.notes.append(
        f"The paper has {title} best in {standings.best} of {n_stated} and second best in {standings.second}. In "
        "brackets the places that paired tests leave open: a place is sure only where the tests set the others apart."
    )
    if len(ours) < n_stated:
        table.notes.append(f"{len(ours)} of the {n_stated} have run; the paper's count is over the same ones.")
    for most, text in ((1, "best"), (2, "best or second best")):
        least, count, highest = (sum(position <= most for position in positions) for positions in _bounds(ours))
        stated = sum(position <= most for position in theirs)
        verdict = _count_verdict(least, highest, stated)
        if results.quick:
            verdict = Verdict(NOT_COMPARED, "plain")
        shown_count = f"{count} of {len(ours)}" + ("" if least == highest else f" ({least} to {highest})")
        cells = [Cell("together"), Cell(text), Cell(shown_count), Cell(f"{stated} of {len(ours)}")]
        if ours:
            table.rows.append([*cells, Cell(verdict.text, tone=verdict.tone)])
            table.records.append(
                {"measure": text, "ours": count, "least": least, "most": highest, "models": len(ours)}
                | {"paper": stated, "verdict": verdict.text}
            )
    return table


def _standing(
    results: PaperResults, decisions: PairDecisions, dataset: str, model: str, rivals: list[str], name: str
) -> _Standing:
    value = float(np.mean(results.values(dataset, model, name)))
    others = [float(np.mean(results.values(dataset, rival, name))) for rival in rivals]
    outcomes = [decisions.decide(dataset, model, rival, name).outcome for rival in rivals]
    return _Standing(
        position=1 + sum(_is_better(results, name, other, value) for other in others),
        best=1 + outcomes.count("worse"),
        worst=1 + len(outcomes) - outcomes.count("better"),
        n=1 + len(rivals),
    )


def _is_better(results: PaperResults, measure: str, value: float, than: float) -> bool:
    return value > than if results.plan.measures[measure].higher_is_better else value < than


def _bounds(standings: list[_Standing]) -> tuple[list[int], list[int], list[int]]:
    """The worst, the actual and the best places."""
    return [s.worst for s in standings], [s.position for s in standings], [s.best for s in standings]


def _count_verdict(least: int, highest: int, stated: int) -> Verdict:
    """A count holds when what is sure reaches it, and falls short when all that is open would not."""
    if least >= stated:
        return judge_claim("better")
    return judge_claim("no difference seen") if highest >= stated else Verdict("falls short", "bad")


def _ordinal(position: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(position, f"{position}th")


def not_run(results: PaperResults, dataset: str) -> str:
    """Why a data set has no numbers, as a sentence."""
    return f"Not run: {'the data are not here' if dataset in results.missing else 'another data set was asked for'}."
