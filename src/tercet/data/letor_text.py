"""Reading of LETOR text: blocks of whole lines, parsed by a compiled loop and concatenated as rows.

The loop parses decimals that need one exact multiplication or division; Python's ``float`` parses all other decimals.
Text refused by the loop is read again here, for the error message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.data import limits
from tercet.data.lines import (
    PACKING_DAMAGE,
    UTF8_MARK,
    UTF16_MARKS,
    FilePath,
    damage_message,
    decoding_error,
    parse_int,
    read_id,
)
from tercet.errors import FormatError, MemoryLimitError
from tercet.kernels.letor import (
    ALL_READ,
    BAD_GRADE,
    BAD_QID,
    LONGEST_GRADE,
    LONGEST_QID,
    NO_QID,
    fill_dense,
    parse_lines,
)

LARGEST_ID = np.iinfo(np.int32).max
LARGEST_VALUE = float(np.nextafter(2.0**128 - 2.0**103, 0))  # largest float64 that float32 does not round to infinity
BLOCK_BYTES = 4 << 20
# With a quarter of the cells nonzero, CSR halves the memory, but the loss of time outweighs the saving.
LOWEST_DENSE_SHARE = 0.25
_SHORTEST_FEATURE = len("1:0 ")
_LINE_FORM = "a line is: grade qid:id feature:value … # comment"


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


Matrix: TypeAlias = Any  # NDArray[np.float32] or sparse.csr_array; SciPy comes without types


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Consecutive rows; the number of columns is the largest feature id of the block."""

    X: Matrix
    y: NDArray[np.int64]  # grades
    run_starts: list[int]  # first row of each run of rows with the same qid
    run_qids: list[str]
    run_lines: list[int]
    comments: list[str] | None
    n_values: int  # that are not 0
    n_bytes: int  # of text

    def rows(self, first: int, stop: int) -> TextBlock:
        """Return rows as views; `first` and `stop` are the beginnings of runs, or the end."""
        runs = [run for run, start in enumerate(self.run_starts) if first <= start < stop]
        selected = slice(runs[0], runs[-1] + 1) if runs else slice(0, 0)
        share = (stop - first) / len(self.y)
        return TextBlock(
            self.X[first:stop],
            self.y[first:stop],
            [start - first for start in self.run_starts[selected]],
            self.run_qids[selected],
            self.run_lines[selected],
            None if self.comments is None else self.comments[first:stop],
            round(self.n_values * share),
            round(self.n_bytes * share),
        )


def read_blocks(
    stream: Readable, path: FilePath, n_features: int | None, *, comments: bool, block_bytes: int = BLOCK_BYTES
) -> Iterator[TextBlock]:
    """Yield the rows of a stream; a query in two places is an error."""
    first_line_of: dict[str, int] = {}
    current = None
    for text, lines_before, bytes_before in _lines_in_blocks(stream, path, block_bytes):
        _check_utf8(text, path, lines_before, bytes_before)
        block = _parse(text, path, lines_before, n_features, comments)
        for qid, line in zip(block.run_qids, block.run_lines, strict=True):
            if first_line_of.setdefault(qid, line) != line and qid != current:
                raise FormatError(
                    path,
                    line,
                    f"query {qid!r} again, after other queries; its rows began at line {first_line_of[qid]}. Put the "
                    "rows of a query together: sort -s -k2,2 FILE",
                )
            current = qid
        if len(block.y):
            yield block


def check_n_features(n_features: int | None) -> None:
    """Refuse an impossible number of columns."""
    if n_features is not None:
        check_integer(n_features, "n_features", 1, LARGEST_ID)


def check_not_empty(blocks: list[TextBlock], n_features: int | None, path: FilePath) -> None:
    """Refuse data without rows or without features."""
    if not blocks:
        raise FormatError(path, None, "the file holds no rows")
    if not (n_features or width_of(blocks)):
        raise FormatError(path, None, "no line has a feature; features are written id:value")


def width_of(blocks: Iterable[TextBlock]) -> int:
    """The largest feature id."""
    return max((block.X.shape[1] for block in blocks), default=0)


def is_dense(n_values: int, n_rows: int, n_features: int) -> bool:
    """Return True if a dense array is the default for this number of values."""
    return n_values >= LOWEST_DENSE_SHARE * n_rows * n_features


def stack(blocks: Sequence[TextBlock], n_features: int, dense: bool) -> tuple[Matrix, NDArray[Any], NDArray[Any]]:
    """Return X, y and qid of all rows."""
    y = np.concatenate([block.y for block in blocks])
    bounds = np.cumsum([0, *(len(block.y) for block in blocks)])
    starts = [start + int(bound) for block, bound in zip(blocks, bounds, strict=False) for start in block.run_starts]
    qids = np.array([qid for block in blocks for qid in block.run_qids])
    qid = np.repeat(qids, np.diff([*starts, len(y)]))
    if dense:
        try:
            X = np.zeros((len(y), n_features), np.float32)
        except MemoryError as error:
            size = f"{len(y)} rows of {n_features} features"
            raise MemoryLimitError(
                f"{size} do not fit in memory as a dense array; dense=False keeps few values"
            ) from error
        for block, first, stop in zip(blocks, bounds, bounds[1:], strict=False):
            target = X[first:stop]
            if sparse.issparse(block.X):
                ends, columns = block.X.indptr[1:].astype(np.int64), block.X.indices.astype(np.int32)
                fill_dense(ends - block.X.indptr[0], columns, block.X.data, target)
            else:
                target[:, : block.X.shape[1]] = block.X
        return X, y, qid
    narrow = [sparse.csr_array(block.X) for block in blocks]
    for rows in narrow:
        rows.resize(rows.shape[0], n_features)
    stacked = sparse.csr_array(sparse.vstack(narrow, format="csr"))
    stacked.eliminate_zeros()  # removes -0 and values that underflow float32
    return stacked, y, qid


def _lines_in_blocks(stream: Readable, path: FilePath, block_bytes: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield whole lines, and the numbers of lines and bytes before them."""
    n_lines, n_bytes = 0, 0
    stored_fields = b""
    while True:
        try:
            fresh = stream.read(block_bytes)
        except PACKING_DAMAGE as error:
            raise FormatError(path, n_lines + 1, damage_message(error), "packing") from error
        text = stored_fields + fresh
        if n_bytes == 0 and text.startswith(UTF16_MARKS):
            advice = "the file is UTF-16; convert it, for instance: iconv -f UTF-16 -t UTF-8"
            raise FormatError(path, 1, advice, "encoding")
        stop = text.rfind(b"\n") + 1 if fresh else len(text)
        stored_fields = text[stop:]
        if len(stored_fields) > limits.LONGEST_LINE:
            line = n_lines + text.count(b"\n") + 1
            raise limits.too_long(path, line)
        whole = text[:stop]
        if whole:
            unmarked = whole.removeprefix(UTF8_MARK) if n_bytes == 0 else whole
            mark_bytes = len(whole) - len(unmarked)
            yield unmarked if unmarked.endswith(b"\n") else unmarked + b"\n", n_lines, n_bytes + mark_bytes
            n_lines += whole.count(b"\n")
            n_bytes += len(whole)
        if not fresh:
            return


def _check_utf8(text: bytes, path: FilePath, lines_before: int, bytes_before: int) -> None:
    if text.isascii():
        return
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + text.count(b"\n", 0, error.start) + 1
        advice = "convert the file, for instance from Latin-1: iconv -f LATIN1 -t UTF-8"
        raise decoding_error(path, line, text[error.start], bytes_before + error.start, "UTF-8", advice) from error


def _parse(text: bytes, path: FilePath, lines_before: int, n_features: int | None, comments: bool) -> TextBlock:
    most_rows = text.count(b"\n")
    most_values = len(text) // _SHORTEST_FEATURE + 1
    # Untouched pages take no memory: arrays are allocated for the largest possible number of values.
    grades, row_ends = np.empty(most_rows, np.int64), np.empty(most_rows, np.int64)
    spans, runs = np.empty((most_rows, 2), np.int64), np.empty((most_rows, 4), np.int64)
    columns, values = np.empty(most_values, np.int32), np.empty(most_values, np.float32)
    unsettled = np.empty((most_values, 3), np.int64)
    parsed = parse_lines(
        np.frombuffer(text, np.uint8),
        LARGEST_ID if n_features is None else n_features,
        grades,
        row_ends,
        spans,
        runs,
        columns,
        values,
        unsettled,
    )
    n_rows, n_runs, width = parsed.n_rows, parsed.n_runs, parsed.largest_id
    _settle(text, path, lines_before, values, unsettled[: parsed.n_unsettled])
    if parsed.outcome != ALL_READ:
        token = text[parsed.begin : parsed.end].decode("utf-8")
        message = _problem(parsed.outcome, token, parsed.previous, n_features)
        raise FormatError(path, lines_before + parsed.line, message)
    n_values = int(row_ends[n_rows - 1]) if n_rows else 0
    X: Matrix
    if is_dense(n_values, n_rows, width):
        X = np.zeros((n_rows, width), np.float32)
        fill_dense(row_ends[:n_rows], columns, values, X)
    else:
        indptr = np.concatenate([[0], row_ends[:n_rows]])
        cells = (values[:n_values].copy(), columns[:n_values].copy(), indptr)
        X = sparse.csr_array(cells, shape=(n_rows, width))
    run_lines = [lines_before + int(line) for line in runs[:n_runs, 1]]
    qids = [
        _checked_qid(text[begin:end].decode("utf-8"), path, line)
        for (begin, end), line in zip(runs[:n_runs, 2:].tolist(), run_lines, strict=True)
    ]
    notes = [text[begin:end].decode("utf-8").strip() for begin, end in spans[:n_rows].tolist()] if comments else None
    return TextBlock(X, grades[:n_rows].copy(), runs[:n_runs, 0].tolist(), qids, run_lines, notes, n_values, len(text))


def _settle(
    text: bytes, path: FilePath, lines_before: int, values: NDArray[np.float32], unsettled: NDArray[np.int64]
) -> None:
    """Fill in the values left to Python's ``float``."""
    if not len(unsettled):
        return
    exact = np.array([float(text[begin:end]) for begin, end in unsettled[:, 1:].tolist()])
    too_large = np.flatnonzero(np.abs(exact) > LARGEST_VALUE)
    if too_large.size:
        _, begin, end = unsettled[too_large[0]].tolist()
        feature, number = text[:begin].split()[-1].decode().rstrip(":"), text[begin:end].decode()
        line = lines_before + text.count(b"\n", 0, begin) + 1
        raise FormatError(path, line, _wrong_value(feature, number))
    values[unsettled[:, 0]] = exact.astype(np.float32)


def _checked_qid(qid: str, path: FilePath, line: int) -> str:
    if "\0" in qid:
        raise FormatError(path, line, f"the qid {qid!r} holds a zero byte")
    return read_id(qid, path, line, "qid")


def _problem(outcome: int, token: str, previous: int, n_features: int | None) -> str:
    """Return the error message for a token refused by the compiled loop."""
    if outcome == BAD_GRADE:
        return f"grade {token!r}; a whole number of at most {LONGEST_GRADE} digits is needed"
    if outcome == NO_QID:
        instead = f"{token!r} where the qid should be" if token else "no qid"
        return f"{instead}; {_LINE_FORM}"
    if outcome == BAD_QID:
        if not token:
            return "the qid is empty; every id needs at least one character"
        return f"the qid begins {token[:40]!r} and has more than {LONGEST_QID} bytes; is this a LETOR file?"
    return _feature_problem(token, previous, n_features)


def _feature_problem(token: str, previous: int, n_features: int | None) -> str:
    key, colon, number = token.partition(":")
    if key == "qid":
        return f"{token!r} is out of place; qid comes once, right after the grade"
    if not colon:
        return f"{token!r}; features are written id:value"
    try:
        feature = parse_int(key, "", 0, "feature id")
    except FormatError as error:
        return error.message
    if not previous < feature <= (n_features or LARGEST_ID):
        return _wrong_id(feature, previous, n_features)
    try:
        value = float(number)
    except ValueError:
        return f"feature {key} has value {number!r}; a number is needed"
    if not -LARGEST_VALUE <= value <= LARGEST_VALUE:  # true for nan, too
        return _wrong_value(key, number)
    return f"{token!r}; id:value in plain digits is needed"


def _wrong_id(feature: int, previous: int, n_features: int | None) -> str:
    if feature < 1:
        return f"feature id {feature}; ids start at 1"
    if feature == previous:
        return f"feature id {feature} occurs twice"
    if feature < previous:
        return f"feature id {feature} after {previous}; ids must ascend within a line"
    if n_features is None:
        return f"feature id {feature}; the largest possible is {LARGEST_ID}"
    return f"feature id {feature}; n_features={n_features} was asked for"


def _wrong_value(feature: str, number: str) -> str:
    return f"feature {feature} has value {number!r}; a finite number within float32 is needed"
