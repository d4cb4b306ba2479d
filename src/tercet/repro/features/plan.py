"""What a paper of feature vectors printed and how it is reproduced, as values. Nothing here belongs to one paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tercet.repro.values import Measure, Paper, Statistics

ChooseOn = Literal["validation", "cross-validation"]


@dataclass(frozen=True)
class Quick:
    """What a quick run is cut down to."""

    folds: int = 1
    values: int = 2  # of each parameter that is chosen
    seeds: int = 1
    points: int = 2  # of each series of costs, the first ones
    per_query: int = 4  # rows that are drawn of each query, at most


@dataclass(frozen=True)
class RankerMeasure(Measure):
    """A measure of a ranker: of its rankings by ``name``, as in ``"nDCG(dcg='letor')@10"``, or of itself.

    Beside the names of `parse_measure` there are two of pairs of rows, ``"disagreement"``, equation 1 of Tsivtsivadze
    et al. (2008), and ``"misordered"``, the same over pairs of different grades only. Of a ranker itself there are
    ``"features used"``, the share of features with a weight, ``"seconds"`` of learning, and ``"megabytes"``, the most
    that arrays hold at once while it learns.
    """

    name: str = ""
    cutoff: int | None = None  # where it stands on the axis of a figure


@dataclass(frozen=True)
class Data:
    """A set of folds and the places it may be at, below the data home; the first that is there is read."""

    title: str
    files: tuple[str, ...]
    reader: Literal["letor-folds", "parses"] = "letor-folds"
    compare: bool = True
    measures: tuple[str, ...] = ()  # those that its grades allow; all when empty
    note: str = ""


@dataclass(frozen=True)
class Method:
    """A ranker, the parameters it has, and those that are chosen for each fold and seed.

    ``choose`` is a grid: every combination of its values is learned from the training part. ``choose_on`` says what
    they are measured on: the validation part, where the ranker learned from the training part is then taken; or the
    queries left out in turn of training and validation part together, from all of which the chosen one then learns.
    Of equals the sparser one is taken, then the earlier one. With ``rule = "sparsest"`` it is the sparsest whose
    mean is within one standard error of the best. ``most_used`` leaves out what uses more than this share of the
    features where it is measured.

    With ``per_query`` so many rows of each query are drawn with the seed. ``drawn_as = "examples"`` learns from these
    alone; ``"basis"`` makes them the basis vectors of a kernel ranker that learns from all rows.
    """

    key: str
    title: str
    ranker: str
    parameters: dict[str, Any] = field(default_factory=dict)
    choose: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    choose_by: str = ""  # a measure; "" for the plan's
    choose_on: ChooseOn = "validation"
    rule: Literal["best", "sparsest"] = "best"
    most_used: float | None = None
    cv_folds: int = 5
    per_query: int = 0
    drawn_as: Literal["examples", "basis"] = "examples"
    datasets: tuple[str, ...] = ()  # all when empty
    seeds: int = 1  # more for those that draw something at random
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A method's printed numbers, by measure, or by data set where the table has several."""

    method: str = ""
    title: str = ""
    reason: str = ""  # why there is no method
    printed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Methods by the measures of one data set, or by one measure of several."""

    key: str
    title: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    kind: Literal["paper", "ours"] = "paper"
    place: str = ""
    note: str = ""
    chosen: bool = False  # a column with what was chosen in each fold


@dataclass(frozen=True)
class Claim:
    """An ordering the paper states: one method is better than others, or than the best of them.

    ``printed`` is by how many per cent, by data set.
    """

    text: str
    place: str
    better: str
    worse: tuple[str, ...]
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    printed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Paired tests by query: each of ``methods`` against one, or all pairs of them."""

    key: str
    title: str
    dataset: str
    measures: tuple[str, ...]
    methods: tuple[str, ...]
    against: str = ""
    test: Literal["permutation", "wilcoxon"] = "permutation"


@dataclass(frozen=True)
class Target:
    dataset: str
    method: str
    measure: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class Lines:
    """A measure at rising cut-offs, a line for each method and a panel for each data set."""

    key: str
    title: str
    place: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    methods: tuple[str, ...]


@dataclass(frozen=True)
class TradeOff:
    """A measure on the test parts against the features used, over all that a method could choose from."""

    key: str
    title: str
    dataset: str
    measure: str
    methods: tuple[str, ...]
    points: tuple[str, ...] = ()  # methods that are shown as chosen only


@dataclass(frozen=True)
class Growth:
    """A measure against the number of rows that were drawn, a line for each series of methods."""

    key: str
    title: str
    dataset: str
    measure: str
    series: tuple[GrowthSeries, ...]


@dataclass(frozen=True)
class GrowthSeries:
    title: str
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """Seconds and memory of learning from made-up rows of rising number, or with a rising number of basis vectors."""

    key: str
    title: str
    place: str
    ranker: str
    series: tuple[CostSeries, ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    n_features: int = 50
    rows_of_query: int = 20
    rounds: int = 3  # the fastest counts


@dataclass(frozen=True)
class CostSeries:
    """Points that differ in ``rows`` or in ``n_basis``, of which the other is one number; ``stated`` is the power of
    the number that rises which the paper says seconds go with."""

    title: str
    rows: tuple[int, ...]
    stated: float
    n_basis: tuple[int, ...] = ()  # all rows when empty

    @property
    def rises(self) -> Literal["rows", "n_basis"]:
        return "n_basis" if len(self.n_basis) > 1 else "rows"

    def points(self) -> list[tuple[int, int | None]]:
        """Rows and basis vectors of each point."""
        if self.rises == "n_basis":
            return [(self.rows[0], n) for n in self.n_basis]
        return [(n, self.n_basis[0] if self.n_basis else None) for n in self.rows]

    def first(self, n: int) -> CostSeries:
        """The same with so many points."""
        return replace(self, **{self.rises: getattr(self, self.rises)[:n]}) if len(self.points()) > n else self


@dataclass(frozen=True)
class FeaturePlan:
    kind: Literal["features"]
    paper: Paper
    choose_by: str
    measures: dict[str, RankerMeasure]
    datasets: dict[str, Data]
    methods: tuple[Method, ...]
    quick: Quick = field(default_factory=Quick)
    statistics: tuple[Statistics, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    targets: tuple[Target, ...] = ()
    lines: tuple[Lines, ...] = ()
    tradeoffs: tuple[TradeOff, ...] = ()
    growths: tuple[Growth, ...] = ()
    costs: tuple[Cost, ...] = ()

    def method(self, key: str) -> Method:
        return next(method for method in self.methods if method.key == key)

    def chooses_by(self, method: Method) -> RankerMeasure:
        """The measure a method's parameters are chosen by."""
        return self.measures[method.choose_by or self.choose_by]

    def made_quick(self) -> FeaturePlan:
        """The same with few values to choose from and few seeds; folds are cut where they are read."""
        quick = self.quick
        return replace(
            self,
            methods=tuple(
                replace(
                    method,
                    seeds=min(method.seeds, quick.seeds),
                    per_query=min(method.per_query, quick.per_query),
                    choose={name: _some(values, quick.values) for name, values in method.choose.items()},
                )
                for method in self.methods
            ),
            costs=tuple(
                replace(cost, series=tuple(series.first(quick.points) for series in cost.series)) for cost in self.costs
            ),
        )

    def measures_of(self, dataset: str) -> dict[str, RankerMeasure]:
        """The measures that apply to a data set."""
        allowed = self.datasets[dataset].measures or tuple(self.measures)
        return {name: measure for name, measure in self.measures.items() if name in allowed}


def _some(values: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """So many of the values, evenly spread, the ends left out where others are there."""
    if len(values) <= n:
        return values
    return tuple(values[(2 * at + 1) * len(values) // (2 * n)] for at in range(n))
