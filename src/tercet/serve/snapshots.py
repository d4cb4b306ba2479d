"""Snapshots: what a start works out from a journal, saved beside it now and then, so that the next need not.

``journal.snapshots/`` has a bundle for each model that was served of late, a replay over it up to some entry. It is
taken where the journal has the same sum there, and where model, bounds, code and machine are the same; whatever else it
is, damaged or from elsewhere, it is left alone, and the journal is replayed from nothing. So a snapshot saves time, and
never decides what is served. It is written under another name, synced and renamed, as every bundle is.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import scipy
from numba.core.codegen import get_host_cpu_features
from numpy.typing import NDArray

from tercet.errors import MissingBundleError, TercetError
from tercet.kernels.compiler import own_fingerprint
from tercet.serve.bounds import SNAPSHOT_EVERY
from tercet.serve.journal_chain import Entries
from tercet.serve.journal_file import Journal, snapshot_folder
from tercet.serve.replay import Replay
from tercet.store.bundle import read_bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.digest import digest_of
from tercet.store.kinds import REPLAY
from tercet.store.schema import Bounds

_log = logging.getLogger(__name__)

_AT_THE_END: Final = 10  # when a service ends, a tenth of that is enough for another
_MOST_KEPT: Final = 3  # models
_PREFIX: Final = "replay-"
_NOT_SAVED: Final = "no snapshot of the journal is saved: %s"


@dataclass(frozen=True)
class Stamp:
    """What a snapshot stands for: entries up to ``number`` of the journal with this sum, over a model, by this code.

    ``index`` is the digest of the documents; where they are others now, those that were spoken of are compared.
    """

    number: Annotated[int, Bounds(0)]
    sum: str
    n_baked: Annotated[int, Bounds(0)]
    model: str
    bounds: str
    code: str
    index: str

    def is_of(self, other: Stamp) -> bool:
        """Whether what is saved is that of another journal's place, documents aside."""
        return (self.model, self.bounds, self.code, self.n_baked) == (
            other.model,
            other.bounds,
            other.code,
            other.n_baked,
        )


class Snapshots:
    """The snapshots of a journal.

    Parameters
    ----------
    journal : whose they are
    every : entries after which another is written; 0 for none, and none is read
    """

    def __init__(self, journal: Journal, every: int = SNAPSHOT_EVERY) -> None:
        self._journal, self._every = journal, every
        self._folder = snapshot_folder(journal.path)
        self._saved: dict[str, int] = {}  # by model: up to which entry

    def restore(self, state: Replay, model: str, entries: Entries, n_baked: int) -> int | None:
        """Have a new replay go on from what is saved for a model; up to which entry that is, or None.

        A state that could not be restored must not be used.
        """
        folder = self._folder_of(model)
        if not self._every:
            return None
        try:
            bundle = read_bundle(folder, kind=REPLAY, mapped=True)  # all of it is copied
            stamp = decode(Stamp, bundle.meta, where=str(folder))
            current = _stamp(stamp.number, stamp.sum, n_baked, model, state)
            if not stamp.is_of(current) or entries.sum_after(stamp.number) != stamp.sum:
                _log.warning("%s is of another journal, model or version; all entries are replayed", folder)
                return None
            state.restore(bundle.arrays, same_documents=bool(stamp.index) and stamp.index == current.index)
        except MissingBundleError:
            return None
        except (TercetError, OSError, MemoryError) as error:
            _log.warning("%s cannot be used, and all entries are replayed: %s", folder, error)
            return None
        self._saved[model] = stamp.number
        return stamp.number

    def keep(self, state: Replay, model: str, number: int, n_baked: int, at_end: bool = False) -> bool:
        """Save a replay that has all entries up to a number, where one is due; whether it was."""
        save = self.due(state, model, number, n_baked, at_end)
        return save is not None and save()

    def due(
        self, state: Replay, model: str, number: int, n_baked: int, at_end: bool = False
    ) -> Callable[[], bool] | None:
        """What saves a replay that has all entries up to a number, and says whether it did; None where none is due.

        It may be called by another thread; until it ends, the replay may look up documents of questions that come, and
        apply nothing. Where documents of others are still to be looked up it waits until they are, as that would change
        what is being written. What cannot be written is logged: the journal has it all.
        """
        due = self._every / (_AT_THE_END if at_end else 1)
        if not self._every or number - self._saved.get(model, n_baked) < due:
            return None
        if not (at_end or state.is_looked_up):
            return None
        self._saved[model] = number  # also where it fails, lest every entry tries it again
        try:
            own_sum = self._journal.entries.sum_after(number)
            assert own_sum is not None
            arrays = state.arrays()
        except (TercetError, OSError, MemoryError) as error:
            _log.warning(_NOT_SAVED, error)
            return None
        return partial(self._write, _stamp(number, own_sum, n_baked, model, state), arrays)

    def _write(self, stamp: Stamp, arrays: dict[str, NDArray[Any]]) -> bool:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)  # as private as the journal is
            self._journal.keep_lines()
            write_bundle(self._folder_of(stamp.model), kind=REPLAY, meta=encode(stamp)[0], arrays=arrays)
            self._remove_others()
        except (TercetError, OSError, MemoryError) as error:
            _log.warning(_NOT_SAVED, error)
            return False
        return True

    def _folder_of(self, model: str) -> Path:
        return self._folder / f"{_PREFIX}{model[:16]}"

    def _remove_others(self) -> None:
        folders = [path for path in self._folder.iterdir() if path.name.startswith(_PREFIX) and path.is_dir()]
        for path in sorted(folders, key=lambda path: -path.stat().st_mtime)[_MOST_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


def _stamp(number: int, own_sum: str, n_baked: int, model: str, state: Replay) -> Stamp:
    bounds = digest_of(asdict(state.bounds))
    return Stamp(number, own_sum, n_baked, model, bounds, code_fingerprint(), state.index_digest)


@cache
def code_fingerprint() -> str:
    """A digest of all that decides over the bits of a replay beside its input: sources, libraries, processor."""
    digest = hashlib.sha256(own_fingerprint().encode())
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    names = (np.__version__, scipy.__version__, platform.machine(), get_host_cpu_features())
    digest.update(" ".join(names).encode())
    return digest.hexdigest()
