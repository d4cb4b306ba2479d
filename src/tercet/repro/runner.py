"""The one runner: every fit of a plan on every data set that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError
from tercet.repro.cells import Cells, CurveJob, Job, curve_steps
from tercet.repro.datasets import Loaded, MissingDataError, load_data
from tercet.repro.plan import Fit, Plan


class Listener(Protocol):
    """Who is told how a run goes on."""

    def begin(self, n_cells: int) -> None: ...
    def now(self, text: str) -> None: ...
    def done(self, text: str, n_cells: int = 1) -> None: ...


@dataclass
class Results:
    """All that was measured; ``fits[dataset, fit]`` has a cell for each seed."""

    plan: Plan
    quick: bool
    version: str
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    fits: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    curves: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)

    def cells(self, dataset: str, model: str) -> list[dict[str, Any]]:
        """The model's measurements, one for each seed; none when the data is missing."""
        fit = self.plan.fit_of(model)
        return [cell["models"][model] for cell in self.fits.get((dataset, fit.key), [])]

    def values(self, dataset: str, model: str, measure: str) -> list[float]:
        """One number for each seed; none where the measure does not apply."""
        return [cell[measure] for cell in self.cells(dataset, model) if measure in cell]

    def by_query(self, dataset: str, model: str) -> NDArray[np.float64]:
        """Average precision of each query, mean over seeds."""
        return np.mean([cell["average_precision"] for cell in self.cells(dataset, model)], axis=0)

    def by_preference(self, dataset: str, model: str) -> NDArray[np.float64]:
        """1 for each test preference of each seed that is wrong, 0 for the others."""
        found = []
        for cell in self.cells(dataset, model):
            wrong = np.zeros(cell["n_preferences"])
            wrong[cell["wrong"]] = 1
            found.append(wrong)
        return np.concatenate(found)


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
    """
    for name in only:
        if name not in plan.datasets:
            raise InputError(f"no data set {name!r} in {plan.paper.key}; known: {', '.join(plan.datasets)}")
    plan = plan.made_quick() if quick else plan
    n_seeds = plan.seeds if seeds is None else seeds
    results = Results(plan, quick, version("tercet"))
    cells = Cells(output / "cells", fresh)
    chosen = [name for name in plan.datasets if name in only or not only]
    listener.begin(sum(1 for name in chosen for _ in _work(plan, name, n_seeds)))
    for name in chosen:
        listener.now(f"reading {plan.datasets[name].title}")
        try:
            data = load_data(plan.datasets[name], data_home, plan.quick if quick else None)
        except MissingDataError as error:
            results.missing[name] = str(error)
            left_out = sum(1 for _ in _work(plan, name, n_seeds))
            listener.done(f"{plan.datasets[name].title} is skipped: {error}", left_out)
            continue
        _run_data(plan, name, data, n_seeds, cells, results, listener)
    if not results.data:
        looked = "; ".join(results.missing.values())
        raise InputError(f"none of the data sets is below {data_home}: {looked}")
    return results


def _work(plan: Plan, dataset: str, n_seeds: int) -> Iterator[tuple[Fit, int]]:
    """The fits and seeds of a data set, then its curves, seed -1."""
    for fit in plan.fits:
        if dataset in fit.datasets:
            yield from ((fit, seed) for seed in range(min(n_seeds, fit.seeds or n_seeds)))
    for curve in plan.curves:
        if dataset in curve.datasets:
            yield from ((fit, -1) for fit in plan.fits if fit.key in curve.fits)


def _run_data(
    plan: Plan, name: str, data: Loaded, n_seeds: int, cells: Cells, results: Results, listener: Listener
) -> None:
    digest = data.digest()
    results.data[name] = {"digest": digest, "statistics": data.statistics()}
    title = plan.datasets[name].title
    lookups = {each.model: tuple(each.printed) for each in plan.words if each.dataset == name}

    def get(what: str, key: str, setting: dict[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        listener.now(f"{title}, {what}")
        result, kept = cells.get(key, setting, work)
        listener.done(f"{title}, {what}: {'kept' if kept else 'done'}{_said(plan, result)}")
        return result

    for fit, seed in _work(plan, name, n_seeds):
        if seed < 0:
            continue
        found = results.fits.setdefault((name, fit.key), [])
        own = {model.key: lookups[model.key] for model in fit.all_models() if model.key in lookups}
        parameters = _reused(fit, name, found)
        job = Job(fit, name, seed, plan.test_preferences, parameters, own)
        setting = job.setting(digest)
        found.append(get(f"{fit.title}, seed {seed}", f"{name}-{fit.key}-{seed}", setting, lambda j=job: j.run(data)))  # type: ignore[misc]
    for curve in plan.curves:
        for fit in plan.fits:
            if name not in curve.datasets or fit.key not in curve.fits:
                continue
            steps = curve_steps(curve.first, fit.preferences, curve.points)
            parameters = _reused(fit, name, results.fits[name, fit.key])
            walk = CurveJob(fit, name, 0, curve.test_preferences, parameters, steps)
            results.curves[curve.key, name, fit.key] = get(
                f"{fit.title}, {curve.key}",
                f"{name}-{fit.key}-{curve.key}",
                walk.setting(digest),
                lambda w=walk: w.run(data),  # type: ignore[misc]
            )


def _reused(fit: Fit, dataset: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """The parameters; what the first seed searched for is given to the others."""
    parameters = fit.parameters_for(dataset)
    if not found:
        return parameters
    for searched, given in fit.reuse.items():
        if searched in parameters:
            del parameters[searched]
            parameters[given] = found[0]["facts"][f"{given}_"]
    return parameters


def _said(plan: Plan, result: dict[str, Any]) -> str:
    """The first two models of a cell in a few words."""
    models = result.get("models", {})
    ordered = [model for fit in plan.fits for model in fit.all_models() if model.key in models]
    parts = [f"; {m.title} MAP {models[m.key]['map']:.3f}, error {models[m.key]['error']:.3f}" for m in ordered[:2]]
    return "".join(parts) + (f"; {len(ordered) - 2} more" if len(ordered) > 2 else "")
