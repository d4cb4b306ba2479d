"""``tercet explain`` and ``tercet related``: why a document gets its score, and which words count for a word."""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_judged, open_model
from tercet.cli.options import DATA, FILE, FOLDER, table_options
from tercet.cli.terminal import echo
from tercet.data.documents import Documents
from tercet.engines import open_index
from tercet.errors import InputError


@click.command()
@click.argument("data", metavar="INDEX|DATA", type=DATA, required=False)
@click.argument("text", required=False)
@click.argument("document", metavar="[DOC]", required=False)
@click.option("--versus", metavar="DOC2", help="With an index: what DOC has over this document.")
@click.option("--corpus", type=FILE, help="Documents, BEIR JSONL or a table, instead of DATA.")
@table_options
@click.option("--queries", type=FILE, help="Queries as BEIR JSONL, instead of DATA.")
@click.option("--model", type=FOLDER, help="A text model; for an index, another than its own.")
@click.option("--query", help="The query's text, or the id of one of DATA's queries.")
@click.option("--doc", "doc_id", help="The document's id.")
@click.option("-k", "count", default=20, show_default=True, type=click.IntRange(min=1), help="Pairs to show.")
def explain(
    data: Path | None,
    text: str | None,
    document: str | None,
    versus: str | None,
    corpus: Path | None,
    queries: Path | None,
    model: Path | None,
    query: str | None,
    doc_id: str | None,
    count: int,
) -> None:
    """Why a document gets its score: word pairs and what each adds.

    Of an index: tercet explain INDEX "text" DOC. Of data and a model: tercet explain DATA --model M --query Q --doc D.
    """
    if data is not None and text is not None:
        if document is None or corpus or queries or query or doc_id:
            raise click.UsageError("an index is followed by a text and a document's id, and by nothing of DATA's")
        index = open_index(data, None if model is None else open_model(model))
        if versus is None:
            table = index.explain(text, document).table(count)
            echo(f"{document} for {text!r}\n{table}")
        else:
            table = index.versus(text, document, versus).table(count)
            echo(f"{document} over {versus} for {text!r}\n{table}")
        return
    if versus is not None:
        raise click.UsageError("--versus is for an index")
    for name, value in (("--model", model), ("--query", query), ("--doc", doc_id)):
        if value is None:
            raise click.UsageError(f"Missing option '{name}'.")
    assert model is not None
    assert query is not None
    assert doc_id is not None
    texts = open_judged(data, corpus, queries, None)
    if doc_id not in texts.docs:
        raise InputError(f"there is no document {doc_id!r} among the {len(texts.docs):,}")
    query_text = texts.queries.get(query, query)
    docs = texts.docs
    why = open_model(model).explain(query_text, docs.part([doc_id]) if isinstance(docs, Documents) else docs[doc_id])
    echo(f"{doc_id} for {query_text!r}")
    echo(why.table(count))


@click.command()
@click.argument("model", type=FOLDER)
@click.argument("words", nargs=-1, required=True)
@click.option("-k", "count", default=10, show_default=True, type=click.IntRange(min=1))
def related(model: Path, words: tuple[str, ...], count: int) -> None:
    """The document words that count most for each query word, with their weights.

    Weights are those of W. What tercet explain prints is a weight times what the query and the document have of the
    two words.
    """
    text_model = open_model(model)
    for word in words:
        pairs = text_model.related(word, count)
        echo(f"{word}: " + "  ".join(f"{other} {weight:+.3f}" for other, weight in pairs))
