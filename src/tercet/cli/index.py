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
    doc_vectors_option,
    language_option,
    refuse_given,
    remember_columns,
    replace_option,
    table_options,
)
from tercet.cli.progress import DocumentCount
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

NEW_INDEX = ("doc_vectors", "language", "no_texts", "backend", "url", "collection")
CHANGES = ("undo", "update", "remove", "remove_listed", "merge")


@click.command(
    cls=SectionedCommand,
    sections={
        "A new index, of DATA": ("output", "replace", "model", "parts", *NEW_INDEX),
        "An index that is there": CHANGES,
        "Tables": ("id_column", "text_columns", "column", "encoding", "skip_bad"),
    },
    epilog=examples("index products.csv --model model/ -o index/", "index index/ --update today.csv --remove sku17"),
)
@click.argument("source", metavar="DATA|INDEX", type=DATA)
@click.option("-o", "--output", type=NEW, metavar="INDEX", help="Folder for a new index.")
@replace_option
@click.option("--model", type=FOLDER, help="Text model to search with; an index switches to it.  [default: BM25]")
@click.option(
    "--parts", metavar="PARTS", help="Learned parts of --model to use: words,memory.  [default: as fit chose]"
)
@doc_vectors_option
@language_option
@click.option("--no-texts", is_flag=True, help="Keep no texts, so hits are shown by id alone.")
@click.option("--backend", type=click.Choice(list(BACKENDS)), help="Engine that keeps the documents, at --url.")
@click.option("--url", help="Address of the engine; docs/guides/engines.md has examples.")
@click.option("--collection", help="Name in the engine.  [default: tercet-INDEX]")
@click.option("--undo", is_flag=True, help="Switch back to the model before the last --model.")
@click.option("--remove", multiple=True, metavar="ID", help="Remove a document; may be repeated.")
@click.option("--remove-listed", type=FILE, help="Remove the documents whose ids this file has, one a line.")
@click.option("--update", type=DATA, metavar="DATA", help="Add documents, or replace those with the same ids.")
@click.option("--merge", is_flag=True, help="Join small segments and free the space of removed documents.")
@table_options
@click.pass_context
def index(
    context: click.Context,
    source: Path,
    output: Path | None,
    model: Path | None,
    parts: str | None,
    doc_vectors: Path | None,
    **how: Any,
) -> None:
    """Index DATA's documents for a model or by BM25 with -o, or describe, switch or change an INDEX.

    With a model, documents are read one by one, so DATA may be larger than memory, unless the model scores columns;
    BM25 reads documents twice. Each change happens as a whole or not at all: first the model, then removing, updating
    and merging. A running tercet serve takes a change up. An upload to an engine that was interrupted goes on
    when the same command is given again.
    """
    if parts is not None and model is None:
        raise click.UsageError("--parts chooses learned parts of a --model")
    text_model = None if model is None else _with_parts(open_model(model), parts)
    if text_model is not None:
        remember_columns(text_model)
    new, changes = ({name: how[name] for name in names if name in how} for names in (NEW_INDEX, CHANGES))
    if output is not None:
        refuse_given(context, CHANGES, f"changes an index that is there: tercet index {output} …, without -o")
        _build(context, source, output, text_model, doc_vectors, **new)
        return
    refuse_given(context, ("replace", *NEW_INDEX[1:]), f"is for a new index; to make one of {source}, add -o INDEX")
    if not (source / MANIFEST_NAME).is_file():
        raise click.UsageError(f"{source} is no index; to make one of it, add -o INDEX")
    if model is not None and changes["undo"]:
        raise click.UsageError("--undo switches back to the model before; leave out --model")
    switched = text_model
    opened = open_index(source)
    if switched is not None or changes["undo"]:
        _switch(source, opened, switched)
    documents = {name: value for name, value in changes.items() if name != "undo"}
    if any(documents.values()):
        _change(source, opened, doc_vectors, **documents)
    elif switched is None and not changes["undo"]:
        _describe(source, opened)


def _build(
    context: click.Context,
    data: Path,
    output: Path,
    text_model: TextModel | None,
    doc_vectors: Path | None,
    *,
    language: str | None,
    no_texts: bool,
    backend: str | None,
    url: str | None,
    collection: str | None,
) -> None:
    if (backend is None) != (url is None) or (collection is not None and url is None):
        named = ", ".join(BACKENDS)
        raise click.UsageError(f"--backend (one of {named}) and --url go together; --collection is for them")
    if backend is not None and no_texts:
        raise click.UsageError(f"--no-texts is for an embedded index; {backend} scores candidates by their texts")
    if backend is None:
        check_output(context, output, INDEX)
    elif not engine_index(backend).is_interrupted(output):  # else an upload goes on
        check_output(context, output, engine_index(backend).kind)
    is_bm25 = text_model is None
    if not is_bm25 and language is not None:
        raise click.UsageError("--language is for BM25; --model has its own")
    if text_model is None and doc_vectors is not None:
        raise click.UsageError("--doc-vectors are for a --model that was learned with some")
    docs = documents_of(data) if text_model is None else documents_for(text_model, data, doc_vectors)
    analyzer = analyzer_of(language)
    if text_model is None and isinstance(docs, Iterator):  # of a file, which is read once more
        text_model, analyzer = TextModel.bm25((document[1] for document in docs), analyzer), None
        text_model = with_columns(text_model, data)
        docs = documents_of(data)
    settings: dict[str, Any] = {"analyzer": analyzer, "progress": DocumentCount()}
    built: BaseIndex
    if backend is None or url is None:
        built = Index.build(docs, text_model, output, keep_texts=not no_texts, **settings)
    else:
        built = engine_index(backend).build(docs, text_model, output, url=url, collection=collection, **settings)
    how = f", BM25 {_words(built.model)}" if is_bm25 and isinstance(built.model, TextModel) else ""
    echo(f"{output}: {_size(built)}{how}")
    _tell_taught(output)


def _with_parts(model: TextModel, parts: str | None) -> TextModel:
    """The model with the parts that were named, if any were."""
    return model if parts is None else model.with_parts([name.strip() for name in parts.split(",") if name.strip()])


def _size(index: BaseIndex) -> str:
    n_words = (index.model.n_words if isinstance(index.model, TextModel) else None) or n_terms(index.model)
    documents = "1 document" if len(index) == 1 else f"{len(index):,} documents"
    return f"{documents}, {'1 word' if n_words == 1 else f'{n_words:,} words'}"


def _describe(folder: Path, opened: BaseIndex) -> None:
    echo(f"{folder}: {_size(opened)}{_segments(opened)}")
    for entry in opened.promotions:
        echo(str(entry))
    if not opened.promotions:
        echo("no promotions; its model is the one that it was made with")


def _segments(index: BaseIndex) -> str:
    if not isinstance(index, Index):
        return ""
    return ", in 1 segment" if index.n_segments == 1 else f", in {index.n_segments:,} segments"


def _switch(folder: Path, opened: BaseIndex, model: TextModel | None) -> None:
    """Promote a model, which must tokenize documents alike; without one, take the last promotion back."""
    entry = opened.take_back() if model is None else opened.promote(model)
    took_back = "" if entry.undoes is None else f", promotion {entry.undoes} is taken back"
    echo(f"{folder}: promotion {entry.number}, {entry.before} -> {entry.after}{took_back}")


def _change(
    folder: Path,
    opened: BaseIndex,
    doc_vectors: Path | None,
    *,
    remove: tuple[str, ...],
    remove_listed: Path | None,
    update: Path | None,
    merge: bool,
) -> None:
    if merge and not isinstance(opened, Index):
        raise InputError(f"{folder} has its documents in another engine, which merges by itself; --merge is not for it")
    before, words = len(opened), ""
    gone = [*remove, *(_listed(remove_listed) if remove_listed is not None else ())]
    if gone:
        opened.remove(gone)
    if update is not None:
        model = opened.model
        if isinstance(model, TextModel):
            remember_columns(model)
        docs = documents_for(model, update, doc_vectors) if isinstance(model, TextModel) else documents_of(update)
        lost_words: Counter[str] = Counter()
        grows = isinstance(opened, Index) and isinstance(model, TextModel) and can_grow(model)
        if isinstance(model, TextModel) and not grows and not isinstance(docs, Mapping):
            docs = _with_words_noted(docs, model, lost_words)
        n_words = n_terms(model)
        opened.replace(docs, DocumentCount())
        n_new = n_terms(opened.model) - n_words
        words = "" if not n_new else ", 1 new word" if n_new == 1 else f", {n_new:,} new words"
        _tell_lost_words(lost_words)
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


def _with_words_noted(docs: Iterable[Any], model: TextModel, new: Counter[str]) -> Iterator[Any]:
    """Documents as they are, while it is noted which of their words the model of the index does not know."""
    for document in docs:
        new.update(model.doc_vectorizer.unknown_words(document[1]))
        yield document


def _tell_lost_words(new: Counter[str]) -> None:
    """Say which words are not found, since the model cannot take in new ones, or an engine keeps the documents."""
    if new:
        examples = ", ".join(repr(word) for word, _ in new.most_common(3))
        known = f"note: {len(new):,} of the words are new to the index, such as {examples}"
        echo(f"{known}; nothing is found by them until all documents are indexed anew, with -o and --replace", err=True)


def _tell_taught(output: Path) -> None:
    """What was taught to the index that was here before counts for the new one, too, and nobody is to be surprised."""
    taught = taught_of(output)
    if taught.exists():
        echo(f"note: {taught} stays: tercet serve applies what was taught to the new index", err=True)


def _listed(path: Path) -> Iterator[str]:
    yield from (text for _, text in open_lines(path) if text.strip())
