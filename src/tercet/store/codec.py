"""A dataclass to JSON values and named arrays, and back: nothing missing, nothing unknown, nothing of another type.

The fields of the dataclass *are* the format, so that a new value, part or state is its fields and its arithmetic:

- ``int``, ``float``, ``bool``, ``str``, ``None``, ``Literal``, ``X | None``, ``Any`` are the JSON value. A bool is no
  int, an int may stand for a float, floats are finite, ints have 64 bits at most.
- ``tuple[X, ...]``, ``tuple[X, Y]``, ``list[X]`` and NamedTuples are a list; ``dict[str, X]`` and dataclasses are a
  mapping.
- A class with a ``ClassVar`` named ``kind`` says it under ``"kind"``. Where the hint is a base class, ``kinds`` has the
  classes it may be: ``decode(…, kinds={Part: PARTS})``.
- ``NDArray[np.float32]`` is the array of the field's name; `Shape` says how long it is and what else holds of it.
  ``NDArray[…] | None`` is absent where it is None. The arrays of a dataclass in a field have the field's name before
  theirs: ``part.weights``, ``curves.0.points``.
- A CSR matrix is three arrays, as `Csr` names them.
- A class whose ``shape`` follows from its fields has it under ``"shape"`` where a ``ClassVar`` named ``shape_lengths``
  has the names of its lengths; the shapes of arrays can then speak of them.
- A class with ``to_state()`` and ``from_state(meta, arrays)`` is stored as these give it.
- Fields with ``init=False`` are not stored.

What else is to be said of a field is said in its type, by ``Annotated[type, marker, …]``, with the markers of
``schema.py``: `Shape`, `Csr`, `Bounds`, `SameAs`, `Via`, `WhenAbsent`, `LENGTH`, `OMIT_DEFAULT`. What must hold
between fields is checked in ``__post_init__`` by an `InputError`, which becomes the error of the reader with the key
before it.

To adopt it for a saved value: make it a dataclass whose fields are named like the keys and arrays on disk; drop its
functions for saving, loading and copying; call `encode` where it is saved, `decode` where it is loaded and `copied`
where it is copied.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.store.fields import csr_problem, described, shortened, take_array
from tercet.store.old_names import with_new_fields
from tercet.store.schema import (
    LENGTH,
    OMIT_DEFAULT,
    Bounds,
    Csr,
    SameAs,
    StoredField,
    Via,
    WhenAbsent,
    is_named_tuple,
    kind_of,
    members_of,
    stored_fields,
    unmarked,
)

T = TypeVar("T")
Arrays = dict[str, npt.NDArray[Any]]
Kinds = Mapping[type, Mapping[str, type]]

# -- writing ----------------------------------------------------------------------------------------------------------


def encode(value: Any) -> tuple[dict[str, Any], Arrays]:
    """JSON values and named arrays of a dataclass; `decode` gives it back. Arrays are not copied.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Line:
    ...     slope: float
    ...     points: npt.NDArray[np.float64]
    >>> encode(Line(2.0, np.ones(2)))
    ({'slope': 2.0}, {'points': array([1., 1.])})
    """
    arrays: Arrays = {}
    return _write_dataclass(value, "", arrays), arrays


def _write_dataclass(value: Any, prefix: str, arrays: Arrays) -> dict[str, Any]:
    cls: Any = type(value)
    kind = kind_of(cls)
    meta: dict[str, Any] = {} if kind is None else {"kind": kind}
    if hasattr(cls, "shape_lengths"):
        meta["shape"] = list(value.shape)
    for field in stored_fields(cls):
        stored = getattr(value, field.name)
        same = field.marker(SameAs)
        if same is not None:
            is_same = stored is getattr(value, same.field)
            meta[same.flag] = is_same
            if is_same:
                continue
        if LENGTH in field.markers or (OMIT_DEFAULT in field.markers and _equal(stored, field.default)):
            continue
        absent = field.marker(WhenAbsent)
        if absent is not None and _equal(stored, absent.value):
            continue
        if field.is_csr:
            if stored is not None:
                parts = (
                    stored.data,
                    stored.indices.astype(np.int32, copy=False),
                    stored.indptr.astype(np.int64, copy=False),
                )
                arrays |= {prefix + name: array for name, array in zip(field.csr_names(), parts, strict=True)}
        elif field.is_array:
            if stored is not None:
                arrays[prefix + field.array_name()] = stored
        else:
            meta[field.name] = _write(field.hint, field.markers, stored, f"{prefix}{field.name}.", arrays)
    return meta


def _equal(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _write(hint: Any, markers: tuple[Any, ...], value: Any, prefix: str, arrays: Arrays) -> Any:
    for marker in markers:
        if isinstance(marker, Via):
            return _write(marker.hint, (), marker.write(value), prefix, arrays)
    if value is None:
        return None
    if hasattr(value, "to_state"):
        meta, own = value.to_state()
        arrays |= {prefix + name: array for name, array in own.items()}
        return meta
    if is_dataclass(value):
        return _write_dataclass(value, prefix, arrays)
    hint = next((member for member in members_of(hint) if member is not type(None)), Any)
    if isinstance(value, (tuple, list)):
        return [
            _write(*unmarked(inner), item, f"{prefix}{i}.", arrays)
            for i, (inner, item) in enumerate(zip(_item_hints(hint, len(value)), value, strict=True))
        ]
    if isinstance(value, Mapping):
        inner = get_args(hint)[1] if get_args(hint) else Any
        return {key: _write(*unmarked(inner), item, f"{prefix}{key}.", arrays) for key, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return float(value) if hint is float else value  # an int may stand for a float, but not on disk


def _item_hints(hint: Any, n: int) -> list[Any]:
    """The types of a list's items; fewer or more than n where the hint says so."""
    if is_named_tuple(hint):
        return list(get_type_hints(hint, include_extras=True).values())
    inner = get_args(hint)
    if get_origin(hint) is tuple and (len(inner) != 2 or inner[1] is not Ellipsis):
        return list(inner)
    return [inner[0] if inner else Any] * n


# -- reading ----------------------------------------------------------------------------------------------------------


def decode(
    cls: type[T],
    meta: object,
    arrays: Mapping[str, npt.NDArray[Any]] | None = None,
    *,
    where: str = "",
    error: Callable[[str], Exception] = DamagedBundleError,
    kinds: Kinds | None = None,
    lengths: Mapping[str, int] | None = None,
    may_omit_defaults: bool = False,
    copy: bool = False,
) -> T:
    """The dataclass that `encode` gave, refusing anything that does not fit.

    Parameters
    ----------
    cls : the dataclass, or a base class that ``kinds`` has
    meta : what a mapping should be
    arrays : all of them are to be used up
    where : what messages call it, such as ``"model/: meta"``; the key comes after it: ``model/: meta.curves[2].name``
    error : makes the exception of a message; for files that people write, one that knows the path
    kinds : for a base class, the classes by their ``kind``
    lengths : lengths of arrays that are known, by name
    may_omit_defaults : fields with a default may be left out, as in files that people write
    copy : arrays are copied, so that they can be changed

    Raises
    ------
    DamagedBundleError, or what ``error`` makes
        With the key, what is there and what is expected.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     name: str = ""
    >>> decode(Point, {"x": 1, "name": "origin"})
    Point(x=1.0, name='origin')
    >>> decode(Point, {"x": 1, "y": 2}, where="points.json", error=InputError, may_omit_defaults=True)
    Traceback (most recent call last):
    tercet.errors.InputError: points.json.y is unknown; known here: x, name
    """
    reader = _Reader(error, kinds or {}, dict(lengths or {}), may_omit_defaults, copy, dict(arrays or {}))
    value = reader.read_dataclass(cls, meta, where, "")
    unused = sorted(set(reader.arrays) - reader.taken)
    if unused:
        raise error(f"{where or 'it'} has unexpected arrays {shortened(unused)}")
    return value


class _Layout(NamedTuple):
    """Of a dataclass: keys of its mapping but "kind", fields in the order in which they are read, and its lengths."""

    keys: tuple[str, ...]
    fields: tuple[StoredField, ...]
    lengths: tuple[str, ...]


@functools.cache
def _layout_of(cls: type) -> _Layout:
    stored = stored_fields(cls)
    lengths = tuple(field.name for field in stored if LENGTH in field.markers)
    read = [field for field in stored if field.name not in lengths]
    read.sort(key=lambda field: field.is_array or field.is_csr)  # arrays last: they need lengths
    flags = (same.flag for field in stored if (same := field.marker(SameAs)) is not None)
    names = (field.name for field in read if not (field.is_array or field.is_csr))
    return _Layout((*(("shape",) if hasattr(cls, "shape_lengths") else ()), *flags, *names), tuple(read), lengths)


@dataclass(frozen=True)
class _Reader:
    """How `decode` was asked to read, and which arrays it has used."""

    error: Callable[[str], Exception]
    kinds: Kinds
    lengths: dict[str, int]
    may_omit_defaults: bool
    copy: bool
    arrays: Arrays
    taken: set[str] = dataclasses.field(default_factory=set)

    def read_dataclass(self, cls: type, meta: object, where: str, prefix: str) -> Any:
        if not isinstance(meta, Mapping):
            raise self.error(f"{where or 'it'} is {described(meta)}; expected a mapping")
        cls, own_kind = self._class(cls, meta, where)
        meta = with_new_fields(cls, meta)
        layout = _layout_of(cls)
        own_shape = hasattr(cls, "shape_lengths")
        for name in meta:
            if name not in layout.keys and name not in own_kind:
                known = ", ".join([*own_kind, *layout.keys])
                raise self.error(f"{_key(where, name)} is unknown; known here: {known}")
        lengths = {**self.lengths} if not prefix else {}
        if own_shape:
            self._read_shape(cls, meta, where, lengths)
        values: dict[str, Any] = {}
        for field in layout.fields:
            value = self._read_field(field, meta, where, prefix, lengths, values)
            if value is not MISSING:
                values[field.name] = value
        for length in layout.lengths:
            if length not in lengths:
                raise self.error(f"{_key(where, length)} is the length of no array")
            values[length] = lengths[length]
        try:
            value = cls(**values)
        except InputError as problem:
            raise self.error(f"{where or 'it'} does not fit together: {problem}") from problem
        if own_shape and list(value.shape) != meta["shape"]:
            raise self.error(f"{where or 'it'} has shape {meta['shape']} and is of shape {list(value.shape)}")
        return value

    def _read_shape(self, cls: Any, meta: Mapping[Any, Any], where: str, lengths: dict[str, int]) -> None:
        """Note the lengths that the stored shape has."""
        names = cls.shape_lengths
        shape = self._read_key(tuple[tuple([int] * len(names))], (), meta, "shape", where, "")  # type: ignore[misc]
        for name, length in zip(names, shape, strict=True):
            if not 0 <= length < 2**31 or lengths.setdefault(name, length) != length:
                raise self.error(f"{_key(where, 'shape')} is {described(list(shape))}; expected {', '.join(names)}")

    def _class(self, cls: type, meta: Mapping[Any, Any], where: str) -> tuple[type, list[str]]:
        """The class that a mapping is of, and the key that says so."""
        classes = self.kinds.get(cls)
        if classes is None:
            kind = kind_of(cls)
            if kind is None:
                return cls, []
            classes = {kind: cls}
        kind = meta.get("kind")
        if not isinstance(kind, str) or kind not in classes:
            shown = (
                f"{_key(where, 'kind')} is {described(kind)}" if "kind" in meta else f"{_key(where, 'kind')} is missing"
            )
            raise self.error(f"{shown}; expected one of {', '.join(map(repr, classes))}")
        return classes[kind], ["kind"]

    def _read_field(
        self,
        field: StoredField,
        meta: Mapping[Any, Any],
        where: str,
        prefix: str,
        lengths: dict[str, int],
        values: dict[str, Any],
    ) -> Any:
        """The value of a field; MISSING where its default is meant."""
        same = field.marker(SameAs)
        if same is not None and self._read_key(bool, (), meta, same.flag, where, prefix):
            return values[same.field]
        if field.is_csr:
            return self._read_csr(field, where, prefix, lengths)
        if field.is_array:
            return self._read_array(field, where, prefix, lengths)
        if field.name not in meta and field.has_default and (self.may_omit_defaults or OMIT_DEFAULT in field.markers):
            return MISSING
        absent = field.marker(WhenAbsent)
        if absent is not None and field.name not in meta:
            return absent.value
        value = self._read_key(field.hint, field.markers, meta, field.name, where, prefix)
        if type(value) is int:
            lengths.setdefault(field.name, value)
        return value

    def _read_key(
        self, hint: Any, markers: tuple[Any, ...], meta: Mapping[Any, Any], name: str, where: str, prefix: str
    ) -> Any:
        if name not in meta:
            raise self.error(f"{_key(where, name)} is missing; expected {_expected(hint, self.kinds)}")
        return self.read(hint, markers, meta[name], _key(where, name), f"{prefix}{name}.")

    def _take(self, name: str, dtypes: Any, shape: Any, where: str) -> npt.NDArray[Any]:
        self.taken.add(name)
        array = take_array(self.arrays, name, dtypes, shape, where=where or "it")
        return array.copy() if self.copy else array

    def _read_array(
        self, field: StoredField, where: str, prefix: str, lengths: dict[str, int]
    ) -> npt.NDArray[Any] | None:
        name, shape = prefix + field.array_name(), field.shape()
        if name not in self.arrays and field.may_be_none:
            return None
        wanted = tuple(lengths.get(length) if isinstance(length, str) else length for length in shape.lengths)
        array = self._take(name, field.dtypes(), wanted, where)
        for length, real in zip(shape.lengths, array.shape, strict=True):
            if isinstance(length, str):
                lengths[length] = real
        bounds = shape.bounds
        if bounds is not None and array.size and not (bounds.hold(array.min()) and bounds.hold(array.max())):
            raise self.error(f"{where or 'it'}: array {name!r} has values that are not {bounds}")
        return array

    def _read_csr(
        self, field: StoredField, where: str, prefix: str, lengths: dict[str, int]
    ) -> sparse.csr_array | None:
        data_name, columns_name, ends_name = (prefix + name for name in field.csr_names())
        if ends_name not in self.arrays and field.may_be_none:
            return None
        csr = field.marker(Csr)
        assert csr is not None
        n_rows, n_columns = (lengths.get(n) if isinstance(n, str) else n for n in (csr.rows, csr.columns))
        indptr = self._take(ends_name, np.int64, (None if n_rows is None else n_rows + 1,), where)
        data = self._take(data_name, np.float32, 1, where)
        indices = self._take(columns_name, np.int32, (data.size,), where)
        if n_columns is None:
            n_columns = int(indices.max()) + 1 if indices.size else 0
        problem = csr_problem(indptr, indices, n_columns)
        if problem is not None:
            raise self.error(f"{where or 'it'}: the matrix of {ends_name!r} {problem}")
        shape = (indptr.size - 1, n_columns)
        for length, real in zip((csr.rows, csr.columns), shape, strict=True):
            if isinstance(length, str):
                lengths[length] = real
        matrix = sparse.csr_array(shape, dtype=np.float32)
        # Passed to SciPy together, integers of two sizes would be copied.
        matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
        return matrix

    def read(self, hint: Any, markers: tuple[Any, ...], value: Any, where: str, prefix: str) -> Any:
        """A JSON value as what its hint says."""
        if hint is str and type(value) is str and markers in ((), (OMIT_DEFAULT,)):
            return value  # most of what there is
        for marker in markers:
            if isinstance(marker, Via):
                stored = self.read(marker.hint, (), value, where, prefix)
                try:
                    return marker.read(stored)
                except InputError as problem:
                    raise self.error(f"{where} does not fit: {problem}") from problem
        read = self._read_unbounded(hint, value, where, prefix)
        for marker in markers:
            if isinstance(marker, Bounds) and read is not None and not marker.hold(read):
                raise self.error(f"{where} is {described(value)}; expected {_expected(hint, self.kinds)} {marker}")
        return read

    def _read_unbounded(self, hint: Any, value: Any, where: str, prefix: str) -> Any:
        members = members_of(hint)
        if value is None and type(None) in members:
            return None
        members = tuple(member for member in members if member is not type(None))
        if len(members) > 1:
            member = next((member for member in members if _is_of(member, value)), None)
        else:
            member = members[0] if members and _is_of(members[0], value) else None
        if member is None:
            raise self.error(f"{where} is {described(value)}; expected {_expected(hint, self.kinds)}")
        if member is float:
            return self._read_float(value, where)
        if member is int and not -(2**63) <= value < 2**63:
            raise self.error(f"{where} is {described(value)}; expected a whole number of at most 64 bits")
        if hasattr(member, "from_state"):
            own = {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}
            self.taken.update(prefix + name for name in own)
            return member.from_state(value, own)
        if is_dataclass(member) or member in self.kinds:
            return self.read_dataclass(member, value, where, prefix)
        if isinstance(value, list):
            hints = _item_hints(member, len(value))
            if len(hints) != len(value):
                raise self.error(f"{where} is {described(value)}; expected {_expected(hint, self.kinds)}")
            items = [
                self.read(*unmarked(inner), item, f"{where}[{i}]", f"{prefix}{i}.")
                for i, (inner, item) in enumerate(zip(hints, value, strict=True))
            ]
            if is_named_tuple(member):
                return member(*items)
            return tuple(items) if get_origin(member) is tuple else items
        if get_origin(member) is dict:
            inner = get_args(member)[1]
            return {
                key: self.read(*unmarked(inner), item, _key(where, key), f"{prefix}{key}.")
                for key, item in value.items()
            }
        return value

    def _read_float(self, value: float, where: str) -> float:
        try:
            number = float(value)
        except OverflowError:
            raise self.error(f"{where} is a number that no float holds") from None
        if not math.isfinite(number):
            raise self.error(f"{where} is {value}; expected a finite number")
        return number


def _is_of(hint: Any, value: Any) -> bool:
    """Whether a JSON value can be of a type at all; what is inside it is looked at later."""
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in get_args(hint))
    if hint is float:
        return type(value) in (int, float)
    if origin in (tuple, list) or hint is list or is_named_tuple(hint):
        return isinstance(value, list)
    if origin is dict or hint is dict or (isinstance(hint, type) and hint not in (bool, int, str)):
        return isinstance(value, Mapping)
    return type(value) is hint


def _expected(hint: Any, kinds: Kinds) -> str:
    """What a value should have been, in words."""
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "nothing"}
    phrases = []
    for member in members_of(hint):
        if get_origin(member) is Literal:
            phrases.append("one of " + ", ".join(map(repr, get_args(member))))
        elif member in names:
            phrases.append(names[member])
        elif _is_of(member, []) and member is not Any:
            n_items = len(_item_hints(member, -1))
            phrases.append(f"a list of {n_items}" if n_items else "a list")
        else:
            phrases.append("a value" if member is Any else "a mapping")
    return " or ".join(phrases)


def _key(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)


# -- copying ----------------------------------------------------------------------------------------------------------


def copied(value: T) -> T:
    """The same value with arrays of its own; fields that are not stored begin anew.

    What was one array in two fields is one array in the copy.
    """
    copies: dict[int, Any] = {}
    return _copied(value, copies)


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    if isinstance(value, (np.ndarray, sparse.csr_array)):
        if id(value) not in copies:
            copies[id(value)] = value.copy()
        return copies[id(value)]
    if is_dataclass(value) and not isinstance(value, type):
        copied_fields = {
            field.name: _copied(getattr(value, field.name), copies) for field in fields(value) if field.init
        }
        return type(value)(**copied_fields)
    if type(value) is tuple:
        return tuple(_copied(item, copies) for item in value)
    return value
