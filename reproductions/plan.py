"""Plan of a reproduction: the schema of ``papers/*.toml``, its reader, and the plan of a quick run.

A plan has data sets, measures and methods, then tables and figures of their models. A method is a ranker with
parameters, a grid of parameters, and a rule for the choice. A method gives one model of the same name, or several
models. Tables, orderings, paired tests, related words and figures name models.

The reader of a data set decides the kind of its task:

- *classes*: rows with classes; a row is a query for the others of its class.
- *links*: queries whose linked documents are relevant.
- *rows*: LETOR rows, graded feature vectors of queries, in folds.

On classes and links a method learns from ``preferences`` that are drawn with the seed, and a model is the weights
between words. On rows a method learns from the training part of each fold.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tercet.errors import FormatError, InputError
from tercet.measure import parse_measure

TaskKind = Literal["classes", "links", "rows"]
Reader = Literal["20newsgroups", "mnist", "svmlight", "wikispeedia", "kyoto", "letor-folds", "parses", "made-up"]
TASK_OF_READER: dict[str, TaskKind] = {
    "20newsgroups": "classes",
    "mnist": "classes",
    "svmlight": "classes",
    "wikispeedia": "links",
    "kyoto": "links",
    "letor-folds": "rows",
    "parses": "rows",
    "made-up": "rows",
}
_PAPERS = Path(__file__).parent / "papers"
_hints = cache(get_type_hints)


@dataclass(frozen=True)
class Paper:
    key: str
    title: str
    authors: str
    venue: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quick:
    """Limits of a quick run; None for no limit."""

    seeds: int = 1
    values: int = 2  # of each parameter that is chosen
    # classes and links
    share: float = 1.0  # of the preferences
    test_preferences: int | None = None
    train_rows: int | None = None
    test_rows: int | None = None
    max_features: int | None = None  # where a data set has a limit
    points: int = 5  # of each curve
    # rows
    folds: int = 1
    queries: int | None = None  # of each part, the first ones
    per_query: int = 4  # rows that are drawn of each query, at most


@dataclass(frozen=True)
class PaperMeasure:
    """A measure, its format, and the tolerance around a printed number.

    An empty ``name`` is the key. Measures of classes and links: ``map``, ``p10`` (links only), ``error``, the share of
    test preferences that are ranked wrongly, and of W itself ``memory`` and ``density``.

    Measures of rows: every measure of rankings by its name, as in ``"nDCG(dcg='letor')@10"``; two of pairs of rows,
    ``"disagreement"``, equation 1 of Tsivtsivadze et al. (2008), and ``"misordered"``, the same over pairs of different
    grades only; and of the ranker itself ``"features used"``, the share of features with a weight, and ``"megabytes"``,
    the largest sum of all arrays during learning.

    All tasks have ``"seconds"`` of learning.
    """

    title: str
    higher_is_better: bool
    tolerance: float
    relative: bool = False  # the tolerance is a share of the printed number
    least_tolerance: float = 0.0  # where a printed number has too few digits for its share
    digits: int = 3
    unit: str = ""
    compare: bool = True  # false: chosen beforehand, or not printed, so a match says nothing
    spread: Literal["seeds", "standard error"] = "seeds"  # the number after the ±
    name: str = ""

    def tolerance_for(self, printed: float) -> float:
        """Largest distance from a printed number that counts as the same."""
        return max(self.least_tolerance, self.tolerance * (abs(printed) if self.relative else 1.0))


# -- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanData:
    """Files of a data set, below the data home, and their preprocessing.

    Classes and links need all ``files``; 20 Newsgroups needs one. Rows are read from the first existing file; made-up
    rows need no files. SVMlight files may be compressed, with ``.bz2`` or ``.gz`` after their names. ``instead`` lists
    data sets to read if files are missing.
    """

    title: str
    reader: Reader
    files: tuple[str, ...] = ()
    compare: bool = True  # false: not the paper's data, so printed numbers get no verdict
    note: str = ""
    instead: tuple[PlanData, ...] = ()
    measures: tuple[str, ...] = ()  # those that its grades allow; all when empty
    # words, or columns, of classes and links
    max_features: int | None = None  # the most frequent ones
    stop_words: str | None = None
    sublinear_tf: bool = False
    unit_length: bool = False
    n_features: int | None = None  # of SVMlight files and made-up rows
    # links
    relevant: Literal["links", "translation"] = "links"  # what a query should find
    split: Literal["links", "documents"] = "links"  # what is set aside for testing
    query_words: int | None = None  # keyword queries of so many words, drawn from the document
    query_draws: int = 1  # of keywords, for each document
    doc_words: int | None = None  # documents cut to so many words
    bigrams: bool = False  # as a second block of columns
    validation_queries: int = 300
    # made-up rows
    train_queries: int = 500
    rows_of_query: int = 20
    # all but the folds of LETOR
    test_queries: int | None = None  # drawn with a fixed seed; 1,000 when None, of classes all

    @property
    def task(self) -> TaskKind:
        return TASK_OF_READER[self.reader]

    @property
    def description(self) -> str:
        """The note, and the number of test queries if some are drawn."""
        if self.task != "classes" or self.test_queries is None:
            return self.note
        drawn = (
            f"MAP is over {self.test_queries:,} test queries drawn with a fixed seed, each against all test documents."
        )
        return f"{self.note} {drawn}".lstrip()


@dataclass(frozen=True)
class Statistics:
    """Printed facts about data sets: data set -> fact -> number."""

    title: str
    position: str
    printed: dict[str, dict[str, int]]


# -- methods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordSelection:
    """Words of a method: a subset, or replacements; the weights are mapped back to all words.

    ``correlated = k`` replaces each word by the k most correlated words of the ``n_frequent`` most frequent words.
    """

    block: str | None = None  # of the columns
    n_frequent: int | None = None
    correlated: int | None = None
    rare_only: bool = False  # the frequent words themselves are left out


@dataclass(frozen=True)
class Model:
    """One weights value of a method: an attribute of the ranker, or the thinned ranker."""

    key: str
    title: str
    weights: str = "weights_"
    thin: float | None = None


@dataclass(frozen=True)
class ChosenBy:
    """Another method, and the data set of its choice if that is not the same."""

    method: str
    dataset: str = ""


@dataclass(frozen=True)
class Method:
    """A ranker with its parameters and the rule of choice.

    ``choose`` is a grid; every combination is tried. ``choose_on`` names the data of the choice:

    - ``"training"``, of classes and links: the least error on other training preferences. The first seed chooses for
    all seeds.
    - ``"validation"``: of links the best MAP on validation queries, by the first seed; of rows the best by the plan's
    ``choose_by`` on the validation part, for each fold and seed, with the ranker learned from the training part.
    Without a validation part, by cross-validation.
    - ``"cross-validation"``, of rows: on queries of the training and validation part left out in turn; the chosen
    ranker learns from both parts.
    - ``"leave-query-out"``, of rows and kernel rankers: each query of the training and validation part is left out in
    turn, in closed form. Only rows drawn as examples are measured.

    ``chosen_by``, of classes and links: takes the choice of another method's first seed. With ``early_stop`` a row is
    noted as still improving if the last validation is the best.

    Ties go to the sparser setting, then to the earlier one.

    ``reuse = {density = "l1"}``: the first seed searches for ``density``, and the other seeds take the ``l1`` found; a
    quick run takes the parameters of ``quick``. ``blend`` adds two models of other methods, by an amount chosen on
    validation.

    ``per_query`` rows of each query are drawn with the seed. ``drawn_as = "examples"`` learns from the drawn rows
    alone; ``"basis"`` takes the drawn rows as basis vectors of a kernel ranker that learns from all rows.
    """

    key: str
    title: str
    ranker: str = ""
    datasets: tuple[str, ...] = ()  # all when empty
    parameters: dict[str, Any] = field(default_factory=dict)
    by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)  # further parameters
    blend: tuple[str, ...] = ()  # two models, instead of a ranker
    models: tuple[Model, ...] = ()  # one of the method's own name when empty
    seeds: int | None = None  # the plan's when None; 1 for what draws nothing at random, 0 for what has curves only
    slow: bool = False  # so that it starts before all others
    quick: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    # choosing
    choose: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    choose_on: Literal["training", "validation", "cross-validation", "leave-query-out"] = "validation"
    chosen_by: ChosenBy | None = None
    cv_folds: int = 5
    reuse: dict[str, str] = field(default_factory=dict)
    # classes and links
    preferences: int = 0
    early_stop: bool = False  # keep the best model on validation queries; of links
    map: WordSelection | None = None
    parallel: bool = False  # learn from texts and their translations: alone, or as a start where there are preferences
    negatives: Literal["random", "hard"] = "random"  # hard: from the top of the current ranking, of links
    second: str | None = None  # block of the queries of a second objective
    third: bool = False  # an objective among the queries' own texts beside it
    share: float = 1.0  # of the training links
    uniform_over: Literal["links", "queries"] = "links"  # queries: first one of them, then one of its links
    # rows
    per_query: int = 0
    drawn_as: Literal["examples", "basis"] = "examples"

    def all_models(self) -> tuple[Model, ...]:
        suffix = ", by cross-validation" if self.choose_on == "cross-validation" and self.choose else ""
        return self.models or (Model(self.key, self.title + suffix),)

    def parameters_for(self, dataset: str) -> dict[str, Any]:
        return self.parameters | self.by_dataset.get(dataset, {})


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Printed numbers of a model, by measure, or by data set in a table of several data sets.

    ``plus_minus`` are the printed ±, by the same names, and ``params`` is the printed column of that name, as text. A
    row without a model has a title and a reason.
    """

    model: str = ""
    title: str = ""
    reason: str = ""
    dataset: str = ""  # if it is not the table's
    printed: dict[str, float] = field(default_factory=dict)
    plus_minus: dict[str, float] = field(default_factory=dict)
    params: str = ""


@dataclass(frozen=True)
class PaperTable:
    """Models by measures of one data set, or by one measure of several data sets."""

    key: str
    title: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    kind: Literal["paper", "ours"] = "paper"  # "ours" has no printed numbers
    position: str = ""
    note: str = ""
    seconds: bool = False  # a column with those of the fastest seed
    chosen: bool = False  # a column with what was chosen, or searched for


@dataclass(frozen=True)
class Claim:
    """An ordering of the paper: one model is better than other models. ``printed`` has the gain in per cent, by data
    set.
    """

    text: str
    position: str
    better: str
    worse: tuple[str, ...]
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    printed: dict[str, float] = field(default_factory=dict)
    ours: bool = False  # an ordering of our own models or data


@dataclass(frozen=True)
class PairedTests:
    """Paired tests by query: each of ``models`` against one, or all pairs."""

    key: str
    title: str
    dataset: str
    measures: tuple[str, ...]
    models: tuple[str, ...]
    against: str = ""
    test: Literal["permutation", "wilcoxon"] = "permutation"


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
    """Average precision of the first 500 queries under two models, as points."""

    key: str
    title: str
    position: str
    dataset: str
    x: str
    y: str


@dataclass(frozen=True)
class Cutoffs:
    """A measure at rising cut-offs, a line for each model and a panel for each data set."""

    key: str
    title: str
    position: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    models: tuple[str, ...]


# -- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    paper: Paper
    measures: dict[str, PaperMeasure]
    datasets: dict[str, PlanData]
    methods: tuple[Method, ...]
    seeds: int = 1
    test_preferences: int = 0  # of classes and links
    choose_by: str = ""  # the measure that chooses on rows
    quick: Quick = field(default_factory=Quick)
    statistics: tuple[Statistics, ...] = ()
    tables: tuple[PaperTable, ...] = ()
    claims: tuple[Claim, ...] = ()
    comparisons: tuple[PairedTests, ...] = ()
    words: tuple[Words, ...] = ()
    curves: tuple[Curves, ...] = ()
    precisions: tuple[Precisions, ...] = ()
    cutoffs: tuple[Cutoffs, ...] = ()

    def model(self, key: str) -> Model:
        return next(model for method in self.methods for model in method.all_models() if model.key == key)

    def method(self, key: str) -> Method:
        return next(method for method in self.methods if method.key == key)

    def method_of(self, key: str) -> Method:
        """The method that gives this model."""
        return next(method for method in self.methods if any(model.key == key for model in method.all_models()))

    def datasets_of(self, method: Method) -> tuple[str, ...]:
        """The data sets a method runs on."""
        return method.datasets or tuple(self.datasets)

    def n_seeds(self, method: Method) -> int:
        """Number of seeds of a method."""
        return self.seeds if method.seeds is None else method.seeds

    def name_of(self, measure: str) -> str:
        """Return the name of a measure by key."""
        return self.measures[measure].name or measure if measure in self.measures else measure

    def cutoff(self, measure: str) -> int | None:
        """The k of a measure such as nDCG@k; None for a measure without one."""
        name = self.name_of(measure)
        return parse_measure(name).cutoff if "@" in name else None

    def measures_of(self, dataset: str) -> dict[str, PaperMeasure]:
        """The measures that apply to a data set."""
        allowed: tuple[str, ...] = self.datasets[dataset].measures or tuple(self.measures)
        return {name: measure for name, measure in self.measures.items() if name in allowed}


# -- from a file ------------------------------------------------------------------------------------------------------


def known_papers() -> list[str]:
    """Names of the plans of the four papers."""
    return sorted(file.stem for file in _PAPERS.glob("*.toml"))


def find_plan(name: str) -> Plan:
    """Plan of a paper by its name, or of your own by the path of its TOML file.

    Examples
    --------
    >>> find_plan("chen2010").paper.venue
    'ICDM 2010'
    """
    path = _PAPERS / f"{name}.toml" if name in known_papers() else Path(name)
    if not path.is_file():
        raise InputError(f"no paper {name!r}; known: {', '.join(known_papers())}, or give the path of a TOML file")
    try:
        plan: Plan = decode(Plan, tomllib.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError, and those of decode
        raise FormatError(path, None, str(error)) from error
    return plan


def decode(hint: Any, value: Any, where: str = "") -> Any:
    """Return the value as the type says; a ValueError names the key and the type that is needed.

    Examples
    --------
    >>> decode(Model, {"key": "sparse", "title": "Sparse", "thin": 1}).thin
    1.0
    >>> decode(Model, {"key": "sparse", "name": "Sparse"}, "models[0]")
    Traceback (most recent call last):
    ValueError: models[0].name is unknown; known here: key, title, weights, thin
    """
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        [member] = [each for each in inner if each is not NoneType]
        return decode(member, value, where)
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(value, Mapping):
        prefix = f"{where}." if where else ""
        known = {each.name: each for each in fields(hint)}
        for name in value:
            if name not in known:
                raise ValueError(f"{prefix}{name} is unknown; known here: {', '.join(known)}")
        for name, each in known.items():
            if name not in value and each.default is MISSING and each.default_factory is MISSING:
                raise ValueError(f"{prefix}{name} is missing")
        hints = _hints(hint)
        return hint(**{name: decode(hints[name], item, f"{prefix}{name}") for name, item in value.items()})
    if kind is tuple and isinstance(value, list):
        return tuple(decode(inner[0], item, f"{where}[{number}]") for number, item in enumerate(value))
    if kind is dict and isinstance(value, Mapping):
        return {name: decode(inner[1], item, f"{where}.{name}") for name, item in value.items()}
    if hint is float and type(value) is int:
        return float(value)
    if hint is Any or (kind is Literal and value in inner) or type(value) is hint:
        return value
    needed = f"one of {', '.join(map(repr, inner))}" if kind is Literal else getattr(hint, "__name__", hint)
    raise ValueError(f"{where} is {str(value)[:60]!r}; {needed} is needed")


# -- a quick run ------------------------------------------------------------------------------------------------------


def quick_plan(plan: Plan) -> Plan:
    """The plan with fewer seeds, preferences, words, values to choose from and points; readers cut rows and folds."""
    quick = plan.quick

    def fewer(test_preferences: int) -> int:
        return min(test_preferences, quick.test_preferences or test_preferences)

    return replace(
        plan,
        seeds=min(plan.seeds, quick.seeds),
        test_preferences=fewer(plan.test_preferences),
        datasets={
            name: replace(data, max_features=data.max_features and (quick.max_features or data.max_features))
            for name, data in plan.datasets.items()
        },
        methods=tuple(_quick_method(method, quick) for method in plan.methods),
        curves=tuple(
            replace(curves, points=min(curves.points, quick.points), test_preferences=fewer(curves.test_preferences))
            for curves in plan.curves
        ),
    )


def _quick_method(method: Method, quick: Quick) -> Method:
    def not_searched(parameters: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in parameters.items() if name not in method.reuse}

    return replace(
        method,
        seeds=None if method.seeds is None else min(method.seeds, quick.seeds),
        preferences=min(method.preferences, max(1, round(quick.share * method.preferences))),
        per_query=min(method.per_query, quick.per_query),
        choose={name: values[: quick.values] for name, values in method.choose.items()},
        parameters=not_searched(method.parameters) | method.quick,
        by_dataset={name: not_searched(own) for name, own in method.by_dataset.items()},
    )
