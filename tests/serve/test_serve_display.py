"""The service's answers: stored fields and titles, one list or two, where they end, what is searched."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import BaseModel
from scipy import sparse

import tercet as tc
from support.serving import made_docs, made_index, refused, served
from tercet.data.documents import as_documents
from tercet.serve import messages
from tercet.weights import Identity, LowRank, Sparse, Weights


def checked(response, model: type[BaseModel]):
    """The body of an answer that has the members of its message."""
    assert response.status_code == 200, response.text
    model.model_validate(response.json())
    return response.json()


def index_with_fields(path=None):
    rows = [
        {
            "sku": f"p{i}",
            "description": f"{color} tea of the hills",
            "title": f"{color.title()} tea",
            "price": i + 0.5,
        }
        for i, color in enumerate(("green", "black", "white"))
    ]
    docs = as_documents(rows, text="description")  # so that the title is a stored field
    return tc.Index.build(docs, path=path)


def test_what_documents_carry_is_given_and_a_title_column_is_the_title(tmp_path):
    with served(tmp_path / "taught.db", index_with_fields()) as (api, _):
        [first, *_] = checked(api.get("/search", params={"q": "white tea"}), messages.SearchAnswer)["learned"]
        assert (first["id"], first["title"]) == ("p2", "White tea")
        assert first["stored_fields"] == {"price": 2.5}
        found = checked(api.get("/documents?id=p2"), messages.Document)
        assert (found["title"], found["stored_fields"]) == ("White tea", {"title": "White tea", "price": 2.5})


def test_long_values_are_cut_in_lists_and_whole_in_documents(tmp_path):
    stored_fields = {f"c{i}": "x" * 500 for i in range(40)}
    index = tc.Index.build([("a", "green tea", stored_fields)])
    with served(tmp_path / "taught.db", index, shown_fields=["c7", "c3"]) as (api, _):
        [hit] = api.get("/search", params={"compare": True, "q": "tea"}).json()["learned"]
        assert list(hit["stored_fields"]) == ["c7", "c3"]
        assert {len(value) for value in hit["stored_fields"].values()} == {200}
        assert api.get("/documents?id=a").json()["stored_fields"] == stored_fields


def test_a_bm25_index_has_one_list_until_it_is_taught(tmp_path):
    with served(tmp_path / "taught.db", index_with_fields()) as (api, _):
        plain = checked(api.get("/search", params={"compare": True, "q": "tea"}), messages.SearchAnswer)
        assert (plain["compared"], plain["baseline"]) == (False, [])
        first, second = (hit["id"] for hit in plain["learned"][:2])
        assert api.post("/prefer", json={"query": "tea", "better": second, "worse": first}).status_code == 202
        taught = checked(api.get("/search", params={"compare": True, "q": "tea"}), messages.SearchAnswer)
        assert taught["compared"]
        assert [hit["id"] for hit in taught["baseline"]] == [hit["id"] for hit in plain["learned"]]
        assert taught["learned"][0]["id"] == second
        api.post("/undo", json={})
        assert not api.get("/search", params={"compare": True, "q": "tea"}).json()["compared"]


def test_both_lists_are_on_one_scale(tmp_path):
    words = tc.Vectorizer(weighting="bm25").fit(made_docs().values())
    n = len(words.words_)
    pair = sparse.csr_array(
        (np.ones(1, np.float32), ([words.index_["avocado"]], [words.index_["toast"]])), shape=(n, n)
    )
    model = tc.TextModel(words, words, Weights([Identity(n_terms=n, scale=15.0), Sparse(weights=pair)]))
    with served(tmp_path / "taught.db", tc.Index.build(made_docs(), model)) as (api, _):
        found = api.get("/search", params={"compare": True, "q": "avocado sky", "k": 60}).json()
        plain = {hit["id"]: hit["score"] for hit in found["baseline"]}
        differences = [hit["score"] - plain[hit["id"]] for hit in found["learned"] if hit["id"] in plain]
        assert min(differences) == pytest.approx(0, abs=1e-9)  # the rest is what was learned
        assert 0 < max(differences) < 1.5
        why = api.get("/explain", params={"q": "avocado", "doc": "d1", "system": "baseline"}).json()
        bm25 = words.transform_queries(["avocado"]) @ words.transform_docs([made_docs()["d1"]]).T
        assert why["score"] == pytest.approx(15 * bm25.toarray()[0, 0], rel=1e-5)


def test_learned_lists_end_at_the_last_match(tmp_path):
    words = tc.Vectorizer(weighting="bm25").fit(made_docs().values())
    n = len(words.words_)
    faint = np.full((n, 1), 0.05, dtype=np.float32)
    parts = [Identity(n_terms=n), LowRank(query_factors=faint, doc_factors=faint)]
    index = tc.Index.build(made_docs(), tc.TextModel(words, words, Weights(parts)))
    with served(tmp_path / "taught.db", index) as (api, _):
        cut = checked(api.get("/search", params={"q": "lutein", "k": 50, "compare": True}), messages.SearchAnswer)
        whole = api.get("/search", params={"q": "lutein", "k": 50, "all": True}).json()
        assert len(cut["learned"]) == len(cut["baseline"]) < len(whole["learned"]) == 50
        assert cut["left_off"] == 50 - len(cut["learned"])
        assert whole["left_off"] == 0


def test_stop_words_are_told(tmp_path):
    index = tc.Index.build({"a": "tea of the hills"}, analyzer=tc.Analyzer(stop_words="english"))
    with served(tmp_path / "taught.db", index) as (api, _):
        found = api.get("/search", params={"q": "the The of zebra"}).json()
        assert (found["learned"], found["stop_words"], found["unknown"]) == ([], ["the", "of"], ["zebra"])


@pytest.mark.slow
def test_what_is_searched_and_how_to_begin(tmp_path):
    with served(tmp_path / "taught.db", made_index()) as (api, service):
        service.name = "teas"
        about = checked(api.get("/collection"), messages.Collection)
        assert (about["name"], about["documents"], about["baseline_name"]) == ("teas", 60, "BM25")
        assert about["examples"] == [], "nobody has told what learning helped"
    with served(tmp_path / "plain.jsonl", made_index()) as (api, service):
        service.name = "index"  # which says nothing
        assert api.get("/collection").json()["name"] == ""


def test_a_body_that_is_not_sent_as_json(tmp_path):
    body = b'{"query": "green", "better": "d1", "worse": "d2"}'
    with served(tmp_path / "taught.db", made_index()) as (api, _):
        for sent_as in (None, "text/plain", "application/x-www-form-urlencoded"):
            headers = {} if sent_as is None else {"Content-Type": sent_as}
            answer = api.post("/prefer", content=body, headers=headers)
            refused(answer, 415, "send it as application/json")
            assert "b'" not in answer.text
        long = api.get("/search", params={"q": "x" * 1500})
        refused(long, 422, "q: String should have at most 1000 characters; found 1500")
