"""``tercet index``"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tercet.cli.groups import SectionedCommand, examples
from tercet.cli.inputs import analyzer_of, documents_for, documents_of, open_model, with_columns
from tercet.cli.options import (
    DATA,
    FILE,
    FOLDER,
    NEW,
    check_output,
    language_option,
    refuse_given,
    remember_columns,
    replace_option,
    table_options,
)
from tercet.cli.progress import ProgressLines
from tercet.cli.serve import taught_of
from tercet.cli.terminal import echo
from tercet.data.lines import open_lines
from tercet.engines.opening import BACKENDS, engine_index, open_index
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.search.base import n_terms
from tercet.search.growth import can_grow
from tercet.store import MANIFEST_NAME
from tercet.store.kinds import INDEX
from tercet.text import Analyzer

NEW_INDEX = ("language", "no_texts", "backend", "url", "collection")
CHANGES = ("undo", "update", "remove", "remove_listed", "merge")


@click.command(
    cls=SectionedCommand,
    sections={
        "A new index of DATA": ("output", "replace", "model", "parts", *NEW_INDEX),
        "An existing index": CHANGES,
        "Tables": ("id_column", "text_columns", "column", "encoding", "skip_bad"),
    },
    epilog=examples("index products.csv --model model/ -o index/", "index index/ --update today.csv --remove sku17"),
)
@click.argument("source", metavar="DATA|INDEX", type=DATA)
@click.option("-o", "--output", type=NEW, metavar="INDEX", help="Folder for a new index.")
@replace_option
@click.option("--model", type=FOLDER, help="Text model to search by; promotes it in an index.  [default: BM25]")
@click.option("--parts", metavar="PARTS", help="Learned parts of --model: words,memory.  [default: as fit chose]")
@language_option
@click.option("--no-texts", is_flag=True, help="Store no texts; hits show ids only.")
@click.option("--backend", type=click.Choice(list(BACKENDS)), help="Engine for the documents, at --url.")
@click.option("--url", help="Address of the engine; docs/guides/engines.md has examples.")
@click.option("--collection", help="Name in the engine.  [default: tercet-INDEX]")
@click.option("--undo", is_flag=True, help="Undo the last promotion of a model.")
@click.option("--remove", multiple=True, metavar="ID", help="Remove a document; may be repeated.")
@click.option("--remove-listed", type=FILE, help="Remove the documents with the ids in this file, one a line.")
@click.option("--update", type=DATA, metavar="DATA", help="Add documents, or replace those with the same ids.")
@click.option("--merge", is_flag=True, help="Merge small segments and free the space of removed documents.")
@table_options
@click.pass_context
def index(
    context: click.Context,
    source: Path,
    output: Path | None,
    model: Path | None,
    parts: str | None,
    **options: Any,
) -> None:
    """Index the documents of DATA with -o, or describe or change an INDEX.

    Each change happens completely or not at all. A running tercet serve picks up changes. The same command continues an
    interrupted upload to an engine.
    """
    if parts is not None and model is None:
        raise click.UsageError("--parts chooses learned parts of a --model")
    text_model = None if model is None else open_model(model)
    if text_model is not None:
        if parts is not None:
            text_model = text_model.with_parts([name.strip() for name in parts.split(",") if name.strip()])
        remember_columns(text_model)
    new, changes = ({name: options[name] for name in names if name in options} for names in (NEW_INDEX, CHANGES))
    if output is not None:
        refuse_given(context, CHANGES, f"is for an existing index; leave out -o: tercet index {output} …")
        _build(context, source, output, text_model, **new)
        return
    refuse_given(context, ("replace", *NEW_INDEX), f"is for a new index of {source}; add -o INDEX")
    if not (source / MANIFEST_NAME).is_file():
        raise click.UsageError(f"{source} is no index; to index its documents, add -o INDEX")
    if text_model is not None and changes["undo"]:
        raise click.UsageError("--undo reverts to the model before; leave out --model")
    opened = open_index(source)
    if text_model is not None or changes["undo"]:
        _promote(source, opened, text_model)
    documents = {name: value for name, value in changes.items() if name != "undo"}
    if any(documents.values()):
        _change(source, opened, **documents)
    elif text_model is None and not changes["undo"]:
        echo(f"{source}: {_size(opened)}{_segments(opened)}")
        for line in opened.promotions or ("no promotions: the index has its first model",):
            echo(str(line))


def _build(
    context: click.Context,
    data: Path,
    output: Path,
    model: TextModel | None,
    *,
    language: str | None,
    no_texts: bool,
    backend: str | None,
    url: str | None,
    collection: str | None,
) -> None:
    if (backend is None) != (url is None) or (collection is not None and url is None):
        named = ", ".join(BACKENDS)
        raise click.UsageError(f"--backend (one of {named}) and --url go together; --collection needs both")
    if backend is not None and no_texts:
        raise click.UsageError(f"--no-texts is for an embedded index; {backend} scores candidates by their texts")
    if model is not None and language is not None:
        raise click.UsageError("--language is for BM25; --model has its own")
    if backend is None:
        check_output(context, output, INDEX)
    elif not engine_index(backend).is_interrupted(output):  # else the upload continues
        check_output(context, output, engine_index(backend).kind)
    docs = documents_of(data) if model is None else documents_for(model, data)
    analyzer = analyzer_of(language)
    is_bm25 = model is None
    if model is None and isinstance(docs, Iterator):  # a file, read twice
        model, analyzer = with_columns(TextModel.bm25((document[1] for document in docs), analyzer), data), None
        docs = documents_of(data)
    settings: dict[str, Any] = {"analyzer": analyzer, "progress": ProgressLines().documents}
    built: BaseIndex
    if backend is None or url is None:
        built = Index.build(docs, model, output, keep_texts=not no_texts, **settings)
    else:
        built = engine_index(backend).build(docs, model, output, url=url, collection=collection, **settings)
    words = f", BM25 {_words(built.model)}" if is_bm25 and isinstance(built.model, TextModel) else ""
    echo(f"{output}: {_size(built)}{words}")
    taught = taught_of(output)
    if taught.exists():
        echo(f"note: {taught} stays: tercet serve applies its actions to the new index", err=True)


def _size(index: BaseIndex) -> str:
    n_words = (index.model.n_words if isinstance(index.model, TextModel) else None) or n_terms(index.model)
    documents = "1 document" if len(index) == 1 else f"{len(index):,} documents"
    return f"{documents}, {'1 word' if n_words == 1 else f'{n_words:,} words'}"


def _segments(index: BaseIndex) -> str:
    if not isinstance(index, Index):
        return ""
    return ", in 1 segment" if index.n_segments == 1 else f", in {index.n_segments:,} segments"


def _promote(folder: Path, opened: BaseIndex, model: TextModel | None) -> None:
    """Promote a model; without a model, undo the last promotion."""
    entry = opened.take_back() if model is None else opened.promote(model)
    undone = "" if entry.undoes is None else f", promotion {entry.undoes} is undone"
    echo(f"{folder}: promotion {entry.number}, {entry.before} -> {entry.after}{undone}")


def _change(
    folder: Path,
    opened: BaseIndex,
    *,
    remove: tuple[str, ...],
    remove_listed: Path | None,
    update: Path | None,
    merge: bool,
) -> None:
    if merge and not isinstance(opened, Index):
        raise InputError(f"{folder} has its documents in another engine, which merges by itself; leave out --merge")
    before, words = len(opened), ""
    listed = [] if remove_listed is None else [text for _, text in open_lines(remove_listed) if text.strip()]
    if remove or listed:
        opened.remove([*remove, *listed])
    if update is not None:
        model = opened.model
        if isinstance(model, TextModel):
            remember_columns(model)
        docs = documents_for(model, update) if isinstance(model, TextModel) else documents_of(update)
        unknown: Counter[str] = Counter()
        grows = isinstance(opened, Index) and isinstance(model, TextModel) and can_grow(model)
        if isinstance(model, TextModel) and not grows and not isinstance(docs, Mapping):
            docs = _counting_unknown(docs, model, unknown)
        n_words = n_terms(model)
        opened.replace(docs, ProgressLines().documents)
        n_new = n_terms(opened.model) - n_words
        words = "" if not n_new else ", 1 new word" if n_new == 1 else f", {n_new:,} new words"
        if unknown:
            named = ", ".join(repr(word) for word, _ in unknown.most_common(3))
            message = f"note: {len(unknown):,} of the words are new to the index, such as {named}"
            echo(f"{message}; searches ignore them until all documents are indexed again: -o, --replace", err=True)
    if merge and isinstance(opened, Index):
        opened.merge()
    echo(f"{folder}: {before:,} documents before, {len(opened):,} now{_segments(opened)}{words}")


def _words(model: TextModel) -> str:
    analyzer = model.doc_vectorizer.analyzer or Analyzer()
    if analyzer.tokenizer != "words":
        return "of pairs of characters" if analyzer.tokenizer == "characters" else f"of {analyzer.tokenizer} tokens"
    if analyzer.stemmer is None:
        return "of words as they are written"
    return f"of words reduced to their {analyzer.stemmer.title()} stems"


def _counting_unknown(docs: Iterable[Any], model: TextModel, unknown: Counter[str]) -> Iterator[Any]:
    """Yield documents, and count the words that the model of the index lacks."""
    for document in docs:
        unknown.update(model.doc_vectorizer.unknown_words(document[1]))
        yield document
