"""Successive halving: compare settings on the way, so that only the best one takes all of its steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tercet.choose import Trial, choose
from tercet.errors import DivergedError
from tercet.learn import Checkpoint
from tercet.weights import Weights

RUNGS = ((0.25, 0.5), (0.5, 0.0))  # (share of the steps, share of the settings that continues, at least one)
_CHUNK = 4096  # steps that the learning loop takes at once


@dataclass(frozen=True)
class Halving:
    """Outcome of successive halving.

    Attributes
    ----------
    best : number of the winner; ``rankers[best]`` is fitted
    values : last value of each ranker, NaN where the ranker diverged
    shares : share of the steps after which each value was measured
    """

    best: int
    values: tuple[float, ...]
    shares: tuple[float, ...]


def successive_halving(
    rankers: Sequence[Any],
    fit: Callable[[Any, Sequence[Any]], object],
    measure: Callable[[Weights], float],
    *,
    higher_is_better: bool = True,
) -> Halving:
    """Fit the best of several rankers; the others stop after a quarter or a half of their steps.

    Every ranker takes a quarter of its steps, the better half continues to one half, the best one to the end. The
    weights of the winner have the bits of a fit that never stopped. A ranker that diverges is left out. If the last
    ranker diverges on the rest of its way, the stopped ones are fitted from the beginning, the best first.

    Parameters
    ----------
    rankers : unfitted rankers that learn by steps
    fit : called as ``fit(ranker, callbacks)``; fits the ranker from the beginning with these callbacks
    measure : value of weights, on the way and at the end
    higher_is_better : of the values

    Raises
    ------
    DivergedError
        When every ranker diverges.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import DiagonalRanker, Preferences
    >>> X, prefs = sparse.eye_array(3, format="csr"), Preferences([0] * 9000, [0] * 9000, [2] * 9000)
    >>> rankers = [DiagonalRanker(rate=rate, margin=2.0) for rate in (1e-6, 1e-5)]
    >>> measure = lambda weights: weights.score(X[[0]], X[[0]])[0, 0]
    >>> halving = successive_halving(rankers, lambda r, callbacks: r.fit(X, prefs, callbacks=callbacks), measure)
    >>> halving.best, halving.shares, rankers[1].n_steps_
    (1, (0.25, 0.5), 9000)
    """
    values, shares = [math.nan] * len(rankers), [0.0] * len(rankers)
    runs: dict[int, _PausedRun] = {number: _PausedRun() for number in range(len(rankers))}
    stopped: list[int] = []  # the worst first

    def advance(number: int, share: float) -> None:
        """Fit until this share of the steps is taken, or the ranker stops early."""
        run, ranker = runs.setdefault(number, _PausedRun()), rankers[number]
        if run.has_ended:
            return
        run.share = share
        earlier = list(ranker.history_) if run.state is not None else []
        try:
            fit(ranker, [run])
            run.has_ended = True
        except _Paused:
            pass
        ranker.history_[:0] = earlier

    error: DivergedError | None = None
    for share, kept in RUNGS:
        trials = {}
        for number in list(runs):
            try:
                advance(number, share)
            except DivergedError as diverged:
                error, values[number] = diverged, math.nan
                del runs[number]
                continue
            run = runs[number]
            trials[number] = Trial({}, np.array(measure(run.weights or rankers[number].weights_)))
            values[number], shares[number] = trials[number].mean, share
        for _ in range(len(trials) - max(1, math.ceil(kept * len(rankers)))):
            backwards = sorted(trials, reverse=True)  # of equals the last is the worst
            worst = backwards[choose([trials[n] for n in backwards], higher_is_better=not higher_is_better)]
            del trials[worst], runs[worst]
            stopped.append(worst)
    for number in reversed([*stopped, *runs]):
        try:
            advance(number, 1.0)
        except DivergedError as diverged:
            error, values[number] = diverged, math.nan
            del runs[number]
            continue
        return Halving(number, tuple(values), tuple(shares))
    raise DivergedError(f"every setting diverged, the last one so: {error}") from error


class _Paused(Exception):
    """Ends a fit whose run is kept."""


class _PausedRun(Checkpoint):
    """A checkpoint in memory: ends a fit after a share of its steps, and continues the next one from there."""

    def __init__(self) -> None:
        self.share = 1.0
        self.has_ended = False
        self.state: Any = None
        self.weights: Weights | None = None  # at the pause
        self._goal = 0.0

    def restore(self, run: Any) -> None:
        self._goal = math.inf if self.share >= 1 or run.total is None else self.share * run.total
        self.weights = None
        if self.state is not None:
            run.state, run.best_state, run.first, run.stopping = self.state, self._best, self._first, self._stopping
            run.source.restore(*self._source)

    def due_in(self, done: int) -> int:
        goal = math.ceil(self._goal / _CHUNK) * _CHUNK if math.isfinite(self._goal) else done + _CHUNK**2
        return max(1, goal - done)

    def after_chunk(self, run: Any) -> None:
        if run.done < self._goal or run.finished:
            return
        self.weights = run.snapshot()
        self.state, self._best, self._first, self._stopping = run.state, run.best_state, run.first, run.stopping
        self._source = run.source.state()
        raise _Paused
