"""Dataclasses from the values of a TOML file: no unknown key, no missing key, no value of another type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_hints = cache(get_type_hints)
_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


def decode(hint: Any, value: Any, where: str = "") -> Any:
    """Return the value as the type says; a ValueError names the key and the type that is needed.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> decode(Point, {"x": 1, "names": ["origin"]})
    Point(x=1.0, names=('origin',))
    >>> decode(Point, {"x": 1, "y": 2}, "points")
    Traceback (most recent call last):
    ValueError: points.y is unknown; known here: x, names
    """
    if hint is Any:
        return value
    if is_dataclass(hint):
        return _decode_dataclass(hint, value, where)
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        [member] = [each for each in inner if each is not NoneType]
        return decode(member, value, where)
    if kind is Literal:
        if value not in inner:
            raise _error(where, value, f"one of {', '.join(map(repr, inner))}")
        return value
    if kind is tuple:
        if not isinstance(value, list):
            raise _error(where, value, "a list")
        return tuple(decode(inner[0], item, f"{where}[{number}]") for number, item in enumerate(value))
    if kind is dict:
        if not isinstance(value, Mapping):
            raise _error(where, value, "a table")
        return {name: decode(inner[1], item, f"{where}.{name}") for name, item in value.items()}
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise _error(where, value, _NAMES[hint])
    return value


def _decode_dataclass(cls: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise _error(where, value, "a table")
    prefix = f"{where}." if where else ""
    known = {field.name: field for field in fields(cls)}
    for name in value:
        if name not in known:
            raise ValueError(f"{prefix}{name} is unknown; known here: {', '.join(known)}")
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{prefix}{name} is missing")
    return cls(**{name: decode(_hints(cls)[name], item, f"{prefix}{name}") for name, item in value.items()})


def _error(where: str, value: object, needed: str) -> ValueError:
    return ValueError(f"{where} is {str(value)[:60]!r}; {needed} is needed")
