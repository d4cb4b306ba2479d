"""Rows of a sparse matrix that may be larger than memory, in files that are mapped and looked at row by row.

``shards.py`` says which files these are, and writes them.
"""

from __future__ import annotations

import functools
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet.data.stored_ids import StoredIds
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.stored import take_rows
from tercet.store import Verify, check_verify, forget_pages, read_bundle, take_array
from tercet.store.block_sums import MappedBlocks
from tercet.store.codec import decode
from tercet.store.kinds import ROWS, ROWS_SHARD
from tercet.store.schema import Shape
from tercet.store.strings import PackedIds

VECTORS_UNFINISHED: Final = "writing"  # a folder beside vectors that are not complete
BLOCK_ENTRIES: Final = 2**20  # in a block that `blocks` gives
KEPT_BYTES: Final = 2**26  # of the files' pages that may stay in memory between two calls

MOST_MAPPED: Final = 2**15  # shards at once; Linux allows a process 65,530 mappings by default
_PAGES_AT_ONCE: Final = 2**21  # bytes that a look at a mapped file may bring into memory around what is looked at


class StoredRows(ABC):
    """A sparse matrix that is not in memory: some of its rows can be had at a time."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @abstractmethod
    def rows(self, numbers: ArrayLike) -> sparse.csr_array:
        """Some rows, in the order asked for, CSR float32 with sorted columns; a number may come again."""

    @abstractmethod
    def column_counts(self) -> NDArray[np.int64]:
        """In how many rows each column has an entry (n_columns,)."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of the content."""

    def blocks(self) -> Iterator[sparse.csr_array]:
        """All rows in order, some at a time."""
        for start in range(0, len(self), 4096):
            yield self.rows(np.arange(start, min(start + 4096, len(self))))

    def __len__(self) -> int:
        return self.shape[0]


Texts: TypeAlias = "sparse.csr_array | StoredRows"  # Q and D: in memory, or on disk


def take(texts: Texts, numbers: Any) -> sparse.csr_array:
    """Some rows, in the order asked for."""
    return texts.rows(numbers) if isinstance(texts, StoredRows) else texts[numbers]


@dataclass(frozen=True, eq=False)
class RowsManifest:
    """What the manifest of stored rows says; its fields are the format.

    Attributes
    ----------
    longest : most entries of a row
    with_ids : whether rows have ids
    fingerprint : of the content
    digests, id_digests : SHA-256 of the shards, and of the parts of the table of ids
    row_starts, entry_starts : where each shard begins, and how many rows and entries there are
    column_counts : in how many rows each column has an entry
    """

    n_columns: int
    longest: int
    with_ids: bool
    fingerprint: str
    digests: Annotated[NDArray[np.uint8], Shape(None, 32)]
    id_digests: Annotated[NDArray[np.uint8], Shape(None, 32)]
    row_starts: Annotated[NDArray[np.int64], Shape("n_bounds")]
    entry_starts: Annotated[NDArray[np.int64], Shape("n_bounds")]
    column_counts: Annotated[NDArray[np.int64], Shape("n_columns")]

    def __post_init__(self) -> None:
        rises = all(
            starts.size == len(self.digests) + 1 and starts[0] == 0 and (np.diff(starts) >= least).all()
            for starts, least in ((self.row_starts, 1), (self.entry_starts, 0))
        )
        if not len(self.digests) or not rises or not 1 <= self.n_columns < 2**31:
            raise InputError("the list of shards does not fit together")


@dataclass(frozen=True, eq=False)
class Shard:
    """Some rows, mapped; with ``blocks`` what is looked at is checked first."""

    starts: NDArray[np.int64]
    entries: NDArray[np.int32]
    ids: PackedIds | None
    nbytes: int
    blocks: MappedBlocks | None

    def touch(self, first: NDArray[np.int64], behind: NDArray[np.int64]) -> None:
        """Check entries from some on until behind others, in pairs, before they are looked at."""
        if self.blocks is not None:
            self.blocks.touch_ranges("entries", 8 * first, 8 * behind)  # a column and a value each

    def forget(self) -> None:
        forget_pages(self.entries if self.entries.size else self.starts)


class MappedRows(StoredRows):
    """Rows in shards on disk. Open them with ``MappedRows.open``; ``rows`` and ``blocks`` read from the files.

    Memory: what was asked for, some kilobytes for each shard, 8 bytes for each column, and at most ``kept_bytes`` of
    the files' pages, which are given back whenever more may have been looked at. No file stays open.

    Attributes
    ----------
    path : the folder
    ids : the ids of the rows, or None when they have none
    kept_bytes : of the files' pages that may stay in memory, 64 MB; more spares looking at them again
    longest : most entries of a row
    n_entries : of all rows

    Examples
    --------
    >>> import tempfile
    >>> from tercet.data import write_shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = write_shards(f"{folder}/rows", [sparse.eye_array(3, format="csr", dtype=np.float32)], n_columns=3)
    ...     rows.shape, rows.rows([2]).indices.tolist()
    ((3, 3), [2])
    """

    def __init__(self, path: Path, manifest: RowsManifest, verify: Verify = "touch") -> None:
        self.path = path
        self._when = verify
        self.kept_bytes = KEPT_BYTES
        self._n_columns, self.longest = manifest.n_columns, manifest.longest
        self._fingerprint = manifest.fingerprint
        self._row_starts, self._entry_starts = manifest.row_starts, manifest.entry_starts
        self._digests = manifest.digests
        self._counts = manifest.column_counts
        self._counts.flags.writeable = False
        self._shard = functools.lru_cache(MOST_MAPPED)(self._opened)
        self._shard_ids = functools.lru_cache(MOST_MAPPED)(self._opened_ids)
        self._seen: dict[int, tuple[Shard, int]] = {}  # bytes of each that may be in memory
        self._seen_bytes = 0
        self._lock = threading.Lock()
        self.ids: StoredIds | None = None
        if manifest.with_ids:
            self.ids = StoredIds(path, self._row_starts, self.ids_of, manifest.id_digests, verify)

    @classmethod
    def open(cls, path: str | os.PathLike[str], verify: Verify = "touch") -> MappedRows:
        """Open rows that were written.

        Parameters
        ----------
        path : the folder
        verify : "touch" checks each block of the files when it is first looked at, "open" reads everything at once and
            checks also what the rows say, "never" leaves damage unnoticed

        Raises
        ------
        MissingBundleError
            When there are no rows, or only a part of them, left by a writer that was killed.
        DamagedBundleError
            When something in the files is not as it was written.
        """
        check_verify(verify)
        bundle = read_bundle(path, kind=ROWS)
        manifest = decode(RowsManifest, bundle.meta, bundle.arrays, where=str(bundle.path))
        if manifest.with_ids and not len(manifest.id_digests):
            raise DamagedBundleError(f"{bundle.path}: the table of ids has no parts")
        rows = cls(bundle.path, manifest, verify)
        if verify == "open":
            rows._verify()
        return rows

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._row_starts[-1]), self._n_columns

    @property
    def n_entries(self) -> int:
        return int(self._entry_starts[-1])

    @property
    def n_shards(self) -> int:
        return len(self._digests)

    def column_counts(self) -> NDArray[np.int64]:
        return self._counts

    def fingerprint(self) -> str:
        return self._fingerprint

    def __repr__(self) -> str:
        return f"MappedRows({len(self):,} × {self.shape[1]:,}, {self.n_entries:,} entries, {str(self.path)!r})"

    def rows(self, numbers: ArrayLike) -> sparse.csr_array:
        """Some rows, in the order asked for, CSR float32 with sorted columns; a number may come again.

        Time: a copy of the rows, and the disk's for those that are not in the machine's page cache.
        """
        wanted = np.asarray(numbers)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise InputError(f"rows are asked for by a list of row numbers; got {wanted.dtype} of shape {wanted.shape}")
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < len(self)):
            i = int(((wanted < 0) | (wanted >= len(self))).argmax())
            raise InputError(f"row {wanted[i]} was asked for at place {i}; there are {len(self)} rows, from 0")
        order = np.argsort(wanted, kind="stable")  # shard after shard, each from its front to its back
        ordered = wanted[order].astype(np.int64)
        bounds = np.searchsorted(ordered, self._row_starts)
        n_here = np.diff(bounds)
        local = ordered - np.repeat(self._row_starts[:-1], n_here)
        n_entries = np.empty(wanted.size, dtype=np.int64)
        touched = []
        for k in np.flatnonzero(n_here).tolist():
            shard, here = self._shard(k), slice(bounds[k], bounds[k + 1])
            touched.append((k, shard, here))
            self._note_look(k, shard, shard.starts.nbytes, here.stop - here.start)
            rows = local[here]
            first, behind = shard.starts[rows], shard.starts[rows + 1]
            n_entries[here] = behind - first
            shard.touch(first, behind)
        indptr = np.zeros(wanted.size + 1, dtype=np.int64)
        indptr[order + 1] = n_entries
        np.cumsum(indptr, out=indptr)
        indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
        bits = data.view(np.int32)
        for k, shard, here in touched:
            self._note_look(k, shard, shard.nbytes, here.stop - here.start)
            take_rows(shard.starts, shard.entries, local[here], order[here], indptr, indices, bits)
        return self._matrix(indices, data, indptr)

    def blocks(self) -> Iterator[sparse.csr_array]:
        """All rows in order, about a million entries at a time."""
        for k in range(self.n_shards):
            shard = self._shard(k)
            n = len(shard.starts) - 1
            start = 0
            while start < n:
                full = np.searchsorted(shard.starts, shard.starts[start] + BLOCK_ENTRIES)
                stop = min(n, max(int(full), start + 1))
                indptr = shard.starts[start : stop + 1] - shard.starts[start]
                shard.touch(shard.starts[start : start + 1], shard.starts[stop : stop + 1])
                indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
                here = np.arange(start, stop)
                take_rows(shard.starts, shard.entries, here, here - start, indptr, indices, data.view(np.int32))
                yield self._matrix(indices, data, indptr)
                start = stop
            shard.forget()

    def _matrix(
        self, indices: NDArray[np.int32], data: NDArray[np.float32], indptr: NDArray[np.int64]
    ) -> sparse.csr_array:
        # Damage that no one has looked for must not lead a kernel out of its arrays.
        if indices.size and indices.view(np.uint32).max() >= self._n_columns:
            raise DamagedBundleError(f"{self.path}: a row has an entry beyond column {self._n_columns - 1}")
        if indptr[-1] <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        matrix = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, self._n_columns))
        matrix.has_canonical_format = True
        return matrix

    # -- shards -------------------------------------------------------------------------------------------------

    def _opened(self, k: int) -> Shard:
        path = self.path / shard_name(k)
        bundle = read_bundle(path, kind=ROWS_SHARD, mapped=True, verify=self._when)
        where = str(path)
        if bundle.digest != self._digests[k].tobytes().hex():
            raise DamagedBundleError(f"{where} is not the shard that its folder was completed with")
        n = int(self._row_starts[k + 1] - self._row_starts[k])
        n_entries = int(self._entry_starts[k + 1] - self._entry_starts[k])
        starts = take_array(bundle.arrays, "starts", np.int64, (n + 1,), where=where)
        entries = take_array(bundle.arrays, "entries", np.int32, (2 * n_entries,), where=where)
        if bundle.blocks is not None:
            bundle.blocks.touch("starts")
        lengths = np.diff(starts)
        if starts[0] != 0 or starts[-1] != n_entries or (lengths < 0).any():
            raise DamagedBundleError(f"{where}: rows lead out of their arrays")
        if lengths.max(initial=0) > self.longest:
            raise DamagedBundleError(f"{where}: a row has more than {self.longest} entries")
        ids = PackedIds.from_arrays(bundle.arrays, n, where, verify=False) if self.ids is not None else None
        nbytes = sum(array.nbytes for array in bundle.arrays.values())
        return Shard(starts, entries, ids, nbytes, bundle.blocks)

    def _opened_ids(self, k: int) -> PackedIds:
        shard = self._shard(k)
        assert shard.ids is not None
        if self._when != "never":
            if shard.blocks is not None:
                shard.blocks.touch(*shard.ids.arrays())
            shard.ids.check(str(self.path / shard_name(k)))
        return shard.ids

    def ids_of(self, k: int) -> PackedIds:
        """The ids of a shard, checked when they are first asked for."""
        shard = self._shard(k)
        self._note_look(k, shard, shard.nbytes, len(shard.starts))  # as many may be looked at as there are
        return self._shard_ids(k)

    def _note_look(self, k: int, shard: Shard, nbytes: int, n_rows: int) -> None:
        """Count what looking at some rows, in so many bytes of a shard, may bring into memory.

        When it would be too much, what was there before is given back.
        """
        around = nbytes + 2 * _PAGES_AT_ONCE  # what lies beside them may come along
        more = min(shard.nbytes, around, n_rows * _PAGES_AT_ONCE)
        with self._lock:
            if self._seen_bytes + more > self.kept_bytes:
                self._forget()
            _, before = self._seen.get(k, (shard, 0))
            self._seen[k] = shard, min(shard.nbytes, before + more)
            self._seen_bytes += self._seen[k][1] - before

    def forget(self) -> None:
        """Give the memory of the files' pages back; what is looked at later is read again."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        for shard, _ in self._seen.values():
            shard.forget()
        self._seen.clear()
        self._seen_bytes = 0

    def _verify(self) -> None:
        counts = np.zeros(self._n_columns, dtype=np.int64)
        for k in range(self.n_shards):
            shard = self._shard(k)
            if shard.ids is not None:
                self._shard_ids(k)
            shard.forget()
        for block in self.blocks():
            counts += np.bincount(block.indices, minlength=self._n_columns)
            rising = np.ones(block.nnz, dtype=bool)
            rising[1:] = block.indices[1:] > block.indices[:-1]
            rising[block.indptr[:-1][np.diff(block.indptr) > 0]] = True
            if not rising.all() or not np.isfinite(block.data).all():
                raise DamagedBundleError(f"{self.path}: a row's columns do not rise, or a value is not finite")
        if not np.array_equal(counts, self._counts):
            raise DamagedBundleError(f"{self.path}: the number of rows of a column is not what its shards say")
        if self.ids is not None:
            self.ids.verify()


def shard_name(number: int) -> str:
    """The folder of a shard."""
    return f"shard-{number:06d}"
