"""Files of preferences: query, better document, worse document and perhaps a weight, as TSV or JSONL."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import fspath

import numpy as np
from numpy.typing import NDArray

from tercet.data.lines import (
    FilePath,
    json_field,
    open_lines,
    parse_float,
    parse_json_object,
    read_id,
    writable_id,
    write_atomically,
)
from tercet.data.preferences import Preferences
from tercet.errors import FormatError, InputError

TSV_HEADER = "query-id\tbetter-id\tworse-id"
TSV_WEIGHTED_HEADER = f"{TSV_HEADER}\tweight"
JSON_KEYS = ("query", "better", "worse", "weight")

# line number, qid, better, worse, weight
Row = tuple[int, str, str, str, float | None]


@dataclass(frozen=True, eq=False)
class PreferenceTriples:
    """Preferences between documents named by their ids, in file order.

    Attributes
    ----------
    qid, better, worse : ids, one of each for a preference
    weight : float64, positive, one for a preference; None when no weights are given
    """

    qid: tuple[str, ...]
    better: tuple[str, ...]
    worse: tuple[str, ...]
    weight: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        counts = {"qid": len(self.qid), "better": len(self.better), "worse": len(self.worse)}
        if self.weight is not None:
            counts["weight"] = len(self.weight)
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(f"preferences must have one of each; found {found}")

    def __len__(self) -> int:
        return len(self.qid)

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
        return Preferences(columns[0], columns[1], columns[2], self.weight)


def read_preferences(path: FilePath) -> PreferenceTriples:
    """Read preferences from TSV or JSONL; the first line tells which.

    TSV has the columns query, better, worse and perhaps weight, with or without the header
    ``query-id better-id worse-id [weight]``. JSONL has the keys ``query``, ``better``, ``worse`` and perhaps
    ``weight``; any other key is an error. All lines have a weight or none has. A preference may occur again.

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
    PreferenceTriples(qid=('q1',), better=('d7',), worse=('d3',), weight=None)
    """
    ids: tuple[list[str], list[str], list[str]] = ([], [], [])
    weights: list[float] = []
    kept: dict[str, str] = {}  # one string object for each id, however often it occurs
    weighted = False
    for line, qid, better, worse, row_weight in _rows(path):
        if better == worse:
            message = f"better and worse are both {better!r}; a preference needs two documents"
            raise FormatError(path, line, message)
        if not ids[0]:
            weighted = row_weight is not None
        elif weighted != (row_weight is not None):
            found = "no weight here and one" if weighted else "a weight here and none"
            raise FormatError(path, line, f"{found} on the lines before; give one on every line or on none")
        for column, identifier in zip(ids, (qid, better, worse), strict=True):
            column.append(kept.setdefault(identifier, identifier))
        if row_weight is not None:
            if not (math.isfinite(row_weight) and row_weight > 0):
                raise FormatError(path, line, f"weight {row_weight}; a positive, finite number is needed")
            weights.append(row_weight)
    if not ids[0]:
        raise FormatError(path, None, "the file holds no preferences")
    qids, betters, worses = (tuple(column) for column in ids)
    if not weighted:
        return PreferenceTriples(qids, betters, worses)
    weight = np.array(weights)
    weight.flags.writeable = False
    return PreferenceTriples(qids, betters, worses, weight)


def _rows(path: FilePath) -> Iterator[Row]:
    is_json: bool | None = None
    for line, text in open_lines(path):
        if not text.strip():
            continue
        if is_json is None:
            is_json = text.lstrip().startswith("{")
            if text in (TSV_HEADER, TSV_WEIGHTED_HEADER):
                continue
        yield _json_row(text, path, line) if is_json else _tsv_row(text, path, line)


def _tsv_row(text: str, path: FilePath, line: int) -> Row:
    columns = text.split("\t")
    if len(columns) not in (3, 4):
        message = f"{len(columns)} columns; 3 or 4 are needed, separated by tabs: query, better, worse, weight"
        raise FormatError(path, line, message)
    qid = read_id(columns[0], path, line, "query id")
    better = read_id(columns[1], path, line, "better document's id")
    worse = read_id(columns[2], path, line, "worse document's id")
    return line, qid, better, worse, parse_float(columns[3], path, line, "weight") if columns[3:] else None


def _json_row(text: str, path: FilePath, line: int) -> Row:
    record = parse_json_object(text, path, line)
    for key in record:
        if key not in JSON_KEYS:
            allowed = ", ".join(f'"{name}"' for name in JSON_KEYS)
            raise FormatError(path, line, f'unknown key "{key}"; the keys are {allowed}')
    qid, better, worse = (read_id(json_field(record, key, path, line), path, line, f'"{key}"') for key in JSON_KEYS[:3])
    if "weight" not in record:
        return line, qid, better, worse, None
    weight = record["weight"]
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise FormatError(path, line, f'"weight" is {json.dumps(weight)}; a number without quotes is needed')
    try:
        return line, qid, better, worse, float(weight)
    except OverflowError as error:
        raise FormatError(path, line, '"weight" is too large; a finite number is needed') from error


def write_preferences(path: FilePath, preferences: PreferenceTriples) -> None:
    """Write preferences: JSONL when the name ends in ``.jsonl`` or ``.jsonl.gz``, else TSV with a header.

    Weights are written with every digit, so reading gives the same floats.

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
    with write_atomically(path) as stream:
        if not as_json:
            stream.write((TSV_HEADER if preferences.weight is None else TSV_WEIGHTED_HEADER) + "\n")
        for row in range(len(preferences)):
            ids = [
                writable_id(preferences.qid[row], path, "query id"),
                writable_id(preferences.better[row], path, "better document's id"),
                writable_id(preferences.worse[row], path, "worse document's id"),
            ]
            if ids[1] == ids[2]:
                raise InputError(f"{path}: cannot write: preference {row} has {ids[1]!r} as better and as worse")
            weight = None if preferences.weight is None else float(preferences.weight[row])
            if weight is not None and not (math.isfinite(weight) and weight > 0):
                raise InputError(f"{path}: cannot write: weight {weight} of preference {row} is not positive")
            if as_json:
                record: dict[str, str | float] = dict(zip(JSON_KEYS[:3], ids, strict=True))
                if weight is not None:
                    record["weight"] = weight
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                stream.write("\t".join(ids if weight is None else [*ids, repr(weight)]) + "\n")
