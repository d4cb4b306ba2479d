"""``tercet export documents``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_judged, open_model, read_documents
from tercet.cli.options import DATA, FILE, FOLDER, output_options, table_options
from tercet.export import write_anserini, write_ciff

WRITERS = {"anserini": write_anserini, "ciff": write_ciff}


@click.command()
@click.argument("data", type=DATA, required=False)
@click.option("--corpus", type=FILE, help="Documents, BEIR JSONL or a table, instead of DATA.")
@table_options
@click.option("--model", type=FOLDER, required=True, help="A text model.")
@output_options("File to write.", required=True)
@click.option(
    "--form",
    type=click.Choice(list(WRITERS)),
    default="anserini",
    show_default=True,
    help="JSON vectors for Anserini, or CIFF, which PISA and others read.",
)
@click.option("--expand/--no-expand", default=True, show_default=True, help="Carry what was learned, or own words.")
@click.option("--max-terms", default=256, show_default=True, type=click.IntRange(min=1), help="Most words.")
@click.option("--bits", default=8, show_default=True, type=click.IntRange(1, 16), help="Of an impact.")
def documents(
    data: Path | None,
    corpus: Path | None,
    model: Path,
    output: Path,
    form: str,
    expand: bool,
    max_terms: int,
    bits: int,
) -> None:
    """Write DATA's documents as words with impacts, whole numbers that an engine sums."""
    if (data is None) == (corpus is None):
        raise click.UsageError("name DATA, or --corpus")
    text_model = open_model(model)
    docs = open_judged(data, None, None, None).docs if corpus is None else read_documents(corpus)
    written = WRITERS[form](output, text_model, docs, expand=expand, max_terms=max_terms, bits=bits)
    click.echo(f"{output}: {written.n_docs:,} documents, {written.n_postings:,} impacts of {bits} bits")
    click.echo(f"an impact of 1 is {written.step:.4g} of a score, off by at most {written.max_error:.4g}")
    click.echo(
        f"left out: {written.n_left_out:,} beyond {max_terms} words of a document, {written.n_rounded:,} rounded to 0, "
        f"{written.n_negative:,} negative"
    )
