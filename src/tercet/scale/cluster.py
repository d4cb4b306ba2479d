"""``Cluster``: learn on the workers of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from tercet._validate import check_integer
from tercet.errors import InputError, ParameterError
from tercet.learn import RANKERS
from tercet.learn.loop import Executor, InRounds, Run, Stepper, executing_on
from tercet.scale.rounds import Diary, InProcess, RoundFacts, Rounds, Schedule, WorkerPool

_ADDRESS = re.compile(r"(local|here):[1-9]\d{0,3}|(tcp|tls)://\S+:\d+")


class RoundExecutor(Executor):
    """Take the steps of fits in rounds, shared among the workers of a pool."""

    in_rounds = True

    def __init__(self, pool: WorkerPool, schedule: Schedule, diary: Diary) -> None:
        self._pool, self._schedule, self._diary = pool, schedule, diary

    def check(self, ranker: InRounds) -> None:
        if not ranker._learns_in_rounds:
            able = [name for name, cls in RANKERS.items() if cls._learns_in_rounds]
            raise ParameterError(f"{type(ranker).__name__} does not learn on a cluster; {' and '.join(able)} does")

    def stepper(self, run: Run) -> Stepper:
        return Rounds(run, self._pool, self._schedule, self._diary)


class Cluster:
    """Learn on the workers of a cluster: every ``fit`` within the block takes its steps in rounds.

    Iterative parameter mixing: in a round every worker learns from a share of the preferences, starting from the same
    weights. The changes of all workers are added up. For each row of the factors, the part ``Σ|cₖ|² / |Σcₖ|²`` of the
    sum is taken: the whole sum for changes at right angles, the mean for equal changes. Rounds are short at first and
    grow with the steps. The same seed and number of workers give the same bits, even if a worker is lost.

    ``LowRankRanker`` learns in rounds; other rankers raise an error.

    Parameters
    ----------
    address : address of the workers
        ``"local:N"`` starts N processes on this machine, ``"tcp://host:port"`` and ``"tls://host:port"`` are a Dask
        scheduler. ``"here:N"`` starts no process: N shares run one after the other, with the bits of a cluster of N.
    n_workers : shares of a round; by default the number of workers at the start
    steps_per_round : by default 128 a share at first, then a tenth of the steps so far
    timeout : seconds to wait for a scheduler, for a first worker, and for a silent worker
    security : a ``distributed.Security`` for ``tls://``; by default from Dask's configuration

    Attributes
    ----------
    rounds : a list of `RoundFacts`, one for each round
    scheduler : address of the scheduler
    certificates : a ``distributed.Security`` of the scheduler; ``"local:N"`` makes new certificates
    bytes_broadcast : bytes of texts sent to workers, once for each fit

    Notes
    -----
    A scheduler and its workers run any code sent to them. Use ``tcp://`` in a trusted network, else ``tls://`` with
    certificates. A script with ``"local:N"`` needs ``if __name__ == "__main__":``, since the processes import the
    script again.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import LowRankRanker, Preferences
    >>> X = sparse.eye_array(4, format="csr")
    >>> prefs = Preferences([0, 1], [2, 3], [3, 2])
    >>> with Cluster("here:2") as cluster:
    ...     ranker = LowRankRanker(n_components=2, epochs=200).fit(X, prefs)
    >>> bool((ranker.margins(X, prefs) > 0).all()), len(cluster.rounds)
    (True, 2)
    """

    def __init__(
        self,
        address: str = "local:2",
        *,
        n_workers: int | None = None,
        steps_per_round: int | None = None,
        timeout: float = 30.0,
        security: Any = None,
    ) -> None:
        if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
            raise InputError(
                f"a cluster is 'local:N', 'here:N', 'tcp://host:port' or 'tls://host:port'; got {address!r}"
            )
        if not timeout > 0:
            raise ParameterError(f"timeout must be above 0 seconds; got {timeout!r}")
        self.address = address
        self.n_workers = None if n_workers is None else check_integer(n_workers, "n_workers", error=ParameterError)
        self.steps_per_round = (
            None if steps_per_round is None else check_integer(steps_per_round, "steps_per_round", error=ParameterError)
        )
        self.timeout = float(timeout)
        self.security = security
        self._diary = Diary()

    @property
    def rounds(self) -> list[RoundFacts]:
        return self._diary.rounds

    @property
    def bytes_broadcast(self) -> int:
        return self._diary.bytes_broadcast

    def __enter__(self) -> Self:
        self._diary = Diary()
        with ExitStack() as stack:
            pool = stack.enter_context(self._pool())
            self._n_shares = pool.n_shares
            self.scheduler = pool.address or self.address
            self.certificates = pool.security
            schedule = Schedule(pool.n_shares, self.steps_per_round)
            stack.enter_context(executing_on(RoundExecutor(pool, schedule, self._diary)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @contextmanager
    def _pool(self) -> Iterator[WorkerPool]:
        if self.address.startswith("here:"):
            yield InProcess(self.n_workers or int(self.address.removeprefix("here:")))
            return
        from tercet.scale.workers import connected

        with connected(self.address, self.n_workers, self.timeout, self.security) as workers:
            yield workers

    def summary(self) -> str:
        """Summarize rounds, workers and traffic in one line."""
        n = max(len(self.rounds), 1)
        down, up = (sum(getattr(facts, name) for facts in self.rounds) / n / 1e6 for name in ("bytes_down", "bytes_up"))
        return (
            f"{len(self.rounds):,} rounds on {self._n_shares} workers ({self.address}); a round sent {down:,.2f} MB to "
            f"them and got {up:,.2f} MB back, and {self.bytes_broadcast / 1e6:,.2f} MB of texts were sent at the start"
        )
