"""Run shares on the workers of a Dask cluster.

A round is a small graph: a share for each worker, the pieces of the changes, and a tree of additions for each block of
rows. Only the roots of the trees come to the driver. If a worker is lost, silent or far slower than the others, the
round is repeated without the worker and gives the same bits. Every wait has a time limit, and workers of another build
get no work.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from operator import getitem
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba

from tercet import kernels
from tercet.errors import EngineError, MissingExtraError
from tercet.kernels.machine_code import fingerprint
from tercet.scale.changes import Piece, add_pieces, pairwise
from tercet.scale.rounds import WorkerPool
from tercet.scale.shares import bytes_of, run_share

MOST_ATTEMPTS = 5  # at one round, before workers that are lost again and again are an error
MOST_AT_ONCE = 16  # shares that are sent
LOOK_EVERY = 1.0  # seconds, while a round is under way
SLOWEST_BYTES = 1e6  # a second, that a connection which works takes at least
SLOWEST_SHARE = 10.0  # times as long as the first of a round, or as all of the round before, that a share may take

SECONDS_TO_IMPORT = 60.0  # that a worker may take to load Tercet, besides
SECONDS_TO_COMPILE = 300.0  # that its first share may take more
SECONDS_TO_CLOSE = 5.0  # for a scheduler to say goodbye

log = logging.getLogger("tercet")


class Workers(WorkerPool):
    """Workers of a Dask client."""

    def __init__(self, client: Any, n_shares: int, neighbours: int, timeout: float) -> None:
        self._client, self.n_shares, self.neighbours, self._timeout = client, n_shares, neighbours, timeout
        self.address = client.scheduler.address if hasattr(client, "scheduler") else ""
        self._sent: Any = None
        self._heard: dict[str, tuple[float, float]] = {}  # of each worker: what it last said, and when that was new
        self._builds: dict[str, bool] = {}  # whether a worker is of our build
        self._ask_after: dict[str, float] = {}  # when one that did not say is asked again
        self._stuck: set[str] = set()  # workers that are heard of, and do not end what they began
        self._compiled: set[str] = set()  # workers that have ended a share
        self._seconds_before: float | None = None  # that the last round took
        # A scheduler takes tasks of one name for one task, and others may use it, too.
        self._name, self._numbers = f"tercet-{uuid4().hex}", itertools.count()

    def broadcast(self, data: Any) -> None:
        super().broadcast(data)
        self._sent = None

    def sums(self, shares: Sequence[Any]) -> list[Piece]:
        from distributed.client import CancelledError
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        lost: list[str] = []
        while len(lost) < MOST_ATTEMPTS:
            workers = self._workers()
            try:
                return self._attempt(shares, workers)
            except (CancelledError, KilledWorker, CommClosedError, OtherBuildError, TimeoutError, OSError) as error:
                lost.append(f"{type(error).__name__}: {error}")
                log.info("a round is repeated, since workers were lost (%s)", lost[-1])
                self._sent = None  # texts may have gone with a worker
                if isinstance(error, OtherBuildError):
                    self._builds.clear()  # it was another one when it was asked
        raise EngineError(f"workers were lost {MOST_ATTEMPTS} times in one round; last: {lost[-1]}")

    def _attempt(self, shares: Sequence[Any], workers: Sequence[str]) -> list[Piece]:
        client = self._client
        if self._sent is None and self._data is not None:
            seconds = self._seconds(len(workers) * bytes_of(self._data))
            self._sent = self._within(
                seconds, client._scatter, [self._data], workers=list(workers), broadcast=True, hash=False
            )[0]
        name, build = f"{self._name}-{next(self._numbers)}", facts()

        def submit(function: Any, *arguments: Any, key: str, number: int) -> Any:
            # Where the data is, and nowhere else: a worker that came meanwhile may be of another build.
            where = workers[number % len(workers)]
            return client.submit(ours, build, function, *arguments, key=f"{name}-{key}", workers=[where], pure=False)

        def send(number: int) -> Any:
            where = workers[number % len(workers)]
            try:
                seconds = self._seconds(shares[number].n_bytes)
                return self._within(seconds, client._scatter, [shares[number]], workers=[where], hash=False)[0]
            except KeyError as error:  # how the scheduler says that it does not know a worker
                raise ConnectionError(f"the worker {where} is gone") from error

        def total(parts: Sequence[Any], block: int) -> Any:
            numbers = itertools.count()
            return pairwise(
                parts,
                lambda one, other: submit(add_pieces, one, other, key=f"sum-{block}-{next(numbers)}", number=block),
            )

        with ThreadPoolExecutor(min(len(shares), MOST_AT_ONCE)) as pool:  # each waits for an answer
            sent = list(pool.map(send, range(len(shares))))
        done = [
            submit(run_share, self._sent, share, key=f"share-{number}", number=number)
            for number, share in enumerate(sent)
        ]
        n_blocks = shares[0].n_blocks
        if n_blocks == 1:
            sums = [total(done, 0)]
        else:
            sums = [
                total(
                    [
                        submit(getitem, result, slice(b, b + 1), key=f"piece-{number}-{b}", number=number)
                        for number, result in enumerate(done)
                    ],
                    b,
                )
                for b in range(n_blocks)
            ]
        began = time.monotonic()
        self._wait(sums, workers, done)
        self._seconds_before = time.monotonic() - began
        self._compiled.update(workers)
        gathered = self._within(self._seconds(sum(share.n_bytes for share in shares)), client._gather, sums)
        return [piece for pieces in gathered for piece in pieces]

    def _seconds(self, n_bytes: int) -> float:
        """Return the time limit for sending bytes."""
        return self._timeout + n_bytes / SLOWEST_BYTES

    def _within(self, seconds: float, ask: Any, *arguments: Any, **options: Any) -> Any:
        """Call a client method and raise TimeoutError after ``seconds``."""
        return self._client.sync(ask, *arguments, callback_timeout=seconds, **options)

    def _wait(self, futures: Sequence[Any], workers: Sequence[str], shares: Sequence[Any]) -> None:
        """Wait until all futures are done or failed.

        A worker that is gone, silent, or far slower than the other workers or the last round is an error.
        """
        from distributed import wait

        began, seconds = time.monotonic(), self._seconds_before
        while True:
            try:
                with self._client.as_current():
                    wait(futures, timeout=min(LOOK_EVERY, self._timeout / 4))
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
                    self._stuck |= waited_for
                    raise ConnectionError(
                        f"the worker {min(waited_for)} has not ended its share after {passed:.0f} s, and gets no other"
                    ) from None
            else:
                return

    def _workers(self) -> list[str]:
        """Return addresses of workers of the same build; wait for a first one."""
        until = time.monotonic() + self._timeout
        while True:
            addresses = self._of_our_build([one for one in self._alive() if one not in self._stuck])
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
        except OSError:  # the scheduler went away just now; it may come back
            return []
        now, before = time.monotonic(), self._heard
        self._heard = {}
        for address, worker in workers.items():
            last, when = before.get(address, (None, now))
            self._heard[address] = (worker["last_seen"], when if last == worker["last_seen"] else now)
        return sorted(address for address, (_, when) in self._heard.items() if now - when < self._timeout)

    def _of_our_build(self, addresses: Sequence[str]) -> list[str]:
        """Return the workers with the same code, and so the same bits."""
        known = [address for address in addresses if self._builds.get(address)]
        now = time.monotonic()
        strange = [
            address for address in addresses if address not in self._builds and now >= self._ask_after.get(address, 0)
        ]
        if strange:
            seconds = self._timeout + (0.0 if known else SECONDS_TO_IMPORT)
            try:
                summary = self._within(seconds, self._client._run, facts, workers=strange, on_error="return")
            except (TimeoutError, OSError):  # one that was just lost, or hangs: those that answered before go on
                summary = {}
                self._ask_after |= dict.fromkeys(strange, time.monotonic() + SECONDS_TO_IMPORT if known else 0.0)
            for address, theirs in summary.items():
                is_ours = not isinstance(theirs, BaseException) and tuple(theirs) == facts()
                if not is_ours and not isinstance(theirs, OSError):
                    log.warning("the worker %s is of another build (%s); it gets nothing to do", address, theirs)
                self._builds[address] = is_ours
        return [address for address in addresses if self._builds.get(address)]


def ours(build: tuple[str, str], function: Any, *arguments: Any) -> Any:
    """Call a function on a worker of the driver's build."""
    if facts() != build:
        raise OtherBuildError(f"a worker is of another build: {facts()}, the driver of {build}")
    return function(*arguments)


class OtherBuildError(Exception):
    """A worker does not run the driver's code; the round is repeated elsewhere."""


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
        except (OSError, TimeoutError, TypeError) as error:  # the last for tls:// without certificates
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
        workers = list(client.nthreads())
        on_one_machine = max(Counter(worker.rpartition(":")[0] for worker in workers).values())
        pool = Workers(client, n_workers or len(workers), on_one_machine, timeout)
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
        "distributed.scheduler.work-stealing": False,  # each share has a worker of its own
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
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # without one, it listens at a port others may have
            memory_limit=0,  # learners have limits of their own
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
            f"a worker of {address} has not said for {timeout + SECONDS_TO_IMPORT:g} s what it is; is it stopped?"
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
