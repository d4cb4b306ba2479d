"""Shares run by the workers of a Dask cluster.

A round is a small graph: a share for each worker, the pieces of its change, and for each block of rows a tree of
additions. Only the roots of these trees come to the driver. All of it is pure, so what is lost with a worker is made
again by Dask; what only the driver can give again, the texts and the shares, is sent once more and the round is
repeated. Either way the same bits come out.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from operator import getitem
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba

from tercet import kernels
from tercet.errors import EngineError, MissingExtraError
from tercet.kernels.compiler import fingerprint
from tercet.scale.changes import Piece, add_pieces, pairwise
from tercet.scale.rounds import WorkerPool
from tercet.scale.shares import run_share

MOST_ATTEMPTS = 5  # at one round, before workers that are lost again and again are an error
MOST_AT_ONCE = 16  # shares that are sent
LOOK_EVERY = 5.0  # seconds, while a round is under way

log = logging.getLogger("tercet")


class Workers(WorkerPool):
    """The workers behind a Dask client."""

    def __init__(self, client: Any, n_shares: int, neighbours: int, timeout: float) -> None:
        self._client, self.n_shares, self.neighbours, self._timeout = client, n_shares, neighbours, timeout
        self.address = client.scheduler.address if hasattr(client, "scheduler") else ""
        self._sent: Any = None
        # A scheduler takes tasks of one name for one task, and others may use it, too.
        self._name, self._numbers = f"tercet-{uuid4().hex}", itertools.count()

    def broadcast(self, data: Any, name: str = "") -> None:
        super().broadcast(data, name)
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
            except (CancelledError, KilledWorker, CommClosedError, TimeoutError, OSError) as error:
                lost.append(f"{type(error).__name__}: {error}")
                log.info("a round is repeated, since workers were lost (%s)", lost[-1])
                self._sent = None  # texts may have gone with a worker
        raise EngineError(f"workers were lost {MOST_ATTEMPTS} times in one round; last: {lost[-1]}")

    def _attempt(self, shares: Sequence[Any], workers: Sequence[str]) -> list[Piece]:
        client = self._client
        if self._sent is None and self._data is not None:
            self._sent = client.scatter([self._data], broadcast=True, hash=False)[0]
        name = f"{self._name}-{next(self._numbers)}"

        def submit(function: Any, *arguments: Any, key: str, number: int) -> Any:
            # Where the data is, and elsewhere only when that worker is gone.
            where = workers[number % len(workers)]
            return client.submit(
                function, *arguments, key=f"{name}-{key}", workers=[where], allow_other_workers=True, pure=False
            )

        def send(number: int) -> Any:
            where = workers[number % len(workers)]
            try:
                return client.scatter([shares[number]], workers=[where], hash=False)[0]
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
        self._wait(sums)
        return [piece for pieces in client.gather(sums) for piece in pieces]

    def _wait(self, futures: Sequence[Any]) -> None:
        """Until all are there, or failed; a cluster that has lost its last worker for too long is an error."""
        from distributed import wait

        while True:
            try:
                with self._client.as_current():
                    wait(futures, timeout=LOOK_EVERY)
            except TimeoutError:
                self._workers()
            else:
                return

    def _workers(self) -> list[str]:
        """Addresses of the workers there are; waits for one."""
        until = time.monotonic() + self._timeout
        while True:
            try:
                addresses = sorted(self._client.nthreads()) if self._client.status == "running" else []
            except OSError:  # the scheduler went away just now; it may come back
                addresses = []
            if addresses:
                return addresses
            if time.monotonic() > until:
                raise EngineError(
                    f"no worker, or no scheduler, has been there for {self._timeout:g} s; the training stopped. "
                    "A Checkpoint among the callbacks lets it go on from where it was"
                )
            time.sleep(0.1)


@contextmanager
def connected(address: str, n_workers: int | None, timeout: float, security: Any = None) -> Iterator[Workers]:
    """The workers of the scheduler at an address, or new ones of our own for ``local:N``."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("distributed", "scale", "a cluster") from None
    with ExitStack() as stack:
        is_local = address.startswith("local:")
        target = stack.enter_context(processes_here(int(address.removeprefix("local:")))) if is_local else address
        try:
            client = stack.enter_context(
                Client(
                    target, timeout=timeout, set_as_default=False, security=security, direct_to_workers=is_local or None
                )
            )
        except (OSError, TimeoutError) as error:
            raise EngineError(
                f"no Dask scheduler answers at {address} within {timeout:g} s ({error}); 'dask scheduler' starts one"
            ) from None
        try:
            client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:
            raise EngineError(
                f"the scheduler at {address} has no worker after {timeout:g} s; start some with 'dask worker {address}'"
            ) from None
        workers = list(client.nthreads())
        _compare_versions(client, address)
        on_one_machine = max(Counter(worker.rpartition(":")[0] for worker in workers).values())
        yield Workers(client, n_workers or len(workers), on_one_machine, timeout)


@contextmanager
def processes_here(n_workers: int) -> Iterator[Any]:
    """A scheduler and so many processes of one thread, reached from this machine only."""
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
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # without one, it listens at a port others may have
            memory_limit=0,  # learners have limits of their own
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


def facts() -> tuple[str, str]:
    """The version of Tercet, and of what decides the bits of its kernels."""
    return version("tercet"), f"kernels {fingerprint(Path(kernels.__path__[0]))}, Numba {numba.__version__}"


def _compare_versions(client: Any, address: str) -> None:
    try:
        versions: dict[str, tuple[str, str]] = client.run(facts)
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
