"""Numbers and dates in local formats, recognized by the whole column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from tercet.data.values import Value, number_in

NUMBERS = "numbers"
DATES = ("dates, day first", "dates, month first")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|(?<=\.)\d\d)(?:,? (\d{1,2}):(\d\d)(?::(\d\d))?)?", re.ASCII)


def _number(pattern: re.Pattern[str], thousands: str, point: str, text: str) -> Value:
    return number_in(text.replace(thousands, "").replace(point, ".")) if pattern.fullmatch(text) else None


def _date(day_first: bool, text: str) -> Value:
    """Return the date or time as ISO 8601; years of two digits are 1969 to 2068."""
    parts = _DATE.fullmatch(text)
    if parts is None:
        return None
    first, second, year = int(parts[1]), int(parts[3]), int(parts[4])
    if len(parts[4]) == 2:
        year += 1900 if year > 68 else 2000
    day, month = (first, second) if day_first else (second, first)
    try:
        moment = datetime(year, month, day, int(parts[5] or 0), int(parts[6] or 0), int(parts[7] or 0))
    except ValueError:
        return None
    return moment.isoformat() if parts[5] else moment.date().isoformat()


class _Format(NamedTuple):
    """A format: a conversion to a number or an ISO 8601 date, and the texts that no other format has."""

    convert: Callable[[str], Value]
    sure: re.Pattern[str]


_FORMATS = {
    NUMBERS: _Format(number_in, re.compile("")),
    "decimal commas": _Format(
        partial(_number, re.compile(r"-?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?", re.ASCII), ".", ","),
        re.compile(r".*\..*[.,]|.*,(?!\d{3}$)\d|-?(0|\d{4,}),\d"),
    ),
    "commas between thousands": _Format(
        partial(_number, re.compile(r"-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?", re.ASCII), ",", "."),
        re.compile(r".*,.*[.,]"),
    ),
    DATES[0]: _Format(partial(_date, True), re.compile(r"\d+\.|1[3-9]|[23]\d")),
    DATES[1]: _Format(partial(_date, False), re.compile(r"\d+[/-](1[3-9]|[23]\d)")),
}


class ColumnFormat:
    """Finds the format of a column from its texts; ambiguous texts, such as 1,234 or 5/6/2026, stay texts.

    Examples
    --------
    >>> prices = ColumnFormat(["1.299,00", "5,5", "12"])
    >>> prices.name, prices.convert("1.299,00")
    ('decimal commas', 1299.0)
    >>> days = ColumnFormat(["5/31/2026", "12/1/2025"])
    >>> days.name, days.convert("12/1/2025")
    ('dates, month first', '2025-12-01')
    >>> ColumnFormat(["1,234", "2,500"]).name, ColumnFormat(["5/6/2026"]).name, ColumnFormat(["007"]).name
    (None, None, None)
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._is_sure = dict.fromkeys(_FORMATS, False)  # of the formats that are left
        for text in texts:
            if not self.add(text):
                break

    def add(self, text: str) -> bool:
        """Add a text; False when no format remains."""
        self._is_sure = {
            name: is_sure or _FORMATS[name].sure.match(text) is not None
            for name, is_sure in self._is_sure.items()
            if _FORMATS[name].convert(text) is not None
        }
        return bool(self._is_sure)

    @property
    def name(self) -> str | None:
        """The format, or None for texts."""
        return next((name for name, is_sure in self._is_sure.items() if is_sure), None)

    def add_column(self, cells: Iterable[Value]) -> None:
        """Add the texts of cells, each once, until no format remains."""
        if self._is_sure:
            all(self.add(text) for text in dict.fromkeys(cells) if isinstance(text, str))

    def convert_column(self, cells: Sequence[Value]) -> list[Value]:
        """Return the cells with converted texts."""
        if self.name is None:
            return list(cells)
        values: dict[Value, Value] = {text: self.convert(text) for text in set(cells) if isinstance(text, str)}
        return [values.get(cell) for cell in cells]

    def convert(self, text: str) -> Value:
        """The number or ISO 8601 date in a text; None for a text of another format."""
        name = self.name
        return text if name is None else _FORMATS[name].convert(text)


def typed_column(cells: list[Value]) -> tuple[list[Value], str | None]:
    """Return a column of CSV with converted texts, and the name of the format; None for texts."""
    column_format = ColumnFormat()
    column_format.add_column(cells)
    return column_format.convert_column(cells), column_format.name
