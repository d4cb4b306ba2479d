"""Recognition of the kind of data at a path, by content."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias, cast

from tercet.data.archives import archive_members
from tercet.data.beir import plain_or_packed
from tercet.data.labeled import NEWSGROUPS_TEST, NEWSGROUPS_TRAIN
from tercet.data.letor_folds import fold_member, is_fold
from tercet.data.lines import (
    UTF16_MARKS,
    FilePath,
    open_bytes,
    open_lines,
    parse_json_object,
    split_columns,
    within_a_line,
)
from tercet.data.roles import kind_of_columns
from tercet.data.tables import DELIMITER_PROBLEM, DataTable, open_table
from tercet.data.tables import MAGIC as PARQUET_MAGIC
from tercet.data.trec import BEIR_HEADER
from tercet.data.ubi import ubi_files
from tercet.errors import FormatError, InputError

Kind: TypeAlias = Literal[
    "beir",
    "labeled-folder",
    "20newsgroups",
    "letor",
    "letor-folds",
    "qrels",
    "run",
    "documents",
    "judgements",
    "triplets",
    "click-log",
    "click-counts",
    "links",
]
# Kinds of tables; the names of columns are free.
TableKind: TypeAlias = Literal["documents", "judgements", "triplets", "links"]

LINES_LOOKED_AT = 20
_TAR_MAGIC = slice(257, 262)
_FOLDERS = (
    "corpus.jsonl with queries.jsonl and qrels/*.tsv (BEIR), "
    f"{NEWSGROUPS_TRAIN} and {NEWSGROUPS_TEST} (20 Newsgroups), "
    "Fold1, Fold2, … with train.txt, vali.txt and test.txt (LETOR), "
    "at least two subfolders of text files (labeled texts), "
    "ubi_queries and ubi_events (UBI)"
)
_FILES = (
    "grade qid:id feature:value lines (LETOR), 4-column or BEIR judgements, 6-column runs, the archives of "
    "20 Newsgroups and of LETOR folds, and a table: CSV with a header (separated by , ; | or tabs), JSONL or Parquet, "
    "of documents (an id and a text), judgements (a query, a document, a grade), triplets (a query, a better and a "
    "worse document), clicks (a query, a document and whether it was clicked) or links (a source and a target)"
)


def recognize(path: FilePath) -> Kind:
    """Return the kind of data at a path, or raise `InputError` with a list of all kinds.

    Folders: ``"beir"``, ``"20newsgroups"``, ``"letor-folds"``, ``"labeled-folder"`` and ``"click-log"`` (UBI's queries
    and events). Files: ``"letor"``, ``"qrels"``, ``"run"``, the archives ``"20newsgroups"`` and ``"letor-folds"``, and
    tables, by the names of their columns: ``"documents"``, ``"judgements"``, ``"triplets"``, ``"click-log"``,
    ``"click-counts"`` and ``"links"``. Only the first lines of a file are read; its reader may still refuse the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mystery")
    ...     _ = file.write_text("2 qid:1 1:0.5 2:0.25\\n")
    ...     recognize(file)
    'letor'
    """
    where = Path(path)
    if not where.exists():
        raise InputError(f"{path}: there is no such file or folder")
    return _recognize_folder(where) if where.is_dir() else _recognize_file(where)


def _recognize_folder(folder: Path) -> Kind:
    kinds: list[Kind] = []
    if _has_corpus(folder):
        kinds.append("beir")
    if (folder / NEWSGROUPS_TRAIN).is_dir() and (folder / NEWSGROUPS_TEST).is_dir():
        kinds.append("20newsgroups")
    if any(is_fold(entry) for entry in folder.iterdir()):
        kinds.append("letor-folds")
    if not kinds and _holds_ubi(folder):
        kinds.append("click-log")
    if not kinds and _has_class_folders(folder):  # tested last: folders of other kinds may have subfolders, too
        kinds.append("labeled-folder")
    if not kinds:
        raise InputError(f"{folder}: this folder is of no known kind; looked for {_FOLDERS}")
    return _the_only(kinds, folder, "give a folder that holds one of them")


def _the_only(kinds: list[Kind], path: Path, advice: str) -> Kind:
    if len(kinds) > 1:
        raise InputError(f"{path}: this could be {' or '.join(kinds)}; {advice}")
    return kinds[0]


def _has_corpus(folder: Path) -> bool:
    if not any((folder / name).is_file() for name in ("corpus.jsonl", "corpus.jsonl.gz")):
        return False
    corpus = plain_or_packed(folder, "corpus.jsonl")
    numbered = _first_lines(corpus)
    return bool(numbered) and "_id" in parse_json_object(numbered[0][1], corpus, numbered[0][0])


def _holds_ubi(folder: Path) -> bool:
    try:
        return bool(ubi_files(folder))
    except InputError:
        return False


def _has_class_folders(folder: Path) -> bool:
    subfolders = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    return len(subfolders) >= 2 and all(_holds_texts(subfolder) for subfolder in subfolders)


def _holds_texts(folder: Path) -> bool:
    files = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    if not files or not all(file.is_file() for file in files):
        return False
    with open_bytes(files[0]) as stream:
        start = stream.read(1 << 16)
    # A text has no zero bytes in any 8-bit encoding. The folds of a LETOR set look like classes, and are excluded.
    return b"\0" not in start and not _is_letor(start.decode("latin-1").split("\n")[:LINES_LOOKED_AT])


def _recognize_file(path: Path) -> Kind:
    with open_bytes(path) as stream:
        start = stream.read(512)
    if start[_TAR_MAGIC] == b"ustar":
        return _recognize_archive(path)
    if start.startswith(PARQUET_MAGIC):
        return _kind_of_table(open_table(path))
    if start.startswith(UTF16_MARKS):  # only tables are read in UTF-16
        table, _ = _table_with_header(path)
        if table is not None:
            return _kind_of_table(table)
    elif start.startswith(b"PK\3\4"):
        raise InputError(f"{path}: this is not a text file but a zip archive, as workbooks are; save a table as CSV")
    elif b"\0" in start:
        raise InputError(f"{path}: this is not a text file; looked for {_FILES}")
    numbered = _first_lines(path)
    if not numbered:
        raise InputError(f"{path}: the file is empty; looked for {_FILES}")
    first = numbered[0][1]
    if first == BEIR_HEADER:
        return "qrels"
    if first.lstrip().startswith("{"):
        return _kind_of_table(open_table(path))
    table, problem = _table_with_header(path)
    kind_of_header = None if table is None else kind_of_columns(table.columns)
    if kind_of_header is not None:
        return cast(Kind, kind_of_header)
    kinds = _kinds_of_table([text for _, text in numbered])
    if not kinds:
        if table is not None:
            return _kind_of_table(table)  # the error names the missing columns
        if problem is not None and problem.kind != DELIMITER_PROBLEM:
            raise problem
        raise InputError(f"{path}: this file is of no known kind; looked for {_FILES}")
    return _the_only(kinds, path, f"a header as the first line decides: {BEIR_HEADER!r}")


def _kind_of_table(table: DataTable) -> Kind:
    kind = kind_of_columns(table.columns)
    if kind is None:
        raise InputError(
            f"{table.name}: a table of no known kind, with the columns {', '.join(table.columns)}; documents have an "
            "id and a text (columns called id, sku, title, text, description, …, or named), judgements query, doc and "
            "grade, triplets query, better and worse, clicks query, doc or shown, and clicked or action, and links a "
            "source and a target"
        )
    return cast(Kind, kind)


def _table_with_header(path: Path) -> tuple[DataTable | None, FormatError | None]:
    """Return the file as a table, or the error."""
    try:
        return open_table(path), None
    except FormatError as problem:
        return None, problem


def _recognize_archive(path: Path) -> Kind:
    with closing(archive_members(path)) as members:
        for member, _ in islice(members, LINES_LOOKED_AT):
            if PurePosixPath(member.name).parts[:1] in ((NEWSGROUPS_TRAIN,), (NEWSGROUPS_TEST,)):
                return "20newsgroups"
            if fold_member(member.name)[1] is not None:
                return "letor-folds"
    raise InputError(
        f"{path}: an archive of no known kind; only 20 Newsgroups ({NEWSGROUPS_TRAIN}/…) and LETOR folds "
        "(…/Fold1/train.txt) are read packed, extract any other and give the folder"
    )


def _first_lines(path: Path) -> list[tuple[int, str]]:
    with closing(open_lines(path)) as lines:
        return within_a_line(((line, text) for line, text in lines if text.strip()), LINES_LOOKED_AT)


def _kinds_of_table(lines: list[str]) -> list[Kind]:
    kinds: list[Kind] = []
    if _is_letor(lines):
        kinds.append("letor")
    rows = [split_columns(text) for text in lines]
    if all(len(row) == 6 and _is_number(row[3]) and _is_number(row[4]) for row in rows):
        kinds.append("run")
    if all(len(row) == 4 and _is_whole(row[3]) for row in rows):
        kinds.append("qrels")
    return kinds


def _is_letor(lines: list[str]) -> bool:
    any_feature = False
    for text in lines:
        tokens = split_columns(text.partition("#")[0])
        if not tokens:
            continue
        features = tokens[2:] if _has_qid(text) else tokens[1:]
        if not _is_number(tokens[0]):
            return False
        for token in features:
            key, _, value = token.partition(":")
            if not (_is_whole(key) and _is_number(value)):
                return False
        any_feature = any_feature or bool(features)
    return any_feature


def _has_qid(text: str) -> bool:
    tokens = split_columns(text.partition("#")[0])
    return len(tokens) > 1 and tokens[1].startswith("qid:")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
