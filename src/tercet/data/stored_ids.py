"""The ids of stored rows, and finding the rows of many ids at once, without an id in memory.

Every shard has its own ids. A table beside the shards has the hash and the row of each, in parts: the hashes of a part
lie in a range of their own, so a look-up asks one part, and then the shard for the id itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.errors import DamagedBundleError, InputError
from tercet.store import Verify, forget_pages, read_bundle, take_array, write_bundle
from tercet.store.kinds import ROWS_IDS
from tercet.store.strings import PackedIds, hash_of

IDS_A_PART: Final = 2**20  # about, in a part of the table
MOST_MAPPED: Final = 2**12  # parts of the table at once


class StoredIds:
    """Ids by row and rows by id: ``ids[row]``, ``ids.find(id)``, ``ids.get_many(ids)``.

    Time of a look-up: a few microseconds, however many rows there are.
    """

    def __init__(
        self,
        path: Path,
        row_starts: NDArray[np.int64],
        ids_of: Callable[[int], PackedIds],
        digests: NDArray[np.uint8],
        verify: Verify = "touch",
    ) -> None:
        self._path = path
        self._when = verify
        self._row_starts = row_starts
        self._ids_of = ids_of
        self._digests = digests
        self._part = functools.lru_cache(MOST_MAPPED)(self._opened)

    def __len__(self) -> int:
        return int(self._row_starts[-1])

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self.many([row])[0]

    def __iter__(self) -> Iterator[str]:
        for k in range(len(self._row_starts) - 1):
            strings = self._ids_of(k).strings
            yield from strings.many(np.arange(len(strings)))

    def many(self, rows: ArrayLike) -> list[str]:
        """The ids of some rows, in their order."""
        wanted = np.asarray(rows, dtype=np.int64)
        ids = np.empty(wanted.size, dtype=object)
        order = np.argsort(wanted, kind="stable")
        bounds = np.searchsorted(wanted[order], self._row_starts)
        for k in np.flatnonzero(np.diff(bounds)).tolist():
            here = order[bounds[k] : bounds[k + 1]]
            ids[here] = self._ids_of(k).strings.many(wanted[here] - self._row_starts[k])
        return ids.tolist()

    def find(self, wanted: str) -> int | None:
        """The row of an id, or None."""
        row = int(self.get_many([wanted])[0])
        return None if row < 0 else row

    def get_many(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The row of each id, -1 for one that has none; many at once are much faster than one by one."""
        different = list(dict.fromkeys(ids))
        hashes = np.fromiter(map(hash_of, different), dtype=np.uint64, count=len(different))
        rows_of = np.full(len(different), -1, dtype=np.int64)
        part_of = part_of_hash(hashes, len(self._digests))
        for part in np.unique(part_of).tolist():
            here = np.flatnonzero(part_of == part)
            table, rows = self._part(part)
            if len(table):
                nearest = np.minimum(np.searchsorted(table, hashes[here]), len(table) - 1)
                hit = table[nearest] == hashes[here]
                rows_of[here[hit]] = self._checked(rows[nearest[hit]], part)
            forget_pages(table)
        self._settle_same(different, hashes, rows_of)
        row_of = dict(zip(different, rows_of.tolist(), strict=True))
        return np.fromiter(map(row_of.__getitem__, ids), dtype=np.int64, count=len(ids))

    def _settle_same(self, ids: list[str], hashes: NDArray[np.uint64], rows_of: NDArray[np.int64]) -> None:
        """Look at the ids themselves: an unknown one may have the hash of a known one, and two may share one."""
        hit = np.flatnonzero(rows_of >= 0)
        for i, name in zip(hit.tolist(), self.many(rows_of[hit]), strict=True):
            if name != ids[i]:
                part = int(part_of_hash(hashes[[i]], len(self._digests))[0])
                table, rows = self._part(part)
                first, last = (int(np.searchsorted(table, hashes[i], side)) for side in ("left", "right"))
                others = self._checked(rows[first:last], part)
                same = [row for row, other in zip(others.tolist(), self.many(others), strict=True) if other == ids[i]]
                rows_of[i] = same[0] if same else -1

    def _checked(self, rows: NDArray[np.int64], part: int) -> NDArray[np.int64]:
        """Rows as a table gives them; damage that no one has looked for must lead nowhere."""
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise DamagedBundleError(f"{self._path / _part_name(part)}: an id belongs to a row that there is not")
        return rows

    def _opened(self, part: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        path = self._path / _part_name(part)
        bundle = read_bundle(path, kind=ROWS_IDS, mapped=True, verify=self._when)
        if bundle.digest != self._digests[part].tobytes().hex():
            raise DamagedBundleError(f"{path} is not the part that its table was completed with")
        hashes = take_array(bundle.arrays, "hashes", np.uint64, 1, where=str(path))
        rows = take_array(bundle.arrays, "rows", np.int64, hashes.shape, where=str(path))
        if self._when != "never":
            # Who looks for one id looks all over the part, so all of it is checked.
            if bundle.blocks is not None:
                bundle.blocks.touch("hashes", "rows")
            self._checked(rows, part)
            if (hashes[1:] < hashes[:-1]).any():
                raise DamagedBundleError(f"{path}: the table of ids is not in order")
            forget_pages(hashes)
        return hashes, rows

    def verify(self) -> None:
        """Read the whole table and check it; a DamagedBundleError says what is wrong."""
        n = sum(len(self._part(part)[0]) for part in range(len(self._digests)))
        if n != len(self):
            raise DamagedBundleError(f"{self._path}: the table has {n} ids for {len(self)} rows")


def write_table(path: Path, row_starts: NDArray[np.int64], ids_of: Callable[[int], PackedIds]) -> NDArray[np.uint8]:
    """Write the table of all ids, part by part; returns the parts' digests. An id that occurs twice is an InputError.

    Memory: that of one part.
    """
    n_shards, n_parts = len(row_starts) - 1, -(-int(row_starts[-1]) // IDS_A_PART)
    edges = np.array([-(-(part << 64) // n_parts) for part in range(1, n_parts)], dtype=np.uint64)
    bounds = np.zeros((n_shards, n_parts + 1), dtype=np.int64)
    for k in range(n_shards):
        hashes = ids_of(k).hashes
        bounds[k] = [0, *np.searchsorted(hashes, edges), len(hashes)]
    sizes = np.diff(bounds).sum(axis=0)
    digests = []
    for part in range(n_parts):
        hashes = np.empty(sizes[part], dtype=np.uint64)
        rows = np.empty(hashes.size, dtype=np.int64)
        done = 0
        for k in range(n_shards):
            ids, here = ids_of(k), slice(*bounds[k, part : part + 2])
            to = slice(done, done + here.stop - here.start)
            hashes[to], rows[to] = ids.hashes[here], ids.rows[here] + row_starts[k]
            done = to.stop
        order = np.lexsort((rows, hashes))
        hashes, rows = hashes[order], rows[order]
        _refuse_repeated(hashes, rows, row_starts, ids_of)
        arrays = {"hashes": hashes, "rows": rows}
        digest = write_bundle(path / _part_name(part), kind=ROWS_IDS, meta={"part": part}, arrays=arrays, by_block=True)
        digests.append(bytes.fromhex(digest))
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 32)


def part_of_hash(hashes: NDArray[np.uint64], n_parts: int) -> NDArray[np.int64]:
    """The part of the table that a hash is in: all hashes are shared out evenly, in their order."""
    if n_parts == 1:
        return np.zeros(len(hashes), dtype=np.int64)
    edges = np.array([-(-(part << 64) // n_parts) for part in range(1, n_parts)], dtype=np.uint64)
    return np.searchsorted(edges, hashes, side="right")


def _refuse_repeated(
    hashes: NDArray[np.uint64],
    rows: NDArray[np.int64],
    row_starts: NDArray[np.int64],
    ids_of: Callable[[int], PackedIds],
) -> None:
    for same in np.unique(hashes[1:][hashes[1:] == hashes[:-1]]):
        seen: dict[str, int] = {}
        for row in rows[hashes == same].tolist():
            k = int(np.searchsorted(row_starts, row, side="right")) - 1
            name = ids_of(k).strings[int(row - row_starts[k])]
            if name in seen:
                raise InputError(
                    f"the id {name!r} belongs to row {seen[name]} and to row {row}; each id may occur once"
                )
            seen[name] = row


def _part_name(part: int) -> str:
    return f"ids-{part:06d}"
