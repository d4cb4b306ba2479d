"""Progress of a long run on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER_SECONDS = 1.0
PLAIN_LINE_EVERY_SECONDS = 5.0
FACTS_WIDTH = 48  # columns: "999M/s  viol 100.0%  valid 1.0000  99:59:59 left"


def facts_line(rate: float, violation_rate: float, left: float | None, validation: float | None = None) -> str:
    """Return the text behind the bar, in at most `FACTS_WIDTH` columns.

    >>> facts_line(49_099, 0.081, 3.2)
    '49k/s  viol 8.1%  0:03 left'
    >>> facts_line(812, 0.4, 5400, validation=0.31234)
    '812/s  viol 40.0%  valid .3123  1:30:00 left'
    """
    facts = [f"{_short(rate)}/s", f"viol {violation_rate:.1%}"]
    if validation is not None:
        text = f"{validation:.4f}"
        facts.append(f"valid {text[1:] if text.startswith('0.') else text}")
    if left is not None:
        minutes, seconds = divmod(round(left), 60)
        hours, minutes = divmod(minutes, 60)
        facts.append(f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left")
    return "  ".join(facts)


def _short(number: float) -> str:
    """A number in at most four characters: 812, 4.1k, 49k, 1.2M."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.0f}{sign}" if number >= 9.95 * size else f"{number / size:.1f}{sign}"
    return f"{number:.0f}"


class ProgressBar:
    """Rate, violations and time left, after the first second of a run.

    ``verbose=None`` shows the bar if standard error is a terminal; True also elsewhere, as a plain line every few
    seconds; False never.
    """

    def __init__(self, title: str, total: int | None, done: int, verbose: bool | None) -> None:
        self.title, self.total, self.first = title, total, done
        self.enabled = sys.stderr.isatty() if verbose is None else verbose
        self.started = time.perf_counter()
        self._next_line = 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._validation: float | None = None

    def say(self, message: str) -> None:
        if self.enabled:
            print(f"{self.title}: {message}", file=sys.stderr, flush=True)

    def update(self, step: int, violation_rate: float, loss: float, validation: float | None) -> None:
        if not self.enabled:
            return
        elapsed = time.perf_counter() - self.started
        if elapsed < SHOW_AFTER_SECONDS:
            return
        rate = (step - self.first) / elapsed
        seconds_left = (self.total - step) / rate if self.total and rate > 0 else None
        if validation is not None:
            self._validation = validation
        if sys.stderr.isatty():
            self._draw(step, facts_line(rate, violation_rate, seconds_left, self._validation))
        elif elapsed >= self._next_line:
            self._next_line = elapsed + PLAIN_LINE_EVERY_SECONDS
            facts = f"{rate:,.0f} steps/s  violations {violation_rate:.1%}  loss {loss:.3f}"
            if validation is not None:
                facts += f"  validation {validation:.4f}"
            if seconds_left is not None:
                facts += f"  {seconds_left:.0f} s left"
            self.say(f"step {step:,}  {facts}")

    def _draw(self, step: int, facts: str) -> None:
        if self._bar is None:
            self._open()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=step, facts=facts)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        console = Console(stderr=True)
        whole = self.total is not None
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            # A line: the title, the bar, three digits of per cent, the facts, and a blank between any two.
            BarColumn(bar_width=max(8, min(24, console.width - len(self.title) - FACTS_WIDTH - 8))),
            *([TaskProgressColumn("{task.percentage:>3.0f}%")] if whole else []),
            TextColumn("{task.fields[facts]}", markup=False),
            console=console,
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
