"""What a paper printed and how it is reproduced, as values. Nothing here belongs to one paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tercet.repro.values import Measure, Paper, Statistics

MeasureName = Literal["map", "p10", "error", "memory", "density"]


@dataclass(frozen=True)
class Quick:
    """What a quick run is cut down to."""

    share: float  # of the preferences
    test_preferences: int
    train_rows: int
    test_rows: int
    max_features: int
    seeds: int = 1
    points: int = 5


@dataclass(frozen=True)
class Data:
    """Where a data set is and how it becomes matrices.

    Wikispeedia and Kyoto become queries whose linked documents are relevant; the others rows with classes.
    """

    title: str
    reader: Literal["20newsgroups", "mnist", "svmlight", "wikispeedia", "kyoto"]
    files: tuple[str, ...]  # below the data home
    compare: bool = True  # false: not the paper's data, so printed numbers get no verdict
    note: str = ""
    max_features: int | None = None
    stop_words: str | None = None
    sublinear_tf: bool = False
    unit_length: bool = False
    n_features: int | None = None
    relevant: Literal["links", "mates"] = "links"  # what a query should find
    split: Literal["links", "documents"] = "links"  # what is set aside for testing
    query_words: int | None = None  # keyword queries of so many words, drawn from the document
    draws: int = 1  # of keywords, for each document
    doc_words: int | None = None  # documents cut to so many words
    two_word_terms: bool = False  # 2-grams as a second block of columns
    test_queries: int = 1000
    validation_queries: int = 300


@dataclass(frozen=True)
class Map:
    """Which words a fit sees, and by which others they are replaced; its weights are then mapped back.

    ``correlated = k`` replaces each word by the k of the ``n_frequent`` most frequent words it is most correlated with.
    """

    block: str | None = None  # of the columns
    n_frequent: int | None = None
    correlated: int | None = None
    rare_only: bool = False  # the frequent words themselves are left out


@dataclass(frozen=True)
class Model:
    """One weights value that a fit gives: an attribute of the ranker, or the ranker thinned."""

    key: str
    title: str
    weights: str = "weights_"
    thin: float | None = None


@dataclass(frozen=True)
class Fit:
    """A ranker and its setting.

    ``reuse = {density = "l1"}``: what ``density`` made the first seed find is given to the others as ``l1``. A quick
    run searches nothing; it takes the parameters of ``quick`` instead. ``choose = {rate = [0.1, 1.0]}``: the first seed
    learns with each, from the share ``choose_share`` of the preferences, and takes the one with the least error on
    other training preferences; the other seeds take what it chose. ``blend`` adds up two models of other fits by an
    amount chosen on validation.
    """

    key: str
    title: str
    datasets: tuple[str, ...]
    ranker: str = "Blend"
    preferences: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)
    reuse: dict[str, str] = field(default_factory=dict)
    choose: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    choose_share: float = 0.2
    early_stop: bool = False  # keep the best model on validation
    map: Map | None = None
    blend: tuple[str, ...] = ()
    mates: bool = False  # learn from texts and their translations instead of preferences
    second: str | None = None  # block of the queries of a second objective
    share: float = 1.0  # of the training links
    uniform_over: Literal["links", "queries"] = "links"  # queries: first one of them, then one of its links
    quick: dict[str, Any] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    seeds: int | None = None
    last: bool = False  # slow, so that it runs after all others

    def all_models(self) -> tuple[Model, ...]:
        return self.models or (Model(self.key, self.title),)

    def parameters_for(self, dataset: str) -> dict[str, Any]:
        return self.parameters | self.by_dataset.get(dataset, {})


@dataclass(frozen=True)
class Row:
    """A model's printed numbers; a row that cannot be had has a title and the reason instead of a model."""

    model: str = ""
    title: str = ""
    reason: str = ""
    dataset: str = ""  # where it is not the table's
    map: float | None = None
    p10: float | None = None
    error: float | None = None
    memory: float | None = None
    density: float | None = None

    def printed(self, measure: str) -> float | None:
        found: float | None = getattr(self, measure)
        return found


@dataclass(frozen=True)
class Table:
    """A table of models; kind "ours" has nothing printed to be compared with."""

    key: str
    title: str
    dataset: str
    measures: tuple[MeasureName, ...]
    rows: tuple[Row, ...]
    kind: Literal["paper", "ours"] = "paper"
    place: str = ""
    note: str = ""
    dictionary_size: int | None = None  # of the paper, to read its densities off its memory


@dataclass(frozen=True)
class Target:
    dataset: str
    model: str
    measure: MeasureName
    at_least: float | None = None
    at_most: float | None = None
    times: str = ""  # the bound is a multiple of this model's value


@dataclass(frozen=True)
class Claim:
    """An ordering the paper states: one model is better in a measure than another."""

    text: str
    place: str
    better: str
    worse: str
    measures: tuple[MeasureName, ...]
    datasets: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """Related words of a model, or the words its map replaces a word by: query word -> printed words."""

    key: str
    title: str
    place: str
    dataset: str
    model: str
    printed: dict[str, tuple[str, ...]]
    of: Literal["weights", "map"] = "weights"


@dataclass(frozen=True)
class Curves:
    """Test error against steps, on the first seed, with the density of W or the error on training preferences."""

    key: str
    title: str
    place: str
    datasets: tuple[str, ...]
    fits: tuple[str, ...]
    first: int
    points: int
    test_preferences: int
    beside: Literal["density", "training error"] = "density"


@dataclass(frozen=True)
class Precisions:
    """Average precision of each query under two models, as points."""

    key: str
    title: str
    place: str
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
    y: MeasureName
    series: tuple[Series, ...]
    lines: dict[str, float] = field(default_factory=dict)  # named heights to draw


@dataclass(frozen=True)
class Plan:
    paper: Paper
    seeds: int
    test_preferences: int
    quick: Quick
    measures: dict[str, Measure]
    datasets: dict[str, Data]
    fits: tuple[Fit, ...]
    statistics: tuple[Statistics, ...] = ()
    tables: tuple[Table, ...] = ()
    targets: tuple[Target, ...] = ()
    claims: tuple[Claim, ...] = ()
    words: tuple[Words, ...] = ()
    curves: tuple[Curves, ...] = ()
    scatters: tuple[Scatter, ...] = ()
    precisions: tuple[Precisions, ...] = ()

    def made_quick(self) -> Plan:
        """The same with fewer words, preferences, seeds and points."""
        quick = self.quick
        return replace(
            self,
            seeds=min(self.seeds, quick.seeds),
            test_preferences=min(self.test_preferences, quick.test_preferences),
            datasets={
                name: data if data.max_features is None else replace(data, max_features=quick.max_features)
                for name, data in self.datasets.items()
            },
            fits=tuple(
                replace(
                    fit,
                    preferences=min(fit.preferences, max(1, round(quick.share * fit.preferences))),
                    choose={name: values[:1] for name, values in fit.choose.items()},
                    parameters={k: v for k, v in fit.parameters.items() if k not in fit.reuse} | fit.quick,
                    by_dataset={
                        name: {k: v for k, v in own.items() if k not in fit.reuse}
                        for name, own in fit.by_dataset.items()
                    },
                )
                for fit in self.fits
            ),
            curves=tuple(
                replace(
                    curve,
                    points=min(curve.points, quick.points),
                    test_preferences=min(curve.test_preferences, quick.test_preferences),
                )
                for curve in self.curves
            ),
        )

    def model(self, key: str) -> Model:
        return next(model for fit in self.fits for model in fit.all_models() if model.key == key)

    def fit_of(self, key: str) -> Fit:
        """The fit that gives this model."""
        return next(fit for fit in self.fits if any(model.key == key for model in fit.all_models()))
