"""The pieces of a reproduction with words: one method on one data set with one seed, and one curve."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from reproductions.cache import DeadlineWatch, RunDeadline
from reproductions.plan import Method, Model
from reproductions.tasks import (
    ClassTask,
    PreferenceTask,
    WeightedMatch,
    WordMap,
    measure_size,
    wrong_preferences,
)
from tercet.choose import settings_of
from tercet.data import Preferences
from tercet.errors import InputError
from tercet.fitting.halving import PausableFit, compared, halved
from tercet.fitting.rankers import CLASSIFIERS, decomposing_once, hard_negatives, make_ranker, refits, refitted, warm_up
from tercet.measure import blend
from tercet.weights import Weights

CHOOSING_SEED = 2000  # added to the seed for the training preferences a parameter is chosen on
_CHOOSING_PREFERENCES = 10_000
_N_RELATED = 5
_SLICE = 16_384  # steps of a curve between two looks at the deadline
_DIRECTIONS: dict[Any, Any] = {}  # of the texts that were decomposed last
_REFRESH_EVERY = 32_768  # steps between rankings that hard negatives are taken from
_FACTS = ("l1_", "n_fits_", "n_steps_", "n_components_", "alpha_", "beta_", "n_expanded_", "amount_")

Nearest = Callable[[int, int], list[tuple[int, float]]]  # column, k -> columns and weights


# -- learning ---------------------------------------------------------------------------------------------------------


@dataclass
class FittedMethod:
    """A fitted ranker, on the words that the method sees."""

    ranker: Any
    word_map: WordMap | None = None
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    cut: bool = False  # the deadline came before the last step

    def __post_init__(self) -> None:
        learned = {name: getattr(self.ranker, name, None) for name in _FACTS}
        self.facts = {name: value for name, value in learned.items() if value is not None} | self.facts

    @property
    def nearest(self) -> Nearest | None:
        """The words a word is replaced by, where it is."""
        own: Nearest | None = getattr(self.ranker, "nearest", None)
        return own if self.word_map is None else self.word_map.nearest

    def match(self, model: Model) -> WeightedMatch:
        """One of its models, thinned if the model says so, on the words of the task."""
        source = self.ranker if model.thin is None else self.ranker.thin(model.thin)
        weights: Weights = getattr(source, model.weights)
        if self.word_map is not None:
            weights = self.word_map.lift(weights)
        represent = {
            name: getattr(self.ranker, f"represent_{name}")
            for name in ("queries", "docs")
            if hasattr(self.ranker, f"represent_{name}")
        }
        return WeightedMatch(weights, **represent)


@dataclass
class BlendedModels:
    """Two models of other methods, blended by the amount that is best on validation."""

    weights_: Weights
    amount_: float


@dataclass(frozen=True, eq=False)
class MethodView:
    """The matrices as a method sees them."""

    Q: sparse.csr_array
    D: sparse.csr_array
    word_map: WordMap | None = None

    @classmethod
    def of(cls, method: Method, task: PreferenceTask) -> MethodView:
        if method.map is None:
            return cls(task.Q, task.D)
        word_map = task.word_map(method.map)
        Q = _mapped(task.Q, word_map.A)
        return cls(Q, Q if task.D is task.Q and word_map.A is word_map.B else _mapped(task.D, word_map.B), word_map)

    def validation(self, task: PreferenceTask) -> Callable[[Weights], float]:
        assert task.validation is not None
        held_out, word_map = task.validation, self.word_map
        return held_out if word_map is None else lambda weights: held_out(word_map.lift(weights))

    def error(self, weights: Weights, prefs: Preferences) -> float:
        """The share of preferences on these rows that are ranked wrongly."""
        return float(wrong_preferences(WeightedMatch(weights), self.Q, self.D, prefs).mean())


def _mapped(X: sparse.csr_array, A: sparse.csr_array) -> sparse.csr_array:
    mapped = sparse.csr_array(X @ A.T, dtype=np.float32)
    mapped.sort_indices()
    return mapped


def learn(
    method: Method,
    task: PreferenceTask,
    parameters: dict[str, Any],
    seed: int,
    *,
    chooses: bool = True,
    component: Callable[[str], Weights] | None = None,
    deadline: RunDeadline | None = None,
) -> FittedMethod:
    """Fit with one seed; ``component`` gives the models a blend is made of."""
    if method.blend:
        if component is None or task.validation is None:
            raise InputError(f"{method.key} blends models, which needs them and validation queries")
        first, second = (component(key) for key in method.blend)
        started = time.perf_counter()
        blended = BlendedModels(*blend(first, second, task.validation))
        return FittedMethod(blended, seconds=time.perf_counter() - started)
    warm_up(method.ranker)
    if method.ranker in CLASSIFIERS:
        if not isinstance(task, ClassTask):
            raise InputError(f"{method.ranker} needs classes")
        classifier = make_ranker(method.ranker, parameters, seed)
        started = time.perf_counter()
        classifier.fit(task.Q, task.y)
        return FittedMethod(classifier, seconds=time.perf_counter() - started)
    watch = DeadlineWatch(deadline or RunDeadline())
    lesson = _Lesson(method, task, MethodView.of(method, task), seed, watch)
    prefs = task.train(method.preferences, seed, method.share, method.uniform_over) if method.preferences else None
    started = time.perf_counter()
    settings = settings_of(method.choose) if chooses else [{}]
    if len(settings) == 1:
        taken = _Taken(lesson.fit(parameters | settings[0], prefs), settings[0])
    else:
        taken = lesson.choose(settings, parameters, prefs)
    fit = taken.fit
    fitted = FittedMethod(fit.ranker, lesson.view.word_map, fit.seconds)
    if method.choose:
        choosing = time.perf_counter() - started - fit.seconds
        fitted.facts |= {"chosen": taken.setting, "tried": taken.tried, "choosing_seconds": choosing}
    if method.early_stop:
        fitted.facts["still_improving"] = still_improving(fit.ranker)
        fit.ranker.history_.clear()  # events know the last state, and the best one is enough
    if watch.ended_at is not None:  # with early stopping the ranker may have gone back to an earlier step
        fitted.cut = True
        fitted.facts |= {"steps_taken": watch.ended_at} | ({"run": watch.n_runs} if len(settings) == 1 else {})
    return fitted


def still_improving(ranker: Any) -> bool:
    """Whether the last validation was the best one, so that more steps might have brought more.

    A rate that falls to zero with the last step has come to its end; there the last one is expected to be the best.
    """
    values = [event.validation for event in ranker.history_ if event.validation is not None]
    if not values or getattr(ranker, "schedule", "") == "linear":
        return False
    return bool(ranker.n_steps_) and values[-1] > max(values[:-1], default=-np.inf)


@dataclass(frozen=True, eq=False)
class _Taken:
    """A fit that has ended, what was chosen for it, and all that was tried."""

    fit: PausableFit
    setting: dict[str, Any]
    tried: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Lesson:
    """All that the rankers of one method with one seed have in common."""

    method: Method
    task: PreferenceTask
    view: MethodView
    seed: int
    watch: DeadlineWatch

    def teach(self, ranker: Any, prefs: Preferences | None, *callbacks: Callable[[Any], Any]) -> None:
        """Fit the ranker with what its kind learns from; the same texts are decomposed once for all of them."""
        with decomposing_once(_DIRECTIONS):
            self._teach(ranker, prefs, *callbacks)

    def _teach(self, ranker: Any, prefs: Preferences | None, *callbacks: Callable[[Any], Any]) -> None:
        Q, D = self.view.Q, self.view.D
        if self.method.parallel and prefs is None:
            rows = self.task.parallel()
            ranker.fit_parallel(Q[rows], D[rows])
        elif prefs is None or self.method.ranker == "QueryExpansion":
            ranker.fit(Q, prefs, D)
        else:
            more: dict[str, Any] = {"validation": self.view.validation(self.task)} if self.method.early_stop else {}
            if self.method.second is not None:
                # As many steps of the second objective, from all that is known of it.
                second = self.task.train(len(prefs), CHOOSING_SEED + self.seed)
                more["second"] = self.task.query_block(self.method.second), second
            if self.method.third:
                third = self.task.train(len(prefs), 2 * CHOOSING_SEED + self.seed)
                more["third"] = Q, third, Q
            if self.method.parallel:
                rows = self.task.parallel()
                more["mates"] = np.column_stack([rows, rows])
            ranker.fit(Q, self._source(prefs), D, callbacks=[self.watch, *callbacks], **more)

    def _source(self, prefs: Preferences) -> Any:
        """The preferences themselves; as many with worse documents from the top of the current ranking."""
        method = self.method
        if method.negatives == "random":
            return prefs
        sampler = self.task.sampler(method.share, method.uniform_over)
        how = {"depth": method.hard_depth, "hard": method.hard_share, "refresh_every": _REFRESH_EVERY}
        return hard_negatives(sampler, (self.view.Q, self.view.D), len(prefs), self.seed, **how)

    def begin(self, parameters: dict[str, Any], prefs: Preferences | None) -> PausableFit:
        """A fit that has not begun."""
        ranker = make_ranker(self.method.ranker, parameters, self.seed)
        return PausableFit(ranker, lambda pause: self.teach(ranker, prefs, pause))

    def fit(self, parameters: dict[str, Any], prefs: Preferences | None) -> PausableFit:
        """A fit that has ended."""
        fit = self.begin(parameters, prefs)
        fit.go_to(1.0)
        return fit

    def choose(self, settings: list[dict[str, Any]], parameters: dict[str, Any], prefs: Preferences | None) -> _Taken:
        """The best setting: of least error on other training preferences, or of best MAP on validation queries."""
        on_validation = self.method.choose_on == "validation"
        if on_validation:
            measure = self.view.validation(self.task)
        else:
            others = self.task.train(_CHOOSING_PREFERENCES, CHOOSING_SEED + self.seed, self.method.share)

            def measure(weights: Weights) -> float:
                return self.view.error(weights, others)

        compare = halved if self.method.choose_how == "halving" else compared
        number, fit, values = compare(
            settings,
            lambda setting: self.begin(parameters | setting, prefs),
            measure,
            higher_is_better=on_validation,
        )
        name = "map" if on_validation else "error"
        tried = [
            setting | {name if key == "value" else key: value for key, value in found.items()}
            for setting, found in zip(settings, values, strict=True)
        ]
        return _Taken(fit, settings[number], tried)


# -- one method on one data set with one seed -------------------------------------------------------------------------


@dataclass(frozen=True)
class TermJob:
    """A method on a data set with a seed, and the words to look up in its models."""

    method: Method
    dataset: str
    seed: int
    test_preferences: int
    parameters: dict[str, Any]
    lookups: dict[str, tuple[str, ...]]  # model -> query words
    chooses: bool = True  # false: what the first seed chose is among the parameters
    components: tuple[TermJob, ...] = ()  # of a blend
    from_map: tuple[str, ...] = ()  # models whose words are looked up in the map
    known: dict[str, Any] | None = None  # what it chose when it was done before, where it is learned again

    def setting(self, data_digest: str) -> dict[str, Any]:
        """Everything the result depends on; titles are not among it."""
        method = self.method
        return {
            "what": "term pairs",
            "data": data_digest,
            "ranker": method.ranker,
            "parameters": self.parameters,
            "preferences": method.preferences,
            "choose": {name: list(values) for name, values in method.choose.items()} if self.chooses else {},
            "choose_on": method.choose_on if self.chooses else "",
            "choose_how": method.choose_how if self.chooses else "",
            "early_stop": method.early_stop,
            "map": None if method.map is None else vars(method.map),
            "parallel": method.parallel,
            "negatives": [method.negatives, method.hard_share, method.hard_depth],
            "second": [method.second, method.third],
            "share": method.share,
            "uniform_over": method.uniform_over,
            "blend": [[key, job.setting(data_digest)] for key, job in zip(method.blend, self.components, strict=True)],
            "test_preferences": self.test_preferences,
            "seed": self.seed,
            "models": [[model.key, model.weights, model.thin] for model in method.all_models()],
            "lookups": {model: list(words) for model, words in self.lookups.items()},
            "from_map": list(self.from_map),
        }

    def learn(self, task: PreferenceTask, component: Callable[[str], Weights], deadline: RunDeadline) -> FittedMethod:
        return learn(
            self.method,
            task,
            self.parameters | (self.known or {}),
            self.seed,
            chooses=self.chooses and self.known is None,
            component=component,
            deadline=deadline,
        )

    def measure(self, task: PreferenceTask, fitted: FittedMethod) -> dict[str, Any]:
        """Measure every model, look up words."""
        test = task.test(self.test_preferences, self.seed)
        models: dict[str, dict[str, Any]] = {}
        related = {}
        for model in self.method.all_models():
            started = time.perf_counter()
            match = fitted.match(model)
            thinning = 0.0 if model.thin is None else time.perf_counter() - started
            size = {} if self.method.ranker in CLASSIFIERS else measure_size(match.weights)
            started = time.perf_counter()
            measured = task.measure(match, test)
            seconds = {
                "seconds": fitted.seconds + thinning,
                "measuring_seconds": time.perf_counter() - started,
            }
            models[model.key] = {
                "means": measured.means | size | seconds,
                "by_query": measured.by_query,
                "wrong": measured.wrong,
            }
            if model.key in self.lookups:
                nearest = fitted.nearest if model.key in self.from_map else match.weights.related
                related[model.key] = _look_up(nearest, task.words, self.lookups[model.key])
        facts = fitted.facts | {"preferences": self.method.preferences}
        took = {
            "learning": fitted.seconds,
            "choosing": fitted.facts.get("choosing_seconds", 0.0),
            "measuring": sum(model["means"]["measuring_seconds"] for model in models.values()),
        }
        return {"facts": facts, "models": models, "related": related, "cut": fitted.cut, "took": took}


def _look_up(
    nearest: Nearest | None, words: list[str] | None, query_words: tuple[str, ...]
) -> dict[str, list[list[Any]]]:
    """The words that count most for each query word, by size, or those it is replaced by; nothing for a word that
    has no column."""
    if words is None or nearest is None:
        return {word: [] for word in query_words}
    column = {word: i for i, word in enumerate(words)}
    return {
        word: [[words[j], weight] for j, weight in nearest(column[word], _N_RELATED)] if word in column else []
        for word in query_words
    }


# -- one curve --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurveJob:
    """Error of a method after growing numbers of steps, with the density of W or the error on training preferences."""

    method: Method
    dataset: str
    seed: int
    test_preferences: int
    parameters: dict[str, Any]
    steps: tuple[int, ...]
    beside: str = "density"
    deadline: RunDeadline = field(default_factory=RunDeadline)

    def setting(self, data_digest: str) -> dict[str, Any]:
        return {
            "what": "curve",
            "data": data_digest,
            "ranker": self.method.ranker,
            "parameters": self.parameters,
            "map": None if self.method.map is None else vars(self.method.map),
            "share": self.method.share,
            "uniform_over": self.method.uniform_over,
            "test_preferences": self.test_preferences,
            "seed": self.seed,
            "steps": list(self.steps),
            "beside": self.beside,
        }

    def run(self, task: PreferenceTask) -> dict[str, Any]:
        """Train in slices, which gives the same bits as training at once.

        Where the ranker refits, a second curve goes over the steps of the refit on the final support; where the time
        is over before there is one, nothing is refitted. The last point of what was cut is where it was then.
        """
        method = self.method
        warm_up(method.ranker)
        view = MethodView.of(method, task)
        prefs = task.train(method.preferences, self.seed, method.share, method.uniform_over)
        test = task.test(self.test_preferences, self.seed)
        others = task.train(self.test_preferences, CHOOSING_SEED + self.seed, method.share)

        def point(step: int, seconds: float, weights: Weights) -> dict[str, float]:
            lifted = weights if view.word_map is None else view.word_map.lift(weights)
            error = float(task.wrong(WeightedMatch(lifted), test).mean())
            if self.beside == "density":
                beside = measure_size(weights)["density"]
            else:
                beside = view.error(weights, others)
            return {"step": step, "seconds": seconds, "error": error, self.beside: beside}

        ranker = make_ranker(method.ranker, self.parameters, self.seed)
        points, done, seconds = [], 0, 0.0
        while done < self.steps[-1] and not self.deadline.is_over:
            goal = next(step for step in self.steps if step > done)
            stop = min(goal, done + _SLICE)
            started = time.perf_counter()
            ranker.partial_fit(view.Q, prefs[done:stop], view.D)
            seconds += time.perf_counter() - started
            done = stop
            if done == goal or self.deadline.is_over:
                points.append(point(done, seconds, ranker.weights_))
        if not points:
            return {"cut": True, "left out": True}
        if not refits(ranker):
            return {"series": {"weights_": points}, "cut": done < self.steps[-1]}
        again = [] if done < self.steps[-1] else self._refit_points(ranker, view, prefs, point)
        series = {"weights_before_refit_": points} | ({"weights_": again} if again else {})
        return {"series": series, "cut": len(again) < len(self.steps)}

    def _refit_points(
        self,
        ranker: Any,
        view: MethodView,
        prefs: Preferences,
        point: Callable[[int, float, Weights], dict[str, float]],
    ) -> list[dict[str, float]]:
        """Refits after growing numbers of steps, as many as there is time for."""
        points: list[dict[str, float]] = []
        watch = DeadlineWatch(self.deadline)
        for step in self.steps:
            started = time.perf_counter()
            again = refitted(ranker, view.Q, prefs[:step], view.D, [watch])
            if watch.ended_at is not None:
                break
            points.append(point(step, time.perf_counter() - started, again.weights_))
            if self.deadline.is_over:
                break
        return points


def curve_steps(first: int, last: int, points: int) -> tuple[int, ...]:
    """Steps that grow by a constant factor, the last one included.

    Examples
    --------
    >>> curve_steps(10, 1000, 3)
    (10, 100, 1000)
    """
    return tuple(sorted({round(step) for step in np.geomspace(min(first, last), last, points)}))
