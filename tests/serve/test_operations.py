"""What those who run the service need: probes, an access log, the reference, settings from files."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import tercet as tc
from support.serving import made_index, refused, running, served
from tercet.cli.main import cli
from tercet.cli.serve import serve

QUERY = "green avocado"
INDEX = made_index()


@pytest.fixture
def api(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (client, _):
        yield client


def test_ready_until_it_is_full_or_ends(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (api, service):
        assert api.get("/ready").json() == {"ready": True}
        service.reads.n_jobs = service.reads._most
        assert refused(api.get("/ready"), 503, "ask another")
        assert api.get("/health").status_code == 200
        service.reads.n_jobs = 0
        assert api.get("/ready").status_code == 200
        service.is_closing = True
        refused(api.get("/ready"), 503, "ends")
        service.is_closing = False


def test_metrics_say_what_runs(api):
    health = api.get("/health").json()
    line = f'tercet_info{{build="{tc.__version__}",index="{health["index"]}",model="{health["model"]}"}} 1.0'
    assert line in api.get("/metrics").text.splitlines()


# -- settings -------------------------------------------------------------------------------------------------------


def settings_of(monkeypatch, tmp_path: Path, text: str, *flags: str, **environment: str):
    """Return the result of the command and the parameters that it would run with."""
    (tmp_path / "tercet.toml").write_text(text)
    (tmp_path / "index").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)
    seen: dict[str, object] = {}
    monkeypatch.setattr(serve, "callback", lambda **values: seen.update(values))
    return CliRunner().invoke(cli, ["serve", "index", *flags], env=environment), seen


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path, monkeypatch):
    text = '[serve]\nport = 1\nrate = 3\nkeep-days = 5\nallow-host = ["a.example", "b.example"]\n'
    result, seen = settings_of(monkeypatch, tmp_path, text, "--port", "4", TERCET_SERVE_PORT="2", TERCET_SERVE_RATE="7")
    assert result.exit_code == 0, result.output
    assert (seen["port"], seen["rate"], seen["keep_days"], seen["look_every"]) == (4, 7.0, 5, 2.0)
    assert seen["allow_host"] == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prot = 1", "there is no option 'prot'; did you mean 'port'?"),
        ("port = [1, 2]", "one value is expected"),
        ("port = 70000", "70000"),
        ('port = "many"', "many"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, monkeypatch, text, problem):
    result, seen = settings_of(monkeypatch, tmp_path, f"[serve]\n{text}")
    assert (result.exit_code, seen) == (2, {})
    assert problem in result.output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
def test_the_command_with_all_of_it(tmp_path):
    made_index(tmp_path / "index")
    options = ("--log-impressions", str(tmp_path / "impressions"))
    with running(tmp_path / "index", *options, TERCET_SERVE_LOOK_EVERY="0.1") as service:
        assert service.ask("/ready").status == 200
        for _ in range(5):
            service.process.send_signal(signal.SIGHUP)
            assert service.ask("/search?q=green+avocado").json()["query_id"]
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(20) == 0


def test_metrics_are_what_a_reader_of_prometheus_takes(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (api, service), served(tmp_path / "other.jsonl", INDEX):
        api.get("/search", params={"q": QUERY})
        service.metrics.count("GET", 'a "quoted" \\ route', 200, 0.003)
        families = {family.name: family for family in text_string_to_metric_families(api.get("/metrics").text)}
    answered = {tuple(sample.labels.values()): sample.value for sample in families["tercet_requests"].samples}
    assert answered == {("GET", "/search", "200"): 1.0, ("GET", 'a "quoted" \\ route', "200"): 1.0}
    buckets = {
        sample.labels["le"]: sample.value
        for sample in families["tercet_request_seconds"].samples
        if sample.name.endswith("_bucket") and sample.labels["route"].startswith("a ")
    }
    assert (buckets["0.0025"], buckets["0.005"], buckets["+Inf"]) == (0.0, 1.0, 1.0)
    assert families["tercet_info"].samples[0].labels["build"] == tc.__version__
