"""Columns of a table, many rows at once; a check that fails on a column is repeated row by row, to name the line."""

from __future__ import annotations

import codecs
import csv
import gc
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

from tercet.data import limits
from tercet.data.lines import PACKING_DAMAGE, READ_AT_ONCE, FilePath, Refused, id_problem, open_bytes, surrogate_problem
from tercet.data.tables import CsvTable, DataTable, long_cells
from tercet.data.values import Value
from tercet.errors import FormatError

ROWS_AT_ONCE = 1 << 9  # as few as stay in a processor's cache
_MOST_KEPT, _MOST_IDS = 1 << 16, 1 << 20  # converted texts, and ids, of a column
_TEXTS = {str, type(None)}
T = TypeVar("T")
Column = Sequence[Value]


class Irregular(Exception):
    """A table for the row reader: a row is wrong, or the text has another form."""


class ColumnBatch(NamedTuple):
    """Rows of some columns.

    Attributes
    ----------
    number : line of a single row; 0 for many rows
    columns : values of each column asked for; empty text is None
    """

    number: int
    columns: list[Column]


class Conversion(Generic[T]):
    """Converts the cells of a column; equal texts only once, and ids without trouble not at all."""

    def __init__(self, column: int, convert: Callable[[Value, int], T], are_ids: bool = False) -> None:
        self._are_ids = are_ids
        self._column, self._convert = column, convert
        self._values: dict[Value, T] = {}

    def __call__(self, batch: ColumnBatch) -> list[T]:
        """Return ``convert(value, number)`` of each value."""
        cells, values = batch.columns[self._column], self._values
        if batch.number or not set(map(type, cells)) <= _TEXTS:  # of numbers, True would be 1
            return [self._convert(cell, batch.number) for cell in cells]
        if len(values) > (_MOST_IDS if self._are_ids else _MOST_KEPT):
            values.clear()
        if self._are_ids and plain_ids(cells):
            return list(map(values.setdefault, cells, cells))  # type: ignore[arg-type]  # one object for equal ids
        with suppress(KeyError):
            return list(map(values.__getitem__, cells))
        for cell in set(cells).difference(values):
            values[cell] = self._convert(cell, 0)
        return list(map(values.__getitem__, cells))


def plain_ids(cells: Column) -> bool:
    """Return True if all cells are texts and valid ids."""
    if None in cells or not set(map(type, cells)) <= {str}:
        return False
    joined = "".join(cells)  # type: ignore[arg-type]
    return id_problem(joined) is None and "\ufeff" not in joined


Batches = Iterator[ColumnBatch]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a reader makes millions of objects without cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def gathered(
    table: DataTable, names: Sequence[str], gather: Callable[[Batches, Refused | None], T], refused: Refused | None
) -> T:
    """Return ``gather(batches, refused)``: by whole columns, or row by row after an error, from the first row again."""
    try:
        return gather(column_batches(table, names), None)
    except (Irregular, FormatError):
        rows = (ColumnBatch(number, [(row.get(name),) for name in names]) for number, row in table.rows(refused))
        return gather(rows, refused)


def column_batches(table: DataTable, names: Sequence[str]) -> Batches:
    """Yield batches of many rows; raise `Irregular` or `FormatError` for tables that need the row reader."""
    if isinstance(table, CsvTable):
        yield from _text_batches(table, names)
        return
    rows = table.rows()
    while batch := [row for _, row in islice(rows, ROWS_AT_ONCE)]:
        yield ColumnBatch(0, [[row.get(name) for row in batch] for name in names])


def _text_batches(table: CsvTable, names: Sequence[str]) -> Batches:
    places = [table.columns.index(name) for name in names]
    lines = islice(_lines(table.name, table.encoding), table.n_skipped, None)
    reader = csv.reader(lines, delimiter=table.delimiter, strict=True)
    is_header = True
    while True:
        before = reader.line_num
        try:
            with long_cells():
                rows = list(islice(reader, ROWS_AT_ONCE))
        except csv.Error as error:
            raise Irregular from error
        if not rows:
            return
        over_lines = reader.line_num - before > len(rows)
        if over_lines and max(sum(map(len, row)) for row in rows) > limits.LONGEST_LINE:
            raise Irregular
        # Records without any text are left out, as are lines without any.
        if [] in rows or not all(row[0].strip() for row in rows):
            rows = [row for row in rows if any(cell and not cell.isspace() for cell in row)]
        if is_header and rows:
            is_header = False
            del rows[0]
        if not rows:
            continue
        if set(map(len, rows)) != {len(table.columns)}:
            raise Irregular
        columns = list(zip(*rows, strict=True))
        yield ColumnBatch(0, [_none_for_empty(columns[place]) for place in places])


def _none_for_empty(cells: tuple[str, ...]) -> Column:
    return [cell or None for cell in cells] if "" in cells else cells


def _lines(path: FilePath, encoding: str) -> Iterator[str]:
    """Yield lines with their ends; carriage returns are removed."""
    return chain.from_iterable(_blocks_of_lines(path, encoding))


def _blocks_of_lines(path: FilePath, encoding: str) -> Iterator[list[str]]:
    decoder = codecs.getincrementaldecoder(encoding)()
    rest, is_first = "", True
    try:
        with open_bytes(path) as stream:
            while True:
                fresh = stream.read(8 * READ_AT_ONCE)
                text = rest + decoder.decode(fresh, final=not fresh)
                if is_first:
                    text, is_first = text.removeprefix("\ufeff"), False
                if fresh:
                    end = text.rfind("\n") + 1
                    text, rest = text[:end], text[end:]
                if encoding != "utf-8" and surrogate_problem(text) is not None:
                    raise Irregular
                if "\r" in text:
                    text = text.replace("\r\n", "\n")
                lines = list(io.StringIO(text, newline="\n"))
                if max(map(len, lines), default=0) > limits.MOST_VALUES or len(rest) > limits.LONGEST_LINE:
                    raise Irregular
                yield lines
                if not fresh:
                    return
    except (UnicodeError, *PACKING_DAMAGE) as error:
        raise Irregular from error
