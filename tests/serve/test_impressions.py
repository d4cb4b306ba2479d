"""The impressions log: what it keeps, how long, whose, and who reads it."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

import tercet as tc
from support.serving import ELSEWHERE, client_of, made_docs, made_index, refused, running
from tercet.data import read_click_log
from tercet.data.clicks import Impression
from tercet.data.ubi import CLICK_SECONDS, GrowingUbi
from tercet.errors import FormatError, StoreError
from tercet.serve.guard import Access
from tercet.serve.impressions import ImpressionLog
from tercet.serve.service import Limits, Service

INDEX = made_index()
QUERY = "green avocado"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0


class Clock:
    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@contextmanager
def logging_service(tmp_path: Path, access: Access | None = None, limits: Limits | None = None, **options):
    log = ImpressionLog(tmp_path / "impressions", **options)
    service = Service(INDEX, tmp_path / "taught.db", limits or Limits(), impressions=log)
    try:
        with client_of(service, access, ELSEWHERE) as api:
            yield api
    finally:
        service.close()


def records(folder: Path, kind: str) -> list[dict]:
    return [json.loads(line) for path in sorted(folder.glob(f"{kind}-*")) for line in path.read_text().splitlines()]


def test_lists_and_clicks_are_logged_as_ubi_and_read_as_they_are(tmp_path):
    with logging_service(tmp_path) as api:
        found = api.get("/search", params={"q": QUERY, "k": 5, "client": "reader-7"}).json()
        shown = [hit["id"] for hit in found["learned"]]
        answer = api.post("/events", json={"query_id": found["query_id"], "doc": shown[2], "client": "reader-7"})
        assert (answer.status_code, answer.json()["rank"]) == (202, 3)
        assert api.get("/search", params={"q": "zebra"}).json()["query_id"] is None  # nothing was shown
        refused(api.post("/events", json={"query_id": "0" * 32, "doc": shown[0]}), 404, "no list")
        refused(api.post("/events", json={"query_id": found["query_id"], "doc": "nobody"}), 422, "not in the list")
        assert "tercet_impressions_logged 1.0\n" in api.get("/metrics").text
        assert "tercet_clicks_logged 1.0\n" in api.get("/metrics").text
    folder = tmp_path / "impressions"
    [query], [event] = records(folder, "ubi_queries"), records(folder, "ubi_events")
    assert (query["user_query"], query["query_response_hit_ids"]) == (QUERY, shown)
    assert event["event_attributes"] == {"object": {"object_id": shown[2]}, "position": {"ordinal": 3}}
    assert query["client_id"] == event["client_id"]
    everything = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"10.0.0.1" not in everything
    assert b"reader-7" not in everything
    assert read_click_log(folder).impressions == (Impression(QUERY, tuple(shown), (shown[2],)),)


def test_nothing_is_logged_unless_asked_for(tmp_path):
    service = Service(INDEX, tmp_path / "taught.db")
    try:
        with client_of(service) as api:
            assert api.get("/search", params={"q": QUERY}).json()["query_id"] is None
            refused(api.post("/events", json={"query_id": "0" * 32, "doc": "d1"}), 409, "logs no impressions")
    finally:
        service.close()
    assert not (tmp_path / "impressions").exists()


def test_the_read_token_is_enough_for_a_click(tmp_path):
    access = Access("r", {"ann": "w"}, None)
    with logging_service(tmp_path, access) as api:
        headers = {"Authorization": "Bearer r"}
        found = api.get("/search", params={"q": QUERY}, headers=headers).json()
        click = {"query_id": found["query_id"], "doc": found["learned"][0]["id"]}
        refused(api.post("/events", json=click), 401, "token")
        assert api.post("/events", json=click, headers=headers).status_code == 202
        preference = {"query": QUERY, "better": "d1", "worse": "d2"}
        refused(api.post("/prefer", json=preference, headers=headers), 403, "teaching token")


def test_files_are_rotated_by_size_and_day_and_removed_after_their_time(tmp_path):
    clock = Clock()
    with ImpressionLog(tmp_path / "log", keep_days=2, file_bytes=1000, clock=clock) as log:
        for _ in range(8):
            log.search("a", "eyes", ["d1", "d2"], {})
        assert len(list(log.folder.glob("ubi_queries-20260301-*"))) > 1
        for _ in range(2):
            clock.now += DAY
            log.search("a", "eyes", ["d1", "d2"], {})
        assert len(records(log.folder, "ubi_queries")) == 10  # today and the two days before
        (log.folder / "notes-of-mine.txt").write_text("stay")
        clock.now += DAY
        log.search("a", "eyes", ["d1", "d2"], {})
        assert not list(log.folder.glob("*20260301*"))
        assert len(records(log.folder, "ubi_queries")) == 3
        assert (log.folder / "notes-of-mine.txt").exists()


def test_without_the_key_a_client_is_another(tmp_path):
    clock = Clock()
    with ImpressionLog(tmp_path / "log", clock=clock) as log:
        before = log.client_id("10.0.0.1")
        assert before == log.client_id("10.0.0.1") != log.client_id("10.0.0.2")
        assert log.key_path.parent == tmp_path
        assert os.stat(log.key_path).st_mode & 0o777 == 0o600
    with ImpressionLog(tmp_path / "log", clock=clock) as log:
        assert log.client_id("10.0.0.1") == before  # it is there still
        log.key_path.unlink()
    with ImpressionLog(tmp_path / "log", clock=clock) as log:
        assert log.client_id("10.0.0.1") != before
        log.key_path.write_text("no key")
    with pytest.raises(StoreError, match="holds no key"):
        ImpressionLog(tmp_path / "log")


def test_as_many_lists_are_remembered_as_there_is_memory_for(tmp_path, monkeypatch):
    shown = ["d1", 'a "quoted" id', "zwölf", "\x00\n"]
    monkeypatch.setattr("tercet.serve.impressions._BYTES_REMEMBERED", 5_000)
    log = ImpressionLog(tmp_path / "impressions")
    lists = [log.search("reader", QUERY, shown, {}) for _ in range(100)]
    assert [log.click("reader", lists[-1], doc_id) for doc_id in shown] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="d9"):
        log.click("reader", lists[-1], "d9")
    known = [query_id for query_id in lists if query_id in log._shown]
    assert known == lists[-len(known) :]
    assert 10 < len(known) < 20
    log.close()


def test_a_restart_goes_on_and_drops_half_a_line(tmp_path):
    clock = Clock()
    with ImpressionLog(tmp_path / "log", clock=clock) as log:
        query_id = log.search("a", "eyes", ["d1", "d2"], {})
        with pytest.raises(StoreError, match="another service"):
            ImpressionLog(tmp_path / "log")
    [path] = (tmp_path / "log").glob("ubi_queries*")
    with open(path, "a") as file:
        file.write('{"query_id": "half')
    with ImpressionLog(tmp_path / "log", clock=clock) as log:
        assert log.click("a", query_id, "d2") == 2  # a page that was open before
        log.search("a", "sky", ["d3"], {})
    assert [record["user_query"] for record in records(tmp_path / "log", "ubi_queries")] == ["eyes", "sky"]


def test_a_disk_that_refuses_loses_lines_and_no_search(tmp_path, monkeypatch):
    with logging_service(tmp_path) as api:
        found = api.get("/search", params={"q": QUERY}).json()
        write = os.write
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]) if len(data) > 7 else _full())
        lost = api.get("/search", params={"q": QUERY}).json()
        assert lost["learned"] == found["learned"]
        assert lost["query_id"] is None
        click = {"query_id": found["query_id"], "doc": found["learned"][0]["id"]}
        refused(api.post("/events", json=click), 507, "cannot be written")
        monkeypatch.setattr(os, "write", write)
        assert api.post("/events", json=click).status_code == 202
        assert "tercet_impressions_lost 2.0\n" in api.get("/metrics").text
    assert len(records(tmp_path / "impressions", "ubi_queries")) == 1
    assert len(records(tmp_path / "impressions", "ubi_events")) == 1


def test_a_disk_that_cannot_sync_leaves_no_closed_file_in_use(tmp_path, monkeypatch):
    clock = Clock()
    with ImpressionLog(tmp_path / "log", clock=clock) as log:
        log.search("a", "eyes", ["d1"], {})
        clock.now += DAY
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", lambda _: _full())
            assert log.search("a", "sky", ["d1"], {}) is None
        with open(tmp_path / "one", "w+b") as one, open(tmp_path / "other", "w+b") as other:  # numbers that were closed
            assert log.search("a", "toast", ["d1"], {}) is not None
            assert (one.read(), other.read()) == (b"", b"")
    assert [record["user_query"] for record in records(tmp_path / "log", "ubi_queries")] == ["eyes", "toast"]


def test_a_pair_of_files_is_opened_as_a_whole(tmp_path, monkeypatch):
    with ImpressionLog(tmp_path / "log", file_bytes=1000, clock=Clock()) as log:
        query_id = log.search("a", "eyes", ["d1", "d2"], {})
        opened = os.open

        def without_events(path, *given):
            return _full() if "ubi_events" in str(path) else opened(path, *given)

        monkeypatch.setattr(os, "open", without_events)
        while log.search("a", "eyes", ["d1", "d2"], {}) is not None:
            pass  # until the next pair begins
        with pytest.raises(StoreError, match="cannot be written"):
            log.click("a", query_id, "d2")
        monkeypatch.setattr(os, "open", opened)
        assert log.click("a", query_id, "d2") == 2


def _full() -> int:
    raise OSError(28, "No space left on device")


# -- who reads it ---------------------------------------------------------------------------------------------------


def simulated(folder: Path, n: int, clock: Clock) -> list[Impression]:
    """A log over some days, many of whose clicks come after later lists, some too late."""
    ids = list(made_docs())
    expected = []
    with ImpressionLog(folder, keep_days=1000, file_bytes=4000, clock=clock) as log:
        pending = None
        for i in range(n):
            clock.now += 1000.0
            shown = [ids[(i + j) % len(ids)] for j in range(4)]
            query_id = log.search(f"c{i % 3}", QUERY, shown, {})
            clicked = ()
            if pending is not None:
                log.click("c", pending, ids[(i - 1 + 2) % len(ids)])  # 1000 s late: not counted
            if i % 2:
                clock.now += 30
                log.click("c", query_id, shown[2])
                log.click("c", query_id, shown[2])  # twice is once
                log.click("c", query_id, shown[1])
                clicked = (shown[2], shown[1])
                pending = None
            else:
                pending = query_id
            expected.append(Impression(QUERY, tuple(shown), clicked))
    return expected


def impressions(log: GrowingUbi, limit: int | None = None) -> list[Impression]:
    return [Impression(one.query, one.shown, one.clicked) for one in islice(log.lists(), limit)]


@pytest.mark.parametrize("portion", [1, 7, 1000])
def test_a_growing_log_is_read_in_any_portions(tmp_path, portion):
    clock = Clock()
    expected = simulated(tmp_path / "log", 120, clock)
    assert len(list((tmp_path / "log").glob("ubi_events*"))) > 3
    clock.now += CLICK_SECONDS + 2000
    lists = []
    with GrowingUbi(tmp_path / "log", clock) as log:
        while part := impressions(log, portion):
            lists += part
    assert lists == expected


def test_lists_wait_for_their_clicks_and_old_files_may_go(tmp_path):
    clock = Clock()
    with ImpressionLog(tmp_path / "log", keep_days=1, clock=clock) as log, GrowingUbi(log.folder, clock) as growing:
        query_id = log.search("a", "eyes", ["d1", "d2"], {})
        assert impressions(growing) == []
        assert growing.waits
        clock.now += 60
        log.click("a", query_id, "d2")
        clock.now += CLICK_SECONDS
        assert impressions(growing) == [Impression("eyes", ("d1", "d2"), ("d2",))]
        assert not growing.waits
        for day in range(3):
            clock.now += DAY
            log.search("a", "eyes", [f"d{day}"], {})
        clock.now += DAY / 2
        assert [one.shown for one in impressions(growing)] == [("d1",), ("d2",)]  # one was removed unread


def test_half_a_line_waits_for_its_rest(tmp_path):
    clock = Clock()
    expected = simulated(tmp_path / "log", 3, clock)
    clock.now += CLICK_SECONDS
    [path] = (tmp_path / "log").glob("ubi_queries*")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with GrowingUbi(tmp_path / "log", clock) as log:
        assert impressions(log) == expected[:2]
        with open(path, "ab") as file:
            file.write(whole[-20:])
        assert impressions(log) == expected[2:]
        path.write_bytes(whole[:-20])
        with pytest.raises(FormatError, match="it was cut off or written anew"):
            impressions(log)


@pytest.mark.parametrize("kind", ["ubi_queries", "ubi_events"])
@pytest.mark.parametrize(("broken", "message"), [(b'"no_id"', "query_id"), (b'"query_id\xff', "0xff")])
def test_a_broken_line_is_named_and_costs_no_list_before_or_behind_it(tmp_path, kind, broken, message):
    clock = Clock()
    expected = simulated(tmp_path / "log", 60, clock)
    clock.now += CLICK_SECONDS
    path = sorted((tmp_path / "log").glob(f"{kind}*"))[1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"query_id"', broken, 1), *lines[4:]]))
    found = []
    with GrowingUbi(tmp_path / "log", clock) as log:
        with pytest.raises(FormatError, match=rf"{kind}.*:4: .*{message}"):
            found.extend(Impression(one.query, one.shown, one.clicked) for one in log.lists())
        assert 0 < len(found) < 60
        assert found == expected[: len(found)]
        assert impressions(log) == expected[len(found) + 1 :]


def test_a_list_without_a_query_is_browsing(tmp_path):
    simulated(tmp_path / "log", 3, Clock())
    [path] = (tmp_path / "log").glob("ubi_queries*")
    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in (first | {"user_query": None}, *others)))
    with GrowingUbi(tmp_path / "log") as log:
        assert [one.query for one in impressions(log)] == ["", QUERY, QUERY]


def test_a_list_that_is_only_looked_at_again_is_not_logged(tmp_path):
    with logging_service(tmp_path) as api:
        assert api.get("/search", params={"q": QUERY, "log": False}).json()["query_id"] is None
        assert api.get("/search", params={"q": QUERY}).json()["query_id"] is not None
    assert len(records(tmp_path / "impressions", "ubi_queries")) == 1


@pytest.mark.slow
def test_the_command_logs_what_many_were_shown_and_a_kill_loses_none(tmp_path):
    made_index(tmp_path / "index")
    shown: dict[str, list[str]] = {}
    with running(tmp_path / "index", "--log-impressions", str(tmp_path / "log")) as service:

        def ask() -> None:
            for _ in range(10):
                found = service.ask("/search?q=green+avocado&k=3").json()
                shown[found["query_id"]] = [hit["id"] for hit in found["learned"]]
                service.ask("/events", {"query_id": found["query_id"], "doc": found["learned"][1]["id"]})

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        service.process.kill()
    logged = records(tmp_path / "log", "ubi_queries")
    assert {record["query_id"]: record["query_response_hit_ids"] for record in logged} == shown
    assert len(records(tmp_path / "log", "ubi_events")) == 40
    log = tc.data.read_click_log(tmp_path / "log")
    assert all(impression.clicked == impression.shown[1:2] for impression in log.impressions)
