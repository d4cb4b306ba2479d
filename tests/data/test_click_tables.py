"""Click logs of every shape become the same lists."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.data import recognize
from tercet.data.click_tables import as_click_log, read_click_log
from tercet.data.clicks import Impression
from tercet.data.tables import BadRows
from tercet.errors import FormatError, InputError

TEA = Impression("green tea", ("007", "1e5", "d, 3"), ("1e5",))
MILK = Impression("milk", ("d1", "d2"), ())
HEAD = "session_id,timestamp,search_term,position,product_id,clicked"


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_row_for_each_document_is_put_into_lists_in_the_order_of_time(tmp_path):
    file = written(
        tmp_path / "clicks.csv",
        HEAD,
        "s2,2026-05-02T10:00:00Z,milk,1,d1,0",
        "s1,2026-05-01T10:00:00Z,green tea,2,1e5,1",
        "s2,2026-05-02T10:00:00Z,milk,2,d2,0",
        's1,2026-05-01T10:00:00Z,green tea,3,"d, 3",0',
        "s1,2026-05-01T10:00:00Z,green tea,1,007,",
    )
    log = read_click_log(file)
    assert log.impressions == (TEA, MILK)
    assert log.is_timed
    for said in ("query: search_term", "doc: product_id", "position: position", "by session_id", "time: timestamp"):
        assert said in log.form


@pytest.mark.parametrize("clicked", ["1", "true", "Yes", "3", "T"])
def test_clicks_are_ones_truths_or_counts(tmp_path, clicked):
    file = written(tmp_path / "c.tsv", "query\tsku\tclicks", f"tea\ta\t{clicked}", "tea\tb\t0", "tea\tc\tfalse")
    assert read_click_log(file).impressions == (Impression("tea", ("a", "b", "c"), ("a",)),)


def test_without_a_session_a_list_ends_where_the_query_changes_or_a_document_comes_again(tmp_path):
    rows = ["tea,a,0", "tea,b,1", "milk,a,0", "tea,a,0", "tea,a,1", "tea,b,0"]
    log = read_click_log(written(tmp_path / "c.csv", "query,doc_id,clicked", *rows))
    assert log.impressions == (
        Impression("tea", ("a", "b"), ("b",)),
        Impression("milk", ("a",), ()),
        Impression("tea", ("a",), ()),
        Impression("tea", ("a", "b"), ("a",)),
    )
    assert not log.is_timed
    assert "rows of one query after each other" in log.form


def test_the_id_of_a_search_keeps_two_lists_of_a_session_apart(tmp_path):
    rows = ["1,s,tea,a,0,1", "2,s,tea,c,0,1", "1,s,tea,b,1,2", "2,s,tea,d,0,2", "1,s,tea,b,1,2"]
    log = read_click_log(written(tmp_path / "c.csv", "search_id,session,query,item,clicked,rank", *rows))
    assert log.impressions == (Impression("tea", ("a", "b"), ("b",)), Impression("tea", ("c", "d"), ()))


def test_a_row_for_each_list_as_jsonl_has_other_keys_and_a_time(tmp_path):
    records = [
        {"ts": 200, "session": "s", "query": "milk", "shown": ["d1", "d2"], "clicked": []},
        {"ts": 100, "session": "s", "query": "green tea", "shown": ["007", "1e5", "d, 3"], "clicked": ["1e5"]},
    ]
    file = tmp_path / "log.jsonl.gz"
    file.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))
    assert read_click_log(file).impressions == (TEA, MILK)
    assert as_click_log(records).impressions == (TEA, MILK)
    assert as_click_log(str(file)).impressions == (TEA, MILK)


@pytest.mark.parametrize("mark", [" ", ",", ";", "|"])
def test_lists_in_cells_are_separated_as_exports_do(tmp_path, mark):
    with (tmp_path / "c.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [["query", "results", "clicked"], ["tea", mark.join("abc"), "c"], ["milk", "a", ""]]
        )
    log = read_click_log(tmp_path / "c.csv")
    assert log.impressions == (Impression("tea", ("a", "b", "c"), ("c",)), Impression("milk", ("a",), ()))


# -- UBI --------------------------------------------------------------------------------------------------------------

QUERIES = [
    {
        "query_id": "u2",
        "user_query": "milk",
        "timestamp": "2026-05-02T10:00:00Z",
        "query_response_hit_ids": ["d1", "d2"],
    },
    {
        "query_id": "u1",
        "user_query": "green tea",
        "timestamp": "2026-05-01T10:00:00Z",
        "query_response_hit_ids": ["007", "1e5", "d, 3"],
    },
]


def event(action: str, query_id: str, doc_id: str, ordinal: int) -> dict[str, object]:
    attributes = {"object": {"object_id": doc_id, "object_id_field": "sku"}, "position": {"ordinal": ordinal}}
    time = f"2026-05-03T10:00:0{ordinal}Z"
    return {"action_name": action, "query_id": query_id, "timestamp": time, "event_attributes": attributes}


EVENTS = [
    event("impression", "u1", "007", 1),
    event("click", "u1", "1e5", 2),
    event("click", "u1", "unseen", 9),
    event("click", "gone", "007", 1),
    event("add_to_cart", "u1", "1e5", 2),
]


def as_source(records: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{"_index": "ubi", "_source": record} for record in records]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "dump"])
def test_queries_and_events_of_ubi(tmp_path, form):
    for name, records in (("ubi_queries", QUERIES), ("ubi_events", EVENTS)):
        file = tmp_path / f"{name}.{form}"
        if form == "parquet":
            table = pytest.importorskip("pyarrow").Table.from_pylist(records)
            pytest.importorskip("pyarrow.parquet").write_table(table, file)
        elif form == "csv":
            rows = [[json.dumps(v) if isinstance(v, dict | list) else v for v in r.values()] for r in records]
            with file.open("w", newline="") as stream:
                csv.writer(stream).writerows([list(records[0]), *rows])
        else:
            lines = as_source(records) if form == "dump" else records
            file.write_text("".join(json.dumps(record) + "\n" for record in lines))
    files = sorted(tmp_path.iterdir())
    for source in (tmp_path, files, files[::-1]):
        log = read_click_log(source)
        assert log.impressions == (TEA, MILK)
        assert log.is_timed
    assert recognize(tmp_path) == "click-log"
    notes = " ".join(log.notes)
    assert "1 events are neither clicks nor impressions" in notes
    assert "1 events are of searches that are not there" in notes
    assert "1 clicks are on documents that were not shown" in notes


def test_impression_events_stand_for_hits_that_were_not_kept(tmp_path):
    queries = [{key: value for key, value in query.items() if key != "query_response_hit_ids"} for query in QUERIES]
    shown = [event("impression", "u1", doc_id, position) for position, doc_id in enumerate(TEA.shown, start=1)]
    events = [EVENTS[1], *shown[::-1], event("impression", "u2", "d1", 1), event("impression", "u2", "d2", 2)]
    assert set(as_click_log((queries, events)).impressions) == {TEA, MILK}
    alone = [{**one, "user_query": "green tea"} for one in [*shown, EVENTS[1]]]
    assert as_click_log(alone).impressions == (TEA,)
    with pytest.raises(FormatError, match="neither queries with query_response_hit_ids nor impression events"):
        as_click_log((queries, [EVENTS[1]]))


def test_a_folder_without_the_two_files_says_what_is_missing(tmp_path):
    (tmp_path / "ubi_queries.csv").write_text("query_id,user_query\n")
    with pytest.raises(InputError, match=r"ubi_queries and ubi_events .*; of events there is none"):
        read_click_log(tmp_path)


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("s,100,tea,1,,0", r":3: product_id is empty; every row needs an id"),
        ("s,100,,1,a,0", r":3: search_term is empty; a query needs words"),
        ("s,100,tea,first,a,0", r":3: position 'first'; a position is a number, 0 or more"),
        ("s,100,tea,1,a,maybe", r":3: clicked 'maybe'; 0 or 1, true or false, or how many clicks"),
        ("s,yesterday,tea,1,a,0", r":3: timestamp 'yesterday'; a time is ISO 8601, or seconds since 1970"),
        ("s,100,tea,1,a", r":3: 5 cells under 6 columns"),
    ],
)
def test_a_bad_row_is_named_and_may_be_skipped(tmp_path, row, message):
    file = written(tmp_path / "c.csv", HEAD, "s,100,tea,1,a,0", row, "s,100,tea,2,b,1")
    with pytest.raises(FormatError, match=message):
        read_click_log(file)
    bad = BadRows(1)
    assert read_click_log(file, refused=bad).impressions == (Impression("tea", ("a", "b"), ("b",)),)
    assert [problem.line for problem in bad.problems] == [3]


def test_columns_can_be_named_and_a_time_that_is_none_is_told(tmp_path):
    file = written(tmp_path / "c.csv", "who,what,thing,hit,date", "s,tea,a,0,May", "s,tea,b,1,May")
    with pytest.raises(
        FormatError,
        match=r"hold the query, the document and the clicks\? Name the columns",
    ):
        read_click_log(file)
    roles = {"query": "what", "doc": "thing", "clicked": "hit", "session": "who"}
    log = read_click_log(file, columns=roles)
    assert log.impressions == (Impression("tea", ("a", "b"), ("b",)),)
    assert "'date' holds 'May', which is no time" in log.notes[0]
    with pytest.raises(FormatError, match=r"There is no column 'where' for position"):
        read_click_log(file, columns={**roles, "position": "where"})


@pytest.mark.parametrize(
    ("clicks", "message"),
    [
        ([("tea", ["a"], ["b"])], r"clicks\[0\]: document 'b' is clicked and was not shown"),
        ([("tea", "ab", "a")], r"clicks\[0\]: the documents shown must be a list; got 'ab'"),
        ([("tea", [1.5], [])], r"clicks\[0\]: shown is 1.5, a number with a point"),
        ([(7.5, ["a"], [])], r"clicks\[0\]: query is 7.5; a query is a text"),
        ([("tea", None, [])], r"clicks\[0\]: the documents shown must be a list; got None"),
        ([("tea", ["a"], 1)], r"clicks\[0\]: the documents clicked must be a list; got 1"),
        (
            [("tea", {"a", "b"}, [])],
            r"clicks\[0\]: the documents shown must be a list in their order; got a set",
        ),
        (pd.Series({"tea": "a"}), "clicks must be impressions .*; got Series"),
        ({"tea": 1}, "clicks must be impressions"),
        (7, "clicks must be impressions"),
    ],
)
def test_what_is_no_log_says_so(clicks, message):
    with pytest.raises(InputError, match=message):
        as_click_log(clicks)


def test_a_set_of_clicks_is_taken_from_top_to_bottom():
    shown = [f"d{number}" for number in range(20)]
    assert as_click_log([("tea", shown, set(shown[5:]))]).impressions[0].clicked == tuple(shown[5:])


@pytest.mark.parametrize(("encoding", "named"), [("cp1252", "cp1252"), ("utf-16", None), ("utf-8", None)])
def test_a_click_file_is_read_in_its_encoding(tmp_path, encoding, named):
    file = tmp_path / "clicks.tsv"
    lines = "query-id\tshown-ids\tclicked-ids", "café\ta b\tb", "", "tea\ta\tc", "tea\ta\t"
    file.write_bytes("\n".join(lines).encode(encoding))
    bad = BadRows(1)
    log = read_click_log(file, encoding=named, refused=bad)
    assert log.impressions == (Impression("café", ("a", "b"), ("b",)), Impression("tea", ("a",), ()))
    assert [problem.line for problem in bad.problems] == [4]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["tea", "milk"]), st.permutations("abcd"), st.sets(st.sampled_from("abcd"))),
        min_size=1,
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_rows_of_lists_in_any_order_come_back_by_search_and_position(lists, random):
    rows = [
        {
            "search_id": number,
            "query": query,
            "sku": sku,
            "position": position,
            "clicked": sku in clicked,
            "time": number,
        }
        for number, (query, shown, clicked) in enumerate(lists)
        for position, sku in enumerate(shown)
    ]
    random.shuffle(rows)
    log = as_click_log(rows)
    assert [(i.query, i.shown, set(i.clicked)) for i in log.impressions] == [
        (query, tuple(shown), clicked) for query, shown, clicked in lists
    ]


def test_a_table_of_clicks_is_recognized_and_its_bad_rows_are_listed(tmp_path):
    rows = ["s,100,tea,1,a,0", "s,100,tea,2,b,1", "s,100,tea,3,c,maybe"]
    file = written(tmp_path / "clicks.csv", HEAD, *rows)
    assert recognize(file) == "click-log"
    bad = BadRows(1)
    assert read_click_log(file, refused=bad).impressions == (Impression("tea", ("a", "b"), ("b",)),)
    [problem] = bad.problems
    assert "clicks.csv:4: clicked 'maybe'" in str(problem)
    events = ["s,impression,tea,a,1", "s,impression,tea,b,2", "s,click,tea,b,2"]
    file = written(tmp_path / "events.csv", "session,event,query,sku,position", *events)
    assert recognize(file) == "click-log"
    assert read_click_log(file).impressions == (Impression("tea", ("a", "b"), ("b",)),)
    products = written(tmp_path / "products.csv", "sku,title,keywords,clicks", "a,Tea,green,7", "b,Milk,white,9")
    assert recognize(products) == "documents"


def test_frames_are_logs():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    columns = {"query": ["tea", "tea"], "sku": [7, 8], "clicked": [0, 1], "session": ["s", "s"]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        assert as_click_log(frame).impressions == (Impression("tea", ("7", "8"), ("8",)),)
    lists = {"query": ["green tea"], "shown": [list(TEA.shown)], "clicked": [list(TEA.clicked)]}
    for frame in (pandas.DataFrame(lists), polars.DataFrame(lists)):
        assert as_click_log(frame).impressions == (TEA,)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_lists_that_a_service_made_by_chance_are_marked(tmp_path, form):
    teams = {"interleaved": {"contenders": ["a1", "baseline"], "method": "team-draft", "teams": [1, 2]}}
    queries = [
        {
            "query_id": f"q{number}",
            "client_id": "c",
            "timestamp": f"2026-11-16T10:00:0{number}Z",
            "user_query": "tea",
            "query_response_hit_ids": ["a", "b"],
            "query_attributes": attributes,
        }
        for number, attributes in enumerate([{"version": "v1"}, {"version": "v1", **teams}, {"randomized": True}])
    ]
    event = {"action_name": "click", "query_id": "q1", "event_attributes": {"object": {"object_id": "b"}}}
    for name, records in (("ubi_queries", queries), ("ubi_events", [event])):
        file = tmp_path / f"{name}.{form}"
        if form == "jsonl":
            file.write_text("".join(json.dumps(record) + "\n" for record in records))
        else:
            rows = [[json.dumps(v) if isinstance(v, dict | list) else v for v in r.values()] for r in records]
            with file.open("w", newline="") as stream:
                csv.writer(stream).writerows([list(records[0]), *rows])
    log = read_click_log(tmp_path)
    assert log.interleaved == (False, True, False)
    assert log.randomized == (False, False, True)
    assert log.subset([1]).interleaved == (True,)


SHOWN_BY_EVENTS = (
    "search_id,session_id,action,user_query,object_id,position",
    "1,s,impression,tea,a,1",
    "1,s,impression,tea,b,2",
)


@pytest.mark.parametrize("role", ["list", "session", "action", "doc", "time", "randomized"])
def test_a_named_column_of_events_must_be_there(tmp_path, role):
    file = written(tmp_path / "events.csv", *SHOWN_BY_EVENTS, "1,s,click,tea,b,2")
    assert read_click_log(file).impressions == (Impression("tea", ("a", "b"), ("b",)),)
    with pytest.raises(FormatError, match=f"There is no column 'serach_id' for {role}"):
        read_click_log(file, columns={role: "serach_id"})


def test_columns_of_two_tables_can_be_named(tmp_path):
    queries = written(tmp_path / "q.csv", "id,words,who,hits,mixed", "7,tea,ann,a|b,1", "8,milk,bob,b|a,0")
    events = written(tmp_path / "e.csv", "search,kind,object_id", "7,click,b", "8,click,b")
    columns = {"action": "kind", "query": "words", "session": "who", "shown": "hits", "randomized": "mixed"}
    with pytest.raises(FormatError, match="Which column holds the id of the search"):
        read_click_log([queries, events], columns=columns)
    with pytest.raises(FormatError, match="rename it to 'list'"):
        read_click_log([queries, events], columns=columns | {"list": "search"})
    queries = written(tmp_path / "q.csv", "query_id,words,who,hits,mixed", "7,tea,ann,a|b,1", "8,milk,bob,b|a,0")
    log = read_click_log([queries, events], columns=columns | {"list": "search"})
    assert log.impressions == (Impression("tea", ("a", "b"), ("b",)), Impression("milk", ("b", "a"), ("b",)))
    assert (log.sessions, log.randomized) == (("ann", "bob"), (True, False))


def test_rows_without_the_id_of_a_search_are_lists_of_their_session(tmp_path):
    rows = ["1,s,tea,a,0", ",s,tea,c,1", ",s,tea,d,0", ",t,tea,c,0", "1,s,tea,b,1", ",s,tea,c,0"]
    log = read_click_log(written(tmp_path / "c.csv", "search_id,session_id,query,doc_id,clicked", *rows))
    assert log.impressions == (
        Impression("tea", ("a", "b"), ("b",)),
        Impression("tea", ("c", "d"), ("c",)),
        Impression("tea", ("c",), ()),
        Impression("tea", ("c",), ()),
    )
