"""Tables as values: the console, text and CSV files and the page all show these."""

from __future__ import annotations

from typing import Any

import numpy as np

from tercet.repro.learners import RIVALS
from tercet.repro.measuring import entries_of_megabytes
from tercet.repro.plan import Claim, Table, Words
from tercet.repro.runner import Results
from tercet.repro.sheet import (
    ORDERING_HEAD,
    Cell,
    Sheet,
    beside_printed,
    not_run,
    ordering_row,
    statistics_sheet,
    target_cell,
)
from tercet.repro.verdicts import (
    claim_test,
    mean_and_half_range,
    standard_error,
)

_CHOOSERS = ("LSIRanker", "QueryExpansion")  # choose something by themselves
_FOUND = {
    "n_components_": "N",
    "alpha_": "alpha",
    "beta_": "beta",
    "n_expanded_": "E",
    "amount_": "amount of the second",
}


def make_sheets(results: Results) -> list[Sheet]:
    """Every table of the plan, in its order: statistics, tables of the paper, orderings, words, then our own."""
    plan = results.plan
    sheets = [statistics_sheet(results, each, at) for at, each in enumerate(plan.statistics, 1)]
    sheets += [_table(results, table) for table in plan.tables if table.kind == "paper"]
    sheets += [_claims(results)] if plan.claims else []
    sheets += [_words(results, words) for words in plan.words]
    ours = [_table(results, table) for table in plan.tables if table.kind == "ours"]
    ours += [_targets(results)] if plan.targets else []
    for sheet in ours:
        sheet.past_the_paper = True
    return sheets + ours


def _table(results: Results, table: Table) -> Sheet:
    plan = results.plan
    sheet = Sheet(table.key, f"{table.place}: {table.title}" if table.place else table.title, ["model"])
    fits = [plan.fit_of(row.model) for row in table.rows if row.model]
    searched = any(fit.reuse or fit.choose or fit.blend or fit.ranker in _CHOOSERS for fit in fits)
    sheet.head += [_with_unit(results, name) for name in table.measures] + ["learning s"] + ["found"] * searched
    sheet.notes += [note for note in (table.note, plan.datasets[table.dataset].note) if note]
    if table.dataset not in results.data:
        sheet.notes.append(not_run(results, table.dataset))
        sheet.has_numbers = False
    for row in table.rows:
        dataset = row.dataset or table.dataset
        title = row.title or plan.model(row.model).title
        cells = [Cell(f"{title}: {row.reason}" if row.reason else title)]
        for name in table.measures:
            printed = row.printed(name)
            if name == "density" and table.dictionary_size and row.memory is not None:
                printed = entries_of_megabytes(row.memory, table.dictionary_size) / table.dictionary_size**2
            cell, record = _compared(results, table, dataset, row.model, title, name, printed)
            cells.append(cell)
            sheet.records.append(record | ({"reason": row.reason} if row.reason else {}))
        cells.append(_time(results, dataset, row.model))
        if searched:
            cells.append(Cell(_found(results, dataset, row.model) or "–"))
        sheet.rows.append(cells)
    return sheet


def _time(results: Results, dataset: str, model: str) -> Cell:
    """Seconds of learning of the fastest seed; says where the budget cut it short."""
    seconds = results.values(dataset, model, "seconds") if model else []
    if not seconds:
        return Cell("–")
    fit = results.plan.fit_of(model)
    if not (fit.preferences or fit.mates or fit.blend or fit.ranker in RIVALS):
        return Cell("–")
    cut = [cell["facts"] for cell in results.fits[dataset, fit.key] if cell.get("cut")]
    done = f"cut short after {cut[0].get('n_steps_', 0):,} of {fit.preferences:,} steps" if cut else ""
    if cut and fit.blend:
        done = "blended from a model that was cut short"
    return Cell(f"{min(seconds):.1f}", done, tone="bad" if cut else "plain")


def _found(results: Results, dataset: str, model: str) -> str:
    """What the first seed searched for or chose, in a few words."""
    if not model:
        return ""
    cells = results.fits.get((dataset, results.plan.fit_of(model).key), [])
    if not cells:
        return ""
    facts = cells[0]["facts"]
    found = [f"l1 {facts['l1_']:.3g} after {facts['n_fits_']} fits"] if facts.get("n_fits_", 0) > 1 else []
    named = facts.get("chosen", {}) | {title: facts[name] for name, title in _FOUND.items() if name in facts}
    found += [f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in named.items()]
    return ", ".join(found)


def _with_unit(results: Results, name: str) -> str:
    measure = results.plan.measures[name]
    return measure.title + (f" ({measure.unit})" if measure.unit not in ("", "%") else "")


def _compared(
    results: Results, table: Table, dataset: str, model: str, title: str, name: str, printed: float | None
) -> tuple[Cell, dict[str, Any]]:
    """Ours beside the paper's number."""
    measure, values = results.plan.measures[name], results.values(dataset, model, name) if model else []
    error = standard_error(results, dataset, model, name) if values else None
    derived = ", read off the memory" if name == "density" and table.dictionary_size else ""
    place = "" if printed is None else f"{table.place}, {title}, {measure.title}{derived}"
    record = {"dataset": dataset, "model": title, "measure": name}
    cell, numbers = beside_printed(results, dataset, measure, values, error, printed, place)
    return cell, record | numbers


def _claims(results: Results) -> Sheet:
    plan = results.plan
    sheet = Sheet("orderings", "Orderings the paper states", list(ORDERING_HEAD))
    sheet.notes.append(
        "Better minus worse with paired 95 % intervals (t): MAP, P@10 and error by query, seeds taken together; "
        "density and memory by seed. An ordering holds when the whole interval is on its side."
    )
    for claim in plan.claims:
        for dataset in claim.datasets:
            if all(results.cells(dataset, model) for model in (claim.better, claim.worse)):
                for name in claim.measures:
                    cells, record = _claim(results, claim, dataset, name)
                    sheet.rows.append(cells)
                    sheet.records.append(record)
    return sheet


def _claim(results: Results, claim: Claim, dataset: str, name: str) -> tuple[list[Cell], dict[str, Any]]:
    plan, measure = results.plan, results.plan.measures[name]
    digits = measure.digits + (1 if name in ("map", "p10", "error") else 0)
    models = claim.better, claim.worse
    seeds = min(len(results.cells(dataset, model)) for model in models)
    better, worse = (float(np.mean(results.values(dataset, model, name)[:seeds])) for model in models)
    test = claim_test(results, claim, dataset, name)
    titles = f"{plan.model(claim.better).title} against {plan.model(claim.worse).title}"
    return ordering_row(results, claim, titles, dataset, name, better, worse, test, digits)


def _words(results: Results, words: Words) -> Sheet:
    plan = results.plan
    sheet = Sheet(words.key, f"{words.place}: {words.title}", ["query word", "ours", "paper", "shared"])
    source = f"{plan.model(words.model).title}, {plan.datasets[words.dataset].title}"
    sheet.notes.append(f"{source}, the first seed." if words.of == "weights" else f"The word map of {source}.")
    cells = results.fits.get((words.dataset, plan.fit_of(words.model).key), [])
    if not cells:
        sheet.notes.append(not_run(results, words.dataset))
        sheet.has_numbers = False
    found = cells[0]["related"].get(words.model, {}) if cells else {}
    for word, printed in words.printed.items():
        ours = [other for other, _ in found.get(word, [])]
        shared = [other for other in ours if other in printed]
        place = f"{words.place}, {word}"
        text = f"{len(shared)} of {len(printed)}" if cells else "–"
        line = " ".join(ours) or ("not among our words" if cells else "–")
        sheet.rows.append([Cell(word), Cell(line), Cell(" ".join(printed), place=place), Cell(text, " ".join(shared))])
        sheet.records.append({"word": word, "ours": " ".join(ours), "paper": " ".join(printed), "shared": len(shared)})
    return sheet


def _targets(results: Results) -> Sheet:
    plan = results.plan
    title = "Our own targets, each held against the worst seed"
    sheet = Sheet("targets", title, ["model", "data set", "measure", "ours", "verdict"])
    for target in plan.targets:
        measure, values = plan.measures[target.measure], results.values(target.dataset, target.model, target.measure)
        times = ""
        if target.times:
            others = results.values(target.dataset, target.times, target.measure)
            values = [ours / float(np.mean(others)) for ours in values if others]
            times = f" times {plan.model(target.times).title}"
        if not values:
            continue
        cell, judged = target_cell(results, values, target, measure, times)
        model = plan.model(target.model).title
        cells = [Cell(model), Cell(plan.datasets[target.dataset].title), Cell(measure.title)]
        cells += [Cell(mean_and_half_range(values, measure)), cell]
        sheet.rows.append(cells)
        sheet.records.append(
            {"model": model, "dataset": target.dataset, "measure": target.measure, "values": values} | judged
        )
    sheet.has_numbers = bool(sheet.rows)
    return sheet
