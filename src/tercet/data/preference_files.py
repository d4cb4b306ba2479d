"""Files of preferences: query, better document, worse document, perhaps a weight and a margin, as TSV or JSONL."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from os import fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.data.lines import (
    FilePath,
    Refused,
    json_field,
    parse_float,
    parse_json_object,
    parsed_lines,
    read_id,
    writable_id,
    write_atomically,
)
from tercet.data.preferences import Preferences
from tercet.errors import FormatError, InputError

TSV_HEADER = "query-id\tbetter-id\tworse-id"
IDS = ("query", "better", "worse")
NO_PREFERENCES = "the file holds no preferences"
NUMBERS = ("weight", "margin")  # each on every line, or on none
# What the columns after the ids are, by the first line. Without a header, or with one of ids only, they are as NUMBERS.
TSV_HEADERS = {"\t".join((TSV_HEADER, *names)): names for names in ((), ("weight",), ("margin",), NUMBERS)}

# line number, qid, better, worse, what numbers there are
Row = tuple[int, str, str, str, dict[str, float]]


@dataclass(frozen=True, eq=False)
class PreferenceTriples:
    """Preferences between documents named by their ids, in file order.

    Attributes
    ----------
    qid, better, worse : ids, one of each for a preference
    weight, margin : float64, positive, one for a preference; None when none are given
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
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(f"preferences must have one of each; found {found}")

    def __len__(self) -> int:
        return len(self.qid)

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Weights and margins by name, those that are given."""
        given = {"weight": self.weight, "margin": self.margin}
        return {name: numbers for name, numbers in given.items() if numbers is not None}

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
            unknown = next((at for at, one in enumerate(ids) if one not in rows), None)
            if unknown is not None:
                raise InputError(f"{name}[{unknown}] is {ids[unknown]!r}, an id without a row")
            columns.append(np.array([rows[one] for one in ids], dtype=np.int64))
        return Preferences(columns[0], columns[1], columns[2], self.weight, self.margin)


def read_preferences(path: FilePath) -> PreferenceTriples:
    """Read preferences from TSV or JSONL; the first line tells which.

    TSV has the columns query, better, worse and perhaps weight and margin, with or without the header
    ``query-id better-id worse-id [weight] [margin]``; margins without weights need it. JSONL has the keys ``query``,
    ``better``, ``worse`` and perhaps ``weight`` and ``margin``; any other key is an error. All lines have a weight or
    none has, and so for margins. A preference may occur again.

    Parameters
    ----------
    path : a text file, gzipped or not

    Returns
    -------
    PreferenceTriples

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "preferences.tsv")
    ...     _ = file.write_text("q1\\td7\\td3\\n")
    ...     read_preferences(file)
    PreferenceTriples(qid=('q1',), better=('d7',), worse=('d3',), weight=None, margin=None)
    """
    [whole] = iter_preferences(path, chunk=None)
    return whole


def iter_preferences(path: FilePath, chunk: int | None = 100_000) -> Iterator[PreferenceTriples]:
    """Yield the preferences of a file in chunks of so many, in memory for one; None gives all at once.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "preferences.tsv")
    ...     _ = file.write_text("q1\\td7\\td3\\nq2\\td7\\td3\\nq3\\td7\\td3\\n")
    ...     [part.qid for part in iter_preferences(file, chunk=2)]
    [('q1', 'q2'), ('q3',)]
    """
    if chunk is not None and chunk < 1:
        raise InputError(f"chunk must be a whole number from 1, or None. Got {chunk!r} instead.")
    expected: tuple[str, ...] | None = None
    gathered = Gathered(())
    for line, qid, better, worse, given in rows_of(path):
        if expected is None:
            expected = tuple(given)
            gathered = Gathered(expected)
        uneven = uneven_numbers(given, expected)
        if uneven is not None:
            raise FormatError(path, line, uneven)
        gathered.add((qid, better, worse), given)
        if len(gathered.ids[0]) == chunk:
            yield gathered.triples()
            gathered = Gathered(expected)
    if expected is None:
        raise FormatError(path, None, NO_PREFERENCES)
    if gathered.ids[0]:
        yield gathered.triples()


class Gathered:
    """Preferences column by column, with one string object for each id, however often it occurs."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.ids: tuple[list[str], ...] = ([], [], [])
        self.numbers: dict[str, list[float]] = {name: [] for name in names}
        self._kept: dict[str, str] = {}

    def add(self, ids: tuple[str, str, str], given: Mapping[str, float]) -> None:
        for column, identifier in zip(self.ids, ids, strict=True):
            column.append(self._kept.setdefault(identifier, identifier))
        for name, number in given.items():
            self.numbers[name].append(number)

    def triples(self) -> PreferenceTriples:
        qids, betters, worses = map(tuple, self.ids)
        arrays = {name: np.array(column) for name, column in self.numbers.items()}
        for array in arrays.values():
            array.flags.writeable = False
        return PreferenceTriples(qids, betters, worses, **arrays)


def rows_of(path: FilePath, refused: Refused | None = None) -> Iterator[Row]:
    """Yield the preferences of a file one by one, each right by itself."""
    for _, row in parsed_lines(path, RowParser(path), refused):
        if row is not None:
            yield row


class RowParser:
    """Makes a preference of each line of a file; the first line it gets, which may be a header, tells the format."""

    def __init__(self, path: FilePath) -> None:
        self.path = path
        self.is_json: bool | None = None
        self.columns: tuple[str, ...] = NUMBERS

    def __call__(self, text: str, line: int) -> Row | None:
        """The preference on a line; None for a header."""
        if self.is_json is None:
            self.is_json = text.lstrip().startswith("{")
            if text in TSV_HEADERS:
                self.columns = TSV_HEADERS[text] or NUMBERS
                return None
        path = self.path
        row = _json_row(text, path, line) if self.is_json else _tsv_row(text, self.columns, path, line)
        _, _, better, worse, given = row
        if better == worse:
            raise FormatError(path, line, f"better and worse are both {better!r}; a preference needs two documents")
        for name, number in given.items():
            if not (math.isfinite(number) and number > 0):
                raise FormatError(path, line, f"{name} {number}; a positive, finite number is needed")
        return row


def uneven_numbers(given: Collection[str], expected: Collection[str]) -> str | None:
    """Say that a line has a number that those before have not, or has none where they have; None when it is alike."""
    for name in NUMBERS:
        if (name in expected) != (name in given):
            found = f"no {name} here and one" if name in expected else f"a {name} here and none"
            return f"{found} on the lines before; give one on every line or on none"
    return None


def _tsv_row(text: str, names: tuple[str, ...], path: FilePath, line: int) -> Row:
    columns = text.split("\t")
    if not 3 <= len(columns) <= 3 + len(names):
        needed = f"3 to {3 + len(names)}" if len(names) > 1 else "3 or 4"
        wanted = ", ".join((*IDS, *names))
        raise FormatError(path, line, f"{len(columns)} columns; {needed} are needed, separated by tabs: {wanted}")
    qid = read_id(columns[0], path, line, "query id")
    better = read_id(columns[1], path, line, "better document's id")
    worse = read_id(columns[2], path, line, "worse document's id")
    given = {name: parse_float(cell, path, line, name) for name, cell in zip(names, columns[3:], strict=False)}
    return line, qid, better, worse, given


def _json_row(text: str, path: FilePath, line: int) -> Row:
    record = parse_json_object(text, path, line)
    for key in record:
        if key not in (*IDS, *NUMBERS):
            allowed = ", ".join(f'"{name}"' for name in (*IDS, *NUMBERS))
            raise FormatError(path, line, f'unknown key "{key}"; the keys are {allowed}')
    qid, better, worse = (read_id(json_field(record, key, path, line), path, line, f'"{key}"') for key in IDS)
    given = {name: _json_number(record, name, path, line) for name in NUMBERS if name in record}
    return line, qid, better, worse, given


def _json_number(record: dict[str, Any], name: str, path: FilePath, line: int) -> float:
    number = record[name]
    if type(number) not in (int, float):
        raise FormatError(path, line, f'"{name}" is {json.dumps(number)}; a number without quotes is needed')
    try:
        return float(number)
    except OverflowError as error:
        raise FormatError(path, line, f'"{name}" is too large; a finite number is needed') from error


def write_preferences(path: FilePath, preferences: PreferenceTriples) -> None:
    """Write preferences: JSONL when the name ends in ``.jsonl`` or ``.jsonl.gz``, else TSV with a header.

    Weights and margins are written with every digit, so reading gives the same floats.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "preferences.jsonl")
    ...     write_preferences(file, PreferenceTriples(("q1",), ("d7",), ("d3",)))
    ...     file.read_text()
    '{"query": "q1", "better": "d7", "worse": "d3"}\\n'
    """
    if not len(preferences):
        raise InputError(f"{path}: cannot write: there are no preferences")
    as_json = fspath(path).removesuffix(".gz").endswith(".jsonl")
    given = preferences.numbers()
    with write_atomically(path) as stream:
        if not as_json:
            stream.write("\t".join((TSV_HEADER, *given)) + "\n")
        for row in range(len(preferences)):
            ids = [
                writable_id(preferences.qid[row], path, "query id"),
                writable_id(preferences.better[row], path, "better document's id"),
                writable_id(preferences.worse[row], path, "worse document's id"),
            ]
            if ids[1] == ids[2]:
                raise InputError(f"{path}: cannot write: preference {row} has {ids[1]!r} as better and as worse")
            numbers = {name: float(column[row]) for name, column in given.items()}
            for name, number in numbers.items():
                if not (math.isfinite(number) and number > 0):
                    raise InputError(f"{path}: cannot write: {name} {number} of preference {row} is not positive")
            if as_json:
                record = {**dict(zip(IDS, ids, strict=True)), **numbers}
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                stream.write("\t".join((*ids, *map(repr, numbers.values()))) + "\n")
