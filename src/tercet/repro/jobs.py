"""The smallest pieces of a reproduction: one fit on one data set with one seed, and one curve."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tercet.learn import SparseRanker
from tercet.repro.learners import RIVALS, make_learner, warm_up
from tercet.repro.learning import CHOOSING_SEED, Outcome, Seen, learn
from tercet.repro.measuring import measure_size
from tercet.repro.plan import Fit
from tercet.repro.running import Deadline
from tercet.repro.tasks import Scorer, Task, wrong_preferences
from tercet.weights import Weights


@dataclass(frozen=True)
class Job:
    """A fit on a data set with a seed, and the words to look up in its models."""

    fit: Fit
    dataset: str
    seed: int
    test_preferences: int
    parameters: dict[str, Any]
    lookups: dict[str, tuple[str, ...]]  # model -> query words
    chooses: bool = True  # false: what the first seed chose is among the parameters
    components: tuple[Job, ...] = ()  # of a blend
    n_related: int = 5
    from_map: tuple[str, ...] = ()  # models whose words are looked up in the map

    def setting(self, data_digest: str) -> dict[str, Any]:
        """Everything the result depends on; titles are not among it."""
        fit = self.fit
        return {
            "what": "fit",
            "data": data_digest,
            "ranker": fit.ranker,
            "parameters": self.parameters,
            "preferences": fit.preferences,
            "choose": {name: list(values) for name, values in fit.choose.items()} if self.chooses else {},
            "choose_share": fit.choose_share,
            "early_stop": fit.early_stop,
            "map": None if fit.map is None else vars(fit.map),
            "mates": fit.mates,
            "second": fit.second,
            "share": fit.share,
            "uniform_over": fit.uniform_over,
            "blend": [[key, job.setting(data_digest)] for key, job in zip(fit.blend, self.components, strict=True)],
            "test_preferences": self.test_preferences,
            "seed": self.seed,
            "models": [[model.key, model.weights, model.thin] for model in fit.all_models()],
            "lookups": {model: list(words) for model, words in self.lookups.items()},
            "from_map": list(self.from_map),
            "n_related": self.n_related,
        }

    def learn(
        self, task: Task, component: Callable[[str], Weights] | None = None, deadline: Deadline | None = None
    ) -> Outcome:
        return learn(
            self.fit,
            task,
            self.parameters,
            self.seed,
            choose=self.chooses,
            component=component,
            deadline=deadline,
        )

    def run(self, task: Task, outcome: Outcome) -> dict[str, Any]:
        """Measure every model, look up words."""
        test = task.test(self.test_preferences, self.seed)
        models, related = {}, {}
        for model in self.fit.all_models():
            started = time.perf_counter()
            scorer = outcome.scorer(model)
            thinning = 0.0 if model.thin is None else time.perf_counter() - started
            size = {} if self.fit.ranker in RIVALS else measure_size(scorer.weights)
            started = time.perf_counter()
            models[model.key] = task.measure(scorer, test) | size
            models[model.key] |= {
                "seconds": outcome.seconds + thinning,
                "measuring_seconds": time.perf_counter() - started,
            }
            if model.key in self.lookups:
                nearest = outcome.nearest if model.key in self.from_map else scorer.weights.related
                related[model.key] = look_up(nearest, task, self.lookups[model.key], self.n_related)
        facts = outcome.facts | {"preferences": self.fit.preferences}
        return {"facts": facts, "models": models, "related": related, "cut": outcome.cut}


def look_up(
    nearest: Callable[[int, int], list[tuple[int, float]]] | None, task: Task, words: tuple[str, ...], k: int
) -> dict[str, list[list[Any]]]:
    """The k words that count most for each query word, by size, or those it is replaced by; nothing for a word that
    has no column."""
    if task.words is None or nearest is None:
        return {word: [] for word in words}
    column = {word: at for at, word in enumerate(task.words)}
    return {word: [[task.words[j], w] for j, w in nearest(column[word], k)] if word in column else [] for word in words}


@dataclass(frozen=True)
class CurveJob:
    """Error of a fit after growing numbers of steps, with the density of W or the error on training preferences."""

    fit: Fit
    dataset: str
    seed: int
    test_preferences: int
    parameters: dict[str, Any]
    steps: tuple[int, ...]
    beside: str = "density"
    deadline: Deadline = field(default_factory=Deadline)

    def setting(self, data_digest: str) -> dict[str, Any]:
        return {
            "what": "curve",
            "data": data_digest,
            "ranker": self.fit.ranker,
            "parameters": self.parameters,
            "map": None if self.fit.map is None else vars(self.fit.map),
            "share": self.fit.share,
            "uniform_over": self.fit.uniform_over,
            "test_preferences": self.test_preferences,
            "seed": self.seed,
            "steps": list(self.steps),
            "beside": self.beside,
        }

    def run(self, task: Task) -> dict[str, Any]:
        """Train in slices, which gives the same bits as training at once.

        Where the ranker refits, a second curve goes over the steps of the refit on the final support.
        """
        warm_up(self.fit.ranker)
        seen = Seen.by(self.fit, task)
        prefs = task.train(self.fit.preferences, self.seed, self.fit.share, self.fit.uniform_over)
        test = task.test(self.test_preferences, self.seed)
        checked = task.train(self.test_preferences, CHOOSING_SEED + self.seed, self.fit.share)

        def point(step: int, seconds: float, weights: Weights) -> dict[str, float]:
            lifted = weights if seen.word_map is None else seen.word_map.lift(weights)
            found = {"step": step, "seconds": seconds, "error": float(task.wrong(Scorer(lifted), test).mean())}
            if self.beside == "density":
                return found | {"density": measure_size(weights)["density"]}
            return found | {"training error": float(wrong_preferences(Scorer(weights), seen.Q, seen.D, checked).mean())}

        learner = make_learner(self.fit.ranker, self.parameters, self.seed)
        points, done, seconds = [], 0, 0.0
        for step in self.steps:
            if self.deadline.is_over:
                break
            started = time.perf_counter()
            learner.partial_fit(seen.Q, prefs[done:step], seen.D)
            seconds += time.perf_counter() - started
            points.append(point(step, seconds, learner.weights_))
            done = step
        found = {"weights_": points}
        if isinstance(learner, SparseRanker) and learner.refit:
            support = learner.weights_.sparse
            refitted = []
            for step in self.steps:
                started = time.perf_counter()
                again = SparseRanker.from_weights(support, **learner.get_params())
                again.refit(seen.Q, prefs[:step], seen.D)
                refitted.append(point(step, time.perf_counter() - started, again.weights_))
            found = {"weights_before_refit_": points, "weights_": refitted}
        return {"series": found, "cut": len(points) < len(self.steps)}


def curve_steps(first: int, last: int, points: int) -> tuple[int, ...]:
    """Steps that grow by a constant factor, the last one included.

    Examples
    --------
    >>> curve_steps(10, 1000, 3)
    (10, 100, 1000)
    """
    return tuple(sorted({round(step) for step in np.geomspace(min(first, last), last, points)}))
