"""Tables of a run: statistics, those of the paper, orderings, paired tests, words, costs, then our own."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from tercet.fitting.rankers import CLASSIFIERS
from tercet.measure import PairedTest, holm, paired_test
from tercet.report.table import Cell, Table
from tercet.repro.cost_jobs import cost_table
from tercet.repro.paper_results import PaperResults
from tercet.repro.plan import Claim, Method, PairedTests, PaperTable, Row, Statistics, TradeOff, Words
from tercet.repro.runner import short
from tercet.repro.tasks import entries_of_megabytes
from tercet.repro.verdicts import (
    NOT_COMPARED,
    Verdict,
    compare,
    judge_claim,
    judge_folds,
    judge_target,
    mean_and_half_range,
    shown,
    signed,
    with_plus_minus,
)

PAST_THE_PAPER = "Past the paper"
# What rankers find by themselves, and what it is called in a table.
_FOUND = {
    "n_components_": "N",
    "alpha_": "alpha",
    "beta_": "beta",
    "n_expanded_": "E",
    "amount_": "amount of the second",
}


def make_tables(results: PaperResults) -> list[Table]:
    """Every table of the plan, in its order."""
    plan = results.plan
    tables = [_statistics(results, printed, number) for number, printed in enumerate(plan.statistics, 1)]
    tables += [_table(results, table) for table in plan.tables if table.kind == "paper"]
    tables += [_claims(results)] if plan.claims else []
    tables += [_paired_tests(results, tests) for tests in plan.comparisons]
    tables += [_words(results, words) for words in plan.words]
    tables += [cost_table(results, cost) for cost in plan.costs]
    ours = [_table(results, table) for table in plan.tables if table.kind == "ours"]
    ours += [_ceilings(results, tradeoff) for tradeoff in plan.tradeoffs if tradeoff.dataset in results.data]
    ours += [_targets(results)] if plan.targets else []
    for table in ours:
        table.section = PAST_THE_PAPER
    return tables + ours


def _placed(place: str, title: str) -> str:
    return f"{place}: {title}" if place else title


def _where_compared(results: PaperResults, dataset: str, verdict: Verdict) -> Verdict:
    """A verdict only where the run and the data are those of the paper."""
    if results.quick or not results.plan.datasets[dataset].compare:
        return Verdict(NOT_COMPARED, "plain")
    return verdict


def _not_run(results: PaperResults, dataset: str) -> str:
    return f"Not run: {results.missing.get(dataset, 'another data set was asked for')}."


# -- facts about the data ---------------------------------------------------------------------------------------------


def _statistics(results: PaperResults, statistics: Statistics, number: int) -> Table:
    facts = list(dict.fromkeys(fact for printed in statistics.printed.values() for fact in printed))
    key = "statistics" if number == 1 else f"statistics-{number}"
    table = Table(_placed(statistics.place, statistics.title), ["data set", *facts], key=key)
    for dataset, printed in statistics.printed.items():
        data = results.plan.datasets[dataset]
        known = results.data.get(dataset, {}).get("statistics", {})
        cells = [Cell(data.title, data.said)]
        for fact in facts:
            theirs, ours = printed.get(fact), known.get(fact)
            text = "–" if ours is None else f"{ours:,}"
            if theirs is None:
                cells.append(Cell(text))
                continue
            verdict = Verdict("the same", "good")
            if ours is None:
                verdict = Verdict("not run", "plain")
            elif ours != theirs:
                verdict = _where_compared(results, dataset, Verdict("differs", "bad"))
            place = f"{statistics.place}, {data.title}, {fact}"
            cells.append(Cell(text, f"paper {theirs:,}, {verdict.text}", place, verdict.tone))
            table.records.append(
                {"dataset": dataset, "fact": fact, "ours": ours, "paper": theirs, "verdict": verdict.text}
            )
        table.rows.append(cells)
    return table


# -- models and printed numbers ---------------------------------------------------------------------------------------


def _table(results: PaperResults, spec: PaperTable) -> Table:
    plan = results.plan
    by_dataset = len(spec.datasets) > 1
    columns = [(dataset, measure) for dataset in spec.datasets for measure in spec.measures]
    titles = [plan.datasets[d].title if by_dataset else _with_unit(results, m) for d, m in columns]
    with_params = any(row.params for row in spec.rows)
    head = ["model", *["Params"] * with_params, *titles, *["learning s"] * spec.seconds, *["chosen"] * spec.chosen]
    table = Table(_placed(spec.place, spec.title), head, key=spec.key)
    table.notes += [note for note in (spec.note, *(plan.datasets[d].said for d in spec.datasets)) if note]
    absent = [dataset for dataset in spec.datasets if dataset not in results.data]
    if by_dataset and absent:
        table.notes.append(f"Not run: {', '.join(plan.datasets[dataset].title for dataset in absent)}.")
    elif absent:
        table.notes.append(_not_run(results, absent[0]))
    table.has_numbers = len(absent) < len(spec.datasets)
    for row in spec.rows:
        title, reason = _named(results, row)
        cells = [Cell(f"{title}: {reason}" if reason else title)]
        cells += [Cell(row.params or "–")] if with_params else []
        for dataset, measure in columns:
            where = plan.datasets[dataset].title if by_dataset else plan.measures[measure].title
            name = dataset if by_dataset else measure
            printed, plus_minus = row.printed.get(name), row.plus_minus.get(name)
            if measure == "density" and spec.dictionary_size and "memory" in row.printed:
                size = spec.dictionary_size
                printed = entries_of_megabytes(row.printed["memory"], size) / size**2
                where += ", read off the memory"
            place = "" if printed is None else f"{spec.place}, {title}, {where}"
            cell, numbers = _beside_printed(
                results, row.dataset or dataset, row.model, measure, printed, plus_minus, place
            )
            cells.append(cell)
            record = {"dataset": row.dataset or dataset, "model": title, "measure": measure} | numbers
            record |= {"params": row.params} if with_params else {}
            table.records.append(record | ({"reason": reason} if reason else {}))
        if spec.seconds:
            cells.append(_seconds(results, row.dataset or spec.datasets[0], row.model))
        if spec.chosen:
            cells.append(Cell(settings_chosen(results, row.dataset or spec.datasets[0], row.model) or "–"))
        table.rows.append(cells)
    return table


def _with_unit(results: PaperResults, measure: str) -> str:
    title, unit = results.plan.measures[measure].title, results.plan.measures[measure].unit
    return title + (f" ({unit})" if unit not in ("", "%") else "")


def _named(results: PaperResults, row: Row) -> tuple[str, str]:
    """The title of a row, and why it has no numbers where there is a reason."""
    if not row.model:
        return row.title, row.reason
    plan = results.plan
    return row.title or plan.model(row.model).title, results.unavailable.get(plan.method_of(row.model).key, "")


def _beside_printed(
    results: PaperResults,
    dataset: str,
    model: str,
    name: str,
    printed: float | None,
    plus_minus: float | None,
    place: str,
) -> tuple[Cell, dict[str, Any]]:
    """Ours, one value for each seed, beside the paper's number; and the same for CSV and JSON."""
    measure = results.plan.measures[name]
    values = results.values(dataset, model, name) if model else []
    error = results.standard_error(dataset, model, name) if values else None
    record: dict[str, Any] = {
        "ours": float(np.mean(values)) if values else None,
        "half_range": (max(values) - min(values)) / 2 if values else None,
        "standard_error": error,
        "seeds": len(values),
        "paper": printed,
        "paper_plus_minus": plus_minus,
        "place": place,
        "difference": None,
        "tolerance": None if printed is None else measure.tolerance_for(printed),
        "verdict": "",
    }
    theirs = "" if printed is None else f"paper {with_plus_minus(printed, plus_minus, measure)}"
    if not values:
        return Cell("–", theirs, place), record
    mean = record["ours"]
    text = mean_and_half_range(values, measure)
    if measure.spread == "standard error" and error is not None:
        text = with_plus_minus(mean, error, measure)
    if printed is None:
        return Cell(text), record
    verdict = _where_compared(results, dataset, compare(mean, printed, measure))
    record |= {"difference": mean - printed, "verdict": verdict.text}
    detail = theirs
    if verdict.text != NOT_COMPARED:
        detail += f", {signed(mean - printed, measure, like=printed)}, {verdict.text}"
    return Cell(text, detail, place, verdict.tone), record


def _seconds(results: PaperResults, dataset: str, model: str) -> Cell:
    """Seconds of learning of the fastest seed; says where the budget cut it short."""
    seconds = results.values(dataset, model, "seconds") if model else []
    method = results.plan.method_of(model) if seconds else None
    if method is None or not _learns(results, dataset, method):
        return Cell("–")
    cut = [cell["facts"] for cells in results.runs(dataset, model) for cell in cells if cell.get("cut")]
    how_far = f"cut short after {cut[0].get('n_steps_', 0):,} of {method.preferences:,} steps" if cut else ""
    if cut and method.blend:
        how_far = "blended from a model that was cut short"
    return Cell(f"{min(seconds):.1f}", how_far, tone="bad" if cut else "plain")


def _learns(results: PaperResults, dataset: str, method: Method) -> bool:
    """Whether a method takes time that is worth telling; cosine similarity, say, does not."""
    needs_classes = method.ranker in CLASSIFIERS
    return bool(results.has_folds(dataset) or method.preferences or method.parallel or method.blend or needs_classes)


def settings_chosen(results: PaperResults, dataset: str, model: str) -> str:
    """What was searched for or chosen with the first seed; a value for each fold where they differ.

    As in "rate 0.5 1 1 2 1, l1 64".
    """
    facts = results.first_facts(dataset, model)
    if not facts:
        return ""
    first = facts[0]
    parts = [f"l1 {first['l1_']:.3g} after {first['n_fits_']} fits"] if first.get("n_fits_", 0) > 1 else []
    for name in first.get("chosen", {}):
        values = [short(fold["chosen"][name]) for fold in facts]
        parts.append(f"{name} {values[0] if len(set(values)) == 1 else ' '.join(values)}")
    parts += [f"{title} {short(first[name])}" for name, title in _FOUND.items() if name in first]
    return ", ".join(parts)


# -- orderings and paired tests ---------------------------------------------------------------------------------------


def _claims(results: PaperResults) -> Table:
    head = ["ordering", "data set", "measure", "difference", "verdict"]
    table = Table("Orderings the paper states", head, key="orderings")
    table.notes.append(
        "Better minus worse with paired 95 % intervals (t) by query, seeds taken together; an ordering holds when the "
        "whole interval is on its side. What is no measure of queries, such as memory, is compared by seed, and with "
        "folds it holds when it does in every one. Where several are said to be worse, against the one of them that "
        "does best here."
    )
    for claim in results.plan.claims:
        for dataset in claim.datasets:
            for measure in claim.measures:
                if all(results.values(dataset, model, measure) for model in (claim.better, *claim.worse)):
                    cells, record = _claim(results, claim, dataset, measure)
                    table.rows.append(cells)
                    table.records.append(record)
    table.has_numbers = bool(table.rows)
    return table


def _claim(results: PaperResults, claim: Claim, dataset: str, name: str) -> tuple[list[Cell], dict[str, Any]]:
    """What is said to be better against what is said to be worse, with the interval of their difference."""
    plan, measure = results.plan, results.plan.measures[name]
    seeds = results.common_seeds(dataset, (claim.better, *claim.worse))
    means = {
        model: float(np.mean(results.values(dataset, model, name)[:seeds])) for model in (claim.better, *claim.worse)
    }
    rival = (max if measure.higher_is_better else min)(claim.worse, key=lambda model: means[model])
    better, worse = means[claim.better], means[rival]
    titles = f"{plan.model(claim.better).title} against {plan.model(rival).title}"
    titles += f", the best of {len(claim.worse)}" if len(claim.worse) > 1 else ""
    digits = max(measure.digits, min(measure.digits + 1, 4))
    difference = signed(better - worse, measure, digits)
    detail = f"{shown(better, measure, digits)} against {shown(worse, measure, digits)}"
    test, verdict = _claim_test(results, claim.better, rival, dataset, name)
    if test is not None:
        difference += f" ({signed(test.low, measure, digits)} to {signed(test.high, measure, digits)})"
        detail += f", n = {test.n:,}"
    gain = 100 * (better / worse - 1) if worse else None
    if dataset in claim.printed and gain is not None:
        detail += f"; {gain:+.2f} %, paper {claim.printed[dataset]:+.2f} %"
    if results.quick:
        verdict = Verdict(NOT_COMPARED, "plain")
    cells = [Cell(claim.text, titles, claim.place), Cell(plan.datasets[dataset].title), Cell(measure.title)]
    cells += [Cell(difference, detail), Cell(verdict.text, tone=verdict.tone)]
    record = {
        "ordering": claim.text,
        "place": claim.place,
        "dataset": dataset,
        "measure": name,
        "better": better,
        "worse": worse,
        "low": None if test is None else test.low,
        "high": None if test is None else test.high,
        "n": None if test is None else test.n,
        "verdict": verdict.text,
        "against": rival,
        "gain_percent": gain,
        "paper_percent": claim.printed.get(dataset),
    }
    return cells, record


def _claim_test(
    results: PaperResults, better: str, worse: str, dataset: str, name: str
) -> tuple[PairedTest | None, Verdict]:
    """By query; what has no value of each query by seed, or in every fold."""
    measure = results.plan.measures[name]
    if results.has_folds(dataset) and not results.is_by_query(dataset, better, name):
        first, second = (results.by_fold(dataset, model, name).mean(axis=0) for model in (better, worse))
        gains = (first - second) * (1 if measure.higher_is_better else -1)
        return None, judge_folds(gains.tolist())
    test = results.paired(dataset, better, worse, name)
    if test is None:
        return None, Verdict("one seed: no interval", "plain")
    return test, judge_claim(test, measure)


def _paired_tests(results: PaperResults, tests: PairedTests) -> Table:
    plan, dataset = results.plan, tests.dataset
    head = ["models", "measure", "difference", "95 % interval", "p", "p, Holm"]
    table = Table(f"{tests.title}, {plan.datasets[dataset].title}", head, key=tests.key)
    if dataset not in results.data:
        table.has_numbers = False
        table.notes.append(_not_run(results, dataset))
        return table
    pairs = list(combinations(tests.models, 2))
    if tests.against:
        pairs = [(model, tests.against) for model in tests.models if model != tests.against]
    pairs = [pair for pair in pairs if all(results.runs(dataset, model) for model in pair)]
    done: list[tuple[str, str, str, PairedTest]] = []
    for name in tests.measures:
        for a, b in pairs:
            first, second = (results.by_query(dataset, model, name) for model in (a, b))
            done.append((a, b, name, paired_test(first, second, tests.test)))
    corrected = holm([test.p_value for *_, test in done]).tolist() if done else []
    table.notes += _notes_on_tests(results, tests, len(done))
    for (a, b, name, test), p in zip(done, corrected, strict=True):
        measure = plan.measures[name]
        difference, low, high = (signed(value, measure, 4) for value in (test.difference, test.low, test.high))
        is_better = (test.difference > 0) == measure.higher_is_better
        verdict = Verdict(f"{p:.3g}", "plain" if p >= 0.05 else "good" if is_better else "bad")
        titles = f"{plan.model(a).title} − {plan.model(b).title}"
        cells = [Cell(titles), Cell(measure.title), Cell(difference), Cell(f"{low} to {high}")]
        table.rows.append([*cells, Cell(f"{test.p_value:.3g}"), Cell(verdict.text, tone=verdict.tone)])
        table.records.append(
            {"first": a, "second": b, "measure": name, "difference": test.difference, "low": test.low}
            | {"high": test.high, "p": test.p_value, "p_holm": p, "n": test.n, "test": test.method}
        )
    table.has_numbers = bool(table.rows)
    return table


def _notes_on_tests(results: PaperResults, tests: PairedTests, n_tests: int) -> list[str]:
    plan, dataset = results.plan, tests.dataset
    interval = {"permutation": "bootstrap", "wilcoxon": "Student's"}[tests.test]
    notes = [
        f"The first minus the second over the {len(results.data[dataset]['queries'])} test queries of all folds, with "
        f"paired {interval} intervals; p of a two-sided paired {tests.test} test, and with Holm's correction for "
        f"the {n_tests} tests of this table."
    ]
    if tests.against and results.runs(dataset, tests.against):
        errors = [(plan.measures[m].title, results.standard_error(dataset, tests.against, m)) for m in tests.measures]
        listed = ", ".join(f"{title} {error:.4f}" for title, error in errors if error is not None)
        notes.append(f"Standard errors of {plan.model(tests.against).title} alone: {listed}.")
    return notes


# -- words ------------------------------------------------------------------------------------------------------------


def _words(results: PaperResults, words: Words) -> Table:
    plan = results.plan
    head = ["query word", "ours", "paper", "shared"]
    table = Table(_placed(words.place, words.title), head, key=words.key)
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
        place = f"{words.place}, {word}"
        table.rows.append([Cell(word), Cell(line), Cell(" ".join(printed), source=place), count])
        table.records.append({"word": word, "ours": " ".join(ours), "paper": " ".join(printed), "shared": len(shared)})
    return table


# -- past the paper ---------------------------------------------------------------------------------------------------


def _ceilings(results: PaperResults, tradeoff: TradeOff) -> Table:
    """How far the choice on validation is from the best there was to choose."""
    plan, dataset, measure = results.plan, tradeoff.dataset, results.plan.measures[tradeoff.measure]
    head = ["model", "settings", "chosen on validation", "one setting, picked on test", "each fold's, picked on test"]
    title = f"What choosing costs, {measure.title}, {plan.datasets[dataset].title}"
    table = Table(title, head, key=f"{tradeoff.key}-ceilings")
    table.notes.append(
        "The last two columns look at the test parts and are no results: they say what no choice from the same "
        "settings can pass, with the same setting in all folds or another in each."
    )
    for model in tradeoff.models:
        runs = results.runs(dataset, model)
        settings = settings_tested(runs[0]) if runs else []
        if settings:
            chosen = results.values(dataset, model, tradeoff.measure)[0]
            one = max(setting["value"] for setting in settings)
            by_fold = float(np.mean([max(point["test"] for point in cell["grid"]) for cell in runs[0]]))
            name = plan.model(model).title
            numbers = [Cell(shown(value, measure)) for value in (chosen, one, by_fold)]
            table.rows.append([Cell(name), Cell(str(len(settings))), *numbers])
            table.records.append(
                {"model": name, "settings": len(settings), "chosen": chosen}
                | {"one_on_test": one, "each_on_test": by_fold}
            )
    table.has_numbers = bool(table.rows)
    return table


def settings_tested(cells: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Every setting that gave a ranker in all folds: features used and the measure on the test parts, means."""
    by_setting: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        for point in cell["grid"]:
            if "test" in point:
                by_setting.setdefault(repr(sorted(point["parameters"].items())), []).append(point)
    return [
        {"used": float(np.mean([p["used"] for p in points])), "value": float(np.mean([p["test"] for p in points]))}
        for points in by_setting.values()
        if len(points) == len(cells)
    ]


def _targets(results: PaperResults) -> Table:
    plan = results.plan
    head = ["model", "data set", "measure", "ours", "verdict"]
    table = Table("Our own targets, each held against the worst seed", head, key="targets")
    for target in plan.targets:
        measure, values = plan.measures[target.measure], results.values(target.dataset, target.model, target.measure)
        times = ""
        if target.times:
            others = results.values(target.dataset, target.times, target.measure)
            values = [ours / float(np.mean(others)) for ours in values if others]
            times = f" times {plan.model(target.times).title}"
        if not values:
            continue
        verdict = Verdict(NOT_COMPARED, "plain") if results.quick else judge_target(values, target, measure)
        bound = f"≥ {target.at_least:g}" if target.at_least is not None else f"≤ {target.at_most:g}"
        title = plan.model(target.model).title
        cells = [Cell(title), Cell(plan.datasets[target.dataset].title), Cell(measure.title)]
        cells += [Cell(mean_and_half_range(values, measure))]
        table.rows.append([*cells, Cell(f"{verdict.text}, target {bound}{times}", tone=verdict.tone)])
        table.records.append(
            {"model": title, "dataset": target.dataset, "measure": target.measure, "values": values}
            | {"target": bound + times, "verdict": verdict.text}
        )
    table.has_numbers = bool(table.rows)
    return table
