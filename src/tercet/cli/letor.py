"""What the verbs do with LETOR files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from numpy.typing import NDArray

from tercet.choose import RULES
from tercet.cli.inputs import FILE
from tercet.data import (
    LetorData,
    read_feature_names,
    read_letor,
    read_letor_folds,
    recognise,
    write_run,
)
from tercet.data.lines import write_atomically
from tercet.errors import BundleError, InputError
from tercet.fitting.candidates import FEATURE_RANKERS as RANKERS
from tercet.fitting.candidates import TERM_PAIR_RANKERS as VECTOR_RANKERS
from tercet.fitting.feature_model import FeatureModel, as_run, document_ids, fit_width, weights_of
from tercet.fitting.rows import MEASURE, fit_letor, fit_letor_folds
from tercet.learn.features import FeatureRanker
from tercet.learn.rls import RankRLS
from tercet.loading import load

L2S = tuple(10.0**power for power in range(-3, 8))  # that a RankRLS has to choose from
MANY_ROWS, N_BASIS = 2_000, 500  # so many rows, and so many of them are basis vectors of a kernel that is not linear
MOST_FEATURES_SHOWN = 50
BAR_WIDTH = 24
_LONGEST_LABEL = 40


def letor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of ``fit`` that only LETOR files have."""
    options = [
        click.option("--folds", type=click.IntRange(min=2), help="LETOR: folds of a cross-validation.  [default: 5]"),
        click.option("--choose", type=click.Choice(RULES), help="LETOR: which penalty.  [default: best]"),
        click.option(
            "--l1", type=click.FloatRange(min=0), help="LETOR: this penalty (of fenchel the radius), without a choice."
        ),
        click.option(
            "--ranker",
            type=click.Choice([*RANKERS, *VECTOR_RANKERS]),
            help="What to learn: LETOR up to rankrls-gaussian [default: ftrl], vectors the others [default: low-rank].",
        ),
        click.option("--names", type=FILE, help="LETOR: names of the features, 'id name' or one a line."),
        click.option("--path", "show_path", is_flag=True, help="LETOR: print every penalty that was tried."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


LETOR_ONLY = ("folds", "choose", "l1", "ranker", "names", "show_path")


def is_letor(path: Path | None) -> bool:
    """Whether what was named is one LETOR file."""
    return path is not None and path.is_file() and recognise(path) == "letor"


def refuse_given(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Wrong usage, naming the first of these parameters that was typed."""
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{parameter.opts[0]} {why}")


# -- fit --------------------------------------------------------------------------------------------------------------


def fit_features(
    data: Path,
    kind: str,
    *,
    validation: str | None,
    test: str | None,
    names: Path | None,
    folds: int | None,
    ranker: str | None,
    l1: float | None,
    **options: Any,
) -> FeatureModel:
    """Read a LETOR file, or a set of folds, and learn from it."""
    options = {key: value for key, value in options.items() if value is not None}
    options |= {"l1s": None if l1 is None else [l1]}
    options.setdefault("measure", MEASURE)
    if kind == "letor-folds":
        for name, given in (("--validation", validation), ("--test", test), ("--folds", folds)):
            if given is not None:
                raise click.UsageError(f"{name} is not for a set of folds: {data} has its own three parts in each")
        parts = read_letor_folds(data, comments=False)
        click.echo(f"{data}: a LETOR set of {len(parts)} folds, {parts[0].train.n_features} features")
        options |= _learner(ranker, min(len(part.train) for part in parts))
        return fit_letor_folds(parts, feature_names=_names(names, parts[0].train), **options)
    if validation is not None and folds is not None:
        raise click.UsageError("--folds asks for a cross-validation, which --validation makes needless; name one")
    files = {"--validation": validation, "--test": test}
    for option, value in files.items():
        if value is not None and not Path(value).is_file():
            raise InputError(
                f"{option} names {value!r}; next to a LETOR file it is another one, and there is no such file"
            )
    train = read_described(data)
    options |= _learner(ranker, len(train))
    others = [None if value is None else read_described(Path(value)) for value in files.values()]
    return fit_letor(
        train, validation=others[0], test=others[1], folds=folds, feature_names=_names(names, train), **options
    )


def _learner(name: str | None, n_rows: int) -> dict[str, Any]:
    """What to learn, and what it has to choose from."""
    ranker = RANKERS[name or "ftrl"]()
    if not isinstance(ranker, RankRLS):
        return {"ranker": ranker}
    if ranker.kernel != "linear" and n_rows > MANY_ROWS:
        ranker.set_params(n_basis=N_BASIS)
    return {"ranker": ranker, "l2s": L2S}


def _names(path: Path | None, train: LetorData) -> tuple[str, ...] | None:
    return None if path is None else read_feature_names(path, train.n_features)


def read_described(path: Path, *, comments: bool = False, err: bool = False) -> LetorData:
    """Read a LETOR file and say what is in it."""
    data = read_letor(path, comments=comments)
    click.echo(
        f"{path}: a LETOR file, {data.n_queries:,} queries, {len(data):,} rows, {data.n_features:,} features", err=err
    )
    return data


def print_features(model: FeatureModel) -> None:
    """Every feature with a weight, the strongest first, and a bar as long as its weight is large."""
    if weights_of(model.ranker) is None:
        return
    rows = model.features()
    shown = rows[:MOST_FEATURES_SHOWN]
    number = max((len(str(row.feature)) for row in shown), default=0)
    width = min(max((len(row.name or "") for row in shown), default=0), _LONGEST_LABEL)
    for row in shown:
        bar = "█" * max(1, round(BAR_WIDTH * abs(row.weight / rows[0].weight)))
        name = f"  {(row.name or '')[:width]:<{width}}" if width else ""
        click.echo(f"  {row.feature:>{number}}{name}  {row.weight:+.4g}".ljust(number + width + 16) + f"  {bar}")
    if len(rows) > len(shown):
        click.echo(f"  and {len(rows) - len(shown):,} more with smaller weights")


# -- rank and eval ----------------------------------------------------------------------------------------------------


def open_feature_model(path: Path) -> FeatureModel:
    """A feature model, or a ranker of feature vectors saved by itself as one."""
    model = load(path)
    if isinstance(model, FeatureRanker):
        model = FeatureModel(model)
    if isinstance(model, FeatureModel) and getattr(model.ranker, "kernel", None) == "precomputed":
        raise BundleError(f"{path} ranks by a kernel matrix that is given to it; a LETOR file has features")
    if not isinstance(model, FeatureModel):
        raise BundleError(f"{path} holds a {type(model).__name__}; a LETOR file needs a model that was fitted to one")
    return model


def open_rows(path: Path, model: FeatureModel) -> LetorData:
    """The rows of a LETOR file with the columns that a model knows."""
    rows, note = fit_width(read_described(path, comments=True, err=True), model.n_features, str(path))
    if note is not None:
        click.echo(f"note: {note}", err=True)
    return rows


def write_scores(output: Path | None, scores: NDArray[np.float64]) -> None:
    """One score a line, every digit, to a file or to standard output."""
    lines = (f"{score!r}\n" for score in scores.tolist())
    if output is None:
        sys.stdout.writelines(lines)
        return
    with write_atomically(output) as stream:
        stream.writelines(lines)
    click.echo(f"{output}: {len(scores):,} scores, one a row", err=True)


def write_ranking(output: Path, rows: LetorData, scores: NDArray[np.float64], depth: int | None) -> None:
    """A TREC run, with the ids that comments give or else the numbers of the rows."""
    run = as_run(rows, scores)
    if depth is not None:
        # Sorting is stable, so of equal scores the earlier row is first.
        run = {qid: dict(sorted(docs.items(), key=lambda item: -item[1])[:depth]) for qid, docs in run.items()}
    write_run(output, run)
    whose = "ids from the comments (docid = …)" if document_ids(rows)[1] else "rows counted from 1 as ids"
    click.echo(f"{output}: {len(run):,} queries, {whose}", err=True)
