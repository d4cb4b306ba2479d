"""Changes of the shares of a round, cut into blocks of rows and added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.mixing import merge_rows
from tercet.kernels.rows import CsrRows

EntryBuffers = tuple[NDArray[Any], NDArray[np.float32]]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class DenseChange:
    """Change of some rows of an array: ascending row numbers and the gain of each row (n, width).

    ``squares`` (n,) is the sum over shares of the squared length of each share's gain.
    """

    rows: NDArray[np.int32]
    values: NDArray[Any]
    squares: NDArray[np.float64]

    @classmethod
    def between(
        cls, rows: NDArray[np.int32] | None, before: NDArray[np.float32], after: NDArray[np.float32]
    ) -> DenseChange:
        """Return the rows that changed; ``rows`` are the row numbers of the arrays, None for all."""
        values = (after - before).reshape(len(after), *(after.shape[1:] or (1,)))
        squares = squares_of(values)
        # NaN counts as a change, so that a share that diverged shows.
        changed = np.flatnonzero(squares != 0)
        numbers = changed if rows is None else rows[changed]
        return cls(numbers.astype(np.int32), values[changed], squares[changed])

    def cut(self, lo: int, hi: int) -> DenseChange:
        a, b = np.searchsorted(self.rows, (lo, hi))
        return DenseChange(self.rows[a:b], self.values[a:b], self.squares[a:b])

    def __add__(self, other: DenseChange) -> DenseChange:
        rows, here, there = _union(self.rows, other.rows)
        values = np.zeros((len(rows), self.values.shape[1]), dtype=self.values.dtype)
        squares = np.zeros(len(rows))
        values[here >= 0], squares[here >= 0] = self.values, self.squares
        values[there >= 0] += other.values
        squares[there >= 0] += other.squares
        return DenseChange(rows, values, squares)

    def agreed(self) -> NDArray[np.float64]:
        """Return the share of each row's sum to take."""
        return agreement(self.squares, squares_of(self.values))

    @property
    def n_bytes(self) -> int:
        return self.rows.nbytes + self.values.nbytes + self.squares.nbytes


@dataclass(frozen=True, eq=False)
class SparseChange:
    """The change of the entries of some rows of a sparse W."""

    rows: NDArray[np.int32]
    entries: CsrRows

    @classmethod
    def between(cls, rows: NDArray[np.int32], before: CsrRows, after: CsrRows, least: float = 0.0) -> SparseChange:
        """Return the changed entries; new entries of at most ``least`` are dropped."""
        every = np.arange(len(rows))
        return cls(rows, merge(after, every, before, every, -1.0, least=least))

    def cut(self, lo: int, hi: int) -> SparseChange:
        a, b = np.searchsorted(self.rows, (lo, hi))
        indptr, columns, values = self.entries
        part = slice(indptr[a], indptr[b])
        return SparseChange(self.rows[a:b], CsrRows(indptr[a : b + 1] - indptr[a], columns[part], values[part]))

    def __add__(self, other: SparseChange) -> SparseChange:
        rows, here, there = _union(self.rows, other.rows)
        return SparseChange(rows, merge(self.entries, here, other.entries, there))

    @property
    def n_bytes(self) -> int:
        return self.rows.nbytes + sum(array.nbytes for array in self.entries)


Change = DenseChange | SparseChange


@dataclass(frozen=True, eq=False)
class Piece:
    """Change of one block of rows of each array, by one share or several added up.

    tally : violations and loss, in the first block only
    seconds : time of the slowest share
    moved : bytes of pieces sent between workers for addition
    refusal : name and message of an error, the result of a share that failed
    """

    changes: dict[str, Any] = field(default_factory=dict)
    tally: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))
    seconds: float = 0.0
    moved: int = 0
    refusal: tuple[str, str] | None = None

    def __add__(self, other: Piece) -> Piece:
        if self.refusal or other.refusal:
            return Piece(refusal=self.refusal or other.refusal)
        return Piece(
            {name: change + other.changes[name] for name, change in self.changes.items()},
            self.tally + other.tally,
            max(self.seconds, other.seconds),
            self.moved + other.moved + other.n_bytes,
        )

    @property
    def n_bytes(self) -> int:
        return self.tally.nbytes + sum(change.n_bytes for change in self.changes.values())


def cut_into_blocks(piece: Piece, heights: dict[str, int], n_blocks: int) -> list[Piece]:
    """Cut a piece into blocks of rows; ``heights`` has the number of rows of each array."""
    if piece.refusal:
        return [piece] * n_blocks
    pieces = []
    for block in range(n_blocks):
        changes = {
            name: change.cut(heights[name] * block // n_blocks, heights[name] * (block + 1) // n_blocks)
            for name, change in piece.changes.items()
        }
        tally = piece.tally if block == 0 else np.zeros(2)
        pieces.append(Piece(changes, tally, piece.seconds))
    return pieces


def add_pieces(one: Sequence[Piece], other: Sequence[Piece]) -> list[Piece]:
    """Add pieces block by block; a module-level function, so that Dask can send it to workers."""
    return [a + b for a, b in zip(one, other, strict=True)]


def pairwise(items: Sequence[Item], add: Any) -> Item:
    """Add neighbours, then neighbouring sums: always in the same order."""
    level = list(items)
    while len(level) > 1:
        level = [reduce(add, level[first : first + 2]) for first in range(0, len(level), 2)]
    return level[0]


def agreement(apart: NDArray[np.float64], together: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of the sum of changes c₁, …, c_N to take: ``Σ|cₖ|² / |Σcₖ|²``, at most 1.

    ``apart`` is the sum of the squared lengths, ``together`` the squared length of the sum. Changes at right angles are
    independent: the whole sum is taken. N equal changes are the same work: the mean is taken.
    """
    share = np.divide(apart, together, out=np.ones_like(apart), where=together > 0)
    return np.minimum(share, 1.0)


def merge(
    one: CsrRows,
    here: NDArray[Any],
    other: CsrRows,
    there: NDArray[Any],
    factor: float = 1.0,
    *,
    shrink: float = 0.0,
    least: float = 0.0,
    keep: bool = False,
    buffers: EntryBuffers | None = None,
) -> CsrRows:
    """Return ``one + factor * other``, soft-thresholded; ``here`` and ``there`` map output rows to rows of each input.

    Zeros are dropped unless ``keep``; entries of ``one`` alone are dropped up to ``least``. The result is written into
    ``buffers`` if given.
    """
    columns, values = buffers or allocate_entries(len(one.indices) + len(other.indices), one.indices.dtype)
    out = CsrRows(np.empty(len(here) + 1, dtype=np.int64), columns, values)
    positions = here.astype(np.int64), there.astype(np.int64)
    n = merge_rows(
        aligned(one),
        positions[0],
        aligned(other),
        positions[1],
        np.float32(factor),
        np.float32(shrink),
        np.float32(-1 if keep else least),
        keep,
        out,
    )
    return CsrRows(out.indptr, columns[:n], values[:n])


def allocate_entries(n: int, kind: Any) -> EntryBuffers:
    """Allocate columns of a type and values; pages that are never written take no memory."""
    return np.empty(n, dtype=kind), np.empty(n, dtype=np.float32)


def kind_of_columns(n_columns: int) -> Any:
    """Return the smallest integer type for column numbers."""
    return np.uint16 if n_columns <= 1 << 16 else np.int32


def aligned(rows: CsrRows) -> CsrRows:
    """Return rows in the memory layout of the compiled kernels."""
    return CsrRows(*map(as_compiled, rows))


def as_compiled(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in the layout of the compiled kernels; a received array may be read-only or unaligned."""
    return np.require(array, requirements=["C", "A", "W"])


def squares_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the squared length of each row."""
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)


def _union(
    one: NDArray[np.int32], other: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return the union of two sorted index arrays, and each row's position in both inputs (-1 if absent)."""
    rows = np.union1d(one, other)
    positions = []
    for some in (one, other):
        positions_of = np.full(len(rows), -1, dtype=np.int64)
        positions_of[np.searchsorted(rows, some)] = np.arange(len(some))
        positions.append(positions_of)
    return rows, positions[0], positions[1]
