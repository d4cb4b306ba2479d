"""A run in a few narrow Markdown tables, to be read in a terminal or pasted into a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reproductions.index_page import counted, ran_how
from reproductions.overview import PaperOverview
from reproductions.paper_results import PaperResults
from reproductions.plan_items import PaperTable
from reproductions.tables import UNFINISHED
from reproductions.verdicts import NOT_COMPARED, shown_ours, with_plus_minus
from tercet.report.table import Table


def make_summary(results: PaperResults, tables: list[Table], overview: PaperOverview) -> str:
    """Every table of the paper as ``row | ours ± | printed ± | verdict``, then orderings and standings."""
    plan = results.plan
    parts = [f"# {plan.paper.title}", f"{plan.paper.authors}. {plan.paper.venue}. {ran_how(overview)}."]
    if results.quick:
        parts.append("A quick run: its numbers mean little.")
    if overview.missing:
        parts.append(f"Data that are not here: {', '.join(overview.missing)}.")
    if overview.n_cut:
        parts.append(f"The budget of {results.budget:g} minutes left out or cut short {overview.n_cut:,} pieces.")
    by_key = {table.key: table for table in tables if table.has_numbers}
    items = {item.key: item for item in overview.items}
    for spec in plan.tables:
        if spec.kind == "paper" and spec.key in by_key:
            item, table = items[spec.key], by_key[spec.key]
            parts += [f"## {table.title}", _numbers(results, spec, table)]
            said = [counted(item.counts)] if item.counts else []
            said += [f"{item.fits[0]} of {item.fits[1]} fits"] if item.fits else []
            said += ["†: not trained to the end"] if any(r.get("unfinished") for r in table.records) else []
            parts.append(f"{'; '.join(said)}.")
    if "orderings" in by_key:
        parts += ["## Orderings the paper states", _orderings(results, by_key["orderings"])]
        parts.append(f"{counted(items['orderings'].counts)}.")
    for standings in plan.standings:
        if standings.key in by_key:
            parts += [f"## {by_key[standings.key].title}", _cells(by_key[standings.key])]
    return "\n\n".join(parts) + "\n"


def _numbers(results: PaperResults, spec: PaperTable, table: Table) -> str:
    """A line for each number, grouped by row; the second column is left out where it is the same in all."""
    plan, by_dataset = results.plan, len(spec.datasets) > 1
    several = by_dataset or len(spec.measures) > 1
    lines, before = [], ""
    for record in table.records:
        is_missing = record["ours"] is None and record["dataset"] not in results.data
        if is_missing or (record["ours"] is None and record["paper"] is None):
            continue
        measure = plan.measures[record["measure"]]
        row = record["model"] + (f" ({record['params']})" if record.get("params") else "")
        row += UNFINISHED if record.get("unfinished") else ""
        column = plan.datasets[record["dataset"]].title if by_dataset else measure.title
        ours = "–" if record["ours"] is None else shown_ours(record, measure)
        paper = record["paper"]
        printed = "–" if paper is None else with_plus_minus(paper, record["paper_plus_minus"], measure)
        verdict = "" if record["verdict"] == NOT_COMPARED else record["verdict"]
        lines.append(["" if row == before else row, *([column] if several else []), ours, printed, verdict])
        before = row
    second = ["data set" if by_dataset else "measure"] if several else []
    return _markdown(["row", *second, "ours", "printed", "verdict"], lines)


def _orderings(results: PaperResults, table: Table) -> str:
    lines, before = [], ""
    for row, record in zip(table.rows, table.records, strict=True):
        where = f"{results.plan.datasets[record['dataset']].title}, {results.plan.measures[record['measure']].title}"
        text = f"{record['ordering']} ({record['place']})"
        lines.append(["" if text == before else text, where, row[3].text, record["verdict"]])
        before = text
    return _markdown(["ordering", "where", "difference", "verdict"], lines)


def _cells(table: Table) -> str:
    return _markdown(table.head, [[cell.text for cell in row] for row in table.rows])


def _markdown(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)
