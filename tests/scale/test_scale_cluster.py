"""Learning on the processes of a real cluster on this machine: the bits, kills, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

import tercet as tc
from tercet.cli.main import cli
from tercet.data import write_beir
from tercet.errors import DivergedError, EngineError, MissingExtraError
from tercet.scale import Cluster, rounds, workers
from tercet.scale.changes import pairwise
from tercet.scale.workers import Workers, processes_here

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow  # processes of Dask

LIMIT = 60  # seconds; nothing here may take longer


@pytest.fixture(autouse=True)
def _workers_take_every_round(monkeypatch):
    monkeypatch.setattr(rounds, "FEW_STEPS", 0)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler of our own, with two workers: starting one takes seconds."""
    with processes_here(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def board():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = np.zeros((300, 60))
    for row in range(300):
        X[row, rng.choice(30, 5, replace=False) * 2 + y[row]] = 1
    return sparse.csr_array((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)), y


def learn(address: str, board, ranker, **options) -> tuple[dict[str, np.ndarray], Cluster]:
    X, y = board
    with Cluster(address, **options) as cluster:
        ranker.fit(X, tc.learn.SampledSource.from_labels(y, 4000))
    return {name: array.copy() for name, array in ranker._state.to_state()[1].items()}, cluster


RANKERS = {
    "low rank": lambda: tc.LowRankRanker(n_components=5, diagonal="learned", n_frequent=50, scale_documents=True),
    "low rank, queries alone": lambda: tc.LowRankRanker(
        n_components=5, diagonal="learned", n_frequent=50, start="lsi", learn_documents=False, rate=1.0
    ),
}


@pytest.mark.parametrize("name", RANKERS)
def test_a_cluster_gives_the_bits_of_its_shares_taken_here(name, board, scheduler):
    here, output = learn("here:2", board, RANKERS[name]())
    for _ in range(2 if name == "low rank" else 1):
        there, cluster = learn(scheduler, board, RANKERS[name]())
        assert there.keys() == here.keys()
        for part, array in here.items():
            np.testing.assert_array_equal(there[part], array)
    facts = [(f.steps, f.bytes_down, f.bytes_up, f.bytes_between) for f in output.rounds]
    assert [(f.steps, f.bytes_down, f.bytes_up, f.bytes_between) for f in cluster.rounds] == facts
    assert f"{len(facts):,} rounds on 2 workers ({scheduler})" in cluster.summary()


def test_more_shares_than_workers_give_the_bits_of_as_many_workers(board, scheduler):
    here, _ = learn("here:5", board, RANKERS["low rank"]())
    there, _ = learn(scheduler, board, RANKERS["low rank"](), n_workers=5)
    for part, array in here.items():
        np.testing.assert_array_equal(there[part], array)


def kill_workers(scheduler: str, n: int, cluster: Cluster, killed: list[int]) -> threading.Thread:
    """Once a few rounds are over, end so many of the workers that this file started, without a word."""
    from distributed import Client

    client = Client(scheduler, set_as_default=False)
    pids = list(client.run(os.getpid).values())[:n]

    def wait() -> None:
        until = time.monotonic() + LIMIT
        while len(cluster.rounds) < 5 and time.monotonic() < until:
            time.sleep(0.001)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    client.close()
    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize(("name", "n"), [("low rank", 1), ("low rank, queries alone", 2)])
def test_workers_that_are_killed_change_nothing(name, n, board):
    """With the second one, the texts that all had been sent are gone, too."""
    X, y = board
    source = tc.learn.SampledSource.from_labels(y, 8_000)
    ranker = RANKERS[name]()
    with Cluster("here:2", steps_per_round=500):
        expected = {part: array.copy() for part, array in ranker.fit(X, source)._state.to_state()[1].items()}
    killed: list[int] = []
    # Workers of its own, since Dask may not bring back what was killed.
    with processes_here(2) as own, Cluster(own.scheduler_address, n_workers=2, steps_per_round=500) as cluster:
        thread = kill_workers(own.scheduler_address, n, cluster, killed)
        ranker.fit(X, source)
        thread.join(LIMIT)
    assert len(killed) == n
    for part, array in ranker._state.to_state()[1].items():
        np.testing.assert_array_equal(array, expected[part])


def test_a_worker_that_left_since_the_last_look_changes_nothing(board, scheduler, monkeypatch):
    there = Workers._workers
    looks: list[int] = []

    def outdated(self) -> list[str]:
        looks.append(1)
        return ["tcp://127.0.0.1:9", *there(self)[1:]] if len(looks) == 2 else there(self)

    monkeypatch.setattr(Workers, "_workers", outdated)
    found, _ = learn(scheduler, board, tc.LowRankRanker(n_components=4), n_workers=2)
    expected, _ = learn("here:2", board, tc.LowRankRanker(n_components=4))
    np.testing.assert_array_equal(found["U"], expected["U"])
    assert len(looks) > 2


def test_rounds_of_a_few_steps_do_not_travel(board, scheduler, monkeypatch):
    monkeypatch.setattr(rounds, "FEW_STEPS", 300)
    expected, output = learn("here:2", board, tc.LowRankRanker(n_components=4))
    found, cluster = learn(scheduler, board, tc.LowRankRanker(n_components=4), n_workers=2)
    np.testing.assert_array_equal(found["U"], expected["U"])
    assert {facts.steps <= 300 for facts in output.rounds} == {True, False}
    assert all((facts.bytes_down == 0) == (facts.steps <= 300) for facts in cluster.rounds)


_DRIVER = """
import sys, os, signal
import numpy as np
import tercet as tc
from scipy import sparse
from tercet.scale import Cluster, rounds, workers
rounds.FEW_STEPS = 0
X, y = sparse.csr_array(sparse.load_npz(sys.argv[1])), np.arange(300) % 2
def say(event):
    if event.step >= 2000:
        os.kill(os.getpid(), signal.SIGKILL)
with Cluster(sys.argv[2], n_workers=2):
    tc.LowRankRanker(n_components=5).fit(
        X, tc.learn.SampledSource.from_labels(y, 4000), callbacks=[tc.Checkpoint(sys.argv[3], every=500), say])
"""


def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(board, scheduler, tmp_path: Path):
    X, y = board
    source = tc.learn.SampledSource.from_labels(y, 4000)
    sparse.save_npz(tmp_path / "X.npz", X)
    command = [sys.executable, "-c", _DRIVER, str(tmp_path / "X.npz"), scheduler, str(tmp_path / "run")]
    first = subprocess.run(command, timeout=LIMIT, capture_output=True)
    assert first.returncode == -signal.SIGKILL, first.stderr.decode()
    with Cluster(scheduler, n_workers=2) as cluster:
        resumed = tc.LowRankRanker(n_components=5).fit(
            X, source, callbacks=[tc.Checkpoint(tmp_path / "run", every=500)]
        )
    assert sum(facts.steps for facts in cluster.rounds) < 3000
    with Cluster("here:2"):
        ranker = tc.LowRankRanker(n_components=5).fit(X, source)
    np.testing.assert_array_equal(resumed.weights_.query_factors, ranker.weights_.query_factors)


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_no_scheduler_is_an_error_that_says_where():
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 within 0\.5 s"):
        Cluster("tcp://127.0.0.1:9", timeout=0.5).__enter__()


def test_a_scheduler_without_workers_is_an_error():
    with processes_here(0) as empty, pytest.raises(EngineError, match="has no worker after 1 s"):
        Cluster(empty.scheduler_address, timeout=1.0).__enter__()


def test_workers_of_another_version_are_refused(scheduler, monkeypatch):
    monkeypatch.setattr(workers, "version", lambda name: "99.0")
    workers.facts.cache_clear()
    try:
        with pytest.raises(EngineError, match=r"has Tercet \S+ \(kernels .*but this is 99\.0"):
            Cluster(scheduler).__enter__()
    finally:
        workers.facts.cache_clear()


def test_a_diverging_fit_on_workers_is_an_error(board, scheduler):
    X, y = board
    with Cluster(scheduler, n_workers=2) as cluster, pytest.raises(DivergedError, match="rate below"):
        tc.LowRankRanker(n_components=3, rate=1e30).fit(X, tc.Preferences.from_labels(y, 3000))
    assert cluster.rounds


class FakeClient:
    """A scheduler that knows workers which say nothing, and loses what is sent to them."""

    status = "running"

    def __init__(self, *workers: str) -> None:
        self.said = dict.fromkeys(workers, 0.0)
        self.scheduler = SimpleNamespace(address="tcp://fake:1", identity=self._identity)

    def _identity(self):
        return {"workers": {address: {"last_seen": said} for address, said in self.said.items()}}

    def sync(self, ask, *arguments, callback_timeout, **options):
        assert callback_timeout > 0
        return ask(*arguments, **options)

    def _scatter(self, data, **_):
        raise OSError("gone")


def test_workers_that_are_lost_again_and_again_end_the_training(monkeypatch):
    pool = Workers(FakeClient("tcp://a"), 2, 10.0)
    pool.broadcast("texts")
    with pytest.raises(EngineError, match="lost 5 times in one round; last: OSError: gone"):
        pool.run(["share", "share"])


def test_a_cluster_without_workers_ends_the_training_in_time():
    with pytest.raises(EngineError, match=r"has been there for 0\.2 s"):
        Workers(FakeClient(), 2, 0.2).run(["share"])


def test_a_worker_that_says_nothing_new_is_not_alive():
    pool = Workers(FakeClient("tcp://a", "tcp://b"), 2, 0.2)
    assert pool._alive() == ["tcp://a", "tcp://b"]
    time.sleep(0.3)
    pool._client.said["tcp://b"] = 1.0
    assert pool._alive() == ["tcp://b"]


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"\[scale\]|'distributed"):
        Cluster("local:2").__enter__()


def test_sums_are_taken_in_one_order():
    assert pairwise(list("abcdefg"), lambda one, other: f"({one}{other})") == "(((ab)(cd))((ef)g))"


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_command_line_learns_on_a_cluster_and_says_what_traveled(scheduler, corpus, tmp_path: Path):
    parts = {"train": corpus.part(0, 200), "dev": corpus.part(200, 240), "test": corpus.part(240)}
    write_beir(tmp_path / "data", corpus.docs, corpus.queries, parts)
    found = {}
    for address in (scheduler, "here:2"):
        output = tmp_path / address.partition(":")[0]
        few = ["--steps", "5000"]
        done = CliRunner().invoke(cli, ["fit", str(tmp_path / "data"), "-o", str(output), "--device", address, *few])
        assert done.exit_code == 0, done.output
        assert f"rounds on 2 workers ({address}); a round sent" in done.output
        found[address] = tc.load(output).weights.to_state()[1]
    for name, array in found["here:2"].items():
        np.testing.assert_array_equal(array, found[scheduler][name])


def test_the_command_line_refuses_a_wrong_address(tmp_path: Path):
    refused = CliRunner().invoke(cli, ["fit", str(tmp_path), "-o", "model", "--device", "somewhere"])
    assert refused.exit_code == 2
    assert "local:N" in refused.output
