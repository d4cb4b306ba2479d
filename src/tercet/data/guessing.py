"""Guesses of the roles of columns from their cells, for tables whose columns have unknown names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Final

from tercet.data.cells import NO, YES
from tercet.data.roles import Given, RoleGuess, guess_roles, kind_of_click_log
from tercet.data.tables import DataTable
from tercet.data.values import Value, moment_in, number_in

ROWS_LOOKED_AT: Final = 5_000
_WORD = re.compile(r"[^\W\d_]{2,}")
_TAG = re.compile(r"<[^<>]*>")
_BETWEEN_IDS = re.compile(r"[\s,;|\[\]\"]+")
_TRUTHS: Final = YES | NO
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]+", re.IGNORECASE)
_SENTENCE_WORDS: Final = 2.0  # least mean number of words per cell of a searched column
_TEXT_WORDS: Final = 8.0  # least mean number of words per cell of a column searched despite named text columns
_OWN: Final = 0.5  # least share of distinct cells in a column of texts
_LAST_POSITION: Final = 1_000

Cells = Mapping[str, Sequence[str]]


def sample(table: DataTable) -> dict[str, list[str]]:
    """Return the cells of the first rows by column, as texts; empty and broken cells are empty texts."""
    rows = [row for _, row in islice(table.rows(lambda problem: None), ROWS_LOOKED_AT)]
    return {name: [_as_text(row.get(name)) for row in rows] for name in table.columns}


def _as_text(value: Value) -> str:
    return "" if value is None else str(value).strip()


def guess_documents(
    columns: Sequence[str], cells: Cells, known_ids: Collection[str] = (), given: Given | None = None
) -> RoleGuess:
    """Guess the columns of ids and texts of documents.

    Parameters
    ----------
    columns, cells : of the table, see `sample`
    known_ids : cells of a click log; the column that shares most of them has the ids
    given : role -> column, or columns
    """
    guess = guess_roles(columns, "documents", given)
    roles = dict(guess.columns)
    if given and "text" in given and "id" in roles:
        return guess
    words = {name: _mean_words(cells[name]) for name in columns}
    if "id" not in roles:
        distinct = [name for name in guess.unclear.get("id", columns) if _are_ids(cells[name])]
        shared = {name: len(set(cells[name]).intersection(known_ids)) for name in distinct}
        if distinct:
            roles["id"] = (max(distinct, key=lambda name: (shared[name], not _number_rows(cells[name]))),)
    texts = list(roles.get("text", ()))
    least = _TEXT_WORDS if texts else _SENTENCE_WORDS
    used = {*texts, *roles.get("id", ()), *private_columns(cells)}
    unused = [name for name in columns if name not in used]
    texts += [name for name in unused if words[name] >= least and len(set(cells[name])) > _OWN * len(cells[name])]
    if texts:
        roles["text"] = tuple(texts)
    return _with(guess, roles)


def private_columns(cells: Cells) -> tuple[str, ...]:
    """Return the columns with addresses of people."""
    filled = {name: [cell for cell in column if cell] for name, column in cells.items()}
    return tuple(
        name
        for name, column in filled.items()
        if column and sum(map(bool, map(_EMAIL.fullmatch, column))) * 2 > len(column)
    )


def guess_clicks(
    columns: Sequence[str], cells: Cells, docs: Cells, doc_ids: Collection[str], given: Given | None = None
) -> RoleGuess:
    """Guess the columns of a click log: documents by their ids, queries by words of the documents.

    Parameters
    ----------
    columns, cells : of the log, see `sample`
    docs, doc_ids : cells and ids of the documents
    given : role -> column
    """
    lists = [name for name in columns if _holds_lists(cells[name], doc_ids)]
    kind = "lists" if len(lists) > 1 else kind_of_click_log(columns, given)
    guess = guess_roles(columns, kind, given)
    roles = dict(guess.columns)
    free = [name for name in columns if name not in {taken_name for named in roles.values() for taken_name in named}]

    def take(role: str, names: Iterable[str]) -> None:
        chosen = next((name for name in names if name in free), None)
        if chosen is not None and role not in roles:
            roles[role] = (chosen,)
            free.remove(chosen)

    if kind == "lists":
        long_first = sorted(lists, key=lambda name: -sum(map(len, cells[name])))
        take("shown", long_first)
        take("clicked", long_first)
    else:
        shares = {name: _share(cells[name], lambda cell: cell in doc_ids) for name in free}
        take("doc", [name for name in sorted(free, key=lambda name: -shares[name]) if shares[name] > _OWN])
        truths = [name for name in free if _share(cells[name], lambda cell: cell.lower() in _TRUTHS) == 1]
        take("clicked", truths if len(truths) == 1 else ())
        take("position", [name for name in free if _are_positions(cells[name])])
    vocabulary = {word.lower() for column in docs.values() for cell in column for word in _WORD.findall(cell)}
    words = {name: _known_words(cells[name], vocabulary) for name in free}
    take("query", sorted(filter(words.get, free), key=lambda name: -words[name]))
    take("time", [name for name in free if _share(cells[name], lambda cell: moment_in(cell) is not None) == 1])
    runs = {name: len(set(cells[name])) for name in free if _repeats(cells[name])}
    take("session", sorted(runs, key=lambda name: -runs[name]))
    return _with(guess, roles)


def _with(guess: RoleGuess, found: Mapping[str, tuple[str, ...]]) -> RoleGuess:
    missing = tuple(role for role in guess.missing if role.name not in found)
    unclear = {role: names for role, names in guess.unclear.items() if role not in found}
    return replace(guess, columns=dict(found), missing=missing, unclear=unclear)


def _share(cells: Sequence[str], holds: Callable[[str], object]) -> float:
    """Return the share of filled cells that pass a test; 0 without filled cells."""
    filled = [cell for cell in cells if cell]
    return sum(bool(holds(cell)) for cell in filled) / len(filled) if filled else 0.0


def _mean_words(cells: Sequence[str]) -> float:
    counts = [len(_WORD.findall(_TAG.sub(" ", cell))) for cell in cells if cell]
    return sum(counts) / len(counts) if counts else 0.0


def _are_ids(cells: Sequence[str]) -> bool:
    return (
        bool(cells)
        and all(cell and " " not in cell and len(cell) <= 200 for cell in cells)
        and len(set(cells)) == len(cells)
    )


def _number_rows(cells: Sequence[str]) -> bool:
    """Return True if cells count the rows."""
    return all(number_in(cell) == number for number, cell in enumerate(cells, start=1 if cells[0] == "1" else 0))


def _are_positions(cells: Sequence[str]) -> bool:
    numbers = [number_in(cell) for cell in cells if cell]
    whole = [number for number in numbers if isinstance(number, int)]
    return bool(whole) and len(whole) == len(cells) and min(whole) in (0, 1) and 1 < max(whole) <= _LAST_POSITION


def _holds_lists(cells: Sequence[str], doc_ids: Collection[str]) -> bool:
    """Return True if cells hold several ids of documents."""
    several = [ids for cell in cells if len(ids := list(filter(None, _BETWEEN_IDS.split(cell)))) > 1]
    return len(several) * 10 > len(cells) and all(any(doc_id in doc_ids for doc_id in ids) for ids in several)


def _known_words(cells: Sequence[str], vocabulary: Collection[str]) -> int:
    """Return the number of different words of documents, if these are a quarter of all words."""
    words = [word.lower() for cell in cells for word in _WORD.findall(cell)]
    matches = [word for word in words if word in vocabulary]
    return len(set(matches)) if len(matches) * 4 >= len(words) else 0


def _repeats(cells: Sequence[str]) -> bool:
    """Return True if cells often repeat the row before, and the column has many values."""
    same = sum(cell == next_cell for cell, next_cell in pairwise(cells))
    return bool(cells) and same * 4 > len(cells) and len(set(cells)) * 100 > len(cells)
