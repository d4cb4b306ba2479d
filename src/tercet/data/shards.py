"""Rows of a sparse matrix that may be larger than memory: shards on disk, mapped and looked at row by row.

::

    rows/manifest.json, arrays-….safetensors   which shards there are, and in how many rows each column occurs
    rows/shard-000000/, rows/shard-000001/, …   bundles: some rows each, as ``kernels/stored.py`` lays them out
    rows/ids-000000/, …                         bundles: which row an id belongs to, where rows have ids

The manifest is written last. Shards without one are what a killed writer left, and are no rows at all.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.mapped_rows import MappedRows, RowsManifest, StoredRows, shard_name
from tercet.data.matrix import check_matrix
from tercet.data.stored_ids import StoredIds, write_table
from tercet.errors import BundleError, InputError
from tercet.kernels.stored import put_rows
from tercet.store import MANIFEST_NAME, check_destination, write_bundle
from tercet.store.codec import encode
from tercet.store.kinds import ROWS, ROWS_SHARD
from tercet.store.strings import PackedIds

__all__ = ["MappedRows", "ShardWriter", "StoredIds", "StoredRows", "remove_unfinished", "write_shards"]

SHARD_ROWS: Final = 2**18  # at most, in a shard
SHARD_ENTRIES: Final = 2**22  # in a shard, 32 MB; one row more may go beyond
MOST_ROWS: Final = 2**31 - 1  # of all shards: what the row numbers of preferences can say

_PART_NAME: Final = re.compile(r"(shard|ids)-\d{6,}")
_OUR_NAMES: Final = re.compile(
    r"(shard|ids)-\d{6,}|manifest\.json|arrays-[0-9a-f]+\.safetensors|\.tercet-[0-9a-f]+\.tmp"
)


def write_shards(
    path: str | os.PathLike[str],
    blocks: Iterable[Any],
    *,
    n_columns: int,
    shard_entries: int = SHARD_ENTRIES,
) -> MappedRows:
    """Write the rows of blocks, one after the other, and open them.

    Parameters
    ----------
    path : a folder that is new or empty
    blocks : matrices of ``n_columns`` columns; one at a time is held in memory
    shard_entries : entries after which a shard is full

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = write_shards(folder, [[[0.0, 1.0]], [[2.0, 3.0]]], n_columns=2)
    ...     stored.shape, stored.rows([1, 0, 1]).toarray().tolist()
    ((2, 2), [[2.0, 3.0], [0.0, 1.0], [2.0, 3.0]])
    """
    with ShardWriter(path, n_columns=n_columns, shard_entries=shard_entries) as writer:
        for block in blocks:
            writer.add(block)
        return writer.close()


class ShardWriter:
    """Takes rows block by block and writes a shard whenever enough have come; ``close`` makes them a whole.

    Memory: about four times ``shard_entries`` of 8 bytes each, and a block. One writer at a time may work in a folder.

    Parameters
    ----------
    path : a folder that is new or empty, or holds what a killed writer left
    n_columns : of every block
    with_ids : every row comes with an id; all must differ
    shard_rows, shard_entries : a shard is full when it has one of these

    Examples
    --------
    >>> import tempfile
    >>> from scipy import sparse
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ShardWriter(f"{folder}/rows", n_columns=3, with_ids=True) as writer:
    ...         writer.add(sparse.eye_array(3, format="csr", dtype="float32"), ["a", "b", "c"])
    ...         rows = writer.close()
    ...     len(rows), rows.ids[1]
    (3, 'b')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_columns: int,
        with_ids: bool = False,
        shard_rows: int = SHARD_ROWS,
        shard_entries: int = SHARD_ENTRIES,
    ) -> None:
        if not 1 <= n_columns < 2**31:
            raise InputError(f"n_columns is {n_columns}; it must lie between 1 and 2^31 - 1")
        if shard_rows < 1 or shard_entries < 1:
            raise InputError(f"a shard has at least 1 row and 1 entry; got {shard_rows} and {shard_entries}")
        self.path = Path(path)
        self.n_columns = n_columns
        self.with_ids = with_ids
        self.shard_rows, self.shard_entries = shard_rows, shard_entries
        check_destination(self.path, siblings=self._leftovers())
        if (self.path / MANIFEST_NAME).exists():
            raise BundleError(f"{self.path} holds rows already; rows are written once, so choose another folder")
        self._waiting: list[sparse.csr_array] = []
        self._ids: list[str] = []
        self._n_waiting = self._entries_waiting = 0
        self._row_starts, self._entry_starts = [0], [0]
        self._digests: list[bytes] = []
        self._counts = np.zeros(n_columns, dtype=np.int64)
        self._longest = 0
        # Of the rows' lengths, columns and values, so that the shards' sizes do not matter.
        self._content = tuple(hashlib.sha256() for _ in range(3))
        self.closed = False

    def _leftovers(self) -> list[str]:
        return [name for name in os.listdir(self.path) if _PART_NAME.fullmatch(name)] if self.path.is_dir() else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.closed:
            self.close()

    def add(self, block: Any, ids: Sequence[str] | None = None) -> None:
        """Take some rows, with their ids where the writer has ids."""
        if self.closed:
            raise InputError(f"{self.path} is complete; no rows can be added")
        if (ids is not None) != self.with_ids:
            raise InputError(f"this writer was made with_ids={self.with_ids}; ids are given for all rows or for none")
        name = f"the block from row {self.n_rows} on"
        n = block.shape[0] if hasattr(block, "shape") else len(block)
        if ids is not None and len(ids) != n:
            raise InputError(f"{name} has {n} rows and {len(ids)} ids; they must agree")
        if n == 0:
            return
        if self.n_rows + n > MOST_ROWS:
            raise InputError(f"{name} would make more than {MOST_ROWS:,} rows, which preferences cannot tell apart")
        rows = check_matrix(block, name)
        if rows.shape[1] != self.n_columns:
            raise InputError(f"{name} has {rows.shape[1]} columns; expected {self.n_columns}")
        for start, stop in self._pieces(rows.indptr):
            self._waiting.append(rows[start:stop])
            self._ids += ids[start:stop] if ids is not None else ()
            self._n_waiting += stop - start
            self._entries_waiting += int(rows.indptr[stop] - rows.indptr[start])
            if self._n_waiting >= self.shard_rows or self._entries_waiting >= self.shard_entries:
                self._write()

    @property
    def n_rows(self) -> int:
        """Rows taken so far."""
        return self._row_starts[-1] + self._n_waiting

    @property
    def n_entries(self) -> int:
        """Their entries."""
        return self._entry_starts[-1] + self._entries_waiting

    def _pieces(self, indptr: NDArray[Any]) -> Iterator[tuple[int, int]]:
        """Where to cut a block so that every shard is cut at the same row, whatever the blocks."""
        start, n = 0, len(indptr) - 1
        while start < n:
            room = self.shard_entries - self._entries_waiting
            full = int(np.searchsorted(indptr, indptr[start] + room, side="left"))
            stop = min(n, max(full, start + 1), start + self.shard_rows - self._n_waiting)
            yield start, stop
            start = stop

    def _write(self) -> None:
        rows = self._waiting[0] if len(self._waiting) == 1 else sparse.vstack(self._waiting, format="csr")
        self._waiting.clear()
        indptr = rows.indptr.astype(np.int64)
        columns, values = rows.indices.astype(np.int32, copy=False), rows.data.astype(np.float32, copy=False)
        lengths = np.diff(indptr)
        for content, part in zip(self._content, (lengths, columns, values), strict=True):
            content.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).view(np.uint8).data)
        self._counts += np.bincount(columns, minlength=self.n_columns)
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        entries = np.empty(2 * columns.size, dtype=np.int32)
        put_rows(indptr, columns, values.view(np.int32), entries)
        arrays: dict[str, NDArray[Any]] = {"starts": indptr, "entries": entries}
        if self.with_ids:
            arrays |= PackedIds.pack(self._ids).arrays()
        number = len(self._digests)
        digest = write_bundle(
            self.path / shard_name(number),
            kind=ROWS_SHARD,
            meta={"number": number, "n_columns": self.n_columns, "with_ids": self.with_ids},
            arrays=arrays,
            by_block=True,
        )
        self._digests.append(bytes.fromhex(digest))
        self._row_starts.append(self._row_starts[-1] + len(lengths))
        self._entry_starts.append(self._entry_starts[-1] + columns.size)
        self._ids, self._n_waiting, self._entries_waiting = [], 0, 0

    def close(self) -> MappedRows:
        """Write what is left, look for repeated ids, and make the rows a whole; returns them, opened."""
        if self.closed:
            raise InputError(f"{self.path} is complete already")
        if self._n_waiting:
            self._write()
        if not self._digests:
            raise InputError(f"no row was written to {self.path}; at least one is needed")
        digest = hashlib.sha256(repr((self._row_starts[-1], self.n_columns)).encode())
        for part in self._content:
            digest.update(part.digest())
        manifest = RowsManifest(
            n_columns=self.n_columns,
            longest=self._longest,
            with_ids=self.with_ids,
            fingerprint=digest.hexdigest(),
            digests=np.frombuffer(b"".join(self._digests), dtype=np.uint8).reshape(-1, 32),
            id_digests=np.empty((0, 32), dtype=np.uint8),
            row_starts=np.array(self._row_starts, dtype=np.int64),
            entry_starts=np.array(self._entry_starts, dtype=np.int64),
            column_counts=self._counts,
        )
        for name in self._leftovers():
            if not name.startswith("shard-") or int(name.removeprefix("shard-")) >= len(self._digests):
                _remove(self.path / name)
        if self.with_ids:
            rows = MappedRows(self.path, manifest)
            id_digests = write_table(self.path, manifest.row_starts, rows.ids_of)
            manifest = replace(manifest, id_digests=id_digests)
        meta, arrays = encode(manifest)
        write_bundle(self.path, kind=ROWS, meta=meta, arrays=arrays, siblings=self._leftovers())
        self.closed = True
        return MappedRows(self.path, manifest)


def remove_unfinished(path: Path) -> None:
    """Remove a folder of rows that belongs to no whole; one with anything else in it is left, and an error."""
    if path.is_dir():
        others = [name for name in os.listdir(path) if not _OUR_NAMES.fullmatch(name)]
        if others:
            raise BundleError(f"{path} has {others[0]!r} in it, which is no part of stored rows; nothing was removed")
        _remove(path)


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise BundleError(f"{path} is what a writer left, and cannot be removed: {error}") from error
