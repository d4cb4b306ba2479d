"""The journal as one process has it open: entries are added at its end, and moved to archives at its beginning."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import TypeVar

from tercet.errors import JournalError, JournalInUseError
from tercet.serve.journal import HEADER, CompactedHeader, Entry, spelled_entry
from tercet.serve.journal_chain import Chain, Entries, archive_path, known_chain, read_chain
from tercet.serve.journal_tail import Last, Tail, check_tail, read_last
from tercet.store.atomic import sync_folder, try_lock
from tercet.store.bundle import UNCONFIRMED, write_bundle
from tercet.store.codec import encode
from tercet.store.kinds import JOURNAL_LINES

E = TypeVar("E", bound=Entry)

_log = logging.getLogger(__name__)

_LINES = "lines"


class Journal:
    """A journal that one process has open for writing.

    Parameters
    ----------
    path : the file; it and its folder are made where they are missing
    most_bytes : size at which it takes no more

    Examples
    --------
    >>> import tempfile
    >>> from tercet.serve.journal import Preferred
    >>> from tercet.serve.journal_chain import read_journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(Path(folder, "journal.jsonl")) as journal:
    ...         _ = journal.append(lambda n: Preferred(n, "2026-01-01T00:00:00Z", "me", "eyes", "a", "b"))
    ...     [entry.number for entry in read_journal(Path(folder, "journal.jsonl")).entries]
    [1]
    """

    def __init__(self, path: str | PathLike[str], most_bytes: int = 2**30) -> None:
        self.path = Path(path)
        self._most_bytes = most_bytes
        self._temporary = self.path.with_name(f"{self.path.name}.tmp")
        self._is_placed = True  # whether the disk has confirmed that the file is at its path
        self._lock = threading.Lock()
        self._broken: str | None = None
        try:
            self._open()
        except OSError as error:  # of the disk; the journal is what it was
            raise JournalError(f"{self.path} cannot be opened: {error.strerror or error}") from error

    def _open(self) -> None:
        _make_folder(self.path.parent)
        self._file = self._locked()
        try:
            last = read_last(self.path)
            known = known_chain(self.path, snapshot_folder(self.path) / _LINES)
            self._chain, self._n_bytes, self.torn_bytes = read_chain(self.path, known)
            if last is not None:
                check_tail(last, self.path, self._chain.n_entries, self._chain.sum_after(last.number))
            if self.torn_bytes:
                _log.warning(
                    "%s: the last line was cut short by a kill and never acknowledged; its %d bytes are dropped",
                    self.path,
                    self.torn_bytes,
                )
            os.ftruncate(self._file, self._n_bytes)
            os.lseek(self._file, self._n_bytes, os.SEEK_SET)
            if not self._n_bytes:
                self._write(HEADER.encode())
                self._chain = Chain(self.path, 0, "", HEADER.encode())
            else:
                os.lseek(self._file, -1, os.SEEK_END)
                if os.read(self._file, 1) != b"\n":
                    self._write(b"\n")  # a kill took it; the entry is whole
            os.fsync(self._file)
            sync_folder(self.path.parent)
            self._tail = Tail(self.path, self._last)
        except BaseException:
            os.close(self._file)
            raise

    def _locked(self) -> int:
        """The file, open and locked: the one that is at its path, since another service may just have compacted it."""
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            try:
                if not try_lock(file):
                    raise JournalInUseError(
                        f"{self.path} is in use by another service; this one needs a journal of its own"
                    )
                if os.path.samestat(os.fstat(file), os.stat(self.path)):
                    return file
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._chain.n_entries

    @property
    def _last(self) -> Last:
        return Last(self._chain.n_entries, self._chain.last_sum)

    @property
    def entries(self) -> Entries:
        """All that it has until now; what is archived is read when it is asked for."""
        return Entries(self._chain)

    @property
    def n_archived(self) -> int:
        return self._chain.n_archived

    @property
    def withdrawn(self) -> set[int]:
        """Numbers of entries that count no more, by those of the entries that are not archived."""
        return self._chain.withdrawn

    def has_renewed(self, name: str, after: int) -> bool:
        """Whether an entry made allowances whole for a promotion or a bake; one that did is above the number ``after``.

        So archives of entries up to that number are not read.
        """
        chain = self._chain
        return name in chain.renewed or any(name in archive.renewed for archive in chain.archives(after))

    @property
    def n_bytes(self) -> int:
        return self._n_bytes

    def append(self, make: Callable[[int], E], then: Callable[[E], None] | None = None) -> E:
        """Write the entry that ``make`` gives for the next number; returns when it is synced.

        ``then`` is called before the next entry can be written. Raises `JournalError` where the disk refuses, and
        where the file is no longer the one at its path, since a restart would not find what is written to it.
        """
        with self._lock:
            if self._broken is not None:
                raise JournalError(self._broken)
            self._check_file()
            try:
                self._confirm_place()
            except OSError as error:
                raise JournalError(f"the journal cannot be written: {error.strerror}") from error
            entry = make(self._chain.n_entries + 1)
            line, own_sum = spelled_entry(entry, self._chain.last_sum)
            if self._n_bytes + len(line) > self._most_bytes:
                raise JournalError(f"the journal has {self._n_bytes:,} bytes; {self._most_bytes:,} are the most")
            before = self._n_bytes
            try:
                self._write(line)
                os.fsync(self._file)
            except OSError as error:
                self._take_back(before, error)
                raise JournalError(f"the journal cannot be written: {error.strerror}") from error
            try:
                self._tail.note(Last(entry.number, own_sum))
            except OSError as error:
                which = "" if self._take_back_noted(before, error) else f"; {UNCONFIRMED}"
                raise JournalError(f"the journal cannot be written: {error.strerror}{which}") from error
            self._chain.append(entry, line, own_sum)
            if then is not None:
                then(entry)
            return entry

    def keep_lines(self) -> None:
        """Save what stands where in the file, so that the next start need not read all of it."""
        with self._lock:
            saved, arrays = self._chain.arrays()
        write_bundle(snapshot_folder(self.path) / _LINES, kind=JOURNAL_LINES, meta=encode(saved)[0], arrays=arrays)

    def compact(self, number: int) -> bool:
        """Move the entries up to ``number`` to an archive beside the journal; whether there were any.

        The archive is written first, then the journal without them takes the place of the one with them, in one
        rename. A kill leaves the one or the other, and an archive that nobody asks for does no harm.

        Raises `JournalError` where the disk refuses; the journal is then what it was. Where the disk only does not
        confirm the rename the error says so: the shorter journal is in its place, and goes on.
        """
        with self._lock:
            if self._broken is not None:
                raise JournalError(self._broken)
            self._check_file()
            chain = self._chain
            n_moved = number - chain.n_archived
            if not 0 < n_moved <= len(chain.lines):
                return False
            try:
                sum_there = chain.sum_after(number)
                assert sum_there is not None
                header = CompactedHeader(2, number, sum_there).spelled().encode()
                with self._written(chain.bytes_up_to(n_moved)) as archive:
                    os.replace(self._temporary, archive_path(self.path, number))
                    sync_folder(self.path.parent)
                os.close(archive)
                with self._written(itertools.chain([header], chain.bytes_after(n_moved))) as file:
                    after = chain.without(n_moved, header, self._temporary)
                    os.replace(self._temporary, self.path)  # last: what fails before leaves the journal as it was
            except OSError as error:
                raise JournalError(f"the journal cannot be compacted: {error.strerror}") from error
            before = self._file
            self._file, self._n_bytes, self._chain, self._is_placed = file, after.n_bytes, after, False
            with suppress(OSError):  # nobody needs it any more
                os.close(before)
            try:
                self._confirm_place()
            except OSError as error:
                raise JournalError(f"the journal is compacted: {error.strerror}; {UNCONFIRMED}") from error
            return True

    @contextmanager
    def _written(self, pieces: Iterable[bytes]) -> Iterator[int]:
        """A whole file under the temporary name, as private as the journal is, open and locked.

        The block gives it its name; where that fails the file is closed and removed.
        """
        # Only who holds the journal's lock comes here, so one name is enough, and what a kill leaves is written over.
        file = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(file, rest) :]
            os.fsync(file)
            try_lock(file)  # before others can find it
            yield file
        except BaseException:
            os.close(file)
            with suppress(OSError):
                os.unlink(self._temporary)
            raise

    def _confirm_place(self) -> None:
        """Have the disk confirm that the file is at its path.

        Until it has, a power cut may bring back the file before, without what was written to this one.
        """
        if not self._is_placed:
            sync_folder(self.path.parent)
            self._is_placed = True

    def _check_file(self) -> None:
        try:
            open_file, file_there = os.fstat(self._file), os.stat(self.path)
        except OSError as error:
            raise JournalError(f"the journal is not at its place any more: {error.strerror}") from error
        if not os.path.samestat(open_file, file_there):
            raise JournalError("another file is at the place of the journal; restart the service to use that one")
        if open_file.st_size != self._n_bytes:
            raise JournalError(
                f"somebody else changed the journal: it has {open_file.st_size:,} bytes and was left with "
                f"{self._n_bytes:,}"
            )

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self._n_bytes += len(data)

    def _take_back(self, n_bytes: int, error: OSError) -> None:
        """Leave the file as it was; where even that fails, take nothing more, since what is on disk is not known."""
        self._n_bytes = n_bytes
        try:
            os.ftruncate(self._file, n_bytes)
            os.lseek(self._file, n_bytes, os.SEEK_SET)
            os.fsync(self._file)
        except OSError as second:
            self._break(error, second)

    def _take_back_noted(self, n_bytes: int, error: OSError) -> bool:
        """Take back an entry that may be noted as acknowledged; whether it is gone.

        The note goes first. Where it may still be on disk the entry stays, too: a journal behind its note would be
        refused by the next start as one that lost its end.
        """
        try:
            self._tail.take_back(self._last)
        except OSError as second:
            self._break(error, second)
            return False
        self._take_back(n_bytes, error)
        return True

    def _break(self, first: OSError, second: OSError) -> None:
        self._broken = f"the journal takes no more until a restart: {first.strerror}, then {second.strerror}"
        _log.error("%s: %s", self.path, self._broken)

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                self._broken = "the journal is closed"
                self._tail.close()
                os.close(self._file)
                self._file = -1


def snapshot_folder(journal: Path) -> Path:
    """Where what a start works out from a journal is saved."""
    return journal.with_suffix(".snapshots")


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each synced in the one that holds it: a power cut must not take it."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)
