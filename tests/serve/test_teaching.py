"""Teaching: what moves, what is undone, what a restart and another model make of it, and who may."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

import tercet as tc
from support.serving import ELSEWHERE, checked, client_of, made_docs, made_index, refused, served
from tercet.cli.main import cli
from tercet.data.taught import read_taught
from tercet.fitting.text_model import TaughtRows
from tercet.memory import Memory, MemorySettings
from tercet.search import Index
from tercet.serve import messages
from tercet.serve.guard import LOOPBACK_HOSTS, Access
from tercet.serve.impressions import ImpressionLog
from tercet.serve.teacher import Overlay

INDEX = made_index()
QUERY = "green avocado"
BEST = [hit.doc_id for hit in INDEX.search(QUERY, 10)]
GIVEN = {"query": QUERY, "better": BEST[9], "worse": BEST[0]}


@pytest.fixture
def api(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (client, _):
        yield client


def ids(api: Any, query: str = QUERY, k: int = 10) -> list[str]:
    return [hit["id"] for hit in api.get("/search", params={"q": query, "k": k}).json()["learned"]]


def scores(api: Any, query: str = QUERY) -> list[tuple[str, float]]:
    return [(hit["id"], hit["score"]) for hit in api.get("/search", params={"q": query, "k": 60}).json()["learned"]]


# -- actions ----------------------------------------------------------------------------------------------------------


def test_a_preference_moves_the_list_and_undo_moves_it_back(api):
    before = ids(api)
    plain = api.get("/search", params={"q": QUERY, "compare": True}).json()["baseline"]
    output = checked(
        api.post("/prefer", json={"query": QUERY, "better": before[4], "worse": before[0]}), messages.Taught, 202
    )
    assert (output["action"], output["revision"], output["version"], output["served"]) == (1, 1, "v1", True)
    after = ids(api)
    ranks = [after.index(doc_id) + 1 for doc_id in (before[4], before[0])]
    assert ranks[0] < ranks[1]
    assert output["effect"]["ahead"]
    assert output["effect"]["ranks"] == [
        {"id": before[4], "before": 5, "after": ranks[0]},
        {"id": before[0], "before": 1, "after": ranks[1]},
    ]
    assert output["effect"]["said"].startswith(f"{before[4]} went from rank 5 to rank {ranks[0]}; ")
    again = api.get("/search", params={"q": QUERY, "compare": True}).json()["baseline"]
    assert [hit["id"] for hit in again] == [hit["id"] for hit in plain]
    output = checked(api.post("/undo", json={}), messages.Undone, 202)
    assert output == {"undone": [1], "revision": 2, "version": "v2", "served": True}
    assert ids(api) == before
    refused(api.post("/undo", json={}), 409, "nothing to undo")


def test_what_is_not_relevant_sinks_below_those_that_were_below(api):
    before = ids(api)
    output = checked(
        api.post("/reject", json={"query": QUERY, "doc": before[0], "below": before[1:4]}), messages.Taught, 202
    )
    assert output["effect"]["ahead"]
    after = ids(api, k=60)
    assert max(after.index(doc) for doc in before[1:4]) < after.index(before[0])


@pytest.mark.parametrize(("start", "end"), [(7, 3), (1, 6), (9, 0), (4, 3)])
def test_a_moved_document_is_where_it_was_put(api, start, end):
    order = ids(api)
    doc, up = order[start], end < start
    passed = order[end:start][::-1] if up else order[start + 1 : end + 1]
    stop = order[end - 1 : end] if up else order[end + 1 : end + 2]
    body = {"ahead_of": passed, "behind": stop} if up else {"ahead_of": stop, "behind": passed}
    output = checked(api.post("/move", json={"query": QUERY, "doc": doc, **body}), messages.Taught, 202)
    after = ids(api, k=60)
    assert output["effect"]["ahead"]
    for other in passed:
        assert (after.index(doc) < after.index(other)) == up
    for other in stop:
        assert (after.index(doc) < after.index(other)) != up


def test_a_preference_that_words_cannot_tell_apart_says_so(tmp_path):
    index = tc.Index.build({"a": "green tea", "b": "green tea", "c": "black tea"})
    with served(tmp_path / "taught.db", index) as (api, _):
        output = api.post("/prefer", json={"query": "tea", "better": "b", "worse": "a"}).json()["effect"]
        assert not output["ahead"]
        assert output["said"].endswith("so it cannot tell them apart.")
        output = api.post("/prefer", json={"query": "tea", "better": "c", "worse": "a"}).json()["effect"]
        assert output["ahead"]


def test_what_cannot_be_taught_is_refused_and_not_kept(api):
    def prefer(**given: Any) -> Any:
        return api.post("/prefer", json=GIVEN | given)

    json = {"Content-Type": "application/json"}
    refused(prefer(better=BEST[0]), 422, "must differ")
    refused(prefer(better="nobody"), 404, "nobody")
    refused(prefer(query="zebra"), 422, "no word")
    refused(prefer(query=""), 422, "query")
    refused(prefer(more=1), 422, "more")
    refused(prefer(worse=7), 422, "worse")
    refused(api.post("/prefer", content=b"{", headers=json), 422, "not JSON")
    half = b'{"query": "green \\ud800", "better": "d3", "worse": "d9"}'
    refused(api.post("/prefer", content=half, headers=json), 422, "unicode")
    refused(api.post("/reject", json={"query": QUERY, "doc": "d1", "below": []}), 422, "below")
    refused(api.post("/move", json={"query": QUERY, "doc": "d1"}), 422, "ahead_of")
    refused(api.post("/undo", json={"actions": [1]}), 409, "action 1 is not active")
    for wrong in ([True], ["1"], [0], []):
        assert api.post("/undo", json={"actions": wrong}).status_code == 422
    assert api.get("/taught").json()["total"] == 0


def test_what_was_taught_is_listed_with_who_and_when(tmp_path):
    access = Access("r" * 20, {"ann": "a" * 20, "bob": "b" * 20}, None)
    with served(tmp_path / "taught.db", INDEX, access=access, client=ELSEWHERE) as (api, _):
        ann, bob = ({"Authorization": f"Bearer {name * 20}"} for name in "ab")
        for better, who in (("d3", ann), ("d4", bob), ("d5", ann)):
            assert api.post("/prefer", json=GIVEN | {"better": better}, headers=who).status_code == 202
        assert api.post("/undo", json={}, headers=bob).json()["undone"] == [2], "the last one of its own"
        assert api.post("/undo", json={"actions": [1]}, headers=bob).json()["undone"] == [1]
        history = checked(api.get("/taught", headers=ann), messages.History)
        assert [(one["action"], one["token"], one["undone_by"]) for one in history["actions"]] == [
            (3, "ann", None),
            (2, "bob", "bob"),
            (1, "ann", "bob"),
        ]
        assert len(api.get("/taught", params={"limit": 1}, headers=ann).json()["actions"]) == 1


# -- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_restart_serves_the_same_bits(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (api, _):
        for at in range(8):
            api.post("/prefer", json={"query": QUERY, "better": f"d{at + 1}", "worse": f"d{20 + at}"})
        api.post("/reject", json={"query": "blue sky", "doc": "d2", "below": ["d1", "d7"]})
        api.post("/undo", json={"actions": [3]})
        before = scores(api), api.get("/taught").json()
    with served(tmp_path / "taught.db", INDEX) as (api, _):
        assert (scores(api), api.get("/taught").json()) == before


def test_undo_gives_the_bits_of_never_having_taught(tmp_path):
    with served(tmp_path / "one.db", INDEX) as (api, _), served(tmp_path / "other.db", INDEX) as (other, _):
        order = ids(api)
        for at in range(6):
            given = {"query": QUERY, "better": order[9 - at], "worse": order[at % 3]}
            api.post("/prefer", json=given)
            if at != 2:
                other.post("/prefer", json=given)
        assert scores(api) != scores(other)
        api.post("/undo", json={"actions": [3]})
        assert scores(api) == scores(other)


def test_versions_are_published_at_most_once_a_second(tmp_path, monkeypatch):
    monkeypatch.setattr("tercet.serve.teacher._PUBLISH_SECONDS", 1.0)
    monkeypatch.setattr("tercet.serve.service._PUBLISHED_SECONDS", 0.0)
    with served(tmp_path / "taught.db", INDEX) as (api, service):
        seen, stop = [service.served], time.monotonic() + 2.5
        at = 0
        while time.monotonic() < stop:
            at += 1
            api.post("/prefer", json=GIVEN | {"better": f"d{at % 50}", "worse": "d55"})
            if service.served is not seen[-1]:
                seen.append(service.served)
        assert at > 20
        assert 2 <= len(seen) <= 5
        given = api.post("/prefer", json=GIVEN).json()
        assert (given["served"], given["effect"]) == (False, None)


def test_an_action_is_acknowledged_at_once_while_all_is_folded_again(tmp_path, monkeypatch):
    """A slow fold: actions are kept, searches go on by the version before, and the answer says so."""
    with served(tmp_path / "taught.db", INDEX) as (api, _):
        api.post("/prefer", json=GIVEN)
        api.post("/prefer", json=GIVEN | {"better": BEST[8]})
        before, go_on, learn = scores(api), threading.Event(), Overlay.learn

        def slow(*given: Any) -> None:
            assert go_on.wait(60)
            learn(*given)

        monkeypatch.setattr(Overlay, "learn", slow)
        monkeypatch.setattr("tercet.serve.service._PUBLISHED_SECONDS", 0.05)
        output = api.post("/undo", json={"actions": [1]}).json()
        assert (output["undone"], output["served"], output["version"]) == ([1], False, "v2")
        output = api.post("/prefer", json=GIVEN | {"better": BEST[7]}).json()
        assert (output["action"], output["served"]) == (3, False)
        assert scores(api) == before
        go_on.set()
        monkeypatch.setattr("tercet.serve.service._PUBLISHED_SECONDS", 60.0)
        assert api.post("/prefer", json=GIVEN | {"better": BEST[6]}).json()["served"]


def test_what_cannot_be_learned_is_told_and_made_good_by_the_next_action(tmp_path, monkeypatch, caplog):
    with served(tmp_path / "taught.db", INDEX) as (api, _):
        with monkeypatch.context() as patched:

            def broken(*_: object) -> None:
                raise RuntimeError("a defect")

            patched.setattr(Overlay, "learn", broken)
            output = checked(api.post("/prefer", json=GIVEN), messages.Taught, 202)
            assert (output["action"], output["served"], output["version"]) == (1, False, "v0")
            body = refused(api.get("/health"), 503, "cannot be learned")
            assert "defect" not in body["detail"]
            assert "tercet_learner_up 0.0" in api.get("/metrics").text
            assert api.get("/search", params={"q": QUERY}).status_code == 200
        assert "a defect" in caplog.text
        assert api.post("/prefer", json=GIVEN).json()["version"] == "v2"
        assert api.get("/health").status_code == 200


def test_up_to_so_many_pairs_are_taught(tmp_path, monkeypatch):
    with served(tmp_path / "taught.db", INDEX) as (api, service):
        assert api.post("/prefer", json=GIVEN).status_code == 202
        monkeypatch.setattr("tercet.serve.service.MOST_PAIRS", service.served.n_pairs)
        body = refused(api.post("/prefer", json=GIVEN), 507, "fit a model")
        assert body["limit"] == body["value"] == service.served.n_pairs
        assert api.post("/undo", json={}).status_code == 202
        assert api.post("/prefer", json=GIVEN).status_code == 202


# -- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_that_learned_rows_is_not_taught_them_again(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (api, service):
        api.post("/prefer", json=GIVEN)
        api.post("/prefer", json=GIVEN | {"better": BEST[8]})
        store, both, model = service.store.id, scores(api), service.served.model
    with served(tmp_path / "taught.db", INDEX.with_model(replace(model, taught=(TaughtRows(store, 2),)))) as (api, _):
        assert scores(api) == both, "what the model has, once"
        refused(api.post("/undo", json={"actions": [1]}), 409, "part of the model")
        refused(api.post("/undo", json={}), 409, "nothing to undo")
        assert [one["in_model"] for one in api.get("/taught").json()["actions"]] == [True, True]
        first, *_, last = ids(api)
        api.post("/prefer", json=GIVEN | {"better": last, "worse": first})
        assert scores(api) != both
        assert api.post("/undo", json={}).json()["undone"] == [3]
        assert scores(api) == both
    other = INDEX.with_model(replace(INDEX.model, taught=(TaughtRows("another store", 2),)))
    with served(tmp_path / "taught.db", other) as (api, _):
        assert scores(api) == both


@pytest.mark.slow
def test_fit_learns_what_was_taught_and_the_index_serves_it_once(tmp_path):
    docs = {f"{kind}{i}": f"{kind} number{i} of the shelf" for kind in ("tea", "cup", "pot") for i in range(8)}
    table = tmp_path / "docs.csv"
    table.write_text("id,text\n" + "".join(f"{name},{text}\n" for name, text in docs.items()))
    Index.build(docs, path=tmp_path / "index")
    with served(tmp_path / "index.taught.db", Index.open(tmp_path / "index")) as (api, _):
        for i in range(24):
            names = ("brew", "mug", "kettle")
            better, worse = (f"{('tea', 'cup', 'pot')[j % 3]}{i % 8}" for j in (i, i + 1))
            given = {"query": f"{names[i % 3]} shelf number{i % 8}", "better": better, "worse": worse}
            assert api.post("/prefer", json=given).status_code == 202
        api.post("/undo", json={})
    command = ["fit", str(table), "--preferences", str(tmp_path / "index.taught.db"), "--budget", "5"]
    done = CliRunner().invoke(cli, [*command, "-o", str(tmp_path / "model")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "preferences: 23, taught by actions: 24" in done.output
    model = tc.load(tmp_path / "model")
    expected = (TaughtRows(read_taught(tmp_path / "index.taught.db").store, 24),) if model.parts else ()
    assert model.taught == expected


def test_memory_does_not_hold_back_what_is_taught(tmp_path):
    docs = {"a": "green tea", "b": "black tea", "c": "tea pot"}
    plain = tc.TextModel.bm25(docs.values())
    Q = plain.queries(["tea"])
    rows = sparse.csr_array(Q / np.sqrt(Q.multiply(Q).sum()))
    evidence = sparse.csr_array(np.array([[3.0]], np.float32))
    model = replace(plain, memory=Memory(("tea",), rows, evidence, ("a",), MemorySettings()))
    with served(tmp_path / "taught.db", Index.build(docs, model)) as (api, _):
        assert ids(api, "tea")[0] == "a"
        output = api.post("/prefer", json={"query": "tea", "better": "c", "worse": "a"}).json()["effect"]
        assert output["ahead"]
        assert ids(api, "tea").index("c") < ids(api, "tea").index("a")


def test_a_use_is_remembered_at_once_until_it_is_undone(tmp_path):
    docs = {"a": "green tea", "b": "black tea", "c": "pot of clay", "d": "kettle of steel"}
    with served(tmp_path / "taught.db", Index.build(docs)) as (api, service):
        before = scores(api, "tea pot")
        assert before[0][0] == "c"
        action = service.store.add("caller", "use", "tea for two", [("b", "a"), ("b", "c")])
        now = service.teacher.learn(action.revision).result(timeout=30.0)
        hit = now.served.index.search("tea pot")[0]
        assert hit.doc_id == "b"
        assert [(past.text, past.evidence) for past in hit.why.past] == [("tea for two", 1.0)]
        assert hit.why.score == pytest.approx(hit.score)
        [undone] = service.store.undo("caller", [action.number])
        service.teacher.learn(undone.revision).result(timeout=30.0)
        assert scores(api, "tea pot") == before


# -- who teaches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Anything", "X-Real-IP"]
)
def test_nobody_behind_a_proxy_teaches_without_a_token(api, header):
    body = refused(api.post("/prefer", json=GIVEN, headers={header: "10.0.0.9"}), 403, "TERCET_TEACH_TOKEN")
    assert body["type"].endswith("not-teaching")
    assert api.get("/taught").json()["total"] == 0


def test_visitors_do_not_teach(tmp_path):
    hosts = Access(hosts=(*LOOPBACK_HOSTS, "search.example"))
    with served(tmp_path / "taught.db", INDEX, access=hosts) as (here, service):
        for asking, headers in (
            (client_of(service, client=ELSEWHERE), {}),
            (here, {"Host": "search.example"}),
        ):
            for path, body in (
                ("/prefer", GIVEN),
                ("/reject", {"query": QUERY, "doc": "d1", "below": ["d2"]}),
                ("/move", {"query": QUERY, "doc": "d1", "behind": ["d2"]}),
                ("/undo", {}),
            ):
                refused(asking.post(path, json=body, headers=headers), 403, "visitors do not teach")
            assert asking.get("/search", params={"q": QUERY}, headers=headers).status_code == 200
        for address in ("127.0.0.1", "::1"):
            assert client_of(service, client=(address, 5000)).post("/prefer", json=GIVEN).status_code == 202


def test_clicks_of_visitors_change_no_ranking(tmp_path):
    log = ImpressionLog(tmp_path / "log")
    with served(tmp_path / "taught.db", INDEX, client=ELSEWHERE, impressions=log) as (api, service):
        before = scores(api)
        answer = api.get("/search", params={"q": QUERY}).json()
        for hit in answer["learned"]:
            given = {"query_id": answer["query_id"], "doc": hit["id"]}
            assert checked(api.post("/events", json=given), messages.ClickLogged, 202)["rank"] == hit["rank"]
        assert scores(api) == before
        assert service.store.n_actions == 0


def test_documents_that_are_gone_are_passed_over_and_count_again(tmp_path):
    made_index(tmp_path / "index")
    with served(tmp_path / "taught.db", Index.open(tmp_path / "index")) as (api, _):
        first, *_, last = ids(api)
        api.post("/prefer", json={"query": QUERY, "better": last, "worse": first})
        taught = scores(api)
    index = Index.open(tmp_path / "index")
    index.remove([last])
    with served(tmp_path / "taught.db", Index.open(tmp_path / "index")) as (api, _):
        assert ids(api)[0] == first
    index.add({last: made_docs()[last]})
    with served(tmp_path / "taught.db", Index.open(tmp_path / "index")) as (api, _):
        assert dict(scores(api)) == dict(taught)
