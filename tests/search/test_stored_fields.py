"""What documents carry along is stored, kept through every change, and given back with hits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from support.commands import ok
from support.indexes import DOCS
from tercet.data.documents import as_documents
from tercet.errors import BundleError, InputError
from tercet.search import Index
from tercet.search.stored_fields import MOST_BYTES, packed_record, shown_record, unpacked_record

ROWS: list[dict[str, Any]] = [
    {"sku": "a", "title": "green tea", "text": "of the hills", "price": 1.5, "stock": 3, "fair": True, "color": None},
    {"sku": "b", "title": "black tea", "text": "of the plains", "price": 2.0, "stock": 0, "fair": False, "color": "é"},
    {"sku": "c", "title": "green pot", "text": "for tea", "price": 20.0, "stock": 7, "fair": True, "color": "blue"},
]
STORED_FIELDS = {
    row["sku"]: {name: row[name] for name in ("price", "stock", "fair", "color") if row[name] is not None}
    for row in ROWS
}
TEXTS = {row["sku"]: f"{row['title']}\n{row['text']}" for row in ROWS}


def stored_fields(index: Any) -> dict[str, Any]:
    return {hit.doc_id: hit.stored_fields for hit in index.search("green tea pot")}


@pytest.mark.parametrize("form", ["list", "mapping", "pandas", "polars", "arrow", "documents", "triples", "iterator"])
def test_whatever_holds_the_documents(form: str) -> None:
    triples = [(sku, TEXTS[sku], STORED_FIELDS[sku]) for sku in TEXTS]
    docs: Any = {
        "list": ROWS,
        "mapping": {row["sku"]: {name: row[name] for name in row if name != "sku"} for row in ROWS},
        "pandas": pd.DataFrame(ROWS),
        "polars": pl.DataFrame(ROWS),
        "arrow": pl.DataFrame(ROWS).to_arrow(),
        "documents": as_documents(ROWS),
        "triples": triples,
        "iterator": iter(triples),
    }[form]
    index = Index.build(docs)
    assert stored_fields(index) == STORED_FIELDS
    assert index.text("a") == TEXTS["a"]


def test_nothing_is_carried_by_texts() -> None:
    index = Index.build(DOCS)
    assert [hit.stored_fields for hit in index.search("green")] == [{}, {}, {}]


def test_changes_keep_it(tmp_path: Path) -> None:
    index = Index.build(ROWS, path=tmp_path / "index")
    assert stored_fields(Index.open(tmp_path / "index")) == STORED_FIELDS
    index.add([("d", "green cup", {"price": 5})])
    index.add({"e": "tea cup"})
    index.replace([("a", "green tea", {"price": 9.0})])
    expected = {**STORED_FIELDS, "a": {"price": 9.0}, "d": {"price": 5}, "e": {}}
    assert stored_fields(index) == expected
    index.remove(["b"])
    index.merge()
    del expected["b"]
    assert index.n_segments == 1
    assert stored_fields(index) == stored_fields(tc.load(tmp_path / "index")) == expected
    index.save(tmp_path / "copy")
    assert stored_fields(Index.open(tmp_path / "copy")) == expected


def test_a_merge_of_segments_without_it(tmp_path: Path) -> None:
    index = Index.build(TEXTS)
    index.add([("d", "green cup", {"price": 5})])
    index.merge()
    assert stored_fields(index) == {"a": {}, "b": {}, "c": {}, "d": {"price": 5}}


def test_without_texts_it_is_carried_all_the_same(tmp_path: Path) -> None:
    index = Index.build(ROWS, path=tmp_path / "index", keep_texts=False)
    assert stored_fields(index) == STORED_FIELDS
    assert [hit.kept_text for hit in index.search("green")] == [None, None]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"price": float("inf")}, "'price' is inf; a finite number is needed"),
        ({"text": "x" * MOST_BYTES}, "bytes, most of them in the column 'text'; at most 65,536"),
        ({"picture": b"x"}, "holds bytes"),
        ({7: "x"}, "a column is called 7"),
        ("price", "carries a str; expected values by column"),
    ],
)
def test_what_cannot_be_carried_is_named_and_nothing_is_written(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="document 'd'") as raised:
        Index.build([("d", "green", value)], path=tmp_path / "index")
    assert message in str(raised.value)
    assert not (tmp_path / "index").exists()


def test_four_members_are_no_document() -> None:
    with pytest.raises(InputError, match="expected an id and a text"):
        Index.build([("a", "green", {}, 1)])


plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain |= st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), plain, max_size=6))
def test_what_is_packed_is_unpacked(record: dict[str, Any]) -> None:
    found = unpacked_record(packed_record(record, "d"), "here")
    assert found == {name: value for name, value in record.items() if value is not None and value != ""}
    assert "\n" not in shown_record(found, 40)


def test_what_is_no_record_is_damage() -> None:
    for packed in ("[1]", "{", '{"a": [1]}', "[" * 100_000):
        with pytest.raises(BundleError, match="document 'x' carries"):
            unpacked_record(packed, "document 'x'")


def test_search_shows_it(tmp_path: Path) -> None:
    Index.build(ROWS, path=tmp_path / "index")
    shown = ok("search", tmp_path / "index", "green tea")
    assert "a  green tea of the hills\n       price 1.5 · stock 3 · fair True\n" in shown
    answer = ok("search", tmp_path / "index", "plains", "--json", "--why")
    assert (
        '"stored_fields": {"price": 2.0, "stock": 0, "fair": false, "color": "é"}, "why": [["plain", "plain", '
        in answer
    )
