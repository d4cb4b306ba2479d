"""Tables of a run: statistics, those of the paper, orderings, paired tests, words, then our own."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from reproductions.claims import PairDecisions, claims_table, not_run, paired_table
from reproductions.plan import PaperTable, Plan, Row, Statistics, TradeOff, Words
from reproductions.results import PaperResults
from reproductions.table import Cell, Table
from reproductions.verdicts import (
    NOT_COMPARED,
    PrintedNumber,
    Verdict,
    compare,
    printed_in,
    short,
    shown,
    shown_ours,
    signed,
    with_plus_minus,
)

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


def make_tables(results: PaperResults) -> list[Table]:
    """Every table of the plan, in its order."""
    plan = results.plan
    tables = [_statistics(results, printed, number) for number, printed in enumerate(plan.statistics, 1)]
    tables += [_table(results, table) for table in plan.tables if table.kind == "paper"]
    decisions = PairDecisions(results)
    for ours in (False, True):
        if any(claim.ours == ours for claim in plan.claims):
            tables.append(claims_table(results, decisions, ours=ours))
    tables += [paired_table(results, tests, decisions) for tests in plan.comparisons]
    tables += [_words(results, words) for words in plan.words]
    past = [_table(results, table) for table in plan.tables if table.kind == "ours"]
    past += [_ceilings(results, tradeoff) for tradeoff in plan.tradeoffs if tradeoff.dataset in results.data]
    for table in past:
        table.section = PAST_THE_PAPER
    return tables + past


def _placed(position: str, title: str) -> str:
    return f"{position}: {title}" if position else title


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
    titles = [plan.datasets[d].title if by_dataset else _with_unit(results, m) for d, m in columns]
    with_params = any(row.params for row in spec.rows)
    head = ["model", *["Params"] * with_params, "learned from", *titles]
    head += [*["learning s"] * spec.seconds, *["chosen"] * spec.chosen]
    table = Table(_placed(spec.position, spec.title), head, spec.key, "table", spec.datasets)
    table.notes += [note for note in (spec.note, *(plan.datasets[d].description for d in spec.datasets)) if note]
    absent = [dataset for dataset in spec.datasets if dataset not in results.data]
    if by_dataset and absent:
        table.notes.append(f"Not run: {', '.join(plan.datasets[dataset].title for dataset in absent)}.")
    elif absent:
        table.notes.append(not_run(results, absent[0]))
    table.has_numbers = len(absent) < len(spec.datasets)
    for row in spec.rows:
        title, reason = _named(results, row)
        mark = UNFINISHED if any(results.is_unfinished(row.dataset or d, row.model) for d in spec.datasets) else ""
        cells = [Cell(f"{title}{mark}: {reason}" if reason else f"{title}{mark}")]
        cells += [Cell(row.params or "–")] if with_params else []
        effort = effort_of(plan, row.model)
        cells.append(Cell(effort or "–"))
        for dataset, measure in columns:
            printed = printed_in(spec, row, dataset, measure)
            where = plan.datasets[dataset].title if by_dataset else plan.measures[measure].title
            position = "" if printed is None else f"{spec.position}, {title}, {where}"
            own = row.dataset or dataset
            cell, numbers = _next_to_printed(results, own, row.model, measure, printed)
            cells.append(cell)
            record = {"dataset": own, "model": title, "measure": measure} | numbers | {"place": position}
            record |= {"learned_from": effort} | ({"params": row.params} if with_params else {})
            record |= {"unfinished": results.is_unfinished(own, row.model)} if row.model else {}
            table.records.append(record | ({"reason": reason} if reason else {}))
        if spec.seconds:
            cells.append(_seconds(results, row.dataset or spec.datasets[0], row.model))
        if spec.chosen:
            cells.append(Cell(settings_chosen(results, row.dataset or spec.datasets[0], row.model) or "–"))
        table.rows.append(cells)
    if any(record.get("unfinished") for record in table.records):
        table.footnotes.append(f"{UNFINISHED.strip()} not trained to the end: the best validation was the last.")
    n_run, n_all = results.fits_of(spec)
    if n_all:
        table.footnotes.append(f"{'All' if n_run == n_all else f'{n_run} of'} {n_all} fits have run.")
    if table.has_numbers and not any(plan.datasets[name].compare for name in spec.datasets):
        table.summary = "; ".join(["other data than the paper's", *_in_printed_order(results, table)])
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


def _with_unit(results: PaperResults, measure: str) -> str:
    title, unit = results.plan.measures[measure].title, results.plan.measures[measure].unit
    return title + (f" ({unit})" if unit not in ("", "%") else "")


def _named(results: PaperResults, row: Row) -> tuple[str, str]:
    """Return the title of a row, and the reason for missing numbers."""
    if not row.model:
        return row.title, row.reason
    plan = results.plan
    return row.title or plan.model(row.model).title, results.unavailable.get(plan.method_of(row.model).key, "")


def _next_to_printed(
    results: PaperResults, dataset: str, model: str, name: str, printed: PrintedNumber | None
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
        "paper": None if printed is None else printed.value,
        "paper_plus_minus": None if printed is None else printed.plus_minus,
        "difference": None,
        "tolerance": None if printed is None else measure.tolerance_for(printed.value),
        "verdict": "",
        "kind": "" if printed is None else "not run",
    }
    theirs = "" if printed is None else f"paper {with_plus_minus(printed.value, printed.plus_minus, measure)}"
    if not values:
        return Cell("–", theirs), record
    mean, text, seeds = record["ours"], shown_ours(record, measure), ""
    if measure.spread == "standard error" and error is not None and len(values) > 1:
        seeds = f"seeds {shown(min(values), measure)} to {shown(max(values), measure)}"
    if printed is None:
        return Cell(text, seeds), record
    errors = np.hypot(error or 0.0, printed.plus_minus or 0.0)
    verdict = _where_compared(results, dataset, compare(mean, printed.value, measure, float(errors)))
    verdict = verdict if measure.compare else NOT_COMPARED
    record |= {"difference": mean - printed.value} | verdict.as_record()
    detail = theirs
    if verdict.kind in ("same", "better"):
        detail += f", {signed(mean - printed.value, measure, like=printed.value)}"
    if verdict is not NOT_COMPARED:
        detail += f", {verdict.text}"
    detail += f"; {seeds}" if seeds else ""
    return Cell(text, detail, tone=verdict.tone), record


def _seconds(results: PaperResults, dataset: str, model: str) -> Cell:
    """Seconds of learning of the fastest seed."""
    seconds = results.values(dataset, model, "seconds") if model else []
    return Cell(f"{min(seconds):.1f}" if seconds else "–")


def settings_chosen(results: PaperResults, dataset: str, model: str) -> str:
    """Parameters found or chosen with the first seed; a value for each fold if they differ.

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


# -- words ------------------------------------------------------------------------------------------------------------


def _words(results: PaperResults, words: Words) -> Table:
    plan = results.plan
    head = ["query word", "ours", "paper", "shared"]
    table = Table(_placed(words.position, words.title), head, words.key, datasets=(words.dataset,))
    source = f"{plan.model(words.model).title}, {plan.datasets[words.dataset].title}"
    table.notes.append(f"{source}, the first seed." if words.of == "weights" else f"The word map of {source}.")
    runs = results.runs(words.dataset, words.model)
    if not runs:
        table.notes.append(not_run(results, words.dataset))
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
    table.summary = f"{n_shared} of {sum(map(len, words.printed.values()))} words shared"
    return table


# -- past the paper ---------------------------------------------------------------------------------------------------


def _ceilings(results: PaperResults, tradeoff: TradeOff) -> Table:
    """Make the table of chosen settings against the best settings on the test parts."""
    plan, dataset, measure = results.plan, tradeoff.dataset, results.plan.measures[tradeoff.measure]
    head = ["model", "settings", "chosen on validation", "one setting, picked on test", "each fold's, picked on test"]
    title = f"What choosing costs, {measure.title}, {plan.datasets[dataset].title}"
    table = Table(title, head, f"{tradeoff.key}-ceilings")
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
            by_fold = float(np.mean([max(point["test"] for point in fit["grid"]) for fit in runs[0]]))
            name = plan.model(model).title
            numbers = [Cell(shown(value, measure)) for value in (chosen, one, by_fold)]
            table.rows.append([Cell(name), Cell(str(len(settings))), *numbers])
            table.records.append(
                {"model": name, "settings": len(settings), "chosen": chosen}
                | {"one_on_test": one, "each_on_test": by_fold}
            )
    table.has_numbers = bool(table.rows)
    return table


def settings_tested(folds: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Every setting that gave a ranker in all folds: features used and the measure on the test parts, means."""
    by_setting: dict[str, list[dict[str, Any]]] = {}
    for fit in folds:
        for point in fit["grid"]:
            if "test" in point:
                by_setting.setdefault(repr(sorted(point["parameters"].items())), []).append(point)
    return [
        {"used": float(np.mean([p["used"] for p in points])), "value": float(np.mean([p["test"] for p in points]))}
        for points in by_setting.values()
        if len(points) == len(folds)
    ]
