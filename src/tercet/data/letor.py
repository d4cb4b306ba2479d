"""LETOR files: ``grade qid:id feature:value … # comment`` on each line, rows of a query one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

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


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Feature vectors with a number each, the rows of a query one after another; subclasses say which numbers.

    Attributes
    ----------
    X : (n_rows, n_features), a dense array or CSR
    y : (n_rows,) higher is better
    qid : (n_rows,) the query id of each row
    starts : (n_queries + 1,) where each query's rows begin, and the number of rows
    qids : (n_queries,) the id of each query as a string, in the order of the rows
    """

    X: Matrix
    y: NDArray[Any]
    qid: NDArray[Any]
    starts: NDArray[np.int64] = field(init=False)
    qids: NDArray[np.str_] = field(init=False)

    def _hold(self, X: Matrix, y: NDArray[Any], qid: NDArray[Any]) -> None:
        """Keep rows whose types are right, and where each query's begin; arrays become views that cannot be written."""
        starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]])) if len(qid) else np.zeros(0, np.int64)
        qids = qid[starts].astype(np.str_, copy=False)
        _check_together(qids, starts)
        for name, value in {"X": X, "y": y, "qid": qid, "starts": np.append(starts, len(qid)), "qids": qids}.items():
            if isinstance(value, np.ndarray):  # the caller's array stays as it is
                value = value.view()
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        kind = "sparse" if sparse.issparse(self.X) else "dense"
        sizes = f"{self.n_queries:,} queries, {len(self):,} rows, {self.n_features:,} features"
        return f"{type(self).__name__}({sizes}, {kind})"

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.qids)


@dataclass(frozen=True, eq=False, repr=False)
class LetorData(QueryRows):
    """Feature vectors of documents with their grades, the rows of a query one after another.

    Parameters
    ----------
    X : (n_rows, n_features), dense or sparse; column j is the feature id j + 1
    y : (n_rows,) whole numbers, the grades
    qid : (n_rows,) the query id of each row: strings or integers
    comments : what follows ``#`` on each row, or None

    Attributes
    ----------
    X : float32, a dense array or CSR
    y : int64
    qid : array of int64, or of strings unless every id is a number that prints as the id: ``007`` stays a string
    comments : tuple of strings, or None
    starts : (n_queries + 1,) where each query's rows begin, and the number of rows
    qids : (n_queries,) the id of each query as a string, in the order of the rows

    Notes
    -----
    Arrays are checked, not copied where they have the right type; dense ones are views that cannot be written to.

    Examples
    --------
    >>> data = LetorData([[0.5, 1.0], [0.25, 0.0], [1.0, 1.0]], [1, 0, 2], [7, 7, 8])
    >>> data.qid, data.qids, data.starts
    (array([7, 7, 8]), array(['7', '8'], dtype='<U21'), array([0, 2, 3]))
    """

    comments: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        X = _checked_matrix(self.X)
        self._hold(X, whole_grades(self.y, X.shape[0]), _checked_qids(self.qid, X.shape[0]))
        if self.comments is not None:
            object.__setattr__(self, "comments", tuple(self.comments))
            if len(self.comments) != len(self) or not all(isinstance(comment, str) for comment in self.comments):
                raise InputError(f"comments must be {len(self)} strings, one per row. Got {len(self.comments)}.")


def read_letor(
    path: FilePath,
    n_features: int | None = None,
    *,
    dense: bool | None = None,
    comments: bool = True,
    scattered: Literal["error", "group"] = "error",
) -> LetorData:
    """Read a file strictly and exactly: every value is what ``numpy.float32(float(text))`` gives.

    Parameters
    ----------
    path : a text file, gzipped or not
    n_features : the number of columns; None takes the largest id of the file. A larger id is an error, so
        give the training set's number when reading a test set.
    dense : whether X is a dense array; None makes it one when at least a quarter of its cells are not 0
    comments : whether to keep what follows ``#``, which often names the document
    scattered : what to do about a query whose rows do not stand together: ``"error"`` names both lines,
        ``"group"`` gathers its rows, in the order of the file, where the first of them is

    Notes
    -----
    Refused, with file and line: a missing or empty qid, feature ids that are below 1, repeated or out of order,
    values that are not finite numbers within float32, grades that are not whole (2.0 is), a file without rows.
    Blank lines are skipped; the last line need not be ended. Queries of one document, or of one grade only, are
    queries like any other.

    Reads some 200 MB of text a second on one core, less where decimals have 17 digits; needs memory for twice the
    result. `iter_letor` needs less.

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
    if scattered not in ("error", "group"):
        raise InputError(f"scattered must be 'error' or 'group'. Got {scattered!r} instead.")
    check_n_features(n_features)
    with open_bytes(path) as stream:
        blocks = list(read_blocks(stream, path, n_features, comments=comments, scattered=scattered == "group"))
    check_not_empty(blocks, n_features, path)
    return assemble(blocks, n_features or width_of(blocks), dense, gather=scattered == "group")


def iter_letor(
    path: FilePath,
    n_features: int | None = None,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    dense: bool | None = None,
    comments: bool = True,
) -> Iterator[LetorData]:
    """Read a file in chunks that never cut a query, in memory bounded by the chunk.

    Parameters
    ----------
    path : a text file, gzipped or not
    n_features : the number of columns of every chunk. With None the file is read twice, first to find its
        largest id.
    chunk_bytes : how much text, about, makes a chunk; one query is always whole, however long
    dense : whether X is a dense array; None decides as `read_letor` does, once for all chunks
    comments : whether to keep what follows ``#``

    Notes
    -----
    The queries seen are remembered, one entry each, so that one that comes back is an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:7 1:0.5\\n0 qid:7 2:1\\n1 qid:8 1:1\\n")
    ...     [chunk.qid.tolist() for chunk in iter_letor(file, chunk_bytes=1)]
    [[7, 7], [8]]
    """
    check_integer(chunk_bytes, "chunk_bytes")
    check_n_features(n_features)
    block_bytes = min(chunk_bytes, BLOCK_BYTES)
    if n_features is None:
        n_rows, n_values = 0, 0
        with open_bytes(path) as stream:
            n_features = 0
            for block in read_blocks(stream, path, None, comments=False, scattered=False, block_bytes=block_bytes):
                n_rows, n_values = n_rows + len(block.y), n_values + block.n_values
                n_features = max(n_features, block.X.shape[1])
        if n_features:
            dense = is_dense(n_values, n_rows, n_features) if dense is None else dense
    waiting: list[TextBlock] = []
    has_rows = False
    with open_bytes(path) as stream:
        for block in read_blocks(
            stream, path, n_features or None, comments=comments, scattered=False, block_bytes=block_bytes
        ):
            has_rows = True
            waiting.append(block)
            if sum(block.n_bytes for block in waiting) < chunk_bytes:
                continue
            ready, waiting = _cut_before_last_query(waiting)
            if ready:
                check_not_empty(ready, n_features, path)
                chunk = assemble(ready, n_features, dense)
                dense = not sparse.issparse(chunk.X)
                yield chunk
    if waiting or not has_rows:
        check_not_empty(waiting, n_features, path)
        yield assemble(waiting, n_features, dense)


class LetorStream:
    """Iterating, as often as wanted, gives the chunks of a file, whole queries each, one in memory at a time.

    Parameters
    ----------
    path, n_features, chunk_bytes, dense : as `iter_letor` has them. Without ``n_features`` the file is read once more,
        before the first pass, to find its largest feature id

    Notes
    -----
    Text is parsed anew in each pass.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:7 1:0.5\\n0 qid:7 2:1\\n1 qid:8 1:1\\n")
    ...     stream = LetorStream(file, chunk_bytes=1)
    ...     [[chunk.n_features for chunk in stream] for epoch in range(2)]
    [[2, 2], [2, 2]]
    """

    def __init__(
        self,
        path: FilePath,
        n_features: int | None = None,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        dense: bool | None = None,
    ) -> None:
        check_n_features(n_features)
        check_integer(chunk_bytes, "chunk_bytes")
        self.path = path
        self.n_features = n_features
        self.chunk_bytes = chunk_bytes
        self.dense = dense

    def __iter__(self) -> Iterator[LetorData]:
        for chunk in iter_letor(
            self.path, self.n_features, chunk_bytes=self.chunk_bytes, dense=self.dense, comments=False
        ):
            # Kept for the next pass, which then need not look for them.
            self.n_features, self.dense = chunk.n_features, not sparse.issparse(chunk.X)
            yield chunk

    def fingerprint(self) -> str:
        """A digest of samples of the file, and of how it is cut into chunks."""
        return f"{sampled_digest(self.path)} {self.chunk_bytes}"


def _cut_before_last_query(blocks: list[TextBlock]) -> tuple[list[TextBlock], list[TextBlock]]:
    """Blocks whose queries are whole, and the rest, which begins with the query that may go on."""
    last_qid = blocks[-1].run_qids[-1]
    for i in range(len(blocks) - 1, -1, -1):
        block = blocks[i]
        begin = block.run_starts[-1]
        if block.run_qids[-1] != last_qid:  # the query begins with the next block
            return blocks[: i + 1], blocks[i + 1 :]
        if begin > 0:
            return [*blocks[:i], block.rows(0, begin)], [block.rows(begin, len(block.y)), *blocks[i + 1 :]]
    return [], blocks


def assemble(blocks: list[TextBlock], n_features: int, dense: bool | None, gather: bool = False) -> LetorData:
    """Put blocks together; `gather` moves the rows of every query to where its first row is."""
    if dense is None:
        n_rows = sum(len(block.y) for block in blocks)
        dense = is_dense(sum(block.n_values for block in blocks), n_rows, n_features)
    comments = [comment for block in blocks for comment in block.comments or ()]
    X, y, qid = stack(blocks, n_features, dense)
    if gather:
        order = gathered(qid)
        X, y, qid = X[order], y[order], qid[order]
        comments = [comments[row] for row in order] if comments else comments
    return LetorData(X, y, qid, tuple(comments) if any(comments) else None)


def gathered(qid: NDArray[Any]) -> NDArray[np.int64]:
    """The order of rows that gathers every query where its first row is.

    Examples
    --------
    >>> gathered(np.array(["b", "a", "b", "a"]))
    array([0, 2, 1, 3])
    """
    _, first, group = np.unique(qid, return_index=True, return_inverse=True)
    return np.argsort(first[group], kind="stable")


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
    """Grades as int64, checked: one per row, whole numbers of any type."""
    grades = _as_array(y, "y")
    if grades.shape != (n_rows,) or grades.dtype.kind not in "iufb":
        raise InputError(f"y must hold {n_rows} grades, one per row. Got shape {grades.shape}, dtype {grades.dtype}.")
    if grades.dtype.kind == "f":
        wide = grades.astype(np.float64, copy=False)
        broken = ~(np.abs(wide) <= 2**53) | (wide != np.rint(wide))  # the former is true of NaN, too
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
    """Ids as int64 if every id is a number that prints as the id, else as strings.

    Examples
    --------
    >>> as_numbers(np.array(["10", "9"])), as_numbers(np.array(["007", "9"]))
    (array([10,  9]), array(['007', '9'], dtype='<U3'))
    """
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return ids.astype(np.str_, copy=False)
    names = ids.astype(np.str_, copy=False)
    return numbers if (numbers.astype(np.str_) == names).all() else names


def id_array(qid: ArrayLike) -> NDArray[Any]:
    """Ids as an array, of strings or of integers where a column of a frame has them as objects.

    Examples
    --------
    >>> id_array(np.array(["a", "b"], dtype=object)).dtype.kind
    'U'
    """
    ids = _as_array(qid, "qid")
    if ids.dtype.kind == "O" and ids.ndim == 1:
        values = ids.tolist()
        if all(isinstance(one, str) for one in values) or all(map(is_integer, values)):
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


# -- SVMlight, whose targets are any numbers and whose qid may be missing ----------------------------------------------


@dataclass(frozen=True, eq=False)
class SvmlightData:
    """What an SVMlight file holds, one row a line.

    Attributes
    ----------
    X : CSR float32; column j is the feature id j + 1, zeros in the file are not stored
    y : float64, the targets
    qid : the query id of each row, or None when the file has none
    comments : what follows ``#`` on each row, without blanks around it, or None when the file has no comments

    Examples
    --------
    >>> data = SvmlightData(sparse.csr_matrix([[0.5, 0.0]]), np.array([1.0]), qid=["q"], comments=None)
    >>> data.X.shape, data.qid
    ((1, 2), ['q'])
    """

    X: sparse.csr_matrix
    y: NDArray[np.float64]
    qid: list[str] | None
    comments: list[str] | None


def read_svmlight(path: FilePath, n_features: int | None = None) -> SvmlightData:
    """Read a file strictly: ids start at 1 and ascend, values are finite, ``qid`` is on all lines or on none.

    Parameters
    ----------
    path : a text file, plain or packed by gzip or bzip2
    n_features : the number of columns; None takes the largest id of the file. A larger id is an error, so
        give the training set's number when reading a test set.

    Returns
    -------
    SvmlightData. Parsed by the loop that `read_letor` uses, at its speed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:007 1:0.5 3:1 # doc 12\\n0 qid:007 2:1\\n")
    ...     data = read_svmlight(file)
    >>> data.X.toarray()
    array([[0.5, 0. , 1. ],
           [0. , 1. , 0. ]], dtype=float32)
    >>> data.y, data.qid, data.comments
    (array([2., 0.]), ['007', '007'], ['doc 12', ''])
    """
    check_n_features(n_features)
    with open_bytes(path) as stream:
        blocks = list(read_blocks(stream, path, n_features, comments=True, scattered=True, is_svmlight=True))
    check_not_empty(blocks, n_features, path)
    has_qid = bool(blocks[0].run_qids[0])
    X, targets, qids = stack(blocks, n_features or width_of(blocks), dense=False)
    kept: dict[str, str] = {}  # one string object for each id, however many rows have it
    ids = [kept.setdefault(qid, qid) for qid in qids.tolist()] if has_qid else None
    comments = [comment for block in blocks for comment in block.comments or ()]
    return SvmlightData(sparse.csr_matrix(X), targets, ids, comments if any(comments) else None)
