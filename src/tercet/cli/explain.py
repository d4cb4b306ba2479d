"""``tercet related`` and ``tercet explain``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import FOLDER, data_options, open_judged, open_model
from tercet.errors import InputError


@click.command()
@click.argument("model", type=FOLDER)
@click.argument("words", nargs=-1, required=True)
@click.option("-k", "count", default=10, show_default=True, type=click.IntRange(min=1))
def related(model: Path, words: tuple[str, ...], count: int) -> None:
    """The document words that count most for each query word, with their weights."""
    text_model = open_model(model)
    for word in words:
        found = text_model.related(word, count)
        click.echo(f"{word}: " + "  ".join(f"{other} {weight:+.3f}" for other, weight in found))


@click.command()
@data_options
@click.option("--model", type=FOLDER, required=True, help="A text model.")
@click.option("--query", "query", required=True, help="The query's text, or the id of one of DATA's queries.")
@click.option("--doc", "doc_id", required=True, help="The document's id.")
@click.option("-k", "count", default=20, show_default=True, type=click.IntRange(min=1), help="Pairs to show.")
def explain(
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    model: Path,
    query: str,
    doc_id: str,
    count: int,
) -> None:
    """Why a document gets its score: word pairs and what each adds."""
    found = open_judged(data, corpus, queries, qrels)
    if doc_id not in found.docs:
        raise InputError(f"there is no document {doc_id!r} among the {len(found.docs):,}")
    text = found.queries.get(query, query)
    why = open_model(model).explain(text, found.docs[doc_id])
    click.echo(f"{doc_id} for {text!r}")
    click.echo(why.table(count))
