"""Faults of a plan, in words: unknown keys, models that are not fitted, settings that do not fit together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NewType, get_args, get_origin, get_type_hints

from reproductions.folds import OF_PAIRS, OF_THE_RANKER
from reproductions.plan import ChosenBy, DatasetKey, MeasureKey, Method, MethodKey, ModelKey, PaperTable, Plan
from reproductions.rankers import OF_ROWS, OF_WORDS, WITH_BASIS, accepted_parameters, learns_by_steps
from tercet.errors import InputError
from tercet.measure import parse_measure

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_WORDS = ("map", "p10", "error", "memory", "density", "seconds")  # measures of classes and links
# Fields of a method for one kind of task alone.
_WORD_FIELDS = (
    *("blend", "models", "choose_how", "chosen_by", "reuse", "preferences", "early_stop", "map", "parallel"),
    *("negatives", "second", "third", "share", "uniform_over"),
)
_LINK_FIELDS = ("blend", "early_stop", "map", "parallel", "negatives", "second", "third", "share", "uniform_over")
_ROW_FIELDS = ("choose_by", "rule", "most_used", "cv_folds", "per_query", "drawn_as")
_SHOWN = (
    *("statistics", "tables", "claims", "comparisons", "standings", "targets", "words"),
    *("curves", "scatters", "precisions", "cutoffs", "tradeoffs"),
)


def faults(plan: Plan) -> Iterator[str]:
    """Faults of a plan; a reader raises the first."""
    yield from _key_faults(plan)
    if plan.seeds < 1:
        yield f"seeds is {plan.seeds}; at least 1 is needed"
    if plan.test_preferences < 1 and any(data.task != "rows" for data in plan.datasets.values()):
        yield f"test_preferences is {plan.test_preferences}; at least 1 is needed"
    if not 0 < plan.quick.share <= 1:
        yield f"quick.share is {plan.quick.share}; a number above 0 and at most 1 is needed"
    for name, data in plan.datasets.items():
        if not data.files and data.reader != "made-up":
            yield f"datasets.{name}.files: no place to look at"
        yield from unknown(f"datasets.{name}.measures", data.measures, plan.measures)
        for other in data.instead:
            if other.task != data.task or other.instead or not other.files:
                yield f"datasets.{name}.instead: {data.task} with files, and nothing instead of it, are needed"
    yield from _measure_faults(plan)
    for number, method in enumerate(plan.methods):
        yield from _method_faults(f"methods[{number}] ({method.key})", method, plan)
    for group in _SHOWN:
        for number, item in enumerate(getattr(plan, group)):
            yield from _mention_faults(f"{group}[{number}]", item, plan)
    yield from _item_faults(plan)


def unknown(where: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Names that are not known."""
    listed = list(known)
    for name in names:
        if name not in listed:
            yield f"{where}: {name!r} is unknown; known: {', '.join(listed)}"


def _key_faults(plan: Plan) -> Iterator[str]:
    """Keys that are there twice, or cannot name files."""
    methods = [method.key for method in plan.methods]
    models = [model.key for method in plan.methods for model in method.all_models()]
    shown = [item.key for group in _SHOWN for item in getattr(plan, group) if hasattr(item, "key")]
    for what, names in (("methods", methods), ("models", models), ("tables, words and figures", shown)):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield f"{what}: the key {twice[0]!r} is there twice"
    for name in (plan.paper.key, *plan.datasets, *methods, *shown):
        if not _FILE_NAME.fullmatch(name):
            yield f"the key {name!r} names files; letters, digits, '-', '_' and '.' are allowed, not '.' first"


def _measure_faults(plan: Plan) -> Iterator[str]:
    """Measures that no task has, and those that cannot choose."""
    kinds = {data.task for data in plan.datasets.values()}
    for key in plan.measures:
        name = plan.name_of(key)
        if name in _OF_WORDS and kinds - {"rows"}:
            continue
        if "rows" not in kinds:
            yield f"measures.{key}: {name!r} is unknown; known: {', '.join(_OF_WORDS)}"
        elif name not in OF_THE_RANKER + OF_PAIRS:
            try:
                parse_measure(name)
            except InputError as error:
                yield f"measures.{key}.name: {error} Or one of {', '.join(OF_PAIRS + OF_THE_RANKER)}"
    if "rows" in kinds:
        yield from unknown("choose_by", [plan.choose_by], _rankings(plan))


def _rankings(plan: Plan) -> list[str]:
    """Keys of the measures of rankings, which can choose."""
    return [key for key in plan.measures if plan.name_of(key) not in OF_THE_RANKER]


# -- methods ----------------------------------------------------------------------------------------------------------


def _method_faults(where: str, method: Method, plan: Plan) -> Iterator[str]:
    yield from unknown(f"{where}.datasets", method.datasets, plan.datasets)
    yield from unknown(f"{where}.by_dataset", method.by_dataset, plan.datasets_of(method))
    if bool(method.ranker) == bool(method.blend):
        yield f"{where}: a method has a ranker or blends two models"
    for name, values in method.choose.items():
        if not values:
            yield f"{where}.choose: no values of {name}"
    least = 0 if any(method.key in curves.methods for curves in plan.curves) else 1
    if (method.seeds is not None and method.seeds < least) or method.cv_folds < 2:
        yield f"{where}: at least 1 seed, or a curve, and 2 cv_folds are needed"
    if not 0 < method.share <= 1:
        yield f"{where}: share is a number above 0 and at most 1"
    kinds = {plan.datasets[name].task for name in plan.datasets_of(method) if name in plan.datasets}
    of_rows = "rows" in kinds
    if of_rows and kinds != {"rows"}:
        yield f"{where}.datasets: some have rows and some words; a method learns of one or the other"
        return
    kind, others = ("rows", "classes and links") if of_rows else ("words", "rows")
    for name in _set_fields(method, _WORD_FIELDS if of_rows else _ROW_FIELDS):
        yield f"{where}.{name}: for {others}; its data sets have {kind}"
    yield from _row_method_faults(where, method, plan) if of_rows else _word_method_faults(where, method, plan)
    known = OF_ROWS if of_rows else OF_WORDS
    if not method.blend:
        yield from unknown(f"{where}.ranker", [method.ranker], known)
    if method.ranker in known:
        accepted = accepted_parameters(known[method.ranker])
        for dataset in plan.datasets_of(method):
            yield from unknown(f"{where}.parameters", method.parameters_for(dataset), accepted)
            yield from _nested_faults(f"{where}.parameters", method.parameters_for(dataset), known)
        yield from unknown(f"{where}.quick", method.quick, accepted)
        yield from unknown(f"{where}.choose", method.choose, accepted)
        yield from unknown(f"{where}.reuse", [*method.reuse, *method.reuse.values()], accepted)
        if (method.seeds or 1) > 1 and of_rows and "random_state" not in accepted and not method.per_query:
            yield f"{where}.seeds: {method.ranker} draws nothing at random"


def _set_fields(method: Method, names: tuple[str, ...]) -> list[str]:
    """Those of the fields that are not as by default."""
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(method)
    }
    return [name for name in names if getattr(method, name) != defaults[name]]


def _nested_faults(where: str, parameters: dict[str, Any], known: Mapping[str, type[Any]]) -> Iterator[str]:
    """Faults of parameters that are rankers themselves."""
    for name, value in parameters.items():
        if isinstance(value, dict) and "ranker" in value:
            yield from unknown(f"{where}.{name}.ranker", [value["ranker"]], known)
            if value["ranker"] in known:
                accepted = ["ranker", *accepted_parameters(known[value["ranker"]])]
                yield from unknown(f"{where}.{name}", value, accepted)


def _word_method_faults(where: str, method: Method, plan: Plan) -> Iterator[str]:
    of_links = all(plan.datasets[name].task == "links" for name in plan.datasets_of(method) if name in plan.datasets)
    in_steps = learns_by_steps(method.ranker) and method.preferences > 0
    ranker = method.ranker or "a blend"
    if method.choose and method.choose_on not in ("training", *["validation"] * of_links):
        yield f"{where}.choose_on: of classes parameters are chosen on 'training', of links also on 'validation'"
    for name in () if of_links else _set_fields(method, _LINK_FIELDS):
        yield f"{where}.{name}: for links; some of its data sets have classes"
    if method.early_stop and not in_steps:
        yield f"{where}.early_stop: {ranker} does not learn by steps from preferences"
    if method.choose and method.choose_how == "halving" and not in_steps:
        yield f"{where}.choose_how: {ranker} does not learn by steps, so nothing can be halved"
    if method.negatives == "hard" and not in_steps:
        yield f"{where}.negatives: {ranker} does not learn by steps from preferences"
    if method.third and method.second is None:
        yield f"{where}.third: a third objective comes beside a second"
    if method.blend and len(method.blend) != 2:
        yield f"{where}.blend: {len(method.blend)} models; two are needed"
    before = plan.methods[: plan.methods.index(method)]
    earlier = {model.key: other for other in before for model in other.all_models()}
    for key in method.blend:
        if key not in earlier:
            yield f"{where}.blend: {key!r} is no model of an earlier method"
        elif not set(plan.datasets_of(method)) <= set(plan.datasets_of(earlier[key])):
            yield f"{where}.blend: {key!r} is not fitted on all of {', '.join(plan.datasets_of(method))}"
    if method.chosen_by is not None:
        choosers = {other.key: other for other in before if other.choose}
        yield from _chosen_by_faults(f"{where}.chosen_by", method, method.chosen_by, choosers, plan)


def _chosen_by_faults(
    where: str, method: Method, chosen_by: ChosenBy, choosers: dict[str, Method], plan: Plan
) -> Iterator[str]:
    if method.choose:
        yield f"{where}: the method chooses itself"
    if chosen_by.method not in choosers:
        yield f"{where}: {chosen_by.method!r} is no earlier method that chooses"
        return
    chooser = choosers[chosen_by.method]
    for dataset in (chosen_by.dataset,) if chosen_by.dataset else plan.datasets_of(method):
        if dataset not in plan.datasets_of(chooser):
            yield f"{where}: {chosen_by.method!r} is not fitted on {dataset!r}"
    if method.ranker in OF_WORDS:
        yield from unknown(where, chooser.choose, accepted_parameters(OF_WORDS[method.ranker]))


def _row_method_faults(where: str, method: Method, plan: Plan) -> Iterator[str]:
    if method.choose_on == "training":
        yield f"{where}.choose_on: of rows it is 'validation', 'cross-validation' or 'leave-query-out'"
    if method.choose_on == "leave-query-out" and (method.ranker not in WITH_BASIS or "l2" not in method.choose):
        yield f"{where}.choose_on: 'leave-query-out' chooses l2 of one of {', '.join(WITH_BASIS)}"
    yield from unknown(f"{where}.choose_by", [plan.chooses_by(method)], _rankings(plan))
    both = sorted(set(method.parameters) & set(method.choose))
    if both:
        yield f"{where}: {both[0]} is both a parameter and chosen"
    if method.per_query < 0 or (method.drawn_as == "basis" and not method.per_query):
        yield f"{where}.per_query: {method.per_query} rows of each query; a basis needs at least 1"
    if method.drawn_as == "basis" and method.ranker not in WITH_BASIS:
        yield f"{where}.drawn_as: {method.ranker} has no basis; known for one: {', '.join(WITH_BASIS)}"


# -- tables and figures -----------------------------------------------------------------------------------------------


def _mention_faults(where: str, item: Any, plan: Plan, outer: tuple[str, ...] = ()) -> Iterator[str]:
    """Unknown keys of an item, and models that are not fitted on its data sets, or on those of the item around it."""
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
    for kind, known in ((DatasetKey, plan.datasets), (MeasureKey, plan.measures), (MethodKey, methods)):
        yield from unknown(where, names[kind], known)
    yield from unknown(where, names[ModelKey], givers)
    fitted = [(key, methods.get(key)) for key in names[MethodKey]]
    for key, method in fitted + [(key, givers.get(key)) for key in names[ModelKey]]:
        for dataset in datasets:
            if method is not None and dataset not in plan.datasets_of(method):
                yield f"{where}: {key!r} is not fitted on {dataset!r}"
    for place, part in parts:
        yield from _mention_faults(place, part, plan, datasets)


def _item_faults(plan: Plan) -> Iterator[str]:
    for number, table in enumerate(plan.tables):
        yield from _table_faults(f"tables[{number}] ({table.key})", table)
    for number, target in enumerate(plan.targets):
        if (target.at_least is None) == (target.at_most is None):
            yield f"targets[{number}]: give at_least or at_most"
    for number, claim in enumerate(plan.claims):
        yield from unknown(f"claims[{number}].printed", claim.printed, claim.datasets)
    tables = {table.key: table for table in plan.tables}
    for number, standings in enumerate(plan.standings):
        yield from unknown(f"standings[{number}].tables", standings.tables, tables)
        for table in (tables[key] for key in standings.tables if key in tables):
            yield from unknown(f"standings[{number}]", [standings.model], [row.model for row in table.rows])
    for number, curves in enumerate(plan.curves):
        for measure in ("error", "density") if curves.second_measure == "density" else ("error",):
            yield from unknown(f"curves[{number}]", [measure], plan.measures)
        for key in curves.methods:
            if not plan.method(key).preferences:
                yield f"curves[{number}].methods: {key!r} learns from no preferences, so it has no curve"
    for number, tests in enumerate(plan.comparisons):
        by_query = [key for key in _rankings(plan) if key in plan.measures_of(tests.dataset)]
        yield from unknown(f"comparisons[{number}].measures", tests.measures, by_query)
    for number, cutoffs in enumerate(plan.cutoffs):
        for name in cutoffs.measures:
            if plan.cutoff(name) is None:
                yield f"cutoffs[{number}].measures: {name!r} has no cutoff, so it has no place on the axis"
    for tradeoff in plan.tradeoffs:
        chosen_by = {plan.chooses_by(plan.method_of(model)) for model in tradeoff.models}
        if chosen_by - {tradeoff.measure}:
            yield f"{tradeoff.key}: its models must be chosen by its measure, {tradeoff.measure!r}"


def _table_faults(where: str, table: PaperTable) -> Iterator[str]:
    if len(table.datasets) != 1 and len(table.measures) != 1:
        yield f"{where}: one data set with several measures, or several with one"
    columns = table.measures if len(table.datasets) == 1 else table.datasets
    for row in table.rows:
        if bool(row.model) == bool(row.reason) or (row.reason and not row.title):
            yield f"{where}.rows: a row needs a model, or a title and the reason why there is none"
        yield from unknown(f"{where}.rows.printed", row.printed, columns)
        yield from unknown(f"{where}.rows.plus_minus", row.plus_minus, row.printed)
        if row.printed and table.kind == "ours":
            yield f"{where}.rows: {row.model!r} has printed numbers, but the table's kind is 'ours'"
