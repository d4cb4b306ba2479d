"""Limits of the service, from both sides: what is just allowed, and what is not any more."""

from __future__ import annotations

import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner

from support.serving import made_index, refused, served
from tercet.cli.main import cli
from tercet.errors import InputError
from tercet.serve import answers
from tercet.serve.guard import LOOPBACK_HOSTS, Access
from tercet.serve.run import access_for, is_loopback, run
from tercet.serve.service import QUERY_TERMS, Limits

QUERY_CHARS = ID_CHARS = MOST_RESULTS = 1_000
INDEX = made_index()
QUERY = "green avocado"
READ, TEACH = "the-reading-token", "the-teaching-token"
GIVEN = {"query": QUERY, "better": "d3", "worse": "d9"}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with served(tmp_path_factory.mktemp("limits") / "taught.db", INDEX) as (client, _):
        yield client


def named(response: Any, name: str, limit: int, value: int, status: int = 422) -> None:
    """A problem that names the limit and the value."""
    body = refused(response, status, str(limit))
    assert (body["name"], body["limit"], body["value"]) == (name, limit, value)
    assert body["type"] == "urn:tercet:problem:limit"


# -- sizes ----------------------------------------------------------------------------------------------------------


def test_queries_up_to_a_thousand_characters(api):
    longest = QUERY + "!" * (QUERY_CHARS - len(QUERY))
    assert api.get("/search", params={"q": longest}).json()["learned"]
    named(api.get("/search", params={"q": longest + "!"}), "q", QUERY_CHARS, QUERY_CHARS + 1)
    assert api.post("/prefer", json=GIVEN | {"query": longest}).status_code == 202
    named(api.post("/prefer", json=GIVEN | {"query": longest + "!"}), "query", QUERY_CHARS, QUERY_CHARS + 1)


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
        ("/taught", "limit", {}),
    ):
        assert api.get(path, params={key: MOST_RESULTS} | more).status_code == 200
        named(api.get(path, params={key: MOST_RESULTS + 1} | more), key, MOST_RESULTS, MOST_RESULTS + 1)
        named(api.get(path, params={key: 0} | more), key, 1, 0)
        refused(api.get(path, params={key: "ten"} | more), 422, key)
        refused(api.get(path, params={key: 10**30} | more), 422, key)


def test_ids_up_to_so_many_characters(api):
    refused(api.get("/explain", params={"q": QUERY, "doc": "x" * ID_CHARS}), 404, "no document")
    named(api.get("/explain", params={"q": QUERY, "doc": "x" * (ID_CHARS + 1)}), "doc", ID_CHARS, ID_CHARS + 1)


def test_misspelt_parameters_are_refused(api):
    refused(api.get("/search", params={"q": QUERY, "kk": 3}), 422, "kk")


# -- how much at a time ---------------------------------------------------------------------------------------------


def test_a_full_queue_is_told_and_empties(tmp_path, monkeypatch):
    release, begun = threading.Event(), threading.Semaphore(0)
    search = answers.search

    def waits(*given: Any, **more: Any) -> Any:
        begun.release()
        assert release.wait(20)
        return search(*given, **more)

    monkeypatch.setattr(answers, "search", waits)
    limits = Limits(workers=2, waiting=3)
    with served(tmp_path / "taught.db", INDEX, limits) as (api, service), ThreadPoolExecutor(5) as pool:
        inside = [pool.submit(api.get, "/search", params={"q": QUERY}) for _ in range(5)]
        assert begun.acquire(timeout=90)
        assert begun.acquire(timeout=90)
        until = time.monotonic() + 20
        while service.reads.n_jobs < 5 and time.monotonic() < until:
            time.sleep(0.01)
        response = api.get("/search", params={"q": QUERY})
        refused(response, 503, "5 requests")
        assert int(response.headers["retry-after"]) >= 1
        assert "tercet_queue_length 5.0" in api.get("/metrics").text
        release.set()
        assert [each.result(timeout=90).status_code for each in inside] == [200] * 5
        assert api.get("/search", params={"q": QUERY}).status_code == 200
        assert service.reads.n_jobs == 0


def test_a_body_of_many_faults_is_answered_by_few(api):
    def faults(path: str, body: Any) -> list[Any]:
        return refused(api.post(path, json=body), 422, "")["errors"]

    few = {f"unknown-{at}": at for at in range(20)}
    assert len(faults("/prefer", GIVEN | few)) == 20
    [fault] = faults("/prefer", GIVEN | {f"unknown-{at}": at for at in range(2_000)})
    assert "an object of 2,003 members; expected query, better, worse" in fault["detail"]
    assert len(faults("/undo", {"actions": ["1"] * 1_000})) == 1
    named(api.post("/undo", json={"actions": [1] * 1_001}), "actions", 1_000, 1_001)


# -- where it may be reached ----------------------------------------------------------------------------------------


def test_only_loopback_is_served_without_tokens():
    assert access_for("127.0.0.1").hosts == LOOPBACK_HOSTS
    assert access_for("::1", None, [TEACH], ("me.example",)).hosts == (*LOOPBACK_HOSTS, "me.example")
    for tokens in ((None, ()), (None, [TEACH])):
        for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
            with pytest.raises(InputError, match="TERCET_READ_TOKEN"):
                access_for(host, *tokens)
    assert access_for("0.0.0.0", READ, [TEACH]).hosts is None
    assert access_for("0.0.0.0", READ, [TEACH], ("me.example",)).hosts == ("me.example",)
    assert all(is_loopback(host) for host in ("localhost", "127.9.9.9", "::1"))
    assert not any(is_loopback(host) for host in ("10.0.0.1", "0.0.0.0", "example.org"))


def test_a_proxy_needs_a_teaching_token():
    for host, read_token in (("127.0.0.1", None), ("127.0.0.1", READ)):
        with pytest.raises(InputError, match="TERCET_TEACH_TOKEN"):
            access_for(host, read_token, (), (), ["127.0.0.1"])
    assert access_for("127.0.0.1", None, [TEACH], (), ["127.0.0.1", "10.0.0.0/24"]).proxies == (
        "127.0.0.1",
        "10.0.0.0/24",
    )
    for wrong, words in (("proxy.example", "a proxy is an address"), ("10.0.0.5/24", "host bits")):
        with pytest.raises(InputError, match=words):
            access_for("127.0.0.1", None, [TEACH], (), [wrong])


def test_tokens_are_long_named_and_different():
    assert access_for("127.0.0.1", READ, [f"ann:{TEACH}", f"bob:{TEACH}2"]).teach_tokens == {
        "ann": TEACH,
        "bob": f"{TEACH}2",
    }
    assert access_for("127.0.0.1", None, ["w" * 16]).teach_tokens == {"teacher": "w" * 16}
    for read_token, teach_tokens, words in (
        (None, ["w" * 15], "the teacher token has 15 characters; 16 are the least"),
        (None, [f":{TEACH}"], "no name before its colon"),
        (READ, [READ], "must differ"),
        (None, [f"ann:{TEACH}", f"bob:{TEACH}"], "must differ"),
        (None, [f"ann:{TEACH}", f"ann:{TEACH}2"], "must differ"),
        ("", [TEACH], "the read token is empty"),
        (" x", [TEACH], "the read token is empty"),
        ("é" * 20, [TEACH], "the read token is empty"),
        (READ, [], "nobody could teach"),
    ):
        with pytest.raises(InputError, match=words):
            access_for("127.0.0.1", read_token, teach_tokens)


def test_allowed_hosts_are_named_as_requests_name_them(tmp_path):
    access = access_for("127.0.0.1", None, (), ("Search.Example", "other.example:8443", "fd00::1", "[FD00::2]"))
    assert access.hosts == (*LOOPBACK_HOSTS, "search.example", "other.example", "fd00::1", "fd00::2")
    with served(tmp_path / "taught.db", INDEX, access=access) as (api, _):
        for host in ("search.example", "SEARCH.example:80", "other.example", "[fd00::1]:8080"):
            assert api.get("/health", headers={"Host": host}).status_code == 200
        assert api.get("/health", headers={"Host": "third.example"}).status_code == 421
    for wrong in ("", "http://search.example", "[", "me@search.example"):
        with pytest.raises(InputError, match="no host name"):
            access_for("127.0.0.1", None, (), (wrong,))


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
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: log.error("what went wrong"))
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

    monkeypatch.setattr(uvicorn.Server, "run", accept)
    with served(tmp_path / "taught.db", INDEX) as (_, service):
        run(service, Access(), "127.0.0.1", 0, lambda _: None)
    assert delays == [1]


def test_the_command_refuses_what_is_not_safe_or_not_there(tmp_path):
    made_index(tmp_path / "index")
    runner = CliRunner()
    done = runner.invoke(cli, ["serve", str(tmp_path / "index"), "--host", "0.0.0.0"], env={"TERCET_READ_TOKEN": None})
    assert done.exit_code == 1
    assert "TERCET_TEACH_TOKEN" in done.output
    assert not list(tmp_path.glob("*.taught.db*"))
    done = runner.invoke(cli, ["serve", str(tmp_path / "index"), "--proxy", "127.0.0.1"])
    assert (done.exit_code, "TERCET_TEACH_TOKEN" in done.output) == (1, True)
    (tmp_path / "bad.db").write_text("not a store\n" * 100)
    for place, why in (
        (tmp_path / "bad.db", "put a backup"),
        (tmp_path, "opened"),
        (tmp_path / "bad.db" / "a.db", "bad.db"),
    ):
        done = runner.invoke(cli, ["serve", str(tmp_path / "index"), "--taught", str(place)])
        assert done.exit_code == 1, done.output
        assert why in done.output
        assert "Traceback" not in done.output
    for index, code in ((tmp_path / "nowhere", 2), (tmp_path, 1)):
        done = runner.invoke(cli, ["serve", str(index)])
        assert done.exit_code == code
        assert str(index) in done.output
