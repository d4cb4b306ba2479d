"""One fit of a plan: from a task to a learner, its word map, and what was found on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from tercet.data import Preferences
from tercet.errors import DivergedError, InputError
from tercet.repro.classes import ClassTask
from tercet.repro.learners import RIVALS, make_learner, warm_up
from tercet.repro.plan import Fit, Model
from tercet.repro.running import Deadline
from tercet.repro.tasks import Scorer, Task, WordMap, wrong_preferences
from tercet.weights import Weights

CHOOSING_SEED = 2000  # added to the seed for the training preferences a parameter is chosen on
_CHOOSING_PREFERENCES = 10_000
_FACTS = ("l1_", "n_fits_", "n_steps_", "n_components_", "alpha_", "beta_", "n_expanded_", "amount_")


@dataclass
class Outcome:
    """A fitted learner."""

    learner: Any
    word_map: WordMap | None = None
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    cut: bool = False  # the deadline came before the last step

    @property
    def nearest(self) -> Callable[[int, int], list[tuple[int, float]]] | None:
        """The words a word is replaced by, where it is."""
        found: Callable[[int, int], list[tuple[int, float]]] | None = getattr(self.learner, "nearest", None)
        return found if self.word_map is None else self.word_map.nearest

    def scorer(self, model: Model) -> Scorer:
        """One of its models, thinned if so asked, on the words of the task."""
        source = self.learner if model.thin is None else self.learner.thin(model.thin)
        weights: Weights = getattr(source, model.weights)
        if self.word_map is not None:
            weights = self.word_map.lift(weights)
        own = {
            name: getattr(self.learner, f"represent_{name}")
            for name in ("queries", "docs")
            if hasattr(self.learner, f"represent_{name}")
        }
        return Scorer(weights, **own)


def learn(
    fit: Fit,
    task: Task,
    parameters: dict[str, Any],
    seed: int,
    *,
    choose: bool = True,
    component: Callable[[str], Weights] | None = None,
    deadline: Deadline | None = None,
) -> Outcome:
    """Fit with one seed; ``component`` gives the models a blend is made of."""
    if fit.blend:
        if component is None or task.validation is None:
            raise InputError(f"{fit.key} blends models, which needs them and validation queries")
        parts = [component(key) for key in fit.blend]
        started = time.perf_counter()
        learner = make_learner("Blend", {}, seed).fit(*parts, task.validation)
        return _outcome(learner, None, time.perf_counter() - started)
    warm_up(fit.ranker)
    deadline = deadline or Deadline()
    if fit.ranker in RIVALS:
        if not isinstance(task, ClassTask):
            raise InputError(f"{fit.ranker} needs classes")
        learner = make_learner(fit.ranker, parameters, seed)
        started = time.perf_counter()
        learner.fit(task.Q, task.y)
        return _outcome(learner, None, time.perf_counter() - started)
    trial = _Trial(fit, task, Seen.by(fit, task), seed, deadline)
    prefs = task.train(fit.preferences, seed, fit.share, fit.uniform_over) if fit.preferences else None
    started = time.perf_counter()
    chosen, tried = trial.choose(parameters, prefs) if fit.choose and choose else ({}, [])
    learner = make_learner(fit.ranker, parameters | chosen, seed)
    arguments = {"validation": trial.seen.validation(task)} if fit.early_stop else {}
    began = time.perf_counter()
    trial.teach(learner, prefs, **arguments)
    outcome = _outcome(learner, trial.seen.word_map, time.perf_counter() - began)
    if fit.choose:
        outcome.facts |= {"chosen": chosen, "tried": tried, "choosing_seconds": began - started}
    # Only what learns by steps looks at the deadline; with early stopping it may have gone back to step 0.
    outcome.cut = deadline.is_over and hasattr(learner, "n_steps_")
    return outcome


@dataclass(frozen=True, eq=False)
class Seen:
    """The matrices as a fit sees them."""

    Q: sparse.csr_array
    D: sparse.csr_array
    word_map: WordMap | None = None

    @classmethod
    def by(cls, fit: Fit, task: Task) -> Seen:
        if fit.map is None:
            return cls(task.Q, task.D)
        word_map = task.word_map(fit.map)
        Q = _mapped(task.Q, word_map.A)
        return cls(Q, Q if task.D is task.Q and word_map.A is word_map.B else _mapped(task.D, word_map.B), word_map)

    def validation(self, task: Task) -> Callable[[Weights], float]:
        assert task.validation is not None
        held_out, word_map = task.validation, self.word_map
        return held_out if word_map is None else lambda weights: held_out(word_map.lift(weights))


def _mapped(X: sparse.csr_array, A: sparse.csr_array) -> sparse.csr_array:
    mapped = sparse.csr_array(X @ A.T, dtype=np.float32)
    mapped.sort_indices()
    return mapped


def _outcome(learner: Any, word_map: WordMap | None, seconds: float) -> Outcome:
    facts = {name: getattr(learner, name) for name in _FACTS if getattr(learner, name, None) is not None}
    return Outcome(learner, word_map, seconds, facts)


@dataclass(frozen=True, eq=False)
class _Trial:
    """All that learners of one fit with one seed have in common."""

    fit: Fit
    task: Task
    seen: Seen
    seed: int
    deadline: Deadline

    def teach(self, learner: Any, prefs: Preferences | None, **arguments: Any) -> None:
        """Fit the learner with what its kind learns from."""
        Q, D = self.seen.Q, self.seen.D
        if self.fit.mates:
            rows = self.task.mates()
            learner.fit_parallel(Q[rows], D[rows])
        elif prefs is None or self.fit.ranker == "QueryExpansion":
            learner.fit(Q, prefs, D)
        else:
            if self.fit.second is not None:
                # As many steps of the second objective, from all that is known of it.
                second = self.task.train(len(prefs), CHOOSING_SEED + self.seed)
                arguments["second"] = self.task.query_block(self.fit.second), second
            learner.fit(Q, prefs, D, callbacks=[self.deadline], **arguments)

    def choose(
        self, parameters: dict[str, Any], prefs: Preferences | None
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The values with the least error on other training preferences, and all that were tried."""
        grid = self.fit.choose
        settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        if len(settings) == 1:
            return settings[0], []
        few = None if prefs is None else prefs[: max(1, round(self.fit.choose_share * len(prefs)))]
        checked = self.task.train(_CHOOSING_PREFERENCES, CHOOSING_SEED + self.seed, self.fit.share)
        tried = []
        for setting in settings:
            learner = make_learner(self.fit.ranker, parameters | setting, self.seed)
            try:
                self.teach(learner, few)
                wrong = wrong_preferences(Scorer(learner.weights_), self.seen.Q, self.seen.D, checked)
                error = float(wrong.mean())
            except DivergedError:
                error = 1.0
            tried.append(setting | {"error": error})
        best = min(tried, key=lambda one: one["error"])
        return {name: best[name] for name in grid}, tried
