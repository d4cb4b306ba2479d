"""A filter gives the best of the documents that carry a value, as a look at each of them would."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tercet as tc
from support.commands import ok
from support.indexes import small_model
from tercet.errors import DamagedBundleError, InputError
from tercet.search import segment
from tercet.search.filtering import columns_of, range_in, rows_with, where_of
from tercet.search.stored_fields import packed_record
from tercet.store.strings import PackedStrings

VALUES = st.one_of(
    st.text(st.sampled_from('ab",:{}\\é1.'), max_size=4),
    st.booleans(),
    st.integers(-20, 20),
    st.sampled_from([1.0, 1.5, -2.25, 1e300]),
)
COLUMNS = st.text(st.sampled_from('ab",:{\\é'), min_size=1, max_size=3)
RECORDS = st.lists(st.dictionaries(COLUMNS, VALUES, max_size=4), min_size=1, max_size=8)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def is_same(stored_fields: Any, text: str) -> bool:
    """Whether a stored value is the one that a text names: the obvious way."""
    if isinstance(stored_fields, bool | str):
        return text_of(stored_fields) == text
    try:
        return float(stored_fields) == float(text) and text.strip() == text and not text.startswith(("+", "."))
    except ValueError:
        return False


@given(RECORDS, COLUMNS, VALUES)
def test_rows_are_those_of_a_look_at_every_record(records: list[dict[str, Any]], column: str, value: Any) -> None:
    kept = [{name: one for name, one in record.items() if one != ""} for record in records]
    packed = PackedStrings.pack([packed_record(record, str(i)) for i, record in enumerate(records)])
    sought = [value, *(record[column] for record in kept if column in record)][-1]
    expected = [i for i, record in enumerate(kept) if column in record and is_same(record[column], text_of(sought))]
    if isinstance(sought, str) and range_in(sought) is not None:
        return
    assert rows_with(packed, column, [text_of(sought)]).tolist() == expected


@given(RECORDS)
def test_columns_are_those_of_every_record(records: list[dict[str, Any]]) -> None:
    packed = PackedStrings.pack([packed_record(record, str(i)) for i, record in enumerate(records)])
    assert list(columns_of(packed)) == list(
        dict.fromkeys(name for record in records for name, value in record.items() if value != "")
    )


def test_damaged_names_of_columns_are_told() -> None:
    with pytest.raises(DamagedBundleError, match="whose name is no JSON"):
        columns_of(PackedStrings.pack(['{"a":1}', '{"\\x":1}']))


def test_names_are_looked_for_once_however_many_colons_a_filter_has(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(segment, "columns_of", lambda records: looked.append(records) or columns_of(records))
    index = tc.Index.build([*colored(40), ("last", "green", {"dc:type": "map"})], segment_docs=17)
    for _ in range(2):
        assert where_of([":" * 400] * 16, index.has_column) == {"": [":" * 399] * 16}
        assert where_of(["dc:type:map"], index.has_column) == {"dc:type": ["map"]}
    assert [hit.doc_id for hit in index.search("green", where={"dc:type": "map"})] == ["last"]
    assert len(looked) == 3


def test_numbers_are_numbers_however_they_are_written() -> None:
    packed = PackedStrings.pack([packed_record({"p": value}, "x") for value in (2, 2.0, "2", 2.5, -1, 1e3, True)])

    def rows(*values: str) -> list[int]:
        return rows_with(packed, "p", values).tolist()

    assert rows("2") == [0, 1, 2]
    assert rows("2.0") == [0, 1]
    assert rows("2..3") == [0, 1, 3]
    assert rows("..2") == [0, 1, 4]
    assert rows("2.25..", "true") == [3, 5, 6]
    assert rows("1000") == rows("1e3") == [5]
    assert rows("02") == rows("..") == rows("x") == []


def test_large_numbers_and_zeros_are_numbers_too() -> None:
    values = (10**16, 1e16, 2**53, 2.0**53, 2**53 + 1, 2**63 - 1, 2.0**63, 1e300, 0, 0.0, -0.0)
    packed = PackedStrings.pack([packed_record({"p": value}, "x") for value in values])
    for value in values:
        expected = [row for row, other in enumerate(values) if other == value]
        assert rows_with(packed, "p", [json.dumps(value)]).tolist() == expected


def test_ranges_and_names_with_colons() -> None:
    assert range_in("1..2..3") is None
    assert range_in("-3..-1.5") == (-3, -1.5)
    assert where_of(["a:b:c"], {"a:b"}.__contains__) == {"a:b": ["c"]}
    assert where_of(["a:b:c"], {"z"}.__contains__) == {"a": ["b:c"]}
    with pytest.raises(InputError, match="expected column:value"):
        where_of(["green"], {"green"}.__contains__)


def made_docs(n: int = 60) -> dict[str, str]:
    words = ("avocado", "sky", "toast", "lutein", "green", "blue", "eyes", "oil")
    rng = np.random.default_rng(2)
    return {f"d{i}": " ".join(rng.choice(words, 5)) for i in range(n)}


def colored(n: int = 60) -> list[tuple[str, str, dict[str, Any]]]:
    rng = np.random.default_rng(3)
    shelf, price = rng.integers(0, 4, n), rng.integers(1, 50, n)
    return [
        (doc_id, text, {"shelf": f"s{shelf[i]}", "price": int(price[i])} if i % 7 else {})
        for i, (doc_id, text) in enumerate(made_docs(n).items())
    ]


@pytest.mark.parametrize("latent", [False, True])
def test_the_best_of_those_that_match_not_those_of_the_best(latent: bool) -> None:
    docs = colored()
    model = small_model(made_docs(), latent=latent)
    index = tc.Index.build(docs, model, segment_docs=17)
    index.remove(["d3", "d8"])
    values = {doc_id: stored_fields for doc_id, _, stored_fields in docs if doc_id not in ("d3", "d8")}
    for query in ("green avocado", "blue sky lutein", "toast"):
        everything = [(hit.doc_id, hit.score) for hit in index.search(query, 60, cutoff=False)]
        for where, lets in (
            ({"shelf": "s1"}, lambda record: record.get("shelf") == "s1"),
            ({"shelf": ["s1", "s2"]}, lambda record: record.get("shelf") in ("s1", "s2")),
            ({"shelf": "s0", "price": "10..30"}, lambda r: r.get("shelf") == "s0" and 10 <= r["price"] <= 30),
            ({"price": 4}, lambda record: record.get("price") == 4),
            ({"shelf": "none"}, lambda _: False),
        ):
            expected = [(doc_id, score) for doc_id, score in everything if lets(values[doc_id])][:4]
            hits = index.search(query, 4, cutoff=False, where=where)
            assert [(hit.doc_id, hit.score) for hit in hits] == expected, where
            assert all(lets(hit.stored_fields) for hit in hits)
            rows = index.search_row(index.model.queries([query]), 4, where=where)
            assert [hit.doc_id for hit in rows] == [doc_id for doc_id, _ in expected]


def test_a_filtered_search_leaves_the_index_as_it_is(tmp_path: Path) -> None:
    index = tc.Index.build(colored(), path=tmp_path / "index")
    before = len(index), index.digest, [hit.doc_id for hit in index.search("green", 60)]
    index.search("green", where={"shelf": "s2"})
    assert (len(index), index.digest, [hit.doc_id for hit in index.search("green", 60)]) == before
    index.add({"new": "green"})
    assert len(tc.Index.open(tmp_path / "index")) == 61


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no document has a column 'color'; stored fields: 'shelf', 'price'"):
        tc.Index.build(colored()).search("green", where={"color": "red"})
    with pytest.raises(InputError, match="no document has a column 'color'; stored fields: none"):
        tc.Index.build(made_docs()).search("green", where={"color": "red"})
    with pytest.raises(InputError, match="where is of type str; expected values by column"):
        tc.Index.build(colored()).search("green", where="shelf:s1")  # type: ignore[arg-type]


def test_values_of_any_kind_are_looked_for_as_documents_carry_them_or_refused() -> None:
    day = datetime.date(2026, 5, 1)
    index = tc.Index.build([("a", "green", {"n": 2, "day": day, "ripe": True}), ("b", "green", {"n": 50})])

    def found(column: Any, value: Any) -> list[str]:
        return [hit.doc_id for hit in index.search("green", where={column: value})]

    assert found("n", np.int64(2)) == found("n", np.array([2, 3])) == found("n", iter([2.0])) == ["a"]
    assert found("day", day) == found("day", [day]) == found("ripe", True) == found("ripe", np.bool_(True)) == ["a"]
    assert found("n", []) == []
    for wrong in (None, [None], b"2", float("nan"), float("inf"), [["2"]]):
        with pytest.raises(InputError, match=r"where has .* for the column 'n'; expected a text, a number"):
            found("n", wrong)
    with pytest.raises(InputError, match="where has the column 5; expected a string"):
        found(5, "x")


def test_the_command(tmp_path: Path) -> None:
    tc.Index.build(colored(), path=tmp_path / "index")
    found = json.loads(
        ok("search", tmp_path / "index", "green", "--json", "--filter", "shelf:s1", "--filter", "price:..20")
    )
    assert found["hits"]
    assert all(hit["stored_fields"]["shelf"] == "s1" and hit["stored_fields"]["price"] <= 20 for hit in found["hits"])
