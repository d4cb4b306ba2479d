"""Turning what was typed into collections and models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from tercet.adapters.ir_datasets import PREFIX, read_ir_datasets
from tercet.data import (
    LabelledTexts,
    read_20newsgroups,
    read_beir,
    read_corpus,
    read_labelled_folder,
    read_quepid,
    read_queries,
    recognise,
)
from tercet.data import read_qrels as read_qrels_file
from tercet.data.quepid import is_quepid
from tercet.errors import BundleError, InputError
from tercet.fitting.model import TextModel
from tercet.loading import load

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
ANY = click.Path(exists=True, path_type=Path)
NEW = click.Path(path_type=Path)


class DataPath(click.Path):
    """A path, or ``ir_datasets:NAME``, which is none."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return Path(value) if str(value).startswith(PREFIX) else super().convert(value, parameter, context)


DATA = DataPath(exists=True, path_type=Path)


def is_ir_datasets(data: Path) -> bool:
    """Whether DATA names a collection of ir_datasets."""
    return str(data).startswith(PREFIX)


Qrels = dict[str, dict[str, int]]

ONLY_SPLIT = "train"  # what judgements named by --qrels are called, so that `fit` learns from them


@dataclass(frozen=True)
class Judged:
    """Documents, queries and judgements by split."""

    docs: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, Qrels] = field(default_factory=dict)

    def split(self, name: str) -> Qrels:
        if name not in self.qrels:
            known = ", ".join(sorted(self.qrels)) or "none"
            raise InputError(f"there are no judgements for the split {name!r}; there are: {known}")
        return self.qrels[name]

    def queries_of(self, name: str) -> dict[str, str]:
        """The queries judged in a split."""
        judged = self.split(name)
        unknown = next((qid for qid in judged if qid not in self.queries), None)
        if unknown is not None:
            raise InputError(f"the split {name!r} judges query {unknown!r}, which is not among the queries")
        return {qid: self.queries[qid] for qid in judged}


@dataclass(frozen=True)
class Labelled:
    """Labelled texts, with a test part when the data has one."""

    train: LabelledTexts
    test: LabelledTexts | None


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """DATA, or its parts as files."""
    options = [
        click.argument("data", type=DATA, required=False),
        click.option("--corpus", type=FILE, help="Documents as BEIR JSONL, instead of DATA."),
        click.option("--queries", type=FILE, help="Queries as BEIR JSONL, instead of DATA."),
        click.option("--qrels", type=FILE, help="Judgements, TREC, BEIR or Quepid CSV, instead of DATA's."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def open_data(data: Path | None, corpus: Path | None, queries: Path | None, qrels: Path | None) -> Judged | Labelled:
    """Read what was named; the kind is recognised and printed."""
    if data is None:
        if corpus is None or queries is None:
            raise click.UsageError("name DATA, or --corpus and --queries")
        asked = read_queries(queries)
        splits = {} if qrels is None else {ONLY_SPLIT: read_judgements(qrels, asked)}
        judged = Judged(read_corpus(corpus), asked, splits)
        describe(str(corpus), "files", judged)
        return judged
    if corpus is not None or queries is not None:
        raise click.UsageError("--corpus and --queries stand in DATA's place; name one or the other")
    if is_ir_datasets(data):
        read = read_ir_datasets(str(data))
        splits = read.qrels if qrels is None else {ONLY_SPLIT: read_judgements(qrels, read.queries)}
        judged = Judged(read.docs, read.queries, splits)
        describe(str(data), "a collection of ir_datasets", judged)
        return judged
    kind = recognise(data)
    if kind == "beir":
        collection = read_beir(data)
        splits = collection.qrels if qrels is None else {ONLY_SPLIT: read_judgements(qrels, collection.queries)}
        judged = Judged(collection.docs, collection.queries, splits)
        describe(str(data), "a BEIR folder", judged)
        return judged
    if kind == "labelled-folder":
        texts = read_labelled_folder(data)
        click.echo(f"{data}: {len(texts.texts):,} texts in {len(set(texts.labels))} labelled folders")
        return Labelled(texts, None)
    if kind == "20newsgroups":
        train, test = read_20newsgroups(data)
        click.echo(
            f"{data}: 20 Newsgroups, {len(train.texts):,} training and {len(test.texts):,} test posts in "
            f"{len(set(train.labels))} groups"
        )
        return Labelled(train, test)
    raise InputError(
        f"{data} is recognised as {kind!r}; this verb takes a BEIR folder, a folder of labelled texts or the "
        "20 Newsgroups archive; fit, rank and eval take a LETOR file, which has qid:id on every line, too"
    )


def read_judgements(path: Path, queries: Mapping[str, str] | None) -> Qrels:
    """Judgements by query id; those of Quepid name queries by their texts, so it takes the queries to read them."""
    if not is_quepid(path):
        return read_qrels_file(path)
    if queries is None:
        raise InputError(f"{path} names queries by their texts, as Quepid does; name --queries, too")
    found = read_quepid(path)
    if found.unrated:
        click.echo(f"note: {path}: {len(found.unrated):,} queries without a rating are left out", err=True)
    return found.qrels(queries)


def describe(name: str, kind: str, judged: Judged) -> None:
    splits = ", ".join(f"{split} {len(q):,}" for split, q in judged.qrels.items())
    click.echo(
        f"{name}: {kind}, {len(judged.docs):,} documents, {len(judged.queries):,} queries"
        + (f" (judged: {splits})" if splits else "")
    )


def open_judged(data: Path | None, corpus: Path | None, queries: Path | None, qrels: Path | None) -> Judged:
    found = open_data(data, corpus, queries, qrels)
    if isinstance(found, Labelled):
        raise InputError(f"{data} holds labelled texts; this verb needs documents and queries, as in a BEIR folder")
    return found


def open_model(path: Path) -> TextModel:
    model = load(path)
    if not isinstance(model, TextModel):
        raise BundleError(f"{path} holds a {type(model).__name__} without words; a text model is needed here")
    return model
