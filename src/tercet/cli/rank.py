"""``tercet rank``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_judged, open_model, tell_unknown, with_own_vectors
from tercet.cli.options import DATA, FOLDER, judged_options, output_options, own_vectors_option
from tercet.cli.terminal import echo
from tercet.data import write_run


@click.command(
    epilog=examples(
        "rank nfcorpus/ --model model/ -o run.trec", "rank products.csv --queries q.csv --model model/ -o run.gz"
    )
)
@click.argument("data", type=DATA)
@click.option("--model", type=FOLDER, required=True, help="A text model.")
@output_options("File to write; .gz is packed.", required=True)
@click.option("-k", "depth", default=100, show_default=True, type=click.IntRange(min=1), help="Documents a query.")
@click.option("--split", help="Only the queries judged in this split.")
@judged_options
@own_vectors_option
def rank(
    data: Path,
    model: Path,
    output: Path,
    depth: int,
    split: str | None,
    queries: Path | None,
    qrels: Path | None,
    vectors: tuple[Path, Path] | None,
) -> None:
    """Rank DATA's documents for its queries and write a TREC run."""
    texts = open_judged(data, queries, qrels)
    query_texts = texts.queries if split is None else texts.queries_of(split)
    text_model = open_model(model)
    tell_unknown(text_model, query_texts)
    doc_vectors, query_vectors = vectors or (None, None)
    docs = with_own_vectors(text_model, texts.docs, doc_vectors)
    run = text_model.rank(query_texts, docs, depth, query_vectors)
    write_run(output, run)
    echo(f"{output}: {len(run):,} queries, up to {depth:,} documents each")
