"""What the journal holds: preferences, clicks, and entries that take others back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from tercet.errors import InputError


@dataclass(frozen=True)
class Entry:
    """What every entry has: its number from 1, when it came, and from whom.

    ``client`` is what limits are counted by: the address, and a slash and the name where the request gave one.
    """

    kind: ClassVar[str]
    number: int
    time: str
    client: str

    @property
    def address(self) -> str:
        return self.client.partition("/")[0]

    def to_meta(self) -> dict[str, Any]:
        return {"kind": self.kind} | asdict(self)


@dataclass(frozen=True)
class Preferred(Entry):
    """Somebody said that for a query one document is better than another."""

    kind = "prefer"
    query: str
    better: str
    worse: str


@dataclass(frozen=True)
class Clicked(Entry):
    """Somebody saw a list and clicked some of it."""

    kind = "clicks"
    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]


@dataclass(frozen=True)
class Withdrawn(Entry):
    """Earlier entries count no more: undone by who made them, or revoked."""

    kind = "withdraw"
    reason: str
    entries: tuple[int, ...]


_KINDS: dict[str, type[Entry]] = {each.kind: each for each in (Preferred, Clicked, Withdrawn)}
_TYPES = {"int": int, "str": str, "tuple[str, ...]": str, "tuple[int, ...]": int}


def entry_of(meta: Any) -> Entry:
    """The entry that `Entry.to_meta` described; anything else is an `InputError` that says what is wrong.

    Examples
    --------
    >>> entry_of({"kind": "prefer", "number": 1, "time": "", "client": "", "query": "q", "better": "a", "worse": "b"})
    Preferred(number=1, time='', client='', query='q', better='a', worse='b')
    """
    if not isinstance(meta, Mapping) or not isinstance(meta.get("kind"), str) or meta["kind"] not in _KINDS:
        raise InputError(f"found {str(meta)[:80]!r}; expected an object whose kind is one of {', '.join(_KINDS)}")
    kind = _KINDS[meta["kind"]]
    own = {field.name: str(field.type) for field in fields(kind)}
    if set(meta) != {"kind", *own}:
        raise InputError(
            f"an entry of kind {kind.kind!r} has the keys {sorted(meta)}; expected {sorted(['kind', *own])}"
        )
    values: dict[str, Any] = {}
    for name, written in own.items():
        value = meta[name]
        if written.startswith("tuple"):
            right = isinstance(value, list) and all(type(one) is _TYPES[written] for one in value)
            value = tuple(value) if right else value
        else:
            right = type(value) is _TYPES[written]
        if not right:
            raise InputError(f"{name!r} is {str(value)[:80]!r}; expected {written}")
        values[name] = value
    return kind(**values)
