"""Preferences in Parquet files (extra ``parquet``): the columns query, better, worse, perhaps weight and margin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import compress
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.data import limits
from tercet.data.lines import FilePath, Refused, id_problem
from tercet.data.preference_text import IDS, NO_PREFERENCES, NUMBERS, PreferenceTriples
from tercet.errors import FormatError, MissingExtraError

MAGIC = b"PAR1"
_PAGES_AT_ONCE = 1 << 20  # bytes of a column read ahead of those wanted


def is_parquet(path: FilePath) -> bool:
    """Whether a file begins as Parquet files do; what is no file is none."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # whoever reads it says what is wrong


def parquet_rows(path: FilePath) -> int:
    """How many preferences a file holds, as it says itself."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def parquet_batches(
    path: FilePath, group: int = 0, row: int = 0, size: int = 16_384, refused: Refused | None = None
) -> Iterator[tuple[int, Sequence[int], PreferenceTriples]]:
    """Yield row group, rows in it (from 1) and the preferences on them, at most ``size`` at a time, from a place on.

    A row group is read page by page, so one may be larger than memory. Columns of strings may be dictionary-encoded;
    weights and margins are of any kind of number. Refused, by row group and row (from 1): a missing, repeated or
    unknown column, one of another type, a null, an id that is none, a document preferred to itself, a number that is
    not positive and finite. What is wrong with a row is handed to `refused`, if there is one, and the row left out.
    """
    with _opened(path) as file:
        for number in range(group, file.metadata.num_row_groups):
            first = 0
            names = list(file.schema_arrow.names)
            for batch in file.iter_batches(size, row_groups=[number], columns=names, use_threads=False):
                skipped = max(0, row - first) if number == group else 0
                if skipped < batch.num_rows:
                    rows = batch.slice(skipped)
                    yield number, *_triples(rows, path, number, first + skipped, refused)
                first += batch.num_rows


def check_parquet_size(file: Any, path: FilePath) -> None:
    """Refuse a file that says of itself that it unpacks to far more than it is; one that lies is not told by this."""
    metadata, size = file.metadata, os.path.getsize(path)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    limits.check_unpacked(path, sum(group.total_byte_size for group in groups), size, "Parquet")
    if metadata.num_rows > max(1 << 20, limits.MOST_ROWS_PER_BYTE * size):
        rows = f"{metadata.num_rows:,} rows in {size:,} bytes"
        raise FormatError(path, None, f"{rows}, as made to fill the memory; are they all the same?", "packing")


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    try:
        parquet = import_module("pyarrow.parquet")
        arrow = import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet", f"reading {path}") from error
    try:
        with parquet.ParquetFile(path, memory_map=False, buffer_size=_PAGES_AT_ONCE, pre_buffer=False) as file:
            check_parquet_size(file, path)
            _check_columns(file.schema_arrow, arrow.types, path)
            if file.metadata.num_rows == 0:
                raise FormatError(path, None, NO_PREFERENCES)
            yield file
    except FileNotFoundError as error:
        raise FormatError(path, None, "there is no such file", "missing") from error
    except (arrow.ArrowException, OSError) as error:
        raise FormatError(path, None, f"the Parquet data cannot be read: {error}") from error


def _check_columns(schema: Any, types: Any, path: FilePath) -> None:
    names = list(schema.names)
    listed = ", ".join(names) or "none"
    for name in IDS:
        if name not in names:
            raise FormatError(path, None, f"the column {name!r} is missing; found {listed}")
    for name in names:
        if names.count(name) > 1:
            raise FormatError(path, None, f"there are two columns {name!r}")
        if name not in (*IDS, *NUMBERS):
            allowed = ", ".join((*IDS, *NUMBERS))
            raise FormatError(path, None, f"unknown column {name!r}; the columns are {allowed}")
        kind = schema.field(name).type
        if name in IDS:
            inner = kind.value_type if types.is_dictionary(kind) else kind
            if not any(is_text(inner) for is_text in (types.is_string, types.is_large_string, types.is_string_view)):
                raise FormatError(path, None, f"the column {name!r} is of type {kind}; ids are strings", "id")
        elif not (types.is_integer(kind) or types.is_floating(kind)):
            raise FormatError(path, None, f"the column {name!r} is of type {kind}; numbers are needed")


def _triples(
    batch: Any, path: FilePath, group: int, first: int, refused: Refused | None
) -> tuple[Sequence[int], PreferenceTriples]:
    right = np.ones(batch.num_rows, dtype=bool)

    def refuse(i: int, message: str, kind: str = "format") -> None:
        error = FormatError(path, None, f"row group {group}, row {first + i + 1}: {message}", kind)
        if refused is None:
            raise error
        if right[i]:  # one problem of a row is enough
            refused(error)
        right[i] = False

    columns = {name: batch.column(name) for name in batch.schema.names}
    for name, column in columns.items():
        if column.null_count:
            for i in np.flatnonzero(np.asarray(column.is_null())).tolist():
                refuse(i, f"{name} is null; every row needs one")
    ids = {name: tuple(columns[name].to_pylist()) for name in IDS}
    for name, column_ids in ids.items():
        problems = {
            identifier: problem for identifier in set(column_ids) if (problem := id_problem(identifier)) is not None
        }
        for i, identifier in enumerate(column_ids) if problems else ():
            if identifier in problems:
                refuse(i, f"the {name} id {problems[identifier]}", "id")
    same = map(eq, ids["better"], ids["worse"])
    for i, better in enumerate(ids["better"]) if any(same) else ():
        if better == ids["worse"][i]:
            refuse(i, f"better and worse are both {better!r}; a preference needs two documents")
    numbers: dict[str, NDArray[np.float64]] = {}
    for name in NUMBERS:
        if name in columns:
            values = np.asarray(columns[name].to_numpy(zero_copy_only=False), dtype=np.float64)
            for i in np.flatnonzero(~(np.isfinite(values) & (values > 0))).tolist():
                refuse(i, f"{name} {values[i]}; a positive, finite number is needed")
            numbers[name] = values
    rows: Sequence[int] = range(first + 1, first + 1 + batch.num_rows)
    if not right.all():
        rows = list(compress(rows, right))
        ids = {name: tuple(compress(column_ids, right)) for name, column_ids in ids.items()}
        numbers = {name: values[right] for name, values in numbers.items()}
    return rows, PreferenceTriples(ids["query"], ids["better"], ids["worse"], **numbers)
