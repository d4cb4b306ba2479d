"""What a long run shows on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER_SECONDS = 1.0
PLAIN_LINE_EVERY_SECONDS = 5.0


class ProgressBar:
    """Rate, violations, loss and time left, once a run has lasted a second.

    ``verbose=None`` shows it when standard error is a terminal; True also elsewhere, as a plain line every few seconds;
    False never.
    """

    def __init__(self, title: str, total: int | None, done: int, verbose: bool | None) -> None:
        self.title, self.total, self.first = title, total, done
        self.enabled = sys.stderr.isatty() if verbose is None else verbose
        self.started = time.perf_counter()
        self._next_line = 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def say(self, message: str) -> None:
        if self.enabled:
            print(f"{self.title}: {message}", file=sys.stderr, flush=True)

    def update(self, step: int, violation_rate: float, loss: float, validation: float | None) -> None:
        if not self.enabled:
            return
        elapsed = time.perf_counter() - self.started
        if elapsed < SHOW_AFTER_SECONDS:
            return
        facts = f"{(step - self.first) / elapsed:,.0f} steps/s  violations {violation_rate:.1%}  loss {loss:.3f}"
        if validation is not None:
            facts += f"  validation {validation:.4f}"
        if sys.stderr.isatty():
            self._draw(step, facts)
        elif elapsed >= self._next_line:
            self._next_line = elapsed + PLAIN_LINE_EVERY_SECONDS
            if self.total and step > self.first:
                facts += f"  {elapsed * (self.total - step) / (step - self.first):.0f} s left"
            self.say(f"step {step:,}  {facts}")

    def _draw(self, step: int, facts: str) -> None:
        if self._bar is None:
            self._open()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=step, facts=facts)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self.title, total=self.total, completed=self.first, facts="")
        self._bar.start()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
