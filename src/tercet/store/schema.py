"""A dataclass as a format: what may be said of a field beside its type, and which fields are stored."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")


class Shape:
    """Lengths of an array's dimensions: a number, a name that means one length in all the dataclass, or None for any.

    Parameters
    ----------
    lengths : one for each dimension; a name may be that of an int field
    bounds : of its values
    name : what the array is called on disk, if not like the field
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
    """A CSR matrix: data float32, columns int32, row pointers int64; ``names`` are those of the three arrays.

    Without names they are ``field.data``, ``field.indices`` and ``field.indptr``.
    """

    rows: int | str | None
    columns: int | str | None
    names: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class Bounds:
    """A number from ``least`` to ``most``; ``above`` and ``below`` are bounds that it may not be."""

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
    """The field may be the very object of another field: then the flag says so, and it is stored once."""

    field: str
    flag: str = "tied"


@dataclass(frozen=True)
class Via:
    """Stored as ``write(value)``, which is of the type ``hint``; ``read`` gives the value back or raises InputError."""

    hint: Any
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class WhenAbsent:
    """The value of a field in files without the field, where the default is another; that value is not stored."""

    value: Any


LENGTH: Final = "an int that is not stored: it is the length of its name in the shapes of arrays"
OMIT_DEFAULT: Final = "a field that is stored only where it is not the default"

# -- the dataclass as a format ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredField:
    """A field of a stored dataclass: its type without markers, and the markers."""

    name: str
    hint: Any
    markers: tuple[Any, ...]
    has_default: bool
    default: Any
    has_factory: bool

    def marker(self, kind: type[T]) -> T | None:
        return next((marker for marker in self.markers if isinstance(marker, kind)), None)

    @property
    def may_be_none(self) -> bool:
        return type(None) in members_of(self.hint)

    @property
    def is_array(self) -> bool:
        return any(get_origin(member) is np.ndarray for member in members_of(self.hint))

    @property
    def csr(self) -> Csr | None:
        return self.marker(Csr)

    @property
    def same(self) -> SameAs | None:
        return self.marker(SameAs)

    def csr_names(self) -> tuple[str, str, str]:
        """Names of the arrays with the data, the columns and the row pointers."""
        names = None if self.csr is None else self.csr.names
        return names or (f"{self.name}.data", f"{self.name}.indices", f"{self.name}.indptr")

    def shape(self) -> Shape:
        return self.marker(Shape) or Shape(None)

    def array_name(self) -> str:
        return self.shape().name or self.name

    def dtypes(self) -> tuple[Any, ...]:
        return tuple(
            get_args(get_args(member)[1])[0] for member in members_of(self.hint) if get_origin(member) is np.ndarray
        )


@functools.cache
def stored_fields(cls: Any) -> tuple[StoredField, ...]:
    """The fields that a dataclass is stored as."""
    hints = get_type_hints(cls, include_extras=True)
    stored = []
    for field in fields(cls):
        if field.init:
            hint, markers = unmarked(hints[field.name])
            has_factory = field.default_factory is not MISSING
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            stored.append(StoredField(field.name, hint, markers, default is not MISSING, default, has_factory))
    return tuple(stored)


def unmarked(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        inner, *markers = get_args(hint)
        return inner, tuple(markers)
    return hint, ()


@functools.cache
def members_of(hint: Any) -> tuple[Any, ...]:
    """The types that a union has, or the one type."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(map(_without_alias, members))


def _without_alias(hint: Any) -> Any:
    """What an alias with parameters stands for, as which NumPy from 2.5 on has ``NDArray``."""
    value = getattr(get_origin(hint), "__value__", None)
    return hint if value is None else value[get_args(hint)]


@functools.cache
def kind_of(cls: type) -> str | None:
    """The class's own name for itself, unless ``kind`` is a field like any other."""
    kind = getattr(cls, "kind", None)
    is_field = any(field.name == "kind" for field in fields(cls))
    return kind if isinstance(kind, str) and not is_field else None


def is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")
