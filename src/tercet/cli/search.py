"""``tercet search``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tercet.cli.groups import examples
from tercet.cli.options import FILE, FOLDER, json_option, output_options
from tercet.cli.terminal import echo
from tercet.engines import open_index
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex
from tercet.search.filtering import where_of
from tercet.search.results import Results
from tercet.search.stored_fields import shown_record
from tercet.text.markup import plain_text

_TEXT_SHOWN = 76  # characters


@click.command(
    epilog=examples('search index/ "avocado toast" --why -k 5', "search index/ --queries queries.jsonl -o run.trec")
)
@click.argument("index", type=FOLDER)
@click.argument("text", required=False)
@click.option("-k", "count", type=click.IntRange(min=1), help="Documents to find.  [default: 10; 100 for --queries]")
@click.option("--why", is_flag=True, help="Show the reasons for each score.")
@click.option("--all", "everything", is_flag=True, help="Also show documents without a word of the query.")
@click.option("--filter", "filters", multiple=True, metavar="COLUMN:VALUE", help="Stored field; 10..20 is a range.")
@json_option
@click.option("--model", type=FOLDER, help="Search by another text model with the same vocabulary.")
@click.option("--queries", type=FILE, help="Queries, as BEIR JSONL or a table, for a TREC run.")
@output_options("TREC run to write; .gz is compressed.")
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
    output: Path | None,
) -> None:
    """Find the best documents of an index for a text, or for each of many queries."""
    if (text is None) == (queries is None):
        raise click.UsageError("name either a text or --queries")
    if (queries is None) != (output is None):
        raise click.UsageError("--queries and -o go together")
    if queries is not None and (why or as_json or filters):
        raise click.UsageError("--why, --json and --filter are for one text; a TREC run cannot hold them")
    replacement = None
    if model is not None:
        from tercet.cli.inputs import open_model  # loads every reader of data

        replacement = open_model(model)
    opened = open_index(index, replacement)
    if queries is not None and output is not None:
        _write_run(opened, queries, output, count or 100)
        return
    assert text is not None
    where = where_of(filters, opened.has_column)
    hits = opened.search(text, count or 10, cutoff=not everything, where=where)
    if as_json:
        echo(json.dumps(_answer(text, hits, why), ensure_ascii=False))
        return
    if isinstance(opened.model, TextModel):
        words = opened.model.query_vectorizer
        if hits.unknown:
            listed = ", ".join(f"{word}{words.spelt_like(word)}" for word in hits.unknown)
            echo(f"the model does not know: {listed}", err=True)
        stop_words = words.stop_words_in(text) if not hits else []
        if stop_words:
            listed = ", ".join(map(repr, stop_words))
            are = "is a stop word" if len(stop_words) == 1 else "are stop words"
            echo(f"{listed} {are}; stop words are in most documents and not searched", err=True)
    show(hits, why)


def _write_run(index: BaseIndex, queries: Path, output: Path, k: int) -> None:
    from tercet.cli.inputs import read_query_texts
    from tercet.data import write_run

    run = index.search_many(read_query_texts(queries), k)
    write_run(output, run)
    empty = sum(not hits for hits in run.values())
    echo(f"{output}: {len(run):,} queries, up to {k:,} documents each")
    if empty:
        echo(f"note: {empty:,} queries have no results and no line in the run", err=True)


def _answer(text: str, hits: Results, why: bool) -> dict[str, Any]:
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
        echo(f"no more matches; --all shows {hits.left_off} hits without a word of the query", err=True)


def _beginning(text: str | None) -> str:
    if not text:
        return ""
    words = " ".join(plain_text(text).split())
    return "  " + (words if len(words) <= _TEXT_SHOWN else words[: _TEXT_SHOWN - 1] + "…")
