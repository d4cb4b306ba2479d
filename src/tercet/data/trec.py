"""TREC files: judgements (qrels) and runs."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from os import fspath

import numpy as np

from tercet.data.lines import (
    FilePath,
    Refused,
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
NO_RESULTS = "the file holds no results"


class JudgementLines(DataTable):
    """Judgements in TREC's form, ``qid iteration doc_id grade``, as a table."""

    columns = ("query_id", "doc_id", "grade")
    form = "judgements"

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        def parse(text: str, line: int) -> Record:
            columns = split_columns(text)
            if len(columns) != 4:
                expected = "TREC judgements have 4 (qid, iteration, document id, grade)"
                raise FormatError(self.name, line, f"{len(columns)} columns; {expected}")
            grade = parse_int(columns[3], self.name, line, "grade")
            return {"query_id": columns[0], "doc_id": columns[2], "grade": grade}

        return parsed_lines(self.name, parse, refused)


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
    forms = {".tsv": ("\t", BEIR_HEADER.split("\t")), ".csv": (",", ["query", "doc", "grade"])}
    if not any(qrels.values()):
        raise InputError(f"{path}: cannot write: there are no judgements")
    with write_atomically(path) as stream:
        rows = checked_judgements(path, qrels, blanks=name[-4:] in forms)
        if name[-4:] in forms:
            delimiter, header = forms[name[-4:]]
            table = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
            table.writerow(header)
            table.writerows(rows)
        else:
            stream.writelines(f"{qid} 0 {doc_id} {grade}\n" for qid, doc_id, grade in rows)


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
            raise FormatError(path, line, f"query {qid!r} already has document {doc_id!r}")
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
    except (TypeError, OverflowError):  # not a number, or too large for a float
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
