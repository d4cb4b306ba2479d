"""Judgements, whatever they are written as: TREC, BEIR, a table with any columns, records or a frame."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tercet.data import limits
from tercet.data.documents import id_in
from tercet.data.frames import IndexedTexts, as_table, plain_shown
from tercet.data.lines import FilePath, LookAlikes, Refused, refuse, split_columns
from tercet.data.roles import ANSWER_NAMES, QUERY_ID_NAMES, RoleGuess, find_roles, guess_roles, plain_name
from tercet.data.tables import NO_ROWS, DataTable, LinedFile, first_line, is_parquet, open_table
from tercet.data.trec import BEIR_HEADER, iterate_judgements
from tercet.data.values import Value, number_in
from tercet.errors import FormatError, InputError

Qrels = dict[str, dict[str, int]]
Columns = Mapping[str, str]  # role -> the column that has it
UNKNOWN_ID = "unknown-id"  # the kind of a FormatError: a row names a query or document that there is not


class JudgementRow(NamedTuple):
    """A grade: where it is, the query by id or text, perhaps its id beside its text, the document, the grade."""

    number: int
    query: str
    qid: str | None
    doc_id: str
    grade: int


@dataclass(frozen=True)
class JudgedQueries:
    """Judgements with the texts of their queries.

    Attributes
    ----------
    queries : ``{qid: text}``; those that were given, or those that the judgements name by their texts
    qrels : ``{qid: {doc_id: grade}}``
    n_ungraded : rows without a grade, which are left out
    form : what was read and what columns were taken for; empty for TREC and BEIR, where nothing is guessed
    """

    queries: dict[str, str]
    qrels: Qrels
    n_ungraded: int
    form: str


class QueryLookup:
    """Finds queries by id or, where none has that id, by text, without regard to case and blanks.

    Examples
    --------
    >>> lookup = QueryLookup({"q7": "green tea", "q8": "milk"})
    >>> lookup("q7"), lookup("Milk"), lookup("bread")
    (('q7',), ('q8',), ())
    """

    def __init__(self, queries: Mapping[str, str]) -> None:
        self._ids = queries
        self._by_text: dict[str, list[str]] | None = None

    def __call__(self, query: str) -> tuple[str, ...]:
        """The ids of the queries that are meant; all of those with this text."""
        if query in self._ids:
            return (query,)
        if self._by_text is None:
            self._by_text = {}
            for qid, text in self._ids.items():
                self._by_text.setdefault(plain_text(text), []).append(qid)
        qids = self._by_text.get(plain_text(query), [])
        if len(qids) > limits.MOST_QUERIES_OF_A_TEXT:
            raise InputError(
                f"{len(qids):,} queries have the text {query[:60]!r}; name a query by its id where more than "
                f"{limits.MOST_QUERIES_OF_A_TEXT:,} have its text"
            )
        return tuple(qids)


def plain_text(text: str) -> str:
    """A query's text without regard to case and blanks.

    Examples
    --------
    >>> plain_text("Green  tea ")
    'green tea'
    """
    return " ".join(text.casefold().split())


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
    queries : id -> text; a query is named by its id or by its text. None, in a table: what is named is the text
    docs : if given, the ids there are; any other is an error
    columns : of a table, role -> column, for the roles query, query-id, doc and grade; others are guessed
    refused : takes what is wrong with a row, which is then left out
    encoding, delimiter : of a table, as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "judged.csv")
    ...     _ = file.write_text("search term;sku;stars\ngreen tea;007;3\n")
    ...     read_judgements(file, columns={"grade": "stars"}).qrels
    {'green tea': {'007': 3}}
    """
    first = "" if is_parquet(path) else first_line(path, encoding)[1]
    source = LinedFile(path)
    ungraded = [0]
    if _is_trec(first):
        trec = iterate_judgements(path, refused=refused)
        rows: Iterator[JudgementRow] = (
            JudgementRow(line, qid, None, doc_id, grade) for line, qid, doc_id, grade in trec
        )
        by_id, form = True, ""
    else:
        source = table = open_table(path, encoding=encoding, delimiter=delimiter)
        roles, by_id = judgement_roles(table, columns)
        rows = judgement_rows(table, roles, refused, ungraded)
        form = f"{table.form}; {roles}"
    return _gathered(rows, source, queries, docs, refused, ungraded, by_id, form)


def _is_trec(text: str) -> bool:
    columns = split_columns(text)
    return text == BEIR_HEADER or (len(columns) == 4 and columns[3].removeprefix("-").isdecimal())


# -- tables -----------------------------------------------------------------------------------------------------------


def judgement_roles(table: DataTable, columns: Columns | None = None) -> tuple[RoleGuess, bool]:
    """Columns of judgements, given or guessed, and whether the query's column was guessed to hold ids.

    Without a column of grades, a document in a column called answer or positive has grade 1.
    """
    guess = guess_roles(table.columns, "judgements", columns)
    has_answers = "doc" in guess.columns and plain_name(guess["doc"]) in ANSWER_NAMES
    is_graded = "grade" in guess.columns.keys() | guess.unclear.keys() or not has_answers
    roles = find_roles(table, "judgements" if is_graded else "answers", columns)
    return roles, "query" not in (columns or {}) and plain_name(roles["query"]) in QUERY_ID_NAMES


def judgement_rows(
    table: DataTable, roles: RoleGuess, refused: Refused | None, ungraded: list[int]
) -> Iterator[JudgementRow]:
    """Rows with a grade; those without one, which may also lack a document, are counted."""
    query_column, doc_column = roles["query"], roles["doc"]
    id_column, grade_column = roles.get("query-id"), roles.get("grade")
    for number, row in table.rows(refused):
        try:
            query = query_in(row.get(query_column), table, number, query_column)
            qid = None if id_column is None else id_in(row.get(id_column), table, number, id_column)
            grade = 1 if grade_column is None else _grade_in(row.get(grade_column), table, number, grade_column)
            if grade is None:
                ungraded[0] += 1
                continue
            doc_id = id_in(row.get(doc_column), table, number, doc_column)
        except FormatError as problem:
            refuse(problem, refused)
            continue
        yield JudgementRow(number, query, qid, doc_id, grade)


def query_in(value: Value, table: DataTable, number: int, column: str) -> str:
    """The query in a cell, an id or a text."""
    query = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if query is None or (isinstance(query, str) and not query.strip()):
        raise table.error(number, f"{column} is empty; a query needs words", "empty-text")
    if not isinstance(query, str):
        raise table.error(number, f"{column} is {query!r}; a query is a text")
    return query


def _grade_in(value: Value, table: DataTable, number: int, column: str) -> int | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    grade = number_in(value.strip()) if isinstance(value, str) else value
    if grade is None:
        raise table.error(number, f"{column} {value!r}; a grade is a whole number, and 0 is not relevant")
    if isinstance(grade, str) or grade != int(grade) or abs(grade) >= 1 << 53:
        raise table.error(number, f"{column} {value}; a whole number is needed: multiply or round the grades")
    return int(grade)


# -- gathering --------------------------------------------------------------------------------------------------------


def _gathered(
    rows: Iterable[JudgementRow],
    source: LinedFile,
    queries: Mapping[str, str] | None,
    docs: Container[str] | None,
    refused: Refused | None,
    ungraded: list[int],
    by_id: bool,
    form: str,
) -> JudgedQueries:
    texts: dict[str, str] = dict(queries or {})
    first_spelling: dict[str, str] = {}
    like = LookAlikes(docs if isinstance(docs, Iterable) else ())
    lookup = None if queries is None else QueryLookup(queries)
    qrels: Qrels = {}
    numbers: dict[tuple[str, str], int] = {}
    for row in rows:
        try:
            qids = qids_of(row, lookup, texts, first_spelling, source, by_id)
            if docs is not None and row.doc_id not in docs:
                raise source.error(row.number, unknown_id("document", row.doc_id) + like.hint(row.doc_id), UNKNOWN_ID)
            for qid in qids:
                first = qrels.setdefault(qid, {}).setdefault(row.doc_id, row.grade)
                if first != row.grade:
                    pair = f"query {qid!r}, document {row.doc_id!r}"
                    message = (
                        f"{pair} has grade {row.grade} here and {first} at {source.position(numbers[qid, row.doc_id])}"
                    )
                    raise source.error(row.number, message, "contradiction")
                numbers.setdefault((qid, row.doc_id), row.number)
        except FormatError as problem:
            refuse(problem, refused)
    qrels = {qid: judged for qid, judged in qrels.items() if judged}
    if not qrels:
        raise FormatError(source.name, None, "there is no judgement" if ungraded[0] else NO_ROWS)
    return JudgedQueries(texts, qrels, ungraded[0], form)


def qids_of(
    row: JudgementRow,
    lookup: QueryLookup | None,
    texts: dict[str, str],
    first_spelling: dict[str, str],
    source: LinedFile,
    by_id: bool,
) -> tuple[str, ...]:
    """The ids of the queries of a row; a query that only the judgements name is known by its text from now on.

    Texts that differ in case and blanks alone are one query, by the first of them.
    """
    if lookup is None:
        if not by_id and row.qid is None:
            text = first_spelling.setdefault(plain_text(row.query), row.query)
            texts[text] = text
            return (text,)
        qid = row.qid or row.query
        if not by_id:
            first = texts.setdefault(qid, row.query)
            if first != row.query:
                raise source.error(row.number, f"query {qid!r} is {row.query!r} here and {first!r} before")
        return (qid,)
    qids = (lookup(row.qid) if row.qid is not None else ()) or lookup(row.query)
    if not qids:
        raise source.error(row.number, unknown_id("query", row.query), UNKNOWN_ID)
    return qids


def unknown_id(what: str, identifier: str) -> str:
    """Say that there is no such query or document."""
    where = "documents" if what == "document" else "queries, neither as an id nor as a text"
    return f"{what} {plain_shown(identifier)} is not among the {where}"


# -- in memory --------------------------------------------------------------------------------------------------------


def as_queries(queries: Any) -> dict[str, str]:
    """Queries by id: a mapping of ids to texts, a Series, records or a frame with an id and a text, or a list of texts.

    A query of a list of texts has its text as its id.

    Examples
    --------
    >>> as_queries(["green tea", "milk"])
    {'green tea': 'green tea', 'milk': 'milk'}
    >>> as_queries([{"qid": 7, "query": "green tea"}])
    {'7': 'green tea'}
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
    """Queries of a table with a text and perhaps an id on each row; one without an id has its text as its id."""
    roles = find_roles(table, "queries", {**(columns or {}), **({"query-id": id_column} if id_column else {})})
    text_column, id_column = roles["query"], roles.get("query-id")
    texts: dict[str, str] = {}
    for number, row in table.rows(refused):
        try:
            text = query_in(row.get(text_column), table, number, text_column)
            qid = text if id_column is None else id_in(row.get(id_column), table, number, id_column)
            if texts.setdefault(qid, text) != text:
                raise table.error(number, f"the id {qid!r} is already used", "duplicate-id")
        except FormatError as problem:
            refuse(problem, refused)
    if not texts:
        raise FormatError(table.name, None, NO_ROWS)
    return texts


def as_judgements(qrels: Any, queries: Mapping[str, str] | None, name: str = "qrels") -> JudgedQueries:
    """Judgements of records or of a frame, as `read_judgements` has them of a file."""
    table = as_table(qrels, name)
    if not isinstance(table, DataTable):
        wanted = "a mapping, qid -> {doc_id: grade}, records or a frame with a query, a document and a grade"
        raise InputError(f"{name} must be {wanted}; got {type(qrels).__name__}")
    roles, by_id = judgement_roles(table)
    if by_id and queries is None:
        raise InputError(f"{name} name queries by their ids, in {roles['query']!r}; give queries, id -> text")
    ungraded = [0]
    rows = judgement_rows(table, roles, None, ungraded)
    return _gathered(rows, table, queries, None, None, ungraded, by_id, str(roles))
