"""Token buckets: how often somebody may do something."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_KNOWN = 10_000


class Buckets:
    """A bucket per name that holds ``burst`` tokens and gets ``per_minute`` back; a name not seen for long is full.

    Examples
    --------
    >>> buckets = Buckets(per_minute=60, burst=2, clock=lambda: 0.0)
    >>> [buckets.take("me") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, per_minute: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_minute / 60, float(burst), clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Take a token; returns 0, or after how many seconds there will be one."""
        with self._lock:
            now = self._clock()
            level, then = self._levels.pop(name, (self._burst, now))
            level = min(self._burst, level + (now - then) * self._per_second)
            wait = 0.0 if level >= 1 else (1 - level) / self._per_second if self._per_second else math.inf
            self._levels[name] = (level if wait else level - 1, now)
            if len(self._levels) > _MOST_KNOWN:
                self._levels.popitem(last=False)
            return wait
