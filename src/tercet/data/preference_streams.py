"""Preferences read in stretches from any place of a file: TSV, JSONL or Parquet, in memory for one stretch."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import eq
from os import fspath
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from tercet.data.lines import (
    GZIP_DAMAGE,
    UTF8_MARK,
    FilePath,
    gzip_damage_message,
    line_text,
    open_bytes,
    open_lines,
    raw_line,
)
from tercet.data.parquet import is_parquet, parquet_batches, parquet_rows
from tercet.data.preference_files import (
    NO_PREFERENCES,
    TSV_HEADERS,
    Gathered,
    PreferenceTriples,
    RowParser,
    uneven_numbers,
)
from tercet.data.watching import READ_AT_ONCE
from tercet.errors import FormatError, InputError

STRETCH = 16_384  # preferences read at once
ENDINGS = (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz", ".parquet")  # of the files of a folder that are read

_SAMPLE, _N_SAMPLES, _EDGE = 1 << 16, 32, 1 << 20


class Place(NamedTuple):
    """Where a reader is in a file.

    Of text, the bytes (unpacked ones) and lines before it; of Parquet, the row group and the rows of it before.
    """

    at: int = 0
    within: int = 0


START = Place()


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive preferences of a file.

    Attributes
    ----------
    triples : the preferences
    after : the place behind them
    lines : the line of each; of Parquet its row, counted from 1 in its row group
    group : the row group, or None for text
    """

    triples: PreferenceTriples
    after: Place
    lines: Sequence[int]
    group: int | None = None

    def error(self, path: FilePath, at: int, message: str) -> FormatError:
        """What is wrong with the preference at a position of the stretch."""
        if self.group is None:
            return FormatError(path, self.lines[at], message)
        return FormatError(path, None, f"row group {self.group}, row {self.lines[at]}: {message}")


def preference_paths(paths: FilePath | Sequence[FilePath]) -> list[Path]:
    """The files that are meant: one, several in their order, those of a folder, or those a pattern matches.

    Of a folder the files named ``.tsv``, ``.jsonl`` (``.gz`` of each) and ``.parquet`` are taken, by name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.tsv", "a.jsonl", "README"):
    ...         _ = Path(folder, name).write_text("")
    ...     [path.name for path in preference_paths(folder)]
    ['a.jsonl', 'b.tsv']
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputError("paths is empty; name a file, several, a folder or a pattern")
    found: list[Path] = []
    for one in given:
        path = Path(one)
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.is_file() and each.name.endswith(ENDINGS))
            found += [each for each in inside if not each.name.startswith(".")]
            if not inside:
                raise InputError(f"{path}: the folder holds no file that ends in {', '.join(ENDINGS)}")
        elif not path.exists() and glob.has_magic(fspath(one)):
            matching = sorted(Path(each) for each in glob.glob(fspath(one)) if os.path.isfile(each))
            if not matching:
                raise InputError(f"{one}: no file matches this pattern")
            found += matching
        elif path.exists() and not path.is_file():
            raise InputError(f"{one} is a pipe or a device; a file is needed, since it is read more than once")
        else:
            found.append(path)
    return found


def stretches(path: FilePath, place: Place = START, size: int = STRETCH) -> Iterator[Stretch]:
    """Yield the preferences of a file from a place on, at most ``size`` at a time.

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
        for group, rows, triples in parquet_batches(path, place.at, place.within, size):
            yield Stretch(triples, Place(group, rows[-1]), rows, group)
    else:
        yield from _text_stretches(path, place, size)


def _text_stretches(path: FilePath, place: Place, size: int) -> Iterator[Stretch]:
    parse = RowParser(path)
    expected: tuple[str, ...] | None = None
    with open_bytes(path) as stream:
        if place != START:
            # The first preference tells the format and which numbers there are.
            expected = _numbers_of_first(stream, path, parse)
            _go_to(stream, path, place)
        offset, line = place.at, place.within
        while raws := list(islice(_raws(stream, path, line), size)):
            stretch = _plain_stretch(raws, parse, line, expected)
            if stretch is None:
                stretch = _checked_stretch(raws, parse, line, offset, expected)
            gathered, lines = stretch
            offset, line = offset + sum(map(len, raws)), line + len(raws)
            if lines:
                expected = tuple(gathered.numbers())
                yield Stretch(gathered, Place(offset, line), lines)
    if expected is None:
        raise FormatError(path, None, NO_PREFERENCES)


def _raws(stream: BinaryIO, path: FilePath, line: int) -> Iterator[bytes]:
    while raw := raw_line(stream, path, line + 1):
        line += 1
        yield raw


def _numbers_of_first(stream: BinaryIO, path: FilePath, parse: RowParser) -> tuple[str, ...] | None:
    for line, raw in enumerate(_raws(stream, path, 0), start=1):
        text = line_text(raw, path, line, 0)
        row = parse(text, line) if text.strip() else None
        if row is not None:
            return tuple(row[-1])
    return None


def _go_to(stream: BinaryIO, path: FilePath, place: Place) -> None:
    try:
        stream.seek(place.at)  # of gzip, everything before is unpacked and dropped
    except GZIP_DAMAGE as error:
        raise FormatError(path, place.within, gzip_damage_message(error), "gzip") from error


def _plain_stretch(
    raws: list[bytes], parse: RowParser, line: int, expected: tuple[str, ...] | None
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
    columns = [cells[at::width] for at in range(width)]
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
    raws: list[bytes], parse: RowParser, line: int, offset: int, expected: tuple[str, ...] | None
) -> tuple[PreferenceTriples, Sequence[int]]:
    gathered, lines = Gathered(expected or ()), []
    for number, raw in enumerate(raws, start=line + 1):
        text = line_text(raw, parse.path, number, offset)
        offset += len(raw)
        row = parse(text, number) if text.strip() else None
        if row is None:
            continue
        _, qid, better, worse, given = row
        if expected is None:
            expected = tuple(given)
            gathered = Gathered(expected)
        uneven = uneven_numbers(given, expected)
        if uneven is not None:
            raise FormatError(parse.path, number, uneven)
        gathered.add((qid, better, worse), given)
        lines.append(number)
    return gathered.triples(), lines


# -- how many, and whether it is the same file ------------------------------------------------------------------------


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


def sampled_digest(path: FilePath) -> str:
    """A digest of a file's size, its first and last megabyte and 32 places between; reads 4 MB at most.

    Whatever is appended, cut off, written anew or exchanged changes it. A few bytes changed in the middle of a large
    file, at the same length, may not: to notice that, all of it would have to be read before every resumption.
    """
    size = os.path.getsize(path)
    found = hashlib.sha256(str(size).encode())
    between = range(_EDGE, max(_EDGE, size - _EDGE), max(1, (size - 2 * _EDGE) // _N_SAMPLES))
    with open(path, "rb") as file:
        for offset, length in [(0, _EDGE), *((at, _SAMPLE) for at in between), (max(0, size - _EDGE), _EDGE)]:
            file.seek(offset)
            found.update(file.read(length))
    return found.hexdigest()
