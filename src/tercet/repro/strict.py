"""Dataclasses from what a TOML file holds: nothing unknown, nothing missing, nothing of another type."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tercet.errors import FormatError

T = TypeVar("T")


def build(cls: type[T], value: object, path: Path, key: str = "") -> T:
    """A dataclass from a mapping; the error names the file and the key.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     name: str = ""
    >>> build(Point, {"x": 1}, Path("points.toml"))
    Point(x=1.0, name='')
    >>> build(Point, {"x": 1, "y": 2}, Path("points.toml"))
    Traceback (most recent call last):
    tercet.errors.FormatError: points.toml: y is unknown; known here: x, name
    """
    if not isinstance(value, Mapping):
        raise _wrong(path, key, value, "a table")
    hints = get_type_hints(cls)
    known = fields(cls)  # type: ignore[arg-type]
    names = [field.name for field in known]
    for name in value:
        if name not in names:
            raise FormatError(path, None, f"{_join(key, name)} is unknown; known here: {', '.join(names)}")
    found = {}
    for field in known:
        if field.name in value:
            found[field.name] = _convert(hints[field.name], value[field.name], path, _join(key, field.name))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise FormatError(path, None, f"{_join(key, field.name)} is missing")
    return cls(**found)


def _join(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)


def _wrong(path: Path, key: str, value: object, wanted: str) -> FormatError:
    return FormatError(path, None, f"{key or 'the file'} is {value!r}; {wanted} is needed")


def _convert(kind: Any, value: Any, path: Path, key: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):  # X | None; TOML has no null, so a value is an X
        return _convert(next(each for each in inner if each is not type(None)), value, path, key)
    if origin is Literal:
        if value not in inner:
            raise _wrong(path, key, value, "one of " + ", ".join(map(repr, inner)))
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(path, key, value, "a list")
        return tuple(_convert(inner[0], each, path, f"{key}[{at}]") for at, each in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _wrong(path, key, value, "a table")
        return {name: _convert(inner[1], each, path, _join(key, name)) for name, each in value.items()}
    if is_dataclass(kind):
        return build(kind, value, path, key)  # type: ignore[arg-type]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise _wrong(
            path, key, value, {str: "a text", bool: "true or false", int: "a whole number"}.get(kind, "a number")
        )
    return value
