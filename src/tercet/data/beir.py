"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``, each plain or gzipped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tercet.data.documents import Documents, joined_text
from tercet.data.lines import (
    FilePath,
    find_line,
    json_field,
    json_text,
    parse_json_object,
    parsed_lines,
    read_id,
    surrogate_problem,
    writable_id,
    write_atomically,
)
from tercet.data.trec import (
    BEIR_HEADER,
    Judgement,
    checked_judgements,
    gather_judgements,
    iterate_judgements,
)
from tercet.data.values import GatheredColumns, Record, plain_record
from tercet.errors import FormatError, InputError

T = TypeVar("T")
_TEXTS = ("title", "text")
NO_DOCUMENTS = "the file holds no documents"
NO_QUERIES = "the file holds no queries"
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
    docs = read_corpus(corpus_file)
    queries = read_queries(queries_file)
    qrels: dict[str, dict[str, dict[str, int]]] = {}
    for split, file in split_files.items():
        judgements = iterate_judgements(file, header_needed=True)
        qrels[split] = gather_judgements(file, _known(file, judgements, docs, queries))
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


def _known(
    path: Path, judgements: Iterable[Judgement], docs: Mapping[str, str], queries: Mapping[str, str]
) -> Iterator[Judgement]:
    for line, qid, doc_id, grade in judgements:
        if qid not in queries:
            raise FormatError(path, line, unknown_query(qid))
        if doc_id not in docs:
            raise FormatError(path, line, unknown_document(doc_id))
        yield line, qid, doc_id, grade


def unknown_query(qid: str) -> str:
    """Say that a judgement names an unknown query."""
    return f"query {qid!r} is judged here and is not in queries.jsonl"


def unknown_document(doc_id: str) -> str:
    """Say that a judgement names an unknown document."""
    return f"document {doc_id!r} is judged here and is not in corpus.jsonl"


def read_corpus(path: FilePath) -> Documents:
    """Read ``corpus.jsonl``: one object a line with ``_id``, ``text`` and perhaps ``title``.

    Other keys are stored fields, keys of inner objects as ``metadata.url``. A text may be empty; an id occurs once.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "corpus.jsonl")
    ...     _ = file.write_text('{"_id": "007", "title": "Bond", "text": "A spy.", "year": 1962}')
    ...     docs = read_corpus(file)
    >>> docs["007"], docs.stored_fields("007")
    ('Bond\\nA spy.', {'year': 1962})
    """
    ids: list[str] = []
    gathered = GatheredColumns(("text",))
    for doc_id, record in _unrepeated(path, _records_of(path)):
        ids.append(doc_id)
        gathered.add(record, partial(FormatError, path, None))
    if not ids:
        raise FormatError(path, None, NO_DOCUMENTS)
    columns = gathered.finished()
    return Documents(ids, columns, _TEXTS if "title" in columns else _TEXTS[1:])


def iter_corpus(path: FilePath) -> Iterator[tuple[str, str]]:
    """Yield id and text of each document; only ids stay in memory, to find repeated ids.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "corpus.jsonl")
    ...     _ = file.write_text('{"_id": "1e5", "text": "A spy."}')
    ...     list(iter_corpus(file))
    [('1e5', 'A spy.')]
    """
    return _unrepeated(path, ((line, doc_id, _text_of(record)) for line, doc_id, record in _records_of(path)))


def iter_corpus_with_fields(path: FilePath) -> Iterator[tuple[str, str, Record]]:
    """Yield id, text and stored fields of each document."""
    for doc_id, record in _unrepeated(path, _records_of(path)):
        stored_fields = {name: value for name, value in record.items() if name not in _TEXTS}
        yield doc_id, _text_of(record), stored_fields


def _records_of(path: FilePath) -> Iterator[tuple[int, str, Record]]:
    """Yield line, id and the other keys of each document of ``corpus.jsonl``; an id may come back."""

    def parse(text: str, line: int) -> tuple[str, Record]:
        record = parse_json_object(text, path, line)
        doc_id = read_id(json_field(record, "_id", path, line), path, line, '"_id"')
        json_text(record, "text", path, line)
        if record.get("title") is None:
            record.pop("title", None)
        else:
            json_text(record, "title", path, line)
        del record["_id"]
        return doc_id, plain_record(record, partial(FormatError, path, line))

    for line, (doc_id, record) in parsed_lines(path, parse):
        yield line, doc_id, record


def _text_of(record: Record) -> str:
    return joined_text(record.get(name) for name in _TEXTS)


def read_queries(path: FilePath) -> dict[str, str]:
    """Read ``queries.jsonl``: one object a line with ``_id`` and a nonempty ``text``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "queries.jsonl")
    ...     _ = file.write_text('{"_id": "1e5", "text": "avocado eyes"}')
    ...     read_queries(file)
    {'1e5': 'avocado eyes'}
    """
    queries = dict(_unrepeated(path, _queries_of(path)))
    if not queries:
        raise FormatError(path, None, NO_QUERIES)
    return queries


def _queries_of(path: FilePath) -> Iterator[tuple[int, str, str]]:
    """Yield line, id and text of each query of ``queries.jsonl``; an id may come back."""

    def parse(text: str, line: int) -> tuple[str, str]:
        record = parse_json_object(text, path, line)
        qid = read_id(json_field(record, "_id", path, line), path, line, '"_id"')
        words = json_text(record, "text", path, line)
        if not words.strip():
            raise FormatError(path, line, f"query {qid!r} has an empty text; a query needs words", "empty-text")
        return qid, words

    for line, (qid, words) in parsed_lines(path, parse):
        yield line, qid, words


def _unrepeated(path: FilePath, rows: Iterable[tuple[int, str, T]]) -> Iterator[tuple[str, T]]:
    seen: set[str] = set()
    for line, identifier, row in rows:
        if identifier in seen:
            raise _repeated(path, line, identifier)
        seen.add(identifier)
        yield identifier, row


def _repeated(path: FilePath, line: int, identifier: str) -> FormatError:
    first = find_line(path, lambda text: bool(text.strip()) and json.loads(text)["_id"] == identifier)
    return FormatError(path, line, f'"_id" {identifier!r} is already used at line {first}')


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
    rows = {split: _checked_split(folder, split, qrels[split], docs, queries) for split in qrels}
    if not rows:
        raise InputError(f"{folder}: cannot write: there is no split of judgements")

    try:
        (root / "qrels").mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot write: {error.strerror}") from error
    for name, texts in (("corpus.jsonl", docs), ("queries.jsonl", queries)):
        titled = {"title": ""} if name == "corpus.jsonl" else {}  # other readers of BEIR want the key
        with write_atomically(root / name) as stream:
            for identifier, text in texts.items():
                record = {"_id": identifier, **titled, "text": text}
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    for split, judgements in rows.items():
        with write_atomically(root / "qrels" / f"{split}.tsv") as stream:
            stream.write(BEIR_HEADER + "\n")
            stream.writelines(f"{qid}\t{doc_id}\t{grade}\n" for qid, doc_id, grade in judgements)


def _check_texts(folder: FilePath, texts: Mapping[str, str], what: str) -> None:
    if not texts:
        raise InputError(f"{folder}: cannot write: there is no {what}")
    for identifier, text in texts.items():
        writable_id(identifier, folder, f"{what} id")
        if not isinstance(text, str):
            which = f"the text of {what} {identifier!r} is {text!r}"
            raise InputError(f"{folder}: cannot write: {which}; a string is needed")
        problem = surrogate_problem(text)
        if problem is not None:  # found before anything is written
            raise InputError(f"{folder}: cannot write: the text of {what} {identifier!r} {problem}")


def _checked_split(
    folder: FilePath,
    split: str,
    qrels: Mapping[str, Mapping[str, int]],
    docs: Mapping[str, str],
    queries: Mapping[str, str],
) -> list[tuple[str, str, int]]:
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
    return rows
