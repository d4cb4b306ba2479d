"""Encode a dataclass as JSON values and named arrays; decode refuses missing, unknown and mistyped fields.

The fields of the dataclass *are* the format, so that a new value, part or state is its fields and its arithmetic:

- ``int``, ``float``, ``bool``, ``str``, ``None``, ``Literal``, ``X | None``, ``Any`` are the JSON value. A bool is no
  int, an int may stand for a float, floats are finite, ints have 64 bits at most.
- ``tuple[X, ...]``, ``tuple[X, Y]``, ``list[X]`` and NamedTuples are a list; ``dict[str, X]`` and dataclasses are a
  mapping.
- A class with a ``ClassVar`` named ``kind`` stores its kind under ``"kind"``. For a base class as a hint, ``kinds`` has
  the classes by kind: ``decode(…, kinds={Part: PARTS})``.
- ``NDArray[np.float32]`` is the array of the field's name; `Shape` gives its lengths and bounds. ``NDArray[…] | None``
  is absent where the value is None. The arrays of a dataclass in a field have the field's name before theirs:
  ``part.weights``, ``curves.0.points``.
- A CSR matrix is three arrays, as `Csr` names them.
- A class with a ``ClassVar`` named ``shape_lengths``, the names of its lengths, stores its shape under ``"shape"``;
  the shapes of arrays can use these names.
- A class with ``to_state()`` and ``from_state(meta, arrays)`` is stored as these methods say.
- Fields with ``init=False`` are not stored.

Markers of ``schema.py`` add to a type by ``Annotated[type, marker, …]``: `Shape`, `Csr`, `Bounds`, `SameAs`, `Via`,
`WhenAbsent`, `LENGTH`, `OMIT_DEFAULT`. Rules between fields belong in ``__post_init__``: an `InputError` there becomes
the error of the reader, with the key before the message.

Each class is compiled once to a `_Plan`: a list of its fields with a function to read and a function to write. Reading
a value then looks at no type hint. The path of a value is put together only when an error needs the path.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.store.fields import array_problem, csr_problem, described, shortened
from tercet.store.old_names import OLD_FIELDS
from tercet.store.schema import (
    LENGTH,
    OMIT_DEFAULT,
    Bounds,
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

_TEXT = frozenset([str])


class _Source(NamedTuple):
    """Arguments of one `decode`, and the names of the arrays used so far."""

    arrays: Mapping[str, npt.NDArray[Any]]
    kinds: Kinds
    copy: bool
    taken: set[str]


# A value, its source and the prefix of its arrays; a value, the prefix of its arrays and all arrays.
Read = Callable[[Any, _Source, str], Any]
Write = Callable[[Any, str, Arrays], Any]


class _Misfit(Exception):
    """A problem of a value, and the path to the value from the outermost one."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem, self.path = problem, path

    def inside(self, key: str) -> _Misfit:
        self.path = key + self.path
        return self

    def message(self, where: str) -> str:
        path = where + self.path if where else self.path.removeprefix(".")
        return (path or "it") + self.problem


def encode(value: Any) -> tuple[dict[str, Any], Arrays]:
    """JSON values and named arrays of a dataclass; `decode` reads both. Arrays are not copied.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Line:
    ...     slope: float
    ...     points: npt.NDArray[np.float64]
    >>> encode(Line(2.0, np.ones(2)))
    ({'slope': 2.0}, {'points': array([1., 1.])})
    """
    arrays: Arrays = {}
    return _write_class(value, "", arrays), arrays


def decode(
    cls: type[T],
    meta: object,
    arrays: Mapping[str, npt.NDArray[Any]] | None = None,
    *,
    where: str = "",
    error: Callable[[str], Exception] = DamagedBundleError,
    kinds: Kinds | None = None,
    lengths: Mapping[str, int] | None = None,
    copy: bool = False,
) -> T:
    """Build the dataclass that `encode` was called with, and refuse anything that does not fit.

    Parameters
    ----------
    cls : the dataclass, or a base class that ``kinds`` has
    meta : the JSON values, a mapping
    arrays : all of them are to be used up
    where : start of messages, such as ``"model/: meta"``; the key comes after: ``model/: meta.curves[2].name``
    error : makes the exception of a message; for files that people write, an exception with the path
    kinds : for a base class, the classes by their ``kind``
    lengths : lengths of arrays that are known, by name
    copy : arrays are copied, so that the value can be changed

    Raises
    ------
    DamagedBundleError, or what ``error`` makes
        With the key, the value and what was expected.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     name: str
    >>> decode(Point, {"x": 1, "name": "origin"})
    Point(x=1.0, name='origin')
    >>> decode(Point, {"x": 1, "y": 2}, where="points.json", error=InputError)
    Traceback (most recent call last):
    tercet.errors.InputError: points.json.y is unknown; known here: x, name
    """
    source = _Source(arrays or {}, kinds or {}, copy, set())
    try:
        if type(meta) is not dict and not isinstance(meta, Mapping):
            raise _Misfit(f" is {described(meta)}; expected a mapping")
        value = _read_class(cls, meta, source, "", lengths)
        if arrays and len(source.taken) < len(arrays):
            raise _Misfit(f" has unexpected arrays {shortened(sorted(set(arrays) - source.taken))}")
    except _Misfit as misfit:
        raise error(misfit.message(where)) from misfit.__cause__
    return value


# -- classes ----------------------------------------------------------------------------------------------------------


class _Key(NamedTuple):
    """A key of a mapping: its value passes unread where its type is ``exact``."""

    name: str
    dot: str
    exact: type | None
    read: Read
    absent: dict[str, Any] | None  # to be added to the values where the key is absent; None: the key must be present
    expected: str


class _WrittenKey(NamedTuple):
    """A key of a mapping: its value passes unchanged where its type is one of ``as_is``."""

    name: str
    dot: str
    as_is: frozenset[type]
    write: Write
    omitted: Any  # the value that is not stored; MISSING for none


class _Plan(NamedTuple):
    """A dataclass as a format.

    ``keys`` are read and written first, then ``rest``: arrays, because they need lengths, and fields that may be the
    same as another.
    """

    kind: str | None
    classes: Mapping[str, type]
    known: frozenset[str]
    keys: tuple[_Key, ...]
    written: tuple[_WrittenKey, ...]
    rest: tuple[StoredField, ...]
    flags: tuple[str, ...]
    lengths: tuple[str, ...]
    shape_lengths: tuple[str, ...]
    has_rest: bool
    is_its_fields: bool
    has_post_init: bool
    old_names: Mapping[str, str] | None


@functools.cache
def _plan_of(cls: type) -> _Plan:
    stored = stored_fields(cls)
    kind = kind_of(cls)
    shape_lengths = tuple(getattr(cls, "shape_lengths", ()))
    lengths = tuple(field.name for field in stored if LENGTH in field.markers)
    rest = tuple(field for field in stored if field.same is not None or field.is_array or field.csr is not None)
    flags = tuple(field.same.flag for field in rest if field.same is not None)
    plain = [field for field in stored if field not in rest and field.name not in lengths]
    keys = [_key_of(field) for field in plain]
    if shape_lengths:
        keys.insert(0, _named_key("shape", tuple[tuple([int] * len(shape_lengths))]))  # type: ignore[misc]
    keys += [_named_key(flag, bool) for flag in flags]
    known = [key.name for key in keys] + [field.name for field in rest if not field.is_array and field.csr is None]
    return _Plan(
        kind,
        {} if kind is None else {kind: cls},
        frozenset([*known, "kind"] if kind is not None else known),
        tuple(keys),
        tuple(map(_written_key_of, plain)),
        rest,
        flags,
        lengths,
        shape_lengths,
        bool(rest or lengths or shape_lengths),
        _is_its_fields(cls),
        hasattr(cls, "__post_init__"),
        OLD_FIELDS.get(cls.__name__),
    )


def _is_its_fields(cls: Any) -> bool:
    """Tell if a new object is its stored fields and ``__post_init__``.

    The ``__init__`` that dataclasses write for a frozen class takes as long as the checks of all fields, so it is left
    out where it does nothing else.
    """
    code = getattr(cls.__init__, "__code__", None)
    return (
        cls.__dataclass_params__.frozen
        and code is not None
        and code.co_filename == "<string>"  # written by dataclasses
        and code.co_argcount == 1 + len(fields(cls))  # all fields, and no other argument
        and not any(field.has_factory for field in stored_fields(cls))
        and not hasattr(cls, "__slots__")
        and cls.__new__ is object.__new__
    )


def _named_key(name: str, hint: Any) -> _Key:
    return _Key(name, f"{name}.", None, _reader(hint), None, _expected(hint))


def _key_of(field: StoredField) -> _Key:
    absent = None
    if field.has_default and OMIT_DEFAULT in field.markers:
        absent = {} if field.has_factory else {field.name: field.default}
    elif (when_absent := field.marker(WhenAbsent)) is not None:
        absent = {field.name: when_absent.value}
    exact = field.hint if field.hint in (str, bool) and set(field.markers) <= {OMIT_DEFAULT} else None
    read = _reader(field.hint, field.markers)
    return _Key(field.name, f"{field.name}.", exact, read, absent, _expected(field.hint))


def _written_key_of(field: StoredField) -> _WrittenKey:
    when_absent = field.marker(WhenAbsent)
    omitted = MISSING if when_absent is None else when_absent.value
    if OMIT_DEFAULT in field.markers:
        omitted = field.default
    return _WrittenKey(field.name, f"{field.name}.", *_writer(field.hint, field.markers), omitted)


def _read_class(
    cls: type, meta: Mapping[str, Any], source: _Source, prefix: str, lengths: Mapping[str, int] | None = None
) -> Any:
    classes = source.kinds.get(cls) or _plan_of(cls).classes
    if classes:
        kind = meta.get("kind")
        if type(kind) is not str or kind not in classes:
            problem = f" is {described(kind)}" if "kind" in meta else " is missing"
            raise _Misfit(f"{problem}; expected one of {', '.join(map(repr, classes))}", ".kind")
        cls = classes[kind]
    plan = _plan_of(cls)
    if plan.old_names is not None:
        meta = {plan.old_names.get(name, name): value for name, value in meta.items()}
    if not plan.known.issuperset(meta):
        unknown = next(name for name in meta if name not in plan.known)
        known = [key.name for key in plan.keys] + [field.name for field in plan.rest if field.name in plan.known]
        shown = ", ".join(["kind", *known] if classes else known)
        raise _Misfit(f" is unknown; known here: {shown}", f".{unknown}")
    values: dict[str, Any] = {}
    name = ""
    try:
        for name, dot, exact, read, absent, expected in plan.keys:
            if name in meta:
                value = meta[name]
                values[name] = value if type(value) is exact else read(value, source, prefix + dot)
            elif absent is None:
                raise _Misfit(f" is missing; expected {expected}")
            else:
                values |= absent
    except _Misfit as misfit:
        raise misfit.inside(f".{name}") from misfit.__cause__
    if plan.has_rest:
        _read_rest(plan, meta, source, prefix, dict(lengths or {}), values)
    try:
        if plan.is_its_fields:
            value = object.__new__(cls)
            value.__dict__.update(values)
            if plan.has_post_init:
                value.__post_init__()
        else:
            value = cls(**values)
    except InputError as problem:
        raise _Misfit(f" does not fit together: {problem}") from problem
    if plan.shape_lengths and list(value.shape) != meta["shape"]:
        raise _Misfit(f" has shape {meta['shape']} and is of shape {list(value.shape)}")
    return value


def _read_rest(
    plan: _Plan, meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int], values: dict[str, Any]
) -> None:
    """Add the arrays, the fields that may be the same as another, and the lengths to the values."""
    if plan.shape_lengths:
        shape = values.pop("shape")
        for name, length in zip(plan.shape_lengths, shape, strict=True):
            if not 0 <= length < 2**31 or lengths.setdefault(name, length) != length:
                raise _Misfit(f" is {described(list(shape))}; expected {', '.join(plan.shape_lengths)}", ".shape")
    for name, value in values.items():
        if type(value) is int:
            lengths.setdefault(name, value)
    for field in plan.rest:
        name = field.name
        if field.same is not None and values[field.same.flag]:
            values[name] = values[field.same.field]
        elif field.csr is not None:
            values[name] = _read_csr(field, source, prefix, lengths)
        elif field.is_array:
            values[name] = _read_array(field, source, prefix, lengths)
        elif name in meta:
            try:
                values[name] = _reader(field.hint, field.markers)(meta[name], source, f"{prefix}{name}.")
            except _Misfit as misfit:
                raise misfit.inside(f".{name}") from misfit.__cause__
        else:
            raise _Misfit(f" is missing; expected {_expected(field.hint)}", f".{name}")
    for flag in plan.flags:
        del values[flag]
    for name in plan.lengths:
        if name not in lengths:
            raise _Misfit(" is the length of no array", f".{name}")
        values[name] = lengths[name]


def _take(source: _Source, name: str, dtypes: Any, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    problem = array_problem(source.arrays, name, dtypes, shape)
    if problem is not None:
        raise _Misfit(problem)
    source.taken.add(name)
    return source.arrays[name].copy() if source.copy else source.arrays[name]


def _read_array(field: StoredField, source: _Source, prefix: str, lengths: dict[str, int]) -> npt.NDArray[Any] | None:
    name, shape = prefix + field.array_name(), field.shape()
    if name not in source.arrays and field.may_be_none:
        return None
    wanted = tuple(lengths.get(length) if isinstance(length, str) else length for length in shape.lengths)
    array = _take(source, name, field.dtypes(), wanted)
    for length, real in zip(shape.lengths, array.shape, strict=True):
        if isinstance(length, str):
            lengths[length] = real
    bounds = shape.bounds
    if bounds is not None and array.size and not (bounds.hold(array.min()) and bounds.hold(array.max())):
        raise _Misfit(f": array {name!r} has values that are not {bounds}")
    return array


def _read_csr(field: StoredField, source: _Source, prefix: str, lengths: dict[str, int]) -> sparse.csr_array | None:
    csr = field.csr
    assert csr is not None
    data_name, columns_name, ends_name = (prefix + name for name in field.csr_names())
    if ends_name not in source.arrays and field.may_be_none:
        return None
    n_rows, n_columns = (lengths.get(n) if isinstance(n, str) else n for n in (csr.rows, csr.columns))
    indptr = _take(source, ends_name, np.int64, (None if n_rows is None else n_rows + 1,))
    data = _take(source, data_name, np.float32, (None,))
    indices = _take(source, columns_name, np.int32, (data.size,))
    if n_columns is None:
        n_columns = int(indices.max()) + 1 if indices.size else 0
    problem = csr_problem(indptr, indices, n_columns)
    if problem is not None:
        raise _Misfit(f": the matrix of {ends_name!r} {problem}")
    shape = (indptr.size - 1, n_columns)
    for length, real in zip((csr.rows, csr.columns), shape, strict=True):
        if isinstance(length, str):
            lengths[length] = real
    matrix = sparse.csr_array(shape, dtype=np.float32)
    # Passed to SciPy together, integers of two sizes would be copied.
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _write_class(value: Any, prefix: str, arrays: Arrays) -> dict[str, Any]:
    cls: Any = type(value)
    plan = _plan_of(cls)
    meta: dict[str, Any] = {} if plan.kind is None else {"kind": plan.kind}
    if plan.shape_lengths:
        meta["shape"] = list(value.shape)
    for name, dot, as_is, write, omitted in plan.written:
        stored = getattr(value, name)
        if omitted is MISSING or not (stored is omitted or (type(stored) is type(omitted) and bool(stored == omitted))):
            meta[name] = stored if type(stored) in as_is else write(stored, prefix + dot, arrays)
    for field in plan.rest:
        stored = getattr(value, field.name)
        if field.same is not None:
            is_same = stored is getattr(value, field.same.field)
            meta[field.same.flag] = is_same
            if is_same:
                continue
        if field.csr is None and not field.is_array:
            meta[field.name] = _writer(field.hint, field.markers)[1](stored, f"{prefix}{field.name}.", arrays)
        elif stored is not None and field.csr is not None:
            integers = stored.indices.astype(np.int32, copy=False), stored.indptr.astype(np.int64, copy=False)
            for name, array in zip(field.csr_names(), (stored.data, *integers), strict=True):
                arrays[prefix + name] = array
        elif stored is not None:
            arrays[prefix + field.array_name()] = stored
    return meta


# -- values -----------------------------------------------------------------------------------------------------------


def _writer(hint: Any, markers: tuple[Any, ...] = ()) -> tuple[frozenset[type], Write]:
    """Types of values that are stored unchanged, and a function that writes a value of any type."""
    via = next((marker for marker in markers if isinstance(marker, Via)), None)
    if via is not None:
        write_stored = _writer(via.hint)[1]
        return frozenset(), lambda value, prefix, arrays: write_stored(via.write(value), prefix, arrays)
    member = next((member for member in members_of(hint) if member is not type(None)), Any)
    is_float = member is float  # an int may stand for a float, but not on disk
    as_is: frozenset[type] = frozenset((float, type(None)) if is_float else (str, int, float, bool, type(None)))
    hints, is_repeated = _item_hints(member)

    def write(value: Any, prefix: str, arrays: Arrays) -> Any:
        if value is None:
            return None
        if isinstance(value, (tuple, list)):
            if not is_repeated:
                pairs = zip(value, items, strict=True)
                return [write_item(item, f"{prefix}{i}.", arrays) for i, (item, (_, write_item)) in enumerate(pairs)]
            item_as_is, write_item = items[0]
            if item_as_is.issuperset(map(type, value)):
                return list(value)
            return [write_item(item, f"{prefix}{i}.", arrays) for i, item in enumerate(value)]
        if hasattr(value, "to_state"):
            meta, own = value.to_state()
            arrays.update((prefix + name, array) for name, array in own.items())
            return meta
        if is_dataclass(value):
            return _write_class(value, prefix, arrays)
        if isinstance(value, Mapping):
            write_item = items[0][1]
            return {key: write_item(item, f"{prefix}{key}.", arrays) for key, item in value.items()}
        if isinstance(value, np.generic):
            value = value.item()
        return float(value) if is_float else value

    items = [_writer(*unmarked(inner)) for inner in hints] or [(as_is, write)]
    return as_is, write


def _reader(hint: Any, markers: tuple[Any, ...] = ()) -> Read:
    """Compile a type hint and its markers to a function that reads and checks a JSON value."""
    for marker in markers:
        if isinstance(marker, Via):
            return _via_reader(marker)
    expected = _expected(hint)
    read = _union_reader(hint, expected)
    for marker in markers:
        if isinstance(marker, Bounds):
            read = _bounded_reader(read, marker, expected)
    return read


def _via_reader(via: Via) -> Read:
    read_stored = _reader(via.hint)

    def read(value: Any, source: _Source, prefix: str) -> Any:
        stored = read_stored(value, source, prefix)
        try:
            return via.read(stored)
        except InputError as problem:
            raise _Misfit(f" does not fit: {problem}") from problem

    return read


def _bounded_reader(read: Read, bounds: Bounds, expected: str) -> Read:
    def read_bounded(value: Any, source: _Source, prefix: str) -> Any:
        number = read(value, source, prefix)
        if number is not None and not bounds.hold(number):
            raise _Misfit(f" is {described(value)}; expected {expected} {bounds}")
        return number

    return read_bounded


def _union_reader(hint: Any, expected: str) -> Read:
    members = members_of(hint)
    readers = [(member, _member_reader(member, expected)) for member in members if member is not type(None)]
    if len(readers) == len(members) == 1:
        return readers[0][1]
    may_be_none = len(readers) < len(members)

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if value is None and may_be_none:
            return None
        for member, read_member in readers:
            if _is_of(member, value):
                return read_member(value, source, prefix)
        raise _Misfit(f" is {described(value)}; expected {expected}")

    return read


def _member_reader(hint: Any, expected: str) -> Read:
    """Compile a type that is no union."""
    if hint is float:
        return _read_float  # a union has looked at the type before
    if hint is int:
        return _read_int
    if _is_list(hint):
        return _list_reader(hint, expected)
    if get_origin(hint) is dict:
        return _dict_reader(hint, expected)
    if isinstance(hint, type) and hint not in (Any, bool, str, list, dict):
        return _class_reader(hint, expected)

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not _is_of(hint, value):
            raise _Misfit(f" is {described(value)}; expected {expected}")
        return value

    return read


def _read_float(value: Any, source: _Source, prefix: str) -> float:
    if type(value) is not float:
        if type(value) is not int:
            raise _Misfit(f" is {described(value)}; expected a number")
        try:
            value = float(value)
        except OverflowError:
            raise _Misfit(" is a number that no float holds") from None
    if not math.isfinite(value):
        raise _Misfit(f" is {value}; expected a finite number")
    return float(value)


def _read_int(value: Any, source: _Source, prefix: str) -> int:
    if type(value) is not int:
        raise _Misfit(f" is {described(value)}; expected a whole number")
    if not -(2**63) <= value < 2**63:
        raise _Misfit(f" is {described(value)}; expected a whole number of at most 64 bits")
    return value


def _list_reader(hint: Any, expected: str) -> Read:
    hints, is_repeated = _item_hints(hint)
    readers = [_reader(*unmarked(inner)) for inner in hints or [Any]]
    is_of_texts = hints == [str] and is_repeated
    make: Callable[[list[Any]], Any] = list
    if is_named_tuple(hint):
        make = hint._make
    elif get_origin(hint) is tuple:
        make = tuple

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not isinstance(value, list) or not (is_repeated or len(value) == len(readers)):
            raise _Misfit(f" is {described(value)}; expected {expected}")
        if is_of_texts and _TEXT.issuperset(map(type, value)):
            return make(value)  # what most lists are
        items: list[Any] = []
        try:
            for read_item, item in zip(itertools.cycle(readers), value):
                items.append(read_item(item, source, f"{prefix}{len(items)}."))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(items)}]") from misfit.__cause__
        return make(items)

    return read


def _dict_reader(hint: Any, expected: str) -> Read:
    read_item = _reader(*unmarked(get_args(hint)[1]))

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not isinstance(value, Mapping):
            raise _Misfit(f" is {described(value)}; expected {expected}")
        items = {}
        key = ""
        try:
            for key, item in value.items():
                items[key] = read_item(item, source, f"{prefix}{key}.")
        except _Misfit as misfit:
            raise misfit.inside(f".{key}") from misfit.__cause__
        return items

    return read


def _class_reader(cls: Any, expected: str) -> Read:
    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not isinstance(value, Mapping):
            raise _Misfit(f" is {described(value)}; expected {expected}")
        if not hasattr(cls, "from_state"):
            return _read_class(cls, value, source, prefix)
        own = {name.removeprefix(prefix): array for name, array in source.arrays.items() if name.startswith(prefix)}
        source.taken.update(prefix + name for name in own)
        return cls.from_state(value, own)

    return read


# -- type hints -------------------------------------------------------------------------------------------------------


def _item_hints(hint: Any) -> tuple[list[Any], bool]:
    """Types of the items of a list or mapping, and whether the one type is that of every item; empty for any type."""
    if is_named_tuple(hint):
        return list(get_type_hints(hint, include_extras=True).values()), False
    inner = get_args(hint) if get_origin(hint) in (tuple, list, dict) else ()
    if get_origin(hint) is tuple and (len(inner) != 2 or inner[1] is not Ellipsis):
        return list(inner), False
    return list(inner[1:] if get_origin(hint) is dict else inner[:1]), True


def _is_list(hint: Any) -> bool:
    return get_origin(hint) in (tuple, list) or hint is list or is_named_tuple(hint)


def _is_of(hint: Any, value: Any) -> bool:
    """Tell if a JSON value can be of a type, without a look at its items."""
    if hint is Any:
        return True
    if get_origin(hint) is Literal:
        return any(type(value) is type(option) and value == option for option in get_args(hint))
    if hint is float:
        return type(value) in (int, float)
    if _is_list(hint):
        return isinstance(value, list)
    if get_origin(hint) is dict or (isinstance(hint, type) and hint not in (bool, int, str)):
        return isinstance(value, Mapping)
    return type(value) is hint


def _expected(hint: Any) -> str:
    """Describe a type in words."""
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "nothing"}
    phrases = []
    for member in members_of(hint):
        if get_origin(member) is Literal:
            phrases.append("one of " + ", ".join(map(repr, get_args(member))))
        elif member in names:
            phrases.append(names[member])
        elif _is_list(member):
            hints, is_repeated = _item_hints(member)
            phrases.append("a list" if is_repeated else f"a list of {len(hints)}")
        else:
            phrases.append("a value" if member is Any else "a mapping")
    return " or ".join(phrases)


# -- copying ----------------------------------------------------------------------------------------------------------


def copied(value: T) -> T:
    """Copy a value and its arrays; fields that are not stored begin anew.

    Two fields with one array have one array in the copy.
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
