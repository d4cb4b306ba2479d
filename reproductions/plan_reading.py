"""Plans from TOML files: found by name or path, read strictly, and checked for what does not fit together."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reproductions.decoding import decode
from reproductions.folds import OF_PAIRS, OF_THE_RANKER
from reproductions.plan import ChosenBy, Method, Plan
from reproductions.plan_items import PaperTable
from reproductions.rankers import OF_ROWS, OF_WORDS, WITH_BASIS, accepted_parameters, learns_by_steps
from tercet.errors import FormatError, InputError
from tercet.measure import parse_measure

_PAPERS = Path(__file__).parent / "papers"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_WORDS = ("map", "p10", "error", "memory", "density", "seconds")  # measures of classes and links


def known_papers() -> list[str]:
    """Names of the plans of the four papers."""
    return sorted(file.stem for file in _PAPERS.glob("*.toml"))


def find_plan(name: str) -> Plan:
    """Plan of a paper by its name, or of your own by the path of its TOML file.

    Examples
    --------
    >>> find_plan("chen2010").paper.venue
    'ICDM 2010'
    """
    if name in known_papers():
        return read_plan(_PAPERS / f"{name}.toml")
    if not Path(name).is_file():
        raise InputError(f"no paper {name!r}; known: {', '.join(known_papers())}, or give the path of a TOML file")
    return read_plan(Path(name))


def read_plan(path: Path) -> Plan:
    """Read and check a plan; errors name the file and the key."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError
        raise FormatError(path, None, f"not TOML: {error}") from error
    try:
        plan: Plan = decode(Plan, content)
    except ValueError as error:
        raise FormatError(path, None, str(error)) from None
    for fault in faults(plan):
        raise FormatError(path, None, fault)
    return plan


# -- faults -----------------------------------------------------------------------------------------------------------


def faults(plan: Plan) -> Iterator[str]:
    """What does not fit together, in words; the first is told."""
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
    for where, models, datasets, measures in _mentioned(plan):
        yield from _mention_faults(plan, where, models, datasets, measures)
    for number, table in enumerate(plan.tables):
        yield from _table_faults(f"tables[{number}] ({table.key})", table, plan)
    for number, target in enumerate(plan.targets):
        if (target.at_least is None) == (target.at_most is None):
            yield f"targets[{number}]: give at_least or at_most"
    for number, claim in enumerate(plan.claims):
        yield from unknown(f"claims[{number}].printed", claim.printed, claim.datasets)
    for number, standings in enumerate(plan.standings):
        tables = {table.key: table for table in plan.tables}
        yield from unknown(f"standings[{number}].tables", standings.tables, tables)
        for table in (tables[key] for key in standings.tables if key in tables):
            yield from unknown(f"standings[{number}]", [standings.model], [row.model for row in table.rows])
    yield from _figure_faults(plan)


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
    shown = [item.key for group in (plan.tables, plan.comparisons, plan.words, plan.curves) for item in group]
    shown += [item.key for group in (plan.scatters, plan.precisions, plan.cutoffs) for item in group]
    shown += [item.key for group in (plan.tradeoffs, plan.fronts, plan.growths) for item in group]
    shown += [item.key for item in plan.standings]
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


def _method_faults(where: str, method: Method, plan: Plan) -> Iterator[str]:
    """What does not fit together within one method."""
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
    if "rows" in kinds and kinds != {"rows"}:
        yield f"{where}.datasets: some have rows and some words; a method learns of one or the other"
        return
    yield from _row_method_faults(where, method, plan) if "rows" in kinds else _word_method_faults(where, method, plan)
    known = OF_ROWS if "rows" in kinds else OF_WORDS
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
        if (method.seeds or 1) > 1 and "rows" in kinds and "random_state" not in accepted and not method.per_query:
            yield f"{where}.seeds: {method.ranker} draws nothing at random"


def _nested_faults(where: str, parameters: dict[str, Any], known: Mapping[str, type[Any]]) -> Iterator[str]:
    """Of parameters that are rankers themselves."""
    for name, value in parameters.items():
        if isinstance(value, dict) and "ranker" in value:
            yield from unknown(f"{where}.{name}.ranker", [value["ranker"]], known)
            if value["ranker"] in known:
                accepted = ["ranker", *accepted_parameters(known[value["ranker"]])]
                yield from unknown(f"{where}.{name}", value, accepted)


def _word_method_faults(where: str, method: Method, plan: Plan) -> Iterator[str]:
    of_links = all(plan.datasets[name].task == "links" for name in plan.datasets_of(method) if name in plan.datasets)
    if method.choose and method.choose_on not in ("training", *["validation"] * of_links):
        yield f"{where}.choose_on: of classes parameters are chosen on 'training', of links also on 'validation'"
    if method.early_stop and not of_links:
        yield f"{where}.early_stop: classes have no validation queries"
    if method.early_stop and not _learns_by_steps(method):
        yield f"{where}.early_stop: {method.ranker or 'a blend'} does not learn by steps from preferences"
    if method.choose and method.choose_how == "halving" and not _learns_by_steps(method):
        yield f"{where}.choose_how: {method.ranker or 'a blend'} does not learn by steps, so nothing can be halved"
    if method.negatives == "hard" and not (
        of_links and _learns_by_steps(method) and 0 <= method.hard_share <= 1 and method.hard_depth >= 1
    ):
        yield f"{where}.negatives: hard ones need links, a ranker that learns by steps, a share and a depth of the top"
    if method.third and method.second is None:
        yield f"{where}.third: a third objective comes beside a second"
    if method.blend and len(method.blend) != 2:
        yield f"{where}.blend: {len(method.blend)} models; two are needed"
    earlier = {model.key: other for other in _before(plan, method) for model in other.all_models()}
    for key in method.blend:
        if key not in earlier:
            yield f"{where}.blend: {key!r} is no model of an earlier method"
        elif not set(plan.datasets_of(method)) <= set(plan.datasets_of(earlier[key])):
            yield f"{where}.blend: {key!r} is not fitted on all of {', '.join(plan.datasets_of(method))}"

    if method.chosen_by is not None:
        yield from _chosen_by_faults(f"{where}.chosen_by", method, method.chosen_by, plan)


def _learns_by_steps(method: Method) -> bool:
    """Whether a fit can be stopped on the way."""
    return learns_by_steps(method.ranker) and method.preferences > 0


def _chosen_by_faults(where: str, method: Method, chosen_by: ChosenBy, plan: Plan) -> Iterator[str]:
    earlier = {other.key: other for other in _before(plan, method)}
    if method.choose:
        yield f"{where}: the method chooses itself"
    if chosen_by.method not in earlier or not earlier[chosen_by.method].choose:
        yield f"{where}: {chosen_by.method!r} is no earlier method that chooses"
        return
    yield from unknown(where, [chosen_by.dataset] if chosen_by.dataset else [], plan.datasets)
    for dataset in (chosen_by.dataset,) if chosen_by.dataset else plan.datasets_of(method):
        if dataset not in plan.datasets_of(earlier[chosen_by.method]):
            yield f"{where}: {chosen_by.method!r} is not fitted on {dataset!r}"
    if method.ranker in OF_WORDS:
        accepted = accepted_parameters(OF_WORDS[method.ranker])
        yield from unknown(where, earlier[chosen_by.method].choose, accepted)


def _before(plan: Plan, method: Method) -> tuple[Method, ...]:
    return plan.methods[: [other.key for other in plan.methods].index(method.key)]


def _row_method_faults(where: str, method: Method, plan: Plan) -> Iterator[str]:
    if method.choose_how != "full" or method.chosen_by is not None:
        yield f"{where}: choose_how and chosen_by are of classes and links"
    if method.early_stop or method.negatives != "random" or method.second or method.third:
        yield f"{where}: early_stop, negatives, second and third are of classes and links; its data sets have rows"
    if method.choose_on == "training":
        yield f"{where}.choose_on: of rows it is 'validation', 'cross-validation' or 'leave-query-out'"
    if method.choose_on == "leave-query-out" and (method.ranker not in WITH_BASIS or "l2" not in method.choose):
        yield f"{where}.choose_on: 'leave-query-out' chooses l2 of one of {', '.join(WITH_BASIS)}"
    if method.blend or method.models or method.preferences:
        yield f"{where}: preferences, models and blends are of classes and links; its data sets have rows"
    yield from unknown(f"{where}.choose_by", [plan.chooses_by(method)], _rankings(plan))
    both = sorted(set(method.parameters) & set(method.choose))
    if both:
        yield f"{where}: {both[0]} is both a parameter and chosen"
    if method.per_query < 0 or (method.drawn_as == "basis" and not method.per_query):
        yield f"{where}.per_query: {method.per_query} rows of each query; a basis needs at least 1"
    if method.drawn_as == "basis" and method.ranker not in WITH_BASIS:
        yield f"{where}.drawn_as: {method.ranker} has no basis; known for one: {', '.join(WITH_BASIS)}"


# -- what is shown ----------------------------------------------------------------------------------------------------


def _mentioned(plan: Plan) -> Iterator[tuple[str, Iterable[str], Iterable[str], Iterable[str]]]:
    """Where models, data sets and measures are mentioned together: each model on each of the data sets."""
    for number, table in enumerate(plan.tables):
        for row in table.rows:
            models = [row.model] if row.model else []
            yield f"tables[{number}].rows", models, [row.dataset] if row.dataset else table.datasets, table.measures
    for number, claim in enumerate(plan.claims):
        yield f"claims[{number}]", (claim.better, *claim.worse), claim.datasets, claim.measures
    for number, tests in enumerate(plan.comparisons):
        models = [*tests.models, *([tests.against] if tests.against else [])]
        yield f"comparisons[{number}]", models, [tests.dataset], tests.measures
    for number, target in enumerate(plan.targets):
        models = [target.model, *([target.times] if target.times else [])]
        yield f"targets[{number}]", models, [target.dataset], [target.measure]
    for number, words in enumerate(plan.words):
        yield f"words[{number}]", [words.model], [words.dataset], []
    for number, scatter in enumerate(plan.scatters):
        for series in scatter.series:
            yield f"scatters[{number}].series", series.models, [scatter.dataset], [scatter.y]
    for number, precisions in enumerate(plan.precisions):
        yield f"precisions[{number}]", (precisions.x, precisions.y), [precisions.dataset], []
    for number, cutoffs in enumerate(plan.cutoffs):
        yield f"cutoffs[{number}]", cutoffs.models, cutoffs.datasets, cutoffs.measures
    for number, tradeoff in enumerate(plan.tradeoffs):
        models = [*tradeoff.models, *tradeoff.points]
        yield f"tradeoffs[{number}]", models, [tradeoff.dataset], [tradeoff.measure]
    for number, front in enumerate(plan.fronts):
        yield f"fronts[{number}]", front.models, [front.dataset], [front.measure]
    for number, growth in enumerate(plan.growths):
        for series in growth.series:
            yield f"growths[{number}].series", series.models, [growth.dataset], [growth.measure]
    for number, statistics in enumerate(plan.statistics):
        yield f"statistics[{number}].printed", (), statistics.printed, ()


def _mention_faults(
    plan: Plan, where: str, models: Iterable[str], datasets: Iterable[str], measures: Iterable[str]
) -> Iterator[str]:
    yield from unknown(where, datasets, plan.datasets)
    yield from unknown(where, measures, plan.measures)
    methods = {model.key: method for method in plan.methods for model in method.all_models()}
    for model in models:
        yield from unknown(where, [model], methods)
        for dataset in datasets:
            if model in methods and dataset not in plan.datasets_of(methods[model]):
                yield f"{where}: {model!r} is not fitted on {dataset!r}"


def _table_faults(where: str, table: PaperTable, plan: Plan) -> Iterator[str]:
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


def _figure_faults(plan: Plan) -> Iterator[str]:
    for number, curves in enumerate(plan.curves):
        yield from _curve_faults(f"curves[{number}]", curves.methods, curves.datasets, plan)
        for measure in ("error", "density") if curves.second_measure == "density" else ("error",):
            yield from unknown(f"curves[{number}]", [measure], plan.measures)
    for number, tests in enumerate(plan.comparisons):
        by_query = [key for key in _rankings(plan) if key in plan.measures_of(tests.dataset)]
        yield from unknown(f"comparisons[{number}].measures", tests.measures, by_query)
    for number, cutoffs in enumerate(plan.cutoffs):
        for key in cutoffs.measures:
            if plan.measures[key].cutoff is None:
                yield f"cutoffs[{number}].measures: {key!r} has no cutoff, so it has no place on the axis"
    for drawn in plan.of_grids:
        chosen_by = {plan.chooses_by(plan.method_of(model)) for model in drawn.models}
        if chosen_by - {drawn.measure}:
            yield f"{drawn.key}: its models must be chosen by its measure, {drawn.measure!r}"


def _curve_faults(where: str, keys: tuple[str, ...], datasets: tuple[str, ...], plan: Plan) -> Iterator[str]:
    methods = {method.key: method for method in plan.methods}
    yield from unknown(f"{where}.datasets", datasets, plan.datasets)
    yield from unknown(f"{where}.methods", keys, methods)
    for method in (methods[key] for key in keys if key in methods):
        for dataset in sorted(set(datasets) - set(plan.datasets_of(method))):
            yield f"{where}.methods: {method.key!r} is not fitted on {dataset!r}"
        if not method.preferences:
            yield f"{where}.methods: {method.key!r} learns from no preferences, so it has no curve"
