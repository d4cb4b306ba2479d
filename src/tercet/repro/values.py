"""What plans of both kinds are made of: the paper, its measures, and facts about its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Paper:
    key: str
    title: str
    authors: str
    venue: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """How a measure is shown and how far from a printed number it may lie."""

    title: str
    higher_is_better: bool
    tolerance: float
    relative: bool = False  # the tolerance is a share of the printed number
    least_tolerance: float = 0.0  # where a printed number has too few digits for its share
    digits: int = 3
    unit: str = ""
    spread: Literal["seeds", "standard error"] = "seeds"  # what stands behind the ±

    def tolerance_for(self, printed: float) -> float:
        """How far from this printed number is still the same."""
        return max(self.least_tolerance, self.tolerance * (abs(printed) if self.relative else 1.0))


@dataclass(frozen=True)
class Statistics:
    """Printed facts about data sets: data set -> fact -> number."""

    title: str
    place: str
    printed: dict[str, dict[str, int]]


class Bounded(Protocol):
    """What a target of either kind has: one of two bounds."""

    @property
    def at_least(self) -> float | None: ...
    @property
    def at_most(self) -> float | None: ...


class Stated(Protocol):
    """What a claim of either kind has."""

    @property
    def text(self) -> str: ...
    @property
    def place(self) -> str: ...


class AnyData(Protocol):
    """What every data set of a plan has."""

    @property
    def title(self) -> str: ...
    @property
    def compare(self) -> bool: ...
    @property
    def note(self) -> str: ...


class AnyPlan(Protocol):
    """What plans of both kinds have."""

    @property
    def paper(self) -> Paper: ...
    @property
    def measures(self) -> Mapping[str, Measure]: ...
    @property
    def datasets(self) -> Mapping[str, AnyData]: ...
