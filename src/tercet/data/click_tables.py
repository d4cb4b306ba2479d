"""Click logs in tables: a row for each list, for each document shown, or for each event, and OpenSearch's UBI.

Columns are found by their names (`roles`), or named. Lists are sorted by time if all lists have a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import compress, pairwise
from operator import ne
from pathlib import Path
from typing import Any

from tercet.data.batches import Batches, Conversion, collector_paused, gathered
from tercet.data.cells import Columns, Row, id_in, ids_in, position_in, query_in, read_rows, truth_in
from tercet.data.clicks import ClickLog, Impression, impression_problem
from tercet.data.frames import MemoryTable, as_table, plain_shown
from tercet.data.lines import FilePath, Refused, load_json, refuse
from tercet.data.roles import RoleGuess, find_roles, guess_roles, kind_of_click_log, plain_name
from tercet.data.shown_lists import (
    NO_LISTS,
    ListKey,
    PlacedList,
    ShownLists,
    Times,
    log_in_order,
    session_in,
)
from tercet.data.tables import DataTable, open_table
from tercet.data.ubi import ATTRIBUTES, INTERLEAVED, ubi_tables
from tercet.data.values import Record, Value
from tercet.errors import FormatError, InputError

CLICK_ACTIONS = frozenset(("click", "clicked", "click_through", "item_click", "product_click", "result_click"))
SHOW_ACTIONS = frozenset(("impression", "shown", "view", "item_impression", "product_impression", "result_impression"))


def read_click_log(
    path: FilePath | Sequence[FilePath],
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> ClickLog:
    r"""Read a click log of any shape.

    Parameters
    ----------
    path : a table with a row for each list (query, shown, clicked), for each document shown (query, document,
        clicked, position, session or search, time) or for each event (query, document, action); or UBI: a folder with
        files of queries and of events, or two files
    columns : role -> column, for the roles query, doc, shown, clicked, position, list, session, time, action and
        randomised; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding, delimiter : as in `iter_rows`

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
        opened = ubi_tables(Path(paths[0]), lambda one: open_table(one, encoding=encoding, delimiter=delimiter))
        return click_log_of(opened, columns, refused)
    return click_log_of([open_table(one, encoding=encoding, delimiter=delimiter) for one in paths], columns, refused)


def as_click_log(clicks: Any) -> ClickLog:
    """Return the click log of impressions, a path, records, a frame, or of the two tables of UBI."""
    if isinstance(clicks, ClickLog):
        return clicks
    if isinstance(clicks, str | os.PathLike):
        return read_click_log(clicks)
    if isinstance(clicks, Iterator):
        clicks = list(clicks)
    if isinstance(clicks, Sequence) and clicks and not isinstance(clicks[0], Mapping):
        if len(clicks) == 2 and all(isinstance(one, str | os.PathLike) for one in clicks):
            return read_click_log(clicks)
        tables = [_table_of(one, f"clicks[{number}]") for number, one in enumerate(clicks[:2])]
        if len(clicks) == 2 and None not in tables:
            return click_log_of(tables)  # type: ignore[arg-type]
        return click_log_of([_table_of_impressions(clicks)])
    table = None if isinstance(clicks, Mapping | bytes) else as_table(clicks, "clicks")
    if not isinstance(table, DataTable):
        wanted = "impressions (query, shown, clicked), a path, a list of records or a frame"
        raise InputError(f"clicks must be {wanted}; got {type(clicks).__name__}")
    return click_log_of([table])


def _table_of(thing: Any, name: str) -> DataTable | None:
    table = None if isinstance(thing, tuple) else as_table(thing, name)
    return table if isinstance(table, DataTable) else None


def _table_of_impressions(impressions: Sequence[Any]) -> DataTable:
    """Return triples of a query, the documents shown and those clicked as a table of records."""
    records = []
    for number, impression in enumerate(impressions):
        if isinstance(impression, str) or not isinstance(impression, Sequence) or len(impression) != 3:
            wanted = "a query, the documents shown and those clicked"
            raise InputError(f"clicks[{number}] must be {wanted}; got {impression!r}")
        query, *lists = impression
        for noun, ids in zip(("shown", "clicked"), lists, strict=True):
            if isinstance(ids, Mapping | str) or not isinstance(ids, Iterable):
                raise InputError(f"clicks[{number}]: the documents {noun} must be a list; got {plain_shown(ids)}")
        if isinstance(lists[0], Set):
            raise InputError(f"clicks[{number}]: the documents shown must be a list in their order; got a set")
        shown = list(lists[0])
        clicked = [doc_id for doc_id in shown if doc_id in lists[1]] if isinstance(lists[1], Set) else lists[1]
        records.append({"query": query, "shown": shown, "clicked": list(clicked)})
    return MemoryTable("clicks", records, ("query", "shown", "clicked"))


@collector_paused()
def click_log_of(
    tables: Sequence[DataTable], columns: Columns | None = None, refused: Refused | None = None
) -> ClickLog:
    """The click log in a table, or in the two of UBI."""
    given = dict(columns or {})
    for table in tables:
        table.lists_as_json = True
    if len(tables) == 2:
        return _two_tables(tables, given, refused)
    if len(tables) != 1:
        raise InputError(f"a click log is one table, or the queries and events of UBI; got {len(tables)}")
    [table] = tables
    kind = kind_of_click_log(table.columns, given)
    roles = find_roles(table, kind, given)
    if kind == "lists":
        return _rows_of_lists(table, roles, given, refused)
    if kind == "shown":
        return _rows_of_documents(table, roles, given, refused)
    return _Events(table, roles, None, None, given, refused).log()


def _two_tables(tables: Sequence[DataTable], given: Columns, refused: Refused | None) -> ClickLog:
    own = [{role: name for role, name in given.items() if name in table.columns} for table in tables]
    for role, column in given.items():
        if not any(column in table.columns for table in tables):
            find_roles(tables[0], "searches" if role == "shown" else "events", {role: column})  # it is not there
    actions = [
        guess_roles(table.columns, "events", some).get("action") for table, some in zip(tables, own, strict=True)
    ]
    first, second = zip(tables, own, strict=True)
    (events, of_events), (queries, of_queries) = (second, first) if actions[0] is None else (first, second)
    searches = guess_roles(queries.columns, "searches", of_queries)
    if actions.count(None) != 1 or not {"query", "shown"} & searches.columns.keys():
        listed = "; ".join(f"{table.name}: {', '.join(table.columns)}" for table in tables)
        raise InputError(f"of two tables one must have events (action_name) and one queries (user_query); got {listed}")
    roles = find_roles(events, "ubi-events", of_events)
    return _Events(events, roles, queries, find_roles(queries, "searches", of_queries), given, refused).log()


# -- a row for each list ----------------------------------------------------------------------------------------------


def _rows_of_lists(table: DataTable, roles: RoleGuess, given: Columns, refused: Refused | None) -> ClickLog:
    times = Times(table, roles.get("time"), "time" in given)

    def placed_list(row: Row) -> PlacedList:
        impression = Impression(row["query"], row["shown"], row["clicked"])
        problem = impression_problem(impression)
        if problem is not None:
            raise row.error(problem)
        session = None if "session" not in roles.columns else session_in(row.cells.get(roles["session"]))
        return PlacedList(times.time_of(row.cells, row.number), impression, session, bool(row["randomised"]))

    lists = list(read_rows(table, roles, placed_list, refused))
    form = f"{table.form}; a row for each list; {_summary(roles, times)}"
    return log_in_order(lists, form, times.notes, table.name)


# -- a row for each document ------------------------------------------------------------------------------------------


def _rows_of_documents(table: DataTable, roles: RoleGuess, given: Columns, refused: Refused | None) -> ClickLog:
    query, doc, clicked = roles["query"], roles["doc"], roles["clicked"]
    position, search, session, randomised = map(roles.get, ("position", "list", "session", "randomised"))
    times = Times(table, roles.get("time"), "time" in given)
    names = [query, doc, clicked, *filter(None, (randomised, position, search, session, times.column))]

    checks: tuple[tuple[str | None, Callable[[Value, int], Any]], ...] = (
        (query, lambda value, number: query_in(value, table, number, query)),
        (doc, lambda value, number: id_in(value, table, number, doc)),
        (clicked, lambda value, number: truth_in(value, table, number, clicked)),
        (randomised, lambda value, number: truth_in(value, table, number, str(randomised))),
        (position, lambda value, number: position_in(value, table, number, str(position))),
        (times.column, times.time_in),
    )

    def gather(batches: Batches, refused: Refused | None) -> ShownLists:
        lists = ShownLists()
        conversions = [
            None if column is None else Conversion(names.index(column), convert, are_ids=column == doc)
            for column, convert in checks
        ]
        for batch in batches:
            try:
                none = [None] * len(batch.columns[0])
                groups = [
                    none if column is None else batch.columns[names.index(column)] for column in (search, session)
                ]
                texts, *columns = [none if conversion is None else conversion(batch) for conversion in conversions]
            except FormatError as problem:
                refuse(problem, refused)
                continue
            keys = list(zip(*groups, texts, strict=True))
            begins = [0, *compress(range(1, len(keys)), map(ne, keys, keys[1:])), len(keys)]
            for first, end in pairwise(begins):
                search_id, who, text = keys[first]
                run: list[Sequence[Any]] = [column[first:end] for column in columns]
                _show(lists, ListKey.from_row(search_id, who, text), session_in(who), *run)
        lists.close()
        return lists

    lists = gathered(table, names, gather, refused)
    grouped = search or session
    summary = f"lists by {grouped} and query" if grouped else "lists by rows of one query after each other"
    form = f"{table.form}; a row for each document shown; {_summary(roles, times)}; {summary}"
    notes = (*_repeated(lists), *times.notes)
    return log_in_order(lists.take_placed(), form, notes, table.name)


def _show(
    lists: ShownLists,
    key: ListKey,
    session: str | None,
    docs: Sequence[str],
    clicks: Sequence[bool],
    randomised: Sequence[bool | None],
    positions: Sequence[float | None],
    times: Sequence[float | None],
) -> None:
    """Add consecutive rows of one key."""
    shown = lists.show_together(key, docs, positions, times)
    if shown is None:
        if len(docs) > 1:
            for row in range(len(docs)):
                one = slice(row, row + 1)
                _show(lists, key, session, docs[one], clicks[one], randomised[one], positions[one], times[one])
            return
        shown = lists.show(key, docs[0], positions[0], times[0])
    shown.is_random |= any(randomised)
    shown.session = shown.session or session
    for doc_id in compress(docs, clicks):
        lists.click(key, doc_id)


def _summary(roles: RoleGuess, times: Times) -> str:
    read = {role: names for role, names in roles.columns.items() if role != "time" or times.column}
    return str(replace(roles, columns=read))


def _repeated(lists: ShownLists) -> tuple[str, ...]:
    count = lists.n_repeated
    return (f"click log: {count:,} clicks on what was clicked in the same list before count once.",) if count else ()


# -- events -----------------------------------------------------------------------------------------------------------


class _Events:
    """Events of documents shown or clicked, and perhaps the searches of UBI.

    UBI has the id of a search in ``query_id``, and the documents shown in ``query_response_hit_ids`` of the search or
    in impression events, by ``position.ordinal``.
    """

    def __init__(
        self,
        events: DataTable,
        roles: RoleGuess,
        queries: DataTable | None,
        of_queries: RoleGuess | None,
        given: Columns,
        refused: Refused | None,
    ) -> None:
        self.events, self.queries, self.of_queries, self.refused = events, queries, of_queries, refused
        self.action, self.given = roles["action"], given
        self.query, self.doc, self.position, self.search, self.session, self.randomised = map(
            roles.get, ("query", "doc", "position", "list", "session", "randomised")
        )
        self.times = Times(events, roles.get("time"), "time" in given)
        self.notes: list[str] = []

    def log(self) -> ClickLog:
        lists = ShownLists()
        searches = self._searches(lists)
        has_hits = bool(lists.lists)
        n_other = n_unknown = 0
        for number, row in self.events.rows(self.refused):
            try:
                action = plain_name(str(row.get(self.action) or ""))
                if action not in CLICK_ACTIONS and action not in SHOW_ACTIONS:
                    n_other += 1
                    continue
                key = self._key_of(row, number, searches)
                if key is None:
                    n_unknown += 1
                    continue
                doc_id = self._document(row, number)
                place = self._place(row, number)
                time = self.times.time_of(row, number)
                is_random = self.randomised is not None and truth_in(
                    row.get(self.randomised), self.events, number, self.randomised
                )
            except FormatError as problem:
                refuse(problem, self.refused)
                continue
            if action in CLICK_ACTIONS:
                lists.click(key, doc_id)
            elif not has_hits or key.group not in searches:
                shown = lists.show(key, doc_id, place, time)
                shown.is_random |= is_random
                shown.session = shown.session or (None if self.session is None else session_in(row.get(self.session)))
        lists.close()
        for count, what in (
            (n_other, "events are neither clicks nor impressions and were passed over"),
            (n_unknown, "events are of searches that are not there and were passed over"),
            (lists.n_lost, "clicks are on documents that were not shown for their query and were passed over"),
        ):
            if count:
                self.notes.append(f"click log: {count:,} {what}.")
        if not lists.lists:
            raise FormatError(
                self.events.name,
                None,
                f"{NO_LISTS}: neither queries with query_response_hit_ids nor impression events are there",
            )
        source = "the queries' hits" if has_hits else "impression events"
        form = f"{self.events.form}; events by {self.action}; lists by {self.search or self.session}, from {source}"
        self.notes += _repeated(lists)
        ordered = lists.take_placed()
        return log_in_order(ordered, f"{form}{self.times}", (*self.notes, *self.times.notes), self.events.name)

    def _searches(self, lists: ShownLists) -> dict[Any, str]:
        """Return the query of each search by id, and put the documents shown into lists."""
        if self.queries is None:
            return {}
        table = self.queries
        assert self.of_queries is not None
        search, text = self.of_queries["list"], self.of_queries["query"]
        hits, client, randomised = map(self.of_queries.get, ("shown", "session", "randomised"))
        times = Times(table, self.of_queries.get("time"), "time" in self.given)
        searches: dict[Any, str] = {}
        for number, row in table.rows(self.refused):
            try:
                key = id_in(row.get(search), table, number, search)
                if row.get(text) is None:
                    continue  # a search without words, such as browsing a category
                query = query_in(row.get(text), table, number, text)
                shown = () if hits is None else ids_in(row.get(hits), table, number, hits)
                time = times.time_of(row, number)
                who = None if client is None else session_in(row.get(client))
                is_interleaved = _attribute(row, (ATTRIBUTES, INTERLEAVED, "method")) is not None
                is_random = _attribute(row, (ATTRIBUTES, "randomised")) is True
                if randomised is not None:
                    is_random |= truth_in(row.get(randomised), table, number, randomised)
            except FormatError as problem:
                refuse(problem, self.refused)
                continue
            searches[key] = query
            for place, doc_id in enumerate(dict.fromkeys(shown)):
                one = lists.show(ListKey(key, query, True), doc_id, place, time)
                one.session, one.is_interleaved, one.is_random = who, is_interleaved, is_random
        self.notes += times.notes
        return searches

    def _key_of(self, row: Record, number: int, searches: Mapping[Any, str]) -> ListKey | None:
        """Return the key of an event's list; None for an unknown search."""
        search, session = (None if column is None else row.get(column) for column in (self.search, self.session))
        if self.search is not None and self.queries is not None:
            search = str(search) if isinstance(search, int) else search
            return None if search not in searches else ListKey(search, searches[search], True)
        assert self.query is not None
        return ListKey.from_row(search, session, query_in(row.get(self.query), self.events, number, self.query))

    def _document(self, row: Record, number: int) -> str:
        if "doc" in self.given and self.doc is not None:
            return id_in(row.get(self.doc), self.events, number, self.doc)
        for path in (("event_attributes", "object", "object_id"), ("object", "object_id"), ("object_id",)):
            value = _attribute(row, path)
            if value is not None:
                return id_in(value, self.events, number, ".".join(path))
        if self.doc is None:
            raise self.events.error(number, "the event has no event_attributes.object.object_id, so no document")
        return id_in(row.get(self.doc), self.events, number, self.doc)

    def _place(self, row: Record, number: int) -> float | None:
        column = self.position
        if column is not None and not isinstance(row.get(column), str):
            return position_in(row.get(column), self.events, number, column)
        for path in (("event_attributes", "position", "ordinal"), ("position", "ordinal")):
            value = _attribute(row, path)
            if value is not None:
                return position_in(value, self.events, number, ".".join(path))
        return None if column is None else position_in(row.get(column), self.events, number, column)


def _attribute(row: Record, path: Sequence[str]) -> Value:
    """Return a value inside objects, from a column of its own or from JSON in a cell."""
    for n in range(len(path), 0, -1):
        name = plain_name(".".join(path[:n]))
        for column, cell in row.items():
            if plain_name(column.removeprefix("_source.")) != name or cell is None:
                continue
            value: Any = cell
            for inner in path[n:]:
                if isinstance(value, str):
                    try:
                        value = load_json(value)
                    except (ValueError, RecursionError):
                        return None
                value = value.get(inner) if isinstance(value, Mapping) else None
            return value if isinstance(value, str | int | float | bool) else None
    return None
