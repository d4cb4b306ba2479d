"""What the verbs show of a long job: a bar on a terminal, or now and then a line. Learning shows its own bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tercet.cli.terminal import echo, open_console, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

SHOW_AFTER_SECONDS = 1.0
SAY_EVERY_SECONDS = 5.0


def open_bar(console: Console, count: ProgressColumn, *columns: ProgressColumn, disable: bool = False) -> Progress:
    """A bar that is gone when it ends: what is being done, how much of it, and what else the columns say."""
    from rich.progress import BarColumn, Progress, TextColumn

    name = TextColumn("{task.description}", markup=False)
    return Progress(name, BarColumn(bar_width=24), count, *columns, console=console, transient=True, disable=disable)


class ReadingBar:
    """A bar for the file being read, once that has lasted a second; gone when the file is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started: dict[str, float] = {}
        self._bar: Progress | None = None

    def __call__(self, path: str | PathLike[str], done: int, size: int) -> None:
        name = str(path)
        if done >= size:  # read to its end, or closed before
            self._started.pop(name, None)
            self.close()
            return
        started = self._started.setdefault(name, time.monotonic())
        if time.monotonic() - started < SHOW_AFTER_SECONDS:
            return
        if self._bar is None:
            from rich.progress import DownloadColumn, TextColumn, TimeRemainingColumn

            self._bar = open_bar(self._console, DownloadColumn(), TextColumn("left"), TimeRemainingColumn())
            self._bar.add_task(f"reading {plain(Path(name).name)}", total=size)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def show_reading() -> Iterator[None]:
    """Show a bar for each large file read within the block, or a line now and then where there is no terminal."""
    from tercet.data.lines import watch_reading  # loads NumPy, which a help text need not wait for

    if not sys.stderr.isatty():
        with watch_reading(ReadingLines()):
            yield
        return
    bar = ReadingBar(open_console(stderr=True))
    try:
        with watch_reading(bar):
            yield
    finally:
        bar.close()


class ReadingLines:
    """Says how much of a file is read, every few seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_EVERY_SECONDS

    def __call__(self, path: str | PathLike[str], done: int, size: int) -> None:
        if done < size and time.monotonic() >= self._next:
            self._next = time.monotonic() + SAY_EVERY_SECONDS
            echo(f"reading {path}: {done / size:.0%}", err=True)


class DocumentCount:
    """Says how many documents are done, every few seconds of a long job."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_EVERY_SECONDS

    def __call__(self, done: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SAY_EVERY_SECONDS
            echo(f"{done:,} documents so far", err=True)
