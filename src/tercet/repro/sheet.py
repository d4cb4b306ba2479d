"""A table as a value, and the tables and cells that plans of both kinds have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tercet.measure import PairedTest
from tercet.repro.running import RunResults
from tercet.repro.values import Bounded, Measure, Stated, Statistics
from tercet.repro.verdicts import Verdict, compare, judge_claim, judge_target, mean_and_half_range, shown

NOT_COMPARED = "not compared"


@dataclass(frozen=True)
class Cell:
    """What is shown: ours, then the paper's number and the verdict, then its place in the paper."""

    text: str
    detail: str = ""
    place: str = ""
    tone: str = "plain"


@dataclass
class Sheet:
    """A table ready to be shown; ``records`` are its numbers for CSV and JSON."""

    key: str
    title: str
    head: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    has_numbers: bool = True  # false when the data was not there
    past_the_paper: bool = False


def where_compared(results: RunResults[Any], dataset: str, verdict: Verdict) -> Verdict:
    """A verdict only where the run and the data are those of the paper."""
    if results.quick or not results.plan.datasets[dataset].compare:
        return Verdict(NOT_COMPARED, "plain")
    return verdict


def not_run(results: RunResults[Any], dataset: str) -> str:
    return f"Not run: {results.missing.get(dataset, 'another data set was asked for')}."


def statistics_sheet(results: RunResults[Any], statistics: Statistics, number: int) -> Sheet:
    key = "statistics" if number == 1 else f"statistics-{number}"
    sheet = Sheet(key, f"{statistics.place}: {statistics.title}", ["data set"])
    facts = list(dict.fromkeys(fact for printed in statistics.printed.values() for fact in printed))
    sheet.head += facts
    for dataset, printed in statistics.printed.items():
        data = results.plan.datasets[dataset]
        found = results.data.get(dataset, {}).get("statistics", {})
        cells = [Cell(data.title, data.note)]
        for fact in facts:
            number_printed, ours = printed.get(fact), found.get(fact)
            if number_printed is None:
                cells.append(Cell(_count(ours)))
                continue
            verdict = Verdict("the same", "good")
            if ours is None:
                verdict = Verdict("not run", "plain")
            elif ours != number_printed:
                verdict = where_compared(results, dataset, Verdict("differs", "bad"))
            place = f"{statistics.place}, {data.title}, {fact}"
            cells.append(Cell(_count(ours), f"paper {number_printed:,}, {verdict.text}", place, verdict.tone))
            sheet.records.append(
                {"dataset": dataset, "fact": fact, "ours": ours, "paper": number_printed, "verdict": verdict.text}
            )
        sheet.rows.append(cells)
    return sheet


def _count(n: int | None) -> str:
    return "–" if n is None else f"{n:,}"


def signed(value: float, measure: Measure, digits: int) -> str:
    return ("+" if value >= 0 else "−") + shown(abs(value), measure, digits)


def beside_printed(
    results: RunResults[Any],
    dataset: str,
    measure: Measure,
    values: Sequence[float],
    error: float | None,
    printed: float | None,
    place: str,
) -> tuple[Cell, dict[str, Any]]:
    """Ours, one value for each seed, beside the paper's number; and the same for CSV and JSON."""
    record: dict[str, Any] = {
        "ours": float(np.mean(values)) if values else None,
        "half_range": (max(values) - min(values)) / 2 if values else None,
        "standard_error": error,
        "seeds": len(values),
        "paper": printed,
        "place": place,
        "difference": None,
        "tolerance": None if printed is None else measure.tolerance_for(printed),
        "verdict": "",
    }
    if not values:
        return Cell("–", "" if printed is None else f"paper {shown(printed, measure)}", place), record
    mean = record["ours"]
    text = mean_and_half_range(values, measure)
    if measure.spread == "standard error":
        text = shown(mean, measure)
        text += "" if error is None else f" ± {shown(error, measure, like=mean)}"
    if printed is None:
        return Cell(text), record
    verdict = where_compared(results, dataset, compare(mean, printed, measure))
    record |= {"difference": mean - printed, "verdict": verdict.text}
    sign = "+" if mean >= printed else "−"
    detail = (
        f"paper {shown(printed, measure)}, {sign}{shown(abs(mean - printed), measure, like=printed)}, {verdict.text}"
    )
    if verdict.text == NOT_COMPARED:
        detail = f"paper {shown(printed, measure)}"
    return Cell(text, detail, place, verdict.tone), record


def target_cell(
    results: RunResults[Any], values: Sequence[float], target: Bounded, measure: Measure, times: str = ""
) -> tuple[Cell, dict[str, Any]]:
    """Whether a target of our own is met by the worst seed."""
    verdict = Verdict(NOT_COMPARED, "plain") if results.quick else judge_target(values, target, measure)
    bound = f"≥ {target.at_least:g}" if target.at_least is not None else f"≤ {target.at_most:g}"
    cell = Cell(f"{verdict.text}, target {bound}{times}", tone=verdict.tone)
    return cell, {"target": bound + times, "verdict": verdict.text}


ORDERING_HEAD = ("ordering", "data set", "measure", "difference", "verdict")


def ordering_row(
    results: RunResults[Any],
    claim: Stated,
    titles: str,
    dataset: str,
    name: str,
    better: float,
    worse: float,
    test: PairedTest | None,
    digits: int,
    unit: str = "seed",
) -> tuple[list[Cell], dict[str, Any]]:
    """What is said to be better against what is said to be worse, with the interval of their difference."""
    measure = results.plan.measures[name]
    difference = signed(better - worse, measure, digits)
    means = f"{shown(better, measure, digits)} against {shown(worse, measure, digits)}"
    verdict = Verdict(f"one {unit}: no interval", "plain")
    if test is not None:
        difference += f" ({signed(test.low, measure, digits)} to {signed(test.high, measure, digits)})"
        means += f", n = {test.n:,}"
        verdict = judge_claim(test, measure)
    if results.quick:
        verdict = Verdict(NOT_COMPARED, "plain")
    cells = [Cell(claim.text, titles, claim.place), Cell(results.plan.datasets[dataset].title), Cell(measure.title)]
    cells += [Cell(difference, means), Cell(verdict.text, tone=verdict.tone)]
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
    }
    return cells, record
