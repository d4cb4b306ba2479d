"""Judgements in TREC or BEIR form, in a table with any columns, as records or as a frame."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tercet.data.cells import UNKNOWN_ID, Columns, DocumentCheck, QueryLookup, Row, plain_text, read_rows, unknown_id
from tercet.data.frames import IndexedTexts, as_table
from tercet.data.lines import FilePath, Refused, refuse, split_columns
from tercet.data.roles import ANSWER_NAMES, QUERY_ID_NAMES, RoleGuess, find_roles, guess_roles, plain_name
from tercet.data.tables import NO_ROWS, DataTable, first_line, is_parquet, open_table
from tercet.data.trec import BEIR_HEADER, JudgementLines
from tercet.errors import FormatError, InputError

Qrels = dict[str, dict[str, int]]


class JudgementRow(NamedTuple):
    """A row with a grade; `qid` is the id of the query in rows with an id and a text."""

    row: Row
    query: str
    qid: str | None
    doc_id: str
    grade: int


@dataclass(frozen=True)
class JudgedQueries:
    """Judgements with the texts of their queries.

    Attributes
    ----------
    queries : ``{qid: text}``, given or named in the judgements by their texts
    qrels : ``{qid: {doc_id: grade}}``
    n_ungraded : number of rows left out for lack of a grade
    form : description of the file and its columns; empty for TREC and BEIR
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
    delimiter: str | None = None,
) -> JudgedQueries:
    r"""Read judgements of any kind: TREC, BEIR, or a table with a query, a document and a grade on each row.

    Parameters
    ----------
    path : the file
    queries : id -> text; rows name a query by its id or its text. None: the text of a table names the query
    docs : known document ids; any other id is an error
    columns : of a table, role -> column, for the roles query, query-id, doc and grade; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding, delimiter : of a table, as in `iter_rows`
    """
    first = "" if is_parquet(path) else first_line(path, encoding)[1]
    if _is_trec(first):
        table: DataTable = JudgementLines(path)
        roles, by_id, form = guess_roles(table.columns, "judgements"), True, ""
    else:
        table = open_table(path, encoding=encoding, delimiter=delimiter)
        roles, by_id = judgement_roles(table, columns)
        form = f"{table.form}; {roles}"
    return _gathered(table, roles, queries, docs, refused, by_id, form)


def _is_trec(text: str) -> bool:
    columns = split_columns(text)
    return text == BEIR_HEADER or (len(columns) == 4 and columns[3].removeprefix("-").isdecimal())


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
    n_ungraded = 0

    def judgement(row: Row) -> JudgementRow | None:
        nonlocal n_ungraded
        query, qid, grade = row["query"], row["query-id"], row["grade"] if "grade" in roles.columns else 1
        if grade is None:  # a row without a grade may lack a document, too
            n_ungraded += 1
            return None
        return JudgementRow(row, query, qid, row["doc"], grade)

    names = _QueryNames(queries, by_id)
    check = DocumentCheck(docs)
    qrels: Qrels = {}
    numbers: dict[tuple[str, str], int] = {}
    for judged in read_rows(table, roles, judgement, refused):
        row, doc_id, grade = judged.row, judged.doc_id, judged.grade
        try:
            qids = names.ids_of(judged)
            check(row, doc_id)
            for qid in qids:
                first = qrels.setdefault(qid, {}).setdefault(doc_id, grade)
                if first != grade:
                    pair = f"query {qid!r}, document {doc_id!r}"
                    before = table.position(numbers[qid, doc_id])
                    raise row.error(f"{pair} has grade {grade} here and {first} at {before}", "contradiction")
                numbers.setdefault((qid, doc_id), row.number)
        except FormatError as problem:
            refuse(problem, refused)
    qrels = {qid: grades for qid, grades in qrels.items() if grades}
    if not qrels:
        raise FormatError(table.name, None, "there is no judgement" if n_ungraded else NO_ROWS)
    return JudgedQueries(names.texts, qrels, n_ungraded, form)


class _QueryNames:
    """Ids of the queries in judgements; without given queries, texts that differ in case are one query."""

    def __init__(self, queries: Mapping[str, str] | None, by_id: bool) -> None:
        self.texts = dict(queries or {})
        self._lookup = None if queries is None else QueryLookup(queries)
        self._by_id = by_id
        self._first_spelling: dict[str, str] = {}

    def ids_of(self, judged: JudgementRow) -> tuple[str, ...]:
        if self._lookup is not None:
            qids = (self._lookup(judged.qid) if judged.qid is not None else ()) or self._lookup(judged.query)
            if not qids:
                raise judged.row.error(unknown_id("query", judged.query), UNKNOWN_ID)
            return qids
        if self._by_id:
            return (judged.qid or judged.query,)
        if judged.qid is None:
            text = self._first_spelling.setdefault(plain_text(judged.query), judged.query)
            self.texts[text] = text
            return (text,)
        first = self.texts.setdefault(judged.qid, judged.query)
        if first != judged.query:
            raise judged.row.error(f"query {judged.qid!r} is {judged.query!r} here and {first!r} before")
        return (judged.qid,)


# -- in memory --------------------------------------------------------------------------------------------------------


def as_queries(queries: Any) -> dict[str, str]:
    """Return queries by id of a mapping of ids to texts, a Series, records, a frame, or a list of texts.

    A query of a list of texts has its text as its id.
    """
    if isinstance(queries, str | bytes):
        raise InputError(f"queries must be texts by id; got the string {queries[:60]!r}")
    if isinstance(queries, Sequence) and all(isinstance(text, str) for text in queries):
        return {text: text for text in queries}
    table = as_table(queries, "queries")
    if isinstance(table, IndexedTexts):
        return dict(zip(table.ids, table.texts, strict=True))
    if table is None:
        wanted = "a mapping of ids to texts, a list of texts or records, or a frame"
        raise InputError(f"queries must be {wanted}; got {type(queries).__name__}")
    return queries_of_table(table, id_column=table.columns[0] if isinstance(queries, Mapping) else None)


def queries_of_table(
    table: DataTable, refused: Refused | None = None, *, columns: Columns | None = None, id_column: str | None = None
) -> dict[str, str]:
    """Return the queries of a table; a query without an id has its text as its id."""
    roles = find_roles(table, "queries", {**(columns or {}), **({"query-id": id_column} if id_column else {})})
    texts: dict[str, str] = {}

    def query(row: Row) -> None:
        text = row["query"]
        qid = row["query-id"] or text
        if texts.setdefault(qid, text) != text:
            raise row.error(f"the id {qid!r} is already used", "duplicate-id")

    for _ in read_rows(table, roles, query, refused):
        pass
    if not texts:
        raise FormatError(table.name, None, NO_ROWS)
    return texts


def as_judgements(qrels: Any, queries: Mapping[str, str] | None, name: str = "qrels") -> JudgedQueries:
    """Return the judgements of records or of a frame; see `read_judgements`."""
    table = as_table(qrels, name)
    if not isinstance(table, DataTable):
        wanted = "a mapping, qid -> {doc_id: grade}, records or a frame with a query, a document and a grade"
        raise InputError(f"{name} must be {wanted}; got {type(qrels).__name__}")
    roles, by_id = judgement_roles(table)
    if by_id and queries is None:
        raise InputError(f"{name} name queries by their ids, in {roles['query']!r}; give queries, id -> text")
    return _gathered(table, roles, queries, None, None, by_id, str(roles))
