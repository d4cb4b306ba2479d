"""A plan with little of everything, which shows that everything works; rows and folds are cut where they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reproductions.plan import Method, Plan, Quick


def made_quick(plan: Plan) -> Plan:
    """The same with fewer seeds, preferences, words, values to choose from and points."""
    quick = plan.quick

    def fewer(test_preferences: int) -> int:
        return min(test_preferences, quick.test_preferences or test_preferences)

    return replace(
        plan,
        seeds=min(plan.seeds, quick.seeds),
        test_preferences=fewer(plan.test_preferences),
        datasets={
            name: data
            if data.max_features is None or quick.max_features is None
            else replace(data, max_features=quick.max_features)
            for name, data in plan.datasets.items()
        },
        methods=tuple(_quick_method(method, quick) for method in plan.methods),
        curves=tuple(
            replace(
                curves,
                points=min(curves.points, quick.points),
                test_preferences=fewer(curves.test_preferences),
            )
            for curves in plan.curves
        ),
    )


def _quick_method(method: Method, quick: Quick) -> Method:
    def not_searched(parameters: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in parameters.items() if name not in method.reuse}

    return replace(
        method,
        seeds=None if method.seeds is None else min(method.seeds, quick.seeds),
        preferences=min(method.preferences, max(1, round(quick.share * method.preferences))),
        per_query=min(method.per_query, quick.per_query),
        choose={name: _some(values, quick.values) for name, values in method.choose.items()},
        parameters=not_searched(method.parameters) | method.quick,
        by_dataset={name: not_searched(own) for name, own in method.by_dataset.items()},
    )


def _some(values: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """So many of the values: the first, or several evenly spread, the ends left out where others are there."""
    if n == 1 or len(values) <= n:
        return values[:n]
    return tuple(values[(2 * i + 1) * len(values) // (2 * n)] for i in range(n))
