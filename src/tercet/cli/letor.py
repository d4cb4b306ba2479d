"""``tercet letor rank``, ``eval`` and ``compare``: feature models on the rows of a LETOR file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from tercet.cli.evaluate import print_evaluations, show_comparison, significance_options, system_named
from tercet.cli.groups import examples
from tercet.cli.options import FILE, FOLDER, measures_option, models_option, output_options
from tercet.cli.terminal import echo
from tercet.data import LetorData, read_letor, write_run
from tercet.data.lines import write_atomically
from tercet.errors import BundleError, InputError
from tercet.fitting import FeatureModel
from tercet.fitting.feature_model import fit_width
from tercet.learn.features import FeatureRanker
from tercet.loading import load
from tercet.measure import Evaluation, compare_evaluations

MOST_FEATURES_SHOWN = 50
BAR_WIDTH = 24
_LONGEST_LABEL = 40
_DOCUMENT = re.compile(r"\bdocid\s*=\s*(\S+)")


@click.command(
    epilog=examples(
        "letor rank test.txt --model model/ -o scores.txt",
        "letor rank test.txt --model model/ --format trec -o run.trec",
    )
)
@click.argument("data", metavar="FILE", type=FILE)
@click.option("--model", type=FOLDER, required=True, help="A feature model, or a ranker of feature vectors.")
@output_options("File to write; .gz is packed. Scores may do without.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["scores", "trec"]),
    default="scores",
    show_default=True,
    help="A score for each row, or a TREC run.",
)
def rank(data: Path, model: Path, output: Path | None, form: str) -> None:
    """Score the rows of a LETOR file, in their order, or write them as a TREC run."""
    if form == "trec" and output is None:
        raise click.UsageError("--format trec needs -o")
    features = open_feature_model(model)
    rows = open_rows(data, features)
    scores = features.predict(rows.X)
    if form == "trec" and output is not None:
        write_ranking(output, rows, scores)
    else:
        write_scores(output, scores)


def write_scores(output: Path | None, scores: NDArray[np.float64]) -> None:
    """One score a line, every digit, to a file or to standard output."""
    lines = (f"{score!r}\n" for score in scores.tolist())
    if output is None:
        sys.stdout.writelines(lines)
        return
    with write_atomically(output) as stream:
        stream.writelines(lines)
    echo(f"{output}: {len(scores):,} scores, one a row", err=True)


def write_ranking(output: Path, rows: LetorData, scores: NDArray[np.float64]) -> None:
    """Write a TREC run."""
    run, from_comments = as_run(rows, scores)
    write_run(output, run)
    whose = "ids from the comments (docid = …)" if from_comments else "rows counted from 1 as ids"
    echo(f"{output}: {len(run):,} queries, {whose}", err=True)


@click.command(
    "eval", epilog=examples("letor eval test.txt --model model/", "letor eval test.txt --model model/ -m nDCG@5 -m AP")
)
@click.argument("data", metavar="FILE", type=FILE)
@models_option
@measures_option
def evaluate(data: Path, models: tuple[Path, ...], measures: tuple[str, ...]) -> None:
    """Measure models on a LETOR file, with 95 % intervals."""
    if not models:
        raise click.UsageError("Missing option '--model'.")
    print_evaluations(evaluations(data, models, measures))


@click.command(
    epilog=examples(
        "letor compare test.txt --model old/ --model new/",
        "letor compare test.txt --model old/ --model new/ --test permutation --json",
    )
)
@click.argument("data", metavar="FILE", type=FILE)
@models_option
@measures_option
@significance_options
def compare(
    data: Path,
    models: tuple[Path, ...],
    measures: tuple[str, ...],
    baseline: str | None,
    method: Any,
    as_json: bool,
) -> None:
    """Compare models on a LETOR file by paired tests.

    Shown are means, differences with p-values that are corrected for their number, wins and losses, and the queries
    that differ most.
    """
    if len(models) < 2:
        raise click.UsageError("name at least two models, each by --model")
    systems = evaluations(data, models, measures)
    comparison = compare_evaluations(systems, baseline=system_named(baseline, systems), method=method)
    show_comparison(comparison, {}, as_json)


def as_run(data: LetorData, scores: NDArray[np.float64]) -> tuple[dict[str, dict[str, float]], bool]:
    """Return scores of rows as a run, qid -> doc_id -> score, and whether comments gave the ids.

    Ids are those of comments ``docid = …`` if every row has one, else the numbers of the rows from 1.
    """
    matches = [_DOCUMENT.search(comment) for comment in data.comments or ()]
    named = [match[1] for match in matches if match is not None]
    from_comments = len(named) == len(data)
    ids = named if from_comments else [str(row) for row in range(1, len(data) + 1)]
    run: dict[str, dict[str, float]] = {qid: {} for qid in data.qids.tolist()}
    for qid, doc_id, score in zip(data.qid.astype(str).tolist(), ids, scores.tolist(), strict=True):
        if doc_id in run[qid]:
            raise InputError(f"query {qid!r} has document {doc_id!r} in two rows; a run has each document once")
        run[qid][doc_id] = score
    return run, from_comments


# -- rows and models --------------------------------------------------------------------------------------------------


def read_rows(path: Path, *, comments: bool = False, err: bool = False) -> LetorData:
    """Read a LETOR file and say what is in it."""
    rows = read_letor(path, comments=comments)
    echo(f"{path}: a LETOR file, {rows.n_queries:,} queries, {len(rows):,} rows, {rows.n_features:,} features", err=err)
    return rows


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
    rows, note = fit_width(read_rows(path, comments=True, err=True), model.n_features, str(path))
    if note is not None:
        echo(f"note: {note}", err=True)
    return rows


def evaluations(data: Path, models: tuple[Path, ...], measures: tuple[str, ...]) -> dict[str, Evaluation]:
    """What each model reaches on the rows of a file, by the name that was typed."""
    opened = {str(path): open_feature_model(path) for path in models}
    how = (measures,) if measures else ()
    return {name: model.evaluate(open_rows(data, model), *how) for name, model in opened.items()}


def print_features(model: FeatureModel) -> None:
    """Every feature with a weight, the strongest first, and a bar as long as its weight is large."""
    features = model.features()
    shown = features[:MOST_FEATURES_SHOWN]
    number = max((len(str(row.feature)) for row in shown), default=0)
    width = min(max((len(row.name or "") for row in shown), default=0), _LONGEST_LABEL)
    for row in shown:
        bar = "█" * max(1, round(BAR_WIDTH * abs(row.weight / features[0].weight)))
        name = f"  {(row.name or '')[:width]:<{width}}" if width else ""
        echo(f"  {row.feature:>{number}}{name}  {row.weight:+.4g}".ljust(number + width + 16) + f"  {bar}")
    if len(features) > len(shown):
        echo(f"  and {len(features) - len(shown):,} more with smaller weights")
