"""Turning what was typed into texts and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from tercet.adapters.ir_datasets import PREFIX, read_ir_datasets
from tercet.cli.options import bad_rows, evidence_settings, naming_table_options, project_of, table_settings
from tercet.cli.terminal import echo
from tercet.data import (
    Documents,
    JudgedTexts,
    LabelledTexts,
    read_20newsgroups,
    read_beir,
    read_corpus,
    read_labelled_folder,
    read_queries,
    recognise,
)
from tercet.data.beir import iter_corpus_with_fields, plain_or_packed
from tercet.data.click_counts import ClickCounts, read_click_counts
from tercet.data.click_tables import read_click_log
from tercet.data.clicks import ClickLog
from tercet.data.documents import DocumentStream, as_documents, gather_documents
from tercet.data.judgements import JudgedQueries, queries_of_table
from tercet.data.judgements import read_judgements as read_any_judgements
from tercet.data.lines import parse_json_object
from tercet.data.own_vectors import read_own_vectors
from tercet.data.recognition import TableKind
from tercet.data.roles import DocumentRoles, document_roles
from tercet.data.tables import DataTable, first_line, is_parquet
from tercet.engines import open_index
from tercet.errors import BundleError, InputError
from tercet.fitting.text_model import TextModel
from tercet.loading import load
from tercet.search import BaseIndex
from tercet.store import bundle_kind
from tercet.store.kinds import REMOTE_KINDS
from tercet.text import TOKENIZERS, Analyzer

ONLY_SPLIT = "train"  # what judgements named by --judgements are called, so that `fit` learns from them
Qrels = dict[str, dict[str, int]]

_WORDS_NAMED = 5  # of those that a model does not know
TABLES = get_args(TableKind)  # as DATA, each is a table of documents


@dataclass(frozen=True)
class Labelled:
    """Labelled texts, with a test part when the data has one."""

    train: LabelledTexts
    test: LabelledTexts | None


def is_ir_datasets(data: Path) -> bool:
    """Whether DATA names a collection of ir_datasets."""
    return str(data).startswith(PREFIX)


def kind_of(data: Path) -> str:
    """What DATA is: a kind that `recognise` knows, or ``"ir_datasets"``; a file of which more is said is a table."""
    if is_ir_datasets(data):
        return "ir_datasets"
    if data.is_file() and replace(table_settings(data), columns={}):
        return "documents"
    with naming_table_options():
        return recognise(data)


def open_data(
    data: Path, queries: Path | None, qrels: Path | None, *, known_only: bool = False
) -> JudgedTexts | Labelled:
    """Read the texts that were named, and print what they are.

    ``known_only`` refuses judgements of documents that there are not.
    """
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
    if kind in ("labelled-folder", "20newsgroups"):
        if qrels is not None or queries is not None:
            option = "--queries" if qrels is None else "--judgements"
            raise InputError(f"{data} holds labelled texts, whose classes are all there is; leave out {option}")
        return _read_labelled(data, kind)
    letor = "; feature vectors have verbs of their own: tercet letor fit, rank, eval, compare"
    raise InputError(
        f"{data} is recognised as {kind!r}; this verb takes a table of documents (CSV, JSONL or Parquet), a BEIR "
        f"folder, a folder of labelled texts or the 20 Newsgroups archive{letor if kind.startswith('letor') else ''}"
    )


def _read_labelled(data: Path, kind: str) -> Labelled:
    if kind == "labelled-folder":
        labelled = read_labelled_folder(data)
        echo(f"{data}: {len(labelled.texts):,} texts in {len(set(labelled.labels))} labelled folders")
        return Labelled(labelled, None)
    train, test = read_20newsgroups(data)
    echo(
        f"{data}: 20 Newsgroups, {len(train.texts):,} training and {len(test.texts):,} test posts in "
        f"{len(set(train.labels))} groups"
    )
    return Labelled(train, test)


def _read_files(corpus: Path, queries: Path | None, qrels: Path | None, known_only: bool) -> JudgedTexts:
    """Texts that are named file by file; without queries, they are those that the judgements name by their texts."""
    docs = read_documents(corpus)
    query_texts = None if queries is None else read_query_texts(queries)
    splits: dict[str, Qrels] = {}
    if qrels is not None:
        judged = read_judgements(qrels, query_texts, docs if known_only else None)
        query_texts, splits = judged.queries, {ONLY_SPLIT: judged.qrels}
        if not query_texts:
            raise InputError(f"{qrels} names queries by their ids; name their texts: --queries")
    texts = JudgedTexts(docs, query_texts or {}, splits)
    _describe(str(corpus), "", texts)
    return texts


def read_documents(path: Path) -> Documents:
    """The documents of a corpus of BEIR or of a table, whose columns are told."""
    if is_beir_texts(path):
        return read_corpus(path)
    with naming_table_options():
        table, roles = _open_documents(path)
        docs = gather_documents(table, roles, bad_rows())
    _tell_formats(path, docs.formats)
    return docs


def _tell_formats(path: Path, formats: Mapping[str, str]) -> None:
    if formats:
        tell_once(f"{path}: {'; '.join(f'{column}: {name}' for column, name in formats.items())}")


def _open_documents(path: Path) -> tuple[DataTable, DocumentRoles]:
    said = table_settings(path)
    table = said.open(path)
    roles = document_roles(table, said.id, said.text)
    private = project_of(click.get_current_context()).private
    kept = tuple(name for name in roles.stored_fields if name not in private)
    roles = replace(roles, stored_fields=kept, left_out=private)
    tell_once(f"{path}: {table.form}; {roles}")
    return table, roles


def with_columns(model: TextModel, data: Path) -> TextModel:
    """The model with the columns of its documents, which it was learned from."""
    if kind_of(data) not in TABLES or is_beir_texts(data):
        return model
    _, roles = _open_documents(data)
    return replace(model, id_column=roles.id, text_columns=roles.text)


def read_query_texts(path: Path) -> dict[str, str]:
    """The queries of a file of BEIR or of a table."""
    if is_beir_texts(path):
        return read_queries(path)
    said = table_settings(path)
    with naming_table_options():
        return queries_of_table(said.open(path), bad_rows(), columns=said.columns)


def is_beir_texts(path: Path) -> bool:
    """Whether a file is the corpus or the queries of a BEIR folder, of which nothing else is said."""
    if replace(table_settings(path), columns={}) or is_parquet(path):
        return False
    with naming_table_options():
        line, first = first_line(path)
    return first.lstrip().startswith("{") and "_id" in parse_json_object(first, path, line)


def tell_once(message: str) -> None:
    """Say something that was not said yet; a file may be opened twice."""
    context = click.get_current_context(silent=True)
    said = set() if context is None else context.meta.setdefault("tercet.said", set())
    if message not in said:
        said.add(message)
        echo(message)


def read_judgements(path: Path, queries: Mapping[str, str] | None, docs: Container[str] | None = None) -> JudgedQueries:
    """Judgements of any kind, and what was left out of them; without queries, those are that it names by texts."""
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
    """Read documents and queries; labelled texts have no queries."""
    texts = open_data(data, queries, qrels)
    if isinstance(texts, Labelled):
        raise InputError(f"{data} holds labelled texts; this verb needs documents and queries, as in a BEIR folder")
    return texts


def documents_of(data: Path) -> Iterable[tuple[Any, ...]]:
    """Documents as they are read, where the format allows it: id, text, and stored fields if any."""
    kind = kind_of(data)
    if kind in TABLES:
        if is_beir_texts(data):
            return iter_corpus_with_fields(data)
        with naming_table_options():
            return DocumentStream(*_open_documents(data), bad_rows(), partial(_tell_formats, data))
    if kind == "beir":
        return iter_corpus_with_fields(plain_or_packed(data, "corpus.jsonl"))
    texts = open_data(data, None, None)
    if isinstance(texts, Labelled):
        parts = [part for part in (texts.train, texts.test) if part is not None]
        return chain.from_iterable(zip(part.names, part.texts, strict=True) for part in parts)
    return texts.docs.items()


def documents_for(model: TextModel, data: Path, doc_vectors: Path | None = None) -> Iterable[Any]:
    """The same for a model; `Documents`, in memory, where it scores columns or own vectors of theirs."""
    if model.n_dims:
        has_columns = kind_of(data) in (*TABLES, "beir")
        docs = _with_columns(data) if has_columns else as_documents({doc[0]: doc[1] for doc in documents_of(data)})
        return with_own_vectors(model, docs, doc_vectors)
    if doc_vectors is not None:
        raise InputError("--doc-vectors: the model was learned without own vectors")
    return documents_of(data) if model.n_words is None else _with_columns(data)


def with_own_vectors(model: TextModel, docs: Mapping[str, str], doc_vectors: Path | None) -> Mapping[str, str]:
    """Documents with the vectors that a model needs; as they are where it needs none."""
    if not model.n_dims:
        return docs
    if doc_vectors is None:
        raise InputError(
            f"the model has own vectors of {model.n_dims} numbers; name those of the documents: --doc-vectors FILE, or "
            "--vectors DOCS QUERIES"
        )
    return as_documents(docs).with_vectors(read_own_vectors(doc_vectors))


def _with_columns(data: Path) -> Documents:
    kind = kind_of(data)
    if kind == "beir":
        return read_documents(plain_or_packed(data, "corpus.jsonl"))
    if kind not in TABLES:
        raise InputError(f"{data} has no columns, and the model scores some; it takes a table or a BEIR folder")
    return read_documents(data)


def analyzer_of(language: str | None) -> Analyzer | None:
    """The analyzer of a --language; None where none was named."""
    if language is None:
        return None
    if language in TOKENIZERS:
        return Analyzer(tokenizer=language)
    return Analyzer(stemmer=None if language == "none" else language)


def open_model(path: Path) -> TextModel:
    """The text model in a folder, or that of the index in it."""
    saved = open_index(path) if bundle_kind(path) in REMOTE_KINDS else load(path)
    model = saved.model if isinstance(saved, BaseIndex) else saved
    if not isinstance(model, TextModel):
        raise BundleError(
            f"{path} holds {type(model).__name__}, which has no words; an index of texts or a text model is needed here"
        )
    return model


def read_clicks(paths: tuple[Path, ...]) -> ClickLog:
    """A click log, in one file or in the two of UBI."""
    with naming_table_options():
        log = read_click_log(paths, **evidence_settings(paths[0]))
    echo(f"{', '.join(map(str, paths))}: {log.form}")
    n_clicked = sum(bool(impression.clicked) for impression in log.impressions)
    lists = "1 list" if len(log.impressions) == 1 else f"{len(log.impressions):,} lists"
    echo(f"{lists}, {n_clicked:,} with a click")
    return log


def read_evidence(path: Path) -> ClickCounts:
    """Aggregated clicks."""
    with naming_table_options():
        counts = read_click_counts(path, **evidence_settings(path))
    echo(f"{path}: {counts.form}")
    echo(f"{len(counts.queries):,} pairs of a query and a document, {counts.clicked.sum():,.0f} clicks")
    return counts


def tell_unknown(model: TextModel, queries: Mapping[str, str], path: Path | None = None) -> None:
    """Print a line about words of queries that a model does not know, if there are any."""
    words = model.query_vectorizer
    unknown = [words.unknown_words(text) for text in queries.values()]
    n_affected = sum(map(bool, unknown))
    n_lost = int((np.diff(words.transform_queries(list(queries.values())).indptr) == 0).sum())
    said = []
    if n_affected:
        counts = Counter(word for found in unknown for word in found)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{word} ({count:,})" for word, count in ordered[:_WORDS_NAMED])
        more = f" and {len(ordered) - _WORDS_NAMED:,} more" if len(ordered) > _WORDS_NAMED else ""
        verb = "has" if n_affected == 1 else "have"
        of_all = f"{n_affected:,} of {len(unknown):,} queries"
        said.append(f"{of_all} {verb} words that the model does not know: {shown}{more}")
    if n_lost:
        said.append(f"{n_lost:,} {'has' if n_lost == 1 else 'have'} no word that it knows")
    if said:
        echo(f"note: {'' if path is None else f'{path}: '}{'; '.join(said)}", err=True)
