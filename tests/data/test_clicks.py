"""Click files, and the preferences they become."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Preferences
from tercet.data import Impression, read_click_log
from tercet.errors import FormatError, InputError

HEADER = "query-id\tshown-ids\tclicked-ids\n"
LOG = [
    Impression("avocado eyes", ("007", "7", "1e5"), ("1e5", "007")),
    Impression("007", ("d1",), ()),
]

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"), min_size=1, max_size=5)
ids_in_tsv = texts.filter(lambda text: " " not in text)


BROKEN = [
    (HEADER + "q\td1 d2\n", ":2: 2 cells under 3 columns"),
    (HEADER + "\td1\td1\n", ":2: query-id is empty"),
    (HEADER + "q\t\t\n", ":2: no document is shown; an impression needs at least one"),
    (HEADER + "\nq\td1 d2\td3\n", ":3: document 'd3' is clicked and was not shown"),
    (HEADER + "q\td1 d1\t\n", ":2: document 'd1' is shown twice; name it once"),
    (HEADER + "q\td1\td1 d1\n", ":2: document 'd1' is clicked twice; name it once"),
    (HEADER, ": the log holds no lists of shown documents"),
    ('{"query": "q", "shown": ["d", 1.5], "clicked": []}\n', ":1: shown is 1.5, a number with a point"),
    ('{"query": "q", "shown": ["d"]\n', ":1: column 30: broken JSON"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_what_is_wrong_is_said_where_it_is(tmp_path: Path, content: str, message: str, packed: bool) -> None:
    raw = content.encode()
    (tmp_path / "f").write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(FormatError, match=rf"/f{message}"):
        read_click_log(tmp_path / "f")


def test_lists_with_a_header_of_ids_are_a_click_log(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(HEADER + "007\td1 7\t7\nq\td1\t\n")
    log = read_click_log(tmp_path / "f")
    assert log.impressions == (Impression("007", ("d1", "7"), ("7",)), Impression("q", ("d1",), ()))


# -- preferences ------------------------------------------------------------------------------------------------------


def test_clicked_is_better_than_skipped_above_or_than_all_that_were_not_clicked() -> None:
    log = [(3, [10, 11, 12, 13], [12, 10]), (4, [10, 11], []), (5, [10, 11], [10])]
    above = Preferences.from_clicks(log)
    assert list(zip(above.query, above.better, above.worse, strict=True)) == [(3, 12, 11)]
    everything = Preferences.from_clicks(log, skipped="all")
    assert list(zip(everything.query, everything.better, everything.worse, strict=True)) == [
        (3, 12, 11),
        (3, 12, 13),
        (3, 10, 11),
        (3, 10, 13),
        (5, 10, 11),
    ]
    assert len(Preferences.from_clicks([])) == 0
    assert len(Preferences.from_clicks(log[1:])) == 0


def test_a_click_file_becomes_preferences_by_the_rows_of_its_ids(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(json.dumps(one._asdict()) + "\n" for one in LOG))
    rows = {"query_rows": {"avocado eyes": 1, "007": 0}, "doc_rows": {"7": 5, "007": 6, "1e5": 7, "d1": 8}}
    prefs = Preferences.from_clicks(read_click_log(tmp_path / "f").impressions, **rows)
    assert (prefs.query.tolist(), prefs.better.tolist(), prefs.worse.tolist()) == ([1], [7], [5])
    with pytest.raises(InputError, match=r"log\[0\]: document '7' is an id without a row"):
        Preferences.from_clicks(LOG, query_rows=rows["query_rows"], doc_rows={"007": 0, "1e5": 1})


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.integers(1, 6).flatmap(
            lambda n: st.tuples(
                st.integers(0, 3), st.permutations(range(n)), st.lists(st.integers(0, n - 1), unique=True)
            )
        ),
        max_size=6,
    )
)
def test_preferences_of_clicks_are_those_of_the_definition(log: list[tuple[int, list[int], list[int]]]) -> None:
    wanted = sorted(
        (query, better, worse)
        for query, shown, clicked in log
        for better in clicked
        for worse in shown
        if worse not in clicked and shown.index(worse) < shown.index(better)
    )
    prefs = Preferences.from_clicks(log)
    assert sorted(zip(prefs.query.tolist(), prefs.better.tolist(), prefs.worse.tolist(), strict=True)) == wanted


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            [("q", ["a", "b"], ["b"])],
            r"log\[0\]: query 'q' is no row number; say with query_rows and doc_rows what ids mean",
        ),
        ([(0, [1, True], [True])], r"log\[0\]"),
        ([(0, [0, 1], [1]), (0, [1, 2], [3])], r"log\[1\] has a click on 3, which was not shown"),
        ([(0, [1, 2, 1], [2])], r"log\[0\] shows a document twice"),
        ([(0, [0, -1], [-1])], r"log\[0\]: document -1 is no row number"),
    ],
)
def test_logs_that_cannot_be_right_are_refused(
    log: list[tuple[object, list[object], list[object]]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Preferences.from_clicks(log)


def test_what_is_skipped_has_two_meanings_only() -> None:
    with pytest.raises(InputError, match=r"'skipped' must be 'above' or 'all'\. Got 'below'"):
        Preferences.from_clicks([], skipped="below")
