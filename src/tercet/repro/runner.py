"""The one runner: every method of a plan on every data set that is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tercet.errors import InputError, MissingDataError, MissingExtraError
from tercet.repro.cache import CellCache, JobRunner, Listener, RunDeadline
from tercet.repro.cost_jobs import CostJob, cost_jobs
from tercet.repro.datasets import DataSet, load_dataset, with_data_found
from tercet.repro.folds import FoldTask
from tercet.repro.paper_results import PaperResults
from tercet.repro.plan import Curves, Method, Plan
from tercet.repro.quick import made_quick
from tercet.repro.row_jobs import RowJob
from tercet.repro.tasks import PaperTask, PreferenceTask
from tercet.repro.term_jobs import CurveJob, FittedMethod, TermJob, curve_steps
from tercet.weights import Weights


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
) -> PaperResults:
    """Run a plan, keeping every finished cell in ``output/cells``. Takes minutes to hours.

    Parameters
    ----------
    plan : what to run
    data_home : folder with the data sets; one that is missing is skipped
    quick : little of everything, to see that everything works
    only : keys of data sets; all when empty
    seeds : instead of the plan's number; what draws nothing at random runs once
    fresh : do again what is kept
    budget : minutes; every method runs with the first seed before any runs with the second, slow ones last. What is
        learning when the time is over is cut short and shown so, what has not begun is left out; neither is kept.
    """
    chosen = _check_request(plan, only, budget)
    deadline = RunDeadline.after(budget)
    plan = with_data_found(plan, data_home)
    plan = made_quick(plan) if quick else plan
    jobs = JobRunner(CellCache(output / "cells", fresh), listener, deadline)
    results = PaperResults(plan, quick, version("tercet"), seeds=seeds, budget=budget, cut=jobs.cut, failed=jobs.failed)
    loaded = _load(results, chosen, data_home, quick, listener)
    if not loaded:
        looked = "; ".join(dict.fromkeys(results.missing.values()))  # several data sets may want the same file
        raise InputError(f"none of the data sets is below {data_home}: {looked}")
    run = PlanRun(plan, results, jobs)
    # Made-up rows belong to no data set.
    work: list[CostJob | _CurveItem | _MethodItem] = [] if only else [*cost_jobs(plan)]
    for seed in range(max((plan.n_seeds(method, seeds) for method in plan.methods), default=0)):
        work += _work(plan, loaded, seed, seeds)
    listener.begin(len(work))
    for item in work:
        if isinstance(item, CostJob):
            run.cost(item)
        elif isinstance(item, _CurveItem):
            run.curve(item)
        else:
            run.method(item)
    return results


def _check_request(plan: Plan, only: tuple[str, ...], budget: float | None) -> list[str]:
    """The data sets to run on."""
    for name in only:
        if name not in plan.datasets:
            raise InputError(f"no data set {name!r} in {plan.paper.key}; known: {', '.join(plan.datasets)}")
    if budget is not None and not 0 < budget < float("inf"):
        raise InputError(f"the budget is {budget} minutes; a number above 0 is needed")
    return [name for name in plan.datasets if name in only or not only]


def _load(results: PaperResults, names: list[str], home: Path, quick: bool, listener: Listener) -> dict[str, DataSet]:
    """The data sets that are there; the others are noted."""
    loaded: dict[str, DataSet] = {}
    for name in names:
        data = results.plan.datasets[name]
        listener.now(f"reading {data.title}")
        try:
            loaded[name] = load_dataset(data, home, results.plan.quick if quick else None)
        except MissingDataError as error:
            results.missing[name] = str(error).replace(f"{home}{os.sep}", "")  # pages name no place of this machine
            listener.say(f"{data.title} is skipped: {error}")
            continue
        results.data[name] = loaded[name].known()
    return loaded


# -- what there is to do ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _MethodItem:
    dataset: str
    task: PaperTask
    method: Method
    seed: int


@dataclass(frozen=True)
class _CurveItem:
    dataset: str
    task: PaperTask
    curves: Curves
    method: Method


def _work(plan: Plan, loaded: dict[str, DataSet], seed: int, seeds: int | None) -> Iterator[_MethodItem | _CurveItem]:
    """What is done with a seed, slow methods last; curves come with the first seed."""
    for last in (False, True):
        methods = [method for method in plan.methods if method.last == last]
        for dataset, data in loaded.items():
            for method in methods:
                if dataset in plan.datasets_of(method) and seed < plan.n_seeds(method, seeds):
                    for task in data.tasks:
                        yield _MethodItem(dataset, task, method, seed)
            for curves in plan.curves if seed == 0 else ():
                for method in methods:
                    if dataset in curves.datasets and method.key in curves.methods:
                        yield _CurveItem(dataset, data.tasks[0], curves, method)


# -- doing it ---------------------------------------------------------------------------------------------------------


class PlanRun:
    """Jobs made from the plan, done or found in the cells."""

    def __init__(self, plan: Plan, results: PaperResults, jobs: JobRunner) -> None:
        self._plan, self._results, self._jobs = plan, results, jobs
        self._components = {key for method in plan.methods for key in method.blend}
        self._fitted: dict[tuple[str, str, int], FittedMethod] = {}  # methods that are components of blends

    def method(self, item: _MethodItem) -> None:
        """One method on one task with one seed."""
        name, method, seed, task = item.dataset, item.method, item.seed, item.task
        results = self._results
        if method.key in results.unavailable:
            self._jobs.listener.skip()
            return
        fold = f", {task.name}" if task.name else ""
        numbered = f", seed {seed}" if not task.name or self._plan.n_seeds(method) > 1 else ""
        title = f"{self._plan.datasets[name].title}, {method.title}{numbered}{fold}"
        if not self._can_follow(name, method, seed):
            # What it would have found for this one was left out.
            if self._jobs.deadline.moment is None:
                self._jobs.fail(f"{title}: left out, since what chooses for it failed or has not run")
            else:
                self._jobs.leave_out(title)
            return
        key = f"{name}-{method.key}-{seed}" + (f"-{task.name}" if task.name else "")
        setting, work = self._row_work(item, task) if isinstance(task, FoldTask) else self._term_work(item, task)
        try:
            result = self._jobs.get(
                title,
                key,
                setting,
                work,
                summary=lambda result: _summary(self._plan, method, result),
                how_far=_how_far,
            )
        except MissingExtraError as error:
            results.unavailable[method.key] = error.lack
            self._jobs.listener.done(f"{method.title} is left out: {error}")
            return
        if result is not None:
            results.cells.setdefault((name, method.key, seed), []).append(result)

    def _can_follow(self, dataset: str, method: Method, seed: int) -> bool:
        """Whether what others chose or found for it is there; with rows each chooses for itself."""
        if self._plan.datasets[dataset].task == "rows":
            return True
        follows_itself = seed > 0 and bool(method.choose or method.reuse)
        needed = [(dataset, method.key, 0)] if follows_itself else []
        if method.chosen_by is not None:
            needed.append((method.chosen_by.dataset or dataset, method.chosen_by.method, 0))
        return all(key in self._results.cells for key in needed)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _row_work(self, item: _MethodItem, fold: FoldTask) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        plan, method, dataset = self._plan, item.method, item.dataset
        own = {model.key for model in method.all_models()}
        chooses_by = plan.chooses_by(method)
        job = RowJob(
            method,
            fold,
            item.seed,
            method.parameters_for(dataset),
            choose_by=plan.name_of(chooses_by),
            measures=tuple(plan.name_of(key) for key in plan.measures_of(dataset)),
            higher_is_better=plan.measures[chooses_by].higher_is_better,
            traced=any(drawn.dataset == dataset and own & {*drawn.models} for drawn in plan.of_grids),
        )
        return job.setting(self._results.data[dataset]["digest"]), lambda: job.run(self._jobs.deadline)

    def cost(self, job: CostJob) -> None:
        result = self._jobs.get(
            job.title,
            job.key,
            job.setting(),
            job.run,
            summary=lambda result: f"; {result['seconds']:.3f} s, {result['megabytes']:.1f} MB",
        )
        if result is not None:
            sizes = {"n_rows": job.n_rows, "n_basis": job.n_rows if job.n_basis is None else job.n_basis}
            self._results.costs.setdefault((job.cost.key, job.series), []).append(sizes | result)

    # -- classes and links --------------------------------------------------------------------------------------------

    def _term_work(self, item: _MethodItem, task: PaperTask) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        assert isinstance(task, PreferenceTask)
        tested = self._results.tested
        if (item.dataset, item.seed) not in tested:
            tested[item.dataset, item.seed] = task.test(self._plan.test_preferences, item.seed).query
        job = self._term_job(item.dataset, item.method, item.seed)

        def work() -> dict[str, Any]:
            return job.measure(task, self._fit(job, task))

        return job.setting(self._results.data[item.dataset]["digest"]), work

    def _term_job(self, dataset: str, method: Method, seed: int) -> TermJob:
        plan, own = self._plan, {model.key for model in method.all_models()}
        lookups = [words for words in plan.words if words.dataset == dataset and words.model in own]
        return TermJob(
            method,
            dataset,
            seed,
            plan.test_preferences,
            self._parameters(method, dataset),
            {words.model: tuple(words.printed) for words in lookups},
            chooses=(dataset, method.key, 0) not in self._results.cells,
            components=tuple(self._term_job(dataset, plan.method_of(key), seed) for key in method.blend),
            from_map=tuple(words.model for words in lookups if words.of == "map"),
        )

    def _parameters(self, method: Method, dataset: str) -> dict[str, Any]:
        """The parameters; what another method, or the first seed, chose or searched for is given to the others."""
        parameters = method.parameters_for(dataset)
        if method.chosen_by is not None:
            [cell] = self._results.cells[method.chosen_by.dataset or dataset, method.chosen_by.method, 0]
            parameters |= cell["facts"]["chosen"]
        cells = self._results.cells.get((dataset, method.key, 0))
        if cells is None:
            return parameters
        facts = cells[0]["facts"]
        for searched, reused in method.reuse.items():
            if searched in parameters:
                del parameters[searched]
                parameters[reused] = facts[f"{reused}_"]
        return parameters | facts.get("chosen", {})

    def _fit(self, job: TermJob, task: PreferenceTask) -> FittedMethod:
        """Learn; a component of a blend is remembered, and learned again when its cell was only kept on disk."""
        key = job.dataset, job.method.key, job.seed
        if key in self._fitted:
            return self._fitted[key]
        component_jobs = dict(zip(job.method.blend, job.components, strict=True))
        blended: list[FittedMethod] = []

        def component(model: str) -> Weights:
            blended.append(self._fit(component_jobs[model], task))
            return blended[-1].match(self._plan.model(model)).weights

        fitted = job.learn(task, component, self._jobs.deadline)
        fitted.cut |= any(part.cut for part in blended)
        if self._components & {model.key for model in job.method.all_models()} and not fitted.cut:
            # Blends are of one data set and one seed: what was learned of others is not needed any more.
            same = {other: kept for other, kept in self._fitted.items() if other[::2] == key[::2]}
            self._fitted = same | {key: fitted}
        return fitted

    def curve(self, item: _CurveItem) -> None:
        name, method, curves, task = item.dataset, item.method, item.curves, item.task
        assert isinstance(task, PreferenceTask)
        steps = curve_steps(curves.first, method.preferences, curves.points)
        parameters, deadline = self._parameters(method, name), self._jobs.deadline
        job = CurveJob(method, name, 0, curves.test_preferences, parameters, steps, curves.beside, deadline)
        result = self._jobs.get(
            f"{self._plan.datasets[name].title}, {method.title}, {curves.key}",
            f"{name}-{method.key}-{curves.key}",
            job.setting(self._results.data[name]["digest"]),
            lambda: job.run(task),
            summary=lambda result: "",
            how_far=_how_far,
        )
        if result is not None:
            self._results.curves[curves.key, name, method.key] = result


# -- in words ---------------------------------------------------------------------------------------------------------


def _how_far(result: dict[str, Any]) -> str:
    if "facts" not in result:
        steps = max((points[-1]["step"] for points in result["series"].values() if points), default=0)
        return f"cut short after {steps:,} steps"
    facts = result["facts"]
    if not facts["preferences"]:
        return "blended from a model that was cut short"
    return f"cut short after {facts.get('n_steps_', 0):,} of {facts['preferences']:,} steps"


def _summary(plan: Plan, method: Method, result: dict[str, Any]) -> str:
    """The first two models of a cell in a few words: the measure that chooses, or the first two of the plan."""
    keys = [plan.chooses_by(method)] if plan.chooses_by(method) else list(plan.measures)
    lines = []
    for model in method.all_models()[:2]:
        means = result["models"][model.key]["means"]
        numbers = [(plan.measures[key].title, means.get(plan.name_of(key))) for key in keys]
        name = f"{model.title} " if method.models else ""
        lines.append(f"; {name}" + ", ".join(f"{title} {x:.4f}" for title, x in numbers[:2] if x is not None))
    lines += [f"; {len(method.all_models()) - 2} more"] if len(method.all_models()) > 2 else []
    facts = result["facts"]
    if facts.get("n_used") is not None:
        lines.append(f", {facts['n_used']} of {facts['n_features']} features")
    lines += [f", {name} {short(value)}" for name, value in facts.get("chosen", {}).items()]
    return "".join(lines)


def short(value: Any) -> str:
    """A parameter's value with four digits.

    Examples
    --------
    >>> short(0.000123456), short(12), short("sum")
    ('0.0001235', '12', 'sum')
    """
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
