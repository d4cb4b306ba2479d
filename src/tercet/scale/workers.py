"""Run shares on the workers of a Dask cluster.

A round is a small graph: a share for each worker, and a tree of additions. Only the root of the tree comes to the
driver. If a worker is lost, silent or far slower than the others, the round is repeated without the worker and gives
the same bits. Every wait has a time limit, and workers of another build get no work.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from operator import add
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba

from tercet import kernels
from tercet.errors import EngineError, MissingExtraError
from tercet.kernels.machine_code import fingerprint
from tercet.scale.changes import Result, pairwise
from tercet.scale.rounds import WorkerPool
from tercet.scale.shares import Share, Texts, bytes_of, run_share

MOST_ATTEMPTS = 5  # at one round, before workers that are lost again and again are an error
MOST_AT_ONCE = 16  # shares sent at the same time
LOOK_EVERY = 1.0  # seconds between looks at the workers during a round
SLOWEST_BYTES = 1e6  # bytes a second of the slowest connection
SLOWEST_SHARE = 10.0  # time limit of a share, in times of the first share of a round or of the round before

SECONDS_TO_IMPORT = 60.0  # time for a worker to load Tercet
SECONDS_TO_COMPILE = 300.0  # more time for the first share of a worker
SECONDS_TO_CLOSE = 5.0  # time for the scheduler to end a connection

log = logging.getLogger("tercet")


class Workers(WorkerPool):
    """Workers of a Dask client."""

    def __init__(self, client: Any, n_shares: int, timeout: float) -> None:
        self._client, self.n_shares, self._timeout = client, n_shares, timeout
        self.address = client.scheduler.address if hasattr(client, "scheduler") else ""
        self._sent: Any = None  # texts on the workers
        self._heartbeats: dict[str, tuple[float, float]] = {}  # last heartbeat of each worker, and its time of arrival
        self._refused: set[str] = set()  # workers of another build, and workers that never end a share
        self._compiled: set[str] = set()  # workers that have ended a share
        self._seconds_before: float | None = None  # duration of the last round
        # A scheduler identifies tasks by name, and other users may have tasks there, too.
        self._name, self._numbers = f"tercet-{uuid4().hex}", itertools.count()

    def broadcast(self, texts: Texts | None) -> None:
        super().broadcast(texts)
        self._sent = None

    def total(self, shares: Sequence[Share]) -> Result:
        from distributed.client import CancelledError
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        lost: list[str] = []
        while len(lost) < MOST_ATTEMPTS:
            workers = self._workers()
            try:
                return self._attempt(shares, workers)
            except OtherBuildError as error:
                worker, build = error.args
                log.warning("the worker %s is of another build (%s); it gets nothing to do", worker, build)
                self._refused.add(worker)
            except (CancelledError, KilledWorker, CommClosedError, TimeoutError, OSError) as error:
                lost.append(f"{type(error).__name__}: {error}")
                log.info("a round is repeated, since workers were lost (%s)", lost[-1])
            self._sent = None  # texts may be lost with a worker
        raise EngineError(f"workers were lost {MOST_ATTEMPTS} times in one round; last: {lost[-1]}")

    def _attempt(self, shares: Sequence[Share], workers: Sequence[str]) -> Result:
        client = self._client
        if self._sent is None and self._texts is not None:
            seconds = self._seconds(len(workers) * bytes_of(self._texts))
            self._sent = self._within(
                seconds, client._scatter, [self._texts], workers=list(workers), broadcast=True, hash=False
            )[0]
        name, build, numbers = f"{self._name}-{next(self._numbers)}", facts(), itertools.count()

        def submit(function: Any, *arguments: Any, number: int) -> Any:
            # Tasks stay on the workers with the texts: a worker that came meanwhile may be of another build.
            where, key = workers[number % len(workers)], f"{name}-{next(numbers)}"
            return client.submit(ours, build, function, *arguments, key=key, workers=[where], pure=False)

        def send(number: int) -> Any:
            where = workers[number % len(workers)]
            try:
                seconds = self._seconds(shares[number].n_bytes)
                return self._within(seconds, client._scatter, [shares[number]], workers=[where], hash=False)[0]
            except KeyError as error:  # the scheduler does not know the worker
                raise ConnectionError(f"the worker {where} is gone") from error

        with ThreadPoolExecutor(min(len(shares), MOST_AT_ONCE)) as pool:
            sent = list(pool.map(send, range(len(shares))))
        done = [submit(run_share, self._sent, share, number=number) for number, share in enumerate(sent)]
        total = pairwise(done, lambda one, other: submit(add, one, other, number=0))
        began = time.monotonic()
        self._wait(total, workers, done)
        self._seconds_before = time.monotonic() - began
        self._compiled.update(workers)
        result: Result = self._within(self._seconds(sum(share.n_bytes for share in shares)), client._gather, total)
        return result

    def _seconds(self, n_bytes: int) -> float:
        """Return the time limit for sending bytes."""
        return self._timeout + n_bytes / SLOWEST_BYTES

    def _within(self, seconds: float, ask: Any, *arguments: Any, **options: Any) -> Any:
        """Call a client method and raise TimeoutError after ``seconds``."""
        return self._client.sync(ask, *arguments, callback_timeout=seconds, **options)

    def _wait(self, total: Any, workers: Sequence[str], shares: Sequence[Any]) -> None:
        """Wait until the total is done or failed.

        A worker that is gone, silent, or far slower than the other workers or the last round is an error.
        """
        from distributed import wait

        began, seconds = time.monotonic(), self._seconds_before
        while True:
            try:
                with self._client.as_current():
                    wait(total, timeout=min(LOOK_EVERY, self._timeout / 4))
            except TimeoutError:
                lost = sorted(set(workers).difference(self._alive()))
                if lost:
                    said = "is gone, or has said nothing for"
                    raise ConnectionError(f"the worker {lost[0]} {said} {self._timeout:g} s") from None
                passed = time.monotonic() - began
                waited_for = {workers[i % len(workers)] for i, share in enumerate(shares) if not share.done()}
                if seconds is None and len(waited_for) < len(set(workers)):
                    seconds = passed
                more = 0.0 if waited_for <= self._compiled else SECONDS_TO_COMPILE
                if waited_for and seconds is not None and passed > self._timeout + SLOWEST_SHARE * seconds + more:
                    self._refused |= waited_for
                    raise ConnectionError(
                        f"the worker {min(waited_for)} has not ended its share after {passed:.0f} s, and gets no other"
                    ) from None
            else:
                return

    def _workers(self) -> list[str]:
        """Return addresses of workers to use; wait for a first one."""
        until = time.monotonic() + self._timeout
        while True:
            addresses = [worker for worker in self._alive() if worker not in self._refused]
            if addresses:
                return addresses
            if time.monotonic() > until:
                raise EngineError(
                    f"no worker, or no scheduler, has been there for {self._timeout:g} s; the training stopped. "
                    "A Checkpoint among the callbacks lets it go on from where it was"
                )
            time.sleep(0.1)

    def _alive(self) -> list[str]:
        """Return addresses of workers with a recent heartbeat, by the driver's clock."""
        if self._client.status != "running":
            return []
        try:
            workers = self._within(self._timeout, self._client.scheduler.identity)["workers"]
        except TimeoutError:
            raise EngineError(
                f"the scheduler at {self.address} has not answered for {self._timeout:g} s; the training stopped. "
                "A Checkpoint among the callbacks lets it go on from where it was"
            ) from None
        except OSError:  # the scheduler may come back
            return []
        now, before = time.monotonic(), self._heartbeats
        self._heartbeats = {}
        for address, worker in workers.items():
            last, arrival = before.get(address, (None, now))
            self._heartbeats[address] = worker["last_seen"], arrival if last == worker["last_seen"] else now
        return sorted(worker for worker, (_, arrival) in self._heartbeats.items() if now - arrival < self._timeout)


def ours(build: tuple[str, str], function: Any, *arguments: Any) -> Any:
    """Call a function on a worker of the driver's build."""
    if facts() != build:
        from distributed import get_worker

        raise OtherBuildError(get_worker().address, facts())
    return function(*arguments)


class OtherBuildError(Exception):
    """A worker does not run the driver's code: the address of the worker, and the build."""


@contextmanager
def connected(address: str, n_workers: int | None, timeout: float, security: Any = None) -> Iterator[Workers]:
    """Connect to the workers of a scheduler, or start new workers for ``local:N``."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("distributed", "scale", "a cluster") from None
    with ExitStack() as stack:
        is_local = address.startswith("local:")
        target: Any = address
        if is_local:
            security = own_certificates()
            target = stack.enter_context(processes_here(int(address.removeprefix("local:")), security))
        try:
            client = Client(
                target, timeout=timeout, set_as_default=False, security=security, direct_to_workers=is_local or None
            )
            stack.callback(client.close, timeout=min(timeout, SECONDS_TO_CLOSE))
        except (OSError, TimeoutError, TypeError) as error:  # TypeError for tls:// without certificates
            raise EngineError(
                f"no Dask scheduler answers at {address} within {timeout:g} s ({error}); 'dask scheduler' starts one"
            ) from None
        try:
            client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:
            raise EngineError(
                f"the scheduler at {address} has no worker after {timeout:g} s; start some with 'dask worker {address}'"
            ) from None
        _compare_versions(client, address, timeout)
        pool = Workers(client, n_workers or len(client.nthreads()), timeout)
        pool.security = security
        yield pool


def own_certificates() -> Any:
    """Make certificates in memory for a cluster on this machine."""
    from distributed import Security

    try:
        return Security.temporary()
    except ImportError:
        raise MissingExtraError("cryptography", "scale", "a cluster of processes on this machine") from None


@contextmanager
def processes_here(n_workers: int, security: Any = None) -> Iterator[Any]:
    """Start a scheduler and single-thread processes, reachable from this machine only.

    Without certificates other users of the machine could run code as the owner.
    """
    import dask
    from distributed import LocalCluster

    settings = {
        "distributed.scheduler.work-stealing": False,  # each share has its worker
        "distributed.worker.profile.enabled": False,
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=security,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # the default port may be taken
            memory_limit=0,  # rankers bound their memory
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


@cache
def facts() -> tuple[str, str]:
    """Return the version of Tercet and a fingerprint of the kernels."""
    return version("tercet"), f"kernels {fingerprint(Path(kernels.__path__[0]))}, Numba {numba.__version__}"


def _compare_versions(client: Any, address: str, timeout: float) -> None:
    try:
        versions: dict[str, tuple[str, str]] = client.sync(
            client._run, facts, callback_timeout=timeout + SECONDS_TO_IMPORT
        )
    except TimeoutError:
        raise EngineError(
            f"a worker of {address} has not answered for {timeout + SECONDS_TO_IMPORT:g} s; is the worker stopped?"
        ) from None
    except ImportError as error:
        raise EngineError(
            f"workers at {address} cannot import Tercet ({error}); install version {facts()[0]} there"
        ) from None
    ours = facts()
    for worker, theirs in sorted(versions.items()):
        if tuple(theirs) != ours:
            raise EngineError(
                f"the worker {worker} has Tercet {theirs[0]} ({theirs[1]}), but this is {ours[0]} ({ours[1]}); they "
                "must be the same"
            )
