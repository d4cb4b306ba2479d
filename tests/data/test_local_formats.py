"""Numbers and dates of a country are recognized by the whole column, or stay text."""

import csv
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.data import iter_rows, read_click_log, read_table
from tercet.data.documents import DocumentStream, gather_documents
from tercet.data.local_formats import ColumnFormat, typed_column
from tercet.data.roles import document_roles
from tercet.data.tables import BadRows, open_table

NUMBERS = st.lists(st.decimals(-9_999_999, 9_999_999, places=2), min_size=1, max_size=20)
DATES = st.lists(st.dates(datetime.date(1970, 1, 1), datetime.date(2068, 12, 31)), min_size=1, max_size=20)


@given(NUMBERS)
def test_numbers_of_both_forms_are_their_values(numbers):
    point = [f"{number:,.2f}" for number in numbers]
    comma = [text.translate(str.maketrans(",.", ".,")) for text in point]
    values = [float(number) for number in numbers]
    assert typed_column(list(comma)) == (values, "decimal commas")
    name = "commas between thousands" if any("," in text for text in point) else "numbers"
    assert typed_column(list(point)) == (values, name)


@given(DATES)
def test_dates_are_those_that_were_written(days):
    iso = [day.isoformat() for day in days]
    assert typed_column([f"{day:%d.%m.%Y}" for day in days]) == (iso, "dates, day first")
    assert typed_column([f"{day.day}.{day.month}.{day:%y}" for day in days]) == (iso, "dates, day first")
    for form, name in (("%d/%m/%Y", "dates, day first"), ("%m-%d-%Y", "dates, month first")):
        values, found = typed_column([day.strftime(form) for day in days])
        if any(day.day > 12 for day in days):
            assert (values, found) == (iso, name)
        else:
            assert found is None


@pytest.mark.parametrize(
    "texts",
    [
        ["1,234", "12,500"],
        ["5/6/2026", "1/2/2026"],
        ["007", "1,5"],
        ["1.5", "1,5"],
        ["1,5", "x"],
        ["10-20-30"],
        ["31.2.2026"],
        ["31/1/2026", "1/31/2026"],
        ["1.2.3"],
        ["1,23,4"],
        ["٣,٥"],
        [],
    ],
)
def test_what_is_unclear_or_mixed_stays_text(texts):
    assert ColumnFormat(texts).name is None
    assert typed_column(list(texts)) == (texts, None)


def test_a_table_says_which_formats_its_columns_have(tmp_path):
    file = tmp_path / "products.csv"
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream, delimiter=";")
        rows.writerow(("sku", "name", "preis", "seit", "stock", "size"))
        rows.writerow(("007", "Tee", "1.299,50", "31.12.2025", "3", "1,234"))
        rows.writerow(("008", "Kaffee", "2,5", "1.1.2026 08:30", "", "2,345"))
    wanted = {"preis": 1299.5, "seit": "2025-12-31", "stock": 3, "size": "1,234"}
    formats = {"preis": "decimal commas", "seit": "dates, day first"}
    table = open_table(file)
    by_columns, roles = read_table(file), document_roles(table)
    told = []
    streamed = list(DocumentStream(table, roles, tell=told.append))
    assert by_columns.stored_fields("007") == streamed[0][2] == wanted
    assert by_columns.stored_fields("008")["seit"] == "2026-01-01T08:30:00"
    with file.open("a") as stream:
        stream.write("009;too short\n")
    by_rows = gather_documents(table, roles, BadRows(1))
    assert by_rows.stored_fields("007") == wanted
    assert by_columns.formats == by_rows.formats == told[0] == formats
    assert next(iter_rows(file))[1]["preis"] == "1.299,50"


def test_times_of_a_click_log_may_be_local_dates(tmp_path):
    file = tmp_path / "clicks.csv"
    rows = ["5/31/2026 10:00,milk,a,1", "5/30/2026 23:59:59,tea,b,1"]
    file.write_text("time,query,doc,clicked\n" + "\n".join(rows) + "\n")
    log = read_click_log(file)
    assert [one.query for one in log.impressions] == ["tea", "milk"]
    assert log.notes == ("click log: 'time' holds dates, month first.",)
