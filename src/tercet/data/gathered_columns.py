"""Columns of a table in memory, whose rows need not all have the same."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import overload

from tercet.data import limits
from tercet.data.values import Record, Value
from tercet.errors import FormatError

_FEW = 4  # a column that fewer than one row in so many has a value in is kept by row


def too_many_columns(count: int) -> str:
    """Say that a table has more columns than any real one."""
    return f"{count:,} columns or more; at most {limits.MOST_COLUMNS:,} are taken: put the rest into one, as a text"


class SparseColumn(Sequence[Value]):
    """The values of a column that few rows have; None in the others.

    Examples
    --------
    >>> list(SparseColumn({1: "red"}, 3))
    [None, 'red', None]
    """

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
            return [self._values.get(one) for one in range(*row.indices(self._length))]
        return self._values.get(range(self._length)[row])


def compact_column(values: Sequence[Value]) -> Sequence[Value]:
    """Return values by row as a `SparseColumn` where few rows have one, else as they are."""
    n_empty = values.count(None)
    if _FEW * (len(values) - n_empty) >= len(values):
        return values
    return SparseColumn({row: value for row, value in enumerate(values) if value is not None}, len(values))


class GatheredColumns:
    """Gathers rows by column, in time and memory linear in the values that they have.

    Parameters
    ----------
    names : the columns that come first, whether a row has them or not

    Examples
    --------
    >>> columns = GatheredColumns(("text",))
    >>> for row in ({"text": "Tea"}, {"text": "Milk", "price": 1.5}):
    ...     columns.add(row, lambda message: FormatError("rows", None, message))
    >>> columns.finished()
    {'text': ['Tea', 'Milk'], 'price': [None, 1.5]}
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
