"""Printed numbers of a plan, wherever they stand: in a table's row, or in any table of the paper."""

from __future__ import annotations

from typing import NamedTuple

from reproductions.plan import Plan
from reproductions.plan_items import PaperTable, Row
from reproductions.tasks import entries_of_megabytes


class PrintedNumber(NamedTuple):
    value: float
    plus_minus: float | None = None
    read_off: str = ""  # the column it was reckoned from, where it is not printed itself


def printed_in(table: PaperTable, row: Row, dataset: str, measure: str) -> PrintedNumber | None:
    """What a row has printed; a density is read off the memory where the table gives the size of the dictionary."""
    if measure == "density" and table.dictionary_size and "memory" in row.printed:
        size = table.dictionary_size
        return PrintedNumber(entries_of_megabytes(row.printed["memory"], size) / size**2, read_off="memory")
    name = dataset if len(table.datasets) > 1 else measure
    if name not in row.printed:
        return None
    return PrintedNumber(row.printed[name], row.plus_minus.get(name))


def printed_of(plan: Plan, dataset: str, model: str, measure: str) -> PrintedNumber | None:
    """What the paper's tables have printed for a model; nothing where the data are not the paper's.

    Examples
    --------
    >>> from reproductions.plan_reading import find_plan
    >>> printed_of(find_plan("chen2010"), "mnist", "sparse-r", "error").value
    0.075
    """
    if not plan.datasets[dataset].compare:
        return None
    for table in plan.tables:
        for row in table.rows:
            has_it = row.model == model and measure in table.measures and dataset in table.datasets
            if table.kind == "paper" and has_it and row.dataset in ("", dataset):
                printed = printed_in(table, row, dataset, measure)
                if printed is not None:
                    return printed
    return None
