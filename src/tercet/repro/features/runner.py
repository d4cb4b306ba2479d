"""The runner of plans of feature vectors: every method on every split of every data set that is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import MissingExtraError
from tercet.repro.cells import Cells
from tercet.repro.features.costs import CostJob
from tercet.repro.features.data import FoldedSet, load_splits
from tercet.repro.features.jobs import CODE, SplitJob, names_to_measure
from tercet.repro.features.measuring import MEGABYTES, OF_THE_RANKER
from tercet.repro.features.plan import Cost, FeaturePlan, Method
from tercet.repro.files import MissingDataError
from tercet.repro.running import Deadline, Doer, Listener, RunResults, check_found, check_request


@dataclass
class FeatureResults(RunResults[FeaturePlan]):
    """All that was measured.

    ``cells[dataset, method, seed]`` has a cell for each split, ``costs[key, series]`` one for each point.
    """

    cells: dict[tuple[str, str, int], list[dict[str, Any]]] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)  # method -> why it could not run
    costs: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)

    def runs(self, dataset: str, method: str) -> list[list[dict[str, Any]]]:
        """For each seed its splits; a seed that lacks one is left out."""
        n_splits = len(self.data[dataset]["splits"]) if dataset in self.data else 0
        found = [cells for (d, m, _), cells in self.cells.items() if (d, m) == (dataset, method)]
        return [cells for cells in found if len(cells) == n_splits]

    def by_split(self, dataset: str, method: str, measure: str) -> NDArray[np.float64]:
        """The measure in each split (n_seeds, n_splits); nothing where it does not apply."""
        name = self.plan.measures[measure].name
        if name in OF_THE_RANKER:
            rows = [[cell["own"].get(name) for cell in cells] for cells in self.runs(dataset, method)]
            return np.array([row for row in rows if None not in row], dtype=np.float64)
        if measure not in self.plan.measures_of(dataset):
            return np.zeros((0, 0))
        return np.array([[np.mean(cell["values"][name]) for cell in cells] for cells in self.runs(dataset, method)])

    def values(self, dataset: str, method: str, measure: str) -> list[float]:
        """The mean over splits, one for each seed."""
        found = self.by_split(dataset, method, measure)
        return [float(mean) for mean in found.mean(axis=1)] if found.size else []

    def by_query(self, dataset: str, method: str, measure: str) -> NDArray[np.float64]:
        """The measure of each query of all test parts, mean over seeds."""
        name = self.plan.measures[measure].name
        runs = [[value for cell in cells for value in cell["values"][name]] for cells in self.runs(dataset, method)]
        return np.mean(runs, axis=0)

    def standard_error(self, dataset: str, method: str, measure: str) -> float | None:
        """Over queries, seeds taken together; None for what is not measured by query."""
        if self.plan.measures[measure].name in OF_THE_RANKER or not self.values(dataset, method, measure):
            return None
        values = self.by_query(dataset, method, measure)
        return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def reproduce_features(
    plan: FeaturePlan,
    data_home: Path,
    output: Path,
    *,
    listener: Listener,
    quick: bool = False,
    only: tuple[str, ...] = (),
    seeds: int | None = None,
    fresh: bool = False,
    budget: float | None = None,
) -> FeatureResults:
    """Run a plan, keeping every finished cell in ``output/cells``; as `tercet.repro.reproduce`.

    ``seeds`` is for methods that draw something at random; the others run once.
    """
    datasets = check_request(plan, only, budget)
    plan = plan.made_quick() if quick else plan
    results = FeatureResults(plan, quick, version("tercet"), budget=budget)
    loaded = _load(results, datasets, data_home, plan.quick.folds if quick else None, listener)
    check_found(results, data_home)
    run = _Run(Doer(Cells(output / "cells", fresh, CODE), results, listener, Deadline.after(budget)), results)
    n_seeds = {method.key: method.seeds if seeds is None or method.seeds == 1 else seeds for method in plan.methods}
    work = [
        (dataset, method, seed, at)
        for seed in range(max(n_seeds.values(), default=0))
        for dataset in loaded
        for method in plan.methods
        if seed < n_seeds[method.key] and dataset in (method.datasets or loaded)
        for at in range(len(loaded[dataset].splits))
    ]
    points = [
        (cost, at, n_rows, n_basis)
        for cost in plan.costs
        if not only  # they belong to no data set
        for at, series in enumerate(cost.series)
        for n_rows, n_basis in series.points()
    ]
    listener.begin(len(work) + len(points))
    for cost, at, n_rows, n_basis in points:
        run.cost(cost, at, n_rows, n_basis)
    for dataset, method, seed, at in work:
        run.split(dataset, method, seed, loaded[dataset], at)
    return results


def _load(
    results: FeatureResults, datasets: list[str], home: Path, n_folds: int | None, listener: Listener
) -> dict[str, FoldedSet]:
    """The data sets that are there; the others are noted."""
    loaded: dict[str, FoldedSet] = {}
    for name in datasets:
        data = results.plan.datasets[name]
        listener.now(f"reading {data.title}")
        try:
            found = load_splits(data, home, n_folds)
        except MissingDataError as error:
            results.missing[name] = str(error)
            listener.say(f"{data.title} is skipped: {error}")
            continue
        loaded[name] = found
        results.data[name] = {
            "digest": found.digest(),
            "statistics": found.statistics(),
            "splits": [split.name for split in found.splits],
            "queries": [query for split in found.splits for query in split.test.qids.tolist()],
        }
    return loaded


class _Run:
    """Jobs made from the plan, done or found in the cells."""

    def __init__(self, doer: Doer, results: FeatureResults) -> None:
        self._doer, self._results = doer, results

    def split(self, dataset: str, method: Method, seed: int, data: FoldedSet, at: int) -> None:
        results, plan = self._results, self._results.plan
        if method.key in results.unavailable:
            self._doer.listener.skip()
            return
        traced = any(each.dataset == dataset and method.key in each.methods for each in plan.tradeoffs)
        names = [measure.name for measure in plan.measures_of(dataset).values()]
        chooses = plan.chooses_by(method)
        job = SplitJob(
            method,
            data.splits[at],
            seed,
            choose_by=chooses.name,
            measures=names_to_measure(names),
            higher_is_better=chooses.higher_is_better,
            with_memory=MEGABYTES in names,
            traced=traced,
        )
        name = data.splits[at].name
        numbered = f", seed {seed}" if method.seeds > 1 else ""
        try:
            result = self._doer.get(
                f"{plan.datasets[dataset].title}, {method.title}{numbered}, {name}",
                f"{dataset}-{method.key}-{seed}-{name}",
                job.setting(results.data[dataset]["digest"]),
                lambda: job.run(self._doer.deadline),
                how_far=lambda _: "cut short",
                said=lambda result: _said(plan, method, result),
            )
        except MissingExtraError as error:
            results.unavailable[method.key] = str(error)
            self._doer.listener.done(f"{method.title} is left out: {error}")
            return
        if result is not None:
            results.cells.setdefault((dataset, method.key, seed), []).append(result)

    def cost(self, cost: Cost, at: int, n_rows: int, n_basis: int | None) -> None:
        job = CostJob(cost, n_rows, n_basis)
        which = "" if n_basis is None else f", {n_basis:,} basis vectors"
        result = self._doer.get(
            f"{cost.title}, {cost.series[at].title}, {n_rows:,} rows{which}",
            f"{cost.key}-{at}-{n_rows}-{n_basis or 'all'}",
            job.setting(),
            job.run,
            how_far=lambda _: "cut short",
            said=lambda found: f"; {found['seconds']:.3f} s, {found['megabytes']:.1f} MB",
        )
        if result is not None:
            point = {"n_rows": n_rows, "n_basis": n_rows if n_basis is None else n_basis}
            self._results.costs.setdefault((cost.key, at), []).append(point | result)


def _said(plan: FeaturePlan, method: Method, result: dict[str, Any]) -> str:
    """A cell in a few words."""
    measure = plan.chooses_by(method)
    used = "" if result["n_used"] is None else f", {result['n_used']} of {result['n_features']} features"
    chosen = "".join(f", {name} {_short(value)}" for name, value in result["chosen"].items())
    return f"; {measure.title} {np.mean(result['values'][measure.name]):.4f}{used}{chosen}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
