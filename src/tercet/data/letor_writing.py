"""Writing of LETOR text: values with the fewest decimals of the same float32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.letor import LetorData
from tercet.data.letor_text import LARGEST_ID
from tercet.data.lines import FilePath, writable_id, write_atomically
from tercet.errors import InputError
from tercet.kernels.letor import LONGEST_GRADE, LONGEST_QID

_VALUES_AT_A_TIME = 1 << 16


def write_letor(path: FilePath, data: LetorData | Iterable[LetorData]) -> None:
    """Write a file, whole or not at all; `read_letor` reads the same bits back. Gzipped when named ``.gz``.

    Parameters
    ----------
    path : the file
    data : one set, or several of the same width, such as a `LetorStream`, written one after another

    Notes
    -----
    Dense rows are written in full, sparse rows without zeros; the first row has the last feature id, to keep the
    number of columns. Memory: one set.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     write_letor(file, LetorData([[0.1, 0.0], [0.25, 1e-30]], [1, 0], ["007", "007"], ["doc 12", ""]))
    ...     print(file.read_text(), end="")
    1 qid:007 1:0.1 2:0 # doc 12
    0 qid:007 1:0.25 2:1e-30
    """
    with write_atomically(path) as stream:
        for is_first, chunk in _in_order([data] if isinstance(data, LetorData) else data, path):
            _check_writable(chunk, path)
            _write_rows(stream, chunk, is_first)


def _in_order(chunks: Iterable[LetorData], path: FilePath) -> Iterator[tuple[bool, LetorData]]:
    """Yield chunks after checks of their widths and queries, with True for the first."""
    seen: set[str] = set()
    width: int | None = None
    for chunk in chunks:
        if not len(chunk):
            continue
        if width is not None and chunk.n_features != width:
            raise InputError(f"{path}: a chunk has {chunk.n_features} features, those before have {width}.")
        ids = chunk.qids.tolist()
        again = seen.intersection(ids)
        if again:
            raise InputError(f"{path}: query {min(again)!r} is in two chunks; a query is never cut.")
        seen.update(ids)
        yield width is None, chunk
        width = chunk.n_features
    if width is None:
        raise InputError(f"{path}: there are no rows to write.")


def _check_writable(data: LetorData, path: FilePath) -> None:
    if not 1 <= data.n_features <= LARGEST_ID:
        raise InputError(f"{path}: cannot write: {data.n_features} features; a file holds from 1 to {LARGEST_ID}")
    too_long = (data.y >= 10**LONGEST_GRADE) | (
        data.y <= -(10**LONGEST_GRADE)
    )  # no `abs`: int64 has no absolute value of its minimum
    if too_long.any():
        row = int(too_long.argmax())
        raise InputError(f"{path}: cannot write: y[{row}] is {data.y[row]}; grades have at most {LONGEST_GRADE} digits")
    for qid in data.qids.tolist():
        writable_id(qid, path, "qid", blanks=False)
        if "#" in qid or "\0" in qid or len(qid.encode()) > LONGEST_QID:
            problem = f"holds '#' or a zero byte, or is longer than {LONGEST_QID} bytes"
            raise InputError(f"{path}: cannot write: the qid {qid[:40]!r} {problem}")
    for row, comment in enumerate(data.comments or ()):
        if comment != comment.strip() or "\n" in comment:
            raise InputError(f"{path}: cannot write: the comment of row {row} has a line break, or blanks around it")


def _write_rows(stream: TextIO, data: LetorData, mark_width: bool) -> None:
    heads = np.repeat([f" qid:{qid}" for qid in data.qids.tolist()], np.diff(data.starts)).tolist()
    comments = [f" # {comment}" if comment else "" for comment in data.comments or [""] * len(data)]
    step = max(1, _VALUES_AT_A_TIME // max(1, data.n_features))
    for first in range(0, len(data), step):
        rows = data.X[first : first + step]
        features = _features(*_cells(rows))
        if mark_width and first == 0 and sparse.issparse(rows) and rows[[0]].tocsr()[0, data.n_features - 1] == 0:
            features[0] += f" {data.n_features}:0"
        grades = data.y[first : first + step].tolist()
        stop = first + len(grades)
        pieces = zip(grades, heads[first:stop], features, comments[first:stop], strict=True)
        stream.write("".join(f"{grade}{head}{values}{comment}\n" for grade, head, values, comment in pieces))


def _cells(rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return the ends of rows, and columns and values to be written."""
    if sparse.issparse(rows):
        rows = sparse.csr_array(rows, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return rows.indptr[1:].astype(np.int64), rows.indices.astype(np.int32), rows.data
    n_rows, width = rows.shape
    return np.arange(1, n_rows + 1) * width, np.tile(np.arange(width, dtype=np.int32), n_rows), rows.ravel()


def _features(row_ends: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float32]) -> list[str]:
    """Return `` id:value`` pairs of each row, in the fewest decimals that give the same float32."""
    decimals = values.astype(str).astype(np.float64)  # shortest decimals of float32
    decimals = np.where(decimals.astype(np.float32) == values, decimals, values)  # else rounded twice
    cells = [repr(decimal).removesuffix(".0") for decimal in decimals.tolist()]
    pairs = [f" {column + 1}:{cell}" for column, cell in zip(columns.tolist(), cells, strict=True)]
    return ["".join(pairs[first:stop]) for first, stop in pairwise([0, *row_ends.tolist()])]
