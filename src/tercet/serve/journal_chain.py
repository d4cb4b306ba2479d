"""A journal on disk: what stands where in its file, so that entries are read when somebody asks for them."""

from __future__ import annotations

import logging
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError, FormatError, JournalError, MissingBundleError, TercetError
from tercet.serve.growing_columns import Arrays, GrowingColumns, Numbered, is_within, rises
from tercet.serve.journal import (
    BODY_START,
    HEADER,
    SUM_OF_LINE,
    Clicked,
    Entry,
    Preferred,
    Renewed,
    Withdrawn,
    parsed_header,
    parsed_line,
)
from tercet.serve.journal_tail import check_tail, read_last
from tercet.store.bundle import read_bundle
from tercet.store.codec import decode
from tercet.store.fields import take_array
from tercet.store.kinds import JOURNAL_LINES
from tercet.store.schema import Bounds

_log = logging.getLogger(__name__)

_LONGEST_HEADER = 4096
_LINES_AT_ONCE = 256
_READ_AT_ONCE = 2**20


class Lines(NamedTuple):
    """Of each entry: where its line ends in the file, whose it is, and whether it is a vote, (n_entries,)."""

    stop: NDArray[np.int64]
    client: NDArray[np.int32]
    votes: NDArray[np.bool_]


@dataclass(frozen=True)
class SavedLines:
    """What is saved of the lines of a file: which journal it is, its last sum, its bytes and their CRC-32."""

    n_archived: Annotated[int, Bounds(0)]
    first_sum: str
    last_sum: str
    n_bytes: Annotated[int, Bounds(0)]
    crc: Annotated[int, Bounds(0, 2**32 - 1)]


class Chain:
    """Entries of a file after the ``n_archived`` first ones. They stay on disk, and are checked when they are read.

    Parameters
    ----------
    path : where the file is; it is held open, so that it may be renamed or replaced there
    n_archived, first_sum : how many entries came before those of the file, and the sum after them
    header : its first line
    until_then : where the file is until it is renamed to ``path``; None where it was

    Attributes
    ----------
    withdrawn : numbers of entries that entries of the file withdraw
    renewed : promotions and bakes that made allowances whole, by entries of the file
    crc : the CRC-32 of the file up to its last entry
    """

    def __init__(
        self, path: Path, n_archived: int, first_sum: str, header: bytes, until_then: Path | None = None
    ) -> None:
        self.path, self.n_archived = path, n_archived
        self.withdrawn: set[int] = set()
        self.renewed: set[str] = set()
        self.crc = zlib.crc32(header)
        self.last_sum = self._first_sum = first_sum
        self._n_header = len(header)
        self.lines = GrowingColumns(Lines, stop=np.int64, client=np.int32, votes=np.bool_)
        self.clients = Numbered()
        # Held open, and closed when nobody reads it any more.
        self._file = open(until_then or path, "rb", buffering=0)  # noqa: SIM115
        self._reading = threading.Lock()
        weakref.finalize(self, self._file.close)
        self._archive: Chain | None = None

    @property
    def n_entries(self) -> int:
        return self.n_archived + len(self.lines)

    @property
    def n_bytes(self) -> int:
        """Of the file, up to its last entry."""
        return self._start(len(self.lines))

    def append(self, entry: Entry, line: bytes, own_sum: str) -> None:
        """Take in an entry whose line is the next of the file."""
        if isinstance(entry, Withdrawn):
            self.withdrawn.update(entry.entries)
        elif isinstance(entry, Renewed):
            self.renewed.add(entry.of)
        self.last_sum, self.crc = own_sum, zlib.crc32(line, self.crc)
        client = self.clients.number(entry.client.encode("utf-8", "surrogatepass"))
        # Last, since it is what counts for those who read meanwhile.
        self.lines.append(self.n_bytes + len(line), client, isinstance(entry, (Preferred, Clicked)))

    def arrays(self) -> tuple[SavedLines, dict[str, NDArray[Any]]]:
        """What `known_chain` needs, as it is now."""
        renewed = Numbered()
        for name in sorted(self.renewed):
            renewed.number(name.encode("utf-8", "surrogatepass"))
        arrays = {name: array.copy() for name, array in self.lines.arrays("lines").items()}
        arrays |= self.clients.arrays("clients") | renewed.arrays("renewed")
        arrays["withdrawn"] = np.array(sorted(self.withdrawn), np.int64)
        return SavedLines(self.n_archived, self._first_sum, self.last_sum, self.n_bytes, self.crc), arrays

    def restore(self, saved: SavedLines, arrays: Arrays) -> bool:
        """Be where `arrays` was, where the file begins with the very bytes that it had then; whether it does."""
        if (self.n_archived, self._first_sum) != (saved.n_archived, saved.first_sum):
            return False
        self.lines.restore(arrays, "lines")
        self.clients.restore(arrays, "clients")
        stops, clients = self.lines.column("stop"), self.lines.column("client")
        rise = rises(stops, BODY_START + 1) and bool((stops[:1] > self._n_header + BODY_START).all())
        if not (rise and is_within(clients, 0, len(self.clients)) and self.n_bytes == saved.n_bytes):
            raise DamagedBundleError("snapshot: lines of the journal do not follow each other")
        renewed = Numbered()
        renewed.restore(arrays, "renewed")
        self.renewed = {renewed[i].decode("utf-8", "replace") for i in range(len(renewed))}
        self.withdrawn = set(take_array(arrays, "withdrawn", np.int64, 1, where="snapshot").tolist())
        self.last_sum, self.crc = saved.last_sum, saved.crc
        return _crc_of(self._file, self.n_bytes) == self.crc

    def without(self, n_moved: int, header: bytes, until_then: Path) -> Chain:
        """What is left when the first entries of the file have moved to an archive.

        The file without them is written, at ``until_then``, and is about to be renamed to the path of this one.
        """
        other = Chain(self.path, self.n_archived + n_moved, self._sum(n_moved), header, until_then)
        other.withdrawn, other.renewed, other.clients = set(self.withdrawn), set(self.renewed), self.clients.copy()
        stops, *others = (column[n_moved:] for column in (self.lines.column(name) for name in Lines._fields))
        other.lines.extend(stops - self._start(n_moved) + len(header), *others)
        other.last_sum = self.last_sum
        other.crc = _crc_of(other._file, other.n_bytes) or 0
        return other

    def bytes_up_to(self, n: int) -> Iterator[bytes]:
        """The header and the lines of the first entries of the file."""
        return self._pieces_of(0, self._start(n))

    def bytes_after(self, n: int) -> Iterator[bytes]:
        """The lines after the first entries of the file."""
        return self._pieces_of(self._start(n), self.n_bytes)

    def _pieces_of(self, start: int, stop: int) -> Iterator[bytes]:
        while start < stop:
            piece = self._read(start, min(stop, start + _READ_AT_ONCE))
            start += len(piece)
            yield piece

    def _start(self, i: int) -> int:
        """Where the line of the i-th entry of the file begins."""
        return int(self.lines.all.stop[i - 1]) if i else self._n_header

    def _read(self, start: int, stop: int) -> bytes:
        with self._reading:
            self._file.seek(start)
            data = b""
            while len(data) < stop - start and (piece := self._file.read(stop - start - len(data))):
                data += piece
        if len(data) < stop - start - 1:  # a kill may have taken the newline of the last line
            raise JournalError(f"{self.path} was cut while it was read: it ends before byte {stop:,}")
        return data

    def _sum(self, i: int) -> str:
        """The sum after the first i entries of the file, as it stands there.

        Also after the last: `last_sum` may be that of an entry which is just being taken in.
        """
        if not i:
            return self._first_sum
        start = self._start(i - 1)
        return self._read(start, start + SUM_OF_LINE.stop)[SUM_OF_LINE].decode("ascii", "replace")

    def archives(self, after: int) -> list[Chain]:
        """Archives that have entries above a number, one file after the other; each is read once."""
        chain, pieces = self, []
        while chain.n_archived > after:
            if chain._archive is None:
                chain._archive = chain._read_archive(self.path)
            chain = chain._archive
            pieces.append(chain)
        return pieces[::-1]

    def _read_archive(self, journal: Path) -> Chain:
        """The archive that this file follows, which is the journal or an archive of it."""
        path = archive_path(journal, self.n_archived)
        try:
            archive = read_chain(path)[0]
        except FileNotFoundError as error:
            raise JournalError(
                f"{path} is missing: it has entries of {journal} that the model which is served does not have"
            ) from error
        except OSError as error:
            raise JournalError(f"{path} cannot be read: {error.strerror}") from error
        if (archive.n_entries, archive.last_sum) != (self.n_archived, self._first_sum):
            raise JournalError(f"{path} is not the archive that {self.path} follows; its checksum differs")
        return archive

    def sum_after(self, number: int) -> str | None:
        """The sum after an entry; None where there is no such entry."""
        if not 0 <= number <= self.n_entries:
            return None
        if number >= self.n_archived:
            return self._sum(number - self.n_archived)
        piece = self.archives(number)[0]
        return piece._sum(number - piece.n_archived)

    def between(self, first: int, stop: int) -> Iterator[Entry]:
        """Entries ``first + 1`` to ``stop``, each checked as it is read."""
        if first < stop:
            for piece in self.archives(first):
                yield from piece.between(max(first, piece.n_archived), min(stop, piece.n_entries))
        i, n = max(0, first - self.n_archived), stop - self.n_archived
        if i >= n:
            return
        last_sum = self._sum(i)
        while i < n:
            at_once = min(n, i + _LINES_AT_ONCE)
            start = self._start(i)
            data = self._read(start, self._start(at_once))
            for i in range(i, at_once):  # noqa: B020 (goes on where it was)
                line = data[self._start(i) - start : self._start(i + 1) - start - 1]
                entry, last_sum = parsed_line(line, last_sum, self.path, i + 2)
                if entry.number != self.n_archived + i + 1:
                    found = f"found entry {entry.number}; expected entry {self.n_archived + i + 1}"
                    raise FormatError(self.path, i + 2, found)
                yield entry
            i = at_once

    def voter(self, number: int) -> str | None:
        """Whose vote an entry is; None where it is no vote."""
        piece = self if number > self.n_archived else self.archives(number - 1)[0]
        i, lines = number - piece.n_archived - 1, piece.lines.all
        return piece.clients[int(lines.client[i])].decode("utf-8", "surrogatepass") if lines.votes[i] else None

    def votes_of(self, client: str | None, first: int, stop: int) -> NDArray[np.int64]:
        """Numbers of the votes of a client, or of everybody, among entries ``first + 1`` to ``stop``."""
        numbers = []
        for chain in [*self.archives(first), self]:
            counts = chain.lines.column("votes")
            if client is not None:
                number = chain.clients.find(client.encode("utf-8", "surrogatepass"))
                whose = chain.lines.column("client")[: counts.size]  # an entry may just have come
                counts = counts & (whose == (-1 if number is None else number))
            numbers.append(np.flatnonzero(counts) + chain.n_archived + 1)
        found = np.concatenate(numbers)
        return found[(found > first) & (found <= stop)]


class Entries(Sequence[Entry]):
    """Entries of a journal, ``entries[0]`` being the first; slices look at the same journal, and are cheap.

    All of them are read from disk when somebody asks for them.
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
        return next(self._chain.between(number, number + 1))

    def __iter__(self) -> Iterator[Entry]:
        return self._chain.between(self._first, self._stop)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Entries({self._first + 1} to {self._stop} of {self._chain.path})"

    def sum_after(self, number: int) -> str | None:
        """The checksum of entries 1 to ``number`` of the journal; None where it has fewer."""
        return self._chain.sum_after(number)

    def voter(self, number: int) -> str | None:
        """Whose vote an entry of the journal is; None where it is no vote. What is not archived need not be read."""
        return self._chain.voter(number)

    def votes_of(self, client: str | None) -> NDArray[np.int64]:
        """Numbers of the votes of a client, or of everybody, rising. What is not archived need not be read."""
        return self._chain.votes_of(client, self._first, self._stop)


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
    return ReadJournal(Entries(chain), chain.last_sum, n_bytes, torn)


def known_chain(path: Path, folder: Path) -> Chain | None:
    """What is saved of the lines of a journal, where they are as they were; None where all must be read."""
    try:
        bundle = read_bundle(folder, kind=JOURNAL_LINES, mapped=True)  # all of it is copied
        saved = decode(SavedLines, bundle.meta, where=str(folder))
        with open(path, "rb") as file:
            header = file.readline(_LONGEST_HEADER)
        chain = Chain(path, *parsed_header(header.removesuffix(b"\n"), path), header)
        if chain.restore(saved, bundle.arrays):
            return chain
        _log.warning("%s is not that of %s as it is now; the journal is read as a whole", folder, path)
    except (MissingBundleError, FileNotFoundError):
        pass
    except (TercetError, OSError) as error:
        _log.warning("%s cannot be used, and the journal is read as a whole: %s", folder, error)
    return None


def read_chain(path: Path, known: Chain | None = None) -> tuple[Chain, int, int]:
    """Its entries, and how many bytes are whole lines and how many are not; a last line may lack its newline.

    ``known`` has the first of them; what is after these is read, and added to it.
    """
    with open(path, "rb") as file:
        if known is None:
            header = file.readline(_LONGEST_HEADER)
            if not header.endswith(b"\n"):
                if header and not HEADER.encode().startswith(header):
                    raise FormatError(path, 1, f"found {header[:60]!r}; a journal begins with {HEADER.strip()}")
                return Chain(path, 0, "", b""), 0, len(header)
            known = Chain(path, *parsed_header(header[:-1], path), header)
        chain = known
        file.seek(chain.n_bytes)
        for number, line in enumerate(file, start=len(chain.lines) + 2):
            is_whole = line.endswith(b"\n")
            try:
                entry, own_sum = parsed_line(line[:-1] if is_whole else line, chain.last_sum, path, number)
                if entry.number != chain.n_entries + 1:
                    raise FormatError(path, number, f"found entry {entry.number}; expected entry {chain.n_entries + 1}")
            except FormatError:
                if is_whole:
                    raise
                return chain, chain.n_bytes, len(line)  # the beginning of a line
            n_bytes = chain.n_bytes + len(line)
            chain.append(entry, line if is_whole else line + b"\n", own_sum)
            if not is_whole:
                return chain, n_bytes, 0
    return chain, chain.n_bytes, 0


def _crc_of(file: RawIOBase, n_bytes: int) -> int | None:
    """The CRC-32 of the beginning of a file; None where it is shorter."""
    file.seek(0)
    crc = 0
    while n_bytes:
        piece = file.read(min(n_bytes, _READ_AT_ONCE))
        if not piece:
            return None
        crc, n_bytes = zlib.crc32(piece, crc), n_bytes - len(piece)
    return crc
