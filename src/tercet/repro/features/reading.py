"""What does not fit together in a plan of feature vectors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from tercet.errors import InputError
from tercet.learn.rls import RLS_RANKERS
from tercet.measure import parse_measure
from tercet.repro.faults import repeated, unfit_for_files, unknown
from tercet.repro.features.measuring import OF_PAIRS, OF_THE_RANKER
from tercet.repro.features.plan import Cost, FeaturePlan, Method, Table
from tercet.repro.features.rankers import known_rankers


def faults_of_features(plan: FeaturePlan) -> Iterator[str]:
    """All faults, in words."""
    keys = [method.key for method in plan.methods]
    figures = (plan.lines, plan.tradeoffs, plan.growths, plan.costs)
    shown = [each.key for group in (plan.tables, plan.comparisons, *figures) for each in group]
    yield from repeated("methods", keys)
    yield from repeated("tables, comparisons and figures", shown)
    yield from unfit_for_files((plan.paper.key, *plan.datasets, *keys, *shown))
    for name, measure in plan.measures.items():
        if measure.name not in OF_THE_RANKER + OF_PAIRS:
            try:
                parse_measure(measure.name)
            except InputError as error:
                yield f"measures.{name}.name: {error} Or one of {', '.join(OF_PAIRS + OF_THE_RANKER)}"
    for name, data in plan.datasets.items():
        if not data.files:
            yield f"datasets.{name}.files: no place to look at"
        yield from unknown(f"datasets.{name}.measures", data.measures, plan.measures)
    rankings = [name for name, measure in plan.measures.items() if measure.name not in OF_THE_RANKER]
    yield from unknown("choose_by", [plan.choose_by], rankings)
    for at, method in enumerate(plan.methods):
        yield from _method_faults(f"methods[{at}] ({method.key})", method, plan, rankings)
    for where, methods, datasets, measures in _mentioned(plan):
        yield from unknown(f"{where}.methods", methods, keys)
        yield from unknown(f"{where}.datasets", datasets, plan.datasets)
        yield from unknown(f"{where}.measures", measures, plan.measures)
    for at, table in enumerate(plan.tables):
        yield from _table_faults(f"tables[{at}] ({table.key})", table)
    for at, target in enumerate(plan.targets):
        if (target.at_least is None) == (target.at_most is None):
            yield f"targets[{at}]: give at_least or at_most"
    for at, claim in enumerate(plan.claims):
        yield from unknown(f"claims[{at}].printed", claim.printed, claim.datasets)
    for at, comparison in enumerate(plan.comparisons):
        allowed = plan.measures_of(comparison.dataset) if comparison.dataset in plan.datasets else rankings
        yield from unknown(f"comparisons[{at}].measures", comparison.measures, [m for m in rankings if m in allowed])
    for at, lines in enumerate(plan.lines):
        for name in lines.measures:
            if name in plan.measures and plan.measures[name].cutoff is None:
                yield f"lines[{at}].measures: {name!r} has no cutoff, so it has no place on the axis"
    for at, cost in enumerate(plan.costs):
        yield from _cost_faults(f"costs[{at}] ({cost.key})", cost)
    for at, tradeoff in enumerate(plan.tradeoffs):
        chosen_by = {plan.method(key).choose_by or plan.choose_by for key in tradeoff.methods if key in keys}
        if chosen_by - {tradeoff.measure}:
            yield f"tradeoffs[{at}]: its methods must be chosen by its measure, {tradeoff.measure!r}"


def _mentioned(plan: FeaturePlan) -> Iterator[tuple[str, Iterable[str], Iterable[str], Iterable[str]]]:
    """Where methods, data sets and measures are mentioned."""
    for at, table in enumerate(plan.tables):
        methods = [row.method for row in table.rows if row.method]
        yield f"tables[{at}]", methods, table.datasets, table.measures
    for at, claim in enumerate(plan.claims):
        yield f"claims[{at}]", (claim.better, *claim.worse), claim.datasets, claim.measures
    for at, comparison in enumerate(plan.comparisons):
        methods = [*comparison.methods, *([comparison.against] if comparison.against else [])]
        yield f"comparisons[{at}]", methods, [comparison.dataset], comparison.measures
    for at, target in enumerate(plan.targets):
        yield f"targets[{at}]", [target.method], [target.dataset], [target.measure]
    for at, lines in enumerate(plan.lines):
        yield f"lines[{at}]", lines.methods, lines.datasets, lines.measures
    for at, tradeoff in enumerate(plan.tradeoffs):
        yield f"tradeoffs[{at}]", (*tradeoff.methods, *tradeoff.points), [tradeoff.dataset], [tradeoff.measure]
    for at, growth in enumerate(plan.growths):
        methods = [method for series in growth.series for method in series.methods]
        yield f"growths[{at}]", methods, [growth.dataset], [growth.measure]
    for at, statistics in enumerate(plan.statistics):
        yield f"statistics[{at}]", (), statistics.printed, ()


def _method_faults(where: str, method: Method, plan: FeaturePlan, rankings: list[str]) -> Iterator[str]:
    yield from unknown(f"{where}.ranker", [method.ranker], known_rankers())
    yield from unknown(f"{where}.datasets", method.datasets, plan.datasets)
    yield from unknown(f"{where}.choose_by", [method.choose_by or plan.choose_by], rankings)
    if method.ranker in known_rankers():
        accepted = list(inspect.signature(known_rankers()[method.ranker]).parameters)
        yield from unknown(f"{where}.parameters", method.parameters, accepted)
        yield from unknown(f"{where}.choose", method.choose, accepted)
        if method.seeds > 1 and "random_state" not in accepted:
            yield f"{where}.seeds: {method.ranker} draws nothing at random"
    for name, values in method.choose.items():
        if not values:
            yield f"{where}.choose: no values of {name}"
    both = sorted(set(method.parameters) & set(method.choose))
    if both:
        yield f"{where}: {both[0]} is both given and chosen"
    if method.per_query < 0 or (method.drawn_as == "basis" and not method.per_query):
        yield f"{where}.per_query: {method.per_query} rows of each query; a basis needs at least 1"
    if method.drawn_as == "basis" and method.ranker not in RLS_RANKERS:
        yield f"{where}.drawn_as: {method.ranker} has no basis; known for one: {', '.join(RLS_RANKERS)}"
    if method.seeds < 1 or method.cv_folds < 2:
        yield f"{where}: at least 1 seed and 2 cv_folds are needed"


def _cost_faults(where: str, cost: Cost) -> Iterator[str]:
    yield from unknown(f"{where}.ranker", [cost.ranker], RLS_RANKERS)
    if cost.ranker in RLS_RANKERS:
        yield from unknown(
            f"{where}.parameters", cost.parameters, inspect.signature(RLS_RANKERS[cost.ranker]).parameters
        )
    if min(cost.n_features, cost.rounds) < 1 or cost.rows_of_query < 2:
        yield f"{where}: at least 1 of n_features and of rounds, and 2 rows_of_query, are needed"
    for series in cost.series:
        rising = series.n_basis if series.rises == "n_basis" else series.rows
        if len(rising) < 2 or list(rising) != sorted(set(rising)) or min((*series.rows, *series.n_basis)) < 2:
            yield f"{where}: {series.title!r} needs two rising numbers of rows or of n_basis, or more"
        elif series.rises == "n_basis" and len(series.rows) != 1:
            yield f"{where}: {series.title!r} has several rows and several n_basis; one of them must be one number"
        elif max(series.n_basis, default=0) > min(series.rows):
            yield f"{where}: {series.title!r} has a larger n_basis than rows"


def _table_faults(where: str, table: Table) -> Iterator[str]:
    if len(table.datasets) != 1 and len(table.measures) != 1:
        yield f"{where}: one data set with several measures, or several with one"
    columns = table.measures if len(table.datasets) == 1 else table.datasets
    for row in table.rows:
        if bool(row.method) == bool(row.reason) or (row.reason and not row.title):
            yield f"{where}.rows: a row needs a method, or a title and the reason why there is none"
        yield from unknown(f"{where}.rows.printed", row.printed, columns)
        if row.printed and table.kind == "ours":
            yield f"{where}.rows: {row.method!r} has printed numbers, but the table's kind is 'ours'"
