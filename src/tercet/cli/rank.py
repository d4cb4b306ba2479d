"""``tercet rank``"""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from tercet.cli.inputs import ANY, FOLDER, NEW, data_options, open_judged, open_model
from tercet.cli.letor import is_letor, open_feature_model, open_rows, refuse_given, write_ranking, write_scores
from tercet.cli.systems import tell_unknown
from tercet.data import write_run


@click.command()
@data_options
@click.argument("second", metavar="[DATA AFTER A MODEL]", type=ANY, required=False)
@click.option("--model", type=FOLDER, help="A text model, or for a LETOR file a feature model.")
@click.option("-o", "--output", type=NEW, help="File to write; .gz is packed. Scores of a LETOR file may do without.")
@click.option("-k", "depth", default=100, show_default=True, type=click.IntRange(min=1), help="Documents a query.")
@click.option("--split", help="Only the queries judged in this split.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["scores", "trec"]),
    help="LETOR: a score for each row, or a TREC run of all rows or the best -k.  [default: scores]",
)
@click.pass_context
def rank(
    context: click.Context,
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    second: Path | None,
    model: Path | None,
    output: Path | None,
    depth: int,
    split: str | None,
    form: str | None,
) -> None:
    """Rank DATA's documents for its queries and write a TREC run, or score the rows of a LETOR file.

    The model is named by --model, or first: tercet rank MODEL DATA.
    """
    if second is not None:
        if model is not None:
            raise click.UsageError("two models are named: --model, and the first of two places")
        if data is not None and data.is_file():
            raise click.UsageError(f"of two places the first is the model, which is a folder; {data} is a file")
        model, data = data, second
    if model is None:
        raise click.UsageError("Missing option '--model'.")
    if data is not None and is_letor(data):
        refuse_given(context, ("corpus", "queries", "qrels", "split"), f"is for texts; {data} is a LETOR file")
        if form != "trec":
            refuse_given(context, ("depth",), "is for --format trec; scores are of all rows")
        elif output is None:
            raise click.UsageError("--format trec needs -o")
        features = open_feature_model(model)
        rows = open_rows(data, features)
        scores = features.predict(rows.X)
        if form == "trec" and output is not None:
            all_rows = context.get_parameter_source("depth") is ParameterSource.DEFAULT
            write_ranking(output, rows, scores, None if all_rows else depth)
        else:
            write_scores(output, scores)
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    refuse_given(context, ("form",), "is for LETOR files; of texts a TREC run is written")
    found = open_judged(data, corpus, queries, qrels)
    asked = found.queries if split is None else found.queries_of(split)
    text_model = open_model(model)
    tell_unknown(text_model, asked)
    run = text_model.rank(asked, found.docs, depth)
    write_run(output, run)
    click.echo(f"{output}: {len(run):,} queries, up to {depth:,} documents each")
