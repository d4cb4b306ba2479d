"""Learning curves: what training said at each report, kept in memory and written as CSV."""

from __future__ import annotations

import csv
import io
import os
from typing import NamedTuple, Protocol

from tercet.store.atomic import write_file_atomically


class TrainingEvent(Protocol):
    """What a learning curve reads from the event that callbacks are given."""

    @property
    def step(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def violation_rate(self) -> float: ...
    @property
    def loss(self) -> float: ...
    @property
    def validation(self) -> float | None: ...


class CurvePoint(NamedTuple):
    """One row of a learning curve; `validation` is None where nothing was validated."""

    step: int
    seconds: float
    violation_rate: float
    loss: float
    validation: float | None


class LearningCurve:
    """Record training progress; pass it in ``callbacks``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> curve = LearningCurve()
    >>> curve(SimpleNamespace(step=1000, seconds=0.5, violation_rate=0.2, loss=0.1, validation=None))
    >>> curve.rows[0].step
    1000
    """

    def __init__(self) -> None:
        self._rows: list[CurvePoint] = []

    def __call__(self, event: TrainingEvent) -> None:
        """Keep one event."""
        validation = None if event.validation is None else float(event.validation)
        self._rows.append(
            CurvePoint(
                int(event.step),
                float(event.seconds),
                float(event.violation_rate),
                float(event.loss),
                validation,
            )
        )

    @property
    def rows(self) -> tuple[CurvePoint, ...]:
        """Everything recorded so far, oldest first."""
        return tuple(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows with a header; a reader sees the old file or the whole new one, never a part."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(CurvePoint._fields)
        writer.writerows(self._rows)  # None is written as an empty field, floats so that they read back
        write_file_atomically(path, text.getvalue().encode())
