"""``tercet search``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tercet.cli.groups import examples
from tercet.cli.options import FILE, FOLDER, json_option, output_options, query_vectors_option
from tercet.cli.terminal import echo
from tercet.data.own_vectors import read_vector
from tercet.engines import open_index
from tercet.fitting.text_model import TextModel
from tercet.search.filtering import where_of
from tercet.search.results import Results
from tercet.search.stored_fields import shown_record
from tercet.text.markup import plain_text

_TEXT_SHOWN = 76


@click.command(
    epilog=examples('search index/ "avocado toast" --why -k 5', "search index/ --queries queries.jsonl -o run.trec")
)
@click.argument("index", type=FOLDER)
@click.argument("text", required=False)
@click.option("-k", "count", type=click.IntRange(min=1), help="Documents to find.  [default: 10; 100 for --queries]")
@click.option("--why", is_flag=True, help="Show the pairs of words behind each score.")
@click.option("--all", "everything", is_flag=True, help="Show what is below the last match, too.")
@click.option(
    "--filter", "filters", multiple=True, metavar="COLUMN:VALUE", help="Only what carries it; 10..20 is a range."
)
@json_option
@click.option("--model", type=FOLDER, help="Another text model over the same words.")
@click.option("--queries", type=FILE, help="Queries as BEIR JSONL, instead of a text; writes a TREC run.")
@click.option("--vector", type=FILE, help="The text's own vector, one row of .npy, where the model has such.")
@query_vectors_option
@output_options("The run to write; .gz is packed.")
def search(
    index: Path,
    text: str | None,
    count: int | None,
    why: bool,
    everything: bool,
    filters: tuple[str, ...],
    as_json: bool,
    model: Path | None,
    queries: Path | None,
    vector: Path | None,
    query_vectors: Path | None,
    output: Path | None,
) -> None:
    """Find the documents of an index that answer a text best, or those for each of many queries."""
    if (text is None) == (queries is None):
        raise click.UsageError("name a text or --queries")
    if (queries is None) != (output is None):
        raise click.UsageError("--queries and -o go together")
    if queries is not None and (why or as_json or filters):
        raise click.UsageError("--why, --json and --filter are for one text; a run has no place for them")
    if (query_vectors is not None and queries is None) or (vector is not None and queries is not None):
        raise click.UsageError("--vector is for a text, --query-vectors for --queries")
    other = None
    if model is not None:
        from tercet.cli.inputs import open_model  # which knows every kind of data, and takes as long to load

        other = open_model(model)
    opened = open_index(index, other)
    if queries is not None and output is not None:
        from tercet.cli.inputs import read_query_texts
        from tercet.data import write_run

        run = opened.search_many(read_query_texts(queries), count or 100, query_vectors=query_vectors)
        write_run(output, run)
        empty = sum(not hits for hits in run.values())
        echo(f"{output}: {len(run):,} queries, up to {count or 100:,} documents each")
        if empty:
            echo(f"note: {empty:,} queries found nothing and have no line", err=True)
        return
    assert text is not None
    where = where_of(filters, opened.has_column)
    own = None if vector is None else read_vector(vector)
    hits = opened.search(text, count or 10, cutoff=not everything, where=where, vector=own)
    if as_json:
        echo(json.dumps(_answer(text, hits, why), ensure_ascii=False))
    else:
        if isinstance(opened.model, TextModel):
            words = opened.model.query_vectorizer
            if hits.unknown:
                listed = ", ".join(f"{word}{words.spelt_like(word)}" for word in hits.unknown)
                echo(f"the model does not know: {listed}", err=True)
            if not hits:
                _tell_stop_words(words.stop_words_in(text))
        show(hits, why)


def _tell_stop_words(words: list[str]) -> None:
    if words:
        listed, are = ", ".join(map(repr, words)), "is a stop word" if len(words) == 1 else "are stop words"
        echo(f"{listed} {are}, which so many documents have that they are not searched", err=True)


def _answer(text: str, hits: Results, why: bool) -> dict[str, Any]:
    """Hits as JSON."""
    listed = [
        {"rank": rank, "id": hit.doc_id, "score": hit.score}
        | ({} if hit.confidence is None else {"confidence": hit.confidence})
        | {"text": hit.kept_text, "stored_fields": hit.stored_fields}
        | ({"why": [list(reason) for reason in hit.why.reasons]} if why else {})
        for rank, hit in enumerate(hits, 1)
    ]
    return {"query": text, "unknown": list(hits.unknown), "exact": hits.exact, "hits": listed}


def show(hits: Results, why: bool) -> None:
    """Print hits, best first: score, id, the beginning of the text, and stored fields."""
    if not hits:
        echo("nothing found", err=True)
    for rank, hit in enumerate(hits, 1):
        echo(f"{rank:3}  {hit.score:.4f}  {hit.doc_id}{_beginning(hit.kept_text)}")
        if stored_fields := hit.stored_fields:
            echo(f"       {shown_record(stored_fields, _TEXT_SHOWN)}")
        if why:
            for line in hit.why.table(5).splitlines()[1:]:
                if not line.startswith("the model does not know"):
                    echo(f"       {line}")
    if hits.left_off:
        rest = f"{hits.left_off} hits without a word of the query, far below the best"
        echo(f"no more matches; --all shows {rest}", err=True)


def _beginning(text: str | None) -> str:
    if not text:
        return ""
    words = " ".join(plain_text(text).split())
    return "  " + (words if len(words) <= _TEXT_SHOWN else words[: _TEXT_SHOWN - 1] + "…")
