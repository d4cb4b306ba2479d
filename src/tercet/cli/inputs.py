"""Open the texts and models that a command line names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import click

from tercet.adapters.ir_datasets import PREFIX, read_ir_datasets
from tercet.cli.options import bad_rows, evidence_settings, naming_table_options, project_of, table_settings
from tercet.cli.terminal import echo
from tercet.data import (
    Documents,
    JudgedTexts,
    LabeledTexts,
    read_20newsgroups,
    read_beir,
    read_labeled_folder,
    read_queries,
    read_table,
    recognize,
)
from tercet.data.beir import plain_or_packed
from tercet.data.click_counts import ClickCounts, read_click_counts
from tercet.data.click_tables import read_click_log
from tercet.data.clicks import ClickLog
from tercet.data.documents import DocumentStream, gather_documents
from tercet.data.judgements import JudgedQueries
from tercet.data.judgements import read_judgements as read_any_judgements
from tercet.data.recognition import TableKind
from tercet.data.roles import DocumentRoles, document_roles
from tercet.data.tables import DataTable, open_table
from tercet.engines import open_index
from tercet.errors import BundleError, InputError
from tercet.fitting.text_model import TextModel
from tercet.loading import load
from tercet.search import BaseIndex
from tercet.store import bundle_kind
from tercet.store.kinds import REMOTE_KINDS
from tercet.text import TOKENIZERS, Analyzer

ONLY_SPLIT = "train"  # split of the judgements that --judgements names
Qrels = dict[str, dict[str, int]]

_WORDS_NAMED = 5  # unknown words in a note
TABLES = get_args(TableKind)  # kinds of tables of documents


@dataclass(frozen=True)
class Labeled:
    """Labeled texts, with a test part or None."""

    train: LabeledTexts
    test: LabeledTexts | None


def is_ir_datasets(data: Path) -> bool:
    """Return True if DATA names a collection of ir_datasets."""
    return str(data).startswith(PREFIX)


def kind_of(data: Path) -> str:
    """Return the kind of DATA by `recognize`, or ``"ir_datasets"``; a file with table options is a table."""
    if is_ir_datasets(data):
        return "ir_datasets"
    if data.is_file() and replace(table_settings(data), columns={}):
        return "documents"
    with naming_table_options():
        return recognize(data)


def open_data(
    data: Path, queries: Path | None, qrels: Path | None, *, known_only: bool = False
) -> JudgedTexts | Labeled:
    """Read texts and print their size; ``known_only`` refuses judgements of unknown documents."""
    kind = kind_of(data)
    if kind in TABLES:
        return _read_files(data, queries, qrels, known_only)
    if kind in ("beir", "ir_datasets"):
        texts = read_beir(data) if kind == "beir" else read_ir_datasets(str(data))
        if queries is not None:
            texts = replace(texts, queries=read_query_texts(queries))
        if qrels is not None:
            judged = read_judgements(qrels, texts.queries, texts.docs if known_only else None)
            texts = replace(texts, qrels={ONLY_SPLIT: judged.qrels})
        _describe(str(data), "a BEIR folder, " if kind == "beir" else "a collection of ir_datasets, ", texts)
        return texts
    if kind in ("labeled-folder", "20newsgroups"):
        if qrels is not None or queries is not None:
            option = "--queries" if qrels is None else "--judgements"
            raise InputError(f"{data} holds labeled texts, judged by their classes alone; leave out {option}")
        return _read_labeled(data, kind)
    letor = "; feature vectors have verbs of their own: tercet letor fit, rank, eval"
    raise InputError(
        f"{data} is recognized as {kind!r}; this verb takes a table of documents (CSV, JSONL or Parquet), a BEIR "
        f"folder, a folder of labeled texts or the 20 Newsgroups archive{letor if kind.startswith('letor') else ''}"
    )


def _read_labeled(data: Path, kind: str) -> Labeled:
    if kind == "labeled-folder":
        labeled = read_labeled_folder(data)
        echo(f"{data}: {len(labeled.texts):,} texts in {len(set(labeled.labels))} labeled folders")
        return Labeled(labeled, None)
    train, test = read_20newsgroups(data)
    echo(
        f"{data}: 20 Newsgroups, {len(train.texts):,} training and {len(test.texts):,} test posts in "
        f"{len(set(train.labels))} groups"
    )
    return Labeled(train, test)


def _read_files(corpus: Path, queries: Path | None, qrels: Path | None, known_only: bool) -> JudgedTexts:
    """Read texts from single files; without a file of queries, the judgements name queries by text."""
    docs = read_documents(corpus)
    query_texts = None if queries is None else read_query_texts(queries)
    splits: dict[str, Qrels] = {}
    if qrels is not None:
        judged = read_judgements(qrels, query_texts, docs if known_only else None)
        query_texts, splits = judged.queries, {ONLY_SPLIT: judged.qrels}
        if not query_texts:
            raise InputError(f"{qrels} names queries by their ids; give their texts, too: --queries FILE")
    texts = JudgedTexts(docs, query_texts or {}, splits)
    _describe(str(corpus), "", texts)
    return texts


def read_documents(path: Path) -> Documents:
    """Read the documents of a table, and print its columns."""
    with naming_table_options():
        table, roles = _open_documents(path)
        docs = gather_documents(table, roles, bad_rows())
    _tell_formats(path, docs.formats)
    return docs


def _tell_formats(path: Path, formats: Mapping[str, str]) -> None:
    if formats:
        tell_once(f"{path}: {'; '.join(f'{column}: {name}' for column, name in formats.items())}")


def _open_documents(path: Path) -> tuple[DataTable, DocumentRoles]:
    settings = table_settings(path)
    table = settings.open(path)
    roles = document_roles(table, settings.id, settings.text)
    private = project_of(click.get_current_context()).private
    stored_fields = tuple(name for name in roles.stored_fields if name not in private)
    roles = replace(roles, stored_fields=stored_fields, left_out=private)
    tell_once(f"{path}: {table.form}; {roles}")
    return table, roles


def with_columns(model: TextModel, data: Path) -> TextModel:
    """Return the model with the names of the document columns."""
    if kind_of(data) not in TABLES:
        return model
    _, roles = _open_documents(data)
    return replace(model, id_column=roles.id, text_columns=roles.text)


def read_query_texts(path: Path) -> dict[str, str]:
    """Read the queries of a table."""
    with naming_table_options():
        return read_queries(path, **evidence_settings(path))


def tell_once(message: str) -> None:
    """Print a line once, since a file may be opened twice."""
    context = click.get_current_context(silent=True)
    printed = set() if context is None else context.meta.setdefault("tercet.said", set())
    if message not in printed:
        printed.add(message)
        echo(message)


def read_parallel(path: Path, docs: Mapping[str, str]) -> Documents:
    """Read a table of translations: the id of a document and its text in another language."""
    translated = read_documents(path)
    unknown = next((doc_id for doc_id in translated if doc_id not in docs), None)
    if unknown is not None:
        message = f"there is no document {unknown!r}; each row needs the id of a document and its translation"
        raise InputError(f"{path}: {message}")
    echo(f"{path}: {len(translated):,} translations")
    return translated


def read_judgements(path: Path, queries: Mapping[str, str] | None, docs: Container[str] | None = None) -> JudgedQueries:
    """Read judgements of any kind, and print the skipped rows; without queries, they name queries by text."""
    with naming_table_options():
        judged = read_any_judgements(path, queries, docs, **evidence_settings(path))
    if judged.form:
        echo(f"{path}: {judged.form}")
    if judged.n_ungraded:
        rows = "1 row" if judged.n_ungraded == 1 else f"{judged.n_ungraded:,} rows"
        echo(f"note: {path}: left out, without a grade: {rows}", err=True)
    return judged


def _describe(name: str, kind: str, texts: JudgedTexts) -> None:
    splits = ", ".join(f"{split} {len(judged):,}" for split, judged in texts.qrels.items())
    documents = "1 document" if len(texts.docs) == 1 else f"{len(texts.docs):,} documents"
    queries = "1 query" if len(texts.queries) == 1 else f"{len(texts.queries):,} queries"
    judged = f" (judged: {splits})" if splits else ""
    echo(f"{name}: {kind}{documents}, {queries}{judged}")


def open_judged(data: Path, queries: Path | None = None, qrels: Path | None = None) -> JudgedTexts:
    """Read documents and queries; labeled texts are an error."""
    texts = open_data(data, queries, qrels)
    if isinstance(texts, Labeled):
        raise InputError(f"{data} holds labeled texts; this verb needs documents and queries, as in a BEIR folder")
    return texts


def documents_of(data: Path) -> Iterable[tuple[Any, ...]]:
    """Iterate over id, text and stored fields of documents, as a stream if the format allows."""
    kind = kind_of(data)
    if kind in TABLES:
        with naming_table_options():
            return DocumentStream(*_open_documents(data), bad_rows(), partial(_tell_formats, data))
    if kind == "beir":
        table = open_table(plain_or_packed(data, "corpus.jsonl"))
        return DocumentStream(table, document_roles(table))
    texts = open_data(data, None, None)
    if isinstance(texts, Labeled):
        parts = [part for part in (texts.train, texts.test) if part is not None]
        return chain.from_iterable(zip(part.names, part.texts, strict=True) for part in parts)
    return texts.docs.items()


def documents_for(model: TextModel, data: Path) -> Iterable[Any]:
    """Iterate over documents for a model; `Documents` in memory if the model scores columns."""
    return documents_of(data) if model.n_words is None else _with_columns(data)


def _with_columns(data: Path) -> Documents:
    kind = kind_of(data)
    if kind == "beir":
        return read_table(plain_or_packed(data, "corpus.jsonl"))
    if kind not in TABLES:
        raise InputError(f"{data} has no columns, and the model scores some; it takes a table or a BEIR folder")
    return read_documents(data)


def analyzer_of(language: str | None) -> Analyzer | None:
    """Return the analyzer of a --language, or None."""
    if language is None:
        return None
    if language in TOKENIZERS:
        return Analyzer(tokenizer=language)
    return Analyzer(stemmer=None if language == "none" else language)


def open_model(path: Path) -> TextModel:
    """Open a text model, or the text model of an index."""
    saved = open_index(path) if bundle_kind(path) in REMOTE_KINDS else load(path)
    model = saved.model if isinstance(saved, BaseIndex) else saved
    if not isinstance(model, TextModel):
        raise BundleError(
            f"{path} holds {type(model).__name__}, which has no words; an index of texts or a text model is needed here"
        )
    return model


def read_clicks(paths: tuple[Path, ...]) -> ClickLog:
    """Read a click log in one file, or in the two files of UBI."""
    with naming_table_options():
        log = read_click_log(paths, **evidence_settings(paths[0]))
    echo(f"{', '.join(map(str, paths))}: {log.form}")
    n_clicked = sum(bool(impression.clicked) for impression in log.impressions)
    lists = "1 list" if len(log.impressions) == 1 else f"{len(log.impressions):,} lists"
    echo(f"{lists}, {n_clicked:,} with a click")
    return log


def read_evidence(path: Path) -> ClickCounts:
    """Read aggregated clicks."""
    with naming_table_options():
        counts = read_click_counts(path, **evidence_settings(path))
    echo(f"{path}: {counts.form}")
    echo(f"{len(counts.queries):,} pairs of a query and a document, {counts.clicked.sum():,.0f} clicks")
    return counts


def tell_unknown(model: TextModel, queries: Mapping[str, str], path: Path | None = None) -> None:
    """Print a note about words of queries that a model does not know."""
    unknown = [model.query_vectorizer.unknown_words(text) for text in queries.values()]
    counts = Counter(word for words in unknown for word in words)
    if counts:
        named = ", ".join(f"{word} ({count:,})" for word, count in counts.most_common(_WORDS_NAMED))
        where = "" if path is None else f"{path}: "
        affected = f"{sum(map(bool, unknown)):,} of {len(unknown):,} queries"
        echo(f"note: {where}{affected} have words that the model does not know: {named}", err=True)
