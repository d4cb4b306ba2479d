"""Clusters that hang, lose their scheduler, are of another build or asked by strangers: the same bits, or an error."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from tercet.errors import EngineError
from tercet.scale import Cluster, rounds
from tercet.scale.workers import processes_here

distributed = pytest.importorskip("distributed")
pytest.importorskip("cryptography")

pytestmark = pytest.mark.slow  # processes of Dask

LIMIT = 90  # seconds; nothing here may take longer
TIMEOUT = 4.0


@pytest.fixture(autouse=True)
def _workers_take_every_round(monkeypatch):
    monkeypatch.setattr(rounds, "FEW_STEPS", 0)


@pytest.fixture(scope="module")
def board() -> tuple[sparse.csr_array, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = np.zeros((200, 40), dtype=np.float32)
    for row in range(200):
        X[row, rng.choice(20, 4, replace=False) * 2 + y[row]] = 0.5
    return sparse.csr_array(X), y


def learned(board, address: str, after: Callable[[int], None] | None = None, **options: Any) -> np.ndarray:
    """The factors that are learned; ``after`` is called with the number of rounds done."""
    X, y = board
    calls = [0]

    def count(event: object) -> None:
        calls[0] += 1
        if after is not None:
            after(calls[0])

    with Cluster(address, n_workers=2, steps_per_round=400, **options):
        ranker = tc.LowRankRanker(n_components=4)
        ranker.fit(X, tc.learn.SampledSource.from_labels(y, 4_000), callbacks=[count])
    return ranker.weights_.query_factors


@pytest.fixture(scope="module")
def expected(board) -> np.ndarray:
    return learned(board, "here:2")


@pytest.fixture(scope="module")
def plain() -> Iterator[Any]:
    with processes_here(2) as cluster:
        yield cluster


# -- who may ask ------------------------------------------------------------------------------------------------------


def test_a_local_cluster_takes_its_own_certificates_only(board, expected):
    X, y = board
    with Cluster("local:2", steps_per_round=400) as cluster:
        assert cluster.scheduler.startswith("tls://127.0.0.1:")
        port = cluster.scheduler.rpartition(":")[2]
        for address, security in (
            (f"tcp://127.0.0.1:{port}", None),
            (cluster.scheduler, distributed.Security.temporary()),
        ):
            with pytest.raises(OSError, match=r"imed out|closed|reset|does not match"):
                distributed.Client(address, security=security, timeout=2, set_as_default=False)
        ranker = tc.LowRankRanker(n_components=4).fit(X, tc.learn.SampledSource.from_labels(y, 4_000))
        with distributed.Client(cluster.scheduler, security=cluster.certificates, set_as_default=False) as friend:
            assert len(friend.nthreads()) == 2
    np.testing.assert_array_equal(ranker.weights_.query_factors, expected)


def authority(folder: Path) -> Any:
    """A ``Security`` whose certificate of its own authority is in files, as an administrator makes one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a cluster of the tests")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files = {
        f"tls_{who}_{what}": str(folder / f"{name}.pem")
        for who in ("client", "scheduler", "worker")
        for what, name in (("cert", "certificate"), ("key", "key"))
    }
    return distributed.Security(tls_ca_file=str(folder / "certificate.pem"), require_encryption=True, **files)


def test_a_scheduler_with_certificates_in_files(board, expected, tmp_path: Path):
    ours, others = authority(tmp_path / "ours"), authority(tmp_path / "others")
    with processes_here(2, ours) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        for security in (None, others):
            with pytest.raises(EngineError, match="no Dask scheduler answers"):
                learned(board, cluster.scheduler_address, security=security, timeout=2.0)
        np.testing.assert_array_equal(learned(board, cluster.scheduler_address, security=ours), expected)


# -- what hangs -------------------------------------------------------------------------------------------------------


def hang(seconds: float) -> None:
    """On a worker: whatever it is given to do takes so long, while it goes on to say that it is there."""
    from tercet.scale import workers

    workers.ours = lambda *_: time.sleep(seconds)


def test_a_task_that_hangs_on_a_worker_that_is_heard_of(board, expected):
    with processes_here(2) as cluster:

        def hang_one(n_rounds: int) -> None:
            if n_rounds == 3:
                with distributed.Client(cluster.scheduler_address, set_as_default=False) as other:
                    one = sorted(other.scheduler_info()["workers"])[0]
                    other.run(hang, 10 * LIMIT, workers=[one])

        began = time.monotonic()
        found = learned(board, cluster.scheduler_address, hang_one, timeout=2 * TIMEOUT)
        assert time.monotonic() - began < 5 * LIMIT
    np.testing.assert_array_equal(found, expected)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def pids(cluster: Any) -> list[int]:
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=LIMIT)
        return list(client.run(os.getpid).values())


def test_a_frozen_worker_does_not_hold_a_fit_and_the_bits_stay(board, expected, plain):
    """It goes on while others took its share, so its answers come late, and twice."""
    frozen, *_ = pids(plain)
    seconds: list[float] = []

    def freeze(n_rounds: int) -> None:
        seconds.append(time.monotonic())
        if n_rounds == 3:
            os.kill(frozen, signal.SIGSTOP)
        if n_rounds == 6:
            os.kill(frozen, signal.SIGCONT)

    try:
        found = learned(board, plain.scheduler_address, freeze, timeout=TIMEOUT)
    finally:
        os.kill(frozen, signal.SIGCONT)
    np.testing.assert_array_equal(found, expected)
    assert max(np.diff(seconds)) < 5 * TIMEOUT
    assert len(seconds) >= 10


@contextmanager
def scheduler_process(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler and a worker in processes of their own."""
    file = tmp_path / "scheduler.json"
    run = [sys.executable, "-m"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = subprocess.Popen([*run, "distributed.cli.dask_scheduler", *options], **quiet)
    worker = None
    try:
        until = time.monotonic() + LIMIT
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        options = ["--scheduler-file", str(file), "--nthreads", "2", "--no-dashboard", "--no-nanny"]
        options += ["--host", "127.0.0.1", "--local-directory", str(tmp_path)]
        worker = subprocess.Popen([*run, "distributed.cli.dask_worker", *options], **quiet)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=LIMIT)
            address = client.scheduler.address
        yield scheduler, address
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(LIMIT)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_frozen_or_lost_scheduler_is_an_error_in_time(board, expected, tmp_path: Path, how: signal.Signals):
    with scheduler_process(tmp_path) as (scheduler, address):
        np.testing.assert_array_equal(learned(board, address), expected)  # compiled from now on
        began: list[float] = []

        def strike(n_rounds: int) -> None:
            if n_rounds == 3:
                scheduler.send_signal(how)
                began.append(time.monotonic())

        with pytest.raises(EngineError, match=r"the training stopped|were lost 5 times"):
            learned(board, address, strike, timeout=TIMEOUT)
        assert time.monotonic() - began[0] < 3 * TIMEOUT + 5


# -- another build ----------------------------------------------------------------------------------------------------


def change_build() -> None:
    """What a worker of another build would say of itself."""
    from tercet.scale import workers

    workers.facts = lambda: ("99.0", "other kernels")  # type: ignore[assignment]


def test_a_worker_of_another_build_gets_nothing_to_do(board, expected, caplog):
    """As if it had been started anew in the middle of a fit, at the same address."""
    with processes_here(2) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        strange, _ = list(client.nthreads())

        def change(n_rounds: int) -> None:
            if n_rounds == 3:
                client.run(change_build, workers=[strange])

        found = learned(board, cluster.scheduler_address, change)
    np.testing.assert_array_equal(found, expected)
    assert f"the worker {strange} is of another build (('99.0', 'other kernels')); it gets nothing to do" in caplog.text
