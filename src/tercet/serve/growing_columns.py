"""Columns that grow at their end, and names by number: millions of rows without an object for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError
from tercet.store.fields import take_array

R = TypeVar("R", bound=tuple[Any, ...])
Arrays = Mapping[str, NDArray[Any]]

_LEAST_ROOM = 64
_ROWS_AT_ONCE = 65_536


def pieces(n: int) -> Iterator[slice]:
    """So many rows, some at a time: what is worked out of them then stays in the processor's cache.

    Examples
    --------
    >>> list(pieces(100_000))
    [slice(0, 65536, None), slice(65536, 100000, None)]
    """
    for start in range(0, n, _ROWS_AT_ONCE):
        yield slice(start, min(n, start + _ROWS_AT_ONCE))


def rises(numbers: NDArray[Any], least: int) -> bool:
    """Whether each number is above the one before it by so much at least."""
    return all((np.diff(numbers[max(0, rows.start - 1) : rows.stop]) >= least).all() for rows in pieces(numbers.size))


def is_within(numbers: NDArray[Any], least: int, stop: int) -> bool:
    """Whether all numbers are at least one and below another."""
    return not numbers.size or (int(numbers.min()) >= least and int(numbers.max()) < stop)


class GrowingColumns(Generic[R]):
    """Rows of a NamedTuple of arrays, as kernels take it, with room for more.

    Parameters
    ----------
    kind : the NamedTuple
    types : of its arrays, by field

    Examples
    --------
    >>> from tercet.kernels.votes import Spans
    >>> spans = GrowingColumns(Spans, start=np.int64, n=np.int32)
    >>> spans.append(0, 7), spans.append(7, 5), spans.column("n").tolist()
    (0, 1, [7, 5])
    """

    def __init__(self, kind: type[R], **types: Any) -> None:
        self._kind, self._types, self._n = kind, types, 0
        self.all: R = kind(*(np.zeros(_LEAST_ROOM, types[name]) for name in _fields(kind)))

    def __len__(self) -> int:
        return self._n

    def column(self, name: str) -> NDArray[Any]:
        """A column as it is now; it may be written to until rows are added."""
        array: NDArray[Any] = getattr(self.all, name)
        return array[: self._n]

    def append(self, *values: Any) -> int:
        """Add a row; returns its number."""
        self._make_room(1)
        for array, value in zip(self.all, values, strict=True):
            array[self._n] = value
        self._n += 1
        return self._n - 1

    def extend(self, *columns: NDArray[Any]) -> int:
        """Add rows; returns the number of the first."""
        first, n = self._n, len(columns[0])
        self._make_room(n)
        for array, values in zip(self.all, columns, strict=True):
            array[first : first + n] = values
        self._n += n
        return first

    def _make_room(self, n: int) -> None:
        if self._n + n > len(self.all[0]):
            room = max(_LEAST_ROOM, 2 * (self._n + n))
            wider = []
            for array in self.all:
                wide = np.zeros(room, array.dtype)
                wide[: self._n] = array[: self._n]
                wider.append(wide)
            self.all = self._kind(*wider)

    def copy(self) -> GrowingColumns[R]:
        other: GrowingColumns[R] = GrowingColumns(self._kind, **self._types)
        other.extend(*(array[: self._n] for array in self.all))
        return other

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        return {f"{name}.{field}": self.column(field) for field in _fields(self._kind)}

    def restore(self, arrays: Arrays, name: str) -> None:
        """Be what `arrays` gave; columns of other types or lengths are a `DamagedBundleError`."""
        first = _fields(self._kind)[0]
        n = len(take_array(arrays, f"{name}.{first}", self._types[first], 1, where="snapshot"))
        columns = (
            take_array(arrays, f"{name}.{field}", self._types[field], (n,), where="snapshot")
            for field in _fields(self._kind)
        )
        # Copied, since what is read cannot be written to; with room, lest the first row that is added copies it again.
        fresh: GrowingColumns[R] = GrowingColumns(self._kind, **self._types)
        fresh.extend(*columns)
        self.all, self._n = fresh.all, n


def _fields(kind: Any) -> tuple[str, ...]:
    fields: tuple[str, ...] = kind._fields
    return fields


class Numbered:
    """Different texts, numbered from 0 in the order in which they came.

    Texts are bytes, since a text that came by HTTP may hold what UTF-8 has no form for.

    Examples
    --------
    >>> docs = Numbered()
    >>> docs.number(b"a"), docs.number(b"b"), docs.number(b"a"), docs[1], docs.find(b"c")
    (0, 1, 0, b'b', None)
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._texts: list[bytes] = []

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> bytes:
        return self._texts[number]

    def find(self, text: bytes) -> int | None:
        return self._numbers.get(text)

    def number(self, text: bytes) -> int:
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return number

    def copy(self) -> Numbered:
        other = Numbered()
        other._numbers, other._texts = dict(self._numbers), list(self._texts)
        return other

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        stops = np.cumsum([len(text) for text in self._texts], dtype=np.int64)
        return {f"{name}.letters": np.frombuffer(b"".join(self._texts), np.uint8), f"{name}.stops": stops}

    def restore(self, arrays: Arrays, name: str) -> None:
        letters = take_array(arrays, f"{name}.letters", np.uint8, 1, where="snapshot").tobytes()
        stops = take_array(arrays, f"{name}.stops", np.int64, 1, where="snapshot").tolist()
        starts = [0, *stops]
        if starts != sorted(starts) or starts[-1] != len(letters):
            raise DamagedBundleError(f"snapshot: {name} do not end at offsets that rise to {len(letters)}")
        self._texts = [letters[a:b] for a, b in zip(starts, stops, strict=False)]
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        if len(self._numbers) != len(self._texts):
            raise DamagedBundleError(f"snapshot: two of {name} are the same")
