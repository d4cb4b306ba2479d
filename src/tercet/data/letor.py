"""LETOR files: ``grade qid:id feature:value … # comment`` on each line, rows of a query one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer, is_integer
from tercet.data.letor_text import (
    BLOCK_BYTES,
    Matrix,
    TextBlock,
    check_n_features,
    check_not_empty,
    is_dense,
    read_blocks,
    stack,
    width_of,
)
from tercet.data.lines import FilePath, id_problem, open_bytes, sampled_digest
from tercet.errors import InputError

CHUNK_BYTES = 32 << 20


@dataclass(frozen=True, eq=False, repr=False)
class LetorData:
    """Feature vectors of documents with their grades, the rows of a query one after another.

    Parameters
    ----------
    X : (n_rows, n_features), dense or sparse, every value finite; column j is the feature id j + 1
    y : (n_rows,) whole numbers, the grades; higher is better
    qid : (n_rows,) the query id of each row: strings or integers
    comments : text after ``#`` on each row, or None

    Attributes
    ----------
    X : float32, a dense array or CSR
    y : int64
    qid : int64, or strings unless every id is a number that prints as the id: ``007`` stays a string
    comments : tuple of strings, or None
    starts : (n_queries + 1,) the first row of each query, and the number of rows
    qids : (n_queries,) the id of each query as a string, in the order of the rows

    Notes
    -----
    Arrays of the right type are not copied; dense arrays are read-only views.

    Examples
    --------
    >>> data = LetorData([[0.5, 1.0], [0.25, 0.0], [1.0, 1.0]], [1, 0, 2], [7, 7, 8])
    >>> data.qid, data.qids, data.starts
    (array([7, 7, 8]), array(['7', '8'], dtype='<U21'), array([0, 2, 3]))
    """

    X: Matrix
    y: NDArray[Any]
    qid: NDArray[Any]
    starts: NDArray[np.int64] = field(init=False)
    qids: NDArray[np.str_] = field(init=False)
    comments: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        X = _checked_matrix(self.X)
        y, qid = whole_grades(self.y, X.shape[0]), _checked_qids(self.qid, X.shape[0])
        starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]])) if len(qid) else np.zeros(0, np.int64)
        qids = qid[starts].astype(np.str_, copy=False)
        _check_together(qids, starts)
        for name, value in {"X": X, "y": y, "qid": qid, "starts": np.append(starts, len(qid)), "qids": qids}.items():
            if isinstance(value, np.ndarray):  # leave the caller's array writable
                value = value.view()
                value.flags.writeable = False
            object.__setattr__(self, name, value)
        if self.comments is not None:
            object.__setattr__(self, "comments", tuple(self.comments))
            if len(self.comments) != len(self) or not all(isinstance(comment, str) for comment in self.comments):
                raise InputError(f"comments must be {len(self)} strings, one per row. Got {len(self.comments)}.")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        kind = "sparse" if sparse.issparse(self.X) else "dense"
        sizes = f"{self.n_queries:,} queries, {len(self):,} rows, {self.n_features:,} features"
        return f"LetorData({sizes}, {kind})"

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.qids)


def read_letor(
    path: FilePath, n_features: int | None = None, *, dense: bool | None = None, comments: bool = True
) -> LetorData:
    """Read a file strictly and exactly: every value is ``numpy.float32(float(text))``.

    Parameters
    ----------
    path : a text file, gzipped or not
    n_features : number of columns; None takes the largest id of the file. A larger id is an error, so give the
        training set's number when reading a test set.
    dense : True for a dense X, False for CSR; None chooses dense for at least a quarter of nonzero cells
    comments : keep the text after ``#``, which often names the document

    Notes
    -----
    Refused, with file and line: a missing or empty qid; rows of a query apart from each other; feature ids below 1,
    repeated or out of order; NaN, infinity and values beyond float32; grades that are not whole (2.0 is); a file
    without rows. A feature that a line leaves out is 0.
    Blank lines are skipped; the last line need not be ended.

    Reads some 200 MB of text a second on one core, less with decimals of more than 15 digits. Memory: twice the result;
    `LetorStream` needs less.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:007 1:0.5 3:1 # doc 12\\n0 qid:007 2:1\\n")
    ...     data = read_letor(file)
    >>> data.X
    array([[0.5, 0. , 1. ],
           [0. , 1. , 0. ]], dtype=float32)
    >>> data.y, data.qid, data.comments
    (array([2, 0]), array(['007', '007'], dtype='<U3'), ('doc 12', ''))
    """
    check_n_features(n_features)
    with open_bytes(path) as stream:
        blocks = list(read_blocks(stream, path, n_features, comments=comments))
    check_not_empty(blocks, n_features, path)
    return assemble(blocks, n_features or width_of(blocks), dense)


class LetorStream:
    """Iterates over the chunks of a file, as often as asked; a chunk has whole queries, one chunk is in memory.

    Parameters
    ----------
    path : a text file, gzipped or not
    n_features : number of columns of every chunk; None reads the file once more, first, to find its largest id
    chunk_bytes : bytes of text in a chunk, about; a longer query is whole
    dense : as in `read_letor`, for all chunks
    comments : keep the text after ``#``

    Notes
    -----
    Text is parsed anew in each pass. Query ids are remembered; a query in two places is an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:7 1:0.5\\n0 qid:7 2:1\\n1 qid:8 1:1\\n")
    ...     stream = LetorStream(file, chunk_bytes=1)
    ...     [chunk.qid.tolist() for chunk in stream]
    [[7, 7], [8]]
    """

    def __init__(
        self,
        path: FilePath,
        n_features: int | None = None,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        dense: bool | None = None,
        comments: bool = False,
    ) -> None:
        check_n_features(n_features)
        check_integer(chunk_bytes, "chunk_bytes")
        self.path = path
        self.n_features = n_features
        self.chunk_bytes = chunk_bytes
        self.dense = dense
        self.comments = comments

    def __iter__(self) -> Iterator[LetorData]:
        if self.n_features is None:
            self._find_width()
        waiting: list[TextBlock] = []
        has_rows = False
        for block in self._blocks(self.comments):
            has_rows = True
            waiting.append(block)
            if sum(block.n_bytes for block in waiting) < self.chunk_bytes:
                continue
            ready, waiting = _cut_before_last_query(waiting)
            if ready:
                yield self._chunk(ready)
        if waiting or not has_rows:
            yield self._chunk(waiting)

    def _blocks(self, comments: bool) -> Iterator[TextBlock]:
        size = min(self.chunk_bytes, BLOCK_BYTES)
        with open_bytes(self.path) as stream:
            yield from read_blocks(stream, self.path, self.n_features, comments=comments, block_bytes=size)

    def _find_width(self) -> None:
        n_rows = n_values = width = 0
        for block in self._blocks(comments=False):
            n_rows, n_values = n_rows + len(block.y), n_values + block.n_values
            width = max(width, block.X.shape[1])
        if width and self.dense is None:
            self.dense = is_dense(n_values, n_rows, width)
        self.n_features = width or None

    def _chunk(self, blocks: list[TextBlock]) -> LetorData:
        check_not_empty(blocks, self.n_features, self.path)
        chunk = assemble(blocks, self.n_features or width_of(blocks), self.dense)
        self.dense = not sparse.issparse(chunk.X)  # kept for the next chunk
        return chunk

    def fingerprint(self) -> str:
        """Return a digest of samples of the file, and of the size of chunks."""
        return f"{sampled_digest(self.path)} {self.chunk_bytes}"


def _cut_before_last_query(blocks: list[TextBlock]) -> tuple[list[TextBlock], list[TextBlock]]:
    """Split blocks before the last query; the last query may continue in the next block."""
    last_qid = blocks[-1].run_qids[-1]
    for i in range(len(blocks) - 1, -1, -1):
        block = blocks[i]
        begin = block.run_starts[-1]
        if block.run_qids[-1] != last_qid:  # the last query begins with the next block
            return blocks[: i + 1], blocks[i + 1 :]
        if begin > 0:
            return [*blocks[:i], block.rows(0, begin)], [block.rows(begin, len(block.y)), *blocks[i + 1 :]]
    return [], blocks


def assemble(blocks: list[TextBlock], n_features: int, dense: bool | None) -> LetorData:
    """Concatenate blocks."""
    if dense is None:
        n_rows = sum(len(block.y) for block in blocks)
        dense = is_dense(sum(block.n_values for block in blocks), n_rows, n_features)
    comments = tuple(comment for block in blocks for comment in block.comments or ())
    return LetorData(*stack(blocks, n_features, dense), comments if any(comments) else None)


def _checked_matrix(X: ArrayLike | sparse.spmatrix | sparse.sparray) -> Matrix:
    try:
        with np.errstate(over="ignore"):  # told below
            rows = sparse.csr_array(X, dtype=np.float32) if sparse.issparse(X) else np.ascontiguousarray(X, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"X must be a (rows, features) array of numbers: {error}") from None
    if sparse.issparse(X):
        finite = np.isfinite(rows.data).all()
    else:
        if rows.ndim != 2:
            raise InputError(f"X must be a (rows, features) array. Got shape {rows.shape}.")
        finite = np.isfinite(rows.min(initial=0)) and np.isfinite(rows.max(initial=0))  # NaN passes through both
    if not finite:
        raise InputError("X holds values that are not finite numbers within float32.")
    return cast(Matrix, rows)


def _as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} is no array of one value per row: {error}") from None


def whole_grades(y: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return grades as int64, checked: one per row, whole numbers of any type."""
    grades = _as_array(y, "y")
    if grades.shape != (n_rows,) or grades.dtype.kind not in "iufb":
        raise InputError(f"y must hold {n_rows} grades, one per row. Got shape {grades.shape}, dtype {grades.dtype}.")
    if grades.dtype.kind == "f":
        wide = grades.astype(np.float64, copy=False)
        broken = ~(np.abs(wide) <= 2**53) | (wide != np.rint(wide))  # ~(… <= 2**53) is also True for NaN
        if broken.any():
            row = int(broken.argmax())
            raise InputError(f"y[{row}] is {grades[row]}; grades are whole numbers.")
    if grades.dtype == np.uint64 and grades.max(initial=0) > np.iinfo(np.int64).max:
        raise InputError(
            f"y[{int(grades.argmax())}] is {grades.max()}; grades are whole numbers within 64 bits, signed."
        )
    return grades.astype(np.int64)


def _checked_qids(qid: ArrayLike, n_rows: int) -> NDArray[Any]:
    ids = id_array(qid)
    if ids.shape != (n_rows,) or (ids.dtype.kind not in "iuU" and n_rows):
        raise InputError(
            f"qid must hold {n_rows} strings or integers, one per row. Got shape {ids.shape}, dtype {ids.dtype}."
        )
    return as_numbers(ids)


def as_numbers(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as int64 if every id is a number that prints as the id, else as strings."""
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return ids.astype(np.str_, copy=False)
    names = ids.astype(np.str_, copy=False)
    return numbers if (numbers.astype(np.str_) == names).all() else names


def id_array(qid: ArrayLike) -> NDArray[Any]:
    """Return ids, also of an object column, as an array of strings or integers."""
    ids = _as_array(qid, "qid")
    if ids.dtype.kind == "O" and ids.ndim == 1:
        values = ids.tolist()
        if all(isinstance(value, str) for value in values) or all(map(is_integer, values)):
            return np.array(values)
    return ids


def _check_together(qids: NDArray[np.str_], starts: NDArray[np.int64]) -> None:
    first_row_of: dict[str, int] = {}
    for qid, row in zip(qids.tolist(), starts.tolist(), strict=True):
        problem = id_problem(qid)
        if problem is not None:
            raise InputError(f"The qid of row {row} {problem}.")
        if qid in first_row_of:
            raise InputError(
                f"Query {qid!r} is at row {row} again, after other queries; its rows began at row "
                f"{first_row_of[qid]}. Rows of a query stand together."
            )
        first_row_of[qid] = row
