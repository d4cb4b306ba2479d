"""Plans from TOML files: found by name or path, read strictly, and checked for what does not fit together."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import get_args

from tercet.errors import FormatError, InputError
from tercet.repro.faults import repeated, unfit_for_files, unknown
from tercet.repro.features.plan import FeaturePlan
from tercet.repro.features.reading import faults_of_features
from tercet.repro.learners import known_learners, learner_class
from tercet.repro.plan import Fit, MeasureName, Plan
from tercet.repro.strict import build

AnyKind = Plan | FeaturePlan


def known_papers() -> list[str]:
    """Names of the packaged plans."""
    folder = resources.files("tercet.repro") / "papers"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".toml"))


def find_plan(name: str) -> AnyKind:
    """A packaged plan by its name, or one of your own by the path of its TOML file.

    Examples
    --------
    >>> find_plan("chen2010").paper.venue
    'ICDM 2010'
    """
    if name in known_papers():
        with resources.as_file(resources.files("tercet.repro") / "papers" / f"{name}.toml") as path:
            return read_plan(path)
    if not Path(name).is_file():
        raise InputError(f"no paper {name!r}; known: {', '.join(known_papers())}, or give the path of a TOML file")
    return read_plan(Path(name))


def read_plan(path: Path) -> AnyKind:
    """Read and check a plan; errors name the file and the key."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError
        raise FormatError(path, None, f"not TOML: {error}") from error
    plan: AnyKind
    if "kind" in content:
        plan = build(FeaturePlan, content, path)
        faults = faults_of_features(plan)
    else:
        plan = build(Plan, content, path)
        faults = _faults(plan)
    for message in faults:
        raise FormatError(path, None, message)
    return plan


def _faults(plan: Plan) -> Iterator[str]:
    """What does not fit together."""
    models = {model.key: fit for fit in plan.fits for model in fit.all_models()}
    keys = [fit.key for fit in plan.fits]
    shown = [table.key for table in plan.tables] + [words.key for words in plan.words]
    shown += [curves.key for curves in plan.curves] + [scatter.key for scatter in plan.scatters]
    shown += [each.key for each in plan.precisions]
    for what, names in (
        ("fits", keys),
        ("models", [model.key for fit in plan.fits for model in fit.all_models()]),
        ("tables, words and figures", shown),
    ):
        yield from repeated(what, names)
    yield from unfit_for_files((plan.paper.key, *plan.datasets, *keys, *shown))
    for name, number in (("seeds", plan.seeds), ("test_preferences", plan.test_preferences)):
        if number < 1:
            yield f"{name} is {number}; at least 1 is needed"
    if not 0 < plan.quick.share <= 1:
        yield f"quick.share is {plan.quick.share}; a number above 0 and at most 1 is needed"

    for at, fit in enumerate(plan.fits):
        where = f"fits[{at}] ({fit.key})"
        yield from unknown(f"{where}.datasets", fit.datasets, plan.datasets)
        yield from unknown(f"{where}.by_dataset", fit.by_dataset, fit.datasets)
        yield from unknown(f"{where}.ranker", [fit.ranker], known_learners())
        yield from _fit_faults(where, fit, plan)
        if fit.ranker in known_learners():
            accepted = list(inspect.signature(learner_class(fit.ranker)).parameters)
            for dataset in fit.datasets:
                yield from unknown(f"{where}.parameters", fit.parameters_for(dataset), accepted)
            yield from unknown(f"{where}.quick", fit.quick, accepted)
            yield from unknown(f"{where}.choose", fit.choose, accepted)
            yield from unknown(f"{where}.reuse", [*fit.reuse, *fit.reuse.values()], accepted)

    def check_model(where: str, model: str, dataset: str) -> Iterator[str]:
        yield from unknown(where, [dataset], plan.datasets)
        yield from unknown(where, [model], models)
        if model in models and dataset not in models[model].datasets:
            yield f"{where}: {model!r} is not fitted on {dataset!r}"

    used: list[tuple[str, str]] = []
    for at, table in enumerate(plan.tables):
        for row in table.rows:
            if not row.model and not (row.title and row.reason):
                yield f"tables[{at}].rows: a row needs a model, or a title and the reason why there is none"
            if row.model:
                yield from check_model(f"tables[{at}].rows", row.model, row.dataset or table.dataset)
            for name in get_args(MeasureName):
                if row.printed(name) is not None and table.kind == "ours":
                    yield f"tables[{at}].rows: {row.model!r} has a printed {name}, but the table's kind is 'ours'"
                if row.printed(name) is not None and name not in table.measures:
                    yield f"tables[{at}].rows: {row.model!r} has a printed {name}, which is not among its measures"
        used += [(f"tables[{at}].measures", name) for name in table.measures]
    for at, target in enumerate(plan.targets):
        yield from check_model(f"targets[{at}]", target.model, target.dataset)
        used.append((f"targets[{at}].measure", target.measure))
        if target.times:
            yield from check_model(f"targets[{at}]", target.times, target.dataset)
        if (target.at_least is None) == (target.at_most is None):
            yield f"targets[{at}]: give at_least or at_most"
    for at, claim in enumerate(plan.claims):
        for dataset in claim.datasets:
            for model in (claim.better, claim.worse):
                yield from check_model(f"claims[{at}]", model, dataset)
        used += [(f"claims[{at}].measures", name) for name in claim.measures]
    for at, words in enumerate(plan.words):
        yield from check_model(f"words[{at}]", words.model, words.dataset)
    for at, curve in enumerate(plan.curves):
        yield from unknown(f"curves[{at}].fits", curve.fits, keys)
        yield from unknown(f"curves[{at}].datasets", curve.datasets, plan.datasets)
        for fit in plan.fits:
            if fit.key not in curve.fits:
                continue
            for dataset in sorted(set(curve.datasets) - set(fit.datasets)):
                yield f"curves[{at}].fits: {fit.key!r} is not fitted on {dataset!r}"
            if not fit.preferences:
                yield f"curves[{at}].fits: {fit.key!r} learns from no preferences, so it has no curve"
        used += [(f"curves[{at}]", name) for name in ("error", "density") if name in ("error", curve.beside)]
    for at, scatter in enumerate(plan.scatters):
        for series in scatter.series:
            for model in series.models:
                yield from check_model(f"scatters[{at}].series", model, scatter.dataset)
        used.append((f"scatters[{at}].y", scatter.y))
    for at, each in enumerate(plan.precisions):
        for model in (each.x, each.y):
            yield from check_model(f"precisions[{at}]", model, each.dataset)
    for at, statistics in enumerate(plan.statistics):
        yield from unknown(f"statistics[{at}].printed", statistics.printed, plan.datasets)
    for where, name in used:
        yield from unknown(where, [name], plan.measures)


def _fit_faults(where: str, fit: Fit, plan: Plan) -> Iterator[str]:
    """What does not fit together within one fit."""
    models = {model.key: at for at, one in enumerate(plan.fits) for model in one.all_models()}
    own = [one.key for one in plan.fits].index(fit.key)
    if (fit.ranker == "Blend") != bool(fit.blend):
        yield f"{where}: a fit has a ranker or blends two models"
    if fit.blend and len(fit.blend) != 2:
        yield f"{where}.blend: {len(fit.blend)} models; two are needed"
    for key in fit.blend:
        if models.get(key, own) >= own:
            yield f"{where}.blend: {key!r} is no model of an earlier fit"
        elif not set(fit.datasets) <= set(plan.fit_of(key).datasets):
            yield f"{where}.blend: {key!r} is not fitted on all of {', '.join(fit.datasets)}"
    if not 0 < fit.share <= 1 or not 0 < fit.choose_share <= 1:
        yield f"{where}: share and choose_share are numbers above 0 and at most 1"
    for name, values in fit.choose.items():
        if not values:
            yield f"{where}.choose: no values of {name}"
