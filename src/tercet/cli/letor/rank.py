"""``tercet letor rank``"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from tercet.cli.letor.rows import open_feature_model, open_rows
from tercet.cli.options import FILE, FOLDER, NEW
from tercet.data import LetorData, write_run
from tercet.data.lines import write_atomically
from tercet.fitting.feature_model import as_run, document_ids


@click.command()
@click.argument("data", metavar="FILE", type=FILE)
@click.option("--model", type=FOLDER, required=True, help="A feature model, or a ranker of feature vectors.")
@click.option("-o", "--output", type=NEW, help="File to write; .gz is packed. Scores may do without.")
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
