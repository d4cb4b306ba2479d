"""Triplets, whatever they are written as: a query by id or text, a better document and a worse one."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tercet.data.documents import id_in
from tercet.data.frames import as_table, key_id
from tercet.data.judgements import UNKNOWN_ID, Columns, QueryLookup, as_judgements, as_queries, query_in, unknown_id
from tercet.data.lines import FilePath, LookAlikes, Refused, parse_json_object, refuse
from tercet.data.preference_text import IDS, NUMBERS, TSV_HEADERS, PreferenceTriples, preference_lines
from tercet.data.roles import RoleGuess, find_roles, kind_of_columns
from tercet.data.tables import DataTable, first_line, is_parquet, open_table
from tercet.data.values import Value, number_in
from tercet.errors import FormatError, InputError

Triplet = tuple[str, str, str] | tuple[str, str, str, float]  # query, better and worse document, weight


class TripletRow(NamedTuple):
    """A triplet, and what makes an error of a message about it."""

    query: str
    better: str
    worse: str
    error: Any
    weight: float | None = None
    has_margin: bool = False

    def triplet(self, qid: str) -> Triplet:
        """With the id of its query, and its weight where it has one."""
        return (qid, self.better, self.worse) if self.weight is None else (qid, self.better, self.worse, self.weight)


@dataclass(frozen=True)
class ReadTriplets:
    """Triplets of a file; ``has_margins`` says that it has margins, which triplets have not, ``form`` what was read."""

    triplets: list[Triplet]
    has_margins: bool
    form: str


def triplet_rows(table: DataTable, roles: RoleGuess, refused: Refused | None = None) -> Iterator[TripletRow]:
    """The triplets of a table, each right by itself."""
    query_column, better_column, worse_column = (roles[role] for role in ("query", "better", "worse"))
    weight_column, has_margin = roles.get("weight"), "margin" in table.columns
    for number, row in table.rows(refused):
        try:
            query = query_in(row.get(query_column), table, number, query_column)
            better = id_in(row.get(better_column), table, number, better_column)
            worse = id_in(row.get(worse_column), table, number, worse_column)
            if better == worse:
                raise table.error(number, f"better and worse are both {better!r}; a preference needs two documents")
            weight = None
            if weight_column is not None:
                weight = _weight_in(row.get(weight_column), table, number, weight_column)
        except FormatError as problem:
            refuse(problem, refused)
        else:
            yield TripletRow(query, better, worse, partial(table.error, number), weight, has_margin)


def _weight_in(value: Value, table: DataTable, number: int, column: str) -> float:
    weight = number_in(value.strip()) if isinstance(value, str) else value
    if isinstance(weight, bool | str) or weight is None or not 0 < weight < float("inf"):
        raise table.error(number, f"{column} {value!r}; a positive, finite number is needed")
    return float(weight)


def read_triplets(
    path: FilePath,
    queries: Mapping[str, str] | None = None,
    docs: Container[str] | None = None,
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> ReadTriplets:
    r"""Read triplets from a file of preferences, or from a table with a query, a better and a worse document a row.

    Parameters
    ----------
    path : the file
    queries : id -> text; a query is named by its id or by its text. None: what is named is the text
    docs : if given, the ids there are; any other is an error
    columns : of a table, role -> column, for the roles query, better and worse; others are guessed
    refused : takes what is wrong with a row, which is then left out
    encoding, delimiter : of a table, as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "triplets.csv")
    ...     _ = file.write_text("query,winner,loser\ngreen tea,007,1e5\n")
    ...     read_triplets(file).triplets
    [('green tea', '007', '1e5')]
    """
    named = {"better", "worse"} & set(columns or ())
    if encoding is not None or delimiter is not None or named or _is_table(path):
        table = open_table(path, encoding=encoding, delimiter=delimiter)
        roles = find_roles(table, "triplets", columns)
        rows, form = triplet_rows(table, roles, refused), f"{table.form}; {roles}"
    else:
        rows, form = _preference_rows(path, refused), "preferences"
    lookup = None if queries is None else QueryLookup(queries)
    like = LookAlikes(docs if isinstance(docs, Iterable) else ())
    triplets: list[Triplet] = []
    has_margins = False
    for row in rows:
        try:
            for doc_id in (row.better, row.worse):
                if docs is not None and doc_id not in docs:
                    raise row.error(unknown_id("document", doc_id) + like.hint(doc_id), UNKNOWN_ID)
            qids = (row.query,) if lookup is None else lookup(row.query)
            if not qids:
                raise row.error(unknown_id("query", row.query), UNKNOWN_ID)
        except FormatError as problem:
            refuse(problem, refused)
        else:
            has_margins |= row.has_margin
            triplets += [row.triplet(qid) for qid in qids]
    if not triplets:
        raise FormatError(path, None, "the file holds no preferences")
    return ReadTriplets(triplets, has_margins, form)


def _is_table(path: FilePath) -> bool:
    """Whether the columns of a file may be any; a file of preferences has those of its format, or none named."""
    if is_parquet(path):
        return True
    number, first = first_line(path)
    if first.lstrip().startswith("{"):
        names = set(parse_json_object(first, path, number))
        return not set(IDS) <= names <= {*IDS, *NUMBERS}
    if first in TSV_HEADERS:
        return False
    return "\t" not in first or kind_of_columns(first.split("\t")) == "triplets"


def _preference_rows(path: FilePath, refused: Refused | None) -> Iterator[TripletRow]:
    for line, qid, better, worse, numbers in preference_lines(path, refused):
        error = partial(FormatError, path, line)
        yield TripletRow(qid, better, worse, error, numbers.get("weight"), "margin" in numbers)


def as_triplets(preferences: Any, queries: Mapping[str, str] | None, name: str = "preferences") -> Any:
    """Triplets of records, of a frame or of `PreferenceTriples`; queries by their ids, where they have some.

    What is none of these is given back as it is, for whoever learns from it to judge.

    Examples
    --------
    >>> as_triplets([{"query": "green tea", "better": 7, "worse": 8}], {"q1": "green tea"})
    [('q1', '7', '8')]
    """
    if isinstance(preferences, PreferenceTriples):
        weights = [] if preferences.weight is None else [preferences.weight.tolist()]
        triplets: Iterable[Any] = zip(preferences.qid, preferences.better, preferences.worse, *weights, strict=True)
    elif preferences is None or isinstance(preferences, str | bytes | Mapping):
        return preferences
    else:
        if isinstance(preferences, Iterator | np.ndarray):
            preferences = [one.tolist() if isinstance(one, np.ndarray) else one for one in preferences]
        is_list = isinstance(preferences, Sequence)
        if is_list and not (preferences and isinstance(preferences[0], Mapping)):
            triplets = [_named_by_strings(triplet, f"{name}[{number}]") for number, triplet in enumerate(preferences)]
        else:
            table = as_table(preferences, name)
            if not isinstance(table, DataTable):
                return preferences
            triplets = [row.triplet(row.query) for row in triplet_rows(table, find_roles(table, "triplets"))]
    if queries is None:
        return list(triplets)
    lookup = QueryLookup(queries)
    return [triplet for one in triplets for triplet in _by_id(one, lookup)]


def _is_triplet(triplet: Any) -> bool:
    return isinstance(triplet, Sequence) and not isinstance(triplet, str) and len(triplet) in (3, 4)


def _named_by_strings(triplet: Any, name: str) -> Any:
    """The triplet with strings for the whole numbers that name its query and documents."""
    if not _is_triplet(triplet) or all(isinstance(side, str) for side in triplet[:3]):
        return triplet
    return (*(key_id(side, name) for side in triplet[:3]), *triplet[3:])


def _by_id(triplet: Any, lookup: QueryLookup) -> list[Any]:
    """The triplet with the ids of its query; one that is none, or of no query, stays for the recipe to refuse."""
    if not _is_triplet(triplet) or not isinstance(triplet[0], str):
        return [triplet]
    return [(qid, *triplet[1:]) for qid in lookup(triplet[0])] or [triplet]


def as_evidence(queries: Any, **parts: Any) -> tuple[dict[str, str] | None, dict[str, Any]]:
    """Queries by id, and parts of evidence: judgements as mappings, triplets as lists, whatever they were given as.

    Records and frames are triplets where their columns say so, else judgements. Ids that are whole numbers become
    strings. What is nothing of all this stays as it is. Where no queries are given, those that judgements name by their
    texts are they.

    Examples
    --------
    >>> judged = [{"query": "green tea", "sku": "007", "rating": 3}]
    >>> as_evidence(None, qrels=judged, preferences=None)
    ({'green tea': 'green tea'}, {'qrels': {'green tea': {'007': 3}}, 'preferences': None})
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
    """A mapping of mappings with strings for keys that are whole numbers; what has only strings is not copied."""
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
    if isinstance(part, Iterator | PreferenceTriples) or (isinstance(part, Sequence) and not part):
        return False
    table = as_table(part, name)
    return isinstance(table, DataTable) and kind_of_columns(table.columns) != "triplets"
