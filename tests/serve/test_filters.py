"""Filters over HTTP: the best documents that have a value, and refused filters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tercet as tc
from support.serving import made_docs, made_index, refused, served
from tercet.engines.engine_view import EngineView
from tercet.errors import InputError
from tercet.serve import messages

SHELVES = ("oak", "pine", "oak: old")


@pytest.fixture(scope="module")
def index() -> tc.Index:
    docs = [
        (name, text, {"shelf": SHELVES[i % 3], "price": i % 10}) for i, (name, text) in enumerate(made_docs().items())
    ]
    return tc.Index.build(docs, made_index().model)


def ids(found: dict[str, Any], system: str = "learned") -> list[str]:
    return [hit["id"] for hit in found[system]]


def test_both_lists_are_the_best_of_those_that_match(tmp_path, index):
    stored_fields = {doc_id: index.stored_fields(doc_id) for doc_id in index}
    with served(tmp_path / "taught.db", index) as (api, _):
        asked = {"compare": True, "q": "green avocado"}
        whole = api.get("/search", params=asked | {"k": 60}).json()
        found = api.get("/search", params=asked | {"k": 3, "filter": "shelf:oak"}).json()
        messages.SearchAnswer.model_validate(found)
        assert found["where"] == {"shelf": ["oak"]}
        for system in ("learned", "baseline"):
            assert ids(found, system) == [id for id in ids(whole, system) if stored_fields[id]["shelf"] == "oak"][:3]
        assert ids(found) != ids(whole)[:3]
        both = {"q": "green avocado", "k": 60, "filter": ["shelf:oak", "shelf:oak: old", "price:2..4"]}
        for doc_id in ids(api.get("/search", params=both).json()):
            assert stored_fields[doc_id]["shelf"] != "pine"
            assert 2 <= stored_fields[doc_id]["price"] <= 4
        assert ids(api.get("/search", params=asked | {"filter": "shelf:ash"}).json()) == []


def test_refused_filters(tmp_path, index):
    with served(tmp_path / "taught.db", index) as (api, _):

        def ask(*filters: str):
            return api.get("/search", params={"q": "green", "filter": filters})

        refused(ask("color:red"), 422, "no document has a column 'color'; stored fields: 'shelf', 'price'")
        refused(ask("shelf"), 422, "filter 'shelf' has no colon; expected column:value")
        refused(ask(*["shelf:oak"] * 17), 422, "filter: List should have at most 16 items")
        refused(ask("shelf:" + "x" * 400), 422, "at most 400 characters")
    with served(tmp_path / "other.db") as (api, _):
        refused(api.get("/search", params={"q": "green", "filter": "a:b"}), 422, "stored fields: none")


def test_qdrant_refuses_filters():
    engine: Any = SimpleNamespace(name="Qdrant")
    view = EngineView(engine, *[None] * 5)
    assert not view.has_column("shelf")
    with pytest.raises(InputError, match="Qdrant keeps cannot be filtered by stored fields; asked for 'shelf'"):
        view.filter({"shelf": ["oak"]})
