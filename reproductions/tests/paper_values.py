"""Results of a made-up paper, without a run: a plan of rows and the values of each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reproductions.plan import Method, Paper, PaperMeasure, Plan, PlanData
from reproductions.results import PaperResults

AP = PaperMeasure("MAP", higher_is_better=True, tolerance=0.02, spread="standard error")


def made_plan(models: Sequence[str], **shown: Any) -> Plan:
    """Make a plan with a data set "rows" and a method for each model."""
    measures = shown.pop("measures", {"map": AP})
    return Plan(
        Paper("made", "A made-up paper", "A. Nobody", "Nowhere 2000"),
        measures=measures,
        datasets=shown.pop("datasets", {"rows": PlanData("Rows", "letor-folds", ("rows",))}),
        methods=tuple(Method(model, model.title(), "FTRLRanker") for model in models),
        **shown,
    )


def made_results(plan: Plan, by_query: Mapping[str, Mapping[str, Sequence[float]]], **found: Any) -> PaperResults:
    """Make results of the first data set: model -> measure -> a value for each query."""
    dataset = next(iter(plan.datasets))
    n_queries = max(len(values) for measured in by_query.values() for values in measured.values())
    data = {"splits": ["Fold1"], "queries": [str(i) for i in range(n_queries)], "statistics": {"features": 4}}
    results = PaperResults(plan, found.pop("quick", False), "0.0", data={dataset: data}, **found)
    for model, measured in by_query.items():
        names = {plan.name_of(key): [float(value) for value in values] for key, values in measured.items()}
        means = {name: sum(values) / len(values) for name, values in names.items()} | {"seconds": 0.5}
        fit = {
            "facts": {"n_used": 2, "n_drawn": 10},
            "related": {},
            "models": {model: {"means": means, "by_query": names}},
            "grid": [],
            "took": 1.0,
        }
        results.fits[dataset, model, 0] = [fit]
    return results
