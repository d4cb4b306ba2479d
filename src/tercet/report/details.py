"""Details of a report besides the table: `Details` of texts, `FeatureDetails` of feature vectors.

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
class SystemComparison:
    """Paired t-test of the model against another system, with Holm's correction for several systems."""

    other: str
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float


class QueryChange(NamedTuple):
    """A query before and after learning."""

    qid: str
    text: str
    before: float
    after: float


@dataclass(frozen=True)
class ByQuery:
    """Wins and losses of the model against its start by query.

    Attributes
    ----------
    other : name of the start
    n_better, n_same, n_worse : numbers of queries with a better, an equal and a worse value
    differences : model less start, best first; a sample of many queries
    gains, losses : queries with the largest changes
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
    """Size of the weights: W's shape and parts, the stored numbers, their bytes, and the density of W."""

    n_query_words: int
    n_doc_words: int
    parts: str
    n_stored: int
    n_bytes: int
    density: float


@dataclass(frozen=True)
class Details:
    """Content of a page besides the table.

    Attributes
    ----------
    name : name of the data, or empty
    data : facts of the collection, such as ``n_docs``; numbers and texts
    random_state : the seed
    comparisons : the model against each other system
    by_query : wins and losses, None for a rejected model
    pairs : strongest learned pairs, (query word, document word, weight)
    size : of the model
    past : past queries with the strongest evidence, (query, document id, evidence)
    """

    name: str
    data: dict[str, Any]
    random_state: int
    comparisons: tuple[SystemComparison, ...]
    by_query: ByQuery | None
    pairs: tuple[tuple[str, str, float], ...]
    size: Size
    past: Annotated[tuple[tuple[str, str, float], ...], OMIT_DEFAULT] = ()


# -- feature vectors --------------------------------------------------------------------------------------------------


class PathPoint(NamedTuple):
    """A penalty, the number of used features, and the mean of the measure on the queries of the choice.

    ``error`` is the standard error of the difference to the best point over the same queries; None for a single query.
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
    """Ranker of feature vectors, and the path of penalties.

    Attributes
    ----------
    ranker : class of the ranker
    choose : "best" or "sparsest"
    n_features, n_used : number of features, and of features with a weight; None for a ranker without weights
    reported_on : queries of the table, in words
    path : falling penalties; empty without a choice
    chosen : position of the chosen penalty in the path
    used_by_fold : number of features by fold, in reports of earlier versions
    learn_seconds : training time of all rankers of the path
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
        """Share of used features."""
        return None if self.n_used is None else self.n_used / self.n_features

    def decision(self, measure: str) -> str:
        """Describe the choice and its reason."""
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
