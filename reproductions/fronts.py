"""The Pareto front of features against a measure, over the grids of several methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproductions.choosing import standard_error
from reproductions.paper_results import PaperResults
from reproductions.plan_items import Front
from reproductions.table import Cell, Table
from reproductions.verdicts import shown, with_plus_minus


def front_points(results: PaperResults, front: Front) -> list[dict[str, Any]]:
    """For each number of features what was taken in the folds, its features, and its measure on the test parts.

    In each fold it is the setting with the best value where its method chose, of all methods and with at most so many
    features on average; of equals the sparser. Test parts choose nothing.
    """
    sign = 1.0 if results.plan.measures[front.measure].higher_is_better else -1.0
    runs = {model: results.runs(front.dataset, model)[:1] for model in front.models}
    folds = list(zip(*(run[0] for run in runs.values()), strict=True)) if all(runs.values()) else []
    points = []
    for budget in front.budgets:
        taken = []
        for fits in folds:
            allowed = [
                (-sign * point["validation"], point["used"], model, point)
                for model, fit in zip(runs, fits, strict=True)
                for point in fit["grid"]
                if "by_query" in point and point["used"] <= budget
            ]
            taken += [min(allowed, key=lambda entry: entry[:2])[2:]] if allowed else []
        if folds and len(taken) == len(folds):
            by_query = np.concatenate([point["by_query"] for _, point in taken])
            points.append(
                {
                    "budget": budget,
                    "used": float(np.mean([point["n_used"] for _, point in taken])),
                    "chosen_by": float(np.mean([point["validation"] for _, point in taken])),
                    "value": float(np.mean([np.mean(point["by_query"]) for _, point in taken])),
                    "standard_error": standard_error(by_query),
                    "taken": [f"{results.plan.model(model).title}, {_passes(point)}" for model, point in taken],
                }
            )
    return points


def _passes(point: dict[str, Any]) -> str:
    epochs = point["parameters"].get("epochs")
    return "to the end" if epochs is None else f"{epochs} pass{'' if epochs == 1 else 'es'}"


def front_table(results: PaperResults, front: Front) -> Table:
    """What each number of features reaches."""
    plan, measure = results.plan, results.plan.measures[front.measure]
    head = ["features at most", "used", f"{measure.title} where it was chosen", f"{measure.title} on test", "taken"]
    table = Table(f"{front.title}, {plan.datasets[front.dataset].title}", head, key=front.key)
    table.notes.append(
        "In each fold the setting that is best where its method chose, of all methods named, with at most so many "
        "features; the means over folds. The test parts show how it did, with the standard error over queries, and "
        "choose nothing. Beyond the last row that differs, more features are not better where they were chosen."
    )
    for point in front_points(results, front):
        counts = {name: point["taken"].count(name) for name in dict.fromkeys(point["taken"])}
        taken = "; ".join(f"{name} ({n} folds)" if n > 1 else name for name, n in counts.items())
        cells = [Cell(str(point["budget"])), Cell(f"{point['used']:.1f}"), Cell(shown(point["chosen_by"], measure))]
        cells += [Cell(with_plus_minus(point["value"], point["standard_error"], measure)), Cell(taken)]
        table.rows.append(cells)
        table.records.append(point)
    table.has_numbers = bool(table.rows)
    return table
