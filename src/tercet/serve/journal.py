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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, overload

from tercet.errors import FormatError, InputError, JournalError
from tercet.serve.journal_tail import check_tail, read_last
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


@dataclass(eq=False)
class Chain:
    """Entries after the ``n_archived`` first ones, and the sums after each; ``sums[0]`` is the one before them."""

    path: Path
    n_archived: int
    sums: list[str]
    entries: list[Entry] = field(default_factory=list)
    _archive: Chain | None = None

    @property
    def n_entries(self) -> int:
        return self.n_archived + len(self.entries)

    def append(self, entry: Entry, own_sum: str) -> None:
        self.sums.append(own_sum)
        self.entries.append(entry)  # last, since it is what counts for those who read meanwhile

    def archive(self) -> Chain:
        """All that is archived, as one chain; read once."""
        if self._archive is None:
            chain = self
            before: list[Chain] = []
            while chain.n_archived:
                path = archive_path(self.path, chain.n_archived)
                try:
                    piece = read_chain(path)[0]
                except FileNotFoundError as error:
                    raise JournalError(
                        f"{path} is missing: it has entries of {self.path} that the model which is served does not have"
                    ) from error
                if (piece.n_entries, piece.sums[-1]) != (chain.n_archived, chain.sums[0]):
                    raise JournalError(f"{path} is not the archive that {chain.path} follows; its checksum differs")
                before.append(piece)
                chain = piece
            whole = Chain(self.path, 0, [""])
            for piece in reversed(before):
                whole.entries += piece.entries
                whole.sums += piece.sums[1:]
            self._archive = whole
        return self._archive

    def sum_after(self, number: int) -> str | None:
        """The sum after an entry; None where there is no such entry."""
        if not 0 <= number <= self.n_entries:
            return None
        return self.sums[number - self.n_archived] if number >= self.n_archived else self.archive().sums[number]

    def between(self, first: int, stop: int) -> list[Entry]:
        """Entries ``first + 1`` to ``stop``."""
        archived = self.archive().entries[first:stop] if first < min(stop, self.n_archived) else []
        return archived + self.entries[max(0, first - self.n_archived) : max(0, stop - self.n_archived)]


class Entries(Sequence[Entry]):
    """Entries of a journal, ``entries[0]`` being the first; slices look at the same journal, and are cheap.

    Those in archives are read from disk only when somebody asks for one of them.
    """

    def __init__(self, chain: Chain, first: int = 0, stop: int | None = None) -> None:
        self._chain, self._first = chain, first
        self._stop = chain.n_entries if stop is None else stop

    def __len__(self) -> int:
        return max(0, self._stop - self._first)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> Entries: ...
    def __getitem__(self, at: int | slice) -> Entry | Entries:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                raise ValueError("entries come in their order")
            return Entries(self._chain, self._first + start, self._first + stop)
        number = self._first + range(len(self))[at]
        return self._chain.between(number, number + 1)[0]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._chain.between(self._first, self._stop))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Entries({self._first + 1} to {self._stop} of {self._chain.path})"

    def sum_after(self, number: int) -> str | None:
        """The checksum of entries 1 to ``number`` of the journal; None where it has fewer."""
        return self._chain.sum_after(number)


@dataclass(frozen=True)
class ReadJournal:
    """A journal as it is on disk: its entries, the last sum, and how many of its bytes are whole lines."""

    entries: Entries
    last_sum: str
    n_bytes: int
    torn_bytes: int


def archive_path(path: Path, number: int) -> Path:
    """Where entries of a journal are when they were archived; the last of them has this number."""
    return path.with_name(f"{path.stem}-{number:09d}{path.suffix}")


def read_journal(path: str | PathLike[str]) -> ReadJournal:
    """Read a journal. The beginning of a line at the end is left out; other damage raises `FormatError`.

    One that lacks entries which were acknowledged raises `JournalError`.
    """
    last = read_last(Path(path))  # first, since a service may be writing: the journal is never behind it
    chain, n_bytes, torn = read_chain(Path(path))
    if last is not None:
        check_tail(last, path, chain.n_entries, chain.sum_after(last.number))
    return ReadJournal(Entries(chain), chain.sums[-1], n_bytes, torn)


def read_chain(path: Path) -> tuple[Chain, int, int]:
    """Its entries, and how many bytes are whole lines and how many are not; a last line may lack its newline."""
    with open(path, "rb") as file:
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    torn = len(data) - len(whole)
    if not whole:
        if data and not HEADER.encode().startswith(data):
            raise FormatError(path, 1, f"found {data[:60]!r}; a journal begins with {HEADER.strip()}")
        return Chain(path, 0, [""]), 0, torn
    first, *lines = whole[:-1].split(b"\n")
    chain = Chain(path, *_parsed_header(first, path))
    for number, line in enumerate(lines, start=2):
        entry, own_sum = _parsed(line, chain.sums[-1], path, number)
        if entry.number != chain.n_entries + 1:
            raise FormatError(path, number, f"found entry {entry.number}; expected entry {chain.n_entries + 1}")
        chain.append(entry, own_sum)
    if torn:
        with suppress(FormatError):  # the beginning of a line
            entry, own_sum = _parsed(data[len(whole) :], chain.sums[-1], path, len(lines) + 2)
            if entry.number == chain.n_entries + 1:
                chain.append(entry, own_sum)
                return chain, len(data), 0
    return chain, len(whole), torn


def _parsed_header(line: bytes, path: Path) -> tuple[int, list[str]]:
    """How many entries are archived, and the sum after them."""
    if line == HEADER.strip().encode():
        return 0, [""]
    with suppress(ValueError, RecursionError, InputError):
        content = json.loads(line)
        if isinstance(content, dict):
            content["version"] = content.pop("tercet-journal", None)
            header = decode(CompactedHeader, content, where="header", error=InputError)
            if header.spelled().strip().encode() == line:
                return header.archived, [header.sum]
    raise FormatError(path, 1, f"found {line[:60]!r}; a journal begins with {HEADER.strip()}")


def spelled_entry(entry: Entry, last_sum: str) -> tuple[bytes, str]:
    body = json.dumps(entry.to_meta(), separators=(",", ":"), allow_nan=False)
    own_sum = _sum_of(last_sum, body.encode())
    return f'{{"sum":"{own_sum}","entry":{body}}}\n'.encode(), own_sum


def _sum_of(last_sum: str, body: bytes) -> str:
    return hashlib.sha256(last_sum.encode() + body).hexdigest()[:32]


_BODY_START = len(b'{"sum":"","entry":') + 32


def _parsed(line: bytes, last_sum: str, path: str | PathLike[str], number: int) -> tuple[Entry, str]:
    body = line[_BODY_START:-1]
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
