"""Old names of renamed fields and arrays, for saved files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

T = TypeVar("T")

# Old field name -> field name, for classes that have the field.
OLD_FIELDS: Final = {
    "carried": "stored_fields",
    "cut": "tokenizer",
    "declined": "rejected",
    "normalise": "normalize",
    "normalise_pairs": "normalize_pairs",
    "vectoriser": "vectorizer",
}
# Old prefix of array names -> prefix.
OLD_ARRAYS: Final = {"carried_": "stored_fields_"}


def with_new_arrays(arrays: Mapping[str, T]) -> dict[str, T]:
    """Return the arrays of an index segment under their new names."""
    return {_new_name(name): array for name, array in arrays.items()}


def _new_name(name: str) -> str:
    for old, new in OLD_ARRAYS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
