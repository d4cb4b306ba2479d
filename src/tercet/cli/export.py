"""``tercet export``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_judged, open_model
from tercet.cli.options import FOLDER, NEW, data_options, refuse_given
from tercet.data import read_corpus
from tercet.data.lines import write_atomically
from tercet.errors import InputError
from tercet.export import boosted_query, positive_query_string, write_anserini, write_ciff, write_synonyms

_OF_WORDS = ("min_boost", "max_words")
_OF_DOCUMENTS = ("expand", "max_terms", "bits")
_OF_A_QUERY = ("query", "field", "index", "clauses", "complete")


@click.command()
@data_options
@click.option("--model", type=FOLDER, required=True, help="A text model.")
@click.option(
    "--form",
    type=click.Choice(["solr", "elasticsearch", "query", "anserini", "ciff"]),
    required=True,
    help="Synonym files; one boosted query; documents as impacts.",
)
@click.option("-o", "--output", type=NEW, help="File to write; a query is printed without one.")
@click.option("--min-boost", default=0.1, show_default=True, type=float, help="Synonyms: the smallest boost to list.")
@click.option(
    "--max-words", default=10, show_default=True, type=click.IntRange(min=1), help="Synonyms: most for a word."
)
@click.option("--text", "query", help="Query: its text.")
@click.option("--field", help="Query: the field to search in.")
@click.option(
    "--index",
    type=click.Choice(["bm25", "impact"]),
    default="bm25",
    show_default=True,
    help="Query: what boosts multiply, the engine's BM25 or exported impacts.",
)
@click.option("--clauses", default=32, show_default=True, type=click.IntRange(min=1), help="Query: most clauses.")
@click.option(
    "--complete", is_flag=True, help="Query: every positive weight for impacts, to nine digits; it bounds all scores."
)
@click.option(
    "--expand/--no-expand", default=True, show_default=True, help="Documents: carry what was learned, or own words."
)
@click.option("--max-terms", default=256, show_default=True, type=click.IntRange(min=1), help="Documents: most words.")
@click.option("--bits", default=8, show_default=True, type=click.IntRange(1, 16), help="Documents: of an impact.")
@click.pass_context
def export(
    context: click.Context,
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    model: Path,
    form: str,
    output: Path | None,
    min_boost: float,
    max_words: int,
    query: str | None,
    field: str | None,
    index: str,
    clauses: int,
    complete: bool,
    expand: bool,
    max_terms: int,
    bits: int,
) -> None:
    """Write what a model learned for other engines.

    For Solr and Elasticsearch these are synonyms or a boosted query; for Anserini and PISA (--form ciff), documents,
    which come from DATA or --corpus.
    """
    of_documents = form in ("anserini", "ciff")
    of_words = form in ("solr", "elasticsearch")
    for names, meant, what in (
        (_OF_WORDS, of_words, "synonyms"),
        (_OF_A_QUERY, form == "query", "--form query"),
        (_OF_DOCUMENTS, of_documents, "documents"),
        (("corpus", "queries", "qrels"), of_documents, "documents"),
    ):
        if not meant:
            refuse_given(context, names, f"is for {what}, not for --form {form}")
    if data is not None and not of_documents:
        raise click.UsageError(f"DATA is for documents, not for --form {form}")
    if output is None and form != "query":
        raise click.UsageError("Missing option '-o' / '--output'.")
    if of_documents and data is None and corpus is None:
        raise click.UsageError("name DATA, or --corpus")
    if form == "query" and query is None:
        raise click.UsageError("--form query needs --text")
    if complete:
        refuse_given(context, ("index", "clauses"), "does not go with --complete, which has all clauses, for impacts")
    text_model = open_model(model)
    if query is not None:
        if complete:
            found = positive_query_string(text_model, query, field)
        else:
            found = boosted_query(text_model, query, max_terms=clauses, field=field, index=index)  # type: ignore[arg-type]
        if not found.clauses:
            unknown = f"; the model does not know: {', '.join(found.unknown)}" if found.unknown else ""
            raise InputError(f"no word counts for the query {query!r}, so there is nothing to export{unknown}")
        if output is None:
            click.echo(found.text)
        else:
            with write_atomically(output) as stream:
                stream.write(f"{found.text}\n")
        click.echo(f"{len(found.clauses)} clauses hold {found.share:.0%} of all weight", err=True)
        click.echo(f"left out: {found.n_left_out:,} smaller and {len(found.negative):,} negative weights", err=True)
        if found.negative:
            listed = "  ".join(f"{word} {boost:+.3g}" for word, boost in found.negative[:10])
            click.echo(f"most negative: {listed}", err=True)
        if found.unknown:
            click.echo(f"the model does not know: {', '.join(found.unknown)}", err=True)
        return
    assert output is not None
    if of_words:
        told = write_synonyms(output, text_model, engine=form, min_boost=min_boost, max_words=max_words)  # type: ignore[arg-type]
        click.echo(f"{output}: {told.n_pairs:,} words for {told.n_words:,} query words")
        click.echo(
            f"left out: {told.n_below:,} smaller and {told.n_negative:,} negative weights, "
            f"{told.n_unwritable:,} words the format cannot hold"
        )
        return
    if data is None and corpus is not None:  # needs no queries
        docs = read_corpus(corpus)
    else:
        docs = open_judged(data, corpus, queries, qrels).docs
    write = write_anserini if form == "anserini" else write_ciff
    written = write(output, text_model, docs, expand=expand, max_terms=max_terms, bits=bits)
    click.echo(f"{output}: {written.n_docs:,} documents, {written.n_postings:,} impacts of {bits} bits")
    click.echo(f"an impact of 1 is {written.step:.4g} of a score, off by at most {written.max_error:.4g}")
    click.echo(
        f"left out: {written.n_left_out:,} beyond {max_terms} words of a document, {written.n_rounded:,} rounded to 0, "
        f"{written.n_negative:,} negative"
    )
