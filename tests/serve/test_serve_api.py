"""The HTTP API: what each path answers, and to whom."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.testclient import TestClient

import tercet as tc
from support.serving import HOSTILE, made_index, refused, running, served
from tercet.search import Index
from tercet.serve import LearningBounds, Limits, messages, read_journal, replay
from tercet.serve.app import create_app
from tercet.serve.generations import Generation
from tercet.serve.guard import LOOPBACK_HOSTS, Access
from tercet.serve.problems import TITLES
from tercet.serve.service import Service
from tercet.weights import Identity, Sparse, Weights

INDEX = made_index()
QUERY = "green avocado"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def api(tmp_path):
    with served(tmp_path / "journal.jsonl", INDEX) as (client, _):
        yield client


def ids(found: Any, system: str = "learned") -> list[str]:
    return [hit["id"] for hit in found.json()[system]]


def checked(response: Any, model: type[BaseModel], status: int = 200) -> Any:
    """The body of an answer that is as the OpenAPI document says."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    model.model_validate(response.json(), strict=False)
    assert set(response.json()) == set(model.model_fields)
    return response.json()


# -- reading --------------------------------------------------------------------------------------------------------


def test_search_gives_both_lists_as_the_index_ranks(api):
    found = checked(api.get("/search", params={"q": QUERY, "k": 7}), messages.SearchAnswer)
    base = INDEX.search(QUERY, 100)
    n = INDEX.model.weights.shape[0]
    words = INDEX.model.query_vectoriser
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
    assert (found["version"], found["exact"], found["partial"], found["baseline_name"]) == ("v0", True, False, "BM25")


def test_unknown_words_and_empty_queries_are_told(api):
    found = checked(api.get("/search", params={"q": "green zebra"}), messages.SearchAnswer)
    assert found["unknown"] == ["zebra"]
    assert found["learned"]
    for query in ("", "zebra", "   "):
        found = checked(api.get("/search", params={"q": query}), messages.SearchAnswer)
        assert found["learned"] == found["baseline"] == []


@pytest.mark.parametrize("system", ["learned", "baseline"])
def test_reasons_sum_to_the_score_shown(api, system):
    api.post("/prefer", json={"query": QUERY, "better": "d5", "worse": "d9"})
    for hit in api.get("/search", params={"q": QUERY}).json()[system]:
        for k in (1, 3, 1000):
            params = {"q": QUERY, "doc": hit["id"], "system": system, "k": k}
            why = checked(api.get("/explain", params=params), messages.Reasons)
            total = math.fsum(pair["contribution"] for pair in why["pairs"]) + why["rest"]["contribution"]
            assert total == pytest.approx(hit["score"], abs=1e-12)
            assert why["score"] == pytest.approx(hit["score"], abs=1e-12)
            assert len(why["pairs"]) <= k
            assert (why["rest"]["count"] == 0) == (why["rest"]["contribution"] == 0)


def test_reasons_for_a_lead_sum_to_the_difference(api):
    first, second = api.get("/search", params={"q": QUERY, "k": 2}).json()["learned"]
    params = {"q": QUERY, "doc": first["id"], "versus": second["id"]}
    why = checked(api.get("/explain", params=params), messages.Reasons)
    assert why["score"] == pytest.approx(first["score"] - second["score"], abs=1e-12)
    total = math.fsum(pair["contribution"] for pair in why["pairs"]) + why["rest"]["contribution"]
    assert total == pytest.approx(why["score"], abs=1e-12)


def test_related_words_are_those_of_the_model(api):
    found = checked(api.get("/related", params={"word": "Avocado", "k": 3}), messages.RelatedWords)
    assert [(each["word"], each["weight"]) for each in found["related"]] == INDEX.model.related("avocado", 3)
    assert (found["word"], found["known_as"]) == ("Avocado", "avocado")
    refused(api.get("/related", params={"word": "zebra"}), 404, "zebra")


def test_documents_are_given_as_they_were_indexed(api):
    found = checked(api.get("/documents/hostile/%C3%A9"), messages.Document)
    assert found["text"] == HOSTILE
    assert api.get("/documents", params={"id": "hostile/é"}).json() == found
    refused(api.get("/documents/nobody"), 404, "nobody")
    refused(api.get("/documents", params={"id": "nobody"}), 404, "nobody")


@pytest.mark.parametrize("doc_id", ["..", ".", "../health", "a/../b", "%2e%2e", "a%2Fb", "?id=d1", "#", "a b+c", "\\"])
def test_documents_have_any_id(tmp_path, doc_id):
    with served(tmp_path / "journal.jsonl", made_index(docs={doc_id: "green avocado"})) as (api, _):
        assert ids(api.get("/search", params={"q": QUERY})) == [doc_id]
        assert checked(api.get("/documents", params={"id": doc_id}), messages.Document)["id"] == doc_id


def test_hostile_text_stays_text(api):
    response = api.get("/search", params={"q": "<script>alert(1)</script> green avocado", "k": 60})
    found = checked(response, messages.SearchAnswer)
    [hit] = [hit for hit in found["learned"] if hit["id"] == "hostile/é"]
    assert hit["title"].startswith("<script>alert('x')</script>")
    assert "<img src=x" in hit["snippet"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert found["query"] == "<script>alert(1)</script> green avocado"


def test_an_index_without_texts_serves_without_them(tmp_path):
    bare = Index.build(made_docs_iter(), INDEX.model, keep_texts=False)
    with served(tmp_path / "journal.jsonl", bare) as (api, _):
        hit = checked(api.get("/search", params={"q": QUERY}), messages.SearchAnswer)["learned"][0]
        assert (hit["title"], hit["snippet"]) == (hit["id"], "")
        refused(api.get(f"/documents/{hit['id']}"), 404, "keeps no texts")


def made_docs_iter() -> dict[str, str]:
    return {doc_id: INDEX.text(doc_id) for doc_id in INDEX}


def test_vocabularies_of_their_own_are_compared_with_the_model_before(tmp_path):
    queries = tc.Vectoriser().fit(["grün avocado"])
    docs = tc.Vectoriser(weighting="bm25").fit(made_docs_iter().values())
    W = [[float(word in ("green", "avocado")) for word in docs.words_]] * len(queries.words_)
    index = Index.build(made_docs_iter(), tc.TextModel(queries, docs, Weights([Sparse(weights=W)])))
    with served(tmp_path / "journal.jsonl", index) as (api, _):
        before = ids(api.get("/search", params={"q": "grün"}))
        api.post("/prefer", json={"query": "grün", "better": before[3], "worse": before[0]})
        found = checked(api.get("/search", params={"q": "grün"}), messages.SearchAnswer)
        assert found["baseline_name"] == "base model"
        assert [hit["id"] for hit in found["baseline"]] == before
        assert [hit["id"] for hit in found["learned"]] != before


# -- learning -------------------------------------------------------------------------------------------------------


def test_a_preference_moves_the_list_and_undo_moves_it_back(api):
    before = ids(api.get("/search", params={"q": QUERY}))
    plain = ids(api.get("/search", params={"q": QUERY}), "baseline")
    given = {"query": QUERY, "better": before[4], "worse": before[0]}
    told = checked(api.post("/prefer", json=given), messages.Taught, 202)
    effect = told.pop("effect")
    assert told == {"entry": 1, "version": "v1", "applied": True}
    after = api.get("/search", params={"q": QUERY})
    assert after.json()["version"] == "v1"
    ranks = [ids(after).index(doc_id) + 1 for doc_id in (before[4], before[0])]
    assert ranks[0] < ranks[1]
    assert effect == {
        "reason": "learned",
        "ahead": True,
        "said": f"It went from rank 5 to rank {ranks[0]}, the other one went from rank 1 to rank {ranks[1]}.",
        "ranks": [
            {"id": before[4], "before": 5, "after": ranks[0]},
            {"id": before[0], "before": 1, "after": ranks[1]},
        ],
    }
    assert ids(after, "baseline") == plain
    told = checked(api.post("/undo", json={}), messages.TakenBack, 202)
    assert (told["withdrawn"], told["version"]) == ([1], "v2")
    assert ids(api.get("/search", params={"q": QUERY})) == before
    refused(api.post("/undo", json={}), 409, "no entry of this client")


def test_clicks_teach_less_than_preferences(api):
    before = ids(api.get("/search", params={"q": QUERY}))
    given = {"query": QUERY, "shown": before[:3], "clicked": [before[2]]}
    effect = checked(api.post("/clicks", json=given), messages.Taught, 202)["effect"]
    assert [change["id"] for change in effect["ranks"]] == [before[2]]
    assert effect["said"].endswith("of 2 documents that were passed over are behind what was clicked now.")
    by_click = api.get("/learned", params={"limit": 1000}).json()
    api.post("/undo", json={})
    for worse in before[:2]:
        api.post("/prefer", json={"query": QUERY, "better": before[2], "worse": worse})
    by_choice = api.get("/learned", params={"limit": 1000}).json()
    size = [sum(abs(pair["weight"]) for pair in each["pairs"]) for each in (by_click, by_choice)]
    assert 0 < size[0] < size[1]


def test_what_cannot_be_learned_is_refused(api):
    def prefer(**given: Any) -> Any:
        return api.post("/prefer", json={"query": QUERY, "better": "d1", "worse": "d2"} | given)

    refused(prefer(better="d2"), 422, "must differ")
    refused(prefer(better="nobody"), 404, "nobody")
    refused(prefer(query="zebra"), 422, "no word")
    refused(prefer(query=""), 422, "query")
    refused(prefer(more=1), 422, "more")
    refused(prefer(worse=7), 422, "worse")
    refused(api.post("/prefer", content=b"{", headers=JSON), 422, "not JSON")
    refused(api.post("/prefer", content=b'{"query": "\\ud800"}', headers=JSON), 422, "unicode")
    clicks = {"query": QUERY, "shown": ["d1", "d2"]}
    refused(api.post("/clicks", json=clicks | {"clicked": ["d3"]}), 422, "was not shown")
    refused(api.post("/clicks", json=clicks | {"shown": ["d1", "d1"], "clicked": ["d1"]}), 422, "twice")
    refused(api.post("/clicks", json=clicks | {"clicked": []}), 422, "clicked")
    assert api.get("/versions").json()["total"] == 0


def test_history_and_what_was_learned_can_be_listed_and_revoked(api):
    best, *others = ids(api.get("/search", params={"q": QUERY}))
    for better, client in zip(others[:3], ({}, {"client": "ann"}, {}), strict=True):
        api.post("/prefer", json={"query": QUERY, "better": better, "worse": best} | client)
    api.post("/clicks", json={"query": QUERY, "shown": [best, others[3]], "clicked": [others[3]], "client": "ann"})
    history = checked(api.get("/versions"), messages.History)
    assert [(each["version"], each["kind"], each["client"]) for each in history["versions"]] == [
        ("v4", "clicks", "10.0.0.1/ann"),
        ("v3", "prefer", "10.0.0.1"),
        ("v2", "prefer", "10.0.0.1/ann"),
        ("v1", "prefer", "10.0.0.1"),
    ]
    assert len(api.get("/versions", params={"limit": 2}).json()["versions"]) == 2
    learned = checked(api.get("/learned"), messages.LearnedOnline)
    behind = {entry for pair in learned["pairs"] for entry in pair["entries"]}
    assert behind
    assert behind <= {1, 2, 3, 4}
    refused(api.post("/undo", json={"entry": 2}), 409, "not an active one of this client")
    refused(api.post("/undo", json={"entry": 99}), 404, "no entry 99")
    refused(api.post("/revoke", json={}), 422, "either")
    refused(api.post("/revoke", json={"entries": [1, 99]}), 404, "no entry 99")
    refused(api.post("/revoke", json={"client": "nobody"}), 409, "none")
    told = checked(api.post("/revoke", json={"client": "10.0.0.1/ann"}), messages.TakenBack, 202)
    assert told["withdrawn"] == [2, 4]
    refused(api.post("/revoke", json={"entries": [2, 4, 5]}), 409, "none")
    told = checked(api.post("/revoke", json={"entries": [3, 1, 2, 3]}), messages.TakenBack, 202)
    assert told["withdrawn"] == [1, 3]
    learned = checked(api.get("/learned"), messages.LearnedOnline)
    assert (learned["pairs"], learned["entries"], learned["total_pairs"]) == ([], [], 0)
    history = checked(api.get("/versions"), messages.History)["versions"]
    assert [each["active"] for each in history] == [True, True, False, False, False, False]


def test_undo_takes_back_several_at_once(api):
    def prefer(better: str, worse: str, **who: str) -> int:
        return api.post("/prefer", json={"query": "green", "better": better, "worse": worse} | who).json()["entry"]

    before = ids(api.get("/search", params={"q": "green"}))
    mine, other = [prefer(before[3], before[2]), prefer(before[3], before[1])], prefer("d1", "d2", client="other")
    refused(
        api.post("/undo", json={"entries": [mine[0], other]}), 409, f"entry {other} is not an active one of this client"
    )
    refused(api.post("/undo", json={"entries": mine, "entry": mine[0]}), 422, "not both")
    taken = api.post("/undo", json={"entries": [*reversed(mine), mine[0]]})
    messages.TakenBack.model_validate(taken.json())
    assert taken.json()["withdrawn"] == mine
    api.post("/undo", json={"client": "other"})
    assert ids(api.get("/search", params={"q": "green"})) == before


def test_undo_takes_back_ones_own_last_entry(api):
    for client in ("ann", "bob", "ann"):
        api.post("/prefer", json={"query": QUERY, "better": "d3", "worse": "d9", "client": client})
    assert api.post("/undo", json={"client": "bob"}).json()["withdrawn"] == [2]
    assert api.post("/undo", json={"client": "ann"}).json()["withdrawn"] == [3]
    assert api.post("/undo", json={"client": "ann", "entry": 1}).json()["withdrawn"] == [1]


def test_true_is_no_number_of_an_entry(api):
    api.post("/prefer", json={"query": QUERY, "better": "d3", "worse": "d9"})
    for path, given in (("/undo", {"entry": True}), ("/revoke", {"entries": [True]}), ("/undo", {"entry": "1"})):
        refused(api.post(path, json=given), 422, "integer")
    assert api.get("/versions").json()["versions"][0]["active"]


def test_a_restart_gives_the_same_bits(tmp_path):
    path = tmp_path / "journal.jsonl"
    with served(path, INDEX) as (api, _):
        for at in range(6):
            api.post("/prefer", json={"query": QUERY, "better": f"d{at + 1}", "worse": f"d{20 + at}"})
        api.post("/undo", json={"entry": 3})
        before = [api.get(path).json() for path in ("/learned", "/versions")]
        found = api.get("/search", params={"q": QUERY}).json()
    with served(path, INDEX) as (api, _):
        assert [api.get(path).json() for path in ("/learned", "/versions")] == before
        again = api.get("/search", params={"q": QUERY}).json()
    assert found | {"took_ms": 0} == again | {"took_ms": 0}
    assert found["version"] == "v7"
    assert before[0]["digest"] == replay(INDEX, read_journal(path).entries).digest


def test_nothing_is_acknowledged_that_is_not_kept(tmp_path, monkeypatch):
    with served(tmp_path / "journal.jsonl", INDEX) as (api, service):
        monkeypatch.setattr(service.journal, "_most_bytes", 100)
        given = {"query": QUERY, "better": "d3", "worse": "d9"}
        refused(api.post("/prefer", json=given), 507, "journal")
        assert api.get("/versions").json()["total"] == 0


def test_a_service_that_cannot_begin_lets_the_journal_go(tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(Generation, "warm_up", broken)
        with pytest.raises(RuntimeError, match="a defect"):
            Service(INDEX, tmp_path / "journal.jsonl")
    Service(INDEX, tmp_path / "journal.jsonl").close()


def test_the_search_that_warms_up_looks_for_a_word(tmp_path, monkeypatch):
    plurals = tc.Analyser(pattern=r"(\w+)s\b")  # no word of the model is known as it is spelled there
    words = tc.Vectoriser(weighting="bm25", analyser=plurals).fit(["greens avocados"])
    index = Index.build({"a": "greens avocados"}, tc.TextModel(words, words, Weights([Identity(n_terms=2)])))
    assert not index.model.queries([words.words_[0]]).nnz
    found = []
    real = Index.search_row
    monkeypatch.setattr(Index, "search_row", lambda *given, **more: found.append(real(*given, **more)) or found[-1])
    Service(index, tmp_path / "journal.jsonl").close()
    assert [hits[0].doc_id for hits in found] == ["a"] * 4


# -- health, errors, the OpenAPI document ---------------------------------------------------------------------------


def test_health_and_metrics(api):
    health = checked(api.get("/health"), messages.Health)
    assert (health["status"], health["version"], health["documents"]) == ("ok", "v0", 60)
    assert (health["refused"], health["build"]) == (None, tc.__version__)
    api.get("/search", params={"q": QUERY})
    api.get("/search", params={"q": QUERY, "k": 0})
    api.get("/no/such/path")
    api.post("/prefer", json={"query": QUERY, "better": "d3", "worse": "d9"})
    response = api.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = response.text.splitlines()
    assert 'tercet_requests_total{method="GET",route="/search",status="200"} 1.0' in lines
    assert 'tercet_requests_total{method="GET",route="/search",status="422"} 1.0' in lines
    assert 'tercet_request_seconds_bucket{le="+Inf",route="/search"} 2.0' in lines
    assert 'tercet_request_seconds_count{route="/search"} 2.0' in lines
    for line in (
        "tercet_version 1.0",
        "tercet_journal_entries 1.0",
        "tercet_queue_length 0.0",
        "tercet_learner_up 1.0",
        "tercet_learner_backlog 0.0",
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
    for line in lines:
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0


def test_a_learner_that_stopped_is_told(tmp_path, monkeypatch):
    given = {"query": QUERY, "better": "d3", "worse": "d9"}

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    with served(tmp_path / "journal.jsonl", INDEX) as (api, service):
        with monkeypatch.context() as patched:
            patched.setattr(service.learner._state, "apply", broken)
            told = checked(api.post("/prefer", json=given), messages.Taught, 202)
        assert told == {"entry": 1, "version": "v0", "applied": False, "effect": None}
        body = refused(api.get("/health"), 503, "the learner stopped")
        assert (body["version"], body["documents"]) == ("v0", 60)
        lines = api.get("/metrics").text.splitlines()
        assert {"tercet_learner_up 0.0", "tercet_learner_backlog 1.0", "tercet_version 0.0"} <= set(lines)
        response = api.post("/prefer", json=given)
        refused(response, 503, "restart")
        assert int(response.headers["retry-after"]) >= 1
        assert api.get("/search", params={"q": QUERY}).status_code == 200
    with served(tmp_path / "journal.jsonl", INDEX) as (api, _):
        assert api.get("/health").json()["version"] == "v1"


def test_clients_see_no_trace_of_a_defect(tmp_path, monkeypatch, caplog):
    with served(tmp_path / "journal.jsonl", INDEX) as (api, service):

        async def broken(*_: object) -> None:
            raise RuntimeError("secret path /home/me")

        monkeypatch.setattr(service, "search", broken)
        response = api.get("/search", params={"q": QUERY})
        refused(response, 500, "log")
        assert "secret" not in response.text
        assert "Traceback" not in response.text
        assert "secret" in caplog.text
        assert response.headers["x-content-type-options"] == "nosniff"


def test_paths_and_methods_that_are_not_there(api):
    refused(api.get("/nothing"), 404, "nothing at this path")
    refused(api.get("/app.py"), 404, "nothing at this path")
    refused(api.get("/..%2fapp.py"), 404, "nothing at this path")
    refused(api.get(f"/{'a' * 300}.html"), 404, "nothing at this path")
    refused(api.get("/a%00.html"), 404, "nothing at this path")
    response = api.post("/search")
    refused(response, 405, "other methods")
    assert response.headers["allow"] == "GET"


def test_the_openapi_document_is_complete(api):
    made = api.get("/openapi.json").json()
    assert set(made["paths"]) == {
        "/search",
        "/explain",
        "/related",
        "/documents",
        "/documents/{doc_id}",
        "/versions",
        "/learned",
        "/collection",
        "/health",
        "/ready",
        "/metrics",
        "/prefer",
        "/clicks",
        "/events",
        "/undo",
        "/revoke",
    }
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], path
            for parameter in operation.get("parameters", ()):
                assert parameter["schema"].get("examples") or parameter.get("examples"), (path, parameter["name"])
                assert parameter.get("description") or parameter["schema"].get("description"), path
            if method == "post":
                body = operation["requestBody"]["content"]["application/json"]
                name = body["schema"]["$ref"].rpartition("/")[2]
                getattr(messages, name).model_validate(body["example"])
            assert {"422", "500", "503"} <= set(operation["responses"])
            for status, answer in operation["responses"].items():
                [media] = answer["content"].values()
                assert media["example"], (path, status)
                if "$ref" in media["schema"]:
                    name = media["schema"]["$ref"].rpartition("/")[2]
                    assert name in made["components"]["schemas"]
                    getattr(messages, name).model_validate(media["example"])
                if status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"]
                    assert (media["example"]["status"], media["example"]["title"]) == (int(status), TITLES[int(status)])
    references = json.dumps(made).split('"$ref": "#/components/schemas/')[1:]
    assert {text.partition('"')[0] for text in references} <= set(made["components"]["schemas"])


# -- the page and safety --------------------------------------------------------------------------------------------


def test_the_page_comes_with_a_strict_policy(api):
    for path in ("/", "/index.html"):
        response = api.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/html")
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert response.headers["x-frame-options"] == "DENY"


def test_tokens_read_and_write(tmp_path):
    access = Access("read-secret", "write-secret")
    with served(tmp_path / "journal.jsonl", INDEX, access=access) as (api, _):

        def status(method: str, path: str, token: str | None, **given: Any) -> int:
            headers = {} if token is None else {"Authorization": token}
            return api.request(method, path, headers=headers, **given).status_code

        search = ("GET", f"/search?q={QUERY}")
        for token, expected in (
            (None, 401),
            ("Bearer wrong", 401),
            ("Basic read-secret", 401),
            ("Bearer ", 401),
            ("Bearer é", 401),
            ("Bearer read-secret", 200),
            ("bearer  read-secret ", 200),
            ("Bearer write-secret", 200),
        ):
            sent = None if token is None else token.encode("latin-1")
            assert status(*search, sent) == expected, token
        given = {"json": {"query": QUERY, "better": "d3", "worse": "d9"}}
        assert status("POST", "/prefer", None, **given) == 401
        assert status("POST", "/prefer", "Bearer read-secret", **given) == 403
        assert status("POST", "/prefer", "Bearer write-secret", **given) == 202
        for path in ("/metrics", "/learned", "/versions", "/documents/d1"):
            assert status("GET", path, None) == 401
        for path in ("/health", "/openapi.json", "/"):
            assert status("GET", path, None) == 200
        assert api.get(search[1]).headers["www-authenticate"].startswith("Bearer")


def test_who_is_a_teacher(tmp_path):
    here, named, token = ("127.0.0.1", {}), ("127.0.0.1", {"client": "ann"}), {"Authorization": "Bearer w"}
    with served(tmp_path / "journal.jsonl", INDEX) as (api, service):
        signed_in = TestClient(create_app(service, Access("r", "w")), "http://127.0.0.1:8080", headers=token)
        for (address, more), app, headers, trust in (
            (here, api.app, {}, "teacher"),
            (("::1", {}), api.app, {}, "teacher"),
            (("10.0.0.1", {}), api.app, {}, "visitor"),
            (named, api.app, {}, "visitor"),
            (here, api.app, {"X-Forwarded-For": "10.0.0.9"}, "visitor"),
            (here, api.app, {"Forwarded": "for=10.0.0.9"}, "visitor"),
            (here, signed_in.app, token, "teacher"),
            (("10.0.0.1", {}), signed_in.app, token, "teacher"),
            (named, signed_in.app, token, "vouched"),
        ):
            asking = TestClient(app, "http://127.0.0.1:8080", client=(address, 5000))
            given = {"query": QUERY, "better": "d3", "worse": "d9"} | more
            assert asking.post("/prefer", json=given, headers=headers).status_code == 202
            latest = asking.get("/versions", headers=headers).json()["versions"][0]
            assert (latest["trust"], latest["kind"]) == (trust, "prefer"), (address, more, headers)
        by_name = Access(hosts=(*LOOPBACK_HOSTS, "search.example"))
        assert by_name.trust("127.0.0.1", Headers({"host": "search.example"})) == "visitor"


def test_an_allowance_that_is_spent_is_told_and_comes_back(tmp_path):
    """A visitor teaches until nothing moves; then it is said, and when a model is made of it, it moves again."""
    query, hits = "green avocado oil", [hit.doc_id for hit in INDEX.search("green avocado oil", 30)]
    service = Service(INDEX, tmp_path / "journal.jsonl", Limits(write_burst=1000), LearningBounds(client=1.0))
    try:
        with TestClient(create_app(service), "http://127.0.0.1:8080", client=("10.0.0.1", 5000)) as api:

            def effect(rank: int, asked: str = query, shown: Sequence[str] = tuple(hits)) -> Any:
                given = {"query": asked, "better": shown[rank], "worse": shown[0]}
                return api.post("/prefer", json=given).json()["effect"]

            told = [effect(rank) for rank in range(1, 20)]
            spent = [each for each in told if each["reason"] == "allowance"]
            assert told[0]["reason"] == "learned"
            assert spent[-1] == told[-1]
            assert not told[-1]["ahead"]
            assert told[-1]["said"].endswith("is spent. It is whole again in 24 hours; say it again then.")
            renewed = api.portal.call(service.renew, "bake") if api.portal else None
            assert renewed["applied"]
            assert effect(1, "blue sky", [hit.doc_id for hit in INDEX.search("blue sky", 2)])["reason"] == "learned"
            latest = checked(api.get("/versions", params={"limit": 2}), messages.History)["versions"]
            assert (latest[1]["kind"], latest[1]["reason"], latest[1]["active"]) == ("renew", "bake", True)
            refused(api.post("/undo", json={"entry": 20}), 409, "not an active one")
            assert 20 not in [each["entry"] for each in api.get("/learned").json()["entries"]]
    finally:
        service.close()


def test_pages_of_other_sites_are_kept_out(api):
    refused(api.get("/health", headers={"Host": "rebound.example"}), 421, "rebound.example")
    for broken in ("", "[::1", "127.0.0.1@evil.example", "127.0.0.1.evil.example"):
        refused(api.get("/health", headers={"Host": broken}), 421, "host")
    assert api.get("/health", headers={"Host": "localhost:1"}).status_code == 200
    assert api.get("/health", headers={"Host": "[::1]:1"}).status_code == 200
    refused(api.post("/undo", json={}, headers={"Origin": "http://evil.example"}), 403, "another site")
    for origin in ("null", "http://[", "http://127.0.0.1:8081", "http://127.0.0.1:8080@evil.example"):
        refused(api.post("/undo", json={}, headers={"Origin": origin}), 403, "another site")
    refused(api.post("/undo", json={}, headers={"Origin": "http://127.0.0.1:8080"}), 409, "no entry")


@pytest.mark.slow
def test_a_real_service_answers_over_a_connection(tmp_path):
    made_index(tmp_path / "index")
    with running(tmp_path / "index", TERCET_READ_TOKEN="r1", TERCET_WRITE_TOKEN="w1") as service:
        assert service.address.startswith("http://127.0.0.1:")
        assert service.ask("/health").json()["status"] == "ok"
        assert service.ask("/versions").status == 401
        given = {"query": QUERY, "better": "d3", "worse": "d9"}
        assert service.ask("/prefer", given, {"Authorization": "Bearer w1"}).status == 202
        assert service.ask("/versions", headers={"Authorization": "Bearer r1"}).json()["total"] == 1
        service.process.terminate()
        _, err = service.process.communicate(timeout=20)
        assert service.process.returncode == 0, err
        assert "60 documents" in err
    assert len(read_journal(tmp_path / "index.journal" / "journal.jsonl").entries) == 1


# -- whatever is sent -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_request_makes_the_service_fail(tmp_path):
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.strategies import one_of
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    service = Service(INDEX, tmp_path / "journal.jsonl", Limits(writes_per_minute=1e9, write_burst=10**9))
    try:
        app = create_app(service, Access(hosts=None))
        described = schemathesis.openapi.from_asgi("/openapi.json", app)
        n_operations = 0
        for found in described.get_all_operations():
            operation = found.ok()
            n_operations += 1

            @settings(
                max_examples=25,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=one_of(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))
            def answered(case: Any) -> None:
                response = case.call()
                # 503 and 507 are promised where there is too much to do; here there is not.
                assert response.status_code < 500
                case.validate_response(response, excluded_checks=[positive_data_acceptance])

            answered()
        assert n_operations == 19
    finally:
        service.close()
