"""Facets over HTTP: values for filters, their counts, and ranges of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tercet as tc
from support.qdrant_server import fake_qdrant
from support.serving import made_docs, made_index, served
from tercet.engines import QdrantIndex
from tercet.serve import messages

SHELVES = ("oak", "pine", "oak: old")
ASKED = {"q": "green", "compare": True}


@pytest.fixture(scope="module")
def index() -> tc.Index:
    docs = [
        (name, text, {"shelf": SHELVES[i % 3], "price": i % 10, "sku": f"x{i}", "title": "same for all"})
        for i, (name, text) in enumerate(made_docs().items())
    ]
    return tc.Index.build(docs, made_index().model)


def search(api: Any, **more: Any) -> dict[str, Any]:
    answer = api.get("/search", params=ASKED | {"facets": True} | more).json()
    messages.SearchAnswer.model_validate(answer)
    return answer


def values_by_column(answer: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {facet["column"]: {v["value"]: v["count"] for v in facet["values"]} for facet in answer["facets"]}


def test_counts_of_values(tmp_path, index):
    with served(tmp_path / "taught.db", index, shown_fields=["shelf", "price"]) as (api, _):
        answer = search(api, k=60)
        fields = [hit["stored_fields"] for hit in answer["learned"]]
        expected: dict[str, dict[str, int]] = {"shelf": {}, "price": {}}  # not sku, all different, nor the title
        for column, counts in expected.items():
            for stored in fields:
                counts[str(stored[column])] = counts.get(str(stored[column]), 0) + 1
        assert values_by_column(answer) == expected
        assert {facet["counted"] for facet in answer["facets"]} == {len(fields)}
        for column, counts in expected.items():
            for value, count in counts.items():
                assert len(search(api, k=60, filter=f"{column}:{value}")["learned"]) == count


def test_a_filtered_column_keeps_its_values(tmp_path, index):
    with served(tmp_path / "taught.db", index) as (api, _):
        whole, narrowed = (values_by_column(search(api, **more)) for more in ({}, {"filter": "shelf:oak"}))
        assert list(narrowed) == list(whole)
        assert narrowed["shelf"] == whole["shelf"], "another shelf can still be chosen"
        assert sum(narrowed["price"].values()) == whole["shelf"]["oak"]
        nothing = search(api, filter=["shelf:oak", "price:77"])
        assert nothing["learned"] == []
        facets = values_by_column(nothing)
        assert facets["shelf"] == {}
        assert facets["price"] == narrowed["price"]


def test_facets_change_no_list(tmp_path, index):
    with served(tmp_path / "taught.db", index) as (api, _):
        plain = api.get("/search", params=ASKED | {"k": 3}).json()
        answer = search(api, k=3)
        assert plain["facets"] == []
        assert answer["facets"]
        for name in ("learned", "baseline", "left_off"):
            assert answer[name] == plain[name]


def test_many_different_numbers_are_ranges(tmp_path):
    docs = [
        (f"d{i}", "green tea", {"price": i / 4, "code": f"{i}", "year": 2000 + i % 3, "cost": (100 + i % 20) / 100})
        for i in range(40)
    ]
    with served(tmp_path / "taught.db", tc.Index.build(docs)) as (api, _):
        facets = values_by_column(search(api))
        assert set(facets) == {"price", "year", "cost"}, "codes are texts, all of them different"
        assert list(facets["price"]) == ["..2.25", "2.25..4.75", "4.75..7.25", "7.25.."]
        assert list(facets["cost"]) == ["..1.04", "1.04..1.09", "1.09..1.14", "1.14.."]
        assert len(facets["year"]) == 3
        for value, count in facets["price"].items():
            narrowed = search(api, k=40, filter=f"price:{value}")
            assert len(narrowed["learned"]) == count
            assert values_by_column(narrowed)["price"] == facets["price"]


def test_at_most_six_columns(tmp_path):
    rows = np.random.default_rng(0).integers(2, size=(64, 9)).tolist()
    docs = [(f"d{i}", "green tea", {f"c{column}": bit for column, bit in enumerate(row)}) for i, row in enumerate(rows)]
    with served(tmp_path / "taught.db", tc.Index.build(docs)) as (api, _):
        assert list(values_by_column(search(api))) == [f"c{column}" for column in range(6)]
        filtered = search(api, filter=["c7:1", "c8:1"])
        assert list(values_by_column(filtered)) == ["c0", "c1", "c2", "c3", "c7", "c8"]
        assert len(search(api, filter=[f"c{column}:1" for column in range(9)])["facets"]) == 6


def test_no_stored_fields_no_facets(tmp_path):
    with served(tmp_path / "taught.db") as (api, _):
        assert search(api)["facets"] == []


def test_an_engine_without_filters_has_no_facets(tmp_path):
    docs = [(f"d{i}", "green tea", {"shelf": SHELVES[i % 3]}) for i in range(9)]
    with fake_qdrant() as server:
        model = tc.TextModel.bm25([text for _, text, _ in docs])
        index = QdrantIndex.build(docs, model, tmp_path / "index", url=server.url, collection="facets")
        with served(tmp_path / "taught.db", index) as (api, _):
            answer = search(api)
    assert len(answer["learned"]) == 9
    assert answer["facets"] == []
