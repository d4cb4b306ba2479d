"""Click logs in tables: a row for each list, for each document shown, or for each event, and OpenSearch's UBI.

Columns are found by their names (`roles`), or named. Lists are sorted by time if all lists have a time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import compress, pairwise
from operator import ne
from pathlib import Path
from typing import Any

from tercet.data.batches import Conversion, Convert, collector_paused
from tercet.data.cells import Columns, Readers, id_in, position_in, query_in, read_columns, read_rows, word_in
from tercet.data.clicks import ClickLog, Impression, impression_problem
from tercet.data.frames import MemoryTable, as_table, plain_shown
from tercet.data.lines import FilePath, Refused, load_json, refuse
from tercet.data.roles import RoleGuess, find_roles, guess_roles, kind_of_click_log, plain_name
from tercet.data.shown_lists import NO_LISTS, ListKey, PlacedList, ShownLists, Times, log_in_order
from tercet.data.tables import DataTable, open_table
from tercet.data.ubi import ATTRIBUTES, INTERLEAVED, ubi_tables
from tercet.data.values import Value
from tercet.errors import FormatError, InputError

CLICK_ACTIONS = frozenset(("click", "clicked", "click_through", "item_click", "product_click", "result_click"))
SHOW_ACTIONS = frozenset(("impression", "shown", "view", "item_impression", "product_impression", "result_impression"))


def read_click_log(
    path: FilePath | Sequence[FilePath],
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    encoding: str | None = None,
) -> ClickLog:
    r"""Read a click log of any shape.

    Parameters
    ----------
    path : a table with a row for each list (query, shown, clicked), for each document shown (query, document,
        clicked, position, session or search, time) or for each event (query, document, action); or UBI: a folder with
        files of queries and of events, or two files
    columns : role -> column, for the roles query, doc, shown, clicked, position, list, session, time, action and
        randomized; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding : as in `iter_rows`

    Returns
    -------
    ClickLog
        Rows of one document are put into lists by the id of the search; else by session and query; else by
        consecutive rows of a query: a repeated document or position begins a new list.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "clicks.csv")
    ...     _ = file.write_text("session,search_term,rank,sku,clicked\n1,tea,1,007,0\n1,tea,2,1e5,1\n")
    ...     read_click_log(file).impressions
    (Impression(query='tea', shown=('007', '1e5'), clicked=('1e5',)),)
    """
    paths: list[FilePath] = [path] if isinstance(path, str | os.PathLike) else list(path)
    if len(paths) == 1 and Path(paths[0]).is_dir():
        opened = ubi_tables(Path(paths[0]), lambda log_path: open_table(log_path, encoding=encoding))
        return click_log_of(opened, columns, refused)
    return click_log_of([open_table(log_path, encoding=encoding) for log_path in paths], columns, refused)


def as_click_log(clicks: Any) -> ClickLog:
    """Return the click log of impressions, a path, records, a frame, or of the two tables of UBI."""
    if isinstance(clicks, ClickLog):
        return clicks
    if isinstance(clicks, str | os.PathLike):
        return read_click_log(clicks)
    if isinstance(clicks, Iterator):
        clicks = list(clicks)
    if isinstance(clicks, Sequence) and clicks and not isinstance(clicks[0], Mapping):
        if len(clicks) == 2 and all(isinstance(path, str | os.PathLike) for path in clicks):
            return read_click_log(clicks)
        tables = [_table_of(path, f"clicks[{number}]") for number, path in enumerate(clicks[:2])]
        if len(clicks) == 2 and None not in tables:
            return click_log_of(tables)  # type: ignore[arg-type]
        return click_log_of([_table_of_impressions(clicks)])
    table = None if isinstance(clicks, Mapping | bytes) else as_table(clicks, "clicks")
    if not isinstance(table, DataTable):
        expected = "impressions (query, shown, clicked), a path, a list of records or a frame"
        raise InputError(f"clicks must be {expected}; got {type(clicks).__name__}")
    return click_log_of([table])


def _table_of(thing: Any, name: str) -> DataTable | None:
    table = None if isinstance(thing, tuple) else as_table(thing, name)
    return table if isinstance(table, DataTable) else None


def _table_of_impressions(impressions: Sequence[Any]) -> DataTable:
    """Return triples of a query, the documents shown and those clicked as a table of records."""
    records = []
    for number, impression in enumerate(impressions):
        if isinstance(impression, str) or not isinstance(impression, Sequence) or len(impression) != 3:
            expected = "a query, the documents shown and those clicked"
            raise InputError(f"clicks[{number}] must be {expected}; got {impression!r}")
        query, *lists = impression
        for noun, ids in zip(("shown", "clicked"), lists, strict=True):
            if isinstance(ids, Mapping | str) or not isinstance(ids, Iterable):
                raise InputError(f"clicks[{number}]: the documents {noun} must be a list; got {plain_shown(ids)}")
        if isinstance(lists[0], Set):
            raise InputError(f"clicks[{number}]: the documents shown must be a list in their order; got a set")
        doc_ids = list(lists[0])
        clicked = [doc_id for doc_id in doc_ids if doc_id in lists[1]] if isinstance(lists[1], Set) else lists[1]
        records.append({"query": query, "shown": doc_ids, "clicked": list(clicked)})
    return MemoryTable("clicks", records, ("query", "shown", "clicked"))


@collector_paused()
def click_log_of(
    tables: Sequence[DataTable], columns: Columns | None = None, refused: Refused | None = None
) -> ClickLog:
    """Read the click log in one table, or in UBI's two tables."""
    given_columns = dict(columns or {})
    for table in tables:
        table.lists_as_json = True
    if len(tables) == 2:
        return _two_tables(tables, given_columns, refused)
    if len(tables) != 1:
        raise InputError(f"a click log is one table, or the queries and events of UBI; got {len(tables)}")
    [table] = tables
    kind = kind_of_click_log(table.columns, given_columns)
    roles = find_roles(table, kind, given_columns)
    return (
        _log_of_lists(table, roles, given_columns, refused)
        if kind == "lists"
        else _log_of_rows(table, roles, given_columns, refused)
    )


def _two_tables(tables: Sequence[DataTable], given: Columns, refused: Refused | None) -> ClickLog:
    columns_of_tables = [{role: name for role, name in given.items() if name in table.columns} for table in tables]
    for role, column in given.items():
        if not any(column in table.columns for table in tables):
            find_roles(tables[0], "searches" if role == "shown" else "events", {role: column})  # it is not there
    actions = [
        guess_roles(table.columns, "events", columns).get("action")
        for table, columns in zip(tables, columns_of_tables, strict=True)
    ]
    first, second = zip(tables, columns_of_tables, strict=True)
    (events, of_events), (queries, of_queries) = (second, first) if actions[0] is None else (first, second)
    guess = guess_roles(queries.columns, "searches", of_queries).columns
    if actions.count(None) != 1 or not {"query", "shown"} & guess.keys():
        listed = "; ".join(f"{table.name}: {', '.join(table.columns)}" for table in tables)
        raise InputError(f"of two tables one must have events (action_name) and one queries (user_query); got {listed}")
    roles = find_roles(events, "ubi-events", of_events)
    searches = _Searches(queries, find_roles(queries, "searches", of_queries), given, refused)
    return _log_of_rows(events, roles, given, refused, searches)


# -- a row for each list ----------------------------------------------------------------------------------------------


def _log_of_lists(table: DataTable, roles: RoleGuess, given: Columns, refused: Refused | None) -> ClickLog:
    times = Times(table, roles.get("time"), "time" in given)
    role_names = ("query", "shown", "clicked", "session", "randomized", "time")
    lists = []
    for line, query, doc_ids, clicked, session, is_random, time in read_rows(
        table, roles, role_names, refused, {"session": word_in, "time": times.time_in}
    ):
        impression = Impression(query, doc_ids, clicked)
        problem = impression_problem(impression)
        if problem is None:
            lists.append(PlacedList(time, impression, session, bool(is_random)))
        else:
            refuse(table.error(line, problem), refused)
    form = f"{table.form}; a row for each list; {_summary(roles, times)}"
    return log_in_order(lists, form, times.notes, table.name)


def _summary(roles: RoleGuess, times: Times) -> str:
    read = {role: names for role, names in roles.columns.items() if role != "time" or times.column}
    return str(replace(roles, columns=read))


# -- a row for each document or event ---------------------------------------------------------------------------------


_CLICK, _SHOW = "click", "show"
# Values inside objects: in a separate column, or as JSON in a cell.
_DOCUMENT = ("event_attributes.object.object_id", "object.object_id", "object_id")
_ORDINAL = ("event_attributes.position.ordinal", "position.ordinal")


class _Searches:
    """Queries of UBI by the id of the search, and the documents shown, if the queries have them."""

    def __init__(self, table: DataTable, roles: RoleGuess, given: Columns, refused: Refused | None) -> None:
        times = Times(table, roles.get("time"), "time" in given)
        readers: Readers = {
            # A search without words is browsing.
            "query": lambda cell: None if cell is None else query_in(cell),
            "session": word_in,
            "time": times.time_in,
            "method": _inner_reader(table, (f"{ATTRIBUTES}.{INTERLEAVED}.method",)),
            "marked": _inner_reader(table, (f"{ATTRIBUTES}.randomized",)),
        }
        self.notes, self.lists = times.notes, ShownLists()
        self._queries: dict[str, str] = {}
        role_names = ("list", "query", "shown", "session", "randomized", "time", "method", "marked")
        rows = read_rows(table, roles, role_names, refused, readers, Counter(query=0))
        for _, search, query, docs, session, is_random, time, method, marked in rows:
            self._queries[search] = query
            if docs:
                places = list(map(float, range(len(docs))))
                shown_list = self.lists.show(ListKey(search, query, True), docs, places, [time] * len(docs))
                assert shown_list is not None  # a search with an id has one list
                shown_list.session, shown_list.is_interleaved = session, method is not None
                shown_list.is_random = bool(is_random) or marked is True
        self.has_hits = bool(self.lists.lists)

    def query_of(self, cell: Value) -> str | None:
        """Return the query of a search by its id."""
        return self._queries.get(str(cell))


def _log_of_rows(
    table: DataTable, roles: RoleGuess, given: Columns, refused: Refused | None, searches: _Searches | None = None
) -> ClickLog:
    times = Times(table, roles.get("time"), "time" in given)
    readers: dict[str, Convert | Conversion] = {"list": word_in, "session": word_in, "time": times.time_in}
    needed: Counter[str] = Counter()
    if "action" in roles.columns:
        needed["action"] = 0
        readers["action"] = _action_in
        for role, paths, read in (("doc", _DOCUMENT, id_in), ("position", _ORDINAL, position_in)):
            if role not in given:
                readers[role] = _inner_reader(table, paths, roles.columns.get(role, ()), read)
        if isinstance(readers["doc"], Conversion) and not readers["doc"].names:
            raise FormatError(
                table.name, None, f"no column has the documents of events, such as {_DOCUMENT[0]}", "columns"
            )
    if searches is not None:
        needed["query"] = 0
        readers["query"] = Conversion(roles.columns["list"], searches.query_of)
    lists = ShownLists() if searches is None else searches.lists
    has_hits = searches is not None and searches.has_hits
    role_names = ("list", "session", "query", "doc", "position", "time", "randomized", "clicked", "action")
    for numbers, cells in read_columns(table, roles, role_names, refused, readers, needed):
        *groups, docs, positions, moments, randomized, is_clicked, actions = cells
        is_shown: Sequence[bool] = [True] * len(numbers)
        if "action" in roles.columns:
            is_shown = [action == _SHOW and not has_hits for action in actions]
            is_clicked = [action == _CLICK for action in actions]
        keys = list(zip(*groups, strict=True))
        begins = [*([0] if keys else []), *compress(range(1, len(keys)), map(ne, keys, keys[1:])), len(keys)]
        for first, end in pairwise(begins):
            key = ListKey.from_row(*keys[first])
            run = (docs, positions, moments, randomized, is_shown, is_clicked)
            _add_run(lists, key, keys[first][1], [column[first:end] for column in run])
    lists.close()
    return _finished_log(table, roles, times, lists, needed, searches)


def _add_run(lists: ShownLists, key: ListKey, session: str | None, run: Sequence[Sequence[Any]]) -> None:
    """Add consecutive rows of one key: together if all rows are of one list, else one by one."""
    docs, positions, times, randomized, is_shown, is_clicked = run
    shown_list = lists.show(key, docs, positions, times) if all(is_shown) else None
    if shown_list is None and len(docs) > 1:
        for row in range(len(docs)):
            _add_run(lists, key, session, [column[row : row + 1] for column in run])
        return
    if shown_list is not None:
        shown_list.is_random |= any(randomized)
        shown_list.session = shown_list.session or session
    for doc_id in compress(docs, is_clicked):
        lists.click(key, doc_id)


def _finished_log(
    table: DataTable,
    roles: RoleGuess,
    times: Times,
    lists: ShownLists,
    left_out: Mapping[str, int],
    searches: _Searches | None,
) -> ClickLog:
    """Return the log of all rows, with notes on rows left out."""
    is_of_events = "action" in roles.columns
    grouped = roles.get("list") or roles.get("session")
    if is_of_events and not lists.lists:
        without = "neither queries with query_response_hit_ids nor impression events are there"
        raise FormatError(table.name, None, f"{NO_LISTS}: {without}")
    if is_of_events:
        source = "the queries' hits" if searches is not None and searches.has_hits else "impression events"
        summary = f"events by {roles['action']}; lists by {grouped}, from {source}{times}"
    else:
        source = f"lists by {grouped} and query" if grouped else "lists by rows of one query after each other"
        summary = f"a row for each document shown; {_summary(roles, times)}; {source}"
    counted = (
        (left_out.get("action", 0), "events are neither clicks nor impressions and were passed over"),
        (left_out.get("query", 0), "events are of searches that are not there and were passed over"),
        (
            lists.n_lost if is_of_events else 0,
            "clicks are on documents that were not shown for their query and were passed over",
        ),
        (lists.n_repeated, "clicks on what was clicked in the same list before count once"),
    )
    notes = (
        *(searches.notes if searches is not None else ()),
        *(f"click log: {count:,} {what}." for count, what in counted if count),
        *times.notes,
    )
    return log_in_order(lists.take_placed(), f"{table.form}; {summary}", notes, table.name)


def _action_in(cell: Value) -> str | None:
    """Return a click or an impression; None for any other event."""
    action = plain_name(str(cell or ""))
    return _CLICK if action in CLICK_ACTIONS else _SHOW if action in SHOW_ACTIONS else None


# -- values inside objects --------------------------------------------------------------------------------------------


def _inner_reader(
    table: DataTable, paths: Iterable[str], columns: Sequence[str] = (), read: Convert | None = None
) -> Conversion:
    """Return a conversion of the first value of several paths, or columns."""
    names = {plain_name(column): column for column in table.columns}
    inner: list[tuple[str, list[str]]] = []  # column, and path inside the column's cells
    for path in paths:
        keys = path.split(".")
        for depth in range(len(keys), 0, -1):
            outer = ".".join(keys[:depth])
            column = names.get(plain_name(outer), outer if table.is_typed else None)  # later rows may have other keys
            if column is not None:
                inner.append((column, keys[depth:]))
    inner += [(column, []) for column in columns]

    def first_value(cells: Any) -> Any:
        several = cells if len(inner) > 1 else (cells,)
        values = (_inside(cell, path) for cell, (_, path) in zip(several, inner, strict=True))
        value = next((value for value in values if value is not None), None)
        return value if read is None else read(value)

    return Conversion(tuple(name for name, _ in inner), first_value)


def _inside(cell: Value, path: Sequence[str]) -> Value:
    """Return the value inside the JSON of a cell, or None."""
    value: Any = cell
    for key in path:
        try:
            value = load_json(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return None
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str | int | float | bool) else None
