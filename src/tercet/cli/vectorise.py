"""``tercet vectorise``"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from tercet.cli.inputs import TABLES, Labelled, is_beir_texts, kind_of, open_model, read_data, read_query_texts
from tercet.cli.inputs import documents_of as documents_as_read
from tercet.cli.options import DATA, FILE, FOLDER, NEW, quiet_option, refuse_given, table_options
from tercet.cli.progress import DocumentCount
from tercet.cli.terminal import echo
from tercet.data.beir import NO_DOCUMENTS, NO_QUERIES, documents_of, plain_or_packed, queries_of
from tercet.errors import FormatError, InputError
from tercet.text import CUTS, Analyser
from tercet.text.vectors import Texts
from tercet.text.vectors import vectorise as write_vectors

WEIGHTINGS = {"tf-idf": "tfidf", "bm25": "bm25"}
LEARNED_ONLY = ("weighting", "cut", "stem", "min_df", "max_words")


@click.command()
@click.argument("data", type=DATA, required=False)
@click.option("--corpus", type=FILE, help="Documents, BEIR JSONL or a table, instead of DATA.")
@click.option("--queries", type=FILE, help="Queries, BEIR JSONL or a table, instead of DATA's.")
@table_options
@click.option("-o", "--output", type=NEW, required=True, help="Folder for the vectors.")
@click.option("--model", type=FOLDER, help="Take the words and weights of this text model.  [default: learn them]")
@click.option("--weighting", type=click.Choice(list(WEIGHTINGS)), default="tf-idf", show_default=True)
@click.option(
    "--cut", type=click.Choice(CUTS), default="words", show_default=True, help="How texts are cut into words."
)
@click.option("--stem", metavar="LANGUAGE", help="Cut words to their stems, as in --stem english.")
@click.option(
    "--min-df", default=1, show_default=True, type=click.IntRange(min=1), help="Leave out words in fewer documents."
)
@click.option("--max-words", type=click.IntRange(min=1), help="Keep only so many words, those that occur most often.")
@quiet_option
@click.pass_context
def vectorise(
    context: click.Context,
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    output: Path,
    model: Path | None,
    weighting: str,
    cut: str,
    stem: str | None,
    min_df: int,
    max_words: int | None,
    quiet: bool,
) -> None:
    """Turn DATA's documents and queries into vectors on disk, to learn from more than fits in memory.

    DATA is a table of documents or a BEIR folder, or --corpus and --queries name files. Texts are read once, one by
    one; what they say is put aside in the output folder until all words are known.
    """
    if (data is None) == (corpus is None):
        raise click.UsageError("name DATA or --corpus")
    docs, query_texts = _texts(data, corpus, queries)
    progress = None if quiet else DocumentCount()
    if model is not None:
        refuse_given(context, LEARNED_ONLY, "is for words that are learned; --model has its own")
        made_with = open_model(model)
        vectors = write_vectors(
            docs,
            query_texts,
            output,
            vectoriser=made_with.doc_vectoriser,
            query_vectoriser=made_with.query_vectoriser,
            progress=progress,
        )
    else:
        vectors = write_vectors(
            docs,
            query_texts,
            output,
            analyser=Analyser(cut=cut, stop_words="english" if cut == "words" else None, stemmer=stem),
            weighting=WEIGHTINGS[weighting],
            min_df=min_df,
            max_words=max_words,
            progress=progress,
        )
    n_queries = "no queries" if vectors.queries is None else f"{len(vectors.queries):,} queries"
    n_docs, n_entries = len(vectors.docs), vectors.docs.n_entries
    n_bytes = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
    echo(
        f"{output}: {n_docs:,} documents, {n_queries}, {vectors.docs.shape[1]:,} words, {n_entries:,} entries "
        f"({n_entries / n_docs:.1f} a document), {n_bytes:,} bytes"
    )


def _texts(data: Path | None, corpus: Path | None, queries: Path | None) -> tuple[Texts, Texts | None]:
    """Documents and queries as they are read, where the format allows it; ids are compared when all are there."""
    query_texts: Texts | None = None
    if queries is not None:
        is_beir = is_beir_texts(queries)
        query_texts = _pairs(queries_of, queries, NO_QUERIES) if is_beir else read_query_texts(queries)
    path = corpus or data
    assert path is not None
    kind = kind_of(path) if corpus is None else "documents"
    if kind in TABLES:
        if is_beir_texts(path):
            return _pairs(documents_of, path, NO_DOCUMENTS), query_texts
        return ((doc_id, text) for doc_id, text, *_ in documents_as_read(None, path)), query_texts
    data = path
    if kind == "beir":
        if query_texts is None:
            query_texts = _pairs(queries_of, plain_or_packed(data, "queries.jsonl"), NO_QUERIES)
        return _pairs(documents_of, plain_or_packed(data, "corpus.jsonl"), NO_DOCUMENTS), query_texts
    texts = read_data(data, kind, None)
    if isinstance(texts, Labelled):
        raise InputError(f"{data} holds labelled texts, which fit in memory; tercet fit takes them as they are")
    return texts.docs, texts.queries if query_texts is None else query_texts


def _pairs(
    read: Callable[[Path], Iterator[tuple[int, str, str]]], path: Path, nothing: str
) -> Iterator[tuple[str, str]]:
    is_empty = True
    for _, name, text in read(path):
        is_empty = False
        yield name, text
    if is_empty:
        raise FormatError(path, None, nothing)
