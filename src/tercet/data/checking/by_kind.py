"""Check a whole data set and list all that is wrong with it, where the readers stop at the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

from tercet.data.checking.beir import check_beir
from tercet.data.checking.feature_rows import check_folds, check_labelled, check_letor, check_newsgroups, check_svmlight
from tercet.data.checking.findings import MOST_SHOWN, CheckReport, Counts, Findings
from tercet.data.checking.line_files import check_clicks, check_preferences, check_qrels, check_run
from tercet.data.checking.tables import (
    check_click_log,
    check_documents,
    check_judgement_table,
    check_links,
    check_threes,
)
from tercet.data.lines import FilePath
from tercet.data.mapped_rows import MappedRows
from tercet.data.recognition import Kind, guess, recognise
from tercet.data.roles import TableSettings
from tercet.errors import BundleError, FormatError, InputError
from tercet.store import read_bundle
from tercet.store.kinds import VECTORS


def check(
    path: FilePath, kind: Kind | None = None, *, most_shown: int = MOST_SHOWN, table: TableSettings | None = None
) -> CheckReport:
    """Check a data set of any kind that is recognised and list its problems with file and line.

    Parameters
    ----------
    path : a file or folder
    kind : what it is, one of the kinds that `recognise` returns; None recognises it, or guesses it from its first
        lines where those are broken
    most_shown : how many problems of a kind the report keeps; all are counted
    table : of a table, what its columns, encoding and delimiter are; None guesses them

    Returns
    -------
    CheckReport. It has errors exactly where the reader of this kind would refuse the data. Warnings are about what is
    read and probably not meant.

    Notes
    -----
    Reads everything once, texts one by one: ids, digests of texts, queries and judgements are held in memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "qrels.txt")
    ...     _ = file.write_text("q1 0 d1 1\\nq1 0 d2\\nq1 0 d1 2\\nq2 0 d1 0\\n")
    ...     report = check(file)
    >>> [(group.severity, group.kind, group.first[0].line) for group in report.groups]
    [('error', 'format', 2), ('error', 'contradiction', 3), ('warning', 'no-relevant', 4)]
    """
    where, findings = Path(path), Findings(most_shown)
    if not where.exists():
        raise InputError(f"{path}: there is no such file or folder")
    if kind is None:
        kind = _kind_of(where, findings)
        if kind is None:
            return findings.report(path, None, {})
    if kind not in get_args(Kind):
        raise InputError(f"'kind' must be one of {', '.join(get_args(Kind))}. Got {kind!r}.")
    counts: Counts = {}
    with findings.catching():
        if kind in _TABLE_CHECKS:
            counts |= _TABLE_CHECKS[kind](where, findings, table or TableSettings())
        else:
            counts |= _CHECKS[kind](where, findings)
    return findings.report(path, kind, counts)


def _kind_of(path: Path, findings: Findings) -> Kind | None:
    try:
        return recognise(path)
    except InputError as error:
        try:
            kind = guess(path)
        except FormatError as deeper:
            findings.refused(deeper)
            return None
        if kind is None:
            if isinstance(error, FormatError):
                findings.refused(error)
            else:
                findings.error("unknown-kind", path, None, str(error).removeprefix(f"{path}: "))
        return kind


def _check_vectors(path: Path, findings: Findings) -> Counts:
    counts: Counts = {}
    try:
        has_queries = read_bundle(path, kind=VECTORS).meta.get("has_queries", False)
        for name, folder in (("documents", "docs"), ("queries", "queries")):
            if folder == "docs" or has_queries:
                counts[name] = MappedRows.open(path / folder, verify="open").shape[0]
    except BundleError as error:
        findings.error("damaged", path, None, str(error))
    return counts


_CHECKS: dict[Kind, Callable[[Path, Findings], Counts]] = {
    "beir": check_beir,
    "labelled-folder": check_labelled,
    "20newsgroups": check_newsgroups,
    "letor": check_letor,
    "letor-folds": check_folds,
    "svmlight": check_svmlight,
    "qrels": check_qrels,
    "run": check_run,
    "preferences": check_preferences,
    "clicks": check_clicks,
    "vectors": _check_vectors,
}
_TABLE_CHECKS: dict[Kind, Callable[[Path, Findings, TableSettings], Counts]] = {
    "documents": check_documents,
    "judgements": check_judgement_table,
    "threes": check_threes,
    "click-log": check_click_log,
    "links": check_links,
}
