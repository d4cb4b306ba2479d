"""Jobs on words: a fit of a method with a seed, and a curve."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reproductions.links import LinkTask, PreferenceTask
from reproductions.plan import Curves, Method, Model, Plan
from reproductions.rankers import make_ranker, warm_up
from reproductions.tasks import WeightedMatch, WordMap, measure_size, wrong_preferences
from tercet.choose import Trial, choose, settings_of
from tercet.data import Preferences
from tercet.errors import DivergedError
from tercet.learn import HardSource, LSIRanker, SparseRanker
from tercet.measure import HeldOutQueries, parse_measure
from tercet.weights import Weights

CHOOSING_SEED = 2000  # added to the seed for the training preferences a parameter is chosen on
_CHOOSING_PREFERENCES = 10_000
_N_RELATED = 5
_REFRESH_EVERY = 32_768  # steps between rankings that hard negatives are taken from
_HARD_SHARE = 0.8  # of the worse documents
_HARD_DEPTH = 30  # of the top of the current ranking
_FACTS = ("l1_", "n_fits_", "n_steps_", "n_components_", "alpha_", "beta_", "n_expanded_")
_AP = parse_measure("AP")
_AMOUNTS = (0.0, *np.geomspace(0.01, 100, 33).tolist())  # of a blend, relative to the spreads of the scores


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
        assert isinstance(task, LinkTask)
        word_map = task.word_map(method.map)
        Q = _mapped(task.Q, word_map.A)
        return cls(Q, Q if task.D is task.Q and word_map.A is word_map.B else _mapped(task.D, word_map.B), word_map)

    def lift(self, weights: Weights) -> Weights:
        """The same weights on the words of the task."""
        return weights if self.word_map is None else self.word_map.lift(weights)

    def error(self, weights: Weights, prefs: Preferences) -> float:
        """The share of preferences on these rows that are ranked wrongly."""
        return float(wrong_preferences(WeightedMatch(weights), self.Q, self.D, prefs).mean())


def _mapped(X: sparse.csr_array, A: sparse.csr_array) -> sparse.csr_array:
    mapped = sparse.csr_array(X @ A.T, dtype=np.float32)
    mapped.sort_indices()
    return mapped


# -- learning ---------------------------------------------------------------------------------------------------------


@dataclass
class FittedMethod:
    """A fitted ranker, on the words that the method sees; of a blend the sum of two models."""

    ranker: Any
    view: MethodView
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)

    def match(self, model: Model) -> WeightedMatch:
        """Return a model on the words of the task, thinned if the plan says so."""
        if isinstance(self.ranker, Weights):
            return WeightedMatch(self.ranker)
        source = self.ranker if model.thin is None else self.ranker.thin(model.thin)
        match = WeightedMatch(self.view.lift(getattr(source, model.weights)))
        if hasattr(self.ranker, "represent_queries"):
            return WeightedMatch(match.weights, self.ranker.represent_queries)
        return match


def fit_method(
    method: Method,
    task: PreferenceTask,
    parameters: dict[str, Any],
    seed: int,
    component: Callable[[str], Weights] | None = None,
) -> FittedMethod:
    """Fit with one seed; the first seed chooses, and later seeds get its choice in ``parameters``.

    ``component`` returns the models of a blend.
    """
    if method.blend:
        assert component is not None
        assert isinstance(task, LinkTask)
        first, second = (component(key) for key in method.blend)
        started = time.perf_counter()
        blended, amount = blend(first, second, task.validation)
        facts: dict[str, Any] = {"amount_": amount}
        return FittedMethod(blended, MethodView(task.Q, task.D), time.perf_counter() - started, facts)
    warm_up(method.ranker)
    view = MethodView.from_method(method, task)
    settings = settings_of(method.choose) if seed == 0 else [{}]
    best: FittedMethod | None = None
    trials: list[Trial] = []
    tried: list[dict[str, Any]] = []
    choosing_seconds = 0.0
    for setting in settings:
        ranker = make_ranker(method.ranker, parameters | setting, seed)
        started = time.perf_counter()
        try:
            _fit(ranker, method, task, view, seed)
        except DivergedError:
            if setting == settings[-1] and best is None:
                raise
            tried.append(setting | {"diverged": True})
            continue
        seconds = time.perf_counter() - started
        choosing_seconds += seconds
        value = _value(ranker.weights_, method, task, view, seed) if len(settings) > 1 else 0.0
        trials.append(Trial(setting, np.array(value)))
        tried.append(setting | {"value": value})
        if choose(trials, higher_is_better=method.choose_on == "validation") == len(trials) - 1:
            best = FittedMethod(ranker, view, seconds, {"chosen": setting})
    assert best is not None
    learned = {name: getattr(best.ranker, name, None) for name in _FACTS}
    best.facts |= {name: value for name, value in learned.items() if value is not None}
    if method.choose:
        best.facts |= {"tried": tried, "choosing_seconds": choosing_seconds - best.seconds}
    if method.early_stop:
        best.facts["still_improving"] = still_improving(best.ranker)
    return best


def _fit(ranker: Any, method: Method, task: PreferenceTask, view: MethodView, seed: int) -> None:
    """Fit a ranker from the data that its kind learns from."""
    Q, D = view.Q, view.D
    if not method.preferences:
        if method.parallel:
            assert isinstance(task, LinkTask)
            rows = task.parallel()
            ranker.fit_parallel(Q[rows], D[rows])
        else:
            ranker.fit(Q, None, D)
        return
    prefs = task.train(method.preferences, seed, method.share, method.uniform_over)
    source: Any = prefs
    more: dict[str, Any] = {}
    if isinstance(task, LinkTask):
        if method.early_stop:
            more["validation"] = lambda weights: task.validation(view.lift(weights))
        if method.negatives == "hard":
            sampler = task.sampler(method.share, method.uniform_over)
            source = HardSource(
                sampler,
                Q,
                D,
                len(prefs),
                random_state=seed,
                depth=_HARD_DEPTH,
                hard=_HARD_SHARE,
                refresh_every=_REFRESH_EVERY,
            )
        if method.second is not None:  # as many steps of the second objective, from everything that is known of it
            more["second"] = task.query_block(method.second), task.train(len(prefs), CHOOSING_SEED + seed)
        if method.third:
            more["third"] = Q, task.train(len(prefs), 2 * CHOOSING_SEED + seed), Q
        if method.parallel:
            more["start"] = _latent_start(ranker, task.parallel(), Q, D)
    ranker.fit(Q, source, D, **more)


def _latent_start(ranker: Any, rows: NDArray[np.int64], Q: sparse.csr_array, D: sparse.csr_array) -> Weights:
    """Return cross-language LSI of the frequent words of texts and their translations."""
    if ranker.n_frequent is not None:
        Q, D = (_frequent_words(X, ranker.n_frequent) for X in (Q, D))
    lsi = LSIRanker(n_components=ranker.n_components, random_state=ranker.random_state)
    return lsi.fit_parallel(Q[rows], D[rows]).weights_


def _frequent_words(texts: sparse.csr_array, n_frequent: int) -> sparse.csr_array:
    """Set the weights of all words but the n in most texts to zero; ties by column."""
    order = np.argsort(-np.bincount(texts.indices, minlength=texts.shape[1]), kind="stable")
    is_frequent = np.zeros(texts.shape[1], dtype=bool)
    is_frequent[order[:n_frequent]] = True
    return sparse.csr_array((texts.data * is_frequent[texts.indices], texts.indices, texts.indptr), texts.shape)


def _value(weights: Weights, method: Method, task: PreferenceTask, view: MethodView, seed: int) -> float:
    """MAP on validation queries, or the error on other training preferences: how a setting is chosen."""
    if method.choose_on == "validation":
        assert isinstance(task, LinkTask)
        return task.validation(view.lift(weights))
    return view.error(weights, task.train(_CHOOSING_PREFERENCES, CHOOSING_SEED + seed, method.share))


def still_improving(ranker: Any) -> bool:
    """True if the last validation is the best, so more steps might help.

    With a rate that falls to zero, the last validation should be the best.
    """
    history = getattr(ranker, "history_", None) or ranker.ranker_.history_
    values = [event.validation for event in history if event.validation is not None]
    if not values or getattr(ranker, "schedule", "") == "linear":
        return False
    return values[-1] > max(values[:-1], default=-np.inf)


def blend(first: Weights, second: Weights, validation: HeldOutQueries) -> tuple[Weights, float]:
    """Return the sum of two models with the best amount of the second, of 34; the smaller of equal amounts wins."""
    blocks = [
        (block, scores, others)
        for (block, scores), (_, others) in zip(
            *(one.score_blocks(validation.Q, validation.D) for one in (first, second)), strict=True
        )
    ]
    widths = [np.concatenate([block[side].std(axis=1) for block in blocks]).mean() for side in (1, 2)]
    ratio = float(widths[0] / widths[1]) if min(widths) > 0 else 1.0

    def value(amount: float) -> float:
        parts = [validation.measured(block, one + amount * other, (_AP,)) for block, one, other in blocks]
        return float(np.concatenate(parts).mean())

    amounts = [ratio * amount for amount in _AMOUNTS]
    best = amounts[int(np.argmax([value(amount) for amount in amounts]))]
    return first + second * best, best


# -- one method on one data set with one seed -------------------------------------------------------------------------


def measure_models(
    plan: Plan, method: Method, dataset: str, seed: int, task: PreferenceTask, fitted: FittedMethod
) -> dict[str, Any]:
    """Measure every model of a fitted method, and look up the words that the plan shows."""
    test = task.test(plan.test_preferences, seed)
    tested = np.bincount(test.query)
    models: dict[str, dict[str, Any]] = {}
    related = {}
    for model in method.all_models():
        started = time.perf_counter()
        match = fitted.match(model)
        seconds = fitted.seconds + (0.0 if model.thin is None else time.perf_counter() - started)
        measured = task.measure(match, test)
        models[model.key] = {
            "means": measured.means | measure_size(match.weights) | {"seconds": seconds},
            "by_query": measured.by_query,
            "wrong": np.bincount(test.query[measured.wrong], minlength=len(tested)).tolist(),
        }
        for words in (words for words in plan.words if (words.dataset, words.model) == (dataset, model.key)):
            related[model.key] = _look_up(words.of, fitted, match.weights, task.words, tuple(words.printed))
    facts = fitted.facts | {"preferences": method.preferences}
    return {"facts": facts, "models": models, "related": related, "tested": tested.tolist()}


def _look_up(
    kind: str, fitted: FittedMethod, weights: Weights, names: list[str] | None, query_words: tuple[str, ...]
) -> dict[str, list[list[Any]]]:
    """Return the most related words of each query word, or its replacements; empty for an unknown word."""
    if names is None:
        return {word: [] for word in query_words}
    word_map = fitted.view.word_map
    nearest: Any = weights.related
    if kind == "map":
        nearest = fitted.ranker.words_.nearest if word_map is None else word_map.nearest
    column = {word: i for i, word in enumerate(names)}
    return {
        word: [[names[j], weight] for j, weight in nearest(column[word], _N_RELATED)] if word in column else []
        for word in query_words
    }


# -- one curve --------------------------------------------------------------------------------------------------------


def run_curve(curves: Curves, method: Method, parameters: dict[str, Any], task: PreferenceTask) -> dict[str, Any]:
    """Error after growing numbers of steps, with the density of W or the error on training preferences.

    Training goes on from point to point, with the bits of training at once. A second curve follows the refit on the
    final support, if any.
    """
    warm_up(method.ranker)
    view = MethodView.from_method(method, task)
    prefs = task.train(method.preferences, 0, method.share, method.uniform_over)
    test = task.test(curves.test_preferences, 0)
    others = task.train(curves.test_preferences, CHOOSING_SEED, method.share)

    def point(step: int, weights: Weights) -> dict[str, float]:
        error = float(task.wrong(WeightedMatch(view.lift(weights)), test).mean())
        is_density = curves.second_measure == "density"
        second = measure_size(weights)["density"] if is_density else view.error(weights, others)
        return {"step": step, "error": error, curves.second_measure: second}

    steps = curve_steps(curves.first, method.preferences, curves.points)
    ranker = make_ranker(method.ranker, parameters)
    points = []
    for done, step in zip((0, *steps), steps, strict=False):
        ranker.partial_fit(view.Q, prefs[done:step], view.D)
        points.append(point(step, ranker.weights_))
    if not (isinstance(ranker, SparseRanker) and ranker.refit):
        return {"series": {"weights_": points}}
    refitted = []
    for step in steps:
        again = SparseRanker.from_weights(ranker.weights_.sparse, **ranker.get_params())
        again.refit_on_support(view.Q, prefs[:step], view.D)
        refitted.append(point(step, again.weights_))
    return {"series": {"weights_before_refit_": points, "weights_": refitted}}


def curve_steps(first: int, last: int, points: int) -> tuple[int, ...]:
    """Return steps that grow by a constant factor, with the last step.

    Examples
    --------
    >>> curve_steps(10, 1000, 3)
    (10, 100, 1000)
    """
    return tuple(sorted({round(step) for step in np.geomspace(min(first, last), last, points)}))
