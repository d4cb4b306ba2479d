"""Plan of a reproduction: the schema of ``papers/*.toml``.

A plan has data sets, measures and methods, then tables and figures of their models. A method is a ranker, its
parameters, a grid to choose some of them from, and a rule for the choice. A method gives one model of its own name, or
several. Tables, orderings, paired tests, targets, related words and figures name models. Nothing here belongs to one
paper.

The reader of a data set decides the kind of its task:

- *classes*: rows with classes; a row is a query for the others of its class.
- *links*: queries whose linked documents are relevant.
- *rows*: LETOR rows, graded feature vectors of queries, in folds.

On classes and links a method learns from ``preferences`` that are drawn with the seed, and a model is the weights
between words. On rows a method learns from the training part of each fold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NewType

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
# Keys into a plan; reading checks that each is known, and that a model is fitted on the data sets beside it.
DatasetKey = NewType("DatasetKey", str)
MeasureKey = NewType("MeasureKey", str)
MethodKey = NewType("MethodKey", str)
ModelKey = NewType("ModelKey", str)


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
    spread: Literal["seeds", "standard error"] = "seeds"  # the number after the ±
    name: str = ""

    def tolerance_for(self, printed: float) -> float:
        """Largest distance from a printed number that counts as the same."""
        return max(self.least_tolerance, self.tolerance * (abs(printed) if self.relative else 1.0))


# -- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Files of a data set, below the data home, and their preprocessing.

    Classes and links need all ``files``, except 20 Newsgroups, where one is enough. Rows are read from the first that
    exists; made-up rows need no files. SVMlight files may be compressed, with ``.bz2`` or ``.gz`` after their names.

    ``instead`` are other data sets: if the files are missing, the first of them with all its files takes the place of
    this one.
    """

    title: str
    reader: Reader
    files: tuple[str, ...] = ()
    compare: bool = True  # false: not the paper's data, so printed numbers get no verdict
    note: str = ""
    instead: tuple[Data, ...] = ()
    measures: tuple[MeasureKey, ...] = ()  # those that its grades allow; all when empty
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
    printed: dict[DatasetKey, dict[str, int]]


# -- methods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Map:
    """Which words a method sees, and by which others they are replaced; its weights are then mapped back.

    ``correlated = k`` replaces each word by the k of the ``n_frequent`` most frequent words it is most correlated with.
    """

    block: str | None = None  # of the columns
    n_frequent: int | None = None
    correlated: int | None = None
    rare_only: bool = False  # the frequent words themselves are left out


@dataclass(frozen=True)
class Model:
    """One weights value that a method gives: an attribute of the ranker, or the ranker thinned."""

    key: str
    title: str
    weights: str = "weights_"
    thin: float | None = None


@dataclass(frozen=True)
class ChosenBy:
    """Another method, and the data set of its choice if that is not the same."""

    method: MethodKey
    dataset: str = ""


@dataclass(frozen=True)
class Method:
    """A ranker, its parameters, those that are chosen, and how.

    ``choose`` is a grid, every combination of which is tried. ``choose_on`` says what they are measured on:

    - ``"training"``, of classes and links: the least error on other training preferences. The first seed chooses, the
      others take what it chose.
    - ``"validation"``: of links the best MAP on validation queries, by the first seed; of rows the best by the measure
      ``choose_by`` on the validation part, for each fold and seed, and the ranker learned from the training part is
      then taken. Where there is no such part, by cross-validation.
    - ``"cross-validation"``, of rows: on the queries left out in turn of training and validation part together, from
      all of which the chosen one then learns.
    - ``"leave-query-out"``, of rows and kernel rankers: each query of training and validation part without itself, in
      closed form. Of rows that are drawn as examples only these are measured.

    ``choose_how``, of classes and links: ``"full"`` compares after all steps, and the best one is taken as it is.
    ``"halving"`` takes a quarter of the steps with every setting, goes on to one half with the better half of them, and
    to the end with the best: the same bits as if it had been learned alone.

    ``chosen_by``, of classes and links: takes what another method chose on its first seed, on that data set or on the
    same. With ``early_stop`` a row whose last validation was the best is noted as still improving.

    Of equals the sparser one is taken, then the earlier one. With ``rule = "sparsest"`` it is the sparsest whose mean
    is within one standard error of the best. ``most_used`` leaves out what uses more than this share of the features.

    ``reuse = {density = "l1"}``: what ``density`` made the first seed find is given to the others as ``l1``; a quick
    run searches nothing and takes the parameters of ``quick`` instead. ``blend`` adds up two models of other methods by
    an amount chosen on validation.

    With ``per_query`` so many rows of each query are drawn with the seed. ``drawn_as = "examples"`` learns from these
    alone; ``"basis"`` makes them the basis vectors of a kernel ranker that learns from all rows.
    """

    key: str
    title: str
    ranker: str = ""
    datasets: tuple[DatasetKey, ...] = ()  # all when empty
    parameters: dict[str, Any] = field(default_factory=dict)
    by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)  # further parameters
    blend: tuple[str, ...] = ()  # two models, instead of a ranker
    models: tuple[Model, ...] = ()  # one of the method's own name when empty
    seeds: int | None = None  # the plan's when None; 1 for what draws nothing at random, 0 for what has curves only
    last: bool = False  # slow, so that it runs after all others
    quick: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    # choosing
    choose: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    choose_on: Literal["training", "validation", "cross-validation", "leave-query-out"] = "validation"
    choose_by: str = ""  # a measure; "" for the plan's
    choose_how: Literal["full", "halving"] = "full"
    chosen_by: ChosenBy | None = None
    rule: Literal["best", "sparsest"] = "best"
    most_used: float | None = None
    cv_folds: int = 5
    reuse: dict[str, str] = field(default_factory=dict)
    # classes and links
    preferences: int = 0
    early_stop: bool = False  # keep the best model on validation queries; of links
    map: Map | None = None
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
        return self.models or (Model(self.key, self.full_title),)

    @property
    def full_title(self) -> str:
        """The title, and how the parameters were chosen where that is not the rule."""
        return self.title + (", by cross-validation" if self.choose_on == "cross-validation" else "")

    def parameters_for(self, dataset: str) -> dict[str, Any]:
        return self.parameters | self.by_dataset.get(dataset, {})


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A model's printed numbers, by measure, or by data set if the table has several.

    ``plus_minus`` are the printed ±, by the same names, and ``params`` is the printed column of that name, as text. A
    row that cannot be reproduced has a title and the reason instead of a model.
    """

    model: ModelKey = ModelKey("")
    title: str = ""
    reason: str = ""
    dataset: DatasetKey = DatasetKey("")  # if it is not the table's
    printed: dict[str, float] = field(default_factory=dict)
    plus_minus: dict[str, float] = field(default_factory=dict)
    params: str = ""


@dataclass(frozen=True)
class PaperTable:
    """Models by the measures of one data set, or by one measure of several."""

    key: str
    title: str
    datasets: tuple[DatasetKey, ...]
    measures: tuple[MeasureKey, ...]
    rows: tuple[Row, ...]
    kind: Literal["paper", "ours"] = "paper"  # "ours" has no printed numbers
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
    better: ModelKey
    worse: tuple[ModelKey, ...]
    measures: tuple[MeasureKey, ...]
    datasets: tuple[DatasetKey, ...]
    printed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PairedTests:
    """Paired tests by query: each of ``models`` against one, or all pairs of them."""

    key: str
    title: str
    dataset: DatasetKey
    measures: tuple[MeasureKey, ...]
    models: tuple[ModelKey, ...]
    against: ModelKey = ModelKey("")
    test: Literal["permutation", "wilcoxon"] = "permutation"


@dataclass(frozen=True)
class Standings:
    """How often a model is the best and the second best over the data sets and measures of some tables.

    ``best`` and ``second`` are what the paper states of all of them.
    """

    key: str
    title: str
    position: str
    model: ModelKey
    tables: tuple[str, ...]
    best: int
    second: int


@dataclass(frozen=True)
class Target:
    """A bound of our own for the worst seed."""

    dataset: DatasetKey
    model: ModelKey
    measure: MeasureKey
    at_least: float | None = None
    at_most: float | None = None
    times: ModelKey = ModelKey("")  # the bound is a multiple of this model's value
    errors: float = 0.0  # standard errors of our value that are allowed beside the bound


@dataclass(frozen=True)
class Words:
    """Related words of a model, or the words its map replaces a word by: query word -> printed words."""

    key: str
    title: str
    position: str
    dataset: DatasetKey
    model: ModelKey
    printed: dict[str, tuple[str, ...]]
    of: Literal["weights", "map"] = "weights"


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """Test error against steps, on the first seed, with the density of W or the error on training preferences."""

    key: str
    title: str
    position: str
    datasets: tuple[DatasetKey, ...]
    methods: tuple[MethodKey, ...]
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
    dataset: DatasetKey
    x: ModelKey
    y: ModelKey


@dataclass(frozen=True)
class Series:
    title: str
    models: tuple[ModelKey, ...]


@dataclass(frozen=True)
class Scatter:
    """Models as points: a measure against density, seconds, or the number of rows drawn."""

    key: str
    title: str
    dataset: DatasetKey
    x: Literal["density", "seconds", "rows drawn"]
    y: MeasureKey
    series: tuple[Series, ...]
    lines: dict[str, float] = field(default_factory=dict)  # named heights to draw


@dataclass(frozen=True)
class Cutoffs:
    """A measure at rising cut-offs, a line for each model and a panel for each data set."""

    key: str
    title: str
    position: str
    datasets: tuple[DatasetKey, ...]
    measures: tuple[MeasureKey, ...]
    models: tuple[ModelKey, ...]


@dataclass(frozen=True)
class TradeOff:
    """A measure on the test parts against the features used, over all settings of the grids of some methods."""

    key: str
    title: str
    dataset: DatasetKey
    measure: MeasureKey
    models: tuple[ModelKey, ...]
    points: tuple[ModelKey, ...] = ()  # models with their chosen setting only


# -- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    paper: Paper
    measures: dict[str, PaperMeasure]
    datasets: dict[str, Data]
    methods: tuple[Method, ...]
    seeds: int = 1
    test_preferences: int = 0  # of classes and links
    choose_by: str = ""  # the measure that chooses on rows
    quick: Quick = field(default_factory=Quick)
    statistics: tuple[Statistics, ...] = ()
    tables: tuple[PaperTable, ...] = ()
    claims: tuple[Claim, ...] = ()
    comparisons: tuple[PairedTests, ...] = ()
    standings: tuple[Standings, ...] = ()
    targets: tuple[Target, ...] = ()
    words: tuple[Words, ...] = ()
    curves: tuple[Curves, ...] = ()
    scatters: tuple[Scatter, ...] = ()
    precisions: tuple[Precisions, ...] = ()
    cutoffs: tuple[Cutoffs, ...] = ()
    tradeoffs: tuple[TradeOff, ...] = ()

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
        """What a measure's key stands for."""
        return self.measures[measure].name or measure if measure in self.measures else measure

    def cutoff(self, measure: str) -> int | None:
        """The k of a measure such as nDCG@k; None for a measure without one."""
        name = self.name_of(measure)
        return parse_measure(name).cutoff if "@" in name else None

    def measures_of(self, dataset: str) -> dict[str, PaperMeasure]:
        """The measures that apply to a data set."""
        allowed: tuple[str, ...] = self.datasets[dataset].measures or tuple(self.measures)
        return {name: measure for name, measure in self.measures.items() if name in allowed}

    def chooses_by(self, method: Method) -> str:
        """The key of the measure a method's parameters are chosen by, of rows."""
        return method.choose_by or self.choose_by
