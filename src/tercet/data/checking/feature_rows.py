"""Checks of feature vectors (LETOR, SVMlight) and of labelled texts; `checking` has the others."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from tercet.data.archives import archive_members
from tercet.data.checking.findings import Findings
from tercet.data.checking.near_duplicates import text_digest
from tercet.data.labelled import read_20newsgroups, texts_of_folder
from tercet.data.letor_folds import PARTS_OF_A_FOLD, fold_member, is_fold_name
from tercet.data.letor_text import TextBlock, read_blocks
from tercet.data.lines import UTF8_MARK, FilePath, open_bytes
from tercet.errors import FormatError

# What is wrong in a block is found by reading the block again, so blocks are small and a hopeless file is given up.
_BLOCK_BYTES = 1 << 18
_MOST_ERRORS_OF_A_FILE = 1000


@dataclass
class RowSummary:
    """What the rows of a file that could be read amount to."""

    n_rows: int = 0
    width: int = 0
    line_of: dict[str, int] = field(default_factory=dict)  # of a query's first row
    relevant: set[str] = field(default_factory=set)

    def add(self, block: TextBlock) -> None:
        self.n_rows += len(block.y)
        self.width = max(self.width, block.X.shape[1])
        best = np.maximum.reduceat(block.y, block.run_starts)
        for qid, line, grade in zip(block.run_qids, block.run_lines, best.tolist(), strict=True):
            if qid:
                self.line_of.setdefault(qid, line)
                if grade > 0:
                    self.relevant.add(qid)


def check_letor(path: Path, findings: Findings) -> dict[str, int]:
    """Check a LETOR file."""
    rows = RowSummary()
    with findings.catching(), open_bytes(path) as stream:
        rows = _scan(stream, path, findings)
    return {"rows": rows.n_rows, "queries": len(rows.line_of), "features": rows.width}


def check_svmlight(path: Path, findings: Findings) -> dict[str, int]:
    """Check an SVMlight file."""
    rows = RowSummary()
    with findings.catching(), open_bytes(path) as stream:
        rows = _scan(stream, path, findings, is_svmlight=True)
    return {"rows": rows.n_rows, "features": rows.width}


def check_folds(path: Path, findings: Findings) -> dict[str, int]:
    """Check a LETOR set of folds, a folder or an archive, and that no fold tests on what it learns from."""
    folds: dict[str, dict[str, RowSummary]] = {}
    names: dict[tuple[str, str], FilePath] = {}
    members = _members_of_folder(path, findings) if path.is_dir() else _members_of_archive(path)
    for fold, part, name, stream in members:
        if part in folds.setdefault(fold, {}):
            findings.error("duplicate-id", path, None, f"{fold}/{part}.txt is in the archive twice")
            continue
        with findings.catching():
            folds[fold][part] = _scan(stream, name, findings)
            names[fold, part] = name
    if not folds:
        findings.error("missing", path, None, "there is no fold here; a set of folds holds Fold1, Fold2, …")
    for fold, parts in folds.items():
        for part in PARTS_OF_A_FOLD:
            if part not in parts:
                findings.error("missing", path, None, f"{fold} has no {part}.txt")
        for part in parts.keys() - {"train"}:
            for qid in parts[part].line_of.keys() & parts.get("train", RowSummary()).line_of.keys():
                message = f"query {qid!r} of {part} is in train, too, at line {parts['train'].line_of[qid]}"
                findings.warning("shared-query", names[fold, part], parts[part].line_of[qid], message)
    everything = [rows for parts in folds.values() for rows in parts.values()]
    return {
        "folds": len(folds),
        "rows": sum(rows.n_rows for rows in everything),
        "queries": len({qid for rows in everything for qid in rows.line_of}),
        "features": max((rows.width for rows in everything), default=0),
    }


def _members_of_folder(root: Path, findings: Findings) -> Iterator[tuple[str, str, FilePath, BinaryIO]]:
    for folder in sorted(entry for entry in root.iterdir() if is_fold_name(entry.name) and entry.is_dir()):
        for part in PARTS_OF_A_FOLD:
            files = [file for file in (folder / f"{part}.txt", folder / f"{part}.txt.gz") if file.is_file()]
            if len(files) == 2:
                message = f"both {files[0].name} and {files[1].name} are here; remove one of them"
                findings.error("missing", folder, None, message)
            for file in files[:1]:
                with findings.catching(), open_bytes(file) as stream:
                    yield folder.name, part, file, stream


def _members_of_archive(path: Path) -> Iterator[tuple[str, str, FilePath, BinaryIO]]:
    for member, content in archive_members(path):
        fold, part = fold_member(member.name)
        if content is not None and part is not None:
            yield fold, part, f"{path}/{member.name}", content


def _scan(stream: BinaryIO, path: FilePath, findings: Findings, *, is_svmlight: bool = False) -> RowSummary:
    rows, before = RowSummary(), findings.n_errors
    buffered = io.BufferedReader(cast(io.RawIOBase, stream), _BLOCK_BYTES)
    if buffered.peek(len(UTF8_MARK)).startswith(UTF8_MARK):
        findings.byte_order_mark(path)

    def refused(error: FormatError) -> None:
        findings.refused(error)
        if findings.n_errors - before >= _MOST_ERRORS_OF_A_FILE:
            raise FormatError(path, None, f"more than {_MOST_ERRORS_OF_A_FILE} errors; the rest is not looked at")

    blocks = read_blocks(
        buffered,
        path,
        None,
        comments=False,
        scattered=is_svmlight,
        block_bytes=_BLOCK_BYTES,
        is_svmlight=is_svmlight,
        refused=refused,
    )
    with findings.catching():
        for block in blocks:
            rows.add(block)
    buffered.detach()
    if not rows.n_rows and findings.n_errors == before:
        findings.error("empty-file", path, None, "the file holds no rows")
    elif rows.n_rows and not rows.width and findings.n_errors == before:
        findings.error("format", path, None, "no line has a feature; features are written id:value")
    if not is_svmlight:
        for qid, line in rows.line_of.items():
            if qid not in rows.relevant:
                findings.warning("no-relevant", path, line, f"query {qid!r} has no row of a grade above 0")
        findings.look_alikes(path, rows.line_of, "queries")
    return rows


# -- labelled texts ---------------------------------------------------------------------------------------------------


def check_labelled(root: Path, findings: Findings) -> dict[str, int]:
    """Check a folder with a subfolder for each class."""
    labels: set[str] = set()
    if not root.is_dir():
        raise FormatError(root, None, "this is a file; a folder with a subfolder for each class is needed", "missing")

    def texts() -> Iterator[tuple[Path, str, str]]:
        for file, text in texts_of_folder(root, "utf-8", findings.refused):
            labels.add(file.parent.name)
            yield file, file.parent.name, text

    before = findings.n_errors
    n_texts = _check_texts(texts(), findings)
    if len(labels) < 2 and findings.n_errors == before:
        which = f"only one class, {labels.pop()!r}" if labels else "there is no text here"
        findings.error("missing", root, None, f"{which}; at least two classes are needed, a subfolder each")
    return {"texts": n_texts, "classes": len(labels)}


def check_newsgroups(path: Path, findings: Findings) -> dict[str, int]:
    """Check 20 Newsgroups, packed or not."""
    parts = read_20newsgroups(path)
    texts = (
        (f"{path}/{name}/{file}", label, text)
        for name, part in zip(("train", "test"), parts, strict=True)
        for file, label, text in zip(part.names, part.labels, part.texts, strict=True)
    )
    return {"texts": _check_texts(texts, findings), "classes": len(set(parts[0].labels))}


def _check_texts(texts: Iterable[tuple[FilePath, str, str]], findings: Findings) -> int:
    first_of: dict[bytes, tuple[FilePath, str]] = {}
    n_texts = 0
    for file, label, text in texts:
        n_texts += 1
        digest = text_digest(text)
        if digest is None:
            findings.warning("empty-text", file, None, "the text is empty")
            continue
        first, its_label = first_of.setdefault(digest, (file, label))
        if first != file:
            whose = "of the same class" if label == its_label else f"of another class, {its_label!r}"
            findings.warning("duplicate-text", file, None, f"the text is that of {first}, {whose}")
    return n_texts
