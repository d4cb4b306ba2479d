"""A disk that fails: the n-th call to it of one kind, once or from then on; and all of them in turn.

``every_failure`` makes the first call fail, then the second, until all goes well. After each failure the disk is whole
again, and what is there must be what was there before, or what the work makes, and the error must have said which. All
of them, where the tests try one in seven, so that they do not take minutes::

    PYTHONPATH=src:tests python -m support.failing_disk
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tercet.errors import TercetError
from tercet.store.bundle import UNCONFIRMED

CALLS = ("fsync", "replace", "write", "mkdir", "unlink", "rmdir", "open")


@dataclass
class Disk:
    """Counts calls of one kind, and fails at the n-th, or from it on."""

    call: str
    nth: int
    number: int
    forever: bool
    seen: int = 0
    failed: int = 0

    def step(self) -> None:
        self.seen += 1
        if self.seen == self.nth or (self.forever and self.seen > self.nth):
            self.failed += 1
            raise OSError(self.number, os.strerror(self.number))


class FailingFile:
    """A file whose writes may fail."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, data: Any) -> int:
        self._disk.step()
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> FailingFile:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)


@contextlib.contextmanager
def failing(disk: Disk) -> Iterator[None]:
    """Have the disk fail within the block. Reading goes on, as it does on a disk that can no longer be written."""
    real_open, real = builtins.open, {name: getattr(os, name) for name in CALLS}

    def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        writes = any(letter in mode for letter in "wxa+")
        if writes and disk.call == "open":
            disk.step()
        handle = real_open(file, mode, *arguments, **options)
        return FailingFile(handle, disk) if writes and disk.call == "write" else handle

    def instead(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name == disk.call and (name != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR)):
                disk.step()
            return real[name](*arguments, **options)

        return call

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(builtins, "open", opened))
        for name in real:
            stack.enter_context(mock.patch.object(os, name, instead(name)))
        yield


@dataclass(frozen=True)
class Work:
    """Something that writes: what must be there first, the work, and what can be read afterwards.

    ``resumes``: it writes several times and goes on from any of them; the state is looked at when it has gone on.
    """

    prepare: Callable[[Path], Any]
    go: Callable[[Path], Any]
    state: Callable[[Path], Any]
    resumes: bool = False


def every_failure(work: Work, folder: Path, stride: int = 1) -> int:
    """Try every failure of a work, or one in ``stride``; returns how many there were.

    Each call fails with both errors, once and from then on; where some are left out, these four take turns.
    """
    ready, path = folder / "ready", folder / "tried"
    ready.mkdir(parents=True)
    work.prepare(ready)
    old = work.state(ready)
    shutil.copytree(ready, path)
    work.go(path)
    new = work.state(path)
    assert new != old
    ways = [(number, forever) for number in (errno.EIO, errno.ENOSPC) for forever in (False, True)]
    n_failures = 0
    for call in CALLS:
        for nth in range(1, 10_000, stride):
            tried = ways if stride == 1 else [ways[nth // stride % len(ways)]]
            results = [_try(work, ready, path, Disk(call, nth, *way), old, new) for way in tried]
            n_failures += sum(results)
            if not any(results):
                break
    return n_failures


def _try(work: Work, ready: Path, path: Path, disk: Disk, old: Any, new: Any) -> bool:
    """Whether the disk failed; what is there then is the old or the new, and an error says which."""
    shutil.rmtree(path)
    shutil.copytree(ready, path)
    output = None
    with failing(disk):
        try:
            work.go(path)
        except TercetError as error:
            output = str(error)
    what = f"{disk}: {output}"
    if output is not None:
        assert os.strerror(disk.number) in output, what
        now = old if work.resumes else work.state(path)
        assert now in (old, new), what
        assert work.resumes or (UNCONFIRMED in output) == (now == new), what
        if now == old:
            work.go(path)  # the same again, with a disk that is whole
    assert work.state(path) == new, what
    return disk.failed > 0


def main() -> int:
    from support.disk_works import WORKS

    for name, work in WORKS.items():
        with tempfile.TemporaryDirectory(prefix="tercet-disk-") as folder:
            print(f"{name}: {every_failure(work, Path(folder))} failures, none left a third state")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
