"""Many strings as two arrays, and finding one of them without a dictionary."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError
from tercet.store.fields import take_array

_BLOCK_BYTES = 2**20


@dataclass(frozen=True, eq=False)
class PackedStrings:
    """Strings in UTF-8, one behind the other: ``letters`` uint8, ``starts`` int64 (n + 1)."""

    letters: NDArray[np.uint8]
    starts: NDArray[np.int64]

    @classmethod
    def pack(cls, strings: Sequence[str]) -> PackedStrings:
        encoded = [string.encode("utf-8") for string in strings]
        starts = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(string) for string in encoded], out=starts[1:])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> str:
        try:
            return self.letters[self.starts[row] : self.starts[row + 1]].tobytes().decode("utf-8")
        except UnicodeDecodeError as error:  # where nobody has checked them
            raise DamagedBundleError(f"stored string {row} is not UTF-8: {error}") from error

    def many(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        """Several of them at once, which is faster than one by one."""
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
    """Whether each string by itself can be read: the whole can, and none begins inside a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(letters), _BLOCK_BYTES):  # as a whole, texts may be larger than memory
            decoder.decode(letters[start : start + _BLOCK_BYTES].tobytes())
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DamagedBundleError(f"{where} are not UTF-8: {error}") from error
    firsts = letters[starts[:-1][starts[:-1] < len(letters)]]
    if ((firsts & 0xC0) == 0x80).any():
        raise DamagedBundleError(f"{where} have a string that begins inside a character")


def hash_of(doc_id: str) -> int:
    """Sixty-four bits that stand for an id, the same in every process."""
    return int.from_bytes(hashlib.blake2b(doc_id.encode("utf-8"), digest_size=8).digest(), "little")


def _row_type(n: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if n <= 2**16 else np.uint32


@dataclass(frozen=True, eq=False)
class PackedIds:
    """Ids by row, and rows by id: ``hashes`` uint64 in ascending order, and the ``row`` each belongs to.

    Rows are uint16 where that is wide enough, else uint32.
    """

    strings: PackedStrings
    hashes: NDArray[np.uint64]
    rows: NDArray[Any]

    @classmethod
    def pack(cls, ids: Sequence[str]) -> PackedIds:
        hashes = np.array([hash_of(doc_id) for doc_id in ids], dtype=np.uint64)
        order = np.argsort(hashes, kind="stable")
        return cls(PackedStrings.pack(ids), hashes[order], order.astype(_row_type(len(ids))))

    def find(self, doc_id: str, hashed: int) -> int | None:
        """The row of an id, or None."""
        i = int(np.searchsorted(self.hashes, np.uint64(hashed)))
        while i < len(self.hashes) and int(self.hashes[i]) == hashed:
            row = int(self.rows[i])
            if self.strings[row] == doc_id:
                return row
            i += 1
        return None

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.strings.arrays("id") | {"id_hashes": self.hashes, "id_rows": self.rows}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n: int, where: str, verify: bool) -> PackedIds:
        strings = PackedStrings.from_arrays(arrays, "id", n, where, verify)
        hashes = take_array(arrays, "id_hashes", np.uint64, (n,), where=where)
        ids = cls(strings, hashes, take_array(arrays, "id_rows", _row_type(n), (n,), where=where))
        if verify:
            ids._check_order(where)
        return ids

    def check(self, where: str) -> None:
        """Raise `DamagedBundleError` unless every id can be read and found."""
        self.strings.check(f"{where}: id")
        self._check_order(where)

    def _check_order(self, where: str) -> None:
        n = len(self.hashes)
        if (self.hashes[1:] < self.hashes[:-1]).any() or not np.array_equal(np.sort(self.rows), np.arange(n)):
            raise DamagedBundleError(f"{where}: the table of ids is not in order")
