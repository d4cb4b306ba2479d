"""Tables of a plan of feature vectors."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from tercet.measure import PairedTest, holm, paired_test
from tercet.repro.features.cost_sheets import cost_sheet
from tercet.repro.features.measuring import OF_THE_RANKER
from tercet.repro.features.plan import Claim, Comparison, Method, Row, Table, TradeOff
from tercet.repro.features.runner import FeatureResults
from tercet.repro.sheet import (
    ORDERING_HEAD,
    Cell,
    Sheet,
    beside_printed,
    not_run,
    ordering_row,
    signed,
    statistics_sheet,
    target_cell,
)
from tercet.repro.verdicts import Verdict, mean_and_half_range, shown


def make_sheets(results: FeatureResults) -> list[Sheet]:
    """Every table of the plan: statistics, tables of the paper, orderings, paired tests, then our own."""
    plan = results.plan
    sheets = [statistics_sheet(results, each, at) for at, each in enumerate(plan.statistics, 1)]
    sheets += [_table(results, table) for table in plan.tables if table.kind == "paper"]
    sheets += [_claims(results)] if plan.claims else []
    sheets += [_comparison(results, each) for each in plan.comparisons]
    sheets += [cost_sheet(results, each) for each in plan.costs]
    ours = [_table(results, table) for table in plan.tables if table.kind == "ours"]
    ours += [_ceilings(results, each) for each in plan.tradeoffs if each.dataset in results.data]
    ours += [_targets(results)] if plan.targets else []
    for sheet in ours:
        sheet.past_the_paper = True
    return sheets + ours


def full_title(method: Method) -> str:
    """The title, and how the parameters were chosen where that is not the rule."""
    return method.title + (", by cross-validation" if method.choose_on == "cross-validation" else "")


def settings_chosen(results: FeatureResults, dataset: str, method: str) -> str:
    """What was chosen in each split with the first seed; a value for each where they differ.

    As in "rate 0.5 1 1 2 1, l1 64".
    """
    runs = results.runs(dataset, method)
    if not runs:
        return ""
    parts = []
    for name in runs[0][0]["chosen"]:
        values = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in _chosen(runs[0], name)]
        parts.append(f"{name} {values[0] if len(set(values)) == 1 else ' '.join(values)}")
    return ", ".join(parts)


def _chosen(cells: list[dict[str, Any]], name: str) -> list[Any]:
    return [cell["chosen"][name] for cell in cells]


def _table(results: FeatureResults, table: Table) -> Sheet:
    plan = results.plan
    sheet = Sheet(table.key, f"{table.place}: {table.title}" if table.place else table.title, ["method"])
    by_dataset = len(table.datasets) > 1
    columns = [(dataset, measure) for dataset in table.datasets for measure in table.measures]
    sheet.head += [plan.datasets[d].title if by_dataset else plan.measures[m].title for d, m in columns]
    sheet.head += ["chosen in each fold"] * table.chosen
    sheet.notes += [note for note in (table.note, *(plan.datasets[d].note for d in table.datasets)) if note]
    absent = [dataset for dataset in table.datasets if dataset not in results.data]
    if by_dataset and absent:
        sheet.notes.append(f"Not run: {', '.join(plan.datasets[dataset].title for dataset in absent)}.")
    elif absent:
        sheet.notes.append(not_run(results, absent[0]))
    sheet.has_numbers = any(dataset in results.data for dataset in table.datasets)
    for row in table.rows:
        title, reason = _named(results, row)
        cells = [Cell(f"{title}: {reason}" if reason else title)]
        for dataset, measure in columns:
            printed = row.printed.get(dataset if by_dataset else measure)
            values = results.values(dataset, row.method, measure) if row.method else []
            error = results.standard_error(dataset, row.method, measure) if values else None
            where = plan.datasets[dataset].title if by_dataset else plan.measures[measure].title
            place = "" if printed is None else f"{table.place}, {title}, {where}"
            cell, numbers = beside_printed(results, dataset, plan.measures[measure], values, error, printed, place)
            cells.append(cell)
            record = {"dataset": dataset, "method": title, "measure": measure} | numbers
            sheet.records.append(record | ({"reason": reason} if reason else {}))
        if table.chosen:
            cells.append(Cell(settings_chosen(results, table.datasets[0], row.method) or "–"))
        sheet.rows.append(cells)
    return sheet


def _named(results: FeatureResults, row: Row) -> tuple[str, str]:
    """The title of a row, and why it has no numbers where there is a reason."""
    if not row.method:
        return row.title, row.reason
    return row.title or full_title(results.plan.method(row.method)), results.unavailable.get(row.method, "")


def _claims(results: FeatureResults) -> Sheet:
    sheet = Sheet("orderings", "Orderings the paper states", list(ORDERING_HEAD))
    sheet.notes.append(
        "Better minus worse with paired 95 % intervals (t) by query; an ordering holds when the whole interval is on "
        "its side. For features used and seconds it holds when it does in every fold. Where several are said to be "
        "worse, against the one of them that does best here."
    )
    for claim in results.plan.claims:
        for dataset in claim.datasets:
            for measure in claim.measures:
                if all(results.values(dataset, method, measure) for method in (claim.better, *claim.worse)):
                    cells, record = _claim(results, claim, dataset, measure)
                    sheet.rows.append(cells)
                    sheet.records.append(record)
    sheet.has_numbers = bool(sheet.rows)
    return sheet


def _claim(results: FeatureResults, claim: Claim, dataset: str, name: str) -> tuple[list[Cell], dict[str, Any]]:
    plan, measure = results.plan, results.plan.measures[name]
    means = {method: float(np.mean(results.values(dataset, method, name))) for method in (claim.better, *claim.worse)}
    best = (max if measure.higher_is_better else min)(claim.worse, key=lambda method: means[method])
    titles = f"{plan.method(claim.better).title} against {plan.method(best).title}"
    titles += f", the best of {len(claim.worse)}" if len(claim.worse) > 1 else ""
    is_own = measure.name in OF_THE_RANKER
    test = None if is_own else _paired(results, dataset, claim.better, best, name)
    better, worse = means[claim.better], means[best]
    cells, record = ordering_row(results, claim, titles, dataset, name, better, worse, test, measure.digits, "fold")
    if is_own and not results.quick:
        verdict = _in_every_fold(results, dataset, claim.better, best, name)
        cells[4] = Cell(verdict.text, tone=verdict.tone)
        record["verdict"] = verdict.text
    gain = 100 * (better / worse - 1) if worse else None
    if dataset in claim.printed and gain is not None:
        detail = f"{cells[3].detail}; {gain:+.2f} %, paper {claim.printed[dataset]:+.2f} %"
        cells[3] = Cell(cells[3].text, detail)
    return cells, record | {"against": best, "gain_percent": gain, "paper_percent": claim.printed.get(dataset)}


def _paired(results: FeatureResults, dataset: str, a: str, b: str, name: str) -> PairedTest | None:
    first, second = (results.by_query(dataset, method, name) for method in (a, b))
    return paired_test(first, second) if len(first) > 1 else None


def _in_every_fold(results: FeatureResults, dataset: str, better: str, worse: str, name: str) -> Verdict:
    first, second = (results.by_split(dataset, method, name).mean(axis=0) for method in (better, worse))
    gains = (first - second) * (1 if results.plan.measures[name].higher_is_better else -1)
    if (gains > 0).all():
        return Verdict("holds in every fold", "good")
    if (gains < 0).all():
        return Verdict("the opposite holds in every fold", "bad")
    return Verdict(f"holds in {int((gains > 0).sum())} of {len(gains)} folds", "plain")


def _comparison(results: FeatureResults, comparison: Comparison) -> Sheet:
    plan, dataset = results.plan, comparison.dataset
    head = ["methods", "measure", "difference", "95 % interval", "p", "p, Holm"]
    sheet = Sheet(comparison.key, f"{comparison.title}, {plan.datasets[dataset].title}", head)
    if dataset not in results.data:
        sheet.has_numbers = False
        sheet.notes.append(not_run(results, dataset))
        return sheet
    pairs = list(combinations(comparison.methods, 2))
    if comparison.against:
        pairs = [(method, comparison.against) for method in comparison.methods if method != comparison.against]
    pairs = [pair for pair in pairs if all(results.runs(dataset, method) for method in pair)]
    done: list[tuple[str, str, str, PairedTest]] = []
    for name in comparison.measures:
        for a, b in pairs:
            first, second = (results.by_query(dataset, method, name) for method in (a, b))
            done.append((a, b, name, paired_test(first, second, comparison.test)))
    corrected = holm([test.p_value for *_, test in done]).tolist() if done else []
    interval = {"permutation": "bootstrap", "wilcoxon": "Student's"}[comparison.test]
    sheet.notes.append(
        f"The first minus the second over the {len(results.data[dataset]['queries'])} test queries of all folds, with "
        f"paired {interval} intervals; p of a two-sided paired {comparison.test} test, and with Holm's correction for "
        f"the {len(done)} tests of this table."
    )
    if comparison.against and results.runs(dataset, comparison.against):
        errors = (
            f"{plan.measures[name].title} {results.standard_error(dataset, comparison.against, name):.4f}"
            for name in comparison.measures
            if results.standard_error(dataset, comparison.against, name) is not None
        )
        sheet.notes.append(f"Standard errors of {plan.method(comparison.against).title} alone: {', '.join(errors)}.")
    for (a, b, name, test), p in zip(done, corrected, strict=True):
        measure = plan.measures[name]
        difference, low, high = (signed(value, measure, 4) for value in (test.difference, test.low, test.high))
        tone = "plain" if p >= 0.05 else ("good" if (test.difference > 0) == measure.higher_is_better else "bad")
        titles = f"{full_title(plan.method(a))} − {full_title(plan.method(b))}"
        cells = [Cell(titles), Cell(measure.title), Cell(difference), Cell(f"{low} to {high}")]
        sheet.rows.append([*cells, Cell(f"{test.p_value:.3g}"), Cell(f"{p:.3g}", tone=tone)])
        sheet.records.append(
            {"first": a, "second": b, "measure": name, "difference": test.difference, "low": test.low}
            | {"high": test.high, "p": test.p_value, "p_holm": p, "n": test.n, "test": test.method}
        )
    sheet.has_numbers = bool(sheet.rows)
    return sheet


def _ceilings(results: FeatureResults, tradeoff: TradeOff) -> Sheet:
    """How far the choice on validation is from the best there was to choose."""
    plan, dataset, measure = results.plan, tradeoff.dataset, results.plan.measures[tradeoff.measure]
    head = ["method", "settings", "chosen on validation", "one setting, picked on test", "each fold's, picked on test"]
    title = f"What choosing costs, {measure.title}, {plan.datasets[dataset].title}"
    sheet = Sheet(f"{tradeoff.key}-ceilings", title, head)
    sheet.notes.append(
        "The last two columns look at the test parts and are no results: they say what no choice from the same "
        "settings can pass, with the same setting in all folds or another in each."
    )
    for method in tradeoff.methods:
        runs = results.runs(dataset, method)
        settings = settings_tested(runs[0]) if runs else []
        if settings:
            chosen = float(np.mean(results.values(dataset, method, tradeoff.measure)[0]))
            one = max(setting["value"] for setting in settings)
            each = float(np.mean([max(point["test"] for point in cell["grid"]) for cell in runs[0]]))
            title = full_title(plan.method(method))
            numbers = [Cell(shown(value, measure)) for value in (chosen, one, each)]
            sheet.rows.append([Cell(title), Cell(str(len(settings))), *numbers])
            sheet.records.append(
                {"method": title, "settings": len(settings), "chosen": chosen, "one_on_test": one, "each_on_test": each}
            )
    sheet.has_numbers = bool(sheet.rows)
    return sheet


def settings_tested(cells: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Every setting that gave a ranker in all splits: features used and the measure on the test parts, means."""
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


def _targets(results: FeatureResults) -> Sheet:
    plan = results.plan
    title = "Our own targets, means over the test parts, each held against the worst seed"
    sheet = Sheet("targets", title, ["method", "data set", "measure", "ours", "verdict"])
    for target in plan.targets:
        measure, values = plan.measures[target.measure], results.values(target.dataset, target.method, target.measure)
        if not values:
            continue
        cell, judged = target_cell(results, values, target, measure)
        method = full_title(plan.method(target.method))
        cells = [Cell(method), Cell(plan.datasets[target.dataset].title), Cell(measure.title)]
        sheet.rows.append([*cells, Cell(mean_and_half_range(values, measure)), cell])
        sheet.records.append(
            {"method": method, "dataset": target.dataset, "measure": target.measure, "values": values} | judged
        )
    sheet.has_numbers = bool(sheet.rows)
    return sheet
