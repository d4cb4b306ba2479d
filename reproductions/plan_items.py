"""What a plan shows of its models: tables, orderings, paired tests, related words, and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["paper", "ours"]  # "ours" has nothing printed to be compared with

# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A model's printed numbers, by measure, or by data set where the table has several.

    ``plus_minus`` are the printed ±, by the same names, and ``params`` is the printed column of that name, as text. A
    row that cannot be had has a title and the reason instead of a model.
    """

    model: str = ""
    title: str = ""
    reason: str = ""
    dataset: str = ""  # where it is not the table's
    printed: dict[str, float] = field(default_factory=dict)
    plus_minus: dict[str, float] = field(default_factory=dict)
    params: str = ""


@dataclass(frozen=True)
class PaperTable:
    """Models by the measures of one data set, or by one measure of several."""

    key: str
    title: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    kind: Kind = "paper"
    position: str = ""
    note: str = ""
    seconds: bool = False  # a column with those of the fastest seed
    chosen: bool = False  # a column with what was chosen, or searched for
    dictionary_size: int | None = None  # of the paper, to read its densities off its memory


@dataclass(frozen=True)
class Claim:
    """An ordering the paper states: one model is better than others, or than the best of them.

    ``printed`` is by how many per cent, by data set.
    """

    text: str
    position: str
    better: str
    worse: tuple[str, ...]
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    printed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PairedTests:
    """Paired tests by query: each of ``models`` against one, or all pairs of them."""

    key: str
    title: str
    dataset: str
    measures: tuple[str, ...]
    models: tuple[str, ...]
    against: str = ""
    test: Literal["permutation", "wilcoxon"] = "permutation"


@dataclass(frozen=True)
class Standings:
    """How often a model is the best and the second best over the data sets and measures of some tables.

    ``best`` and ``second`` are what the paper states of all of them.
    """

    key: str
    title: str
    position: str
    model: str
    tables: tuple[str, ...]
    best: int
    second: int


@dataclass(frozen=True)
class Target:
    """A bound of our own, which the worst seed has to meet."""

    dataset: str
    model: str
    measure: str
    at_least: float | None = None
    at_most: float | None = None
    times: str = ""  # the bound is a multiple of this model's value
    errors: float = 0.0  # so many standard errors of ours beside the bound are near enough


@dataclass(frozen=True)
class Words:
    """Related words of a model, or the words its map replaces a word by: query word -> printed words."""

    key: str
    title: str
    position: str
    dataset: str
    model: str
    printed: dict[str, tuple[str, ...]]
    of: Literal["weights", "map"] = "weights"


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """Test error against steps, on the first seed, with the density of W or the error on training preferences."""

    key: str
    title: str
    position: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    first: int
    points: int
    test_preferences: int
    second_measure: Literal["density", "training error"] = "density"


@dataclass(frozen=True)
class Precisions:
    """Average precision of each query under two models, as points."""

    key: str
    title: str
    position: str
    dataset: str
    x: str
    y: str
    queries: int = 500


@dataclass(frozen=True)
class Series:
    title: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class Scatter:
    """Models as points, one measure against another."""

    key: str
    title: str
    dataset: str
    x: Literal["density", "seconds", "memory"]
    y: str
    series: tuple[Series, ...]
    lines: dict[str, float] = field(default_factory=dict)  # named heights to draw


@dataclass(frozen=True)
class Cutoffs:
    """A measure at rising cut-offs, a line for each model and a panel for each data set."""

    key: str
    title: str
    position: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    models: tuple[str, ...]


@dataclass(frozen=True)
class OfGrids:
    """What is shown of all settings that models could be chosen from, by features used."""

    key: str
    title: str
    dataset: str
    measure: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class TradeOff(OfGrids):
    """A measure on the test parts against the features used, over all that a method could choose from."""

    points: tuple[str, ...] = ()  # models that are shown as chosen only


@dataclass(frozen=True)
class Front(OfGrids):
    """The Pareto front of features against a measure over the grids of several methods: in each fold the best where
    these chose with at most so many features, shown on the test part."""

    budgets: tuple[int, ...]  # numbers of features


@dataclass(frozen=True)
class Growth:
    """A measure against the number of rows that were drawn, a line for each series of models."""

    key: str
    title: str
    dataset: str
    measure: str
    series: tuple[Series, ...]
