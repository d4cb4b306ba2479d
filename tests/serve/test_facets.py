"""Filters over HTTP: the best of what carries a value, what there is to choose from, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tercet as tc
from support.serving import made_docs, made_index, refused, served
from tercet.engines.engine_view import EngineView
from tercet.errors import InputError
from tercet.serve import messages
from tercet.serve.facets import facets

ALL = {"facets": True, "compare": True}
SHELVES = ("oak", "pine", "oak: old")


def shelved(n: int = 60) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (doc_id, text, {"shelf": SHELVES[i % 3], "price": i % 10, "sku": f"x{i}", "title": "one for all"})
        for i, (doc_id, text) in enumerate(made_docs(n).items())
    ]


@pytest.fixture(scope="module")
def index() -> tc.Index:
    return tc.Index.build(shelved(), made_index().model)


def ids(found: dict[str, Any], system: str = "learned") -> list[str]:
    return [hit["id"] for hit in found[system]]


def test_both_lists_are_the_best_of_those_that_match(tmp_path, index):
    stored_fields = {doc_id: record for doc_id, _, record in shelved()}
    with served(tmp_path / "taught.db", index) as (api, _):
        whole = api.get("/search", params={"compare": True, "q": "green avocado", "k": 60}).json()
        answer = api.get("/search", params={"compare": True, "q": "green avocado", "k": 3, "filter": "shelf:oak"})
        messages.SearchAnswer.model_validate(answer.json())
        found = answer.json()
        assert found["where"] == {"shelf": ["oak"]}
        for system in ("learned", "baseline"):
            assert ids(found, system) == [id for id in ids(whole, system) if stored_fields[id]["shelf"] == "oak"][:3]
        assert ids(found) != ids(whole)[:3]
        both = {"q": "green avocado", "k": 60, "filter": ["shelf:oak", "shelf:oak: old", "price:2..4"]}
        for doc_id in ids(api.get("/search", params=both).json()):
            assert stored_fields[doc_id]["shelf"] != "pine"
            assert 2 <= stored_fields[doc_id]["price"] <= 4
        assert ids(api.get("/search", params=ALL | {"q": "green", "filter": "shelf:ash"}).json()) == []


def test_what_there_is_to_choose_from(tmp_path, index):
    with served(tmp_path / "taught.db", index, shown_fields=["shelf", "price"]) as (api, _):
        found = api.get("/search", params=ALL | {"q": "green", "k": 60}).json()
        shelves = [hit["stored_fields"]["shelf"] for hit in found["learned"]]
        facets = {facet["column"]: facet for facet in found["facets"]}
        assert set(facets) == {"shelf", "price"}, "an id tells nothing, and the title of all is no choice"
        assert facets["shelf"]["counted"] == len(shelves)
        assert {value["value"]: value["count"] for value in facets["shelf"]["values"]} == {
            shelf: shelves.count(shelf) for shelf in SHELVES
        }
        narrowed = api.get("/search", params=ALL | {"q": "green", "filter": "shelf:oak"}).json()
        again = {facet["column"]: facet for facet in narrowed["facets"]}
        assert again["shelf"] == facets["shelf"], "another shelf can still be chosen"
        assert sum(value["count"] for value in again["price"]["values"]) == shelves.count("oak")


def test_facets_are_left_out_when_it_gets_late(index, monkeypatch):
    where = {"shelf": ["oak"], "price": ["1..9"], "sku": ["x3", "x6"]}
    hits, searched, search = index.search("green", 60, where=where), [], index.search
    monkeypatch.setattr(index, "search", lambda *given, **more: searched.append(more) or search(*given, **more))
    assert {facet["column"] for facet in facets(index, "green", hits, False, where, lambda: False)} == set(where)
    searched.clear()
    assert facets(index, "green", hits, False, where, lambda: bool(searched)) == []
    assert len(searched) == 1


def test_many_different_numbers_are_ranges(tmp_path):
    docs = [
        (f"d{i}", "green tea", {"price": i / 4, "code": f"{i}", "year": 2000 + i % 3, "cost": (100 + i % 20) / 100})
        for i in range(40)
    ]
    with served(tmp_path / "taught.db", tc.Index.build(docs)) as (api, _):
        found = api.get("/search", params=ALL | {"q": "green"}).json()
        facets = {facet["column"]: facet["values"] for facet in found["facets"]}
        assert set(facets) == {"price", "year", "cost"}, "codes are texts, all of them different"
        assert [value["value"] for value in facets["price"]] == ["..2.25", "2.25..4.75", "4.75..7.25", "7.25.."]
        assert len(facets["year"]) == 3
        assert [value["value"] for value in facets["cost"]] == ["..1.04", "1.04..1.09", "1.09..1.14", "1.14.."]
        for choice in facets["price"]:
            narrowed = api.get(
                "/search",
                params=ALL | {"q": "green", "k": 40, "filter": f"price:{choice['value']}"},
            ).json()
            assert len(narrowed["learned"]) == choice["count"]
            assert choice in {facet["column"]: facet["values"] for facet in narrowed["facets"]}["price"]


def test_what_is_refused(tmp_path, index):
    with served(tmp_path / "taught.db", index) as (api, _):

        def ask(*filters: str):
            return api.get("/search", params=ALL | {"q": "green", "filter": filters})

        refused(ask("colour:red"), 422, "no document has a column 'colour'; stored fields: 'shelf', 'price', 'sku'")
        refused(ask("shelf"), 422, "filter 'shelf' has no colon; expected column:value")
        refused(ask(*["shelf:oak"] * 17), 422, "filter: List should have at most 16 items")
        refused(ask("shelf:" + "x" * 400), 422, "at most 400 characters")


def test_where_nothing_is_carried_there_is_nothing_to_choose(tmp_path):
    with served(tmp_path / "taught.db") as (api, _):
        assert api.get("/search", params=ALL | {"q": "green"}).json()["facets"] == []
        refused(
            api.get("/search", params=ALL | {"q": "green", "filter": "a:b"}),
            422,
            "stored fields: none",
        )


def test_qdrant_says_that_it_cannot():
    engine: Any = SimpleNamespace(name="Qdrant")
    view = EngineView(engine, *[None] * 2)
    assert not view.has_column("shelf")
    with pytest.raises(InputError, match="Qdrant keeps cannot be filtered by stored fields; asked for 'shelf'"):
        view.filter({"shelf": ["oak"]})
