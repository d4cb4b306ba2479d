"""Stored fields: table columns without search, one JSON object for each document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tercet.data.values import Record, plain_record
from tercet.errors import DamagedBundleError, FormatError

MOST_BYTES: Final = 2**16  # most bytes of a document's stored fields, as JSON


def packed_record(stored_fields: Any, doc_id: str) -> str:
    """Return values by column as JSON without empty values; an empty string without values.

    Examples
    --------
    >>> packed_record({"price": 1.5, "color": None, "tags": ["new", "ripe"]}, "007")
    '{"price":1.5,"tags":"new, ripe"}'
    """

    def wrong(problem: str) -> FormatError:
        return FormatError(f"document {doc_id!r}", None, problem)

    if not isinstance(stored_fields, Mapping):
        raise wrong(f"carries a {type(stored_fields).__name__}; expected values by column")
    record = {
        name: value for name, value in plain_record(stored_fields, wrong).items() if value is not None and value != ""
    }
    packed = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False) if record else ""
    n_bytes = len(packed.encode("utf-8"))
    if n_bytes > MOST_BYTES:
        widest = max(record, key=lambda name: len(str(record[name])))
        most = f"at most {MOST_BYTES:,} are possible"
        raise wrong(f"carries {n_bytes:,} bytes, most of them in the column {widest[:80]!r}; {most}")
    return packed


def shown_record(record: Mapping[str, Any], most: int) -> str:
    """Return values by column in one line of bounded length, and the number of omitted values.

    Examples
    --------
    >>> shown_record({"price": 1.5, "color": "green"}, 40), shown_record({"price": 1.5, "color": "green"}, 12)
    ('price 1.5 · color green', 'price 1.5 · 1 more')
    """
    fields: list[str] = []
    length = 0
    for name, value in record.items():
        field = " ".join(f"{name} {value}".split())
        if length + len(field) > most and (fields or len(field) > most):
            break
        fields.append(field)
        length += len(field) + 3
    rest = len(record) - len(fields)
    return " · ".join([*fields, *([f"{rest} more"] if rest else [])])


def unpacked_record(packed: str, where: str) -> Record:
    """Read a record of `packed_record`; anything else raises `DamagedBundleError`."""
    try:
        record = json.loads(packed) if packed else {}
    except (ValueError, RecursionError) as error:
        raise DamagedBundleError(f"{where} carries what is no JSON: {error}") from error
    if not isinstance(record, dict) or any(isinstance(value, dict | list) for value in record.values()):
        raise DamagedBundleError(f"{where} carries something else than values by column")
    return record
