"""Files of preferences: query, better document, worse document, perhaps a weight and a margin; TSV, JSONL or Parquet.

Read whole, in chunks, or in stretches from any position on, in memory for one stretch; text may be gzipped.
"""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import eq
from os import fspath
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from tercet._validate import check_integer
from tercet.data import limits
from tercet.data.lines import (
    PACKING_DAMAGE,
    UTF8_MARK,
    FilePath,
    damage_message,
    line_text,
    open_bytes,
    open_lines,
    raw_line,
    writable_id,
    write_atomically,
)
from tercet.data.parquet import is_parquet, parquet_batches, parquet_rows
from tercet.data.preference_text import (
    IDS,
    NO_PREFERENCES,
    TSV_HEADER,
    TSV_HEADERS,
    Gathered,
    LineParser,
    PreferenceTriples,
    uneven_numbers,
)
from tercet.data.watching import READ_AT_ONCE
from tercet.errors import FormatError, InputError

STRETCH = 16_384  # preferences read at once
ENDINGS = (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz", ".parquet")  # of the files of a folder that are read


def read_preferences(path: FilePath) -> PreferenceTriples:
    """Read preferences from TSV, JSONL or Parquet; what the file begins with tells which.

    TSV has the columns query, better, worse and perhaps weight and margin, with or without the header
    ``query-id better-id worse-id [weight] [margin]``; margins without weights need it. JSONL has the keys, and Parquet
    the columns, ``query``, ``better``, ``worse`` and perhaps ``weight`` and ``margin``; any other is an error. All
    lines have a weight or none has, and so for margins. A preference may occur again.

    Parameters
    ----------
    path : a text file, gzipped or not, or a Parquet file

    Returns
    -------
    PreferenceTriples

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "preferences.tsv")
    ...     _ = file.write_text("q1\\td7\\td3\\n")
    ...     read_preferences(file)
    PreferenceTriples(qid=('q1',), better=('d7',), worse=('d3',), weight=None, margin=None)
    """
    whole: Gathered | None = None
    for stretch in stretches(path):
        triples = stretch.triples
        whole = Gathered(tuple(triples.numbers())) if whole is None else whole
        whole.extend(triples)
    if whole is None:
        raise FormatError(path, None, NO_PREFERENCES)
    return whole.triples()


def iter_preferences(path: FilePath, chunk: int = 100_000) -> Iterator[PreferenceTriples]:
    """Yield the preferences of a file, at most so many at a time, in memory for those.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "preferences.tsv")
    ...     _ = file.write_text("q1\\td7\\td3\\nq2\\td7\\td3\\nq3\\td7\\td3\\n")
    ...     [part.qid for part in iter_preferences(file, chunk=2)]
    [('q1', 'q2'), ('q3',)]
    """
    for stretch in stretches(path, size=check_integer(chunk, "chunk")):
        yield stretch.triples


# -- stretches --------------------------------------------------------------------------------------------------------


class StreamPosition(NamedTuple):
    """Where a reader is in a file, so that it can go on there.

    Of text, the bytes (unpacked ones) and lines before it; of Parquet, the row group and the rows of it before.
    """

    at: int = 0
    within: int = 0


START = StreamPosition()


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive preferences of a file.

    Attributes
    ----------
    triples : the preferences
    after : the position behind them
    lines : the line of each; of Parquet its row, counted from 1 in its row group
    group : the row group, or None for text
    """

    triples: PreferenceTriples
    after: StreamPosition
    lines: Sequence[int]
    group: int | None = None

    def error(self, path: FilePath, number: int, message: str, kind: str = "format") -> FormatError:
        """What is wrong with a preference of the stretch, by its number in it."""
        if self.group is None:
            return FormatError(path, self.lines[number], message, kind)
        return FormatError(path, None, f"row group {self.group}, row {self.lines[number]}: {message}", kind)


def preference_paths(paths: FilePath | Sequence[FilePath], endings: tuple[str, ...] = ENDINGS) -> list[Path]:
    """The files that are meant: one, several in their order, those of a folder, or those a pattern matches.

    Of a folder the files named ``.tsv``, ``.jsonl`` (``.gz`` of each) and ``.parquet`` are taken, by name, or those
    with other ``endings``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.tsv", "a.jsonl", "README"):
    ...         _ = Path(folder, name).write_text("")
    ...     [path.name for path in preference_paths(folder)]
    ['a.jsonl', 'b.tsv']
    """
    names = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not names:
        raise InputError("paths is empty; name a file, several, a folder or a pattern")
    files: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            visible = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
            inside = sorted(file for file in visible if file.name.endswith(endings))
            files += inside
            if not inside:
                raise InputError(f"{path}: the folder holds no file that ends in {', '.join(endings)}")
        elif not path.exists() and glob.has_magic(fspath(name)):
            matching = sorted(Path(file) for file in glob.glob(fspath(name)) if os.path.isfile(file))
            if not matching:
                raise InputError(f"{name}: no file matches this pattern")
            files += matching
        elif path.exists() and not path.is_file():
            raise InputError(f"{name} is a pipe or a device; a file is needed, since it is read more than once")
        else:
            files.append(path)
    return files


def stretches(path: FilePath, start: StreamPosition = START, size: int = STRETCH) -> Iterator[Stretch]:
    """Yield the preferences of a file from a position on, at most ``size`` at a time.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "preferences.tsv")
    ...     _ = file.write_text("q1\\td7\\td3\\nq2\\td7\\td3\\nq3\\td7\\td3\\n")
    ...     first, second = stretches(file, size=2)
    ...     [again] = stretches(file, first.after, size=2)
    >>> again.triples.qid, second.triples.qid
    (('q3',), ('q3',))
    """
    if is_parquet(path):
        for group, rows, triples in parquet_batches(path, start.at, start.within, size):
            yield Stretch(triples, StreamPosition(group, rows[-1]), rows, group)
    else:
        yield from _text_stretches(path, start, size)


def _text_stretches(path: FilePath, start: StreamPosition, size: int) -> Iterator[Stretch]:
    parse = LineParser(path)
    expected: tuple[str, ...] | None = None
    with open_bytes(path) as stream:
        if start != START:
            # The first preference tells the format and which numbers there are.
            expected = _numbers_of_first(stream, path, parse)
            _go_to(stream, path, start)
        offset, line = start.at, start.within
        while raws := list(islice(_raws(stream, path, line), size)):
            stretch = _plain_stretch(raws, parse, line, expected)
            if stretch is None:
                stretch = _checked_stretch(raws, parse, line, offset, expected)
            gathered, lines = stretch
            offset, line = offset + sum(map(len, raws)), line + len(raws)
            if lines:
                expected = tuple(gathered.numbers())
                yield Stretch(gathered, StreamPosition(offset, line), lines)
    if expected is None:
        raise FormatError(path, None, NO_PREFERENCES)


def _raws(stream: BinaryIO, path: FilePath, line: int) -> Iterator[bytes]:
    while raw := raw_line(stream, path, line + 1):
        line += 1
        yield raw


def _numbers_of_first(stream: BinaryIO, path: FilePath, parse: LineParser) -> tuple[str, ...] | None:
    for line, raw in enumerate(_raws(stream, path, 0), start=1):
        text = line_text(raw, path, line, 0)
        row = parse(text, line) if text.strip() else None
        if row is not None:
            return tuple(row[-1])
    return None


def _go_to(stream: BinaryIO, path: FilePath, position: StreamPosition) -> None:
    try:
        stream.seek(position.at)  # of gzip, everything before is unpacked and dropped
    except PACKING_DAMAGE as error:
        raise FormatError(path, position.within, damage_message(error), "packing") from error


def _plain_stretch(
    raws: list[bytes], parse: LineParser, line: int, expected: tuple[str, ...] | None
) -> tuple[PreferenceTriples, Sequence[int]] | None:
    """TSV lines that are plainly right, all at once, three times as fast as one by one; None for any others."""
    text = b"".join(raws)
    if parse.is_json is not False or expected is None or not text.isascii() or b"\r" in text or b"\v" in text:
        return None
    rows = text.decode("ascii").removesuffix("\n").split("\n")
    width = 3 + len(expected)
    if len(rows) != len(raws) or {row.count("\t") for row in rows} != {width - 1}:
        return None
    cells = "\t".join(rows).split("\t")
    columns = [cells[column::width] for column in range(width)]
    if any("" in column for column in columns) or any(map(eq, columns[1], columns[2])):
        return None
    numbers = {}
    for name, column in zip(parse.columns, columns[3:], strict=False):
        if "_" in "".join(column):
            return None
        try:
            values = np.array(list(map(float, column)))
        except ValueError:
            return None  # looked at again one by one, which says what is wrong
        if not (np.isfinite(values) & (values > 0)).all():
            return None
        values.flags.writeable = False
        numbers[name] = values
    if tuple(numbers) != expected:
        return None
    qid, better, worse = map(tuple, columns[:3])
    return PreferenceTriples(qid, better, worse, **numbers), range(line + 1, line + 1 + len(rows))


def _checked_stretch(
    raws: list[bytes], parse: LineParser, line: int, offset: int, expected: tuple[str, ...] | None
) -> tuple[PreferenceTriples, Sequence[int]]:
    gathered, lines = Gathered(expected or ()), []
    for number, raw in enumerate(raws, start=line + 1):
        text = line_text(raw, parse.path, number, offset)
        offset += len(raw)
        row = parse(text, number) if text.strip() else None
        if row is None:
            continue
        _, qid, better, worse, numbers = row
        if expected is None:
            expected = tuple(numbers)
            gathered = Gathered(expected)
        uneven = uneven_numbers(numbers, expected)
        if uneven is not None:
            raise FormatError(parse.path, number, uneven)
        gathered.add((qid, better, worse), numbers)
        lines.append(number)
    return gathered.triples(), lines


def count_preferences(path: FilePath) -> int:
    """How many preferences a file holds, without parsing it: the lines that are not blank, less the header.

    Reads the whole file once, or of Parquet its end only.
    """
    if is_parquet(path):
        return parquet_rows(path)
    first = next((text for _, text in open_lines(path) if text.strip()), None)
    count, carried = -1 if first in TSV_HEADERS else 0, b""
    with open_bytes(path) as stream:
        while True:
            fresh = stream.read(READ_AT_ONCE)
            text = carried + fresh
            stop = text.rfind(b"\n") + 1 if fresh else len(text)
            carried = text[stop:]
            if len(carried) > limits.LONGEST_LINE:
                raise limits.too_long(path, count + 1)
            count += _n_filled_lines(text[:stop])
            if not fresh:
                break
    if count < 1:
        raise FormatError(path, None, NO_PREFERENCES)
    return count


def _n_filled_lines(text: bytes) -> int:
    """How many lines of a block of whole ones are not blank."""
    characters = np.frombuffer(text, np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(characters == ord("\n")) + 1])
    starts = starts[starts < len(text)]
    first = characters[starts]
    blank = 0
    for start in starts[(first <= ord(" ")) | (first > ord("~"))].tolist():  # the only ones that can be
        stop = text.find(b"\n", start)
        line = text[start : stop if stop >= 0 else len(text)]
        blank += not line.removeprefix(UTF8_MARK).decode("utf-8", errors="replace").strip()
    return starts.size - blank


# -- writing ----------------------------------------------------------------------------------------------------------


def write_preferences(path: FilePath, preferences: PreferenceTriples) -> None:
    """Write preferences: JSONL when the name ends in ``.jsonl`` or ``.jsonl.gz``, else TSV with a header.

    Weights and margins are written with every digit, so reading gives the same floats.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "preferences.jsonl")
    ...     write_preferences(file, PreferenceTriples(("q1",), ("d7",), ("d3",)))
    ...     file.read_text()
    '{"query": "q1", "better": "d7", "worse": "d3"}\\n'
    """
    if not len(preferences):
        raise InputError(f"{path}: cannot write: there are no preferences")
    as_json = fspath(path).removesuffix(".gz").endswith(".jsonl")
    columns = preferences.numbers()
    with write_atomically(path) as stream:
        if not as_json:
            stream.write("\t".join((TSV_HEADER, *columns)) + "\n")
        for row in range(len(preferences)):
            ids = [
                writable_id(preferences.qid[row], path, "query id"),
                writable_id(preferences.better[row], path, "better document's id"),
                writable_id(preferences.worse[row], path, "worse document's id"),
            ]
            if ids[1] == ids[2]:
                raise InputError(f"{path}: cannot write: preference {row} has {ids[1]!r} as better and as worse")
            numbers = {name: float(column[row]) for name, column in columns.items()}
            for name, number in numbers.items():
                if not (math.isfinite(number) and number > 0):
                    raise InputError(f"{path}: cannot write: {name} {number} of preference {row} is not positive")
            if as_json:
                record = {**dict(zip(IDS, ids, strict=True)), **numbers}
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                stream.write("\t".join((*ids, *map(repr, numbers.values()))) + "\n")
