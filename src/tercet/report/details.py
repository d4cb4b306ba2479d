"""What a report says beyond its table: how learning went, query by query, what was learned, and from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from tercet.errors import DamagedBundleError
from tercet.store import Fields


@dataclass(frozen=True)
class Curve:
    """The measure on validation queries while one candidate was learned: (steps done, value)."""

    name: str
    points: tuple[tuple[int, float], ...]

    def to_meta(self) -> dict[str, Any]:
        return {"name": self.name, "points": [list(point) for point in self.points]}

    @classmethod
    def from_meta(cls, meta: Any) -> Curve:
        fields = Fields(meta, "report curve")
        points = tuple((_whole(p[0]), _number(p[1])) for p in _rows(fields.take("points", list), 2))
        curve = cls(fields.take("name", str), points)
        fields.done()
        return curve


@dataclass(frozen=True)
class Learning:
    """How learning went on validation queries.

    Attributes
    ----------
    start, final : the mean of the measure before learning, and of what was learned and blended
    difference, standard_error : of the paired difference of the two; the error is None of a single query
    n_queries : validation queries of those means
    curves : one for each candidate, the chosen one first
    curve_start, curve_queries : the mean before learning on the queries the curves are measured on, and how many
    """

    start: float
    final: float
    difference: float
    standard_error: float | None
    n_queries: int
    curves: tuple[Curve, ...]
    curve_start: float
    curve_queries: int

    def to_meta(self) -> dict[str, Any]:
        return vars(self) | {"curves": [curve.to_meta() for curve in self.curves]}

    @classmethod
    def from_meta(cls, meta: Any) -> Learning:
        fields = Fields(meta, "report learning")
        error = fields.take("standard_error", float | None)
        learning = cls(
            start=_number(fields.take("start", float)),
            final=_number(fields.take("final", float)),
            difference=_number(fields.take("difference", float)),
            standard_error=None if error is None else _number(error),
            n_queries=fields.take("n_queries", int),
            curves=tuple(Curve.from_meta(curve) for curve in fields.take("curves", list)),
            curve_start=_number(fields.take("curve_start", float)),
            curve_queries=fields.take("curve_queries", int),
        )
        fields.done()
        return learning


@dataclass(frozen=True)
class Comparison:
    """The model against one other system on the untouched queries: paired t-test, and Holm's correction for several."""

    other: str
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float

    def to_meta(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_meta(cls, meta: Any) -> Comparison:
        fields = Fields(meta, "report comparison")
        numbers = {
            name: _number(fields.take(name, float)) for name in ("difference", "low", "high", "p_value", "p_corrected")
        }
        comparison = cls(other=fields.take("other", str), **numbers)
        fields.done()
        return comparison


@dataclass(frozen=True)
class QueryChange:
    """One query before and after learning."""

    qid: str
    text: str
    before: float
    after: float


@dataclass(frozen=True)
class ByQuery:
    """Wins and losses of the model, query by query, against the start it learned from.

    Attributes
    ----------
    other : the start
    n_better, n_same, n_worse : of the untouched queries; better is better also where lower is better
    differences : model less start, best first; of many queries evenly spaced ones, the first and last among them
    gains, losses : the queries that changed most
    """

    other: str
    n_better: int
    n_same: int
    n_worse: int
    differences: tuple[float, ...]
    gains: tuple[QueryChange, ...]
    losses: tuple[QueryChange, ...]

    def to_meta(self) -> dict[str, Any]:
        changes = {
            name: [[c.qid, c.text, c.before, c.after] for c in getattr(self, name)] for name in ("gains", "losses")
        }
        return vars(self) | {"differences": list(self.differences)} | changes

    @classmethod
    def from_meta(cls, meta: Any) -> ByQuery:
        fields = Fields(meta, "report by query")
        changes = {
            name: tuple(
                QueryChange(_text(row[0]), _text(row[1]), _number(row[2]), _number(row[3]))
                for row in _rows(fields.take(name, list), 4)
            )
            for name in ("gains", "losses")
        }
        by_query = cls(
            other=fields.take("other", str),
            n_better=fields.take("n_better", int),
            n_same=fields.take("n_same", int),
            n_worse=fields.take("n_worse", int),
            differences=tuple(map(_number, fields.take("differences", list))),
            **changes,
        )
        fields.done()
        return by_query


@dataclass(frozen=True)
class Size:
    """How large the weights are: W's shape, its parts, the numbers kept, their bytes, and the share of W not zero."""

    n_query_words: int
    n_doc_words: int
    parts: str
    n_stored: int
    n_bytes: int
    density: float

    def to_meta(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_meta(cls, meta: Any) -> Size:
        fields = Fields(meta, "report size")
        size = cls(
            **{name: fields.take(name, int) for name in ("n_query_words", "n_doc_words", "n_stored", "n_bytes")},
            parts=fields.take("parts", str),
            density=_number(fields.take("density", float)),
        )
        fields.done()
        return size


@dataclass(frozen=True)
class Details:
    """All that a page shows beside the table.

    Attributes
    ----------
    name : what the data are called; may be empty
    data : facts of the collection, such as ``n_docs``; numbers and texts
    random_state : the seed
    learning : how it went on validation
    rival_settings : what was chosen on validation for systems that do not learn, as ``{"RM3": {"n_found": 10}}``
    comparisons : the model against each other system
    by_query : None where the model is the start
    pairs : strongest learned pairs, (query word, document word, weight)
    size : of the model
    """

    name: str
    data: dict[str, Any]
    random_state: int
    learning: Learning
    rival_settings: dict[str, dict[str, Any]]
    comparisons: tuple[Comparison, ...]
    by_query: ByQuery | None
    pairs: tuple[tuple[str, str, float], ...]
    size: Size

    def to_meta(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "data": self.data,
            "random_state": self.random_state,
            "learning": self.learning.to_meta(),
            "rival_settings": self.rival_settings,
            "comparisons": [comparison.to_meta() for comparison in self.comparisons],
            "by_query": None if self.by_query is None else self.by_query.to_meta(),
            "pairs": [list(pair) for pair in self.pairs],
            "size": self.size.to_meta(),
        }

    @classmethod
    def from_meta(cls, meta: Any) -> Details:
        fields = Fields(meta, "report details")
        by_query = fields.take("by_query", dict | None)
        details = cls(
            name=fields.take("name", str),
            data=fields.take("data", dict),
            random_state=fields.take("random_state", int),
            learning=Learning.from_meta(fields.take("learning", dict)),
            rival_settings=fields.take("rival_settings", dict),
            comparisons=tuple(map(Comparison.from_meta, fields.take("comparisons", list))),
            by_query=None if by_query is None else ByQuery.from_meta(by_query),
            pairs=tuple((_text(p[0]), _text(p[1]), _number(p[2])) for p in _rows(fields.take("pairs", list), 3)),
            size=Size.from_meta(fields.take("size", dict)),
        )
        fields.done()
        return details


def _rows(listed: Sequence[Any], width: int) -> Sequence[list[Any]]:
    for row in listed:
        if not isinstance(row, list) or len(row) != width:
            raise DamagedBundleError(f"a report has {row!r}; expected a list of {width}")
    return listed


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise DamagedBundleError(f"a report has {value!r}; expected a number")
    try:
        number = float(value)
    except OverflowError:
        raise DamagedBundleError("a report has a number that no float holds") from None
    if not isfinite(number):
        raise DamagedBundleError(f"a report has {value!r}; expected a finite number")
    return number


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise DamagedBundleError(f"a report has {value!r}; expected a whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DamagedBundleError(f"a report has {value!r}; expected text")
    return value
