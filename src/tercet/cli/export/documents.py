"""``tercet export documents``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_judged, open_model, read_query_texts
from tercet.cli.options import DATA, FILE, FOLDER, output_options, refuse_given, table_options
from tercet.cli.terminal import echo
from tercet.engines import RankFeatures, write_anserini, write_ciff, write_rank_features

WRITERS = {"anserini": write_anserini, "ciff": write_ciff}
FORMS = [*WRITERS, "elasticsearch"]


@click.command()
@click.argument("data", type=DATA)
@table_options
@click.option("--model", type=FOLDER, required=True, help="A text model.")
@output_options("File to write.", required=True)
@click.option(
    "--form",
    type=click.Choice(FORMS),
    default="anserini",
    show_default=True,
    help="JSON vectors for Anserini; CIFF, which PISA and others read; bulk updates for Elasticsearch and OpenSearch.",
)
@click.option("--expand/--no-expand", default=True, show_default=True, help="Carry what was learned, or own words.")
@click.option("--fold", is_flag=True, help="Carry own words and the latent vectors of low-rank parts: exact scores.")
@click.option("--max-terms", default=256, show_default=True, type=click.IntRange(min=1), help="Most words.")
@click.option("--queries", type=FILE, help="Queries as people ask them: what they ask for is kept. Not test queries.")
@click.option(
    "--mean-terms", default=128, show_default=True, type=click.IntRange(min=1), help="Mean words, with --queries."
)
@click.option("--bits", default=10, show_default=True, type=click.IntRange(1, 16), help="Of an impact.")
@click.pass_context
def documents(
    context: click.Context,
    data: Path,
    model: Path,
    output: Path,
    form: str,
    expand: bool,
    fold: bool,
    max_terms: int,
    queries: Path | None,
    mean_terms: int,
    bits: int,
) -> None:
    """Write DATA's documents as words with impacts, whole numbers that an engine sums."""
    if queries is None:
        refuse_given(context, ("mean_terms",), "goes with --queries")
    else:
        refuse_given(context, ("max_terms", "fold", "expand"), "does not go with --queries")
    if fold:
        refuse_given(context, ("max_terms", "expand"), "does not go with --fold, which keeps all")
    if form == "elasticsearch":
        refuse_given(
            context, ("fold", "expand", "bits"), "does not go with --form elasticsearch, which has both fields"
        )
    text_model = open_model(model)
    asked = None if queries is None else list(read_query_texts(queries).values())
    docs = open_judged(data).docs
    words = f"{mean_terms} words a document" if queries else f"{max_terms} words of a document"
    if form == "elasticsearch":
        _tell_features(
            output,
            write_rank_features(output, text_model, docs, max_terms=max_terms, queries=asked, mean_terms=mean_terms),
            words,
        )
        return
    written = WRITERS[form](
        output,
        text_model,
        docs,
        expand=expand,
        fold=fold,
        max_terms=max_terms,
        bits=bits,
        queries=asked,
        mean_terms=mean_terms,
    )
    echo(f"{output}: {written.n_docs:,} documents, {written.n_postings:,} impacts of {bits} bits")
    echo(f"an impact of 1 is {written.step:.4g} of a score, off by at most {written.max_error:.4g}")
    echo(
        f"left out: {written.n_left_out:,} beyond {words}, {written.n_rounded:,} rounded to 0, "
        f"{written.n_negative:,} negative"
    )


def _tell_features(output: Path, written: RankFeatures, words: str) -> None:
    echo(
        f"{output}: {written.n_docs:,} documents for _bulk, {written.n_impacts:,} impacts, {written.n_folded:,} folded "
        f"features, each off by at most {written.relative_error:.2g} of itself"
    )
    echo(f"left out of the impacts: {written.n_left_out:,} beyond {words}, {written.n_negative:,} negative")
