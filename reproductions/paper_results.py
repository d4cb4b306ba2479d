"""All that a run of a plan measured, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproductions.plan import Plan
from reproductions.plan_items import PaperTable
from tercet.measure import PairedTest, paired_test

Seeds = tuple[int, ...] | None  # None for all that have run
ERROR = "error"  # the measure that counts wrong test preferences


@dataclass
class PaperResults:
    """Everything that was measured, and what was not.

    ``cells[dataset, method, seed]`` has a cell for each task of the data set, which is one, or one for each fold;
    ``curves[key, dataset, method]`` a curve, ``costs[key, series]`` a point for each size.
    """

    plan: Plan
    quick: bool
    version: str
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # data set -> what was looked for
    unavailable: dict[str, str] = field(default_factory=dict)  # method -> why it could not run
    seeds: int | None = None  # how many were asked for, instead of the plan's
    budget: float | None = None  # minutes
    jobs: int = 1  # pieces that were done at once
    card: str = ""  # the GPU that took steps
    seconds: float = 0.0  # of this run; what was kept took its own when it was done
    cut: list[str] = field(default_factory=list)  # what the budget left out or cut short
    failed: list[str] = field(default_factory=list)  # what diverged, ran out of memory, or lacked what it needs
    cells: dict[tuple[str, str, int], list[dict[str, Any]]] = field(default_factory=dict)
    curves: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    costs: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)
    tested: dict[tuple[str, int], NDArray[Any]] = field(default_factory=dict)  # query of each test preference

    # -- cells --------------------------------------------------------------------------------------------------------

    def has_folds(self, dataset: str) -> bool:
        return "splits" in self.data.get(dataset, {})

    def by_seed(self, dataset: str, model: str) -> dict[int, list[dict[str, Any]]]:
        """Seed -> cells of the model's method; a seed that lacks a fold is left out."""
        if dataset not in self.data or not model:
            return {}
        n_tasks = len(self.data[dataset].get("splits", [""]))
        method = self.plan.method_of(model).key
        every = {seed: cells for (d, m, seed), cells in self.cells.items() if (d, m) == (dataset, method)}
        return {seed: cells for seed, cells in every.items() if len(cells) == n_tasks}

    def runs(self, dataset: str, model: str, seeds: Seeds = None) -> list[list[dict[str, Any]]]:
        """The cells of the model's method for each of these seeds; for all that have run when None."""
        by_seed = self.by_seed(dataset, model)
        return [cells for seed, cells in by_seed.items() if seeds is None or seed in seeds]

    def first_facts(self, dataset: str, model: str) -> list[dict[str, Any]]:
        """What was found on the way with the first seed, of each fold."""
        runs = self.runs(dataset, model)
        return [cell["facts"] for cell in runs[0]] if runs else []

    def n_fits(self, models: Iterable[tuple[str, str]] | None = None) -> tuple[int, int]:
        """How many fits of these data sets and models have run to their end, and how many there are to run; all
        that the plan has when None. A data set that was not read has none."""
        pairs = [(dataset, self.plan.method_of(model)) for dataset, model in models or () if model]
        if models is None:
            pairs = [(dataset, method) for method in self.plan.methods for dataset in self.plan.datasets_of(method)]
        methods = {(dataset, method.key): method for dataset, method in pairs if dataset in self.data}
        n_all = sum(
            len(self.data[dataset].get("splits", [""])) * self.plan.n_seeds(method, self.seeds)
            for (dataset, _), method in methods.items()
        )
        n_run = sum(
            not cell.get("cut")
            for (dataset, method, _), cells in self.cells.items()
            if (dataset, method) in methods
            for cell in cells
        )
        return n_run, n_all

    def fits_of(self, table: PaperTable) -> tuple[int, int]:
        """The same of the fits behind a table."""
        return self.n_fits((row.dataset or dataset, row.model) for row in table.rows for dataset in table.datasets)

    def took(self) -> tuple[float, int]:
        """Seconds of all pieces together, those that were kept included, and how many were done at once at most."""
        pieces = [cell for cells in self.cells.values() for cell in cells]
        pieces += [*self.curves.values(), *(point for points in self.costs.values() for point in points)]
        took = [piece["took"] for piece in pieces if "took" in piece]
        return sum(each["all"] for each in took), max((each["jobs"] for each in took), default=1)

    def is_unfinished(self, dataset: str, model: str) -> bool:
        """Whether with some seed the best validation was the last one taken, so that more steps may help."""
        runs = self.runs(dataset, model)
        return any(cell["facts"].get("still_improving") for cells in runs for cell in cells)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def by_fold(self, dataset: str, model: str, measure: str, seeds: Seeds = None) -> NDArray[np.float64]:
        """The measure in each fold (n_seeds, n_folds); nothing where it does not apply."""
        name = self.plan.name_of(measure)
        if dataset in self.data and measure in self.plan.measures and measure not in self.plan.measures_of(dataset):
            return np.zeros((0, 0))
        runs = self.runs(dataset, model, seeds)
        rows = [[cell["models"][model]["means"].get(name) for cell in cells] for cells in runs]
        return np.array([row for row in rows if None not in row], dtype=np.float64)

    def values(self, dataset: str, model: str, measure: str, seeds: Seeds = None) -> list[float]:
        """The mean over folds, one for each seed; none where the measure does not apply."""
        by_fold = self.by_fold(dataset, model, measure, seeds)
        return [float(mean) for mean in by_fold.mean(axis=1)] if by_fold.size else []

    def is_by_query(self, dataset: str, model: str, measure: str) -> bool:
        """Whether each query has a value of its own."""
        name = self.plan.name_of(measure)
        runs = self.runs(dataset, model)
        return bool(runs) and (name == ERROR or name in runs[0][0]["models"][model]["by_query"])

    def by_query(self, dataset: str, model: str, measure: str, seeds: Seeds = None) -> NDArray[np.float64]:
        """The measure of each query of all folds, mean over these seeds."""
        name = self.plan.name_of(measure)
        runs = [
            [value for cell in cells for value in cell["models"][model]["by_query"][name]]
            for cells in self.runs(dataset, model, seeds)
        ]
        return np.mean(runs, axis=0)

    def wrong_by_query(
        self, dataset: str, model: str, seeds: Seeds = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each query that was tested, its wrong test preferences and how many it had, over these seeds.

        Preferences of one query are wrong together, so that queries are what can be counted as independent.
        """
        by_seed = {s: cells for s, cells in self.by_seed(dataset, model).items() if seeds is None or s in seeds}
        queries = [self.tested[dataset, seed] for seed in by_seed]
        n = max(int(query.max()) for query in queries) + 1
        wrong = np.zeros(n)
        for [cell], query in zip(by_seed.values(), queries, strict=True):
            wrong += np.bincount(query[cell["models"][model]["wrong"]], minlength=n)
        tested = np.bincount(np.concatenate(queries), minlength=n).astype(np.float64)
        return wrong[tested > 0], tested[tested > 0]

    def standard_error(self, dataset: str, model: str, measure: str) -> float | None:
        """Over queries, seeds taken together; None for what is not measured by query."""
        if not self.values(dataset, model, measure) or not self.is_by_query(dataset, model, measure):
            return None
        if self.plan.name_of(measure) == ERROR:
            wrong, tested = self.wrong_by_query(dataset, model)
            # of a ratio of two sums
            values = (wrong - tested * wrong.sum() / tested.sum()) * tested.size / tested.sum()
        else:
            values = self.by_query(dataset, model, measure)
        return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None

    def common_seeds(self, dataset: str, models: tuple[str, ...]) -> Seeds:
        """The seeds that all of these have, since each seed has test preferences of its own.

        None for all of each: test queries of folds are the same with every seed.
        """
        if self.has_folds(dataset):
            return None
        first, *others = (self.by_seed(dataset, model) for model in models)
        return tuple(seed for seed in first if all(seed in other for other in others))

    def paired(self, dataset: str, better: str, worse: str, measure: str) -> PairedTest | None:
        """Better minus worse, by query; what is not measured by query, by seed. None where fewer than two pair up."""
        models = better, worse
        seeds = self.common_seeds(dataset, models)
        if seeds == ():
            return None
        if self.plan.name_of(measure) == ERROR:
            (a, tested), (b, _) = (self.wrong_by_query(dataset, model, seeds) for model in models)
            a, b = (wrong * tested.size / tested.sum() for wrong in (a, b))  # whose means are the errors
        elif all(self.is_by_query(dataset, model, measure) for model in models):
            a, b = (self.by_query(dataset, model, measure, seeds) for model in models)
        else:
            a, b = (np.array(self.values(dataset, model, measure, seeds)) for model in models)
        return paired_test(a, b) if len(a) > 1 else None

    # -- as JSON ------------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """What is written to results.json, without tables and figures.

        Values of each query are among it where queries have names; those of others stay in the cells.
        """
        names = ("quick", "version", "data", "missing", "unavailable", "budget", "card", "cut", "failed")
        return {name: getattr(self, name) for name in names} | {
            "paper": self.plan.paper.key,
            "took": dict(zip(("seconds", "jobs"), self.took(), strict=True)),
            "fits": dict(zip(("run", "all"), self.n_fits(), strict=True)),
            "fits by table": {
                table.key: dict(zip(("run", "all"), self.fits_of(table), strict=True)) for table in self.plan.tables
            },
            "methods": [
                self._cell_as_json(dataset, method, seed, number, cell)
                for (dataset, method, seed), cells in self.cells.items()
                for number, cell in enumerate(cells)
            ],
            "costs": [
                {"cost": cost.key, "series": series.title} | point
                for cost in self.plan.costs
                for number, series in enumerate(cost.series)
                for point in self.costs.get((cost.key, number), [])
            ],
        }

    def _cell_as_json(self, dataset: str, method: str, seed: int, number: int, cell: dict[str, Any]) -> dict[str, Any]:
        keys = {measure.name or key: key for key, measure in self.plan.measures.items()}
        shown: dict[str, Any] = {"dataset": dataset, "method": method, "seed": seed}
        if self.has_folds(dataset):
            shown["fold"] = self.data[dataset]["splits"][number]
        shown |= {"facts": cell["facts"], "related": cell["related"], "took": cell.get("took", {})}
        for part in ("means", "by_query") if self.has_folds(dataset) else ("means",):
            shown["models" if part == "means" else part] = {
                model: {keys.get(name, name): value for name, value in measured[part].items()}
                for model, measured in cell["models"].items()
            }
        return shown
