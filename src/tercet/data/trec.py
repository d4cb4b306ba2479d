"""TREC files: judgements (qrels) and runs. Judgements may also be in BEIR's three-column form."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from os import fspath

import numpy as np

from tercet.data import limits
from tercet.data.lines import (
    FilePath,
    Refused,
    find_line,
    parse_float,
    parse_int,
    parsed_lines,
    read_id,
    split_columns,
    writable_id,
    write_atomically,
)
from tercet.data.tables import DataTable
from tercet.data.values import Record
from tercet.errors import FormatError, InputError

BEIR_HEADER = "query-id\tcorpus-id\tscore"
NO_JUDGEMENTS = "the file holds no judgements"
NO_RESULTS = "the file holds no results"

# line number, qid, doc_id, grade
Judgement = tuple[int, str, str, int]


def read_qrels(path: FilePath) -> dict[str, dict[str, int]]:
    """Read judgements, ``qid iteration doc_id grade``, or a BEIR file with its header line.

    Parameters
    ----------
    path : a text file, gzipped or not

    Returns
    -------
    ``{qid: {doc_id: grade}}`` in file order. A repeated line counts once; two grades for a pair are an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "qrels.txt")
    ...     _ = file.write_text("q1 0 d1 2\\nq1 0 d2 0\\n")
    ...     read_qrels(file)
    {'q1': {'d1': 2, 'd2': 0}}
    """
    return gather_judgements(path, iterate_judgements(path))


def iterate_judgements(
    path: FilePath, *, header_needed: bool = False, refused: Refused | None = None
) -> Iterator[Judgement]:
    """Yield the judgements of a file; `header_needed` refuses the four-column form."""
    beir: bool | None = None

    def parse(text: str, line: int) -> tuple[str, str, int] | None:
        nonlocal beir
        if beir is None:
            beir = text == BEIR_HEADER
            if header_needed and not beir:
                beir = True  # what follows may well be right
                message = f"found {text[:80]!r}; the first line must be the header {BEIR_HEADER!r}"
                raise FormatError(path, line, message)
            if beir:
                return None
        columns = text.split("\t", limits.MOST_VALUES) if beir else split_columns(text)
        if len(columns) != (3 if beir else 4):
            raise FormatError(path, line, _wrong_columns(columns, beir))
        qid = read_id(columns[0], path, line, "query id")
        doc_id = read_id(columns[-2], path, line, "document id")
        return qid, doc_id, parse_int(columns[-1], path, line, "grade")

    for line, judgement in parsed_lines(path, parse, refused):
        if judgement is not None:
            yield line, *judgement


class JudgementLines(DataTable):
    """Judgements in TREC or BEIR form, as a table."""

    columns = ("query_id", "doc_id", "grade")
    form = "judgements"

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        for line, *judgement in iterate_judgements(self.name, refused=refused):
            yield line, dict(zip(self.columns, judgement, strict=True))  # type: ignore[arg-type]


def _wrong_columns(columns: list[str], beir: bool) -> str:
    if beir:
        return f"{len(columns)} columns; after this header there are 3, separated by tabs"
    return (
        f"{len(columns)} columns; TREC judgements have 4 (qid, iteration, document id, grade), "
        f"and BEIR judgements begin with the line {BEIR_HEADER!r}"
    )


def gather_judgements(path: FilePath, judgements: Iterable[Judgement]) -> dict[str, dict[str, int]]:
    """Collect judgements into ``{qid: {doc_id: grade}}``, refusing contradictions and an empty file."""
    qrels: dict[str, dict[str, int]] = {}
    for line, qid, doc_id, grade in judgements:
        first = qrels.setdefault(qid, {}).setdefault(doc_id, grade)
        if first != grade:
            before = next(number for number, q, d, _ in iterate_judgements(path) if (q, d) == (qid, doc_id))
            message = f"query {qid!r}, document {doc_id!r} has grade {grade} here and {first} at line {before}"
            raise FormatError(path, line, message)
    if not qrels:
        raise FormatError(path, None, NO_JUDGEMENTS)
    return qrels


def write_qrels(path: FilePath, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements: BEIR's three columns for a name in ``.tsv``, a table for ``.csv``, else TREC's four columns.

    The table has the columns query, doc and grade. In TREC's form the second column is always 0, and ids with blanks
    are refused, since blanks separate the columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "qrels.txt")
    ...     write_qrels(file, {"q1": {"d1": 2}})
    ...     file.read_text()
    'q1 0 d1 2\\n'
    """
    name = fspath(path).removesuffix(".gz")
    is_table = name.endswith((".tsv", ".csv"))
    if not any(qrels.values()):
        raise InputError(f"{path}: cannot write: there are no judgements")
    with write_atomically(path) as stream:
        rows = checked_judgements(path, qrels, blanks=is_table)
        if name.endswith(".csv"):
            table = csv.writer(stream, lineterminator="\n")
            table.writerow(("query", "doc", "grade"))
            table.writerows(rows)
            return
        if is_table:
            stream.write(BEIR_HEADER + "\n")
        for qid, doc_id, grade in rows:
            stream.write(f"{qid}\t{doc_id}\t{grade}\n" if is_table else f"{qid} 0 {doc_id} {grade}\n")


def checked_judgements(
    path: FilePath, qrels: Mapping[str, Mapping[str, int]], *, blanks: bool
) -> Iterator[tuple[str, str, int]]:
    """Yield `(qid, doc_id, grade)`, and refuse ids that no reader could give back."""
    for qid, grades in qrels.items():
        writable_id(qid, path, "query id")
        if not blanks and qid.split() != [qid]:
            problem = f"the query id {qid!r} holds a blank, which separates the columns of TREC's form"
            raise InputError(f"{path}: cannot write: {problem}; name the file .csv or .tsv")
        for doc_id, grade in grades.items():
            writable_id(doc_id, path, "document id", blanks=blanks)
            if not isinstance(grade, int | np.integer) or not -(1 << 63) <= int(grade) < 1 << 63:
                which = f"grade {grade!r} of query {qid!r}, document {doc_id!r}"
                raise InputError(f"{path}: cannot write: {which}; a whole number within 64 bits is needed")
            yield qid, doc_id, int(grade)


def read_run(path: FilePath) -> dict[str, dict[str, float]]:
    """Read a run, ``qid Q0 doc_id rank score tag`` on each line.

    The score decides the order; rank and tag are checked and left out.

    Parameters
    ----------
    path : a text file, gzipped or not

    Returns
    -------
    ``{qid: {doc_id: score}}`` in file order.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "run.txt")
    ...     _ = file.write_text("q1 Q0 d7 1 2.5 tercet\\n")
    ...     read_run(file)
    {'q1': {'d7': 2.5}}
    """
    run: dict[str, dict[str, float]] = {}
    for line, (qid, doc_id, score) in _results_of(path):
        scores = run.setdefault(qid, {})
        if doc_id in scores:
            first = find_line(path, lambda text: split_columns(text)[:3:2] == [qid, doc_id])  # noqa: B023
            raise FormatError(path, line, f"query {qid!r} already has document {doc_id!r} at line {first}")
        scores[doc_id] = score
    if not run:
        raise FormatError(path, None, NO_RESULTS)
    return run


def _results_of(path: FilePath) -> Iterator[tuple[int, tuple[str, str, float]]]:
    """Yield line, query id, document id and score of each line of a run."""

    def parse(text: str, line: int) -> tuple[str, str, float]:
        columns = split_columns(text)
        if len(columns) != 6:
            message = f"{len(columns)} columns; a run has 6 (qid, Q0, document id, rank, score, tag)"
            raise FormatError(path, line, message)
        parse_int(columns[3], path, line, "rank")
        qid, doc_id = read_id(columns[0], path, line, "query id"), read_id(columns[2], path, line, "document id")
        return qid, doc_id, parse_float(columns[4], path, line, "score")

    return parsed_lines(path, parse)


def _is_finite(score: object) -> bool:
    try:
        return math.isfinite(score)  # type: ignore[arg-type]
    except (TypeError, OverflowError):  # no number, or one that no float holds
        return False


def write_run(path: FilePath, run: Mapping[str, Mapping[str, float]], tag: str = "tercet") -> None:
    """Write a run in TREC's six columns, best first; equal scores stay in the order given.

    Scores have every digit: reading gives the same floats. A query without documents has no line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "run.txt")
    ...     write_run(file, {"q1": {"d7": 0.5, "d3": 2.0}})
    ...     print(file.read_text(), end="")
    q1 Q0 d3 1 2.0 tercet
    q1 Q0 d7 2 0.5 tercet
    """
    writable_id(tag, path, "tag", blanks=False)
    with write_atomically(path) as stream:
        written = 0
        for qid, scores in run.items():
            writable_id(qid, path, "query id", blanks=False)
            for doc_id, score in scores.items():
                writable_id(doc_id, path, "document id", blanks=False)
                if not _is_finite(score):
                    pair = f"query {qid!r}, document {doc_id!r}"
                    raise InputError(f"{path}: cannot write: score {score} of {pair}; it must be finite")
            best_first = sorted(scores.items(), key=lambda item: -float(item[1]))
            for rank, (doc_id, score) in enumerate(best_first, start=1):
                stream.write(f"{qid} Q0 {doc_id} {rank} {float(score)!r} {tag}\n")
            written += len(best_first)
        if not written:
            raise InputError(f"{path}: cannot write: the run holds no results")
