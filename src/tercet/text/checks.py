"""What the room's classes check about parameters and about what was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tercet.errors import DamagedBundleError


def check_keys(what: str, found: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Raise `DamagedBundleError` unless the saved mapping `found` has exactly the keys `wanted`."""
    if not isinstance(found, Mapping):
        raise DamagedBundleError(f"saved {what} must be a mapping, found {type(found).__name__}")
    for key in wanted:
        if key not in found:
            raise DamagedBundleError(f"saved {what} lacks the key {key!r}")
    for key in found:
        if key not in wanted:
            raise DamagedBundleError(f"saved {what} has the unknown key {key!r}; known are {', '.join(wanted)}")
