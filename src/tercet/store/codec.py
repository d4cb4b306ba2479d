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

from tercet._lazy import sparse
from tercet.errors import DamagedBundleError, InputError
from tercet.store.fields import array_problem, csr_problem, described, shortened
from tercet.store.old_names import OLD_FIELDS
from tercet.store.schema import (
    LENGTH,
    OMIT_DEFAULT,
    Bounds,
    Csr,
    SameAs,
    Shape,
    Via,
    WhenAbsent,
    members_of,
    unmarked,
)

T = TypeVar("T")
Arrays = dict[str, npt.NDArray[Any]]
Kinds = Mapping[type, Mapping[str, type]]

_TEXT = frozenset([str])
_PLAIN: frozenset[type] = frozenset((str, int, float, bool, type(None)))


class _Source(NamedTuple):
    """Arguments of one `decode`, and the names of the arrays used."""

    arrays: Mapping[str, npt.NDArray[Any]]
    kinds: Kinds
    copy: bool
    taken: set[str]


# A value, its source and the prefix of its arrays; a value, the prefix of its arrays and all arrays.
Read = Callable[[Any, _Source, str], Any]
Write = Callable[[Any, str, Arrays], Any]
# The same of a field that needs lengths: the mapping around it and the lengths known so far come along.
ReadField = Callable[[Mapping[str, Any], _Source, str, dict[str, int]], Any]
WriteField = Callable[[Any, str, Arrays, dict[str, Any]], None]


class _Misfit(Exception):
    """A problem of a value, and the path to the value from the outermost value."""

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
    """Build the dataclass given to `encode`, and refuse everything else.

    Parameters
    ----------
    cls : the dataclass, or a base class in ``kinds``
    meta : the JSON values, a mapping
    arrays : all of them must be used
    where : start of messages, such as ``"model/: meta"``; the key comes after: ``model/: meta.curves[2].name``
    error : makes the exception of a message; for files of people, an exception with the path
    kinds : for a base class, the classes by their ``kind``
    lengths : known lengths of arrays, by name
    copy : copy arrays, to change the value

    Raises
    ------
    DamagedBundleError, or another exception of ``error``
        With the key, the value and the expectation.

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
    """A key of a mapping: read unchanged for the type ``exact``, written unchanged for types in ``as_is``."""

    name: str
    dot: str
    exact: type | None
    read: Read
    absent: dict[str, Any] | None  # to be added to the values where the key is absent; None: the key must be present
    expected: str
    as_is: frozenset[type]
    write: Write
    omitted: Any  # the value that is not stored; MISSING for none


class _Rest(NamedTuple):
    """A field read after all keys: an array with named lengths, or a field with `SameAs`."""

    name: str
    same: SameAs | None
    read: ReadField
    write: WriteField


class _Plan(NamedTuple):
    """A dataclass as a format; ``written`` are the keys with fields."""

    kind: str | None
    classes: Mapping[str, type]
    known: Mapping[str, None]
    keys: tuple[_Key, ...]
    written: tuple[_Key, ...]
    rest: tuple[_Rest, ...]
    lengths: tuple[str, ...]
    shape_lengths: tuple[str, ...]
    old_names: Mapping[str, str]


@functools.cache
def _plan_of(cls: Any) -> _Plan:
    hints = get_type_hints(cls, include_extras=True)
    kind = None if "kind" in (field.name for field in fields(cls)) else getattr(cls, "kind", None)
    shape_lengths = tuple(getattr(cls, "shape_lengths", ()))
    keys: list[_Key] = []
    rest: list[_Rest] = []
    lengths, late = [], []
    for field in fields(cls):
        hint, markers = unmarked(hints[field.name])
        same, csr = _marker(markers, SameAs), _marker(markers, Csr)
        array_types = [member for member in members_of(hint) if get_origin(member) is np.ndarray]
        may_be_none = type(None) in members_of(hint)
        if not field.init:
            continue
        if LENGTH in markers:
            lengths.append(field.name)
        elif csr is not None:
            rest.append(_Rest(field.name, same, *_csr_field(field.name, csr, may_be_none)))
        elif array_types:
            dtypes = tuple(get_args(get_args(member)[1])[0] for member in array_types)
            shape = _marker(markers, Shape) or Shape(None)
            rest.append(_Rest(field.name, same, *_array_field(field.name, shape, dtypes, may_be_none)))
        elif same is not None:
            late.append(field.name)
            rest.append(_Rest(field.name, same, *_late_field(_key_of(field, hint, markers))))
        else:
            keys.append(_key_of(field, hint, markers))
    written = tuple(keys)
    if shape_lengths:
        keys.insert(0, _named_key("shape", tuple[tuple([int] * len(shape_lengths))]))  # type: ignore[misc]
    keys += [_named_key(each.same.flag, bool) for each in rest if each.same is not None]
    return _Plan(
        kind,
        {} if kind is None else {kind: cls},
        dict.fromkeys([*(["kind"] if kind is not None else []), *(key.name for key in keys), *late]),
        tuple(keys),
        written,
        tuple(rest),
        tuple(lengths),
        shape_lengths,
        {old: new for old, new in OLD_FIELDS.items() if new in hints and old not in hints},
    )


def _marker(markers: tuple[Any, ...], kind: type[T]) -> T | None:
    return next((marker for marker in markers if isinstance(marker, kind)), None)


def _named_key(name: str, hint: Any) -> _Key:
    form = _form_of(hint)
    return _Key(name, f"{name}.", None, form.read, None, form.expected, *_writer(hint), MISSING)


def _key_of(field: Any, hint: Any, markers: tuple[Any, ...]) -> _Key:
    form, when_absent = _form_of(hint, markers), _marker(markers, WhenAbsent)
    has_factory = field.default_factory is not MISSING
    absent, omitted = None, MISSING
    if when_absent is not None:
        absent, omitted = {field.name: when_absent.value}, when_absent.value
    elif OMIT_DEFAULT in markers:
        omitted = field.default_factory() if has_factory else field.default
        absent = {} if has_factory else {field.name: omitted}
    exact = hint if hint in (str, bool) and set(markers) <= {OMIT_DEFAULT} else None
    writer = _writer(hint, markers)
    return _Key(field.name, f"{field.name}.", exact, form.read, absent, form.expected, *writer, omitted)


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
    if plan.old_names:
        meta = {plan.old_names.get(name, name): value for name, value in meta.items()}
    if not meta.keys() <= plan.known.keys():
        unknown = next(name for name in meta if name not in plan.known)
        raise _Misfit(f" is unknown; known here: {', '.join(plan.known)}", f".{unknown}")
    values: dict[str, Any] = {}
    name = ""
    try:
        for name, dot, exact, read, absent, expected, _, _, _ in plan.keys:
            if name in meta:
                value = meta[name]
                values[name] = value if type(value) is exact else read(value, source, prefix + dot)
            elif absent is None:
                raise _Misfit(f" is missing; expected {expected}")
            else:
                values |= absent
    except _Misfit as misfit:
        raise misfit.inside(f".{name}") from misfit.__cause__
    if plan.rest or plan.shape_lengths or plan.lengths:
        _read_rest(plan, meta, source, prefix, dict(lengths or {}), values)
    try:
        value = cls(**values)
    except InputError as problem:
        raise _Misfit(f" does not fit together: {problem}") from problem
    if plan.shape_lengths and list(value.shape) != meta["shape"]:
        raise _Misfit(f" has shape {meta['shape']} and is of shape {list(value.shape)}")
    return value


def _read_rest(
    plan: _Plan, meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int], values: dict[str, Any]
) -> None:
    """Add arrays, `SameAs` fields and lengths to the values."""
    if plan.shape_lengths:
        shape = values.pop("shape")
        for name, length in zip(plan.shape_lengths, shape, strict=True):
            if not 0 <= length < 2**31 or lengths.setdefault(name, length) != length:
                raise _Misfit(f" is {described(list(shape))}; expected {', '.join(plan.shape_lengths)}", ".shape")
    for name, value in values.items():
        if type(value) is int:
            lengths.setdefault(name, value)
    for name, same, read, _ in plan.rest:
        if same is not None and values.pop(same.flag):
            values[name] = values[same.field]
        else:
            values[name] = read(meta, source, prefix, lengths)
    for name in plan.lengths:
        if name not in lengths:
            raise _Misfit(" is the length of no array", f".{name}")
        values[name] = lengths[name]


def _late_field(key: _Key) -> tuple[ReadField, WriteField]:
    def read(meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int]) -> Any:
        try:
            if key.name not in meta:
                raise _Misfit(f" is missing; expected {key.expected}")
            return key.read(meta[key.name], source, prefix + key.dot)
        except _Misfit as misfit:
            raise misfit.inside(f".{key.name}") from misfit.__cause__

    def write(value: Any, prefix: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        meta[key.name] = key.write(value, prefix + key.dot, arrays)

    return read, write


def _take(source: _Source, name: str, dtypes: Any, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    problem = array_problem(source.arrays, name, dtypes, shape)
    if problem is not None:
        raise _Misfit(problem)
    source.taken.add(name)
    return source.arrays[name].copy() if source.copy else source.arrays[name]


def _known(lengths: dict[str, int], of: tuple[int | str | None, ...]) -> tuple[int | None, ...]:
    return tuple(lengths.get(length) if isinstance(length, str) else length for length in of)


def _note(lengths: dict[str, int], of: tuple[int | str | None, ...], shape: tuple[int, ...]) -> None:
    lengths.update((length, real) for length, real in zip(of, shape, strict=True) if isinstance(length, str))


def _array_field(name: str, shape: Shape, dtypes: Any, may_be_none: bool) -> tuple[ReadField, WriteField]:
    stored_name, bounds = shape.name or name, shape.bounds

    def read(meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int]) -> Any:
        name = prefix + stored_name
        if name not in source.arrays and may_be_none:
            return None
        array = _take(source, name, dtypes, _known(lengths, shape.lengths))
        _note(lengths, shape.lengths, array.shape)
        if bounds is not None and array.size and not (bounds.hold(array.min()) and bounds.hold(array.max())):
            raise _Misfit(f": array {name!r} has values that are not {bounds}")
        return array

    def write(value: Any, prefix: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        if value is not None:
            arrays[prefix + stored_name] = value

    return read, write


def _csr_field(name: str, csr: Csr, may_be_none: bool) -> tuple[ReadField, WriteField]:
    names = csr.names or (f"{name}.data", f"{name}.indices", f"{name}.indptr")
    of = (csr.rows, csr.columns)

    def read(meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int]) -> Any:
        data_name, columns_name, ends_name = (prefix + name for name in names)
        if ends_name not in source.arrays and may_be_none:
            return None
        n_rows, n_columns = _known(lengths, of)
        indptr = _take(source, ends_name, np.int64, (None if n_rows is None else n_rows + 1,))
        data = _take(source, data_name, np.float32, (None,))
        indices = _take(source, columns_name, np.int32, (data.size,))
        if n_columns is None:
            n_columns = int(indices.max()) + 1 if indices.size else 0
        problem = csr_problem(indptr, indices, n_columns)
        if problem is not None:
            raise _Misfit(f": the matrix of {ends_name!r} {problem}")
        matrix = sparse.csr_array((indptr.size - 1, n_columns), dtype=np.float32)
        # Passed to SciPy together, integers of two sizes would be copied.
        matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
        _note(lengths, of, matrix.shape)
        return matrix

    def write(value: Any, prefix: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        if value is not None:
            integers = value.indices.astype(np.int32, copy=False), value.indptr.astype(np.int64, copy=False)
            arrays.update((prefix + name, array) for name, array in zip(names, (value.data, *integers), strict=True))

    return read, write


def _write_class(value: Any, prefix: str, arrays: Arrays) -> dict[str, Any]:
    cls: Any = type(value)
    plan = _plan_of(cls)
    meta: dict[str, Any] = {} if plan.kind is None else {"kind": plan.kind}
    if plan.shape_lengths:
        meta["shape"] = list(value.shape)
    for name, dot, _, _, _, _, as_is, write, omitted in plan.written:
        stored = getattr(value, name)
        if omitted is MISSING or not (stored is omitted or (type(stored) is type(omitted) and bool(stored == omitted))):
            meta[name] = stored if type(stored) in as_is else write(stored, prefix + dot, arrays)
    for name, same, _, write_field in plan.rest:
        stored = getattr(value, name)
        if same is not None:
            meta[same.flag] = stored is getattr(value, same.field)
            if meta[same.flag]:
                continue
        write_field(stored, prefix, arrays, meta)
    return meta


# -- values -----------------------------------------------------------------------------------------------------------


def _writer(hint: Any, markers: tuple[Any, ...] = ()) -> tuple[frozenset[type], Write]:
    """Return the types of values stored unchanged, and a function that writes a value of any type."""
    via = _marker(markers, Via)
    if via is not None:
        write_stored = _writer(via.hint)[1]
        return frozenset(), lambda value, prefix, arrays: write_stored(via.write(value), prefix, arrays)
    member = next((member for member in members_of(hint) if member is not type(None)), Any)
    is_float = member is float  # an int may stand for a float, but not on disk
    as_is: frozenset[type] = frozenset((float, type(None))) if is_float else _PLAIN
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


class _Form(NamedTuple):
    """A compiled type: its name in messages, a quick test of values, and the function to read."""

    expected: str
    fits: Callable[[Any], bool]
    read: Read


def _form_of(hint: Any, markers: tuple[Any, ...] = ()) -> _Form:
    """Compile a type hint and its markers."""
    via = _marker(markers, Via)
    if via is not None:
        return _via_form(via)
    forms = [_member_form(member) for member in members_of(hint)]
    form = forms[0] if len(forms) == 1 else _union_form(forms)
    bounds = _marker(markers, Bounds)
    return form if bounds is None else form._replace(read=_bounded_reader(form, bounds))


def _via_form(via: Via) -> _Form:
    form = _form_of(via.hint)

    def read(value: Any, source: _Source, prefix: str) -> Any:
        stored = form.read(value, source, prefix)
        try:
            return via.read(stored)
        except InputError as problem:
            raise _Misfit(f" does not fit: {problem}") from problem

    return form._replace(read=read)


def _bounded_reader(form: _Form, bounds: Bounds) -> Read:
    def read(value: Any, source: _Source, prefix: str) -> Any:
        number = form.read(value, source, prefix)
        if number is not None and not bounds.hold(number):
            raise _Misfit(f" is {described(value)}; expected {form.expected} {bounds}")
        return number

    return read


def _union_form(forms: list[_Form]) -> _Form:
    expected = " or ".join(form.expected for form in forms)

    def read(value: Any, source: _Source, prefix: str) -> Any:
        for form in forms:
            if form.fits(value):
                return form.read(value, source, prefix)
        raise _Misfit(f" is {described(value)}; expected {expected}")

    return _Form(expected, lambda value: any(form.fits(value) for form in forms), read)


def _member_form(hint: Any) -> _Form:
    """Compile a type without alternatives."""
    if hint is Any:
        return _Form("a value", lambda value: True, lambda value, source, prefix: value)
    if hint is float:
        return _Form("a number", lambda value: type(value) in (int, float), _read_float)
    if hint is int:
        return _Form("a whole number", lambda value: type(value) is int, _read_int)
    if hint is bool:
        return _form_that_fits("true or false", lambda value: type(value) is bool)
    if hint is str:
        return _form_that_fits("text", lambda value: type(value) is str)
    if hint is type(None):
        return _form_that_fits("nothing", lambda value: value is None)
    if get_origin(hint) is Literal:
        options = [(type(option), option) for option in get_args(hint)]
        expected = "one of " + ", ".join(map(repr, get_args(hint)))
        return _form_that_fits(expected, lambda value: (type(value), value) in options)
    if get_origin(hint) in (tuple, list) or hint is list or _is_named_tuple(hint):
        return _list_form(hint)
    return _dict_form(hint) if get_origin(hint) is dict or hint is dict else _class_form(hint)


def _form_that_fits(expected: str, fits: Callable[[Any], bool]) -> _Form:
    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not fits(value):
            raise _Misfit(f" is {described(value)}; expected {expected}")
        return value

    return _Form(expected, fits, read)


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


def _list_form(hint: Any) -> _Form:
    hints, is_repeated = _item_hints(hint)
    readers = [_form_of(*unmarked(inner)).read for inner in hints or [Any]]
    is_of_texts = hints == [str] and is_repeated
    expected = "a list" if is_repeated else f"a list of {len(hints)}"
    make: Callable[[list[Any]], Any] = list
    if _is_named_tuple(hint):
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

    return _Form(expected, lambda value: isinstance(value, list), read)


def _dict_form(hint: Any) -> _Form:
    read_item = _form_of(*unmarked(*get_args(hint)[1:] or [Any])).read

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not _is_mapping(value):
            raise _Misfit(f" is {described(value)}; expected a mapping")
        items = {}
        key = ""
        try:
            for key, item in value.items():
                items[key] = read_item(item, source, f"{prefix}{key}.")
        except _Misfit as misfit:
            raise misfit.inside(f".{key}") from misfit.__cause__
        return items

    return _Form("a mapping", _is_mapping, read)


def _class_form(cls: Any) -> _Form:
    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not _is_mapping(value):
            raise _Misfit(f" is {described(value)}; expected a mapping")
        if not hasattr(cls, "from_state"):
            return _read_class(cls, value, source, prefix)
        own = {name.removeprefix(prefix): array for name, array in source.arrays.items() if name.startswith(prefix)}
        source.taken.update(prefix + name for name in own)
        return cls.from_state(value, own)

    return _Form("a mapping", _is_mapping, read)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _item_hints(hint: Any) -> tuple[list[Any], bool]:
    """Return the types of the items of a list or mapping, and True for one type of all items; empty for any type."""
    if _is_named_tuple(hint):
        return list(get_type_hints(hint, include_extras=True).values()), False
    inner = get_args(hint) if get_origin(hint) in (tuple, list, dict) else ()
    if get_origin(hint) is tuple and (len(inner) != 2 or inner[1] is not Ellipsis):
        return list(inner), False
    return list(inner[1:] if get_origin(hint) is dict else inner[:1]), True


# -- copying ----------------------------------------------------------------------------------------------------------


def copied(value: T) -> T:
    """Copy a value and its arrays, shared arrays once; unstored fields begin anew."""
    copies: dict[int, Any] = {}
    return _copied(value, copies)


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    if isinstance(value, np.ndarray) or hasattr(value, "indptr"):
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
