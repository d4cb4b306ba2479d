"""``tercet export``: what a model learned, in the formats of other engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.letor import open_feature_model
from tercet.cli.options import FOLDER, NEW, check_output, output_options, replace_option
from tercet.cli.terminal import echo
from tercet.data.lines import write_atomically
from tercet.engines import query_string, search_body, write_memory_updates
from tercet.engines.linear_models import FEATURES_NAME, MODEL_NAME, write_ltr
from tercet.engines.lucene_query import FORMS, MEMORY_FIELD, TEXT_FIELD

LTR_ADDRESSES = {
    "solr": ("PUT /solr/COLLECTION/schema/feature-store", "PUT /solr/COLLECTION/schema/model-store"),
    "elasticsearch": ("PUT /_ltr/_featureset/{name}", "POST /_ltr/_featureset/{name}/_createmodel"),
}

engine_option = click.option(
    "--engine", type=click.Choice(list(LTR_ADDRESSES)), default="solr", show_default=True, help="Whose format."
)
text_model_option = click.option("--model", type=FOLDER, required=True, help="A text model.")


@click.command(
    epilog=examples(
        'export query "avocado toast" --model model/ --field text',
        'export query "avocado toast" --model model/ --form memory -o body.json',
    )
)
@click.argument("text")
@text_model_option
@output_options("File to write; without one the query is printed.")
@click.option("--field", help="Field to search in.  [default: text]")
@click.option(
    "--form",
    type=click.Choice(["string", *FORMS]),
    default="string",
    show_default=True,
    help="Query syntax of Lucene and Solr; or the body of a search of OpenSearch or Elasticsearch: by the text alone, "
    "also by past queries, or by the weighted words of the model.",
)
@click.option("--clauses", default=32, show_default=True, type=click.IntRange(min=1), help="Most clauses.")
def query(text: str, model: Path, output: Path | None, field: str | None, form: Any, clauses: int) -> None:
    """Write TEXT as a query for an engine that scores by BM25: words with weights, and past queries."""
    text_model = open_model(model)
    if form == "string":
        if text_model.memory is not None:
            echo("note: the syntax has no place for memory; --form memory and --form words have past queries", err=True)
        _write(output, query_string(text_model, text, field=field or TEXT_FIELD, max_clauses=clauses))
        return
    body = search_body(text_model, text, form=form, text_field=field or TEXT_FIELD, max_clauses=clauses)
    _write(output, json.dumps(body, ensure_ascii=False))


def _write(output: Path | None, text: str) -> None:
    if output is None:
        echo(text)
    else:
        with write_atomically(output) as stream:
            stream.write(f"{text}\n")


@click.command(
    epilog=examples("export memory --model model/ -o memory.ndjson", "export memory --model index/ -o memory.ndjson")
)
@text_model_option
@output_options("File to write.", required=True)
def memory(model: Path, output: Path) -> None:
    """Write the past queries of documents as partial updates for the _bulk endpoint of OpenSearch or Elasticsearch."""
    n = write_memory_updates(output, open_model(model))
    echo(f"{output}: past queries of {n:,} documents, in the field {MEMORY_FIELD}")


@click.command(
    epilog=examples("export ltr model/ -o solr/", "export ltr model/ --engine elasticsearch --name linear -o elastic/")
)
@click.argument("model", type=FOLDER)
@click.option("-o", "--output", type=NEW, required=True, help=f"Folder for {FEATURES_NAME} and {MODEL_NAME}.")
@replace_option
@engine_option
@click.option("--name", default="tercet", show_default=True, help="Of the model and of its set of features.")
@click.pass_context
def ltr(context: click.Context, model: Path, output: Path, engine: Any, name: str) -> None:
    """Write a linear feature MODEL for Solr's or Elasticsearch's learning to rank; OpenSearch has the latter's form."""
    for file in (FEATURES_NAME, MODEL_NAME):
        check_output(context, output / file, None)
    written = write_ltr(output, open_feature_model(model), engine=engine, name=name)
    for file, address in zip((FEATURES_NAME, MODEL_NAME), LTR_ADDRESSES[engine], strict=True):
        echo(f"{output / file}: for {address.format(name=name)}")
    echo(f"{len(written.fields):,} features with a weight; {written.n_left_out:,} without one are left out")
    echo(
        f"each is taken from a document's field ({', '.join(list(written.fields.values())[:5])}, …); one that a query "
        f"computes is to be put in its place in {FEATURES_NAME}"
    )
