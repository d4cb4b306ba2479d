"""The last entry that was acknowledged, kept apart from the journal, so that a journal that lost its end is found out.

A journal that was cut at the end of a line is a whole, shorter journal. So its last number and sum are also in a small
file beside it, ``journal.last``, synced after the entry and before its answer. The file has two slots that take turns:
a kill while one is written leaves the other. A journal may be ahead of them, by what nobody was told of; never behind.
"""

from __future__ import annotations

import errno
import hashlib
import os
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from tercet.errors import JournalError
from tercet.store.atomic import sync_folder

_NO_SUM = "-" * 32  # before the first entry


class Last(NamedTuple):
    """An entry's number, and the journal's sum there."""

    number: int
    sum: str

    def spelled(self) -> bytes:
        body = f"{self.number:015d} {self.sum or _NO_SUM}"
        return f"{body} {hashlib.sha256(body.encode()).hexdigest()[:16]}\n".encode()


_SLOT_BYTES = len(Last(0, "").spelled())


def tail_path(journal: Path) -> Path:
    return journal.with_suffix(".last")


def read_last(journal: Path) -> Last | None:
    """What was acknowledged last of a journal; None where no service has noted it yet."""
    path = tail_path(journal)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    slots = [data[:_SLOT_BYTES], data[_SLOT_BYTES:]]
    whole = [last for last in map(_parsed, slots) if last is not None]
    if not whole:
        raise JournalError(
            f"{path} is damaged, so nobody can tell whether {journal.name} has all that was acknowledged; look at the "
            "end of the journal, then remove the file to go on"
        )
    return max(whole)


def _parsed(slot: bytes) -> Last | None:
    try:
        number, own_sum, _ = slot.decode("ascii").split(" ")
        last = Last(int(number), "" if own_sum == _NO_SUM else own_sum)
    except ValueError:
        return None
    return last if last.spelled() == slot else None


def check_tail(last: Last | None, path: str | PathLike[str], n_entries: int, sum_there: str | None) -> None:
    """Raise where a journal is not the one that was acknowledged, or ends too soon; ``sum_there`` is its own there."""
    if last is None or sum_there == last.sum:
        return
    if last.number > n_entries:
        found = f"it ends after entry {n_entries}, but entry {last.number} was acknowledged: its end is lost"
    else:
        found = f"its entry {last.number} is not the one that was acknowledged: this is another journal"
    raise JournalError(
        f"{path}: {found}. Put the journal back from a copy, or remove {tail_path(Path(path)).name} beside it to go on "
        "without what is lost"
    )


class Tail:
    """The small file, as one process has it open. What it says is on disk when `note` returns."""

    def __init__(self, journal: Path, last: Last) -> None:
        path = tail_path(journal)
        is_new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            self.note(last)
            if is_new:
                sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def note(self, last: Last) -> None:
        """An entry may be acknowledged after this."""
        self._write(last, last.number % 2)
        os.fsync(self._file)

    def take_back(self, last: Last) -> None:
        """The entry after ``last`` will not be acknowledged."""
        self._write(last, (last.number + 1) % 2)
        self.note(last)

    def _write(self, last: Last, slot: int) -> None:
        os.lseek(self._file, _SLOT_BYTES * slot, os.SEEK_SET)
        if os.write(self._file, last.spelled()) != _SLOT_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
