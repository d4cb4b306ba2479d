"""Settings that change while the service runs: the file is read again, and a bad one is refused."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from support.serving import made_index, running, served
from tercet.cli.serve import serve
from tercet.cli.settings import LIVE, LiveSettings
from tercet.serve.access_log import AccessLog
from tercet.serve.bounds import Limits
from tercet.serve.impressions import ImpressionLog

INDEX = made_index()
QUERY = "green avocado"


@pytest.fixture
def live(tmp_path):
    """Makes a service whose settings are in a file, with an access log; gives what has it read again."""
    (tmp_path / "index").mkdir()
    config = tmp_path / "tercet.toml"
    config.write_text(f'access-log = "{tmp_path / "one.jsonl"}"\n')
    context = serve.make_context("serve", [str(tmp_path / "index"), "--config", str(config), "--write-burst", "3"])
    with served(tmp_path / "journal.jsonl", INDEX, Limits(write_burst=3)) as (api, service):
        service.impressions = ImpressionLog(tmp_path / "impressions")
        log = AccessLog(tmp_path / "one.jsonl")
        settings = LiveSettings(context, service, log)

        def reread(text: str) -> None:
            config.write_text(text)
            settings.reread()

        yield api, service, log, reread
        log.close()


def test_what_can_change_does(live, tmp_path, caplog):
    api, service, log, reread = live
    reread(
        f'access-log = "{tmp_path / "two.jsonl"}"\ndeadline-ms = 7\nwaiting = 1\nwrites-per-minute = 1\n'
        "keep-days = 3\nlook-every = 0.5\n"
    )
    log.write(status=200)
    assert (tmp_path / "one.jsonl").read_text() == ""
    assert '"status":200' in (tmp_path / "two.jsonl").read_text()
    assert (service.limits.deadline_ms, service.limits.waiting) == (7.0, 1)
    assert service.limits.workers == Limits.workers
    assert (service.impressions.keep_days, service.reloader.look_seconds) == (3, 0.5)
    assert service.reads._most == Limits.workers + 1
    sent = {"query": QUERY, "better": "d3", "worse": "d9"}
    assert [api.post("/prefer", json=sent).status_code for _ in range(4)] == [202, 202, 202, 429]
    assert "keep-days is 3 now, and was 30" in caplog.text
    assert {name.replace("_", "-") for name in LIVE} >= {"deadline-ms", "look-every"}


def test_what_the_file_no_longer_says_is_the_default_again(live, tmp_path):
    _, service, _, reread = live
    first = f'access-log = "{tmp_path / "one.jsonl"}"\n'
    reread(first + "waiting = 1\n")
    reread(first)
    assert service.limits.waiting == Limits.waiting


@pytest.mark.slow
def test_flags_go_before_the_file_still(live, tmp_path):
    _, service, _, reread = live
    reread(f'access-log = "{tmp_path / "one.jsonl"}"\nwrite-burst = 50\n')
    assert service.limits.write_burst == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("deadline-ms = 9\nkeep-days = 0\n", "keep-days"),
        ("deadline-ms = 9\nkeep-dais = 4\n", "is it keep-days?"),
        ("deadline-ms = 9\nkeep-days = \n", "is no configuration"),
        ('deadline-ms = 9\naccess-log = "/nowhere/access.jsonl"\n', "the access log cannot be written"),
    ],
)
def test_a_bad_file_is_refused_as_a_whole(live, tmp_path, caplog, text, problem):
    _, service, log, reread = live
    reread(text)
    assert service.limits.deadline_ms == Limits.deadline_ms
    assert "is refused, and the settings of before stay" in caplog.text
    assert problem in caplog.text
    log.write(status=200)
    assert '"status":200' in (tmp_path / "one.jsonl").read_text()


def test_what_needs_a_restart_is_said_and_the_rest_taken(live, caplog):
    _, service, _, reread = live
    reread("port = 9000\nworkers = 5\nwaiting = 2\n")
    assert (service.limits.waiting, service.limits.workers) == (2, Limits.workers)
    for name in ("port", "workers", "access-log"):
        assert f"another {name} needs a restart" in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
def test_a_signal_has_the_file_read_again(tmp_path):
    made_index(tmp_path / "index")
    config = tmp_path / "tercet.toml"
    config.write_text(f'access-log = "{tmp_path / "one.jsonl"}"\n')
    with running(tmp_path / "index", "--config", str(config)) as service:
        for text in ("nonsense = 1", f'access-log = "{tmp_path / "two.jsonl"}"\nlook-every = 0.1\n'):
            config.write_text(text)
            service.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            assert service.ask("/ready").status == 200
        ends = time.monotonic() + 20
        while not (tmp_path / "two.jsonl").exists() and time.monotonic() < ends:
            time.sleep(0.1)
        assert service.ask("/ready").status == 200
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(20) == 0
    assert (tmp_path / "two.jsonl").read_text().count("/ready") >= 1
