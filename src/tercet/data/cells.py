"""Cells of a table, read by the roles of their columns; queries and documents named in cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tercet.data import limits
from tercet.data.batches import BadCell, Conversion, Convert, converted_columns
from tercet.data.lines import LookAlikes, Refused, id_problem, load_json
from tercet.data.roles import TABLE_ROLES, CellType, RoleGuess
from tercet.data.tables import DataTable
from tercet.data.values import Value, number_in
from tercet.errors import InputError

Columns = Mapping[str, str]  # role -> column
Readers = Mapping[str, Convert | Conversion]  # role -> conversion of the role's cells, or of other columns
UNKNOWN_ID: Final = "unknown-id"  # kind of a FormatError: a row names an unknown query or document
YES: Final = frozenset(("1", "true", "t", "yes", "y", "ja", "j", "oui", "si", "sí", "sim"))
NO: Final = frozenset(("0", "false", "f", "no", "n", "nein", "non", "não"))


def id_in(value: Value) -> str:
    """Return the id in a cell: a string unchanged, or a whole number in its digits."""
    if value is None or value == "":
        raise BadCell("is empty; every row needs an id", "id")
    identifier = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    problem = id_problem(identifier)
    if problem is not None:
        if isinstance(value, float):
            problem = f"is {value}, a number with a point; ids are strings or whole numbers"
        raise BadCell(problem, "id")
    return str(identifier)


def ids_in(value: Value) -> tuple[str, ...]:
    """Return the ids in a cell: a JSON array, or ids separated by one of , ; | and blanks."""
    if value is None:
        return ()
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            ids = load_json(value)
        except (ValueError, RecursionError):
            raise BadCell(f"{value[:60]!r} is no JSON array of ids") from None
    else:
        text = str(value)
        mark = next((mark for mark in (",", ";", "|") if mark in text), None)
        parts = text.split(mark, limits.MOST_VALUES)
        if len(parts) > limits.MOST_VALUES:
            raise BadCell(f"has more than {limits.MOST_VALUES:,} ids")
        ids = [part.strip() for part in parts if part.strip()]
    return tuple(map(id_in, ids))


def query_in(value: Value) -> str:
    """Return the query in a cell, an id or a text."""
    query = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if query is None or (isinstance(query, str) and not query.strip()):
        raise BadCell("is empty; a query needs words", "empty-text")
    if not isinstance(query, str):
        raise BadCell(f"is {query!r}; a query is a text")
    return query


def truth_in(value: Value) -> bool:
    """Return the truth value in a cell: 0 or 1, true or false, or a number of clicks; an empty cell is false."""
    if is_empty(value):
        return False
    text = str(value).strip().lower()
    if text in NO or text in YES:
        return text in YES
    count = _number(value)
    if count is None or count < 0:
        raise BadCell(f"{value!r}; 0 or 1, true or false, or how many clicks is needed")
    return count > 0


def _number(value: Value) -> float | int | None:
    """Return the number in a cell, None for any other value."""
    number = number_in(value.strip()) if isinstance(value, str) else value
    return None if isinstance(number, bool | str) else number


def is_empty(value: Value) -> bool:
    """Return True for a cell without a value."""
    return value is None or (isinstance(value, str) and not value.strip())


def position_in(value: Value) -> float | None:
    """Return the position in a cell, from 0 upwards; None for an empty cell."""
    if is_empty(value):
        return None
    position = _number(value)
    if position is None or position < 0:
        raise BadCell(f"{value!r}; a position is a number, 0 or more, from the top")
    return float(position)


def grade_in(value: Value) -> int | None:
    """Return the grade in a cell; None for an empty cell."""
    if is_empty(value):
        return None
    grade = value if isinstance(value, bool) else _number(value)
    if grade is None:
        raise BadCell(f"{value!r}; a grade is a whole number, and 0 is not relevant")
    if grade != int(grade) or (isinstance(grade, float) and abs(grade) >= 1 << 53):
        raise BadCell(f"{value}; a whole number is needed: multiply or round the grades")
    return int(grade)


def weight_in(value: Value) -> float:
    """Return the weight in a cell, a positive finite number."""
    weight = _number(value)
    if weight is None or not 0 < weight < float("inf"):
        raise BadCell(f"{value!r}; a positive, finite number is needed")
    return float(weight)


def count_in(value: Value) -> float:
    """Return the count in a cell, a finite number from 0 upwards."""
    count = _number(value)
    if count is None or not 0 <= count < float("inf"):
        raise BadCell(f"{value!r}; a number, 0 or more, is needed")
    return float(count)


def word_in(value: Value) -> str | None:
    """Return the text of a cell; None for an empty cell."""
    return None if value is None or value == "" else str(value)


CELL_READERS: Final[Mapping[CellType, Convert]] = {
    "id": id_in,
    "ids": ids_in,
    "text": query_in,
    "truth": truth_in,
    "position": position_in,
    "grade": grade_in,
    "weight": weight_in,
    "count": count_in,
    "word": word_in,
}


def read_columns(
    table: DataTable,
    roles: RoleGuess,
    wanted: Sequence[str],
    refused: Refused | None = None,
    readers: Readers | None = None,
    needed: Counter[str] | None = None,
) -> Iterator[tuple[Sequence[int], list[Sequence[Any]]]]:
    """Yield the lines of many rows at once, and the cells of each wanted role; None for a role without a column.

    ``readers`` convert the cells of some roles in another way. A row without a value in a ``needed`` role is left out
    and counted.
    """
    types = {role.name: role.type for role in TABLE_ROLES[roles.kind]}
    columns = {}
    for role in wanted:
        convert = (readers or {}).get(role) or CELL_READERS.get(types.get(role, "word"), word_in)
        if isinstance(convert, Conversion):
            columns[role] = convert
            continue
        is_plain = convert is word_in and not table.is_typed
        columns[role] = Conversion(roles.columns.get(role, ()), None if is_plain else convert, convert is id_in)
    return converted_columns(table, columns, refused, needed)


def read_rows(
    table: DataTable,
    roles: RoleGuess,
    wanted: Sequence[str],
    refused: Refused | None = None,
    readers: Readers | None = None,
    needed: Counter[str] | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Yield the line of each row, and its cells of the wanted roles, as `read_columns` reads them."""
    for numbers, columns in read_columns(table, roles, wanted, refused, readers, needed):
        yield from zip(numbers, *columns, strict=True)


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
    """Refuses ids of unknown documents in a table; None takes every id."""

    def __init__(self, docs: Container[str] | None, table: DataTable) -> None:
        self._docs, self._table = docs, table
        self._like = LookAlikes(docs if isinstance(docs, Iterable) else ())

    def __call__(self, number: int, *doc_ids: str) -> None:
        for doc_id in doc_ids:
            if self._docs is not None and doc_id not in self._docs:
                message = unknown_id("document", doc_id) + self._like.hint(doc_id)
                raise self._table.error(number, message, UNKNOWN_ID)


def unknown_id(noun: str, identifier: str) -> str:
    """Say that a query or document does not exist."""
    where = "documents" if noun == "document" else "queries, neither as an id nor as a text"
    return f"{noun} {identifier[:60]!r} is not among the {where}"
