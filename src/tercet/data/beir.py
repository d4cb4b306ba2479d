"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``, each plain or gzipped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tercet.data.documents import read_table
from tercet.data.judgements import read_judgements, read_queries
from tercet.data.lines import FilePath, surrogate_problem, writable_id, write_atomically
from tercet.data.trec import checked_judgements, write_qrels
from tercet.errors import FormatError, InputError

LAYOUT = "a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/*.tsv, plain or with .gz"


@dataclass(frozen=True)
class JudgedTexts:
    """Documents, queries and judgements in file order.

    Attributes
    ----------
    docs : ``{doc_id: text}``; the text is title and text, joined by a line break. `read_beir` returns `Documents`
    queries : ``{qid: text}``
    qrels : ``{split: {qid: {doc_id: grade}}}``; a split is a file of the folder ``qrels``

    Examples
    --------
    >>> texts = JudgedTexts({"a": "green tea"}, {"q": "tea"}, {"train": {"q": {"a": 1}}})
    >>> texts.qrels["train"]["q"]
    {'a': 1}
    """

    docs: Mapping[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, dict[str, int]]]

    def split(self, name: str) -> dict[str, dict[str, int]]:
        """The judgements of a split."""
        if name not in self.qrels:
            names = ", ".join(sorted(self.qrels)) or "none"
            raise InputError(f"there are no judgements for the split {name!r}; there are: {names}")
        return self.qrels[name]

    def queries_of(self, name: str) -> dict[str, str]:
        """The queries judged in a split."""
        judged = self.split(name)
        missing = next((qid for qid in judged if qid not in self.queries), None)
        if missing is not None:
            raise InputError(f"the split {name!r} judges query {missing!r}, which is not among the queries")
        return {qid: self.queries[qid] for qid in judged}


def read_beir(folder: FilePath) -> JudgedTexts:
    """Read a BEIR folder and check the ids of all judgements.

    Parameters
    ----------
    folder : holds ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/*.tsv``, each plain or gzipped

    Returns
    -------
    JudgedTexts. All texts are held in memory; 500,000 judgements or 100 MB of text take about a second.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_beir(folder, {"d1": "green fields"}, {"q1": "field"}, {"train": {"q1": {"d1": 1}}})
    ...     read_beir(folder).qrels
    {'train': {'q1': {'d1': 1}}}
    """
    root = Path(folder)
    if not root.is_dir():
        raise FormatError(folder, None, f"there is no such folder; {LAYOUT}")
    corpus_file = plain_or_packed(root, "corpus.jsonl")
    queries_file = plain_or_packed(root, "queries.jsonl")
    split_files = files_of_splits(root / "qrels")
    docs = read_table(corpus_file)
    queries = read_queries(queries_file)
    qrels = {split: read_judgements(file, queries, docs).qrels for split, file in split_files.items()}
    return JudgedTexts(docs=docs, queries=queries, qrels=qrels)


def plain_or_packed(folder: Path, name: str) -> Path:
    """Return the file of a name, plain or with ``.gz``; neither and both are errors."""
    files = [file for file in (folder / name, folder / f"{name}.gz") if file.is_file()]
    if len(files) == 2:
        raise FormatError(folder, None, f"both {name} and {name}.gz are here; remove one of them")
    if not files:
        raise FormatError(folder / name, None, f"there is no such file; {LAYOUT}", "missing")
    return files[0]


def files_of_splits(folder: Path) -> dict[str, Path]:
    """The file of each split in the folder ``qrels``; none at all is an error."""
    names = sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []
    tables = {name.removesuffix(".gz") for name in names if name.endswith((".tsv", ".tsv.gz"))}
    visible = sorted(name for name in tables if not name.startswith("."))
    if not visible:
        raise FormatError(folder, None, f"there is no file of judgements, *.tsv, here; {LAYOUT}", "missing")
    return {name.removesuffix(".tsv"): plain_or_packed(folder, name) for name in visible}


def write_beir(
    folder: FilePath,
    docs: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> None:
    """Write a BEIR folder; `read_beir` reads the same texts and judgements back.

    Parameters
    ----------
    folder : new or empty; old splits would be read with the new ones
    docs, queries : id -> text
    qrels : ``{split: {qid: {doc_id: grade}}}``; a split becomes the file ``qrels/<split>.tsv``

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_beir(folder, {"d1": "green"}, {"q1": "field"}, {"train": {"q1": {"d1": 1}}})
    ...     pathlib.Path(folder, "qrels", "train.tsv").read_text()
    'query-id\\tcorpus-id\\tscore\\nq1\\td1\\t1\\n'
    """
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(f"{folder}: cannot write: a new or an empty folder is needed")
    _check_texts(folder, docs, "document")
    _check_texts(folder, queries, "query")
    for qid, text in queries.items():
        if not text.strip():
            raise InputError(f"{folder}: cannot write: query {qid!r} has an empty text; a query needs words")
    for split in qrels:
        _check_split(folder, split, qrels[split], docs, queries)
    if not qrels:
        raise InputError(f"{folder}: cannot write: there is no split of judgements")

    try:
        (root / "qrels").mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot write: {error.strerror}") from error
    for name, texts in (("corpus.jsonl", docs), ("queries.jsonl", queries)):
        titled = {"title": ""} if name == "corpus.jsonl" else {}  # other readers of BEIR require the key
        with write_atomically(root / name) as stream:
            for identifier, text in texts.items():
                record = {"_id": identifier, **titled, "text": text}
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    for split in qrels:
        write_qrels(root / "qrels" / f"{split}.tsv", qrels[split])


def _check_texts(folder: FilePath, texts: Mapping[str, str], what: str) -> None:
    if not texts:
        raise InputError(f"{folder}: cannot write: there is no {what}")
    for identifier, text in texts.items():
        writable_id(identifier, folder, f"{what} id")
        if not isinstance(text, str):
            which = f"the text of {what} {identifier!r} is {text!r}"
            raise InputError(f"{folder}: cannot write: {which}; a string is needed")
        problem = surrogate_problem(text)
        if problem is not None:  # nothing is written yet
            raise InputError(f"{folder}: cannot write: the text of {what} {identifier!r} {problem}")


def _check_split(
    folder: FilePath,
    split: str,
    qrels: Mapping[str, Mapping[str, int]],
    docs: Mapping[str, str],
    queries: Mapping[str, str],
) -> None:
    if not isinstance(split, str) or re.fullmatch(r"[\w-][\w.-]*", split) is None:
        raise InputError(f"{folder}: cannot write: split {split!r}; it becomes a file name: letters, digits, . _ -")
    rows = list(checked_judgements(folder, qrels, blanks=True))
    if not rows:
        raise InputError(f"{folder}: cannot write: split {split!r} has no judgements")
    for qid, doc_id, _ in rows:
        if qid not in queries:
            raise InputError(f"{folder}: cannot write: query {qid!r} of split {split!r} is not in queries")
        if doc_id not in docs:
            raise InputError(f"{folder}: cannot write: document {doc_id!r} of split {split!r} is not in docs")
