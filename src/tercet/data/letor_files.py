"""Writing LETOR text, and sets too large for memory as chunks of arrays on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.letor import LetorData
from tercet.data.letor_text import LARGEST_ID
from tercet.data.lines import FilePath, writable_id, write_atomically
from tercet.errors import BundleError, DamagedBundleError, InputError
from tercet.kernels.letor import BYTES_OF_A_FEATURE, LONGEST_GRADE, LONGEST_QID, format_rows
from tercet.store import Bundle, check_destination, read_bundle, take_array, write_bundle

INDEX_KIND = "letor-chunks"
CHUNK_KIND = "letor-chunk"
_VALUES_AT_A_TIME = 1 << 16


def write_letor(path: FilePath, data: LetorData | Iterable[LetorData]) -> None:
    """Write a file, or none at all, that `read_letor` reads back to the bit; gzipped when named ``.gz``.

    Parameters
    ----------
    path : the file
    data : one set, or several of the same width, such as the chunks of `iter_letor`, written one after another

    Notes
    -----
    Dense rows are written in full and sparse ones without their zeros, except that the first row has the last
    feature id, so that the number of columns is read back too. Values have the fewest decimals that give the
    same float32. More than 10 million values a second, in memory for one set.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "train.txt")
    ...     write_letor(file, LetorData([[0.1, 0.0], [0.25, 1e-30]], [1, 0], ["007", "007"], ["doc 12", ""]))
    ...     print(file.read_text(), end="")
    1 qid:007 1:0.1 2:0 # doc 12
    0 qid:007 1:0.25 2:1.0000000031710769e-30
    """
    with write_atomically(path) as stream:
        for is_first, chunk in _in_order([data] if isinstance(data, LetorData) else data, path):
            _check_writable(chunk, path)
            _write_rows(stream, chunk, is_first)


def write_chunks(folder: FilePath, chunks: LetorData | Iterable[LetorData]) -> LetorChunks:
    """Write chunks as arrays that are read many times faster than text, in memory for one chunk.

    Parameters
    ----------
    folder : a new folder, or one whose writing was interrupted
    chunks : such as those of `iter_letor`: all of one width and layout, no query in two of them

    Returns
    -------
    LetorChunks, as `read_chunks` gives.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chunks = write_chunks(Path(folder, "set"), LetorData([[0.5], [1.0]], [1, 0], ["7", "7"]))
    ...     [chunk.X.tolist() for chunk in chunks]
    [[[0.5], [1.0]]]
    """
    root = Path(folder)
    check_destination(root)
    if (root / "manifest.json").exists() and _index(root)[1]:
        raise BundleError(f"{root} holds chunks already; give another folder, or remove it first")
    _write_index(root, LetorChunks(root, 0, 0, 0, 0, True), finished=False)
    n_chunks, n_rows, n_queries, n_features, dense = 0, 0, 0, 0, True
    for is_first, chunk in _in_order([chunks] if isinstance(chunks, LetorData) else chunks, root):
        is_dense = not sparse.issparse(chunk.X)
        if not is_first and is_dense != dense:
            raise InputError(f"{root}: chunk {n_chunks} is {_layout(is_dense)}, those before are {_layout(dense)}.")
        dense, n_features = is_dense, chunk.n_features
        write_bundle(_chunk_path(root, n_chunks), kind=CHUNK_KIND, meta=_meta(chunk), arrays=_arrays(chunk))
        n_chunks, n_rows, n_queries = n_chunks + 1, n_rows + len(chunk), n_queries + chunk.n_queries
    written = LetorChunks(root, n_chunks, n_rows, n_queries, n_features, dense)
    _write_index(root, written, finished=True)
    return written


def read_chunks(folder: FilePath) -> LetorChunks:
    """Open what `write_chunks` wrote; chunks are read, and checked to the byte, as they are asked for.

    Examples
    --------
    See `write_chunks`.
    """
    chunks, finished = _index(Path(folder))
    if not finished:
        raise DamagedBundleError(f"{folder}: the writing of these chunks was interrupted; write them again")
    return chunks


@dataclass(frozen=True)
class LetorChunks:
    """A set on disk; iterating, as often as wanted, gives its chunks as LetorData, one in memory at a time."""

    path: Path
    n_chunks: int
    n_rows: int
    n_queries: int
    n_features: int
    dense: bool

    def __len__(self) -> int:
        return self.n_chunks

    def __iter__(self) -> Iterator[LetorData]:
        for number in range(self.n_chunks):
            yield self[number]

    def __getitem__(self, number: int) -> LetorData:
        if not 0 <= number < self.n_chunks:
            raise IndexError(f"chunk {number} of {self.n_chunks}")
        chunk = _chunk(read_bundle(_chunk_path(self.path, number), kind=CHUNK_KIND))
        if (chunk.n_features, sparse.issparse(chunk.X)) != (self.n_features, not self.dense):
            raise DamagedBundleError(
                f"{_chunk_path(self.path, number)} is not of this set: its width or layout differs"
            )
        return chunk


# What both ways of writing share


def _in_order(chunks: Iterable[LetorData], path: FilePath) -> Iterator[tuple[bool, LetorData]]:
    """Chunks that may be written one after another, and whether it is the first."""
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


# Text


def _check_writable(data: LetorData, path: FilePath) -> None:
    if not 1 <= data.n_features <= LARGEST_ID:
        raise InputError(f"{path}: cannot write: {data.n_features} features; a file holds from 1 to {LARGEST_ID}")
    too_long = np.abs(data.y) >= 10**LONGEST_GRADE
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
        features = _formatted(*_cells(rows))
        if mark_width and first == 0 and sparse.issparse(rows) and rows[[0]].tocsr()[0, data.n_features - 1] == 0:
            features[0] += f" {data.n_features}:0"
        grades = data.y[first : first + step].tolist()
        stop = first + len(grades)
        pieces = zip(grades, heads[first:stop], features, comments[first:stop], strict=True)
        stream.write("".join(f"{grade}{head}{values}{comment}\n" for grade, head, values, comment in pieces))


def _cells(rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Where rows end, and columns and values of what is written of them."""
    if sparse.issparse(rows):
        rows = sparse.csr_array(rows, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return rows.indptr[1:].astype(np.int64), rows.indices.astype(np.int32), rows.data
    n_rows, width = rows.shape
    return np.arange(1, n_rows + 1) * width, np.tile(np.arange(width, dtype=np.int32), n_rows), rows.ravel()


def _formatted(row_ends: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float32]) -> list[str]:
    values = np.array(values)  # one kind of array for the compiled loop, whatever came in
    buffer = np.empty(max(1, len(values)) * BYTES_OF_A_FEATURE, np.uint8)
    stops = np.empty(len(row_ends), np.int64)
    texts: list[str] = []
    while len(texts) < len(row_ends):
        first = len(texts)
        done = format_rows(first, row_ends, columns, values, values.view(np.int32), buffer, stops)
        text = buffer[: stops[done - 1] if done > first else 0].tobytes().decode("ascii")
        bounds = [0, *stops[first:done].tolist()]
        texts += [text[begin:end] for begin, end in pairwise(bounds)]
        if done < len(row_ends):
            begin, end = int(row_ends[done - 1]) if done else 0, int(row_ends[done])
            pairs = zip(columns[begin:end].tolist(), values[begin:end].tolist(), strict=True)
            texts.append("".join(f" {column + 1}:{value!r}" for column, value in pairs))
    return texts


# Chunks


def _chunk_path(root: Path, number: int) -> Path:
    return root / f"chunk-{number:06d}"


def _layout(dense: bool) -> str:
    return "dense" if dense else "sparse"


def _write_index(root: Path, chunks: LetorChunks, finished: bool) -> None:
    names = ("n_chunks", "n_rows", "n_queries", "n_features", "dense")
    meta = {name: getattr(chunks, name) for name in names}
    write_bundle(root, kind=INDEX_KIND, meta={**meta, "finished": finished}, arrays={})


def _index(root: Path) -> tuple[LetorChunks, bool]:
    fields = read_bundle(root, kind=INDEX_KIND).fields()
    n_chunks, n_rows, n_queries, n_features = (
        fields.take(name, int) for name in ("n_chunks", "n_rows", "n_queries", "n_features")
    )
    dense, finished = fields.take("dense", bool), fields.take("finished", bool)
    fields.done()
    return LetorChunks(root, n_chunks, n_rows, n_queries, n_features, dense), finished


def _meta(chunk: LetorData) -> dict[str, Any]:
    return {
        "n_features": chunk.n_features,
        "dense": not sparse.issparse(chunk.X),
        "comments": chunk.comments is not None,
    }


def _arrays(chunk: LetorData) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {"y": chunk.y, "starts": chunk.starts}
    if sparse.issparse(chunk.X):
        arrays |= {"values": chunk.X.data, "columns": chunk.X.indices, "row_starts": chunk.X.indptr.astype(np.int64)}
    else:
        arrays["X"] = chunk.X
    texts = {"qid": chunk.qids.tolist()} | ({} if chunk.comments is None else {"comment": list(chunk.comments)})
    for name, strings in texts.items():
        encoded = [string.encode() for string in strings]
        arrays[f"{name}_text"] = np.frombuffer(b"".join(encoded), np.uint8)
        arrays[f"{name}_ends"] = np.cumsum([len(string) for string in encoded], dtype=np.int64)
    return arrays


def _chunk(bundle: Bundle) -> LetorData:
    fields, arrays, where = bundle.fields(), bundle.arrays, str(bundle.path)
    n_features, dense, has_comments = (fields.take(*one) for one in _CHUNK_FIELDS)
    fields.done()
    y = take_array(arrays, "y", np.int64, 1, where=where)
    starts = take_array(arrays, "starts", np.int64, 1, where=where)
    X: Any
    if dense:
        X = arrays.get("X")
        if X is None or X.dtype != np.float32 or X.shape != (len(y), n_features):
            raise DamagedBundleError(f"{where}: array 'X' is missing or not float32 of shape {(len(y), n_features)}")
    else:
        cells = (
            take_array(arrays, "values", np.float32, 1, where=where),
            take_array(arrays, "columns", (np.int32, np.int64), 1, where=where),
            take_array(arrays, "row_starts", np.int64, (len(y) + 1,), where=where),
        )
        X = _checked_rows(cells, (len(y), n_features), where)
    qids = _strings(arrays, "qid", where)
    comments = _strings(arrays, "comment", where) if has_comments else None
    sizes = np.diff(starts)
    if len(starts) != len(qids) + 1 or starts[0] != 0 or starts[-1] != len(y) or (sizes < 1).any():
        raise DamagedBundleError(f"{where}: array 'starts' does not divide {len(y)} rows into {len(qids)} queries")
    try:
        return LetorData(X, y, np.repeat(np.array(qids), sizes), None if comments is None else tuple(comments))
    except InputError as error:
        raise DamagedBundleError(f"{where}: {error}") from error


_CHUNK_FIELDS: tuple[tuple[str, Any], ...] = (("n_features", int), ("dense", bool), ("comments", bool))


def _checked_rows(cells: tuple[NDArray[Any], ...], shape: tuple[int, int], where: str) -> sparse.csr_array:
    values, columns, row_starts = cells
    inside = not len(columns) or (columns.min() >= 0 and columns.max() < shape[1])
    rising = row_starts[0] == 0 and row_starts[-1] == len(values) == len(columns) and (np.diff(row_starts) >= 0).all()
    if not (inside and rising):
        raise DamagedBundleError(f"{where}: its rows do not fit a matrix of shape {shape}")
    return sparse.csr_array((values, columns, row_starts), shape=shape)


def _strings(arrays: dict[str, NDArray[Any]], name: str, where: str) -> list[str]:
    text = take_array(arrays, f"{name}_text", np.uint8, 1, where=where).tobytes()
    ends = take_array(arrays, f"{name}_ends", np.int64, 1, where=where)
    bounds = [0, *ends.tolist()]
    if bounds[-1] != len(text) or (np.diff(bounds) < 0).any():
        raise DamagedBundleError(f"{where}: array '{name}_ends' does not divide {len(text)} bytes")
    try:
        return [text[begin:end].decode("utf-8") for begin, end in pairwise(bounds)]
    except UnicodeDecodeError as error:
        raise DamagedBundleError(f"{where}: array '{name}_text' is not UTF-8") from error
