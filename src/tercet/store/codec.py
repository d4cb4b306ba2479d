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

Each type is compiled once to a `_Form`, each class to a `_Plan` of its fields: reading a value looks at no type hint.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
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


class _Source(NamedTuple):
    """Arguments of one `decode`, and the names of the arrays used."""

    arrays: Mapping[str, npt.NDArray[Any]]
    where: str
    kinds: Kinds
    copy: bool
    taken: set[str]

    def take(self, name: str, dtypes: Any, shape: tuple[int | None, ...], prefix: str) -> npt.NDArray[Any]:
        problem = array_problem(self.arrays, name, dtypes, shape)
        if problem is not None:
            raise self.error(prefix, problem)
        self.taken.add(name)
        return self.arrays[name].copy() if self.copy else self.arrays[name]

    def error(self, prefix: str, problem: str) -> DamagedBundleError:
        """Return the error of the value whose arrays begin with the prefix."""
        path = prefix.removesuffix(".")
        return DamagedBundleError(
            (f"{self.where}.{path}" if self.where and path else self.where or path or "it") + problem
        )

    def misfit(self, prefix: str, value: Any, expected: str) -> DamagedBundleError:
        return self.error(prefix, f" is {described(value)}; expected {expected}")


# Read: value, source, and prefix of the value's arrays, its path. Write: value, prefix, and all arrays.
Read = Callable[[Any, _Source, str], Any]
Write = Callable[[Any, str, Arrays], Any]


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
    where : start of messages, such as ``"model/: meta"``; the key comes after: ``model/: meta.curves.2.name``
    kinds : for a base class, the classes by their ``kind``
    lengths : known lengths of arrays, by name
    copy : copy arrays, to change the value

    Raises
    ------
    DamagedBundleError
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
    >>> decode(Point, {"x": 1, "y": 2}, where="point")
    Traceback (most recent call last):
    tercet.errors.DamagedBundleError: point.y is unknown; known here: x, name
    """
    source = _Source(arrays or {}, where, kinds or {}, copy, set())
    if type(meta) is not dict and not isinstance(meta, Mapping):
        raise source.misfit("", meta, "a mapping")
    value = _read_class(cls, meta, source, "", lengths)
    if arrays and len(source.taken) < len(arrays):
        raise source.error("", f" has unexpected arrays {shortened(sorted(set(arrays) - source.taken))}")
    return value


# -- classes ----------------------------------------------------------------------------------------------------------


class _Key(NamedTuple):
    """A key of a mapping: read unchanged for the type ``exact``, written unchanged for types in ``as_is``."""

    name: str
    dot: str
    exact: type | None
    read: Read
    absent: dict[str, Any] | None  # values to add if the key is absent; None for a required key
    expected: str
    as_is: frozenset[type]
    write: Write
    omitted: Any  # value left out of files; MISSING if every value is stored

    def missing(self, source: _Source, prefix: str) -> DamagedBundleError:
        return source.error(prefix + self.dot, f" is missing; expected {self.expected}")


class _Later(NamedTuple):
    """A field read after all keys: arrays with named lengths, or a value that may be the `SameAs` another."""

    name: str
    same: SameAs | None
    read: Callable[[Mapping[str, Any], _Source, str, dict[str, int]], Any]
    write: Callable[[Any, str, Arrays, dict[str, Any]], None]


class _Plan(NamedTuple):
    """A dataclass as a format; ``written`` are the keys with fields."""

    kind: str | None
    classes: Mapping[str, type]
    known: Mapping[str, None]
    keys: tuple[_Key, ...]
    written: tuple[_Key, ...]
    later: tuple[_Later, ...]
    lengths: tuple[str, ...]
    shape_lengths: tuple[str, ...]
    old_names: Mapping[str, str]


@functools.cache
def _plan_of(cls: Any) -> _Plan:
    hints = get_type_hints(cls, include_extras=True)
    stored = [field for field in fields(cls) if field.init]
    kind = None if any(field.name == "kind" for field in stored) else getattr(cls, "kind", None)
    shape_lengths = tuple(getattr(cls, "shape_lengths", ()))
    keys: list[_Key] = []
    later: list[_Later] = []
    lengths, late_keys = [], []
    for field in stored:
        hint, markers = unmarked(hints[field.name])
        same, csr = _marker(markers, SameAs), _marker(markers, Csr)
        array_types = [member for member in members_of(hint) if get_origin(member) is np.ndarray]
        may_be_none = type(None) in members_of(hint)
        if LENGTH in markers:
            lengths.append(field.name)
        elif csr is not None:
            later.append(_csr_field(field.name, same, csr, may_be_none))
        elif array_types:
            dtypes = tuple(get_args(get_args(member)[1])[0] for member in array_types)
            later.append(_array_field(field.name, same, _marker(markers, Shape) or Shape(None), dtypes, may_be_none))
        elif same is not None:
            late_keys.append(field.name)
            later.append(_late_field(_key_of(field, hint, markers), same))
        else:
            keys.append(_key_of(field, hint, markers))
    written = tuple(keys)
    if shape_lengths:
        keys.insert(0, _named_key("shape", _form_of(tuple[tuple([int] * len(shape_lengths))])))  # type: ignore[misc]
    keys += [_named_key(each.same.flag, _form_of(bool)) for each in later if each.same is not None]
    return _Plan(
        kind,
        {} if kind is None else {kind: cls},
        dict.fromkeys([*(["kind"] if kind is not None else []), *(key.name for key in keys), *late_keys]),
        tuple(keys),
        written,
        tuple(later),
        tuple(lengths),
        shape_lengths,
        {old: new for old, new in OLD_FIELDS.items() if new in hints and old not in hints},
    )


def _marker(markers: tuple[Any, ...], kind: type[T]) -> T | None:
    return next((marker for marker in markers if isinstance(marker, kind)), None)


def _key_of(field: Any, hint: Any, markers: tuple[Any, ...]) -> _Key:
    when_absent = _marker(markers, WhenAbsent)
    has_factory = field.default_factory is not MISSING
    absent, omitted = None, MISSING
    if when_absent is not None:
        absent, omitted = {field.name: when_absent.value}, when_absent.value
    elif OMIT_DEFAULT in markers:
        omitted = field.default_factory() if has_factory else field.default
        absent = {} if has_factory else {field.name: omitted}
    exact = hint if hint in (str, bool) and set(markers) <= {OMIT_DEFAULT} else None
    return _named_key(field.name, _form_of(hint, markers), exact, absent, omitted)


def _named_key(
    name: str,
    form: _Form,
    exact: type | None = None,
    absent: dict[str, Any] | None = None,
    omitted: Any = MISSING,
) -> _Key:
    return _Key(name, f"{name}.", exact, form.read, absent, form.expected, form.as_is, form.write, omitted)


def _read_class(
    cls: type, meta: Mapping[str, Any], source: _Source, prefix: str, lengths: Mapping[str, int] | None = None
) -> Any:
    classes = source.kinds.get(cls) or _plan_of(cls).classes
    if classes:
        kind = meta.get("kind")
        if type(kind) is not str or kind not in classes:
            problem = f" is {described(kind)}" if "kind" in meta else " is missing"
            raise source.error(f"{prefix}kind.", f"{problem}; expected one of {', '.join(map(repr, classes))}")
        cls = classes[kind]
    plan = _plan_of(cls)
    if plan.old_names:
        meta = {plan.old_names.get(name, name): value for name, value in meta.items()}
    if not meta.keys() <= plan.known.keys():
        unknown = next(name for name in meta if name not in plan.known)
        raise source.error(f"{prefix}{unknown}.", f" is unknown; known here: {', '.join(plan.known)}")
    values: dict[str, Any] = {}
    for key in plan.keys:
        name, dot, exact, read, absent = key[:5]
        if name in meta:
            value = meta[name]
            values[name] = value if type(value) is exact else read(value, source, prefix + dot)
        elif absent is None:
            raise key.missing(source, prefix)
        else:
            values |= absent
    if plan.later or plan.shape_lengths or plan.lengths:
        _read_later(plan, meta, source, prefix, dict(lengths or {}), values)
    try:
        value = cls(**values)
    except InputError as problem:
        raise source.error(prefix, f" does not fit together: {problem}") from problem
    if plan.shape_lengths and list(value.shape) != meta["shape"]:
        raise source.error(prefix, f" has shape {meta['shape']} and is of shape {list(value.shape)}")
    return value


def _read_later(
    plan: _Plan, meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int], values: dict[str, Any]
) -> None:
    """Add arrays, `SameAs` fields and lengths to the values."""
    if plan.shape_lengths:
        shape = values.pop("shape")
        for name, length in zip(plan.shape_lengths, shape, strict=True):
            if not 0 <= length < 2**31 or lengths.setdefault(name, length) != length:
                raise source.misfit(f"{prefix}shape.", list(shape), ", ".join(plan.shape_lengths))
    for name, value in values.items():
        if type(value) is int:
            lengths.setdefault(name, value)
    for name, same, read, _ in plan.later:
        if same is not None and values.pop(same.flag):
            values[name] = values[same.field]
        else:
            values[name] = read(meta, source, prefix, lengths)
    for name in plan.lengths:
        if name not in lengths:
            raise source.error(f"{prefix}{name}.", " is the length of no array")
        values[name] = lengths[name]


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
    for name, same, _, write_field in plan.later:
        stored = getattr(value, name)
        if same is not None:
            meta[same.flag] = stored is getattr(value, same.field)
            if meta[same.flag]:
                continue
        write_field(stored, prefix, arrays, meta)
    return meta


# -- fields read after all keys ---------------------------------------------------------------------------------------


def _late_field(key: _Key, same: SameAs) -> _Later:
    def read(meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int]) -> Any:
        if key.name not in meta:
            raise key.missing(source, prefix)
        return key.read(meta[key.name], source, prefix + key.dot)

    def write(value: Any, prefix: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        meta[key.name] = key.write(value, prefix + key.dot, arrays)

    return _Later(key.name, same, read, write)


def _array_field(name: str, same: SameAs | None, shape: Shape, dtypes: Any, may_be_none: bool) -> _Later:
    stored_name, bounds = shape.name or name, shape.bounds

    def read(meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int]) -> Any:
        array_name = prefix + stored_name
        if array_name not in source.arrays and may_be_none:
            return None
        array = source.take(array_name, dtypes, _known(lengths, shape.lengths), prefix)
        _note(lengths, shape.lengths, array.shape)
        if bounds is not None and array.size and not (bounds.hold(array.min()) and bounds.hold(array.max())):
            raise source.error(prefix, f": array {array_name!r} has values that are not {bounds}")
        return array

    def write(value: Any, prefix: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        if value is not None:
            arrays[prefix + stored_name] = value

    return _Later(name, same, read, write)


def _csr_field(name: str, same: SameAs | None, csr: Csr, may_be_none: bool) -> _Later:
    names = csr.names or (f"{name}.data", f"{name}.indices", f"{name}.indptr")
    shape = (csr.rows, csr.columns)

    def read(meta: Mapping[str, Any], source: _Source, prefix: str, lengths: dict[str, int]) -> Any:
        data_name, columns_name, ends_name = (prefix + name for name in names)
        if ends_name not in source.arrays and may_be_none:
            return None
        n_rows, n_columns = _known(lengths, shape)
        indptr = source.take(ends_name, np.int64, (None if n_rows is None else n_rows + 1,), prefix)
        data = source.take(data_name, np.float32, (None,), prefix)
        indices = source.take(columns_name, np.int32, (data.size,), prefix)
        if n_columns is None:
            n_columns = int(indices.max()) + 1 if indices.size else 0
        problem = csr_problem(indptr, indices, n_columns)
        if problem is not None:
            raise source.error(prefix, f": the matrix of {ends_name!r} {problem}")
        matrix = sparse.csr_array((indptr.size - 1, n_columns), dtype=np.float32)
        # SciPy copies index arrays of different integer types.
        matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
        _note(lengths, shape, matrix.shape)
        return matrix

    def write(value: Any, prefix: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        if value is not None:
            integers = value.indices.astype(np.int32, copy=False), value.indptr.astype(np.int64, copy=False)
            arrays.update((prefix + name, array) for name, array in zip(names, (value.data, *integers), strict=True))

    return _Later(name, same, read, write)


def _known(lengths: dict[str, int], shape: tuple[int | str | None, ...]) -> tuple[int | None, ...]:
    return tuple(lengths.get(length) if isinstance(length, str) else length for length in shape)


def _note(lengths: dict[str, int], shape: tuple[int | str | None, ...], real: tuple[int, ...]) -> None:
    lengths.update((name, length) for name, length in zip(shape, real, strict=True) if isinstance(name, str))


# -- types ------------------------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """A compiled type: its name in messages, a quick test of JSON values, and the functions to read and to write."""

    expected: str
    fits: Callable[[Any], bool]
    read: Read
    write: Write
    as_is: frozenset[type] = frozenset()  # types of values written unchanged


def _form_of(hint: Any, markers: tuple[Any, ...] = ()) -> _Form:
    """Compile a type hint and its markers."""
    via, bounds = _marker(markers, Via), _marker(markers, Bounds)
    if via is not None:
        return _via_form(via)
    forms = [_member_form(member) for member in members_of(hint)]
    form = forms[0] if len(forms) == 1 else _union_form(forms)
    return form if bounds is None else form._replace(read=_bounded_reader(form, bounds))


def _member_form(hint: Any) -> _Form:
    """Compile a type without alternatives."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if get_origin(hint) is Literal:
        options = [(type(option), option) for option in get_args(hint)]
        return _scalar("one of " + ", ".join(map(repr, get_args(hint))), lambda value: (type(value), value) in options)
    if get_origin(hint) in (tuple, list) or hint is list or _is_named_tuple(hint):
        return _list_form(hint)
    return _dict_form(hint) if get_origin(hint) is dict or hint is dict else _class_form(hint)


def _via_form(via: Via) -> _Form:
    form = _form_of(via.hint)

    def read(value: Any, source: _Source, prefix: str) -> Any:
        stored = form.read(value, source, prefix)
        try:
            return via.read(stored)
        except InputError as problem:
            raise source.error(prefix, f" does not fit: {problem}") from problem

    def write(value: Any, prefix: str, arrays: Arrays) -> Any:
        return form.write(via.write(value), prefix, arrays)

    return _Form(form.expected, form.fits, read, write)


def _bounded_reader(form: _Form, bounds: Bounds) -> Read:
    def read(value: Any, source: _Source, prefix: str) -> Any:
        number = form.read(value, source, prefix)
        if number is not None and not bounds.hold(number):
            raise source.misfit(prefix, value, f"{form.expected} {bounds}")
        return number

    return read


def _union_form(forms: list[_Form]) -> _Form:
    expected = " or ".join(form.expected for form in forms)
    first = next(form for form in forms if form is not _NOTHING)

    def read(value: Any, source: _Source, prefix: str) -> Any:
        for form in forms:
            if form.fits(value):
                return form.read(value, source, prefix)
        raise source.misfit(prefix, value, expected)

    def write(value: Any, prefix: str, arrays: Arrays) -> Any:
        if isinstance(value, (tuple, list)):  # for example of ``str | tuple[str, ...]``
            return next(form for form in forms if form.fits([])).write(value, prefix, arrays)
        return None if value is None else first.write(value, prefix, arrays)

    as_is = first.as_is | {type(None)}
    return _Form(expected, lambda value: any(form.fits(value) for form in forms), read, write, as_is)


def _write_scalar(value: Any, prefix: str, arrays: Arrays) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _write_anything(value: Any, prefix: str, arrays: Arrays) -> Any:
    if isinstance(value, (tuple, list)):
        return [_write_anything(item, prefix, arrays) for item in value]
    if isinstance(value, Mapping):
        return {key: _write_anything(item, prefix, arrays) for key, item in value.items()}
    return _write_scalar(value, prefix, arrays)


def _scalar(expected: str, fits: Callable[[Any], bool]) -> _Form:
    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not fits(value):
            raise source.misfit(prefix, value, expected)
        return value

    return _Form(expected, fits, read, _write_scalar, frozenset((str, int, bool, type(None))))


def _read_float(value: Any, source: _Source, prefix: str) -> float:
    if type(value) is not float:
        if type(value) is not int:
            raise source.misfit(prefix, value, "a number")
        try:
            value = float(value)
        except OverflowError:
            raise source.error(prefix, " is a number that no float holds") from None
    if not math.isfinite(value):
        raise source.error(prefix, f" is {value}; expected a finite number")
    return float(value)


def _read_int(value: Any, source: _Source, prefix: str) -> int:
    if type(value) is not int:
        raise source.misfit(prefix, value, "a whole number")
    if not -(2**63) <= value < 2**63:
        raise source.misfit(prefix, value, "a whole number of at most 64 bits")
    return value


_NOTHING = _scalar("nothing", lambda value: value is None)
_SCALARS: dict[Any, _Form] = {
    Any: _scalar("a value", lambda value: True)._replace(write=_write_anything),
    float: _Form(
        "a number",
        lambda value: type(value) in (int, float),
        _read_float,
        lambda value, prefix, arrays: float(value),  # an int in memory is stored as a float
        frozenset([float]),
    ),
    int: _scalar("a whole number", lambda value: type(value) is int)._replace(read=_read_int),
    bool: _scalar("true or false", lambda value: type(value) is bool),
    str: _scalar("text", lambda value: type(value) is str),
    type(None): _NOTHING,
}


def _list_form(hint: Any) -> _Form:
    hints, is_repeated = _item_hints(hint)
    items = [_form_of(*unmarked(inner)) for inner in hints or [Any]]
    forms = itertools.repeat(items[0]) if is_repeated else items
    plain = frozenset([str]) if hints == [str] else frozenset[type]()  # what most lists are of
    expected = "a list" if is_repeated else f"a list of {len(hints)}"
    make: Callable[[list[Any]], Any] = list
    if _is_named_tuple(hint):
        make = hint._make
    elif get_origin(hint) is tuple:
        make = tuple

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not isinstance(value, list) or not (is_repeated or len(value) == len(items)):
            raise source.misfit(prefix, value, expected)
        if is_repeated and plain.issuperset(map(type, value)):
            return make(value)
        pairs = zip(forms, value, strict=False)
        return make([form.read(item, source, f"{prefix}{i}.") for i, (form, item) in enumerate(pairs)])

    def write(value: Any, prefix: str, arrays: Arrays) -> Any:
        if is_repeated and items[0].as_is.issuperset(map(type, value)):
            return list(value)
        pairs = zip(forms, value, strict=not is_repeated)
        return [form.write(item, f"{prefix}{i}.", arrays) for i, (form, item) in enumerate(pairs)]

    return _Form(expected, lambda value: isinstance(value, list), read, write)


def _item_hints(hint: Any) -> tuple[list[Any], bool]:
    """Return the types of the items of a list, and True for one type of all items; empty for any type."""
    if _is_named_tuple(hint):
        return list(get_type_hints(hint, include_extras=True).values()), False
    inner = get_args(hint)
    if get_origin(hint) is tuple and (len(inner) != 2 or inner[1] is not Ellipsis):
        return list(inner), False
    return list(inner[:1]), True


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _dict_form(hint: Any) -> _Form:
    form = _form_of(*unmarked(*get_args(hint)[1:] or [Any]))

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not _is_mapping(value):
            raise source.misfit(prefix, value, "a mapping")
        return {key: form.read(item, source, f"{prefix}{key}.") for key, item in value.items()}

    def write(value: Any, prefix: str, arrays: Arrays) -> Any:
        return {key: form.write(item, f"{prefix}{key}.", arrays) for key, item in value.items()}

    return _Form("a mapping", _is_mapping, read, write)


def _class_form(cls: Any) -> _Form:
    has_state = hasattr(cls, "from_state")

    def read(value: Any, source: _Source, prefix: str) -> Any:
        if not _is_mapping(value):
            raise source.misfit(prefix, value, "a mapping")
        if not has_state:
            return _read_class(cls, value, source, prefix)
        class_arrays = {
            name.removeprefix(prefix): array for name, array in source.arrays.items() if name.startswith(prefix)
        }
        source.taken.update(prefix + name for name in class_arrays)
        return cls.from_state(value, class_arrays)

    def write(value: Any, prefix: str, arrays: Arrays) -> Any:
        if not has_state:
            return _write_class(value, prefix, arrays)
        meta, class_arrays = value.to_state()
        arrays.update((prefix + name, array) for name, array in class_arrays.items())
        return meta

    return _Form("a mapping", _is_mapping, read, write)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)
