"""Rows of a sparse matrix that may be larger than memory: a bundle of mapped CSR arrays.

::

    rows/manifest.json, arrays-….safetensors   data float32, indices and indptr of one integer type

An opened matrix is a scipy CSR array. Selected rows, such as ``X[[3, 0, 3]]``, are a copy in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.matrix import BLOCK_ENTRIES, check_matrix, row_slices
from tercet.errors import BundleError, DamagedBundleError, InputError
from tercet.store import MANIFEST_NAME, Verify, check_destination, read_bundle, take_array, write_bundle
from tercet.store.codec import decode
from tercet.store.fields import csr_problem
from tercet.store.kinds import ROWS
from tercet.store.mapping import map_file
from tercet.store.schema import Bounds
from tercet.store.strings import PackedIds, PackedStrings, hash_of

MOST_ROWS: Final = 2**31 - 1  # row numbers of preferences are int32
MOST_NARROW: Final = 2**31 - 1  # most entries with int32 indices; SciPy requires one type for indices and row pointers

NewFile: TypeAlias = Callable[[], Any]  # opens another temporary file


@dataclass(frozen=True)
class _Width:
    n_columns: Annotated[int, Bounds(1, 2**31 - 1)]


def write_rows(path: str | os.PathLike[str], blocks: Iterable[Any], *, n_columns: int) -> sparse.csr_array:
    """Write the rows of blocks, one block in memory at a time, and open them.

    Parameters
    ----------
    path : a folder that is new or empty
    blocks : matrices of ``n_columns`` columns

    Notes
    -----
    Disk: twice the size of the rows during writing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     X = write_rows(folder, [[[0.0, 1.0]], [[2.0, 3.0]]], n_columns=2)
    ...     X.shape, X[[1, 0, 1]].toarray().tolist()
    ((2, 2), [[2.0, 3.0], [0.0, 1.0], [2.0, 3.0]])
    """
    folder = Path(path)
    with spooling(folder) as new_file:
        rows = RowSpool(new_file, n_columns)
        for block in blocks:
            rows.add(block)
        write_bundle(folder, kind=ROWS, meta=asdict(_Width(n_columns)), arrays=rows.arrays())
    return open_rows(folder)


def open_rows(path: str | os.PathLike[str], verify: Verify = "open") -> sparse.csr_array:
    """Open rows as a CSR array of mapped arrays; only copies of rows take memory.

    Parameters
    ----------
    path : the folder
    verify : "open" reads and checks every byte, "never" leaves damage unnoticed

    Raises
    ------
    MissingBundleError
        Without rows at the path.
    DamagedBundleError
        When bytes have changed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_rows(f"{folder}/rows", [[[1.0, 0.0], [0.0, 2.0]]], n_columns=2)
    ...     open_rows(f"{folder}/rows").toarray().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    bundle = read_bundle(path, kind=ROWS, mapped=True, verify=verify)
    where = str(bundle.path)
    return mapped_rows(bundle.arrays, decode(_Width, bundle.meta, where=where).n_columns, where, verify)


def mapped_rows(
    arrays: Mapping[str, NDArray[Any]], n_columns: int, where: str, verify: Verify = "open"
) -> sparse.csr_array:
    """Return the matrix of mapped arrays ``data``, ``indices`` and ``indptr``, checked."""
    indptr = take_array(arrays, "indptr", (np.int32, np.int64), 1, where=where)
    data = take_array(arrays, "data", np.float32, 1, where=where, finite=False)
    indices = take_array(arrays, "indices", indptr.dtype, data.shape, where=where)
    if indptr.size < 2 or indptr[0] != 0 or indptr[-1] != data.size or (np.diff(indptr) < 0).any():
        raise DamagedBundleError(f"{where} has row pointers that do not rise from 0 to {data.size}")
    # SciPy copies a view of less than half of its base array; an array made from the buffer has no larger base.
    csr_arrays = [np.frombuffer(array.data, array.dtype) if array.size else array for array in (data, indices, indptr)]
    matrix = sparse.csr_array(tuple(csr_arrays), shape=(indptr.size - 1, n_columns))
    for rows in row_slices(matrix) if verify == "open" else ():
        entries = slice(indptr[rows.start], indptr[rows.stop])
        starts = indptr[rows.start : rows.stop + 1] - indptr[rows.start]
        problem = csr_problem(starts, indices[entries], n_columns, ascending=True)
        if problem is None and not np.isfinite(data[entries]).all():
            problem = "has values that are not finite"
        if problem is not None:
            raise DamagedBundleError(f"{where} {problem}, from row {rows.start} to {rows.stop - 1}")
    return matrix


# -- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def spooling(folder: Path) -> Iterator[NewFile]:
    """Give files without names on the way to a new bundle in a folder; an error of the disk is a `BundleError`.

    The files are on the disk of the folder, and gone with the block or with the process.
    """
    check_destination(folder)
    if (folder / MANIFEST_NAME).exists():
        raise BundleError(f"{folder} holds something already; choose another folder, or remove it first")
    aside = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())

    def new_file() -> Any:
        # Unbuffered: a full disk raises at the write, and not again at the close.
        return files.enter_context(tempfile.TemporaryFile(dir=aside, buffering=0))

    try:
        with ExitStack() as files:
            yield new_file
    except OSError as error:
        if isinstance(error, BundleError):  # a MissingBundleError is an OSError, too
            raise
        raise BundleError(f"{folder} cannot be written: {error}; nothing was written") from error


class SpooledArray:
    """A growing array in a file, mapped at the end."""

    def __init__(self, file: Any, dtype: Any) -> None:
        self.dtype, self.size = np.dtype(dtype), 0
        self._file = file

    def append(self, values: Any) -> None:
        array = np.ascontiguousarray(values, dtype=self.dtype)
        rest = array.view(np.uint8).data
        while rest:
            rest = rest[self._file.write(rest) :]
        self.size += array.size

    def mapped(self) -> NDArray[Any]:
        if not self.size:
            return np.empty(0, dtype=self.dtype)
        return map_file(self._file, self.size * self.dtype.itemsize).view(self.dtype)


class RowSpool:
    """Rows of blocks, with or without ids, in growing files; ``arrays`` maps them for a bundle.

    Memory: a block; and for ``arrays`` 16 bytes for each id.
    """

    def __init__(self, new_file: NewFile, n_columns: int, *, with_ids: bool = False) -> None:
        if not 1 <= n_columns < 2**31:
            raise InputError(f"n_columns is {n_columns}; it must lie between 1 and 2^31 - 1")
        self.n_columns, self.with_ids = n_columns, with_ids
        self.n_rows = 0
        self._new_file = new_file
        names = ["data", "indices", "indptr", *(["letters", "starts", "hashes"] if with_ids else [])]
        types = (np.float32, np.int32, np.int64, np.uint8, np.int64, np.uint64)
        self._files = {name: SpooledArray(new_file(), dtype) for name, dtype in zip(names, types, strict=False)}
        for name in {"indptr", "starts"} & self._files.keys():
            self._files[name].append([0])

    def add(self, block: Any, ids: Sequence[str] | None = None) -> None:
        """Append rows, perhaps with an id for each."""
        name = f"the block from row {self.n_rows} on"
        n = block.shape[0] if hasattr(block, "shape") else len(block)
        if n == 0:
            return
        if self.n_rows + n > MOST_ROWS:
            raise InputError(f"{name} would make more than {MOST_ROWS:,} rows, which preferences cannot tell apart")
        rows = check_matrix(block, name)
        if rows.shape[1] != self.n_columns:
            raise InputError(f"{name} has {rows.shape[1]} columns; expected {self.n_columns}")
        files = self._files
        files["indptr"].append(files["indices"].size + rows.indptr[1:].astype(np.int64))
        files["indices"].append(rows.indices)
        files["data"].append(rows.data)
        if ids is not None:
            packed = PackedStrings.pack(ids)
            files["starts"].append(files["letters"].size + packed.starts[1:])
            files["letters"].append(packed.letters)
            files["hashes"].append(np.fromiter(map(hash_of, ids), dtype=np.uint64, count=n))
        self.n_rows += n

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all rows as ``data``, ``indices`` and ``indptr``, and the arrays of their ids."""
        if not self.n_rows:
            raise InputError("there is no row to write; at least one is needed")
        arrays = {name: file.mapped() for name, file in self._files.items()}
        kind = np.int32 if arrays["indices"].size <= MOST_NARROW else np.int64
        for name in ("indices", "indptr"):
            arrays[name] = self._in_type(arrays[name], kind)
        if self.with_ids:
            letters, starts, hashes = (arrays.pop(name) for name in ("letters", "starts", "hashes"))
            ids = PackedIds.from_hashes(PackedStrings(letters, starts), hashes)
            twice = ids.repeated()
            if twice is not None:
                same = np.flatnonzero(hashes == hash_of(twice)).tolist()
                first, second = [row for row in same if ids[row] == twice][:2]
                raise InputError(f"the id {twice!r} belongs to row {first} and to row {second}; each id may occur once")
            arrays |= ids.arrays()
        return arrays

    def _in_type(self, array: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Return the array in an integer type, written to another file if needed."""
        if array.dtype == dtype:
            return array
        converted = SpooledArray(self._new_file(), dtype)
        for start in range(0, array.size, BLOCK_ENTRIES):
            converted.append(array[start : start + BLOCK_ENTRIES])
        return converted.mapped()
