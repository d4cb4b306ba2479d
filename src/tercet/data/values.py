"""Values of tables as plain strings, numbers and truth values."""

from __future__ import annotations

import datetime
import json
import math
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, overload

import numpy as np

from tercet.data import limits
from tercet.data.lines import surrogate_problem
from tercet.errors import FormatError, InputError

Value: TypeAlias = str | int | float | bool | None
Record: TypeAlias = dict[str, Value]

_MISSING = ("NAType", "NaTType")  # types of pandas, by name: pandas is optional
_LARGEST = Decimal(sys.float_info.max)


def plain_value(value: Any) -> Value:
    """Return a value as a table keeps it, or raise `InputError` without a place.

    Not a number is None. Whole numbers beyond 64 bits are strings, dates are ISO 8601, elements of a list are joined
    by
    ", ", and an object is its JSON.
    """
    if isinstance(value, str):
        problem = surrogate_problem(value)
        if problem is not None:
            raise InputError(problem)
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, float):
        if math.isinf(value):
            raise InputError(f"is {value}; a finite number is needed")
        return None if math.isnan(value) else float(value)
    return _other_value(value)


def _other_value(value: Any) -> Value:
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _of_moment(value)
    if isinstance(value, np.generic):
        return plain_value(float(value) if isinstance(value, np.longdouble) else value.item())
    if isinstance(value, Decimal):
        return _of_decimal(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, np.ndarray):
        value = list(value) if value.dtype.kind in "mM" else value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        elements = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        values = [plain_value(element) for element in elements]
        return ", ".join(str(element) for element in values if element is not None) if values else None
    if isinstance(value, Mapping):
        try:
            return json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"is an object that cannot be kept: {error}") from error
    if isinstance(value, bytes | bytearray):
        raise InputError("holds bytes; a text or a number is needed")
    return plain_value(str(value))


def _of_moment(value: np.datetime64 | np.timedelta64) -> Value:
    """Return a moment of NumPy in Python's form; nanoseconds would become a number."""
    moment: Any = value.item()
    if isinstance(moment, int):
        moment = value.astype(f"{value.dtype.kind}8[us]").item()
    return plain_value(str(value) if isinstance(moment, int) else moment)


def _of_decimal(value: Decimal) -> Value:
    if value.is_nan():
        return None
    if abs(value) > _LARGEST:
        raise InputError(f"is {value}; a finite number is needed")
    return plain_value(int(value) if value == int(value) else float(value))


def plain_record(
    record: Mapping[Any, Any], error: Callable[[str], FormatError], *, lists_as_json: bool = False
) -> Record:
    """Return a row with plain values; objects become a column for each of their keys, ``outer.inner``.

    With ``lists_as_json`` a list is a JSON array.
    """
    row: Record = {}
    for name, value in record.items():
        if not isinstance(name, str):
            raise error(f"a column is called {name!r}; a string is needed")
        inner = value.items() if isinstance(value, Mapping) else ((None, value),)
        for key, inner_value in inner:
            column = name if key is None else f"{name}.{key}"
            problem = surrogate_problem(column)
            if problem is not None:
                raise error(f"the name of a column {problem}")
            if column in row:
                raise error(f"the column {column!r} occurs twice")
            try:
                is_list = lists_as_json and isinstance(inner_value, list | tuple | np.ndarray)
                row[column] = (
                    json.dumps([plain_value(each) for each in inner_value]) if is_list else plain_value(inner_value)
                )
            except (InputError, RecursionError) as refusal:
                raise error(f"{column!r} {refusal}") from refusal
    return row


# -- values in strings -------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LONGEST_WHOLE = len(str(-(1 << 63)))


def number_in(text: str) -> int | float | None:
    """Return the number in a cell of CSV, or None: leading zeros, blanks and plus signs make a string."""
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return None
    if parts[1] is None and parts[2] is None:
        whole = plain_value(int(text)) if len(text) <= _LONGEST_WHOLE else None
        return whole if isinstance(whole, int) else None
    value = float(text)
    return value if abs(value) < float("inf") else None


def timestamp(moment: datetime.datetime | None = None) -> str:
    """A moment in UTC, now by default, as ISO 8601 to the millisecond."""
    moment = datetime.datetime.now(datetime.UTC) if moment is None else moment
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_in(text: str) -> datetime.datetime | None:
    """Return the moment of an ISO 8601 date or time, in UTC without a zone, or None."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


# -- columns in memory ------------------------------------------------------------------------------------------------


_FEW = 4  # a column with values in fewer than 1 of so many rows is stored sparsely


def too_many_columns(count: int) -> str:
    """Return the message for too many columns."""
    return f"{count:,} columns or more; at most {limits.MOST_COLUMNS:,} are taken: put the rest into one, as a text"


class SparseColumn(Sequence[Value]):
    """A column with values in few rows, and None in the others."""

    def __init__(self, values: Mapping[int, Value], length: int) -> None:
        self._values, self._length = values, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, row: int) -> Value: ...
    @overload
    def __getitem__(self, row: slice) -> list[Value]: ...
    def __getitem__(self, row: int | slice) -> Value | list[Value]:
        if isinstance(row, slice):
            return [self._values.get(position) for position in range(*row.indices(self._length))]
        return self._values.get(range(self._length)[row])


def compact_column(values: Sequence[Value]) -> Sequence[Value]:
    """Return values by row as a `SparseColumn` if few rows have a value."""
    n_empty = values.count(None)
    if _FEW * (len(values) - n_empty) >= len(values):
        return values
    return SparseColumn({row: value for row, value in enumerate(values) if value is not None}, len(values))


class GatheredColumns:
    """Gathers rows by column, in time and memory linear in their values.

    Parameters
    ----------
    names : the first columns
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._n_rows = 0
        self._rows: dict[str, array[int]] = {}
        self._values: dict[str, list[Value]] = {}
        for name in names:
            self._start(name)

    def _start(self, name: str) -> None:
        self._rows[name], self._values[name] = array("q"), []

    def add(self, row: Record, error: Callable[[str], FormatError]) -> None:
        """Take a row in; too many different columns are an error."""
        for name, value in row.items():
            if value is None and name in self._values:
                continue
            if name not in self._values:
                if len(self._values) >= limits.MOST_COLUMNS:
                    raise error(too_many_columns(limits.MOST_COLUMNS + 1))
                self._start(name)
            if value is not None:
                self._rows[name].append(self._n_rows)
                self._values[name].append(value)
        self._n_rows += 1

    def finished(self) -> dict[str, Sequence[Value]]:
        """The columns, each with a value or None for every row."""
        return {name: self._column(self._rows[name], values) for name, values in self._values.items()}

    def _column(self, rows: array[int], values: list[Value]) -> Sequence[Value]:
        if len(values) == self._n_rows:
            return values
        if _FEW * len(values) < self._n_rows:
            return SparseColumn(dict(zip(rows, values, strict=True)), self._n_rows)
        column: list[Value] = [None] * self._n_rows
        for row, value in zip(rows, values, strict=True):
            column[row] = value
        return column
