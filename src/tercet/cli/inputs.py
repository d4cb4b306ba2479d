"""Turning what was typed into texts and models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import click

from tercet.adapters.ir_datasets import PREFIX, read_ir_datasets
from tercet.data import (
    JudgedTexts,
    LabelledTexts,
    iter_corpus,
    read_20newsgroups,
    read_beir,
    read_corpus,
    read_labelled_folder,
    read_qrels,
    read_quepid,
    read_queries,
    recognise,
)
from tercet.data.beir import plain_or_packed
from tercet.data.lines import parse_json_object, write_atomically
from tercet.data.quepid import is_quepid
from tercet.errors import BundleError, FormatError, InputError
from tercet.fitting.text_model import TextModel
from tercet.loading import load
from tercet.search import BaseIndex

ONLY_SPLIT = "train"  # what judgements named by --qrels are called, so that `fit` learns from them
Qrels = dict[str, dict[str, int]]

DATA_POINTER = "data.json"  # beside a model that `fit` wrote: where its texts are, for `learn`
POINTED_TO = ("data", "corpus", "queries")


@dataclass(frozen=True)
class Labelled:
    """Labelled texts, with a test part when the data has one."""

    train: LabelledTexts
    test: LabelledTexts | None


def is_ir_datasets(data: Path) -> bool:
    """Whether DATA names a collection of ir_datasets."""
    return str(data).startswith(PREFIX)


def kind_of(data: Path) -> str:
    """What DATA is: a kind that `recognise` knows, or ``"ir_datasets"``."""
    return "ir_datasets" if is_ir_datasets(data) else recognise(data)


def open_data(
    data: Path | None, corpus: Path | None, queries: Path | None, qrels: Path | None, kind: str | None = None
) -> JudgedTexts | Labelled:
    """Read the texts that were named; what they are is recognised, unless their kind is known, and printed."""
    if data is None:
        if corpus is None or queries is None:
            raise click.UsageError("name DATA, or --corpus and --queries")
        return read_files(corpus, queries, qrels)
    if corpus is not None or queries is not None:
        raise click.UsageError("--corpus and --queries stand in DATA's place; name one or the other")
    return read_data(data, kind or kind_of(data), qrels)


def read_files(corpus: Path, queries: Path | None, qrels: Path | None) -> JudgedTexts:
    """Texts that are named file by file."""
    query_texts = {} if queries is None else read_queries(queries)
    splits = {} if qrels is None else {ONLY_SPLIT: read_judgements(qrels, query_texts)}
    texts = JudgedTexts(read_corpus(corpus), query_texts, splits)
    describe(str(corpus), "files", texts)
    return texts


def read_data(data: Path, kind: str, qrels: Path | None) -> JudgedTexts | Labelled:
    """Read the texts of DATA, whose kind is known, and print what they are."""
    if kind in ("beir", "ir_datasets"):
        texts = read_beir(data) if kind == "beir" else read_ir_datasets(str(data))
        if qrels is not None:
            texts = replace(texts, qrels={ONLY_SPLIT: read_judgements(qrels, texts.queries)})
        describe(str(data), "a BEIR folder" if kind == "beir" else "a collection of ir_datasets", texts)
        return texts
    if kind == "labelled-folder":
        labelled = read_labelled_folder(data)
        click.echo(f"{data}: {len(labelled.texts):,} texts in {len(set(labelled.labels))} labelled folders")
        return Labelled(labelled, None)
    if kind == "20newsgroups":
        train, test = read_20newsgroups(data)
        click.echo(
            f"{data}: 20 Newsgroups, {len(train.texts):,} training and {len(test.texts):,} test posts in "
            f"{len(set(train.labels))} groups"
        )
        return Labelled(train, test)
    letor = "; feature vectors have verbs of their own: tercet letor fit, rank, eval, compare"
    raise InputError(
        f"{data} is recognised as {kind!r}; this verb takes a BEIR folder, a folder of labelled texts or the "
        f"20 Newsgroups archive{letor if kind.startswith('letor') else ''}"
    )


def read_judgements(path: Path, queries: Mapping[str, str] | None) -> Qrels:
    """Judgements by query id; those of Quepid name queries by their texts, so it takes the queries to read them."""
    if not is_quepid(path):
        return read_qrels(path)
    if queries is None:
        raise InputError(f"{path} names queries by their texts, as Quepid does; name --queries, too")
    judgements = read_quepid(path)
    if judgements.unrated:
        click.echo(f"note: {path}: {len(judgements.unrated):,} queries without a rating are left out", err=True)
    return judgements.qrels(queries)


def describe(name: str, kind: str, texts: JudgedTexts) -> None:
    splits = ", ".join(f"{split} {len(judged):,}" for split, judged in texts.qrels.items())
    click.echo(
        f"{name}: {kind}, {len(texts.docs):,} documents, {len(texts.queries):,} queries"
        + (f" (judged: {splits})" if splits else "")
    )


def open_judged(data: Path | None, corpus: Path | None, queries: Path | None, qrels: Path | None) -> JudgedTexts:
    texts = open_data(data, corpus, queries, qrels)
    if isinstance(texts, Labelled):
        raise InputError(f"{data} holds labelled texts; this verb needs documents and queries, as in a BEIR folder")
    return texts


def documents_of(data: Path | None, corpus: Path | None) -> Iterable[tuple[str, str]]:
    """Documents, by id, as they are read where the format allows it."""
    if corpus is not None:
        return iter_corpus(corpus)
    assert data is not None
    kind = kind_of(data)
    if kind == "beir":
        return iter_corpus(plain_or_packed(data, "corpus.jsonl"))
    texts = read_data(data, kind, None)
    if isinstance(texts, Labelled):
        parts = [part for part in (texts.train, texts.test) if part is not None]
        return chain.from_iterable(zip(part.names, part.texts, strict=True) for part in parts)
    return texts.docs.items()


def open_model(path: Path) -> TextModel:
    """The text model in a folder, or that of the index in it."""
    saved = load(path)
    model = saved.model if isinstance(saved, BaseIndex) else saved
    if not isinstance(model, TextModel):
        raise BundleError(
            f"{path} holds {type(model).__name__}, which has no words; an index of texts or a text model is needed here"
        )
    return model


def write_data_pointer(model: Path, **paths: Path | None) -> None:
    """Note where the data of a model are; what has no path is left out."""
    record = {
        name: str(path) if str(path).startswith(PREFIX) else str(path.absolute())
        for name, path in paths.items()
        if path is not None
    }
    with write_atomically(model / DATA_POINTER) as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_data_pointer(model: Path) -> dict[str, Path]:
    """The paths noted beside a model; none for a model without the file."""
    file = model / DATA_POINTER
    if not file.is_file():
        return {}
    record = parse_json_object(file.read_text(encoding="utf-8"), file, 1)
    for name, path in record.items():
        if name not in POINTED_TO or not isinstance(path, str) or not path:
            raise FormatError(file, 1, f"found {name!r}: {path!r}; it names {', '.join(POINTED_TO)} by their paths")
    return {name: Path(path) for name, path in record.items()}
