"""Judgements in TREC or BEIR form, in a table with any columns, as records or as a frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.data.cells import (
    UNKNOWN_ID,
    Columns,
    DocumentCheck,
    QueryLookup,
    id_in,
    plain_text,
    read_rows,
    unknown_id,
)
from tercet.data.frames import as_table
from tercet.data.lines import FilePath, Refused, refuse, split_columns
from tercet.data.roles import ANSWER_NAMES, QUERY_ID_NAMES, RoleGuess, find_roles, guess_roles, plain_name
from tercet.data.tables import NO_ROWS, DataTable, first_line, is_parquet, open_table
from tercet.data.trec import JudgementLines
from tercet.errors import FormatError, InputError

Qrels = dict[str, dict[str, int]]
_JUDGED = ("query", "query-id", "doc", "grade")


@dataclass(frozen=True)
class JudgedQueries:
    """Judgements with the texts of their queries.

    Attributes
    ----------
    queries : ``{qid: text}``, given or named in the judgements by their texts
    qrels : ``{qid: {doc_id: grade}}``
    n_ungraded : number of rows left out for lack of a grade
    form : description of the file and its columns; empty for TREC
    """

    queries: dict[str, str]
    qrels: Qrels
    n_ungraded: int
    form: str


def read_judgements(
    path: FilePath,
    queries: Mapping[str, str] | None = None,
    docs: Container[str] | None = None,
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    encoding: str | None = None,
) -> JudgedQueries:
    r"""Read judgements of any kind: TREC, BEIR, or a table with a query, a document and a grade on each row.

    Parameters
    ----------
    path : the file
    queries : id -> text; rows name a query by its id or its text. None: the text of a table names the query
    docs : known document ids; any other id is an error
    columns : of a table, role -> column, for the roles query, query-id, doc and grade; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding : of a table, as in `iter_rows`
    """
    first = "" if is_parquet(path) else first_line(path, encoding)[1]
    if _is_trec(first):
        table: DataTable = JudgementLines(path)
        roles, by_id, form = guess_roles(table.columns, "judgements"), True, ""
    else:
        table = open_table(path, encoding=encoding)
        roles, by_id = judgement_roles(table, columns)
        form = f"{table.form}; {roles}"
    return _gathered(table, roles, queries, docs, refused, by_id, form)


def _is_trec(text: str) -> bool:
    columns = split_columns(text)
    return len(columns) == 4 and columns[3].removeprefix("-").isdecimal()


def read_qrels(path: FilePath) -> Qrels:
    """Read judgements: TREC's ``qid iteration doc_id grade``, BEIR's table, or any table of judgements.

    Parameters
    ----------
    path : the file, gzipped or not

    Returns
    -------
    ``{qid: {doc_id: grade}}`` in file order. A repeated line counts once; two grades for a pair are an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "qrels.txt")
    ...     _ = file.write_text("q1 0 d1 2\\nq1 0 d2 0\\n")
    ...     read_qrels(file)
    {'q1': {'d1': 2, 'd2': 0}}
    """
    return read_judgements(path).qrels


def judgement_roles(table: DataTable, columns: Columns | None = None) -> tuple[RoleGuess, bool]:
    """Return the columns of judgements, and True if the query's column was guessed to hold ids.

    In a table without grades, a document in a column called answer or positive has grade 1.
    """
    guess = guess_roles(table.columns, "judgements", columns)
    has_answers = "doc" in guess.columns and plain_name(guess["doc"]) in ANSWER_NAMES
    is_graded = "grade" in guess.columns.keys() | guess.unclear.keys() or not has_answers
    roles = find_roles(table, "judgements" if is_graded else "answers", columns)
    return roles, "query" not in (columns or {}) and plain_name(roles["query"]) in QUERY_ID_NAMES


def _gathered(
    table: DataTable,
    roles: RoleGuess,
    queries: Mapping[str, str] | None,
    docs: Container[str] | None,
    refused: Refused | None,
    by_id: bool,
    form: str,
) -> JudgedQueries:
    names = _QueryNames(table, queries, by_id)
    check = DocumentCheck(docs, table)
    is_graded = "grade" in roles.columns
    ungraded = Counter(grade=0) if is_graded else None  # a row without a grade may also lack a document
    qrels: Qrels = {}
    lines: dict[tuple[str, str], int] = {}
    readers = {"query": id_in} if by_id else {}
    for line, query, qid, doc_id, grade in read_rows(table, roles, _JUDGED, refused, readers, ungraded):
        try:
            qids = names.ids_of(line, query, qid)
            check(line, doc_id)
            for name in qids:
                first = qrels.setdefault(name, {}).setdefault(doc_id, grade if is_graded else 1)
                if is_graded and first != grade:
                    pair = f"query {name!r}, document {doc_id!r}"
                    before = table.position(lines[name, doc_id])
                    raise table.error(line, f"{pair} has grade {grade} here and {first} at {before}", "contradiction")
                lines.setdefault((name, doc_id), line)
        except FormatError as problem:
            refuse(problem, refused)
    qrels = {qid: grades for qid, grades in qrels.items() if grades}
    n_ungraded = 0 if ungraded is None else ungraded["grade"]
    if not qrels:
        raise FormatError(table.name, None, "there is no judgement" if n_ungraded else NO_ROWS)
    return JudgedQueries(names.texts, qrels, n_ungraded, form)


class _QueryNames:
    """Ids of the queries in judgements; without given queries, texts that differ in case are one query."""

    def __init__(self, table: DataTable, queries: Mapping[str, str] | None, by_id: bool) -> None:
        self.texts = dict(queries or {})
        self._table, self._by_id = table, by_id
        self._lookup = None if queries is None else QueryLookup(queries)
        self._first_spelling: dict[str, str] = {}

    def ids_of(self, line: int, query: str, qid: str | None) -> tuple[str, ...]:
        if self._lookup is not None:
            qids = (self._lookup(qid) if qid is not None else ()) or self._lookup(query)
            if not qids:
                raise self._table.error(line, unknown_id("query", query), UNKNOWN_ID)
            return qids
        if self._by_id:
            return (qid or query,)
        if qid is None:
            text = self._first_spelling.setdefault(plain_text(query), query)
            self.texts[text] = text
            return (text,)
        first = self.texts.setdefault(qid, query)
        if first != query:
            raise self._table.error(line, f"query {qid!r} is {query!r} here and {first!r} before")
        return (qid,)


# -- in memory --------------------------------------------------------------------------------------------------------


def as_queries(queries: Any) -> dict[str, str]:
    """Return queries by id of a mapping of ids to texts, records, a frame, or a list of texts.

    A query of a list of texts has its text as its id.
    """
    if isinstance(queries, str | bytes):
        raise InputError(f"queries must be texts by id; got the string {queries[:60]!r}")
    if isinstance(queries, Sequence) and all(isinstance(text, str) for text in queries):
        return {text: text for text in queries}
    table = as_table(queries, "queries")
    if isinstance(table, dict):
        return table
    if table is None:
        expected = "a mapping of ids to texts, a list of texts or records, or a frame"
        raise InputError(f"queries must be {expected}; got {type(queries).__name__}")
    return _queries_of(table, id_column=table.columns[0] if isinstance(queries, Mapping) else None)


def read_queries(
    path: FilePath, *, columns: Columns | None = None, refused: Refused | None = None, encoding: str | None = None
) -> dict[str, str]:
    """Read queries by id: BEIR's ``queries.jsonl``, or a table with a text and perhaps an id on each row.

    Parameters
    ----------
    path : the file
    columns : role -> column, for the roles query and query-id; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding : as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "queries.jsonl")
    ...     _ = file.write_text('{"_id": "1e5", "text": "avocado eyes"}')
    ...     read_queries(file)
    {'1e5': 'avocado eyes'}
    """
    return _queries_of(open_table(path, encoding=encoding), refused, columns)


def _queries_of(
    table: DataTable, refused: Refused | None = None, columns: Columns | None = None, id_column: str | None = None
) -> dict[str, str]:
    """Return the queries of a table; a query without an id has its text as its id."""
    roles = find_roles(table, "queries", {**(columns or {}), **({"query-id": id_column} if id_column else {})})
    texts: dict[str, str] = {}
    for line, text, qid in read_rows(table, roles, ("query", "query-id"), refused):
        if texts.setdefault(qid or text, text) != text:
            refuse(table.error(line, f"the id {qid or text!r} is already used", "duplicate-id"), refused)
    if not texts:
        raise FormatError(table.name, None, NO_ROWS)
    return texts


def as_judgements(qrels: Any, queries: Mapping[str, str] | None, name: str = "qrels") -> JudgedQueries:
    """Return the judgements of records or of a frame; see `read_judgements`."""
    table = as_table(qrels, name)
    if not isinstance(table, DataTable):
        expected = "a mapping, qid -> {doc_id: grade}, records or a frame with a query, a document and a grade"
        raise InputError(f"{name} must be {expected}; got {type(qrels).__name__}")
    roles, by_id = judgement_roles(table)
    if by_id and queries is None:
        raise InputError(f"{name} name queries by their ids, in {roles['query']!r}; give queries, id -> text")
    return _gathered(table, roles, queries, None, None, by_id, str(roles))
