"""Checks of BEIR folders; `checking` has the whole."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from tercet.data.beir import NO_DOCUMENTS, NO_QUERIES, documents_of, files_of_splits, plain_or_packed, queries_of
from tercet.data.checking.findings import Counts, Findings
from tercet.data.checking.line_files import LineOf, check_judgements
from tercet.data.checking.near_duplicates import near_texts, text_digest, words_of


def check_beir(root: Path, findings: Findings) -> Counts:
    """Check a BEIR folder."""
    docs: LineOf | None = None
    queries: dict[str, str] = {}
    lines_of_queries: LineOf | None = None
    with findings.catching():
        queries_file = plain_or_packed(root, "queries.jsonl")
        queries, lines_of_queries = _check_queries(queries_file, findings)
    words = {qid: words_of(text) for qid, text in queries.items()}
    unmatched = {word for one in words.values() for word in one}
    with findings.catching():
        docs = _check_documents(plain_or_packed(root, "corpus.jsonl"), findings, unmatched)
    if docs and lines_of_queries is not None:
        for qid, line in lines_of_queries.items():
            if unmatched.issuperset(words[qid]):
                message = f"query {qid!r}, {queries[qid][:60]!r}, has no word that is in any document"
                findings.warning("unmatched-query", queries_file, line, message)
    splits: dict[str, LineOf] = {}
    n_judgements = 0
    with findings.catching():
        for split, file in files_of_splits(root / "qrels").items():
            splits[split], count = check_judgements(file, findings, lines_of_queries, docs, header_needed=True)
            n_judgements += count
    if lines_of_queries is not None:
        _check_splits(queries_file, findings, queries, lines_of_queries, splits)
    return {
        "documents": len(docs or ()),
        "queries": len(queries),
        "splits": len(splits),
        "judgements": n_judgements,
    }


def _check_documents(path: Path, findings: Findings, unmatched: set[str]) -> LineOf | None:
    """The line of each id; None when the file could not be read to its end. What is in a text goes from `unmatched`."""
    line_of: LineOf = {}
    first_of_text: dict[bytes, str] = {}
    whole = False
    with findings.file(path, NO_DOCUMENTS, lambda: len(line_of)):
        for line, doc_id, text in documents_of(path, findings.refused):
            if not _is_new(doc_id, line, line_of, path, findings):
                continue
            if unmatched:
                unmatched.difference_update(words_of(text))
            digest = text_digest(text)
            if digest is None:
                message = f"document {doc_id!r} has an empty text; no query will find it"
                findings.warning("empty-text", path, line, message)
                continue
            first = first_of_text.setdefault(digest, doc_id)
            if first != doc_id:
                message = f"document {doc_id!r} has the text of {first!r} at line {line_of[first]}"
                findings.warning("duplicate-text", path, line, message)
        whole = True
    findings.look_alikes(path, line_of, "documents")
    return line_of if whole else None


def _check_queries(path: Path, findings: Findings) -> tuple[dict[str, str], LineOf | None]:
    line_of: LineOf = {}
    texts: dict[str, str] = {}
    first_of_text: dict[tuple[str, ...], str] = {}
    whole = False
    with findings.file(path, NO_QUERIES, lambda: len(line_of)):
        for line, qid, text in queries_of(path, findings.refused):
            if _is_new(qid, line, line_of, path, findings):
                texts[qid] = text
                first = first_of_text.setdefault(words_of(text) or (text,), qid)
                if first != qid:
                    message = f"query {qid!r} asks for the same words as {first!r} at line {line_of[first]}"
                    findings.warning("duplicate-query", path, line, message)
        whole = True
    findings.look_alikes(path, line_of, "queries")
    return texts, line_of if whole else None


def _is_new(identifier: str, line: int, line_of: LineOf, path: Path, findings: Findings) -> bool:
    first = line_of.setdefault(identifier, line)
    if first != line:
        findings.error("duplicate-id", path, line, f'"_id" {identifier!r} is already used at line {first}')
    return first == line


def _check_splits(
    path: Path, findings: Findings, queries: Mapping[str, str], line_of: LineOf, splits: Mapping[str, LineOf]
) -> None:
    """Judged twice or nearly so, or not at all: queries against all splits."""
    for one, other in combinations(_train_first(splits), 2):
        shared = {qid: None for qid in splits[other] if qid in splits[one]}
        for qid in shared:
            message = f"query {qid!r} is judged in {one} and in {other}; what is learned from one is measured on it"
            findings.warning("shared-query", path, line_of.get(qid), message)
        apart, against = (
            {qid: queries[qid] for qid in splits[name] if qid in queries and qid not in shared} for name in (one, other)
        )
        for qid, near, likeness in near_texts(apart, against):
            how = "the same words as" if likeness == 1 else f"{likeness:.0%} of its words in common with"
            message = f"query {qid!r} of {other} has {how} {near!r} of {one}, at line {line_of[near]}"
            findings.warning("near-query", path, line_of[qid], message)
    judged = {qid for split in splits.values() for qid in split}
    for qid, line in line_of.items():
        if splits and qid not in judged:
            findings.warning("unjudged-query", path, line, f"query {qid!r} has no judgement in any split")


def _train_first(splits: Mapping[str, LineOf]) -> list[str]:
    return sorted(splits, key=lambda name: (name != "train", name))
