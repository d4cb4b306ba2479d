"""Check the names in a plan: unknown and repeated keys, and models that a data set lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NewType, get_args, get_origin, get_type_hints

from reproductions.plan import DatasetKey, MeasureKey, Method, MethodKey, ModelKey, Plan
from reproductions.rankers import OF_ROWS, OF_WORDS, accepted_parameters

_SHOWN = ("statistics", "tables", "claims", "comparisons", "words", "curves", "precisions", "cutoffs", "tradeoffs")


def faults(plan: Plan) -> Iterator[str]:
    """Yield the faults of a plan; the reader raises the first one."""
    methods = [method.key for method in plan.methods]
    models = [model.key for method in plan.methods for model in method.all_models()]
    shown = [item.key for group in _SHOWN for item in getattr(plan, group) if hasattr(item, "key")]
    for what, names in (("methods", methods), ("models", models), ("tables, words and figures", shown)):
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            yield f"{what}: the key {repeated[0]!r} is there twice"
    for number, method in enumerate(plan.methods):
        yield from _method_faults(f"methods[{number}] ({method.key})", method, plan)
    for group in _SHOWN:
        for number, item in enumerate(getattr(plan, group)):
            yield from _reference_faults(f"{group}[{number}]", item, plan)
    for number, table in enumerate(plan.tables):
        columns = table.measures if len(table.datasets) == 1 else table.datasets
        for row in table.rows:
            where = f"tables[{number}] ({table.key}).rows"
            if bool(row.model) == bool(row.reason) or (row.reason and not row.title):
                yield f"{where}: a row needs a model, or a title and the reason why there is none"
            yield from unknown(f"{where}.printed", row.printed, columns)
            yield from unknown(f"{where}.plus_minus", row.plus_minus, row.printed)


def unknown(where: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield a fault for each name that is not known."""
    listed = list(known)
    for name in names:
        if name not in listed:
            yield f"{where}: {name!r} is unknown; known: {', '.join(listed)}"


def _method_faults(where: str, method: Method, plan: Plan) -> Iterator[str]:
    yield from unknown(f"{where}.datasets", method.datasets, plan.datasets)
    if bool(method.ranker) == bool(method.blend):
        yield f"{where}: a method has a ranker or blends two models"
    earlier = plan.methods[: plan.methods.index(method)]
    yield from unknown(f"{where}.blend", method.blend, [model.key for other in earlier for model in other.all_models()])
    if method.chosen_by is not None:
        choosers = [other.key for other in earlier if other.choose]
        yield from unknown(f"{where}.chosen_by", [method.chosen_by.method], choosers)
    rankers = OF_WORDS | OF_ROWS
    if not method.blend:
        yield from unknown(f"{where}.ranker", [method.ranker], rankers)
    if method.ranker in rankers:
        accepted = accepted_parameters(rankers[method.ranker])
        for dataset in plan.datasets_of(method):
            yield from unknown(f"{where}.parameters", method.parameters_for(dataset), accepted)
        yield from unknown(f"{where}.choose", method.choose, accepted)


def _reference_faults(where: str, item: Any, plan: Plan, outer: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield unknown keys of an item, and models that are not fitted on the item's data sets (or else ``outer``)."""
    names: dict[Any, list[str]] = {DatasetKey: [], MeasureKey: [], MethodKey: [], ModelKey: []}
    parts: list[tuple[str, Any]] = []
    hints = get_type_hints(type(item))
    for field in fields(item):
        value, inner = getattr(item, field.name), get_args(hints[field.name])
        kind = inner[0] if get_origin(hints[field.name]) in (tuple, dict) else hints[field.name]
        listed = value if inner else [value]
        if isinstance(kind, NewType) and kind in names:
            names[kind] += [name for name in listed if name]
        elif is_dataclass(kind):
            parts += [(f"{where}.{field.name}", part) for part in listed]
    datasets = tuple(names[DatasetKey]) or outer
    methods = {method.key: method for method in plan.methods}
    givers = {model.key: method for method in plan.methods for model in method.all_models()}
    known: dict[Any, Iterable[str]] = {
        DatasetKey: plan.datasets,
        MeasureKey: plan.measures,
        MethodKey: methods,
        ModelKey: givers,
    }
    for kind, listed in names.items():
        yield from unknown(where, listed, known[kind])
    fitted = [(key, methods.get(key)) for key in names[MethodKey]]
    for key, method in fitted + [(key, givers.get(key)) for key in names[ModelKey]]:
        for dataset in datasets:
            if method is not None and dataset not in plan.datasets_of(method):
                yield f"{where}: {key!r} is not fitted on {dataset!r}"
    for place, part in parts:
        yield from _reference_faults(place, part, plan, datasets)
