"""Tables: rows under named columns, of CSV, TSV, JSONL and Parquet files.

Content decides the format: Parquet by its magic, JSONL by its first brace; other text is CSV, separated by one of , ;
| and the tab. Text may be gzipped.
"""

from __future__ import annotations

import csv
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from itertools import chain, islice
from typing import Any

from tercet.data import limits
from tercet.data.lines import (
    UTF16_MARKS,
    FilePath,
    Refused,
    codec_name,
    open_bytes,
    open_lines,
    parse_json_object,
    refuse,
    within_a_line,
)
from tercet.data.values import Record, plain_record, too_many_columns
from tercet.errors import FormatError, InputError, MissingExtraError, TercetError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
NO_ROWS = "the table has no rows"
DELIMITER_PROBLEM = "delimiter"
RECORDS_LOOKED_AT = 100
_ROWS_AT_ONCE = 4096
_SEPARATOR_LINE = re.compile(r"sep=([,;|\t])")  # first line of a file that names its delimiter for spreadsheets


class DataTable(ABC):
    """Rows under named columns.

    Attributes
    ----------
    name : a path, or the name of an argument
    columns : the names of the columns, in order
    form : description of the table
    is_typed : True if cells have types; cells of CSV are strings
    lists_as_json : True for lists as JSON arrays; False for joined elements
    first_problem : error of the encoding of the first lines, which may make the columns look wrong; or None
    """

    name: str
    columns: tuple[str, ...]
    form: str
    is_typed = True
    lists_as_json = False
    first_problem: FormatError | None = None

    def __init__(self, path: FilePath) -> None:
        self.name = str(path)

    @abstractmethod
    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        """Yield line number, or number of the row, and the row; the error of a bad row is handed to `refused`."""

    def error(self, number: int, message: str, kind: str = "format") -> FormatError:
        """Return the error of a row, by its number."""
        return FormatError(self.name, number, message, kind)

    def position(self, number: int) -> str:
        """Return the place of a row, for a sentence about another row."""
        return f"line {number}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.form}; {', '.join(self.columns)})"


class BadRows:
    """Takes a number of bad rows and keeps their errors; the next error is raised."""

    def __init__(self, limit: int = 0) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InputError(f"skip_bad must be a whole number, 0 or more; got {limit!r}")
        self.limit = limit
        self.problems: list[FormatError] = []
        self._seen: set[str] = set()

    def __call__(self, error: FormatError) -> None:
        if str(error) in self._seen:  # a table may be read twice
            return
        if len(self.problems) >= self.limit:
            if not self.limit:
                raise error
            allowed = f"{self.limit:,} bad rows were" if self.limit > 1 else "1 bad row was"
            message = f"{error.message} ({allowed} allowed, and this is one more)"
            raise FormatError(error.path, error.line, message, error.kind) from error
        self._seen.add(str(error))
        self.problems.append(error)


def iter_rows(
    path: FilePath, *, encoding: str | None = None, refused: Refused | None = None
) -> Iterator[tuple[int, Record]]:
    r"""Yield line and values by column of each row of a table.

    Parameters
    ----------
    path : CSV with any of the delimiters , ; | and tab, JSONL, each gzipped or not, or Parquet
    encoding : of text; by default UTF-8, or UTF-16 after its mark
    refused : takes the error of a bad row, and the row is left out

    Returns
    -------
    line (of Parquet: row from 1) and ``{column: value}``. Values of CSV are strings, and None for an empty cell. Of
    JSON and
    Parquet, a list is a string, its elements joined by ", "; an object is a column for each of its keys,
    ``outer.inner``;
    dates are ISO 8601.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "products.csv")
    ...     _ = file.write_text('sku;name;price\n007;"Tea; green";1,50\n')
    ...     list(iter_rows(file))
    [(2, {'sku': '007', 'name': 'Tea; green', 'price': '1,50'})]
    """
    return open_table(path, encoding=encoding).rows(refused)


def open_table(path: FilePath, *, encoding: str | None = None) -> DataTable:
    """Open a table at a path; rows are read by ``rows``."""
    if is_parquet(path):
        return ParquetTable(path)
    encoding = encoding_of(path, encoding)
    number, first = first_line(path, encoding)
    if not first:
        raise FormatError(path, None, "the file is empty; a table has a first line that names its columns")
    if first.lstrip().startswith("{"):
        return JsonTable(path, encoding)
    if "\r" in first:
        advice = "save it with other line ends, for instance: tr '\\r' '\\n'"
        raise FormatError(path, number, f"lines end in a carriage return alone, as on old Macs; {advice}")
    if re.match(r"\s*\[\s*(\{|$)", first):
        advice = "a table has one object a line; for instance: jq -c '.[]'"
        raise FormatError(path, number, f"this is a JSON array; {advice}", "json")
    return CsvTable(path, encoding)


# -- text -------------------------------------------------------------------------------------------------------------


def encoding_of(path: FilePath, encoding: str | None = None) -> str:
    """Return the named encoding, or UTF-16 after its mark, or UTF-8."""
    if encoding is None:
        with open_bytes(path) as stream:
            return "utf-16" if stream.read(2) in UTF16_MARKS else "utf-8"
    name = codec_name(encoding)
    if name is None:
        raise InputError(f"encoding {encoding!r} is not known; as in 'latin-1', 'cp1252', 'utf-16', 'gbk'")
    return "utf-8" if name == "utf-8-sig" else name


def first_line(path: FilePath, encoding: str | None = None) -> tuple[int, str]:
    """Return number and text of the first nonblank line; 0 and nothing for an empty file."""
    with closing(open_lines(path, encoding=encoding_of(path, encoding))) as lines:
        return next(((number, text) for number, text in lines if text.strip()), (0, ""))


@contextmanager
def long_cells() -> Iterator[None]:
    """Allow cells as long as lines; the limit of the csv module is global, and is put back."""
    before = csv.field_size_limit(limits.LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def csv_records(
    lines: Iterable[tuple[int, str]], path: FilePath, delimiter: str = ",", refused: Refused | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each record, and its cells; a quoted cell may hold line breaks.

    Blank records are left out. Only a broken record on a single line is handed to `refused`: an open quote swallows
    the rows
    behind, and must not hide them. A line missing inside a quoted cell is an error, as the missing line may close the
    cell.
    """
    begins = last = length = 0

    def texts() -> Iterator[str]:
        nonlocal begins, last, length
        for number, text in lines:
            if begins and number > last + 1:
                inside = f"inside the cell whose quote opens on line {begins}"
                message = f"the line is left out {inside}, so where that cell ends is not known; mend the line"
                raise FormatError(path, last + 1, message)
            begins, last, length = begins or number, number, length + len(text) + 1
            limits.check_values(text, delimiter, path, number, "cells")
            if length > limits.LONGEST_LINE and last > begins:
                long = f"the record is longer than {limits.LONGEST_LINE:,} characters"
                raise FormatError(path, begins, f"{long}; the quote that opens here is not closed")
            yield text + "\n"

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        begins = length = 0
        try:
            with long_cells():
                cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            advice = f"quote a cell that holds {delimiter!r} or a quote, and double the quotes inside"
            if last > begins:
                advice = f"the quote that opens here is not closed, or wrongly, up to line {last}: {advice}"
            problem = FormatError(path, begins, f"broken CSV: {error}; {advice}")
            if refused is None or last > begins:
                raise problem from error
            refused(problem)
            continue
        if any(cell.strip() for cell in cells):
            yield begins, cells


class CsvTable(DataTable):
    """A text file whose first record names the columns.

    Attributes
    ----------
    encoding, delimiter : of the text
    n_skipped : number of lines before the header, with the delimiter for spreadsheets
    """

    is_typed = False

    def __init__(self, path: FilePath, encoding: str) -> None:
        self.name = str(path)
        self.encoding = encoding
        self.n_skipped = 0
        broken: list[FormatError] = []  # reading the rows reports these errors again
        with closing(self._lines(broken.append)) as lines:
            numbered = within_a_line(lines, RECORDS_LOOKED_AT)
        self.first_problem = broken[0] if broken else None
        separator_line = _SEPARATOR_LINE.fullmatch(numbered[0][1].strip())
        if separator_line is not None:
            self.n_skipped = numbered[0][0]
            numbered = numbered[1:]
        self.delimiter = separator_line[1] if separator_line is not None else _delimiter_of(path, numbered)
        begins, names = next(csv_records(numbered, path, self.delimiter), (self.n_skipped + 1, []))
        self.columns = tuple(name.strip() or f"column {number}" for number, name in enumerate(names, start=1))
        _check_header(self, begins, names)
        self.form = f"CSV separated by {DELIMITERS[self.delimiter]}" + (
            "" if encoding == "utf-8" else f", {encoding.upper()}"
        )

    def _lines(self, refused: Refused | None) -> Generator[tuple[int, str], None, None]:
        for number, text in open_lines(self.name, refused, self.encoding):
            if number > self.n_skipped:
                yield number, text

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        records = csv_records(self._lines(refused), self.name, self.delimiter, refused)
        next(records, None)
        width = len(self.columns)
        for number, cells in records:
            if len(cells) == width:
                yield number, {name: cell or None for name, cell in zip(self.columns, cells, strict=True)}
                continue
            cell_count = f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'} under {width} columns"
            problem = self.error(number, f"{cell_count}; quote a text that holds {self.delimiter!r} or a line break")
            refuse(problem, refused)


def _delimiter_of(path: FilePath, lines: Sequence[tuple[int, str]]) -> str:
    """Return the delimiter with most records as wide as the header; of equal ones, the widest."""
    marks = []
    for delimiter in DELIMITERS:
        problems: list[FormatError] = []
        widths: list[int] = []
        try:
            for _, cells in csv_records(lines, path, delimiter, problems.append):
                widths.append(len(cells))
        except FormatError as problem:  # another delimiter, or a record that goes on after the first lines
            problems.append(problem)
        if widths and widths[0] > 1:
            alike = sum(width == widths[0] for width in widths) / (len(widths) + len(problems))
            marks.append((alike, widths[0], delimiter))
    if not marks:
        first_line = lines[0][1][:80] if lines else ""
        message = (
            f"found {first_line!r}; the first line of a table names its columns, two or more, separated by commas, "
            "semicolons, tabs or bars"
        )
        raise FormatError(path, lines[0][0] if lines else 1, message, DELIMITER_PROBLEM)
    marks.sort(reverse=True)
    if len(marks) > 1 and marks[0][:2] == marks[1][:2]:
        both = " and ".join(DELIMITERS[delimiter] for *_, delimiter in marks[:2])
        raise FormatError(
            path, lines[0][0], f"{both} could separate the columns; write sep=; as the first line", DELIMITER_PROBLEM
        )
    return marks[0][2]


_LOOKS_LIKE_DATA = re.compile(r"[-+]?\d+([.,]\d+)*([eE][-+]?\d+)?")


def _check_header(table: DataTable, number: int, names: Sequence[str]) -> None:
    data = next((name for name in names if _LOOKS_LIKE_DATA.fullmatch(name.strip())), None)
    if data is not None:
        message = f"the first line must name the columns; found {data!r}, which looks like data: add a header"
        raise table.error(number, message, "header")
    check_names(table, number)


def check_names(table: DataTable, number: int) -> None:
    """Check that columns have different names, and are not too many."""
    if len(table.columns) > limits.MOST_COLUMNS:
        raise table.error(number, too_many_columns(len(table.columns)), "header")
    seen: dict[str, int] = {}
    for position, name in enumerate(table.columns, start=1):
        first = seen.setdefault(name, position)
        if first != position:
            message = f"the columns {first} and {position} are both called {name!r}; each needs a name of its own"
            raise table.error(number, message, "header")


class JsonTable(DataTable):
    """A text file with a JSON object on each line; its columns are the keys of the first rows."""

    form = "JSONL"

    def __init__(self, path: FilePath, encoding: str) -> None:
        self.name = str(path)
        self._encoding = encoding
        if encoding != "utf-8":
            self.form = f"JSONL, {encoding.upper()}"
        ignored: Refused = lambda problem: None  # noqa: E731  (errors are raised when the rows are read)
        keys: dict[str, None] = {}
        for number, row in islice(self.rows(ignored), RECORDS_LOOKED_AT):
            keys |= dict.fromkeys(row)
            if len(keys) > limits.MOST_COLUMNS:
                raise self.error(number, too_many_columns(len(keys)), "header")
        if not keys:
            next(self.rows(), None)  # raises the error of the first row
            raise FormatError(path, None, NO_ROWS)
        self.columns = tuple(keys)

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        for number, text in open_lines(self.name, refused, self._encoding):
            if not text.strip():
                continue
            try:
                record = parse_json_object(text, self.name, number)
                row = plain_record(record, partial(self.error, number), lists_as_json=self.lists_as_json)
            except FormatError as problem:
                refuse(problem, refused)
            else:
                yield number, row


# -- Parquet ----------------------------------------------------------------------------------------------------------


class ParquetTable(DataTable):
    """A Parquet file (extra ``parquet``), without columns of bytes.

    A column of objects becomes a column for each of their keys, ``outer.inner``.
    """

    def __init__(self, path: FilePath) -> None:
        self.name = str(path)
        with _opened_parquet(path) as (file, types):
            fields = list(file.schema_arrow)
        binary = [field.name for field in fields if types.is_binary(field.type) or types.is_large_binary(field.type)]
        left_out = set(binary)
        fields_used = [field for field in fields if field.name not in left_out]
        self._fields = [field.name for field in fields_used]
        self.columns = tuple(
            name
            for field in fields_used
            for name in (
                [f"{field.name}.{inner_field.name}" for inner_field in field.type]
                if types.is_struct(field.type)
                else [field.name]
            )
        )
        check_names(self, 0)
        self.form = "Parquet" + (f", without the bytes of {', '.join(binary)}" if binary else "")

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        number = 0
        with _opened_parquet(self.name) as (file, _):
            batches = file.iter_batches(_ROWS_AT_ONCE, columns=self._fields, use_threads=False)
            for row in chain.from_iterable(batch.to_pylist() for batch in batches):
                number += 1
                try:
                    plain = plain_record(row, partial(self.error, number), lists_as_json=self.lists_as_json)
                except FormatError as problem:
                    refuse(problem, refused)
                else:
                    yield number, plain

    def error(self, number: int, message: str, kind: str = "format") -> FormatError:
        return FormatError(self.name, None, f"row {number}: {message}" if number else message, kind)

    def position(self, number: int) -> str:
        return f"row {number}"


@contextmanager
def _opened_parquet(path: FilePath) -> Iterator[tuple[Any, Any]]:
    try:
        parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet", f"reading {path}") from error
    try:
        with parquet.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            check_parquet_size(file, path)
            yield file, arrow.types
    except FileNotFoundError as error:
        raise FormatError(path, None, "there is no such file", "missing") from error
    except TercetError:
        raise
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:  # also text that is not UTF-8
        raise FormatError(path, None, f"the Parquet data cannot be read: {error}") from error


# -- recognizing Parquet ----------------------------------------------------------------------------------------------


MAGIC = b"PAR1"


def is_parquet(path: FilePath) -> bool:
    """Return True for a file with the magic of Parquet."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # the reader raises the error


def check_parquet_size(file: Any, path: FilePath) -> None:
    """Refuse a file whose metadata say that it unpacks to far more than its size."""
    metadata, size = file.metadata, os.path.getsize(path)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    limits.check_unpacked(path, sum(group.total_byte_size for group in groups), size, "Parquet")
    if metadata.num_rows > max(1 << 20, limits.MOST_ROWS_PER_BYTE * size):
        rows = f"{metadata.num_rows:,} rows in {size:,} bytes"
        raise FormatError(path, None, f"{rows}, as made to fill the memory; are they all the same?", "packing")
