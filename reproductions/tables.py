"""Tables of a run: statistics, those of the paper, orderings, paired tests, words, then our own.

A paired test of the plan decides a pair of models everywhere on the page, with Holm's correction. Paired intervals of
the difference decide all other pairs. So verdicts never contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from reproductions.plan import Claim, PairedTests, PaperMeasure, PaperTable, Plan, Statistics, Words
from reproductions.results import PaperResults
from reproductions.verdicts import (
    NOT_COMPARED,
    PrintedNumber,
    Tone,
    Verdict,
    compare,
    judge_folds,
    judge_pair,
    outcome_of_p,
    printed_in,
    short,
    shown,
    signed,
    with_plus_minus,
)
from tercet.choose import ThreeWay, verdict_of
from tercet.measure import PairedTest, holm, paired_test
from tercet.report import shown_p

PAST_THE_PAPER = "Past the paper"
UNFINISHED = " †"
# Attributes that rankers find, and their names in a table.
_FOUND = {
    "n_components_": "N",
    "alpha_": "alpha",
    "beta_": "beta",
    "n_expanded_": "E",
    "amount_": "amount of the second",
}
_TEST_NAMES = {"permutation": "permutation test", "wilcoxon": "Wilcoxon test"}


@dataclass(frozen=True)
class Cell:
    """A text, a detail below it, and the source of a comparison; ``tone`` colors the detail, or the text."""

    text: str
    detail: str = ""
    source: str = ""
    tone: Tone = "plain"


@dataclass
class Table:
    """Rows of cells under a head.

    Attributes
    ----------
    kind : "table" (printed numbers), "facts", "orderings", "our-orderings" or "tests"; verdicts are counted by kind
    notes, footnotes : sentences above and below the rows
    records : numbers behind the cells, for results.json; ``record["kind"]`` is the kind of its verdict
    key : name in results.json and of links
    section : part of the page
    has_numbers : false if nothing was measured
    """

    title: str
    head: list[str]
    key: str
    kind: str = "facts"
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    section: str = ""
    has_numbers: bool = True
    footnotes: list[str] = field(default_factory=list)


def make_tables(results: PaperResults) -> list[Table]:
    """Every table of the plan, in its order."""
    plan = results.plan
    tables = [_statistics(results, printed, number) for number, printed in enumerate(plan.statistics, 1)]
    tables += [_table(results, table) for table in plan.tables if table.kind == "paper"]
    decisions = PairDecisions(results)
    for ours in (False, True):
        if any(claim.ours == ours for claim in plan.claims):
            tables.append(_claims_table(results, decisions, ours=ours))
    tables += [_paired_table(results, tests, decisions) for tests in plan.comparisons]
    tables += [_words(results, words) for words in plan.words]
    past = [_table(results, table) for table in plan.tables if table.kind == "ours"]
    for table in past:
        table.section = PAST_THE_PAPER
    return tables + past


def _placed(position: str, title: str) -> str:
    return f"{position}: {title}" if position else title


def _not_run(results: PaperResults, dataset: str) -> str:
    """Why a data set has no numbers, as a sentence."""
    return f"Not run: {'the data are not here' if dataset in results.missing else 'nothing has finished'}."


def _where_compared(results: PaperResults, dataset: str, verdict: Verdict) -> Verdict:
    """A verdict only if the run and the data are those of the paper."""
    if results.quick or not results.plan.datasets[dataset].compare:
        return NOT_COMPARED
    return verdict


# -- facts about the data ---------------------------------------------------------------------------------------------


def _statistics(results: PaperResults, statistics: Statistics, number: int) -> Table:
    facts = list(dict.fromkeys(fact for printed in statistics.printed.values() for fact in printed))
    key = "statistics" if number == 1 else f"statistics-{number}"
    table = Table(_placed(statistics.position, statistics.title), ["data set", *facts], key)
    table.has_numbers = any(dataset in results.data for dataset in statistics.printed)
    for dataset, printed in statistics.printed.items():
        data = results.plan.datasets[dataset]
        known = results.data.get(dataset, {}).get("statistics", {})
        cells = [Cell(data.title, data.description)]
        for fact in facts:
            theirs, ours = printed.get(fact), known.get(fact)
            text = "–" if ours is None else f"{ours:,}"
            if theirs is None:
                cells.append(Cell(text))
                continue
            verdict = Verdict("same")
            if ours is None:
                verdict = Verdict("not run")
            elif ours != theirs:
                verdict = _where_compared(results, dataset, Verdict("differ", "differs"))
            cells.append(Cell(text, f"paper {theirs:,}, {verdict.text}", tone=verdict.tone))
            record = {"dataset": dataset, "fact": fact, "ours": ours, "paper": theirs}
            table.records.append(record | verdict.as_record())
        table.rows.append(cells)
    return table


# -- models and printed numbers ---------------------------------------------------------------------------------------


def _table(results: PaperResults, spec: PaperTable) -> Table:
    plan = results.plan
    by_dataset = len(spec.datasets) > 1
    columns = [(dataset, measure) for dataset in spec.datasets for measure in spec.measures]
    titles = [plan.datasets[d].title if by_dataset else _with_unit(plan.measures[m]) for d, m in columns]
    with_params = any(row.params for row in spec.rows)
    head = ["model", *["Params"] * with_params, "learned from", *titles]
    head += [*["learning s"] * spec.seconds, *["chosen"] * spec.chosen]
    table = Table(_placed(spec.position, spec.title), head, spec.key, "table")
    table.notes += [note for note in (spec.note, *(plan.datasets[d].description for d in spec.datasets)) if note]
    absent = [dataset for dataset in spec.datasets if dataset not in results.data]
    if by_dataset and absent:
        table.notes.append(f"Not run: {', '.join(plan.datasets[dataset].title for dataset in absent)}.")
    elif absent:
        table.notes.append(_not_run(results, absent[0]))
    table.has_numbers = len(absent) < len(spec.datasets)
    for row in spec.rows:
        title = row.title or plan.model(row.model).title
        is_unfinished = any(results.is_unfinished(row.dataset or d, row.model) for d in spec.datasets)
        mark = UNFINISHED if is_unfinished else ""
        cells = [Cell(f"{title}{mark}: {row.reason}" if row.reason else f"{title}{mark}")]
        cells += [Cell(row.params or "–")] if with_params else []
        effort = effort_of(plan, row.model)
        cells.append(Cell(effort or "–"))
        for dataset, measure in columns:
            printed = printed_in(spec, row, dataset, measure)
            own = row.dataset or dataset
            cell, numbers = _next_to_printed(results, own, row.model, measure, printed)
            cells.append(cell)
            record = {"dataset": own, "model": title, "measure": measure} | numbers | {"learned_from": effort}
            table.records.append(record | {"unfinished": is_unfinished})
        first = row.dataset or spec.datasets[0]
        if spec.seconds:
            seconds = results.values(first, row.model, "seconds")  # of the fastest seed
            cells.append(Cell(f"{min(seconds):.1f}" if seconds else "–"))
        if spec.chosen:
            cells.append(Cell(_settings_chosen(results, first, row.model) or "–"))
        table.rows.append(cells)
    if any(record["unfinished"] for record in table.records):
        table.footnotes.append(f"{UNFINISHED.strip()} not trained to the end: the best validation was the last.")
    if table.has_numbers and not any(plan.datasets[name].compare for name in spec.datasets):
        table.footnotes.append("; ".join(["Other data than the paper's", *_in_printed_order(results, table)]) + ".")
    return table


def effort_of(plan: Plan, model: str) -> str:
    """Training effort of a model: preferences, or settings tried; of a blend, those of both components."""
    if not model:
        return ""
    method = plan.method_of(model)
    if method.blend:
        return " + ".join(filter(None, (effort_of(plan, component) for component in method.blend)))
    if method.preferences:
        return f"{method.preferences:,} preferences"
    return f"{prod(map(len, method.choose.values())):,} settings" if method.choose else ""


def _in_printed_order(results: PaperResults, table: Table) -> list[str]:
    """Number of pairs of rows in the printed order, by measure: all that other data can show of a table."""
    agreements = []
    for measure in dict.fromkeys(record["measure"] for record in table.records):
        own = [record for record in table.records if record["measure"] == measure]
        numbers = [(record["ours"], record["paper"]) for record in own if None not in (record["ours"], record["paper"])]
        pairs = [(a[0] - b[0], a[1] - b[1]) for a, b in combinations(numbers, 2) if a[1] != b[1]]
        if pairs:
            agreeing = sum(ours * printed > 0 for ours, printed in pairs)
            agreements.append(f"{results.plan.measures[measure].title} {agreeing} of {len(pairs)}")
    return [f"pairs of rows in the printed order: {', '.join(agreements)}"] if agreements else []


def _with_unit(measure: PaperMeasure) -> str:
    return measure.title + (f" ({measure.unit})" if measure.unit not in ("", "%") else "")


def _next_to_printed(
    results: PaperResults, dataset: str, model: str, name: str, printed: PrintedNumber | None
) -> tuple[Cell, dict[str, Any]]:
    """Ours, one value for each seed, beside the paper's number; and the same as a record."""
    measure = results.plan.measures[name]
    values = results.values(dataset, model, name) if model else []
    error = results.standard_error(dataset, model, name) if values else None
    record: dict[str, Any] = {
        "ours": float(np.mean(values)) if values else None,
        "half_range": (max(values) - min(values)) / 2 if values else None,
        "standard_error": error,
        "seeds": len(values),
        "paper": None if printed is None else printed.value,
        "verdict": "",
        "kind": "" if printed is None else "not run",
    }
    theirs = "" if printed is None else f"paper {with_plus_minus(printed.value, printed.plus_minus, measure)}"
    if not values:
        return Cell("–", theirs), record
    mean, text, seeds = record["ours"], _shown_ours(record, measure), ""
    if measure.spread == "standard error" and error is not None and len(values) > 1:
        seeds = f"seeds {shown(min(values), measure)} to {shown(max(values), measure)}"
    if printed is None:
        return Cell(text, seeds), record
    errors = np.hypot(error or 0.0, printed.plus_minus or 0.0)
    verdict = _where_compared(results, dataset, compare(mean, printed.value, measure, float(errors)))
    verdict = verdict if measure.compare else NOT_COMPARED
    record |= verdict.as_record()
    detail = theirs
    if verdict.kind in ("same", "better"):
        detail += f", {signed(mean - printed.value, measure, like=printed.value)}"
    if verdict is not NOT_COMPARED:
        detail += f", {verdict.text}"
    detail += f"; {seeds}" if seeds else ""
    return Cell(text, detail, tone=verdict.tone), record


def _shown_ours(record: Mapping[str, Any], measure: PaperMeasure) -> str:
    """Our number of a record, with the ± of its measure; one seed has no range."""
    half = record["half_range"] if record["seeds"] > 1 else None
    error = record["standard_error"] if measure.spread == "standard error" else None
    return with_plus_minus(record["ours"], half if error is None else error, measure)


def _settings_chosen(results: PaperResults, dataset: str, model: str) -> str:
    """Parameters found or chosen with the first seed; a value for each fold if they differ.

    As in "rate 0.5 1 1 2 1, l1 64".
    """
    runs = results.runs(dataset, model)
    if not runs:
        return ""
    facts = [fit["facts"] for fit in runs[0]]
    first = facts[0]
    parts = [f"l1 {first['l1_']:.3g} after {first['n_fits_']} fits"] if first.get("n_fits_", 0) > 1 else []
    for name in first.get("chosen", {}):
        values = [short(fold["chosen"][name]) for fold in facts]
        parts.append(f"{name} {values[0] if len(set(values)) == 1 else ' '.join(values)}")
    parts += [f"{title} {short(first[name])}" for name, title in _FOUND.items() if name in first]
    return ", ".join(parts)


# -- decisions about pairs of models ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TestedPair:
    """A paired test of a plan; ``p_holm`` is corrected over the tests of its own table."""

    __test__ = False  # not one of pytest's

    tests: PairedTests
    first: str
    second: str
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
        # By data set, models and measure; a pair counts in the first of its tables.
        self.tested: dict[tuple[str, frozenset[str], str], TestedPair] = {}
        for tests in results.plan.comparisons:
            pairs = [pair for pair in self.pairs(tests) if self._key(tests.dataset, *pair) not in self.tested]
            made = []
            for first, second, measure in pairs:
                a, b = (results.by_query(tests.dataset, model, measure) for model in (first, second))
                made.append(paired_test(a, b, tests.test))
            corrected = holm([test.p_value for test in made]).tolist() if made else []
            for (first, second, measure), test, p in zip(pairs, made, corrected, strict=True):
                key = self._key(tests.dataset, first, second, measure)
                self.tested[key] = TestedPair(tests, first, second, test, p)

    @staticmethod
    def _key(dataset: str, first: str, second: str, measure: str) -> tuple[str, frozenset[str], str]:
        return dataset, frozenset((first, second)), measure

    def pairs(self, tests: PairedTests) -> list[tuple[str, str, str]]:
        """First model, second model and measure of the tests of a table, of models that have run."""
        pairs = list(combinations(tests.models, 2))
        if tests.against:
            pairs = [(model, tests.against) for model in tests.models if model != tests.against]
        ran = [pair for pair in pairs if all(self._results.runs(tests.dataset, model) for model in pair)]
        return [(*pair, measure) for measure in tests.measures for pair in ran]

    def decide(self, dataset: str, better: str, worse: str, name: str) -> DecidedPair:
        """The plan's own test of the pair, corrected; else the interval of the difference by query."""
        results, measure = self._results, self._results.plan.measures[name]
        pair = self.tested.get(self._key(dataset, better, worse, name))
        if pair is not None:
            difference = pair.test.difference * (1 if pair.first == better else -1)
            return DecidedPair(outcome_of_p(difference, pair.p_holm, measure), pair.test, pair)
        if results.has_folds(dataset) and not results.is_by_query(dataset, better, name):
            return DecidedPair(None)
        test = results.paired(dataset, better, worse, name)
        if test is None:
            return DecidedPair(None)
        return DecidedPair(verdict_of(test.low, test.high, higher_is_better=measure.higher_is_better), test)


# -- orderings --------------------------------------------------------------------------------------------------------


def _claims_table(results: PaperResults, decisions: PairDecisions, *, ours: bool) -> Table:
    """Make the table of the paper's orderings, or of our own models' orderings."""
    key = "our-orderings" if ours else "orderings"
    title = "Orderings of our own models" if ours else "Orderings the paper states"
    table = Table(title, ["ordering", "data set", "measure", "difference", "verdict"], key, key)
    if results.plan.comparisons:
        table.notes.append("A pair among the paired tests of this page takes their verdict, with Holm's correction.")
    table.notes.append(
        "Better minus worse with paired 95 % intervals (t) by query, seeds taken together; an ordering holds if the "
        "whole interval is on its side. Measures without values of queries, such as memory, are compared by seed; with "
        "folds, an ordering holds if it does in every fold. Of several worse models the best here is taken."
    )
    for claim in (claim for claim in results.plan.claims if claim.ours == ours):
        for dataset in claim.datasets:
            for measure in claim.measures:
                models = (claim.better, *claim.worse)
                seeds = results.common_seeds(dataset, models)
                if seeds != () and all(results.values(dataset, model, measure, seeds) for model in models):
                    cells, record = _claim(results, decisions, claim, dataset, measure)
                    table.rows.append(cells)
                    table.records.append(record)
    table.has_numbers = bool(table.rows)
    return table


def _claim(
    results: PaperResults, decisions: PairDecisions, claim: Claim, dataset: str, name: str
) -> tuple[list[Cell], dict[str, Any]]:
    """Compare the better model with the best of the worse models by the deciding test."""
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
    test = decision.test
    if decision.pair is not None:
        difference += f" ({shown_p(decision.pair.p_holm)})"
        detail += f", {_TEST_NAMES[decision.pair.tests.test]}, Holm"
    elif test is not None:
        difference += f" ({signed(test.low, measure, digits)} to {signed(test.high, measure, digits)})"
    detail += "" if test is None else f", n = {test.n:,}"
    if dataset in claim.printed and worse:
        detail += f"; {100 * (better / worse - 1):+.2f} %, paper {claim.printed[dataset]:+.2f} %"
    if results.quick:
        verdict = NOT_COMPARED
    elif decision.outcome is not None:
        verdict = judge_pair(decision.outcome, is_claim=True)
    elif results.has_folds(dataset):
        first, second = (results.by_fold(dataset, model, name).mean(axis=0) for model in (claim.better, rival))
        verdict = judge_folds(((first - second) * (1 if measure.higher_is_better else -1)).tolist())
    else:
        verdict = Verdict("not decided", "one seed: no interval")
    cells = [Cell(claim.text, titles, claim.position), Cell(plan.datasets[dataset].title), Cell(measure.title)]
    cells += [Cell(difference, detail), Cell(verdict.text, tone=verdict.tone)]
    record = {"ordering": claim.text, "place": claim.position, "dataset": dataset, "measure": name, "better": better}
    record |= {"worse": worse, "against": rival, "low": test and test.low, "high": test and test.high}
    return cells, record | verdict.as_record()


# -- paired tests -----------------------------------------------------------------------------------------------------


def _paired_table(results: PaperResults, tests: PairedTests, decisions: PairDecisions) -> Table:
    """The paired tests of one table of the plan, each with its verdict."""
    plan, dataset = results.plan, tests.dataset
    head = ["models", "measure", "difference", "95 % interval, uncorrected", "p", "p, Holm", "verdict"]
    table = Table(f"{tests.title}, {plan.datasets[dataset].title}", head, tests.key, "tests")
    pairs = [(a, b, name, decisions.decide(dataset, a, b, name).pair) for a, b, name in decisions.pairs(tests)]
    table.has_numbers = bool(pairs)
    if not pairs:
        table.notes.append(_not_run(results, dataset))
        return table
    interval = {"permutation": "bootstrap", "wilcoxon": "Student's"}[tests.test]
    table.notes.append(
        f"The first minus the second over the {len(results.data[dataset]['queries'])} test queries of all folds, with "
        f"paired {interval} intervals; p of a two-sided paired {_TEST_NAMES[tests.test]}, and with Holm's correction "
        "for the tests of a table. A verdict needs a corrected p below 0.05."
    )
    for a, b, name, pair in pairs:
        assert pair is not None
        measure, test = plan.measures[name], pair.test
        sign = 1 if pair.first == a else -1
        difference = sign * test.difference
        low, high = sorted((sign * test.low, sign * test.high))
        verdict = NOT_COMPARED if results.quick else judge_pair(outcome_of_p(difference, pair.p_holm, measure))
        titles = f"{plan.model(a).title} − {plan.model(b).title}"
        elsewhere = "" if pair.tests is tests else f"from “{pair.tests.title}”"
        cells = [Cell(titles, elsewhere), Cell(measure.title), Cell(signed(difference, measure, 4))]
        cells += [Cell(f"{signed(low, measure, 4)} to {signed(high, measure, 4)}"), Cell(f"{test.p_value:.3g}")]
        table.rows.append([*cells, Cell(f"{pair.p_holm:.3g}"), Cell(verdict.text, tone=verdict.tone)])
        table.records.append(
            {"first": a, "second": b, "measure": name, "difference": difference, "low": low, "high": high}
            | {"p": test.p_value, "p_holm": pair.p_holm, "n": test.n}
            | verdict.as_record()
        )
    return table


# -- words ------------------------------------------------------------------------------------------------------------


def _words(results: PaperResults, words: Words) -> Table:
    plan = results.plan
    table = Table(_placed(words.position, words.title), ["query word", "ours", "paper", "shared"], words.key)
    source = f"{plan.model(words.model).title}, {plan.datasets[words.dataset].title}"
    table.notes.append(f"{source}, the first seed." if words.of == "weights" else f"The word map of {source}.")
    runs = results.runs(words.dataset, words.model)
    if not runs:
        table.notes.append(_not_run(results, words.dataset))
        table.has_numbers = False
    related = runs[0][0]["related"].get(words.model, {}) if runs else {}
    for word, printed in words.printed.items():
        ours = [other for other, _ in related.get(word, [])]
        shared = [other for other in ours if other in printed]
        line = " ".join(ours) or ("not among our words" if runs else "–")
        count = Cell(f"{len(shared)} of {len(printed)}" if runs else "–", " ".join(shared))
        table.rows.append([Cell(word), Cell(line), Cell(" ".join(printed)), count])
        table.records.append({"word": word, "ours": " ".join(ours), "paper": " ".join(printed), "shared": len(shared)})
    n_shared = sum(record["shared"] for record in table.records)
    table.footnotes.append(f"{n_shared} of {sum(map(len, words.printed.values()))} words shared.")
    return table
