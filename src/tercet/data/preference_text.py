"""Preferences between documents named by ids, and how a line of TSV or JSONL is read as one."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.data import limits
from tercet.data.lines import (
    FilePath,
    Refused,
    json_field,
    parse_float,
    parse_json_object,
    parsed_lines,
    read_id,
)
from tercet.data.preferences import Preferences
from tercet.errors import FormatError, InputError

TSV_HEADER = "query-id\tbetter-id\tworse-id"
IDS = ("query", "better", "worse")
NO_PREFERENCES = "the file holds no preferences"
NUMBERS = ("weight", "margin")  # each on every line, or on none
# What the columns after the ids are, by the first line. Without a header, or with one of ids only, they are as NUMBERS.
TSV_HEADERS = {"\t".join((TSV_HEADER, *names)): names for names in ((), ("weight",), ("margin",), NUMBERS)}

# line number, qid, better, worse, weight and margin where there are some
PreferenceLine = tuple[int, str, str, str, dict[str, float]]


@dataclass(frozen=True, eq=False)
class PreferenceTriples:
    """Preferences between documents named by their ids, in file order.

    Attributes
    ----------
    qid, better, worse : ids, one of each for a preference
    weight, margin : float64, positive, one for a preference; None when none are given

    Examples
    --------
    >>> triplets = PreferenceTriples(("q1", "q1"), ("a", "a"), ("b", "c"))
    >>> triplets.better
    ('a', 'a')
    """

    qid: tuple[str, ...]
    better: tuple[str, ...]
    worse: tuple[str, ...]
    weight: NDArray[np.float64] | None = None
    margin: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        counts = {"qid": len(self.qid), "better": len(self.better), "worse": len(self.worse)}
        counts |= {name: len(numbers) for name, numbers in self.numbers().items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(f"preferences must have one of each; found {listed}")

    def __len__(self) -> int:
        return len(self.qid)

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Weights and margins by name, those that are given."""
        columns = {"weight": self.weight, "margin": self.margin}
        return {name: numbers for name, numbers in columns.items() if numbers is not None}

    def rows(self, query_rows: Mapping[str, int], doc_rows: Mapping[str, int]) -> Preferences:
        """The same preferences as row numbers, by the row of each id.

        Examples
        --------
        >>> PreferenceTriples(("q",), ("a",), ("b",)).rows({"q": 0}, {"a": 3, "b": 1}).better.tolist()
        [3]
        """
        columns = []
        for name, ids, rows in (
            ("qid", self.qid, query_rows),
            ("better", self.better, doc_rows),
            ("worse", self.worse, doc_rows),
        ):
            unknown = next((i for i, identifier in enumerate(ids) if identifier not in rows), None)
            if unknown is not None:
                raise InputError(f"{name}[{unknown}] is {ids[unknown]!r}, an id without a row")
            columns.append(np.array([rows[identifier] for identifier in ids], dtype=np.int64))
        return Preferences(columns[0], columns[1], columns[2], self.weight, self.margin)


class Gathered:
    """Preferences column by column, with one string object for each id, however often it occurs."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.ids: tuple[list[str], ...] = ([], [], [])
        self.numbers: dict[str, list[float]] = {name: [] for name in names}
        self._kept: dict[str, str] = {}

    def add(self, ids: tuple[str, str, str], numbers: Mapping[str, float]) -> None:
        for column, identifier in zip(self.ids, ids, strict=True):
            column.append(self._kept.setdefault(identifier, identifier))
        for name, number in numbers.items():
            self.numbers[name].append(number)

    def triples(self) -> PreferenceTriples:
        qids, betters, worses = map(tuple, self.ids)
        arrays = {name: np.array(column) for name, column in self.numbers.items()}
        for array in arrays.values():
            array.flags.writeable = False
        return PreferenceTriples(qids, betters, worses, **arrays)


def preference_lines(path: FilePath, refused: Refused | None = None) -> Iterator[PreferenceLine]:
    """Yield the preferences of a file one by one, each right by itself."""
    for _, row in parsed_lines(path, LineParser(path), refused):
        if row is not None:
            yield row


class LineParser:
    """Makes a preference of each line of a file; the first line it gets, which may be a header, tells the format."""

    def __init__(self, path: FilePath) -> None:
        self.path = path
        self.is_json: bool | None = None
        self.columns: tuple[str, ...] = NUMBERS

    def __call__(self, text: str, line: int) -> PreferenceLine | None:
        """The preference on a line; None for a header."""
        if self.is_json is None:
            self.is_json = text.lstrip().startswith("{")
            if text in TSV_HEADERS:
                self.columns = TSV_HEADERS[text] or NUMBERS
                return None
        path = self.path
        row = _json_row(text, path, line) if self.is_json else _tsv_row(text, self.columns, path, line)
        _, _, better, worse, numbers = row
        if better == worse:
            raise FormatError(path, line, f"better and worse are both {better!r}; a preference needs two documents")
        for name, number in numbers.items():
            if not (math.isfinite(number) and number > 0):
                raise FormatError(path, line, f"{name} {number}; a positive, finite number is needed")
        return row


def uneven_numbers(names: Collection[str], expected: Collection[str]) -> str | None:
    """Say that a line has a number that those before have not, or has none where they have; None when it is alike."""
    for name in NUMBERS:
        if (name in expected) != (name in names):
            which = f"no {name} here and one" if name in expected else f"a {name} here and none"
            return f"{which} on the lines before; give one on every line or on none"
    return None


def _tsv_row(text: str, names: tuple[str, ...], path: FilePath, line: int) -> PreferenceLine:
    columns = text.split("\t", limits.MOST_VALUES)
    if not 3 <= len(columns) <= 3 + len(names):
        needed = f"3 to {3 + len(names)}" if len(names) > 1 else "3 or 4"
        wanted = ", ".join((*IDS, *names))
        raise FormatError(path, line, f"{len(columns)} columns; {needed} are needed, separated by tabs: {wanted}")
    qid = read_id(columns[0], path, line, "query id")
    better = read_id(columns[1], path, line, "better document's id")
    worse = read_id(columns[2], path, line, "worse document's id")
    numbers = {name: parse_float(cell, path, line, name) for name, cell in zip(names, columns[3:], strict=False)}
    return line, qid, better, worse, numbers


def _json_row(text: str, path: FilePath, line: int) -> PreferenceLine:
    record = parse_json_object(text, path, line)
    for key in record:
        if key not in (*IDS, *NUMBERS):
            allowed = ", ".join(f'"{name}"' for name in (*IDS, *NUMBERS))
            raise FormatError(path, line, f'unknown key "{key}"; the keys are {allowed}')
    qid, better, worse = (read_id(json_field(record, key, path, line), path, line, f'"{key}"') for key in IDS)
    numbers = {name: _json_number(record, name, path, line) for name in NUMBERS if name in record}
    return line, qid, better, worse, numbers


def _json_number(record: dict[str, Any], name: str, path: FilePath, line: int) -> float:
    number = record[name]
    if type(number) not in (int, float):
        raise FormatError(path, line, f'"{name}" is {json.dumps(number)}; a number without quotes is needed')
    try:
        return float(number)
    except OverflowError as error:
        raise FormatError(path, line, f'"{name}" is too large; a finite number is needed') from error
