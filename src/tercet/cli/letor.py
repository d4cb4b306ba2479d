"""``tercet letor rank`` and ``eval``: feature models on the rows of a LETOR file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tercet.cli.evaluate import show_comparison, show_evaluations, significance_options, system_named
from tercet.cli.groups import examples
from tercet.cli.options import FILE, FOLDER, measures_option, models_option, output_options
from tercet.cli.terminal import echo
from tercet.data import LetorData, read_letor
from tercet.data.lines import write_atomically
from tercet.errors import BundleError
from tercet.fitting import FeatureModel
from tercet.fitting.feature_model import fit_width
from tercet.learn.features import FeatureRanker
from tercet.loading import load
from tercet.measure import compare_evaluations

MOST_FEATURES_SHOWN = 50
BAR_WIDTH = 24
_LONGEST_LABEL = 40


@click.command(
    epilog=examples(
        "letor rank test.txt --model model/ -o scores.txt", "letor rank test.txt --model model/ > scores.txt"
    ),
)
@click.argument("data", metavar="FILE", type=FILE)
@click.option("--model", type=FOLDER, required=True, help="Feature model, or ranker of feature vectors.")
@output_options("File to write; .gz is compressed.  [default: standard output]")
def rank(data: Path, model: Path, output: Path | None) -> None:
    """Score the rows of a LETOR file, in their order."""
    features = open_feature_model(model)
    scores = features.predict(open_rows(data, features).X)
    lines = (f"{score!r}\n" for score in scores.tolist())
    if output is None:
        sys.stdout.writelines(lines)
        return
    with write_atomically(output) as stream:
        stream.writelines(lines)
    echo(f"{output}: {len(scores):,} scores, one a row", err=True)


@click.command(
    "eval",
    epilog=examples(
        "letor eval test.txt --model model/ -m nDCG@5 -m AP", "letor eval test.txt --model old/ --model new/ --json"
    ),
)
@click.argument("data", metavar="FILE", type=FILE)
@models_option
@measures_option
@significance_options
def evaluate(
    data: Path, models: tuple[Path, ...], measures: tuple[str, ...], baseline: str | None, method: Any, as_json: bool
) -> None:
    """Measure models on a LETOR file, with 95 % intervals; two or more are compared by paired tests."""
    if not models:
        raise click.UsageError("Missing option '--model'.")
    opened = {str(path): open_feature_model(path) for path in models}
    named = (measures,) if measures else ()
    systems = {name: model.evaluate(open_rows(data, model), *named) for name, model in opened.items()}
    if len(systems) == 1:
        show_evaluations(systems, as_json)
        return
    show_comparison(compare_evaluations(systems, baseline=system_named(baseline, systems), method=method), {}, as_json)


# -- rows and models --------------------------------------------------------------------------------------------------


def read_rows(path: Path, *, err: bool = False) -> LetorData:
    """Read a LETOR file and print its size."""
    rows = read_letor(path, comments=False)
    echo(f"{path}: a LETOR file, {rows.n_queries:,} queries, {len(rows):,} rows, {rows.n_features:,} features", err=err)
    return rows


def open_feature_model(path: Path) -> FeatureModel:
    """Open a feature model; a saved ranker of feature vectors becomes a feature model."""
    model = load(path)
    if isinstance(model, FeatureRanker):
        model = FeatureModel(model)
    if isinstance(model, FeatureModel) and getattr(model.ranker, "kernel", None) == "precomputed":
        raise BundleError(f"{path} ranks by a precomputed kernel matrix; a LETOR file has features")
    if not isinstance(model, FeatureModel):
        raise BundleError(f"{path} holds a {type(model).__name__}; a LETOR file needs a model that was fitted to one")
    return model


def open_rows(path: Path, model: FeatureModel) -> LetorData:
    """Read the rows of a LETOR file with the columns that a model knows."""
    rows, note = fit_width(read_rows(path, err=True), model.n_features, str(path))
    if note is not None:
        echo(f"note: {note}", err=True)
    return rows


def print_features(model: FeatureModel) -> None:
    """Print the features with the largest weights, each with a bar."""
    features = model.features()
    strongest = features[:MOST_FEATURES_SHOWN]
    number = max((len(str(row.feature)) for row in strongest), default=0)
    width = min(max((len(row.name or "") for row in strongest), default=0), _LONGEST_LABEL)
    for row in strongest:
        bar = "█" * max(1, round(BAR_WIDTH * abs(row.weight / features[0].weight)))
        name = f"  {(row.name or '')[:width]:<{width}}" if width else ""
        echo(f"  {row.feature:>{number}}{name}  {row.weight:+.4g}".ljust(number + width + 16) + f"  {bar}")
    if len(features) > len(strongest):
        echo(f"  and {len(features) - len(strongest):,} more with smaller weights")
