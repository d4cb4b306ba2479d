"""Plans from TOML files: found by name or path, decoded strictly, checked, and cut down for a quick run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from reproductions.plan import Method, Plan, Quick
from reproductions.plan_checks import faults
from tercet.errors import FormatError, InputError

_PAPERS = Path(__file__).parent / "papers"
_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_hints = cache(get_type_hints)


def known_papers() -> list[str]:
    """Names of the plans of the four papers."""
    return sorted(file.stem for file in _PAPERS.glob("*.toml"))


def find_plan(name: str) -> Plan:
    """Plan of a paper by its name, or of your own by the path of its TOML file.

    Examples
    --------
    >>> find_plan("chen2010").paper.venue
    'ICDM 2010'
    """
    if name in known_papers():
        return read_plan(_PAPERS / f"{name}.toml")
    if not Path(name).is_file():
        raise InputError(f"no paper {name!r}; known: {', '.join(known_papers())}, or give the path of a TOML file")
    return read_plan(Path(name))


def read_plan(path: Path) -> Plan:
    """Read and check a plan; errors name the file and the key."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError
        raise FormatError(path, None, f"not TOML: {error}") from error
    try:
        plan: Plan = decode(Plan, content)
    except ValueError as error:
        raise FormatError(path, None, str(error)) from None
    for fault in faults(plan):
        raise FormatError(path, None, fault)
    return plan


# -- decoding ---------------------------------------------------------------------------------------------------------


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
    if isinstance(hint, NewType):
        return decode(hint.__supertype__, value, where)
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


# -- a quick run ------------------------------------------------------------------------------------------------------


def quick_plan(plan: Plan) -> Plan:
    """The plan with fewer seeds, preferences, words, values to choose from and points; readers cut rows and folds."""
    quick = plan.quick

    def fewer(test_preferences: int) -> int:
        return min(test_preferences, quick.test_preferences or test_preferences)

    return replace(
        plan,
        seeds=min(plan.seeds, quick.seeds),
        test_preferences=fewer(plan.test_preferences),
        datasets={
            name: replace(data, max_features=data.max_features and (quick.max_features or data.max_features))
            for name, data in plan.datasets.items()
        },
        methods=tuple(_quick_method(method, quick) for method in plan.methods),
        curves=tuple(
            replace(curves, points=min(curves.points, quick.points), test_preferences=fewer(curves.test_preferences))
            for curves in plan.curves
        ),
    )


def _quick_method(method: Method, quick: Quick) -> Method:
    def not_searched(parameters: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in parameters.items() if name not in method.reuse}

    return replace(
        method,
        seeds=None if method.seeds is None else min(method.seeds, quick.seeds),
        preferences=min(method.preferences, max(1, round(quick.share * method.preferences))),
        per_query=min(method.per_query, quick.per_query),
        choose={name: _spread(values, quick.values) for name, values in method.choose.items()},
        parameters=not_searched(method.parameters) | method.quick,
        by_dataset={name: not_searched(own) for name, own in method.by_dataset.items()},
    )


def _spread(values: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Take n values: the first, or several evenly spread ones."""
    if n == 1 or len(values) <= n:
        return values[:n]
    return tuple(values[(2 * i + 1) * len(values) // (2 * n)] for i in range(n))
