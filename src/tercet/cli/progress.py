"""Progress of long jobs: a line every few seconds. Training shows a bar of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

from tercet.cli.terminal import echo

SAY_EVERY_SECONDS = 5.0


class ProgressLines:
    """Print a line on standard error at most every few seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_EVERY_SECONDS

    def _say(self, line: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SAY_EVERY_SECONDS
            echo(line, err=True)

    def reading(self, path: str | PathLike[str], done: int, size: int) -> None:
        """Report how much of a file is read."""
        if done < size:
            self._say(f"reading {path}: {done / size:.0%}")

    def documents(self, done: int) -> None:
        """Report the number of documents that are done."""
        self._say(f"{done:,} documents so far")


@contextmanager
def show_reading() -> Iterator[None]:
    """Report the progress of each large file that is read within the block."""
    from tercet.data.lines import watch_reading  # loads NumPy, which a help text need not wait for

    with watch_reading(ProgressLines().reading):
        yield
