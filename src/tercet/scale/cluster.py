"""``Cluster``: fits within its block learn on the workers of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from tercet._validate import check_integer
from tercet.errors import InputError, ParameterError
from tercet.learn import RANKERS
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.linear.ftrl import FTRLPass
from tercet.learn.loop import Executor, InRounds, QueryPass, Run, Stepper, executing_on
from tercet.scale.features import FEATURE_ROUNDS, pass_in_rounds
from tercet.scale.rounds import Diary, InProcess, RoundFacts, Rounds, Schedule, WorkerPool

_ADDRESS = re.compile(r"(local|here):[1-9]\d{0,3}|(tcp|tls)://\S+:\d+")


class RoundExecutor(Executor):
    """Takes the steps of fits in rounds, each shared among the workers of a pool."""

    in_rounds = True

    def __init__(self, pool: WorkerPool, schedule: Schedule, diary: Diary) -> None:
        self._pool, self._schedule, self._diary = pool, schedule, diary
        self.pass_identity = schedule.identity(FEATURE_ROUNDS)

    def check(self, ranker: InRounds) -> None:
        if not ranker._learns_in_rounds:
            able = [name for name, cls in {**RANKERS, **LINEAR_RANKERS}.items() if cls._learns_in_rounds]
            raise ParameterError(
                f"{type(ranker).__name__} does not learn in rounds, so no cluster learns it; "
                f"{', '.join(able[:-1])} and {able[-1]} do"
            )

    def stepper(self, run: Run) -> Stepper:
        return Rounds(run, self._pool, self._schedule, self._diary)

    def take_pass(self, work: QueryPass) -> tuple[float, float]:
        assert isinstance(work, FTRLPass)
        return pass_in_rounds(work, self._pool, self._schedule, self._diary)


class Cluster:
    """Within its block, every ``fit`` of a ranker that learns in rounds learns on the workers of a cluster.

    Iterative parameter mixing: a round takes some steps on every worker, each with a share of the preferences and from
    the same weights. What they changed is added up; of the rows of a low rank the part ``Σ|cₖ|² / |Σcₖ|²`` of the sum
    is taken, which is all of it where changes are at right angles and their mean where they are the same. Then a sparse
    W shrinks by what the round owes. Rounds are short at first and get longer with the steps. The same seed and number
    of workers give the same bits, whatever happens to a worker meanwhile.

    ``SparseRanker``, ``LowRankRanker``, ``DiagonalRanker`` and ``FTRLRanker`` can be mixed; others refuse.

    Parameters
    ----------
    address : where the workers are
        ``"local:N"`` starts N processes on this machine, ``"tcp://host:port"`` and ``"tls://host:port"`` are a Dask
        scheduler. ``"here:N"`` starts nothing and takes the N shares of a round one after the other, which gives the
        bits of a cluster of N.
    n_workers : shares of a round; by default the number of workers that are there at the start
    steps_per_round : by default few at first (128 a share for a low rank), then a tenth of the steps done so far, or
        half of them for a sparse W
    timeout : seconds to wait for a scheduler, for a worker when there is none, and for one that says nothing, whose
        share another then takes
    security : a ``distributed.Security`` for ``tls://``; by default what Dask's configuration says

    Attributes
    ----------
    rounds : what each round was, a list of `RoundFacts`
    scheduler : the address of the scheduler, which others that have its certificates can use, too
    certificates : those of the scheduler, a ``distributed.Security``; of ``"local:N"`` made for this cluster alone
    bytes_broadcast : bytes of texts that were sent to workers, once for each fit

    Notes
    -----
    A scheduler and its workers run what they are sent. Use ``tcp://`` in a network you trust, else ``tls://`` with
    certificates; ``"local:N"`` has certificates of its own, which nobody else gets. A script that uses
    ``"local:N"`` needs ``if __name__ == "__main__":``, since its processes import it again.

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
        """One line on what was done: rounds, workers and what was sent."""
        n = max(len(self.rounds), 1)
        down, up = (sum(getattr(facts, name) for facts in self.rounds) / n / 1e6 for name in ("bytes_down", "bytes_up"))
        return (
            f"{len(self.rounds):,} rounds on {self._n_shares} workers ({self.address}); a round sent {down:,.2f} MB to "
            f"them and got {up:,.2f} MB back, and {self.bytes_broadcast / 1e6:,.2f} MB of texts were sent at the start"
        )
