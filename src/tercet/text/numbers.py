"""Numbers of documents as columns of a matrix: transformed, standardized, marked if missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tercet.data.values import Value, moment_in
from tercet.errors import InputError
from tercet.store.schema import Bounds, Shape

TransformName = Literal["identity", "log", "inverse", "rank", "date"]

_N_QUANTILES: Final = 257
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_DAY = (datetime.max.replace(tzinfo=UTC) - _EPOCH).days


class Transform(NamedTuple):
    """A function of a number, its inverse, and its least argument."""

    apply: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    undo: Callable[[float], float]
    least: float = -math.inf


# A rank is looked up among quantiles, see `NumberColumn`; a date is read as days and then taken as it is.
TRANSFORMS: Final[dict[str, Transform]] = {
    "identity": Transform(lambda x: x, lambda y: y),
    "log": Transform(np.log1p, math.expm1, 0.0),
    "inverse": Transform(lambda x: 1.0 / (1.0 + x), lambda y: 1.0 / y - 1.0 if y > 0 else math.inf, 0.0),
    "rank": Transform(lambda x: x, lambda y: y),
    "date": Transform(lambda x: x, lambda y: y),
}


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers and its statistics: ``(transform(x) - mean) / spread``, 0 for a missing number.

    Parameters
    ----------
    column : name of the column
    transform : ``"identity"``; ``"log"``, log(1 + x); ``"inverse"``, 1 / (1 + x); ``"rank"``, the share of the
        training documents with a smaller number, ties half; ``"date"``, days of an ISO 8601 date
    mean, spread : mean and standard deviation of the transformed numbers
    quantiles : of the numbers, evenly spaced; empty unless the transform is ``"rank"``

    Examples
    --------
    >>> downloads = NumberColumn.learned("log:downloads", [0, 9, None, 99], ["a", "b", "c", "d"])
    >>> downloads.standardized([9, None], ["b", "c"])[0].round(2).tolist()
    [0.0, 0.0]
    >>> downloads.name, downloads.shown(0.0)
    ('log:downloads', '9')
    """

    column: str
    transform: TransformName
    mean: float
    spread: Annotated[float, Bounds(above=0)]
    quantiles: Annotated[NDArray[np.float64], Shape(None)]

    @classmethod
    def learned(cls, name: str, values: Sequence[Value], ids: Sequence[str]) -> NumberColumn:
        """The column of a name such as ``"price"`` or ``"log:downloads"``, from all documents."""
        column, transform = parse_number(name)
        x = _numbers(column, transform, values, ids)
        present = x[~np.isnan(x)]
        if not present.size:
            raise InputError(f"the column {column!r} has no number in any of the {len(x)} documents")
        if present.min() == present.max():
            number = _shown_number(transform, float(present[0]))
            raise InputError(f"the column {column!r} is {number} in every document; it cannot tell one from another")
        quantiles = np.empty(0)
        if transform == "rank":
            quantiles = np.quantile(present, np.linspace(0, 1, min(_N_QUANTILES, present.size)))
        y = _applied(transform, present, quantiles)
        spread = float(y.std())
        if not (np.isfinite(spread) and spread > 0):
            raise InputError(f"the numbers of the column {column!r} are too large, or too close, to be standardized")
        return cls(column, transform, float(y.mean()), spread, quantiles)

    @property
    def name(self) -> str:
        return self.column if self.transform == "identity" else f"{self.transform}:{self.column}"

    def standardized(
        self, values: Sequence[Value], ids: Sequence[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return standardized numbers (n,), 0 for missing numbers, and a mask of missing numbers (n,)."""
        x = _numbers(self.column, self.transform, values, ids)
        missing = np.isnan(x)
        y = (_applied(self.transform, np.where(missing, 0.0, x), self.quantiles) - self.mean) / self.spread
        return np.where(missing, 0.0, y), missing

    def shown(self, standardized: float) -> str:
        """Return the original number, to five digits."""
        y = standardized * self.spread + self.mean
        if self.transform == "rank":
            position = round(y * (len(self.quantiles) - 1))
            return _shown_number("rank", float(self.quantiles[min(max(position, 0), len(self.quantiles) - 1)]))
        blur = abs(standardized) * self.spread * 2.0**-23  # rounding error of a number stored as float32
        if self.transform == "date":
            return _shown_number("date", y + blur)  # without blur, midnight could print as the day before
        number = TRANSFORMS[self.transform].undo(y)
        return _shown_number(self.transform, 0.0 if abs(number) <= 2 * blur else number)


def parse_number(name: str) -> tuple[str, TransformName]:
    """The column and the transform of a name: ``"price"``, ``"log:downloads"``."""
    if not isinstance(name, str) or not name:
        raise InputError(f"a feature is the name of a column, as in 'price' or 'log:downloads'; got {name!r}")
    before, colon, column = name.partition(":")
    if colon and column and before in TRANSFORMS:
        return column, cast(TransformName, before)
    if colon:
        transforms = ", ".join(f"{transform}:" for transform in TRANSFORMS if transform != "identity")
        raise InputError(f"the feature {name!r} has no known transform before its colon; there are {transforms}")
    return name, "identity"


def _numbers(column: str, transform: str, values: Sequence[Value], ids: Sequence[str]) -> NDArray[np.float64]:
    """Return the numbers of a column, NaN for missing numbers; other values are refused."""
    read = _days if transform == "date" else _number
    x = np.empty(len(values))
    for i, value in enumerate(values):
        number = math.nan if value is None or value == "" else read(value)
        if number is None or math.isinf(number):
            expected = "a date such as 2026-01-31" if transform == "date" else "a number"
            raise InputError(f"document {ids[i]!r} has {value!r} for {column!r}; expected {expected}, or nothing")
        x[i] = number
    least = TRANSFORMS[transform].least
    if (below := x < least).any():  # NaN is not below
        i = int(below.argmax())
        raise InputError(
            f"document {ids[i]!r} has {values[i]!r} for {column!r}; {transform}: takes numbers from {least:g} on. "
            f"rank:{column} takes any"
        )
    return x


def _number(value: Value) -> float | None:
    return None if isinstance(value, str) or value is None else float(value)


def _days(value: Value) -> float | None:
    """Return the days since 1970 of an ISO 8601 date, UTC without a zone."""
    moment = moment_in(value) if isinstance(value, str) else None
    return None if moment is None else (moment - _EPOCH) / timedelta(days=1)


def _applied(transform: str, x: NDArray[np.float64], quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    if transform == "rank":
        positions = np.searchsorted(quantiles, x, "left") + np.searchsorted(quantiles, x, "right")
        return positions / (2.0 * len(quantiles))
    return TRANSFORMS[transform].apply(x)


def _shown_number(transform: str, number: float) -> str:
    if transform == "date":
        return (_EPOCH + timedelta(days=min(number, _LAST_DAY))).date().isoformat()
    return f"{float(f'{number:.5g}'):.12g}"  # not as a power of ten
