"""The journal: every preference, click and withdrawal in the order in which they came, each on disk before its answer.

A line is ``{"sum": S, "entry": {…}}``. S is a SHA-256 of the entry and of the sum before it, so a line that was
changed, moved or taken out is found. An entry is acknowledged when its line is synced, and noted in a file of its own
(`journal_tail`), so that a lost end is found, too. A kill may leave the beginning of a line at the end of the file:
nobody was told that it is kept, and it is cut off when the journal is opened again. One that lacks only its newline is
an entry.
Any other damage is an error that names the line, since what follows depends on it.

Entries that were baked into a model move to archives beside the journal, ``journal-000000250.jsonl`` for those up to
entry 250. The journal then begins with that number and the sum there, and an archive is a journal itself: of the first
entries, or of those after another archive. Archives are read only where a model without these entries is served.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from tercet.errors import FormatError, InputError
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT, Bounds

Trust = Literal["visitor", "vouched", "teacher"]


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
    """Somebody said that for a query one document is better than another.

    ``trust`` is which allowance pays for it, as `Allowances` has them. Entries of services that gave allowances for
    life have none, and are paid for as they were then. ``receipt`` is the hash of a secret that whoever taught it was
    told: with that it can be taken back.
    """

    kind = "prefer"
    query: str
    better: str
    worse: str
    trust: Annotated[Trust | None, OMIT_DEFAULT] = None
    receipt: Annotated[str, OMIT_DEFAULT] = ""

    def __post_init__(self) -> None:
        _check_time(self)


@dataclass(frozen=True)
class Clicked(Entry):
    """Somebody saw a list and clicked some of it; ``trust`` and ``receipt`` as `Preferred` has them."""

    kind = "clicks"
    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]
    trust: Annotated[Trust | None, OMIT_DEFAULT] = None
    receipt: Annotated[str, OMIT_DEFAULT] = ""

    def __post_init__(self) -> None:
        _check_time(self)


def seconds_of(entry: Entry) -> float:
    """When an entry came, in seconds since 1970."""
    return datetime.fromisoformat(entry.time).timestamp()


def _check_time(entry: Preferred | Clicked) -> None:
    """Allowances renew by the times of entries."""
    if entry.trust is not None:
        try:
            seconds_of(entry)
        except ValueError as error:
            raise InputError(f"time is {entry.time!r}; expected one like 2026-11-15T18:20:00.123Z") from error


@dataclass(frozen=True)
class Withdrawn(Entry):
    """Earlier entries count no more: undone by who made them, or revoked."""

    kind = "withdraw"
    reason: str
    entries: tuple[int, ...]


@dataclass(frozen=True)
class Renewed(Entry):
    """What was taught up to here has become part of a model: from here on every allowance is whole again.

    ``of`` names the promotion, so that each renews them once.
    """

    kind = "renew"
    reason: Literal["bake", "promote"]
    of: Annotated[str, OMIT_DEFAULT] = ""


_KINDS: dict[str, type] = {kind.kind: kind for kind in (Preferred, Clicked, Withdrawn, Renewed)}


def entry_of(meta: Any) -> Entry:
    """The entry that `Entry.to_meta` described; anything else is an `InputError` that says what is wrong.

    Examples
    --------
    >>> entry_of({"kind": "prefer", "number": 1, "time": "", "client": "", "query": "q", "better": "a", "worse": "b"})
    Preferred(number=1, time='', client='', query='q', better='a', worse='b', trust=None, receipt='')
    """
    return decode(Entry, meta, where="entry", error=InputError, kinds={Entry: _KINDS})


HEADER = '{"tercet-journal": 1}\n'


@dataclass(frozen=True)
class CompactedHeader:
    """The first line of a journal whose first entries are in archives: how many, and the sum after them."""

    version: Literal[2]
    archived: Annotated[int, Bounds(1)]
    sum: str

    def spelled(self) -> str:
        return f'{{"tercet-journal": 2, "archived": {self.archived}, "sum": "{self.sum}"}}\n'


def parsed_header(line: bytes, path: Path) -> tuple[int, str]:
    """How many entries are archived, and the sum after them."""
    if line == HEADER.strip().encode():
        return 0, ""
    with suppress(ValueError, RecursionError, InputError):
        content = json.loads(line)
        if isinstance(content, dict):
            content["version"] = content.pop("tercet-journal", None)
            header = decode(CompactedHeader, content, where="header", error=InputError)
            if header.spelled().strip().encode() == line:
                return header.archived, header.sum
    raise FormatError(path, 1, f"found {line[:60]!r}; a journal begins with {HEADER.strip()}")


def spelled_entry(entry: Entry, last_sum: str) -> tuple[bytes, str]:
    body = json.dumps(entry.to_meta(), separators=(",", ":"), allow_nan=False)
    own_sum = _sum_of(last_sum, body.encode())
    return f'{{"sum":"{own_sum}","entry":{body}}}\n'.encode(), own_sum


def _sum_of(last_sum: str, body: bytes) -> str:
    return hashlib.sha256(last_sum.encode() + body).hexdigest()[:32]


BODY_START = len(b'{"sum":"","entry":') + 32
SUM_OF_LINE = slice(len(b'{"sum":"'), len(b'{"sum":"') + 32)


def parsed_line(line: bytes, last_sum: str, path: str | PathLike[str], number: int) -> tuple[Entry, str]:
    """The entry of a line without its end, and the sum after it; ``number`` is the line's."""
    body = line[BODY_START:-1]
    own_sum = _sum_of(last_sum, body)
    is_as_written = line == b'{"sum":"%s","entry":%s}' % (own_sum.encode(), body)
    try:
        record: Any = json.loads(body if is_as_written else line)
        if not is_as_written and isinstance(record, dict) and set(record) == {"sum", "entry"}:
            record = record["entry"]
        entry = entry_of(record)
    except InputError as error:
        raise FormatError(path, number, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(path, number, f"the line is damaged: {error}; found {line[:60]!r}") from error
    if not is_as_written:
        raise FormatError(
            path, number, "the checksum does not fit: this line or the one before it is not as it was written"
        )
    return entry, own_sum
