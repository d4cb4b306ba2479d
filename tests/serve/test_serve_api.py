"""The HTTP API: what each path answers, and to whom."""

from __future__ import annotations

import errno
import math
import threading
from typing import Any
from urllib.parse import urlencode

import pytest

import tercet as tc
from support.serving import HOSTILE, checked, made_index, refused, served
from tercet.search import Index
from tercet.serve import Limits, journal_chain, messages, read_journal, replay
from tercet.serve.reloading import Generation
from tercet.serve.journal import parsed_line
from tercet.serve.service import Service
from tercet.weights import Identity, Sparse, Weights

INDEX = made_index()
QUERY = "green avocado"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def api(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (client, _):
        yield client


def ids(found: Any, system: str = "learned") -> list[str]:
    return [hit["id"] for hit in found.json()[system]]


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


@pytest.mark.slow
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
        refused(api.get(f"/documents/{hit['id']}"), 404, "keeps no texts")


def made_docs_iter() -> dict[str, str]:
    return {doc_id: INDEX.text(doc_id) for doc_id in INDEX}


@pytest.mark.slow
def test_vocabularies_of_their_own_are_compared_with_the_model_before(tmp_path):
    queries = tc.Vectoriser().fit(["grün avocado"])
    docs = tc.Vectoriser(weighting="bm25").fit(made_docs_iter().values())
    W = [[float(word in ("green", "avocado")) for word in docs.words_]] * len(queries.words_)
    index = Index.build(made_docs_iter(), tc.TextModel(queries, docs, Weights([Sparse(weights=W)])))
    with served(tmp_path / "taught.db", index) as (api, _):
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
    output = checked(api.post("/prefer", json=given), messages.Taught, 202)
    effect = output.pop("effect")
    assert output.pop("receipt").startswith("1.")
    assert output == {"entry": 1, "version": "v1", "applied": True, "ready_in": 0.0, "exact_in": 0.0}
    after = api.get("/search", params={"q": QUERY})
    assert after.json()["version"] == "v1"
    ranks = [ids(after).index(doc_id) + 1 for doc_id in (before[4], before[0])]
    assert ranks[0] < ranks[1]
    assert effect == {
        "reason": "learned",
        "ahead": True,
        "interleaved": False,
        "said": f"It went from rank 5 to rank {ranks[0]}, the other one went from rank 1 to rank {ranks[1]}.",
        "ranks": [
            {"id": before[4], "before": 5, "after": ranks[0]},
            {"id": before[0], "before": 1, "after": ranks[1]},
        ],
    }
    assert ids(after, "baseline") == plain
    output = checked(api.post("/undo", json={}), messages.TakenBack, 202)
    assert (output["withdrawn"], output["version"]) == ([1], "v2")
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
    output = checked(api.post("/revoke", json={"client": "10.0.0.1/ann"}), messages.TakenBack, 202)
    assert output["withdrawn"] == [2, 4]
    refused(api.post("/revoke", json={"entries": [2, 4, 5]}), 409, "none")
    output = checked(api.post("/revoke", json={"entries": [3, 1, 2, 3]}), messages.TakenBack, 202)
    assert output["withdrawn"] == [1, 3]
    learned = checked(api.get("/learned"), messages.LearnedOnline)
    assert (learned["pairs"], learned["entries"], learned["total_pairs"]) == ([], [], 0)
    history = checked(api.get("/versions"), messages.History)["versions"]
    assert [each["active"] for each in history] == [True, True, False, False, False, False]


def test_undo_takes_back_several_at_once(api):
    def prefer(better: str, worse: str, **who: str) -> dict[str, Any]:
        return api.post("/prefer", json={"query": "green", "better": better, "worse": worse} | who).json()

    before = ids(api.get("/search", params={"q": "green"}))
    mine = [prefer(before[3], before[at])["entry"] for at in (2, 1)]
    others = prefer("d1", "d2", client="other")
    other = others["entry"]
    refused(
        api.post("/undo", json={"entries": [mine[0], other]}), 409, f"entry {other} is not an active one of this client"
    )
    refused(api.post("/undo", json={"entries": mine, "entry": mine[0]}), 422, "not several")
    taken = api.post("/undo", json={"entries": [*reversed(mine), mine[0]]})
    messages.TakenBack.model_validate(taken.json())
    assert taken.json()["withdrawn"] == mine
    assert api.post("/undo", json={"receipts": [others["receipt"]]}).json()["withdrawn"] == [other]
    assert ids(api.get("/search", params={"q": "green"})) == before


def test_undo_takes_back_ones_own_last_entry(api):
    for client in (None, "bob", None):
        api.post("/prefer", json={"query": QUERY, "better": "d3", "worse": "d9", "client": client})
    assert api.post("/undo", json={}).json()["withdrawn"] == [3]
    assert api.post("/undo", json={"entry": 1}).json()["withdrawn"] == [1]
    refused(api.post("/undo", json={}), 409, "no entry of this client")


def test_what_was_taught_for_a_client_is_taken_back_by_receipts_alone(api):
    given = {"query": QUERY, "better": "d3", "worse": "d9", "client": "ann"}
    receipts = [api.post("/prefer", json=given).json()["receipt"] for _ in range(3)]
    refused(api.post("/undo", json={"client": "ann"}), 422, "client")
    refused(api.post("/undo", json={"client": "ann", "entry": 1}), 422, "client")
    refused(api.post("/undo", json={"entry": 1}), 409, "not an active one of this client")
    swapped = "2." + receipts[0].partition(".")[2]
    for wrong in (swapped, "1.", "x", f"{receipts[0]}x", "1.é"):
        assert api.post("/undo", json={"receipts": [wrong]}).status_code in (409, 422), wrong
    refused(api.post("/undo", json={"receipts": [receipts[0], swapped]}), 409, "not the receipt of entry 2")
    refused(api.post("/undo", json={"receipts": [f"99{receipts[0]}"]}), 404, "no entry 991")
    assert api.post("/undo", json={"receipts": receipts[:2]}).json()["withdrawn"] == [1, 2]
    refused(api.post("/undo", json={"receipts": receipts[:1]}), 409, "not an active one")
    assert "receipt" not in api.get("/versions").json()["versions"][-1]
    journal = api.get("/versions").json()
    assert all(secret.partition(".")[2] not in str(journal) for secret in receipts)


@pytest.fixture
def read_lines(monkeypatch):
    """Lines of the journal that were read from disk, by their numbers."""
    lines: list[int] = []

    def noted(line: bytes, last_sum: str, path: Any, number: int) -> Any:
        lines.append(number)
        return parsed_line(line, last_sum, path, number)

    monkeypatch.setattr(journal_chain, "parsed_line", noted)
    return lines


def test_what_is_listed_is_read_and_nothing_else(api, read_lines):
    given = {"query": QUERY, "better": "d3", "worse": "d9"}
    for _ in range(9):
        api.post("/prefer", json=given)
    api.post("/undo", json={"entries": [4, 5, 6, 7, 8, 9]})
    read_lines.clear()
    assert [each["entry"] for each in api.get("/learned", params={"limit": 2}).json()["entries"]] == [3, 2]
    assert read_lines == [4, 3]  # the first line is no entry
    read_lines.clear()
    assert [each["entry"] for each in api.get("/versions", params={"limit": 3}).json()["versions"]] == [10, 9, 8]
    assert read_lines == [9, 10, 11]


def test_an_entry_that_is_named_again_and_again_is_looked_at_once(api, read_lines):
    given = {"query": QUERY, "better": "d3", "worse": "d9"}
    api.post("/prefer", json=given)
    receipt = api.post("/prefer", json=given | {"client": "ann"}).json()["receipt"]
    read_lines.clear()
    refused(api.post("/undo", json={"entries": [1] * 99 + [2]}), 409, "entry 2 is not an active one of this client")
    assert api.post("/undo", json={"entries": [1] * 99}).json()["withdrawn"] == [1]
    refused(api.post("/revoke", json={"entries": [1] * 99}), 409, "none")
    assert read_lines == []  # whose votes they are is in memory
    assert api.post("/undo", json={"receipts": [receipt] * 99}).json()["withdrawn"] == [2]
    assert read_lines == [3]


def test_the_history_is_read_by_a_thread_for_readers(tmp_path, monkeypatch):
    with served(tmp_path / "taught.db", INDEX, Limits(deadline_ms=0)) as (api, _):
        assert refused(api.get("/versions"), 503, "deadline")["type"].endswith("deadline")
    threads = []
    with served(tmp_path / "taught.db", INDEX) as (api, service):
        history = service.teaching.history

        def noted(limit: int) -> Any:
            threads.append(threading.current_thread().name)
            return history(limit)

        monkeypatch.setattr(service.teaching, "history", noted)
        assert api.get("/versions").json()["total"] == 0
    assert [name.rpartition("_")[0] for name in threads] == ["tercet-reader"]


def test_a_journal_that_cannot_be_read_is_told_and_logged(tmp_path, monkeypatch, caplog):
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with served(tmp_path / "taught.db", INDEX) as (api, _):
        receipt = api.post("/prefer", json={"query": QUERY, "better": "d3", "worse": "d9"}).json()["receipt"]
        with monkeypatch.context() as patched:
            patched.setattr(journal_chain.Chain, "_read", broken)
            for answer in (api.get("/versions"), api.get("/learned"), api.post("/undo", json={"receipts": [receipt]})):
                assert refused(answer, 503, "the journal cannot be read")["type"].endswith("journal")
        assert "Input/output error" in caplog.text
        assert api.get("/versions").json()["total"] == 1


def test_true_is_no_number_of_an_entry(api):
    api.post("/prefer", json={"query": QUERY, "better": "d3", "worse": "d9"})
    for path, given in (("/undo", {"entry": True}), ("/revoke", {"entries": [True]}), ("/undo", {"entry": "1"})):
        refused(api.post(path, json=given), 422, "integer")
    assert api.get("/versions").json()["versions"][0]["active"]


@pytest.mark.slow
def test_a_restart_gives_the_same_bits(tmp_path):
    path = tmp_path / "taught.db"
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
    with served(tmp_path / "taught.db", INDEX) as (api, service):
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
            Service(INDEX, tmp_path / "taught.db")
    Service(INDEX, tmp_path / "taught.db").close()


def test_the_search_that_warms_up_looks_for_a_word(tmp_path, monkeypatch):
    plurals = tc.Analyser(pattern=r"(\w+)s\b")  # no word of the model is known as it is spelled there
    words = tc.Vectoriser(weighting="bm25", analyser=plurals).fit(["greens avocados"])
    index = Index.build({"a": "greens avocados"}, tc.TextModel(words, words, Weights([Identity(n_terms=2)])))
    assert not index.model.queries([words.words_[0]]).nnz
    found = []
    real = Index.search_row
    monkeypatch.setattr(Index, "search_row", lambda *given, **more: found.append(real(*given, **more)) or found[-1])
    Service(index, tmp_path / "taught.db").close()
    assert [hits[0].doc_id for hits in found] == ["a"] * 4
