"""What a paper printed and how it is reproduced, read from a TOML file. Nothing here belongs to one paper."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from tercet.errors import FormatError, InputError
from tercet.repro.learners import known_learners, learner_class
from tercet.repro.strict import build

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MeasureName = Literal["map", "error", "memory", "density"]


@dataclass(frozen=True)
class Paper:
    key: str
    title: str
    authors: str
    venue: str
    notes: tuple[str, ...] = ()


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
class Measure:
    """How a measure is shown and how far from a printed number it may lie."""

    title: str
    higher_is_better: bool
    tolerance: float
    relative: bool = False  # the tolerance is a share of the printed number
    least_tolerance: float = 0.0  # where a printed number has too few digits for its share
    digits: int = 3
    unit: str = ""

    def tolerance_for(self, printed: float) -> float:
        """How far from this printed number is still the same."""
        return max(self.least_tolerance, self.tolerance * (abs(printed) if self.relative else 1.0))


@dataclass(frozen=True)
class Data:
    """Where a data set is and how it becomes matrices."""

    title: str
    reader: Literal["20newsgroups", "mnist", "svmlight"]
    files: tuple[str, ...]  # below the data home
    compare: bool = True  # false: not the paper's data, so printed numbers get no verdict
    note: str = ""
    max_features: int | None = None
    stop_words: str | None = None
    sublinear_tf: bool = False
    unit_length: bool = False
    n_features: int | None = None


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
    run searches nothing; it takes the parameters of ``quick`` instead.
    """

    key: str
    title: str
    datasets: tuple[str, ...]
    ranker: str
    preferences: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)
    reuse: dict[str, str] = field(default_factory=dict)
    quick: dict[str, Any] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    seeds: int | None = None

    def all_models(self) -> tuple[Model, ...]:
        return self.models or (Model(self.key, self.title),)

    def parameters_for(self, dataset: str) -> dict[str, Any]:
        return self.parameters | self.by_dataset.get(dataset, {})


@dataclass(frozen=True)
class Row:
    """A model's printed numbers."""

    model: str
    map: float | None = None
    error: float | None = None
    memory: float | None = None
    density: float | None = None

    def printed(self, measure: str) -> float | None:
        return {"map": self.map, "error": self.error, "memory": self.memory, "density": self.density}[measure]


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
class Statistics:
    """Printed facts about data sets: data set -> fact -> number."""

    title: str
    place: str
    printed: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Target:
    dataset: str
    model: str
    measure: MeasureName
    at_least: float | None = None
    at_most: float | None = None


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
    """Related words of a model: query word -> printed words."""

    key: str
    title: str
    place: str
    dataset: str
    model: str
    printed: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Curves:
    """Error and density against steps, on the first seed."""

    key: str
    title: str
    place: str
    datasets: tuple[str, ...]
    fits: tuple[str, ...]
    first: int
    points: int
    test_preferences: int


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
                    preferences=round(quick.share * fit.preferences),
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


def known_papers() -> list[str]:
    """Names of the packaged plans."""
    folder = resources.files("tercet.repro") / "papers"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".toml"))


def find_plan(name: str) -> Plan:
    """A packaged plan by its name, or one of your own by the path of its TOML file.

    Examples
    --------
    >>> find_plan("chen2010").paper.venue
    'ICDM 2010'
    """
    if name in known_papers():
        with resources.as_file(resources.files("tercet.repro") / "papers" / f"{name}.toml") as path:
            return read_plan(path)
    if not Path(name).is_file():
        raise InputError(f"no paper {name!r}; known: {', '.join(known_papers())}, or give the path of a TOML file")
    return read_plan(Path(name))


def read_plan(path: Path) -> Plan:
    """Read and check a plan; errors name the file and the key."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError
        raise FormatError(path, None, f"not TOML: {error}") from error
    plan = build(Plan, content, path)
    for message in _faults(plan):
        raise FormatError(path, None, message)
    return plan


def _faults(plan: Plan) -> Iterator[str]:
    """What does not fit together."""
    models = {model.key: fit for fit in plan.fits for model in fit.all_models()}
    keys = [fit.key for fit in plan.fits]
    shown = [table.key for table in plan.tables] + [words.key for words in plan.words]
    shown += [curves.key for curves in plan.curves] + [scatter.key for scatter in plan.scatters]
    for what, names in (
        ("fits", keys),
        ("models", [model.key for fit in plan.fits for model in fit.all_models()]),
        ("tables, words, curves and scatters", shown),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield f"{what}: the key {twice[0]!r} is there twice"
    for name in (plan.paper.key, *plan.datasets, *keys, *shown):
        if not _FILE_NAME.fullmatch(name):
            yield f"the key {name!r} names files; letters, digits, '-', '_' and '.' are allowed, not '.' first"
    for name, number in (("seeds", plan.seeds), ("test_preferences", plan.test_preferences)):
        if number < 1:
            yield f"{name} is {number}; at least 1 is needed"
    if not 0 < plan.quick.share <= 1:
        yield f"quick.share is {plan.quick.share}; a number above 0 and at most 1 is needed"

    def unknown(where: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
        listed = list(known)
        for name in names:
            if name not in listed:
                yield f"{where}: {name!r} is unknown; known: {', '.join(listed)}"

    for at, fit in enumerate(plan.fits):
        where = f"fits[{at}] ({fit.key})"
        yield from unknown(f"{where}.datasets", fit.datasets, plan.datasets)
        yield from unknown(f"{where}.by_dataset", fit.by_dataset, fit.datasets)
        yield from unknown(f"{where}.ranker", [fit.ranker], known_learners())
        if fit.ranker in known_learners():
            accepted = list(inspect.signature(learner_class(fit.ranker)).parameters)
            for dataset in fit.datasets:
                yield from unknown(f"{where}.parameters", fit.parameters_for(dataset), accepted)
            yield from unknown(f"{where}.quick", fit.quick, accepted)
            yield from unknown(f"{where}.reuse", [*fit.reuse, *fit.reuse.values()], accepted)

    def check_model(where: str, model: str, dataset: str) -> Iterator[str]:
        yield from unknown(where, [dataset], plan.datasets)
        yield from unknown(where, [model], models)
        if model in models and dataset not in models[model].datasets:
            yield f"{where}: {model!r} is not fitted on {dataset!r}"

    used: list[tuple[str, str]] = []
    for at, table in enumerate(plan.tables):
        for row in table.rows:
            yield from check_model(f"tables[{at}].rows", row.model, table.dataset)
            for name in get_args(MeasureName):
                if row.printed(name) is not None and table.kind == "ours":
                    yield f"tables[{at}].rows: {row.model!r} has a printed {name}, but the table's kind is 'ours'"
                if row.printed(name) is not None and name not in table.measures:
                    yield f"tables[{at}].rows: {row.model!r} has a printed {name}, which is not among its measures"
        used += [(f"tables[{at}].measures", name) for name in table.measures]
    for at, target in enumerate(plan.targets):
        yield from check_model(f"targets[{at}]", target.model, target.dataset)
        used.append((f"targets[{at}].measure", target.measure))
        if (target.at_least is None) == (target.at_most is None):
            yield f"targets[{at}]: give at_least or at_most"
    for at, claim in enumerate(plan.claims):
        for dataset in claim.datasets:
            for model in (claim.better, claim.worse):
                yield from check_model(f"claims[{at}]", model, dataset)
        seeds = {models[model].seeds for model in (claim.better, claim.worse) if model in models}
        if len(seeds) > 1:
            yield f"claims[{at}]: {claim.better!r} and {claim.worse!r} are fitted with other numbers of seeds"
        used += [(f"claims[{at}].measures", name) for name in claim.measures]
    for at, words in enumerate(plan.words):
        yield from check_model(f"words[{at}]", words.model, words.dataset)
    for at, curve in enumerate(plan.curves):
        yield from unknown(f"curves[{at}].fits", curve.fits, keys)
        yield from unknown(f"curves[{at}].datasets", curve.datasets, plan.datasets)
        for fit in plan.fits:
            if fit.key not in curve.fits:
                continue
            for dataset in sorted(set(curve.datasets) - set(fit.datasets)):
                yield f"curves[{at}].fits: {fit.key!r} is not fitted on {dataset!r}"
            if not fit.preferences:
                yield f"curves[{at}].fits: {fit.key!r} learns from no preferences, so it has no curve"
        used += [(f"curves[{at}]", name) for name in ("error", "density")]
    for at, scatter in enumerate(plan.scatters):
        for series in scatter.series:
            for model in series.models:
                yield from check_model(f"scatters[{at}].series", model, scatter.dataset)
        used.append((f"scatters[{at}].y", scatter.y))
    for at, statistics in enumerate(plan.statistics):
        yield from unknown(f"statistics[{at}].printed", statistics.printed, plan.datasets)
    for where, name in used:
        yield from unknown(where, [name], plan.measures)
