"""Limits of the service, from both sides: what is just allowed, and what is not any more."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import CliRunner

from support.serving import made_docs, made_index, preferred, refused, served, written
from tercet.cli.main import cli
from tercet.errors import InputError
from tercet.serve import Limits, answers, guard
from tercet.serve.bounds import (
    BODY_BYTES,
    ENTRIES_AT_ONCE,
    ENTRIES_BEHIND,
    ID_CHARS,
    MOST_RESULTS,
    QUERY_CHARS,
    QUERY_TERMS,
    SHOWN,
    UNKNOWN_MEMBERS,
    VOTE_BYTES,
)
from tercet.serve.connections import Server
from tercet.serve.guard import LOOPBACK_HOSTS, Access
from tercet.serve.rates import Buckets
from tercet.serve.run import access_for, is_loopback, run

INDEX = made_index()
QUERY = "green avocado"
READ, WRITE, REVOKE = "the-reading-token", "the-writing-token", "the-revoking-token"
GIVEN = {"query": QUERY, "better": "d3", "worse": "d9"}
CLICKED = {"query": QUERY, "shown": ["d9", "d3"], "clicked": ["d3"]}
FIRST, *_, LAST = (hit.doc_id for hit in INDEX.search(QUERY, 8))
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with served(tmp_path_factory.mktemp("limits") / "taught.db", INDEX) as (client, _):
        yield client


def named(response: Any, name: str, limit: int, value: int, status: int = 422) -> None:
    """A problem that names the limit and the value."""
    body = refused(response, status, f"{limit:,}")
    assert (body["name"], body["limit"], body["value"]) == (name, limit, value)
    assert body["type"] == "urn:tercet:problem:limit"


# -- sizes ----------------------------------------------------------------------------------------------------------


def padded(size: int, given: Any = CLICKED) -> bytes:
    body = json.dumps(given).encode()
    return body + b" " * (size - len(body))


def test_bodies_up_to_a_megabyte(api):
    assert api.post("/clicks", content=padded(BODY_BYTES), headers=JSON).status_code == 202
    response = api.post("/clicks", content=padded(BODY_BYTES + 1), headers=JSON)
    named(response, "body", BODY_BYTES, BODY_BYTES + 1, 413)


def test_bodies_of_one_vote_up_to_what_their_texts_may_take(api):
    for path, given, status in (("/prefer", GIVEN, 202), ("/events", {"query_id": "0" * 32, "doc": "d1"}, 409)):
        assert api.post(path, content=padded(VOTE_BYTES, given), headers=JSON).status_code == status
        response = api.post(path, content=padded(VOTE_BYTES + 1, given), headers=JSON)
        named(response, "body", VOTE_BYTES, VOTE_BYTES + 1, 413)
    longest = {"query": "😀" * QUERY_CHARS, "better": "😀" * ID_CHARS, "worse": "🥑" * ID_CHARS, "client": "😀" * 64}
    refused(api.post("/prefer", content=json.dumps(longest), headers=JSON), 404, "no document")


def test_bodies_of_untold_size_up_to_a_megabyte(api):
    def pieces(size: int) -> Any:
        body = padded(size)
        yield from (body[at : at + 65_536] for at in range(0, size, 65_536))

    assert api.post("/clicks", content=pieces(BODY_BYTES), headers=JSON).status_code == 202
    response = api.post("/clicks", content=pieces(BODY_BYTES + 1), headers=JSON)
    assert response.status_code == 413
    assert refused(response, 413, "1,000,000")["limit"] == BODY_BYTES


def test_a_large_body_is_refused_before_it_is_read(api):
    response = api.post("/clicks", content=b"{}", headers=JSON | {"Content-Length": "999999999999999999999999"})
    assert refused(response, 413, "1,000,000")["limit"] == BODY_BYTES


def test_queries_up_to_a_thousand_characters(api):
    longest = QUERY + "!" * (QUERY_CHARS - len(QUERY))
    assert api.get("/search", params={"q": longest}).json()["learned"]
    named(api.get("/search", params={"q": longest + "!"}), "q", QUERY_CHARS, QUERY_CHARS + 1)
    assert api.post("/prefer", json=GIVEN | {"query": longest}).status_code == 202
    named(api.post("/prefer", json=GIVEN | {"query": longest + "!"}), "query", QUERY_CHARS, QUERY_CHARS + 1)
    named(api.get("/related", params={"word": "x" * 1001}), "word", QUERY_CHARS, QUERY_CHARS + 1)


def test_queries_up_to_so_many_words(api):
    most = " ".join(["avocado"] * QUERY_TERMS)
    for path, more in (("/search", {}), ("/explain", {"doc": "d1"})):
        assert api.get(path, params={"q": most} | more).status_code == 200
        named(api.get(path, params={"q": most + " sky"} | more), "query", QUERY_TERMS, QUERY_TERMS + 1)
    assert api.post("/prefer", json=GIVEN | {"query": most}).status_code == 202
    named(api.post("/prefer", json=GIVEN | {"query": most + " sky"}), "query", QUERY_TERMS, QUERY_TERMS + 1)


def test_up_to_a_thousand_results(api):
    for path, key, more in (
        ("/search", "k", {"q": QUERY}),
        ("/explain", "k", {"q": QUERY, "doc": "d1"}),
        ("/related", "k", {"word": "avocado"}),
        ("/versions", "limit", {}),
        ("/learned", "limit", {}),
    ):
        assert api.get(path, params={key: MOST_RESULTS} | more).status_code == 200
        named(api.get(path, params={key: MOST_RESULTS + 1} | more), key, MOST_RESULTS, MOST_RESULTS + 1)
        named(api.get(path, params={key: 0} | more), key, 1, 0)
        refused(api.get(path, params={key: "ten"} | more), 422, key)
        refused(api.get(path, params={key: 10**30} | more), 422, key)


def test_click_lists_up_to_a_hundred_documents(tmp_path):
    docs = {f"d{at}": text for at, text in enumerate([*made_docs().values()] * 2)}
    with served(tmp_path / "taught.db", made_index(docs=docs)) as (api, _):
        shown = list(docs)[: SHOWN + 1]
        given = {"query": QUERY, "shown": shown[:SHOWN], "clicked": [shown[-2]]}
        assert api.post("/clicks", json=given).status_code == 202
        named(api.post("/clicks", json=given | {"shown": shown}), "shown", SHOWN, SHOWN + 1)


def test_ids_up_to_so_many_characters(api):
    refused(api.get("/explain", params={"q": QUERY, "doc": "x" * ID_CHARS}), 404, "no document")
    named(api.get("/explain", params={"q": QUERY, "doc": "x" * (ID_CHARS + 1)}), "doc", ID_CHARS, ID_CHARS + 1)


def test_misspelt_parameters_are_refused(api):
    refused(api.get("/search", params={"q": QUERY, "kk": 3}), 422, "kk")


# -- time -----------------------------------------------------------------------------------------------------------


def test_a_deadline_that_has_passed_gives_a_partial_answer(tmp_path):
    with served(tmp_path / "taught.db", INDEX, Limits(deadline_ms=0.0)) as (api, _):
        found = api.get("/search", params={"q": QUERY, "k": 5}).json()
        assert found["partial"]
        assert found["baseline"] == []
        assert len(found["learned"]) == 5
        assert all(hit["moved"] is None for hit in found["learned"])
        response = api.get("/explain", params={"q": QUERY, "doc": "d1"})
        refused(response, 503, "deadline")
        assert int(response.headers["retry-after"]) >= 1


def test_a_deadline_between_the_lists_leaves_out_the_second(tmp_path, monkeypatch):
    with served(tmp_path / "taught.db", INDEX, Limits(deadline_ms=60_000)) as (api, service):
        whole = api.get("/search", params={"q": QUERY, "k": 5}).json()
        assert not whole["partial"]
        slow = service.served.index.search_row

        def late(*given: Any, **options: Any) -> Any:
            monkeypatch.setattr(answers.Deadline, "passed", True)
            return slow(*given, **options)

        monkeypatch.setattr(service.served.index, "search_row", late)
        found = api.get("/search", params={"q": QUERY, "k": 5}).json()
        assert (found["partial"], found["exact"], found["baseline"]) == (True, True, [])
        assert [hit["id"] for hit in found["learned"]] == [hit["id"] for hit in whole["learned"]]


def test_words_left_out_in_haste_are_told(tmp_path):
    with served(tmp_path / "taught.db", INDEX, Limits(deadline_ms=0.0)) as (api, _):
        query = "green avocado sky toast garden river stone oil leaf blue red pale dark"
        found = api.get("/search", params={"q": query}).json()
        assert (found["partial"], found["exact"]) == (True, False)


def test_a_body_that_does_not_come_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "_BODY_SECONDS", 0.05)
    sent = []

    async def receive() -> Any:
        await asyncio.sleep(30)

    async def send(message: Any) -> None:
        sent.append(message)

    with served(tmp_path / "taught.db", INDEX) as (api, _):
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/prefer",
            "headers": [(b"host", b"localhost"), (b"content-length", b"2")],
        }
        asyncio.run(api.app(scope | {"query_string": b"", "client": ("1", 1)}, receive, send))
    assert sent[0]["status"] == 408


def test_so_many_bodies_arrive_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "_BODIES", 1)

    async def asked(app: Any, arrives: asyncio.Event) -> list[Any]:
        sent = []

        async def receive() -> Any:
            await arrives.wait()
            return {"type": "http.request", "body": b"{}"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"2")]
        scope = {"type": "http", "method": "POST", "path": "/prefer", "headers": headers}
        await app(scope | {"query_string": b"", "client": ("1", 1)}, receive, send)
        return [sent[0]["status"], dict(sent[0]["headers"])]

    async def all_asked(app: Any) -> list[Any]:
        late, now = asyncio.Event(), asyncio.Event()
        now.set()
        first = asyncio.create_task(asked(app, late))
        await asyncio.sleep(0.01)
        second = await asked(app, now)
        late.set()
        return [await first, second, await asked(app, now)]

    with served(tmp_path / "taught.db", INDEX) as (api, _):
        first, second, third = asyncio.run(all_asked(api.app))
    assert [first[0], second[0], third[0]] == [422, 503, 422]
    assert second[1][b"retry-after"] == b"1"


# -- how much at a time ---------------------------------------------------------------------------------------------


def test_a_full_queue_is_told_and_empties(tmp_path, monkeypatch):
    release, begun = threading.Event(), threading.Semaphore(0)
    search = answers.search

    def waits(*given: Any) -> Any:
        begun.release()
        assert release.wait(20)
        return search(*given)

    monkeypatch.setattr(answers, "search", waits)
    limits = Limits(workers=2, waiting=3, deadline_ms=60_000)
    with served(tmp_path / "taught.db", INDEX, limits) as (api, service), ThreadPoolExecutor(5) as pool:
        inside = [pool.submit(api.get, "/search", params={"q": QUERY}) for _ in range(5)]
        assert begun.acquire(timeout=90)
        assert begun.acquire(timeout=90)
        until = time.monotonic() + 20
        while service.reads.length < 3 and time.monotonic() < until:
            time.sleep(0.01)
        response = api.get("/search", params={"q": QUERY})
        refused(response, 503, "5 requests")
        assert int(response.headers["retry-after"]) >= 1
        assert "tercet_queue_length 3.0" in api.get("/metrics").text
        release.set()
        assert [each.result(timeout=90).status_code for each in inside] == [200] * 5
        assert api.get("/search", params={"q": QUERY}).status_code == 200
        assert service.reads.length == 0


@pytest.mark.slow
def test_changes_are_rationed_by_client_and_by_address(tmp_path):
    limits = Limits(writes_per_minute=0.5, write_burst=3)
    with served(tmp_path / "taught.db", INDEX, limits) as (api, _):
        assert [api.post("/prefer", json=GIVEN).status_code for _ in range(3)] == [202] * 3
        response = api.post("/prefer", json=GIVEN)
        refused(response, 429, "client")
        assert 100 <= int(response.headers["retry-after"]) <= 120
        assert api.post("/prefer", json=GIVEN | {"client": "ann"}).status_code == 202
        assert api.get("/search", params={"q": QUERY}).status_code == 200
        statuses = [api.post("/prefer", json=GIVEN | {"client": f"c{at}"}).status_code for at in range(40)]
        assert statuses[:26] == [202] * 26
        refused(api.post("/prefer", json=GIVEN | {"client": "one-more"}), 429, "address")


@pytest.mark.slow
def test_what_cannot_be_understood_costs_a_change(tmp_path):
    with served(tmp_path / "taught.db", INDEX, Limits(writes_per_minute=0.5, write_burst=1)) as (api, _):
        for path, sent, status in (("/clicks", b'{"more": 1}', 422), ("/prefer", b"{", 422), ("/undo", b"[]", 422)):
            for _ in range(3):
                assert api.post(path, content=sent, headers=JSON).status_code == status
        refused(api.post("/prefer", content=b"{}", headers={"Content-Type": "text/plain"}), 415, "application/json")
        refused(api.post("/prefer", content=b"{", headers=JSON), 429, "address")
        refused(api.post("/prefer", json=GIVEN), 429, "address")
        assert api.get("/search", params={"q": QUERY, "k": "ten"}).status_code == 422
        events = [api.post("/events", content=b"{", headers=JSON).status_code for _ in range(12)]
        assert events == [422] * 10 + [429] * 2


def test_a_body_of_many_faults_is_answered_by_few(api):
    def faults(path: str, body: Any) -> list[Any]:
        return refused(api.post(path, json=body), 422, "")["errors"]

    few = {f"unknown-{at}": at for at in range(UNKNOWN_MEMBERS)}
    assert len(faults("/clicks", CLICKED | few)) == UNKNOWN_MEMBERS
    [fault] = faults("/clicks", CLICKED | {f"unknown-{at}": at for at in range(20_000)})
    assert "an object of 20,003 members; expected query, shown, clicked, client" in fault["detail"]
    assert len(faults("/undo", {"receipts": ["no receipt"] * ENTRIES_AT_ONCE})) == 1
    assert len(faults("/revoke", {"entries": ["1"] * ENTRIES_AT_ONCE})) == 1
    named(api.post("/undo", json={"entries": [1] * 10_001}), "entries", ENTRIES_AT_ONCE, ENTRIES_AT_ONCE + 1)


def test_buckets_fill_again():
    now = [0.0]
    buckets = Buckets(60, 2, lambda: now[0])
    assert [buckets.take("a"), buckets.take("a")] == [0.0, 0.0]
    assert buckets.take("a") == pytest.approx(1.0)
    now[0] = 0.5
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0.0
    now[0] = 1.0
    assert buckets.take("a") == 0.0
    now[0] = 1000.0
    assert [bool(buckets.take("a")) for _ in range(3)] == [False, False, True]
    never = Buckets(0, 1, lambda: 0.0)
    assert [never.take("a"), never.take("a")] == [0.0, float("inf")]


def test_buckets_of_ever_new_names_are_forgotten():
    buckets = Buckets(60, 1, lambda: 0.0)
    for at in range(10_050):
        buckets.take(str(at))
    assert len(buckets._levels) == 10_000


# -- how much is learned, and told ----------------------------------------------------------------------------------


def test_up_to_so_many_pairs_are_taught(tmp_path, monkeypatch):
    with served(tmp_path / "taught.db", INDEX) as (api, service):
        given = {"query": QUERY, "better": LAST, "worse": FIRST}
        assert api.post("/prefer", json=given).status_code == 202
        n_pairs = service.version.overlay.nnz
        monkeypatch.setattr("tercet.serve.teaching.LEARNED_PAIRS", n_pairs)
        for path, body in (("/prefer", given), ("/clicks", CLICKED)):
            named(api.post(path, json=body), "pairs", n_pairs, n_pairs, 507)
        assert "tercet bake" in api.post("/prefer", json=given).json()["detail"]
        assert len(service.journal) == 1
        assert api.post("/undo", json={}).status_code == 202
        assert api.post("/prefer", json=given).status_code == 202
        assert api.get("/health").status_code == 200


@pytest.mark.slow
def test_up_to_so_many_entries_are_named_behind_a_pair(tmp_path):
    n = ENTRIES_BEHIND + 20
    entries = [preferred(number, QUERY, LAST, FIRST, f"10.0.0.{number}", "visitor") for number in range(1, n + 1)]
    with served(written(tmp_path / "taught.db", entries), INDEX) as (api, _):
        learned = api.get("/learned", params={"limit": MOST_RESULTS}).json()
        assert learned["pairs"]
        assert not learned["partial"]
        for pair in learned["pairs"]:
            assert (pair["entries"], pair["n_votes"]) == (list(range(21, n + 1)), n)


# -- where it may be reached ----------------------------------------------------------------------------------------


def test_only_loopback_is_served_without_tokens():
    assert access_for("127.0.0.1", None, None).hosts == LOOPBACK_HOSTS
    assert access_for("::1", None, WRITE, ("me.example",)).hosts == (*LOOPBACK_HOSTS, "me.example")
    for tokens in ((None, None), (READ, None), (None, WRITE)):
        for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
            with pytest.raises(InputError, match="TERCET_READ_TOKEN"):
                access_for(host, *tokens)
    assert access_for("0.0.0.0", READ, WRITE).hosts is None
    assert access_for("0.0.0.0", READ, WRITE, ("me.example",)).hosts == ("me.example",)
    with pytest.raises(InputError, match="must differ"):
        access_for("0.0.0.0", READ, READ)
    for token in ("", " x", "é"):
        with pytest.raises(InputError, match="the read token is empty"):
            access_for("127.0.0.1", token, None)
    with pytest.raises(InputError, match="everybody could teach"):
        access_for("127.0.0.1", READ, None)
    with pytest.raises(InputError, match="must differ"):
        access_for("127.0.0.1", READ, READ)
    assert all(is_loopback(host) for host in ("localhost", "127.9.9.9", "::1"))
    assert not any(is_loopback(host) for host in ("10.0.0.1", "0.0.0.0", "example.org"))


def test_tokens_have_a_least_length():
    with pytest.raises(InputError, match="the write token has 15 characters; 16 are the least"):
        access_for("127.0.0.1", None, "w" * 15)
    assert access_for("127.0.0.1", None, "w" * 16).write_token == "w" * 16
    with pytest.raises(InputError, match="the revoke token has 1 characters"):
        access_for("127.0.0.1", None, WRITE, revoke_token="x")
    with pytest.raises(InputError, match="the write and the revoke token are the same"):
        access_for("127.0.0.1", None, WRITE, revoke_token=WRITE)
    with pytest.raises(InputError, match="with a revoke token alone"):
        access_for("127.0.0.1", None, None, revoke_token=REVOKE)


@pytest.mark.slow
def test_who_teaches_does_not_revoke(tmp_path):
    def sent(token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    access = Access(READ, WRITE, None, REVOKE)
    with served(tmp_path / "taught.db", INDEX, access=access) as (api, _):
        assert api.post("/prefer", json=GIVEN, headers=sent(WRITE)).status_code == 202
        revoked = {"entries": [1]}
        refused(api.post("/revoke", json=revoked), 401, "token")
        refused(api.post("/revoke", json=revoked, headers=sent(READ)), 403, "needs the revoke token")
        refused(api.post("/revoke", json=revoked, headers=sent(WRITE)), 403, "needs the revoke token")
        refused(api.post("/revoke", json=revoked, headers=sent("x" * 20)), 401, "not known")
        refused(api.post("/prefer", json=GIVEN, headers=sent(REVOKE)), 403, "may not teach")
        refused(api.post("/documents", json={"documents": []}, headers=sent(REVOKE)), 403, "may not teach")
        assert api.get("/versions", headers=sent(REVOKE)).json()["total"] == 1
        assert api.post("/revoke", json=revoked, headers=sent(REVOKE)).json()["withdrawn"] == [1]
    with served(tmp_path / "other.jsonl", INDEX, access=Access(write_token=WRITE)) as (api, _):
        refused(api.post("/revoke", json=revoked, headers=sent(WRITE)), 403, "none is set")


def test_allowed_hosts_are_named_as_requests_name_them(tmp_path):
    access = access_for("127.0.0.1", None, None, ("Search.Example", "other.example:8443", "fd00::1", "[FD00::2]"))
    assert access.hosts == (*LOOPBACK_HOSTS, "search.example", "other.example", "fd00::1", "fd00::2")
    with served(tmp_path / "taught.db", INDEX, access=access) as (api, _):
        for host in ("search.example", "SEARCH.example:80", "other.example", "[fd00::1]:8080"):
            assert api.get("/health", headers={"Host": host}).status_code == 200
        assert api.get("/health", headers={"Host": "third.example"}).status_code == 421
    for wrong in ("", "http://search.example", "[", "me@search.example"):
        with pytest.raises(InputError, match="no host name"):
            access_for("127.0.0.1", None, None, (wrong,))


@pytest.mark.slow
def test_an_address_in_use_or_wrong_is_told(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (_, service), socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port} cannot be listened on: Address already in use"):
            run(service, Access(), "127.0.0.1", port, lambda _: None)
        with pytest.raises(InputError, match="cannot be listened on: it is no host name"):
            run(service, Access(), f"{'é' * 70}.example", 0, lambda _: None)


def test_warnings_and_traces_are_shown_while_it_runs(tmp_path, monkeypatch, capsys):
    log = logging.getLogger("tercet.serve.guard")
    monkeypatch.setattr(Server, "run", lambda *_, **__: log.error("what went wrong"))
    with served(tmp_path / "taught.db", INDEX) as (_, service):
        run(service, Access(), "127.0.0.1", 0, lambda _: None)
    assert "ERROR tercet.serve.guard: what went wrong" in capsys.readouterr().err
    log.error("not any more")
    assert "not any more" not in capsys.readouterr().err


def test_no_part_of_an_answer_waits_for_another_to_be_acknowledged(tmp_path, monkeypatch):
    delays = []

    def accept(_, sockets):
        with socket.create_connection(sockets[0].getsockname()):
            sockets[0].setblocking(True)
            with sockets[0].accept()[0] as connection:
                delays.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Server, "run", accept)
    with served(tmp_path / "taught.db", INDEX) as (_, service):
        run(service, Access(), "127.0.0.1", 0, lambda _: None)
    assert delays == [1]


def test_the_command_refuses_what_is_not_safe_or_not_there(tmp_path):
    made_index(tmp_path / "index")
    runner = CliRunner()
    done = runner.invoke(cli, ["serve", str(tmp_path / "index"), "--host", "0.0.0.0"], env={"TERCET_READ_TOKEN": None})
    assert done.exit_code == 1
    assert "TERCET_WRITE_TOKEN" in done.output
    assert not (tmp_path / "index.journal").exists()
    (tmp_path / "bad.jsonl").write_text("not a journal\n")
    done = runner.invoke(cli, ["serve", str(tmp_path / "index"), "--journal", str(tmp_path / "bad.jsonl")])
    assert done.exit_code == 1
    assert "bad.jsonl:1" in done.output
    for place, why in ((tmp_path, "Is a directory"), (tmp_path / "bad.jsonl" / "taught.db", "bad.jsonl")):
        done = runner.invoke(cli, ["serve", str(tmp_path / "index"), "--journal", str(place)])
        assert done.exit_code == 1
        assert why in done.output
        assert "Traceback" not in done.output
    for index, code in ((tmp_path / "nowhere", 2), (tmp_path, 1)):
        done = runner.invoke(cli, ["serve", str(index)])
        assert done.exit_code == code
        assert str(index) in done.output
