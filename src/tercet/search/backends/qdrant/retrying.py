"""Trying again, with longer and longer pauses, what a network may have spoilt."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from tercet.errors import EngineError

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How often something is tried, and the seconds in between: ``first``, twice that, and so on up to ``most``."""

    attempts: int
    first: float
    most: float


READING: Final = Patience(3, 0.1, 1.0)  # somebody waits for an answer
WRITING: Final = Patience(10, 0.5, 20.0)  # a long upload sits out the restart of a server


class Passing(Exception):
    """A failure that may be gone at the next attempt; ``after`` is how many seconds the server asked to wait."""

    def __init__(self, problem: str, after: float = 0.0) -> None:
        super().__init__(problem)
        self.after = after


def pause(seconds: float) -> None:
    time.sleep(seconds)


def retried(call: Callable[[], T], what: str, where: str, patience: Patience) -> T:
    """What ``call()`` gives, tried again after each `Passing` failure; the last of them is an `EngineError`."""
    waited = 0.0
    for attempt in range(1, patience.attempts + 1):
        try:
            return call()
        except Passing as problem:
            if attempt == patience.attempts:
                raise EngineError(
                    f"{where} does not answer: {what} was tried {patience.attempts} times, with {waited:.1f} s of "
                    f"waiting in between; the last time: {problem}"
                ) from problem
            # Many clients of a server that comes back must not all ask at the same moment.
            seconds = min(patience.most, patience.first * 2 ** (attempt - 1)) * random.uniform(0.75, 1.0)
            seconds = max(seconds, min(problem.after, patience.most))
            _log.info("%s: %s: %s; trying again in %.2f s", where, what, problem, seconds)
            waited += seconds
            pause(seconds)
    raise AssertionError("attempts is at least 1")
