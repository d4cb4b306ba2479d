"""Columns of a table, many rows at once; if a check of a column fails, rows are checked one by one to name the line."""

from __future__ import annotations

import codecs
import csv
import gc
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, compress, islice
from typing import Any, NamedTuple

from tercet.data import limits
from tercet.data.lines import (
    PACKING_DAMAGE,
    READ_AT_ONCE,
    FilePath,
    Refused,
    id_problem,
    open_bytes,
    refuse,
    surrogate_problem,
)
from tercet.data.tables import CsvTable, DataTable, long_cells
from tercet.data.values import Record, Value
from tercet.errors import FormatError

ROWS_AT_ONCE = 1 << 9  # rows of a batch that fits a processor cache
_MOST_KEPT, _MOST_IDS = 1 << 16, 1 << 20  # most converted texts, and most ids, remembered for a column
_TEXTS = {str, type(None)}
Column = Sequence[Value]
Convert = Callable[[Any], Any]


class BadCell(Exception):
    """A cell that cannot be converted; the reader adds line and column."""

    def __init__(self, message: str, kind: str = "format") -> None:
        super().__init__(message)
        self.message, self.kind = message, kind


class _Irregular(Exception):
    """A table for the row reader: a row is wrong, or the text has another form."""


class ColumnBatch(NamedTuple):
    """Rows of some columns.

    Attributes
    ----------
    numbers : line, or number, of each row
    columns : values of each column asked for; empty text is None
    """

    numbers: Sequence[int]
    columns: list[Column]


class Conversion:
    """Converts the cells of a column; equal texts are converted once, valid ids are not converted.

    Parameters
    ----------
    names : the column; of several columns, a cell is the tuple of their values; of none, None
    convert : converts a cell, or raises `BadCell`; None leaves cells unchanged
    are_ids : True for a column of ids
    """

    def __init__(self, names: tuple[str, ...], convert: Convert | None = None, are_ids: bool = False) -> None:
        self.names, self._convert, self._are_ids = names, convert, are_ids
        self._values: dict[Value, Any] = {}

    def cells_of(self, columns: Mapping[str, Column], n_rows: int) -> Sequence[Any]:
        """Return the cells to convert."""
        if len(self.names) == 1:
            return columns[self.names[0]]
        return list(zip(*(columns[name] for name in self.names), strict=True)) if self.names else [None] * n_rows

    def __call__(self, cells: Sequence[Any]) -> Sequence[Any]:
        """Return each cell converted."""
        if self._convert is None or not self.names:
            return cells
        values = self._values
        if not set(map(type, cells)) <= _TEXTS:  # as dict keys, the numbers 1 and True are equal
            return list(map(self._convert, cells))
        if len(values) > (_MOST_IDS if self._are_ids else _MOST_KEPT):
            values.clear()
        if self._are_ids and plain_ids(cells):
            return list(map(values.setdefault, cells, cells))  # equal ids share one object
        with suppress(KeyError):
            return list(map(values.__getitem__, cells))
        for cell in set(cells).difference(values):
            values[cell] = self._convert(cell)
        return list(map(values.__getitem__, cells))


def plain_ids(cells: Column) -> bool:
    """Return True if all cells are texts and valid ids."""
    if None in cells or not set(map(type, cells)) <= {str}:
        return False
    joined = "".join(cells)  # type: ignore[arg-type]
    return id_problem(joined) is None and "\ufeff" not in joined


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


def converted_columns(
    table: DataTable,
    columns: Mapping[str, Conversion],
    refused: Refused | None = None,
    needed: Counter[str] | None = None,
) -> Iterator[tuple[Sequence[int], list[Sequence[Any]]]]:
    """Yield the lines, and each column converted, of many rows at once.

    After an error in a column, the rows are converted one by one, and the row with the error is refused. A row without
    a value in a ``needed`` column is left out and counted, and its other cells are not read.
    """
    needed = Counter() if needed is None else needed
    names = list(dict.fromkeys(name for conversion in columns.values() for name in conversion.names))

    def converted(batch: ColumnBatch) -> tuple[Sequence[int], list[Sequence[Any]]]:
        numbers, cells = batch.numbers, dict(zip(names, batch.columns, strict=True))
        made: dict[str, Sequence[Any]] = {}
        left_out: Counter[str] = Counter()
        for key in (*needed, *(key for key in columns if key not in needed)):
            conversion = columns[key]
            try:
                made[key] = conversion(conversion.cells_of(cells, len(numbers)))
            except BadCell as problem:
                message = f"{conversion.names[0]} {problem.message}"
                raise table.error(numbers[0], message, problem.kind) from None
            if key in needed and None in made[key]:
                filled = [value is not None for value in made[key]]
                left_out[key] = filled.count(False)
                numbers = list(compress(numbers, filled))
                cells = {name: list(compress(column, filled)) for name, column in cells.items()}
                made = {name: list(compress(column, filled)) for name, column in made.items()}
        needed.update(left_out)
        return numbers, [made[key] for key in columns]

    for batch in column_batches(table, names, refused):
        try:
            yield converted(batch)
        except FormatError:
            for position, number in enumerate(batch.numbers):
                try:
                    yield converted(ColumnBatch([number], [[column[position]] for column in batch.columns]))
                except FormatError as problem:
                    refuse(problem, refused)


def column_batches(table: DataTable, names: Sequence[str], refused: Refused | None = None) -> Iterator[ColumnBatch]:
    """Yield batches of many rows; the row reader takes over at broken CSV."""
    n_read, at_once = 0, ROWS_AT_ONCE
    if isinstance(table, CsvTable):
        try:
            for batch in _text_batches(table, names):
                yield batch
                n_read += len(batch.numbers)
            return
        except _Irregular:
            if refused is not None:
                at_once = 1  # row by row: errors are raised in the order of the lines
    for rows in _groups(islice(table.rows(refused), n_read, None), at_once):
        columns: list[Column] = [[row.get(name) for _, row in rows] for name in names]
        yield ColumnBatch([number for number, _ in rows], columns)


def _groups(rows: Iterable[tuple[int, Record]], at_once: int) -> Iterator[list[tuple[int, Record]]]:
    """Yield batches of rows; rows before an error come first, since a row among them may have an earlier error."""
    group: list[tuple[int, Record]] = []
    try:
        for row in rows:
            group.append(row)
            if len(group) == at_once:
                yield group
                group = []
    except FormatError:
        if group:
            yield group
        raise
    if group:
        yield group


def _text_batches(table: CsvTable, names: Sequence[str]) -> Iterator[ColumnBatch]:
    """Yield batches of regular CSV; else raise `_Irregular`."""
    places = [table.columns.index(name) for name in names]
    lines = islice(_lines(table.name, table.encoding), table.n_skipped, None)
    reader = csv.reader(lines, delimiter=table.delimiter, strict=True)
    is_header = True
    while True:
        before = reader.line_num
        try:
            with long_cells():
                rows = list(islice(reader, ROWS_AT_ONCE))
        except (csv.Error, UnicodeError, FormatError, *PACKING_DAMAGE) as error:
            raise _Irregular from error
        if not rows:
            return
        numbers: Sequence[int] = range(table.n_skipped + before + 1, table.n_skipped + reader.line_num + 1)
        if len(numbers) > len(rows):  # a quoted cell spans lines
            if max(sum(map(len, row)) for row in rows) > limits.LONGEST_LINE:
                raise _Irregular
            ends = accumulate(1 + sum(cell.count("\n") for cell in row) for row in rows)
            numbers = [numbers[0], *(numbers[0] + end for end in ends)][:-1]
        # Records without any text are left out, as are lines without any.
        if [] in rows or not all(row[0].strip() for row in rows):
            filled = [any(cell and not cell.isspace() for cell in row) for row in rows]
            rows, numbers = list(compress(rows, filled)), list(compress(numbers, filled))
        if is_header and rows:
            is_header = False
            rows, numbers = rows[1:], numbers[1:]
        if not rows:
            continue
        if set(map(len, rows)) != {len(table.columns)}:
            raise _Irregular
        columns = list(zip(*rows, strict=True))
        yield ColumnBatch(numbers, [_none_for_empty(columns[position]) for position in places])


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
                    raise _Irregular
                if "\r" in text:
                    text = text.replace("\r\n", "\n")
                lines = list(io.StringIO(text, newline="\n"))
                if max(map(len, lines), default=0) > limits.MOST_VALUES or len(rest) > limits.LONGEST_LINE:
                    raise _Irregular
                yield lines
                if not fresh:
                    return
    except (UnicodeError, *PACKING_DAMAGE) as error:
        raise _Irregular from error
