"""Learning in rounds: all shares learn from the same weights, and the changes are mixed.

`InProcess` runs shares one after the other, `tercet.scale.workers` runs shares on a cluster.
"""

from __future__ import annotations

import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet import errors
from tercet._validate import check_integer
from tercet.data.preferences import Preferences
from tercet.errors import ParameterError
from tercet.learn.loop import Run, Stepper
from tercet.learn.stored import gathered
from tercet.scale.changes import Result, pairwise
from tercet.scale.shares import Share, Texts, bytes_of, learns_in_rounds, mix, run_share
from tercet.store import is_mapped

# Rounds are short while the weights change fast, then a part of the steps so far (docs/measured/scale.md).
FIRST_STEPS = 128  # of a share in the first rounds
GROWTH = 0.1  # steps of a round as a part of the steps so far
MOST_STEPS = 1 << 18  # of a share
FEW_STEPS = 1 << 13  # of a round that the driver finishes before the workers would have received it


@dataclass(frozen=True)
class RoundFacts:
    """Size, traffic and time of one round.

    bytes_down, bytes_up : bytes sent to workers and back; ``bytes_between`` : at most so many bytes among workers
    worker_seconds : time of the slowest share; driver_seconds : time of drawing and mixing

    Examples
    --------
    >>> traffic = {"bytes_down": 10_000, "bytes_up": 2_000, "bytes_between": 0}
    >>> facts = RoundFacts(4096, **traffic, worker_seconds=0.2, driver_seconds=0.1, seconds=0.4)
    >>> facts.steps / facts.seconds
    10240.0
    """

    steps: int
    bytes_down: int
    bytes_up: int
    bytes_between: int
    worker_seconds: float
    driver_seconds: float
    seconds: float


class WorkerPool(ABC):
    """Workers that run the shares of a round."""

    n_shares: int
    address: str = ""  # of the scheduler, if any
    security: Any = None  # certificates of the scheduler, if any

    def broadcast(self, texts: Texts | None) -> None:
        """Send the texts of all shares to every worker, which keeps the texts until the next call."""
        self._texts = texts

    def run(self, shares: Sequence[Share]) -> Result:
        """Return the summed changes of the shares; raise the error of a share."""
        total = self.total(shares)
        if total.refusal:
            name, message = total.refusal
            raise getattr(errors, name)(message)
        return total

    @abstractmethod
    def total(self, shares: Sequence[Share]) -> Result:
        """Return the summed changes of the shares."""


class InProcess(WorkerPool):
    """Run shares one after the other in this process, with the bits of a cluster of as many workers.

    Examples
    --------
    >>> InProcess(n_shares=4).n_shares
    4
    """

    def __init__(self, n_shares: int) -> None:
        self.n_shares = check_integer(n_shares, "n_shares", error=ParameterError)

    def total(self, shares: Sequence[Share]) -> Result:
        return pairwise([run_share(self._texts, share) for share in shares], operator.add)


@dataclass(frozen=True)
class Schedule:
    """Number of steps of a round: fixed, or growing with the steps done so far."""

    n_shares: int
    fixed: int | None = None

    def steps(self, done: int) -> int:
        """Return the number of steps of the next round."""
        if self.fixed is not None:
            return self.fixed
        return self.n_shares * min(max(int(GROWTH * done) // self.n_shares, FIRST_STEPS), MOST_STEPS)

    def identity(self) -> str:
        """Return the settings that decide the result of a run."""
        return f"{self.n_shares} shares, rounds of {self.fixed or (FIRST_STEPS, GROWTH, MOST_STEPS)}"


@dataclass
class Diary:
    """Record of the rounds of a cluster."""

    rounds: list[RoundFacts] = field(default_factory=list)
    bytes_broadcast: int = 0


class Rounds(Stepper):
    """Takes the steps of a run in rounds: one call is one round."""

    def __init__(self, run: Run, pool: WorkerPool, schedule: Schedule, diary: Diary) -> None:
        learns_in_rounds(run.state)  # refuses a state before a checkpoint is looked for
        self._run, self._pool, self._schedule, self._diary = run, pool, schedule, diary
        self.identity = schedule.identity()

    @property
    def most_steps(self) -> int:  # type: ignore[override]
        return self._schedule.steps(self._run.state.step)

    def begin(self) -> None:
        run = self._run
        self._state = learns_in_rounds(run.state)
        self._texts: Texts | None = None
        if not (is_mapped(run.Q.data) or is_mapped(run.D.data)):
            self._texts = Texts.from_matrices(run.Q, run.D)
            self._diary.bytes_broadcast += self._pool.n_shares * bytes_of(self._texts)
        self._pool.broadcast(self._texts)
        self._here = InProcess(self._pool.n_shares)
        self._here.broadcast(self._texts)

    def step(self, limit: int) -> tuple[float, float]:
        run, began = self._run, time.perf_counter()
        prefs, rate = run.draw_all(limit)
        if limit and not len(prefs):
            run.finished = True
            return 0.0, 0.0
        shares = [self._share(prefs, rate, number) for number in range(self._pool.n_shares)]
        sent = time.perf_counter()
        # A few steps take less time than sending them, and the bits are the same here.
        is_short = self._schedule.fixed is None and 0 < len(prefs) <= FEW_STEPS
        stays_here = is_short and not isinstance(self._pool, InProcess)
        total = (self._here if stays_here else self._pool).run(shares)
        received = time.perf_counter()
        if limit and np.isfinite(total.tally).all():
            mix(self._state, total)
            run.state.step += len(prefs)
        if limit:
            ended = time.perf_counter()
            self._diary.rounds.append(
                RoundFacts(
                    steps=len(prefs),
                    bytes_down=0 if stays_here else sum(share.n_bytes for share in shares),
                    bytes_up=0 if stays_here else total.n_bytes,
                    bytes_between=0 if stays_here else total.moved,
                    worker_seconds=total.seconds,
                    driver_seconds=(sent - began) + (ended - received),
                    seconds=ended - began,
                )
            )
        return run.note(total.tally, len(prefs))

    def _share(self, prefs: Preferences, rate: NDArray[np.float32], number: int) -> Share:
        """Make a share of every n-th preference, so that all shares are alike and have the same rates."""
        texts, own, every = self._texts, None, slice(number, None, self._pool.n_shares)
        mine = prefs[every]
        if texts is None:  # texts on disk are sent with the share
            mine, Q, D = gathered(mine, self._run.Q, self._run.D)
            texts = own = Texts.from_matrices(Q, D)
        rate = np.ascontiguousarray(rate[every])
        margin = self._run.sgd.margin
        return Share.from_state(self._state, texts, mine, rate=rate, margin=margin, sent_texts=own)
