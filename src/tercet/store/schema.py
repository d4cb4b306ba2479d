"""Markers of the fields of stored dataclasses, added to a type by ``Annotated[type, marker, …]``."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Union, get_args, get_origin


class Shape:
    """Lengths of an array's dimensions: a number, a name of one length in the whole dataclass, or None for any.

    Parameters
    ----------
    lengths : one for each dimension; a name may be the name of an int field
    bounds : of the values
    name : name of the array on disk; by default the name of the field
    """

    def __init__(
        self,
        *lengths: int | str | None,
        bounds: Bounds | None = None,
        name: str | None = None,
    ) -> None:
        self.lengths = lengths
        self.bounds = bounds
        self.name = name


@dataclass(frozen=True)
class Csr:
    """A CSR matrix: data float32, columns int32, row pointers int64, with ``names`` for the three arrays.

    The default names are ``field.data``, ``field.indices`` and ``field.indptr``.
    """

    rows: int | str | None
    columns: int | str | None
    names: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class Bounds:
    """A number from ``least`` to ``most``; ``above`` and ``below`` are exclusive bounds."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def hold(self, number: float) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        words = (("at least", self.least), ("at most", self.most), ("above", self.above), ("below", self.below))
        return " and ".join(f"{word} {bound}" for word, bound in words if bound is not None)


@dataclass(frozen=True)
class SameAs:
    """The field may be the very object of another field: stored once, with the flag."""

    field: str
    flag: str = "tied"


@dataclass(frozen=True)
class Via:
    """Stored as ``write(value)``, of the type ``hint``; ``read`` returns the value or raises InputError."""

    hint: Any
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class WhenAbsent:
    """The value of a field absent in a file, instead of the default; not stored."""

    value: Any


LENGTH: Final = "an int that is not stored: it is the length of its name in the shapes of arrays"
OMIT_DEFAULT: Final = "a field that is stored only where it is not the default"

# -- type hints -------------------------------------------------------------------------------------------------------


def unmarked(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        inner, *markers = get_args(hint)
        return inner, tuple(markers)
    return hint, ()


@functools.cache
def members_of(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the single type."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(map(_without_alias, members))


def _without_alias(hint: Any) -> Any:
    """Return the type behind an alias with parameters, such as ``NDArray`` of NumPy 2.5 and later."""
    value = getattr(get_origin(hint), "__value__", None)
    return hint if value is None else value[get_args(hint)]
