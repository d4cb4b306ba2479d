"""What a fit says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

from tercet.errors import DamagedBundleError
from tercet.measure import Evaluation, PairedTest, paired_test
from tercet.report.details import Details
from tercet.store import Fields


@dataclass(frozen=True)
class SystemResult:
    """One system on the untouched queries: measure -> (mean, low end, high end of the 95 % interval)."""

    name: str
    values: dict[str, tuple[float, float, float]]

    @classmethod
    def of(cls, name: str, evaluation: Evaluation) -> SystemResult:
        return cls(name, {str(m): (evaluation.mean(m), *evaluation.interval(m)) for m in evaluation.measures})

    def to_meta(self) -> dict[str, Any]:
        # A list, since a saved dict does not keep its order.
        return {"name": self.name, "values": [[m, *map(_stored, v)] for m, v in self.values.items()]}

    @classmethod
    def from_meta(cls, meta: Any) -> SystemResult:
        fields = Fields(meta, "report system")
        values = {}
        for row in fields.take("values", list):
            if not isinstance(row, list) or len(row) != 4 or not isinstance(row[0], str):
                raise DamagedBundleError(f"a report has {row!r}; expected a measure, its mean and its interval")
            values[row[0]] = read_numbers([float("nan") if v is None else v for v in row[1:]], 3)
        system = cls(fields.take("name", str), values)  # type: ignore[arg-type]
        fields.done()
        return system


@dataclass(frozen=True)
class Report:
    """What was tried, what was chosen on validation, and how it does on queries that nothing was chosen on.

    Printing it gives the table of the systems and the decision. ``systems`` are the starts that learning could have
    had, the chosen one last of them, and then what was learned, where that was accepted; ``rivals`` are others, such as
    RM3. ``details`` is what `tercet.report.page` shows besides; reports of earlier versions have neither.
    """

    measure: str
    n_train: int
    n_validation: int
    n_test: int
    split: str
    systems: tuple[SystemResult, ...]
    accepted: bool
    decision: str
    change: tuple[float, float, float, float] | None
    chosen: dict[str, Any]
    seconds: float
    rivals: tuple[SystemResult, ...] = ()
    details: Details | None = None

    def __str__(self) -> str:
        measures = list(self.systems[0].values)
        shown = (*self.rivals, *self.systems)
        width = max(len(s.name) for s in shown)
        lines = [
            f"{self.n_train} training queries, {self.n_validation} for validation, {self.n_test} untouched. "
            + self.split,
            " " * width + "".join(f"  {m:>22}" for m in measures),
        ]
        for system in shown:
            cells = ""
            for mean, low, high in system.values.values():
                cells += f"  {shown_interval(mean, low, high):>22}"
            lines.append(f"{system.name:<{width}}{cells}")
        if self.change is not None:
            difference, low, high, p_value = self.change
            lines.append(
                f"{self.systems[-1].name} against {self.systems[-2].name}, untouched queries, {self.measure}: "
                f"{difference:+.3f} [{low:+.3f}, {high:+.3f}], paired t-test {shown_p(p_value)}"
            )
        lines.append(self.decision)
        return "\n".join(lines)

    def to_meta(self) -> dict[str, Any]:
        added: dict[str, Any] = {}  # absent rather than empty, as before there were any
        if self.rivals:
            added["rivals"] = [rival.to_meta() for rival in self.rivals]
        if self.details is not None:
            added["details"] = self.details.to_meta()
        return added | {
            "measure": self.measure,
            "n_train": self.n_train,
            "n_validation": self.n_validation,
            "n_test": self.n_test,
            "split": self.split,
            "systems": [system.to_meta() for system in self.systems],
            "accepted": self.accepted,
            "decision": self.decision,
            "change": None if self.change is None else list(self.change),
            "chosen": self.chosen,
            "seconds": self.seconds,
        }

    @classmethod
    def from_meta(cls, meta: dict[str, Any]) -> Report:
        fields = Fields(meta, "report")
        systems = tuple(SystemResult.from_meta(entry) for entry in fields.take("systems", list))
        rivals = tuple(SystemResult.from_meta(entry) for entry in fields.take("rivals", list, default=[]))
        if not systems or any(s.values.keys() != systems[0].values.keys() for s in (*systems, *rivals)):
            raise DamagedBundleError("a report must have systems, all with the same measures")
        details = fields.take("details", dict | None, default=None)
        change = fields.take("change", list | None)
        measure = fields.take("measure", str)
        if measure not in systems[0].values:
            raise DamagedBundleError(f"a report has the measure {measure!r}, by which no system was measured")
        report = cls(
            measure=measure,
            n_train=fields.take("n_train", int),
            n_validation=fields.take("n_validation", int),
            n_test=fields.take("n_test", int),
            split=fields.take("split", str),
            systems=systems,
            accepted=fields.take("accepted", bool),
            decision=fields.take("decision", str),
            change=None if change is None else read_numbers(change, 4),  # type: ignore[arg-type]
            chosen=fields.take("chosen", dict),
            seconds=fields.take("seconds", float),
            rivals=rivals,
            details=None if details is None else Details.from_meta(details),
        )
        fields.done()
        return report


def shown_interval(mean: float, low: float, high: float, digits: int = 3) -> str:
    """A mean and its interval; a single query has none."""
    return f"{mean:.{digits}f}" if isnan(low) else f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def shown_p(p_value: float) -> str:
    """A p-value as people read it; far beyond any threshold its digits mean nothing."""
    return f"p = {p_value:.2g}" if p_value >= 1e-4 else "p < 0.0001"


def _stored(value: float) -> float | None:
    """JSON has no NaN; a single query has no interval."""
    return None if isnan(value) else value


def read_numbers(values: Any, n: int) -> tuple[float, ...]:
    """So many floats of a saved report."""
    if not isinstance(values, list) or len(values) != n or not all(type(v) in (int, float) for v in values):
        raise DamagedBundleError(f"a report has {values!r}; expected {n} numbers")
    try:
        return tuple(float(v) for v in values)
    except OverflowError:
        raise DamagedBundleError("a report has a number that no float holds") from None


def change_between(learned: Evaluation, start: Evaluation, measure: str) -> tuple[float, float, float, float] | None:
    """Difference, interval and p-value over the same queries; None when there is one query only."""
    if len(learned.qids) < 2:
        return None
    test: PairedTest = paired_test(learned, start, measure=measure)
    return test.difference, test.low, test.high, test.p_value
