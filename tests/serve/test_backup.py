"""What docs/guides/operate.md promises: copies made while it runs, the same answers, a dashboard of real names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from support.serving import client_of, made_docs, made_index, served
from tercet.errors import TercetError
from tercet.search import Index
from tercet.serve import back_up
from tercet.serve.impressions import ImpressionLog
from tercet.serve.service import Service

DEPLOY = Path(__file__).parents[2] / "deploy"
QUERIES = ("green avocado", "blue sky", "dark river", "pale stone")


def answers(client):
    """What each query finds."""
    found = [client.get("/search", params={"q": query, "k": 20}).json()["learned"] for query in QUERIES]
    return [[(hit["id"], hit["score"]) for hit in hits] for hits in found]


def copied(source: Path, copy: Path) -> Index:
    """As the page says: copy, open, and copy again where the copy is refused."""
    for _ in range(20):
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(source, copy)
            return Index.open(copy)
        except (TercetError, OSError, shutil.Error):
            continue
    raise AssertionError("no copy could be opened")


@pytest.mark.slow
def test_a_copy_made_while_it_runs_gives_the_same_answers(tmp_path):
    live, copy = tmp_path / "index", tmp_path / "backup" / "index"
    index = made_index(live)
    with served(tmp_path / "index.taught.db", index) as (client, _):
        untaught = answers(client)
        for query in QUERIES:
            hits = client.get("/search", params={"q": query}).json()["learned"]
            taught = client.post("/prefer", json={"query": query, "better": hits[3]["id"], "worse": hits[0]["id"]})
            assert taught.status_code == 202
        before = answers(client)
        assert before != untaught
        restored = copied(live, copy)
        assert back_up(tmp_path / "index.taught.db", tmp_path / "backup" / "index.taught.db") == len(QUERIES)
        assert answers(client) == before
    with served(tmp_path / "backup" / "index.taught.db", restored) as (client, _):
        assert answers(client) == before


def test_a_copy_made_while_documents_come_in_is_of_one_commit(tmp_path):
    live = tmp_path / "index"
    index = made_index(live)
    n_before, batch, done = len(index), 5, threading.Event()
    docs = list(made_docs(60).values())

    def write() -> None:
        number = 0
        while not done.is_set() and number < 400:
            index.add({f"new{number + i}": docs[(number + i) % 59] for i in range(batch)})
            number += batch
            if number % 50 == 0:
                index.merge()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            copy = copied(live, tmp_path / f"copy{number}")
            assert (len(copy) - n_before) % batch == 0
            assert list(copy)[n_before:] == [f"new{i}" for i in range(len(copy) - n_before)]
    finally:
        done.set()
        writer.join()


def test_the_dashboard_asks_for_names_that_there_are(tmp_path):
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    asked = {name for panel in dashboard["panels"] for one in panel["targets"] for name in names_in(one["expr"])}
    page = (DEPLOY.parent / "docs" / "guides" / "operate.md").read_text(encoding="utf-8")
    asked |= set(re.findall(r"`(tercet_[a-z_]+)", page))
    with ImpressionLog(tmp_path / "impressions") as log:
        service_metrics = metrics_of(tmp_path, log)
    assert len(asked) > 10
    assert asked <= service_metrics


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"tercet_[a-z_]+", expression))


def metrics_of(folder: Path, log: ImpressionLog) -> set[str]:
    service = Service(made_index(), folder / "taught.db", impressions=log)
    try:
        with client_of(service) as client:
            client.get("/search", params={"q": QUERIES[0]})
            return set(re.findall(r"^(tercet_[a-z_]+)", client.get("/metrics").text, re.M))
    finally:
        service.close()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_one_that_systemd_takes(tmp_path):
    unit = tmp_path / "tercet.service"
    text = (DEPLOY / "tercet.service").read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/tercet/bin/tercet", "/bin/true"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
