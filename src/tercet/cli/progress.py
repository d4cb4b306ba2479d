"""What is shown while a large file is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tercet.data.watching import watch_reading

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

SHOW_AFTER_SECONDS = 1.0
SAY_EVERY_SECONDS = 5.0


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
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("reading {task.description}"),
                BarColumn(bar_width=24),
                DownloadColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.add_task(Path(name).name, total=size)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def show_reading() -> Iterator[None]:
    """Show a bar for each large file read within the block, when standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    bar = ReadingBar(Console(stderr=True))
    try:
        with watch_reading(bar):
            yield
    finally:
        bar.close()


class DocumentCount:
    """Says how many documents are done, every few seconds of a long job."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_EVERY_SECONDS

    def __call__(self, done: int) -> None:
        if time.monotonic() >= self._next:
            click.echo(f"{done:,} documents so far", err=True)
            self._next = time.monotonic() + SAY_EVERY_SECONDS
