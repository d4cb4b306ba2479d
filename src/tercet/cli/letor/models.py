"""``tercet letor rank``, ``eval`` and ``compare``: feature models on the rows of a LETOR file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from tercet.cli.compare import show_comparison, significance_options
from tercet.cli.evaluate import print_evaluations
from tercet.cli.letor.rows import evaluations, open_feature_model, open_rows
from tercet.cli.options import FILE, FOLDER, measures_option, models_option, output_options
from tercet.cli.systems import system_named
from tercet.cli.terminal import echo
from tercet.data import LetorData, write_run
from tercet.data.lines import write_atomically
from tercet.fitting.feature_model import as_run, document_ids
from tercet.measure import compare_evaluations


@click.command()
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
@click.option("-k", "depth", type=click.IntRange(min=1), help="Of a TREC run: only the best of a query.")
def rank(data: Path, model: Path, output: Path | None, form: str, depth: int | None) -> None:
    """Score the rows of a LETOR file, in their order, or write them as a TREC run."""
    if form == "scores" and depth is not None:
        raise click.UsageError("-k is for --format trec; scores are of all rows")
    if form == "trec" and output is None:
        raise click.UsageError("--format trec needs -o")
    features = open_feature_model(model)
    rows = open_rows(data, features)
    scores = features.predict(rows.X)
    if form == "trec" and output is not None:
        write_ranking(output, rows, scores, depth)
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


def write_ranking(output: Path, rows: LetorData, scores: NDArray[np.float64], depth: int | None) -> None:
    """A TREC run, with the ids that comments give or else the numbers of the rows."""
    run = as_run(rows, scores)
    if depth is not None:
        # Sorting is stable, so of equal scores the earlier row is first.
        run = {qid: dict(sorted(docs.items(), key=lambda item: -item[1])[:depth]) for qid, docs in run.items()}
    write_run(output, run)
    whose = "ids from the comments (docid = …)" if document_ids(rows)[1] else "rows counted from 1 as ids"
    echo(f"{output}: {len(run):,} queries, {whose}", err=True)


@click.command("eval")
@click.argument("data", metavar="FILE", type=FILE)
@models_option
@measures_option
def evaluate(data: Path, models: tuple[Path, ...], measures: tuple[str, ...]) -> None:
    """Measure models on a LETOR file, with 95 % intervals."""
    if not models:
        raise click.UsageError("Missing option '--model'.")
    print_evaluations(evaluations(data, models, measures))


@click.command()
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
    seed: int,
    as_json: bool,
) -> None:
    """Compare models on a LETOR file by paired tests.

    Shown are means, differences with p-values that are corrected for their number, wins and losses, and the queries
    that differ most.
    """
    if len(models) < 2:
        raise click.UsageError("name at least two models, each by --model")
    systems = evaluations(data, models, measures)
    comparison = compare_evaluations(
        systems, baseline=system_named(baseline, systems), method=method, random_state=seed
    )
    show_comparison(comparison, {}, as_json)
