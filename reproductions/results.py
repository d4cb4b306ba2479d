"""Results of a run of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproductions.plan import Plan
from tercet.measure import PairedTest, paired_test

Seeds = tuple[int, ...] | None  # None for all that have run
ERROR = "error"  # the measure that counts wrong test preferences


@dataclass
class PaperResults:
    """Everything measured by a run, and the missing parts.

    ``fits[dataset, method, seed]`` has a result for each task; ``curves[key, dataset, method]`` has a curve.
    """

    plan: Plan
    quick: bool
    version: str
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # data set -> what was looked for
    gpu: str = ""  # name of the GPU that learned
    seconds: float = 0.0  # of this run; cached results took their own time
    failed: list[str] = field(default_factory=list)  # jobs without a result, with the reason
    fits: dict[tuple[str, str, int], list[dict[str, Any]]] = field(default_factory=dict)
    curves: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)

    # -- fits ---------------------------------------------------------------------------------------------------------

    def has_folds(self, dataset: str) -> bool:
        return "splits" in self.data.get(dataset, {})

    def by_seed(self, dataset: str, model: str) -> dict[int, list[dict[str, Any]]]:
        """Seed -> results of the model's method; a seed that lacks a fold is left out."""
        if dataset not in self.data or not model:
            return {}
        n_tasks = len(self.data[dataset].get("splits", [""]))
        method = self.plan.method_of(model).key
        every = {seed: folds for (d, m, seed), folds in self.fits.items() if (d, m) == (dataset, method)}
        return {seed: folds for seed, folds in every.items() if len(folds) == n_tasks}

    def runs(self, dataset: str, model: str, seeds: Seeds = None) -> list[list[dict[str, Any]]]:
        """The results of the model's method for each of these seeds; for all that have run when None."""
        by_seed = self.by_seed(dataset, model)
        return [folds for seed, folds in by_seed.items() if seeds is None or seed in seeds]

    def n_fits(self) -> tuple[int, int]:
        """Return the numbers of finished and of planned fits."""
        n_all = sum(
            len(self.data[dataset].get("splits", [""])) * self.plan.n_seeds(method)
            for method in self.plan.methods
            for dataset in self.plan.datasets_of(method)
            if dataset in self.data
        )
        return sum(map(len, self.fits.values())), n_all

    def took(self) -> float:
        """Seconds of all jobs together, cached ones included."""
        results = [fit for folds in self.fits.values() for fit in folds] + [*self.curves.values()]
        return float(sum(result.get("took", 0.0) for result in results))

    def is_unfinished(self, dataset: str, model: str) -> bool:
        """True if the last validation of some seed is the best, so more steps may help."""
        runs = self.runs(dataset, model)
        return any(fit["facts"].get("still_improving") for folds in runs for fit in folds)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def by_fold(self, dataset: str, model: str, measure: str, seeds: Seeds = None) -> NDArray[np.float64]:
        """Return the measure in each fold (n_seeds, n_folds); empty if not applicable."""
        name = self.plan.name_of(measure)
        if dataset in self.data and measure in self.plan.measures and measure not in self.plan.measures_of(dataset):
            return np.zeros((0, 0))
        runs = self.runs(dataset, model, seeds)
        rows = [[fit["models"][model]["means"].get(name) for fit in folds] for folds in runs]
        return np.array([row for row in rows if None not in row], dtype=np.float64)

    def values(self, dataset: str, model: str, measure: str, seeds: Seeds = None) -> list[float]:
        """Return the mean over folds for each seed; empty if not applicable."""
        by_fold = self.by_fold(dataset, model, measure, seeds)
        return [float(mean) for mean in by_fold.mean(axis=1)] if by_fold.size else []

    def is_by_query(self, dataset: str, model: str, measure: str) -> bool:
        """True if the measure has a value for each query."""
        name = self.plan.name_of(measure)
        runs = self.runs(dataset, model)
        return bool(runs) and (name == ERROR or name in runs[0][0]["models"][model]["by_query"])

    def by_query(self, dataset: str, model: str, measure: str, seeds: Seeds = None) -> NDArray[np.float64]:
        """The measure of each query of all folds, mean over these seeds."""
        name = self.plan.name_of(measure)
        runs = [
            [value for fit in folds for value in fit["models"][model]["by_query"][name]]
            for folds in self.runs(dataset, model, seeds)
        ]
        return np.mean(runs, axis=0)

    def wrong_by_query(
        self, dataset: str, model: str, seeds: Seeds = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return wrong and all test preferences of each tested query, over these seeds.

        Queries count as independent units, not preferences.
        """
        runs = [fit for [fit] in self.runs(dataset, model, seeds)]
        n = max(len(fit["tested"]) for fit in runs)
        wrong, tested = np.zeros(n), np.zeros(n)
        for fit in runs:
            tested[: len(fit["tested"])] += fit["tested"]
            wrong[: len(fit["tested"])] += fit["models"][model]["wrong"]
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
        """Test better minus worse by query, or by seed without values of queries; None for fewer than two pairs."""
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
