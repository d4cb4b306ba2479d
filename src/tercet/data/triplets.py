"""Preferences by id: a query, a better document and a worse one, in a table, as records or as a frame."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tercet.data.cells import UNKNOWN_ID, Columns, DocumentCheck, QueryLookup, read_rows, unknown_id
from tercet.data.frames import as_table, key_id
from tercet.data.judgements import as_judgements, as_queries
from tercet.data.lines import FilePath, Refused, refuse
from tercet.data.roles import RoleGuess, find_roles, kind_of_columns
from tercet.data.tables import DataTable, open_table
from tercet.errors import FormatError, InputError

Triplet = tuple[str, str, str] | tuple[str, str, str, float]  # query, better and worse document, weight
NO_PREFERENCES = "the file holds no preferences"


@dataclass(frozen=True)
class ReadTriplets:
    """Triplets of a file, and a description of the file and its columns.

    Examples
    --------
    >>> ReadTriplets([("tea", "d1", "d2")], "TSV").form
    'TSV'
    """

    triplets: list[Triplet]
    form: str


def _triplets_of(table: DataTable, roles: RoleGuess, refused: Refused | None = None) -> Iterator[tuple[int, Triplet]]:
    """Yield the line and the triplet of each row."""
    for line, query, better, worse, weight in read_rows(table, roles, ("query", "better", "worse", "weight"), refused):
        if better == worse:
            refuse(
                table.error(line, f"better and worse are both {better!r}; a preference needs two documents"), refused
            )
        else:
            yield line, (query, better, worse) if weight is None else (query, better, worse, weight)


def read_triplets(
    path: FilePath,
    queries: Mapping[str, str] | None = None,
    docs: Container[str] | None = None,
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    encoding: str | None = None,
) -> ReadTriplets:
    r"""Read preferences from a table with a query, a better and a worse document on each row, perhaps with a weight.

    Parameters
    ----------
    path : CSV, TSV, JSONL, each gzipped or not, or Parquet
    queries : id -> text; rows name a query by its id or its text. None: rows name it by its text
    docs : known document ids; any other id is an error
    columns : role -> column, for the roles query, better, worse and weight; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding : as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "triplets.csv")
    ...     _ = file.write_text("query,winner,loser\ngreen tea,007,1e5\n")
    ...     read_triplets(file).triplets
    [('green tea', '007', '1e5')]
    """
    table = open_table(path, encoding=encoding)
    roles = find_roles(table, "triplets", columns)
    lookup = None if queries is None else QueryLookup(queries)
    check = DocumentCheck(docs, table)
    triplets: list[Triplet] = []
    for line, triplet in _triplets_of(table, roles, refused):
        try:
            check(line, *triplet[1:3])
            qids = (triplet[0],) if lookup is None else lookup(triplet[0])
            if not qids:
                raise table.error(line, unknown_id("query", triplet[0]), UNKNOWN_ID)
        except FormatError as problem:
            refuse(problem, refused)
        else:
            triplets += [(qid, *triplet[1:]) for qid in qids]
    if not triplets:
        raise FormatError(path, None, NO_PREFERENCES)
    return ReadTriplets(triplets, f"{table.form}; {roles}")


# -- in memory --------------------------------------------------------------------------------------------------------


def as_triplets(preferences: Any, queries: Mapping[str, str] | None, name: str = "preferences") -> Any:
    """Return triplets of a list, of records or of a frame, with the ids of their queries; other things unchanged."""
    if preferences is None or isinstance(preferences, str | bytes | Mapping):
        return preferences
    if isinstance(preferences, Iterator | np.ndarray):
        preferences = [part.tolist() if isinstance(part, np.ndarray) else part for part in preferences]
    if isinstance(preferences, Sequence) and not (preferences and isinstance(preferences[0], Mapping)):
        if not all(_is_triplet(triplet) for triplet in preferences):
            return preferences
        triplets = [
            (*(key_id(side, f"{name}[{number}]") for side in triplet[:3]), *triplet[3:])
            for number, triplet in enumerate(preferences)
        ]
    else:
        table = as_table(preferences, name)
        if not isinstance(table, DataTable):
            return preferences
        triplets = [triplet for _, triplet in _triplets_of(table, find_roles(table, "triplets"))]
    if queries is None:
        return triplets
    lookup = QueryLookup(queries)  # the recipe refuses unknown queries
    return [(qid, *triplet[1:]) for triplet in triplets for qid in lookup(triplet[0]) or triplet[:1]]


def _is_triplet(triplet: Any) -> bool:
    return isinstance(triplet, Sequence) and not isinstance(triplet, str) and len(triplet) in (3, 4)


def as_evidence(queries: Any, **parts: Any) -> tuple[dict[str, str] | None, dict[str, Any]]:
    """Return queries by id, judgements as mappings and triplets as lists, from any form in memory.

    Records and frames are triplets if their columns say so, else judgements. Ids that are whole numbers become
    strings. Without queries, the texts in the judgements are the queries. The recipe refuses any other form.
    """
    texts = None if queries is None else as_queries(queries)
    made: dict[str, str] = {}
    evidence: dict[str, Any] = {}
    for name, part in parts.items():
        if part is None or isinstance(part, str | bytes):
            evidence[name] = part
        elif isinstance(part, Mapping):
            evidence[name] = _keyed_by_strings(part, name)
        elif name != "preferences" and _is_judged(part, name):
            judged = as_judgements(part, texts, name)
            made |= judged.queries
            evidence[name] = judged.qrels
        else:
            evidence[name] = as_triplets(part, texts, name)
    return (made or None) if texts is None else texts, evidence


def _keyed_by_strings(qrels: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    """Replace whole numbers among the keys of nested mappings by strings; mappings with string keys are not copied."""
    keyed = {
        key: _keyed_by_strings(value, name) if isinstance(value, Mapping) else value for key, value in qrels.items()
    }
    if all(isinstance(key, str) for key in keyed):
        return qrels if all(keyed[key] is value for key, value in qrels.items()) else keyed
    named = {key_id(key, name): value for key, value in keyed.items()}
    if len(named) < len(keyed):
        raise InputError(f"{name} have an id both as a string and as a number")
    return named


def _is_judged(part: Any, name: str) -> bool:
    if isinstance(part, Iterator) or (isinstance(part, Sequence) and not part):
        return False
    table = as_table(part, name)
    return isinstance(table, DataTable) and kind_of_columns(table.columns) != "triplets"
