"""``tercet export query``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, output_options, refuse_given
from tercet.cli.terminal import echo
from tercet.data.lines import write_atomically
from tercet.engines import boosted_query, positive_query_string
from tercet.engines.elasticsearch import rewrite
from tercet.errors import InputError


@click.command()
@click.argument("text")
@click.option("--model", type=FOLDER, required=True, help="A text model.")
@output_options("File to write; without one the query is printed.")
@click.option("--field", help="The field to search in.")
@click.option(
    "--index",
    type=click.Choice(["bm25", "impact", "folded"]),
    default="bm25",
    show_default=True,
    help="What boosts multiply: the engine's BM25, exported impacts of own words, or folded documents.",
)
@click.option(
    "--form",
    type=click.Choice(["string", "boosted", "impacts", "folded", "rescore"]),
    default="string",
    show_default=True,
    help="Lucene's query syntax, or the body of a search of Elasticsearch or OpenSearch.",
)
@click.option("--clauses", default=32, show_default=True, type=click.IntRange(min=1), help="Most clauses.")
@click.option(
    "--complete", is_flag=True, help="Every positive weight for impacts, to nine digits; it bounds all scores."
)
@click.pass_context
def query(
    context: click.Context,
    text: str,
    model: Path,
    output: Path | None,
    field: str | None,
    index: Any,
    form: Any,
    clauses: int,
    complete: bool,
) -> None:
    """Write TEXT as the boosted query that a model makes of it."""
    if form != "string":
        refuse_given(context, ("index", "complete"), f"does not go with --form {form}")
        if form == "boosted" and field is None:
            raise click.UsageError("--form boosted needs --field, the text to search in")
        body = rewrite(open_model(model), text, form=form, text_field=field, max_terms=clauses)
        _write(output, json.dumps(body, ensure_ascii=False))
        return
    if complete:
        refuse_given(context, ("index", "clauses"), "does not go with --complete, which has all clauses, for impacts")
    text_model = open_model(model)
    if complete:
        boosted = positive_query_string(text_model, text, field)
    else:
        boosted = boosted_query(text_model, text, max_terms=clauses, field=field, index=index)
    if not boosted.clauses:
        unknown = f"; the model does not know: {', '.join(boosted.unknown)}" if boosted.unknown else ""
        raise InputError(f"no word counts for the query {text!r}, so there is nothing to export{unknown}")
    _write(output, boosted.text)
    echo(f"{len(boosted.clauses)} clauses hold {boosted.share:.0%} of all weight", err=True)
    echo(f"left out: {boosted.n_left_out:,} smaller and {len(boosted.negative):,} negative weights", err=True)
    if boosted.negative:
        listed = "  ".join(f"{word} {boost:+.3g}" for word, boost in boosted.negative[:10])
        echo(f"most negative: {listed}", err=True)
    if boosted.unknown:
        echo(f"the model does not know: {', '.join(boosted.unknown)}", err=True)


def _write(output: Path | None, text: str) -> None:
    if output is None:
        echo(text)
    else:
        with write_atomically(output) as stream:
            stream.write(f"{text}\n")
