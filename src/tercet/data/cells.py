"""Cells of a table, read by the roles of their columns; queries and documents named in cells."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from tercet.data import limits
from tercet.data.lines import LookAlikes, Refused, id_problem, load_json, refuse
from tercet.data.roles import TABLE_ROLES, CellType, RoleGuess
from tercet.data.tables import DataTable
from tercet.data.values import Record, Value, number_in
from tercet.errors import FormatError, InputError

T = TypeVar("T")
Columns = Mapping[str, str]  # role -> column
UNKNOWN_ID: Final = "unknown-id"  # kind of a FormatError: a row names an unknown query or document
YES: Final = frozenset(("1", "true", "t", "yes", "y", "ja", "j", "oui", "si", "sí", "sim"))
NO: Final = frozenset(("0", "false", "f", "no", "n", "nein", "non", "não"))


def id_in(value: Value, table: DataTable, number: int, column: str) -> str:
    """Return the id in a cell: a string unchanged, or a whole number in its digits."""
    if value is None or value == "":
        raise table.error(number, f"{column} is empty; every row needs an id", "id")
    identifier = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    problem = id_problem(identifier)
    if problem is not None:
        if isinstance(value, float):
            problem = f"is {value}, a number with a point; ids are strings or whole numbers"
        raise table.error(number, f"{column} {problem}", "id")
    return str(identifier)


def ids_in(value: Value, table: DataTable, number: int, column: str) -> tuple[str, ...]:
    """Return the ids in a cell: a JSON array, or ids separated by one of , ; | and blanks."""
    if value is None:
        return ()
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            ids = load_json(value)
        except (ValueError, RecursionError):
            raise table.error(number, f"{column} {value[:60]!r} is no JSON array of ids") from None
    else:
        text = str(value)
        mark = next((mark for mark in (",", ";", "|") if mark in text), None)
        parts = text.split(mark, limits.MOST_VALUES)
        if len(parts) > limits.MOST_VALUES:
            raise table.error(number, f"{column} has more than {limits.MOST_VALUES:,} ids")
        ids = [part.strip() for part in parts if part.strip()]
    return tuple(id_in(identifier, table, number, column) for identifier in ids)


def query_in(value: Value, table: DataTable, number: int, column: str) -> str:
    """Return the query in a cell, an id or a text."""
    query = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if query is None or (isinstance(query, str) and not query.strip()):
        raise table.error(number, f"{column} is empty; a query needs words", "empty-text")
    if not isinstance(query, str):
        raise table.error(number, f"{column} is {query!r}; a query is a text")
    return query


def truth_in(value: Value, table: DataTable, number: int, column: str) -> bool:
    """Return the truth value in a cell: 0 or 1, true or false, or a number of clicks; an empty cell is false."""
    count: Value = value
    if isinstance(value, str):
        text = value.strip().lower()
        if text in NO or not text:
            return False
        if text in YES:
            return True
        count = number_in(text)
    elif value is None:
        return False
    if isinstance(count, str) or count is None or count < 0:
        raise table.error(number, f"{column} {value!r}; 0 or 1, true or false, or how many clicks is needed")
    return count > 0


def _number(value: Value) -> float | int | None:
    """Return the number in a cell, None for any other value."""
    number = number_in(value.strip()) if isinstance(value, str) else value
    return None if isinstance(number, bool | str) else number


def _is_empty(value: Value) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def position_in(value: Value, table: DataTable, number: int, column: str) -> float | None:
    """Return the position in a cell, from 0 upwards; None for an empty cell."""
    if _is_empty(value):
        return None
    position = _number(value)
    if position is None or position < 0:
        raise table.error(number, f"{column} {value!r}; a position is a number, 0 or more, from the top")
    return float(position)


def grade_in(value: Value, table: DataTable, number: int, column: str) -> int | None:
    """Return the grade in a cell; None for an empty cell."""
    if _is_empty(value):
        return None
    grade = number_in(value.strip()) if isinstance(value, str) else value
    if grade is None:
        raise table.error(number, f"{column} {value!r}; a grade is a whole number, and 0 is not relevant")
    if isinstance(grade, str) or grade != int(grade) or abs(grade) >= 1 << 53:
        raise table.error(number, f"{column} {value}; a whole number is needed: multiply or round the grades")
    return int(grade)


def weight_in(value: Value, table: DataTable, number: int, column: str) -> float:
    """Return the weight in a cell, a positive finite number."""
    weight = _number(value)
    if weight is None or not 0 < weight < float("inf"):
        raise table.error(number, f"{column} {value!r}; a positive, finite number is needed")
    return float(weight)


def count_in(value: Value, table: DataTable, number: int, column: str) -> float:
    """Return the count in a cell, a finite number from 0 upwards."""
    count = _number(value)
    if count is None or not 0 <= count < float("inf"):
        raise table.error(number, f"{column} {value!r}; a number, 0 or more, is needed")
    return float(count)


def _unread(value: Value, table: DataTable, number: int, column: str) -> Value:
    return value


CELL_READERS: Final[Mapping[CellType, Callable[[Value, DataTable, int, str], Any]]] = {
    "id": id_in,
    "ids": ids_in,
    "text": query_in,
    "truth": truth_in,
    "position": position_in,
    "grade": grade_in,
    "weight": weight_in,
    "count": count_in,
    "word": _unread,
    "time": _unread,
}


class Row:
    """A row of a table; ``row[role]`` reads the cell of a role, None for a role without a column."""

    __slots__ = ("_columns", "cells", "number", "table")

    def __init__(self, table: DataTable, columns: Mapping[str, tuple[str, Any]], number: int, cells: Record) -> None:
        self.table, self.number = table, number
        self._columns, self.cells = columns, cells

    def __getitem__(self, role: str) -> Any:
        if role not in self._columns:
            return None
        column, read = self._columns[role]
        return read(self.cells.get(column), self.table, self.number, column)

    def error(self, message: str, kind: str = "format") -> FormatError:
        """Return the error of this row."""
        return self.table.error(self.number, message, kind)


def read_rows(
    table: DataTable, roles: RoleGuess, make: Callable[[Row], T | None], refused: Refused | None = None
) -> Iterator[T]:
    """Yield ``make(row)`` of each row; None is left out, and a `FormatError` of `make` is handed to `refused`."""
    columns = {
        role.name: (roles[role.name], CELL_READERS[role.type])
        for role in TABLE_ROLES[roles.kind]
        if role.name in roles.columns
    }
    for number, cells in table.rows(refused):
        try:
            made = make(Row(table, columns, number, cells))
        except FormatError as problem:
            refuse(problem, refused)
        else:
            if made is not None:
                yield made


# -- queries and documents named in cells -----------------------------------------------------------------------------


def plain_text(text: str) -> str:
    """Return the text of a query without regard to case and blanks."""
    return " ".join(text.casefold().split())


class QueryLookup:
    """Finds queries by id or, where no query has the id, by text, without regard to case and blanks.

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
        """Return the id of the query, or the ids of all queries with the text."""
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


class DocumentCheck:
    """Refuses ids of unknown documents; None takes every id."""

    def __init__(self, docs: Container[str] | None) -> None:
        self._docs = docs
        self._like = LookAlikes(docs if isinstance(docs, Iterable) else ())

    def __call__(self, row: Row, *doc_ids: str) -> None:
        for doc_id in doc_ids:
            if self._docs is not None and doc_id not in self._docs:
                raise row.error(unknown_id("document", doc_id) + self._like.hint(doc_id), UNKNOWN_ID)


def unknown_id(noun: str, identifier: str) -> str:
    """Say that a query or document does not exist."""
    where = "documents" if noun == "document" else "queries, neither as an id nor as a text"
    return f"{noun} {identifier[:60]!r} is not among the {where}"
