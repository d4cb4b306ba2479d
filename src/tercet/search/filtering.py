"""Filters by stored fields.

Records are JSON without blanks, see `packed_record`, so a filter searches for the bytes of a value. No table of values
is built, and a column may have any number of different values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tercet._validate import did_you_mean
from tercet.data.values import number_in, plain_value
from tercet.errors import DamagedBundleError, InputError
from tercet.store.strings import PackedStrings

Where: TypeAlias = Mapping[str, str | Collection[str]]

_COLUMNS_NAMED: Final = 12
_RECORDS_AT_ONCE: Final = 1_000  # records searched for columns before other threads may run
_BEFORE: Final = b"{,"  # bytes before the quote that opens a name; a quote within a string follows a backslash
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# The pattern skips whole strings, so that no content of a string is taken for a name.
_NAME_AND_TEXT: Final = re.compile(rb"(" + _STRING + rb"):(?:" + _STRING + rb")?", re.DOTALL)
_ANY_NUMBER: Final = rb"(-?[0-9][-+.0-9eE]*)(?=[,}])"


def rows_with(records: PackedStrings, column: str, values: Collection[str]) -> NDArray[np.int64]:
    """Return the rows of documents with one of the values in a column, ascending.

    A value is a text: a string, ``true`` or ``false``, a number, or a range ``10..20`` with an optional bound. Time is
    linear in the bytes of stored fields.

    Examples
    --------
    >>> records = PackedStrings.pack(['{"tea":"green","price":1.5}', "", '{"tea":"black","price":20}'])
    >>> rows_with(records, "tea", ["green", "white"]).tolist(), rows_with(records, "price", ["2..30"]).tolist()
    ([0], [2])
    """
    literals = {literal for value in values for literal in _literals(value)}
    alternatives = b"|".join(re.escape(literal) for literal in sorted(literals))
    offsets, _ = _found(records, column, rb"((?:" + alternatives + rb")(?=[,}]))")
    ranges = [bounds for value in values if (bounds := range_in(value)) is not None]
    if ranges:
        starts, texts = _found(records, column, _ANY_NUMBER)
        numbers = np.array(texts, dtype=bytes).astype(np.float64)
        within = np.logical_or.reduce([(low <= numbers) & (numbers <= high) for low, high in ranges])
        offsets = np.concatenate([offsets, starts[within]])
    return np.unique(np.searchsorted(records.starts, offsets, side="right") - 1)


def range_in(text: str) -> tuple[float, float] | None:
    """The ends of ``low..high``, or None for anything else.

    Examples
    --------
    >>> range_in("1.5..20"), range_in("..20"), range_in("green..")
    ((1.5, 20.0), (-inf, 20.0), None)
    """
    low_end, dots, high_end = text.partition("..")
    low = number_in(low_end) if low_end else -np.inf
    high = number_in(high_end) if high_end else np.inf
    if not dots or text == dots or low is None or high is None:
        return None
    return float(low), float(high)


def columns_of(records: PackedStrings) -> dict[str, None]:
    """Return the columns of stored fields in the order of appearance, in linear time.

    Examples
    --------
    >>> list(columns_of(PackedStrings.pack(['{"tea":"green","price":1.5}', "", '{"tea":"no \"name\":","shelf":2}'])))
    ['tea', 'price', 'shelf']
    """
    names: dict[bytes, None] = {}
    for first in range(0, len(records), _RECORDS_AT_ONCE):
        last = min(first + _RECORDS_AT_ONCE, len(records))
        letters = records.letters[records.starts[first] : records.starts[last]]
        names.update(dict.fromkeys(_NAME_AND_TEXT.findall(letters.data)))
    try:
        return dict.fromkeys(json.loads(str(name, "utf-8")) for name in names)
    except ValueError as error:  # where nobody has checked them
        raise DamagedBundleError(f"stored fields have a column whose name is no JSON: {error}") from error


def unknown_column(column: str, columns: Collection[str]) -> InputError:
    """Return the error for a filter on a missing column."""
    named = ", ".join(repr(name[:80]) for name in islice(columns, _COLUMNS_NAMED))
    more = f" and {len(columns) - _COLUMNS_NAMED} more" if len(columns) > _COLUMNS_NAMED else ""
    stored = f"stored fields: {named}{more}" if columns else "stored fields: none"
    return InputError(f"no document has a column {column[:80]!r}{did_you_mean(column[:80], columns)}; {stored}")


def where_of(filters: Iterable[str], is_column: Callable[[str], bool]) -> dict[str, list[str]]:
    """Parse filters ``column:value``; values of the same column are alternatives. Names may have colons.

    Examples
    --------
    >>> where_of(["dc:type:book", "price:..20", "dc:type:map"], {"dc:type", "price"}.__contains__)
    {'dc:type': ['book', 'map'], 'price': ['..20']}
    """
    where: dict[str, list[str]] = {}
    for text in filters:
        colons = [i for i, letter in enumerate(text) if letter == ":"]
        if not colons:
            raise InputError(f"filter {text[:80]!r} has no colon; expected column:value")
        colon = next((i for i in colons if is_column(text[:i])), colons[0])
        where.setdefault(text[:colon], []).append(text[colon + 1 :])
    return where


def checked_where(where: Any) -> dict[str, tuple[str, ...]]:
    """Values by column, each a text."""
    if not isinstance(where, Mapping):
        raise InputError(f"where is of type {type(where).__name__}; expected values by column")
    checked = {}
    for column, condition in where.items():
        if not isinstance(column, str):
            raise InputError(f"where has the column {column!r}; expected a string")
        several = isinstance(condition, Iterable) and not isinstance(condition, str | bytes)
        checked[column] = tuple(_as_text(value, column) for value in (condition if several else (condition,)))
    return checked


def _as_text(value: Any, column: str) -> str:
    """A stored value as a text; also a number of NumPy and a date."""
    if isinstance(value, str):
        return value
    with suppress(InputError):
        plain = None if isinstance(value, Iterable) else plain_value(value)
        if plain is not None:
            return plain if isinstance(plain, str) else json.dumps(plain)
    raise InputError(f"where has {value!r} for the column {column[:80]!r}; expected a text, a number, true or false")


def _literals(value: str) -> list[bytes]:
    """Return the JSON spellings of a value."""
    literals = [json.dumps(value, ensure_ascii=False)]
    if value in ("true", "false"):
        literals.append(value)
    number = number_in(value)
    if number is not None:
        forms = (number, int(number), float(number), 0.0, -0.0)  # forms with another value are left out
        literals += [json.dumps(form) for form in forms if form == number]
    return [literal.encode("utf-8", "surrogatepass") for literal in literals]


def _name(column: str) -> bytes:
    return json.dumps(column, ensure_ascii=False).encode("utf-8", "surrogatepass") + b":"


def _found(records: PackedStrings, column: str, value: bytes) -> tuple[NDArray[np.int64], list[bytes]]:
    """Find a column's name with a value: positions of the quote before the name, and values."""
    matches = list(re.finditer(re.escape(_name(column)) + value, records.letters.data))
    starts = np.array([match.start() for match in matches], dtype=np.int64)
    opens = np.isin(records.letters[starts - 1], np.frombuffer(_BEFORE, dtype=np.uint8))
    return starts[opens], [match[1] for match, is_name in zip(matches, opens.tolist(), strict=True) if is_name]
