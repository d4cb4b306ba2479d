"""Checks of feature vectors (LETOR, SVMlight) and of labelled texts; `checking` has the others."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from tercet.data.archives import archive_members
from tercet.data.checking.likeness import text_digest
from tercet.data.checking.problems import Findings
from tercet.data.labelled import read_20newsgroups, texts_of_folder
from tercet.data.letor_folds import PARTS_OF_A_FOLD, fold_member, is_fold_name
from tercet.data.letor_text import Part, read_parts
from tercet.data.lines import UTF8_MARK, UTF16_MARKS, FilePath, open_bytes
from tercet.errors import FormatError

# What is wrong in a block is found by reading the block again, so blocks are small and a hopeless file is given up.
_BLOCK_BYTES = 1 << 18
_MOST_ERRORS_OF_A_FILE = 1000


@dataclass
class _Rows:
    """What the rows of a file that could be read amount to."""

    n_rows: int = 0
    width: int = 0
    line_of: dict[str, int] = field(default_factory=dict)  # of a query's first row
    relevant: set[str] = field(default_factory=set)


def check_letor(path: Path, found: Findings) -> dict[str, int]:
    """Check a LETOR file."""
    rows = _Rows()
    with found.catching(), open_bytes(path) as stream:
        rows = _scan(stream, path, found)
    return {"rows": rows.n_rows, "queries": len(rows.line_of), "features": rows.width}


def check_svmlight(path: Path, found: Findings) -> dict[str, int]:
    """Check an SVMlight file."""
    rows = _Rows()
    with found.catching(), open_bytes(path) as stream:
        rows = _scan(stream, path, found, is_svmlight=True)
    return {"rows": rows.n_rows, "features": rows.width}


def check_folds(path: Path, found: Findings) -> dict[str, int]:
    """Check a LETOR set of folds, a folder or an archive, and that no fold tests on what it learns from."""
    folds: dict[str, dict[str, _Rows]] = {}
    names: dict[tuple[str, str], FilePath] = {}
    members = _members_of_folder(path, found) if path.is_dir() else _members_of_archive(path)
    for fold, part, name, stream in members:
        if part in folds.setdefault(fold, {}):
            found.error("duplicate-id", path, None, f"{fold}/{part}.txt is in the archive twice")
            continue
        with found.catching():
            folds[fold][part] = _scan(stream, name, found)
            names[fold, part] = name
    if not folds:
        found.error("missing", path, None, "there is no fold here; a set of folds holds Fold1, Fold2, …")
    for fold, parts in folds.items():
        for part in PARTS_OF_A_FOLD:
            if part not in parts:
                found.error("missing", path, None, f"{fold} has no {part}.txt")
        for part in parts.keys() - {"train"}:
            for qid in parts[part].line_of.keys() & parts.get("train", _Rows()).line_of.keys():
                message = f"query {qid!r} of {part} is in train, too, at line {parts['train'].line_of[qid]}"
                found.warning("shared-query", names[fold, part], parts[part].line_of[qid], message)
    everything = [rows for parts in folds.values() for rows in parts.values()]
    return {
        "folds": len(folds),
        "rows": sum(rows.n_rows for rows in everything),
        "queries": len({qid for rows in everything for qid in rows.line_of}),
        "features": max((rows.width for rows in everything), default=0),
    }


def _members_of_folder(root: Path, found: Findings) -> Iterator[tuple[str, str, FilePath, BinaryIO]]:
    for folder in sorted(entry for entry in root.iterdir() if is_fold_name(entry.name) and entry.is_dir()):
        for part in PARTS_OF_A_FOLD:
            files = [file for file in (folder / f"{part}.txt", folder / f"{part}.txt.gz") if file.is_file()]
            if len(files) == 2:
                message = f"both {files[0].name} and {files[1].name} are here; remove one of them"
                found.error("missing", folder, None, message)
            for file in files[:1]:
                with found.catching(), open_bytes(file) as stream:
                    yield folder.name, part, file, stream


def _members_of_archive(path: Path) -> Iterator[tuple[str, str, FilePath, BinaryIO]]:
    for member, content in archive_members(path):
        fold, part = fold_member(member.name)
        if content is not None and part is not None:
            yield fold, part, f"{path}/{member.name}", cast(BinaryIO, content)


def _scan(stream: BinaryIO, path: FilePath, found: Findings, *, is_svmlight: bool = False) -> _Rows:
    rows, before = _Rows(), found.n_errors
    has_qid: bool | None = None
    current: str | None = None
    for part, lines_before in _parts(stream, path, found, is_svmlight):
        rows.n_rows += len(part.y)
        rows.width = max(rows.width, part.X.shape[1])
        best = np.maximum.reduceat(part.y, part.run_starts)
        for qid, line, grade in zip(part.run_qids, part.run_lines, best.tolist(), strict=True):
            line += lines_before
            if is_svmlight and has_qid is not None and bool(qid) != has_qid:
                which = "a qid here and none" if qid else "no qid here and one"
                found.error("format", path, line, f"{which} on the lines before; give one on every line or on none")
            has_qid = bool(qid) if has_qid is None else has_qid
            if qid and qid != current and qid in rows.line_of and not is_svmlight:
                message = f"query {qid!r} again, after other queries; its rows began at line {rows.line_of[qid]}"
                found.error("scattered-query", path, line, message)
            current = qid
            if qid:
                rows.line_of.setdefault(qid, line)
                if grade > 0:
                    rows.relevant.add(qid)
    if found.n_errors == before:
        if not rows.n_rows:
            found.error("empty-file", path, None, "the file holds no rows")
        elif not rows.width:
            found.error("format", path, None, "no line has a feature; features are written id:value")
    if not is_svmlight:
        for qid, line in rows.line_of.items():
            if qid not in rows.relevant:
                found.warning("no-relevant", path, line, f"query {qid!r} has no row of a grade above 0")
        found.look_alikes(path, rows.line_of, "queries")
    return rows


def _parts(stream: BinaryIO, path: FilePath, found: Findings, is_svmlight: bool) -> Iterator[tuple[Part, int]]:
    """The rows that can be read, and how many lines come before the block they are in."""
    limit = found.n_errors + _MOST_ERRORS_OF_A_FILE
    waiting: list[tuple[bytes, int]] = []
    blocks = _blocks(stream, path, found)
    while waiting or (waiting := list(islice(blocks, 1))):
        text, lines_before = waiting.pop()
        try:
            options = {"comments": False, "scattered": True, "is_svmlight": is_svmlight}
            parts = list(read_parts(io.BytesIO(text), path, None, block_bytes=len(text) + 1, **options))
        except FormatError as error:
            if error.line is None:
                raise
            found.error(error.kind, path, lines_before + error.line, error.message)
            if found.n_errors >= limit:
                found.error(
                    "format", path, None, f"more than {_MOST_ERRORS_OF_A_FILE} errors; the rest is not looked at"
                )
                return
            lines = [line + b"\n" for line in text.split(b"\n")]  # splitlines would cut at a lone \r, too
            waiting.append((b"".join(lines[error.line :]), lines_before + error.line))
            waiting.append((b"".join(lines[: error.line - 1]), lines_before))
        else:
            yield from ((part, lines_before) for part in parts)


def _blocks(stream: BinaryIO, path: FilePath, found: Findings) -> Iterator[tuple[bytes, int]]:
    """Whole lines, and how many lines came before them."""
    carried, n_lines, first = b"", 0, True
    while fresh := stream.read(_BLOCK_BYTES):
        text = carried + fresh
        if first and text.startswith(UTF16_MARKS):
            raise FormatError(
                path, 1, "the file is UTF-16; convert it, for instance: iconv -f UTF-16 -t UTF-8", "encoding"
            )
        if first and text.startswith(UTF8_MARK):
            found.byte_order_mark(path)
        first = False
        stop = text.rfind(b"\n") + 1
        carried = text[stop:]
        if stop:
            yield text[:stop], n_lines
            n_lines += text.count(b"\n", 0, stop)
    if carried:
        yield carried, n_lines


# -- labelled texts ---------------------------------------------------------------------------------------------------


def check_labelled(root: Path, found: Findings) -> dict[str, int]:
    """Check a folder with a subfolder for each class."""
    labels: set[str] = set()
    if not root.is_dir():
        raise FormatError(root, None, "this is a file; a folder with a subfolder for each class is needed", "missing")

    def texts() -> Iterator[tuple[Path, str, str]]:
        for file, text in texts_of_folder(root, "utf-8", found.refused):
            labels.add(file.parent.name)
            yield file, file.parent.name, text

    before = found.n_errors
    n_texts = _check_texts(texts(), found)
    if len(labels) < 2 and found.n_errors == before:
        which = f"only one class, {labels.pop()!r}" if labels else "there is no text here"
        found.error("missing", root, None, f"{which}; at least two classes are needed, a subfolder each")
    return {"texts": n_texts, "classes": len(labels)}


def check_newsgroups(path: Path, found: Findings) -> dict[str, int]:
    """Check 20 Newsgroups, packed or not."""
    parts = read_20newsgroups(path)
    texts = (
        (f"{path}/{name}/{file}", label, text)
        for name, part in zip(("train", "test"), parts, strict=True)
        for file, label, text in zip(part.names, part.labels, part.texts, strict=True)
    )
    return {"texts": _check_texts(texts, found), "classes": len(set(parts[0].labels))}


def _check_texts(texts: Iterable[tuple[FilePath, str, str]], found: Findings) -> int:
    first_of: dict[bytes, tuple[FilePath, str]] = {}
    n_texts = 0
    for file, label, text in texts:
        n_texts += 1
        digest = text_digest(text)
        if digest is None:
            found.warning("empty-text", file, None, "the text is empty")
            continue
        first, its_label = first_of.setdefault(digest, (file, label))
        if first != file:
            whose = "of the same class" if label == its_label else f"of another class, {its_label!r}"
            found.warning("duplicate-text", file, None, f"the text is that of {first}, {whose}")
    return n_texts
