"""Files of preferences: query, better document, worse document, perhaps a weight and a margin; TSV or JSONL."""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Sequence
from os import fspath
from pathlib import Path

from tercet.data.lines import FilePath, writable_id, write_atomically
from tercet.data.preference_text import (
    IDS,
    NO_PREFERENCES,
    TSV_HEADER,
    Gathered,
    PreferenceTriples,
    preference_lines,
    uneven_numbers,
)
from tercet.errors import FormatError, InputError

ENDINGS = (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz", ".parquet")  # of the files of a folder that are read


def read_preferences(path: FilePath) -> PreferenceTriples:
    """Read preferences from TSV or JSONL; the first line tells which.

    TSV has the columns query, better, worse and perhaps weight and margin, with or without the header
    ``query-id better-id worse-id [weight] [margin]``; margins without weights need it. JSONL has the keys
    ``query``, ``better``, ``worse`` and perhaps ``weight`` and ``margin``; any other is an error. All lines have a
    weight or none has, and so for margins. A preference may occur again.

    Parameters
    ----------
    path : a text file, gzipped or not

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
    triples: Gathered | None = None
    expected: tuple[str, ...] = ()
    for line, qid, better, worse, numbers in preference_lines(path):
        if triples is None:
            expected = tuple(numbers)
            triples = Gathered(expected)
        uneven = uneven_numbers(numbers, expected)
        if uneven is not None:
            raise FormatError(path, line, uneven)
        triples.add((qid, better, worse), numbers)
    if triples is None:
        raise FormatError(path, None, NO_PREFERENCES)
    return triples.triples()


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
