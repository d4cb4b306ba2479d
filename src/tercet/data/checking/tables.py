"""Checks of tables of documents, judgements, threes, clicks and links; `checking` has the whole."""

from __future__ import annotations

from pathlib import Path

from tercet.data.checking.findings import Counts, Findings
from tercet.data.checking.near_duplicates import text_digest
from tercet.data.click_tables import click_log_of
from tercet.data.documents import document_rows, joined_text
from tercet.data.judgements import judgement_roles, judgement_rows, qids_of
from tercet.data.link_tables import NO_LINKS, link_roles, link_rows, open_links
from tercet.data.roles import TableSettings, document_roles
from tercet.data.tables import NO_ROWS, DataTable
from tercet.data.threes import three_roles, three_rows
from tercet.data.ubi import ubi_tables
from tercet.errors import FormatError


def check_documents(path: Path, findings: Findings, settings: TableSettings) -> Counts:
    """Check a table of documents."""
    number_of: dict[str, int] = {}
    first_of_text: dict[bytes, str] = {}
    with findings.file(path, NO_ROWS, lambda: len(number_of)):
        table = settings.open(path)
        roles = document_roles(table, settings.id, settings.text)
        for number, doc_id, row in document_rows(table, roles, findings.refused):
            number_of[doc_id] = number
            digest = text_digest(joined_text(row.get(name) for name in roles.text))
            if digest is None:
                message = f"document {doc_id!r} has no words; no query will find it"
                _warn(findings, table, number, message, "empty-text")
                continue
            first = first_of_text.setdefault(digest, doc_id)
            if first != doc_id:
                message = f"document {doc_id!r} has the text of {first!r} at {table.place(number_of[first])}"
                _warn(findings, table, number, message, "duplicate-text")
    findings.look_alikes(path, number_of, "documents")
    return {"documents": len(number_of)}


def check_judgement_table(path: Path, findings: Findings, settings: TableSettings) -> Counts:
    """Check a table of judgements."""
    grades: dict[tuple[str, str], tuple[int, int]] = {}
    number_of: dict[str, int] = {}
    relevant: set[str] = set()
    texts: dict[str, str] = {}
    first_spelling: dict[str, str] = {}
    ungraded = [0]
    with findings.file(path, NO_ROWS, lambda: len(grades)):
        table = settings.open(path)
        roles = judgement_roles(table, settings.columns)
        for row in judgement_rows(table, roles, findings.refused, ungraded):
            number, doc_id, grade = row.number, row.doc_id, row.grade
            try:
                [key] = qids_of(row, None, texts, first_spelling, table, roles.by_id)
            except FormatError as problem:
                findings.refused(problem)
                continue
            number_of.setdefault(key, number)
            first, before = grades.setdefault((key, doc_id), (grade, number))
            pair = f"query {key!r}, document {doc_id!r}"
            if first != grade:
                message = f"{pair} has grade {grade} here and {first} at {table.place(before)}"
                findings.refused(table.error(number, message, "contradiction"))
            elif before != number:
                _warn(findings, table, number, f"{pair} is judged the same at {table.place(before)}", "repeated-line")
            if grade > 0:
                relevant.add(key)
        for key, number in number_of.items():
            if key not in relevant:
                _warn(findings, table, number, f"query {key!r} has no relevant document", "no-relevant")
    left_out = {"rows without a grade": ungraded[0]} if ungraded[0] else {}
    return {"queries": len(number_of), "judgements": len(grades), **left_out}


def check_threes(path: Path, findings: Findings, settings: TableSettings) -> Counts:
    """Check a table of threes."""
    seen: set[tuple[str, str, str]] = set()
    n_threes = 0
    with findings.file(path, NO_ROWS, lambda: n_threes):
        table = settings.open(path)
        for query, better, worse, error, *_ in three_rows(
            table, three_roles(table, settings.columns), findings.refused
        ):
            n_threes += 1
            seen.add((query, better, worse))
            if (query, worse, better) in seen:
                message = f"query {query!r} prefers {better!r} over {worse!r} here and the other way round before"
                problem = error(message, "contradiction")
                findings.warning("contradiction", problem.path, problem.line, problem.message)
    return {"preferences": n_threes, "queries": len({query for query, _, _ in seen})}


def check_click_log(path: Path, findings: Findings, settings: TableSettings) -> Counts:
    """Check a table of clicks, or the folder of UBI's two."""
    counts = {"impressions": 0, "clicks": 0}
    with findings.file(path, NO_ROWS, lambda: counts["impressions"]):
        tables = ubi_tables(path, settings.open) if path.is_dir() else [settings.open(path)]
        log = click_log_of(tables, settings.columns, findings.refused)
        counts["impressions"] = len(log.impressions)
        counts["clicks"] = sum(len(impression.clicked) for impression in log.impressions)
        for note in log.notes:
            findings.warning("click-log", path, None, note)
    if counts["impressions"] and not counts["clicks"]:
        findings.warning("no-preference", path, None, "nothing was clicked, so there is nothing to learn from")
    return counts


def check_links(path: Path, findings: Findings, settings: TableSettings) -> Counts:
    """Check a table of links, or a list of two ids a line."""
    seen: set[tuple[str, str]] = set()
    with findings.file(path, NO_ROWS, lambda: len(seen)):
        table = open_links(path, settings.columns, settings.encoding, settings.delimiter)
        for source, target, error in link_rows(table, link_roles(table, settings.columns), findings.refused):
            message, kind = "", "repeated-line"
            if source == target:
                message, kind = f"{source!r} links to itself, which is left out", "own-link"
            elif (source, target) in seen:
                message = f"the link from {source!r} to {target!r} is there before"
            if message:
                problem = error(message, kind)
                findings.warning(kind, problem.path, problem.line, problem.message)
            seen.add((source, target))
        if seen and all(source == target for source, target in seen):
            findings.error("empty-file", path, None, NO_LINKS)
    return {"links": len(seen), "documents that link": len({source for source, _ in seen})}


def _warn(findings: Findings, table: DataTable, number: int, message: str, kind: str) -> None:
    problem = table.error(number, message, kind)
    findings.warning(kind, problem.path, problem.line, problem.message)
