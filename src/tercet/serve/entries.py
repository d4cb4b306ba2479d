"""What the journal holds: preferences, clicks, and entries that take others back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tercet.errors import InputError
from tercet.store.codec import decode, encode


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
        return encode(self)[0]


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


_KINDS: dict[str, type] = {kind.kind: kind for kind in (Preferred, Clicked, Withdrawn)}


def entry_of(meta: Any) -> Entry:
    """The entry that `Entry.to_meta` described; anything else is an `InputError` that says what is wrong.

    Examples
    --------
    >>> entry_of({"kind": "prefer", "number": 1, "time": "", "client": "", "query": "q", "better": "a", "worse": "b"})
    Preferred(number=1, time='', client='', query='q', better='a', worse='b')
    """
    return decode(Entry, meta, where="entry", error=InputError, kinds={Entry: _KINDS})
