"""Checks of files with a row a line: judgements, runs, preferences, clicks; `checking` has the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from tercet.data.beir import unknown_document, unknown_query
from tercet.data.checking.findings import Counts, Findings
from tercet.data.clicks import NO_IMPRESSIONS, click_preferences, impressions_of
from tercet.data.lines import LookAlikes
from tercet.data.preference_text import NO_PREFERENCES, preference_lines, uneven_numbers
from tercet.data.trec import NO_JUDGEMENTS, NO_RESULTS, iterate_judgements, results_of

LineOf = dict[str, int]
Grades = dict[tuple[str, str], tuple[int, int]]  # of a query and a document: the grade, and the line that has it first


def check_judgements(
    path: Path,
    findings: Findings,
    queries: Mapping[str, int] | None = None,
    docs: Mapping[str, int] | None = None,
    *,
    header_needed: bool = False,
) -> tuple[LineOf, int]:
    """The line on which each query is judged first, and the number of judgements."""
    line_of: LineOf = {}
    relevant: set[str] = set()
    grades: Grades = {}
    unlike_query, unlike_doc = LookAlikes(queries or ()), LookAlikes(docs or ())
    with findings.file(path, NO_JUDGEMENTS, lambda: len(line_of)):
        for line, qid, doc_id, grade in iterate_judgements(path, header_needed=header_needed, refused=findings.refused):
            line_of.setdefault(qid, line)
            if queries is not None and qid not in queries:
                findings.error("unknown-id", path, line, unknown_query(qid) + unlike_query.hint(qid))
            if docs is not None and doc_id not in docs:
                findings.error("unknown-id", path, line, unknown_document(doc_id) + unlike_doc.hint(doc_id))
            _note_grade(grades, qid, doc_id, grade, line, path, findings)
            if grade > 0:
                relevant.add(qid)
    for qid, line in line_of.items():
        if qid not in relevant:
            message = f"query {qid!r} has no relevant document; every system gets 0 for it"
            findings.warning("no-relevant", path, line, message)
    return line_of, len(grades)


def _note_grade(grades: Grades, query: str, doc_id: str, grade: int, line: int, path: Path, findings: Findings) -> None:
    """Keep a grade, telling where the document has another one, or the same one again."""
    first_grade, first_line = grades.setdefault((query, doc_id), (grade, line))
    pair = f"query {query!r}, document {doc_id!r}"
    if first_grade != grade:
        message = f"{pair} has grade {grade} here and {first_grade} at line {first_line}"
        findings.error("contradiction", path, line, message)
    elif first_line != line:
        findings.warning("repeated-line", path, line, f"{pair} is judged the same at line {first_line}")


def check_qrels(path: Path, findings: Findings) -> Counts:
    """Check a file of judgements."""
    line_of, n_judgements = check_judgements(path, findings)
    return {"queries": len(line_of), "judgements": n_judgements}


def check_run(path: Path, findings: Findings) -> Counts:
    """Check a TREC run."""
    lines: defaultdict[str, dict[str, int]] = defaultdict(dict)
    ranked_of: defaultdict[str, list[tuple[int, float, int]]] = defaultdict(list)  # rank, score, line
    tags: LineOf = {}
    with findings.file(path, NO_RESULTS, lambda: len(lines)):
        for line, result in results_of(path, findings.refused):
            first = lines[result.qid].setdefault(result.doc_id, line)
            if first != line:
                message = f"query {result.qid!r} already has document {result.doc_id!r} at line {first}"
                findings.error("duplicate-id", path, line, message)
                continue
            ranked_of[result.qid].append((result.rank, result.score, line))
            if result.iteration != "Q0":
                findings.warning("second-column", path, line, f"found {result.iteration!r}; the second column is Q0")
            if result.tag not in tags and tags:
                message = f"tag {result.tag!r} here and {next(iter(tags))!r} before; were two runs joined?"
                findings.warning("tags", path, line, message)
            tags.setdefault(result.tag, line)
    for qid, ranked in ranked_of.items():
        ranked.sort(key=lambda result: (result[0], result[2]))  # of one rank, the later line is the wrong one
        wrong = next((b for a, b in pairwise(ranked) if b[1] > a[1] or b[0] == a[0]), None)
        if wrong is not None:
            rank, score, line = wrong
            message = (
                f"query {qid!r}: rank {rank} with score {score:g} is out of order; the scores decide, not the ranks"
            )
            findings.warning("rank-order", path, line, message)
    findings.look_alikes(path, {qid: min(docs.values()) for qid, docs in lines.items()}, "queries")
    return {"queries": len(lines), "results": sum(map(len, lines.values()))}


# -- preferences and clicks -------------------------------------------------------------------------------------------


def check_preferences(path: Path, findings: Findings) -> Counts:
    """Check a file of preferences."""
    line_of: dict[tuple[str, str, str], int] = {}
    expected: tuple[str, ...] | None = None
    n_preferences = 0
    with findings.file(path, NO_PREFERENCES, lambda: n_preferences):
        for line, qid, better, worse, numbers in preference_lines(path, findings.refused):
            n_preferences += 1
            expected = tuple(numbers) if expected is None else expected
            uneven = uneven_numbers(numbers, expected)
            if uneven is not None:
                findings.error("format", path, line, uneven)
            line_of.setdefault((qid, better, worse), line)
            against = line_of.get((qid, worse, better))
            if against is not None:
                pair = f"query {qid!r} prefers {better!r} over {worse!r}"
                findings.warning("contradiction", path, line, f"{pair} here and the other way round at line {against}")
    return {"preferences": n_preferences, "queries": len({qid for qid, _, _ in line_of})}


def check_clicks(path: Path, findings: Findings) -> Counts:
    """Check a click file."""
    counts = {"impressions": 0, "clicks": 0, "preferences": 0}
    with findings.file(path, NO_IMPRESSIONS, lambda: counts["impressions"]):
        for _, impression in impressions_of(path, findings.refused):
            counts["impressions"] += 1
            counts["clicks"] += len(impression.clicked)
            counts["preferences"] += len(click_preferences(impression.shown, impression.clicked))
    if counts["impressions"] and not counts["preferences"]:
        message = "no document was skipped above a click, so there is no preference to learn from"
        findings.warning("no-preference", path, None, message)
    return counts
