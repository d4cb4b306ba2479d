"""Tables: every format gives the same documents, and whatever is wrong is told with its place."""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import gzip
import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tercet.data import Documents, as_documents, iter_rows, read_table
from tercet.data.documents import DocumentStream, document_roles, gather_documents
from tercet.data.judgements import read_judgements
from tercet.data.tables import BadRows, open_table
from tercet.data.triplets import read_triplets
from tercet.errors import FormatError, InputError, TercetError

quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(tmp_path, content, name="products.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


# -- the same documents, whatever they are written as ---------------------------------------------------------------

# No carriage returns, which CSV's readers and writers treat as line ends, and no NUL, which spreadsheets drop.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\x00\x1a"), min_size=1).filter(
    lambda text: bool(text.strip()) and not text.startswith("\ufeff")
)
ids = texts.filter(lambda text: "\t" not in text and "\n" not in text)
words = texts.filter(lambda text: not any(sign.isdigit() for sign in text))  # never a number in CSV


@st.composite
def tables(draw):
    n = draw(st.integers(1, 6))
    records = {
        "sku": draw(st.lists(ids, min_size=n, max_size=n, unique=True)),
        "name": draw(st.lists(texts, min_size=n, max_size=n)),
        "description": draw(st.lists(st.none() | texts, min_size=n, max_size=n)),
        "price": draw(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=n, max_size=n)),
        "stock": draw(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n)),
        "maker": draw(st.lists(words, min_size=n, max_size=n)),
    }
    return [dict(zip(records, values, strict=True)) for values in zip(*records.values(), strict=True)]


def as_csv(records, delimiter):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(records[0])
    writer.writerows(["" if value is None else value for value in record.values()] for record in records)
    return stream.getvalue()


def assert_same(docs, records):
    assert list(docs) == [record["sku"] for record in records]
    assert docs.text_columns == ("name", "description")
    for record in records:
        parts = [record["name"], record["description"]]
        assert docs[record["sku"]] == "\n".join(part for part in parts if part is not None)
        assert docs.stored_fields(record["sku"]) == {name: record[name] for name in ("price", "stock", "maker")}


@quick
@given(tables(), st.sampled_from(",;\t|"), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.booleans())
def test_csv_gives_back_what_was_written(tmp_path, records, delimiter, encoding, packed):
    content = as_csv(records, delimiter).encode(encoding)
    path = written(tmp_path, gzip.compress(content) if packed else content)
    docs = read_table(path)
    assert_same(docs, records)
    table = open_table(path)
    streamed = DocumentStream(table, document_roles(table))
    for _ in range(2):
        assert list(streamed) == [(doc_id, docs[doc_id], docs.stored_fields(doc_id)) for doc_id in docs]


@quick
@given(tables(), st.booleans())
def test_jsonl_gives_back_what_was_written(tmp_path, records, ascii_only):
    lines = [json.dumps(record, ensure_ascii=ascii_only) for record in records]
    assert_same(read_table(written(tmp_path, "\n".join(lines), "products.jsonl")), records)


@quick
@given(tables())
def test_parquet_gives_back_what_was_written(tmp_path, records):
    kinds = {"price": pa.float64(), "stock": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in records[0]])
    path = tmp_path / "products.parquet"
    pq.write_table(pa.Table.from_pylist(records, schema), path, row_group_size=2)
    assert_same(read_table(path), records)


@quick
@given(tables())
def test_records_and_frames_give_back_what_they_hold(records):
    kinds = {"price": pa.float64(), "stock": pa.int64()}
    arrow = pa.Table.from_pylist(records, pa.schema([(name, kinds.get(name, pa.string())) for name in records[0]]))
    by_id = {record["sku"]: {name: record[name] for name in record if name != "sku"} for record in records}
    for docs in (records, by_id, arrow, pl.from_arrow(arrow), pd.DataFrame(records, dtype=object)):
        assert_same(as_documents(docs), records)


@quick
@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode), st.sampled_from([None, "utf-16", "cp1252"]))
def test_junk_is_refused_by_a_typed_error(tmp_path, junk, encoding):
    path = written(tmp_path, junk)
    for skip_bad in (0, 1000):
        with contextlib.suppress(TercetError):
            read_table(path, encoding=encoding, skip_bad=skip_bad)


@quick
@given(st.data())
def test_damaged_tables_are_refused_by_a_typed_error(tmp_path, data):
    schema = pa.table({"id": ["a", "b"], "text": ["green tea", "black tea"], "tags": [["x", "y"], []]})
    pq.write_table(schema, tmp_path / "whole.parquet")
    whole = data.draw(
        st.sampled_from(
            [
                (tmp_path / "whole.parquet").read_bytes(),
                b'id,text\na,"green\ntea"\nb,black\n',
                b'{"id": "a", "text": "tea", "tags": ["x"]}\n{"id": "b", "text": "t"}\n',
                gzip.compress(b"id,text\na,green\n"),
            ]
        )
    )
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = written(tmp_path, bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    with contextlib.suppress(TercetError):
        read_table(path, skip_bad=5)


# -- as real exports have it ------------------------------------------------------------------------------------------


def test_ids_stay_as_they_are_written(tmp_path):
    path = written(tmp_path, "id,text,zip,price\n007,tea,01234,1.50\n1e5,milk,99999,2\n 8,bread,1,\n")
    docs = read_table(path)
    assert list(docs) == ["007", "1e5", " 8"]
    assert docs.columns["zip"] == ["01234", "99999", "1"]  # one of them is no number, so all are strings
    assert docs.columns["price"] == [1.5, 2, None]


def test_a_column_with_a_number_of_more_than_64_bits_stays_text(tmp_path):
    for number in ("9223372036854775808", "9" * 5000):  # more digits than Python makes an int of
        docs = read_table(written(tmp_path, f"id,text,serial\n7,tea,{number}\n8,milk,1\n"))
        assert docs.columns["serial"] == [number, "1"]


def test_line_numbers_are_those_on_which_records_begin(tmp_path):
    path = written(tmp_path, '\nid,text\n1,"two\n\nlines"\n\n2,"one"\n')
    assert list(iter_rows(path)) == [
        (3, {"id": "1", "text": "two\n\nlines"}),
        (7, {"id": "2", "text": "one"}),
    ]


def test_a_spreadsheet_may_say_its_delimiter(tmp_path):
    path = written(tmp_path, "sep=;\r\nid;text, all of it\r\n1;tea\r\n")
    assert list(iter_rows(path)) == [(3, {"id": "1", "text, all of it": "tea"})]


def test_an_unnamed_index_column_is_carried(tmp_path):
    path = tmp_path / "frame.csv"
    pd.DataFrame({"id": ["a", "b"], "text": ["tea", "milk"]}).to_csv(path)
    docs = read_table(path)
    assert docs.columns["column 1"] == [0, 1]


@pytest.mark.parametrize("n_before", [0, 200])
def test_a_line_that_is_not_utf_8_is_a_bad_row_wherever_it_stands(tmp_path, n_before):
    before = b"id,text\n" + b"".join(b"%d,tea %d\n" % (number, number) for number in range(n_before))
    path = written(tmp_path, before + b"b,caf\xe9\nc,milk\n")
    docs = read_table(path, skip_bad=1)
    assert list(docs)[n_before:] == ["c"]
    problems = []
    assert len(list(iter_rows(path, refused=problems.append))) == n_before + 1
    assert [(problem.kind, problem.line) for problem in problems] == [("encoding", n_before + 2)]
    with pytest.raises(FormatError, match=rf":{n_before + 2}: byte 0xe9 .*iconv"):
        read_table(path)


@pytest.mark.parametrize("text", [b'"first\ncaf\xe9\nlast"\nc,milk', b'"first\ncaf\xe9"\nc,milk\nd,more"'])
def test_a_line_inside_a_quoted_cell_is_not_left_out(tmp_path, text):
    path = written(tmp_path, b"id,text\na,tea\nb," + text + b"\ne,tea\n")
    with pytest.raises(FormatError, match=r":4: the line is left out inside the cell whose quote opens on line 3"):
        read_table(path, skip_bad=5)


@pytest.mark.parametrize("encoding", ["hex", "rot13", "zlib", "martian", "", "a\0b", 5])
def test_an_encoding_that_is_none_of_texts_is_refused(tmp_path, encoding):
    with pytest.raises(InputError, match="is not known; as in 'latin-1'"):
        read_table(written(tmp_path, "id,text\na,tea\n"), encoding=encoding)


def test_latin_1_is_read_when_it_is_named(tmp_path):
    path = written(tmp_path, "id,text\n1,café\n", encoding="latin-1")
    assert read_table(path, encoding="latin-1")["1"] == "café"
    with pytest.raises(FormatError, match=r"byte 0xe9 at offset 13 is not UTF-8.*iconv") as caught:
        read_table(path)
    assert (caught.value.line, caught.value.kind) == (2, "encoding")


def test_a_byte_that_is_not_of_the_named_encoding_is_told_with_its_offset(tmp_path):
    path = written(tmp_path, "id,text\n".encode("utf-16") + "1,tea\n2,".encode("utf-16-le") + b"\x00\xd8\x00\x00")
    with pytest.raises(FormatError, match="the line is not utf-16") as caught:
        read_table(path)
    assert caught.value.line == 3
    with pytest.raises(InputError, match="encoding 'klingon' is not known"):
        read_table(path, encoding="klingon")


def test_long_cells_are_read_and_the_limit_of_others_is_left_alone(tmp_path):
    before = csv.field_size_limit()
    path = written(tmp_path, f"id,text\n1,{'tea ' * 100_000}\n")
    assert len(read_table(path)["1"]) == 400_000
    assert csv.field_size_limit() == before


def test_typed_values_are_kept_and_others_made_plain(tmp_path):
    record = {
        "id": 12,
        "text": "tea",
        "price": 1.5,
        "new": True,
        "tags": ["a", "b"],
        "size": {"cm": 3},
        "x": None,
    }
    docs = read_table(written(tmp_path, json.dumps(record) + "\n", "products.jsonl"))
    assert docs.record("12") == {
        "text": "tea",
        "price": 1.5,
        "new": True,
        "tags": "a, b",
        "size.cm": 3,
        "x": None,
    }


def test_parquet_dates_decimals_and_bytes(tmp_path):
    table = pa.table(
        {
            "id": ["a"],
            "text": ["tea"],
            "day": [datetime.date(2026, 5, 1)],
            "price": [decimal.Decimal("1.50")],
            "picture": [b"\x00\xff"],
        }
    )
    pq.write_table(table, tmp_path / "products.parquet")
    docs = read_table(tmp_path / "products.parquet")
    assert docs.stored_fields("a") == {"day": "2026-05-01", "price": 1.5}
    assert open_table(tmp_path / "products.parquet").form == "Parquet, without the bytes of picture"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (np.datetime64("2026-05-01T10:00:00.000000000"), "2026-05-01T10:00:00"),
        (np.datetime64("2026-05-01T10:00:00"), "2026-05-01T10:00:00"),
        (np.datetime64("2026-05-01"), "2026-05-01"),
        (np.datetime64("NaT", "ns"), None),
        (np.datetime64("20260-05-01T00:00:00"), "20260-05-01T00:00:00"),
        (np.array(["2026-05-01"], "datetime64[ns]"), "2026-05-01T00:00:00"),
        (np.timedelta64(5_000_000_000, "ns"), "0:00:05"),
        (np.longdouble(1.5), 1.5),
        (decimal.Decimal("sNaN"), None),
        (decimal.Decimal("1E+30"), str(10**30)),
    ],
)
def test_values_of_numpy_and_decimals_are_plain(value, kept):
    assert as_documents([{"id": "a", "text": "tea", "x": value}]).stored_fields("a") == {"x": kept}


@pytest.mark.parametrize("value", [decimal.Decimal("1E+5000"), decimal.Decimal("-Infinity"), np.longdouble("inf")])
def test_a_number_that_no_float_holds_is_refused(value):
    with pytest.raises(InputError, match=r"docs\[0\]: 'x' is .*; a finite number is needed"):
        as_documents([{"id": "a", "text": "tea", "x": value}])


def test_pandas_missing_values_and_a_named_index():
    frame = pd.DataFrame(
        {"title": ["Tea", None], "text": ["green", "black"], "stock": [3.0, np.nan]}, index=pd.Index([1, 2], name="sku")
    )
    docs = as_documents(frame, id="sku")
    assert dict(docs) == {"1": "Tea\ngreen", "2": "black"}
    assert docs.columns["stock"] == [3.0, None]


def test_documents_are_a_mapping_like_any_other():
    without_header = pd.DataFrame([["a", "tea"], ["b", "milk"]])
    assert dict(as_documents(without_header, id="0", text="1")) == {"a": "tea", "b": "milk"}
    docs = as_documents({"a": "tea", "b": ""})
    assert docs == {"a": "tea", "b": ""}
    assert as_documents(docs) is docs
    assert repr(docs) == "Documents(2; text: text)"
    assert "c" not in docs
    with pytest.raises(KeyError):
        docs["c"]


def test_the_key_of_a_record_is_its_id_whatever_columns_later_records_have():
    records = {f"d{number}": {"text": "tea"} for number in range(101)}
    docs = as_documents({**records, "last": {"id": "other", "text": "milk"}})
    assert list(docs)[-1] == "last"
    assert docs.stored_fields("last") == {"id": "other"}
    assert list(as_documents({"a": {"text": "tea", "id": {"of": "b"}}})) == ["a"]


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        ({"": "tea"}, "docs: an id is empty"),
        ({"a\tb": "tea"}, "docs: an id 'a.*' holds a tab"),
        ({"\ud800": "tea"}, "docs: an id holds half a surrogate pair"),
        ({"a": "\udc00"}, r"docs\['a'\] holds half a surrogate pair"),
    ],
)
def test_texts_by_id_are_checked_as_records_are(docs, message):
    with pytest.raises(InputError, match=message):
        as_documents(docs)


def test_an_object_in_a_cell_is_columns_by_which_texts_can_be_named(tmp_path):
    records = [
        {"id": "a", "title": "Tea", "meta": {"body": "green", "price": 2}},
        {"id": "b", "title": "Milk", "meta": None},
    ]
    table = pa.Table.from_pylist(records)
    pq.write_table(table, tmp_path / "products.parquet")
    assert open_table(tmp_path / "products.parquet").columns == ("id", "title", "meta.body", "meta.price")
    lines = written(tmp_path, "".join(json.dumps(record) + "\n" for record in records))
    read = [read_table(path, text=["title", "meta.body"]) for path in (tmp_path / "products.parquet", lines)]
    made = [as_documents(docs, text=["title", "meta.body"]) for docs in (records, table, pl.from_arrow(table))]
    for docs in (*read, *made):
        assert dict(docs) == {"a": "Tea\ngreen", "b": "Milk"}
        assert docs.columns["meta.price"] == [2, None]


# -- what the columns are ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "output"),
    [
        ("sku,name,description,price,tags", "id: sku; text: name, description; stored: price, tags"),
        ("description,Title,ID", "id: ID; text: Title, description"),
        ("productId,product_title,body", "id: productId; text: product_title, body"),
        ("id,sku,text", "id: id; text: text; stored: sku"),
        ("Doc ID,Abstract,Year", "id: Doc ID; text: Abstract; stored: Year"),
    ],
)
def test_roles_are_guessed_from_names(tmp_path, header, output):
    table = open_table(written(tmp_path, f"{header}\n{','.join('x' * len(header.split(',')))}\n"))
    assert str(document_roles(table)) == output


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("no,text", r"Which column holds the id\? Name the column, or rename it to 'id'. The columns are no, text"),
        ("sku,asin,text", "'sku' and 'asin' could each be the id. Name the column, .* are sku, asin, text"),
        ("id,price", r"Which column holds the texts\? Name the column, or rename it to 'text'. .* are id, price"),
        ("no,price", "hold the id and the texts.*rename them to 'id' and 'text'."),
    ],
)
def test_an_unclear_guess_is_refused_with_the_columns(tmp_path, header, message):
    with pytest.raises(FormatError, match=message) as caught:
        read_table(written(tmp_path, f"{header}\n{','.join('x' * len(header.split(',')))}\n"))
    assert caught.value.kind == "columns"


def test_columns_can_be_named(tmp_path):
    path = written(tmp_path, "no,what,price\n7,tea,1\n")
    assert repr(read_table(path, id="no", text=["what", "price"])) == "Documents(1; text: what, price)"
    with pytest.raises(FormatError, match=r"There is no column 'sku' for id.*The columns are no, what, price"):
        read_table(path, id="sku", text="what")


# -- what is wrong, and where -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("id,text\n1,tea\n2,green, hot\n", 3, "3 cells under 2 columns; quote a text that holds ','"),
        ("id,text\n1\n", 2, "1 cell under 2 columns"),
        ("id,text\n,tea\n", 2, "id is empty; every row needs an id"),
        ("id,text\n1,tea\n1,milk\n", 3, "the id '1' is already used at line 2"),
        ("id,text,n\n1,,2\n", 2, "document '1' has no text: text is empty"),
        ("id,title,text,n\n1,,,2\n", 2, "document '1' has no text: title and text are empty"),
        ('id,text\n1,"tea"x\n', 2, "broken CSV: .* quote a cell"),
        ('id,text\n1,tea\n2,"milk\n3,bread\n', 3, "unexpected end of data; the quote that opens here is not closed"),
        ("id,text\r1,tea\r", 1, "lines end in a carriage return alone"),
        ("1,tea\n2,milk\n", 1, "the first line must name the columns; found '1', which looks like data"),
        ("id,text,text\n1,tea,milk\n", 1, "the columns 2 and 3 are both called 'text'"),
        ("just words\nand more\n", 1, "the first line of a table names its columns"),
        ('{"id": 1.5, "text": "tea"}\n', 1, "id is 1.5, a number with a point; ids are strings or whole numbers"),
        ('{"id": null, "text": "tea"}\n', 1, "id is empty"),
        ('{"id": "a", "text": null}\n', 1, "document 'a' has no text"),
        ('{"id": "a", "text": "tea"}\n{"id": "b", "text": \n', 2, "broken JSON"),
        ('{"id": "a", "text": "tea", "price": Infinity}\n', 1, "'price' is inf; a finite number is needed"),
        ('[{"id": "a", "text": "tea"}]\n', 1, "this is a JSON array; a table has one object a line"),
        ("", None, "the file is empty"),
        ("id,text\n", None, "the table has no rows"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, content, line, message):
    with pytest.raises(FormatError, match=message) as caught:
        read_table(written(tmp_path, content))
    assert caught.value.line == line


def test_a_row_of_parquet_and_of_records_is_named(tmp_path):
    pq.write_table(pa.table({"id": ["a", "a"], "text": ["tea", "milk"]}), tmp_path / "table.parquet")
    with pytest.raises(FormatError, match=r"table.parquet: row 2: the id 'a' is already used at row 1"):
        read_table(tmp_path / "table.parquet")
    with pytest.raises(InputError, match=r"docs\[1\]: the id 'a' is already used at docs\[0\]"):
        as_documents([{"id": "a", "text": "tea"}, {"id": "a", "text": "milk"}])
    with pytest.raises(InputError, match=r"docs\['b'\]: document 'b' has no text"):
        as_documents({"a": {"text": "tea"}, "b": {"text": None}})
    with pytest.raises(InputError, match=r"docs\['b'\] is 3; a text"):
        as_documents({"a": "tea", "b": 3})
    with pytest.raises(InputError, match="lazy frame; collect it"):
        as_documents(pl.LazyFrame({"id": ["a"], "text": ["tea"]}))
    with pytest.raises(InputError, match="docs has two columns called 'text'"):
        as_documents(pd.DataFrame([["a", "tea", "milk"]], columns=["id", "text", "text"]))
    with pytest.raises(InputError, match=r"docs must be a mapping of ids to texts or records.*got int"):
        as_documents(3)


def test_so_many_bad_rows_are_left_out_and_one_more_is_not(tmp_path):
    path = written(tmp_path, "id,text\n1,tea\n2\n,milk\n4,bread\n4,bread\n")
    docs = read_table(path, skip_bad=3)
    assert dict(docs) == {"1": "tea", "4": "bread"}
    with pytest.raises(FormatError, match=r"already used at line 5 .2 bad rows were allowed, and this is one more"):
        read_table(path, skip_bad=2)
    table, bad = open_table(path), BadRows(3)
    assert [doc_id for doc_id, _, _ in DocumentStream(table, document_roles(table), bad)] == ["1", "4"]
    assert [problem.line for problem in bad.problems] == [3, 4, 6]  # though the file was read twice
    with pytest.raises(InputError, match="skip_bad must be a whole number"):
        read_table(path, skip_bad=-1)


def test_a_row_that_is_left_out_does_not_decide_what_a_column_holds(tmp_path):
    path = written(tmp_path, "id,text,price\n1,tea,2.5\n,milk,none\n3,,free\n4,bread,7\n")
    docs = read_table(path, skip_bad=2)
    assert [docs.stored_fields(doc_id) for doc_id in docs] == [{"price": 2.5}, {"price": 7}]
    table = open_table(path)
    streamed = DocumentStream(table, document_roles(table), BadRows(2))
    assert [stored_fields for _, _, stored_fields in streamed] == [{"price": 2.5}, {"price": 7}]


def test_a_quote_that_is_not_closed_loses_no_rows_quietly(tmp_path):
    for end in ("", '5,"jam"\n'):
        path = written(tmp_path, f'id,text\n1,tea\n2,"milk\n3,bread\n4,butter\n{end}')
        with pytest.raises(
            FormatError, match="the quote that opens here is not closed, or wrongly, up to line"
        ) as caught:
            read_table(path, skip_bad=1000)
        assert caught.value.line == 3


def test_documents_of_columns():
    docs = Documents(["a"], {"title": ["Tea"], "text": [""], "year": [1999]}, ("title", "text", "year"))
    assert docs["a"] == "Tea\n1999"


# -- bad rows ---------------------------------------------------------------------------------------------------------


def test_all_that_is_wrong_with_documents_is_listed(tmp_path):
    table = open_table(written(tmp_path, "sku,name\n1,tea\n2\n,milk\n1,bread\n5,Tea\n6,\n05,jam\n"))
    problems = []
    assert list(gather_documents(table, document_roles(table), problems.append)) == ["1", "5", "05"]
    assert [(one.kind, one.line) for one in problems] == [
        ("format", 3),
        ("id", 4),
        ("duplicate-id", 5),
        ("empty-text", 7),
    ]


def test_all_that_is_wrong_with_judgements_is_listed(tmp_path):
    path = written(tmp_path, "query,sku,rating\ntea,1,3\ntea,1,2\ntea,1,3\nmilk,1,0\n,1,1\ntea,2,x\ntea,3,\n")
    problems = []
    judged = read_judgements(path, refused=problems.append)
    assert (judged.qrels, judged.n_ungraded) == ({"tea": {"1": 3}, "milk": {"1": 0}}, 1)
    assert [(one.kind, one.line) for one in problems] == [("contradiction", 3), ("empty-text", 6), ("format", 7)]


def test_all_that_is_wrong_with_threes_is_listed(tmp_path):
    path = written(tmp_path, "query|better|worse\ntea|1|2\ntea|2|1\ntea|1|1\ntea||1\n")
    problems = []
    assert len(read_triplets(path, refused=problems.append).triplets) == 2
    assert [(one.kind, one.line) for one in problems] == [("format", 4), ("id", 5)]


def test_columns_and_encoding_are_those_that_are_said(tmp_path):
    path = written(tmp_path, "no,what\n1,café\n", encoding="cp1252")
    assert dict(read_table(path, id="no", text="what", encoding="cp1252")) == {"1": "café"}
    with pytest.raises(FormatError, match="is not UTF-8"):
        read_table(path, id="no", text="what")


def test_a_frame_without_known_columns_names_the_call_that_reads_it():
    with pytest.raises(FormatError, match=r"\(here: tc.as_documents\(docs, id='COLUMN', text='COLUMN'\)\)"):
        as_documents([{"no": "a", "Inhalt": "green tea"}])
    assert as_documents([{"no": "a", "Inhalt": "green tea"}], id="no", text="Inhalt")["a"] == "green tea"
