"""Learning in rounds: all shares learn from the same weights, and the changes are mixed.

`InProcess` runs shares one after the other, `tercet.scale.workers` runs shares on a cluster.
"""

from __future__ import annotations

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
from tercet.scale.changes import Piece, add_pieces, pairwise
from tercet.scale.mixing import Mixer, RoundLength, mixer_of
from tercet.scale.shares import LaidOut, Share, bytes_of, run_share
from tercet.store import is_mapped

MOST_STEPS = 1 << 18  # of a share
FEW_STEPS = 1 << 13  # of a round that is over here before it would have reached the workers


@dataclass(frozen=True)
class RoundFacts:
    """Size, traffic and time of one round.

    bytes_down, bytes_up : bytes sent to workers and back; ``bytes_between`` : at most so many bytes among workers
    worker_seconds : time of the slowest share; driver_seconds : time of drawing, cutting and mixing

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

    @classmethod
    def from_times(
        cls,
        steps: int,
        shares: Sequence[Any],
        pieces: Sequence[Piece],
        began: float,
        sent: float,
        back: float,
        *,
        travelled: bool = True,
    ) -> RoundFacts:
        """Make the facts of a round that ends now, from three clock readings."""
        ended = time.perf_counter()
        return cls(
            steps=steps,
            bytes_down=sum(share.n_bytes for share in shares) if travelled else 0,
            bytes_up=sum(piece.n_bytes for piece in pieces) if travelled else 0,
            bytes_between=sum(piece.moved for piece in pieces) if travelled else 0,
            worker_seconds=max(piece.seconds for piece in pieces),
            driver_seconds=(sent - began) + (ended - back),
            seconds=ended - began,
        )


class WorkerPool(ABC):
    """Workers that run the shares of a round."""

    n_shares: int
    neighbours: int = 1  # shares that run at once on one machine

    address: str = ""  # of the scheduler, where there is one
    security: Any = None  # of the scheduler, where it takes certificates

    def broadcast(self, data: Any) -> None:
        """Send data for all shares to every worker, to be kept until the next call."""
        self._data = data

    def run(self, shares: Sequence[Any]) -> list[Piece]:
        """Return the summed changes of the shares, one piece for each block of rows; a refusal is raised."""
        pieces = self.sums(shares)
        for piece in pieces:
            if piece.refusal:
                name, message = piece.refusal
                raise getattr(errors, name)(message)
        return pieces

    @abstractmethod
    def sums(self, shares: Sequence[Any]) -> list[Piece]: ...


class InProcess(WorkerPool):
    """Run shares one after the other in this process, with the bits of a cluster of as many workers.

    Examples
    --------
    >>> InProcess(n_shares=4).n_shares
    4
    """

    def __init__(self, n_shares: int) -> None:
        self.n_shares = check_integer(n_shares, "n_shares", error=ParameterError)

    def sums(self, shares: Sequence[Any]) -> list[Piece]:
        return pairwise([run_share(self._data, share) for share in shares], add_pieces)


@dataclass(frozen=True)
class Schedule:
    """Number of steps of a round: fixed, or growing with the steps done so far."""

    n_shares: int
    fixed: int | None = None

    def steps(self, done: int, left: int | None, round_length: RoundLength) -> int:
        """Return the number of steps of the next round; ``left`` is None if unknown."""
        if self.fixed is not None:
            return self.fixed
        steps = round_length.growth * done
        if round_length.ending is not None and left is not None:
            steps = min(steps, round_length.ending * left)
        return self.n_shares * min(max(int(steps) // self.n_shares, round_length.first), MOST_STEPS)

    def identity(self, round_length: RoundLength) -> str:
        """Return the settings that decide the result of a run."""
        return f"{self.n_shares} shares, rounds of {self.fixed or (round_length, MOST_STEPS)}"


@dataclass
class Diary:
    """Record of the rounds of a cluster."""

    rounds: list[RoundFacts] = field(default_factory=list)
    bytes_broadcast: int = 0


class Rounds(Stepper):
    """Takes the steps of a run in rounds: one call is one round."""

    def __init__(self, run: Run, pool: WorkerPool, schedule: Schedule, diary: Diary) -> None:
        self._run, self._pool, self._schedule, self._diary = run, pool, schedule, diary
        self._round_length = mixer_of(run.state).round_length  # may refuse, before a checkpoint is looked for
        self.identity = schedule.identity(self._round_length)

    @property
    def most_steps(self) -> int:  # type: ignore[override]
        run = self._run
        return self._schedule.steps(
            run.state.step, None if run.total is None else run.total - run.done, self._round_length
        )

    def begin(self) -> None:
        run = self._run
        self._mixer: Mixer[Any] = mixer_of(run.state)
        self._mixer.neighbours = self._pool.neighbours
        self._texts: LaidOut | None = None
        if not (is_mapped(run.Q.data) or is_mapped(run.D.data)):
            self._texts = self._mixer.lay_out(run.Q, run.D)
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
        total_rate = float(rate.astype(np.float64).sum())
        shares = [self._share(prefs, rate, total_rate, number) for number in range(self._pool.n_shares)]
        sent = time.perf_counter()
        # The way to the workers and back takes longer than a few steps, and the bits are the same here.
        is_few = self._schedule.fixed is None and 0 < len(prefs) <= FEW_STEPS
        stays_here = is_few and not isinstance(self._pool, InProcess)
        pieces = (self._here if stays_here else self._pool).run(shares)
        back = time.perf_counter()
        tally = sum((piece.tally for piece in pieces), np.zeros(2))
        if limit and np.isfinite(tally).all():
            changes = {name: [piece.changes[name] for piece in pieces] for name in pieces[0].changes}
            self._mixer.mix(changes, total_rate)
            run.state.step += len(prefs)
        if limit:
            self._diary.rounds.append(
                RoundFacts.from_times(len(prefs), shares, pieces, began, sent, back, travelled=not stays_here)
            )
        return run.note(tally, len(prefs))

    def _share(self, prefs: Preferences, rate: NDArray[np.float32], total_rate: float, number: int) -> Share:
        """Make a share of every n-th preference, so that all shares are alike and have the same rates."""
        every = slice(number, None, self._pool.n_shares)
        mine, texts, own = prefs[every], self._texts, None
        if texts is None:
            mine, Q, D = gathered(mine, self._run.Q, self._run.D)
            texts = own = self._mixer.lay_out(Q, D)
        common = {
            "prefs": (mine.query, mine.better, mine.worse, mine.weight, mine.margin),
            "rate": np.ascontiguousarray(rate[every]),
            "margin": self._run.sgd.margin,
            "n_blocks": self._mixer.n_blocks(self._pool.n_shares),
            "n_shares": self._pool.n_shares,
            "texts": own,
        }
        return self._mixer.share(texts, mine, common, total_rate)
