"""The HTTP API: what each path answers, and to whom."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.serving import HOSTILE, checked, made_index, refused, served
from tercet.memory import Memory, MemorySettings
from tercet.search import Index
from tercet.serve import messages
from tercet.serve.served import Served
from tercet.serve.service import Service
from tercet.weights import Identity, Sparse, Weights

INDEX = made_index()
QUERY = "green avocado"


@pytest.fixture
def api(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (client, _):
        yield client


def ids(found: Any, system: str = "learned") -> list[str]:
    return [hit["id"] for hit in found.json()[system]]


# -- reading --------------------------------------------------------------------------------------------------------


def test_search_gives_both_lists_as_the_index_ranks(api):
    found = checked(api.get("/search", params={"q": QUERY, "k": 7, "compare": True}), messages.SearchAnswer)
    base = INDEX.search(QUERY, 100)
    n = INDEX.model.weights.shape[0]
    words = INDEX.model.query_vectorizer
    plain = INDEX.with_model(tc.TextModel(words, words, Weights([Identity(n_terms=n)]))).search(QUERY, 100)
    assert [(hit["id"], hit["score"]) for hit in found["learned"]] == [(hit.doc_id, hit.score) for hit in base[:7]]
    assert [(hit["id"], hit["score"]) for hit in found["baseline"]] == [(hit.doc_id, hit.score) for hit in plain[:7]]
    assert [hit["rank"] for hit in found["learned"]] == list(range(1, 8))
    plain_ranks = {hit.doc_id: rank for rank, hit in enumerate(plain, 1)}
    base_ranks = {hit.doc_id: rank for rank, hit in enumerate(base, 1)}
    for hit in found["learned"]:
        assert hit["baseline_rank"] == plain_ranks.get(hit["id"])
        assert hit["moved"] == (None if hit["baseline_rank"] is None else hit["baseline_rank"] - hit["rank"])
    for hit in found["baseline"]:
        assert hit["learned_rank"] == base_ranks.get(hit["id"])
    assert any(hit["moved"] for hit in found["learned"])
    assert (found["version"], found["exact"], found["baseline_name"]) == ("v0", True, "BM25")


def test_unknown_words_and_empty_queries_are_told(api):
    found = checked(api.get("/search", params={"q": "green zebra"}), messages.SearchAnswer)
    assert found["unknown"] == ["zebra"]
    assert found["learned"]
    for query in ("", "zebra", "   "):
        found = checked(api.get("/search", params={"q": query}), messages.SearchAnswer)
        assert found["learned"] == found["baseline"] == []


@pytest.mark.slow
@pytest.mark.parametrize("system", ["learned", "baseline"])
def test_reasons_sum_to_the_score_shown(api, system):
    api.post("/prefer", json={"query": QUERY, "better": "d5", "worse": "d9"})
    for hit in api.get("/search", params={"q": QUERY, "compare": True}).json()[system]:
        for k in (1, 3, 1000):
            params = {"q": QUERY, "doc": hit["id"], "system": system, "k": k}
            why = checked(api.get("/explain", params=params), messages.Reasons)
            total = math.fsum(pair["contribution"] for pair in why["pairs"]) + why["rest"]["contribution"]
            assert total == pytest.approx(hit["score"], abs=1e-12)
            assert why["score"] == pytest.approx(hit["score"], abs=1e-12)
            assert len(why["pairs"]) <= k
            assert (why["rest"]["count"] == 0) == (why["rest"]["contribution"] == 0)


def test_the_baseline_and_facets_are_there_only_when_asked_for(api):
    found = checked(api.get("/search", params={"q": QUERY}), messages.SearchAnswer)
    assert (found["compared"], found["baseline"], found["facets"]) == (False, [], [])
    both = checked(api.get("/search", params={"q": QUERY, "compare": True}), messages.SearchAnswer)
    assert [hit["id"] for hit in both["learned"]] == [hit["id"] for hit in found["learned"]]
    assert both["baseline"]


def test_documents_of_another_engine_are_ranked_with_reasons(api):
    ids = [hit.doc_id for hit in INDEX.search(QUERY, 9)]
    given = {"query": QUERY, "ids": [*ids[::-1], "nobody", ids[3]], "reasons": 2}
    output = checked(api.post("/rank", json=given), messages.Ranked)
    asked = list(reversed(ids))
    expected = sorted(asked, key=lambda doc_id: -INDEX.explain(QUERY, doc_id).score)
    assert [one["id"] for one in output["ranked"]] == expected
    assert [one["rank"] for one in output["ranked"]] == list(range(1, 10))
    assert output["missing"] == ["nobody"]
    for one in output["ranked"]:
        assert one["score"] == pytest.approx(INDEX.explain(QUERY, one["id"]).score, abs=1e-6)
        assert len(one["reasons"]) == 2
        assert re.fullmatch(r".+ [+-]\d\.\d\d", one["reasons"][0])
    plain = api.post("/rank", json=given | {"reasons": 0}).json()
    assert [one["id"] for one in plain["ranked"]] == expected
    assert all(one["reasons"] == [] for one in plain["ranked"])
    refused(api.post("/rank", json={"query": QUERY, "ids": []}), 422, "ids")
    assert api.post("/rank", json={"query": "zebra", "ids": ids[:2]}).json()["ranked"][0]["score"] == 0.0


def test_past_queries_are_reasons(tmp_path):
    docs = {"a": "green tea", "b": "black tea", "c": "tea pot"}
    plain = tc.TextModel.bm25(docs.values())
    Q = plain.queries(["tea"])
    rows, evidence = sparse.csr_array(Q / np.sqrt(Q.multiply(Q).sum())), sparse.csr_array(np.array([[3.0]]))
    times = np.array([14], np.int32)
    model = replace(plain, memory=Memory(("tea",), rows, evidence, ("a",), MemorySettings(), times))
    with served(tmp_path / "taught.db", Index.build(docs, model)) as (api, _):
        why = checked(api.get("/explain", params={"q": "tea", "doc": "a"}), messages.Reasons)
        [past] = why["past"]
        assert (past["query"], past["similarity"], past["times"]) == ("tea", pytest.approx(1.0), 14)
        total = math.fsum(one["contribution"] for one in [*why["past"], *why["pairs"]]) + why["rest"]["contribution"]
        assert total == pytest.approx(why["score"], abs=1e-9)
        [first, *_] = api.post("/rank", json={"query": "tea", "ids": ["b", "a"]}).json()["ranked"]
        assert first["reasons"][0].startswith('asked before: "tea" (similarity 1.00), chosen 14 times +')


def test_shown_fields_are_prices_or_those_that_are_named(tmp_path):
    record = {"price": 2.5, "Unit Price": 1, "stock": 9, "shelf": "<b>B7</b>", "note": "x" * 900}
    index = Index.build([{"id": "a", "text": "green tea", **record}])
    for names, expected in ((None, {"price": 2.5, "Unit Price": 1}), (["shelf", "none"], {"shelf": "B7"})):
        with served(tmp_path / f"{names}.db", index, shown_fields=names) as (api, _):
            [hit] = api.get("/search", params={"q": "tea"}).json()["learned"]
            assert hit["stored_fields"] == expected
            assert api.get("/documents?id=a").json()["stored_fields"] == record


def test_reasons_for_a_lead_sum_to_the_difference(api):
    first, second = api.get("/search", params={"q": QUERY, "k": 2}).json()["learned"]
    params = {"q": QUERY, "doc": first["id"], "versus": second["id"]}
    why = checked(api.get("/explain", params=params), messages.Reasons)
    assert why["score"] == pytest.approx(first["score"] - second["score"], abs=1e-12)
    total = math.fsum(pair["contribution"] for pair in why["pairs"]) + why["rest"]["contribution"]
    assert total == pytest.approx(why["score"], abs=1e-12)


def test_documents_are_given_as_they_were_indexed(api):
    found = checked(api.get("/documents?id=hostile/%C3%A9"), messages.Document)
    assert found["text"] == HOSTILE
    assert api.get("/documents", params={"id": "hostile/é"}).json() == found
    refused(api.get("/documents?id=nobody"), 404, "nobody")
    refused(api.get("/documents", params={"id": "nobody"}), 404, "nobody")


@pytest.mark.slow
@pytest.mark.parametrize("doc_id", ["..", ".", "../health", "a/../b", "%2e%2e", "a%2Fb", "?id=d1", "#", "a b+c", "\\"])
def test_documents_have_any_id(tmp_path, doc_id):
    with served(tmp_path / "taught.db", made_index(docs={doc_id: "green avocado"})) as (api, _):
        assert ids(api.get("/search", params={"q": QUERY})) == [doc_id]
        # Quoted here, since httpx 0.26 takes "%2e" among its params for something quoted.
        assert checked(api.get(f"/documents?{urlencode({'id': doc_id})}"), messages.Document)["id"] == doc_id


def test_hostile_text_stays_text(api):
    response = api.get("/search", params={"q": "<script>alert(1)</script> green avocado", "k": 60})
    found = checked(response, messages.SearchAnswer)
    [hit] = [hit for hit in found["learned"] if hit["id"] == "hostile/é"]
    assert hit["title"] == "avocado"
    assert hit["snippet"].startswith('& "quotes"')
    assert response.headers["x-content-type-options"] == "nosniff"
    assert found["query"] == "<script>alert(1)</script> green avocado"


def test_an_index_without_texts_serves_without_them(tmp_path):
    bare = Index.build(made_docs_iter(), INDEX.model, keep_texts=False)
    with served(tmp_path / "taught.db", bare) as (api, _):
        hit = checked(api.get("/search", params={"q": QUERY}), messages.SearchAnswer)["learned"][0]
        assert (hit["title"], hit["snippet"]) == (hit["id"], "")
        refused(api.get(f"/documents?id={hit['id']}"), 404, "keeps no texts")


def made_docs_iter() -> dict[str, str]:
    return {doc_id: INDEX.text(doc_id) for doc_id in INDEX}


@pytest.mark.slow
def test_vocabularies_of_their_own_are_compared_with_the_model_before(tmp_path):
    queries = tc.Vectorizer().fit(["grün avocado"])
    docs = tc.Vectorizer(weighting="bm25").fit(made_docs_iter().values())
    W = [[float(word in ("green", "avocado")) for word in docs.words_]] * len(queries.words_)
    index = Index.build(made_docs_iter(), tc.TextModel(queries, docs, Weights([Sparse(weights=W)])))
    with served(tmp_path / "taught.db", index) as (api, _):
        before = ids(api.get("/search", params={"q": "grün"}))
        api.post("/prefer", json={"query": "grün", "better": before[3], "worse": before[0]})
        found = checked(api.get("/search", params={"q": "grün", "compare": True}), messages.SearchAnswer)
        assert found["baseline_name"] == "base model"
        assert [hit["id"] for hit in found["baseline"]] == before
        assert [hit["id"] for hit in found["learned"]] != before


def test_a_service_that_cannot_begin_lets_the_store_go(tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(Served, "_warm_up", broken)
        with pytest.raises(RuntimeError, match="a defect"):
            Service(INDEX, tmp_path / "taught.db")
    Service(INDEX, tmp_path / "taught.db").close()


def test_the_search_that_warms_up_looks_for_a_word(tmp_path, monkeypatch):
    plurals = tc.Analyzer(pattern=r"(\w+)s\b")  # no word of the model is known as it is spelled there
    words = tc.Vectorizer(weighting="bm25", analyzer=plurals).fit(["greens avocados"])
    index = Index.build({"a": "greens avocados"}, tc.TextModel(words, words, Weights([Identity(n_terms=2)])))
    assert not index.model.queries([words.words_[0]]).nnz
    found = []
    real = Index.search_row
    monkeypatch.setattr(Index, "search_row", lambda *given, **more: found.append(real(*given, **more)) or found[-1])
    Service(index, tmp_path / "taught.db").close()
    assert [hits[0].doc_id for hits in found] == ["a"] * 2
