"""The one runner: every fit of a plan on every data set that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.repro.cells import Cells
from tercet.repro.datasets import load_task
from tercet.repro.files import MissingDataError
from tercet.repro.jobs import CurveJob, Job, curve_steps
from tercet.repro.learning import Outcome
from tercet.repro.plan import Curves, Fit, Plan
from tercet.repro.running import Deadline, Doer, Listener, RunResults, check_found, check_request
from tercet.repro.tasks import Task
from tercet.weights import Weights


@dataclass
class Results(RunResults[Plan]):
    """All that was measured; ``fits[dataset, fit]`` has a cell for each seed."""

    fits: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    curves: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    tested: dict[tuple[str, int], NDArray[Any]] = field(default_factory=dict)  # query of each test preference

    def cells(self, dataset: str, model: str) -> list[dict[str, Any]]:
        """The model's measurements, one for each seed; none when the data is missing."""
        fit = self.plan.fit_of(model)
        return [cell["models"][model] for cell in self.fits.get((dataset, fit.key), [])]

    def values(self, dataset: str, model: str, measure: str) -> list[float]:
        """One number for each seed; none where the measure does not apply."""
        return [cell[measure] for cell in self.cells(dataset, model) if measure in cell]

    def by_query(self, dataset: str, model: str, measure: str = "map", seeds: int | None = None) -> NDArray[np.float64]:
        """MAP or P@10 of each query, mean over seeds."""
        name = {"map": "average_precision", "p10": "precision_at_10"}[measure]
        return np.mean([cell[name] for cell in self.cells(dataset, model)[:seeds]], axis=0)

    def wrong_by_query(
        self, dataset: str, model: str, seeds: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each query that was tested, its wrong test preferences and how many it had, over all seeds.

        Preferences of one query are wrong together, so that queries are what can be counted as independent.
        """
        cells = self.cells(dataset, model)[:seeds]
        queries = [self.tested[dataset, seed] for seed in range(len(cells))]
        n = max(int(query.max()) for query in queries) + 1
        wrong = np.zeros(n)
        for cell, query in zip(cells, queries, strict=True):
            wrong += np.bincount(query[cell["wrong"]], minlength=n)
        of = np.bincount(np.concatenate(queries), minlength=n).astype(np.float64)
        return wrong[of > 0], of[of > 0]


def reproduce(
    plan: Plan,
    data_home: Path,
    output: Path,
    *,
    listener: Listener,
    quick: bool = False,
    only: tuple[str, ...] = (),
    seeds: int | None = None,
    fresh: bool = False,
    budget: float | None = None,
) -> Results:
    """Run a plan, keeping every finished cell in ``output/cells``. Takes minutes to hours.

    Parameters
    ----------
    plan : what to run
    data_home : folder with the data sets; one that is missing is skipped
    quick : few rows, preferences and seeds, to see that everything works
    only : keys of data sets; all when empty
    seeds : instead of the plan's number
    fresh : do again what is kept
    budget : minutes; every fit runs with the first seed before any runs with the second, slow ones last. What is
        learning when the time is over is cut short and shown so, what has not begun is left out; neither is kept.
    """
    chosen = check_request(plan, only, budget)
    plan = plan.made_quick() if quick else plan
    n_seeds = plan.seeds if seeds is None else seeds
    results = Results(plan, quick, version("tercet"), budget=budget)
    run = _Run(plan, Doer(Cells(output / "cells", fresh), results, listener, Deadline.after(budget)), results)
    work = [item for seed in range(n_seeds) for item in _work(plan, chosen, seed)]
    listener.begin(len(work))
    tasks = _Tasks(plan, data_home, quick, results, listener)
    for item in work:
        task = tasks.get(item.dataset)
        if task is None:
            listener.skip()
        elif isinstance(item, _FitItem):
            run.fit(item, task)
        else:
            run.curve(item, task)
    check_found(results, data_home)
    return results


@dataclass(frozen=True)
class _FitItem:
    dataset: str
    fit: Fit
    seed: int


@dataclass(frozen=True)
class _CurveItem:
    dataset: str
    curves: Curves
    fit: Fit


def _work(plan: Plan, datasets: list[str], seed: int) -> Iterator[_FitItem | _CurveItem]:
    """What is done with a seed, slow fits last; curves come with the first seed."""
    for last in (False, True):
        for dataset in datasets:
            for fit in plan.fits:
                if dataset in fit.datasets and fit.last == last and (fit.seeds is None or seed < fit.seeds):
                    yield _FitItem(dataset, fit, seed)
            for curves in plan.curves if seed == 0 else ():
                for fit in plan.fits:
                    if dataset in curves.datasets and fit.key in curves.fits and fit.last == last:
                        yield _CurveItem(dataset, curves, fit)


class _Tasks:
    """Data sets, read when first needed; one that is missing is noted once."""

    def __init__(self, plan: Plan, home: Path, quick: bool, results: Results, listener: Listener) -> None:
        self._plan, self._home, self._quick = plan, home, plan.quick if quick else None
        self._results, self._listener = results, listener
        self._loaded: dict[str, Task] = {}

    def get(self, name: str) -> Task | None:
        if name in self._results.missing:
            return None
        if name not in self._loaded:
            data = self._plan.datasets[name]
            self._listener.now(f"reading {data.title}")
            try:
                task = load_task(data, self._home, self._quick)
            except MissingDataError as error:
                self._results.missing[name] = str(error)
                self._listener.say(f"{data.title} is skipped: {error}")
                return None
            self._loaded[name] = task
            self._results.data[name] = {"digest": task.digest(), "statistics": task.statistics()}
        return self._loaded[name]


class _Run:
    """Jobs made from the plan, done or found in the cells."""

    def __init__(self, plan: Plan, doer: Doer, results: Results) -> None:
        self._plan, self._doer, self._results, self._deadline = plan, doer, results, doer.deadline
        self._components = {key for fit in plan.fits for key in fit.blend}
        self._outcomes: dict[tuple[str, str, int], Outcome] = {}  # of fits that are components of blends

    def fit(self, item: _FitItem, task: Task) -> None:
        name, fit, seed = item.dataset, item.fit, item.seed
        digest = self._results.data[name]["digest"]
        if (name, seed) not in self._results.tested:
            self._results.tested[name, seed] = task.test(self._plan.test_preferences, seed).query
        job = self._job(name, fit, seed)
        what = f"{self._plan.datasets[name].title}, {fit.title}, seed {seed}"
        found = self._results.fits.setdefault((name, fit.key), [])
        if len(found) < seed:  # an earlier seed was left out, and with it what it would have chosen
            if self._deadline.at is None:
                self._doer.fail(f"{what}: left out, since an earlier seed failed")
            else:
                self._doer.leave_out(what)
            return

        def work() -> dict[str, Any]:
            return job.run(task, self._outcome(job, task))

        result = self._get(what, f"{name}-{fit.key}-{seed}", job.setting(digest), work)
        if result is not None:
            found.append(result)

    def curve(self, item: _CurveItem, task: Task) -> None:
        name, fit, curves = item.dataset, item.fit, item.curves
        steps = curve_steps(curves.first, fit.preferences, curves.points)
        parameters = self._parameters(fit, name)
        walk = CurveJob(fit, name, 0, curves.test_preferences, parameters, steps, curves.beside, self._deadline)
        result = self._get(
            f"{self._plan.datasets[name].title}, {fit.title}, {curves.key}",
            f"{name}-{fit.key}-{curves.key}",
            walk.setting(self._results.data[name]["digest"]),
            lambda: walk.run(task),
        )
        if result is not None:
            self._results.curves[curves.key, name, fit.key] = result

    def _get(
        self, what: str, key: str, setting: dict[str, Any], work: Callable[[], dict[str, Any]]
    ) -> dict[str, Any] | None:
        return self._doer.get(what, key, setting, work, how_far=_how_far, said=lambda result: _said(self._plan, result))

    def _parameters(self, fit: Fit, dataset: str) -> dict[str, Any]:
        """The parameters; what the first seed searched for or chose is given to the others."""
        parameters = fit.parameters_for(dataset)
        found = self._results.fits.get((dataset, fit.key), [])
        if not found:
            return parameters
        for searched, given in fit.reuse.items():
            if searched in parameters:
                del parameters[searched]
                parameters[given] = found[0]["facts"][f"{given}_"]
        return parameters | found[0]["facts"].get("chosen", {})

    def _job(self, dataset: str, fit: Fit, seed: int) -> Job:
        plan, own = self._plan, {model.key for model in fit.all_models()}
        words = [each for each in plan.words if each.dataset == dataset and each.model in own]
        return Job(
            fit,
            dataset,
            seed,
            plan.test_preferences,
            self._parameters(fit, dataset),
            {each.model: tuple(each.printed) for each in words},
            chooses=not self._results.fits.get((dataset, fit.key)),
            components=tuple(self._job(dataset, plan.fit_of(key), seed) for key in fit.blend),
            from_map=tuple(each.model for each in words if each.of == "map"),
        )

    def _outcome(self, job: Job, task: Task) -> Outcome:
        """Learn; a component of a blend is remembered, and learned again when its cell was only kept on disk."""
        at = job.dataset, job.fit.key, job.seed
        if at not in self._outcomes:
            by_key = dict(zip(job.fit.blend, job.components, strict=True))
            blended: list[Outcome] = []

            def component(key: str) -> Weights:
                blended.append(self._outcome(by_key[key], task))
                return blended[-1].scorer(self._plan.model(key)).weights

            outcome = job.learn(task, component, self._deadline)
            outcome.cut |= any(part.cut for part in blended)
            if not self._components & {model.key for model in job.fit.all_models()} or outcome.cut:
                return outcome
            self._outcomes = {known: kept for known, kept in self._outcomes.items() if known[::2] == at[::2]}
            self._outcomes[at] = outcome
        return self._outcomes[at]


def _how_far(result: dict[str, Any]) -> str:
    if "facts" not in result:
        steps = max((points[-1]["step"] for points in result["series"].values() if points), default=0)
        return f"cut short after {steps:,} steps"
    facts = result["facts"]
    if not facts["preferences"]:
        return "blended from a model that was cut short"
    return f"cut short after {facts.get('n_steps_', 0):,} of {facts['preferences']:,} steps"


def _said(plan: Plan, result: dict[str, Any]) -> str:
    """The first two models of a cell in a few words."""
    models = result.get("models", {})
    ordered = [model for fit in plan.fits for model in fit.all_models() if model.key in models]
    parts = [f"; {m.title} MAP {models[m.key]['map']:.3f}, error {models[m.key]['error']:.4f}" for m in ordered[:2]]
    return "".join(parts) + (f"; {len(ordered) - 2} more" if len(ordered) > 2 else "")
