"""JSON with one spelling, for checksums byte by byte."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from tercet.errors import DamagedBundleError, InputError

# Limits against damaged or hostile files, checked before memory is allocated.
MAX_NESTING: Final = 32
MAX_MANIFEST_BYTES: Final = 8 * 2**20

# A string without a closing quote matches the rest of the text: the scan is linear for broken text, too.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


def canonical_bytes(value: Any) -> bytes:
    """Return the only spelling of a JSON value: sorted keys, one space of indent, UTF-8, a final newline.

    Raises
    ------
    ValueError
        For NaN, infinity and lone surrogates.

    Examples
    --------
    >>> canonical_bytes({"b": 1, "a": True}).decode().split()
    ['{', '"a":', 'true,', '"b":', '1', '}']
    """
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


def parse_json(data: bytes, where: str) -> Any:
    """Parse JSON of a file that may be damaged; duplicate keys, NaN and deep nesting are refused."""
    try:
        text = data.decode("utf-8")
        refuse_deep_nesting(text, MAX_NESTING)
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except ValueError as error:  # includes UnicodeDecodeError and JSONDecodeError
        raise DamagedBundleError(f"{where}: not the JSON that Tercet writes: {error}") from error


def check_storable(value: Any, where: str, depth: int = 1) -> None:
    """Raise InputError, with the place, for a value that would change by writing and reading.

    Tuples count as lists. `depth` is the nesting level of `value` itself.

    Examples
    --------
    >>> check_storable({"a": [1, 2.5, "x"]}, "meta")
    >>> try:
    ...     check_storable({"a": {1, 2}}, "meta")
    ... except InputError as error:
    ...     print(str(error).partition(";")[0])
    meta['a'] is of type builtins.set
    """
    if value is None or isinstance(value, (bool, int)):
        return
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{where} is {value}; only finite numbers can be stored")
    elif isinstance(value, (list, tuple, dict)):
        if depth > MAX_NESTING:
            raise InputError(f"{where} is nested deeper than the {MAX_NESTING} levels a manifest may have")
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InputError(f"{where} has the key {key!r}; keys must be strings")
                _check_text(key, f"a key of {where}")
                check_storable(item, f"{where}[{key!r}]", depth + 1)
        else:
            for position, item in enumerate(value):
                check_storable(item, f"{where}[{position}]", depth + 1)
    else:
        raise InputError(
            f"{where} is of type {type(value).__module__}.{type(value).__qualname__}; "
            "only None, bool, int, float, str, lists and dicts of these can be stored"
        )


def _check_text(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{where} is {text!r}, which is not valid Unicode text: {error.reason}") from error


def refuse_deep_nesting(text: str, deepest: int) -> None:
    """Raise ValueError for arrays and objects of a JSON text nested deeper than `deepest` levels."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > deepest:
                raise ValueError(f"nested deeper than {deepest} levels")
        elif first in "]}":
            depth -= 1


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise ValueError(f"the key {key!r} is there twice")
        unique[key] = value
    return unique


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
