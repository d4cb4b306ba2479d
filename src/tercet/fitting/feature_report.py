"""What a fit of feature vectors says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any, Literal

from tercet.errors import DamagedBundleError
from tercet.measure import Evaluation
from tercet.report import SystemResult, change_between, read_numbers, shown_interval, shown_p
from tercet.store import Fields

Choice = Literal["best", "sparsest"]
CHOICES: tuple[Choice, ...] = ("best", "sparsest")
RULES = {
    "best": "the best on {where}",
    "sparsest": "the sparsest within one standard error of the best on {where}",
}

# Difference of the means, low and high end of its 95 % interval, p-value.
Change = tuple[float, float, float, float]


@dataclass(frozen=True)
class PathPoint:
    """One penalty: how many features it leaves, and the mean of the measure on the queries that chose.

    ``error`` is the standard error of the difference to the best point over the same queries; None for one query.
    """

    l1: float
    n_used: int
    value: float
    error: float | None


@dataclass(frozen=True)
class FeatureReport:
    """How a feature model was chosen, and how it does against the best single feature.

    Attributes
    ----------
    measure : what the choice was by
    ranker : class of what was learned
    choose : "best" or "sparsest"
    n_features, n_used : features there are, and those with a weight; the latter None for a ranker without weights
    n_train : queries learned from
    split : which queries chose
    reported_on : which queries the table is of
    systems : the best single feature, and what was learned
    changes : for each measure the difference between the two on the same queries; None for one query
    path : penalties, falling; empty when none was chosen between
    chosen : place of the chosen penalty in the path
    used_by_fold : features used in each fold, where each chose for itself
    notes : what the reader should know about the data
    learn_seconds, seconds : for the rankers of the path on all training rows, and for everything

    Printing it gives the table and the choice; `path_table` gives the path.
    """

    measure: str
    ranker: str
    choose: Choice
    n_features: int
    n_used: int | None
    n_train: int
    split: str
    reported_on: str
    systems: tuple[SystemResult, SystemResult]
    changes: tuple[Change, ...] | None
    path: tuple[PathPoint, ...]
    chosen: int | None
    used_by_fold: tuple[int, ...]
    notes: tuple[str, ...]
    learn_seconds: float
    seconds: float

    @property
    def sparsity_ratio(self) -> float | None:
        """The share of features used."""
        return None if self.n_used is None else self.n_used / self.n_features

    def __str__(self) -> str:
        lines = [f"{self.n_train:,} training queries, {self.n_features:,} features. {self.split}", ""]
        lines += self._table()
        lines += [f"Means over {self.reported_on}, with 95 % intervals.", "", self._decision()]
        if self.used_by_fold:
            mean = sum(self.used_by_fold) / len(self.used_by_fold)
            shown = ", ".join(map(str, self.used_by_fold))
            lines.append(f"Features used by fold: {shown} (sparsity ratio {mean / self.n_features:.4f}).")
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _table(self) -> list[str]:
        measures = list(self.systems[0].values)
        columns = [["", *measures]]
        for system in self.systems:
            columns.append([system.name, *(shown_interval(*system.values[m]) for m in measures)])
        if self.changes is not None:
            shown = [f"{d:+.3f} [{low:+.3f}, {high:+.3f}]  {shown_p(p)}" for d, low, high, p in self.changes]
            columns.append(["difference, paired t-test", *shown])
        widths = [max(map(len, column)) for column in columns]
        rows = zip(*columns, strict=True)
        return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]

    def _decision(self) -> str:
        used = "" if self.n_used is None else f"{self.n_used} of {self.n_features} features"
        ratio = "" if self.n_used is None else f" (sparsity ratio {self.sparsity_ratio:.4f})"
        if self.chosen is None:
            return f"{self.ranker}: {used or 'no weights of features'}{ratio}."
        point = self.path[self.chosen]
        why = RULES[self.choose].format(where=self.measure)
        chosen = f"the penalty {point.l1:.5g}, of {len(self.path)} {why} ({point.value:.4f})"
        return f"{self.ranker} with {chosen}: {used}{ratio}."

    def path_table(self) -> str:
        """Penalty, features used and value of each point of the path, the chosen one marked."""
        if not self.path:
            return "There is no path: no penalty was chosen."
        lines = [f"   {'penalty':>12}  {'features':>8}  {self.measure} on the queries that chose"]
        for place, point in enumerate(self.path):
            mark = "→" if place == self.chosen else " "
            lines.append(f"{mark}  {point.l1:>12.6g}  {point.n_used:>8,}  {point.value:.4f}")
        return "\n".join(lines)

    # -- saving -------------------------------------------------------------------------------------------------

    def to_meta(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "systems": [system.to_meta() for system in self.systems],
            "changes": None if self.changes is None else [list(change) for change in self.changes],
            "path": [[point.l1, point.n_used, point.value, point.error] for point in self.path],
            "used_by_fold": list(self.used_by_fold),
            "notes": list(self.notes),
        }

    @classmethod
    def from_meta(cls, meta: dict[str, Any]) -> FeatureReport:
        fields = Fields(meta, "report")
        plain = {name: fields.take(name, types) for name, types in _PLAIN.items()}
        systems = tuple(SystemResult.from_meta(entry) for entry in fields.take("systems", list))
        if len(systems) != 2 or not systems[0].values or systems[0].values.keys() != systems[1].values.keys():
            raise DamagedBundleError("a report must have two systems with the same measures")
        changes = fields.take("changes", list | None)
        path = tuple(_point(entry) for entry in fields.take("path", list))
        report = cls(
            **plain,
            systems=systems,
            changes=None if changes is None else tuple(read_numbers(c, 4) for c in changes),  # type: ignore[misc]
            path=path,
            used_by_fold=_all_of(int, fields.take("used_by_fold", list)),
            notes=_all_of(str, fields.take("notes", list)),
        )
        fields.done()
        if report.changes is not None and len(report.changes) != len(systems[0].values):
            raise DamagedBundleError("a report must have one difference for each measure")
        if report.choose not in CHOICES or report.n_features < 1:
            raise DamagedBundleError(f"a report has the choice {report.choose!r} and {report.n_features} features")
        if (report.chosen is None) != (not path) or not 0 <= (report.chosen or 0) < max(len(path), 1):
            raise DamagedBundleError(f"a report has {len(path)} penalties, and chose number {report.chosen}")
        return report


_PLAIN: dict[str, Any] = {
    "measure": str,
    "ranker": str,
    "choose": str,
    "n_features": int,
    "n_used": int | None,
    "n_train": int,
    "split": str,
    "reported_on": str,
    "chosen": int | None,
    "learn_seconds": float,
    "seconds": float,
}


def _point(entry: Any) -> PathPoint:
    if not isinstance(entry, list) or len(entry) != 4 or type(entry[1]) is not int or entry[1] < 0:
        raise DamagedBundleError(f"a report has {entry!r}; expected a penalty, features used, a value and its error")
    l1, value = read_numbers([entry[0], entry[2]], 2)
    return PathPoint(l1, entry[1], value, None if entry[3] is None else read_numbers([entry[3]], 1)[0])


def _all_of(kind: type, values: list[Any]) -> tuple[Any, ...]:
    if not all(type(value) is kind for value in values):
        raise DamagedBundleError(f"a report has {values!r}; expected values of type {kind.__name__} only")
    return tuple(values)


def changes_between(learned: Evaluation, baseline: Evaluation) -> tuple[Change, ...] | None:
    """The difference in every measure over the same queries; None when there is one query only."""
    found = [change_between(learned, baseline, str(measure)) for measure in learned.measures]
    known = tuple(change for change in found if change is not None and not any(map(isnan, change)))
    return known if len(known) == len(found) else None
