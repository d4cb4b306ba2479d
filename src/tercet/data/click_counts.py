"""Click logs in aggregated form: for each query and document, times shown, clicks and expected clicks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.data.cells import Columns, read_rows
from tercet.data.click_tables import as_click_log
from tercet.data.clicks import ClickLog
from tercet.data.frames import as_table
from tercet.data.lines import FilePath, Refused, refuse
from tercet.data.roles import find_roles, kind_of_columns
from tercet.data.tables import NO_ROWS, DataTable, open_table
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
    form : description of the file and its columns

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
) -> ClickCounts:
    r"""Read aggregated clicks from a table: a query, a document, times shown, clicks and expected clicks on each row.

    Parameters
    ----------
    path : CSV, TSV, JSONL, each gzipped or not, or Parquet
    columns : role -> column, for the roles query, doc, shown, clicked and expected; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding : as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "evidence.csv")
    ...     _ = file.write_text("query,document,shown,clicked,expected\ntea,007,20,9,4.5\n")
    ...     read_click_counts(file).expected
    array([4.5])
    """
    return _counts_of(open_table(path, encoding=encoding), columns, refused)


def as_clicks(clicks: Any) -> ClickLog | ClickCounts:
    """Return the click log or the aggregated clicks of a path, records or a frame; see `as_click_log`."""
    if isinstance(clicks, ClickCounts):
        return clicks
    table: DataTable | dict[str, str] | None = None
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
        return False  # a click log, or a file that the reader of click logs refuses


def _counts_of(table: DataTable, columns: Columns | None = None, refused: Refused | None = None) -> ClickCounts:
    roles = find_roles(table, CLICK_COUNTS, columns)
    counts: dict[tuple[str, str], list[float]] = {}
    for line, query, doc_id, *numbers in read_rows(table, roles, ("query", "doc", *_COUNTS), refused):
        n_shown, clicked, _ = numbers
        if clicked > n_shown:
            message = f"document {doc_id!r} was shown {n_shown:g} times and clicked {clicked:g} times"
            refuse(table.error(line, message), refused)
            continue
        before = counts.get((query, doc_id), [0.0, 0.0, 0.0])
        counts[query, doc_id] = [sum(both) for both in zip(before, numbers, strict=True)]
    if not counts:
        raise FormatError(table.name, None, NO_ROWS)
    n_shown, clicked, expected = np.array(list(counts.values()), dtype=np.float64).T
    if not clicked.any():
        raise InputError(f"{table.name}: nothing was clicked, so clicks say nothing")
    queries, docs = zip(*counts, strict=True)
    return ClickCounts(queries, docs, n_shown, clicked, expected, f"{table.form}; {roles}")
