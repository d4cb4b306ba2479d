"""Ids to row numbers, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class ManyRows(Protocol):
    """Looks many ids up at once."""

    def get_many(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The row of each id, -1 for one that has none."""
        ...


class OneRow(Protocol):
    """Looks ids up one by one, as a dict does."""

    def get(self, key: str, default: int, /) -> int: ...


RowLookup = ManyRows | OneRow  # what ids can be looked up in


def rows_of_ids(rows: RowLookup, ids: Sequence[str]) -> NDArray[np.int64]:
    """The row of each id, -1 for one that has none; ``rows`` is a dict, or anything with ``get_many`` or ``get``.

    Examples
    --------
    >>> rows_of_ids({"a": 3, "b": 1}, ["b", "a", "x"])
    array([ 1,  3, -1])
    """
    if isinstance(rows, ManyRows):
        return np.asarray(rows.get_many(ids), dtype=np.int64)
    return np.fromiter(map(rows.get, ids, repeat(-1)), dtype=np.int64, count=len(ids))
