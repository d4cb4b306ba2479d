"""JSON as files have it: one object a line, its keys and texts, within what a reader will hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tercet._validate import first_repeated
from tercet.data import limits
from tercet.data.lines import FilePath, surrogate_problem
from tercet.errors import FormatError
from tercet.store.canonical import refuse_deep_nesting

Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]


def load_json(text: str, pairs: Pairs | None = None) -> Any:
    """A JSON value; `ValueError` also for one that nests too deeply or holds too much.

    Examples
    --------
    >>> load_json("[" * 200)
    Traceback (most recent call last):
    ValueError: nested deeper than 100 levels
    """
    opened = text.count("[") + text.count("{")
    if opened > limits.DEEPEST_JSON:
        refuse_deep_nesting(text, limits.DEEPEST_JSON)
    if len(text) > limits.MOST_VALUES and opened + text.count(",") > limits.MOST_VALUES:
        raise ValueError(f"it has more than {limits.MOST_VALUES:,} elements and keys, by its commas and brackets")
    return json.loads(text, object_pairs_hook=pairs)


def parse_json_object(text: str, path: FilePath, line: int) -> dict[str, Any]:
    """Parse one line that holds one JSON object; a key given twice is an error, since a value would be lost.

    Examples
    --------
    >>> parse_json_object('{"query": "007"}', "prefs.jsonl", 1)
    {'query': '007'}
    """
    repeated: str | None = None

    def gather(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # Objects are finished innermost first, so what the last call leaves belongs to the outer object.
        nonlocal repeated
        gathered = dict(pairs)
        repeated = None if len(gathered) == len(pairs) else first_repeated(key for key, _ in pairs)
        return gathered

    try:
        record = load_json(text, gather)
    except json.JSONDecodeError as error:
        raise FormatError(path, line, f"column {error.colno}: broken JSON: {error.msg}", "json") from error
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise FormatError(path, line, f"the JSON cannot be taken in: {error}", "json") from error
    if not isinstance(record, dict):
        raise FormatError(path, line, f"found a JSON {_json_name(record)}; each line holds one object, {{…}}")
    if repeated is not None:
        raise FormatError(path, line, f'the key "{repeated}" occurs twice')
    return record


def json_field(record: dict[str, Any], key: str, path: FilePath, line: int) -> Any:
    """Return a key's value; a missing key is an error that lists the keys there are."""
    if key not in record:
        keys = ", ".join(f'"{name}"' for name in record) or "none"
        raise FormatError(path, line, f'the key "{key}" is missing; found {keys}')
    return record[key]


def json_text(record: dict[str, Any], key: str, path: FilePath, line: int) -> str:
    """Return a key's value, which must be a string of real characters."""
    value = json_field(record, key, path, line)
    if not isinstance(value, str):
        raise FormatError(path, line, f'"{key}" is a JSON {_json_name(value)}; a string is needed')
    problem = surrogate_problem(value)
    if problem is not None:
        raise FormatError(path, line, f'"{key}" {problem}')
    return value


def _json_name(value: object) -> str:
    names = {
        type(None): "null",
        bool: "truth value",
        str: "string",
        int: "number",
        float: "number",
        list: "array",
        dict: "object",
    }
    return names[type(value)]
