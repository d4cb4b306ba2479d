"""``tercet export``: what a model learned, in the formats of other engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_judged, open_model, read_query_texts
from tercet.cli.letor import open_feature_model
from tercet.cli.options import (
    DATA,
    FILE,
    FOLDER,
    NEW,
    check_output,
    output_options,
    query_vectors_option,
    replace_option,
    table_options,
)
from tercet.cli.terminal import echo
from tercet.data.lines import write_atomically
from tercet.engines import (
    boosted_query,
    search_body,
    write_adapted_vectors,
    write_anserini,
    write_ciff,
    write_memory_updates,
    write_synonyms,
)
from tercet.engines.linear_models import FEATURES_NAME, MODEL_NAME, write_ltr
from tercet.engines.lucene_query import FORMS, MEMORY_FIELD, TEXT_FIELD
from tercet.errors import InputError

LTR_ADDRESSES = {
    "solr": ("PUT /solr/COLLECTION/schema/feature-store", "PUT /solr/COLLECTION/schema/model-store"),
    "elasticsearch": ("PUT /_ltr/_featureset/{name}", "POST /_ltr/_featureset/{name}/_createmodel"),
}
IMPACT_WRITERS = {"anserini": write_anserini, "ciff": write_ciff}
MOST_TERMS, MEAN_TERMS = 256, 128  # of a document, without and with queries to choose by

engine_option = click.option(
    "--engine", type=click.Choice(list(LTR_ADDRESSES)), default="solr", show_default=True, help="Whose format."
)
text_model_option = click.option("--model", type=FOLDER, required=True, help="A text model.")


@click.command(
    epilog=examples(
        "export synonyms --model model/ -o synonyms.txt",
        "export synonyms --model model/ --min-boost .3 -o synonyms.txt",
    )
)
@text_model_option
@output_options("File to write.", required=True)
@click.option("--min-boost", default=0.1, show_default=True, type=float, help="The smallest boost to list.")
@click.option("--max-words", default=10, show_default=True, type=click.IntRange(min=1), help="Most for a word.")
def synonyms(model: Path, output: Path, min_boost: float, max_words: int) -> None:
    """Write the document words that count for each query word as a synonym file of Solr, with weights."""
    written = write_synonyms(output, open_model(model), min_boost=min_boost, max_words=max_words)
    echo(f"{output}: {written.n_pairs:,} words for {written.n_words:,} query words")
    echo(
        f"left out: {written.n_below:,} smaller and {written.n_negative:,} negative weights, "
        f"{written.n_unwritable:,} words the format cannot hold"
    )


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
    help="Lucene's query syntax; or the body of a search of OpenSearch or Elasticsearch: by the text alone, also by "
    "past queries, or by the weighted words of the model.",
)
@click.option("--clauses", default=32, show_default=True, type=click.IntRange(min=1), help="Most clauses.")
def query(text: str, model: Path, output: Path | None, field: str | None, form: Any, clauses: int) -> None:
    """Write TEXT as a query for an engine that scores by BM25: words with weights, and past queries."""
    text_model = open_model(model)
    if form != "string":
        body = search_body(text_model, text, form=form, text_field=field or TEXT_FIELD, max_clauses=clauses)
        _write(output, json.dumps(body, ensure_ascii=False))
        return
    if text_model.memory is not None:
        echo("note: the syntax has no place for memory; --form memory and --form words have past queries", err=True)
        text_model = text_model.words_alone()
    boosted = boosted_query(text_model, text, max_terms=clauses, field=field)
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


@click.command(
    epilog=examples(
        "export memory --model model/ -o memory.ndjson",
        "export memory --model model/ --field asked -o memory.ndjson",
    )
)
@text_model_option
@click.option("--field", default=MEMORY_FIELD, show_default=True, help="Field of past queries.")
@output_options("File to write.", required=True)
def memory(model: Path, field: str, output: Path) -> None:
    """Write the past queries of documents as partial updates for the _bulk endpoint of OpenSearch or Elasticsearch."""
    n = write_memory_updates(output, open_model(model), field)
    echo(f"{output}: past queries of {n:,} documents, in the field {field}")


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


@click.command(
    epilog=examples(
        "export vectors --model model/ --query-vectors queries.npz -o adapted.npz",
        "export vectors --model model/ --map -o map.npz",
    )
)
@click.option("--model", type=FOLDER, required=True, help="A text model with own vectors.")
@query_vectors_option
@output_options("File to write, .npz with ids and vectors, or .npy, whose ids go to .ids beside it.", required=True)
@click.option("--map", "only_map", is_flag=True, help="Write the map itself, to adapt queries where they are asked.")
def vectors(model: Path, query_vectors: Path | None, output: Path, only_map: bool) -> None:
    """Write queries' own vectors as a vector engine is to be asked, or the map that makes them so.

    The inner product of an adapted vector with a document's vector, as it is in the engine already, is what the map
    adds to the score.
    """
    if only_map == (query_vectors is not None):
        raise click.UsageError("name --query-vectors, or --map")
    written = write_adapted_vectors(output, open_model(model), query_vectors)
    if only_map:
        echo(f"{output}: a map of {written.n_dims} × {written.n_dims} numbers; a query x is asked as x @ map")
    else:
        echo(f"{output}: {written.n_queries:,} queries of {written.n_dims} numbers, to be asked by inner product")


@click.command(
    epilog=examples(
        "export documents nfcorpus/ --model model/ -o documents.jsonl",
        "export documents products.csv --model model/ --form ciff -o products.ciff",
    )
)
@click.argument("data", type=DATA)
@table_options
@text_model_option
@output_options("File to write.", required=True)
@click.option(
    "--form",
    type=click.Choice(list(IMPACT_WRITERS)),
    default="anserini",
    show_default=True,
    help="JSON vectors for Anserini; CIFF, which PISA and others read.",
)
@click.option("--queries", type=FILE, help="Queries as people ask them: what they ask for is kept. Not test queries.")
@click.option(
    "--terms",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Words of a document.  [default: at most {MOST_TERMS}; in the mean {MEAN_TERMS} with --queries]",
)
def documents(data: Path, model: Path, output: Path, form: str, queries: Path | None, terms: int | None) -> None:
    """Write DATA's documents as words with impacts, whole numbers that an engine sums."""
    text_model = open_model(model)
    asked = None if queries is None else list(read_query_texts(queries).values())
    docs = open_judged(data).docs
    kept: dict[str, Any] = {"queries": asked, "max_terms": terms or MOST_TERMS, "mean_terms": terms or MEAN_TERMS}
    words = f"{terms or MOST_TERMS} words of a document" if asked is None else f"{terms or MEAN_TERMS} words a document"
    written = IMPACT_WRITERS[form](output, text_model, docs, **kept)
    echo(f"{output}: {written.n_docs:,} documents, {written.n_postings:,} impacts")
    echo(f"an impact of 1 is {written.step:.4g} of a score, off by at most {written.max_error:.4g}")
    echo(
        f"left out: {written.n_left_out:,} beyond {words}, {written.n_rounded:,} rounded to 0, "
        f"{written.n_negative:,} negative"
    )
