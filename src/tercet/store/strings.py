"""Many strings as two arrays, and a search of ids without a dictionary."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError
from tercet.store.fields import take_array

_BLOCK_BYTES = 2**20
_STRINGS_AT_ONCE = 2**14  # strings per block of an iteration


@dataclass(frozen=True, eq=False)
class PackedStrings(Sequence[str]):
    """Strings in UTF-8 in a row: ``letters`` uint8, ``starts`` int64 (n + 1).

    Examples
    --------
    >>> strings = PackedStrings.pack(["tea", "café"])
    >>> strings[1], list(strings), strings.letters.size
    ('café', ['tea', 'café'], 8)
    """

    letters: NDArray[np.uint8]
    starts: NDArray[np.int64]

    @classmethod
    def pack(cls, strings: Sequence[str]) -> PackedStrings:
        if isinstance(strings, PackedStrings):
            return strings
        encoded = [string.encode("utf-8") for string in strings]
        starts = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(string) for string in encoded], out=starts[1:])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return self.many(np.arange(len(self))[row])
        if row < 0:
            row += len(self)
        try:
            return self.letters[self.starts[row] : self.starts[row + 1]].tobytes().decode("utf-8")
        except UnicodeDecodeError as error:  # where nobody has checked them
            raise DamagedBundleError(f"stored string {row} is not UTF-8: {error}") from error

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _STRINGS_AT_ONCE):
            yield from self[first : first + _STRINGS_AT_ONCE]

    def many(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        """Return several strings at once, faster than single strings."""
        starts, stops = self.starts[rows].tolist(), self.starts[rows + 1].tolist()
        letters = self.letters.data
        try:
            return [str(letters[a:b], "utf-8") for a, b in zip(starts, stops, strict=True)]
        except UnicodeDecodeError as error:
            raise DamagedBundleError(f"stored strings are not UTF-8: {error}") from error

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        return {f"{name}_letters": self.letters, f"{name}_starts": self.starts}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], name: str, n: int, where: str, verify: bool) -> PackedStrings:
        letters = take_array(arrays, f"{name}_letters", np.uint8, 1, where=where)
        starts = take_array(arrays, f"{name}_starts", np.int64, (n + 1,), where=where)
        packed = cls(letters, starts)
        if verify:
            packed.check(f"{where}: {name}")
        return packed

    def check(self, where: str) -> None:
        """Raise `DamagedBundleError` unless each string by itself can be read."""
        letters, starts = self.letters, self.starts
        if not starts.size or starts[0] != 0 or starts[-1] != len(letters) or (np.diff(starts) < 0).any():
            raise DamagedBundleError(f"{where} must begin at offsets that rise from 0 to {len(letters)}")
        _check_utf8(letters, starts, where)


def _check_utf8(letters: NDArray[np.uint8], starts: NDArray[np.int64], where: str) -> None:
    """Check that each string by itself is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(letters), _BLOCK_BYTES):  # in blocks: all texts together may exceed memory
            decoder.decode(letters[start : start + _BLOCK_BYTES].tobytes())
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DamagedBundleError(f"{where} are not UTF-8: {error}") from error
    firsts = letters[starts[:-1][starts[:-1] < len(letters)]]
    if ((firsts & 0xC0) == 0x80).any():
        raise DamagedBundleError(f"{where} have a string that begins inside a character")


def hash_of(doc_id: str) -> int:
    """Return 64 bits of an id, the same in every process."""
    return int.from_bytes(hashlib.blake2b(doc_id.encode("utf-8"), digest_size=8).digest(), "little")


def _row_type(n: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if n <= 2**16 else np.uint32


@dataclass(frozen=True, eq=False)
class PackedIds(Sequence[str]):
    """Ids by row, and rows by id: ``hashes`` uint64 in ascending order, and the ``row`` of each.

    Rows are uint16 if wide enough, else uint32.

    Examples
    --------
    >>> ids = PackedIds.pack(["a", "b"])
    >>> ids[0], ids.find("b"), "c" in ids
    ('a', 1, False)
    """

    strings: PackedStrings
    hashes: NDArray[np.uint64]
    rows: NDArray[Any]

    @classmethod
    def pack(cls, ids: Sequence[str]) -> PackedIds:
        if isinstance(ids, PackedIds):
            return ids
        hashes = np.fromiter(map(hash_of, ids), dtype=np.uint64, count=len(ids))
        return cls.from_hashes(PackedStrings.pack(ids), hashes)

    @classmethod
    def from_hashes(cls, strings: PackedStrings, hashes: NDArray[np.uint64]) -> PackedIds:
        """Return the ids from the hash of each, in the order of the rows."""
        order = np.argsort(hashes, kind="stable")
        return cls(strings, hashes[order], order.astype(_row_type(len(strings))))

    def __len__(self) -> int:
        return len(self.strings)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        return self.strings[row]

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings)

    def __contains__(self, doc_id: object) -> bool:
        return isinstance(doc_id, str) and self.find(doc_id) is not None

    def find(self, doc_id: str, hashed: int | None = None) -> int | None:
        """The row of an id, or None; whoever looks in many places passes its hash."""
        hashed = hash_of(doc_id) if hashed is None else hashed
        i = int(np.searchsorted(self.hashes, np.uint64(hashed)))
        while i < len(self.hashes) and int(self.hashes[i]) == hashed:
            row = int(self.rows[i])
            if self.strings[row] == doc_id:
                return row
            i += 1
        return None

    def get_many(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each id, -1 for an unknown id."""
        if not len(self):
            return np.full(len(ids), -1, dtype=np.int64)
        hashes = np.fromiter(map(hash_of, ids), dtype=np.uint64, count=len(ids))
        nearest = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
        rows = np.where(self.hashes[nearest] == hashes, self.rows[nearest].astype(np.int64), -1)
        hits = np.flatnonzero(rows >= 0)
        for i, name in zip(hits.tolist(), self.strings.many(rows[hits]), strict=True):
            if name != ids[i]:  # another id has the same hash, and may stand before this one
                row = self.find(ids[i])
                rows[i] = -1 if row is None else row
        return rows

    def shared(self, other: PackedIds) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows, here and there, of the common ids."""
        nearest = np.searchsorted(self.hashes, other.hashes)
        alike = nearest < len(self.hashes)
        alike[alike] = self.hashes[nearest[alike]] == other.hashes[alike]
        own_rows, other_rows = self.rows[nearest[alike]].astype(np.int64), other.rows[alike].astype(np.int64)
        names = other.strings.many(other_rows)
        differs = [string != name for string, name in zip(self.strings.many(own_rows), names, strict=True)]
        for i in np.flatnonzero(differs):  # another id has the same hash, and may stand before this one
            row = self.find(names[i])
            own_rows[i] = -1 if row is None else row
        return own_rows[own_rows >= 0], other_rows[own_rows >= 0]

    def repeated(self) -> str | None:
        """Return a repeated id, or None."""
        for i in np.flatnonzero(self.hashes[1:] == self.hashes[:-1]):
            # Different ids with the same hash are adjacent, rarely more than two.
            same = np.flatnonzero(self.hashes == self.hashes[i])
            ids = [self.strings[int(row)] for row in self.rows[same]]
            if len(set(ids)) < len(ids):
                return next(doc_id for doc_id in ids if ids.count(doc_id) > 1)
        return None

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.strings.arrays("id") | {"id_hashes": self.hashes, "id_rows": self.rows}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n: int, where: str, verify: bool) -> PackedIds:
        strings = PackedStrings.from_arrays(arrays, "id", n, where, verify)
        hashes = take_array(arrays, "id_hashes", np.uint64, (n,), where=where)
        ids = cls(strings, hashes, take_array(arrays, "id_rows", _row_type(n), (n,), where=where))
        if verify:
            ids.check_order(where)
        return ids

    def check(self, where: str) -> None:
        """Raise `DamagedBundleError` unless every id can be read and found."""
        self.strings.check(f"{where}: id")
        self.check_order(where)

    def check_order(self, where: str) -> None:
        """Raise `DamagedBundleError` unless the hashes ascend and each row occurs once."""
        n = len(self.hashes)
        if (self.hashes[1:] < self.hashes[:-1]).any() or not np.array_equal(np.sort(self.rows), np.arange(n)):
            raise DamagedBundleError(f"{where}: the table of ids is not in order")
