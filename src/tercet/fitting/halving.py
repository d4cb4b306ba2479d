"""Settings compared on the way: fits that stop and go on, so that only the best of them takes all of its steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from threading import Semaphore, Thread
from typing import Any

import numpy as np

from tercet.choose import Trial, choose
from tercet.errors import DivergedError
from tercet.learn.loop import Event
from tercet.weights import Weights

Found = tuple[int, "PausableFit", list[dict[str, Any]]]  # the best setting, its fit, and what was seen of each
RUNGS = ((0.25, 0.5), (0.5, 0.0))  # after such a share of the steps, such a share of the settings goes on, at least one


class _GivenUp(Exception):
    """Ends a fit that nobody waits for any more."""


class PausableFit:
    """A fit that can stop after a share of its steps and go on later, with the bits of one that never stopped.

    It runs in a thread of its own, and only while ``go_to`` waits for it. It stops at the end of a chunk of steps.

    Parameters
    ----------
    ranker : what is fitted
    fit : fits it, with the callback that it is given among its own
    """

    def __init__(self, ranker: Any, fit: Callable[[Callable[[Event], None]], object]) -> None:
        self.ranker = ranker
        self.seconds = 0.0  # that it was running
        self.has_ended = False
        self._fit = fit
        self._share = 0.0
        self._event: Event | None = None
        self._error: BaseException | None = None
        self._thread: Thread | None = None
        self._may_run, self._stands = Semaphore(0), Semaphore(0)
        self._is_given_up = False

    def go_to(self, share: float) -> None:
        """Run until this share of the steps is taken, 1 for the end; what the fit raises is raised here."""
        if self.has_ended:
            return
        self._share = share
        started = time.perf_counter()
        if self._thread is None:
            self._thread = Thread(target=copy_context().run, args=(self._run,), daemon=True)
            self._thread.start()
        else:
            self._may_run.release()
        self._stands.acquire()
        self.seconds += time.perf_counter() - started
        if self._error is not None:
            raise self._error

    @property
    def weights(self) -> Weights:
        """Those of the step where it stands; at the end those that the ranker keeps."""
        if self.has_ended or self._event is None:
            weights: Weights = self.ranker.weights_
            return weights
        return self._event.weights()

    def give_up(self) -> None:
        """End it where it stands, and let go of what it holds."""
        self._is_given_up = True
        self._may_run.release()

    def _run(self) -> None:
        try:
            self._fit(self._pause)
        except _GivenUp:
            pass
        except BaseException as error:
            self._error = error
        self.has_ended = True
        self._event = None
        self._stands.release()

    def _pause(self, event: Event) -> None:
        if self._share >= 1 or event.total is None or event.step < self._share * event.total:
            return
        self._event = event
        self._stands.release()
        self._may_run.acquire()
        if self._is_given_up:
            raise _GivenUp


def halved(
    settings: Sequence[dict[str, Any]],
    begin: Callable[[dict[str, Any]], PausableFit],
    measure: Callable[[Weights], float],
    *,
    higher_is_better: bool,
) -> Found:
    """The best setting by successive halving, its fit, which has ended, and the last value of each with its share.

    Fits that diverge are left out. Where the last one left does so on the rest of its way, those that were given up for
    it are fitted from the beginning, the best of them first; when all diverge, that is a DivergedError. All fits are in
    memory at first.
    """
    fits = {number: begin(setting) for number, setting in enumerate(settings)}
    tried: list[dict[str, Any]] = [{} for _ in settings]
    given_up: list[int] = []  # the worst first
    try:
        for share, kept in RUNGS:
            trials = {}
            for number, fit in list(fits.items()):
                try:
                    fit.go_to(share)
                except DivergedError as error:
                    tried[number], last_error = {"diverged": True}, error
                    del fits[number]
                    continue
                trials[number] = Trial(settings[number], np.array(measure(fit.weights)))
                tried[number] = {"value": trials[number].mean, "share": share}
            for _ in range(len(trials) - max(1, math.ceil(kept * len(settings)))):
                worst = _worst(trials, higher_is_better)
                del trials[worst]
                fits.pop(worst).give_up()
                given_up.append(worst)
        for number in reversed([*given_up, *fits]):
            if number not in fits:
                fits[number] = begin(settings[number])
            try:
                fits[number].go_to(1.0)
            except DivergedError as error:
                tried[number], last_error = {"diverged": True}, error
                del fits[number]
                continue
            return number, fits[number], tried
        raise DivergedError(f"every setting diverged, the last one so: {last_error}") from last_error
    finally:
        for fit in fits.values():
            if not fit.has_ended:
                fit.give_up()


def compared(
    settings: Sequence[dict[str, Any]],
    begin: Callable[[dict[str, Any]], PausableFit],
    measure: Callable[[Weights], float],
    *,
    higher_is_better: bool,
) -> Found:
    """The same after all steps of every fit; two of them are in memory at a time."""
    trials: list[Trial] = []
    tried: list[dict[str, Any]] = []
    best: PausableFit | None = None
    for setting in settings:
        fit = begin(setting)
        try:
            fit.go_to(1.0)
        except DivergedError as error:
            tried.append({"diverged": True})
            last_error = error
            continue
        trials.append(Trial(setting, np.array(measure(fit.weights))))
        tried.append({"value": trials[-1].mean})
        if choose(trials, higher_is_better=higher_is_better) == len(trials) - 1:
            best = fit
    if best is None:
        raise DivergedError(f"every setting diverged, the last one so: {last_error}") from last_error
    return settings.index(trials[choose(trials, higher_is_better=higher_is_better)].setting), best, tried


def _worst(trials: dict[int, Trial], higher_is_better: bool) -> int:
    """The number of the worst trial, of equals the last."""
    backwards = sorted(trials, reverse=True)
    return backwards[choose([trials[number] for number in backwards], higher_is_better=not higher_is_better)]
