"""Reading by whole columns gives what reading row by row gives; a bad row at the end makes a reader go row by row."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.data import read_table
from tercet.data.click_tables import read_click_log
from tercet.data.tables import BadRows
from tercet.errors import FormatError

CELLS = st.text(st.sampled_from('a7,"\n\r 0é.'), max_size=4)


def write_rows(path: Path, head: list[str], rows: list[list[str]], end: str = "") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([head, *rows])
        file.write(end)
    return path


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from("123")] * 3, st.sampled_from("01"), st.sampled_from("1234 ")), min_size=1))
@pytest.mark.parametrize("key", ["search_id", "session", "other"])
def test_lists_are_the_same_by_columns_and_by_rows(tmp_path_factory, key, rows):
    folder = tmp_path_factory.mktemp("clicks")
    head = [key, "query", "sku", "clicked", "position"]
    whole = read_click_log(write_rows(folder / "a.csv", head, [list(row) for row in rows]))
    bad = BadRows(1)
    by_row = read_click_log(write_rows(folder / "b.csv", head, [list(row) for row in rows], "short\n"), refused=bad)
    assert len(bad.problems) == 1
    assert (whole.impressions, whole.sessions, whole.notes) == (by_row.impressions, by_row.sessions, by_row.notes)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_documents_are_the_same_by_columns_and_by_rows(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("documents")
    table = [[f"00{number}", "tea" + text, price] for number, (text, price) in enumerate(rows)]
    head = ["id", "text", "price"]
    whole = read_table(write_rows(folder / "a.csv", head, table))
    by_row = read_table(write_rows(folder / "b.csv", head, table, "short\n"), skip_bad=1)
    assert [whole.record(doc_id) for doc_id in whole] == [by_row.record(doc_id) for doc_id in by_row]
    assert list(whole) == list(by_row)


def test_a_wrong_row_far_down_is_named_with_its_line(tmp_path):
    rows = [[f"d{number}", "tea"] for number in range(3000)]
    with pytest.raises(FormatError, match="'d7' is already used at line 9") as raised:
        read_table(write_rows(tmp_path / "a.csv", ["id", "text"], [*rows, ["d7", "milk"]]))
    assert raised.value.line == 3002


def test_rows_without_text_are_left_out_and_a_quoted_cell_goes_over_lines(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b'\xef\xbb\xbfid,text\r\n\r\n , \r\n007,"green\r\ntea"\r\n,\r\n7,milk')
    assert dict(read_table(file)) == {"007": "green\ntea", "7": "milk"}
