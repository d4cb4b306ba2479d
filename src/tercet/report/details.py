"""What a report has beside its table: of texts (`Details`), and of feature vectors (`FeatureDetails`).

Their fields are the saved format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from tercet.choose import Rule
from tercet.errors import InputError
from tercet.store.schema import OMIT_DEFAULT, Bounds

Count = Annotated[int, Bounds(least=0)]

# -- texts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """The measure on validation queries while one candidate was learned: (steps done, value)."""

    name: str
    points: tuple[tuple[int, float], ...]


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


@dataclass(frozen=True)
class SystemComparison:
    """The model against one other system on the untouched queries: paired t-test, and Holm's correction for several."""

    other: str
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float


class QueryChange(NamedTuple):
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


@dataclass(frozen=True)
class Size:
    """How large the weights are: W's shape, its parts, the numbers kept, their bytes, and the share of W not zero."""

    n_query_words: int
    n_doc_words: int
    parts: str
    n_stored: int
    n_bytes: int
    density: float


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
    past : past queries with the strongest evidence, (query, document id, evidence)
    """

    name: str
    data: dict[str, Any]
    random_state: int
    learning: Learning
    rival_settings: dict[str, dict[str, Any]]
    comparisons: tuple[SystemComparison, ...]
    by_query: ByQuery | None
    pairs: tuple[tuple[str, str, float], ...]
    size: Size
    past: Annotated[tuple[tuple[str, str, float], ...], OMIT_DEFAULT] = ()


# -- feature vectors --------------------------------------------------------------------------------------------------


class PathPoint(NamedTuple):
    """One penalty: how many features it leaves, and the mean of the measure on the queries that chose.

    ``error`` is the standard error of the difference to the best point over the same queries; None for one query.
    """

    l1: float
    n_used: Count
    value: float
    error: float | None


_WHY: dict[Rule, str] = {
    "best": "the best on {where}",
    "sparsest": "the sparsest within one standard error of the best on {where}",
}


@dataclass(frozen=True)
class FeatureDetails:
    """What was learned from feature vectors, and the path of penalties it was chosen from.

    Attributes
    ----------
    ranker : class of what was learned
    choose : "best" or "sparsest"
    n_features, n_used : features there are, and those with a weight; the latter None for a ranker without weights
    reported_on : which queries the table is of
    path : penalties, falling; empty when none was chosen between
    chosen : place of the chosen penalty in the path
    used_by_fold : features used in each fold, where each chose for itself
    learn_seconds : for the rankers of the path on all training rows
    """

    ranker: str
    choose: Literal["best", "sparsest"]
    n_features: Annotated[int, Bounds(least=1)]
    n_used: int | None
    reported_on: str
    path: tuple[PathPoint, ...]
    chosen: int | None
    used_by_fold: tuple[int, ...]
    learn_seconds: float

    def __post_init__(self) -> None:
        if (self.chosen is None) != (not self.path) or not 0 <= (self.chosen or 0) < max(len(self.path), 1):
            raise InputError(f"there are {len(self.path)} penalties, and chosen is number {self.chosen}")

    @property
    def sparsity_ratio(self) -> float | None:
        """The share of features used."""
        return None if self.n_used is None else self.n_used / self.n_features

    def decision(self, measure: str) -> str:
        """What was taken, and why."""
        used = "no weights of features"
        if self.n_used is not None:
            used = f"{self.n_used} of {self.n_features} features (sparsity ratio {self.sparsity_ratio:.4f})"
        text = f"{self.ranker}: {used}."
        if self.chosen is not None:
            point = self.path[self.chosen]
            why = f"of {len(self.path)} {_WHY[self.choose].format(where=measure)} ({point.value:.4f})"
            text = f"{self.ranker} with the penalty {point.l1:.5g}, {why}: {used}."
        if self.used_by_fold:
            mean = sum(self.used_by_fold) / len(self.used_by_fold)
            listed = ", ".join(map(str, self.used_by_fold))
            text += f"\nFeatures used by fold: {listed} (sparsity ratio {mean / self.n_features:.4f})."
        return text
