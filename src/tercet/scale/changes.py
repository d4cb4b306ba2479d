"""Changes of the shares of a round, and their sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class RowChanges:
    """Changes of some rows of an array: ascending row numbers and the gain of each row (n, width).

    ``squares`` (n,) is the sum over shares of the squared length of each share's gain.
    """

    rows: NDArray[np.int32]
    values: NDArray[np.float32]
    squares: NDArray[np.float64]

    @classmethod
    def between(
        cls, rows: NDArray[np.int32] | None, before: NDArray[np.float32], after: NDArray[np.float32]
    ) -> RowChanges:
        """Return the rows that changed; ``rows`` are the row numbers of the arrays, None for all."""
        values = (after - before).reshape(len(after), *(after.shape[1:] or (1,)))
        squares = squared_lengths(values)
        changed = np.flatnonzero(squares != 0)  # NaN is a change, so that a diverged share is noticed
        numbers = changed if rows is None else rows[changed]
        return cls(numbers.astype(np.int32), values[changed], squares[changed])

    def __add__(self, other: RowChanges) -> RowChanges:
        rows = np.union1d(self.rows, other.rows)
        values = np.zeros((len(rows), self.values.shape[1]), dtype=self.values.dtype)
        squares = np.zeros(len(rows))
        for change in (self, other):
            positions = np.searchsorted(rows, change.rows)
            values[positions] += change.values
            squares[positions] += change.squares
        return RowChanges(rows, values, squares)

    def mixed(self) -> NDArray[np.float32]:
        """Return the gain of each row to take, by `agreement`."""
        part = agreement(self.squares, squared_lengths(self.values)).astype(np.float32)
        gain: NDArray[np.float32] = self.values * part[:, None]
        return gain

    @property
    def n_bytes(self) -> int:
        return self.rows.nbytes + self.values.nbytes + self.squares.nbytes


@dataclass(frozen=True, eq=False)
class Result:
    """Changes of each array, of one share or of several added up.

    tally : violations and loss
    seconds : time of the slowest share
    moved : bytes of changes sent between workers for addition
    refusal : name and message of an error, the result of a share that failed
    """

    changes: dict[str, RowChanges] = field(default_factory=dict)
    tally: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))
    seconds: float = 0.0
    moved: int = 0
    refusal: tuple[str, str] | None = None

    def __add__(self, other: Result) -> Result:
        if self.refusal or other.refusal:
            return Result(refusal=self.refusal or other.refusal)
        return Result(
            {name: change + other.changes[name] for name, change in self.changes.items()},
            self.tally + other.tally,
            max(self.seconds, other.seconds),
            self.moved + other.moved + other.n_bytes,
        )

    @property
    def n_bytes(self) -> int:
        return self.tally.nbytes + sum(change.n_bytes for change in self.changes.values())


def pairwise(items: Sequence[Item], add: Callable[[Item, Item], Item]) -> Item:
    """Add neighbors, then neighboring sums: always in the same order."""
    level = list(items)
    while len(level) > 1:
        level = [reduce(add, level[first : first + 2]) for first in range(0, len(level), 2)]
    return level[0]


def agreement(apart: NDArray[np.float64], together: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the part of the sum of changes c₁, …, c_N to take: ``Σ|cₖ|² / |Σcₖ|²``, at most 1.

    A plain sum of many shares diverges, since a score multiplies the two factors of a low rank. Changes at right angles
    are independent: the whole sum is taken. N equal changes are the same work: the mean is taken.

    Parameters
    ----------
    apart : sum of the squared lengths of the changes
    together : squared length of the sum
    """
    part = np.divide(apart, together, out=np.ones_like(apart), where=together > 0)
    return np.minimum(part, 1.0)


def squared_lengths(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the squared length of each row."""
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)
