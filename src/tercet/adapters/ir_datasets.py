"""Collections of the ir_datasets library (extra ``ir-datasets``)."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tercet.data.beir import JudgedTexts
from tercet.errors import InputError, MissingExtraError

PREFIX = "ir_datasets:"  # of names that stand where a path may
_SPLITS = ("train", "validation", "dev", "valid", "vali", "test")


def read_ir_datasets(name: str, library: Any = None) -> JudgedTexts:
    """Read a collection by name, as in ``"beir/nfcorpus"``; a leading ``ir_datasets:`` is dropped.

    A data set with judgements gives one split, named by the last part of its name for the usual names (train, dev,
    test, …), else ``train``. Without judgements, the data sets right below with judgements over the same documents are
    splits.

    Parameters
    ----------
    name : name in ir_datasets
    library : replacement of ``import ir_datasets``

    Notes
    -----
    ir_datasets downloads missing data; all documents are held in memory.
    """
    library = _import() if library is None else library
    name = name.removeprefix(PREFIX)
    dataset = _load(library, name)
    if not dataset.has_docs():
        raise InputError(f"{name} of ir_datasets has no documents")
    last = name.rpartition("/")[2]
    parts = {last if last in _SPLITS else "train": dataset} if dataset.has_qrels() else _splits(library, name)
    queries: dict[str, str] = {}
    for part in (dataset, *parts.values()):
        if part.has_queries():
            queries |= {str(query.query_id): _text(query, "query_id") for query in part.queries_iter()}
    if not queries:
        raise InputError(f"{name} of ir_datasets has no queries; name a data set that has")
    docs = {str(doc.doc_id): _text(doc, "doc_id") for doc in dataset.docs_iter()}
    return JudgedTexts(docs, queries, {split: _qrels(part.qrels_iter()) for split, part in parts.items()})


def _import() -> Any:
    try:
        return import_module("ir_datasets")
    except ImportError as error:
        raise MissingExtraError("ir_datasets", "ir-datasets", "reading a collection of ir_datasets") from error


def _load(library: Any, name: str) -> Any:
    try:
        return library.load(name)
    except KeyError as error:
        near = sorted(dataset for dataset in library.registry if dataset.split("/")[0] == name.split("/")[0])[:8]
        hint = f"; there are {', '.join(near)}" if near else ""
        raise InputError(f"ir_datasets knows no data set {name!r}{hint}") from error


def _splits(library: Any, name: str) -> dict[str, Any]:
    """Data sets right below a name that judge the same documents."""
    splits = {}
    for below in sorted(library.registry):
        above, _, last = below.rpartition("/")
        if above == name:
            part = library.load(below)
            if part.has_qrels() and library.docs_parent_id(below) == library.docs_parent_id(name):
                splits[last] = part
    return splits


def _qrels(judgements: Iterable[Any]) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for judgement in judgements:
        qrels.setdefault(str(judgement.query_id), {})[str(judgement.doc_id)] = int(judgement.relevance)
    return qrels


def _text(record: Any, id_name: str) -> str:
    """Return the default text of a record, or all texts joined."""
    if hasattr(record, "default_text"):
        return str(record.default_text())
    texts = [value for name, value in record._asdict().items() if name != id_name and isinstance(value, str)]
    return " ".join(text for text in texts if text)
