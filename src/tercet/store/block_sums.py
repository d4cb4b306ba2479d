"""Checksums by block of a file that is mapped, so that damage is noticed where it is looked at, and not before.

A CRC-32 finds every change within 32 bits in a row, and any other but for one in four billion. It is there for disks
that fail; who forges a file can forge its checksums, and is met by the checks of every field.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError, InputError
from tercet.store.schema import Bounds

# When the bytes of a mapped file are checked: all when it is opened, each block when it is first looked at, or never.
Verify: TypeAlias = Literal["open", "touch", "never"]

BLOCK_BYTES: Final = 2**14
MOST_BLOCKS: Final = 2**17  # of a file; those of a larger one are larger, so that its manifest stays small


def check_verify(verify: object, known: tuple[str, ...] = get_args(Verify)) -> None:
    """Refuse what says no known time of checking.

    Examples
    --------
    >>> check_verify("touch")
    >>> check_verify("later")
    Traceback (most recent call last):
        ...
    tercet.errors.InputError: verify is 'later'; expected "open" or "touch" or "never"
    """
    if not isinstance(verify, str) or verify not in known:
        expected = " or ".join(f'"{word}"' for word in known)
        raise InputError(f"verify is {verify!r}; expected {expected}")


@dataclass(frozen=True)
class BlockSums:
    """What a manifest says of the blocks of an arrays file: their length, and the CRC-32 of each as eight digits."""

    size: Annotated[int, Bounds(2**10, 2**30)]
    crc32: str

    @classmethod
    def from_parts(cls, parts: Sequence[memoryview]) -> BlockSums:
        """Return the checksums of a file from its bytes, part by part."""
        n_bytes, size = sum(map(len, parts)), BLOCK_BYTES
        while n_bytes > size * MOST_BLOCKS:
            size *= 2
        sums, crc32, n_done = [], 0, 0
        for part in parts:
            start = 0
            while start < len(part):
                stop = start + size - n_done % size
                crc32 = zlib.crc32(part[start:stop], crc32)
                n_done += len(part[start:stop])
                start = stop
                if n_done % size == 0 or n_done == n_bytes:
                    sums.append(f"{crc32:08x}")
                    crc32 = 0
        return cls(size, "".join(sums))

    def sums(self, n_bytes: int, where: str) -> NDArray[np.uint32]:
        """The checksums of the blocks of a file of so many bytes."""
        try:
            sums = np.frombuffer(bytes.fromhex(self.crc32), dtype=">u4").astype(np.uint32)
        except ValueError as error:
            raise DamagedBundleError(f"{where}: the checksums of its blocks are not hexadecimal: {error}") from error
        if len(sums) != -(-n_bytes // self.size):
            raise DamagedBundleError(f"{where}: {len(sums)} checksums for {n_bytes} bytes in blocks of {self.size}")
        return sums


class MappedBlocks:
    """The blocks of a mapped file; each is checked once, when something in it is first looked at.

    What the system reads again later, after it has given memory back, is not checked again.

    Parameters
    ----------
    path : the file
    content : its bytes, mapped
    sums : a CRC-32 for each block
    size : bytes of a block, but for the last
    places : where each array begins, and how many bytes it has
    """

    def __init__(
        self,
        path: Path,
        content: NDArray[np.uint8],
        sums: NDArray[np.uint32],
        size: int,
        positions: Mapping[str, tuple[int, int]],
    ) -> None:
        self._path, self._sums, self._size, self._positions = path, sums, size, dict(positions)
        self._content = content
        # Threads may check a block at the same time, which does no harm.
        self._checked = np.zeros(len(sums), dtype=bool)
        self._n_left = len(sums)

    def touch(self, *names: str) -> None:
        """Check all of some arrays."""
        for name in names:
            n_bytes = self._positions[name][1]
            self.touch_ranges(name, np.zeros(1, np.int64), np.full(1, n_bytes))

    def touch_ranges(self, name: str, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        """Check the blocks of some ranges of bytes of an array.

        Raises
        ------
        DamagedBundleError
            When a block has other bytes than were written.
        """
        if not self._n_left:
            return
        offset = self._positions[name][0]
        some = stops > starts
        first = (starts[some] + offset) // self._size
        behind = (stops[some] + (offset - 1)) // self._size + 1
        n = len(self._sums)
        inside = np.cumsum(np.bincount(first, minlength=n + 1) - np.bincount(behind, minlength=n + 1))[:n]
        fresh = np.flatnonzero((inside > 0) & ~self._checked)
        if not fresh.size:
            return
        view, size = self._content.data, self._size
        for block, crc32 in zip(fresh.tolist(), self._sums[fresh].tolist(), strict=True):
            if zlib.crc32(view[block * size : (block + 1) * size]) != crc32:
                raise DamagedBundleError(
                    f"{self._path} has other bytes than were written, between {block * size} and {(block + 1) * size}"
                )
        self._checked[fresh] = True
        self._n_left = int(np.count_nonzero(~self._checked))
