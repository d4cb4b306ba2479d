"""Jobs on words: a fit of a method with a seed, and a curve."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from reproductions.links import LinkTask, PreferenceTask
from reproductions.plan import Method, Model
from reproductions.rankers import make_ranker, warm_up
from reproductions.tasks import (
    WeightedMatch,
    WordMap,
    measure_size,
    wrong_preferences,
)
from tercet.choose import Trial, choose, settings_of
from tercet.data import Preferences
from tercet.errors import DivergedError, InputError
from tercet.learn import HardSource, SparseRanker
from tercet.measure import HeldOutQueries
from tercet.weights import Weights

CHOOSING_SEED = 2000  # added to the seed for the training preferences a parameter is chosen on
_CHOOSING_PREFERENCES = 10_000
_N_RELATED = 5
_REFRESH_EVERY = 32_768  # steps between rankings that hard negatives are taken from
_HARD_SHARE = 0.8  # of the worse documents
_HARD_DEPTH = 30  # of the top of the current ranking
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

    def __post_init__(self) -> None:
        learned = {name: getattr(self.ranker, name, None) for name in _FACTS}
        self.facts = {name: value for name, value in learned.items() if value is not None} | self.facts

    @property
    def nearest(self) -> Nearest | None:
        """Replacements of a word, if any."""
        own: Nearest | None = getattr(self.ranker, "nearest", None)
        return own if self.word_map is None else self.word_map.nearest

    def match(self, model: Model) -> WeightedMatch:
        """Return a model on the words of the task, thinned if the plan says so."""
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
    """Sum of two models of other methods, with the best amount of the second on validation queries."""

    weights_: Weights
    amount_: float

    @classmethod
    def from_weights(cls, first: Weights, second: Weights, validation: HeldOutQueries) -> BlendedModels:
        """Choose among 34 amounts, relative to the spreads of the scores; the smaller of equal amounts wins."""
        widths = [
            np.concatenate([scores.std(axis=1) for _, scores in one.score_blocks(validation.Q, validation.D)]).mean()
            for one in (first, second)
        ]
        ratio = widths[0] / widths[1] if min(widths) > 0 else 1.0
        amounts = [0.0, *(ratio * np.geomspace(0.01, 100, 33)).tolist()]
        blends = [first + second * amount for amount in amounts]
        best = int(np.argmax([validation(weights) for weights in blends]))
        return cls(blends[best], amounts[best])


@dataclass(frozen=True, eq=False)
class MethodView:
    """The matrices as a method sees them."""

    Q: sparse.csr_array
    D: sparse.csr_array
    word_map: WordMap | None = None

    @classmethod
    def from_method(cls, method: Method, task: PreferenceTask) -> MethodView:
        if method.map is None:
            return cls(task.Q, task.D)
        word_map = _links(task).word_map(method.map)
        Q = _mapped(task.Q, word_map.A)
        return cls(Q, Q if task.D is task.Q and word_map.A is word_map.B else _mapped(task.D, word_map.B), word_map)

    def validation(self, task: PreferenceTask) -> Callable[[Weights], float]:
        assert task.validation is not None
        held_out, word_map = task.validation, self.word_map
        return held_out if word_map is None else lambda weights: held_out(word_map.lift(weights))

    def error(self, weights: Weights, prefs: Preferences) -> float:
        """The share of preferences on these rows that are ranked wrongly."""
        return float(wrong_preferences(WeightedMatch(weights), self.Q, self.D, prefs).mean())


def _links(task: PreferenceTask) -> LinkTask:
    """The task; plans that use fields for links on classes are refused."""
    assert isinstance(task, LinkTask)
    return task


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
) -> FittedMethod:
    """Fit with one seed; ``component`` returns the models of a blend."""
    if method.blend:
        if component is None or task.validation is None:
            raise InputError(f"{method.key} blends models, which needs them and validation queries")
        first, second = (component(key) for key in method.blend)
        started = time.perf_counter()
        blended = BlendedModels.from_weights(first, second, task.validation)
        return FittedMethod(blended, seconds=time.perf_counter() - started)
    warm_up(method.ranker)
    prefs = task.train(method.preferences, seed, method.share, method.uniform_over) if method.preferences else None
    lesson = _Lesson(method, task, MethodView.from_method(method, task), seed, prefs)
    settings = settings_of(method.choose) if chooses else [{}]
    rankers = [make_ranker(method.ranker, parameters | setting, seed) for setting in settings]
    started = time.perf_counter()
    best, tried = 0, list[dict[str, Any]]()
    if len(settings) > 1:
        best, tried = lesson.choose(settings, rankers)
    else:
        lesson.fit(rankers[0])
    ranker, seconds = rankers[best], lesson.seconds[id(rankers[best])]
    fitted = FittedMethod(ranker, lesson.view.word_map, seconds)
    if method.choose:
        choosing = time.perf_counter() - started - seconds
        fitted.facts |= {"chosen": settings[best], "tried": tried, "choosing_seconds": choosing}
    if method.early_stop:
        fitted.facts["still_improving"] = still_improving(ranker)
        ranker.history_.clear()  # events hold the last state, and the best one is enough
    return fitted


def still_improving(ranker: Any) -> bool:
    """True if the last validation is the best, so more steps might help.

    With a rate that falls to zero, the last validation should be the best.
    """
    values = [event.validation for event in ranker.history_ if event.validation is not None]
    if not values or getattr(ranker, "schedule", "") == "linear":
        return False
    return bool(ranker.n_steps_) and values[-1] > max(values[:-1], default=-np.inf)


@dataclass(frozen=True, eq=False)
class _Lesson:
    """Shared data of the rankers of a method and seed."""

    method: Method
    task: PreferenceTask
    view: MethodView
    seed: int
    prefs: Preferences | None
    seconds: dict[int, float] = field(default_factory=dict)  # of the fits of each ranker, by id()

    def fit(self, ranker: Any, callbacks: Sequence[Any] = ()) -> None:
        """Fit a ranker, or continue its fit, and add up the time."""
        started = time.perf_counter()
        try:
            self._fit(ranker, callbacks)
        finally:
            self.seconds[id(ranker)] = self.seconds.get(id(ranker), 0.0) + time.perf_counter() - started

    def _fit(self, ranker: Any, callbacks: Sequence[Any]) -> None:
        """Fit a ranker from the data that its kind learns from."""
        Q, D, prefs = self.view.Q, self.view.D, self.prefs
        if self.method.parallel and prefs is None:
            rows = _links(self.task).parallel()
            ranker.fit_parallel(Q[rows], D[rows])
        elif prefs is None or self.method.ranker == "QueryExpansion":
            ranker.fit(Q, prefs, D)
        else:
            more: dict[str, Any] = {"validation": self.view.validation(self.task)} if self.method.early_stop else {}
            if self.method.second is not None:
                # As many steps of the second objective, from everything that is known of it.
                second = self.task.train(len(prefs), CHOOSING_SEED + self.seed)
                more["second"] = _links(self.task).query_block(self.method.second), second
            if self.method.third:
                third = self.task.train(len(prefs), 2 * CHOOSING_SEED + self.seed)
                more["third"] = Q, third, Q
            if self.method.parallel:
                rows = _links(self.task).parallel()
                more["translations"] = np.column_stack([rows, rows])
            ranker.fit(Q, self._source(prefs), D, callbacks=callbacks, **more)

    def _source(self, prefs: Preferences) -> Any:
        """The preferences themselves; or as many with worse documents from the top of the current ranking."""
        method = self.method
        if method.negatives == "random":
            return prefs
        sampler = _links(self.task).sampler(method.share, method.uniform_over)
        return HardSource(
            sampler,
            self.view.Q,
            self.view.D,
            len(prefs),
            random_state=self.seed,
            depth=_HARD_DEPTH,
            hard=_HARD_SHARE,
            refresh_every=_REFRESH_EVERY,
        )

    def choose(self, settings: list[dict[str, Any]], rankers: list[Any]) -> tuple[int, list[dict[str, Any]]]:
        """Fit the best ranker: of least error on other training preferences, or of best MAP on validation queries.

        Returns its number, and the value of every setting.
        """
        on_validation = self.method.choose_on == "validation"
        if on_validation:
            measure = self.view.validation(self.task)
        else:
            others = self.task.train(_CHOOSING_PREFERENCES, CHOOSING_SEED + self.seed, self.method.share)

            def measure(weights: Weights) -> float:
                return self.view.error(weights, others)

        name = "map" if on_validation else "error"
        best, found = self._choose(rankers, measure, name, on_validation)
        return best, [setting | values for setting, values in zip(settings, found, strict=True)]

    def _choose(
        self, rankers: list[Any], measure: Callable[[Weights], float], name: str, higher_is_better: bool
    ) -> tuple[int, list[dict[str, Any]]]:
        """Fit every ranker; two of them are in memory at a time."""
        trials: dict[int, Trial] = {}
        found: list[dict[str, Any]] = []
        best = -1
        for number, ranker in enumerate(rankers):
            try:
                self.fit(ranker)
            except DivergedError as error:
                found.append({"diverged": True})
                last_error = error
                continue
            trials[number] = Trial({}, np.array(measure(ranker.weights_)))
            found.append({name: trials[number].mean})
            numbers = list(trials)
            best = numbers[choose(list(trials.values()), higher_is_better=higher_is_better)]
            for other in numbers:
                if other != best:
                    rankers[other] = None
        if best < 0:
            raise DivergedError(f"every setting diverged, the last one so: {last_error}") from last_error
        return best, found


# -- one method on one data set with one seed -------------------------------------------------------------------------


@dataclass(frozen=True)
class TermJob:
    """A method on a data set with a seed, and the words to look up in its models."""

    method: Method
    seed: int
    test_preferences: int
    parameters: dict[str, Any]
    lookups: dict[str, tuple[str, ...]]  # model -> query words
    from_map: tuple[str, ...] = ()  # models whose words are looked up in the map

    def learn(self, task: PreferenceTask, component: Callable[[str], Weights]) -> FittedMethod:
        """Fit; the first seed chooses parameters, later seeds have them already."""
        return learn(self.method, task, self.parameters, self.seed, chooses=self.seed == 0, component=component)

    def measure(self, task: PreferenceTask, fitted: FittedMethod) -> dict[str, Any]:
        """Measure every model, look up words."""
        test = task.test(self.test_preferences, self.seed)
        tested = np.bincount(test.query)
        models: dict[str, dict[str, Any]] = {}
        related = {}
        for model in self.method.all_models():
            started = time.perf_counter()
            match = fitted.match(model)
            thinning = 0.0 if model.thin is None else time.perf_counter() - started
            size = measure_size(match.weights)
            started = time.perf_counter()
            measured = task.measure(match, test)
            seconds = {
                "seconds": fitted.seconds + thinning,
                "measuring_seconds": time.perf_counter() - started,
            }
            models[model.key] = {
                "means": measured.means | size | seconds,
                "by_query": measured.by_query,
                "wrong": np.bincount(test.query[measured.wrong], minlength=len(tested)).tolist(),
            }
            if model.key in self.lookups:
                nearest = fitted.nearest if model.key in self.from_map else match.weights.related
                related[model.key] = _look_up(nearest, task.words, self.lookups[model.key])
        facts = fitted.facts | {"preferences": self.method.preferences}
        return {"facts": facts, "models": models, "related": related, "tested": tested.tolist()}


def _look_up(
    nearest: Nearest | None, words: list[str] | None, query_words: tuple[str, ...]
) -> dict[str, list[list[Any]]]:
    """Return the most related words of each query word, or its replacements; empty for an unknown word."""
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
    test_preferences: int
    parameters: dict[str, Any]
    steps: tuple[int, ...]
    second_measure: str = "density"

    def run(self, task: PreferenceTask) -> dict[str, Any]:
        """Train in parts, with the bits of training at once. A second curve follows the refit on the final support, if
        any.
        """
        method = self.method
        warm_up(method.ranker)
        view = MethodView.from_method(method, task)
        prefs = task.train(method.preferences, 0, method.share, method.uniform_over)
        test = task.test(self.test_preferences, 0)
        others = task.train(self.test_preferences, CHOOSING_SEED, method.share)

        def point(step: int, seconds: float, weights: Weights) -> dict[str, float]:
            lifted = weights if view.word_map is None else view.word_map.lift(weights)
            error = float(task.wrong(WeightedMatch(lifted), test).mean())
            if self.second_measure == "density":
                second = measure_size(weights)["density"]
            else:
                second = view.error(weights, others)
            return {"step": step, "seconds": seconds, "error": error, self.second_measure: second}

        ranker = make_ranker(method.ranker, self.parameters)
        points, done, seconds = [], 0, 0.0
        for step in self.steps:
            started = time.perf_counter()
            ranker.partial_fit(view.Q, prefs[done:step], view.D)
            seconds += time.perf_counter() - started
            done = step
            points.append(point(step, seconds, ranker.weights_))
        if not (isinstance(ranker, SparseRanker) and ranker.refit):
            return {"series": {"weights_": points}}
        refitted = []
        for step in self.steps:
            started = time.perf_counter()
            again = SparseRanker.from_weights(ranker.weights_.sparse, **ranker.get_params())
            again.refit_on_support(view.Q, prefs[:step], view.D)
            refitted.append(point(step, time.perf_counter() - started, again.weights_))
        return {"series": {"weights_before_refit_": points, "weights_": refitted}}


def curve_steps(first: int, last: int, points: int) -> tuple[int, ...]:
    """Return steps that grow by a constant factor, with the last step.

    Examples
    --------
    >>> curve_steps(10, 1000, 3)
    (10, 100, 1000)
    """
    return tuple(sorted({round(step) for step in np.geomspace(min(first, last), last, points)}))
