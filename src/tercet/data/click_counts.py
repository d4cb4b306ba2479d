"""Click logs in aggregated form: for each query and document, times shown, clicks and expected clicks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.data.batches import Batches, Conversion, gathered
from tercet.data.click_tables import as_click_log
from tercet.data.clicks import ClickLog
from tercet.data.documents import id_in
from tercet.data.frames import IndexedTexts, as_table
from tercet.data.judgements import Columns, query_in
from tercet.data.lines import FilePath, Refused, refuse
from tercet.data.roles import find_roles, kind_of_columns
from tercet.data.tables import NO_ROWS, DataTable, open_table
from tercet.data.values import Value, number_in
from tercet.errors import FormatError, InputError

CLICK_COUNTS = "click-counts"
_COUNTS = ("shown", "clicked", "expected")


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """Clicks on documents by query, counted; a pair is a query and a document.

    Attributes
    ----------
    queries, docs : query and document of each pair, each pair once, (n_pairs,)
    shown, clicked : times the document was shown and clicked for the query
    expected : clicks on a document of mean attraction at the same ranks
    form : what was read, for people

    Examples
    --------
    >>> counts = ClickCounts(("tea", "tea"), ("a", "b"), *np.array([[20, 20], [2, 9], [7.0, 4.0]]))
    >>> counts
    ClickCounts(2 pairs of 1 query, 11 clicks)
    """

    queries: tuple[str, ...]
    docs: tuple[str, ...]
    shown: NDArray[np.float64]
    clicked: NDArray[np.float64]
    expected: NDArray[np.float64]
    form: str = ""

    def __repr__(self) -> str:
        n_queries = len(set(self.queries))
        queries = "1 query" if n_queries == 1 else f"{n_queries:,} queries"
        return f"ClickCounts({len(self.queries):,} pairs of {queries}, {self.clicked.sum():,.0f} clicks)"


def read_click_counts(
    path: FilePath,
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> ClickCounts:
    r"""Read aggregated clicks from a table: a query, a document, times shown, clicks and expected clicks on each row.

    Parameters
    ----------
    path : CSV, TSV, JSONL, each gzipped or not, or Parquet
    columns : role -> column, for the roles query, doc, shown, clicked and expected; others are guessed
    refused : takes what is wrong with a row, which is then left out
    encoding, delimiter : as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "evidence.csv")
    ...     _ = file.write_text("query,document,shown,clicked,expected\ntea,007,20,9,4.5\n")
    ...     read_click_counts(file).expected
    array([4.5])
    """
    return _counts_of(open_table(path, encoding=encoding, delimiter=delimiter), columns, refused)


def as_clicks(clicks: Any) -> ClickLog | ClickCounts:
    """A click log, or clicks that are aggregated, of a path, records or a frame; see `as_click_log`."""
    if isinstance(clicks, ClickCounts):
        return clicks
    table: DataTable | IndexedTexts | None = None
    if isinstance(clicks, str | os.PathLike) and os.path.isfile(clicks):
        table = open_table(clicks) if _is_aggregated(clicks) else None
    elif not isinstance(clicks, ClickLog | str | bytes | os.PathLike | tuple):
        table = as_table(clicks, "clicks")
    if isinstance(table, DataTable) and kind_of_columns(table.columns) == CLICK_COUNTS:
        return _counts_of(table)
    return as_click_log(clicks)


def _is_aggregated(path: FilePath) -> bool:
    try:
        return kind_of_columns(open_table(path).columns) == CLICK_COUNTS
    except FormatError:
        return False  # a click file, or what the reader of click logs refuses


def _counts_of(table: DataTable, columns: Columns | None = None, refused: Refused | None = None) -> ClickCounts:
    roles = find_roles(table, CLICK_COUNTS, columns)
    names = [roles[role] for role in ("query", "doc", *_COUNTS)]
    checks: list[Callable[[Value, int], Any]] = [
        lambda value, number: query_in(value, table, number, names[0]),
        lambda value, number: id_in(value, table, number, names[1]),
        *(_count_check(table, name) for name in names[2:]),
    ]

    def gather(batches: Batches, refused: Refused | None) -> dict[tuple[str, str], list[float]]:
        conversions = [Conversion(at, check, are_ids=at == 1) for at, check in enumerate(checks)]
        counts: dict[tuple[str, str], list[float]] = {}
        for batch in batches:
            try:
                for query, doc_id, *row in zip(*(convert(batch) for convert in conversions), strict=True):
                    if row[1] > row[0]:
                        raise table.error(
                            batch.number, f"document {doc_id!r} was shown {row[0]:g} times and clicked {row[1]:g} times"
                        )
                    before = counts.setdefault((query, doc_id), row)
                    if before is not row:
                        before[:] = [sum(pair) for pair in zip(before, row, strict=True)]
            except FormatError as problem:
                refuse(problem, refused)
        return counts

    counts = gathered(table, names, gather, refused)
    if not counts:
        raise FormatError(table.name, None, NO_ROWS)
    numbers = np.array(list(counts.values()), dtype=np.float64).T
    if not numbers[1].any():
        raise InputError(f"{table.name}: nothing was clicked, so clicks say nothing")
    queries, docs = zip(*counts, strict=True)
    shown, clicked, expected = numbers
    return ClickCounts(queries, docs, shown, clicked, expected, f"{table.form}; {roles}")


def _count_check(table: DataTable, column: str) -> Callable[[Value, int], float]:
    def check(value: Value, number: int) -> float:
        count = number_in(value.strip()) if isinstance(value, str) else value
        if isinstance(count, bool | str) or count is None or not 0 <= count < float("inf"):
            raise table.error(number, f"{column} {value!r}; a number, 0 or more, is needed")
        return float(count)

    return check
