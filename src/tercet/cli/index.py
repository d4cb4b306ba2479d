"""``tercet index``"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tercet.cli.inputs import documents_for, documents_of, open_model
from tercet.cli.options import (
    DATA,
    FILE,
    FOLDER,
    NEW,
    check_output,
    doc_vectors_option,
    quiet_option,
    refuse_given,
    replace_option,
    table_options,
)
from tercet.cli.progress import DocumentCount
from tercet.cli.serve import journal_of
from tercet.cli.terminal import echo
from tercet.data.lines import open_lines
from tercet.engines.opening import BACKENDS, open_index
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.search.base import n_terms
from tercet.search.folder import UPLOAD
from tercet.store.kinds import INDEX
from tercet.text import Analyser


@click.command()
@click.argument("data", type=DATA, required=False)
@click.option("--corpus", type=FILE, help="Documents, BEIR JSONL or a table, instead of DATA.")
@table_options
@click.option("--model", type=FOLDER, help="A new index: the text model to search with.  [default: BM25]")
@doc_vectors_option
@click.option(
    "--stem",
    metavar="LANGUAGE|none",
    help="BM25: cut words to their stems, as in --stem german, or not.  [default: English stems]",
)
@click.option("-o", "--output", type=NEW, required=True, help="Folder of the index.")
@replace_option
@click.option("--add", is_flag=True, help="Add DATA's documents to the index that is there.")
@click.option("--update", is_flag=True, help="The same, in the place of documents with the same ids.")
@click.option("--remove", multiple=True, metavar="ID", help="Remove a document; may be given again and again.")
@click.option("--remove-listed", type=FILE, help="Remove the documents whose ids this file has, one a line.")
@click.option("--merge", is_flag=True, help="Join small segments and free the space of removed documents.")
@click.option("--no-texts", is_flag=True, help="A new index keeps no texts, so hits are shown by id alone.")
@click.option("--backend", type=click.Choice(list(BACKENDS)), help="The engine that keeps a new index's documents.")
@click.option("--url", help="With --backend: the engine's address. docs/guides/engines.md has examples.")
@click.option("--collection", help="With --backend: name of the new collection.  [default: tercet-OUTPUT]")
@quiet_option
@click.pass_context
def index(
    context: click.Context,
    data: Path | None,
    corpus: Path | None,
    model: Path | None,
    doc_vectors: Path | None,
    stem: str | None,
    output: Path,
    add: bool,
    update: bool,
    remove: tuple[str, ...],
    remove_listed: Path | None,
    merge: bool,
    no_texts: bool,
    backend: str | None,
    url: str | None,
    collection: str | None,
    quiet: bool,
) -> None:
    """Index DATA's documents for a model, or by BM25, or change an index.

    With a model, documents are read one by one, so DATA may be larger than memory, unless the model has fields or
    numbers, whose columns DATA must have; BM25 reads them twice. Removing
    comes first, then adding or updating, then merging; each of these happens as a whole or not at all. An upload to
    another engine that was interrupted goes on where it was when the same command is given again.
    """
    progress = None if quiet else DocumentCount()
    changes = add or update or remove or remove_listed is not None or merge
    if (data is None) == (corpus is None) and (add or update or not changes):
        raise click.UsageError("name DATA or --corpus")
    if not changes:
        if (backend is None) != (url is None) or (collection is not None and url is None):
            named = ", ".join(BACKENDS)
            raise click.UsageError(f"--backend (one of {named}) and --url go together; --collection is for them")
        if model is not None and stem is not None:
            raise click.UsageError("--stem is for BM25; --model has its own")
        if not (output / UPLOAD).is_file():  # else an upload goes on
            check_output(context, output, INDEX if backend is None else BACKENDS[backend].kind)
        text_model = None if model is None else open_model(model)
        if text_model is None and doc_vectors is not None:
            raise click.UsageError("--doc-vectors are for a --model that was learned with some")
        docs = (
            documents_of(data, corpus) if text_model is None else documents_for(text_model, data, corpus, doc_vectors)
        )
        keep_texts = not no_texts
        analyser = None if stem is None else Analyser(stop_words="english", stemmer=None if stem == "none" else stem)
        if text_model is None and isinstance(docs, Iterator):  # of a file, which is read once more
            text_model, analyser = TextModel.bm25((document[1] for document in docs), analyser), None
            docs = documents_of(data, corpus)
        settings: dict[str, Any] = {"analyser": analyser, "keep_texts": keep_texts, "progress": progress}
        built: BaseIndex
        if backend is not None and url is not None:
            built = BACKENDS[backend].build(docs, text_model, output, url=url, collection=collection, **settings)
        else:
            built = Index.build(docs, text_model, output, **settings)
        how = "" if model is not None else f", BM25 without English stop words, {_stems(stem)}"
        n_words = (built.model.n_words if isinstance(built.model, TextModel) else None) or n_terms(built.model)
        documents = "1 document" if len(built) == 1 else f"{len(built):,} documents"
        words = "1 word" if n_words == 1 else f"{n_words:,} words"
        echo(f"{output}: {documents}, {words}{how}")
        _tell_journal(output)
        return
    if model is not None or stem is not None or no_texts:
        raise click.UsageError("--model, --stem and --no-texts are for a new index")
    if backend is not None or url is not None or collection is not None:
        raise click.UsageError("--backend, --url and --collection are for a new index; a folder knows its own")
    refuse_given(context, ("replace",), "is for a new index; --update takes the places of documents with the same ids")
    if add and update:
        raise click.UsageError("--add refuses documents that are there and --update takes their places; name one")
    if (data is not None or corpus is not None) and not (add or update):
        raise click.UsageError("DATA is for --add and --update")
    opened = open_index(output)
    if merge and not isinstance(opened, Index):
        raise InputError(f"{output} has its documents in another engine, which merges by itself; --merge is not for it")
    before = len(opened)
    gone = [*remove, *(_listed(remove_listed) if remove_listed is not None else ())]
    if gone:
        opened.remove(gone)
    if add or update:
        kept = opened.model
        docs = (
            documents_for(kept, data, corpus, doc_vectors)
            if isinstance(kept, TextModel)
            else documents_of(data, corpus)
        )
        new_words: Counter[str] = Counter()
        if isinstance(kept, TextModel) and not isinstance(docs, Mapping):
            docs = _with_words_noted(docs, kept, new_words)
        (opened.add if add else opened.replace)(docs, progress)
        _tell_new_words(new_words)
    summary = f"{output}: {before:,} documents before, {len(opened):,} now"
    if isinstance(opened, Index):
        if merge:
            opened.merge()
        summary += ", in 1 segment" if opened.n_segments == 1 else f", in {opened.n_segments:,} segments"
    echo(summary)


def _stems(language: str | None) -> str:
    if language == "none":
        return "words as they are written"
    return "words cut to their English stems" if language is None else f"words cut to their {language} stems"


def _with_words_noted(docs: Iterable[Any], model: TextModel, new: Counter[str]) -> Iterator[Any]:
    """Documents as they are, while it is noted which of their words the model of the index does not know."""
    for document in docs:
        new.update(model.doc_vectoriser.unknown_words(document[1]))
        yield document


def _tell_new_words(new: Counter[str]) -> None:
    if new:
        examples = ", ".join(repr(word) for word, _ in new.most_common(3))
        known = f"note: {len(new):,} of the words are new to the index, such as {examples}"
        echo(f"{known}; nothing is found by them until all documents are indexed anew, with --replace", err=True)


def _tell_journal(output: Path) -> None:
    """What was taught to the index that was here before counts for the new one, too, and nobody is to be surprised."""
    journal = journal_of(output)
    if journal.exists():
        echo(f"note: {journal} stays: tercet serve applies what was taught to the new index", err=True)


def _listed(path: Path) -> Iterator[str]:
    yield from (text for _, text in open_lines(path) if text.strip())
